/* The write-ahead log is kept short, and nobody who waits for a commit waits for that.
**
**   1. When it has grown by CHECKPOINT_PAGES, the thread that has just committed copies it into the
**      database, on a connection of its own and without the turn: others commit meanwhile.
**   2. What they add in that time is copied by whoever has the turn then, after it has answered:
**      few pages, and the log begins anew. Without this it would never be copied to its end, and
**      grow.
**   3. Who writes faster than the disk can copy waits for it once the log is WAL_LONG_PAGES long.
**   4. Somebody who reads from an old state of the file keeps the pages after it from being copied.
**      The log grows then, and is told of; once that reader is gone, 1 and 2 shrink it again, down
**      to journal_size_limit.
**   5. Readers that come one after the other may never leave it alone: whoever has the turn waits
**      for them then, the longer the log the longer, for a sixth of the time at most. One and the
**      same reader is waited for less and less often.
**
** A checkpoint that fails changes nothing in the file, and is tried again later. */
#ifndef FENCEPOST_WAL_H
#define FENCEPOST_WAL_H

#include "fault.h"
#include "store.h"

enum {
  CHECKPOINT_PAGES = SMALL(1000, 250),
  CHECKPOINT_WAIT_US = 20000, /* for readers and other writers, of who has the turn */
  WAL_LONG_PAGES = 4 * CHECKPOINT_PAGES, /* if a reader keeps it so long, that is told of */
  WAL_WAIT_US = 500000,       /* for a copy that is under way */
  WAL_APART_TIMES = 5,        /* what a try in vain to begin anew took, until the next */
  WAL_APART_US_MAX = 10000000 /* while the same reader is there */
};

/* Once, on the writing connection of an opened store. */
void wal_install(fp_store *store);
void wal_close(fp_store *store);

/* With the turn, once all are answered. True: it is time for wal_copy, when the turn is passed. */
bool wal_finish(fp_store *store);
void wal_copy(fp_store *store);

/* Copies what it can. *kept_us: for how long, at least, a reader has kept a log so long that it
** should be told of; -1: none does. *bytes: as large is the file. */
void wal_look(fp_store *store, int64_t *bytes, int64_t *kept_us);

#endif
