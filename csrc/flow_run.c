/* How runs begin: started, forked, resumed. */
#include "enqueue.h"
#include "flow_part.h"
#include "replay.h"
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static span id_of(const fp_start *s) { return (span){s->id, s->id_bytes}; }
static span args_of(const fp_start *s) {
  return s->args_bytes < 0 ? NO_SPAN : (span){s->args, s->args_bytes};
}
static span parent_id(const fp_parent *p) { return (span){p->id, p->id_bytes}; }
static span parent_key(const fp_parent *p) { return (span){p->key, p->key_bytes}; }

/* ---- start ---- */

static int enqueue_one(txn *t, const fp_put *put, int64_t *message, fp_error *err) {
  unsigned char created;
  enqueuing e = {.put = put, .ids = message, .created = &created};
  return enqueue(t, &e, err);
}

static int put_wakeup(txn *t, const fp_start *s, int64_t *message, fp_error *err) {
  const uint32_t body_bytes = 0;
  const fp_put put = {.queue = s->queue, .kind = s->kind, .count = 1, .equal = FP_EQUAL_REARM,
                      .bodies = "", .body_bytes = &body_bytes, .keys = s->id,
                      .key_bytes = &s->id_bytes, .headers = s->headers,
                      .header_bytes = s->headers != NULL ? &s->header_bytes : NULL,
                      .delay_us = s->delay_us, .absolute = s->absolute, .life = FP_LIFE_LIVE,
                      .priority = s->priority, .max_attempts = s->max_attempts};
  return enqueue_one(t, &put, message, err);
}

static int put_run(txn *t, const fp_start *s, int64_t message, fp_error *err) {
  stmt q = stmt_use(&t->d->sql, SQL_RUN_PUT);
  put_text(&q, "id", id_of(s));
  put_i64(&q, "kind", s->kind);
  put_i64(&q, "message", message);
  put_bytes(&q, "args", args_of(s));
  put_i64(&q, "created_at", t->now_us);
  return stmt_end(&q, err);
}

static int is_same(txn *t, const fp_start *s, bool *same, fp_error *err) {
  stmt q = stmt_use(&t->d->sql, SQL_RUN_SAME);
  put_text(&q, "id", id_of(s));
  put_i64(&q, "kind", s->kind);
  put_bytes(&q, "args", args_of(s));
  *same = stmt_row(&q);
  return stmt_end(&q, err);
}

/* The link that the parent keeps under this name; *bytes -1: none. */
static int link_of(txn *t, const fp_parent *p, int64_t kind, char into[KEY_BYTES_MAX],
                   int64_t *bytes, fp_error *err) {
  char name[KEY_BYTES_MAX + 8];
  const span begin = RECORD_CHILD, key = parent_key(p);
  memcpy(name, begin.at, (size_t)begin.bytes);
  memcpy(name + begin.bytes, key.at, (size_t)key.bytes);
  return record_link(t, parent_id(p), (span){name, begin.bytes + key.bytes}, kind, into,
                     KEY_BYTES_MAX, bytes, err);
}

/* There is a run under this id: is it the one that is meant? */
static int meet(txn *t, starting *g, const run *r, bool linked, fp_error *err) {
  bool same;
  int code = is_same(t, g->start, &same, err);
  if (code != FP_OK) return code;
  g->message = r->message;
  if (same && (g->start->parent == NULL || linked)) return FP_OK;
  err->id = r->message;
  return err_set(err, FP_CONFLICT, same ? "run '%.*s' is there already, and is not its child"
                                        : "another run has the id '%.*s'",
                 (int)g->start->id_bytes, g->start->id);
}

int flow_start(txn *t, void *argument, fp_error *err) {
  starting *g = argument;
  const fp_start *s = g->start;
  const fp_parent *p = s->parent;
  pass held;
  run r;
  char child[KEY_BYTES_MAX];
  int64_t bytes = -1;
  g->created = false;
  int code = p != NULL ? pass_check(t, parent_id(p), p->token, &held, err) : FP_OK;
  if (code == FP_OK && p != NULL) code = link_of(t, p, FP_RECORD_TO_RUN, child, &bytes, err);
  if (code == FP_OK) code = run_get(t, id_of(s), &r, err);
  if (code != FP_OK) return code;
  bool linked = bytes == s->id_bytes && memcmp(child, s->id, (size_t)bytes) == 0;
  if (r.found) return meet(t, g, &r, linked, err);

  code = put_wakeup(t, s, &g->message, err);
  if (code == FP_OK) code = put_run(t, s, g->message, err);
  if (code == FP_OK && p != NULL) {
    code = run_link(t, parent_id(p), parent_key(p), FP_RECORD_TO_RUN, id_of(s), err);
  }
  if (code == FP_OK && p != NULL) {
    code = run_link_back(t, id_of(s), parent_id(p), parent_key(p), err);
  }
  g->created = true;
  return code;
}

int flow_start_job(txn *t, void *argument, fp_error *err) {
  starting *g = argument;
  const fp_parent *p = g->parent;
  fp_put put = *g->put;
  char key[KEY_BYTES_MAX], link[KEY_BYTES_MAX];
  int64_t key_bytes = 0, bytes = -1;
  pass held;
  g->created = false;
  int code = run_child_key(parent_id(p), parent_key(p), key, &key_bytes, err);
  if (code == FP_OK) code = pass_check(t, parent_id(p), p->token, &held, err);
  if (code == FP_OK) code = link_of(t, p, FP_RECORD_TO_JOB, link, &bytes, err);
  if (code != FP_OK) return code;
  if (bytes >= 0) {
    link[bytes < KEY_BYTES_MAX ? bytes : KEY_BYTES_MAX - 1] = 0;
    g->message = strtoll(link, NULL, 10);
    return FP_OK;
  }
  const int32_t short_bytes = (int32_t)key_bytes;
  put.keys = key;
  put.key_bytes = &short_bytes;
  put.lives = NULL;
  put.life = FP_LIFE_LIVE;
  put.digests = NULL;
  put.equal = FP_EQUAL_RETURN;
  code = enqueue_one(t, &put, &g->message, err);
  if (code != FP_OK) return code;
  int used = snprintf(link, sizeof link, "%lld", (long long)g->message);
  g->created = true;
  return run_link(t, parent_id(p), parent_key(p), FP_RECORD_TO_JOB, (span){link, used}, err);
}

/* ---- fork ---- */

/* FP_CONFLICT: there is a run, or a record, under the new id. */
static int check_free(txn *t, span id, fp_error *err) {
  run r;
  bool more;
  pack first = pack_of(RECORD_PAGE_WIDTH);
  int code = run_get(t, id, &r, err);
  if (code == FP_OK && !r.found) code = record_page(t, id, 0, 1, &first, &more, err);
  if (code == FP_OK && first.failed) code = err_memory(err);
  if (code == FP_OK && (r.found || first.count > 0)) {
    err->id = r.message;
    code = err_set(err, FP_CONFLICT, "there is something under the id '%.*s'", (int)id.bytes,
                   id.at);
  }
  pack_free(&first);
  return code;
}

static int read_args(txn *t, span id, pack *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_RUN_ARGS);
  put_text(&s, "id", id);
  if (stmt_row(&s)) {
    pack_part(p, get_bytes(&s, "args"));
    pack_row(p);
  }
  int code = stmt_end(&s, err);
  return code == FP_OK && p->failed ? err_memory(err) : code;
}

int flow_fork(txn *t, void *argument, fp_error *err) {
  forking *g = argument;
  run r;
  int64_t seq = INT64_MAX;
  int code = run_get(t, g->id, &r, err);
  if (code == FP_OK && (!r.found || r.message == 0)) { /* or it is on its way out */
    return err_set(err, FP_GONE, "there is no run '%.*s'", (int)g->id.bytes, g->id.at);
  }
  if (code == FP_OK && g->key.at != NULL) code = record_seq(t, g->id, g->key, &seq, err);
  if (code == FP_OK && seq == 0) {
    return err_set(err, FP_GONE, "run '%.*s' has no record '%.*s'", (int)g->id.bytes, g->id.at,
                   (int)g->key.bytes, g->key.at);
  }
  if (code == FP_OK) code = check_free(t, id_of(&g->start), err);
  if (code != FP_OK) return code;
  pack args = pack_of(1);
  fp_start s = g->start;
  starting start = {.start = &s};
  s.kind = r.kind;
  s.parent = NULL;
  code = read_args(t, g->id, &args, err);
  if (code == FP_OK && args.records[0] >= 0) {
    s.args = args.blob_used == 0 ? "" : args.blob;
    s.args_bytes = args.blob_used;
  }
  if (code == FP_OK) code = flow_start(t, &start, err);
  if (code == FP_OK) code = record_copy(t, g->id, seq, id_of(&s), err);
  g->message = start.message;
  pack_free(&args);
  return code;
}

/* ---- resume ---- */

int flow_resume(txn *t, void *argument, fp_error *err) {
  asking *g = argument;
  run r;
  int code = run_get(t, g->id, &r, err);
  bool rests = r.found && (r.state == FP_RUN_FAILED || r.state == FP_RUN_PARKED);
  g->answer = r.found ? FP_ALREADY : FP_GONE;
  if (code != FP_OK || !rests) return code;
  const int64_t pair[2] = {r.message, -1};
  replaying back = {.count = 1, .pairs = pair, .apply = true, .answers = &g->answer};
  code = replay(t, &back, err);
  if (code != FP_OK) return code;
  place at;
  bool replayed = false; /* by an operator, and nobody has taken it since */
  if (g->answer == FP_NOT_DEAD) code = line_locate(t, r.message, &replayed, &at, err);
  if (replayed) g->answer = FP_DONE;
  if (g->answer != FP_DONE) g->answer = FP_GONE;
  if (code != FP_OK || g->answer != FP_DONE) return code;
  return run_goes_on(t, g->id, FP_RUN_RUNNING, NO_SPAN, err);
}
