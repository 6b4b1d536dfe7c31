/* What the two halves of claim share: going along the levels of a queue. */
#ifndef FENCEPOST_CLAIM_PART_H
#define FENCEPOST_CLAIM_PART_H

#include "claim.h"

/* Queues that have nothing in line, from one of them up to the next that has. One look tells it of
** many, so that a caller with thousands of queues pays for those that are not empty. */
typedef struct claim_gap {
  int64_t from, end;
} claim_gap;

static inline bool claim_in_gap(const claim_gap *g, int64_t queue) {
  return queue >= g->from && queue < g->end;
}

/* What has run out is taken over if its `worker` is below that: in a grace, only from the dead. */
int64_t claim_holders(const txn *t);

/* So many can start at once, of a queue whose places are limited. */
static inline int64_t claim_for_places(const fp_take *take, const policy *p, int64_t taken) {
  return p->field[CONCURRENCY] != 0 ? take->limit - take->ahead - taken : INT64_MAX;
}

/* The first level of a queue; 0: it is empty, and the gap tells up to where all are. */
int claim_first_level(txn *t, int64_t queue, claim_gap *empty, int64_t *turn, int64_t *due_at,
                      fp_error *err);

#endif
