#include "turn.h"

#define SLICE_US (WAIT_SLICE_MS * INT64_C(1000))
#define LONG_US (3600 * SECOND_US)

/* ---- the line; with the gate held ---- */

static void line_up(fp_store *store, waiter *me, bool first) {
  me->next = first ? store->line : NULL;
  if (first || store->line == NULL) {
    store->line = me;
  } else {
    store->line_end->next = me;
  }
  if (me->next == NULL) store->line_end = me;
}

static void step_out(fp_store *store, waiter *me) {
  waiter **at = &store->line, *before = NULL;
  while (*at != me) {
    before = *at;
    at = &before->next;
  }
  *at = me->next;
  if (store->line_end == me) store->line_end = before;
}

/* Since when a turn is wanted that is asked for at `asked_us`: this handle may have asked in vain
** until a moment ago. */
static int64_t wanted_since(const fp_store *store, int64_t asked_us) {
  bool goes_on = store->vain_since_us > 0 && asked_us - store->vain_until_us < SLICE_US;
  return goes_on ? store->vain_since_us : asked_us;
}

static void asked_in_vain(fp_store *store, int64_t asked_us) {
  store->vain_since_us = wanted_since(store, asked_us);
  store->vain_until_us = sys_awake_us();
}

/* The turn goes to the head of the line. */
static waiter *start(fp_store *store, int64_t now_us) {
  waiter *leader = store->line;
  int64_t oldest_us = leader->asked_us;
  for (const waiter *w = leader->next; w != NULL; w = w->next) {
    if (w->asked_us < oldest_us) oldest_us = w->asked_us;
  }
  store->writing = true;
  store->begun = false;
  store->writer_since_us = now_us;
  store->writer_what = leader->what;
  store->wanted_us = wanted_since(store, oldest_us);
  return leader;
}

/* ---- waiting ---- */

static int say_who(const fp_store *store, int64_t now_us, fp_error *err) {
  if (!store->begun) {
    return err_set(err, FP_AGAIN, "the file is busy: another process, or another handle, has its "
                                  "write lock");
  }
  return err_set(err, FP_AGAIN, "the store is busy: %s has had its turn for %lld ms",
                 store->writer_what, (long long)((now_us - store->writer_since_us) / 1000));
}

/* The slice is over. FP_OK: too late, the turn has come or somebody else runs it. */
static int withdraw(fp_store *store, waiter *me) {
  int code = FP_OK;
  sys_lock(&store->gate);
  if (sys_word_get(&me->state) == TURN_STANDS) {
    step_out(store, me);
    asked_in_vain(store, me->asked_us);
    code = say_who(store, store->vain_until_us, me->err);
  }
  sys_unlock(&store->gate);
  return code;
}

int turn_line_up(fp_store *store, waiter *const *calls, int32_t count, bool first, fp_error *err) {
  assert(count == 1 || !first);
  int64_t now_us = sys_awake_us();
  sys_lock(&store->gate);
  if (store->open != NULL && pthread_equal(store->open->owner, pthread_self())) {
    sys_unlock(&store->gate);
    return err_set(err, FP_INVALID, "this thread has a transaction open: pass it as tx=, or end "
                                    "it first");
  }
  bool leads = !store->writing;
  assert(!leads || store->line == NULL);
  for (int32_t i = 0; i < count; i++) {
    calls[i]->asked_us = now_us;
    sys_word_init(&calls[i]->state, leads && i == 0 ? TURN_LEADS : TURN_STANDS);
    line_up(store, calls[i], first);
  }
  if (leads) (void)start(store, now_us);
  sys_unlock(&store->gate);
  return FP_OK;
}

int turn_wait(fp_store *store, waiter *me) {
  int code = FP_OK;
  for (;;) {
    uint32_t state = sys_word_get(&me->state);
    if (state == TURN_LEADS || state == TURN_SERVED) break;
    int64_t left_us = state == TURN_TAKEN ? LONG_US : turn_until(me) - sys_awake_us();
    if (left_us <= 0) {
      code = withdraw(store, me);
      if (code != FP_OK) break;
    } else {
      sys_word_wait(&me->state, state, left_us);
    }
  }
  sys_word_free(&me->state);
  return code;
}

int64_t turn_until(const waiter *me) { return me->asked_us + SLICE_US; }

/* ---- the turn ---- */

static bool fits(const group *g, const waiter *w) {
  if (w->run == NULL) return false;
  return g->count < GROUP_MEMBERS_MAX && w->bytes <= GROUP_BYTES_MAX - g->bytes;
}

bool turn_take(fp_store *store, group *g) {
  sys_lock(&store->gate);
  waiter *before = g->last;
  bool led = g->first != NULL; /* who leads stands in line until the first time */
  store->begun = true;
  store->vain_since_us = 0;
  while (store->line != NULL && (!led || fits(g, store->line))) {
    waiter *w = store->line;
    store->line = w->next;
    if (store->line == NULL) store->line_end = NULL;
    w->next = NULL;
    if (g->last != NULL) g->last->next = w;
    if (g->first == NULL) g->first = w;
    g->last = w;
    g->count++;
    g->bytes += w->bytes;
    if (sys_word_get(&w->state) == TURN_LEADS) {
      led = true;
    } else {
      sys_word_put(&w->state, TURN_TAKEN);
    }
  }
  g->run = before == NULL ? g->first : before->next;
  sys_unlock(&store->gate);
  return g->run != NULL;
}

void turn_keep(fp_store *store, waiter *me, fp_tx *tx) {
  sys_lock(&store->gate);
  store->begun = true;
  store->vain_since_us = 0;
  step_out(store, me);
  store->users++;
  store->open = tx;
  sys_unlock(&store->gate);
}

static void pass(fp_store *store) {
  store->writing = false;
  store->open = NULL;
  if (store->line == NULL) return;
  waiter *next = start(store, sys_awake_us());
  sys_word_set(&next->state, TURN_LEADS);
}

void turn_give_up(fp_store *store, waiter *me, bool in_vain) {
  sys_lock(&store->gate);
  step_out(store, me);
  if (in_vain) asked_in_vain(store, me->asked_us);
  pass(store);
  sys_unlock(&store->gate);
}

void turn_pass(fp_store *store) {
  sys_lock(&store->gate);
  pass(store);
  sys_unlock(&store->gate);
}

void turn_answer(const group *g, const waiter *leader) {
  waiter *w = g->first;
  while (w != NULL) {
    waiter *next = w->next; /* it is gone once it is answered */
    if (w != leader) sys_word_set(&w->state, TURN_SERVED);
    w = next;
  }
}
