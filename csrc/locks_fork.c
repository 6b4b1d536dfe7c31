#define _GNU_SOURCE /* dup3, O_PATH */
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault.h"
#include "locks_part.h"
#include "sys.h"

#ifdef __APPLE__
#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif
#define O_NOWHERE O_RDONLY
#else
#define O_NOWHERE O_PATH
#endif

/* SQLite's own mutexes, outer ones first, as it takes them: a temporary name (VFS1) needs random
** numbers, and their seed the list of VFSes (MAIN). They are held over the fork: a child has none
** of the other threads, and would wait for ever for one that they held. Ours stands before the
** last: SQLite calls us with others held, and we call its allocator. */
static const int guards[] = {SQLITE_MUTEX_STATIC_VFS1, SQLITE_MUTEX_STATIC_PRNG,
                             SQLITE_MUTEX_STATIC_MAIN, SQLITE_MUTEX_STATIC_LRU,
                             SQLITE_MUTEX_STATIC_PMEM};
enum { GUARDS = sizeof guards / sizeof guards[0] };

static void hold(void) {
  for (int i = 0; i < GUARDS; i++) sqlite3_mutex_enter(sqlite3_mutex_alloc(guards[i]));
  locks_enter();
  sqlite3_mutex_enter(sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_MEM));
}

static void drop(void) {
  sqlite3_mutex_leave(sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_MEM));
  locks_leave();
  for (int i = GUARDS - 1; i >= 0; i--) sqlite3_mutex_leave(sqlite3_mutex_alloc(guards[i]));
}

static void free_all(table *t) {
  for (entry *one = table_empty(t), *next; one != NULL; one = next) {
    next = one->next;
    mem_free(one);
  }
}

/* A descriptor pins the parent's locks, as long as any process has it open. Its number must not
** come to mean another file, as long as SQLite's memory in this child names it. */
static void lead_nowhere(int fd, int nowhere) {
#ifdef __APPLE__
  if (nowhere < 0 || dup2(nowhere, fd) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) (void)close(fd);
#else
  if (nowhere < 0 || dup3(nowhere, fd, O_CLOEXEC) < 0) (void)close(fd);
#endif
}

/* With one thread in the process, this one. */
static void let_go(void) {
  entry *all = table_empty(&locks_all.descriptors);
  for (entry *one = all; one != NULL; one = one->next) {
    if (((descriptor *)one)->parked) (void)close((int)one->first);
  }
  int nowhere = open("/", O_NOWHERE | O_CLOEXEC);
  for (entry *one = all, *next; one != NULL; one = next) {
    next = one->next;
    if (!((descriptor *)one)->parked) lead_nowhere((int)one->first, nowhere);
    mem_free(one);
  }
  if (nowhere >= 0) (void)close(nowhere);

  /* A mapping pins them, too. */
  all = table_empty(&locks_all.mappings);
  for (entry *one = all, *next; one != NULL; one = next) {
    next = one->next;
    (void)mmap((void *)(uintptr_t)one->first, ((mapping *)one)->bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    mem_free(one);
  }
  free_all(&locks_all.files);
  free_all(&locks_all.bytes);
  locks_all.idle_first = locks_all.idle_last = NULL;
}

static void begin_anew(void) {
  drop();
  sys_raise_generation();
  let_go();
}

int locks_watch_forks(void) { return pthread_atfork(hold, drop, begin_anew); }
