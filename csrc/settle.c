#include "settle_part.h"

#include "key.h"
#include "run.h"

int settle_outcome(txn *t, const place *at, int32_t state, const failure *why, span result,
                   fp_error *err) {
  bool died = state == FP_STATE_DEAD || state == FP_STATE_UNKNOWN;
  stmt s = stmt_use(&t->d->sql, SQL_OUTCOME_PUT);
  put_i64(&s, "id", at->id);
  put_i64(&s, "queue", at->queue);
  put_i64(&s, "kind", at->kind);
  put_i64(&s, "state", state);
  put_i64(&s, "settled_at", t->now_us);
  put_i64(&s, "attempts", at->attempts);
  put_i64(&s, "token", at->token);
  put_i64(&s, "generation", at->generation + (died ? 1 : 0));
  put_text(&s, "failure_kind", why->kind);
  put_text(&s, "failure_code", why->code);
  put_text(&s, "failure_text", why->text);
  put_bytes(&s, "result", result);
  return stmt_end(&s, err);
}

int settle_trouble(txn *t, int64_t id, const failure *why, fp_error *err) {
  if (why->kind.at == NULL) return FP_OK;
  t->troubled = 1;
  stmt s = stmt_use(&t->d->sql, SQL_TROUBLE_PUT);
  put_i64(&s, "id", id);
  put_text(&s, "kind", why->kind);
  put_text(&s, "code", why->code);
  put_text(&s, "text", why->text);
  return stmt_end(&s, err);
}

int settle_anew(txn *t, int64_t id, int64_t since_us, fp_error *err) {
  int code = txn_drop_trouble(t, id, err);
  if (code != FP_OK) return code;
  t->troubled = 1;
  stmt s = stmt_use(&t->d->sql, SQL_TROUBLE_SINCE);
  put_i64(&s, "id", id);
  put_i64(&s, "since", since_us);
  return stmt_end(&s, err);
}

static void count_out(txn *t, const place *at) {
  txn_count(t, at->queue, line_state(at->turn, at->due_at, at->stage), -1);
}

int settle_forget(txn *t, int64_t id, fp_error *err) {
  int code = txn_drop(t, SQL_MESSAGE_DROP, id, err);
  if (code == FP_OK) code = txn_drop_progress(t, id, err);
  return code;
}

/* What only the message itself knows: its live key is freed, its lane goes on. */
static int untie(txn *t, const place *at, const policy *p, int32_t state, bool free_key,
                 const facts *f, fp_error *err) {
  int code = FP_OK;
  if (at->life == FP_LIFE_LIVE && f->key.at != NULL && free_key) {
    code = key_free(t, at->queue, f->kind, FP_LIFE_LIVE, f->key, at->id, err);
  }
  if (code != FP_OK || f->lane.at == NULL || at->turn < 0) return code;
  /* The next one must not overtake what may have to be sent once more. */
  if ((state == FP_STATE_DEAD || state == FP_STATE_UNKNOWN) && p->field[ON_DEAD] == 1) {
    return lane_park(t, p, f->lane, at->id, err);
  }
  return lane_leave(t, p, f->lane, err);
}

/* Whose end a run is told of: its own wake-up's, and that of a job that it has started. */
static int tell_run(txn *t, const place *at, const policy *p, int32_t state, const failure *why,
                    span result, const facts *f, fp_error *err) {
  if (f->key.at == NULL || at->life != FP_LIFE_LIVE) return FP_OK;
  if (p->field[PROFILE] == FP_PROFILE_WAKEUP) {
    return f->kind == 0 ? FP_OK : run_left(t, at, f->key, state, why, result, err);
  }
  if (!run_is_child_key(f->key)) return FP_OK;
  return run_job_left(t, at, f->key, state, why, result, err);
}

bool settle_keeps(const policy *p, int32_t state, int32_t life) {
  bool died = state == FP_STATE_DEAD || state == FP_STATE_UNKNOWN;
  return died || p->field[KEEP] > 0 || life == FP_LIFE_LASTING;
}

int32_t settle_state(const policy *p, int32_t state) {
  bool listed = p->field[LISTED] && p->field[KEEP] > 0;
  return state == FP_DONE_LISTED && !listed ? FP_DONE_UNLISTED : state;
}

static int leave(txn *t, const place *at, int32_t state, const failure *why, span result,
                 bool free_key, fp_error *err) {
  const policy *p;
  facts f = {0};
  int code = db_policy(t->d, at->queue, &p, err);
  if (code != FP_OK) return code;
  bool kept = settle_keeps(p, state, at->life);
  state = settle_state(p, state);
  if (at->life == FP_LIFE_LIVE || at->laned) code = line_facts(t, at->id, &f, err);
  if (code == FP_OK && kept) code = settle_outcome(t, at, state, why, result, err);
  if (code == FP_OK && (at->life == FP_LIFE_LIVE || at->laned)) {
    code = untie(t, at, p, state, free_key, &f, err);
  }
  if (code == FP_OK) code = tell_run(t, at, p, state, why, result, &f, err);
  if (code == FP_OK && !kept) code = settle_forget(t, at->id, err);
  if (code == FP_OK) code = txn_drop_trouble(t, at->id, err);
  facts_free(&f);
  count_out(t, at);
  txn_ring(t, at->queue);
  if (kept) txn_count(t, at->queue, txn_state_of(state), 1);
  if (code == FP_OK && !places_drop(t->places, at->id)) code = err_memory(err);
  return code;
}

int settle_leave(txn *t, const place *at, int32_t state, const failure *why, span result,
                 fp_error *err) {
  return leave(t, at, state, why, result, true, err);
}

int settle_back(txn *t, place *at, int64_t due_us, fp_error *err) {
  const policy *p;
  int code = db_policy(t->d, at->queue, &p, err);
  if (code != FP_OK) return code;
  at->due_at = at->again != 0 && at->again < due_us ? at->again : due_us;
  at->placed_at = at->due_at;
  at->token = 0;
  at->stage = 0;
  at->again = 0;
  at->worker = 0;
  at->addressed = p->field[ADDRESSED] != 0;
  txn_count(t, at->queue, N_LEASED, -1);
  txn_count(t, at->queue, line_state(at->turn, at->due_at, at->stage), 1);
  code = line_put(t, at, err);
  if (code == FP_OK && !places_drop(t->places, at->id)) code = err_memory(err);
  return code;
}

int settle_next_turn(txn *t, place *at, const failure *why, fp_error *err) {
  at->attempts = 0;
  int code = settle_anew(t, at->id, at->again, err);
  if (code == FP_OK) code = settle_trouble(t, at->id, why, err);
  return code == FP_OK ? settle_back(t, at, at->again, err) : code;
}

int64_t settle_back_off(const policy *p, int64_t attempt) {
  double span_us = (double)p->field[BASE], cap_us = (double)p->field[CAP];
  for (int64_t i = 1; i < attempt && span_us < cap_us && p->field[FACTOR] > 1000; i++) {
    span_us *= (double)p->field[FACTOR] / 1000.0;
  }
  if (span_us > cap_us) span_us = cap_us;
  uint32_t random;
  sqlite3_randomness((int)sizeof random, &random);
  double side = (double)random / 2147483648.0 - 1.0; /* -1 to 1 */
  return (int64_t)(span_us * (1.0 + side * (double)p->field[JITTER] / 1000.0));
}

/* Where max_age counts from: the first moment at which it was due, after its last replay if there
** was one. What was put off on purpose does not age meanwhile. */
static int age_start(txn *t, const facts *f, int64_t id, int64_t *since, fp_error *err) {
  *since = f->due > f->enqueued_at ? f->due : f->enqueued_at;
  bool any = false;
  int code = txn_troubled(t, &any, err);
  if (code != FP_OK || !any) return code;
  stmt s = stmt_use(&t->d->sql, SQL_TROUBLE_GET);
  put_i64(&s, "id", id);
  if (stmt_row(&s)) {
    (void)get_text(&s, "kind");
    (void)get_text(&s, "code");
    (void)get_text(&s, "text");
    if (!get_null(&s)) *since = get_moment(&s, "since");
  }
  return stmt_end(&s, err);
}

/* A further attempt, unless attempts or age are used up. `at` is out of the line already. */
static int retry(txn *t, place *at, const fp_verdict *v, const failure *why, int32_t *answer,
                 fp_error *err) {
  facts f;
  const policy *p;
  failure last = *why;
  int64_t since = 0;
  int code = line_facts(t, at->id, &f, err);
  if (code == FP_OK) code = db_policy(t->d, at->queue, &p, err);
  if (code == FP_OK) code = age_start(t, &f, at->id, &since, err);
  int64_t limit = f.max_attempts;
  facts_free(&f);
  if (code != FP_OK) return code;

  int64_t delay_us = v->delay_us >= 0 ? v->delay_us : settle_back_off(p, at->attempts);
  bool used_up = v->verb == FP_RETRY && limit > 0 && at->attempts >= limit;
  bool too_old = p->field[MAX_AGE] > 0 && t->now_us + delay_us - since > p->field[MAX_AGE];
  if (too_old && !used_up) last.kind = LITERAL("too_old");
  if (used_up && last.kind.at == NULL) last.kind = LITERAL("error");
  if ((used_up || too_old) && at->again != 0) return settle_next_turn(t, at, &last, err);
  if (used_up || too_old) {
    *answer = FP_DEAD;
    return leave(t, at, FP_STATE_DEAD, &last, NO_SPAN, true, err);
  }
  if (v->verb == FP_LATER && at->attempts > 0) at->attempts--;
  code = settle_trouble(t, at->id, why, err);
  if (code == FP_OK) code = settle_back(t, at, t->now_us + delay_us, err);
  return code;
}

static int renew(txn *t, place *at, int64_t lease_us, fp_error *err) {
  const policy *p;
  int code = db_policy(t->d, at->queue, &p, err);
  if (code != FP_OK) return code;
  int64_t lease = lease_us > 0 ? lease_us : p->field[LEASE];
  at->due_at = t->now_us + lease;
  at->worker = txn_worker(t); /* whoever renews it holds it, also where another handle claimed it */
  txn_lease(t, at->queue, lease);
  code = line_put(t, at, err);
  if (code == FP_OK && p->field[PROFILE] == FP_PROFILE_WAKEUP && at->kind != 0) {
    code = run_leased(t, at->id, at->token, at->due_at, err);
  }
  if (code == FP_OK && !places_put(t->places, at)) code = err_memory(err);
  return code;
}

/* The claim is not there any more: was it this very token that ended it? */
static int told_before(txn *t, int64_t id, int64_t token, int32_t *answer, fp_error *err) {
  line_outcome e;
  int code = line_outcome_of(t, id, &e, err);
  *answer = token != 0 && e.token == token ? FP_ALREADY : FP_LOST;
  return code;
}

static int carry_out(txn *t, const fp_verdict *v, const char **blob, int32_t *answer,
                     fp_error *err) {
  span result = span_cut(blob, v->result_bytes);
  failure why = {.kind = span_cut(blob, v->kind_bytes)};
  why.code = span_cut(blob, v->code_bytes);
  why.text = span_cut(blob, v->text_bytes);
  place at;
  bool found;
  *answer = FP_DONE;
  int code = line_take(t, v->id, v->token, &found, &at, err);
  if (code != FP_OK) return code;
  if (!found) {
    code = told_before(t, v->id, v->token, answer, err);
    /* Only this claim's own hint goes: the handle may hold a newer claim on the same message. */
    if (code == FP_OK && places_get(t->places, v->id, &at) && at.token == v->token &&
        !places_drop(t->places, v->id)) {
      code = err_memory(err);
    }
    return code;
  }
  bool ends = v->verb == FP_ACK || v->verb == FP_FAIL || v->verb == FP_CANCEL ||
              v->verb == FP_UNKNOWN;
  if (ends && at.again != 0) return settle_next_turn(t, &at, &why, err);
  switch (v->verb) {
    case FP_ACK: return leave(t, &at, FP_DONE_LISTED, &why, result, true, err);
    case FP_RETRY:
    case FP_LATER: return retry(t, &at, v, &why, answer, err);
    case FP_RELEASE:
      if (at.attempts > 0) at.attempts--;
      return settle_back(t, &at, v->delay_us > 0 && t->now_us + v->delay_us > at.placed_at
                                     ? t->now_us + v->delay_us
                                     : at.placed_at, err);
    case FP_FAIL: return leave(t, &at, FP_STATE_DEAD, &why, NO_SPAN, true, err);
    case FP_CANCEL: return leave(t, &at, FP_CANCELLED, &why, NO_SPAN, true, err);
    case FP_UNKNOWN: return leave(t, &at, FP_STATE_UNKNOWN, &why, NO_SPAN, true, err);
    case FP_BEGIN: at.stage = FP_BEGUN; return renew(t, &at, v->delay_us, err);
    default: assert(v->verb == FP_RENEW); return renew(t, &at, v->delay_us, err);
  }
}

fp_verdict settle_verdict(const fp_settle *all, int32_t i) {
  if (all->verdicts != NULL) return all->verdicts[i];
  return (fp_verdict){.id = all->claims[2 * i], .token = all->claims[2 * i + 1], .verb = FP_ACK,
                      .result_bytes = -1, .kind_bytes = -1, .code_bytes = -1, .text_bytes = -1};
}

int settle_many(txn *t, void *argument, fp_error *err) {
  settling *g = argument;
  const fp_settle *all = g->settle;
  const char *blob = all->blob;
  int code = FP_OK;
  int32_t length;
  for (int32_t i = 0; code == FP_OK && i < all->count; i += length) {
    bool together;
    code = settle_run(t, all, i, &blob, &length, &together, err);
    for (int32_t k = i; code == FP_OK && k < i + length; k++) {
      fp_verdict v = settle_verdict(all, k);
      g->answers[k] = FP_DONE;
      if (!together) code = carry_out(t, &v, &blob, &g->answers[k], err);
    }
  }
  return code;
}

int settle_renew(txn *t, int32_t count, const renewal *renewals, int32_t *answers,
                 fp_error *err) {
  int code = FP_OK;
  for (int32_t i = 0; code == FP_OK && i < count; i++) {
    fp_verdict v = {.id = renewals[i].id, .token = renewals[i].token, .verb = FP_RENEW,
                    .delay_us = renewals[i].lease_us, .result_bytes = -1, .kind_bytes = -1,
                    .code_bytes = -1, .text_bytes = -1};
    const char *blob = NULL;
    code = carry_out(t, &v, &blob, &answers[i], err);
  }
  return code;
}

int settle_cancel_at(txn *t, const place *at, bool free_key, fp_error *err) {
  bool dropped;
  const failure none = {0};
  int code = line_drop(t, at, &dropped, err);
  if (code == FP_OK && !dropped) {
    code = err_set(err, FP_STORAGE, "message %lld is not where it was just read",
                   (long long)at->id);
  }
  place ended = *at;
  ended.token = 0; /* its holder did not end it: what it says later is lost, not "already" */
  if (code == FP_OK) code = leave(t, &ended, FP_CANCELLED, &none, NO_SPAN, free_key, err);
  return code;
}

int settle_cancel(txn *t, void *argument, fp_error *err) {
  cancelling *g = argument;
  int code = FP_OK;
  for (int32_t i = 0; code == FP_OK && i < g->count; i++) {
    place at;
    bool found;
    code = line_locate(t, g->ids[i], &found, &at, err);
    if (code == FP_INVALID) {
      err_clear(err);
      g->answers[i] = FP_INVALID;
      code = FP_OK;
      continue;
    }
    if (code != FP_OK) return code;
    if (found) {
      g->answers[i] = FP_DONE;
      code = settle_cancel_at(t, &at, true, err);
    } else {
      line_outcome e;
      code = line_outcome_of(t, g->ids[i], &e, err);
      g->answers[i] = e.found ? FP_ALREADY : FP_GONE;
    }
  }
  return code;
}
