/* The turn: which thread has the writing connection, and who is next.
**
**   1. One thread has the turn at a time, and it alone touches what store.h puts under it.
**   2. First come, first served; the keeper's beat stands in front. Whoever has just had the turn
**      lines up behind those who wait.
**   3. The turn passes from hand to hand: it is never free while somebody waits for it.
**   4. Who has it runs others' requests with its own, from the head of the line on, as long as
**      they can share a transaction and are not too many.
**   5. Who stands in line steps out when its slice of WAIT_SLICE_MS is over; who was taken waits
**      for its answer.
*/
#ifndef FENCEPOST_TURN_H
#define FENCEPOST_TURN_H

#include "fault.h"
#include "store.h"

enum {
  TURN_STANDS, /* in line */
  TURN_LEADS,  /* it has the turn, and stands in line until it takes itself out */
  TURN_TAKEN,  /* another thread runs it */
  TURN_SERVED  /* and has: waiter.code is its answer */
};

enum {
  GROUP_MEMBERS_MAX = SMALL(128, 12), /* requests of one transaction */
  GROUP_BYTES_MAX = 1048576           /* that they write, about; one request always */
};

/* Members of one transaction, in order. */
typedef struct group {
  waiter *first, *last;
  waiter *run; /* those who did not run yet begin here */
  int32_t count;
  int64_t bytes;
} group;

/* One thread lines up so many calls, side by side and in this order; or one, which may stand in
** front. FP_INVALID: this thread has a transaction open, and none of them stands in line. */
int turn_line_up(fp_store *store, waiter *const *calls, int32_t count, bool first, fp_error *err);
/* Waits to the end of its slice; of several calls, in their order. FP_OK: me->state is TURN_LEADS
** or TURN_SERVED. FP_AGAIN names the holder. */
int turn_wait(fp_store *store, waiter *me);
/* Of who leads: until when it may wait for the file. */
int64_t turn_until(const waiter *me);
/* Of who leads, and has the file's lock: takes from the head of the line what can run with it. At
** the first time it is among them. False: nobody new. */
bool turn_take(fp_store *store, group *g);
/* The same for who has wanted it for itself: it keeps the turn, which `tx` stands for from now on,
** and with it the store open. */
void turn_keep(fp_store *store, waiter *me, fp_tx *tx);
/* Of who leads, and did not get the file's lock. */
void turn_give_up(fp_store *store, waiter *me, bool in_vain);
/* Hands the turn to the next in line; of a transaction, it is the end. */
void turn_pass(fp_store *store);
/* Answers all members but the one who led. */
void turn_answer(const group *g, const waiter *leader);

#endif
