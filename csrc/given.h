/* Rows that C holds, as a table: INSERT … SELECT c0, c1, … FROM fencepost_given(:rows).
**
** One statement writes a whole batch, so that nothing is bound, begun and reset for each row: a
** third of what the row costs. The table is one of our connections, never of the file, and empty
** for whoever has no rows of this kind to give it. */
#ifndef FENCEPOST_GIVEN_H
#define FENCEPOST_GIVEN_H

#include <sqlite3.h>

#include "base.h"

enum { GIVEN_COLUMNS = 12 }; /* c0 to c11 */

typedef struct given_rows given_rows;
struct given_rows {
  int64_t count;
  const void *rows; /* as `cell` knows them; they must not move while the statement runs */
  void (*cell)(const given_rows *g, int64_t row, int column, sqlite3_context *out);
};

/* For `cell`: the value of one column, once; none is NULL. Text and bytes are borrowed. */
void give_i64(sqlite3_context *out, int64_t value);
void give_text(sqlite3_context *out, span value);
void give_bytes(sqlite3_context *out, span value);

/* Makes the table known to a connection; a result code of SQLite. */
int given_install(sqlite3 *db);
/* Binds rows to a parameter; a result code of SQLite. They are borrowed until it is cleared. */
int given_bind(sqlite3_stmt *statement, int parameter, const given_rows *rows);

#endif
