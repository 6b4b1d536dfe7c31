/* What the parts of `locks` share: the files that our SQLite has open, and all that hangs on them.
** One mutex guards it all; it stands behind SQLite's own, which may be held when SQLite calls. */
#ifndef FENCEPOST_LOCKS_PART_H
#define FENCEPOST_LOCKS_PART_H

#include <pthread.h>
#include <sys/types.h>

#include "locks.h"
#include "locks_table.h"

#ifdef __APPLE__ /* named by its kernel's sources, not by its headers; untried */
#ifndef F_OFD_SETLK
#define F_OFD_SETLK 90
#define F_OFD_SETLKW 91
#define F_OFD_GETLK 92
#endif
#endif

/* TOO_LOW: a standard stream's number, which SQLite would close again and again. */
enum { READ_ONLY, WRITABLE, TOO_LOW, PARKINGS };

/* A file on which SQLite takes locks. */
typedef struct file {
  entry by_identity;      /* device, inode */
  int canon;             /* the descriptor that all its locks are taken through */
  bool writable;         /* is that one? */
  int64_t live;          /* descriptors that SQLite has open */
  int64_t bytes;         /* of ours that are held */
  struct descriptor *parked[PARKINGS]; /* that it has closed, and we have not */
  bool idle;             /* has no live one, and could not be collected */
  struct file *idle_before, *idle_after;
  /* Of a -shm file: */
  bool checkpointing;    /* SQLite has the checkpointer's byte, in this thread: */
  pthread_t checkpointer;
  bool guarded;          /* we have it, on behalf of a restart of the WAL */
} file;

/* Every descriptor that SQLite was given, until it is really closed. */
typedef struct descriptor {
  entry by_number;
  file *of;              /* NULL: of a file that is never locked */
  bool writable, parked;
  struct descriptor *next; /* parked */
} descriptor;

typedef struct mapping {
  entry by_address;
  size_t bytes;
} mapping;

/* A byte of ours that is held. */
typedef struct far_byte {
  entry by_place; /* its file, its offset */
  int64_t takers;
  bool shared;
} far_byte;

typedef struct locks_state {
  pthread_mutex_t mutex;
  table files, descriptors, mappings, bytes;
  file *idle_first, *idle_last;
} locks_state;

extern locks_state locks_all;

static inline void locks_enter(void) { (void)pthread_mutex_lock(&locks_all.mutex); }
static inline void locks_leave(void) { (void)pthread_mutex_unlock(&locks_all.mutex); }

/* The rest: with the mutex. */

/* ---- locks_file.c: which descriptors there are ---- */

file *locks_file_of(dev_t device, ino_t inode); /* NULL: not open here */
descriptor *locks_descriptor_of(int fd);        /* NULL: not ours */
/* A descriptor parked that will do, live again; NULL: there is none. */
descriptor *locks_reuse(file *of, bool writable);
/* `fd` has just been opened: `d` describes it from now on. With `of`, it is one of its live ones,
** the first of which becomes canonical. */
void locks_add(descriptor *d, int fd, bool writable, file *of);
/* SQLite closes a live one: parked, and collected if that can be. */
void locks_park(descriptor *d);
/* Really closes all descriptors of a file that SQLite and we are through with; false: not now. */
bool locks_collect(file *of);
/* A few of the files that could not be collected when their last user went. */
void locks_sweep(void);
/* 0, or -1 with errno, for `bytes` from `start` on; never waits. */
int locks_range(int fd, short type, int64_t start, int64_t bytes);

/* ---- locks_calls.c: what SQLite calls instead of the system ---- */

int locks_hook(void); /* 0, or errno */

/* ---- locks_fork.c ---- */

int locks_watch_forks(void); /* 0, or errno */

#endif
