#define _GNU_SOURCE /* clocks and monotonic conditions under -std=c11 */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
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
