#define _GNU_SOURCE /* locks of an open file description */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"
#include "fencepost.h"
#include "locks_part.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int installed = 0; /* errno of the installation */
static int mode = LOCKS_CLASSIC;
#ifdef FENCEPOST_TEST
static int pretended = FP_LOCKS_REAL;
void fp_locks_pretend(int32_t how) { pretended = how; }
#define PRETENDED(how) (pretended == (how))
#else
#define PRETENDED(how) false
#endif

/* A database that got the number of a closed standard stream would be written to by whoever
** prints: the low numbers are taken. */
static void fill_standard_streams(void) {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
  if (fd >= 0) (void)close(fd);
}

static int probe(void) {
#ifdef FENCEPOST_SYSTEM_SQLITE
  return LOCKS_CLASSIC; /* of a copy that others use, too, and with which they have files open */
#else
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
  int fd = open("/dev/null", O_RDWR | O_CLOEXEC), rc = -1;
  errno = 0;
  if (fd >= 0) rc = fcntl(fd, F_OFD_GETLK, &range);
  bool missing = PRETENDED(FP_LOCKS_NO_OFD) || (rc != 0 && errno == EINVAL);
  if (fd >= 0) (void)close(fd);
  return missing ? LOCKS_CLASSIC : LOCKS_OFD;
#endif
}

static void install(void) {
  (void)sqlite3_initialize();
  fill_standard_streams();
  mode = probe();
  installed = locks_watch_forks();
  if (installed == 0 && !PRETENDED(FP_LOCKS_OFF)) installed = locks_hook();
}

int locks_install(void) {
  (void)pthread_once(&once, install);
  return installed;
}

int locks_mode(void) { return mode; }

/* ---- bytes of ours ---- */

int locks_identify(const char *path, locks_file *found) {
  struct stat at;
  if (stat(path, &at) != 0) return errno;
  *found = (locks_file){(uint64_t)at.st_dev, (uint64_t)at.st_ino};
  locks_enter();
  bool open = locks_file_of(at.st_dev, at.st_ino) != NULL;
  locks_leave();
  return open ? 0 : ENOENT;
}

static file *file_of(const locks_file *at) {
  return (file *)table_find(&locks_all.files, at->device, at->inode);
}

static far_byte *byte_of(const file *of, int64_t offset) {
  return (far_byte *)table_find(&locks_all.bytes, (uint64_t)(uintptr_t)of, (uint64_t)offset);
}

/* With the mutex. *fresh is used, and set to NULL, if the byte is not held yet. */
static int take(file *of, int64_t offset, bool shared, far_byte **fresh) {
  far_byte *b = byte_of(of, offset);
  bool enough = b != NULL && (shared || !b->shared);
  if (!enough && locks_range(of->canon, shared ? F_RDLCK : F_WRLCK, offset, 1) != 0) {
    return errno == EACCES ? EAGAIN : errno;
  }
  if (b == NULL) {
    b = *fresh;
    *fresh = NULL;
    *b = (far_byte){.by_place = {.first = (uint64_t)(uintptr_t)of, .second = (uint64_t)offset},
                    .shared = shared};
    table_add(&locks_all.bytes, &b->by_place);
    of->bytes++;
  }
  b->shared = b->shared && shared;
  b->takers++;
  return 0;
}

int locks_take(const locks_file *at, int64_t offset, bool shared) {
  assert(offset >= LOCKS_OURS);
  if (mode != LOCKS_OFD) return ENOTSUP;
  far_byte *fresh = mem_get((int64_t)sizeof *fresh);
  if (fresh == NULL) return ENOMEM;
  locks_enter();
  file *of = file_of(at);
  int rc = of == NULL ? EBADF : take(of, offset, shared, &fresh);
  locks_leave();
  mem_free(fresh);
  return rc;
}

void locks_drop(const locks_file *at, int64_t offset) {
  locks_enter();
  file *of = file_of(at);
  far_byte *b = of == NULL ? NULL : byte_of(of, offset);
  if (b != NULL && --b->takers == 0) {
    (void)locks_range(of->canon, F_UNLCK, offset, 1);
    table_remove(&locks_all.bytes, &b->by_place);
    of->bytes--;
    (void)locks_collect(of);
  } else {
    b = NULL;
  }
  locks_leave();
  mem_free(b);
}

bool locks_held(const locks_file *at, int64_t offset) {
  locks_enter();
  const file *of = file_of(at);
  bool held = of != NULL && byte_of(of, offset) != NULL;
  locks_leave();
  return held;
}

/* Whose lock is in the way of this one? F_UNLCK: nobody's. False: that cannot be told. */
static bool ask(const locks_file *at, struct flock *range) {
  if (mode != LOCKS_OFD) return false;
  range->l_whence = SEEK_SET;
  locks_enter();
  const file *of = file_of(at);
  int rc = of == NULL ? -1 : fcntl(of->canon, F_OFD_GETLK, range);
  locks_leave();
  return rc == 0;
}

int locks_probe(const locks_file *at, int64_t offset) {
  struct flock range = {.l_type = F_WRLCK, .l_start = offset, .l_len = 1};
  return ask(at, &range) ? range.l_type != F_UNLCK : -1;
}

enum { DB_LOCKS = 1 << 30, DB_LOCKS_LEN = 512 }; /* where SQLite locks a database */

int64_t locks_holder(const locks_file *at) {
  const short types[] = {F_RDLCK, F_WRLCK}; /* who keeps us from reading, and who from the rest */
  for (int i = 0; i < COUNT_OF(types); i++) {
    struct flock range = {.l_type = types[i], .l_start = DB_LOCKS, .l_len = DB_LOCKS_LEN};
    bool held = ask(at, &range) && range.l_type != F_UNLCK;
    if (held) return range.l_pid > 0 ? range.l_pid : 0; /* a description's lock names nobody */
  }
  return 0;
}

/* ---- who else ---- */

int locks_strangers(const char *path) {
#ifdef FENCEPOST_SYSTEM_SQLITE
  (void)path; /* others use this copy, and their descriptors are as good as ours */
  return -1;
#else
  struct stat wanted, at;
  if (stat(path, &wanted) != 0) return -1;
  DIR *all = opendir("/proc/self/fd");
  if (all == NULL) return -1;
  int count = 0;
  for (const struct dirent *one = readdir(all); one != NULL; one = readdir(all)) {
    if (one->d_name[0] == '.' || fstatat(dirfd(all), one->d_name, &at, 0) != 0) continue;
    if (at.st_dev != wanted.st_dev || at.st_ino != wanted.st_ino) continue;
    locks_enter();
    if (locks_descriptor_of(atoi(one->d_name)) == NULL) count++;
    locks_leave();
  }
  (void)closedir(all);
  return count;
#endif
}
