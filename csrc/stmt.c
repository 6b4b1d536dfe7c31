#include "stmt.h"

#include <string.h>

#include "fault.h"

#define X(name, text) #name,
const char *const sql_name[SQL_COUNT] = {SQL_LIST};
#undef X
#define X(name, text) text,
const char *const sql_text[SQL_COUNT] = {SQL_LIST};
#undef X

void stmts_close(stmts *set) {
  for (int i = 0; i < SQL_COUNT; i++) {
    (void)sqlite3_finalize(set->handle[i]);
    set->handle[i] = NULL;
  }
}

stmt stmt_use(stmts *set, int id) {
  assert(id >= 0 && id < SQL_COUNT);
  stmt s = {.set = set, .id = id, .rc = SQLITE_OK, .parameter = 1, .column = 0};
  if (set->handle[id] == NULL) {
    s.rc = sqlite3_prepare_v3(set->db, sql_text[id], -1, SQLITE_PREPARE_PERSISTENT,
                              &set->handle[id], NULL);
  }
  s.handle = set->handle[id];
  assert(!sqlite3_stmt_busy(s.handle)); /* nobody is in the middle of it */
  return s;
}

/* The names in the code and the names in the SQL must not drift apart. */
static void check_parameter(const stmt *s, const char *name) {
#ifdef FENCEPOST_TEST
  const char *declared = sqlite3_bind_parameter_name(s->handle, s->parameter);
  assert(declared != NULL && strcmp(declared + 1, name) == 0);
#endif
  (void)s;
  (void)name;
}

static void check_column(const stmt *s, const char *name) {
#ifdef FENCEPOST_TEST
  const char *declared = sqlite3_column_name(s->handle, s->column);
  assert(declared == NULL || strcmp(declared, name) == 0);
#endif
  (void)s;
  (void)name;
}

void put_i64(stmt *s, const char *name, int64_t value) {
  if (s->rc != SQLITE_OK) return;
  check_parameter(s, name);
  s->rc = sqlite3_bind_int64(s->handle, s->parameter++, value);
}

void put_text(stmt *s, const char *name, span value) {
  if (s->rc != SQLITE_OK) return;
  check_parameter(s, name);
  assert(value.bytes >= 0); /* or SQLite would look for a NUL */
  s->borrowed = true;
  s->rc = sqlite3_bind_text64(s->handle, s->parameter++, value.at, (sqlite3_uint64)value.bytes,
                              SQLITE_STATIC, SQLITE_UTF8);
}

void put_bytes(stmt *s, const char *name, span value) {
  if (s->rc != SQLITE_OK) return;
  check_parameter(s, name);
  assert(value.bytes >= 0);
  s->borrowed = true;
  int at = s->parameter++;
  if (value.at != NULL && value.bytes == 0) {
    s->rc = sqlite3_bind_zeroblob(s->handle, at, 0);
  } else {
    s->rc = sqlite3_bind_blob64(s->handle, at, value.at, (sqlite3_uint64)value.bytes,
                                SQLITE_STATIC);
  }
}

void put_rows(stmt *s, const char *name, const given_rows *rows) {
  if (s->rc != SQLITE_OK) return;
  check_parameter(s, name);
  s->borrowed = true;
  s->rc = given_bind(s->handle, s->parameter++, rows);
}

bool stmt_row(stmt *s) {
  if (s->rc != SQLITE_OK && s->rc != SQLITE_ROW) return false;
  assert(s->parameter == sqlite3_bind_parameter_count(s->handle) + 1);
  int fault = fault_step(sql_name[s->id]);
  if (fault != 0) {
    s->rc = fault;
    return false;
  }
  if (s->rc == SQLITE_OK && !sqlite3_stmt_readonly(s->handle)) {
    assert(s->id == SQL_BEGIN || !sqlite3_get_autocommit(s->set->db)); /* no commit of its own */
    s->set->writes++;
  }
  s->rc = sqlite3_step(s->handle);
  s->column = 0;
  return s->rc == SQLITE_ROW;
}

int64_t get_i64(stmt *s, const char *name) {
  check_column(s, name);
  return sqlite3_column_int64(s->handle, s->column++);
}

int64_t get_count(stmt *s, const char *name) {
  int64_t count = get_i64(s, name);
  return count < 0 ? 0 : count > COUNTER_MAX ? COUNTER_MAX : count;
}

int64_t get_moment(stmt *s, const char *name) {
  int64_t moment = get_i64(s, name);
  return moment < 0 ? 0 : moment > NEVER_US ? NEVER_US : moment;
}

bool get_null(stmt *s) { return sqlite3_column_type(s->handle, s->column) == SQLITE_NULL; }

bool get_is_text(stmt *s) { return sqlite3_column_type(s->handle, s->column) == SQLITE_TEXT; }

/* `text` converts where the file is UTF-16; the length must be asked for after that. */
static span column_of(stmt *s, const char *name, bool text) {
  check_column(s, name);
  int at = s->column++;
  if (sqlite3_column_type(s->handle, at) == SQLITE_NULL) return NO_SPAN;
  const char *bytes = text ? (const char *)sqlite3_column_text(s->handle, at)
                           : sqlite3_column_blob(s->handle, at);
  int length = sqlite3_column_bytes(s->handle, at);
  if (bytes == NULL && length > 0) s->rc = SQLITE_NOMEM;
  if (bytes == NULL) return (span){"", 0};
  return (span){bytes, length};
}

span get_text(stmt *s, const char *name) { return column_of(s, name, true); }
span get_bytes(stmt *s, const char *name) { return column_of(s, name, false); }

int stmt_end(stmt *s, fp_error *err) {
  int code = FP_OK;
  if (s->rc == SQLITE_OK) (void)stmt_row(s);
  if (s->rc != SQLITE_ROW && s->rc != SQLITE_DONE) {
    code = err_from_db(err, s->set->db, s->rc, sql_name[s->id]);
  }
  if (s->handle == NULL) return code;

  /* A row can be handed out by a statement that goes on to fail: look at reset, too. */
  int reset_rc = sqlite3_reset(s->handle);
  if (code == FP_OK && reset_rc != SQLITE_OK) {
    code = err_from_db(err, s->set->db, reset_rc, sql_name[s->id]);
  }
  if (s->borrowed) (void)sqlite3_clear_bindings(s->handle);
  return code;
}

int stmt_changes(stmt *s, int *changed, fp_error *err) {
  int code = stmt_end(s, err);
  *changed = code == FP_OK ? sqlite3_changes(s->set->db) : 0;
  return code;
}

#ifdef FENCEPOST_TEST
int32_t fp_sql_count(void) { return SQL_COUNT; }
const char *fp_sql_name(int32_t index) { return sql_name[index]; }
const char *fp_sql_text(int32_t index) { return sql_text[index]; }
#endif
