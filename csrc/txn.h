/* One transaction: its moment, the numbers it draws, what it counted, and its end.
**
** A request gets a txn, reads and decides first, then writes. Any error after its first write
** rolls the whole transaction back (group.c sees to it). */
#ifndef FENCEPOST_TXN_H
#define FENCEPOST_TXN_H

#include "db.h"
#include "place.h"

/* The columns of tally, by the state they count. */
enum { N_PENDING, N_WAITING, N_LEASED, N_DONE, N_DEAD, N_UNKNOWN, N_CANCELLED, N_STATES };
extern const char *const tally_column[N_STATES];

typedef struct tally {
  int64_t queue;
  int64_t by[N_STATES];
} tally;

typedef struct txn {
  db *d;
  store_clock *clock;
  places *places;   /* NULL in a reader */
  int64_t now_us;   /* store time, read once */
  int64_t began;    /* the connection's count of writes then */
  bool drew;        /* the counter moved */
  bool meta_moved;  /* meta must be written */
  bool failed;      /* an allocation failed on the way: txn_flush tells */
  int8_t troubled;  /* is there any row in `trouble`? -1: not looked yet */
  int8_t progressed; /* in `progress`? the same */
  tally *counts;
  int count_used, count_room;
} txn;

/* BEGIN IMMEDIATE. `wanted_us`: since when it is waited for, on the clock of sys_awake_us.
** FP_AGAIN: another process holds the lock. */
int txn_begin(txn *t, db *d, store_clock *clock, places *at, int64_t wanted_us, fp_error *err);
/* BEGIN, for a reader: one snapshot. */
int txn_look(txn *t, db *d, store_clock *clock, fp_error *err);
void txn_looked(txn *t); /* its end */
/* The next `n` numbers of the file's counter; answers the first. */
int64_t txn_draw(txn *t, int64_t n);
void txn_count(txn *t, int64_t queue, int state, int64_t by);
/* Remembers the longest lease, for the grace. */
void txn_lease(txn *t, int64_t lease_us);
/* The end of a request: counter and counts go to the file. */
int txn_flush(txn *t, fp_error *err);
/* Ends it. On an error everything is rolled back. */
int txn_commit(txn *t, fp_error *err);
void txn_rollback(txn *t);
/* The caller has gone back to a savepoint of its own: what is remembered of the file is read anew,
** and a claim whose row stands again where it stood before is found there. On an error what is
** remembered may be wrong, so that the transaction must be rolled back. */
int txn_went_back(txn *t, fp_error *err);

/* Is there any row in `trouble` (in `progress`)? Looked up once, so that a store without them pays
** nothing per message. */
bool txn_troubled(txn *t);
bool txn_progressed(txn *t);

/* Runs one of the statements that delete a row by its id. */
int txn_drop(txn *t, int id_statement, int64_t id, fp_error *err);

/* The state column (N_…) that an outcome's state is counted in. */
int txn_state_of(int64_t outcome_state);

#endif
