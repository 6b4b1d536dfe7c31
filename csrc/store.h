/* A handle, and the two connections behind it: one that writes, one that only looks.
**
** Whose a field is, a ruler in the struct says: the gate guards the first part; the second is of
** whoever has the turn (turn.h) or the reader, and is touched without a lock. */
#ifndef FENCEPOST_STORE_H
#define FENCEPOST_STORE_H

#include "locks.h"
#include "registry.h"
#include "retain.h"
#include "sys.h"
#include "txn.h"

/* A call that wants the turn, on its own thread's stack. */
typedef struct waiter {
  struct waiter *next; /* in line, and in the group that it was taken into */
  sys_word state;      /* TURN_… (turn.h) */
  int64_t asked_us;
  const char *what;    /* in words that stay */
  request run;         /* NULL: it wants the turn for itself */
  void *argument;
  int64_t bytes;       /* about how many it writes */
  fp_error *err;
  int code;            /* its answer */
} waiter;

/* The write-ahead log as this handle sees it (wal.h). */
typedef struct wal_view {
  int32_t pages;         /* in it, after the last commit of ours; of who has the turn */
  _Atomic int32_t next;  /* so many, and it is copied again */
  _Atomic bool finish;   /* but for the newest pages all is copied */
  _Atomic bool copying;  /* a thread of ours has the copier */
  int32_t reached;       /* so far it was copied when it was to begin anew; as `pages`, and: */
  int64_t tried_us, apart_us; /* when that was, and how long it is until the next time */
  int64_t log, copied;   /* what it found at last; with the gate, and so is: */
  int64_t pinned_us;     /* since when somebody reads from before the rest; 0: nobody */
} wal_view;

struct fp_store {
  fp_options options;  /* options.path is ours */
  int64_t generation;  /* of the process that opened it: a forked child must not touch it */

  sys_cond gate;       /* guards what follows, to the ruler */
  int32_t users;       /* calls under way and open transactions */
  bool closing, closed;
  bool writing;        /* somebody has the turn */
  bool begun;          /* and the file's lock */
  int64_t writer_since_us;
  const char *writer_what; /* in words that stay */
  waiter *line, *line_end; /* those who wait for the turn, who leads among them until it begins */
  int64_t wanted_us;   /* since when the turn that is on is wanted */
  int64_t vain_since_us, vain_until_us; /* a turn is wanted, and did not come; 0: it came */
  bool reading;        /* somebody has the reader */
  fp_tx *open;         /* the caller's transaction, while one is open */
  retention retention; /* how far its rounds have come */
  roster roster;       /* see there what is whose */
  /* -------------------------------------------------- */

  db writer;           /* of whoever has the turn, with all that follows */
  store_clock clock;
  places places;
  int64_t lock_until_us; /* how long it may wait for the file's lock; 0: not at all */
  bool waits;            /* and has told other processes that it does */
  int32_t in_a_row;      /* how often it came without waiting (writelock.h) */
  int32_t in_vain;       /* and how often it was left to others who did not take it */
  int64_t got_us;        /* when it came last */
  bool guest;          /* the authorizer judges: the caller's own SQL is at work */
  char denied[160];    /* what the authorizer did not allow */
  bool goes_back, inserts; /* what it saw of the statement: ROLLBACK TO, INSERT */

  db reader;           /* of whoever has `reading`, with what follows */
  int64_t purge_walked; /* how far purges have walked */

  wal_view wal;
#ifdef FENCEPOST_TEST
  int64_t group_counts[5]; /* as fp_group_counts tells them */
#endif
  sqlite3 *copier;     /* of who is `copying`; NULL until it is first needed */
  /* -------------------------------------------------- */

  bell bell;           /* guards itself */
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
