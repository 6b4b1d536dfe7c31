#include "lane.h"

#include <string.h>

#include "fault.h"

enum { LOOKED_MAX = SMALL(1000, 3) }; /* lanes that one look at the halted ones goes through */

typedef struct lane {
  bool found;
  int64_t number, out, held, parked_by;
} lane;

static int get(txn *t, int64_t queue, span name, lane *l, fp_error *err) {
  *l = (lane){0};
  stmt s = stmt_use(&t->d->sql, SQL_LANE_GET);
  put_i64(&s, "queue", queue);
  put_text(&s, "name", name);
  if (stmt_row(&s)) {
    l->found = true;
    l->number = get_count(&s, "number");
    l->out = get_count(&s, "out");
    l->held = get_i64(&s, "held");
    l->parked_by = get_i64(&s, "parked_by");
  }
  return stmt_end(&s, err);
}

static int set(txn *t, int64_t queue, span name, const lane *l, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_LANE_SET);
  put_i64(&s, "out", l->out);
  put_i64(&s, "held", l->held);
  put_i64(&s, "parked_by", l->parked_by);
  put_i64(&s, "queue", queue);
  put_text(&s, "name", name);
  return stmt_end(&s, err);
}

static int put(txn *t, int64_t queue, span name, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_LANE_PUT);
  put_i64(&s, "queue", queue);
  put_text(&s, "name", name);
  put_i64(&s, "number", txn_draw(t, 1));
  put_i64(&s, "out", 1);
  return stmt_end(&s, err);
}

static int drop(txn *t, int64_t queue, span name, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_LANE_DROP);
  put_i64(&s, "queue", queue);
  put_text(&s, "name", name);
  return stmt_end(&s, err);
}

int lane_enter(txn *t, const policy *p, span name, int64_t *turn, fp_error *err) {
  lane l;
  *turn = 0;
  int code = get(t, p->queue, name, &l, err);
  if (code != FP_OK) return code;
  if (!l.found) return put(t, p->queue, name, err);
  if (!l.held && l.out < p->field[LANE_WIDTH]) {
    l.out++;
    return set(t, p->queue, name, &l, err);
  }
  *turn = -l.number;
  return FP_OK;
}

/* Lets the first who waits into the line. *moved false: nobody waits. */
static int promote(txn *t, const policy *p, const lane *l, bool *moved, fp_error *err) {
  place at = {.turn = -l->number, .queue = p->queue};
  stmt s = stmt_use(&t->d->sql, SQL_LANE_HEAD);
  put_i64(&s, "turn", at.turn);
  *moved = stmt_row(&s);
  if (*moved) {
    at.id = get_i64(&s, "id");
    at.token = get_i64(&s, "token");
    at.attempts = get_count(&s, "attempts");
    at.generation = get_count(&s, "generation");
  }
  int code = stmt_end(&s, err);
  if (code != FP_OK || !*moved) return code;

  facts f;
  bool dropped = false;
  code = line_facts(t, at.id, &f, err);
  if (code == FP_OK) code = line_drop(t, &at, &dropped, err);
  if (code == FP_OK && !dropped) {
    code = err_set(err, FP_STORAGE, "the lane's head %lld is not where it was just read",
                   (long long)at.id);
  }
  if (code == FP_OK) { /* a missing message is damaged: the claim that meets it will say so */
    at.turn = line_turn(p->queue, f.found ? f.priority : 0);
    at.due_at = f.found ? f.due : t->now_us;
    at.placed_at = at.due_at;
    code = line_put(t, &at, err);
  }
  facts_free(&f);
  txn_count(t, p->queue, N_WAITING, -1);
  txn_count(t, p->queue, N_PENDING, 1);
  return code;
}

/* Fills the free slots, and writes the lane's row, or takes it away when nobody is left. */
static int refill(txn *t, const policy *p, span name, const lane *before, lane *l,
                  fp_error *err) {
  int code = FP_OK;
  bool moved = true;
  while (code == FP_OK && moved && !l->held && l->out < p->field[LANE_WIDTH]) {
    code = promote(t, p, l, &moved, err);
    if (moved) l->out++;
  }
  if (code != FP_OK) return code;
  if (l->out == 0 && !l->held) return drop(t, p->queue, name, err);
  if (l->out == before->out && l->held == before->held) return FP_OK;
  return set(t, p->queue, name, l, err);
}

int lane_leave(txn *t, const policy *p, span name, fp_error *err) {
  lane l;
  int code = get(t, p->queue, name, &l, err);
  if (code != FP_OK) return code;
  if (!l.found) return err_set(err, FP_STORAGE, "a lane with a message in line lost its row");
  lane before = l;
  l.out--;
  return refill(t, p, name, &before, &l, err);
}

int lane_park(txn *t, const policy *p, span name, int64_t id, fp_error *err) {
  lane l;
  int code = get(t, p->queue, name, &l, err);
  if (code != FP_OK) return code;
  if (!l.found) return err_set(err, FP_STORAGE, "a lane with a message in line lost its row");
  l.out--;
  l.held = 1;
  l.parked_by = id;
  return set(t, p->queue, name, &l, err);
}

int lane_release(txn *t, const policy *p, span name, int64_t by, bool *released, fp_error *err) {
  lane l;
  int code = get(t, p->queue, name, &l, err);
  *released = l.found && l.held && (by == 0 || by == l.parked_by);
  if (code != FP_OK || !*released) return code;
  lane before = l;
  l.held = 0;
  l.parked_by = 0;
  return refill(t, p, name, &before, &l, err);
}

int lane_resume(txn *t, const policy *p, span name, int64_t id, int64_t *turn, fp_error *err) {
  lane l;
  int code = get(t, p->queue, name, &l, err);
  if (code != FP_OK) return code;
  if (!l.found || !l.held || l.parked_by != id || l.out >= p->field[LANE_WIDTH]) {
    return lane_enter(t, p, name, turn, err);
  }
  lane before = l;
  *turn = 0;
  l.held = 0;
  l.parked_by = 0;
  l.out++;
  return refill(t, p, name, &before, &l, err);
}

/* A walk over the lanes of a queue, by name. */
typedef struct walk {
  span name; /* of the one before; in `last` from the first step on */
  char last[LANE_BYTES_MAX + 1];
} walk;

/* The next one; l->found false: there is none. */
static int step(txn *t, int64_t queue, walk *w, lane *l, fp_error *err) {
  bool damaged = false; /* a name that is no text of ours would come up again and again */
  *l = (lane){0};
  stmt s = stmt_use(&t->d->sql, SQL_LANE_NEXT);
  put_i64(&s, "queue", queue);
  put_text(&s, "name", w->name);
  if (stmt_row(&s)) {
    damaged = !get_is_text(&s);
    span next = get_text(&s, "name");
    l->found = true;
    damaged = damaged || next.bytes > LANE_BYTES_MAX ||
              (next.bytes == w->name.bytes &&
               memcmp(next.at, w->name.at, (size_t)next.bytes) == 0);
    if (!damaged) memcpy(w->last, next.at, (size_t)next.bytes);
    w->name = (span){w->last, next.bytes};
    l->number = get_count(&s, "number");
    l->out = get_count(&s, "out");
    l->held = get_i64(&s, "held");
    l->parked_by = get_i64(&s, "parked_by");
  }
  int code = stmt_end(&s, err);
  if (code == FP_OK && damaged) {
    code = err_set(err, FP_STORAGE, "the name of lane %lld is damaged", (long long)l->number);
  }
  return code;
}

int lane_widen(txn *t, const policy *p, fp_error *err) {
  walk w = {.name = {"", 0}};
  for (;;) {
    lane l;
    int code = step(t, p->queue, &w, &l, err);
    if (code != FP_OK || !l.found) return code;
    lane before = l;
    code = refill(t, p, w.name, &before, &l, err);
    if (code != FP_OK) return code;
  }
}

int lane_halted(txn *t, int64_t queue, span after, int32_t limit, pack *rows, fp_error *err) {
  walk w = {.name = after};
  for (int looked = 1; rows->count < limit; looked++) {
    lane l;
    int code = step(t, queue, &w, &l, err);
    if (code != FP_OK || !l.found) return code;
    if (!l.held && looked < LOOKED_MAX) continue;
    pack_i64(rows, l.held ? l.parked_by : 0);
    pack_part(rows, w.name);
    pack_row(rows);
    if (looked >= LOOKED_MAX) break;
  }
  return FP_OK;
}
