#define _GNU_SOURCE /* lstat under -std=c11 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "db.h"
#include "disk.h"
#include "sys.h"

enum { BESIDE_US = 100000 }; /* how often the files beside it are looked at */

/* A look that is refused tells nothing; only a path that leads nowhere, or elsewhere, does. */
static bool leads_to(const char *path, const db_mark *to) {
  struct stat at;
  if (stat(path, &at) != 0) return errno != ENOENT && errno != ENOTDIR;
  return (uint64_t)at.st_dev == to->device && (uint64_t)at.st_ino == to->inode;
}

static db_mark mark_of(const char *path) {
  struct stat at;
  db_mark m = {0, 0};
  if (stat(path, &at) == 0) m = (db_mark){(uint64_t)at.st_dev, (uint64_t)at.st_ino};
  return m;
}

/* SQLite compares inodes, but takes a look that is refused for a file that is gone, and looks
** through a link that was left in its place: whoever opens that has another log. There was none
** when it was opened, as SQLite's path is a resolved one. */
static bool has_moved(const db *d, const char *path) {
  struct stat at;
  int moved = 0;
  if (lstat(path, &at) == 0 && S_ISLNK(at.st_mode)) return true;
  (void)sqlite3_file_control(d->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  return moved && (stat(path, &at) == 0 || errno == ENOENT || errno == ENOTDIR);
}

/* SQLite opened them at its first look, and has them open until the connection is closed. Nobody
** who keeps to its rules deletes them before. */
static bool has_lost_its_log(db *d, const char *path) {
  char shm[DISK_PATH_BYTES_MAX + 8];
  const char *wal = sqlite3_filename_wal(path);
  size_t bytes = strlen(path);
  if (bytes > DISK_PATH_BYTES_MAX) return false;
  memcpy(shm, path, bytes);
  memcpy(shm + bytes, "-shm", sizeof "-shm");
  if (d->beside_us == 0) {
    d->wal = mark_of(wal);
    d->shm = mark_of(shm);
  }
  return !leads_to(wal, &d->wal) || !leads_to(shm, &d->shm);
}

int db_check_place(db *d, int64_t age_us, fp_error *err) {
  int64_t now_us = sys_awake_us();
  if (!d->astray && now_us - d->placed_us < age_us) return FP_OK;
  const char *path = sqlite3_db_filename(d->handle, "main");
  if (!d->astray) d->astray = has_moved(d, path);
  if (!d->astray && now_us - d->beside_us >= BESIDE_US) {
    d->astray = has_lost_its_log(d, path);
    d->beside_us = now_us;
  }
  d->placed_us = now_us;
  if (!d->astray) return FP_OK;
  return err_set(err, FP_STORAGE, "the file, or its -wal or -shm, was replaced, renamed or deleted "
                                  "while it was open, and what is written now would be lost: close "
                                  "the store, and see to the file before it is opened again: %s",
                 path);
}
