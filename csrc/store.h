/* A handle, and the two connections behind it: one that writes, one that only looks. */
#ifndef FENCEPOST_STORE_H
#define FENCEPOST_STORE_H

#include "retain.h"
#include "sys.h"
#include "txn.h"

/* A call that waits for its turn. */
typedef struct waiter {
  struct waiter *next;
} waiter;

struct fp_store {
  fp_options options;  /* options.path is ours */
  int64_t generation;  /* of the process that opened it: a forked child must not touch it */

  sys_cond gate;       /* guards what follows, to the ruler */
  int32_t users;       /* calls under way and open transactions */
  bool closing, closed;
  bool writing;        /* somebody has the turn */
  pthread_t writer_thread;
  int64_t writer_since_us;
  const char *writer_what; /* in words that stay */
  waiter *waiters;     /* for the turn, in line */
  int64_t vain_since_us, vain_until_us; /* a turn is wanted, and did not come; 0: it came */
  bool reading;        /* somebody has the reader */
  fp_tx *open;         /* the caller's transaction, while one is open */
  retention retention; /* how far its rounds have come */
  /* -------------------------------------------------- */

  db writer;           /* of whoever has the turn, with all that follows */
  store_clock clock;
  places places;
  bool guest;          /* the authorizer judges: the caller's own SQL is at work */
  char denied[160];    /* what the authorizer did not allow */
  bool goes_back, inserts; /* what it saw of the statement: ROLLBACK TO, INSERT */

  db reader;           /* of whoever has `reading`, with what follows */
  int64_t purge_walked; /* how far purges have walked */
};

struct fp_tx {
  fp_store *store;
  txn txn;
  pthread_t owner;
  bool busy;           /* its owner is in a call; guarded by the gate */
  bool dead;           /* rolled back by a failure: only fp_tx_end is left */
  fp_guest *guests;    /* prepared in it, closed with it by guest_close_all */
  int64_t rowid;       /* what last_insert_rowid() says to the caller's own SQL */
};

#endif
