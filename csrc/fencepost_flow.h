/* The public face of workflows: records, passes, runs. The rules are those of fencepost.h.
**
** A workflow has an id, which is text of up to 1024 bytes, and three things under it, each of which
** may be there without the others:
**   - records, in the order in which they were first written: whoever writes a key first has given
**     it its value, place and moment for good;
**   - a pass: the fenced right to write records, by token. A token opens nothing once a newer one
**     was given, or the records were discarded;
**   - a run: a wake-up in a queue of wake-ups, under the id as its key, with a kind that is not 0.
**     To claim that wake-up (fp_step) is to take the pass, too, with the same token, in the same
**     commit; to renew the one renews the other. The wake-up of a run that has failed or is parked
**     is a dead letter, and its replay is the run's.
** Keys that begin with "inbox:", "child:" or "parent:" are this core's own: FP_INVALID. */
#ifndef FENCEPOST_FLOW_H
#define FENCEPOST_FLOW_H

/* cdef begin */
enum {
  FP_REARMED = 25, /* it did not end: something came meanwhile that it has not seen */

  /* states of a run; up to FP_RUN_WAITING it is live */
  FP_RUN_RUNNING = 0,
  FP_RUN_SLEEPING = 1,
  FP_RUN_WAITING = 2,
  FP_RUN_FAILED = 3,
  FP_RUN_PARKED = 4,
  FP_RUN_DONE = 5,
  FP_RUN_CANCELLED = 6,
  FP_RUN_ANY = -1, /* of a listing */

  /* kinds of a record; up to FP_RECORD_SHOWN_MAX the caller's to choose */
  FP_RECORD_STEP = 0,
  FP_RECORD_TRANSACT = 1,
  FP_RECORD_CHILD = 2,
  FP_RECORD_SLEEP = 3,
  FP_RECORD_WAIT = 4,
  FP_RECORD_RECEIVE = 5,
  FP_RECORD_INBOX = 6,
  FP_RECORD_SHOWN_MAX = 49,
  FP_RECORD_TO_RUN = 50, /* under "child:…": a child run; under "parent:": whose child it is */
  FP_RECORD_TO_JOB = 51,

  /* how a pass ends */
  FP_END_DONE = 1,    /* the run is done: result */
  FP_END_SLEEP = 2,   /* until a moment; attempts begin anew */
  FP_END_WAIT = 3,    /* until something comes, at the latest at a moment (-1: never); the same */
  FP_END_RETRY = 4,   /* failed, again after a delay (-1: the queue's back-off); failed for good if
                      ** its attempts are used up */
  FP_END_FAIL = 5,    /* failed for good */
  FP_END_PARK = 6,    /* put aside for an operator; gives the attempt back */
  FP_END_RELEASE = 7  /* gives the attempt back, to its old place or after a delay */
};

/* Records, one after the other: 8 int64 each. */
typedef struct fp_record {
  int64_t id_bytes, token, key_bytes, kind;
  int64_t value_bytes;   /* -1: NULL */
  int64_t started_us;    /* -1: not said */
  int64_t unused0, unused1; /* 0 */
} fp_record;

typedef struct fp_records {
  int32_t count;
  const fp_record *records;
  const char *blob;      /* id, key, value of each, joined */
} fp_records;

/* 10 int64 each. */
typedef struct fp_end {
  int64_t id_bytes, token;
  int64_t verb;          /* FP_END_… */
  int64_t at_us;         /* SLEEP, WAIT: a moment; RETRY, RELEASE: a delay */
  int64_t waiting_bytes; /* SLEEP, WAIT: for what, in the caller's words; -1: not said */
  int64_t result_bytes;  /* DONE; -1: none */
  int64_t kind_bytes, code_bytes, text_bytes; /* the failure: RETRY, FAIL, PARK; -1: none */
  int64_t unused0;       /* 0 */
} fp_end;

typedef struct fp_ends {
  int32_t count;
  const fp_end *ends;
  const char *blob;      /* id, waiting, result, kind, code, text of each, joined */
} fp_ends;

typedef struct fp_parent { /* whose child something is */
  const char *id, *key;  /* and under which of its keys it is to find what came of it */
  int32_t id_bytes, key_bytes;
  int64_t token;         /* of its pass */
} fp_parent;

typedef struct fp_start {
  int64_t queue, kind;
  const char *id, *args, *headers;
  int32_t id_bytes;
  int32_t header_bytes;  /* -1: none */
  int64_t args_bytes;
  int64_t delay_us;      /* from now; or, when `absolute`, a wall-clock moment */
  int32_t absolute, priority;
  int32_t max_attempts;  /* -1: the queue's */
  const fp_parent *parent; /* NULL: it is nobody's child */
} fp_start;

/* ---- passes ---- */

/* What a pass has to know before it does what is to be recorded. A record of 1 value, value_bytes;
** no row: not recorded yet. FP_LOST. */
int fp_record_find(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int64_t token,
                   const char *key, int32_t key_bytes, fp_rows *row, fp_error *err);
/* Records of one workflow or of many, and then the ends of passes that took their wake-up: one
** commit; either may be NULL. record_answers[i]: FP_DONE (this value is stored), FP_ALREADY
** (another one is), FP_LOST (the token is not the newest; nothing was written). With each goes a
** record of 2 values: 1 if its run was cancelled, value_bytes; blob: the value stored, where the
** answer is FP_ALREADY. A record is a sign of life of its pass. answers[i]: FP_DONE, FP_LOST,
** FP_DEAD (RETRY: attempts were used up), FP_REARMED (it would have failed or been parked, but goes
** on at once with attempts anew), FP_CANCELLED (the run was), FP_ALREADY (it has ended, by this
** token). */
int fp_pass_end(fp_store *store, fp_tx *tx, const fp_records *records, int32_t *record_answers,
                fp_rows *stored, const fp_ends *ends, int32_t *answers, fp_error *err);
/* A pass without a wake-up: at most one is live; *token 0: somebody holds it. It lapses `alive`
** after its last sign of life, and when `budget` is over; lapsed, it goes on until it is taken. */
int fp_pass_claim(fp_store *store, const char *id, int32_t id_bytes, int64_t budget_us,
                  int64_t alive_us, int64_t *token, fp_error *err);
/* A budget from now on, never an earlier end than before. *held 0: the token is not the newest. */
int fp_pass_extend(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int64_t token,
                   int64_t budget_us, int64_t alive_us, int32_t *held, fp_error *err);
/* A sign of life. *held 0: the token is not the newest, or the budget is over. */
int fp_pass_renew(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int64_t token,
                  int64_t alive_us, int32_t *held, fp_error *err);
/* Free at once; what this token still writes lands until the next one is given. */
int fp_pass_release(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int64_t token,
                    int32_t *held, fp_error *err);

/* ---- from outside ---- */
typedef struct fp_outside {
  const char *id, *key, *value; /* key NULL: an entry of the inbox, whose key is given here */
  int32_t id_bytes, key_bytes;
  int64_t value_bytes;          /* -1: NULL */
  int32_t kind;                 /* of the record; an inbox entry's is FP_RECORD_INBOX */
  int32_t live;                 /* 1: FP_GONE unless there is a run that is not done or cancelled */
  int32_t wake;                 /* 1: wake the run; where there is none, the id in `queue` */
  int64_t queue;                /* of wake-ups without a kind; 0: none */
} fp_outside;

/* Gated by no pass. A record of 2 values: 1 if it is this call's, value_bytes; blob: what is
** stored, where it is not. Of an inbox entry it is the key: "inbox:" and 20 digits. */
int fp_outside_put(fp_store *store, fp_tx *tx, const fp_outside *put, fp_rows *row, fp_error *err);
/* All records go, and no token of before opens anything. *gone: how many. */
int fp_discard(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int64_t *gone,
               fp_error *err);

/* ---- runs ---- */

/* *created 0: an equal one was there. FP_CONFLICT: another kind or other arguments. With a parent:
** FP_LOST; it keeps a link, and when the child has ended (done, failed, parked, cancelled) the same
** commit records that under its key and wakes it. The value: 'd' and the result; 'f', the kind of
** the failure, NUL, its text; or 'c'. */
int fp_start_run(fp_store *store, fp_tx *tx, const fp_start *start, int64_t *message,
                 int32_t *created, fp_error *err);
/* One message of a queue as the child of a run, with the same promise; `put` has no key, which is
** given here, and is unique. */
int fp_start_job(fp_store *store, fp_tx *tx, const fp_put *put, const fp_parent *parent,
                 int64_t *message, int32_t *created, fp_error *err);
/* answer: FP_DONE, FP_ALREADY (it has ended), FP_GONE. Its children, and jobs of it that nobody has
** claimed, are cancelled with it. */
int fp_run_cancel(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int32_t *answer,
                  fp_error *err);
/* Failed or parked: once more, at once. answer: FP_DONE, FP_ALREADY (it is neither), FP_GONE (so is
** the run, or its dead letter). */
int fp_run_resume(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int32_t *answer,
                  fp_error *err);
/* A new run of the same kind and arguments, with the records from before `key` (NULL: with all);
** `start` says everything else. FP_GONE: there is no such run, or no such record; FP_CONFLICT:
** there is something under the new id. */
int fp_run_fork(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, const char *key,
                int32_t key_bytes, const fp_start *start, int64_t *message, fp_error *err);
/* Wake-up, run, pass and records go together. `queue`: also a wake-up without a kind; 0: none. */
int fp_run_delete(fp_store *store, fp_tx *tx, int64_t queue, const char *id, int32_t id_bytes,
                  int64_t *gone, fp_error *err);
/* Runs that ended in `state` before a moment, and all that is theirs: one slice of about `limit`
** rows. apply 0 counts, up to `limit`. *purged: runs; *more: call again. */
int fp_run_purge(fp_store *store, int32_t state, int64_t before_us, int32_t limit, int32_t apply,
                 int64_t *purged, int32_t *more, fp_error *err);

/* ---- looking; on the reader, behind nobody ----
** A run's record has 11 values: kind, state, message, created_at, ended_at (-1), id_bytes,
** waiting_bytes, args_bytes, result_bytes, failure_kind_bytes, failure_text_bytes; blob: those six.
** A listing leaves args and result out. */
int fp_run_get(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, fp_rows *row,
               fp_error *err);
typedef struct fp_run_filter {
  int32_t state;     /* FP_RUN_ANY: state by state */
  int32_t limit;
  int64_t kind;      /* 0: all */
  const char *text;  /* that the id contains */
  int32_t text_bytes;
  int32_t has_after;
  int64_t after[3];  /* the cursor: what fp_run_list gave in `next` */
} fp_run_filter;
/* Newest first in each state. A page may be short, even empty, with more behind it. */
int fp_run_list(fp_store *store, const fp_run_filter *filter, fp_rows *rows, int64_t next[3],
                int32_t *has_next, fp_error *err);
/* A record of 6 values for each: seq, kind, started_at (-1), written_at, key_bytes, value_bytes;
** blob: key, value. In the order of seq, those behind `after_seq`; a page ends also at 16 MiB, and
** *more tells whether there are others. */
int fp_record_page(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes,
                   int64_t after_seq, int32_t limit, fp_rows *rows, int32_t *more, fp_error *err);
/* cdef end */

#endif
