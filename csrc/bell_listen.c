/* The listener: it hears that the WAL was written, by whomever, and wakes who has to look.
**
** Its sign comes early: frames are written, then synced, and only then the header moves, without a
** sign. So it looks again and again, at doubling spans, until nothing has moved for a while. Our
** own commits give signs, too, and they ring by themselves: beside a busy neighbour its looks lead
** to nothing, and the longer that goes on, the further they stand apart. */
#define _GNU_SOURCE /* ppoll under -std=c11 */
#include "bell.h"
#include "fault.h"

#ifdef __linux__

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

enum {
  SIGN_US = 200,       /* from a sign to the first look */
  DOUBLINGS_MAX = 8,   /* of the span between two looks, while it stands still */
  DOUBLINGS_END = 18,  /* nothing has moved for half a second: nothing will, without a sign */
  APART_US_MIN = 1000, /* between two looks */
  APART_US_MAX = 10000,
  CROWD_US_MAX = 64000, /* the same, where they wake many */
  DEAF_US = 25000,     /* between two looks while there is no WAL to listen to */
  VAIN_MAX = 5         /* doublings while signs go on and the header stands still */
};

typedef struct listener {
  bell *b;
  int64_t seen, looked_us;
  int64_t apart_us;
  int64_t nap_us; /* to the next look without a sign; -1: none */
  int vain;       /* signs in a row that the header did not follow at once */
  int doublings;  /* of the nap, since it moved */
} listener;

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/* With the gate held. */
static void watch(bell *b) {
  if (b->watch >= 0) (void)inotify_rm_watch(b->events, b->watch);
  b->watch = b->stopping ? -1
                         : inotify_add_watch(b->events, b->wal,
                                             IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF);
}

/* False: it has to stop. While nobody sleeps it rests, and signs gather. */
static bool attend(bell *b) {
  sys_lock(&b->gate);
  b->resting = true;
  while (!b->stopping && b->asleep == NULL) sys_wait(&b->gate, SECOND_US * 3600);
  b->resting = false;
  bool goes_on = !b->stopping;
  sys_unlock(&b->gate);
  return goes_on;
}

static void pause_for(bell *b, int64_t span_us) {
  int64_t end_us = sys_awake_us() + span_us, left_us = span_us;
  sys_lock(&b->gate);
  while (!b->stopping && left_us > 0) {
    sys_wait(&b->gate, left_us);
    left_us = end_us - sys_awake_us();
  }
  sys_unlock(&b->gate);
}

/* Until there is a sign, or the span is over (-1: never). True: a sign. */
static bool await_sign(bell *b, int64_t span_us) {
  if (b->watch < 0) {
    pause_for(b, DEAF_US);
    return false;
  }
  struct pollfd wanted = {.fd = b->events, .events = POLLIN};
  struct timespec left = {span_us / SECOND_US, (long)(span_us % SECOND_US) * 1000};
  return ppoll(&wanted, 1, span_us < 0 ? NULL : &left, NULL) > 0;
}

/* Takes the signs in; whether there were any. The WAL may have been taken away, and another one put
** into its place. */
static bool take_signs(bell *b) {
  union {
    struct inotify_event event;
    char bytes[4096];
  } buffer;
  bool moved = b->watch < 0, any = false;
  ssize_t got;
  while ((got = read(b->events, &buffer, sizeof buffer)) > 0) {
    for (ssize_t at = 0; at < got;) {
      struct inotify_event event;
      memcpy(&event, buffer.bytes + at, sizeof event);
      bool of_old = event.wd >= 0 && event.wd != b->watch;
      if (!of_old && (event.mask & ~(uint32_t)IN_MODIFY)) moved = true;
      at += (ssize_t)(sizeof event + event.len);
    }
    any = true;
  }
  if (moved) {
    sys_lock(&b->gate);
    watch(b);
    sys_unlock(&b->gate);
  }
  return any;
}

/* Wakes all if somebody sleeps on an older version. Counts how many do. */
static int64_t wake_stale(bell *b, int64_t now) {
  int64_t stale = 0;
  sys_lock(&b->gate);
  for (const sleeper *s = b->asleep; s != NULL; s = s->next) stale += s->version != now;
  b->looks++;
  if (stale > 0) {
    b->alarms++;
    bell_alarm(b);
  }
  sys_unlock(&b->gate);
  return stale;
}

/* True: the header has moved since the last look. */
static bool look(listener *l) {
  int64_t now = bell_version(l->b);
  int64_t stale = wake_stale(l->b, now);
  bool moved = now != l->seen;
  l->seen = now;
  l->looked_us = sys_awake_us();
  if (atomic_exchange_explicit(&l->b->found, false, memory_order_relaxed)) {
    l->apart_us = APART_US_MIN;
  } else if (moved) {
    l->apart_us = lesser(l->apart_us * 2, APART_US_MAX);
  }
  if (l->apart_us < APART_US_MIN * stale) l->apart_us = lesser(APART_US_MIN * stale, CROWD_US_MAX);
  return moved;
}

static void pause_before(listener *l, bool sign) {
  if (!sign) {
    l->vain = 0;
    return;
  }
  int64_t wait_us = (int64_t)SIGN_US << l->vain;
  int64_t apart_us = l->looked_us + l->apart_us - sys_awake_us();
  pause_for(l->b, apart_us > wait_us ? apart_us : wait_us);
}

/* When to look again, though no sign comes. */
static void choose_nap(listener *l, bool sign, bool moved) {
  l->vain = moved ? 0 : sign && l->vain < VAIN_MAX ? l->vain + 1 : l->vain;
  l->doublings = moved ? 0 : sign ? l->vain : l->doublings + 1;
  l->nap_us = (int64_t)SIGN_US << lesser(l->doublings, DOUBLINGS_MAX);
  if (moved && l->nap_us < l->apart_us) l->nap_us = l->apart_us;
  if (l->doublings < DOUBLINGS_END) return;
  l->nap_us = -1;
  l->apart_us = APART_US_MIN;
}

static void *listen(void *argument) {
  listener l = {.b = argument, .nap_us = -1, .apart_us = APART_US_MIN};
  while (attend(l.b)) {
    bool sign = await_sign(l.b, l.nap_us);
    pause_before(&l, sign);
    sign = take_signs(l.b) || sign; /* one may have come after the nap */
    bool moved = look(&l);
    choose_nap(&l, sign, moved);
  }
  return NULL;
}

bool bell_listen(bell *b) {
  if (fault_bell() & FAULT_DEAF) return true;
  if (b->tried) return b->listens;
  b->tried = true;
  if (fault_bell() & FAULT_NO_EVENTS) return false;
  b->events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (b->events < 0) return false;
  watch(b);
  b->listens = sys_start(&b->listener, listen, b) == 0;
  if (!b->listens) {
    (void)close(b->events);
    b->events = b->watch = -1;
  }
  return b->listens;
}

void bell_stop_listening(bell *b) {
  sys_lock(&b->gate);
  bool there = b->listens;
  b->tried = b->stopping = true;
  b->listens = false;
  if (there && b->watch >= 0) (void)inotify_rm_watch(b->events, b->watch); /* a sign, too */
  sys_wake_all(&b->gate);
  sys_unlock(&b->gate);
  if (!there) return;
  (void)pthread_join(b->listener, NULL);
  (void)close(b->events);
  b->events = b->watch = -1;
}

#else

bool bell_listen(bell *b) {
  (void)b;
  return false;
}

void bell_stop_listening(bell *b) { (void)b; }

#endif
