#include "key.h"

#include <string.h>

static int put(txn *t, const keyed *k, int64_t id, bool *won, fp_error *err) {
  int changed;
  stmt s = stmt_use(&t->d->sql, SQL_KEY_PUT);
  put_i64(&s, "queue", k->queue);
  put_i64(&s, "kind", k->kind);
  put_i64(&s, "life", k->life);
  put_text(&s, "key", k->key);
  put_i64(&s, "id", id);
  put_bytes(&s, "digest", k->digest);
  int code = stmt_changes(&s, &changed, err);
  *won = changed == 1;
  return code;
}

int key_move(txn *t, const keyed *k, int64_t id, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_KEY_SET);
  put_i64(&s, "id", id);
  put_bytes(&s, "digest", k->digest);
  put_i64(&s, "queue", k->queue);
  put_i64(&s, "kind", k->kind);
  put_i64(&s, "life", k->life);
  put_text(&s, "key", k->key);
  return stmt_end(&s, err);
}

static int same_message(txn *t, const keyed *k, int64_t id, bool *equal, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_MESSAGE_SAME);
  put_i64(&s, "id", id);
  put_bytes(&s, "body", k->body);
  put_bytes(&s, "headers", k->headers);
  *equal = stmt_row(&s);
  return stmt_end(&s, err);
}

int key_take(txn *t, const keyed *k, int64_t id, int64_t *owner, bool *equal, fp_error *err) {
  bool won, digested = false, expired = false, damaged = true;
  *owner = id;
  *equal = false;
  int code = put(t, k, id, &won, err);
  if (code != FP_OK || won) return code;

  stmt s = stmt_use(&t->d->sql, SQL_KEY_GET);
  put_i64(&s, "queue", k->queue);
  put_i64(&s, "kind", k->kind);
  put_i64(&s, "life", k->life);
  put_text(&s, "key", k->key);
  if (stmt_row(&s)) {
    damaged = false;
    *owner = get_i64(&s, "id");
    span digest = get_bytes(&s, "digest");
    digested = digest.at != NULL && k->digest.at != NULL;
    *equal = digested && digest.bytes == k->digest.bytes &&
             memcmp(digest.at, k->digest.at, (size_t)digest.bytes) == 0;
    expired = !get_null(&s) && get_i64(&s, "until") <= t->now_us;
  }
  code = stmt_end(&s, err);
  if (code == FP_OK && damaged) {
    code = err_set(err, FP_STORAGE, "a key is taken and yet not there: fencepost_key is damaged");
  }
  if (code == FP_OK && expired) {
    *owner = id;
    return key_move(t, k, id, err);
  }
  if (code == FP_OK && !digested) code = same_message(t, k, *owner, equal, err);
  return code;
}

int key_free(txn *t, int64_t queue, int64_t kind, int64_t life, span key, int64_t id,
             fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_KEY_DROP);
  put_i64(&s, "queue", queue);
  put_i64(&s, "kind", kind);
  put_i64(&s, "life", life);
  put_text(&s, "key", key);
  put_i64(&s, "id", id);
  return stmt_end(&s, err);
}

int key_owner(txn *t, int64_t queue, int64_t kind, int64_t life, span key, int64_t *owner,
              fp_error *err) {
  *owner = 0;
  stmt s = stmt_use(&t->d->sql, SQL_KEY_GET);
  put_i64(&s, "queue", queue);
  put_i64(&s, "kind", kind);
  put_i64(&s, "life", life);
  put_text(&s, "key", key);
  if (stmt_row(&s)) {
    int64_t id = get_i64(&s, "id");
    (void)get_bytes(&s, "digest");
    if (get_null(&s) || get_i64(&s, "until") > t->now_us) *owner = id;
  }
  return stmt_end(&s, err);
}
