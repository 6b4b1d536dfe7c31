#include "orphans.h"

#include <errno.h>

#include "fault.h"
#include "group.h"
#include "line.h"
#include "wake.h"

enum {
  LOOK_US = 100000,              /* between two looks */
  MOVED_MAX = SMALL(500, 2),     /* rows moved in one transaction */
  WALKED_MAX = SMALL(5000, 5),   /* rows looked at in one */
  PAUSE_TIMES = SMALL(200, 3), /* what a slice took, until the next */
  PAUSE_US_MAX = 2000000
};

/* ---- one slice ---- */

typedef struct slice {
  int64_t worker;
  reach from, at; /* behind those places */
  bool over;     /* the walk has come to its end */
  int64_t began_us;
  int64_t walked, taken;
  place *rows;   /* of one reading */
  int64_t count;
} slice;

/* To the next level, where the walk begins with what is due after now; in a grace with the first
** row, because a lease that has run out is nobody's there. */
static int next_level(txn *t, slice *s, fp_error *err) {
  bool grace = t->now_us < t->d->head.grace_until;
  int64_t turn = s->at.turn, first;
  int code = line_next_level(t, INT64_MAX, &turn, &first, err);
  s->over = turn == 0;
  if (!s->over) s->at.turn = turn;
  s->at.due_at = grace ? INT64_MIN : t->now_us;
  s->at.id = INT64_MAX;
  return code;
}

static place read_row(stmt *q, const reach *stands, int64_t worker) {
  place at = {.turn = stands->turn, .due_at = stands->due_at, .id = stands->id, .worker = worker};
  line_read(q, &at);
  return at;
}

/* Reads on in this level until the slice is full; *ends: behind the last row of the level. */
static int read_level(txn *t, slice *s, bool *ends, fp_error *err) {
  s->count = 0;
  *ends = false;
  stmt q = stmt_use(&t->d->sql, SQL_DUE_HELD);
  put_i64(&q, "turn", s->at.turn);
  put_i64(&q, "due_at", s->at.due_at);
  put_i64(&q, "id", s->at.id);
  put_i64(&q, "end", t->now_us + t->d->head.longest_lease);
  while (!*ends && s->walked < WALKED_MAX && s->taken + s->count < MOVED_MAX) {
    *ends = !stmt_row(&q);
    if (*ends) break;
    s->walked++;
    s->at.due_at = get_i64(&q, "due_at");
    s->at.id = get_i64(&q, "id");
    int64_t worker = get_i64(&q, "worker");
    if (worker == s->worker) s->rows[s->count++] = read_row(&q, &s->at, worker);
  }
  return stmt_end(&q, err);
}

/* What was read goes to now. `from`: where the reading began. */
static int move(txn *t, slice *s, const reach *from, fp_error *err) {
  int changed;
  stmt q = stmt_use(&t->d->sql, SQL_DUE_DROP_HELD);
  put_i64(&q, "turn", s->at.turn);
  put_i64(&q, "due_at", from->due_at);
  put_i64(&q, "id", from->id);
  put_i64(&q, "last_due_at", s->at.due_at);
  put_i64(&q, "last_id", s->at.id);
  put_i64(&q, "worker", s->worker);
  int code = stmt_changes(&q, &changed, err);
  if (code == FP_OK && changed != s->count) {
    code = err_set(err, FP_STORAGE, "%lld rows were read, and %d were there", (long long)s->count,
                   changed);
  }
  for (int64_t i = 0; i < s->count; i++) {
    s->rows[i].due_at = t->now_us;
    s->rows[i].worker = -s->worker;
  }
  if (code == FP_OK) code = line_put_many(t, s->rows, s->count, err);
  txn_ring(t, s->at.turn >> 8);
  s->taken += s->count;
  return code;
}

/* Begins anew at each call, as a request may be run twice. */
static int take_over(txn *t, void *argument, fp_error *err) {
  slice *s = argument;
  bool there, ends = s->from.turn == 0;
  s->began_us = sys_awake_us();
  s->at = s->from;
  s->walked = s->taken = 0;
  int code = registry_has(t, s->worker, &there, err);
  s->over = !there; /* another handle has come to the end before */
  if (code != FP_OK || s->over) return code;

  s->rows = mem_get(MOVED_MAX * (int64_t)sizeof *s->rows);
  if (s->rows == NULL) return err_memory(err);
  while (code == FP_OK && s->walked < WALKED_MAX && s->taken < MOVED_MAX) {
    if (ends) code = next_level(t, s, err);
    if (code != FP_OK || s->over) break;
    reach before = s->at;
    code = read_level(t, s, &ends, err);
    if (code == FP_OK && s->count > 0) code = move(t, s, &before, err);
  }
  if (code == FP_OK && s->over) code = txn_drop(t, SQL_WORKER_DROP, s->worker, err);
  mem_free(s->rows);
  return code;
}

/* ---- a look ---- */

/* Who is new begins with a walk of its own; those who are known go on where they were. */
static void renew_roster(roster *r) {
  peers old = r->known;
  int64_t at = 0;
  for (int64_t i = 0; i < r->fresh.count; i++) {
    peer *m = &r->fresh.list[i];
    while (at < old.count && old.list[at].number < m->number) at++;
    if (at < old.count && old.list[at].number == m->number) m->walked = old.list[at].walked;
  }
  r->known = r->fresh;
  r->fresh = old;
}

static int read_roster(fp_store *store, roster *r, fp_error *err) {
  int64_t version = wake_version(store);
  if (r->read && version == r->version) return FP_OK;
  int code = group_look(store, NULL, registry_read, &r->fresh, err);
  if (code == FP_OK) renew_roster(r);
  r->read = code == FP_OK;
  r->version = version;
  return code;
}

/* What a look has found. */
typedef struct found {
  peer *dead;      /* whose byte is taken; NULL: there is none */
  int64_t others;  /* workers of other processes */
  int64_t living;  /* workers that look, too, this handle and its process' among them */
  bool rest;       /* it held more than the slice has moved */
  int64_t took_us; /* others were kept out by the slice */
} found;

/* Takes the byte of a dead worker, in turn after the one that was served last. A handle of this
** process cannot be dead, and its own locks say nothing of it. */
static void find_dead(const locks_file *file, roster *r, found *f, fp_error *err) {
  peers *all = &r->known;
  int64_t first = 0;
  while (first < all->count && all->list[first].number <= r->served) first++;
  for (int64_t i = 0; i < all->count; i++) {
    peer *m = &all->list[(first + i) % all->count];
    bool ours = locks_held(file, LOCKS_WORKER + m->number);
    if (!ours) f->others++;
    if (ours || locks_probe(file, LOCKS_WORKER + m->number) != 0) {
      f->living++;
    } else if (f->dead == NULL) {
      int rc = locks_take(file, LOCKS_WORKER + m->number, false);
      if (rc == ENOMEM) (void)err_memory(err);
      if (rc == 0) f->dead = m;
    }
  }
}

static int take_slice(fp_store *store, roster *r, found *f, fp_error *err) {
  slice s = {.worker = f->dead->number, .from = f->dead->walked, .began_us = sys_awake_us()};
  int code = group_run(store, NULL, "taking over from a dead worker", MOVED_MAX * ROW_BYTES,
                       take_over, &s, err);
  f->took_us = sys_awake_us() - s.began_us;
  r->served = f->dead->number;
  f->rest = !s.over;
  if (code == FP_OK) f->dead->walked = s.at;
  return code;
}

static int look(fp_store *store, found *f, fp_error *err) {
  const locks_file *file = &store->writer.file;
  roster *r = &store->roster;
  *f = (found){0};
  int code = read_roster(store, r, err);
  if (code == FP_OK) find_dead(file, r, f, err);
  if (f->dead == NULL) return err->code;
  /* Only for as long as the slice takes: who claims but seldom must not keep others from it. */
  code = take_slice(store, r, f, err);
  locks_drop(file, LOCKS_WORKER + f->dead->number);
  return code;
}

/* A long listing must not hold up a claim that needs no reader but for this. */
static bool begin_look(fp_store *store, int64_t now_us) {
  roster *r = &store->roster;
  sys_lock(&store->gate);
  bool mine = !r->looking && now_us >= r->next_us && !store->reading;
  if (mine) r->looking = true;
  sys_unlock(&store->gate);
  return mine;
}

static void end_look(fp_store *store, bool needed, int64_t next_us) {
  roster *r = &store->roster;
  sys_lock(&store->gate);
  r->looking = false;
  r->needed = needed;
  r->next_us = next_us;
  sys_unlock(&store->gate);
}

/* All who look keep the same pause, so that their slices together are as far apart. */
static int64_t pause_us(const found *f) {
  if (!f->rest) return LOOK_US;
  int64_t span_us = f->took_us * PAUSE_TIMES * (f->living > 1 ? f->living : 1);
  return span_us < PAUSE_US_MAX ? span_us : PAUSE_US_MAX;
}

void orphans_look(fp_store *store) {
  if (!store->writer.registers || !begin_look(store, sys_awake_us())) return;
  fp_error unused = {0};
  found f;
  int code = look(store, &f, &unused);
  int64_t span_us = code == FP_OK ? pause_us(&f) : LOOK_US;
  end_look(store, f.others > 0, sys_awake_us() + span_us);
}

int64_t orphans_pause_us(fp_store *store) {
  enum { LEAST_US = 1000 }; /* another thread is at it */
  roster *r = &store->roster;
  sys_lock(&store->gate);
  int64_t left_us = r->needed ? r->next_us - sys_awake_us() : WAIT_SLICE_MS * INT64_C(1000);
  sys_unlock(&store->gate);
  return left_us > LEAST_US ? left_us : LEAST_US;
}

#ifdef FENCEPOST_TEST
int orphans_look_now(fp_store *store, bool *more, fp_error *err) {
  found f;
  int code = look(store, &f, err);
  *more = f.dead != NULL;
  return code;
}
#endif
