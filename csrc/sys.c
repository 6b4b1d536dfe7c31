#define _GNU_SOURCE /* clocks and monotonic conditions under -std=c11 */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#include <sys/time.h>
#endif
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

static _Atomic int64_t generation;

void sys_raise_generation(void) { atomic_fetch_add(&generation, 1); }
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

/* Its time-outs are counted on the clock that nobody sets. */
static int cond_init(pthread_cond_t *changed) {
#ifdef __APPLE__
  return pthread_cond_init(changed, NULL);
#else
  pthread_condattr_t attributes;
  int rc = pthread_condattr_init(&attributes);
  if (rc == 0) {
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    rc = pthread_cond_init(changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
  }
  return rc;
#endif
}

int sys_cond_init(sys_cond *c) {
  int rc = pthread_mutex_init(&c->mutex, NULL);
  if (rc != 0) return rc;
  rc = cond_init(&c->changed);
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

static void timed_wait(pthread_cond_t *changed, pthread_mutex_t *mutex, int64_t span_us) {
  if (span_us > 3600 * SECOND_US) span_us = 3600 * SECOND_US;
#ifdef __APPLE__
  struct timespec left = {span_us / SECOND_US, (span_us % SECOND_US) * 1000};
  (void)pthread_cond_timedwait_relative_np(changed, mutex, &left);
#else
  int64_t end_us = clock_us(CLOCK_MONOTONIC) + span_us;
  struct timespec end = {end_us / SECOND_US, (end_us % SECOND_US) * 1000};
  (void)pthread_cond_timedwait(changed, mutex, &end);
#endif
}

void sys_wait(sys_cond *c, int64_t span_us) {
  if (span_us > 0) timed_wait(&c->changed, &c->mutex, span_us);
}

uint32_t sys_word_get(sys_word *w) { return atomic_load(&w->value); }
void sys_word_put(sys_word *w, uint32_t value) { atomic_store(&w->value, value); }

#ifdef __linux__

void sys_word_init(sys_word *w, uint32_t value) { atomic_init(&w->value, value); }
void sys_word_free(sys_word *w) { (void)w; }

/* Once it is stored, the word may be gone: to the kernel it is but an address, and whoever else
** waits on one there has been told to expect waking early. */
void sys_word_set(sys_word *w, uint32_t value) {
  atomic_store(&w->value, value);
  (void)syscall(SYS_futex, &w->value, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void sys_word_wait(sys_word *w, uint32_t seen, int64_t span_us) {
  if (span_us <= 0) return;
  struct timespec left = {span_us / SECOND_US, (span_us % SECOND_US) * 1000};
  (void)syscall(SYS_futex, &w->value, FUTEX_WAIT_PRIVATE, seen, &left, NULL, 0);
}

#else

void sys_word_init(sys_word *w, uint32_t value) {
  atomic_init(&w->value, value);
  (void)pthread_mutex_init(&w->mutex, NULL);
  (void)cond_init(&w->changed);
}

void sys_word_free(sys_word *w) {
  (void)pthread_mutex_lock(&w->mutex); /* who set it may not have let go of it yet */
  (void)pthread_mutex_unlock(&w->mutex);
  (void)pthread_cond_destroy(&w->changed);
  (void)pthread_mutex_destroy(&w->mutex);
}

void sys_word_set(sys_word *w, uint32_t value) {
  (void)pthread_mutex_lock(&w->mutex);
  atomic_store(&w->value, value);
  (void)pthread_cond_signal(&w->changed);
  (void)pthread_mutex_unlock(&w->mutex);
}

void sys_word_wait(sys_word *w, uint32_t seen, int64_t span_us) {
  if (span_us <= 0) return;
  (void)pthread_mutex_lock(&w->mutex);
  if (atomic_load(&w->value) == seen) timed_wait(&w->changed, &w->mutex, span_us);
  (void)pthread_mutex_unlock(&w->mutex);
}

#endif

void sys_sleep(int64_t span_us) {
  struct timespec left = {span_us / SECOND_US, (span_us % SECOND_US) * 1000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

int sys_start(pthread_t *thread, void *(*run)(void *), void *argument) {
  enum { STACK_BYTES = 1048576 }; /* SQLite wants more than the smallest default gives */
  sigset_t all, before;
  pthread_attr_t attributes;
  (void)sigfillset(&all);
  int rc = pthread_attr_init(&attributes);
  if (rc != 0) return rc;
  (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  rc = pthread_create(thread, &attributes, run, argument);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&attributes);
  return rc;
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

int64_t sys_pid(void) { return (int64_t)getpid(); }

void sys_host(char text[64]) {
  text[0] = 0;
  (void)gethostname(text, 63);
  text[63] = 0;
}

void sys_random(void *into, int bytes) { sqlite3_randomness(bytes, into); }
