/* Settling: how a claim ends, or goes back, or is held longer. Each is fenced by (id, token); one
** that was lost changes nothing and is told in its answer, never as an error. */
#ifndef FENCEPOST_SETTLE_H
#define FENCEPOST_SETTLE_H

#include "lane.h"

typedef struct settling {
  const fp_settle *settle;
  int32_t *answers;
} settling;
int settle_many(txn *t, void *settling_argument, fp_error *err);

typedef struct renewal {
  int64_t id, token, lease_us;
} renewal;
int settle_renew(txn *t, int32_t count, const renewal *renewals, int32_t *answers, fp_error *err);

typedef struct cancelling {
  int32_t count;
  const int64_t *ids;
  int32_t *answers;
} cancelling;
int settle_cancel(txn *t, void *cancelling_argument, fp_error *err);

/* The row `at` has just been taken out of the line (it stood there as *at says). Puts its outcome,
** frees its key, lets its lane go on, counts. `state`: FP_DONE_LISTED means done, listed or kept
** or neither as the queue says. */
int settle_leave(txn *t, const place *at, int32_t state, const failure *why, span result,
                 fp_error *err);
/* Likewise taken out, and back it goes as pending, at the latest at that moment; earlier, if it was
** re-armed for one. The token goes: whoever still holds it opens nothing. */
int settle_back(txn *t, place *at, int64_t due_us, fp_error *err);
/* The same, of one that was re-armed while it was out: something came that its holder has not seen,
** so this turn is over, whatever became of it, and the next one begins. */
int settle_next_turn(txn *t, place *at, const failure *why, fp_error *err);
/* base * factor^(attempt - 1), at most cap, spread by jitter to both sides. */
int64_t settle_back_off(const policy *p, int64_t attempt);
/* Its outcome, `state` as settle_state has it. What dies or is unknown is a further generation. */
int settle_outcome(txn *t, const place *at, int32_t state, const failure *why, span result,
                   fp_error *err);
/* Nothing of the message stays: no outcome, no row, no progress. */
int settle_forget(txn *t, int64_t id, fp_error *err);
/* Does an outcome stay, and in which state? */
bool settle_keeps(const policy *p, int32_t state, int32_t life);
int32_t settle_state(const policy *p, int32_t state);
/* What failed before is forgotten, and max_age counts from `since_us` on. */
int settle_anew(txn *t, int64_t id, int64_t since_us, fp_error *err);
/* Why it failed last, as long as it is in line; without a kind nothing is written. */
int settle_trouble(txn *t, int64_t id, const failure *why, fp_error *err);
/* Cancels what stands at *at. `free_key` false: the key has another owner already. */
int settle_cancel_at(txn *t, const place *at, bool free_key, fp_error *err);

#endif
