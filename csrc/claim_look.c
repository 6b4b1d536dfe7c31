#include "claim_part.h"
#include "limit.h"

int64_t claim_holders(const txn *t) {
  return t->now_us < t->d->head.grace_until ? 0 : INT64_MAX;
}

int claim_first_level(txn *t, int64_t queue, claim_gap *empty, int64_t *turn, int64_t *due_at,
                       fp_error *err) {
  *turn = (queue << 8) - 1;
  int code = line_next_level(t, (QUEUE_MAX + 1) << 8, turn, due_at, err);
  *empty = (claim_gap){queue, *turn == 0 ? QUEUE_MAX + 1 : *turn >> 8};
  if (empty->end != queue) *turn = 0;
  return code;
}

static int look_at(txn *t, const policy *p, claim_gap *empty, int64_t *next_us, fp_error *err) {
  int64_t turn, due_at, held = p->field[HELD_UNTIL];
  bool grace = t->now_us < t->d->head.grace_until;
  int code = claim_first_level(t, p->queue, empty, &turn, &due_at, err);
  while (code == FP_OK && turn != 0) {
    /* In a grace the first row of a level may be a lapsed lease that nobody may take yet. */
    if (grace && due_at <= t->now_us) {
      stmt s = stmt_use(&t->d->sql, SQL_DUE_SELECT_GRACE);
      put_i64(&s, "turn", turn);
      put_i64(&s, "now", t->now_us);
      put_i64(&s, "limit", 1);
      bool pending = stmt_row(&s);
      code = stmt_end(&s, err);
      if (code != FP_OK) return code;
      if (!pending) due_at = t->d->head.grace_until;
    }
    if (due_at < held) due_at = held;
    if (due_at < *next_us) *next_us = due_at;
    if (*next_us <= t->now_us) return FP_OK;
    code = line_next_level(t, (p->queue + 1) << 8, &turn, &due_at, err);
  }
  return code;
}

/* All places of the queue are taken: only a lease that has run out can be taken over. When the
** others end, who sleeps is woken, and when they run out, a look once a slice finds it. */
static int look_occupied(txn *t, const policy *p, claim_gap *empty, int64_t *lapsed_us,
                         fp_error *err) {
  int64_t turn, due_at;
  *lapsed_us = INT64_MAX;
  int code = claim_first_level(t, p->queue, empty, &turn, &due_at, err);
  while (code == FP_OK && turn != 0) {
    if (due_at <= t->now_us) {
      stmt s = stmt_use(&t->d->sql, SQL_DUE_SELECT_LAPSED);
      put_i64(&s, "turn", turn);
      put_i64(&s, "from", limit_seen(t, p->queue));
      put_i64(&s, "now", t->now_us);
      put_i64(&s, "below", claim_holders(t));
      put_i64(&s, "limit", 1);
      int64_t found_us = stmt_row(&s) ? get_i64(&s, "due_at") : INT64_MAX;
      if (found_us < *lapsed_us) *lapsed_us = found_us;
      code = stmt_end(&s, err);
    }
    if (code == FP_OK) code = line_next_level(t, (p->queue + 1) << 8, &turn, &due_at, err);
  }
  if (code == FP_OK && t->now_us >= t->d->head.grace_until) limit_saw(t, p->queue, *lapsed_us);
  return code;
}

/* The same for a queue that has limits: what they keep back is not due yet, or nobody would
** sleep. */
static int look_at_limited(txn *t, const policy *p, claim_gap *empty, int64_t *next_us,
                           fp_error *err) {
  allowance a;
  int64_t first_us = INT64_MAX, held = p->field[HELD_UNTIL];
  int code = limit_read(t, p, &a, err);
  if (code != FP_OK) return code;
  if (!a.occupied) {
    code = look_at(t, p, empty, &first_us, err);
  } else {
    code = look_occupied(t, p, empty, &first_us, err);
  }
  if (first_us == INT64_MAX) return code;
  if (first_us < a.ready_us) first_us = a.ready_us;
  if (first_us < held) first_us = held;
  if (first_us < *next_us) *next_us = first_us;
  return code;
}

int claim_look(txn *t, void *argument, fp_error *err) {
  looking *g = argument;
  g->next_us = INT64_MAX;
  g->now_us = t->now_us;
  claim_gap empty = {0, 0};
  for (int32_t i = 0; i < g->take->queue_count; i++) {
    const policy *p;
    if (claim_in_gap(&empty, g->take->queues[i])) continue;
    int code = db_policy(t->d, g->take->queues[i], &p, err);
    if (code == FP_OK && p->field[PAUSED] == 0 && claim_for_places(g->take, p, 0) > 0) {
      code = (limit_any(p) ? look_at_limited : look_at)(t, p, &empty, &g->next_us, err);
    }
    if (code != FP_OK || g->next_us <= t->now_us) return code;
  }
  return FP_OK;
}
