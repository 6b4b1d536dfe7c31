#define _GNU_SOURCE /* locks of an open file description */
#define _FILE_OFFSET_BITS 64 /* SQLite's struct stat is ours */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"
#include "locks_part.h"
#include "sys.h"

/* Bytes of a -shm file, as SQLite's file format fixes them. */
enum {
  CHECKPOINTER = 121,
  READERS = 124,    /* all but the first: who takes them at once restarts the WAL */
  READERS_COUNT = 4
};

/* ---- open, close ---- */

static bool ends_with(const char *text, const char *end) {
  size_t bytes = strlen(text), wanted = strlen(end);
  return bytes >= wanted && strcmp(text + bytes - wanted, end) == 0;
}

/* Logs, journals (those of several databases at once, too) and temporary files: SQLite takes no
** lock on them, so that they may be closed at any time. */
static bool is_never_locked(const char *path, int flags) {
  enum { SUPER_JOURNAL_BYTES = 12 };
  if ((flags & O_EXCL) != 0 || ends_with(path, "-wal") || ends_with(path, "-journal")) return true;
  const char *end = strrchr(path, '-');
  return end != NULL && strlen(end) == SUPER_JOURNAL_BYTES && strncmp(end, "-mj", 3) == 0;
}

/* For writing, if that may be: a lock that excludes needs a writable descriptor, and the first one
** of a file takes the locks of all. */
static int open_for_locks(const char *path, int flags, int mode, bool regular, bool *writable) {
  int fd = -1;
  *writable = true;
  if ((flags & O_ACCMODE) == O_RDONLY && regular) {
    fd = open(path, (flags & ~O_ACCMODE) | O_RDWR, mode);
  }
  if (fd >= 0) return fd;
  *writable = (flags & O_ACCMODE) != O_RDONLY;
  return open(path, flags, mode);
}

/* A writable descriptor can take the locks over from one that is not, unless that holds some: then
** it is kept for later. The answer is the descriptor's number, or -1 with errno. */
static int made_fit(descriptor *d) {
  file *of = d->of;
  if (d->writable && !of->writable) {
    if (of->live > 1 || of->bytes > 0) {
      locks_park(d);
      errno = EACCES;
      return -1;
    }
    of->canon = (int)d->by_number.first;
    of->writable = true;
  }
  return (int)d->by_number.first;
}

/* With the mutex. What is used of *d and *fresh is set to NULL. */
static int open_locked(const char *path, int flags, int mode, descriptor **d, file **fresh) {
  struct stat at;
  int follow = (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  bool writable = (flags & O_ACCMODE) != O_RDONLY;
  bool regular = fstatat(AT_FDCWD, path, &at, follow) == 0 && S_ISREG(at.st_mode);
  file *of = regular ? locks_file_of(at.st_dev, at.st_ino) : NULL;
  descriptor *parked = of == NULL ? NULL : locks_reuse(of, writable);
  if (parked != NULL) return made_fit(parked);

  int fd = open_for_locks(path, flags, mode, regular, &writable);
  if (fd < 0) return fd;
  bool known = fstat(fd, &at) == 0 && S_ISREG(at.st_mode);
  of = known ? locks_file_of(at.st_dev, at.st_ino) : NULL;
  if (known && of == NULL) {
    locks_sweep();
    of = *fresh;
    *fresh = NULL;
    *of = (file){.by_identity = {.first = at.st_dev, .second = at.st_ino}, .canon = -1};
    table_add(&locks_all.files, &of->by_identity);
  }
  locks_add(*d, fd, writable, of);
  if (of != NULL) fd = made_fit(*d);
  *d = NULL;
  return fd;
}

static int open_loose(const char *path, int flags, int mode, descriptor **d) {
  int fd = open(path, flags, mode);
  if (fd < 0) return fd;
  locks_add(*d, fd, (flags & O_ACCMODE) != O_RDONLY, NULL);
  *d = NULL;
  return fd;
}

/* What cannot be opened for writing, SQLite opens for reading: a database would seem read-only for
** want of a few bytes. So the open after one that failed for memory fails, too. */
static bool is_starved(int flags, bool fails) {
  static _Thread_local bool starved;
  bool goes_on = starved && (flags & O_ACCMODE) == O_RDONLY;
  starved = fails && (flags & O_ACCMODE) != O_RDONLY;
  return fails || goes_on;
}

/* Everything that could fail comes first: a descriptor that has been opened cannot be given back
** without harm. */
static int open_here(const char *path, int flags, int mode) {
  bool locked = locks_mode() == LOCKS_OFD && !is_never_locked(path, flags);
  descriptor *d = mem_get((int64_t)sizeof *d);
  file *fresh = locked ? mem_get((int64_t)sizeof *fresh) : NULL;
  int fd = -1;
  if (is_starved(flags, d == NULL || (locked && fresh == NULL))) {
    errno = ENOMEM;
  } else {
    locks_enter();
    fd = locked ? open_locked(path, flags, mode, &d, &fresh) : open_loose(path, flags, mode, &d);
    locks_leave();
  }
  int why = errno;
  mem_free(d);
  mem_free(fresh);
  errno = why;
  return fd;
}

static int close_here(int fd) {
  int rc = 0;
  locks_enter();
  descriptor *d = locks_descriptor_of(fd);
  if (d != NULL && d->of != NULL) {
    locks_park(d);
  } else {
    if (d != NULL) table_remove(&locks_all.descriptors, &d->by_number);
    mem_free(d);
    rc = close(fd);
  }
  locks_leave();
  return rc;
}

/* ---- fcntl ---- */

/* A database whose name says that it is a log, say: it is locked all the same. NULL: errno. */
static file *adopt(int fd, descriptor *d) {
  struct stat at;
  int flags = fcntl(fd, F_GETFL);
  bool regular = flags >= 0 && fstat(fd, &at) == 0 && S_ISREG(at.st_mode);
  if (d == NULL || !regular) {
    errno = EBADF;
    return NULL;
  }
  file *of = locks_file_of(at.st_dev, at.st_ino);
  if (of == NULL) {
    of = mem_get((int64_t)sizeof *of);
    if (of == NULL) {
      errno = ENOLCK;
      return NULL;
    }
    *of = (file){.by_identity = {.first = at.st_dev, .second = at.st_ino}, .canon = -1};
    table_add(&locks_all.files, &of->by_identity);
  }
  table_remove(&locks_all.descriptors, &d->by_number);
  locks_add(d, fd, d->writable, of);
  return of;
}

static bool covers(const struct flock *range, off_t byte) {
  return range->l_start <= byte && byte < range->l_start + range->l_len;
}

static bool restarts(const struct flock *range) {
  return range->l_start == READERS && range->l_len == READERS_COUNT;
}

static int busy(void) {
  errno = EAGAIN;
  return -1;
}

/* The checkpointer's byte belongs to one at a time also among our own threads, whose locks the
** kernel does not tell apart. */
static int lock_checkpointer(file *of, int command, struct flock *range) {
  if (range->l_type != F_UNLCK && of->guarded) return busy();
  int rc = fcntl(of->canon, command, range);
  if (rc != 0) return rc;
  of->checkpointing = range->l_type == F_WRLCK;
  of->checkpointer = pthread_self();
  return rc;
}

/* "Busy" keeps SQLite from restarting the WAL this time, and costs nothing else. */
static int lock_restart(file *of, int command, struct flock *range) {
  if (range->l_type == F_UNLCK) {
    int rc = fcntl(of->canon, command, range);
    if (of->guarded) (void)locks_range(of->canon, F_UNLCK, CHECKPOINTER, 1);
    of->guarded = false;
    return rc;
  }
  bool own = of->checkpointing && pthread_equal(of->checkpointer, pthread_self());
  if (of->checkpointing && !own) return busy();
  if (!own && locks_range(of->canon, F_WRLCK, CHECKPOINTER, 1) != 0) return busy();
  int rc = fcntl(of->canon, command, range);
  if (rc == 0) {
    of->guarded = !own;
  } else if (!own) {
    int why = errno;
    (void)locks_range(of->canon, F_UNLCK, CHECKPOINTER, 1);
    errno = why;
  }
  return rc;
}

static int lock_here(int fd, int command, struct flock *asked) {
  int ofd = command == F_GETLK ? F_OFD_GETLK : command == F_SETLK ? F_OFD_SETLK : F_OFD_SETLKW;
  struct flock range = *asked;
  range.l_pid = 0; /* the kernel insists, and SQLite leaves what was there */
  if (range.l_len == 0) range.l_len = LOCKS_OURS - range.l_start; /* "to the end" */
  locks_enter();
  descriptor *d = locks_descriptor_of(fd);
  file *of = d != NULL && d->of != NULL ? d->of : adopt(fd, d);
  if (of == NULL) { /* of a parent, maybe: it holds nothing here, and gets nothing */
    locks_leave();
    return command != F_GETLK && range.l_type == F_UNLCK ? 0 : -1;
  }
  int canon = of->canon, rc;
  if (command != F_GETLK && (covers(&range, CHECKPOINTER) || restarts(&range))) {
    rc = covers(&range, CHECKPOINTER) ? lock_checkpointer(of, ofd, &range)
                                      : lock_restart(of, ofd, &range);
    locks_leave();
  } else {
    locks_leave(); /* the canonical descriptor stays as long as this one, which is live */
    rc = fcntl(canon, ofd, &range);
  }
  if (rc == 0 && command == F_GETLK) *asked = range;
  return rc;
}

static int fcntl_here(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  bool is_lock = command == F_SETLK || command == F_SETLKW || command == F_GETLK;
  if (is_lock && locks_mode() == LOCKS_OFD) return lock_here(fd, command, argument);
  return fcntl(fd, command, argument);
}

/* ---- stat, mmap ---- */

/* SQLite keeps a list of the files it has open, with the locks that it holds on each. A fork copies
** the list, but not the locks: so in each generation a file lies on a device of another name. */
static int as_here(int rc, struct stat *at) {
  at->st_dev ^= (dev_t)((uint64_t)sys_generation() << 20);
  return rc;
}

static int stat_here(const char *path, struct stat *at) { return as_here(stat(path, at), at); }
static int fstat_here(int fd, struct stat *at) { return as_here(fstat(fd, at), at); }

static void *mmap_here(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  mapping *m = mem_get((int64_t)sizeof *m);
  if (m == NULL) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  locks_enter();
  void *memory = mmap(at, bytes, protection, flags, fd, offset);
  if (memory != MAP_FAILED) {
    *m = (mapping){.by_address = {.first = (uint64_t)(uintptr_t)memory}, .bytes = bytes};
    table_add(&locks_all.mappings, &m->by_address);
    m = NULL;
  }
  locks_leave();
  mem_free(m);
  return memory;
}

static int munmap_here(void *memory, size_t bytes) {
  locks_enter();
  entry *m = table_find(&locks_all.mappings, (uint64_t)(uintptr_t)memory, 0);
  if (m != NULL) table_remove(&locks_all.mappings, m);
  int rc = munmap(memory, bytes);
  locks_leave();
  mem_free(m);
  return rc;
}

/* ---- installing ---- */

int locks_hook(void) {
  static const struct {
    const char *name;
    sqlite3_syscall_ptr here;
    bool ours; /* of a copy that is nobody else's */
  } calls[] = {
      {"stat", (sqlite3_syscall_ptr)stat_here, false},
      {"fstat", (sqlite3_syscall_ptr)fstat_here, false},
      {"open", (sqlite3_syscall_ptr)open_here, true},
      {"close", (sqlite3_syscall_ptr)close_here, true},
      {"fcntl", (sqlite3_syscall_ptr)fcntl_here, true},
      {"mmap", (sqlite3_syscall_ptr)mmap_here, true},
      {"munmap", (sqlite3_syscall_ptr)munmap_here, true},
  };
  sqlite3_vfs *vfs = sqlite3_vfs_find("unix"); /* the real one, whatever lies over it */
  if (vfs == NULL || vfs->iVersion < 3) return ENOTSUP;
  int rc = SQLITE_OK;
  for (int i = 0; rc == SQLITE_OK && i < COUNT_OF(calls); i++) {
#ifdef FENCEPOST_SYSTEM_SQLITE
    if (calls[i].ours) continue;
#endif
    rc = vfs->xSetSystemCall(vfs, calls[i].name, calls[i].here);
  }
  return rc == SQLITE_OK ? 0 : ENOTSUP;
}
