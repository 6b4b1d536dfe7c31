#include "db.h"

#include <stdio.h>
#include <string.h>

#include "disk.h"
#include "door.h"
#include "fault.h"
#include "schema.h"
#include "sys.h"

enum { COMMIT_NORMAL_US = 1000 };

/* Runs SQL without parameters; *number: the first column of its first row, if it has one. */
static int run(db *d, const char *sql, const char *what, int64_t *number, fp_error *err) {
  sqlite3_stmt *s = NULL;
  int rc = fault_step(what);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(d->handle, sql, -1, &s, NULL);
  if (rc == SQLITE_OK) {
    rc = sqlite3_step(s);
    if (rc == SQLITE_ROW && number != NULL) *number = sqlite3_column_int64(s, 0);
    while (rc == SQLITE_ROW) rc = sqlite3_step(s);
    if (rc == SQLITE_DONE) rc = SQLITE_OK;
  }
  int code = rc == SQLITE_OK ? FP_OK : err_from_db(err, d->handle, rc, what);
  (void)sqlite3_finalize(s);
  return code;
}

/* Short naps while another process holds the lock, one slice in all. */
static int nap(void *unused, int tries) {
  (void)unused;
  if (tries >= WAIT_SLICE_MS / 2) return 0;
  sys_sleep(tries < 5 ? 200 : 2000);
  return 1;
}

static int is_wal(db *d, bool *wal, fp_error *err) {
  sqlite3_stmt *s = NULL;
  int rc = sqlite3_prepare_v2(d->handle, "PRAGMA journal_mode", -1, &s, NULL);
  if (rc == SQLITE_OK) {
    rc = sqlite3_step(s);
    const char *mode = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    *wal = mode != NULL && strcmp(mode, "wal") == 0;
    if (rc == SQLITE_ROW) rc = SQLITE_OK;
  }
  int code = rc == SQLITE_OK ? FP_OK : err_from_db(err, d->handle, rc, "journal_mode");
  (void)sqlite3_finalize(s);
  return code;
}

static int no_tables(fp_error *err) {
  return err_set(err, FP_INVALID, "there are no tables of Fencepost in this file");
}

/* A new file is made a WAL database; an existing one only if its owner says so, since it stays. */
static int into_wal(db *d, const fp_options *options, fp_error *err) {
  bool wal = false;
  int64_t pages = 0;
  /* In this order: a new file gets its first page and its mode in one stroke, maybe just now, by
  ** another process. Who sees a page sees the mode that came with it. */
  int code = run(d, "PRAGMA page_count", "page_count", &pages, err);
  if (code == FP_OK) code = is_wal(d, &wal, err);
  if (code != FP_OK || wal) return code;
  if (pages == 0 && !options->create) return no_tables(err);
  if (pages > 0 && !options->wal) {
    return err_set(err, FP_INVALID,
                   "this database is not in WAL mode; opening it would change that for good, "
                   "so it has to be asked for: wal=True");
  }
  code = run(d, "PRAGMA journal_mode = WAL", "journal_mode", NULL, err);
  if (code == FP_OK) code = is_wal(d, &wal, err);
  if (code == FP_OK && !wal) {
    code = err_set(err, FP_STORAGE, "the database cannot be put into WAL mode here");
  }
  return code;
}

/* What is to be thrown away is not synced while it is made either. */
static const char *syncing(const fp_options *options) {
  if (options->normal == FP_UNSYNCED) return "PRAGMA synchronous = OFF";
  return options->normal ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL";
}

/* A file that others write, too, is not trusted further than it must be. */
static void harden(db *d) {
  (void)sqlite3_db_config(d->handle, SQLITE_DBCONFIG_ENABLE_QPSG, 1, NULL);
  (void)sqlite3_db_config(d->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  (void)sqlite3_db_config(d->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  (void)sqlite3_busy_handler(d->handle, nap, NULL);
}

static int configure(db *d, const fp_options *options, bool reader, fp_error *err) {
  harden(d);
  int code = FP_OK, rc = given_install(d->handle);
  if (rc != SQLITE_OK) code = err_from_db(err, d->handle, rc, "module");
  if (code == FP_OK && options->normal == FP_UNSYNCED) {
    code = run(d, syncing(options), "pragma", NULL, err);
  }
  if (code == FP_OK && !reader) code = into_wal(d, options, err);
  const char *pragmas[] = {
      syncing(options),
      "PRAGMA fullfsync = 1",
      "PRAGMA checkpoint_fullfsync = 1",
      "PRAGMA cache_size = -65536",
      "PRAGMA wal_autocheckpoint = 1000",
      "PRAGMA journal_size_limit = 16777216",
      options->foreign_keys ? "PRAGMA foreign_keys = 1" : "PRAGMA foreign_keys = 0",
      reader ? "PRAGMA query_only = 1" : "PRAGMA query_only = 0",
  };
  for (int i = 0; code == FP_OK && i < COUNT_OF(pragmas); i++) {
    code = run(d, pragmas[i], "pragma", NULL, err);
  }
  return code;
}

/* SQLite does not name the file, nor what about its folder. */
static void say_where(const fp_options *options, fp_error *err) {
  size_t used = strlen(err->message);
  bool folder = err->sqlite_code == SQLITE_READONLY_DIRECTORY;
  (void)snprintf(err->message + used, sizeof err->message - used, "%s: %s",
                 folder ? " (its folder must be writable for the files beside it)" : "",
                 options->path);
}

/* Nor who has it. `process`: 0, if that is not known. */
static void say_locked(const fp_options *options, int64_t process, fp_error *err) {
  char who[64] = "another program has";
  if (process > 0) (void)snprintf(who, sizeof who, "process %lld has", (long long)process);
  if (process == sys_pid()) (void)snprintf(who, sizeof who, "another SQLite of this process has");
  (void)snprintf(err->message, sizeof err->message, "%s locked the file: %s", who, options->path);
}

static int64_t holder_of(const char *path) {
  locks_file file;
  return locks_identify(path, &file) == 0 ? locks_holder(&file) : 0;
}

int db_open(db *d, const fp_options *options, bool reader, fp_error *err) {
  /* A look costs a commit that is not synced a fifteenth of its time: it is made by the clock. */
  *d = (db){.commit_us = options->normal ? COMMIT_NORMAL_US : 0};
  int code = FP_OK;
  if (!reader) code = disk_check(options, err);
#ifdef FENCEPOST_SYSTEM_SQLITE
  if (code == FP_OK && !reader) code = disk_make_own(options, err);
#endif
  if (code != FP_OK) return code;

  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  if (options->create && !reader) flags |= SQLITE_OPEN_CREATE;
  int rc = sqlite3_open_v2(options->path, &d->handle, flags, NULL);
  d->sql.db = d->handle;
  if (rc != SQLITE_OK) {
    code = err_from_db(err, d->handle, rc, "open");
  } else if (sqlite3_db_readonly(d->handle, "main") == 1) {
    /* Before the first look, which would leave files beside it that its owner cannot write. */
    code = err_set(err, FP_STORAGE, "the file is read-only");
  } else {
    code = configure(d, options, reader, err);
  }
  if (code == FP_STORAGE) say_where(options, err);
  if (code == FP_AGAIN) say_locked(options, holder_of(options->path), err);
  /* Once more, now that the file is certainly there: a race may have put another one. */
  if (code == FP_OK && !reader) code = disk_check(options, err);
  if (code != FP_OK) db_close(d);
  return code;
}

void db_close(db *d) {
  stmts_close(&d->sql);
  (void)sqlite3_close_v2(d->handle);
  *d = (db){0};
}

static int put_meta(db *d, const store_clock *clock, fp_error *err) {
  unsigned char uuid[16];
  sys_random(uuid, (int)sizeof uuid);
  head h = time_first(clock);
  stmt s = stmt_use(&d->sql, SQL_META_PUT);
  put_i64(&s, "version", SCHEMA_VERSION);
  put_bytes(&s, "store_uuid", (span){(const char *)uuid, (int64_t)sizeof uuid});
  put_text(&s, "boot_id", (span){h.boot_id, (int64_t)strlen(h.boot_id)});
  put_i64(&s, "clock_offset", h.offset);
  put_i64(&s, "asleep", h.asleep);
  put_i64(&s, "created_at", h.time);
  return stmt_end(&s, err);
}

static int newer(int64_t version, fp_error *err) {
  return err_set(err, FP_NEWER,
                 "this file has schema version %lld, made by a newer Fencepost; this one knows "
                 "versions up to %d", (long long)version, SCHEMA_VERSION);
}

/* The one thing that every version to come keeps where it is. */
static int read_version(db *d, int64_t *version, fp_error *err) {
  stmt s = stmt_use(&d->sql, SQL_VERSION);
  if (stmt_row(&s)) *version = get_i64(&s, "version");
  return stmt_end(&s, err);
}

/* 0: none of our tables is there. */
static int version_of(db *d, int64_t *version, fp_error *err) {
  int64_t made = 0;
  *version = 0;
  int code = run(d, "SELECT count(*) FROM sqlite_schema WHERE name = 'fencepost_meta'",
                 "sqlite_schema", &made, err);
  if (code == FP_OK && made > 0) code = read_version(d, version, err);
  if (code != FP_OK || made == 0) return code;
  if (*version > SCHEMA_VERSION) return newer(*version, err);
  if (*version < 1) {
    return err_set(err, FP_STORAGE, "fencepost_meta is damaged: it says no schema version");
  }
  return FP_OK;
}

/* `path` as an URI; SQLite takes what is said behind it. */
static bool as_uri(const char *path, const char *said, char *uri, size_t room) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
  size_t used = (size_t)snprintf(uri, room, path[0] == '/' ? "file://" : "file:");
  for (; *path != 0 && used + 4 < room; path++) {
    const char *format = strchr(plain, *path) != NULL ? "%c" : "%%%02X";
    used += (size_t)snprintf(uri + used, room - used, format, (unsigned char)*path);
  }
  if (*path != 0 || used + strlen(said) >= room) return false;
  (void)snprintf(uri + used, room - used, "%s", said);
  return true;
}

int db_open_still(db *d, const char *path, bool alone, fp_error *err) {
  enum { URI_BYTES = 3 * DISK_PATH_BYTES_MAX + 64 };
  char uri[URI_BYTES];
  *d = (db){0};
  if (!as_uri(path, alone ? "?mode=ro&immutable=1" : "?mode=ro", uri, sizeof uri)) {
    return err_set(err, FP_INVALID, "the path is too long");
  }
  int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  int rc = sqlite3_open_v2(uri, &d->handle, flags, NULL);
  d->sql.db = d->handle;
  int code = rc == SQLITE_OK ? FP_OK : err_from_db(err, d->handle, rc, "open");
  if (code == FP_OK) {
    int64_t version;
    harden(d);
    code = version_of(d, &version, err);
    if (code == FP_OK && version == 0) code = no_tables(err);
  }
  if (code != FP_OK && code != FP_AGAIN) {
    size_t used = strlen(err->message);
    (void)snprintf(err->message + used, sizeof err->message - used, ": %s", path);
  }
  if (code != FP_OK) db_close(d);
  return code;
}

int db_migrate(db *d, const fp_options *options, const store_clock *clock, fp_error *err) {
  static const char *const v1[] = {SCHEMA_V1, SCHEMA_DOOR};
  int64_t version;
  int code = version_of(d, &version, err);
  if (code != FP_OK || version == SCHEMA_VERSION) return code;
  if (version == 0 && !options->create) return no_tables(err);

  code = run(d, "BEGIN IMMEDIATE", "begin", NULL, err);
  if (code == FP_AGAIN) say_locked(options, 0, err);
  if (code != FP_OK) return code;
  code = version_of(d, &version, err); /* another process may have been first */
  if (code == FP_OK && version < 1) {
    for (int i = 0; code == FP_OK && i < COUNT_OF(v1); i++) {
      code = run(d, v1[i], "schema", NULL, err);
    }
    if (code == FP_OK) code = put_meta(d, clock, err);
  }
  if (code == FP_OK) code = run(d, "COMMIT", "commit", NULL, err);
  if (!sqlite3_get_autocommit(d->handle)) {
    (void)sqlite3_exec(d->handle, "ROLLBACK", NULL, NULL, NULL);
  }
  return code;
}

/* Numbers that were never written: they would lead to tokens and moments that are none. */
static bool is_damaged(const head *h) {
  return h->last < 0 || h->last > COUNTER_MAX / 2 || h->time < 0 || h->time > MOMENT_US_MAX ||
         h->offset < -MOMENT_US_MAX || h->offset > MOMENT_US_MAX || h->asleep < -MOMENT_US_MAX ||
         h->asleep > MOMENT_US_MAX || h->longest_lease < 0 || h->longest_lease > SPAN_US_MAX;
}

static int read_head(db *d, head *h, fp_error *err) {
  *h = (head){0};
  int64_t version = SCHEMA_VERSION;
  bool found = false;
  stmt s = stmt_use(&d->sql, SQL_HEAD);
  if (stmt_row(&s)) {
    found = true;
    h->last = get_i64(&s, "last");
    h->time = get_i64(&s, "time");
    version = get_i64(&s, "version");
    span boot = get_text(&s, "boot_id");
    bool fits = boot.at != NULL && boot.bytes < (int64_t)sizeof h->boot_id;
    if (fits) memcpy(h->boot_id, boot.at, (size_t)boot.bytes);
    h->offset = get_i64(&s, "clock_offset");
    h->asleep = get_i64(&s, "asleep");
    h->grace_until = get_i64(&s, "grace_until");
    h->longest_lease = get_i64(&s, "longest_lease");
  }
  int code = stmt_end(&s, err);
  if ((err->sqlite_code & 0xff) == SQLITE_ERROR) { /* a newer one may have other columns there */
    fp_error unused = {0};
    if (read_version(d, &version, &unused) == FP_OK && version > SCHEMA_VERSION) err_clear(err);
  }
  if (version > SCHEMA_VERSION) return newer(version, err);
  if (is_damaged(h)) {
    return err_set(err, FP_STORAGE, "fencepost_meta or fencepost_tally is damaged: its numbers "
                                    "cannot be the counter and the clock of this file");
  }
  if (code != FP_OK) return code;
  if (!found) return err_set(err, FP_STORAGE, "fencepost_meta or fencepost_tally lost its row");
  return FP_OK;
}

static unsigned data_version(db *d) {
  unsigned version = 0;
  (void)sqlite3_file_control(d->handle, "main", SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

int db_refresh(db *d, fp_error *err) {
  unsigned version = data_version(d);
  if (d->fresh && version == d->version) return FP_OK;
  db_forget(d);
  int code = read_head(d, &d->head, err);
  if (code != FP_OK) return code;
  d->version = data_version(d);
  d->fresh = true;
  return FP_OK;
}

void db_committed(db *d) { d->version = data_version(d); }

void db_forget(db *d) {
  d->fresh = false;
  for (int i = 0; i < POLICY_SLOTS; i++) d->policies[i].queue = 0;
}

const char *const policy_column[FP_POLICY_FIELDS] = {
    "keep", "key_window", "addressed", "listed", "max_attempts", "max_age", "lease", "base",
    "factor", "cap", "jitter", "lane_width", "on_dead", "on_unknown", "max_size", "concurrency",
    "rate", "held_until", "paused", "profile"};

const policy_limit policy_limits[FP_POLICY_FIELDS] = {
    {0, SPAN_US_MAX}, {0, SPAN_US_MAX}, {0, 1}, {0, 1}, {0, ATTEMPTS_MAX}, {0, SPAN_US_MAX},
    {1, SPAN_US_MAX}, {0, SPAN_US_MAX}, {1000, 1000000}, {0, SPAN_US_MAX}, {0, 1000}, {1, 1000000},
    {0, 1}, {0, 1}, {0, INT64_C(1) << 40}, {0, INT32_MAX}, {0, INT64_C(1000000000)},
    {0, MOMENT_US_MAX}, {0, 1}, {0, FP_PROFILE_WAKEUP}};

/* Damage in one queue's row must not lead beyond that queue: the longest lease is everybody's. */
static int64_t within(const policy_limit *limit, int64_t value) {
  return value < limit->low ? limit->low : value > limit->high ? limit->high : value;
}

int db_policy(db *d, int64_t queue, const policy **out, fp_error *err) {
  policy *slot = &d->policies[queue & (POLICY_SLOTS - 1)];
  *out = slot;
  if (slot->queue == queue && queue != 0) return FP_OK;

  bool found = false;
  slot->queue = 0;
  stmt s = stmt_use(&d->sql, SQL_POLICY);
  put_i64(&s, "id", queue);
  if (stmt_row(&s)) {
    found = true;
    for (int i = 0; i < FP_POLICY_FIELDS; i++) {
      slot->field[i] = within(&policy_limits[i], get_i64(&s, policy_column[i]));
    }
  }
  int code = stmt_end(&s, err);
  if (code != FP_OK) return code;
  if (!found) return err_set(err, FP_INVALID, "there is no queue of number %lld", (long long)queue);
  slot->queue = queue;
  return FP_OK;
}
