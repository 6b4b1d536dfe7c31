/* Claiming: what is due, moved back in the line to the end of a lease, under a new token.
**
** Attempts are counted here. Within the claim, what cannot be handed out any more is moved out of
** the line: a row whose attempts were used up by holders that never answered (worker_lost), one
** that had begun when its holder was lost, so that nobody knows what it did outside (unknown,
** unless the queue says retry), and a row whose message is missing (damaged); none can stop the
** line. */
#ifndef FENCEPOST_CLAIM_H
#define FENCEPOST_CLAIM_H

#include "pack.h"
#include "settle.h"

enum { CLAIM_WIDTH = 16 };

typedef struct claiming {
  const fp_take *take;
  const fp_settle *settle; /* done first, in the same commit; NULL: nothing */
  int32_t *answers;
  pack *rows; /* the layout of fp_step */
} claiming;
int claim_step(txn *t, void *claiming_argument, fp_error *err);

/* The earliest moment at which a claim of these queues may find something: at most now, if there
** is something; INT64_MAX if nothing is in line. Changes nothing. Queues in rising order cost
** least: a stretch of empty ones is one look. */
typedef struct looking {
  const fp_take *take;
  int64_t next_us, now_us;
} looking;
int claim_look(txn *t, void *looking_argument, fp_error *err);

#endif
