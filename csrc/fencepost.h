/* The public face: what the binding may call. cffi reads the part between the two marks.
**
** Rules that hold for every function here:
**   - 0 (FP_OK) or a code; the words are in *err, copied there at once, and are the caller's.
**   - What comes in is borrowed until the function returns. What goes out through fp_rows is the
**     caller's, to be given back with fp_rows_free, also when it is empty.
**   - On a code other than FP_OK nothing has changed in the file. The single exception: an I/O
**     error from COMMIT leaves the outcome open until the file is read again.
**   - FP_AGAIN: nothing was done, the turn did not come within one slice of WAIT_SLICE_MS; the
**     caller looks at its own time-out (and its signals) and calls again with the same arguments.
**   - Common to all: FP_CLOSED, FP_FORKED, FP_NEWER, FP_STORAGE, FP_INVALID, FP_AGAIN.
**   - `tx` may be NULL: the call is then a transaction of its own.
**   - Moments are microseconds since 1970 UTC in store time; spans are microseconds; *_bytes are
**     lengths. Text is UTF-8 without a terminator where a length goes with it.
**   - Packed rows: `records` holds `count` records of `width` int64 each, in the order written
**     beside each function; `blob` holds the variable parts of all rows one after the other, row
**     by row, in the order of their length columns (-1: NULL, no bytes).
*/
#ifndef FENCEPOST_H
#define FENCEPOST_H

#include <stdint.h>

/* cdef begin */
enum {
  FP_OK = 0,
  FP_AGAIN = 1,     /* the turn did not come yet: call again */
  FP_BUSY = 2,      /* Busy */
  FP_FULL = 3,      /* QueueFull */
  FP_LOST = 4,      /* LeaseLost */
  FP_CONFLICT = 5,  /* Conflict: err->id owns the key */
  FP_INVALID = 6,   /* InvalidArgument */
  FP_STORAGE = 7,   /* StorageError */
  FP_NEWER = 8,     /* NewerSchema */
  FP_FORKED = 9,    /* ForkedHandle */
  FP_CLOSED = 10,   /* Closed */
  FP_GONE = 11,     /* Gone */
  FP_CONSTRAINT = 12, /* StorageError of the caller's own SQL: its transaction goes on */

  /* answers per item of a batch */
  FP_DONE = 0,        /* settled, cancelled, renewed, replayed as asked */
  FP_ALREADY = 20,    /* settled before, by this same token */
  FP_SUPERSEDED = 21, /* replay: the generation is another one now */
  FP_NOT_DEAD = 22,   /* replay: neither dead nor unknown; confirm: not unknown */
  FP_LIVE_KEY = 23,   /* replay: another message has its key */
  FP_DEAD = 24,       /* retry or later: attempts or age were used up, it is dead now */

  /* states of a message; 3 and 4 are both "done" */
  FP_PENDING = 0,
  FP_LEASED = 1,
  FP_BEGUN = 2,
  FP_DONE_UNLISTED = 3,
  FP_DONE_LISTED = 4,
  FP_STATE_DEAD = 5,
  FP_STATE_UNKNOWN = 6,
  FP_CANCELLED = 7,
  FP_WAITING = 8, /* pending behind the head of its lane */

  FP_UNSYNCED = 2, /* of fp_options.normal */

  /* profiles of a queue */
  FP_PROFILE_QUEUE = 0,
  FP_PROFILE_JOB = 1,
  FP_PROFILE_OUTBOX = 2,
  FP_PROFILE_INBOX = 3,
  FP_PROFILE_WAKEUP = 4,

  /* life of a key */
  FP_LIFE_NONE = 0,
  FP_LIFE_LASTING = 1, /* `key`: until retention */
  FP_LIFE_LIVE = 2,    /* `unique`: while pending or leased */

  /* what an enqueue does when its key is taken */
  FP_EQUAL_POLICY = 0,  /* as the profile says */
  FP_EQUAL_COMPARE = 1, /* equal: answer the first; different: FP_CONFLICT */
  FP_EQUAL_RETURN = 2,  /* answer the first, whatever it says */
  FP_EQUAL_REPLACE = 3, /* pending or ended: the new one takes the key; leased: answer it */
  FP_EQUAL_REARM = 4,   /* wake-ups; pending: due at the earlier moment; leased: once more after */

  /* verbs of a verdict */
  FP_ACK = 1,
  FP_RETRY = 2,   /* uses the attempt; due after `delay` (-1: the queue's own back-off) */
  FP_RELEASE = 3, /* gives the attempt back, back to its old place or later; never ages */
  FP_LATER = 4,   /* snooze: gives the attempt back; bounded by max_age */
  FP_FAIL = 5,    /* dead letter */
  FP_CANCEL = 6,  /* ended as cancelled by its holder */
  FP_RENEW = 7,   /* lease of `delay` from now (-1: the queue's own), same token */
  FP_BEGIN = 8,   /* renewed as by RENEW, and from now on it may have reached the outside */
  FP_UNKNOWN = 9, /* whether it did, its holder cannot say: put aside, and never handed out */

  /* which attempts a claim hands out alone */
  FP_ALONE_LAPSED = 0, /* those whose last holder never answered */
  FP_ALONE_TRIED = 1,  /* all with an attempt behind them */
  FP_ALONE_NEVER = 2,  /* none: the claim ends before one whose last holder never answered */

  FP_POLICY_FIELDS = 20
};

typedef struct fp_store fp_store;   /* one handle on one file; any thread */
typedef struct fp_tx fp_tx;         /* one open transaction; its own thread only */
typedef struct fp_guest fp_guest;   /* one prepared statement of the caller's own SQL */
typedef struct fp_keeper fp_keeper; /* the thread that renews leases */

typedef struct fp_error {
  int code;
  int sqlite_code;     /* SQLite's extended result code, or 0 */
  int64_t id;          /* FP_CONFLICT: the message that owns the key */
  char statement[64];  /* the name of our statement, or "" */
  char message[1024];  /* one line, always terminated */
} fp_error;

typedef struct fp_rows {
  int32_t count;
  int32_t width;          /* int64 values per record */
  const int64_t *records;
  const char *blob;
  int64_t blob_bytes;
} fp_rows;

void fp_rows_free(fp_rows *rows);
const char *fp_sqlite_version(void);
int32_t fp_schema_version(void); /* of every file that this core has open */

/* ---- the store ---- */
typedef struct fp_options {
  const char *path;    /* terminated */
  int create;          /* make file, parent folders and our tables when missing */
  int wal;             /* may turn an existing database to WAL */
  int network;         /* allow a file system whose locks cannot be trusted */
  int foreign_keys;    /* enforce the application's own foreign keys in its own SQL */
  int normal;          /* 1: a power cut may lose the last commits; FP_UNSYNCED: the whole file */
  int64_t hand_us;     /* store time is this number until fp_hand moves it; -1: the real clock */
} fp_options;

int fp_open(const fp_options *options, fp_store **store, fp_error *err);
/* Waits for calls under way; none is taken from then on, also after FP_AGAIN. Again: FP_OK. */
int fp_close(fp_store *store, fp_error *err);
void fp_free(fp_store *store);                 /* the memory; closes, unless in a forked child */
int fp_now(fp_store *store, int64_t *now_us, fp_error *err);
int fp_hand(fp_store *store, int64_t now_us, fp_error *err);  /* -1: back to the real clock */

/* ---- queues and kinds ----
** Policy fields, by index; INT64_MIN leaves a field as it is (or at its profile's default):
**  0 keep_us  1 key_window_us (0: the longer of keep and 7 days)  2 addressed  3 listed
**  4 max_attempts (0: no limit)  5 max_age_us  6 lease_us  7 base_us  8 factor_milli  9 cap_us
** 10 jitter_milli  11 lane_width  12 on_dead (0 go on, 1 halt)  13 on_unknown (0 hold, 1 retry)
** 14 max_size (0: none)  15 concurrency (0: none)  16 rate_milli (0: none)
** 17 held_until_us  18 paused  19 profile (out only) */
int fp_queue_find(fp_store *store, fp_tx *tx, const char *name, int32_t name_bytes,
                  int64_t *number, int64_t *policy, fp_error *err); /* number 0: none */
int fp_queue_define(fp_store *store, fp_tx *tx, const char *name, int32_t name_bytes,
                    int32_t profile, const int64_t *policy, int64_t *number, fp_error *err);
/* The policy that such a queue would be made with. Touches no file. FP_INVALID. */
int fp_queue_policy(int32_t profile, const int64_t *said, int64_t *made, fp_error *err);
int fp_queue_pause(fp_store *store, fp_tx *tx, int64_t queue, int32_t paused, fp_error *err);
int fp_kind(fp_store *store, fp_tx *tx, const char *name, int32_t name_bytes, int64_t *number,
            fp_error *err); /* finds or makes */

/* ---- enqueue ---- */
typedef struct fp_put {
  int64_t queue;
  int64_t kind;                   /* 0: none */
  int32_t count;
  int32_t equal;                  /* FP_EQUAL_… */
  const char *bodies;             /* all payloads joined */
  const uint32_t *body_bytes;
  const char *keys;               /* joined; with key_bytes NULL: no keys at all */
  const int32_t *key_bytes;       /* -1: this one has none */
  const unsigned char *lives;     /* FP_LIFE_… of each; NULL: `life` for all */
  const char *digests;            /* 32 bytes for each message; NULL: bodies are compared, and one
                                  ** key twice in one batch is a conflict */
  const char *lanes;
  const int32_t *lane_bytes;
  const char *headers;
  const int32_t *header_bytes;
  const int64_t *delays_us;       /* NULL: `delay_us` for all */
  const signed char *priorities;  /* NULL: `priority` for all */
  int64_t delay_us;               /* from now; or, when `absolute`, wall-clock moments */
  int32_t absolute;
  int32_t life;
  int32_t priority;
  int32_t max_attempts;           /* -1: the queue's */
} fp_put;

/* One commit, all or none. ids[i] is the message of item i; created[i] is 0 where an equal one
** was there. FP_CONFLICT, FP_FULL. */
int fp_enqueue(fp_store *store, fp_tx *tx, const fp_put *put, int64_t *ids,
               unsigned char *created, fp_error *err);

/* ---- settle and claim ---- */
typedef struct fp_verdict {       /* 10 int64, so that a binding can pack it */
  int64_t id, token;
  int64_t verb;
  int64_t delay_us;               /* RETRY, RELEASE, LATER, RENEW, BEGIN */
  int64_t result_bytes;           /* ACK; -1: no result */
  int64_t kind_bytes, code_bytes, text_bytes; /* the failure: RETRY, LATER, FAIL, UNKNOWN; -1:
                                                ** none */
  int64_t unused0, unused1;       /* 0 */
} fp_verdict;

typedef struct fp_settle {
  int32_t count;
  const int64_t *claims;          /* (id, token) pairs, all FP_ACK without a result; or NULL, and */
  const fp_verdict *verdicts;     /* one for each */
  const char *blob;               /* result, kind, code, text of each verdict, joined */
} fp_settle;

typedef struct fp_take {
  int32_t queue_count;
  int32_t limit;                  /* messages at the most */
  const int64_t *queues;          /* taken in rotation from `turn` on */
  int64_t lease_us;               /* 0: each queue's own */
  int64_t bytes_max;              /* payload bytes at the most, but one message always; 0: 64 MiB */
  int64_t until_us;               /* wait for the first until this store time; 0: do not */
  int32_t alone;                  /* FP_ALONE_… */
  int32_t turn;                   /* index of the queue to begin with */
  int64_t slice_us;               /* waits no longer than this in one call; 0: half a second */
  int64_t nudges;                 /* comes back as soon as there were more (fp_nudges); 0: never */
  int32_t ahead;                  /* of `limit`, those that cannot start at once: they are of no
                                  ** queue with `concurrency`, whose places are for who works */
} fp_take;

/* answers[i]: FP_DONE, FP_ALREADY, FP_LOST, FP_DEAD. */
int fp_settle_many(fp_store *store, fp_tx *tx, const fp_settle *settle, int32_t *answers,
                   fp_error *err);
/* Settles (may be NULL) and claims in one commit. Waits one slice at the most, and no longer than
** until the thread gets a signal: an empty answer before `until_us` means "call again". Each record
** of *claims has 16 values:
**   id, token, attempt, queue, kind, enqueued_at, due, lease_end, generation, max_attempts,
**   lapsed (1: its last holder never answered), life, key_bytes, lane_bytes, header_bytes,
**   body_bytes; blob: key, lane, headers, body of each. */
int fp_step(fp_store *store, const fp_settle *settle, int32_t *answers, const fp_take *take,
            fp_rows *claims, fp_error *err);
/* answers[i]: FP_DONE, FP_GONE, FP_ALREADY (ended before), FP_INVALID (bulk queue, moved). */
int fp_cancel(fp_store *store, fp_tx *tx, int32_t count, const int64_t *ids, int32_t *answers,
              fp_error *err);
/* What is dead or unknown, in line again. pairs: (id, generation); generation -1: whichever it is
** now. delay of item i: delay + i*gap. What is dead begins at attempt 0; what is unknown goes on
** counting, with one attempt more if they are used up. A note that is not empty, up to 1000 bytes,
** is the text of its failure until it fails again or ends. */
int fp_replay(fp_store *store, int32_t count, const int64_t *pairs, int64_t delay_us,
              int64_t gap_us, const char *note, int32_t note_bytes, int32_t apply,
              int32_t *answers, fp_error *err);
/* What is unknown has arrived: it is done. pairs as in fp_replay; the note, up to 1000 bytes, stays
** as the text of its failure. A lane that halted for it goes on. answers[i]: FP_DONE, FP_GONE,
** FP_NOT_DEAD, FP_SUPERSEDED. */
int fp_confirm(fp_store *store, int32_t count, const int64_t *pairs, const char *note,
               int32_t note_bytes, int32_t *answers, fp_error *err);
int fp_release_lane(fp_store *store, int64_t queue, const char *lane, int32_t lane_bytes,
                    int32_t *released, fp_error *err);
/* Outcomes of `state` (3: done, listed or not) that ended before a moment; queue 0: every one.
** apply 0 counts. One slice of at most `limit`. */
int fp_purge(fp_store *store, int64_t queue, int32_t state, int64_t before_us, int32_t limit,
             int32_t apply, int64_t *purged, fp_error *err);
/* One slice of what the queues' own `keep` and `key_window` let go; *more: call again. */
int fp_retain(fp_store *store, int32_t limit, int64_t *purged, int32_t *more, fp_error *err);
int fp_progress(fp_store *store, fp_tx *tx, int64_t id, const char *value, int64_t value_bytes,
                fp_error *err);

/* ---- looking; payload-free. Each record of a message has 16 values:
**   id, queue, kind, state, attempt, generation, enqueued_at, settled_at (-1), due (-1), life,
**   key_bytes, lane_bytes, failure_kind_bytes, failure_code_bytes, failure_text_bytes,
**   turn (where it stands in line; 0: it has ended)
** blob: key, lane, failure kind, code, text of each. */
typedef struct fp_filter {
  int32_t state;          /* FP_PENDING (also waiting), FP_LEASED, FP_DONE_LISTED, …dead, … */
  int32_t limit;
  int64_t queue;          /* 0: all */
  int64_t kind;           /* 0: all */
  int64_t since_us;       /* INT64_MIN: none; inclusive */
  int64_t before_us;      /* INT64_MAX: none; exclusive */
  const char *lane;
  int32_t lane_bytes;     /* -1: all */
  int32_t has_after;
  int64_t after[3];       /* the cursor: what fp_list gave in `next` */
} fp_filter;

int fp_get(fp_store *store, fp_tx *tx, int64_t id, fp_rows *row, fp_error *err); /* 0 or 1 row */
int fp_get_by_key(fp_store *store, int64_t queue, int64_t kind, int32_t life, const char *key,
                  int32_t key_bytes, fp_rows *row, fp_error *err);
/* In line: in the line's order. Ended: newest first. A page may be short, even empty, with more
** behind it; *has_next tells. */
int fp_list(fp_store *store, const fp_filter *filter, fp_rows *rows, int64_t next[3],
            int32_t *has_next, fp_error *err);
/* Lanes that stand still, by name, behind `after` (empty: from the first on). A record of 2 values
** each: the message that halted it, name_bytes; blob: name. A look takes in so many lanes only; the
** last row may be of one that does not stand still, where it ended: its message is 0. No rows:
** there are none behind `after`. */
int fp_lanes(fp_store *store, int64_t queue, const char *after, int32_t after_bytes, int32_t limit,
             fp_rows *rows, fp_error *err);
/* one record of 4: body_bytes, header_bytes, result_bytes, progress_bytes. FP_GONE. */
int fp_content(fp_store *store, int64_t id, fp_rows *row, fp_error *err);
/* a record a queue, 14 values: number, profile, paused, pending, waiting, leased, done, dead,
** unknown, cancelled, oldest_due (-1: nothing due; the earliest due moment that has passed),
** next_due (-1), lapsed leases (counted up to 1000), name_bytes; blob: name. */
int fp_stats(fp_store *store, fp_rows *rows, fp_error *err);
int fp_size(fp_store *store, fp_tx *tx, int64_t queue, int64_t *size, fp_error *err); /* in line */
/* a record a kind, 2 values: number, name_bytes; blob: name. */
int fp_kinds(fp_store *store, fp_rows *rows, fp_error *err);
/* a record a registered worker, 5 values: number, pid, started_us, alive (1; 0: its process is dead
** and nobody has cleared up yet; -1: that cannot be told), name_bytes; blob: its machine. */
int fp_workers(fp_store *store, fp_rows *rows, fp_error *err);
/* one record of 1: uuid_bytes, 16. The file's own, for names that hold outside of it. */
int fp_uuid(fp_store *store, fp_rows *row, fp_error *err);
/* a record a finding, 1 value: text_bytes. No rows: healthy. */
int fp_check(fp_store *store, int32_t full, fp_rows *rows, fp_error *err);
/* *classic: 1 where the system has no locks of open file descriptions, so that another SQLite in
** this process would not be kept out. *strangers: descriptors of the file that this process has
** open and we have not opened; -1: that cannot be told here. */
int fp_beside(fp_store *store, int64_t *classic, int64_t *strangers, fp_error *err);
/* The write-ahead log: how large its file is (0: that cannot be told now), and for how long (at
** least) a connection that reads from an old state of the database has kept it from being copied
** and used again; -1: none does, or it is not long. */
int fp_wal(fp_store *store, int64_t *bytes, int64_t *kept_us, fp_error *err);

/* ---- schedules: what they mean, and when they are due, is the binding's to know ---- */
typedef struct fp_schedule {
  int64_t kind;
  int64_t missed;        /* 0 latest, 1 all, 2 skip */
  int64_t last_fired_us; /* it has fired up to this moment */
  int64_t running;       /* the message it enqueued last; 0: none yet */
  const char *name, *expression, *zone;
  int32_t name_bytes, expression_bytes, zone_bytes;
} fp_schedule;

int fp_schedule_find(fp_store *store, fp_tx *tx, const char *name, int32_t name_bytes,
                     int32_t *found, int64_t *last_fired_us, int64_t *running, fp_error *err);
/* a record a schedule, 7 values: missed, last_fired_us, running, then the bytes of name, kind,
** expression and zone; blob: those. */
int fp_schedules(fp_store *store, fp_rows *rows, fp_error *err);
int fp_schedule_keep(fp_store *store, fp_tx *tx, const fp_schedule *schedule, fp_error *err);

/* ---- copies, and a look from outside ----
** The three take terminated paths. A copy is one moment of the file, synced, 0600, and gets its
** name when it is whole. FP_INVALID: the name is taken (by `over` it may be), or a -wal, -shm or
** -journal stands beside it. */
int fp_backup(fp_store *store, const char *path, int32_t over, fp_error *err);
/* Of a file that nobody has open. No claim from before opens anything in it. */
int fp_restore(const char *backup, const char *path, fp_error *err);
/* fp_stats as of the moment at_us (-1: now, as the file's store time has it), which *now_us tells;
** creates nothing but, beside a -wal, the -shm that goes with it. */
int fp_status(const char *path, int64_t at_us, int64_t *now_us, fp_rows *rows, fp_error *err);

/* ---- waiting ---- */
int fp_version(fp_store *store, int64_t *version, fp_error *err);
/* Until the file's version is not *version any more, because something happened in `queue` that
** may be waited for (0: each commit), or store time reaches until_us; one slice at the most, and no
** longer than until the thread gets a signal. *version is brought up to date. FP_CLOSED, also while
** it waits. */
int fp_wait(fp_store *store, int64_t queue, int64_t *version, int64_t until_us, fp_error *err);
/* How often fp_nudge was called, from 1 on. A claim that waits and names an older number comes back
** at once, whichever of both calls came first. Both never fail, also when the store is closed. */
int64_t fp_nudges(fp_store *store);
void fp_nudge(fp_store *store);

/* ---- transactions and the caller's own SQL ---- */
int fp_tx_begin(fp_store *store, fp_tx **tx, fp_error *err);
/* Frees tx, whatever it answers. Another thread than its own can only roll it back (asked to commit
** it does so, and answers FP_INVALID), and not while its own is using it: then it is not freed. */
int fp_tx_end(fp_tx *tx, int32_t commit, fp_error *err);
/* Packed values, for parameters and rows alike: one tag byte, then
**   'n' nothing · 'i' int64 · 'f' double · 't' int64 length, UTF-8 · 'b' int64 length, bytes
** numbers in the machine's own order. FP_CONSTRAINT, FP_INVALID (not allowed here). */
int fp_guest_open(fp_tx *tx, const char *sql, int64_t sql_bytes, fp_guest **guest, fp_error *err);
int32_t fp_guest_parameter_count(fp_guest *guest);
const char *fp_guest_parameter(fp_guest *guest, int32_t index); /* from 1; NULL: no name */
/* Runs the statement once for each of `sets` parameter sets. rows->width columns; one record a
** row, no values in it (columns are in blob, packed as above); *changed: rows written in all;
** *last_rowid 0: it inserted nothing. */
int fp_guest_run(fp_guest *guest, int32_t sets, const char *params, int64_t params_bytes,
                 fp_rows *rows, int64_t *changed, int64_t *last_rowid, fp_error *err);
void fp_guest_close(fp_guest *guest);

/* ---- the keeper: renews what it was given, each `beat_us`, until dropped or its own end ----
** NULL is one that is stopped: it holds nothing. */
int fp_keeper_start(fp_store *store, int64_t beat_us, fp_keeper **keeper, fp_error *err);
/* claims: id, token, lease_us, until_us (0: for ever) of each. All of them are held, or none. */
int fp_keeper_hold(fp_keeper *keeper, int32_t count, const int64_t *claims, fp_error *err);
/* claims: id, token of each. */
void fp_keeper_drop(fp_keeper *keeper, int32_t count, const int64_t *claims);
int fp_keeper_lost(fp_keeper *keeper, int64_t id, int64_t token); /* 1: it is not kept */
void fp_keeper_stop(fp_keeper *keeper); /* joins and frees */
/* cdef end */

#include "fencepost_flow.h"
#include "fencepost_many.h"
#include "fencepost_shelf.h"

#ifdef FENCEPOST_TEST
#include "fencepost_test.h"
#endif

#endif
