/* The lock shim: our copy of SQLite beside any other one in the process, and over forks.
**
** The application may open the same file in the same process with another copy of SQLite (Python's
** own). POSIX record locks belong to the process: neither copy would be locked out by the other,
** and whoever closes a descriptor of the file would drop the locks of both. So the system calls of
** our copy's VFS go through here, and its locks are those of an open file description, which meet
** the other copy's like a stranger's. What is promised, and on what it rests:
**
**   1. Locks of our copy and of any other one exclude each other.  All locks of a file are taken
**      through one descriptor, the canonical one, as locks of its open file description.
**   2. Nothing that our copy does drops a lock of another.  A descriptor that SQLite closes is
**      parked, and handed out again at the next open; it is really closed only while we hold a
**      write lock over all that another copy could have locked.
**   3. A child of a fork holds nothing of its parent's, so that a parent that is killed holds
**      nothing, either.  In the child, inherited descriptors lead nowhere, inherited mappings are
**      private memory, and each file seems to lie on another device, so that SQLite finds nothing
**      inherited and the child may open the file itself.
**   4. A WAL is not restarted while a checkpoint is under way.  SQLite before 3.51.3 may go on with
**      a header that the restart has made stale, and would damage the file.
**
** SQLite locks bytes near 2^30 of a database and 120 to 128 of its -shm file. Ours begin at
** LOCKS_OURS; SQLite's "unlock everything" ends before them. */
#ifndef FENCEPOST_LOCKS_H
#define FENCEPOST_LOCKS_H

#include "base.h"

#define LOCKS_OURS (INT64_C(1) << 62)
#define LOCKS_WAITING LOCKS_OURS                          /* who waits for the write lock; shared */
#define LOCKS_WORKER (LOCKS_OURS + (INT64_C(1) << 20))    /* + a worker's id */

/* Once in a process, before the first file is opened; again: nothing. 0, or errno. */
int locks_install(void);

/* CLASSIC: this system has no locks of an open file description. Then 1 and 2 do not hold, and a
** file that another copy has open is to be refused. */
enum { LOCKS_OFD, LOCKS_CLASSIC };
int locks_mode(void);

/* A database that is open through our SQLite. All handles of the process share its descriptor:
** locks of one process do not conflict with each other. */
typedef struct locks_file {
  uint64_t device, inode;
} locks_file;

int locks_identify(const char *path, locks_file *file); /* 0, or errno; ENOENT: not open here */
/* One byte, from LOCKS_OURS on; never waits. As often as it was taken, it must be dropped; it is
** exclusive if any taker asked for that. Held from the first to the last, whether or not the
** database stays open. 0; EAGAIN: held elsewhere; ENOTSUP: CLASSIC; another errno. */
int locks_take(const locks_file *file, int64_t offset, bool shared);
void locks_drop(const locks_file *file, int64_t offset);
/* Does this process hold it, through whichever handle? */
bool locks_held(const locks_file *file, int64_t offset);
/* 1: somebody else holds it; 0: nobody else does; -1: that cannot be told. */
int locks_probe(const locks_file *file, int64_t offset);
/* The process whose SQLite keeps ours out of the file, be it this one; 0: nobody, or that cannot be
** told. */
int64_t locks_holder(const locks_file *file);

/* How many descriptors of the file at `path` this process has open that are not our SQLite's; -1:
** that cannot be told here. */
int locks_strangers(const char *path);

#endif
