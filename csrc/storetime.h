/* Store time: the one clock of the file. Never a raw wall clock.
**
**   1. It never falls: each turn reads max(last given, offset + boot clock), and the last given is
**      kept in the file with the counter.
**   2. Within a boot the offset follows the wall clock forwards only, in steps of at least
**      OFFSET_STEP_US. At a new boot it is max(wall, last given) - boot clock. So a wall clock that
**      steps back frees or freezes nothing.
**   3. A forward step over a second, a suspend, or a wait for the lock over a third of the
**      shortest lease opens a grace of the longest lease: in it, leased rows are not taken over,
**      because their holders may have had no chance to renew. A wait for the lock opens none
**      within one longest lease after the last one, or a crowded file would take over nothing.
**   4. Set by hand, it is the hand's number, but never below the last given.
*/
#ifndef FENCEPOST_STORETIME_H
#define FENCEPOST_STORETIME_H

#include "base.h"

#define OFFSET_STEP_US INT64_C(100000)
#define GRACE_STEP_US SECOND_US
#define GRACE_WAIT_US_MIN INT64_C(100000)

/* What the file says: tally's row 0 and the clock's part of meta. */
typedef struct head {
  int64_t last; /* the counter */
  int64_t time; /* the last store time given */
  int64_t offset, asleep, grace_until, longest_lease;
  char boot_id[64];
} head;

/* What one handle knows by itself. */
typedef struct store_clock {
  _Atomic int64_t hand_us; /* -1: the real clock; looks read it while it is turned */
  int64_t shortest_lease; /* given out by this handle; 0: none yet */
  char boot_id[64];
} store_clock;

void time_start(store_clock *c, int64_t hand_us);
/* The head of a new file. */
head time_first(const store_clock *c);
/* Store time as a reader sees it; changes nothing. */
int64_t time_look(const store_clock *c, const head *h);
/* Store time of a turn that begins now, having waited `waited_us` for the lock. Brings h up to
** date; *moved tells whether meta must be written. */
int64_t time_turn(const store_clock *c, head *h, int64_t waited_us, bool *moved);
/* What has to be added to a moment that the caller read off a wall clock, to have it in store time.
** Once for a whole batch, or equal moments would come out of order. */
int64_t time_ahead(const store_clock *c, int64_t now_us);

#endif
