#include "group.h"

#include <stdio.h>
#include <string.h>

#include "fault.h"
#include "guest.h"

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

static void line_up(fp_store *store, waiter *me, bool first) {
  waiter **at = &store->waiters;
  while (!first && *at != NULL) at = &(*at)->next;
  me->next = *at;
  *at = me;
}

static void step_out(fp_store *store, const waiter *me) {
  waiter **at = &store->waiters;
  while (*at != me) at = &(*at)->next;
  *at = me->next;
}

/* One slice of waiting for the turn. */
static int take_turn(fp_store *store, const char *what, bool first, fp_error *err) {
  waiter me;
  int code = FP_OK;
  sys_lock(&store->gate);
  if (store->writing && pthread_equal(store->writer_thread, pthread_self())) {
    sys_unlock(&store->gate);
    return err_set(err, FP_INVALID, "this thread has a transaction open: pass it as tx=, or end "
                                    "it first");
  }
  line_up(store, &me, first);
  int64_t end = sys_awake_us() + WAIT_SLICE_MS * INT64_C(1000), left = end - sys_awake_us();
  while (left > 0 && (store->writing || store->waiters != &me)) {
    sys_wait(&store->gate, left);
    left = end - sys_awake_us();
  }
  bool mine = !store->writing && store->waiters == &me;
  step_out(store, &me);
  int64_t now = sys_awake_us();
  if (mine) {
    store->writing = true;
    store->writer_thread = pthread_self();
    store->writer_since_us = now;
    store->writer_what = what;
  } else {
    code = err_set(err, FP_AGAIN, "the store is busy: %s has had its turn for %lld ms",
                   store->writing ? store->writer_what : "another call",
                   (long long)((now - store->writer_since_us) / 1000));
  }
  sys_unlock(&store->gate);
  return code;
}

static void give_turn(fp_store *store) {
  sys_lock(&store->gate);
  store->writing = false;
  sys_wake_all(&store->gate);
  sys_unlock(&store->gate);
}

/* Since when this handle wants the turn: it asked in vain until a moment ago, or it asks now. */
static int64_t wanted_since(fp_store *store, int64_t asked_us) {
  sys_lock(&store->gate);
  bool goes_on = store->vain_since_us > 0 &&
                 asked_us - store->vain_until_us < WAIT_SLICE_MS * INT64_C(1000);
  int64_t since_us = goes_on ? store->vain_since_us : asked_us;
  sys_unlock(&store->gate);
  return since_us;
}

static void remember_wait(fp_store *store, int64_t since_us, bool in_vain) {
  sys_lock(&store->gate);
  store->vain_since_us = in_vain ? since_us : 0;
  store->vain_until_us = sys_awake_us();
  sys_unlock(&store->gate);
}

/* The turn, and a transaction begun in it. On failure nothing is held. */
static int begin(fp_store *store, const char *what, bool first, txn *t, fp_error *err) {
  int64_t since_us = wanted_since(store, sys_awake_us());
  int code = take_turn(store, what, first, err);
  if (code == FP_OK) {
    code = txn_begin(t, &store->writer, &store->clock, &store->places, since_us, err);
    if (code != FP_OK) give_turn(store);
    if (code == FP_AGAIN) { /* SQLite's words do not say by whom; we know more */
      (void)snprintf(err->message, sizeof err->message,
                     "the file is busy: another process, or another handle, has its write lock");
    }
  }
  if (code == FP_OK || code == FP_AGAIN) remember_wait(store, since_us, code == FP_AGAIN);
  return code;
}

/* In the caller's transaction: an expected refusal leaves it as it was; a failed write ends it. */
static int run_inside(fp_tx *tx, request run, void *argument, fp_error *err) {
  txn *t = &tx->txn;
  stmts *sql = &t->d->sql;
  if (tx->dead || sqlite3_get_autocommit(t->d->handle)) {
    return err_set(err, FP_INVALID, "the transaction was rolled back by an earlier failure");
  }
  int64_t wrote = sql->writes, last = t->d->head.last;
  int code = run(t, argument, err);
  if (code == FP_OK) code = txn_flush(t, err);
  if (code == FP_OK) return code;
  t->count_used = 0;
  t->failed = false;
  if (sql->writes == wrote && !sqlite3_get_autocommit(t->d->handle)) {
    t->d->head.last = last;
    t->drew = false;
    return code;
  }
  txn_rollback(t);
  tx->dead = true;
  if (code == FP_AGAIN) code = err->code = FP_BUSY; /* to be asked again there is nothing left */
  return code;
}

static int run_alone(fp_store *store, const char *what, bool first, request run_it, void *argument,
                     fp_error *err) {
  txn t = {0};
  int code = begin(store, what, first, &t, err);
  if (code != FP_OK) return code;
  code = run_it(&t, argument, err);
  if (code == FP_OK) {
    code = txn_commit(&t, err);
  } else {
    txn_rollback(&t);
  }
  give_turn(store);
  return code;
}

int group_run(fp_store *store, fp_tx *tx, const char *what, request run, void *argument,
              fp_error *err) {
  if (tx != NULL) return run_inside(tx, run, argument, err);
  return run_alone(store, what, false, run, argument, err);
}

int group_run_first(fp_store *store, const char *what, request run, void *argument, fp_error *err) {
  return run_alone(store, what, true, run, argument, err);
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
  fp_tx *tx = mem_get((int64_t)sizeof *tx);
  if (tx == NULL) return err_memory(err);
  *tx = (fp_tx){.store = store, .owner = pthread_self()};
  int code = begin(store, "a transaction", false, &tx->txn, err);
  if (code != FP_OK) {
    mem_free(tx);
    return code;
  }
  sys_lock(&store->gate);
  store->users++; /* an open transaction keeps the store open */
  store->open = tx;
  sys_unlock(&store->gate);
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
    if (code == FP_AGAIN) code = err->code = FP_BUSY;
  } else {
    txn_rollback(&tx->txn);
    if (commit) {
      code = err_set(err, FP_INVALID, "the transaction was rolled back by an earlier failure");
    }
  }
  sys_lock(&store->gate);
  store->open = NULL;
  sys_unlock(&store->gate);
  give_turn(store);
  group_leave(store);
  mem_free(tx);
  return code;
}
