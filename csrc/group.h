/* Who goes next on the connection. One request at a time has the turn, and each is a transaction
** of its own; later the requests that wait here will share one.
**
** First come, first served, and the keeper's beat in front of all; whoever has just had the turn
** lines up behind those who wait. Waiting is sliced to WAIT_SLICE_MS, and FP_AGAIN names the
** holder. No lock is held when a call returns to the binding, except by an open transaction. */
#ifndef FENCEPOST_GROUP_H
#define FENCEPOST_GROUP_H

#include "store.h"

typedef int (*request)(txn *t, void *argument, fp_error *err);

/* Counts the caller in. FP_FORKED, FP_CLOSED. With an open transaction, it must be its thread's. */
int group_enter(fp_store *store, fp_tx *tx, fp_error *err);
/* The same, to end a transaction. *own false: its own thread is through with it, or gone. */
int group_enter_last(fp_tx *tx, bool *own, fp_error *err);
void group_leave(fp_store *store);

/* Runs the request in the caller's transaction, or in one of its own. `what` names it to others. */
int group_run(fp_store *store, fp_tx *tx, const char *what, request run, void *argument,
              fp_error *err);
int group_run_first(fp_store *store, const char *what, request run, void *argument, fp_error *err);
/* Runs a request that only looks: on the reader, or in the caller's transaction. */
int group_look(fp_store *store, fp_tx *tx, request run, void *argument, fp_error *err);

/* The reader itself, for who needs no transaction on it. False: FP_AGAIN. */
bool group_take_reader(fp_store *store, fp_error *err);
void group_give_reader(fp_store *store);

int group_begin(fp_store *store, fp_tx **tx, fp_error *err);
int group_end(fp_tx *tx, bool commit, fp_error *err);

#endif
