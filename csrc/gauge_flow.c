/* The check of workflows: each run is where its state says, and its numbers were given out. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gauge_part.h"

void gauge_say(pack *p, const char *format, ...) {
  char words[1400]; /* a key of its greatest length, and the sentence around it */
  if (p->count > GAUGE_FINDINGS_MAX) return;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(words, sizeof words, format, arguments);
  va_end(arguments);
  if (p->count == GAUGE_FINDINGS_MAX) {
    (void)snprintf(words, sizeof words, "There is more than these %d findings.",
                   GAUGE_FINDINGS_MAX);
  }
  pack_part(p, (span){words, (int64_t)strlen(words)});
  pack_row(p);
}

/* Of a live run the wake-up is in line, under its id; of one that is done or cancelled it is not.
** What has failed or is parked may have been replayed, or its dead letter purged. */
static void check_run(pack *p, stmt *s) {
  span id = get_text(s, "id");
  int64_t message = get_i64(s, "message"), state = get_i64(s, "state");
  bool ended = !get_null(s);
  (void)get_i64(s, "ended_at");
  span key = get_text(s, "key");
  bool its_own = key.at != NULL && key.bytes == id.bytes &&
                 memcmp(key.at, id.at, (size_t)id.bytes) == 0;
  bool out = !get_null(s);
  (void)get_i64(s, "outcome");
  bool live = state <= FP_RUN_WAITING;
  if (state < FP_RUN_RUNNING || state > FP_RUN_CANCELLED || live == ended) {
    gauge_say(p, "Run '%.*s' has a state that it cannot have.", (int)id.bytes, id.at);
  }
  if (live && (!its_own || out)) {
    gauge_say(p, "Run '%.*s' is live, but its wake-up %lld is not in line.", (int)id.bytes, id.at,
              (long long)message);
  }
  if (state >= FP_RUN_DONE && its_own && !out) {
    gauge_say(p, "Run '%.*s' has ended, but its wake-up %lld is in line.", (int)id.bytes, id.at,
              (long long)message);
  }
}

static int check_runs(txn *t, pack *p, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_CHECK_RUN);
  put_i64(&s, "rowid", INT64_MIN);
  while (stmt_row(&s)) check_run(p, &s);
  return stmt_end(&s, err);
}

/* The greatest number in one of the tables. */
static int raise_to(txn *t, int id_statement, const char *column, int64_t *highest,
                    fp_error *err) {
  stmt s = stmt_use(&t->d->sql, id_statement);
  put_text(&s, "workflow", (span){"", 0});
  if (stmt_row(&s)) {
    int64_t number = get_i64(&s, column);
    if (number > *highest) *highest = number;
  }
  return stmt_end(&s, err);
}

int gauge_check_flow(txn *t, pack *p, int64_t *highest, fp_error *err) {
  *highest = 0;
  int code = check_runs(t, p, err);
  if (code == FP_OK) code = raise_to(t, SQL_CHECK_PASS, "token", highest, err);
  return code == FP_OK ? raise_to(t, SQL_CHECK_RECORD, "seq", highest, err) : code;
}
