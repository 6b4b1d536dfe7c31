#include "wal.h"

#include <stdatomic.h>

#include "writelock.h"

/* SQLite tells of each commit on the connection. */
static int committed(void *argument, sqlite3 *handle, const char *name, int pages) {
  fp_store *store = argument;
  wal_view *w = &store->wal;
  (void)handle;
  (void)name;
  if (pages <= w->pages) { /* it began anew */
    atomic_store(&w->next, CHECKPOINT_PAGES);
    atomic_store(&w->finish, false);
  }
  w->pages = pages;
  return SQLITE_OK;
}

void wal_install(fp_store *store) {
  atomic_store(&store->wal.next, CHECKPOINT_PAGES);
  (void)sqlite3_wal_hook(store->writer.handle, committed, store); /* and no checkpoint of its own */
}

void wal_close(fp_store *store) {
  (void)sqlite3_close_v2(store->copier);
  store->copier = NULL;
}

static int checkpoint(sqlite3 *handle, int mode, int *log, int *copied) {
  int rc = fault_step("CHECKPOINT");
  if (rc == SQLITE_OK) rc = sqlite3_wal_checkpoint_v2(handle, "main", mode, log, copied);
  return rc;
}

static void wait_for_copy(wal_view *w) {
  int64_t until_us = sys_awake_us() + WAL_WAIT_US;
  while (atomic_load(&w->copying) && sys_awake_us() < until_us) sys_sleep(500);
}

/* How long to wait for whoever reads, so that the log can begin anew; 0: it is not time to. */
static int64_t patience_us(wal_view *w) {
  int64_t us = CHECKPOINT_WAIT_US * (int64_t)(w->pages / WAL_LONG_PAGES);
  if (us == 0 && !atomic_load(&w->finish)) return 0;
  if (sys_awake_us() - w->tried_us < w->apart_us) return 0;
  if (us < CHECKPOINT_WAIT_US) us = CHECKPOINT_WAIT_US;
  return us < WAL_WAIT_US ? us : WAL_WAIT_US;
}

/* One try after the other, since each waits for the places that it found taken, though somebody
** newer, who is in nobody's way, may have them by now. The next commit tells whether it did: it is
** the first of the new log then. */
static void begin_anew(fp_store *store, int64_t wait_us) {
  wal_view *w = &store->wal;
  int rc, log, copied = -1;
  int64_t until_us = sys_awake_us() + wait_us;
  do {
    writelock_ask(store, sys_awake_us() + CHECKPOINT_WAIT_US);
    rc = checkpoint(store->writer.handle, SQLITE_CHECKPOINT_RESTART, &log, &copied);
    writelock_asked(store, rc == SQLITE_OK);
  } while ((rc & 0xff) == SQLITE_BUSY && copied >= 0 && sys_awake_us() < until_us);
  bool same_reader = copied == w->reached;
  w->apart_us = same_reader ? 2 * w->apart_us : WAL_APART_TIMES * wait_us;
  if (w->apart_us > WAL_APART_US_MAX) w->apart_us = WAL_APART_US_MAX;
  if (rc == SQLITE_OK || copied < 0) w->apart_us = 0; /* -1: another process is at it */
  w->reached = copied;
  w->tried_us = sys_awake_us();
  atomic_store(&w->finish, false);
}

bool wal_finish(fp_store *store) {
  wal_view *w = &store->wal;
  if (w->pages < CHECKPOINT_PAGES) return false;
  if (w->pages > WAL_LONG_PAGES) wait_for_copy(w);
  int64_t wait_us = patience_us(w);
  if (wait_us == 0) return w->pages >= atomic_load(&w->next);
  begin_anew(store, wait_us);
  return false;
}

/* Bare, since it runs no statement but this one: a connection that has read nothing yet does not
** know that there is a log, and how it syncs is SQLite's own way, which is the safe one. */
static bool open_copier(fp_store *store) {
  static const char first[] = "PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1;"
                              "PRAGMA schema_version";
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  if (store->copier != NULL) return true;
  int rc = sqlite3_open_v2(store->options.path, &store->copier, flags, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_exec(store->copier, first, NULL, NULL, NULL);
  if (rc != SQLITE_OK) wal_close(store);
  return rc == SQLITE_OK;
}

/* What a copy that went as far as it could says about those who read. */
static void remember(fp_store *store, int64_t log, int64_t copied) {
  wal_view *w = &store->wal;
  sys_lock(&store->gate);
  bool same = w->pinned_us > 0 && copied == w->copied;
  if (copied >= log) {
    w->pinned_us = 0;
  } else if (!same) {
    w->pinned_us = sys_awake_us();
  }
  w->log = log;
  w->copied = copied;
  sys_unlock(&store->gate);
}

void wal_copy(fp_store *store) {
  wal_view *w = &store->wal;
  int log = -1, copied = -1;
  if (atomic_exchange(&w->copying, true)) return;
  int rc = open_copier(store) ? SQLITE_OK : SQLITE_ERROR;
  if (rc == SQLITE_OK) {
    rc = checkpoint(store->copier, SQLITE_CHECKPOINT_PASSIVE, &log, &copied);
  }
  if (rc == SQLITE_OK) {
    remember(store, log, copied);
    atomic_store(&w->next, log + CHECKPOINT_PAGES);
    atomic_store(&w->finish, log - copied < CHECKPOINT_PAGES);
  } else { /* another process is at it, or the world fails: later */
    atomic_fetch_add(&w->next, CHECKPOINT_PAGES / 4);
  }
  atomic_store(&w->copying, false);
}

static int64_t file_bytes(sqlite3 *handle) {
  sqlite3_file *file = NULL;
  sqlite3_int64 bytes = 0;
  int rc = sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
  if (rc == SQLITE_OK && file != NULL && file->pMethods != NULL) {
    (void)file->pMethods->xFileSize(file, &bytes);
  }
  return bytes;
}

void wal_look(fp_store *store, int64_t *bytes, int64_t *kept_us) {
  wal_view *w = &store->wal;
  *bytes = 0;
  wal_copy(store);
  if (!atomic_exchange(&w->copying, true)) { /* else it is being copied, and all is well */
    if (store->copier != NULL) *bytes = file_bytes(store->copier);
    atomic_store(&w->copying, false);
  }
  sys_lock(&store->gate);
  bool told = w->pinned_us > 0 && w->log > WAL_LONG_PAGES;
  *kept_us = told ? sys_awake_us() - w->pinned_us : -1;
  sys_unlock(&store->gate);
}
