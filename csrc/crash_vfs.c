/* The VFS of the crash disk: everything goes to the real file, and what is written is told. */
#include "crash.h"

#ifdef FENCEPOST_TEST

#include <pthread.h>
#include <stdlib.h>

#include "fault.h"
#include "fencepost.h"

typedef struct crash_file {
  sqlite3_file base;
  platter *p;
  bool syncs_folder; /* with its next sync */
  /* the real file follows */
} crash_file;

static sqlite3_vfs *real, vfs;
static sqlite3_io_methods methods;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static sqlite3_file *below(sqlite3_file *file) { return (sqlite3_file *)((crash_file *)file + 1); }
static const sqlite3_io_methods *of(sqlite3_file *file) { return below(file)->pMethods; }

static int on_close(sqlite3_file *file) { return of(file)->xClose(below(file)); }

static int on_read(sqlite3_file *file, void *into, int bytes, sqlite3_int64 at) {
  int fault = fault_io(SQLITE_IOERR_READ);
  return fault != SQLITE_OK ? fault : of(file)->xRead(below(file), into, bytes, at);
}

static int on_write(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 at) {
  crash_lock();
  int fault = fault_write();
  if (fault != SQLITE_OK) bytes /= 2; /* a disk that is full took what it could */
  int rc = bytes > 0 ? of(file)->xWrite(below(file), data, bytes, at) : SQLITE_OK;
  if (rc == SQLITE_OK && bytes > 0) crash_held(((crash_file *)file)->p, at, data, bytes);
  crash_unlock();
  return fault != SQLITE_OK ? fault : rc;
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 bytes) {
  int fault = fault_io(SQLITE_IOERR_TRUNCATE);
  if (fault != SQLITE_OK) return fault;
  crash_lock();
  int rc = of(file)->xTruncate(below(file), bytes);
  if (rc == SQLITE_OK) crash_held(((crash_file *)file)->p, bytes, NULL, 0);
  crash_unlock();
  return rc;
}

static int on_sync(sqlite3_file *file, int flags) {
  (void)flags;
  crash_file *f = (crash_file *)file;
  crash_lock();
  int rc = crash_synced(f->p, f->syncs_folder);
  f->syncs_folder = f->syncs_folder && rc != SQLITE_OK;
  crash_unlock();
  return rc;
}

static int on_size(sqlite3_file *file, sqlite3_int64 *bytes) {
  int fault = fault_io(SQLITE_IOERR_FSTAT);
  return fault != SQLITE_OK ? fault : of(file)->xFileSize(below(file), bytes);
}

static int on_lock(sqlite3_file *file, int level) {
  int fault = fault_io(SQLITE_IOERR_LOCK);
  return fault != SQLITE_OK ? fault : of(file)->xLock(below(file), level);
}

static int on_unlock(sqlite3_file *file, int level) {
  return of(file)->xUnlock(below(file), level);
}

static int on_reserved(sqlite3_file *file, int *held_by_one) {
  return of(file)->xCheckReservedLock(below(file), held_by_one);
}

static int on_control(sqlite3_file *file, int op, void *argument) {
  return of(file)->xFileControl(below(file), op, argument);
}

static int on_sector(sqlite3_file *file) { return of(file)->xSectorSize(below(file)); }

static int on_traits(sqlite3_file *file) { return of(file)->xDeviceCharacteristics(below(file)); }

static int on_shm_map(sqlite3_file *file, int page, int bytes, int extend, void volatile **at) {
  int fault = fault_io(SQLITE_IOERR_SHMMAP);
  return fault != SQLITE_OK ? fault : of(file)->xShmMap(below(file), page, bytes, extend, at);
}

static int on_shm_lock(sqlite3_file *file, int first, int count, int flags) {
  int fault = (flags & SQLITE_SHM_LOCK) != 0 ? fault_io(SQLITE_IOERR_SHMLOCK) : SQLITE_OK;
  if (fault != SQLITE_OK) return fault; /* giving one back never fails */
  return of(file)->xShmLock(below(file), first, count, flags);
}

static void on_shm_barrier(sqlite3_file *file) { of(file)->xShmBarrier(below(file)); }

static int on_shm_unmap(sqlite3_file *file, int remove) {
  return of(file)->xShmUnmap(below(file), remove);
}

/* ---- the file system ---- */

/* What is there when a file is first opened has been there for long. */
static int first_image(sqlite3_file *file, platter *p) {
  sqlite3_int64 bytes = 0;
  int rc = of(file)->xFileSize(below(file), &bytes);
  if (rc != SQLITE_OK || bytes == 0) return rc;
  return of(file)->xRead(below(file), crash_image(p, bytes), (int)bytes, 0);
}

static int on_open(sqlite3_vfs *unused, const char *path, sqlite3_file *file, int flags,
                   int *out_flags) {
  const int kept = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;
  const int side = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;
  (void)unused;
  if ((flags & kept) == 0) return real->xOpen(real, path, file, flags, out_flags);
  crash_file *f = (crash_file *)file;
  f->base.pMethods = NULL;
  int fault = fault_io(SQLITE_CANTOPEN);
  if (fault != SQLITE_OK) return fault;
  crash_lock();
  int was_there = 0;
  int rc = real->xAccess(real, path, SQLITE_ACCESS_EXISTS, &was_there);
  if (rc == SQLITE_OK) rc = real->xOpen(real, path, below(file), flags, out_flags);
  if (rc == SQLITE_OK) {
    f->base.pMethods = &methods;
    f->syncs_folder = (flags & SQLITE_OPEN_CREATE) != 0 && (flags & side) != 0;
    f->p = crash_named(path);
  }
  if (rc == SQLITE_OK && f->p == NULL) {
    f->p = crash_add(path, was_there != 0);
    rc = first_image(file, f->p);
  }
  crash_unlock();
  return rc;
}

static int on_access(sqlite3_vfs *unused, const char *path, int flags, int *is_so) {
  (void)unused;
  int fault = fault_io(SQLITE_IOERR_ACCESS);
  return fault != SQLITE_OK ? fault : real->xAccess(real, path, flags, is_so);
}

static int on_delete(sqlite3_vfs *unused, const char *path, int sync) {
  (void)unused;
  int fault = fault_io(SQLITE_IOERR_DELETE);
  if (fault != SQLITE_OK) return fault;
  crash_lock();
  int rc = real->xDelete(real, path, 0);
  if (rc == SQLITE_OK) crash_removed(path);
  if (rc == SQLITE_OK && sync) crash_folder_synced();
  crash_unlock();
  return rc;
}

static void install(void) {
  fault_install();
  real = sqlite3_vfs_find(NULL);
  if (real == NULL) abort();
  vfs = *real; /* the functions left as they are look at nothing that is changed */
  vfs.zName = "crash";
  vfs.szOsFile = real->szOsFile + (int)sizeof(crash_file);
  vfs.xOpen = on_open;
  vfs.xAccess = on_access;
  vfs.xDelete = on_delete;
  methods = (sqlite3_io_methods){
      .iVersion = 2, .xClose = on_close, .xRead = on_read, .xWrite = on_write,
      .xTruncate = on_truncate, .xSync = on_sync, .xFileSize = on_size,
      .xLock = on_lock, .xUnlock = on_unlock, .xCheckReservedLock = on_reserved,
      .xFileControl = on_control, .xSectorSize = on_sector,
      .xDeviceCharacteristics = on_traits, .xShmMap = on_shm_map,
      .xShmLock = on_shm_lock, .xShmBarrier = on_shm_barrier, .xShmUnmap = on_shm_unmap,
  };
  if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK) abort();
}

void fp_crash_install(void) { (void)pthread_once(&once, install); }

#endif
