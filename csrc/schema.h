/* The tables of version 1, one text per statement. Every name starts with fencepost_; a short
** comment stands where a column's meaning is not its name's.
**
** All of it must parse in SQLite 3.26, because the application's own, older SQLite opens this
** file, too: no STRICT, no generated columns, no RETURNING. CHECKs use BETWEEN and OR, never IN
** (an IN more than doubles the cost of an insert). */
#ifndef FENCEPOST_SCHEMA_H
#define FENCEPOST_SCHEMA_H

/* What every process must agree on. `asleep` is how long this boot has slept so far, `grace_until`
** the end of the time in which a lapsed lease is not taken over (storetime.h). */
#define SCHEMA_META                                                                             \
  "CREATE TABLE fencepost_meta (one INTEGER PRIMARY KEY CHECK (one = 1),"                       \
  " version INTEGER NOT NULL, store_uuid BLOB NOT NULL, boot_id TEXT NOT NULL,"                 \
  " clock_offset INTEGER NOT NULL, asleep INTEGER NOT NULL, grace_until INTEGER NOT NULL,"      \
  " longest_lease INTEGER NOT NULL, created_at INTEGER NOT NULL)"

/* Row 0: `last` is the one counter of the file, `time` the last store time given. Row q: how many
** messages of queue q stand in each state. One b-tree, hence one dirty page per commit. */
#define SCHEMA_TALLY                                                                            \
  "CREATE TABLE fencepost_tally (queue INTEGER PRIMARY KEY, last INTEGER NOT NULL DEFAULT 0,"   \
  " time INTEGER NOT NULL DEFAULT 0, pending INTEGER NOT NULL DEFAULT 0,"                       \
  " waiting INTEGER NOT NULL DEFAULT 0, leased INTEGER NOT NULL DEFAULT 0,"                     \
  " done INTEGER NOT NULL DEFAULT 0, dead INTEGER NOT NULL DEFAULT 0,"                          \
  " unknown INTEGER NOT NULL DEFAULT 0, cancelled INTEGER NOT NULL DEFAULT 0)"

/* Policies. Spans are microseconds; factor, jitter and rate are thousandths. */
#define SCHEMA_QUEUE                                                                            \
  "CREATE TABLE fencepost_queue (id INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 1099511627775),"\
  " name TEXT NOT NULL UNIQUE, profile INTEGER NOT NULL, paused INTEGER NOT NULL DEFAULT 0,"    \
  " keep INTEGER NOT NULL, key_window INTEGER NOT NULL, addressed INTEGER NOT NULL,"            \
  " listed INTEGER NOT NULL, max_attempts INTEGER NOT NULL, max_age INTEGER NOT NULL,"          \
  " lease INTEGER NOT NULL, base INTEGER NOT NULL, factor INTEGER NOT NULL,"                    \
  " cap INTEGER NOT NULL, jitter INTEGER NOT NULL, lane_width INTEGER NOT NULL,"                \
  " on_dead INTEGER NOT NULL, on_unknown INTEGER NOT NULL, max_size INTEGER NOT NULL,"          \
  " concurrency INTEGER NOT NULL, rate INTEGER NOT NULL,"                                       \
  " rate_level INTEGER NOT NULL DEFAULT 0, rate_at INTEGER NOT NULL DEFAULT 0,"                 \
  " held_until INTEGER NOT NULL DEFAULT 0)"

#define SCHEMA_KIND                                                                             \
  "CREATE TABLE fencepost_kind (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)"

/* Written once. `due`: the first due moment; `life`: 0 no key, 1 lasting, 2 while live. */
#define SCHEMA_MESSAGE                                                                          \
  "CREATE TABLE fencepost_message (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL,"             \
  " kind INTEGER NOT NULL, priority INTEGER NOT NULL CHECK (priority BETWEEN -128 AND 127),"    \
  " enqueued_at INTEGER NOT NULL, due INTEGER NOT NULL, max_attempts INTEGER NOT NULL,"         \
  " life INTEGER NOT NULL CHECK (life BETWEEN 0 AND 2), key TEXT, lane TEXT, headers BLOB,"     \
  " body BLOB NOT NULL)"

/* `digest` NULL: put through the door, bodies are compared. `until` NULL: as long as `message`
** has the row; else the key answers until then, though its message is gone. */
#define SCHEMA_KEY                                                                              \
  "CREATE TABLE fencepost_key (queue INTEGER NOT NULL, kind INTEGER NOT NULL,"                  \
  " life INTEGER NOT NULL, key TEXT NOT NULL, id INTEGER NOT NULL, digest BLOB,"                \
  " until INTEGER, PRIMARY KEY (queue, kind, life, key)) WITHOUT ROWID"

/* The line. turn = queue << 8 | (127 - priority); turn < 0: waiting in the lane of number -turn.
** stage 0 pending, 1 leased, 2 leased and the send began; addressed 1: not at its first place,
** so the index finds it; again: re-armed while leased, the moment it is due again (0: not);
** placed_at: the place before the lease, which release gives back; worker: who holds it (0: not
** known; negative: who held it, and is dead), without an index, because what a worker holds stands
** between now and now + meta.longest_lease. */
#define SCHEMA_DUE                                                                              \
  "CREATE TABLE fencepost_due (turn INTEGER NOT NULL, due_at INTEGER NOT NULL,"                 \
  " id INTEGER NOT NULL, token INTEGER NOT NULL, attempts INTEGER NOT NULL,"                    \
  " stage INTEGER NOT NULL CHECK (stage BETWEEN 0 AND 2), addressed INTEGER NOT NULL,"          \
  " generation INTEGER NOT NULL, again INTEGER NOT NULL, placed_at INTEGER NOT NULL,"           \
  " worker INTEGER NOT NULL, PRIMARY KEY (turn, due_at, id)) WITHOUT ROWID"
#define SCHEMA_DUE_ID                                                                           \
  "CREATE INDEX fencepost_due_id ON fencepost_due (id) WHERE addressed = 1"

/* The last failure of what is still in line. `since`: where max_age counts from,
** after a replay or in a further turn; NULL: from the first due moment. */
#define SCHEMA_TROUBLE                                                                          \
  "CREATE TABLE fencepost_trouble (id INTEGER PRIMARY KEY, kind TEXT, code TEXT, text TEXT,"    \
  " since INTEGER)"

#define SCHEMA_PROGRESS                                                                         \
  "CREATE TABLE fencepost_progress (id INTEGER PRIMARY KEY, value BLOB, at INTEGER NOT NULL)"

/* state 3 done unlisted, 4 done listed, 5 dead, 6 unknown, 7 cancelled. */
#define SCHEMA_OUTCOME                                                                          \
  "CREATE TABLE fencepost_outcome (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL,"             \
  " kind INTEGER NOT NULL, state INTEGER NOT NULL CHECK (state BETWEEN 3 AND 7),"               \
  " settled_at INTEGER NOT NULL, attempts INTEGER NOT NULL, token INTEGER NOT NULL,"            \
  " generation INTEGER NOT NULL, failure_kind TEXT, failure_code TEXT, failure_text TEXT,"      \
  " result BLOB)"
#define SCHEMA_OUTCOME_ENDED                                                                    \
  "CREATE INDEX fencepost_ended ON fencepost_outcome (queue, state, settled_at)"                \
  " WHERE state > 3"

/* `out`: how many of the lane stand in the line; `held`: halted, because `parked_by` died. */
#define SCHEMA_LANE                                                                             \
  "CREATE TABLE fencepost_lane (queue INTEGER NOT NULL, name TEXT NOT NULL,"                    \
  " number INTEGER NOT NULL, out INTEGER NOT NULL, held INTEGER NOT NULL,"                      \
  " parked_by INTEGER NOT NULL, PRIMARY KEY (queue, name)) WITHOUT ROWID"

/* Tables of later floors, so that those floors migrate nothing. */
#define SCHEMA_SCHEDULE                                                                         \
  "CREATE TABLE fencepost_schedule (name TEXT PRIMARY KEY, kind INTEGER NOT NULL,"              \
  " expression TEXT NOT NULL, zone TEXT NOT NULL, missed INTEGER NOT NULL,"                     \
  " last_fired INTEGER NOT NULL, running INTEGER NOT NULL)"
/* Who holds claims, alive as long as somebody holds the lock on its byte (registry.h); what else it
** says, from when it was registered, is for people. `name`: of the machine. */
#define SCHEMA_WORKER                                                                           \
  "CREATE TABLE fencepost_worker (id INTEGER PRIMARY KEY, pid INTEGER NOT NULL,"                \
  " started INTEGER NOT NULL, boot_id TEXT NOT NULL, name TEXT NOT NULL,"                       \
  " seen_at INTEGER NOT NULL)"
#define SCHEMA_RUN                                                                              \
  "CREATE TABLE fencepost_run (id TEXT PRIMARY KEY, kind INTEGER NOT NULL,"                     \
  " message INTEGER NOT NULL, state INTEGER NOT NULL, waiting_for TEXT, args BLOB,"             \
  " result BLOB, failure_kind TEXT, failure_text TEXT, created_at INTEGER NOT NULL,"            \
  " ended_at INTEGER)"
#define SCHEMA_RUN_ENDED "CREATE INDEX fencepost_run_state ON fencepost_run (state, ended_at)"
#define SCHEMA_RECORD                                                                           \
  "CREATE TABLE fencepost_record (workflow TEXT NOT NULL, seq INTEGER NOT NULL,"                \
  " key TEXT NOT NULL, kind INTEGER NOT NULL, value BLOB, started_at INTEGER,"                  \
  " written_at INTEGER NOT NULL, PRIMARY KEY (workflow, seq), UNIQUE (workflow, key))"          \
  " WITHOUT ROWID"
#define SCHEMA_CLAIM                                                                            \
  "CREATE TABLE fencepost_claim (workflow TEXT PRIMARY KEY, token INTEGER NOT NULL,"            \
  " held_until INTEGER NOT NULL, alive_until INTEGER NOT NULL, alive_for INTEGER NOT NULL)"     \
  " WITHOUT ROWID"

/* Version 1, in order. A later version is a further list of its own (db.c runs what is missing). */
#define SCHEMA_V1                                                                               \
  SCHEMA_META, SCHEMA_TALLY, SCHEMA_QUEUE, SCHEMA_KIND, SCHEMA_MESSAGE, SCHEMA_KEY, SCHEMA_DUE, \
      SCHEMA_DUE_ID, SCHEMA_TROUBLE, SCHEMA_PROGRESS, SCHEMA_OUTCOME,        \
      SCHEMA_OUTCOME_ENDED, SCHEMA_LANE, SCHEMA_SCHEDULE, SCHEMA_WORKER, SCHEMA_RUN,            \
      SCHEMA_RUN_ENDED, SCHEMA_RECORD, SCHEMA_CLAIM,                                            \
      "INSERT INTO fencepost_tally (queue) VALUES (0)"

#endif
