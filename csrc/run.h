/* Runs: what became of a workflow's wake-up, seen from the workflow.
**
** A live run (running, sleeping, waiting) has its wake-up in line; that of a failed or parked one
** is a dead letter, so that its replay, whoever asks for it, is the run's; that of one which is
** done or cancelled is gone. Whoever lets a wake-up leave the line comes by here in the same
** commit, and so does whoever ends a job that is the child of a run: what came of a child is
** recorded with its parent, which is woken. */
#ifndef FENCEPOST_RUN_H
#define FENCEPOST_RUN_H

#include "line.h"
#include "pass.h"
#include "record.h"

typedef struct run {
  bool found;
  int64_t kind, message, state;
} run;

int run_get(txn *t, span id, run *r, fp_error *err);
int run_check_state(span id, int64_t state, fp_error *err); /* FP_STORAGE: damage */
bool run_live(const run *r);
/* It goes on in that state, waiting for what the caller calls so. */
int run_goes_on(txn *t, span id, int64_t state, span waiting, fp_error *err);
/* Its last pass failed, and it runs once more. */
int run_failing(txn *t, span id, const failure *why, fp_error *err);
/* Its wake-up, if it is in line, is due at once, or once more after the pass that is on. */
int run_wake(txn *t, const run *r, fp_error *err);

/* The wake-up was claimed, until that moment: so is the pass, and the run is running. */
int run_taken(txn *t, int64_t message, int64_t token, int64_t until_us, fp_error *err);
/* The wake-up has a new lease, and so has the pass that was taken with it. */
int run_leased(txn *t, int64_t message, int64_t token, int64_t until_us, fp_error *err);
/* The wake-up has left the line. `outcome`: the state of its outcome. */
int run_left(txn *t, const place *at, span id, int64_t outcome, const failure *why, span result,
             fp_error *err);

/* All that is there of the run of that wake-up: its records, its pass, itself. At most *room of its
** records go at a time; where there are more, it is parted from, and called cancelled. */
int run_forget(txn *t, int64_t message, span id, int64_t *room, fp_error *err);
/* Its history is not whole any more: it has no wake-up from now on (0), so that nobody goes on with
** it. What is left of it goes when runs of that state do. */
int run_part(txn *t, span id, int64_t state, fp_error *err);

/* ---- children ---- */

/* The key of a job that is the child of a run. FP_INVALID: both together are too long. */
int run_child_key(span parent, span key, char into[KEY_BYTES_MAX], int64_t *bytes, fp_error *err);
bool run_is_child_key(span key);
/* Such a job has ended. */
int run_job_left(txn *t, const place *at, span key, int64_t outcome, const failure *why,
                 span result, fp_error *err);
/* What was started under a key of its parent: a link from there, unless it has one. */
int run_link(txn *t, span parent, span key, int64_t kind, span value, fp_error *err);
/* Whose child a run is. */
int run_link_back(txn *t, span child, span parent, span key, fp_error *err);

#endif
