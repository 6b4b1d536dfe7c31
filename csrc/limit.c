#include "limit.h"

#define NANO INT64_C(1000000000)

/* Holds a tenth of a second's worth, at least one token. A rate is thousandths of a token a second,
** so in a microsecond it makes that many thousand-millionths. */
static int64_t bucket(int64_t rate) {
  int64_t most = rate * (SECOND_US / 10);
  return most > NANO ? most : NANO;
}

static int read_rate(txn *t, const policy *p, allowance *a, fp_error *err) {
  int64_t rate = p->field[RATE], full = bucket(rate), at = 0;
  stmt s = stmt_use(&t->d->sql, SQL_RATE_GET);
  put_i64(&s, "id", p->queue);
  if (stmt_row(&s)) {
    a->level = get_i64(&s, "rate_level");
    at = get_i64(&s, "rate_at");
  }
  int code = stmt_end(&s, err);
  int64_t passed = t->now_us - at;
  if (a->level < 0 || a->level > full || at <= 0 || passed > full / rate) {
    a->level = full; /* never used, or for long enough */
  } else if (passed > 0) {
    a->level += passed * rate;
    if (a->level > full) a->level = full;
  }
  if (a->room > a->level / NANO) a->room = a->level / NANO;
  if (a->level < NANO) a->ready_us = t->now_us + (NANO - a->level + rate - 1) / rate;
  return code;
}

static int read_leased(txn *t, const policy *p, allowance *a, fp_error *err) {
  int64_t leased = 0;
  stmt s = stmt_use(&t->d->sql, SQL_TALLY_LEASED);
  put_i64(&s, "queue", p->queue);
  if (stmt_row(&s)) leased = get_i64(&s, "leased");
  int code = stmt_end(&s, err);
  leased += txn_counted(t, p->queue, N_LEASED);
  int64_t left = p->field[CONCURRENCY] - leased;
  a->occupied = left <= 0;
  if (!a->occupied && a->room > left) a->room = left;
  return code;
}

int limit_read(txn *t, const policy *p, allowance *a, fp_error *err) {
  int code = FP_OK;
  *a = (allowance){.room = INT64_MAX, .ready_us = t->now_us};
  if (p->field[RATE] != 0) code = read_rate(t, p, a, err);
  if (code == FP_OK && p->field[CONCURRENCY] != 0) code = read_leased(t, p, a, err);
  return code;
}

int limit_spend(txn *t, const policy *p, const allowance *a, int64_t count, fp_error *err) {
  if (p->field[RATE] == 0) return FP_OK;
  stmt s = stmt_use(&t->d->sql, SQL_RATE_KEEP);
  put_i64(&s, "rate_level", a->level - count * NANO);
  put_i64(&s, "rate_at", t->now_us);
  put_i64(&s, "id", p->queue);
  return stmt_end(&s, err);
}

int64_t limit_seen(const txn *t, int64_t queue) {
  const lapse *l = &t->d->lapses[queue & (POLICY_SLOTS - 1)];
  return l->queue == queue ? l->seen_us : 0;
}

void limit_saw(txn *t, int64_t queue, int64_t lapsed_us) {
  lapse *l = &t->d->lapses[queue & (POLICY_SLOTS - 1)];
  /* Whoever commits later may have begun before now, but after what the file says was given last:
  ** what it puts into the line stands behind that. */
  int64_t upto_us = t->d->head.time;
  *l = (lapse){queue, lapsed_us < upto_us ? lapsed_us : upto_us};
}
