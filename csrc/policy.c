#include "policy.h"

#include <string.h>

#define DAY_US (INT64_C(86400) * SECOND_US)

void policy_defaults(int32_t profile, int64_t *f) {
  bool plain = profile == FP_PROFILE_QUEUE, wakeup = profile == FP_PROFILE_WAKEUP;
  memset(f, 0, FP_POLICY_FIELDS * sizeof *f);
  f[KEEP] = plain || wakeup ? 0 : 7 * DAY_US;
  f[ADDRESSED] = plain ? 0 : 1;
  f[LISTED] = plain || wakeup ? 0 : 1;
  f[MAX_ATTEMPTS] = plain || profile == FP_PROFILE_JOB ? 5 : 10;
  if (wakeup) f[MAX_ATTEMPTS] = 0;
  f[MAX_AGE] = 7 * DAY_US;
  f[LEASE] = 30 * SECOND_US;
  f[BASE] = 5 * SECOND_US;
  f[FACTOR] = 2000;
  f[CAP] = 300 * SECOND_US;
  f[JITTER] = 200;
  f[LANE_WIDTH] = 1;
  f[PROFILE] = profile;
}

int64_t policy_key_window(const policy *p) {
  int64_t keep = p->field[KEEP], window = p->field[KEY_WINDOW];
  if (window > 0) return window;
  return keep > 7 * DAY_US ? keep : 7 * DAY_US;
}

int policy_find(txn *t, span name, int64_t *number, int64_t *fields, fp_error *err) {
  *number = 0;
  stmt s = stmt_use(&t->d->sql, SQL_QUEUE_ID);
  put_text(&s, "name", name);
  if (stmt_row(&s)) *number = get_i64(&s, "id");
  int code = stmt_end(&s, err);
  if (code != FP_OK || *number == 0 || fields == NULL) return code;

  const policy *p;
  code = db_policy(t->d, *number, &p, err);
  if (code == FP_OK) memcpy(fields, p->field, sizeof p->field);
  return code;
}

static void put_fields(stmt *s, const int64_t *f) {
  for (int i = 0; i < FP_POLICY_FIELDS; i++) put_i64(s, policy_column[i], f[i]);
}

static int make(txn *t, span name, const int64_t *fields, int64_t *number, fp_error *err) {
  int64_t last = 0;
  stmt s = stmt_use(&t->d->sql, SQL_QUEUE_LAST);
  if (stmt_row(&s)) last = get_i64(&s, "id");
  int code = stmt_end(&s, err);
  if (code != FP_OK) return code;

  *number = last + 1;
  s = stmt_use(&t->d->sql, SQL_QUEUE_PUT);
  put_i64(&s, "id", *number);
  put_text(&s, "name", name);
  put_fields(&s, fields);
  code = stmt_end(&s, err);
  if (code != FP_OK) return code;

  s = stmt_use(&t->d->sql, SQL_TALLY_PUT);
  put_i64(&s, "queue", *number);
  return stmt_end(&s, err);
}

static int write(txn *t, int64_t queue, const int64_t *fields, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_QUEUE_SET);
  put_fields(&s, fields);
  put_i64(&s, "id", queue);
  int code = stmt_end(&s, err);
  t->d->policies[queue & (POLICY_SLOTS - 1)].queue = 0;
  txn_ring(t, queue);
  return code;
}

int policy_size(txn *t, int64_t queue, int64_t *size, fp_error *err) {
  *size = 0;
  stmt s = stmt_use(&t->d->sql, SQL_TALLY_SIZE);
  put_i64(&s, "queue", queue);
  if (stmt_row(&s)) *size = get_i64(&s, "size");
  /* What requests before this one in the same transaction have counted is not in the file yet. */
  *size += txn_counted(t, queue, N_PENDING) + txn_counted(t, queue, N_WAITING) +
           txn_counted(t, queue, N_LEASED);
  return stmt_end(&s, err);
}

/* What a queue of this profile carries, in words. */
static const char *content_of(int64_t profile) {
  static const char *const words[] = {"data", "jobs", "deliveries", "receipts", "wake-ups"};
  return profile >= 0 && profile <= FP_PROFILE_WAKEUP ? words[profile] : "something newer";
}

int policy_define(txn *t, span name, int32_t profile, const int64_t *fields, int64_t *number,
                  bool *raised, fp_error *err) {
  int64_t now[FP_POLICY_FIELDS], wanted[FP_POLICY_FIELDS], size = 0;
  *raised = false;
  int code = policy_find(t, name, number, now, err);
  if (code != FP_OK) return code;
  bool there = *number != 0;
  if (there) {
    memcpy(wanted, now, sizeof wanted);
  } else {
    policy_defaults(profile, wanted);
  }
  if (there && now[PROFILE] != profile) {
    return err_set(err, FP_INVALID, "the queue '%.*s' is one of %s, not of %s", (int)name.bytes,
                   name.at, content_of(now[PROFILE]), content_of(profile));
  }
  for (int i = 0; i < FP_POLICY_FIELDS; i++) {
    if (fields[i] != INT64_MIN && i != PROFILE) wanted[i] = fields[i];
  }
  if (!there) return make(t, name, wanted, number, err);
  if (memcmp(now, wanted, sizeof now) == 0) return FP_OK;

  if (now[ADDRESSED] != wanted[ADDRESSED]) {
    code = policy_size(t, *number, &size, err);
    if (code == FP_OK && size > 0) {
      code = err_set(err, FP_INVALID, "`addressed` of the queue '%.*s' cannot change while %lld "
                                      "messages are in line", (int)name.bytes, name.at,
                     (long long)size);
    }
    if (code != FP_OK) return code;
  }
  *raised = wanted[LANE_WIDTH] > now[LANE_WIDTH];
  return write(t, *number, wanted, err);
}

int policy_set(txn *t, int64_t queue, int field, int64_t value, fp_error *err) {
  const policy *p;
  int64_t fields[FP_POLICY_FIELDS];
  int code = db_policy(t->d, queue, &p, err);
  if (code != FP_OK || p->field[field] == value) return code;
  memcpy(fields, p->field, sizeof fields);
  fields[field] = value;
  return write(t, queue, fields, err);
}

int policy_kind(txn *t, span name, bool make_it, int64_t *number, fp_error *err) {
  *number = 0;
  stmt s = stmt_use(&t->d->sql, SQL_KIND_ID);
  put_text(&s, "name", name);
  if (stmt_row(&s)) *number = get_i64(&s, "id");
  int code = stmt_end(&s, err);
  if (code != FP_OK || *number != 0 || !make_it) return code;

  s = stmt_use(&t->d->sql, SQL_KIND_PUT);
  put_text(&s, "name", name);
  code = stmt_end(&s, err);
  if (code == FP_OK) *number = sqlite3_last_insert_rowid(t->d->handle);
  return code;
}
