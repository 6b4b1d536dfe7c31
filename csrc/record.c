#include "record.h"

#include <stdio.h>
#include <string.h>

#include "fault.h"

enum { RECORD_PAGE_BYTES = SMALL(16777216, 64) }; /* where a page ends, too */

static bool begins(span text, span with) {
  return text.bytes >= with.bytes && memcmp(text.at, with.at, (size_t)with.bytes) == 0;
}

bool record_reserved(span key) {
  return begins(key, RECORD_INBOX) || begins(key, RECORD_CHILD) || begins(key, RECORD_PARENT);
}

int record_put(txn *t, const record *r, bool *first, fp_error *err) {
  int changed;
  stmt s = stmt_use(&t->d->sql, SQL_RECORD_PUT);
  put_text(&s, "workflow", r->workflow);
  put_i64(&s, "seq", t->d->head.last + 1);
  put_text(&s, "key", r->key);
  put_i64(&s, "kind", r->kind);
  put_bytes(&s, "value", r->value);
  put_i64(&s, "started_at", r->started_us);
  put_i64(&s, "written_at", t->now_us);
  int code = stmt_changes(&s, &changed, err);
  *first = changed == 1;
  if (code == FP_OK && *first) (void)txn_draw(t, 1);
  return code;
}

/* The row of a key; to be ended by the caller. */
static stmt use_row(txn *t, span workflow, span key, bool *found) {
  stmt s = stmt_use(&t->d->sql, SQL_RECORD_GET);
  put_text(&s, "workflow", workflow);
  put_text(&s, "key", key);
  *found = stmt_row(&s);
  return s;
}

int record_stored(txn *t, const record *r, bool *same, pack *p, fp_error *err) {
  bool found;
  *same = false;
  stmt s = use_row(t, r->workflow, r->key, &found);
  if (found) {
    (void)get_i64(&s, "seq");
    (void)get_i64(&s, "kind");
    span value = get_bytes(&s, "value");
    bool nothing = value.at == NULL || r->value.at == NULL;
    *same = nothing ? value.at == r->value.at
                    : value.bytes == r->value.bytes &&
                          memcmp(value.at, r->value.at, (size_t)value.bytes) == 0;
    if (!*same) pack_part(p, value);
  }
  int code = stmt_end(&s, err);
  if (code == FP_OK && !found) {
    code = err_set(err, FP_STORAGE, "a record is there and yet not: fencepost_record is damaged");
  }
  return code;
}

int record_append(txn *t, span workflow, span value, char key[RECORD_INBOX_BYTES], fp_error *err) {
  char text[RECORD_INBOX_BYTES + 1];
  bool first = false;
  (void)snprintf(text, sizeof text, "inbox:%020lld", (long long)t->d->head.last + 1);
  memcpy(key, text, RECORD_INBOX_BYTES);
  record r = {.workflow = workflow, .key = {key, RECORD_INBOX_BYTES}, .value = value,
              .kind = FP_RECORD_INBOX, .started_us = -1};
  int code = record_put(t, &r, &first, err);
  if (code == FP_OK && !first) {
    code = err_set(err, FP_STORAGE, "the inbox has an entry of a number that was not given out");
  }
  return code;
}

int record_find(txn *t, span workflow, span key, pack *p, fp_error *err) {
  bool found;
  stmt s = use_row(t, workflow, key, &found);
  if (found) {
    (void)get_i64(&s, "seq");
    (void)get_i64(&s, "kind");
    pack_part(p, get_bytes(&s, "value"));
    pack_row(p);
  }
  return stmt_end(&s, err);
}

int record_seq(txn *t, span workflow, span key, int64_t *seq, fp_error *err) {
  bool found;
  stmt s = use_row(t, workflow, key, &found);
  *seq = found ? get_i64(&s, "seq") : 0;
  return stmt_end(&s, err);
}

static bool shown(int64_t kind) { return kind <= FP_RECORD_SHOWN_MAX; }

int record_page(txn *t, span workflow, int64_t after, int32_t limit, pack *p, bool *more,
                fp_error *err) {
  *more = false;
  stmt s = stmt_use(&t->d->sql, SQL_RECORD_PAGE);
  put_text(&s, "workflow", workflow);
  put_i64(&s, "seq", after);
  while (stmt_row(&s)) {
    int64_t seq = get_i64(&s, "seq");
    span key = get_text(&s, "key");
    int64_t kind = get_i64(&s, "kind");
    if (!shown(kind)) continue;
    *more = p->count == limit || p->blob_used >= RECORD_PAGE_BYTES;
    if (*more) break;
    span value = get_bytes(&s, "value");
    bool said = !get_null(&s);
    int64_t started_us = get_i64(&s, "started_at");
    pack_i64(p, seq);
    pack_i64(p, kind);
    pack_i64(p, said ? started_us : -1);
    pack_i64(p, get_i64(&s, "written_at"));
    pack_part(p, key);
    pack_part(p, value);
    pack_row(p);
  }
  return stmt_end(&s, err);
}

int record_drop(txn *t, span workflow, int64_t seq, int64_t *gone, fp_error *err) {
  int changed;
  stmt s = stmt_use(&t->d->sql, SQL_RECORD_DROP);
  put_text(&s, "workflow", workflow);
  put_i64(&s, "seq", seq);
  int code = stmt_changes(&s, &changed, err);
  *gone = changed;
  return code;
}

int record_drop_some(txn *t, span workflow, int64_t *room, bool *all, fp_error *err) {
  int64_t seq = 0, gone = 0, seen = 0;
  *all = true;
  stmt s = stmt_use(&t->d->sql, SQL_RECORD_PAGE);
  put_text(&s, "workflow", workflow);
  put_i64(&s, "seq", 0);
  while (*all && stmt_row(&s)) {
    *all = seen++ < *room;
    if (*all) seq = get_i64(&s, "seq");
  }
  int code = stmt_end(&s, err);
  if (code == FP_OK && seq > 0) code = record_drop(t, workflow, seq, &gone, err);
  *room -= gone;
  return code;
}

int record_drop_links(txn *t, span workflow, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_RECORD_DROP_LINKS);
  put_text(&s, "workflow", workflow);
  return stmt_end(&s, err);
}

int record_copy(txn *t, span workflow, int64_t seq, span copy, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_RECORD_COPY);
  put_text(&s, "copy", copy);
  put_text(&s, "workflow", workflow);
  put_i64(&s, "seq", seq);
  return stmt_end(&s, err);
}

int record_links(txn *t, span workflow, pack *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_RECORD_LINKS);
  put_text(&s, "workflow", workflow);
  while (stmt_row(&s)) {
    pack_i64(p, get_i64(&s, "kind"));
    pack_part(p, get_bytes(&s, "value"));
    pack_row(p);
  }
  int code = stmt_end(&s, err);
  return code == FP_OK && p->failed ? err_memory(err) : code;
}

int record_link(txn *t, span workflow, span key, int64_t kind, char *into, int64_t room,
                int64_t *bytes, fp_error *err) {
  bool found;
  *bytes = -1;
  stmt s = use_row(t, workflow, key, &found);
  if (found) {
    (void)get_i64(&s, "seq");
    bool link = get_i64(&s, "kind") == kind;
    span value = get_bytes(&s, "value");
    if (link && value.at != NULL && value.bytes <= room) {
      memcpy(into, value.at, (size_t)value.bytes);
      *bytes = value.bytes;
    }
  }
  return stmt_end(&s, err);
}
