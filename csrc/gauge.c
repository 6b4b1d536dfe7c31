#include "gauge.h"

#include "line.h"

/* ---- counts ---- */

/* What is known of one queue's line. */
typedef struct dues {
  int64_t oldest, next; /* -1: none */
  int64_t lapsed;
  int32_t looks;
} dues;

static int next_in(txn *t, int64_t turn, dues *d, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_NEXT_DUE);
  put_i64(&s, "turn", turn);
  put_i64(&s, "now", t->now_us);
  if (stmt_row(&s)) {
    int64_t due_at = get_i64(&s, "due_at");
    if (due_at < NEVER_US && (d->next < 0 || due_at < d->next)) d->next = due_at;
  }
  return stmt_end(&s, err);
}

/* Among the due rows of this turn, until all that can be have been met. */
static int lapsed_in(txn *t, int64_t turn, int64_t leased, dues *d, fp_error *err) {
  if (leased > GAUGE_LAPSED_MAX) leased = GAUGE_LAPSED_MAX;
  if (d->lapsed >= leased || d->looks >= GAUGE_LOOKS) return FP_OK;
  stmt s = stmt_use(&t->d->sql, SQL_DUE_STAGES);
  put_i64(&s, "turn", turn);
  put_i64(&s, "now", t->now_us);
  while (d->lapsed < leased && d->looks < GAUGE_LOOKS && stmt_row(&s)) {
    d->looks++;
    if (get_i64(&s, "stage") > 0) d->lapsed++;
  }
  return stmt_end(&s, err);
}

/* Turn by turn: priority levels are few. */
static int dues_of(txn *t, int64_t queue, int64_t leased, dues *d, fp_error *err) {
  *d = (dues){.oldest = -1, .next = -1};
  if (queue < 1 || queue > QUEUE_MAX) return FP_OK; /* damage: nobody is in its line */
  int64_t turn = (queue << 8) - 1, first;
  for (;;) {
    int code = line_next_level(t, (queue + 1) << 8, &turn, &first, err);
    if (code != FP_OK || turn == 0) return code;
    if (first <= t->now_us) {
      if (d->oldest < 0 || first < d->oldest) d->oldest = first;
      code = lapsed_in(t, turn, leased, d, err);
    }
    if (code == FP_OK) code = next_in(t, turn, d, err);
    if (code != FP_OK) return code;
  }
}

int gauge_stats(txn *t, pack *p, fp_error *err) {
  int code = FP_OK;
  stmt s = stmt_use(&t->d->sql, SQL_STATS);
  put_i64(&s, "id", 0);
  while (code == FP_OK && stmt_row(&s)) {
    int64_t queue = get_i64(&s, "id"), leased = 0;
    pack_i64(p, queue);
    pack_i64(p, get_i64(&s, "profile"));
    pack_i64(p, get_i64(&s, "paused"));
    for (int i = 0; i < N_STATES; i++) {
      int64_t n = get_i64(&s, tally_column[i]);
      pack_i64(p, n);
      if (i == N_LEASED) leased = n;
    }
    dues d;
    code = dues_of(t, queue, leased, &d, err);
    pack_i64(p, d.oldest);
    pack_i64(p, d.next);
    pack_i64(p, d.lapsed);
    (void)get_i64(&s, "lane_width");
    pack_part(p, get_text(&s, "name"));
    pack_row(p);
  }
  int end_code = stmt_end(&s, err);
  return code != FP_OK ? code : end_code;
}

int gauge_kinds(txn *t, pack *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_KINDS);
  put_i64(&s, "id", 0);
  while (stmt_row(&s)) {
    pack_i64(p, get_i64(&s, "id"));
    pack_part(p, get_text(&s, "name"));
    pack_row(p);
  }
  return stmt_end(&s, err);
}

int gauge_schedules(txn *t, pack *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_SCHEDULES_TOLD);
  put_text(&s, "name", (span){"", 0});
  while (stmt_row(&s)) {
    pack_i64(p, get_i64(&s, "missed"));
    pack_i64(p, get_i64(&s, "last_fired"));
    pack_i64(p, get_i64(&s, "running"));
    pack_part(p, get_text(&s, "name"));
    pack_part(p, get_text(&s, "kind"));
    pack_part(p, get_text(&s, "expression"));
    pack_part(p, get_text(&s, "zone"));
    pack_row(p);
  }
  return stmt_end(&s, err);
}

/* What the kernel says of its process: 1 it lives, 0 it is dead, -1 that cannot be told. */
static int alive(const locks_file *file, int64_t worker) {
  if (file == NULL) return -1;
  return locks_held(file, LOCKS_WORKER + worker) ? 1 : locks_probe(file, LOCKS_WORKER + worker);
}

int gauge_workers(txn *t, const locks_file *file, pack *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_WORKERS_TOLD);
  put_i64(&s, "id", 0);
  while (stmt_row(&s)) {
    int64_t id = get_i64(&s, "id");
    pack_i64(p, id);
    pack_i64(p, get_i64(&s, "pid"));
    pack_i64(p, get_i64(&s, "started"));
    pack_i64(p, alive(file, id));
    pack_part(p, get_text(&s, "name"));
    pack_row(p);
  }
  return stmt_end(&s, err);
}

int gauge_uuid(txn *t, pack *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_META_UUID);
  if (stmt_row(&s)) {
    pack_part(p, get_bytes(&s, "store_uuid"));
    pack_row(p);
  }
  return stmt_end(&s, err);
}
