#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void err_clear(fp_error *err) {
  err->code = FP_OK;
  err->sqlite_code = 0;
  err->id = 0;
  err->statement[0] = 0;
  err->message[0] = 0;
}

/* What is quoted may be of many lines, or none of text. */
static void one_line(char *words) {
  for (; *words != 0; words++) {
    if ((unsigned char)*words < ' ' || *words == 0x7F) *words = ' ';
  }
}

int err_set(fp_error *err, int code, const char *format, ...) {
  if (err->code != FP_OK) return err->code;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(err->message, sizeof err->message, format, arguments);
  va_end(arguments);
  one_line(err->message);
  err->code = code;
  return code;
}

/* What a caller can do about it decides the code, not what went wrong inside SQLite. */
int err_code_of(int sqlite_rc) {
  switch (sqlite_rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return FP_OK;
    case SQLITE_BUSY: return FP_AGAIN;
    case SQLITE_LOCKED: return FP_BUSY;
    default: return FP_STORAGE;
  }
}

int err_from_db(fp_error *err, sqlite3 *db, int rc, const char *what) {
  if (err->code != FP_OK) return err->code;
  bool its_own = db != NULL && (sqlite3_errcode(db) & 0xff) == (rc & 0xff);
  int extended = its_own ? sqlite3_extended_errcode(db) : rc;
  const char *words = its_own ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
  if ((rc & 0xff) == SQLITE_CANTOPEN && its_own && sqlite3_system_errno(db) == ENOMEM) {
    words = sqlite3_errstr(SQLITE_NOMEM); /* it could have been opened, had there been memory */
  }
  (void)snprintf(err->message, sizeof err->message, "%s", words);
  one_line(err->message);
  (void)snprintf(err->statement, sizeof err->statement, "%s", what);
  err->sqlite_code = extended;
  err->code = err_code_of(rc);
  return err->code;
}

int err_memory(fp_error *err) {
  err->sqlite_code = SQLITE_NOMEM;
  return err_set(err, FP_STORAGE, "out of memory");
}
