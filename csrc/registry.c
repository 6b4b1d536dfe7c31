#include "registry.h"

#include <errno.h>
#include <string.h>

#include "fault.h"
#include "sys.h"

enum { NUMBERS_TRIED_MAX = 100 };

void registry_open(db *d, const fp_options *options) {
  bool open = locks_identify(options->path, &d->file) == 0;
  d->registers = open && !options->network && locks_mode() == LOCKS_OFD;
}

static int put_row(txn *t, int64_t worker, fp_error *err) {
  char host[64];
  sys_host(host);
  const char *boot = t->clock->boot_id;
  stmt s = stmt_use(&t->d->sql, SQL_WORKER_PUT);
  put_i64(&s, "id", worker);
  put_i64(&s, "pid", sys_pid());
  put_i64(&s, "started", t->now_us);
  put_text(&s, "boot_id", (span){boot, (int64_t)strlen(boot)});
  put_text(&s, "name", (span){host, (int64_t)strlen(host)});
  put_i64(&s, "seen_at", t->now_us);
  return stmt_end(&s, err);
}

int registry_enrol(txn *t, int64_t *worker, fp_error *err) {
  db *d = t->d;
  *worker = txn_worker(t);
  if (*worker != 0 || !d->registers) return FP_OK;
  int64_t number = 0;
  int rc = EAGAIN;
  /* A number may come twice when the transaction that drew it was rolled back; for a moment its
  ** byte may still be held. */
  for (int i = 0; rc == EAGAIN && i < NUMBERS_TRIED_MAX; i++) {
    number = txn_draw(t, 1);
    rc = locks_take(&d->file, LOCKS_WORKER + number, false);
  }
  if (rc == ENOMEM) return err_memory(err);
  if (rc != 0) return FP_OK;
  t->worker = *worker = number; /* from here on a rollback drops the byte */
  return put_row(t, number, err);
}

int registry_strike(txn *t, void *unused, fp_error *err) {
  (void)unused;
  return txn_drop(t, SQL_WORKER_DROP, t->d->worker, err);
}

void registry_drop(db *d) {
  if (d->worker != 0) locks_drop(&d->file, LOCKS_WORKER + d->worker);
  d->worker = 0;
}

int registry_read(txn *t, void *argument, fp_error *err) {
  peers *m = argument;
  m->count = 0;
  stmt s = stmt_use(&t->d->sql, SQL_WORKERS);
  put_i64(&s, "id", 0);
  while (stmt_row(&s)) {
    if (m->count == m->room) {
      int64_t room = m->room == 0 ? SMALL(16, 1) : m->room * 2;
      peer *list = mem_resize(m->list, room * (int64_t)sizeof *list);
      if (list == NULL) {
        (void)err_memory(err);
        break;
      }
      m->list = list;
      m->room = room;
    }
    m->list[m->count++] = (peer){.number = get_i64(&s, "id")};
  }
  int code = stmt_end(&s, err);
  return code == FP_OK ? err->code : code;
}

int registry_has(txn *t, int64_t worker, bool *has, fp_error *err) {
  stmt s = stmt_use(&t->d->sql, SQL_WORKER_GET);
  put_i64(&s, "id", worker);
  *has = stmt_row(&s);
  return stmt_end(&s, err);
}

void roster_free(roster *r) {
  mem_free(r->known.list);
  mem_free(r->fresh.list);
  *r = (roster){0};
}
