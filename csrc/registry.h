/* The registry: which handles hold claims, and whether their processes live.
**
**   1. A handle that claims has a row in fencepost_worker, put there in the transaction of its
**      first claim, and its process holds the lock on the row's byte of the file (locks.h): taken
**      before the row is there, dropped when it is gone. The kernel drops it when the process ends,
**      however it ends. So a row whose byte nobody holds is that of a dead worker; neither its pid,
**      nor its name, nor any clock is asked, and whoever has the same ones later is another worker.
**   2. A worker's number is drawn from the file's counter, and never comes again.
**   3. A handle that is closed has not died: its row goes, and what it still holds is everybody's
**      at the end of its lease, as ever.
**
** Where the locks tell nothing (a system without them, a network file system) nobody is registered,
** nobody is looked for, and the lease alone decides. */
#ifndef FENCEPOST_REGISTRY_H
#define FENCEPOST_REGISTRY_H

#include "txn.h"

/* How far along the line a walk has come. */
typedef struct reach {
  int64_t turn, due_at, id;
} reach;

/* A worker, as another handle knows it. */
typedef struct peer {
  int64_t number;
  reach walked; /* while it is taken over from; turn 0: not begun */
} peer;

typedef struct peers {
  peer *list; /* by number */
  int64_t count, room;
} peers;

/* Who is registered, as a handle knows it. */
typedef struct roster {
  /* Guarded by the handle's gate: */
  bool looking;     /* a thread is at it */
  bool needed;      /* there is somebody to look after */
  int64_t next_us;  /* no look before that, on the clock of sys_awake_us */
  /* Of the thread that is at it: */
  peers known, fresh; /* at `version`; what is just being read */
  int64_t version;
  bool read;
  int64_t served;   /* the worker that was taken over from last */
} roster;

/* The writer's connection has been opened: can its handle be registered? */
void registry_open(db *d, const fp_options *options);
/* The number of the handle that claims, which is registered if it was not yet; 0: it cannot be. */
int registry_enrol(txn *t, int64_t *worker, fp_error *err);
/* A request: the handle's row goes. */
int registry_strike(txn *t, void *unused, fp_error *err);
/* Its byte goes: whoever finds the row all the same, finds a dead worker's. */
void registry_drop(db *d);

/* A request of a reader: all who are registered. */
int registry_read(txn *t, void *peers_argument, fp_error *err);
int registry_has(txn *t, int64_t worker, bool *has, fp_error *err);
void roster_free(roster *r);

#endif
