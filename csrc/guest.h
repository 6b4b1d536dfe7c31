/* The caller's own SQL, inside the caller's own transaction (fp_tx). It runs on our connection, so
** that its rows and our messages land in one commit, and it is a guest there:
**
**   1. It begins and ends no transaction, attaches nothing, sets no PRAGMA of the connection.
**      SAVEPOINT is its own.
**   2. It reads our tables and writes none of them, not through a trigger either, and puts nothing
**      in their place.
**   3. What goes wrong in it is its own: the statement is undone, the transaction goes on, unless
**      SQLite itself had to roll it back, or the answer to a write is lost for want of memory. Then
**      the transaction is dead, and says so.
**   4. last_insert_rowid() speaks of its own rows, whatever we insert in between.
**
** An authorizer on the writing connection holds 1 and 2. It judges only while `store->guest` is
** set, which is around prepare and step: SQLite asks again when a changed schema makes it prepare
** a statement anew. Of several parameter sets, those before a failing one stay, as they would
** anywhere: a savepoint undoes them. */
#ifndef FENCEPOST_GUEST_H
#define FENCEPOST_GUEST_H

#include "pack.h"
#include "store.h"

/* Once, on the writing connection of an opened store. */
int guest_install(fp_store *store, fp_error *err);

/* A statement prepared in `tx`, to be given back with guest_close also after the transaction's end.
** FP_INVALID: not one statement, or not allowed. FP_CONSTRAINT: SQLite's own words. */
int guest_open(fp_tx *tx, span sql, fp_guest **guest, fp_error *err);
void guest_close(fp_guest *guest);
fp_tx *guest_tx(const fp_guest *guest); /* NULL: it is over */
int32_t guest_columns(const fp_guest *guest);

/* Runs it once for each of `sets` sets of packed values (fencepost.h); its rows' values go to *p as
** they come. *last_rowid 0: it inserted nothing. */
int guest_run(fp_guest *guest, int32_t sets, span params, pack *p, int64_t *changed,
              int64_t *last_rowid, fp_error *err);

/* At the end of a transaction: its statements go. Their handles stay the caller's to close. */
void guest_close_all(fp_tx *tx);

#endif
