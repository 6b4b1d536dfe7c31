/* Workflows: what a pass writes and how it ends, what comes from outside, and the life of a run.
**
** Each request here is one commit with all it says: records and the end of their pass, a signal and
** the wake-up it is for, a run and its link to its parent, a cancelled run and its children. A pass
** is fenced by its token before anything of its request is written. */
#ifndef FENCEPOST_FLOW_ROOM_H
#define FENCEPOST_FLOW_ROOM_H

#include "pack.h"
#include "txn.h"

enum {
  RECORDED_WIDTH = 2, /* of the rows of records, and of fp_outside_put's */
  RUN_WIDTH = 11      /* of fp_run_get's and fp_run_list's */
};

/* ---- what is asked of their arguments ---- */
int flow_check_id(const char *id, int32_t id_bytes, fp_error *err);
int flow_check_key(span key, fp_error *err); /* one that a caller may write */
int flow_check_value(int64_t bytes, fp_error *err);
int flow_check_parent(const fp_parent *p, fp_error *err);
int flow_check_start(const fp_start *s, fp_error *err);
int flow_check_coming(const fp_outside *put, fp_error *err);

/* ---- passes ---- */
typedef struct ending {
  const fp_records *records; /* NULL: none */
  int32_t *record_answers;
  pack *rows;                /* of RECORDED_WIDTH */
  const fp_ends *ends;       /* NULL: none */
  int32_t *answers;
} ending;
int flow_end(txn *t, void *ending_argument, fp_error *err);

typedef struct finding {
  span id, key;
  int64_t token;
  pack *rows;
} finding;
int flow_find(txn *t, void *finding_argument, fp_error *err);

/* ---- from outside ---- */
typedef struct coming {
  const fp_outside *put;
  pack *rows;
} coming;
int flow_come(txn *t, void *coming_argument, fp_error *err);

/* ---- runs ---- */
typedef struct starting {
  const fp_start *start;
  const fp_put *put;         /* of a job, instead of `start` */
  const fp_parent *parent;
  int64_t message;
  bool created;
} starting;
int flow_start(txn *t, void *starting_argument, fp_error *err);
int flow_start_job(txn *t, void *starting_argument, fp_error *err);

typedef struct forking {
  span id, key; /* key at NULL: all */
  fp_start start;
  int64_t message;
} forking;
int flow_fork(txn *t, void *forking_argument, fp_error *err);

typedef struct asking {
  span id;
  int64_t queue;
  int32_t answer;
  int64_t gone;
} asking;
int flow_cancel(txn *t, void *asking_argument, fp_error *err);
int flow_resume(txn *t, void *asking_argument, fp_error *err);
int flow_discard(txn *t, void *asking_argument, fp_error *err);
int flow_delete(txn *t, void *asking_argument, fp_error *err);

typedef struct sweep {
  int32_t state, limit;
  int64_t before_us, purged;
  bool apply, more;
} sweep;
int flow_purge(txn *t, void *sweep_argument, fp_error *err);

/* ---- looking ---- */
int flow_show(txn *t, span id, pack *p, fp_error *err);
/* *more: next[3] is where the next page begins. */
int flow_list(txn *t, const fp_run_filter *filter, pack *p, int64_t next[3], bool *more,
              fp_error *err);

#endif
