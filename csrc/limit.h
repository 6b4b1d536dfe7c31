/* The limits of a queue over all its workers: how many may be leased at once, and how many may
** start in a second.
**
**   1. Never more than `concurrency` messages are leased. A lease that has run out keeps its place
**      until it is taken over, and whoever takes it over needs no other one: so a lost holder's
**      place comes back by itself, and is never counted twice.
**   2. `rate` is a bucket of tokens in the queue's row, which every claim takes from in its own
**      transaction. It fills at the rate, and holds a tenth of a second's worth, at least one: so
**      many may start at once, and no second sees more than that above the rate.
**
** Queues without limits pay for nothing of this but the question whether there are any. */
#ifndef FENCEPOST_LIMIT_H
#define FENCEPOST_LIMIT_H

#include "txn.h"

typedef struct allowance {
  int64_t room;     /* so many may be handed out now */
  bool occupied;    /* but only such whose lease has run out: no place is free */
  int64_t ready_us; /* when the rate lets the next one go */
  int64_t level;    /* of the bucket now, in NANO tokens */
} allowance;

static inline bool limit_any(const policy *p) {
  return p->field[CONCURRENCY] != 0 || p->field[RATE] != 0;
}

int limit_read(txn *t, const policy *p, allowance *a, fp_error *err);
/* So many were handed out. */
int limit_spend(txn *t, const policy *p, const allowance *a, int64_t count, fp_error *err);

/* No lease in this queue has run out before that moment, as far as this connection has seen: what
** is sought again and again beside a long line is sought in what is new. */
int64_t limit_seen(const txn *t, int64_t queue);
/* The whole queue was looked through; the first lease that had run out did so at `lapsed_us`
** (INT64_MAX: none has). */
void limit_saw(txn *t, int64_t queue, int64_t lapsed_us);

#endif
