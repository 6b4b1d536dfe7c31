#include "txn.h"

#include <string.h>

#include "fault.h"
#include "sys.h"

enum {
  TIME_KEEP_US = 1000000, /* the last time given is at most this much behind in the file */
  PLACE_WRITE_US = 1000,  /* a file that moved longer ago than this is not written to */
  PLACE_LOOK_US = 100000  /* nor looked at */
};

const char *const tally_column[N_STATES] = {"pending", "waiting", "leased",   "done",
                                            "dead",    "unknown", "cancelled"};

static void start(txn *t, db *d, store_clock *clock, places *at) {
  tally *counts = t->counts;
  int room = t->count_room;
  *t = (txn){.d = d, .clock = clock, .places = at, .troubled = -1, .progressed = -1};
  t->counts = counts;
  t->count_room = room;
}

int txn_begin(txn *t, db *d, store_clock *clock, places *at, int64_t wanted_us, fp_error *err) {
  start(t, d, clock, at);
  assert(sqlite3_get_autocommit(d->handle));
  stmt s = stmt_use(&d->sql, SQL_BEGIN);
  int code = stmt_end(&s, err);
  t->began = d->sql.writes;
  if (code == FP_OK) code = db_check_place(d, PLACE_WRITE_US, err);
  if (code == FP_OK) code = db_refresh(d, err);
  if (code == FP_OK) {
    t->now_us = time_turn(clock, &d->head, sys_awake_us() - wanted_us, &t->meta_moved);
  }
  if (code != FP_OK) txn_rollback(t);
  return code;
}

int txn_look(txn *t, db *d, store_clock *clock, fp_error *err) {
  start(t, d, clock, NULL);
  stmt s = stmt_use(&d->sql, SQL_LOOK);
  int code = stmt_end(&s, err);
  if (code == FP_OK) { /* BEGIN alone reads nothing: only a read meets what others have committed */
    s = stmt_use(&d->sql, SQL_DATA_VERSION);
    code = stmt_end(&s, err);
  }
  if (code == FP_OK) code = db_check_place(d, PLACE_LOOK_US, err);
  if (code == FP_OK) code = db_refresh(d, err);
  if (code == FP_OK) t->now_us = time_look(clock, &d->head);
  if (code != FP_OK) txn_rollback(t);
  return code;
}

void txn_looked(txn *t) {
  /* Straight to SQLite, as in txn_rollback; prepared, because a look is short. */
  stmt s = stmt_use(&t->d->sql, SQL_COMMIT);
  (void)sqlite3_step(s.handle);
  (void)sqlite3_reset(s.handle);
  if (!sqlite3_get_autocommit(t->d->handle)) {
    (void)sqlite3_exec(t->d->handle, "ROLLBACK", NULL, NULL, NULL);
  }
}

int64_t txn_draw(txn *t, int64_t n) {
  assert(n >= 0 && t->d->head.last <= COUNTER_MAX - n);
  int64_t first = t->d->head.last + 1;
  t->d->head.last += n;
  t->drew = t->drew || n > 0;
  return first;
}

int64_t txn_worker(const txn *t) { return t->worker != 0 ? t->worker : t->d->worker; }

void txn_count(txn *t, int64_t queue, int state, int64_t by) {
  assert(state >= 0 && state < N_STATES);
  if (by == 0) return;
  if (state == N_PENDING && by > 0) txn_ring(t, queue);
  for (int i = t->count_used - 1; i >= t->count_from; i--) {
    if (t->counts[i].queue == queue) {
      t->counts[i].by[state] += by;
      return;
    }
  }
  if (t->count_used == t->count_room) {
    int room = t->count_room == 0 ? SMALL(8, 1) : t->count_room * 2;
    tally *counts = mem_resize(t->counts, room * (int64_t)sizeof(tally));
    if (counts == NULL) {
      t->failed = true;
      return;
    }
    t->counts = counts;
    t->count_room = room;
  }
  tally *c = &t->counts[t->count_used++];
  *c = (tally){.queue = queue};
  c->by[state] = by;
}

int64_t txn_counted(const txn *t, int64_t queue, int state) {
  int64_t sum = 0;
  for (int i = 0; i < t->count_used; i++) {
    if (t->counts[i].queue == queue) sum += t->counts[i].by[state];
  }
  return sum;
}

void txn_mark_of(txn *t, txn_mark *mark) {
  *mark = (txn_mark){t->d->sql.writes, t->d->head, t->drew, t->meta_moved};
  t->count_from = t->count_used;
}

/* Adds one queue's counts to those that earlier requests made. False: there are none. */
static bool add_to_earlier(txn *t, const tally *c) {
  for (int i = 0; i < t->count_from; i++) {
    if (t->counts[i].queue != c->queue) continue;
    for (int state = 0; state < N_STATES; state++) t->counts[i].by[state] += c->by[state];
    return true;
  }
  return false;
}

int txn_accept(txn *t, fp_error *err) {
  if (t->failed) return err_memory(err);
  int used = t->count_from;
  for (int i = t->count_from; i < t->count_used; i++) {
    if (!add_to_earlier(t, &t->counts[i])) t->counts[used++] = t->counts[i];
  }
  t->count_used = t->count_from = used;
  return FP_OK;
}

bool txn_revert(txn *t, const txn_mark *mark) {
  if (t->d->sql.writes != mark->wrote || sqlite3_get_autocommit(t->d->handle)) return false;
  t->d->head = mark->head;
  t->drew = mark->drew;
  t->meta_moved = mark->meta_moved;
  t->count_used = t->count_from;
  t->failed = false;
  return true;
}

void txn_ring(txn *t, int64_t queue) { t->rings |= BELL_OF(queue); }

void txn_lease(txn *t, int64_t queue, int64_t lease_us) {
  /* Sleepers look once a slice, and so learn of its end in time, unless it is shorter. */
  if (lease_us < WAIT_SLICE_MS * INT64_C(1000)) txn_ring(t, queue);
  if (t->clock->shortest_lease == 0 || lease_us < t->clock->shortest_lease) {
    t->clock->shortest_lease = lease_us;
  }
  if (lease_us > t->d->head.longest_lease) {
    t->d->head.longest_lease = lease_us;
    t->meta_moved = true;
  }
}

static int keep_meta(txn *t, fp_error *err) {
  const head *h = &t->d->head;
  stmt s = stmt_use(&t->d->sql, SQL_META_KEEP);
  put_text(&s, "boot_id", (span){h->boot_id, (int64_t)strlen(h->boot_id)});
  put_i64(&s, "clock_offset", h->offset);
  put_i64(&s, "asleep", h->asleep);
  put_i64(&s, "grace_until", h->grace_until);
  put_i64(&s, "longest_lease", h->longest_lease);
  return stmt_end(&s, err);
}

static int keep_head(txn *t, fp_error *err) {
  assert(t->now_us >= t->d->head.time);
  t->d->head.time = t->now_us;
  stmt s = stmt_use(&t->d->sql, SQL_HEAD_KEEP);
  put_i64(&s, "last", t->d->head.last);
  put_i64(&s, "time", t->d->head.time);
  return stmt_end(&s, err);
}

static int keep_count(txn *t, const tally *c, fp_error *err) {
  bool any = false;
  for (int i = 0; i < N_STATES; i++) any = any || c->by[i] != 0;
  if (!any) return FP_OK;
  int changed;
  stmt s = stmt_use(&t->d->sql, SQL_TALLY_ADD);
  for (int i = 0; i < N_STATES; i++) put_i64(&s, tally_column[i], c->by[i]);
  put_i64(&s, "queue", c->queue);
  int code = stmt_changes(&s, &changed, err);
  if (code == FP_OK && changed != 1) {
    code = err_set(err, FP_STORAGE, "fencepost_tally has no row for queue %lld",
                   (long long)c->queue);
  }
  return code;
}

int txn_flush(txn *t, fp_error *err) {
  if (t->failed) return err_memory(err);
  int code = FP_OK;
  bool wrote = t->d->sql.writes > t->began; /* a renewal counts nothing, and is given time, too */
  bool late = wrote && t->now_us - t->d->head.time > TIME_KEEP_US;
  if (t->drew || late) code = keep_head(t, err);
  if (code == FP_OK && t->meta_moved) code = keep_meta(t, err);
  for (int i = 0; code == FP_OK && i < t->count_used; i++) code = keep_count(t, &t->counts[i], err);
  if (code != FP_OK) return code;
  t->drew = false;
  t->meta_moved = false;
  t->count_used = t->count_from = 0;
  return FP_OK;
}

static void release(txn *t) {
  mem_free(t->counts);
  t->counts = NULL;
  t->count_used = t->count_room = t->count_from = 0;
}

int txn_commit(txn *t, fp_error *err) {
  int code = txn_flush(t, err);
  if (code == FP_OK) {
    t->asked = true;
    stmt s = stmt_use(&t->d->sql, SQL_COMMIT);
    code = stmt_end(&s, err);
  }
  /* Nothing is acknowledged that is in a file which nobody finds any more. */
  if (code == FP_OK) code = db_check_place(t->d, t->d->commit_us, err);
  if (code != FP_OK) {
    txn_rollback(t);
    return code;
  }
  db_committed(t->d);
  if (t->worker != 0) t->d->worker = t->worker;
  if (t->places != NULL) places_keep(t->places);
  release(t);
  return FP_OK;
}

void txn_rollback(txn *t) {
  /* Before the number can be drawn again. */
  if (t->worker != 0) locks_drop(&t->d->file, LOCKS_WORKER + t->worker);
  t->worker = 0;
  /* Straight to SQLite: the way back is no place for a fault of the test's own making, and where
  ** SQLite has rolled back by itself there is nothing left to do. */
  if (!sqlite3_get_autocommit(t->d->handle)) {
    (void)sqlite3_exec(t->d->handle, "ROLLBACK", NULL, NULL, NULL);
  }
  db_forget(t->d);
  memset(t->d->lapses, 0, sizeof t->d->lapses); /* what was taken over stands where it stood */
  if (t->places != NULL) places_undo(t->places);
  release(t);
}

static int stands(txn *t, const place *at, bool *there, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_DUE_AT);
  put_i64(&s, "turn", at->turn);
  put_i64(&s, "due_at", at->due_at);
  put_i64(&s, "id", at->id);
  *there = stmt_row(&s) && get_i64(&s, "token") == at->token;
  return stmt_end(&s, err);
}

int txn_went_back(txn *t, fp_error *err) {
  int code = FP_OK;
  int64_t changes = t->places->log_count; /* putting one back is a change, too */
  db_forget(t->d);
  t->drew = t->meta_moved = true; /* the head in memory is the newer one: it is written again */
  for (int64_t i = 0; code == FP_OK && i < changes; i++) {
    place before = t->places->log[i];
    bool there = false;
    if (before.token != 0) code = stands(t, &before, &there, err);
    if (code == FP_OK && there && !places_put(t->places, &before)) code = err_memory(err);
  }
  return code;
}

/* A read that fails may take the whole transaction back: it is told like any other failure. */
static int any_row(txn *t, int id, int8_t *known, bool *any, fp_error *err) {
  if (*known < 0) {
    stmt s = stmt_use(&t->d->sql, id);
    bool found = stmt_row(&s);
    int code = stmt_end(&s, err);
    if (code != FP_OK) return code;
    *known = found ? 1 : 0;
  }
  *any = *known == 1;
  return FP_OK;
}

int txn_troubled(txn *t, bool *any, fp_error *err) {
  return any_row(t, SQL_TROUBLE_ANY, &t->troubled, any, err);
}

int txn_drop_trouble(txn *t, int64_t id, fp_error *err) {
  bool any;
  int code = txn_troubled(t, &any, err);
  return code == FP_OK && any ? txn_drop(t, SQL_TROUBLE_DROP, id, err) : code;
}

int txn_drop_progress(txn *t, int64_t id, fp_error *err) {
  bool any;
  int code = any_row(t, SQL_PROGRESS_ANY, &t->progressed, &any, err);
  return code == FP_OK && any ? txn_drop(t, SQL_PROGRESS_DROP, id, err) : code;
}

int txn_drop(txn *t, int id_statement, int64_t id, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, id_statement);
  put_i64(&s, "id", id);
  return stmt_end(&s, err);
}

int txn_state_of(int64_t outcome_state) {
  switch (outcome_state) {
    case FP_DONE_UNLISTED:
    case FP_DONE_LISTED: return N_DONE;
    case FP_STATE_DEAD: return N_DEAD;
    case FP_STATE_UNKNOWN: return N_UNKNOWN;
    default: return N_CANCELLED;
  }
}
