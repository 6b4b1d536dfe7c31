#define _GNU_SOURCE /* kill under -std=c11 */
#include "crash.h"

#ifdef FENCEPOST_TEST

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "fencepost.h"

enum { SECTOR_BYTES = 512 };
enum { DROPPED, WRITTEN, TORN, GARBLED, FATES }; /* of one write at the power cut */
enum { EVERY_SORT, MOSTLY_WRITTEN, MOSTLY_DROPPED, IN_ORDER, MOODS }; /* of one power cut */

/* A write that no sync has followed; data NULL: the file was made as long as `at`. */
typedef struct held {
  struct held *next;
  int64_t at, bytes;
  char *data;
} held;

struct platter {
  platter *next;
  char *path;
  char *was; /* its path before it moved, which the platter may still have; NULL: it did not */
  char *image;
  int64_t bytes, room;
  held *first, **last;
  int64_t held_count;
  bool named; /* the folder, as everybody sees it, has it */
  bool kept;  /* the folder on the platter has it */
  bool lost;  /* the power cut took its folder */
};

/* A folder whose name is in doubt. */
typedef struct young {
  struct young *next;
  char *path;
  bool kept;
} young;

static struct {
  pthread_mutex_t mutex; /* guards what follows */
  platter *platters;     /* newest first */
  young *folders;
  uint64_t dice;
  int64_t syncs;
  int64_t cut_in;        /* syncs until the power cut; -1: none */
  bool cut_after;        /* that sync still takes effect */
  bool lies;
} disk = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cut_in = -1};

void crash_lock(void) { (void)pthread_mutex_lock(&disk.mutex); }
void crash_unlock(void) { (void)pthread_mutex_unlock(&disk.mutex); }

/* Not SQLite's memory: the instrument is no place for its own faults. */
static void *room_for(void *old, int64_t bytes) {
  void *memory = realloc(old, (size_t)bytes + 1);
  if (memory == NULL) abort();
  return memory;
}

/* splitmix64: a number below n. */
static uint64_t dice(uint64_t n) {
  uint64_t z = disk.dice += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return (z ^ (z >> 31)) % n;
}

/* ---- the platter ---- */

static char *copy_of(const char *text) {
  return strcpy(room_for(NULL, (int64_t)strlen(text)), text);
}

/* Longer ones are filled with zeros, as a file system does. */
static void resize(platter *p, int64_t bytes) {
  if (bytes > p->room) {
    p->room = bytes * 2;
    p->image = room_for(p->image, p->room);
  }
  if (bytes > p->bytes) memset(p->image + p->bytes, 0, (size_t)(bytes - p->bytes));
  p->bytes = bytes;
}

static void put_at(platter *p, int64_t at, const char *data, int64_t bytes) {
  if (at + bytes > p->bytes) resize(p, at + bytes);
  memcpy(p->image + at, data, (size_t)bytes);
}

static void put_rubbish(platter *p, int64_t at, int64_t bytes) {
  if (at + bytes > p->bytes) resize(p, at + bytes);
  for (int64_t i = 0; i < bytes; i++) p->image[at + i] = (char)dice(256);
}

/* Each sector on its own. */
static void put_pieces(platter *p, const held *h, bool rubbish) {
  int64_t end = h->at + h->bytes;
  for (int64_t at = h->at; at < end;) {
    int64_t to = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
    if (to > end) to = end;
    uint64_t turn = dice(rubbish ? 3 : 2);
    if (turn == 0) put_at(p, at, h->data + (at - h->at), to - at);
    if (turn == 2) put_rubbish(p, at, to - at);
    at = to;
  }
}

static void reach(platter *p, const held *h, int fate) {
  if (fate == DROPPED) return;
  if (h->data == NULL) {
    resize(p, h->at);
  } else if (fate == WRITTEN) {
    put_at(p, h->at, h->data, h->bytes);
  } else {
    put_pieces(p, h, fate == GARBLED);
  }
}

/* All that is held of a file reaches its image: each as `fate` says, or where that is FATES by
** dice, which `mood` loads. */
static void settle(platter *p, int fate, int mood) {
  int64_t whole = mood == IN_ORDER ? (int64_t)dice((uint64_t)p->held_count + 1) : 0;
  for (held *h = p->first, *next; h != NULL; h = next) {
    int one = fate;
    if (fate == FATES) {
      one = (int)dice(FATES);
      if (mood == MOSTLY_WRITTEN && dice(8) > 0) one = WRITTEN;
      if (mood == MOSTLY_DROPPED && dice(8) > 0) one = DROPPED;
      if (whole-- > 0) one = WRITTEN;
    }
    reach(p, h, one);
    next = h->next;
    free(h->data);
    free(h);
  }
  p->first = NULL;
  p->last = &p->first;
  p->held_count = 0;
}

void crash_held(platter *p, int64_t at, const void *data, int64_t bytes) {
  held *h = room_for(NULL, (int64_t)sizeof *h);
  *h = (held){.at = at, .bytes = bytes};
  if (data != NULL) h->data = memcpy(room_for(NULL, bytes), data, (size_t)bytes);
  *p->last = h;
  p->last = &h->next;
  p->held_count++;
}

platter *crash_named(const char *path) {
  platter *p = disk.platters;
  while (p != NULL && !(p->named && strcmp(p->path, path) == 0)) p = p->next;
  return p;
}

void crash_folder_synced(void) {
  for (platter *p = disk.platters; p != NULL; p = p->next) p->kept = p->named;
}

platter *crash_add(const char *path, bool was_there) {
  platter *p = room_for(NULL, (int64_t)sizeof *p);
  *p = (platter){.next = disk.platters, .last = &p->first, .named = true, .kept = was_there};
  p->path = copy_of(path);
  return disk.platters = p;
}

char *crash_image(platter *p, int64_t bytes) {
  resize(p, bytes);
  return p->image;
}

void crash_removed(const char *path) {
  platter *p = crash_named(path);
  if (p != NULL) p->named = false;
}

void crash_made(const char *folder) {
  crash_lock();
  young *y = room_for(NULL, (int64_t)sizeof *y);
  *y = (young){.next = disk.folders, .path = copy_of(folder)};
  disk.folders = y;
  crash_unlock();
}

void crash_moved(const char *from, const char *to) {
  crash_lock();
  platter *p = crash_named(from);
  if (p != NULL) {
    p->was = p->path;
    p->path = copy_of(to);
  }
  crash_unlock();
}

static bool stands_in(const char *path, const char *folder) {
  size_t bytes = strlen(folder);
  return strncmp(path, folder, bytes) == 0 && strrchr(path, '/') == path + bytes;
}

/* ---- the power cut ---- */

/* What is in a folder that nobody finds any more is gone with it. */
static void lose_folder(const young *y) {
  size_t bytes = strlen(y->path);
  for (platter *p = disk.platters; p != NULL; p = p->next) {
    if (strncmp(p->path, y->path, bytes) == 0 && p->path[bytes] == '/') p->lost = true;
  }
}

static void become(const platter *p, const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0) abort();
  for (int64_t at = 0; at < p->bytes;) {
    ssize_t wrote = write(file, p->image + at, (size_t)(p->bytes - at));
    if (wrote <= 0) abort();
    at += wrote;
  }
}

/* With the lock, and for ever: nobody writes any more. */
static void cut_power(void) {
  int mood = (int)dice(MOODS);
  for (const young *y = disk.folders; y != NULL; y = y->next) {
    if (!y->kept && dice(2) == 0) lose_folder(y);
  }
  for (platter *p = disk.platters; p != NULL; p = p->next) {
    settle(p, FATES, mood);
    if (!p->named) continue;
    bool back = p->was != NULL && dice(2) == 0;
    if (back) (void)unlink(p->path);
    if (!p->lost && (p->kept || dice(2) == 0)) {
      become(p, back ? p->was : p->path);
    } else {
      (void)unlink(p->path);
    }
  }
  /* Removed, and the folder was not synced: there again, unless another got the name. */
  for (const platter *p = disk.platters; p != NULL; p = p->next) {
    bool again = !p->named && p->kept && !p->lost && access(p->path, F_OK) != 0;
    if (again && dice(2) == 0) become(p, p->path);
  }
  (void)kill(getpid(), SIGKILL);
}

/* A sync begins. True: the power goes when it has taken effect. */
static bool cut_follows(void) {
  bool cut = disk.cut_in == 0;
  disk.syncs++;
  if (disk.cut_in >= 0) disk.cut_in--;
  if (cut && !disk.cut_after) cut_power();
  return cut;
}

void crash_synced_file(const char *path) {
  crash_lock();
  platter *p = crash_named(path);
  if (p != NULL) (void)crash_synced(p, false);
  crash_unlock();
}

void crash_kept(const char *folder) {
  crash_lock();
  bool cut = cut_follows();
  for (young *y = disk.folders; y != NULL; y = y->next) {
    y->kept = y->kept || stands_in(y->path, folder);
  }
  for (platter *p = disk.platters; p != NULL; p = p->next) {
    if (!stands_in(p->path, folder)) continue;
    p->kept = p->named;
    p->was = NULL;
  }
  if (cut) cut_power();
  crash_unlock();
}

int crash_synced(platter *p, bool folder) {
  bool cut = cut_follows();
  int rc = fault_sync();
  if (rc != SQLITE_OK) {
    settle(p, FATES, (int)dice(MOODS));
  } else if (!disk.lies) {
    settle(p, WRITTEN, MOODS);
    if (folder) crash_folder_synced();
  }
  if (cut) cut_power();
  return rc;
}

/* ---- what tests call ---- */

void fp_crash_at(int64_t countdown, int32_t after, uint64_t seed) {
  crash_lock();
  disk.dice = seed;
  disk.cut_after = after != 0;
  disk.cut_in = countdown;
  crash_unlock();
}

void fp_crash_now(uint64_t seed) {
  crash_lock();
  disk.dice = seed;
  cut_power();
}

void fp_crash_lies(int32_t lies) {
  crash_lock();
  disk.lies = lies != 0;
  crash_unlock();
}

int64_t fp_syncs(void) {
  crash_lock();
  int64_t syncs = disk.syncs;
  crash_unlock();
  return syncs;
}

#endif
