#include "given.h"

#include <string.h>

#include "fault.h"

#define POINTER_TYPE "fencepost_given" /* what else is bound as a pointer is none of ours */

typedef struct cursor {
  sqlite3_vtab_cursor base;
  const given_rows *given; /* NULL: no rows */
  int64_t row;
} cursor;

void give_i64(sqlite3_context *out, int64_t value) { sqlite3_result_int64(out, value); }

void give_text(sqlite3_context *out, span value) {
  if (value.at == NULL) return;
  sqlite3_result_text64(out, value.at, (sqlite3_uint64)value.bytes, SQLITE_STATIC, SQLITE_UTF8);
}

void give_bytes(sqlite3_context *out, span value) {
  if (value.at == NULL) return;
  sqlite3_result_blob64(out, value.at, (sqlite3_uint64)value.bytes, SQLITE_STATIC);
}

int given_bind(sqlite3_stmt *statement, int parameter, const given_rows *rows) {
  return sqlite3_bind_pointer(statement, parameter, (void *)(uintptr_t)rows, POINTER_TYPE, NULL);
}

/* ---- what SQLite calls ---- */

static int connect_table(sqlite3 *db, void *unused, int count, const char *const *words,
                         sqlite3_vtab **table, char **message) {
  (void)unused, (void)count, (void)words, (void)message;
  int rc = sqlite3_declare_vtab(db, "CREATE TABLE given (c0, c1, c2, c3, c4, c5, c6, c7, c8, c9,"
                                    " c10, c11, rows HIDDEN)");
  if (rc != SQLITE_OK) return rc;
  *table = sqlite3_malloc64(sizeof **table);
  if (*table == NULL) return SQLITE_NOMEM;
  memset(*table, 0, sizeof **table);
  return SQLITE_OK;
}

static int disconnect_table(sqlite3_vtab *table) {
  sqlite3_free(table);
  return SQLITE_OK;
}

/* There is one plan: all the rows of the argument. */
static int plan(sqlite3_vtab *table, sqlite3_index_info *info) {
  (void)table;
  for (int i = 0; i < info->nConstraint; i++) {
    if (info->aConstraint[i].iColumn != GIVEN_COLUMNS || !info->aConstraint[i].usable) continue;
    info->aConstraintUsage[i].argvIndex = 1;
    info->aConstraintUsage[i].omit = 1;
    info->estimatedCost = 1;
    return SQLITE_OK;
  }
  return SQLITE_CONSTRAINT;
}

static int open_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **out) {
  (void)table;
  cursor *c = sqlite3_malloc64(sizeof *c);
  if (c == NULL) return SQLITE_NOMEM;
  *c = (cursor){.row = 0};
  *out = &c->base;
  return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
  sqlite3_free(base);
  return SQLITE_OK;
}

static int first_row(sqlite3_vtab_cursor *base, int number, const char *text, int count,
                     sqlite3_value **arguments) {
  (void)number, (void)text;
  cursor *c = (cursor *)base;
  c->given = count == 1 ? sqlite3_value_pointer(arguments[0], POINTER_TYPE) : NULL;
  c->row = 0;
  return SQLITE_OK;
}

static int next_row(sqlite3_vtab_cursor *base) {
  ((cursor *)base)->row++;
  return SQLITE_OK;
}

static int no_row(sqlite3_vtab_cursor *base) {
  const cursor *c = (const cursor *)base;
  return c->given == NULL || c->row >= c->given->count;
}

static int column_of_row(sqlite3_vtab_cursor *base, sqlite3_context *out, int column) {
  const cursor *c = (const cursor *)base;
  if (column < GIVEN_COLUMNS) c->given->cell(c->given, c->row, column, out);
  return SQLITE_OK;
}

static int number_of_row(sqlite3_vtab_cursor *base, sqlite3_int64 *number) {
  *number = ((const cursor *)base)->row;
  return SQLITE_OK;
}

int given_install(sqlite3 *db) {
  static const sqlite3_module module = {
      .xConnect = connect_table, .xBestIndex = plan,       .xDisconnect = disconnect_table,
      .xOpen = open_cursor,      .xClose = close_cursor,   .xFilter = first_row,
      .xNext = next_row,         .xEof = no_row,           .xColumn = column_of_row,
      .xRowid = number_of_row,
  };
  return sqlite3_create_module(db, "fencepost_given", &module, NULL);
}
