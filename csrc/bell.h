/* The doorbell of a file: the header of its WAL-index, mapped by the connection that reads.
**
**   1. It moves with every commit of any SQLite in any process, and nothing can delete it or leave
**      it behind. A version is a digest of all its 48 bytes, compared for equality only: a counter
**      alone would come back to an old value when the WAL is recovered.
**   2. Whoever sleeps says which version it has looked at. A commit before it fell asleep keeps it
**      awake, a commit after that wakes it: no wake-up is lost, if the version is read before the
**      look.
**   3. A writer of ours rings after its commit, and wakes those alone who wait for what it changed,
**      in all processes. Where a commit of another program moved the header, a thread that listens
**      for it wakes the sleepers of its own process who sleep on something older.
**   4. Where the system has no such bell, or none is left, a sleeper looks at the header by itself.
**
** Queues share QUEUE_BITS bits of a futex, processes PROCESS_BITS: whoever shares one is now and
** then woken for nothing. The header stays mapped as long as its connection is open, so that
** nobody may sleep here when that is closed. */
#ifndef FENCEPOST_BELL_H
#define FENCEPOST_BELL_H

#include <stdatomic.h>

#include "err.h"
#include "sys.h"

enum { BELL_QUEUE_BITS = 24, BELL_PROCESS_BITS = 6 };
#define BELL_OF(queue) (UINT32_C(1) << ((uint64_t)(queue) % BELL_QUEUE_BITS))
#define BELL_ANY (UINT32_C(1) << 30)  /* each commit, whatever it did */
#define BELL_LOCK (UINT32_C(1) << 31) /* the write lock is free again */

/* Why a sleep ended. */
enum { BELL_MOVED, BELL_TIME, BELL_NUDGED, BELL_SIGNAL, BELL_ENDS };

typedef struct sleeper {
  struct sleeper *next;
  int64_t version; /* which it has looked at */
  int64_t nudges;
} sleeper;

typedef struct bell {
  const volatile uint32_t *header; /* NULL: closed */
  const char *wal;                 /* the path of the WAL; the connection's */
  uint32_t process;                /* this process' bit */
  bool futex;
  atomic_bool found;               /* somebody woke up to something */

  sys_cond gate; /* guards what follows */
  sleeper *asleep;
  int64_t nudges;  /* from 1 on */
  int32_t nudging; /* calls that wait for sleepers to leave */
  bool shut;
  bool listens, tried;  /* the listener is there; it was asked for */
  bool resting, stopping;
  pthread_t listener;
  int events, watch;    /* of inotify; -1: none */
  int64_t ended[BELL_ENDS]; /* sleeps, by their end */
  int64_t late;             /* of those that had another reason than time, but it took the time */
  int64_t looks, alarms;    /* the listener's, and those that woke somebody */
} bell;

/* `connection` is in WAL mode and has read once. It must outlive bell_close. */
int bell_open(bell *b, sqlite3 *connection, fp_error *err);
/* Nobody sleeps any more, nor will. */
void bell_shut(bell *b);
/* After bell_shut; the header is not looked at any more. Again: nothing. */
void bell_close(bell *b);
void bell_free(bell *b);

int64_t bell_version(const bell *b);
/* Until the version is another one, sys_awake_us() reaches `end_us`, a signal comes, or there were
** more nudges than `nudges` (0: never mind). `bits`: what is waited for. */
int bell_sleep(bell *b, int64_t version, uint32_t bits, int64_t nudges, int64_t end_us);
/* Until somebody rings for `bits`, or the span is over. */
void bell_nap(bell *b, uint32_t bits, int64_t span_us);
/* Wakes who waits for any of these. After the commit. */
void bell_ring(bell *b, uint32_t bits);
/* Wakes all sleepers of this process, for them to look. */
void bell_alarm(bell *b);

/* Lets go all who sleep with an older number of nudges. */
void bell_nudge(bell *b);
int64_t bell_nudges(bell *b);
/* A sleep was worth waking up from: the listener need not be slow. */
void bell_found(bell *b);

/* With the gate held: starts the listener, at the first call. False: there is none. */
bool bell_listen(bell *b);
void bell_stop_listening(bell *b);

#endif
