/* Acks of claims that came together, settled together.
**
** What was claimed in one go stands side by side at the end of its lease, under tokens that follow
** one another, and a token belongs to one row ever. So if as many rows stand in such a range as it
** has tokens, they are the claimed ones and no others: the range is counted, then taken out in one
** stroke. Where one is missing (lost, or moved unheard of), each is settled alone, and told. */
#include "fault.h"
#include "settle_part.h"

enum { RUN_MIN = SMALL(8, 2), RUN_MAX = SMALL(1000, 6) };

typedef struct ended {
  place at;
  span result;
} ended;

typedef struct run {
  int32_t length;
  place head;        /* of its first claim */
  int64_t low, high; /* the least and the greatest of its ids */
  bool kept;
  int32_t state;     /* of the outcomes, where they are kept */
  int64_t now_us;
  ended *rows;
} run;

/* Is this an ack that asks for nothing but the end, of a claim whose place is known? */
static bool plain(const txn *t, const fp_verdict *v, place *at) {
  return v->verb == FP_ACK && v->kind_bytes < 0 && v->code_bytes < 0 && v->text_bytes < 0 &&
         places_get(t->places, v->id, at) && at->token == v->token && at->again == 0 &&
         !at->laned && at->life != FP_LIFE_LIVE;
}

static run measure(const txn *t, const fp_settle *all, int32_t first) {
  run r = {.length = 0, .now_us = t->now_us};
  while (r.length < RUN_MAX && first + r.length < all->count) {
    place at;
    fp_verdict v = settle_verdict(all, first + r.length);
    if (!plain(t, &v, &at)) break;
    if (r.length == 0) {
      r.head = at;
      r.low = r.high = at.id;
    }
    if (at.token != r.head.token + r.length || at.turn != r.head.turn ||
        at.due_at != r.head.due_at || at.life != r.head.life) {
      break;
    }
    if (at.id < r.low) r.low = at.id;
    if (at.id > r.high) r.high = at.id;
    r.length++;
  }
  return r;
}

static void put_range(stmt *s, const run *r) {
  put_i64(s, "turn", r->head.turn);
  put_i64(s, "due_at", r->head.due_at);
  put_i64(s, "low", r->low);
  put_i64(s, "high", r->high);
  put_i64(s, "first_token", r->head.token);
  put_i64(s, "last_token", r->head.token + r->length - 1);
}

static int count_rows(txn *t, const run *r, int64_t *count, fp_error *err) {
  *count = 0;
  stmt s = stmt_use(&t->d->sql, SQL_DUE_COUNT_RUN);
  put_range(&s, r);
  if (stmt_row(&s)) *count = get_i64(&s, "rows");
  return stmt_end(&s, err);
}

static int drop_rows(txn *t, const run *r, fp_error *err) {
  int changed;
  stmt s = stmt_use(&t->d->sql, SQL_DUE_DROP_RUN);
  put_range(&s, r);
  int code = stmt_changes(&s, &changed, err);
  if (code == FP_OK && changed != r->length) {
    code = err_set(err, FP_STORAGE, "%d rows were counted, and %d were there", r->length, changed);
  }
  return code;
}

static void cell_of_outcome(const given_rows *g, int64_t row, int column, sqlite3_context *out) {
  const run *r = g->rows;
  const place *at = &r->rows[row].at;
  switch (column) { /* as OUTCOME_PUT_MANY has them; an ack has no failure */
    case 0: give_i64(out, at->id); break;
    case 1: give_i64(out, at->queue); break;
    case 2: give_i64(out, at->kind); break;
    case 3: give_i64(out, r->state); break;
    case 4: give_i64(out, r->now_us); break;
    case 5: give_i64(out, at->attempts); break;
    case 6: give_i64(out, at->token); break;
    case 7: give_i64(out, at->generation); break;
    default: give_bytes(out, r->rows[row].result);
  }
}

static int put_outcomes(txn *t, const run *r, fp_error *err) {
  given_rows rows = {r->length, r, cell_of_outcome};
  stmt s = stmt_use(&t->d->sql, SQL_OUTCOME_PUT_MANY);
  put_rows(&s, "rows", &rows);
  return stmt_end(&s, err);
}

/* Ids that follow one another go in one stroke. */
static int drop_messages(txn *t, const run *r, fp_error *err) {
  int code = FP_OK;
  for (int32_t i = 0; code == FP_OK && i < r->length;) {
    int64_t low = r->rows[i].at.id, high = low;
    while (++i < r->length && r->rows[i].at.id == high + 1) high++;
    stmt s = stmt_use(&t->d->sql, SQL_MESSAGE_DROP_RANGE);
    put_i64(&s, "low", low);
    put_i64(&s, "high", high);
    code = stmt_end(&s, err);
  }
  return code;
}

static int leave_together(txn *t, const run *r, fp_error *err) {
  int code = drop_rows(t, r, err);
  if (code == FP_OK && r->kept) code = put_outcomes(t, r, err);
  if (code == FP_OK && !r->kept) code = drop_messages(t, r, err);
  for (int32_t i = 0; code == FP_OK && i < r->length; i++) {
    int64_t id = r->rows[i].at.id;
    if (!r->kept) code = txn_drop_progress(t, id, err);
    if (code == FP_OK) code = txn_drop_trouble(t, id, err);
    if (code == FP_OK && !places_drop(t->places, id)) code = err_memory(err);
  }
  txn_count(t, r->head.queue, N_LEASED, -r->length);
  txn_ring(t, r->head.queue);
  if (r->kept) txn_count(t, r->head.queue, N_DONE, r->length);
  return code;
}

int settle_run(txn *t, const fp_settle *all, int32_t first, const char **blob, int32_t *length,
               bool *together, fp_error *err) {
  const policy *p;
  int64_t count = 0;
  run r = measure(t, all, first);
  *length = r.length > 0 ? r.length : 1;
  *together = false;
  if (r.length < RUN_MIN) return FP_OK;
  int code = db_policy(t->d, r.head.queue, &p, err);
  if (code != FP_OK) return code;
  if (!line_trusts(t, p, &r.head)) return FP_OK;
  code = count_rows(t, &r, &count, err);
  if (code != FP_OK || count != r.length) return code;

  r.kept = settle_keeps(p, FP_DONE_LISTED, r.head.life);
  r.state = settle_state(p, FP_DONE_LISTED);
  r.rows = mem_get(r.length * (int64_t)sizeof *r.rows);
  if (r.rows == NULL) return err_memory(err);
  for (int32_t i = 0; i < r.length; i++) {
    fp_verdict v = settle_verdict(all, first + i);
    (void)places_get(t->places, v.id, &r.rows[i].at);
    r.rows[i].result = span_cut(blob, v.result_bytes);
  }
  code = leave_together(t, &r, err);
  mem_free(r.rows);
  *together = code == FP_OK;
  return code;
}
