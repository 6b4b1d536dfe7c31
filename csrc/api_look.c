/* The exported functions that look, wait and keep house: messages, listings, counts, retention, the
** version. Each checks what it was given, lines up, and makes one inner call. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "fault.h"
#include "gauge.h"
#include "group.h"
#include "lane.h"
#include "listing.h"
#include "locks.h"
#include "retain.h"
#include "wake.h"
#include "wal.h"

/* What is asked, of which each request reads its part; the answer's rows. */
typedef struct question {
  int64_t id, queue, kind;
  int32_t life, limit;
  span key; /* or the name of a lane */
  bool full;
  const locks_file *file;
  bool placed; /* the handle's places may know what the reader does not */
  const fp_filter *filter;
  int64_t *next;
  bool more;
  pack rows;
} question;

/* Counted in already: asks the reader (or inside the transaction), and counts out. A bulk queue's
** message that moved is known to the places of this handle, if to anybody, and they belong to
** whoever has the turn. */
static int answer(fp_store *store, fp_tx *tx, int code, request look, question *q, fp_rows *rows,
                  fp_error *err) {
  if (code == FP_OK) {
    code = group_look(store, tx, look, q, err);
    if (code == FP_INVALID && q->placed && tx == NULL) {
      err_clear(err);
      code = group_run(store, NULL, "a look-up", 0, look, q, err);
    }
  }
  code = pack_take(&q->rows, code, rows, err);
  group_leave(store);
  return code;
}

/* ---- messages ---- */

enum {
  MESSAGE_WIDTH = 16,
  CONTENT_WIDTH = 4,
  STATS_WIDTH = 14,
  KIND_WIDTH = 2,
  HALTED_WIDTH = 2,
  WORKER_WIDTH = 5
};

static int get(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  pack_clear(&q->rows);
  return listing_get(t, q->id, &q->rows, err);
}

static int get_by_key(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  pack_clear(&q->rows);
  return listing_by_key(t, q->queue, q->kind, q->life, q->key, &q->rows, err);
}

int fp_get(fp_store *store, fp_tx *tx, int64_t id, fp_rows *row, fp_error *err) {
  question q = {.id = id, .placed = true, .rows = pack_of(MESSAGE_WIDTH)};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  return answer(store, tx, code, get, &q, row, err);
}

int fp_get_by_key(fp_store *store, int64_t queue, int64_t kind, int32_t life, const char *key,
                  int32_t key_bytes, fp_rows *row, fp_error *err) {
  question q = {.queue = queue, .kind = kind, .life = life, .key = {key, key_bytes},
                .placed = true, .rows = pack_of(MESSAGE_WIDTH)};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_name("the key", q.key, KEY_BYTES_MAX, err);
  if (code == FP_OK) {
    code = check_between("the key's life", life, FP_LIFE_LASTING, FP_LIFE_LIVE, err);
  }
  return answer(store, NULL, code, get_by_key, &q, row, err);
}

static int content(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  return listing_content(t, q->id, &q->rows, err);
}

int fp_content(fp_store *store, int64_t id, fp_rows *row, fp_error *err) {
  question q = {.id = id, .rows = pack_of(CONTENT_WIDTH)};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  return answer(store, NULL, code, content, &q, row, err);
}

static int page(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  return listing_page(t, q->filter, &q->rows, q->next, &q->more, err);
}

static int check_filter(const fp_filter *f, fp_error *err) {
  int code = check_between("limit", f->limit, 1, PAGE_MAX, err);
  if (code == FP_OK) code = check_between("the queue", f->queue, 0, QUEUE_MAX, err);
  if (code == FP_OK) code = check_between("the state", f->state, FP_PENDING, FP_WAITING, err);
  if (code == FP_OK && f->state == FP_DONE_UNLISTED) {
    code = err_set(err, FP_INVALID, "unlisted outcomes cannot be listed");
  }
  if (code == FP_OK && f->lane_bytes >= 0) {
    code = check_name("the lane", (span){f->lane, f->lane_bytes}, LANE_BYTES_MAX, err);
  }
  return code;
}

int fp_list(fp_store *store, const fp_filter *filter, fp_rows *rows, int64_t next[3],
            int32_t *has_next, fp_error *err) {
  question q = {.filter = filter, .next = next, .rows = pack_of(MESSAGE_WIDTH)};
  *has_next = 0;
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_filter(filter, err);
  code = answer(store, NULL, code, page, &q, rows, err);
  if (code == FP_OK) *has_next = q.more;
  return code;
}

static int lanes(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  pack_clear(&q->rows);
  return lane_halted(t, q->queue, q->key, q->limit, &q->rows, err);
}

int fp_lanes(fp_store *store, int64_t queue, const char *after, int32_t after_bytes, int32_t limit,
             fp_rows *rows, fp_error *err) {
  question q = {.queue = queue, .key = {after, after_bytes}, .limit = limit,
                .rows = pack_of(HALTED_WIDTH)};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("the queue", queue, 1, QUEUE_MAX, err);
  if (code == FP_OK) code = check_between("limit", limit, 1, PAGE_MAX, err);
  if (code == FP_OK && after_bytes != 0) {
    code = check_name("the lane", q.key, LANE_BYTES_MAX, err);
  }
  return answer(store, NULL, code, lanes, &q, rows, err);
}

/* ---- counts ---- */

static int stats(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  return gauge_stats(t, &q->rows, err);
}

int fp_stats(fp_store *store, fp_rows *rows, fp_error *err) {
  question q = {.rows = pack_of(STATS_WIDTH)};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  return answer(store, NULL, code, stats, &q, rows, err);
}

static int kinds(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  return gauge_kinds(t, &q->rows, err);
}

int fp_kinds(fp_store *store, fp_rows *rows, fp_error *err) {
  question q = {.rows = pack_of(KIND_WIDTH)};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  return answer(store, NULL, code, kinds, &q, rows, err);
}

static int workers(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  pack_clear(&q->rows);
  return gauge_workers(t, q->file, &q->rows, err);
}

int fp_workers(fp_store *store, fp_rows *rows, fp_error *err) {
  question q = {.rows = pack_of(WORKER_WIDTH)};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  if (store->writer.registers) q.file = &store->writer.file;
  return answer(store, NULL, code, workers, &q, rows, err);
}

static int uuid(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  return gauge_uuid(t, &q->rows, err);
}

int fp_uuid(fp_store *store, fp_rows *row, fp_error *err) {
  question q = {.rows = pack_of(1)};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  return answer(store, NULL, code, uuid, &q, row, err);
}

static int check_all(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  return gauge_check(t, q->full, &q->rows, err);
}

int fp_wal(fp_store *store, int64_t *bytes, int64_t *kept_us, fp_error *err) {
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  wal_look(store, bytes, kept_us);
  group_leave(store);
  return code;
}

/* Not of the file's tables, but of what goes on around them. */
static void say_wal(fp_store *store, pack *p) {
  char words[300];
  int64_t bytes, kept_us;
  wal_look(store, &bytes, &kept_us);
  if (kept_us < 0) return;
  (void)snprintf(words, sizeof words,
                 "The write-ahead log has grown to %lld MB: for at least %lld s a connection has "
                 "been reading from an old state of the file, and until it ends the log cannot be "
                 "used again.", (long long)(bytes / 1000000), (long long)(kept_us / SECOND_US));
  pack_part(p, (span){words, (int64_t)strlen(words)});
  pack_row(p);
}

int fp_check(fp_store *store, int32_t full, fp_rows *rows, fp_error *err) {
  question q = {.full = full != 0, .rows = pack_of(1)};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  say_wal(store, &q.rows);
  return answer(store, NULL, code, check_all, &q, rows, err);
}

int fp_beside(fp_store *store, int64_t *classic, int64_t *strangers, fp_error *err) {
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  *classic = locks_mode() == LOCKS_CLASSIC;
  *strangers = locks_strangers(sqlite3_db_filename(store->writer.handle, "main"));
  group_leave(store);
  return code;
}

/* ---- retention ---- */

typedef struct keeping {
  fp_store *store;
  purge purge;
  int64_t *walked;
  retention next; /* where the rounds will have come to, once this slice is in the file */
  int32_t limit;
  bool more;
} keeping;

static int find(txn *t, void *argument, fp_error *err) {
  keeping *k = argument;
  return retain_find(t, &k->purge, k->walked, err);
}

static int remove_found(txn *t, void *argument, fp_error *err) {
  keeping *k = argument;
  return retain_purge(t, &k->purge, err);
}

static int check_purge(const purge *g, fp_error *err) {
  int code = check_between("limit", g->limit, 1, SLICE_MAX, err);
  if (code == FP_OK) code = check_between("the queue", g->queue, 0, QUEUE_MAX, err);
  if (code == FP_OK) {
    code = check_between("the state", g->state, FP_DONE_UNLISTED, FP_CANCELLED, err);
  }
  return code;
}

int fp_purge(fp_store *store, int64_t queue, int32_t state, int64_t before_us, int32_t limit,
             int32_t apply, int64_t *purged, fp_error *err) {
  int64_t from_start = 0;
  keeping k = {.purge = {.queue = queue, .state = state, .before_us = before_us, .limit = limit},
               .walked = apply ? &store->purge_walked : &from_start};
  if (state == FP_DONE_LISTED) k.purge.state = FP_DONE_UNLISTED;
  *purged = 0;
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_purge(&k.purge, err);
  if (code == FP_OK) {
    k.purge.ids = mem_get(limit * (int64_t)sizeof(int64_t));
    if (k.purge.ids == NULL) code = err_memory(err);
  }
  if (code == FP_OK) code = group_look(store, NULL, find, &k, err);
  if (code == FP_OK) *purged = k.purge.count;
  if (code == FP_OK && apply && k.purge.count > 0) {
    code = group_run(store, NULL, "a purge", k.purge.count * ROW_BYTES, remove_found, &k, err);
    *purged = code == FP_OK ? k.purge.purged : 0;
  }
  mem_free(k.purge.ids);
  group_leave(store);
  return code;
}

static int retain(txn *t, void *argument, fp_error *err) {
  keeping *k = argument;
  sys_lock(&k->store->gate);
  k->next = k->store->retention;
  sys_unlock(&k->store->gate);
  return retain_slice(t, &k->next, k->limit, &k->purge.purged, &k->more, err);
}

int fp_retain(fp_store *store, int32_t limit, int64_t *purged, int32_t *more, fp_error *err) {
  keeping k = {.store = store, .limit = limit};
  *purged = 0;
  *more = 0;
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("limit", limit, 1, SLICE_MAX, err);
  if (code == FP_OK) {
    code = group_run(store, NULL, "retention", limit * ROW_BYTES, retain, &k, err);
  }
  if (code == FP_OK) { /* two slices at once find the same: whose place is kept does not matter */
    sys_lock(&store->gate);
    store->retention = k.next;
    sys_unlock(&store->gate);
  }
  group_leave(store);
  if (code == FP_OK) {
    *purged = k.purge.purged;
    *more = k.more;
  }
  return code;
}

/* ---- waiting ---- */

int fp_version(fp_store *store, int64_t *version, fp_error *err) {
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  *version = wake_version(store);
  group_leave(store);
  return FP_OK;
}

static int read_now(txn *t, void *argument, fp_error *err) {
  (void)err;
  *(int64_t *)argument = t->now_us;
  return FP_OK;
}

static int wait_for_change(fp_store *store, int64_t queue, int64_t *version, int64_t until_us,
                           fp_error *err) {
  waiting w = {.bits = queue > 0 ? BELL_OF(queue) : BELL_ANY};
  int64_t start_us = sys_awake_us(), left_us = WAIT_SLICE_MS * INT64_C(1000);
  while (left_us > 0 && !w.back) {
    int64_t now_us, before = *version;
    *version = wake_version(store);
    if (*version != before) return FP_OK;
    int code = group_look(store, NULL, read_now, &now_us, err);
    if (code != FP_OK || now_us >= until_us) return code;
    w.span_us = until_us - now_us < left_us ? until_us - now_us : left_us;
    code = wake_wait(store, *version, &w, err);
    if (code != FP_OK) return code;
    left_us = start_us + WAIT_SLICE_MS * INT64_C(1000) - sys_awake_us();
  }
  *version = wake_version(store);
  return FP_OK;
}

int fp_wait(fp_store *store, int64_t queue, int64_t *version, int64_t until_us, fp_error *err) {
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("the queue", queue, 0, QUEUE_MAX, err);
  if (code == FP_OK) code = wait_for_change(store, queue, version, until_us, err);
  group_leave(store);
  return code;
}

/* In a forked child the bell is the parent's, and its lock may be held for ever. */
int64_t fp_nudges(fp_store *store) {
  return store->generation == sys_generation() ? bell_nudges(&store->bell) : 1;
}

void fp_nudge(fp_store *store) {
  if (store->generation == sys_generation()) bell_nudge(&store->bell);
}
