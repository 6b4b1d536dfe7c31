#include "revive.h"

#include "key.h"

typedef struct ended {
  bool found;
  int64_t state, generation;
} ended;

static int outcome_of(txn *t, int64_t id, ended *e, fp_error *err) {
  *e = (ended){0};
  stmt s = stmt_use(&t->d->sql, SQL_OUTCOME_GET);
  put_i64(&s, "id", id);
  if (stmt_row(&s)) {
    e->found = true;
    (void)get_i64(&s, "queue");
    (void)get_i64(&s, "kind");
    e->state = get_i64(&s, "state");
    (void)get_i64(&s, "settled_at");
    (void)get_i64(&s, "attempts");
    (void)get_i64(&s, "token");
    e->generation = get_i64(&s, "generation");
  }
  return stmt_end(&s, err);
}

/* Reads and decides; writes nothing. */
static int decide(txn *t, int64_t id, const ended *e, const facts *f, int64_t generation,
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

static int bring_back(txn *t, int64_t id, const ended *e, const facts *f, int64_t due,
                      fp_error *err) {
  const policy *p;
  int64_t room = 0;
  int code = db_policy(t->d, f->queue, &p, err);
  if (code != FP_OK) return code;
  stmt s = stmt_use(&t->d->sql, SQL_OUTCOME_DROP);
  put_i64(&s, "id", id);
  code = stmt_end(&s, err);
  if (code == FP_OK) code = take_key(t, f, id, err);
  if (code == FP_OK && f->lane.at != NULL) code = lane_enter(t, p, f->lane, &room, err);
  if (code != FP_OK) return code;

  place at = {.id = id, .turn = line_turn(f->queue, f->priority), .due_at = due, .placed_at = due,
              .generation = e->generation, .addressed = p->field[ADDRESSED] != 0};
  if (room < 0) {
    at.turn = room;
    at.due_at = at.placed_at = 0;
    at.addressed = 0;
  }
  code = line_put(t, &at, err);
  if (code != FP_OK) return code;
  code = settle_anew(t, id, due, err);
  txn_count(t, f->queue, room < 0 ? N_WAITING : N_PENDING, 1);
  txn_count(t, f->queue, txn_state_of(e->state), -1);
  return code;
}

int revive(txn *t, void *argument, fp_error *err) {
  reviving *g = argument;
  int code = FP_OK;
  for (int32_t i = 0; code == FP_OK && i < g->count; i++) {
    int64_t id = g->pairs[2 * i];
    ended e;
    facts f;
    code = outcome_of(t, id, &e, err);
    if (code == FP_OK) code = line_facts(t, id, &f, err);
    if (code != FP_OK) return code;
    code = decide(t, id, &e, &f, g->pairs[2 * i + 1], &g->answers[i], err);
    if (code == FP_OK && g->answers[i] == FP_DONE && g->apply) {
      int64_t due = t->now_us + g->delay_us + i * g->gap_us;
      code = bring_back(t, id, &e, &f, due, err);
    }
    facts_free(&f);
  }
  return code;
}
