/* Every statement, once, with its name and its parameters: X(NAME, "text").
**
** From the lists come the enum, the texts and the names in error messages, so they cannot drift.
** The tests read the same lists: each entry is EXPLAINed and run on 100,000 rows with its VM steps
** counted. No SQL is assembled at run time. Parameters are numbered by first appearance. */
#ifndef FENCEPOST_SQL_H
#define FENCEPOST_SQL_H

#include "sql_flow.h"
#include "sql_line.h"
#include "sql_look.h"
#include "sql_shelf.h"
#include "sql_store.h"

#define SQL_LIST                                                                                \
  SQL_STORE_LIST SQL_LINE_LIST SQL_LOOK_LIST SQL_SHELF_LIST SQL_FLOW_LIST

#define X(name, text) SQL_##name,
enum { SQL_LIST SQL_COUNT };
#undef X

#endif
