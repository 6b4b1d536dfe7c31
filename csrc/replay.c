#include "replay.h"

#include "key.h"

/* Reads and decides; writes nothing. */
static int decide(txn *t, int64_t id, const line_outcome *e, const facts *f, int64_t generation,
                  int32_t *answer, fp_error *err) {
  int64_t owner = 0;
  *answer = FP_DONE;
  if (!e->found || !f->found) {
    *answer = f->found ? FP_NOT_DEAD : FP_GONE;
  } else if (e->state != FP_STATE_DEAD && e->state != FP_STATE_UNKNOWN) {
    *answer = FP_NOT_DEAD;
  } else if (generation >= 0 && generation != e->generation) {
    *answer = FP_SUPERSEDED;
  } else if (f->life != FP_LIFE_NONE) {
    int code = key_owner(t, f->queue, f->kind, f->life, f->key, &owner, err);
    if (owner != 0 && owner != id) *answer = FP_LIVE_KEY;
    return code;
  }
  return FP_OK;
}

/* A live key was freed when it died, and a lasting one may have passed on and been purged. */
static int take_key(txn *t, const facts *f, int64_t id, fp_error *err) {
  if (f->life == FP_LIFE_NONE) return FP_OK;
  keyed k = {.queue = f->queue, .kind = f->kind, .life = (int32_t)f->life, .key = f->key,
             .digest = NO_SPAN, .body = {"", 0}, .headers = NO_SPAN};
  int64_t owner;
  bool equal;
  return key_take(t, &k, id, &owner, &equal, err);
}

/* What is dead has a new start. What is unknown may have been sent so often, and goes on counting:
** the operator's retry is its next attempt, and the last one if they were used up. */
static int64_t attempts_of(const line_outcome *e, const facts *f) {
  if (e->state == FP_STATE_DEAD) return 0;
  bool used_up = f->max_attempts > 0 && e->attempts >= f->max_attempts;
  return used_up ? f->max_attempts - 1 : e->attempts;
}

static int bring_back(txn *t, int64_t id, const line_outcome *e, const facts *f, int64_t due,
                      span note, fp_error *err) {
  const failure word = {.kind = LITERAL("replayed"), .text = note};
  const policy *p;
  int64_t room = 0;
  int code = db_policy(t->d, f->queue, &p, err);
  if (code != FP_OK) return code;
  stmt s = stmt_use(&t->d->sql, SQL_OUTCOME_DROP);
  put_i64(&s, "id", id);
  code = stmt_end(&s, err);
  if (code == FP_OK) code = take_key(t, f, id, err);
  if (code == FP_OK && f->lane.at != NULL) {
    code = e->state == FP_STATE_UNKNOWN ? lane_resume(t, p, f->lane, id, &room, err)
                                        : lane_enter(t, p, f->lane, &room, err);
  }
  if (code != FP_OK) return code;

  place at = {.id = id, .turn = line_turn(f->queue, f->priority), .due_at = due, .placed_at = due,
              .attempts = attempts_of(e, f), .generation = e->generation,
              .addressed = p->field[ADDRESSED] != 0};
  if (room < 0) {
    at.turn = room;
    at.due_at = at.placed_at = 0;
    at.addressed = 0;
  }
  code = line_put(t, &at, err);
  if (code != FP_OK) return code;
  code = settle_anew(t, id, due, err);
  if (code == FP_OK && note.bytes > 0) code = settle_trouble(t, id, &word, err);
  txn_count(t, f->queue, room < 0 ? N_WAITING : N_PENDING, 1);
  txn_count(t, f->queue, txn_state_of(e->state), -1);
  return code;
}

int replay(txn *t, void *argument, fp_error *err) {
  replaying *g = argument;
  int code = FP_OK;
  for (int32_t i = 0; code == FP_OK && i < g->count; i++) {
    int64_t id = g->pairs[2 * i];
    line_outcome e;
    facts f;
    code = line_outcome_of(t, id, &e, err);
    if (code == FP_OK) code = line_facts(t, id, &f, err);
    if (code != FP_OK) return code;
    code = decide(t, id, &e, &f, g->pairs[2 * i + 1], &g->answers[i], err);
    if (code == FP_OK && g->answers[i] == FP_DONE && g->apply) {
      int64_t due = t->now_us + g->delay_us + i * g->gap_us;
      code = bring_back(t, id, &e, &f, due, g->note, err);
    }
    facts_free(&f);
  }
  return code;
}

/* ---- the operator's word ---- */

/* Its outcome is another one now; its key and its place in the lane went when it became unknown. */
static int resolve(txn *t, int64_t id, const line_outcome *e, const facts *f, span note,
                   fp_error *err) {
  const policy *p;
  bool released;
  const failure word = {.kind = LITERAL("confirmed"), .text = note};
  const place at = {.id = id, .queue = f->queue, .kind = f->kind, .attempts = e->attempts,
                    .token = e->token, .generation = e->generation};
  int code = db_policy(t->d, f->queue, &p, err);
  if (code != FP_OK) return code;
  bool kept = settle_keeps(p, FP_DONE_LISTED, (int32_t)f->life);
  code = txn_drop(t, SQL_OUTCOME_DROP, id, err);
  if (code == FP_OK && kept) {
    int32_t state = settle_state(p, FP_DONE_LISTED);
    code = settle_outcome(t, &at, state, &word, NO_SPAN, err);
  }
  if (code == FP_OK && !kept) code = settle_forget(t, id, err);
  if (code == FP_OK && f->lane.at != NULL) {
    code = lane_release(t, p, f->lane, id, &released, err);
  }
  txn_count(t, f->queue, N_UNKNOWN, -1);
  if (kept) txn_count(t, f->queue, N_DONE, 1);
  txn_ring(t, f->queue);
  return code;
}

int confirm(txn *t, void *argument, fp_error *err) {
  confirming *g = argument;
  int code = FP_OK;
  for (int32_t i = 0; code == FP_OK && i < g->count; i++) {
    int64_t id = g->pairs[2 * i], generation = g->pairs[2 * i + 1];
    line_outcome e;
    facts f;
    code = line_outcome_of(t, id, &e, err);
    if (code == FP_OK) code = line_facts(t, id, &f, err);
    if (code != FP_OK) return code;
    bool current = generation < 0 || generation == e.generation;
    if (!f.found) {
      g->answers[i] = FP_GONE;
    } else if (e.state != FP_STATE_UNKNOWN) {
      g->answers[i] = FP_NOT_DEAD;
    } else {
      g->answers[i] = current ? FP_DONE : FP_SUPERSEDED;
    }
    if (g->answers[i] == FP_DONE) code = resolve(t, id, &e, &f, g->note, err);
    facts_free(&f);
  }
  return code;
}
