#define _GNU_SOURCE /* kill under -std=c11 */
#include "fault.h"

#ifdef FENCEPOST_TEST

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fencepost.h"

static _Atomic int64_t step_in = -1, memory_in = -1, write_in = -1, sync_in = -1;
static _Atomic int kill_by = SIGKILL;
static _Atomic int64_t io_in = -1, kill_in = -1;
static _Atomic int64_t step_times, memory_times, write_times, sync_times, io_times;
static _Atomic int64_t hits, steps, calls, live;
static _Atomic int write_rc;
static _Atomic bool spoils;
static sqlite3_mem_methods real;
static _Atomic int32_t missing, door; /* the door: open 0, closed 1, somebody stands there 2 */
static _Atomic uint32_t rung;
static char *last_word; /* set before there is a second thread */
static int32_t last_word_bytes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Counts down to 0; from there on it fires `times` times, then never again. */
static bool fires(_Atomic int64_t *in, _Atomic int64_t *times) {
  if (atomic_load(in) < 0) return false;
  if (atomic_fetch_sub(in, 1) > 0) return false;
  atomic_fetch_add(&hits, 1);
  bool last = atomic_fetch_sub(times, 1) <= 1;
  atomic_store(in, last ? -1 : 0);
  return true;
}

static void *hostile_malloc(int bytes) {
  atomic_fetch_add(&calls, 1);
  if (fires(&memory_in, &memory_times)) return NULL;
  void *memory = real.xMalloc(bytes);
  if (memory != NULL) memset(memory, 0xAB, (size_t)bytes);
  return memory;
}

static void *hostile_realloc(void *old, int bytes) {
  atomic_fetch_add(&calls, 1);
  if (fires(&memory_in, &memory_times)) return NULL;
  return real.xRealloc(old, bytes);
}

static void install(void) {
  if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real) != SQLITE_OK) return;
  sqlite3_mem_methods hostile = real;
  hostile.xMalloc = hostile_malloc;
  hostile.xRealloc = hostile_realloc;
  (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &hostile);
}

void fault_install(void) { (void)pthread_once(&once, install); }

static void die(const char *name) {
  if (last_word != NULL) (void)snprintf(last_word, (size_t)last_word_bytes, "at %s", name);
  (void)kill(getpid(), atomic_load(&kill_by));
}

int fault_step(const char *name) {
  atomic_fetch_add(&steps, 1);
  if (atomic_load(&kill_in) >= 0 && atomic_fetch_sub(&kill_in, 1) == 0) die(name);
  return fires(&step_in, &step_times) ? SQLITE_IOERR : SQLITE_OK;
}

int fault_write(void) {
  return fires(&write_in, &write_times) ? atomic_load(&write_rc) : SQLITE_OK;
}

int fault_sync(void) { return fires(&sync_in, &sync_times) ? SQLITE_IOERR_FSYNC : SQLITE_OK; }

int fault_io(int rc) { return fires(&io_in, &io_times) ? rc : SQLITE_OK; }

bool fault_spoils(void) { return atomic_load(&spoils); }
int fault_bell(void) { return atomic_load(&missing); }
void fault_rung(uint32_t bits) { atomic_store(&rung, bits); }

void fault_door(void) {
  int32_t closed = 1;
  if (!atomic_compare_exchange_strong(&door, &closed, 2)) return;
  while (atomic_load(&door) == 2) (void)usleep(200);
}

void *mem_get(int64_t bytes) {
  void *memory = sqlite3_malloc64((sqlite3_uint64)bytes);
  if (memory != NULL) atomic_fetch_add(&live, 1);
  return memory;
}

void *mem_resize(void *old, int64_t bytes) {
  void *memory = sqlite3_realloc64(old, (sqlite3_uint64)bytes);
  if (memory != NULL && old == NULL) atomic_fetch_add(&live, 1);
  return memory;
}

void mem_free(void *memory) {
  if (memory != NULL) atomic_fetch_sub(&live, 1);
  sqlite3_free(memory);
}

void fp_fault_step(int64_t countdown, int32_t times) {
  atomic_store(&hits, 0);
  atomic_store(&step_times, times);
  atomic_store(&step_in, countdown);
}

void fp_fault_memory(int64_t countdown, int32_t times) {
  atomic_store(&hits, 0);
  atomic_store(&memory_times, times);
  atomic_store(&memory_in, countdown);
}

void fp_fault_write(int64_t countdown, int32_t times, int32_t full) {
  atomic_store(&hits, 0);
  atomic_store(&write_rc, full ? SQLITE_FULL : SQLITE_IOERR_WRITE);
  atomic_store(&write_times, times);
  atomic_store(&write_in, countdown);
}

void fp_fault_sync(int64_t countdown, int32_t times) {
  atomic_store(&hits, 0);
  atomic_store(&sync_times, times);
  atomic_store(&sync_in, countdown);
}

void fp_fault_io(int64_t countdown, int32_t times) {
  atomic_store(&hits, 0);
  atomic_store(&io_times, times);
  atomic_store(&io_in, countdown);
}

void fp_fault_spoil(int32_t on) { atomic_store(&spoils, on != 0); }
void fp_fault_kill(int64_t countdown) { atomic_store(&kill_in, countdown); }

void fp_fault_last_word(char *into, int32_t bytes) {
  last_word = into;
  last_word_bytes = bytes;
}

void fp_fault_stop(int64_t countdown) {
  atomic_store(&kill_by, SIGSTOP);
  atomic_store(&kill_in, countdown);
}

void fp_fault_bell(int32_t without) { atomic_store(&missing, without); }
uint32_t fp_fault_rung(void) { return atomic_load(&rung); }
void fp_fault_door(int32_t closed) { atomic_store(&door, closed); }
int32_t fp_fault_at_door(void) { return atomic_load(&door) == 2; }
int64_t fp_fault_hits(void) { return atomic_load(&hits); }
int64_t fp_steps(void) { return atomic_load(&steps); }
int64_t fp_memory_calls(void) { return atomic_load(&calls); }
int64_t fp_memory_live(void) { return atomic_load(&live); }

#endif
