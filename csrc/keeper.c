#include "keeper.h"

#include <limits.h>
#include <string.h>

#include "fault.h"
#include "group.h"

/* A claim that is held. */
typedef struct held {
  renewal claim;
  int64_t until_us; /* store time; 0: for ever */
  bool lost;
} held;

struct fp_keeper {
  fp_store *store;
  int64_t beat_us, generation;
  pthread_t thread;
  sys_cond gate; /* guards what follows */
  bool stopping;
  held *list;
  int32_t count, room;
};

/* What one beat renews; its own copy, so that the list is free while the file is at work. */
typedef struct beat {
  held *list;
  renewal *claims;
  int32_t *answers;
  int32_t count, claim_count;
} beat;

static held *find(fp_keeper *k, int64_t id, int64_t token) {
  for (int32_t i = 0; i < k->count; i++) {
    if (k->list[i].claim.id == id && k->list[i].claim.token == token) return &k->list[i];
  }
  return NULL;
}

/* ---- the beat ---- */

static void beat_free(beat *b) {
  mem_free(b->list);
  mem_free(b->claims);
  mem_free(b->answers);
}

/* False: out of memory, or nothing to do. */
static bool copy_list(fp_keeper *k, beat *b) {
  *b = (beat){0};
  sys_lock(&k->gate);
  if (k->count > 0) b->list = mem_get(k->count * (int64_t)sizeof *b->list);
  for (int32_t i = 0; b->list != NULL && i < k->count; i++) {
    if (!k->list[i].lost) b->list[b->count++] = k->list[i];
  }
  sys_unlock(&k->gate);
  if (b->count > 0) {
    b->claims = mem_get(b->count * (int64_t)sizeof *b->claims);
    b->answers = mem_get(b->count * (int64_t)sizeof *b->answers);
  }
  return b->claims != NULL && b->answers != NULL;
}

/* Those whose own end has come are left to their lease. */
static int renew_held(txn *t, void *argument, fp_error *err) {
  beat *b = argument;
  b->claim_count = 0;
  for (int32_t i = 0; i < b->count; i++) {
    int64_t until_us = b->list[i].until_us;
    if (until_us == 0 || t->now_us < until_us) b->claims[b->claim_count++] = b->list[i].claim;
  }
  return settle_renew(t, b->claim_count, b->claims, b->answers, err);
}

static void mark_lost(fp_keeper *k, const beat *b) {
  sys_lock(&k->gate);
  for (int32_t i = 0; i < b->claim_count; i++) {
    if (b->answers[i] == FP_DONE) continue;
    held *h = find(k, b->claims[i].id, b->claims[i].token); /* dropped meanwhile: NULL */
    if (h != NULL) h->lost = true;
  }
  sys_unlock(&k->gate);
}

static bool is_stopping(fp_keeper *k) {
  sys_lock(&k->gate);
  bool stopping = k->stopping;
  sys_unlock(&k->gate);
  return stopping;
}

static void renew_all(fp_keeper *k) {
  beat b;
  fp_error err;
  int code = FP_AGAIN;
  if (copy_list(k, &b)) {
    while (code == FP_AGAIN && !is_stopping(k)) {
      code = group_enter(k->store, NULL, &err);
      if (code != FP_OK) break;
      code = group_run_first(k->store, "a keeper", b.count * ROW_BYTES, renew_held, &b, &err);
      group_leave(k->store);
    }
    if (code == FP_OK) mark_lost(k, &b);
  }
  beat_free(&b);
}

static void *run(void *argument) {
  fp_keeper *k = argument;
  int64_t next_us = sys_boot_us() + k->beat_us; /* due at once after a suspend */
  sys_lock(&k->gate);
  while (!k->stopping) {
    int64_t left_us = next_us - sys_boot_us();
    if (left_us > 0) {
      sys_wait(&k->gate, left_us);
      continue;
    }
    sys_unlock(&k->gate);
    next_us = sys_boot_us() + k->beat_us;
    renew_all(k);
    sys_lock(&k->gate);
  }
  sys_unlock(&k->gate);
  return NULL;
}

/* ---- its owner's side ---- */

int keeper_start(fp_store *store, int64_t beat_us, fp_keeper **keeper, fp_error *err) {
  *keeper = NULL;
  fp_keeper *k = mem_get((int64_t)sizeof *k);
  if (k == NULL) return err_memory(err);
  memset(k, 0, sizeof *k);
  k->store = store;
  k->beat_us = beat_us;
  k->generation = sys_generation();
  if (sys_cond_init(&k->gate) != 0) {
    mem_free(k);
    return err_memory(err);
  }
  int rc = sys_start(&k->thread, run, k);
  if (rc != 0) {
    sys_cond_free(&k->gate);
    mem_free(k);
    return err_set(err, FP_STORAGE, "the keeper's thread cannot be started: %s", strerror(rc));
  }
  *keeper = k;
  return FP_OK;
}

static int make_room(fp_keeper *k, int32_t count, fp_error *err) {
  int64_t room = k->room == 0 ? SMALL(64, 1) : k->room;
  while (room < (int64_t)k->count + count) room *= 2;
  if (room == k->room) return FP_OK;
  held *list = room > INT32_MAX ? NULL : mem_resize(k->list, room * (int64_t)sizeof *list);
  if (list == NULL) return err_memory(err);
  k->list = list;
  k->room = (int32_t)room;
  return FP_OK;
}

int keeper_hold(fp_keeper *k, int32_t count, const int64_t *claims, fp_error *err) {
  if (k->generation != sys_generation()) {
    return err_set(err, FP_FORKED, "this keeper was started before a fork: a child process has "
                                   "to start its own");
  }
  sys_lock(&k->gate);
  int code = make_room(k, count, err);
  for (int32_t i = 0; code == FP_OK && i < count; i++, claims += KEEPER_WIDTH) {
    held *h = find(k, claims[0], claims[1]);
    if (h == NULL) h = &k->list[k->count++];
    *h = (held){.claim = {claims[0], claims[1], claims[2]}, .until_us = claims[3]};
  }
  sys_unlock(&k->gate);
  return code;
}

void keeper_drop(fp_keeper *k, int32_t count, const int64_t *claims) {
  if (k->generation != sys_generation()) return;
  sys_lock(&k->gate);
  for (int32_t i = 0; i < count; i++, claims += 2) {
    held *h = find(k, claims[0], claims[1]);
    if (h != NULL) *h = k->list[--k->count];
  }
  sys_unlock(&k->gate);
}

bool keeper_lost(fp_keeper *k, int64_t id, int64_t token) {
  if (k->generation != sys_generation()) return true; /* the parent holds it, not this process */
  sys_lock(&k->gate);
  const held *h = find(k, id, token);
  bool lost = h != NULL && h->lost;
  sys_unlock(&k->gate);
  return lost;
}

void keeper_stop(fp_keeper *k) {
  if (k->generation == sys_generation()) {
    sys_lock(&k->gate);
    k->stopping = true;
    sys_wake_all(&k->gate);
    sys_unlock(&k->gate);
    (void)pthread_join(k->thread, NULL);
    sys_cond_free(&k->gate);
  }
  mem_free(k->list);
  mem_free(k);
}
