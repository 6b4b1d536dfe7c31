/* Who arrives together commits together.
**
** A call lines up for the turn (turn.h). Whoever has it leads: it begins one transaction, runs in
** it its own request and those of the calls behind it, one after the other, commits once, answers
** them all, and hands the turn on.
**
**   1. A request that fails before it has written has done nothing; the others go on without it.
**   2. Where one fails later, or SQLite has rolled back, everything is rolled back, and then each
**      runs alone, in order: only the guilty one fails.
**   3. Nobody is answered before the COMMIT. If that fails, all are told so, unless it certainly
**      did not happen: then each runs alone.
**   4. A transaction of the caller's has the turn for itself.
**
** No lock is held when a call returns to the binding, except by an open transaction. */
#ifndef FENCEPOST_GROUP_H
#define FENCEPOST_GROUP_H

#include "store.h"

enum { ROW_BYTES = 200 }; /* about what a row of ours takes, with its indexes, payload aside */

/* Counts the caller in. FP_FORKED, FP_CLOSED. With an open transaction, it must be its thread's. */
int group_enter(fp_store *store, fp_tx *tx, fp_error *err);
/* The same, to end a transaction. *own false: its own thread is through with it, or gone. */
int group_enter_last(fp_tx *tx, bool *own, fp_error *err);
void group_leave(fp_store *store);

/* Once, on an opened store. */
void group_install(fp_store *store);
/* The connections' end. */
void group_close(fp_store *store);

/* Runs the request in the caller's transaction, or in one that it shares with who else is there.
** `what` names it to others, `bytes` is about what it writes. */
int group_run(fp_store *store, fp_tx *tx, const char *what, int64_t bytes, request run,
              void *argument, fp_error *err);
int group_run_first(fp_store *store, const char *what, int64_t bytes, request run, void *argument,
                    fp_error *err);
/* The same for many requests of one thread, which stand in line side by side: those that are taken
** together are one commit, and each has its own code and words, as if its thread had called alone.
** A code that is answered means that none was run. */
int group_run_all(fp_store *store, waiter *const *calls, int32_t count, fp_error *err);
/* Runs a request that only looks: on the reader, or in the caller's transaction. */
int group_look(fp_store *store, fp_tx *tx, request run, void *argument, fp_error *err);

/* The reader itself, for who needs no transaction on it. False: FP_AGAIN. */
bool group_take_reader(fp_store *store, fp_error *err);
void group_give_reader(fp_store *store);

int group_begin(fp_store *store, fp_tx **tx, fp_error *err);
int group_end(fp_tx *tx, bool commit, fp_error *err);

#endif
