#include "flow.h"

#include "enqueue.h"
#include "flow_part.h"
#include "run.h"
#include "settle.h"

static const failure nothing = {0};

/* ---- records ---- */

/* One record by a pass; its row goes to *p. */
static int put_one(txn *t, const record *r, int64_t token, int32_t *answer, pack *p,
                   fp_error *err) {
  pass held;
  run of = {0};
  bool first = false, same = true;
  int code = pass_get(t, r->workflow, &held, err);
  bool lost = !held.found || held.token != token;
  *answer = lost ? FP_LOST : FP_DONE;
  if (code == FP_OK && !lost) code = run_get(t, r->workflow, &of, err);
  if (code != FP_OK) return code;
  pack_i64(p, of.found && of.state == FP_RUN_CANCELLED ? 1 : 0);
  if (!lost) code = record_put(t, r, &first, err);
  if (code == FP_OK && !lost && !first) code = record_stored(t, r, &same, p, err);
  if (code == FP_OK && !lost) code = pass_alive(t, r->workflow, &held, err);
  if (code != FP_OK) return code;
  if (same) {
    pack_part(p, NO_SPAN);
  } else {
    *answer = FP_ALREADY;
  }
  pack_row(p);
  return FP_OK;
}

static int put_records(txn *t, const ending *g, fp_error *err) {
  const char *blob = g->records->blob;
  int code = FP_OK;
  pack_clear(g->rows);
  for (int32_t i = 0; code == FP_OK && i < g->records->count; i++) {
    const fp_record *f = &g->records->records[i];
    record r = {.workflow = span_cut(&blob, f->id_bytes), .kind = f->kind,
                .started_us = f->started_us};
    r.key = span_cut(&blob, f->key_bytes);
    r.value = span_cut(&blob, f->value_bytes);
    code = put_one(t, &r, f->token, &g->record_answers[i], g->rows, err);
  }
  return code == FP_OK && g->rows->failed ? err_memory(err) : code;
}

int flow_find(txn *t, void *argument, fp_error *err) {
  const finding *g = argument;
  pass held;
  pack_clear(g->rows);
  int code = pass_check(t, g->id, g->token, &held, err);
  return code == FP_OK ? record_find(t, g->id, g->key, g->rows, err) : code;
}

/* ---- the end of a pass ---- */

/* What is said of one end. */
typedef struct said {
  span id, waiting, result;
  failure why;
  int64_t token, verb, at_us;
} said;

static said cut_end(const fp_end *e, const char **blob) {
  said d = {.id = span_cut(blob, e->id_bytes), .token = e->token, .verb = e->verb,
            .at_us = e->at_us};
  d.waiting = span_cut(blob, e->waiting_bytes);
  d.result = span_cut(blob, e->result_bytes);
  d.why.kind = span_cut(blob, e->kind_bytes);
  d.why.code = span_cut(blob, e->code_bytes);
  d.why.text = span_cut(blob, e->text_bytes);
  return d;
}

static int release(txn *t, const said *d, fp_error *err) {
  passing g = {.workflow = d->id, .token = d->token};
  return pass_release(t, &g, err);
}

/* Sleeping, or waiting for something to come: what came meanwhile makes it due at once. */
static int rest(txn *t, const said *d, place *at, fp_error *err) {
  at->attempts = 0;
  int code = settle_back(t, at, d->at_us < 0 ? NEVER_US : d->at_us, err);
  if (code == FP_OK) code = txn_drop_trouble(t, at->id, err);
  int64_t state = d->verb == FP_END_SLEEP ? FP_RUN_SLEEPING : FP_RUN_WAITING;
  if (at->due_at <= t->now_us) state = FP_RUN_RUNNING;
  if (code == FP_OK) code = run_goes_on(t, d->id, state, d->waiting, err);
  return code == FP_OK ? release(t, d, err) : code;
}

/* For good, unless something came that it has not seen. */
static int fail(txn *t, const said *d, place *at, int32_t *answer, fp_error *err) {
  if (at->again == 0) return settle_leave(t, at, FP_STATE_DEAD, &d->why, NO_SPAN, err);
  *answer = FP_REARMED;
  int code = settle_next_turn(t, at, &d->why, err);
  if (code == FP_OK) code = run_failing(t, d->id, &d->why, err);
  return code == FP_OK ? release(t, d, err) : code;
}

static int retry(txn *t, const said *d, place *at, int32_t *answer, fp_error *err) {
  facts f;
  const policy *p;
  int code = line_facts(t, at->id, &f, err);
  int64_t limit = f.max_attempts;
  facts_free(&f);
  if (code == FP_OK) code = db_policy(t->d, at->queue, &p, err);
  if (code != FP_OK) return code;
  if (limit > 0 && at->attempts >= limit) {
    *answer = FP_DEAD;
    return fail(t, d, at, answer, err);
  }
  int64_t delay_us = d->at_us >= 0 ? d->at_us : settle_back_off(p, at->attempts);
  code = settle_back(t, at, t->now_us + delay_us, err);
  if (code == FP_OK) code = run_failing(t, d->id, &d->why, err);
  return code == FP_OK ? release(t, d, err) : code;
}

static int park(txn *t, const said *d, place *at, int32_t *answer, fp_error *err) {
  if (at->attempts > 0) at->attempts--;
  int code = fail(t, d, at, answer, err);
  if (code != FP_OK || *answer != FP_DONE) return code;
  stmt s = stmt_use(&t->d->sql, SQL_RUN_PARKED);
  put_text(&s, "id", d->id);
  return stmt_end(&s, err);
}

static int give_back(txn *t, const said *d, place *at, fp_error *err) {
  int64_t due_us = t->now_us + d->at_us;
  if (at->attempts > 0) at->attempts--;
  if (d->at_us <= 0 || due_us < at->placed_at) due_us = at->placed_at;
  int code = settle_back(t, at, due_us, err);
  return code == FP_OK ? release(t, d, err) : code;
}

/* Its wake-up is not this pass's, or not in line any more: which is it? */
static int not_there(txn *t, const said *d, const run *r, int32_t *answer, fp_error *err) {
  pass held;
  int code = pass_get(t, d->id, &held, err);
  *answer = FP_LOST;
  if (code != FP_OK || !held.found || held.token != d->token) return code;
  if (r->state == FP_RUN_CANCELLED) {
    *answer = FP_CANCELLED;
    return release(t, d, err);
  }
  if (r->state >= FP_RUN_FAILED) *answer = FP_ALREADY;
  return code;
}

static int end_one(txn *t, const said *d, int32_t *answer, fp_error *err) {
  run r;
  place at;
  bool found = false;
  *answer = FP_DONE;
  int code = run_get(t, d->id, &r, err);
  if (code == FP_OK && r.found) code = line_take(t, r.message, d->token, &found, &at, err);
  if (code != FP_OK) return code;
  if (!found) return not_there(t, d, &r, answer, err);
  switch (d->verb) {
    case FP_END_DONE: return settle_leave(t, &at, FP_DONE_LISTED, &nothing, d->result, err);
    case FP_END_SLEEP:
    case FP_END_WAIT: return rest(t, d, &at, err);
    case FP_END_RETRY: return retry(t, d, &at, answer, err);
    case FP_END_FAIL: return fail(t, d, &at, answer, err);
    case FP_END_PARK: return park(t, d, &at, answer, err);
    default: assert(d->verb == FP_END_RELEASE); return give_back(t, d, &at, err);
  }
}

int flow_end(txn *t, void *argument, fp_error *err) {
  const ending *g = argument;
  int code = g->records != NULL ? put_records(t, g, err) : FP_OK;
  const char *blob = g->ends != NULL ? g->ends->blob : NULL;
  for (int32_t i = 0; g->ends != NULL && code == FP_OK && i < g->ends->count; i++) {
    said d = cut_end(&g->ends->ends[i], &blob);
    code = end_one(t, &d, &g->answers[i], err);
  }
  return code;
}

/* ---- from outside ---- */

int flow_wake_plain(txn *t, int64_t queue, span id, fp_error *err) {
  const uint32_t body_bytes = 0;
  const int32_t key_bytes = (int32_t)id.bytes;
  int64_t message;
  unsigned char created;
  const fp_put put = {.queue = queue, .count = 1, .equal = FP_EQUAL_REARM, .bodies = "",
                      .body_bytes = &body_bytes, .keys = id.at, .key_bytes = &key_bytes,
                      .life = FP_LIFE_LIVE, .max_attempts = -1};
  enqueuing e = {.put = &put, .ids = &message, .created = &created};
  return enqueue(t, &e, err);
}

/* Stores it; what is stored, if it is another's, and whether it is this call's go to *p. */
static int store(txn *t, const fp_outside *put, pack *p, bool *first, fp_error *err) {
  record r = {.workflow = {put->id, put->id_bytes}, .key = {put->key, put->key_bytes},
              .value = {put->value, put->value_bytes}, .kind = put->kind, .started_us = -1};
  if (put->value_bytes < 0) r.value = NO_SPAN;
  *first = true;
  if (put->key == NULL) {
    char key[RECORD_INBOX_BYTES];
    int code = record_append(t, r.workflow, r.value, key, err);
    pack_i64(p, 1);
    pack_part(p, (span){key, RECORD_INBOX_BYTES});
    pack_row(p);
    return code;
  }
  bool same = true;
  int code = record_put(t, &r, first, err);
  pack_i64(p, *first ? 1 : 0);
  if (code == FP_OK && !*first) code = record_stored(t, &r, &same, p, err);
  if (code != FP_OK) return code;
  if (same) pack_part(p, *first ? NO_SPAN : r.value);
  pack_row(p);
  return code;
}

int flow_come(txn *t, void *argument, fp_error *err) {
  const coming *g = argument;
  const fp_outside *put = g->put;
  const span id = {put->id, put->id_bytes};
  run r = {0};
  bool first = false;
  pack_clear(g->rows);
  int code = put->live || put->wake ? run_get(t, id, &r, err) : FP_OK;
  if (code == FP_OK && put->live && (!r.found || r.state >= FP_RUN_DONE)) {
    code = err_set(err, FP_GONE, "there is no run '%.*s' (any more) that could be told anything",
                   (int)id.bytes, id.at);
  }
  if (code == FP_OK && put->wake && !r.found && put->queue != 0) {
    code = flow_wake_plain(t, put->queue, id, err);
  }
  if (code == FP_OK) code = store(t, put, g->rows, &first, err);
  if (code == FP_OK && g->rows->failed) code = err_memory(err);
  if (code == FP_OK && put->wake && first && run_live(&r)) code = run_wake(t, &r, err);
  return code;
}

int flow_discard(txn *t, void *argument, fp_error *err) {
  asking *g = argument;
  int code = record_drop_links(t, g->id, err);
  if (code == FP_OK) code = record_drop(t, g->id, INT64_MAX, &g->gone, err);
  return code == FP_OK ? pass_drop(t, g->id, err) : code;
}
