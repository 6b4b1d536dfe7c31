#include "pass.h"

/* A span that cannot be is damage, and lengthens nothing. */
static int64_t in_range(int64_t span_us) {
  return span_us < 0 ? 0 : span_us > SPAN_US_MAX ? SPAN_US_MAX : span_us;
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

int pass_get(txn *t, span workflow, pass *p, fp_error *err) {
  *p = (pass){0};
  stmt s = stmt_use(&t->d->sql, SQL_PASS_GET);
  put_text(&s, "workflow", workflow);
  if (stmt_row(&s)) {
    p->found = true;
    p->token = get_i64(&s, "token");
    p->held_until = get_i64(&s, "held_until");
    p->alive_until = get_i64(&s, "alive_until");
    p->alive_for = in_range(get_i64(&s, "alive_for"));
  }
  return stmt_end(&s, err);
}

static int put(txn *t, span workflow, const pass *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_PASS_PUT);
  put_text(&s, "workflow", workflow);
  put_i64(&s, "token", p->token);
  put_i64(&s, "held_until", p->held_until);
  put_i64(&s, "alive_until", p->alive_until);
  put_i64(&s, "alive_for", p->alive_for);
  return stmt_end(&s, err);
}

int pass_check(txn *t, span workflow, int64_t token, pass *p, fp_error *err) {
  int code = pass_get(t, workflow, p, err);
  if (code == FP_OK && (!p->found || p->token != token)) {
    code = err_set(err, FP_LOST, "workflow '%.*s': its pass was lost", (int)workflow.bytes,
                   workflow.at);
  }
  return code;
}

int pass_taken(txn *t, span workflow, int64_t token, int64_t until_us, fp_error *err) {
  const pass p = {.token = token, .held_until = until_us, .alive_until = until_us,
                  .alive_for = until_us - t->now_us};
  return put(t, workflow, &p, err);
}

int pass_leased(txn *t, span workflow, int64_t token, int64_t until_us, fp_error *err) {
  pass p;
  int code = pass_get(t, workflow, &p, err);
  if (code != FP_OK || !p.found || p.token != token) return code;
  if (until_us > p.held_until) p.held_until = until_us; /* an own budget may reach further */
  p.alive_until = until_us;
  p.alive_for = until_us - t->now_us;
  return put(t, workflow, &p, err);
}

int pass_alive(txn *t, span workflow, const pass *p, fp_error *err) {
  pass alive = *p;
  alive.alive_until = earlier(t->now_us + p->alive_for, p->held_until);
  return alive.alive_until == p->alive_until ? FP_OK : put(t, workflow, &alive, err);
}

int pass_drop(txn *t, span workflow, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_PASS_DROP);
  put_text(&s, "workflow", workflow);
  return stmt_end(&s, err);
}

int pass_claim(txn *t, void *argument, fp_error *err) {
  passing *g = argument;
  pass p;
  g->token = 0;
  int code = pass_get(t, g->workflow, &p, err);
  if (code != FP_OK || (p.found && p.alive_until > t->now_us)) return code;
  p = (pass){.token = txn_draw(t, 1), .held_until = t->now_us + g->budget_us,
             .alive_for = g->alive_us};
  p.alive_until = earlier(t->now_us + g->alive_us, p.held_until);
  g->token = p.token;
  return put(t, g->workflow, &p, err);
}

/* *g->held: the pass is this token's. */
static int held(txn *t, passing *g, pass *p, fp_error *err) {
  int code = pass_get(t, g->workflow, p, err);
  g->held = code == FP_OK && p->found && p->token == g->token;
  return code;
}

int pass_extend(txn *t, void *argument, fp_error *err) {
  passing *g = argument;
  pass p;
  int code = held(t, g, &p, err);
  if (code != FP_OK || !g->held) return code;
  int64_t until_us = t->now_us + g->budget_us;
  if (until_us > p.held_until) p.held_until = until_us;
  p.alive_until = earlier(t->now_us + g->alive_us, p.held_until);
  p.alive_for = g->alive_us;
  return put(t, g->workflow, &p, err);
}

int pass_renew(txn *t, void *argument, fp_error *err) {
  passing *g = argument;
  pass p;
  int code = held(t, g, &p, err);
  g->held = g->held && p.held_until > t->now_us;
  if (code != FP_OK || !g->held) return code;
  p.alive_until = earlier(t->now_us + g->alive_us, p.held_until);
  p.alive_for = g->alive_us;
  return put(t, g->workflow, &p, err);
}

int pass_release(txn *t, void *argument, fp_error *err) {
  passing *g = argument;
  pass p;
  int code = held(t, g, &p, err);
  if (code != FP_OK || !g->held) return code;
  p.held_until = p.alive_until = t->now_us;
  return put(t, g->workflow, &p, err);
}
