#include "retain.h"

#include <string.h>

#include "fault.h"
#include "key.h"
#include "policy.h"
#include "run.h"

enum {
  HOUR = 3600,                  /* seconds: how late keys are met that another process ended */
  RECORDS_MAX = SMALL(5000, 3)  /* of runs, that go in one transaction */
};

/* ---- one message ---- */

/* The key answers on until `until_us`, or, where that has passed, it is free. */
static int part_from_key(txn *t, const facts *f, int64_t id, int64_t until_us, fp_error *err) {
  if (f->key.at == NULL || f->life == FP_LIFE_NONE) return FP_OK;
  if (until_us <= t->now_us) return key_free(t, f->queue, f->kind, f->life, f->key, id, err);
  stmt s = stmt_use(&t->d->sql, SQL_KEY_UNTIL);
  put_i64(&s, "until", until_us);
  put_i64(&s, "queue", f->queue);
  put_i64(&s, "kind", f->kind);
  put_i64(&s, "life", f->life);
  put_text(&s, "key", f->key);
  put_i64(&s, "id", id);
  return stmt_end(&s, err);
}

/* *records: of runs, that may go with it. */
static int drop(txn *t, const line_outcome *e, int64_t until_us, int64_t *records, fp_error *err) {
  facts f;
  int code = line_facts(t, e->id, &f, err);
  if (code == FP_OK) code = part_from_key(t, &f, e->id, until_us, err);
  if (code == FP_OK && f.life == FP_LIFE_LIVE && f.kind != 0) {
    code = run_forget(t, e->id, f.key, records, err);
  }
  facts_free(&f);
  if (code == FP_OK) code = txn_drop(t, SQL_MESSAGE_DROP, e->id, err);
  if (code == FP_OK) code = txn_drop(t, SQL_OUTCOME_DROP, e->id, err);
  if (code == FP_OK) code = txn_drop_progress(t, e->id, err);
  if (code == FP_OK) txn_count(t, e->queue, txn_state_of(e->state), -1);
  return code;
}

/* ---- a purge ---- */

static int find_listed(txn *t, purge *g, int64_t queue, int32_t state, int64_t before_us,
                       fp_error *err) {
  if (g->count >= g->limit) return FP_OK;
  stmt s = stmt_use(&t->d->sql, SQL_RETAIN_ENDED);
  put_i64(&s, "queue", queue);
  put_i64(&s, "state", state);
  put_i64(&s, "before", before_us);
  put_i64(&s, "limit", g->limit - g->count);
  while (stmt_row(&s)) g->ids[g->count++] = get_i64(&s, "id");
  return stmt_end(&s, err);
}

/* The unlisted done ones with ids in (*walked, end]. */
static int find_unlisted(txn *t, purge *g, int64_t *walked, int64_t end, fp_error *err) {
  if (g->count >= g->limit) return FP_OK;
  stmt s = stmt_use(&t->d->sql, SQL_RETAIN_WALK);
  put_i64(&s, "id", *walked);
  while (g->count < g->limit && stmt_row(&s)) {
    int64_t id = get_i64(&s, "id");
    if (id > end) break;
    int64_t queue = get_i64(&s, "queue"), state = get_i64(&s, "state");
    int64_t settled_at = get_i64(&s, "settled_at");
    bool wanted = state == FP_DONE_UNLISTED && settled_at < g->before_us;
    if (wanted && (g->queue == 0 || g->queue == queue)) g->ids[g->count++] = id;
    *walked = id;
  }
  return stmt_end(&s, err);
}

int retain_find(txn *t, purge *g, int64_t *walked, fp_error *err) {
  bool done = g->state == FP_DONE_UNLISTED;
  int32_t listed = done ? FP_DONE_LISTED : g->state;
  int code = FP_OK;
  g->count = 0;
  if (g->queue != 0) {
    code = find_listed(t, g, g->queue, listed, g->before_us, err);
  } else {
    stmt s = stmt_use(&t->d->sql, SQL_QUEUES);
    put_i64(&s, "id", 0);
    while (code == FP_OK && stmt_row(&s)) {
      code = find_listed(t, g, get_i64(&s, "id"), listed, g->before_us, err);
    }
    int end_code = stmt_end(&s, err);
    if (code == FP_OK) code = end_code;
  }
  if (code != FP_OK || !done) return code;

  int64_t start = *walked;
  code = find_unlisted(t, g, walked, INT64_MAX, err);
  if (code == FP_OK && g->count < g->limit) { /* to the end: once around, to where it began */
    *walked = 0;
    if (start > 0) code = find_unlisted(t, g, walked, start, err);
  }
  return code;
}

int retain_purge(txn *t, purge *g, fp_error *err) {
  int code = FP_OK;
  int64_t records = g->whole ? INT64_MAX : RECORDS_MAX;
  g->purged = 0;
  for (int32_t i = 0; code == FP_OK && i < g->count; i++) {
    line_outcome e;
    code = line_outcome_of(t, g->ids[i], &e, err);
    if (code != FP_OK || !e.found || e.settled_at >= g->before_us) continue;
    bool is_done = e.state == FP_DONE_UNLISTED || e.state == FP_DONE_LISTED;
    if (e.state != g->state && !(g->state == FP_DONE_UNLISTED && is_done)) continue;
    code = drop(t, &e, INT64_MIN, &records, err);
    g->purged++;
  }
  return code;
}

/* ---- a slice of the queues' own retention ---- */

typedef struct slice {
  txn *t;
  retention *r;
  purge found;    /* what is to go next */
  int32_t limit;  /* messages that may still go */
  int64_t records; /* and of runs */
  int32_t looks;  /* rows that may still be looked at */
  int64_t purged;
} slice;

static int64_t kept_for(const policy *p) {
  return p->field[KEEP] > 0 ? p->field[KEEP] : policy_key_window(p);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int drop_found(slice *v, fp_error *err) {
  txn *t = v->t;
  int code = FP_OK;
  for (int32_t i = 0; code == FP_OK && i < v->found.count; i++) {
    line_outcome e;
    const policy *p = NULL;
    code = line_outcome_of(t, v->found.ids[i], &e, err);
    if (code == FP_OK && e.found) code = db_policy(t->d, e.queue, &p, err);
    if (code != FP_OK || !e.found) continue;
    int64_t until_us = e.settled_at + policy_key_window(p);
    if (until_us > t->now_us) {
      v->r->keys_us = earlier(v->r->keys_us, until_us);
      v->r->keys_next_us = earlier(v->r->keys_next_us, until_us);
    }
    code = drop(t, &e, until_us, &v->records, err);
    v->purged++;
    v->limit--;
  }
  v->found.count = 0;
  return code;
}

static int one_queue(slice *v, int64_t queue, fp_error *err) {
  const policy *p;
  int code = db_policy(v->t->d, queue, &p, err);
  if (code != FP_OK) return code;
  int64_t keep_us = kept_for(p), before_us = v->t->now_us - keep_us + 1;
  v->r->shortest_us = earlier(v->r->shortest_us, keep_us);
  v->found.limit = v->limit;
  code = find_listed(v->t, &v->found, queue, FP_DONE_LISTED, before_us, err);
  if (code == FP_OK) code = find_listed(v->t, &v->found, queue, FP_CANCELLED, before_us, err);
  if (code == FP_OK) code = drop_found(v, err);
  if (v->limit > 0) v->r->kept_next = v->r->kept_next * 1000003 + (uint64_t)keep_us;
  return code;
}

static int listed(slice *v, bool *through, fp_error *err) {
  int code = FP_OK;
  bool row = true;
  if (v->r->queue == 0) {
    v->r->shortest_us = SPAN_US_MAX;
    v->r->kept_next = 0;
  }
  stmt s = stmt_use(&v->t->d->sql, SQL_QUEUES);
  put_i64(&s, "id", v->r->queue);
  while (code == FP_OK && v->limit > 0 && v->looks > 0) {
    row = stmt_row(&s);
    if (!row) break;
    int64_t queue = get_i64(&s, "id");
    code = one_queue(v, queue, err);
    v->looks--;
    if (v->limit > 0) v->r->queue = queue; /* else there may be more of it */
  }
  int end_code = stmt_end(&s, err);
  *through = !row;
  if (*through) {
    v->r->queue = 0;
    if (v->r->kept != v->r->kept_next) v->r->outcomes_us = 0;
    v->r->kept = v->r->kept_next;
  }
  return code != FP_OK ? code : end_code;
}

/* Ids rise with the moment of enqueue, so that behind a message too young nothing is old enough. */
static int too_young(slice *v, bool *young, fp_error *err) {
  facts f;
  int code = line_facts(v->t, v->r->outcome, &f, err);
  *young = code == FP_OK && f.found && f.enqueued_at > v->t->now_us - v->r->shortest_us;
  facts_free(&f);
  return code;
}

static int unlisted(slice *v, bool *through, fp_error *err) {
  retention *r = v->r;
  int64_t now_us = v->t->now_us;
  int code = FP_OK;
  bool row = true, young = false;
  *through = now_us < r->outcomes_us;
  if (*through) return FP_OK;
  if (r->outcome == 0) r->outcomes_next_us = now_us + r->shortest_us;
  stmt s = stmt_use(&v->t->d->sql, SQL_RETAIN_WALK);
  put_i64(&s, "id", r->outcome);
  while (code == FP_OK && v->found.count < v->limit && v->looks-- > 0) {
    const policy *p;
    row = stmt_row(&s);
    if (!row) break;
    r->outcome = get_i64(&s, "id");
    int64_t queue = get_i64(&s, "queue"), state = get_i64(&s, "state");
    if (state != FP_DONE_UNLISTED) continue;
    code = db_policy(v->t->d, queue, &p, err);
    if (code != FP_OK) break;
    int64_t end_us = get_moment(&s, "settled_at") + kept_for(p);
    if (end_us <= now_us) {
      v->found.ids[v->found.count++] = r->outcome;
    } else {
      r->outcomes_next_us = earlier(r->outcomes_next_us, end_us);
    }
  }
  int end_code = stmt_end(&s, err);
  if (code == FP_OK) code = end_code;
  if (code == FP_OK && row) code = too_young(v, &young, err);
  if (code == FP_OK) code = drop_found(v, err);
  *through = !row || young;
  if (*through) {
    r->outcome = 0;
    r->outcomes_us = r->outcomes_next_us;
  }
  return code;
}

static int expire_key(txn *t, const retention *r, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_KEY_EXPIRE);
  put_i64(&s, "queue", r->key_queue);
  put_i64(&s, "kind", r->key_kind);
  put_i64(&s, "life", r->key_life);
  put_text(&s, "key", (span){r->key, r->key_bytes});
  put_i64(&s, "now", t->now_us);
  return stmt_end(&s, err);
}

static int keys(slice *v, bool *through, fp_error *err) {
  retention *r = v->r;
  int64_t now_us = v->t->now_us;
  char from[KEY_BYTES_MAX];
  int code = FP_OK;
  bool row = true;
  *through = now_us < r->keys_us;
  if (*through) return FP_OK;
  if (r->key_queue == 0) r->keys_next_us = now_us + HOUR * SECOND_US;
  memcpy(from, r->key, (size_t)r->key_bytes);
  stmt s = stmt_use(&v->t->d->sql, SQL_KEY_WALK);
  put_i64(&s, "queue", r->key_queue);
  put_i64(&s, "kind", r->key_kind);
  put_i64(&s, "life", r->key_life);
  put_text(&s, "key", (span){from, r->key_bytes});
  while (code == FP_OK && v->looks-- > 0) {
    row = stmt_row(&s);
    if (!row) break;
    r->key_queue = get_i64(&s, "queue");
    r->key_kind = get_i64(&s, "kind");
    r->key_life = get_i64(&s, "life");
    span key = get_text(&s, "key");
    r->key_bytes = earlier(key.bytes, KEY_BYTES_MAX);
    memcpy(r->key, key.at, (size_t)r->key_bytes);
    if (get_null(&s)) continue;
    int64_t until_us = get_i64(&s, "until");
    if (until_us <= now_us) {
      code = expire_key(v->t, r, err);
    } else {
      r->keys_next_us = earlier(r->keys_next_us, until_us);
    }
  }
  int end_code = stmt_end(&s, err);
  *through = !row;
  if (*through) {
    r->key_queue = r->key_kind = r->key_life = r->key_bytes = 0;
    r->keys_us = r->keys_next_us;
  }
  return code != FP_OK ? code : end_code;
}

int retain_slice(txn *t, retention *r, int32_t limit, int64_t *purged, bool *more, fp_error *err) {
  static int (*const stage[])(slice *, bool *, fp_error *) = {listed, unlisted, keys};
  slice v = {.t = t, .r = r, .limit = limit, .looks = RETAIN_LOOKS,
             .records = RECORDS_MAX};
  bool through = true;
  v.found.ids = mem_get(limit * (int64_t)sizeof(int64_t));
  if (v.found.ids == NULL) return err_memory(err);
  int code = FP_OK;
  while (code == FP_OK && r->stage < COUNT_OF(stage) && through) {
    code = stage[r->stage](&v, &through, err);
    if (code == FP_OK && through) r->stage++;
  }
  *more = r->stage < COUNT_OF(stage);
  if (!*more) r->stage = 0;
  mem_free(v.found.ids);
  *purged = v.purged;
  return code;
}
