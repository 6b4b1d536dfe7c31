#define _GNU_SOURCE /* syscall under -std=c11 */
#include "bell.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

/* The header, as SQLite's wal.c lays it out. It stands there twice; the first copy is written last,
** so that whoever sees it moved finds the commit. */
enum {
  REGION_BYTES = 32768,
  WORDS = 12,
  FORMAT_WORD = 0,
  CHANGE_WORD = 2, /* iChange: another one with each commit */
  FORMAT = 3007000
};

enum {
  POLL_US_MIN = 5000, /* between two looks of a sleeper that nobody would wake */
  POLL_US_MAX = 25000,
  NUDGE_US = 1000
};

/* ---- the header ---- */

#if defined(__GNUC__)
#define SEES_RACES __attribute__((no_sanitize("thread")))
#else
#define SEES_RACES
#endif

typedef struct seen {
  int64_t version;
  uint32_t change;
} seen;

/* Half of it may be newer than the other half: then it is like no other, and is read again. */
SEES_RACES static seen look(const bell *b) {
  uint64_t sum = UINT64_C(14695981039346656037);
  uint32_t words[WORDS];
  for (int i = 0; i < WORDS; i++) {
    words[i] = b->header[i];
    sum = (sum ^ words[i]) * UINT64_C(1099511628211);
    sum ^= sum >> 29;
  }
  return (seen){(int64_t)sum, words[CHANGE_WORD]};
}

int64_t bell_version(const bell *b) { return look(b).version; }

/* ---- sleeping and waking, as the system has it ---- */

#ifdef __linux__
/* The kernel's own timespec of this call, whatever the C library's is. */
typedef struct moment {
  long seconds, nanoseconds;
} moment;

static long futex(const bell *b, int operation, uint32_t value, const moment *end, uint32_t bits) {
  return syscall(SYS_futex, (uintptr_t)(b->header + CHANGE_WORD), operation, value, end, NULL,
                 bits);
}

static bool has_futex(const bell *b) {
  return !(fault_bell() & FAULT_NO_FUTEX) &&
         futex(b, FUTEX_WAKE_BITSET, 0, NULL, b->process) >= 0;
}

static int futex_wait(const bell *b, uint32_t change, uint32_t bits, int64_t end_us) {
  moment end = {(long)(end_us / SECOND_US), (long)(end_us % SECOND_US) * 1000};
  return futex(b, FUTEX_WAIT_BITSET, change, &end, bits) == 0 ? 0 : errno;
}

static void futex_wake(const bell *b, uint32_t bits) {
  (void)futex(b, FUTEX_WAKE_BITSET, INT32_MAX, NULL, bits);
}
#else
static bool has_futex(const bell *b) {
  (void)b;
  return false;
}

static int futex_wait(const bell *b, uint32_t change, uint32_t bits, int64_t end_us) {
  (void)b;
  (void)change;
  (void)bits;
  (void)end_us;
  return 0;
}

static void futex_wake(const bell *b, uint32_t bits) {
  (void)b;
  (void)bits;
}
#endif

void bell_ring(bell *b, uint32_t bits) {
  fault_rung(bits);
  if (b->futex) {
    futex_wake(b, bits);
    return;
  }
  sys_lock(&b->gate);
  sys_wake_all(&b->gate);
  sys_unlock(&b->gate);
}

void bell_alarm(bell *b) {
  if (b->futex) {
    futex_wake(b, b->process);
  } else {
    sys_wake_all(&b->gate);
  }
}

void bell_nap(bell *b, uint32_t bits, int64_t span_us) {
  if (b->futex) {
    (void)futex_wait(b, look(b).change, bits, sys_awake_us() + span_us);
  } else {
    sys_sleep(span_us);
  }
}

/* ---- sleepers ---- */

static bool is_let_go(const bell *b, const sleeper *s) {
  return b->shut || (s->nudges > 0 && s->nudges < b->nudges);
}

/* Is there a reason not to sleep (on)? */
static bool is_over(const bell *b, const sleeper *me, int64_t end_us, uint32_t *change, int *why) {
  seen now = look(b);
  *change = now.change;
  *why = is_let_go(b, me)              ? BELL_NUDGED
         : now.version != me->version  ? BELL_MOVED
         : sys_awake_us() >= end_us    ? BELL_TIME
                                       : BELL_ENDS;
  return *why != BELL_ENDS;
}

static void leave(bell *b, const sleeper *me) {
  sleeper **at = &b->asleep;
  while (*at != me) at = &(*at)->next;
  *at = me->next;
  if (b->nudging > 0) sys_wake_all(&b->gate);
}

/* With the gate held, which is open while it sleeps. 0, or errno. */
static int sleep_on(bell *b, uint32_t change, uint32_t bits, int64_t end_us) {
  if (!b->futex) {
    sys_wait(&b->gate, end_us - sys_awake_us());
    return 0;
  }
  sys_unlock(&b->gate);
  fault_door();
  int rc = futex_wait(b, change, bits | b->process, end_us);
  bool known = rc == 0 || rc == EAGAIN || rc == EINTR || rc == ETIMEDOUT;
  if (!known) sys_sleep(POLL_US_MIN); /* whatever it is, it must not become a circle */
  sys_lock(&b->gate);
  return rc;
}

int bell_sleep(bell *b, int64_t version, uint32_t bits, int64_t nudges, int64_t end_us) {
  int why, rc = 0;
  uint32_t change = 0;
  int64_t poll_us = POLL_US_MIN;
  sleeper me = {.version = version, .nudges = nudges};
  sys_lock(&b->gate);
  me.next = b->asleep;
  // cppcheck-suppress autoVariables - until it leaves, below
  b->asleep = &me;
  bool woken = b->futex && bell_listen(b); /* before the last look at the header */
  if (b->resting) sys_wake_all(&b->gate);
  while (!is_over(b, &me, end_us, &change, &why)) {
    int64_t until_us = woken ? end_us : sys_awake_us() + poll_us;
    if (poll_us < POLL_US_MAX) poll_us += POLL_US_MIN;
    rc = sleep_on(b, change, bits, until_us < end_us ? until_us : end_us);
    if (rc != EINTR) continue;
    why = BELL_SIGNAL;
    break;
  }
  leave(b, &me);
  b->ended[why]++;
  b->late += rc == ETIMEDOUT && (why == BELL_MOVED || why == BELL_NUDGED);
  sys_unlock(&b->gate);
  return why;
}

/* ---- letting go ---- */

/* Who was between its last look and its sleep has missed the alarm, hence again and again. */
static void see_off(bell *b) {
  b->nudging++;
  for (;;) {
    const sleeper *s = b->asleep;
    while (s != NULL && !is_let_go(b, s)) s = s->next;
    if (s == NULL) break;
    bell_alarm(b);
    sys_wait(&b->gate, NUDGE_US);
  }
  b->nudging--;
}

void bell_nudge(bell *b) {
  sys_lock(&b->gate);
  b->nudges++;
  see_off(b);
  sys_unlock(&b->gate);
}

int64_t bell_nudges(bell *b) {
  sys_lock(&b->gate);
  int64_t nudges = b->nudges;
  sys_unlock(&b->gate);
  return nudges;
}

void bell_shut(bell *b) {
  sys_lock(&b->gate);
  b->shut = true;
  see_off(b);
  sys_unlock(&b->gate);
}

void bell_found(bell *b) { atomic_store_explicit(&b->found, true, memory_order_relaxed); }

/* ---- its life ---- */

/* The result code of the mapping; *header NULL: there is none to be had. */
static int map(sqlite3 *connection, const volatile uint32_t **header) {
  sqlite3_file *file = NULL;
  volatile void *region = NULL;
  *header = NULL;
  (void)sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (file == NULL || file->pMethods == NULL || file->pMethods->iVersion < 2) return SQLITE_OK;
  int rc = file->pMethods->xShmMap(file, 0, REGION_BYTES, 0, &region);
  if (rc == SQLITE_OK) *header = region;
  return rc;
}

int bell_open(bell *b, sqlite3 *connection, fp_error *err) {
  const volatile uint32_t *header;
  int rc = map(connection, &header);
  if (rc != SQLITE_OK) return err_from_db(err, connection, rc, "WAL-index");
  if (header == NULL || header[FORMAT_WORD] != FORMAT) {
    return err_set(err, FP_STORAGE, "the WAL-index of the file is not as SQLite %s is known to "
                                    "have it", sqlite3_libversion());
  }
  *b = (bell){.events = -1, .watch = -1};
  if (sys_cond_init(&b->gate) != 0) return err_memory(err);
  b->nudges = 1;
  b->header = header;
  b->wal = sqlite3_filename_wal(sqlite3_db_filename(connection, "main"));
  b->process = UINT32_C(1) << (BELL_QUEUE_BITS + (int)(getpid() % BELL_PROCESS_BITS));
  b->futex = has_futex(b);
  return FP_OK;
}

void bell_close(bell *b) {
  if (b->header == NULL) return;
  assert(b->asleep == NULL);
  bell_stop_listening(b);
  b->header = NULL;
}

void bell_free(bell *b) {
  if (b->nudges == 0) return; /* never opened */
  bell_close(b);
  sys_cond_free(&b->gate);
}
