/* How runs go: cancelled, deleted, purged. */
#include "fault.h"
#include "flow_part.h"
#include "key.h"
#include "retain.h"
#include "run.h"
#include "settle.h"

#include <stdlib.h>
#include <string.h>

/* ---- cancel ---- */

/* Of a job nobody has claimed yet. What cannot be found any more is somebody's, or has ended. */
static int cancel_job(txn *t, span link, fp_error *err) {
  char text[24] = {0};
  place at;
  bool found;
  if (link.bytes < (int64_t)sizeof text) memcpy(text, link.at, (size_t)link.bytes);
  int code = line_locate(t, strtoll(text, NULL, 10), &found, &at, err);
  if (code == FP_INVALID) {
    err_clear(err);
    return FP_OK;
  }
  if (code != FP_OK || !found || at.stage > 0) return code;
  return settle_cancel_at(t, &at, true, err);
}

/* Its children that are runs come behind those that are to be looked at. */
static int cancel_children(txn *t, span id, pack *todo, fp_error *err) {
  pack links = pack_of(2);
  int code = record_links(t, id, &links, err);
  int64_t at = 0;
  for (int32_t i = 0; code == FP_OK && i < links.count; i++) {
    span link = {links.blob + at, links.records[2 * i + 1]};
    if (link.bytes > 0) at += link.bytes;
    if (link.bytes <= 0 || link.bytes > KEY_BYTES_MAX) continue; /* damage, and no link */
    if (links.records[2 * i] == FP_RECORD_TO_JOB) {
      code = cancel_job(t, link, err);
    } else {
      pack_part(todo, link);
      pack_row(todo);
    }
  }
  pack_free(&links);
  return code == FP_OK && todo->failed ? err_memory(err) : code;
}

static int cancel_run(txn *t, span id, const run *r, fp_error *err) {
  const failure none = {0};
  place at;
  bool found;
  int code = line_locate(t, r->message, &found, &at, err);
  if (code != FP_OK) return code;
  if (found) return settle_cancel_at(t, &at, true, err);
  at = (place){.id = r->message}; /* its wake-up is missing, which is damage */
  return run_left(t, &at, id, FP_CANCELLED, &none, NO_SPAN, err);
}

/* The run, and all that live below it. */
static int cancel_tree(txn *t, span id, fp_error *err) {
  pack todo = pack_of(1);
  int64_t at = 0;
  int code = FP_OK;
  pack_part(&todo, id);
  pack_row(&todo);
  if (todo.failed) code = err_memory(err);
  for (int32_t i = 0; code == FP_OK && i < todo.count; i++) {
    char name[KEY_BYTES_MAX]; /* the list grows, and moves, meanwhile */
    span next = {name, todo.records[i]};
    run r;
    assert(next.bytes <= KEY_BYTES_MAX);
    memcpy(name, todo.blob + at, (size_t)next.bytes);
    at += next.bytes;
    code = run_get(t, next, &r, err);
    if (code != FP_OK || !run_live(&r)) continue;
    code = cancel_run(t, next, &r, err);
    if (code == FP_OK) code = cancel_children(t, next, &todo, err);
  }
  pack_free(&todo);
  return code;
}

int flow_cancel(txn *t, void *argument, fp_error *err) {
  asking *g = argument;
  run r;
  int code = run_get(t, g->id, &r, err);
  g->answer = !r.found ? FP_GONE : run_live(&r) ? FP_DONE : FP_ALREADY;
  return code == FP_OK && g->answer == FP_DONE ? cancel_tree(t, g->id, err) : code;
}

/* ---- delete, purge ---- */

/* What is kept of the wake-up of a run that has ended. */
static int drop_outcome(txn *t, const run *r, fp_error *err) {
  int64_t id = r->message;
  purge g = {.before_us = INT64_MAX, .limit = 1, .ids = &id, .count = 1, .whole = true};
  g.state = r->state == FP_RUN_DONE        ? FP_DONE_UNLISTED
            : r->state == FP_RUN_CANCELLED ? FP_CANCELLED
                                           : FP_STATE_DEAD;
  return retain_purge(t, &g, err);
}

/* A replay that nobody has taken yet: the line has it again. */
static int drop_replayed(txn *t, const run *r, fp_error *err) {
  place at;
  bool found;
  int code = line_locate(t, r->message, &found, &at, err);
  return code == FP_OK && found ? settle_cancel_at(t, &at, true, err) : code;
}

/* Of a run that is not live: all that is left, its records aside. */
static int drop_rest(txn *t, span id, const run *r, fp_error *err) {
  int64_t room = INT64_MAX;
  int code = r->message != 0 ? drop_outcome(t, r, err) : FP_OK;
  if (code == FP_OK && r->message != 0) code = drop_replayed(t, r, err);
  return code == FP_OK ? run_forget(t, r->message, id, &room, err) : code;
}

static int cancel_plain(txn *t, int64_t queue, span id, fp_error *err) {
  int64_t owner = 0;
  place at;
  bool found = false;
  int code = key_owner(t, queue, 0, FP_LIFE_LIVE, id, &owner, err);
  if (code == FP_OK && owner != 0) code = line_locate(t, owner, &found, &at, err);
  return code == FP_OK && found ? settle_cancel_at(t, &at, true, err) : code;
}

int flow_delete(txn *t, void *argument, fp_error *err) {
  asking *g = argument;
  run r;
  int code = run_get(t, g->id, &r, err);
  if (code == FP_OK && run_live(&r)) {
    code = cancel_tree(t, g->id, err);
    r.state = FP_RUN_CANCELLED;
  }
  if (code == FP_OK && g->queue != 0) code = cancel_plain(t, g->queue, g->id, err);
  if (code == FP_OK) code = flow_discard(t, g, err);
  return code == FP_OK && r.found ? drop_rest(t, g->id, &r, err) : code;
}

/* The ids of those that are to go, copied: their rows go meanwhile. */
static int find_old(txn *t, const sweep *g, pack *ids, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_RUNS_OLD);
  put_i64(&s, "state", g->state);
  put_i64(&s, "before", g->before_us);
  put_i64(&s, "limit", g->limit);
  while (stmt_row(&s)) {
    pack_part(ids, get_text(&s, "id"));
    pack_row(ids);
  }
  int code = stmt_end(&s, err);
  return code == FP_OK && ids->failed ? err_memory(err) : code;
}

/* One of whose records too many are there for one slice goes on as a run that nothing of it can be
** had of: no resume, no replay and no fork runs its steps again that were recorded. */
static int purge_one(txn *t, span id, int64_t *room, bool *all, fp_error *err) {
  run r;
  int code = run_get(t, id, &r, err);
  if (code == FP_OK) code = record_drop_some(t, id, room, all, err);
  if (code != FP_OK) return code;
  if (*all) return drop_rest(t, id, &r, err);
  if (r.message == 0) return FP_OK;
  code = run_part(t, id, r.state, err);
  if (code == FP_OK) code = drop_outcome(t, &r, err);
  return code == FP_OK ? drop_replayed(t, &r, err) : code;
}

int flow_purge(txn *t, void *argument, fp_error *err) {
  sweep *g = argument;
  pack ids = pack_of(1);
  int64_t at = 0, room = g->limit;
  g->purged = 0;
  int code = find_old(t, g, &ids, err);
  g->more = ids.count == g->limit;
  if (!g->apply) g->purged = ids.count;
  for (int32_t i = 0; code == FP_OK && g->apply && i < ids.count; i++) {
    if (ids.records[i] <= 0) continue; /* damage: nobody can ask for it */
    span id = {ids.blob + at, ids.records[i]};
    at += id.bytes;
    bool all = false;
    code = purge_one(t, id, &room, &all, err);
    if (all) g->purged++;
    if (!all || room <= 0) {
      g->more = g->more || !all || i + 1 < ids.count;
      break;
    }
  }
  pack_free(&ids);
  return code;
}
