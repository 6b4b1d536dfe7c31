/* Passes: the fenced right to write the records of a workflow.
**
**   1. At most one pass is live. It lapses `alive` after its last sign of life, and when its budget
**      is over, whichever comes first; lapsed, it goes on until somebody takes the workflow.
**   2. Tokens are drawn from the file's one counter, so that none comes twice, whatever was removed
**      in between: where there is no row, no token opens anything.
**   3. A budget is only ever prolonged. A sign of life never prolongs it. */
#ifndef FENCEPOST_PASS_H
#define FENCEPOST_PASS_H

#include "txn.h"

typedef struct pass {
  bool found;
  int64_t token, held_until, alive_until, alive_for;
} pass;

int pass_get(txn *t, span workflow, pass *p, fp_error *err);
/* *p is what stands there, and its token is this one; else FP_LOST. */
int pass_check(txn *t, span workflow, int64_t token, pass *p, fp_error *err);
/* It was taken, and will be held until that moment unless it is renewed. */
int pass_taken(txn *t, span workflow, int64_t token, int64_t until_us, fp_error *err);
/* The lease of a wake-up that it was taken with has a new end. Another token: nothing. */
int pass_leased(txn *t, span workflow, int64_t token, int64_t until_us, fp_error *err);
/* A sign of life, worth what the last one was. */
int pass_alive(txn *t, span workflow, const pass *p, fp_error *err);
int pass_drop(txn *t, span workflow, fp_error *err);

/* As fp_pass_claim, fp_pass_extend, fp_pass_renew and fp_pass_release. */
typedef struct passing {
  span workflow;
  int64_t token, budget_us, alive_us;
  bool held;
} passing;
int pass_claim(txn *t, void *passing_argument, fp_error *err);
int pass_extend(txn *t, void *passing_argument, fp_error *err);
int pass_renew(txn *t, void *passing_argument, fp_error *err);
int pass_release(txn *t, void *passing_argument, fp_error *err);

#endif
