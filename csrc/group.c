#include "group.h"

#include <stdio.h>
#include <string.h>

#include "fault.h"
#include "guest.h"
#include "writelock.h"
#include "turn.h"
#include "wake.h"
#include "wal.h"

static int check_generation(const fp_store *store, fp_error *err) {
  if (store->generation == sys_generation()) return FP_OK;
  return err_set(err, FP_FORKED, "this handle was opened before a fork: a child process has to "
                                 "open the file itself");
}

int group_enter(fp_store *store, fp_tx *tx, fp_error *err) {
  err_clear(err);
  int code = check_generation(store, err);
  if (code != FP_OK) return code;
  if (tx != NULL && tx->store != store) {
    return err_set(err, FP_INVALID, "the transaction belongs to another store");
  }
  sys_lock(&store->gate);
  if (tx != NULL && !pthread_equal(tx->owner, pthread_self())) {
    code = err_set(err, FP_INVALID, "the transaction belongs to another thread");
  } else if (store->closed || (store->closing && tx == NULL)) {
    code = err_set(err, FP_CLOSED, "the store is closed");
  } else {
    store->users++;
    if (tx != NULL) tx->busy = true;
  }
  sys_unlock(&store->gate);
  return code;
}

int group_enter_last(fp_tx *tx, bool *own, fp_error *err) {
  fp_store *store = tx->store;
  err_clear(err);
  int code = check_generation(store, err);
  if (code != FP_OK) return code;
  sys_lock(&store->gate);
  *own = pthread_equal(tx->owner, pthread_self());
  if (!*own && tx->busy) {
    code = err_set(err, FP_INVALID, "the transaction belongs to another thread, which is using it");
  } else {
    tx->owner = pthread_self();
  }
  sys_unlock(&store->gate);
  return code == FP_OK ? group_enter(store, tx, err) : code;
}

void group_leave(fp_store *store) {
  sys_lock(&store->gate);
  assert(store->users > 0);
  store->users--;
  if (store->open != NULL && pthread_equal(store->open->owner, pthread_self())) {
    store->open->busy = false;
  }
  if (store->closing) sys_wake_all(&store->gate);
  sys_unlock(&store->gate);
}

void group_install(fp_store *store) {
  writelock_install(store);
  wal_install(store);
}

void group_close(fp_store *store) {
  wal_close(store);
  db_close(&store->reader);
  db_close(&store->writer);
}

/* ---- transactions ---- */

static int begin(fp_store *store, txn *t, int64_t until_us, fp_error *err) {
  writelock_ask(store, until_us);
  int code = txn_begin(t, &store->writer, &store->clock, &store->places, store->wanted_us, err);
  writelock_asked(store, code == FP_OK);
  if (code == FP_AGAIN) { /* SQLite's words do not say by whom; we know more */
    (void)snprintf(err->message, sizeof err->message,
                   "the file is busy: another process, or another handle, has its write lock");
  }
  return code;
}

static int commit(fp_store *store, txn *t, int32_t members, fp_error *err) {
  int code = txn_commit(t, err);
  if (code == FP_OK) wake_ring(store, t->rings | WAKE_LOCK);
#ifdef FENCEPOST_TEST
  int64_t *counts = store->group_counts;
  counts[0] += code == FP_OK ? 1 : 0;
  counts[1] += code == FP_OK ? members : 0;
  if (members > counts[3]) counts[3] = members;
#endif
  (void)members;
  return code;
}

/* ---- requests ---- */

/* In the caller's transaction: an expected refusal leaves it as it was; a failed write ends it. */
static int run_inside(fp_tx *tx, request run, void *argument, fp_error *err) {
  txn *t = &tx->txn;
  txn_mark mark;
  if (tx->dead || sqlite3_get_autocommit(t->d->handle)) {
    return err_set(err, FP_INVALID, "the transaction was rolled back by an earlier failure");
  }
  txn_mark_of(t, &mark);
  int code = run(t, argument, err);
  if (code == FP_OK) code = txn_flush(t, err);
  if (code == FP_OK || txn_revert(t, &mark)) return code;
  txn_rollback(t);
  tx->dead = true;
  if (code == FP_AGAIN) code = err->code = FP_BUSY; /* to be asked again there is nothing left */
  return code;
}

/* False: it failed after its first write, and all is lost. */
static bool run_member(txn *t, waiter *w) {
  txn_mark mark;
  txn_mark_of(t, &mark);
  w->code = w->run(t, w->argument, w->err);
  if (w->code == FP_OK) w->code = txn_accept(t, w->err);
  return w->code == FP_OK || txn_revert(t, &mark);
}

/* All that stand in line, and those who come while these run. False: one of them spoilt it. */
static bool run_together(fp_store *store, txn *t, group *g) {
  bool whole = true;
  while (whole && turn_take(store, g)) {
    for (waiter *w = g->run; whole && w != NULL; w = w->next) whole = run_member(t, w);
  }
  return whole && !fault_spoils();
}

/* The group's transaction is rolled back, so each has one of its own. They wait for the file no
** longer than a slice together: who has not got it by then is to call again. */
static void run_each_alone(fp_store *store, const group *g) {
  int64_t until_us = sys_awake_us() + WAIT_SLICE_MS * INT64_C(1000);
#ifdef FENCEPOST_TEST
  store->group_counts[2]++;
#endif
  for (waiter *w = g->first; w != NULL; w = w->next) {
    txn t = {0};
    err_clear(w->err);
    w->code = begin(store, &t, until_us, w->err);
    if (w->code != FP_OK) continue;
    w->code = w->run(&t, w->argument, w->err);
    if (w->code == FP_OK) {
      w->code = commit(store, &t, 1, w->err);
    } else {
      txn_rollback(&t);
    }
  }
}

static bool any_done(const group *g) {
  const waiter *w = g->first;
  while (w != NULL && w->code != FP_OK) w = w->next;
  return w != NULL;
}

/* A COMMIT that SQLite was not asked for has not happened, and neither has one that found no room,
** or the file busy. Of one that the disk answered with an error nobody knows. */
static bool certainly_undone(const txn *t, const fp_error *err) {
  int rc = err->sqlite_code & 0xff;
  return !t->asked || rc == SQLITE_FULL || rc == SQLITE_BUSY;
}

static void tell_all(const group *g, const fp_error *err) {
  for (waiter *w = g->first; w != NULL; w = w->next) {
    *w->err = *err;
    w->code = err->code;
  }
}

/* The end of the group's transaction, and everybody's answer. */
static void conclude(fp_store *store, txn *t, const group *g, bool whole) {
  fp_error err;
  bool alone = g->count == 1;
  err_clear(&err);
  if (whole && any_done(g)) {
    if (commit(store, t, g->count, &err) == FP_OK) return;
    if (alone || !certainly_undone(t, &err)) {
      tell_all(g, &err);
      return;
    }
  } else {
    txn_rollback(t);
    if (whole || (alone && g->first->code != FP_OK)) return;
  }
  run_each_alone(store, g);
}

/* The caller has the turn: runs its request, and those of whoever stands behind it. */
static void lead(fp_store *store, waiter *me) {
  txn t = {0};
  group g = {0};
  me->code = begin(store, &t, turn_until(me), me->err);
  if (me->code != FP_OK) {
    turn_give_up(store, me, me->code == FP_AGAIN);
    return;
  }
  bool whole = run_together(store, &t, &g);
  conclude(store, &t, &g, whole);
  turn_answer(&g, me);
  bool due = wal_finish(store);
  turn_pass(store);
  if (due) wal_copy(store);
}

/* Of one that stands in line. */
static int wait_and_run(fp_store *store, waiter *me) {
  int code = turn_wait(store, me);
  if (code == FP_OK && sys_word_get(&me->state) == TURN_LEADS) lead(store, me);
  return code == FP_OK ? me->code : code;
}

static int run_in_line(fp_store *store, waiter *me, bool first) {
  int code = turn_line_up(store, &me, 1, first, me->err);
  return code == FP_OK ? wait_and_run(store, me) : code;
}

int group_run(fp_store *store, fp_tx *tx, const char *what, int64_t bytes, request run,
              void *argument, fp_error *err) {
  waiter me = {.what = what, .run = run, .argument = argument, .bytes = bytes, .err = err};
  return tx != NULL ? run_inside(tx, run, argument, err) : run_in_line(store, &me, false);
}

int group_run_first(fp_store *store, const char *what, int64_t bytes, request run, void *argument,
                    fp_error *err) {
  waiter me = {.what = what, .run = run, .argument = argument, .bytes = bytes, .err = err};
  return run_in_line(store, &me, true);
}

/* One behind the other: when its first one is served or leads, the next has at most to wait. */
int group_run_all(fp_store *store, waiter *const *calls, int32_t count, fp_error *err) {
  if (count == 0) return FP_OK;
  int code = turn_line_up(store, calls, count, false, err);
  for (int32_t i = 0; code == FP_OK && i < count; i++) {
    calls[i]->code = wait_and_run(store, calls[i]);
  }
  return code;
}

bool group_take_reader(fp_store *store, fp_error *err) {
  sys_lock(&store->gate);
  int64_t start = sys_awake_us(), left = WAIT_SLICE_MS * INT64_C(1000);
  while (store->reading && left > 0) {
    sys_wait(&store->gate, left);
    left = start + WAIT_SLICE_MS * INT64_C(1000) - sys_awake_us();
  }
  bool taken = !store->reading;
  if (taken) store->reading = true;
  sys_unlock(&store->gate);
  if (!taken) (void)err_set(err, FP_AGAIN, "the store is busy: another thread is reading");
  return taken;
}

void group_give_reader(fp_store *store) {
  sys_lock(&store->gate);
  store->reading = false;
  sys_wake_all(&store->gate);
  sys_unlock(&store->gate);
}

int group_look(fp_store *store, fp_tx *tx, request run, void *argument, fp_error *err) {
  if (tx != NULL) return run_inside(tx, run, argument, err);
  if (!group_take_reader(store, err)) return FP_AGAIN;
  txn t = {0};
  int code = txn_look(&t, &store->reader, &store->clock, err);
  if (code == FP_OK) {
    code = run(&t, argument, err);
    bool fresh = code == FP_OK;
    db *d = &store->reader;
    txn_looked(&t);
    if (!fresh) db_forget(d);
  }
  group_give_reader(store);
  return code;
}

int group_begin(fp_store *store, fp_tx **out, fp_error *err) {
  *out = NULL;
  waiter me = {.what = "a transaction", .err = err};
  fp_tx *tx = mem_get((int64_t)sizeof *tx);
  if (tx == NULL) return err_memory(err);
  *tx = (fp_tx){.store = store, .owner = pthread_self()};
  waiter *one = &me;
  int code = turn_line_up(store, &one, 1, false, err);
  if (code == FP_OK) code = turn_wait(store, &me);
  if (code == FP_OK) {
    code = begin(store, &tx->txn, turn_until(&me), err);
    if (code != FP_OK) turn_give_up(store, &me, code == FP_AGAIN);
  }
  if (code != FP_OK) {
    mem_free(tx);
    return code;
  }
  turn_keep(store, &me, tx);
  *out = tx;
  return FP_OK;
}

int group_end(fp_tx *tx, bool commit, fp_error *err) {
  fp_store *store = tx->store;
  int code = FP_OK;
  guest_close_all(tx);
  bool gone = tx->dead || sqlite3_get_autocommit(store->writer.handle);
  if (commit && !gone) {
    code = txn_commit(&tx->txn, err);
    if (code == FP_OK) wake_ring(store, tx->txn.rings | WAKE_LOCK);
    if (code == FP_AGAIN) code = err->code = FP_BUSY;
  } else {
    txn_rollback(&tx->txn);
    if (commit) {
      code = err_set(err, FP_INVALID, "the transaction was rolled back by an earlier failure");
    }
  }
  bool due = wal_finish(store);
  turn_pass(store);
  if (due) wal_copy(store);
  group_leave(store);
  mem_free(tx);
  return code;
}
