/* The file's write lock, which other processes want, too.
**
**   1. Who does not get it naps until somebody rings that it is free, and holds a byte of the file
**      (LOCKS_WAITING) as long as it waits, so that others see that somebody does.
**   2. Who has had it IN_A_ROW times, and wants it again at once, looks for that byte, and lets
**      those who wait go first. Without this the lock would always be taken again before anybody
**      has woken up.
**   3. A time-out is the caller's: none is told as long as it has patience.
*/
#ifndef FENCEPOST_WRITELOCK_H
#define FENCEPOST_WRITELOCK_H

#include "store.h"

enum {
  IN_A_ROW = 2,
  GIVE_WAY_TO = 8,     /* commits of others */
  GIVE_WAY_US = 1000,  /* for one; also: who was away for so long was in nobody's way */
  GIVE_WAY_SELDOM = 6, /* doublings of IN_A_ROW, where nobody takes the lock that is left to him */
  LOCK_NAP_US = 2000  /* the longest; shorter ones come first, since not everybody rings */
};

/* Once, on an opened store. */
void writelock_install(fp_store *store);
/* Before the lock is asked for: until when the caller has patience. After: it came, or not. */
void writelock_ask(fp_store *store, int64_t until_us);
void writelock_asked(fp_store *store, bool got);

#endif
