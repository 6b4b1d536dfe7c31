#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

enum {
  LINK_BYTES_MAX = 2 * KEY_BYTES_MAX + 1,             /* parent, NUL, key */
  LINK_KEY_BYTES_MAX = KEY_BYTES_MAX + 6              /* "child:" and a key */
};

int run_check_state(span id, int64_t state, fp_error *err) {
  if (state >= FP_RUN_RUNNING && state <= FP_RUN_CANCELLED) return FP_OK;
  return err_set(err, FP_STORAGE, "run '%.*s' has a state that it cannot have: fencepost_run is "
                                  "damaged", (int)id.bytes, id.at);
}

int run_get(txn *t, span id, run *r, fp_error *err) {
  *r = (run){0};
  stmt s = stmt_use(&t->d->sql, SQL_RUN_GET);
  put_text(&s, "id", id);
  if (stmt_row(&s)) {
    r->found = true;
    r->kind = get_i64(&s, "kind");
    r->message = get_i64(&s, "message");
    r->state = get_i64(&s, "state");
  }
  int code = stmt_end(&s, err);
  return code == FP_OK ? run_check_state(id, r->state, err) : code;
}

bool run_live(const run *r) { return r->found && r->state <= FP_RUN_WAITING; }

int run_goes_on(txn *t, span id, int64_t state, span waiting, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_RUN_GOES_ON);
  put_i64(&s, "state", state);
  put_text(&s, "waiting_for", waiting);
  put_text(&s, "id", id);
  return stmt_end(&s, err);
}

int run_failing(txn *t, span id, const failure *why, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_RUN_FAILING);
  put_text(&s, "failure_kind", why->kind);
  put_text(&s, "failure_text", why->text);
  put_text(&s, "id", id);
  return stmt_end(&s, err);
}

int run_wake(txn *t, const run *r, fp_error *err) {
  place at;
  bool found;
  int code = line_locate(t, r->message, &found, &at, err);
  return code == FP_OK && found ? line_rearm(t, &at, t->now_us, err) : code;
}

int run_taken(txn *t, int64_t message, int64_t token, int64_t until_us, fp_error *err) {
  facts f;
  run r;
  int code = line_facts(t, message, &f, err);
  if (code != FP_OK || f.key.at == NULL) {
    facts_free(&f);
    return code;
  }
  code = run_get(t, f.key, &r, err);
  if (code == FP_OK) code = pass_taken(t, f.key, token, until_us, err);
  bool rests = r.found && r.message == message && r.state != FP_RUN_RUNNING;
  if (code == FP_OK && rests) code = run_goes_on(t, f.key, FP_RUN_RUNNING, NO_SPAN, err);
  facts_free(&f);
  return code;
}

int run_leased(txn *t, int64_t message, int64_t token, int64_t until_us, fp_error *err) {
  facts f;
  int code = line_facts(t, message, &f, err);
  if (code == FP_OK && f.key.at != NULL) code = pass_leased(t, f.key, token, until_us, err);
  facts_free(&f);
  return code;
}

/* ---- what came of a child ---- */

/* As fencepost_flow.h says. NULL: out of memory. */
static char *told(int64_t outcome, const failure *why, span result, int64_t *bytes) {
  bool done = outcome == FP_DONE_LISTED || outcome == FP_DONE_UNLISTED;
  bool cancelled = outcome == FP_CANCELLED;
  span kind = why->kind.at != NULL ? why->kind : LITERAL("error");
  *bytes = 1 + (done ? result.bytes : cancelled ? 0 : kind.bytes + 1 + why->text.bytes);
  char *value = mem_get(*bytes);
  if (value == NULL) return NULL;
  value[0] = done ? 'd' : cancelled ? 'c' : 'f';
  if (done && result.bytes > 0) memcpy(value + 1, result.at, (size_t)result.bytes);
  if (done || cancelled) return value;
  memcpy(value + 1, kind.at, (size_t)kind.bytes);
  value[1 + kind.bytes] = 0;
  if (why->text.bytes > 0) memcpy(value + 2 + kind.bytes, why->text.at, (size_t)why->text.bytes);
  return value;
}

static int tell_parent(txn *t, span parent, span key, int64_t outcome, const failure *why,
                       span result, fp_error *err) {
  run r;
  bool first = false;
  int code = run_get(t, parent, &r, err);
  if (code != FP_OK || !r.found || r.state >= FP_RUN_DONE) return code;
  record told_to = {.workflow = parent, .key = key, .kind = FP_RECORD_CHILD, .started_us = -1};
  char *value = told(outcome, why, result, &told_to.value.bytes);
  if (value == NULL) return err_memory(err);
  told_to.value.at = value;
  code = record_put(t, &told_to, &first, err);
  if (code == FP_OK && first && run_live(&r)) code = run_wake(t, &r, err);
  mem_free(value);
  return code;
}

static int64_t state_of(int64_t outcome) {
  switch (outcome) {
    case FP_DONE_UNLISTED:
    case FP_DONE_LISTED: return FP_RUN_DONE;
    case FP_CANCELLED: return FP_RUN_CANCELLED;
    default: return FP_RUN_FAILED;
  }
}

int run_left(txn *t, const place *at, span id, int64_t outcome, const failure *why, span result,
             fp_error *err) {
  run r;
  char link[LINK_BYTES_MAX];
  int64_t bytes = -1;
  int code = run_get(t, id, &r, err);
  if (code != FP_OK || !r.found || r.message != at->id) return code;
  code = record_link(t, id, RECORD_PARENT, FP_RECORD_TO_RUN, link, sizeof link, &bytes, err);
  if (code != FP_OK) return code;

  stmt s = stmt_use(&t->d->sql, SQL_RUN_END);
  put_i64(&s, "state", state_of(outcome));
  put_bytes(&s, "result", result);
  put_text(&s, "failure_kind", why->kind);
  put_text(&s, "failure_text", why->text);
  put_i64(&s, "ended_at", t->now_us);
  put_text(&s, "id", id);
  code = stmt_end(&s, err);
  if (code == FP_OK && at->token != 0) {
    passing g = {.workflow = id, .token = at->token};
    code = pass_release(t, &g, err);
  }
  const char *end = bytes < 0 ? NULL : memchr(link, 0, (size_t)bytes);
  if (code != FP_OK || end == NULL) return code;
  span parent = {link, end - link}, key = {end + 1, link + bytes - end - 1};
  return tell_parent(t, parent, key, outcome, why, result, err);
}

int run_part(txn *t, span id, int64_t state, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_RUN_PART);
  put_i64(&s, "state", state);
  put_text(&s, "id", id);
  return stmt_end(&s, err);
}

int run_forget(txn *t, int64_t message, span id, int64_t *room, fp_error *err) {
  run r;
  bool all;
  int code = run_get(t, id, &r, err);
  if (code != FP_OK || !r.found || r.message != message) return code;
  code = record_drop_some(t, id, room, &all, err);
  if (code == FP_OK && !all) {
    return run_part(t, id, r.state == FP_RUN_DONE ? FP_RUN_DONE : FP_RUN_CANCELLED, err);
  }
  if (code == FP_OK) code = pass_drop(t, id, err);
  if (code != FP_OK) return code;
  stmt s = stmt_use(&t->d->sql, SQL_RUN_DROP);
  put_text(&s, "id", id);
  return stmt_end(&s, err);
}

/* ---- children ---- */

int run_child_key(span parent, span key, char into[KEY_BYTES_MAX], int64_t *bytes, fp_error *err) {
  char begin[32];
  int used = snprintf(begin, sizeof begin, "child:%lld:", (long long)parent.bytes);
  long long both = parent.bytes + key.bytes;
  *bytes = used + both;
  if (*bytes > KEY_BYTES_MAX) {
    return err_set(err, FP_INVALID, "the id of a run and the name of its child have %lld bytes "
                                    "together, and may have %d", both, KEY_BYTES_MAX - used);
  }
  memcpy(into, begin, (size_t)used);
  memcpy(into + used, parent.at, (size_t)parent.bytes);
  memcpy(into + used + parent.bytes, key.at, (size_t)key.bytes);
  return FP_OK;
}

bool run_is_child_key(span key) {
  const span begin = RECORD_CHILD;
  return key.at != NULL && key.bytes > begin.bytes &&
         memcmp(key.at, begin.at, (size_t)begin.bytes) == 0;
}

/* False: it only looks like one. */
static bool cut_child_key(span whole, span *parent, span *key) {
  int64_t at = RECORD_CHILD.bytes, length = 0;
  while (at < whole.bytes && whole.at[at] >= '0' && whole.at[at] <= '9' && length < KEY_BYTES_MAX) {
    length = length * 10 + (whole.at[at++] - '0');
  }
  if (at >= whole.bytes || whole.at[at] != ':' || at + 1 + length >= whole.bytes) return false;
  *parent = (span){whole.at + at + 1, length};
  *key = (span){parent->at + length, whole.bytes - at - 1 - length};
  return true;
}

/* Where the parent keeps the link to what was started under `key`. */
static span link_key(span key, char into[LINK_KEY_BYTES_MAX]) {
  assert(key.bytes <= KEY_BYTES_MAX);
  memcpy(into, RECORD_CHILD.at, (size_t)RECORD_CHILD.bytes);
  memcpy(into + RECORD_CHILD.bytes, key.at, (size_t)key.bytes);
  return (span){into, RECORD_CHILD.bytes + key.bytes};
}

/* Anybody may make a key that looks like a child's: the parent has to know it. */
int run_job_left(txn *t, const place *at, span whole, int64_t outcome, const failure *why,
                 span result, fp_error *err) {
  span parent, key;
  char name[LINK_KEY_BYTES_MAX], link[24];
  int64_t bytes = -1;
  if (!cut_child_key(whole, &parent, &key) || key.bytes > KEY_BYTES_MAX) return FP_OK;
  int code = record_link(t, parent, link_key(key, name), FP_RECORD_TO_JOB, link,
                         (int64_t)sizeof link - 1, &bytes, err);
  if (code != FP_OK || bytes < 0) return code;
  link[bytes] = 0;
  if (strtoll(link, NULL, 10) != at->id) return FP_OK;
  return tell_parent(t, parent, key, outcome, why, result, err);
}

int run_link(txn *t, span parent, span key, int64_t kind, span value, fp_error *err) {
  char name[LINK_KEY_BYTES_MAX];
  bool first;
  const record r = {.workflow = parent, .key = link_key(key, name), .value = value, .kind = kind,
                    .started_us = -1};
  return record_put(t, &r, &first, err);
}

int run_link_back(txn *t, span child, span parent, span key, fp_error *err) {
  char value[LINK_BYTES_MAX];
  bool first;
  memcpy(value, parent.at, (size_t)parent.bytes);
  value[parent.bytes] = 0;
  memcpy(value + parent.bytes + 1, key.at, (size_t)key.bytes);
  const record r = {.workflow = child, .key = RECORD_PARENT, .kind = FP_RECORD_TO_RUN,
                    .value = {value, parent.bytes + 1 + key.bytes}, .started_us = -1};
  return record_put(t, &r, &first, err);
}
