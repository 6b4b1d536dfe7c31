/* One transaction: its moment, the numbers it draws, what it counted, and its end.
**
** A request gets a txn, reads and decides first, then writes. Several may run in one transaction,
** one after the other. One that fails before its first write has done nothing, and the others do
** not notice; any error after it rolls the whole transaction back (group.c sees to both). */
#ifndef FENCEPOST_TXN_H
#define FENCEPOST_TXN_H

#include "bell.h"
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
  int64_t worker;   /* its handle was registered in it; 0: it was before, or is not */
  bool failed;      /* an allocation failed on the way: txn_accept and txn_flush tell */
  bool asked;       /* COMMIT was tried: what became of it is for the file to say */
  int8_t troubled;  /* is there any row in `trouble`? -1: not looked yet */
  int8_t progressed; /* in `progress`? the same */
  uint32_t rings;   /* for whom, once it is committed (bell.h) */
  tally *counts;
  int count_used, count_room;
  int count_from;   /* those of the request under way begin here */
} txn;

/* A request of a transaction: written once, run at least once (a transaction that failed for
** another's sake is made again), so that it begins by forgetting what an earlier run has left in
** its argument. */
typedef int (*request)(txn *t, void *argument, fp_error *err);

/* The transaction as it was when a request began. */
typedef struct txn_mark {
  int64_t wrote;
  head head;
  bool drew, meta_moved;
} txn_mark;

/* BEGIN IMMEDIATE. `wanted_us`: since when it is waited for, on the clock of sys_awake_us.
** FP_AGAIN: another process holds the lock. */
int txn_begin(txn *t, db *d, store_clock *clock, places *at, int64_t wanted_us, fp_error *err);
/* BEGIN, for a reader: one snapshot. */
int txn_look(txn *t, db *d, store_clock *clock, fp_error *err);
void txn_looked(txn *t); /* its end */
/* The next `n` numbers of the file's counter; answers the first. */
int64_t txn_draw(txn *t, int64_t n);
/* The number of the handle in the registry; 0: it has none. */
int64_t txn_worker(const txn *t);
/* More of them pending rings for who waits for one. */
void txn_count(txn *t, int64_t queue, int state, int64_t by);
/* Something else happened in that queue that somebody may wait for: a message left it, comes due
** earlier, or can be had again. */
void txn_ring(txn *t, int64_t queue);
/* A lease was given, or given anew. Remembers the longest one, for the grace. */
void txn_lease(txn *t, int64_t queue, int64_t lease_us);
/* What a queue's count has risen by, beyond what the file says. */
int64_t txn_counted(const txn *t, int64_t queue, int state);

/* Around each request. */
void txn_mark_of(txn *t, txn_mark *mark);
int txn_accept(txn *t, fp_error *err); /* it did well, but for memory */
/* It failed. False: it has written, or SQLite has rolled back, so that all of it is lost. */
bool txn_revert(txn *t, const txn_mark *mark);

/* Counter and counts go to the file. */
int txn_flush(txn *t, fp_error *err);
/* Ends it. On an error everything is rolled back. */
int txn_commit(txn *t, fp_error *err);
void txn_rollback(txn *t);
/* The caller has gone back to a savepoint of its own: what is remembered of the file is read anew,
** and a claim whose row stands again where it stood before is found there. On an error what is
** remembered may be wrong, so that the transaction must be rolled back. */
int txn_went_back(txn *t, fp_error *err);

/* Is there any row in `trouble`, and in `progress`? Each is looked up once, so that a store without
** them pays nothing per message. */
int txn_troubled(txn *t, bool *any, fp_error *err);
int txn_drop_trouble(txn *t, int64_t id, fp_error *err);
int txn_drop_progress(txn *t, int64_t id, fp_error *err);

/* Runs one of the statements that delete a row by its id. */
int txn_drop(txn *t, int id_statement, int64_t id, fp_error *err);

/* The state column (N_…) that an outcome's state is counted in. */
int txn_state_of(int64_t outcome_state);

#endif
