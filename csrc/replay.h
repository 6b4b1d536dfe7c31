/* Replay: what is dead or unknown stands in line again, under its own id; and its opposite, the
** word of an operator that what is unknown has arrived.
**
** A dead letter has a generation, raised each time it dies; a replay names the one it means, so of
** several operators one wins, and an old request cannot wake a newer death. */
#ifndef FENCEPOST_REPLAY_H
#define FENCEPOST_REPLAY_H

#include "settle.h"

typedef struct replaying {
  int32_t count;
  const int64_t *pairs; /* (id, generation); generation -1: whichever it is */
  int64_t delay_us, gap_us;
  span note;            /* of whoever wants it; empty: none */
  bool apply;           /* false: only say what would happen */
  int32_t *answers;
} replaying;
int replay(txn *t, void *replaying_argument, fp_error *err);

typedef struct confirming {
  int32_t count;
  const int64_t *pairs; /* as above */
  span note;
  int32_t *answers;
} confirming;
int confirm(txn *t, void *confirming_argument, fp_error *err);

#endif
