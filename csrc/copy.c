#include "copy.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk.h"
#include "fault.h"

#define RESTORED (INT64_C(1) << 40) /* by so many the counter is raised */

typedef char path_text[DISK_PATH_BYTES_MAX + 16];

static const char *const side[] = {"-wal", "-shm", "-journal"};

static bool is_there(const char *path, const char *suffix, path_text name) {
  struct stat at;
  (void)snprintf(name, sizeof(path_text), "%s%s", path, suffix);
  return lstat(name, &at) == 0;
}

bool copy_is_alone(const char *path) {
  path_text name;
  return !is_there(path, "-wal", name);
}

static bool is_same_file(const char *a, const char *b) {
  struct stat one, other;
  return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

/* May a copy take this name? */
static int check_name_is_free(const char *path, const char *from, bool over, fp_error *err) {
  path_text name;
  if (path[0] == 0) return err_set(err, FP_INVALID, "the path is empty");
  if (strlen(path) > DISK_PATH_BYTES_MAX) return err_set(err, FP_INVALID, "the path is too long");
  if (is_same_file(path, from)) return err_set(err, FP_INVALID, "%s is the file itself", path);
  if (!over && is_there(path, "", name)) {
    return err_set(err, FP_INVALID, "%s is there already, and is not replaced", path);
  }
  for (int i = 0; i < COUNT_OF(side); i++) {
    if (is_there(path, side[i], name)) {
      return err_set(err, FP_INVALID, "%s belongs to a file that was there, or is in use: SQLite "
                                      "would take it for the copy's own; see to it first", name);
    }
  }
  return FP_OK;
}

static int run(db *d, const char *sql, fp_error *err) {
  int rc = fault_step("COPY");
  if (rc == SQLITE_OK) rc = sqlite3_exec(d->handle, sql, NULL, NULL, NULL);
  return rc == SQLITE_OK ? FP_OK : err_from_db(err, d->handle, rc, "copy");
}

/* Its journal and its syncs would be for nothing: until it is whole, it is nobody's. */
static int open_made(db *to, const char *made, fp_error *err) {
  *to = (db){0};
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  int rc = sqlite3_open_v2(made, &to->handle, flags, NULL);
  to->sql.db = to->handle;
  if (rc != SQLITE_OK) return err_from_db(err, to->handle, rc, "open");
  return run(to, "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF", err);
}

static int copy_pages(db *from, db *to, fp_error *err) {
  int rc = fault_step("COPY");
  if (rc != SQLITE_OK) return err_from_db(err, to->handle, rc, "backup");
  sqlite3_backup *b = sqlite3_backup_init(to->handle, "main", from->handle, "main");
  if (b != NULL) {
    (void)sqlite3_backup_step(b, -1);
    rc = sqlite3_backup_finish(b);
  } else {
    rc = sqlite3_errcode(to->handle);
  }
  return rc == SQLITE_OK ? FP_OK : err_from_db(err, to->handle, rc, "backup");
}

static int check_pages(db *d, fp_error *err) {
  sqlite3_stmt *s = NULL;
  int code = FP_OK, rc = sqlite3_prepare_v2(d->handle, "PRAGMA quick_check(1)", -1, &s, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  const char *said = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
  if (rc != SQLITE_ROW) {
    code = err_from_db(err, d->handle, rc, "quick_check");
  } else if (said == NULL) {
    code = err_memory(err);
  } else if (strcmp(said, "ok") != 0) {
    code = err_set(err, FP_STORAGE, "the backup is damaged: %s", said);
  }
  (void)sqlite3_finalize(s);
  return code;
}

/* What was given out before, or after the backup was made, is behind the counter now. */
static int fence(db *d, fp_error *err) {
  stmt s = stmt_use(&d->sql, SQL_BEGIN);
  int code = stmt_end(&s, err);
  if (code == FP_OK) code = db_refresh(d, err);
  if (code == FP_OK && d->head.last > COUNTER_MAX / 2 - RESTORED) {
    code = err_set(err, FP_STORAGE, "the counter of this file is used up");
  }
  if (code != FP_OK) return code;
  d->head.last += RESTORED;
  s = stmt_use(&d->sql, SQL_RESTORED_LEASES);
  put_i64(&s, "token", d->head.last);
  code = stmt_end(&s, err);
  if (code != FP_OK) return code;
  s = stmt_use(&d->sql, SQL_RESTORED_PASSES);
  put_i64(&s, "token", d->head.last);
  code = stmt_end(&s, err);
  if (code != FP_OK) return code;
  s = stmt_use(&d->sql, SQL_HEAD_KEEP);
  put_i64(&s, "last", d->head.last);
  put_i64(&s, "time", d->head.time);
  code = stmt_end(&s, err);
  if (code != FP_OK) return code;
  s = stmt_use(&d->sql, SQL_COMMIT);
  code = stmt_end(&s, err);
  if (code != FP_OK) return code;
  int rc = fault_step("COPY"); /* all of it is in the file itself, which alone gets the name */
  if (rc == SQLITE_OK) {
    rc = sqlite3_wal_checkpoint_v2(d->handle, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
  }
  return rc == SQLITE_OK ? FP_OK : err_from_db(err, d->handle, rc, "checkpoint");
}

/* What stands beside it once it is closed: where SQLite could not remove it, it is for nothing. */
static void clear_sides(const char *made) {
  path_text name;
  for (int i = 0; i < COUNT_OF(side); i++) {
    if (is_there(made, side[i], name)) (void)unlink(name);
  }
}

/* `from` is open; it is closed here. */
static int copy(db *from, const char *path, bool over, bool back, fp_error *err) {
  char made[DISK_PATH_BYTES_MAX + 1];
  db to = {0};
  int code = disk_make(path, made, err);
  bool there = code == FP_OK;
  if (there) code = open_made(&to, made, err);
  if (code == FP_OK) code = copy_pages(from, &to, err);
  if (code == FP_OK && back) code = check_pages(&to, err);
  if (code == FP_OK && back) code = fence(&to, err);
  db_close(&to);
  db_close(from);
  if (there) clear_sides(made);
  if (code == FP_OK) code = disk_sync(made, err);
  if (code == FP_OK) code = disk_publish(made, path, over, err);
  if (code != FP_OK && there) (void)unlink(made);
  return code;
}

int copy_backup(const fp_options *options, const char *path, bool over, fp_error *err) {
  db from;
  int code = check_name_is_free(path, options->path, over, err);
  if (code == FP_OK) code = db_open(&from, options, true, err);
  return code == FP_OK ? copy(&from, path, over, false, err) : code;
}

int copy_restore(const char *backup, const char *path, fp_error *err) {
  db from;
  int code = check_name_is_free(path, backup, false, err);
  if (code == FP_OK) code = db_open_still(&from, backup, copy_is_alone(backup), err);
  return code == FP_OK ? copy(&from, path, false, true, err) : code;
}
