#define _GNU_SOURCE /* clocks and monotonic conditions under -std=c11 */
#define _FILE_OFFSET_BITS 64 /* SQLite's struct stat is ours */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#include <sys/time.h>
#endif

static _Atomic int64_t generation;
static pthread_once_t watching = PTHREAD_ONCE_INIT;

/* SQLite's own locks, outer ones first, as it takes them: a temporary name (VFS1) needs random
** numbers, and their seed the list of VFSes (MAIN). They are held over the fork: a child has none
** of the other threads, and would wait for ever for one that they held. */
static const int guards[] = {SQLITE_MUTEX_STATIC_VFS1, SQLITE_MUTEX_STATIC_PRNG,
                             SQLITE_MUTEX_STATIC_MAIN, SQLITE_MUTEX_STATIC_LRU,
                             SQLITE_MUTEX_STATIC_PMEM, SQLITE_MUTEX_STATIC_MEM};
enum { GUARDS = sizeof guards / sizeof guards[0] };

static void hold_guards(void) {
  for (int i = 0; i < GUARDS; i++) sqlite3_mutex_enter(sqlite3_mutex_alloc(guards[i]));
}

static void drop_guards(void) {
  for (int i = GUARDS - 1; i >= 0; i--) sqlite3_mutex_leave(sqlite3_mutex_alloc(guards[i]));
}

static void raise_generation(void) {
  atomic_fetch_add(&generation, 1);
  drop_guards();
}

/* SQLite keeps a list of the files a process has open, with the locks that are held on each. A fork
** copies the list, but not the locks: a child that found its file there would take none, and its
** parent, once it is through, would delete the WAL under it. So it is told of another device. */
static int as_here(int rc, struct stat *of) {
  of->st_dev ^= (dev_t)((uint64_t)sys_generation() << 20);
  return rc;
}

static int stat_here(const char *path, struct stat *of) { return as_here(stat(path, of), of); }
static int fstat_here(int fd, struct stat *of) { return as_here(fstat(fd, of), of); }

static void watch(void) {
  sqlite3_vfs *files = sqlite3_vfs_find(NULL);
  (void)pthread_atfork(hold_guards, drop_guards, raise_generation);
  if (files == NULL || files->iVersion < 3) return;
  (void)files->xSetSystemCall(files, "stat", (sqlite3_syscall_ptr)stat_here);
  (void)files->xSetSystemCall(files, "fstat", (sqlite3_syscall_ptr)fstat_here);
}

void sys_watch_forks(void) { (void)pthread_once(&watching, watch); }
int64_t sys_generation(void) { return atomic_load(&generation); }

static int64_t clock_us(clockid_t which) {
  struct timespec now = {0, 0};
  (void)clock_gettime(which, &now);
  return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

int64_t sys_wall_us(void) { return clock_us(CLOCK_REALTIME); }

#ifdef __APPLE__ /* there, MONOTONIC counts the time asleep, and UPTIME_RAW does not */
int64_t sys_boot_us(void) { return clock_us(CLOCK_MONOTONIC); }
int64_t sys_awake_us(void) { return clock_us(CLOCK_UPTIME_RAW); }
#else
int64_t sys_boot_us(void) { return clock_us(CLOCK_BOOTTIME); }
int64_t sys_awake_us(void) { return clock_us(CLOCK_MONOTONIC); }
#endif

int sys_cond_init(sys_cond *c) {
  int rc = pthread_mutex_init(&c->mutex, NULL);
  if (rc != 0) return rc;
#ifdef __APPLE__
  rc = pthread_cond_init(&c->changed, NULL);
#else
  pthread_condattr_t attributes;
  rc = pthread_condattr_init(&attributes);
  if (rc == 0) {
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    rc = pthread_cond_init(&c->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
  }
#endif
  if (rc != 0) (void)pthread_mutex_destroy(&c->mutex);
  return rc;
}

void sys_cond_free(sys_cond *c) {
  (void)pthread_cond_destroy(&c->changed);
  (void)pthread_mutex_destroy(&c->mutex);
}

void sys_lock(sys_cond *c) { (void)pthread_mutex_lock(&c->mutex); }
void sys_unlock(sys_cond *c) { (void)pthread_mutex_unlock(&c->mutex); }
void sys_wake_all(sys_cond *c) { (void)pthread_cond_broadcast(&c->changed); }

void sys_wait(sys_cond *c, int64_t span_us) {
  if (span_us <= 0) return;
  if (span_us > 3600 * SECOND_US) span_us = 3600 * SECOND_US;
#ifdef __APPLE__
  struct timespec left = {span_us / SECOND_US, (span_us % SECOND_US) * 1000};
  (void)pthread_cond_timedwait_relative_np(&c->changed, &c->mutex, &left);
#else
  int64_t end_us = clock_us(CLOCK_MONOTONIC) + span_us;
  struct timespec end = {end_us / SECOND_US, (end_us % SECOND_US) * 1000};
  (void)pthread_cond_timedwait(&c->changed, &c->mutex, &end);
#endif
}

void sys_sleep(int64_t span_us) {
  struct timespec left = {span_us / SECOND_US, (span_us % SECOND_US) * 1000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

void sys_boot_id(char text[64]) {
  text[0] = 0;
#ifdef __APPLE__
  struct timeval booted = {0, 0};
  size_t bytes = sizeof booted;
  int name[2] = {CTL_KERN, KERN_BOOTTIME};
  if (sysctl(name, 2, &booted, &bytes, NULL, 0) == 0) {
    (void)snprintf(text, 64, "%lld", (long long)booted.tv_sec);
  }
#else
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    ssize_t got = read(fd, text, 63);
    text[got > 0 ? got : 0] = 0;
    (void)close(fd);
  }
  text[strcspn(text, "\n")] = 0;
#endif
  if (text[0] == 0) { /* no boot id to be had: the moment of boot, to ten seconds, stands in */
    (void)snprintf(text, 64, "%lld", (long long)((sys_wall_us() - sys_boot_us()) / 10000000));
  }
}

void sys_random(void *into, int bytes) { sqlite3_randomness(bytes, into); }
