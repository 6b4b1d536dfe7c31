#include "listing.h"

#include "line.h"

void listing_read_line(stmt *s, entry *e) {
  *e = (entry){.settled_at = -1};
  e->turn = get_i64(s, "turn");
  e->due = get_i64(s, "due_at");
  e->id = get_i64(s, "id");
  e->attempts = get_i64(s, "attempts");
  e->state = get_i64(s, "stage");
  e->generation = get_i64(s, "generation");
  bool missing = get_null(s);
  e->queue = get_i64(s, "queue");
  e->kind = get_i64(s, "kind");
  e->enqueued_at = get_i64(s, "enqueued_at");
  int64_t first_due = get_i64(s, "due");
  e->life = get_i64(s, "life");
  e->key = get_text(s, "key");
  e->lane = get_text(s, "lane");
  e->failure_kind = get_text(s, "failure_kind");
  e->failure_code = get_text(s, "failure_code");
  e->failure_text = get_text(s, "failure_text");
  if (e->turn < 0) {
    e->state = FP_WAITING;
    e->due = first_due;
  } else if (line_state(e->turn, e->due, e->state) == N_WAITING) {
    e->state = FP_WAITING;
    e->due = -1;
  }
  if (missing) e->enqueued_at = -1;
  if (missing && e->turn > 0) e->queue = e->turn >> 8;
}

void listing_read_outcome(stmt *s, txn *t, int64_t id, bool *found, entry *e) {
  *s = stmt_use(&t->d->sql, SQL_LIST_OUTCOME);
  put_i64(s, "id", id);
  *found = stmt_row(s);
  if (!*found) return;
  *e = (entry){.due = -1};
  e->id = get_i64(s, "id");
  e->queue = get_i64(s, "queue");
  e->kind = get_i64(s, "kind");
  e->state = get_i64(s, "state");
  e->settled_at = get_i64(s, "settled_at");
  e->attempts = get_i64(s, "attempts");
  e->generation = get_i64(s, "generation");
  e->failure_kind = get_text(s, "failure_kind");
  e->failure_code = get_text(s, "failure_code");
  e->failure_text = get_text(s, "failure_text");
  bool missing = get_null(s);
  e->enqueued_at = get_i64(s, "enqueued_at");
  if (missing) e->enqueued_at = -1;
  e->life = get_i64(s, "life");
  e->key = get_text(s, "key");
  e->lane = get_text(s, "lane");
}

static void pack_entry(pack *p, const entry *e) {
  pack_i64(p, e->id);
  pack_i64(p, e->queue);
  pack_i64(p, e->kind);
  pack_i64(p, e->state);
  pack_i64(p, e->attempts);
  pack_i64(p, e->generation);
  pack_i64(p, e->enqueued_at);
  pack_i64(p, e->settled_at);
  pack_i64(p, e->due);
  pack_i64(p, e->life);
  pack_part(p, e->key);
  pack_part(p, e->lane);
  pack_part(p, e->failure_kind);
  pack_part(p, e->failure_code);
  pack_part(p, e->failure_text);
  pack_i64(p, e->turn);
}

void listing_pack(pack *p, const entry *e) {
  pack_entry(p, e);
  pack_row(p);
}

static int get_in_line(txn *t, const place *at, pack *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_LIST_AT);
  put_i64(&s, "turn", at->turn);
  put_i64(&s, "due_at", at->due_at);
  put_i64(&s, "id", at->id);
  if (stmt_row(&s)) {
    entry e;
    listing_read_line(&s, &e);
    listing_pack(p, &e);
  }
  return stmt_end(&s, err);
}

int listing_get(txn *t, int64_t id, pack *p, fp_error *err) {
  place at;
  bool found;
  int code = line_locate(t, id, &found, &at, err);
  if (code != FP_OK) return code;
  if (found) return get_in_line(t, &at, p, err);

  stmt s;
  entry e;
  listing_read_outcome(&s, t, id, &found, &e);
  if (found) listing_pack(p, &e);
  return stmt_end(&s, err);
}

int listing_by_key(txn *t, int64_t queue, int64_t kind, int32_t life, span key, pack *p,
                   fp_error *err) {
  int64_t id = 0;
  stmt s = stmt_use(&t->d->sql, SQL_KEY_GET);
  put_i64(&s, "queue", queue);
  put_i64(&s, "kind", kind);
  put_i64(&s, "life", life);
  put_text(&s, "key", key);
  if (stmt_row(&s)) id = get_i64(&s, "id");
  int code = stmt_end(&s, err);
  if (code != FP_OK || id == 0) return code;
  return listing_get(t, id, p, err);
}

int listing_content(txn *t, int64_t id, pack *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_CONTENT);
  put_i64(&s, "id", id);
  bool found = stmt_row(&s);
  if (found) {
    pack_part(p, get_bytes(&s, "body"));
    pack_part(p, get_bytes(&s, "headers"));
    pack_part(p, get_bytes(&s, "result"));
    pack_part(p, get_bytes(&s, "value"));
    pack_row(p);
  }
  int code = stmt_end(&s, err);
  if (code == FP_OK && !found) {
    code = err_set(err, FP_GONE, "message %lld is not in this file (any more)", (long long)id);
  }
  return code;
}

static int pack_ended(txn *t, int64_t id, pack *p, fp_error *err) {
  stmt s;
  entry e;
  bool found;
  listing_read_outcome(&s, t, id, &found, &e);
  if (!found) e = (entry){.id = id, .state = LISTING_GONE};
  pack_entry(p, &e);
  int code = stmt_end(&s, err);
  if (code != FP_OK) return code;
  s = stmt_use(&t->d->sql, SQL_RESULT);
  put_i64(&s, "id", id);
  pack_part(p, stmt_row(&s) ? get_bytes(&s, "result") : NO_SPAN);
  pack_row(p);
  return stmt_end(&s, err);
}

int listing_ended(txn *t, int64_t id, int64_t *queue, pack *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_FATE);
  put_i64(&s, "id", id);
  bool in_line = false;
  if (stmt_row(&s)) {
    *queue = get_i64(&s, "queue");
    in_line = get_null(&s);
    (void)get_i64(&s, "state");
  }
  int code = stmt_end(&s, err);
  return code != FP_OK || in_line ? code : pack_ended(t, id, p, err);
}
