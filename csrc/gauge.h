/* Gauges: what stands in the file, counted and checked. Nothing here changes anything. */
#ifndef FENCEPOST_GAUGE_H
#define FENCEPOST_GAUGE_H

#include "locks.h"
#include "pack.h"
#include "txn.h"

enum {
  GAUGE_LAPSED_MAX = 1000, /* lapsed leases are counted up to this */
  GAUGE_LOOKS = 10000,     /* due rows looked at for them, of each queue */
  GAUGE_FINDINGS_MAX = 200 /* a check says this much, and then that there is more */
};

/* A record a queue, by number, in fencepost.h's layout. Counts are the tally's; a lease's end is a
** due moment like any other, because a row comes due at it. */
int gauge_stats(txn *t, pack *p, fp_error *err);
/* A record a kind, by number. */
int gauge_kinds(txn *t, pack *p, fp_error *err);
/* A record a schedule, by name. */
int gauge_schedules(txn *t, pack *p, fp_error *err);
/* A record a registered worker, by number. `file`: where its byte is; NULL: locks do not tell. */
int gauge_workers(txn *t, const locks_file *file, pack *p, fp_error *err);
/* One record: the file's own uuid. */
int gauge_uuid(txn *t, pack *p, fp_error *err);

/* Recounts the file against what it says of itself; each finding is one plain sentence. Walks
** every table once, in one snapshot, and keeps 32 bytes of memory for each message in line.
**
**   1. A message is in exactly one of line and outcomes, and whatever is there has its message.
**   2. A row of the line stands where its message belongs.
**   3. The tally is the number of messages in each state, queue by queue.
**   4. A lane's row knows how many of it are in the line, and nobody waits while a slot is free.
**   5. A key points to a message that has it, or says until when it answers without one; the key
**      of a message in line points to it.
**   6. The counter is not behind any number that was given out.
**   7. The wake-up of a live run is in line, under its id; that of a done or cancelled one is not.
** `full`: SQLite's own check of the whole file, too. */
int gauge_check(txn *t, bool full, pack *p, fp_error *err);

#endif
