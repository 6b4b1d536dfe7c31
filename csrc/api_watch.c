/* The exported function that waits for many: coroutines that wait for messages, for results, for a
** change, of which none may take a thread. */
#include "check.h"
#include "claim.h"
#include "group.h"
#include "listing.h"
#include "orphans.h"
#include "wake.h"

enum {
  ENDED_WIDTH = 17,
  WATCHED_MAX = 1000000, /* queues, or messages */
  /* For each message, between waking up and looking: some end with each commit, and each look is at
  ** all of them. */
  REST_US = 1,
  REST_US_MAX = 20000
};

typedef struct watching {
  const fp_watched *asked;
  unsigned char *due;
  pack ended;
  bool any;
  uint32_t bits; /* what they wait for */
  int64_t next_us, now_us;
} watching;

static int look_at_queue(txn *t, watching *g, int32_t i, fp_error *err) {
  fp_take take = {.queue_count = 1, .queues = &g->asked->queues[i], .limit = 1};
  looking look = {.take = &take};
  int code = claim_look(t, &look, err);
  g->due[i] = look.next_us <= look.now_us;
  if (g->due[i]) g->any = true;
  if (look.next_us < g->next_us) g->next_us = look.next_us;
  g->bits |= BELL_OF(take.queues[0]);
  return code;
}

static int look_at_all(txn *t, void *argument, fp_error *err) {
  watching *g = argument;
  int code = FP_OK;
  g->any = false;
  g->bits = 0;
  g->next_us = g->asked->until_us;
  g->now_us = t->now_us;
  for (int32_t i = 0; i < g->asked->heard_count; i++) {
    g->bits |= g->asked->heard[i] > 0 ? BELL_OF(g->asked->heard[i]) : BELL_ANY;
  }
  for (int32_t i = 0; code == FP_OK && i < g->asked->queue_count; i++) {
    code = look_at_queue(t, g, i, err);
  }
  for (int32_t i = 0; code == FP_OK && i < g->asked->id_count; i++) {
    int64_t queue = 0;
    code = listing_ended(t, g->asked->ids[i], &queue, &g->ended, err);
    g->bits |= BELL_OF(queue);
  }
  if (g->ended.count > 0 || t->now_us >= g->asked->until_us) g->any = true;
  return code;
}

static int wait_for_any(fp_store *store, watching *g, int64_t *version, fp_error *err) {
  const fp_watched *asked = g->asked;
  waiting w = {.nudges = asked->nudges};
  int64_t rest_us = (int64_t)asked->id_count * REST_US;
  int64_t start_us = sys_awake_us(), left_us = WAIT_SLICE_MS * INT64_C(1000);
  for (;;) {
    *version = wake_version(store); /* before the look: no wake-up is lost */
    if (asked->queue_count > 0) orphans_look(store);
    int code = group_look(store, NULL, look_at_all, g, err);
    bool moved = asked->heard_count > 0 && *version != asked->version;
    if (code != FP_OK || g->any || moved || w.back || left_us <= 0) return code;
    w.bits = g->bits;
    w.span_us = g->next_us - g->now_us < left_us ? g->next_us - g->now_us : left_us;
    if (asked->queue_count > 0 && orphans_pause_us(store) < w.span_us) {
      w.span_us = orphans_pause_us(store);
    }
    code = wake_wait(store, *version, &w, err);
    if (code != FP_OK) return code;
    left_us = start_us + WAIT_SLICE_MS * INT64_C(1000) - sys_awake_us();
    if (!w.back) sys_sleep(rest_us < REST_US_MAX ? rest_us : REST_US_MAX);
  }
}

int fp_watch(fp_store *store, const fp_watched *watched, unsigned char *due, int64_t *version,
             int64_t *now_us, fp_rows *ended, fp_error *err) {
  watching g = {.asked = watched, .due = due, .ended = pack_of(ENDED_WIDTH)};
  *ended = (fp_rows){0};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("the number of queues", watched->queue_count, 0, WATCHED_MAX, err);
  if (code == FP_OK) {
    code = check_between("the number of messages", watched->id_count, 0, WATCHED_MAX, err);
  }
  if (code == FP_OK) code = wait_for_any(store, &g, version, err);
  if (code == FP_OK) *now_us = g.now_us;
  code = pack_take(&g.ended, code, ended, err);
  group_leave(store);
  return code;
}
