/* Runs as they are shown. */
#include <string.h>

#include "flow_part.h"
#include "run.h"

enum { LIST_LOOKS = 5000 }; /* runs that one page looks at, at the most */

/* The columns of a run as both statements have them. */
typedef struct row {
  int64_t kind, message, state, created_at, ended_at;
  span id, waiting, args, result, failure_kind, failure_text;
} row;

static void pack_run(pack *p, const row *r) {
  pack_i64(p, r->kind);
  pack_i64(p, r->state);
  pack_i64(p, r->message);
  pack_i64(p, r->created_at);
  pack_i64(p, r->ended_at);
  pack_part(p, r->id);
  pack_part(p, r->waiting);
  pack_part(p, r->args);
  pack_part(p, r->result);
  pack_part(p, r->failure_kind);
  pack_part(p, r->failure_text);
  pack_row(p);
}

int flow_show(txn *t, span id, pack *p, fp_error *err) {
  int64_t state = FP_RUN_RUNNING;
  stmt s = stmt_use(&t->d->sql, SQL_RUN_SHOW);
  put_text(&s, "id", id);
  if (stmt_row(&s)) {
    row r = {.id = get_text(&s, "id")};
    r.kind = get_i64(&s, "kind");
    r.message = get_i64(&s, "message");
    r.state = get_i64(&s, "state");
    r.waiting = get_text(&s, "waiting_for");
    r.args = get_bytes(&s, "args");
    r.result = get_bytes(&s, "result");
    r.failure_kind = get_text(&s, "failure_kind");
    r.failure_text = get_text(&s, "failure_text");
    r.created_at = get_i64(&s, "created_at");
    r.ended_at = get_null(&s) ? -1 : get_i64(&s, "ended_at");
    pack_run(p, &r);
    state = r.state;
  }
  int code = stmt_end(&s, err);
  return code == FP_OK ? run_check_state(id, state, err) : code;
}

/* A page under way. */
typedef struct listing {
  txn *t;
  const fp_run_filter *filter;
  pack *p;
  int64_t state, ended_at, rowid; /* the last run looked at; ended_at -1: live ones */
  int32_t looks;
  bool full;
} listing;

static bool contains(span text, span part) {
  for (int64_t i = 0; i + part.bytes <= text.bytes; i++) {
    if (memcmp(text.at + i, part.at, (size_t)part.bytes) == 0) return true;
  }
  return false;
}

static void look_at(listing *g, stmt *s) {
  const fp_run_filter *f = g->filter;
  int64_t rowid = get_i64(s, "rowid");
  row r = {.id = get_text(s, "id"), .args = NO_SPAN, .result = NO_SPAN};
  r.kind = get_i64(s, "kind");
  r.message = get_i64(s, "message");
  r.state = get_i64(s, "state");
  r.waiting = get_text(s, "waiting_for");
  r.failure_kind = get_text(s, "failure_kind");
  r.failure_text = get_text(s, "failure_text");
  r.created_at = get_i64(s, "created_at");
  r.ended_at = get_null(s) ? -1 : get_i64(s, "ended_at");
  g->rowid = rowid;
  g->ended_at = r.ended_at;
  bool wanted = (f->kind == 0 || f->kind == r.kind) &&
                (f->text_bytes == 0 || contains(r.id, (span){f->text, f->text_bytes}));
  if (wanted) pack_run(g->p, &r);
}

/* What one statement finds, until the page is full. */
static int look_along(listing *g, stmt *s, fp_error *err) {
  while (!g->full && stmt_row(s)) {
    look_at(g, s);
    g->full = g->p->count >= g->filter->limit || ++g->looks >= LIST_LOOKS;
  }
  return stmt_end(s, err);
}

static int list_live(listing *g, fp_error *err) {
  stmt s = stmt_use(&g->t->d->sql, SQL_RUNS_LIVE);
  put_i64(&s, "state", g->state);
  put_i64(&s, "rowid", g->rowid);
  return look_along(g, &s, err);
}

/* First the ties of the last one, then what ended earlier: one comparison of both would walk all
** the ties for each page. */
static int list_ended(listing *g, fp_error *err) {
  int64_t ended_at = g->ended_at;
  stmt s = stmt_use(&g->t->d->sql, SQL_RUNS_TIES);
  put_i64(&s, "state", g->state);
  put_i64(&s, "ended_at", ended_at);
  put_i64(&s, "rowid", g->rowid);
  int code = look_along(g, &s, err);
  if (code != FP_OK || g->full) return code;
  s = stmt_use(&g->t->d->sql, SQL_RUNS_BEFORE);
  put_i64(&s, "state", g->state);
  put_i64(&s, "ended_at", ended_at);
  return look_along(g, &s, err);
}

int flow_list(txn *t, const fp_run_filter *f, pack *p, int64_t next[3], bool *more,
              fp_error *err) {
  bool all = f->state == FP_RUN_ANY;
  int64_t last = all ? FP_RUN_CANCELLED : f->state;
  listing g = {.t = t, .filter = f, .p = p, .state = all ? FP_RUN_RUNNING : f->state,
               .ended_at = INT64_MAX, .rowid = INT64_MAX};
  int code = FP_OK;
  if (f->has_after) {
    g.state = f->after[0];
    g.ended_at = f->after[1];
    g.rowid = f->after[2];
  }
  for (; code == FP_OK && g.state <= last; g.state++) {
    code = g.state <= FP_RUN_WAITING ? list_live(&g, err) : list_ended(&g, err);
    if (g.full) break;
    g.ended_at = g.rowid = INT64_MAX;
  }
  *more = g.full;
  next[0] = g.state;
  next[1] = g.ended_at;
  next[2] = g.rowid;
  return code;
}
