/* What dead workers hold is due at once, whatever their leases say.
**
**   1. Every handle that claims looks after the other workers, when it claims and while it waits,
**      at most each LOOK_US. While nobody commits, a look costs one question for each of them.
**   2. Whoever finds one dead takes its byte for as long as a slice takes, so that one handle at a
**      time takes over from it. The next slice is anybody's: whoever did the last one may have
**      died, too, or have no call to look again. Several dead ones are served in turn.
**   3. Each row that the dead one held is moved to now, and is then what it would be had its lease
**      run out: its attempt is counted, its token opens something until the next claim. `worker`
**      becomes negative: its holder is known to be dead, and a grace (storetime.h), which is for
**      those who could not renew, is not for it.
**   4. The rows are found by a walk along the line from now to the end of the longest lease, in
**      slices that are transactions of their own. All who look together run them for less than a
**      hundredth of the time, so that ninety-nine in a hundred claims of others meet none.
**
** What goes wrong here is no failure of the claim that looked: leases run out by themselves. */
#ifndef FENCEPOST_ORPHANS_H
#define FENCEPOST_ORPHANS_H

#include "store.h"

/* Looks, if it is time to, and takes one slice over. */
void orphans_look(fp_store *store);
/* How long a waiter may sleep before it looks again; at most one slice of waiting. */
int64_t orphans_pause_us(fp_store *store);

#ifdef FENCEPOST_TEST
/* The same whatever the time, and what goes wrong is told. *more: there may be a further slice. */
int orphans_look_now(fp_store *store, bool *more, fp_error *err);
#endif

#endif
