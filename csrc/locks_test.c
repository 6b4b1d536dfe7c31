/* What only the hostile build exports: the shim's calls as SQLite makes them, its bytes, and how
** much it holds. */
#define _FILE_OFFSET_BITS 64 /* SQLite's struct stat is ours */
#include "fencepost.h"

#ifdef FENCEPOST_TEST

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>

#include "fault.h"
#include "locks_part.h"

static sqlite3_syscall_ptr call_of(const char *name) {
  sqlite3_vfs *vfs = sqlite3_vfs_find("unix");
  return vfs->xGetSystemCall(vfs, name);
}

static int32_t answer(int rc) { return rc < 0 ? -errno : rc; }

int32_t fp_locks_open(const char *path, int32_t writable) {
  fault_install();
  int why = locks_install();
  if (why != 0) return -why;
  int (*open_it)(const char *, int, int) = (int (*)(const char *, int, int))call_of("open");
  int flags = writable ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDONLY | O_CLOEXEC;
  return answer(open_it(path, flags, 0600));
}

int32_t fp_locks_close(int32_t fd) { return answer(((int (*)(int))call_of("close"))(fd)); }

int32_t fp_locks_lock(int32_t fd, int32_t type, int64_t start, int64_t bytes) {
  int (*lock_it)(int, int, ...) = (int (*)(int, int, ...))call_of("fcntl");
  struct flock range = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = start,
                        .l_len = bytes, .l_pid = 77};
  return answer(lock_it(fd, F_SETLK, &range));
}

int32_t fp_locks_byte(const char *path, int64_t offset, int32_t verb) {
  locks_file at;
  int why = locks_identify(path, &at);
  if (why != 0) return -why;
  switch (verb) {
    case FP_LOCKS_SHARE:
    case FP_LOCKS_TAKE: return -locks_take(&at, LOCKS_OURS + offset, verb == FP_LOCKS_SHARE);
    case FP_LOCKS_DROP: locks_drop(&at, LOCKS_OURS + offset); return 0;
    default: return locks_probe(&at, LOCKS_OURS + offset);
  }
}

int32_t fp_locks_strangers(const char *path) { return locks_strangers(path); }

int64_t fp_locks_held(void) {
  locks_enter();
  int64_t held = locks_all.files.count + locks_all.descriptors.count + locks_all.mappings.count +
                 locks_all.bytes.count;
  locks_leave();
  return held;
}

#endif
