#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"
#include "locks_part.h"

enum {
  NUMBER_MIN = 3, /* of a descriptor that SQLite works with */
  SWEPT = 4       /* files tried at each new one: more than one, so that they cannot pile up */
};

locks_state locks_all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

int locks_range(int fd, short type, int64_t start, int64_t bytes) {
  struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = bytes};
  return fcntl(fd, F_OFD_SETLK, &range);
}

file *locks_file_of(dev_t device, ino_t inode) {
  return (file *)table_find(&locks_all.files, (uint64_t)device, (uint64_t)inode);
}

descriptor *locks_descriptor_of(int fd) {
  return fd < 0 ? NULL : (descriptor *)table_find(&locks_all.descriptors, (uint64_t)fd, 0);
}

/* ---- the line of idle files ---- */

static void idle_add(file *of) {
  of->idle = true;
  of->idle_before = locks_all.idle_last;
  of->idle_after = NULL;
  *(of->idle_before == NULL ? &locks_all.idle_first : &of->idle_before->idle_after) = of;
  locks_all.idle_last = of;
}

static void idle_remove(file *of) {
  if (!of->idle) return;
  of->idle = false;
  *(of->idle_before == NULL ? &locks_all.idle_first : &of->idle_before->idle_after) =
      of->idle_after;
  *(of->idle_after == NULL ? &locks_all.idle_last : &of->idle_after->idle_before) =
      of->idle_before;
}

/* ---- descriptors come and go ---- */

static void park(descriptor *d) {
  int fd = (int)d->by_number.first;
  descriptor **parking =
      &d->of->parked[fd < NUMBER_MIN ? TOO_LOW : d->writable ? WRITABLE : READ_ONLY];
  d->parked = true;
  d->next = *parking;
  *parking = d;
}

/* The program has closed a descriptor that was ours. What was locked through it is lost, which
** SQLite is told at its next lock. */
static void forget(descriptor *d) {
  file *of = d->of;
  if (of != NULL && (int)d->by_number.first == of->canon) of->canon = -1;
  if (of != NULL && !d->parked) of->live--;
  for (int i = 0; of != NULL && i < PARKINGS; i++) {
    descriptor **at = &of->parked[i];
    while (*at != NULL && *at != d) at = &(*at)->next;
    if (*at == d) *at = d->next;
  }
  table_remove(&locks_all.descriptors, &d->by_number);
  mem_free(d);
  if (of != NULL && of->live == 0 && !of->idle) idle_add(of);
}

/* Does it still mean its file? The program may have closed it: whole ranges are, at times. */
static bool is_there(const descriptor *d) {
  struct stat at;
  const entry *of = &d->of->by_identity;
  return fstat((int)d->by_number.first, &at) == 0 && (uint64_t)at.st_dev == of->first &&
         (uint64_t)at.st_ino == of->second;
}

static descriptor *parked_of(const file *of, bool writable) {
  descriptor *d = of->parked[WRITABLE];
  return d != NULL || writable ? d : of->parked[READ_ONLY];
}

descriptor *locks_reuse(file *of, bool writable) {
  descriptor *d = parked_of(of, writable);
  while (d != NULL && !is_there(d)) {
    forget(d);
    d = parked_of(of, writable);
  }
  if (d == NULL) return NULL;
  of->parked[d->writable ? WRITABLE : READ_ONLY] = d->next;
  d->parked = false;
  of->live++;
  idle_remove(of);
  return d;
}

void locks_add(descriptor *d, int fd, bool writable, file *of) {
  descriptor *before = locks_descriptor_of(fd);
  if (before != NULL) forget(before);
  *d = (descriptor){.by_number = {.first = (uint64_t)fd}, .of = of, .writable = writable};
  table_add(&locks_all.descriptors, &d->by_number);
  if (of == NULL) return;
  if (of->canon < 0) {
    of->canon = fd;
    of->writable = writable;
  }
  of->live++;
  idle_remove(of);
}

void locks_park(descriptor *d) {
  file *of = d->of;
  park(d);
  if (--of->live > 0) return;
  of->checkpointing = of->guarded = false;
  (void)locks_range(of->canon, F_UNLCK, 0, LOCKS_OURS); /* as its close would have done */
  if (!locks_collect(of)) idle_add(of);
}

/* ---- collecting ---- */

/* While we hold a write lock over all that SQLite locks, no other copy in this process holds a
** lock that a close could drop, nor can it take one: the kernel drops the process's locks first,
** and ours with the last reference to the description, which is the canonical descriptor's. */
static bool can_close(const file *of) {
  struct stat now;
  if (of->canon < 0) return true;
  if (fstat(of->canon, &now) == 0 && now.st_nlink == 0) return true;
  if (of->writable) return locks_range(of->canon, F_WRLCK, 0, LOCKS_OURS) == 0;
  /* Where nothing may be written, a look is all that we can take. */
  struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = LOCKS_OURS};
  return fcntl(of->canon, F_OFD_GETLK, &range) == 0 && range.l_type == F_UNLCK;
}

static void really_close(descriptor *d) {
  int fd = (int)d->by_number.first;
  bool there = is_there(d);
  table_remove(&locks_all.descriptors, &d->by_number);
  mem_free(d);
  if (there) (void)close(fd);
}

bool locks_collect(file *of) {
  if (of->live > 0 || of->bytes > 0 || !can_close(of)) return false;
  descriptor *canon = NULL;
  for (int i = 0; i < PARKINGS; i++) {
    while (of->parked[i] != NULL) {
      descriptor *d = of->parked[i];
      of->parked[i] = d->next;
      if ((int)d->by_number.first == of->canon) {
        canon = d;
      } else {
        really_close(d);
      }
    }
  }
  if (canon != NULL) really_close(canon);
  idle_remove(of);
  table_remove(&locks_all.files, &of->by_identity);
  mem_free(of);
  return true;
}

void locks_sweep(void) {
  for (int i = 0; i < SWEPT && locks_all.idle_first != NULL; i++) {
    file *of = locks_all.idle_first;
    if (locks_collect(of)) continue;
    idle_remove(of);
    idle_add(of);
  }
}
