/* One connection to the file, and what it remembers of it.
**
**   1. An open one leads to a database in WAL mode that lies where locks can be trusted (disk.h);
**      what cannot be trusted is refused before anything is changed. Its tables are those of this
**      version, made in one transaction by whichever process comes first.
**   2. What was read off the file (its head, policies) holds until SQLite's data version says that
**      another connection has committed; then all of it is forgotten at once.
**   3. It keeps to the file that it was opened on. Where the path leads elsewhere by now, or the
**      -wal and -shm beside it are others, it says so, for good: no commit is acknowledged that
**      nobody will find. */
#ifndef FENCEPOST_DB_H
#define FENCEPOST_DB_H

#include "err.h"
#include "locks.h"
#include "stmt.h"
#include "storetime.h"

/* The policy of one queue, as its row says. The order of `field` is fencepost.h's. */
typedef struct policy {
  int64_t queue; /* 0: this slot is empty */
  int64_t field[FP_POLICY_FIELDS];
} policy;

enum {
  KEEP, KEY_WINDOW, ADDRESSED, LISTED, MAX_ATTEMPTS, MAX_AGE, LEASE, BASE, FACTOR, CAP, JITTER,
  LANE_WIDTH, ON_DEAD, ON_UNKNOWN, MAX_SIZE, CONCURRENCY, RATE, HELD_UNTIL, PAUSED, PROFILE
};

extern const char *const policy_column[FP_POLICY_FIELDS];

typedef struct policy_limit {
  int64_t low, high;
} policy_limit;

extern const policy_limit policy_limits[FP_POLICY_FIELDS];

enum { POLICY_SLOTS = 64 }; /* a cache, not a limit: slot = queue mod this */

/* Up to when the leases of a queue were seen not to have run out (limit.h). */
typedef struct lapse {
  int64_t queue; /* 0: this slot is empty */
  int64_t seen_us;
} lapse;

/* Which file a path leads to. */
typedef struct db_mark {
  uint64_t device, inode;
} db_mark;

typedef struct db {
  sqlite3 *handle;
  stmts sql;
  bool astray;          /* its file is not where it was: for good */
  int64_t placed_us;    /* when that was looked at, on the clock of sys_awake_us */
  int64_t commit_us;    /* how old a look may be that a commit is acknowledged by */
  int64_t beside_us;    /* and its -wal and its -shm; 0: not yet */
  db_mark wal, shm;
  /* Of a writer: which file it is, and who its handle is to others (registry.h). */
  locks_file file;
  bool registers;   /* its locks can say that it lives */
  int64_t worker;   /* its number; 0: it has claimed nothing yet */
  /* What was read off the file, and holds while nobody else has committed: */
  bool fresh;
  unsigned version; /* SQLITE_FCNTL_DATA_VERSION when it was read */
  head head;
  policy policies[POLICY_SLOTS];
  /* And this whoever commits, until a transaction of this connection is rolled back: */
  lapse lapses[POLICY_SLOTS];
} db;

/* Opens; *d is closed again on failure. `reader`: a second connection that never writes. */
int db_open(db *d, const fp_options *options, bool reader, fp_error *err);
/* Only to look, and nothing is made on the way but, at the most, the -shm beside a -wal that is
** there. `alone`: there is no -wal, so that nobody has the file open to write, and its locks are
** left alone. FP_INVALID: it has no tables of ours. *d is closed again on failure. */
int db_open_still(db *d, const char *path, bool alone, fp_error *err);
void db_close(db *d);
/* Creates our tables, or brings them to this version, in one immediate transaction; safe from
** several processes at once. FP_NEWER: a newer library made them; nothing was touched. FP_AGAIN. */
int db_migrate(db *d, const fp_options *options, const store_clock *clock, fp_error *err);
/* Reads the head (and forgets policies) unless nobody committed since it was read last. Must be
** called inside a transaction. FP_NEWER. */
int db_refresh(db *d, fp_error *err);
/* Is the file still where it was opened? Looked at unless that was done in the last `age_us`, and
** the -wal and -shm beside it ten times a second. FP_STORAGE: no, and from then on. */
int db_check_place(db *d, int64_t age_us, fp_error *err);
/* After our own commit: what is remembered is what the file says. */
void db_committed(db *d);
void db_forget(db *d);
int db_policy(db *d, int64_t queue, const policy **out, fp_error *err); /* FP_INVALID: no such */

#endif
