#include "line.h"

#include <string.h>

#include "fault.h"

int64_t line_turn(int64_t queue, int64_t priority) {
  assert(queue > 0 && queue <= QUEUE_MAX);
  assert(priority >= PRIORITY_MIN && priority <= PRIORITY_MAX);
  return (queue << 8) | (127 - priority);
}

int line_state(int64_t turn, int64_t due_at, int64_t stage) {
  if (turn < 0 || (stage == 0 && due_at == NEVER_US)) return N_WAITING;
  return stage == 0 ? N_PENDING : N_LEASED;
}

/* One that cannot be is damage, which the check tells; here it must not lead to another queue. */
static int64_t in_range(int64_t priority) {
  return priority < PRIORITY_MIN ? PRIORITY_MIN : priority > PRIORITY_MAX ? PRIORITY_MAX : priority;
}

int line_facts(txn *t, int64_t id, facts *f, fp_error *err) {
  *f = (facts){0};
  bool failed = false;
  stmt s = stmt_use(&t->d->sql, SQL_MESSAGE_FACTS);
  put_i64(&s, "id", id);
  if (stmt_row(&s)) {
    f->found = true;
    f->queue = get_i64(&s, "queue");
    f->kind = get_i64(&s, "kind");
    f->priority = in_range(get_i64(&s, "priority"));
    f->enqueued_at = get_moment(&s, "enqueued_at");
    f->due = get_moment(&s, "due");
    f->max_attempts = get_i64(&s, "max_attempts");
    f->life = get_i64(&s, "life");
    span key = get_text(&s, "key"), lane = get_text(&s, "lane");
    if (key.at != NULL || lane.at != NULL) {
      f->memory = mem_get(key.bytes + lane.bytes + 1);
      failed = f->memory == NULL;
    }
    if (f->memory != NULL && key.at != NULL) {
      memcpy(f->memory, key.at, (size_t)key.bytes);
      f->key = (span){f->memory, key.bytes};
    }
    if (f->memory != NULL && lane.at != NULL) {
      memcpy(f->memory + key.bytes, lane.at, (size_t)lane.bytes);
      f->lane = (span){f->memory + key.bytes, lane.bytes};
    }
  }
  int code = stmt_end(&s, err);
  if (code == FP_OK && failed) code = err_memory(err);
  if (code != FP_OK) facts_free(f);
  return code;
}

void facts_free(facts *f) {
  mem_free(f->memory);
  *f = (facts){0};
}

int line_outcome_of(txn *t, int64_t id, line_outcome *e, fp_error *err) {
  *e = (line_outcome){.id = id};
  stmt s = stmt_use(&t->d->sql, SQL_OUTCOME_GET);
  put_i64(&s, "id", id);
  if (stmt_row(&s)) {
    e->found = true;
    e->queue = get_i64(&s, "queue");
    (void)get_i64(&s, "kind");
    e->state = get_i64(&s, "state");
    e->settled_at = get_moment(&s, "settled_at");
    e->attempts = get_count(&s, "attempts");
    e->token = get_i64(&s, "token");
    e->generation = get_count(&s, "generation");
  }
  return stmt_end(&s, err);
}

int line_next_level(txn *t, int64_t end, int64_t *turn, int64_t *due_at, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_NEXT_TURN);
  put_i64(&s, "turn", *turn);
  put_i64(&s, "queue_end", end);
  bool found = stmt_row(&s);
  int64_t next = found ? get_i64(&s, "turn") : 0;
  *due_at = found ? get_i64(&s, "due_at") : INT64_MAX;
  int code = stmt_end(&s, err);
  if (code == FP_OK && found && next <= *turn) { /* or whoever goes on to the next never ends */
    code = err_set(err, FP_STORAGE, "fencepost_due is damaged: its rows are not in their order");
  }
  *turn = next;
  return code;
}

int line_lane(txn *t, int64_t queue, span name, int64_t *number, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_LANE_GET);
  put_i64(&s, "queue", queue);
  put_text(&s, "name", name);
  *number = stmt_row(&s) ? get_count(&s, "number") : 0;
  return stmt_end(&s, err);
}

int line_put(txn *t, const place *at, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_DUE_PUT);
  put_i64(&s, "turn", at->turn);
  put_i64(&s, "due_at", at->due_at);
  put_i64(&s, "id", at->id);
  put_i64(&s, "token", at->token);
  put_i64(&s, "attempts", at->attempts);
  put_i64(&s, "stage", at->stage);
  put_i64(&s, "addressed", at->addressed);
  put_i64(&s, "generation", at->generation);
  put_i64(&s, "again", at->again);
  put_i64(&s, "placed_at", at->placed_at);
  put_i64(&s, "worker", at->worker);
  return stmt_end(&s, err);
}

static void cell_of_place(const given_rows *g, int64_t row, int column, sqlite3_context *out) {
  const place *at = &((const place *)g->rows)[row];
  switch (column) { /* SQL_DUE_COLUMNS */
    case 0: give_i64(out, at->turn); break;
    case 1: give_i64(out, at->due_at); break;
    case 2: give_i64(out, at->id); break;
    case 3: give_i64(out, at->token); break;
    case 4: give_i64(out, at->attempts); break;
    case 5: give_i64(out, at->stage); break;
    case 6: give_i64(out, at->addressed); break;
    case 7: give_i64(out, at->generation); break;
    case 8: give_i64(out, at->again); break;
    case 9: give_i64(out, at->placed_at); break;
    default: give_i64(out, at->worker);
  }
}

int line_put_many(txn *t, const place *all, int64_t count, fp_error *err) {
  given_rows rows = {count, all, cell_of_place};
  stmt s = stmt_use(&t->d->sql, SQL_DUE_PUT_MANY);
  put_rows(&s, "rows", &rows);
  return stmt_end(&s, err);
}

int line_drop(txn *t, const place *at, bool *dropped, fp_error *err) {
  int changed;
  stmt s = stmt_use(&t->d->sql, SQL_DUE_DROP);
  put_i64(&s, "turn", at->turn);
  put_i64(&s, "due_at", at->due_at);
  put_i64(&s, "id", at->id);
  put_i64(&s, "token", at->token);
  put_i64(&s, "stage", at->stage);
  int code = stmt_changes(&s, &changed, err);
  *dropped = changed == 1;
  return code;
}

void line_read(stmt *s, place *at) {
  at->token = get_i64(s, "token");
  at->attempts = get_count(s, "attempts");
  at->stage = (int32_t)get_i64(s, "stage");
  at->addressed = (int32_t)get_i64(s, "addressed");
  at->generation = get_count(s, "generation");
  at->again = get_i64(s, "again");
  at->placed_at = get_i64(s, "placed_at");
}

/* The row at (turn, due_at, id) of *at, if there is one. */
static int probe(txn *t, bool *found, place *at, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_DUE_AT);
  put_i64(&s, "turn", at->turn);
  put_i64(&s, "due_at", at->due_at);
  put_i64(&s, "id", at->id);
  *found = stmt_row(&s);
  if (*found) {
    line_read(&s, at);
    at->worker = get_i64(&s, "worker");
  }
  return stmt_end(&s, err);
}

static int by_index(txn *t, bool *found, place *at, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_DUE_BY_ID);
  put_i64(&s, "id", at->id);
  *found = stmt_row(&s);
  if (*found) {
    at->turn = get_i64(&s, "turn");
    at->due_at = get_i64(&s, "due_at");
    line_read(&s, at);
    at->worker = get_i64(&s, "worker");
  }
  return stmt_end(&s, err);
}

static int waiting_place(txn *t, const facts *f, bool *found, place *at, fp_error *err) {
  int64_t number;
  int code = line_lane(t, f->queue, f->lane, &number, err);
  *found = false;
  if (code != FP_OK || number == 0) return code;
  at->turn = -number;
  at->due_at = 0;
  return probe(t, found, at, err);
}

/* This handle's own claims know their place; a hint, which the probe proves. */
static int by_hint(txn *t, bool *found, place *at, fp_error *err) {
  *found = false;
  place hint;
  if (t->places == NULL || !places_get(t->places, at->id, &hint)) return FP_OK;
  at->turn = hint.turn;
  at->due_at = hint.due_at;
  return probe(t, found, at, err);
}

int line_locate(txn *t, int64_t id, bool *found, place *at, fp_error *err) {
  facts f;
  const policy *p = NULL;
  *found = false;
  int code = line_facts(t, id, &f, err);
  if (code == FP_OK && f.found) code = db_policy(t->d, f.queue, &p, err);
  if (code != FP_OK || !f.found) goto done;

  *at = (place){.id = id, .queue = f.queue, .kind = f.kind, .life = (int32_t)f.life,
                .laned = f.lane.at != NULL, .turn = line_turn(f.queue, f.priority),
                .due_at = f.due};
  code = probe(t, found, at, err);
  if (code == FP_OK && !*found && f.lane.at != NULL) code = waiting_place(t, &f, found, at, err);
  if (code == FP_OK && !*found && p->field[ADDRESSED]) code = by_index(t, found, at, err);
  if (code == FP_OK && !*found && !p->field[ADDRESSED]) code = by_hint(t, found, at, err);
  if (code == FP_OK && !*found && !p->field[ADDRESSED]) {
    line_outcome e;
    code = line_outcome_of(t, id, &e, err);
    if (code == FP_OK && !e.found) {
      code = err_set(err, FP_INVALID, "message %lld is of a bulk queue and has been claimed or "
                                      "moved: only addressed queues find it by its id",
                     (long long)id);
    }
  }
done:
  facts_free(&f);
  return code;
}

/* The claim's row as the file says, for a claim whose place this handle does not know (better). */
static int take_by_index(txn *t, int64_t id, int64_t token, bool *found, place *at,
                         fp_error *err) {
  const policy *p = NULL;
  facts f;
  int code = line_facts(t, id, &f, err);
  bool known = f.found;
  *at = (place){.id = id, .queue = f.queue, .kind = f.kind, .life = (int32_t)f.life,
                .laned = f.lane.at != NULL};
  facts_free(&f);
  if (code == FP_OK && known) code = db_policy(t->d, at->queue, &p, err);
  if (code != FP_OK || !known || !p->field[ADDRESSED]) return code;
  code = by_index(t, found, at, err);
  *found = *found && at->token == token && at->stage > 0;
  if (code == FP_OK && *found && p->field[PROFILE] == FP_PROFILE_INBOX && at->due_at <= t->now_us) {
    *found = false;
  }
  if (code == FP_OK && *found) code = line_drop(t, at, found, err);
  return code;
}

/* A wake-up may have been re-armed by another process: its row must be read. A strict queue takes
** no word from a lease that has run out. */
bool line_trusts(const txn *t, const policy *p, const place *at) {
  if (p->field[PROFILE] == FP_PROFILE_INBOX) return at->due_at > t->now_us;
  return p->field[PROFILE] != FP_PROFILE_WAKEUP;
}

int line_take(txn *t, int64_t id, int64_t token, bool *found, place *at, fp_error *err) {
  const policy *p = NULL;
  int code = FP_OK;
  *found = false;
  if (places_get(t->places, id, at)) {
    code = db_policy(t->d, at->queue, &p, err);
    if (code != FP_OK) return code;
    if (at->token == token && line_trusts(t, p, at)) code = line_drop(t, at, found, err);
  }
  if (code == FP_OK && !*found) code = take_by_index(t, id, token, found, at, err);
  return code;
}

int line_rearm(txn *t, place *at, int64_t due_us, fp_error *err) {
  bool dropped;
  if (at->stage == 0 && (at->turn < 0 || at->due_at <= due_us)) return FP_OK;
  if (at->stage > 0 && at->again != 0 && at->again <= due_us) return FP_OK;
  int code = line_drop(t, at, &dropped, err);
  if (code != FP_OK) return code;
  if (at->stage == 0) {
    txn_count(t, at->queue, line_state(at->turn, at->due_at, 0), -1);
    at->due_at = at->placed_at = due_us;
    at->addressed = 1;
    txn_count(t, at->queue, line_state(at->turn, at->due_at, 0), 1);
    txn_ring(t, at->queue);
  } else {
    at->again = due_us;
  }
  return line_put(t, at, err);
}

int line_forget_lost(txn *t, fp_error *err) {
  int64_t slot = 0;
  place hint;
  while (places_walk(t->places, &slot, &hint)) {
    if (hint.due_at > t->now_us) continue;
    place at = hint;
    bool found;
    int code = probe(t, &found, &at, err);
    if (code != FP_OK) return code;
    if (found && at.token == hint.token) continue;
    if (!places_drop(t->places, hint.id)) return err_memory(err);
    slot--; /* another one may have moved up into this slot */
  }
  return FP_OK;
}
