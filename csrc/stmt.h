/* Prepared statements: use, put, row, get, end.
**
** A set belongs to one connection and prepares each statement at its first use. A failure inside
** a `stmt` turns its later beats into no-ops, so code reads straight down: stmt_end tells. put_ and
** get_ go in the order of the SQL and say the names; the test build compares them. */
#ifndef FENCEPOST_STMT_H
#define FENCEPOST_STMT_H

#include "err.h"
#include "given.h"
#include "sql.h"

typedef struct stmts {
  sqlite3 *db;
  int64_t writes; /* steps of statements that may write: has this request written yet? */
  sqlite3_stmt *handle[SQL_COUNT];
} stmts;

typedef struct stmt {
  stmts *set;
  sqlite3_stmt *handle;
  int id;
  int rc;
  int parameter; /* the next to put */
  int column;    /* the next to get */
  bool borrowed; /* text or bytes were put, which die with this use */
} stmt;

extern const char *const sql_name[SQL_COUNT];
extern const char *const sql_text[SQL_COUNT];

void stmts_close(stmts *set);

stmt stmt_use(stmts *set, int id);
void put_i64(stmt *s, const char *name, int64_t value);
void put_text(stmt *s, const char *name, span value);  /* at NULL: NULL; borrowed until stmt_end */
void put_bytes(stmt *s, const char *name, span value); /* the same, as a BLOB */
void put_rows(stmt *s, const char *name, const given_rows *rows); /* borrowed until stmt_end */
bool stmt_row(stmt *s);                                /* one step; true: a row is there */
int64_t get_i64(stmt *s, const char *name);
/* The same of what is counted up (never below 0), and of a moment: what is damaged is at least no
** number that cannot be reckoned with. */
int64_t get_count(stmt *s, const char *name);
int64_t get_moment(stmt *s, const char *name);
bool get_null(stmt *s);                                /* is the next column NULL? moves nothing */
bool get_is_text(stmt *s);                             /* is it text? the same */
span get_text(stmt *s, const char *name);              /* UTF-8; until its next step */
span get_bytes(stmt *s, const char *name);             /* the same, of a BLOB */
/* Steps to the end, if it was not stepped yet; resets. */
int stmt_end(stmt *s, fp_error *err);
/* The same, and how many rows it changed. */
int stmt_changes(stmt *s, int *changed, fp_error *err);

#endif
