#include "schedule.h"

int schedule_find(txn *t, span name, schedule *out, fp_error *err) {
  *out = (schedule){0};
  stmt s = stmt_use(&t->d->sql, SQL_SCHEDULE_GET);
  put_text(&s, "name", name);
  if (stmt_row(&s)) {
    out->found = true;
    out->last_fired = get_i64(&s, "last_fired");
    out->running = get_i64(&s, "running");
  }
  return stmt_end(&s, err);
}

int schedule_keep(txn *t, const schedule_words *w, const schedule *is, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_SCHEDULE_KEEP);
  put_text(&s, "name", w->name);
  put_i64(&s, "kind", w->kind);
  put_text(&s, "expression", w->expression);
  put_text(&s, "zone", w->zone);
  put_i64(&s, "missed", w->missed);
  put_i64(&s, "last_fired", is->last_fired);
  put_i64(&s, "running", is->running);
  return stmt_end(&s, err);
}
