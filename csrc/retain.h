/* Retention: what has ended goes again, in slices, so that nobody waits long for the turn.
**
**   1. Done and cancelled messages go `keep` after they ended; where `keep` is 0, those that are
**      still there for the sake of their lasting key go with it.
**   2. A lasting key answers for its queue's key window, with or without its message.
**   3. Dead and unknown ones stay until an operator purges them; a purge frees the key at once.
**
** With a message go its outcome, its progress and, where it is its time, its key, all at once; with
** the wake-up of a run goes the run; what is long of its history goes later, in slices. */
#ifndef FENCEPOST_RETAIN_H
#define FENCEPOST_RETAIN_H

#include "txn.h"

enum { RETAIN_LOOKS = 5000 }; /* rows one slice looks at, at the most */

/* How far a handle's own rounds have come. All zero is the beginning. A round goes by all queues'
** listed outcomes, then along the outcomes for unlisted ones, then along the keys; the two walks
** are left out while nothing they would find can have come to its end, as long as each queue keeps
** what it kept. */
typedef struct retention {
  int32_t stage;        /* 0 listed, 1 unlisted, 2 keys */
  int64_t queue;        /* listed: queues up to this one are through */
  int64_t shortest_us;  /* the shortest that any queue keeps anything, of this round */
  uint64_t kept, kept_next; /* a mark of what each queue keeps; the same of this round, so far */
  int64_t outcome;      /* unlisted: ids up to this one are through */
  int64_t outcomes_us, outcomes_next_us; /* no walk before; the same for the next one, so far */
  int64_t keys_us, keys_next_us;
  int64_t key_queue, key_kind, key_life, key_bytes; /* keys up to this one are through */
  char key[KEY_BYTES_MAX];
} retention;

/* One slice. *purged: messages that went; *more: the round is not over, call again. *r has moved on
** also when the transaction fails later: then the caller forgets it, and has the slice again. */
int retain_slice(txn *t, retention *r, int32_t limit, int64_t *purged, bool *more, fp_error *err);

/* What an operator wants gone. */
typedef struct purge {
  int64_t queue;     /* 0: every one */
  int32_t state;     /* FP_DONE_UNLISTED: done, listed or not */
  int64_t before_us; /* ended before this moment */
  int32_t limit;
  int64_t *ids;      /* room for `limit` of them; the caller's */
  int32_t count;     /* found */
  bool whole;        /* what goes of a run goes all at once */
  int64_t purged;    /* and gone */
} purge;

/* Finds at most `limit`, oldest first in each queue; in a reader, since it may look at many rows.
** *walked is where the walk for unlisted ones goes on, so that slices do not begin anew. */
int retain_find(txn *t, purge *g, int64_t *walked, fp_error *err);
/* Removes those found that are still what they were. */
int retain_purge(txn *t, purge *g, fp_error *err);

#endif
