/* A failure keeps its words. fp_error is the caller's struct, never a global or a thread-local:
** SQLite's message belongs to the connection, and the next call may replace it, so it is copied
** at the site. The first error wins: cleanup that fails cannot cover the reason for the cleanup. */
#ifndef FENCEPOST_ERR_H
#define FENCEPOST_ERR_H

#include <sqlite3.h>

#include "base.h"
#include "fencepost.h"

void err_clear(fp_error *err);

/* Writes code and words, unless an error stands there already; answers the code. */
int err_set(fp_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The error that `rc` of a call on `db` stands for, with SQLite's own words and extended code.
** Must come before the next call on the connection. `what` names the statement or the call. */
int err_from_db(fp_error *err, sqlite3 *db, int rc, const char *what);

int err_memory(fp_error *err);

/* The code that an SQLite result stands for; SQLITE_BUSY is FP_AGAIN, since nothing was done. */
int err_code_of(int sqlite_rc);

#endif
