/* What only the hostile build exports: how SQLite means to run a statement, and what it cost. */
#include "fencepost.h"

#ifdef FENCEPOST_TEST

#include <stdio.h>
#include <string.h>

#include "group.h"
#include "orphans.h"
#include "pack.h"

typedef struct explaining {
  int32_t index;
  pack rows;
} explaining;

static int explain(txn *t, void *argument, fp_error *err) {
  enum { DETAIL_COLUMN = 3, TEXT_BYTES = 8192 };
  explaining *e = argument;
  pack_clear(&e->rows);
  sqlite3 *handle = t->d->handle;
  sqlite3_stmt *plan = NULL;
  char text[TEXT_BYTES];
  int length = snprintf(text, sizeof text, "EXPLAIN QUERY PLAN %s", sql_text[e->index]);
  assert(length > 0 && length < TEXT_BYTES);
  int rc = sqlite3_prepare_v2(handle, text, -1, &plan, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(plan);
  while (rc == SQLITE_ROW) {
    const char *detail = (const char *)sqlite3_column_text(plan, DETAIL_COLUMN);
    pack_part(&e->rows, (span){detail, sqlite3_column_bytes(plan, DETAIL_COLUMN)});
    pack_row(&e->rows);
    rc = sqlite3_step(plan);
  }
  int code = rc == SQLITE_DONE ? FP_OK : err_from_db(err, handle, rc, sql_name[e->index]);
  (void)sqlite3_finalize(plan);
  return code;
}

int fp_explain(fp_store *store, int32_t index, fp_rows *rows, fp_error *err) {
  explaining e = {.index = index, .rows = pack_of(1)};
  *rows = (fp_rows){0};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = group_run(store, NULL, "an explanation", 0, explain, &e, err);
  code = pack_take(&e.rows, code, rows, err);
  group_leave(store);
  return code;
}

typedef struct asking {
  const char *sql;
  int64_t *value;
} asking;

static int ask(txn *t, void *argument, fp_error *err) {
  const asking *a = argument;
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(t->d->handle, a->sql, -1, &s, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  *a->value = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
  int code = rc == SQLITE_ROW ? FP_OK : err_from_db(err, t->d->handle, rc, "pragma");
  (void)sqlite3_finalize(s);
  return code;
}

int fp_pragma(fp_store *store, const char *sql, int64_t *value, fp_error *err) {
  asking a = {.sql = sql, .value = value};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = group_run(store, NULL, "a question", 0, ask, &a, err);
  group_leave(store);
  return code;
}

int fp_elsewhere(const char *path, const char *sql, fp_error *err) {
  sqlite3 *handle = NULL;
  err_clear(err);
  int rc = sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(handle, 10000);
  if (rc == SQLITE_OK) rc = sqlite3_exec(handle, sql, NULL, NULL, NULL);
  int code = rc == SQLITE_OK ? FP_OK : err_from_db(err, handle, rc, "elsewhere");
  (void)sqlite3_close(handle);
  return code;
}

void fp_bell(fp_store *store, int64_t counts[8]) {
  bell *b = &store->bell;
  int64_t asleep = 0;
  sys_lock(&b->gate);
  for (const sleeper *s = b->asleep; s != NULL; s = s->next) asleep++;
  memcpy(counts, b->ended, sizeof b->ended);
  counts[BELL_ENDS] = b->late;
  counts[BELL_ENDS + 1] = b->looks;
  counts[BELL_ENDS + 2] = b->alarms;
  counts[BELL_ENDS + 3] = asleep;
  sys_unlock(&b->gate);
}

void fp_die(fp_store *store) { registry_drop(&store->writer); }

void fp_look_no_more(fp_store *store) {
  sys_lock(&store->gate);
  store->roster.next_us = INT64_MAX;
  sys_unlock(&store->gate);
}

int fp_look_after(fp_store *store, int32_t *more, fp_error *err) {
  bool left = false;
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = orphans_look_now(store, &left, err);
  *more = left ? 1 : 0;
  group_leave(store);
  return code;
}

int32_t fp_waiting(fp_store *store) {
  int32_t count = 0;
  sys_lock(&store->gate);
  for (const waiter *w = store->line; w != NULL; w = w->next) count++;
  sys_unlock(&store->gate);
  return count;
}

void fp_group_counts(fp_store *store, int64_t counts[5]) {
  memcpy(counts, store->group_counts, sizeof store->group_counts);
}

int64_t fp_sql_status_of(fp_store *store, int32_t index, int32_t op) {
  sqlite3_stmt *both[] = {store->writer.sql.handle[index], store->reader.sql.handle[index]};
  int64_t sum = 0;
  for (int i = 0; i < 2; i++) sum += both[i] ? sqlite3_stmt_status(both[i], op, 0) : 0;
  return sum;
}

#endif
