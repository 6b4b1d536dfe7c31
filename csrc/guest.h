/* The caller's own SQL, inside the caller's own transaction (fp_tx). It runs on our connection, so
** that its rows and our messages land in one commit, and it is a guest there:
**
**   1. It begins and ends no transaction, attaches nothing, sets no PRAGMA of the connection.
**      SAVEPOINT is its own.
**   2. It reads our tables and writes none of them, not through a trigger either, and puts nothing
**      in their place.
**   3. What goes wrong in it is its own: the statement is undone, the transaction goes on, unless
**      SQLite itself had to roll it back. Then the transaction is dead, and says so.
**   4. last_insert_rowid() speaks of its own rows, whatever we insert in between.
**
** An authorizer on the writing connection holds 1 and 2. It judges only while `store->guest` is
** set, which is around prepare and step: SQLite asks again when a changed schema makes it prepare
** a statement anew. Of several parameter sets, those before a failing one stay, as they would
** anywhere: a savepoint undoes them. */
#ifndef FENCEPOST_GUEST_H
#define FENCEPOST_GUEST_H

#include "store.h"

/* Once, on the writing connection of an opened store. */
int guest_install(fp_store *store, fp_error *err);

/* At the end of a transaction: its statements go. Their handles stay the caller's to close. */
void guest_close_all(fp_tx *tx);

#endif
