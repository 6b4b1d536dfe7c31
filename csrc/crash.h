/* A disk that can lose its power, in the test build: the files as the platter has them, beside the
** files as everybody sees them.
**
** A VFS over the one that SQLite brings (crash_vfs.c). What is written goes to the real file at
** once, so that whoever reads sees what a page cache would show; the platter's image, in memory
** (crash.c), gets it when the file is synced. At the power cut every write since then is, by dice,
** on the platter, lost, or in pieces; the images become the files, and the process ends. What this
** rests on:
**
**   1. A sync promises what was written to that file before it, and nothing of another file.
**   2. A write harms no byte outside of its range (POWERSAFE_OVERWRITE, as SQLite expects). Inside
**      of it each sector of 512 bytes is the new one, the old one, or rubbish, on its own.
**   3. Writes that no sync parts from each other reach the platter in any order.
**   4. A name, made or removed, is a write to its folder. SQLite syncs that at the first sync of a
**      journal or a WAL that it opened to create, and where a removal asks for it. Until then a new
**      file may be missing, and a removed one be there again. A folder that we made is a name, too.
**   5. A sync that failed has written some, and will not try again: the kernel calls those pages
**      clean.
**
** The -shm file is memory and is not kept here. One process has the files, all in one folder; no
** real sync is made, since the images are what counts. What was opened stays known until the
** process ends, like the counters of fault. */
#ifndef FENCEPOST_CRASH_H
#define FENCEPOST_CRASH_H

#include "base.h"

#ifdef FENCEPOST_TEST
typedef struct platter platter; /* one file; its calls are made with the lock */

void crash_lock(void);
void crash_unlock(void);
platter *crash_named(const char *path); /* NULL: none has that name now */
platter *crash_add(const char *path, bool was_there);
char *crash_image(platter *p, int64_t bytes); /* room for what was there before */
void crash_held(platter *p, int64_t at, const void *data, int64_t bytes); /* NULL: cut to `at` */
int crash_synced(platter *p, bool folder); /* a result code; may be the end of the process */
void crash_removed(const char *path);
void crash_folder_synced(void); /* the one of the files */

/* For who makes folders and moves files past SQLite: such a name is in doubt until the folder it
** stands in is synced, and until then a file that moved may be where it was. */
void crash_made(const char *folder);
void crash_moved(const char *from, const char *to); /* where nothing was */
void crash_kept(const char *folder);                /* the names in it */
void crash_synced_file(const char *path);
#else
#define crash_made(folder) ((void)0)
#define crash_moved(from, to) ((void)0)
#define crash_kept(folder) ((void)0)
#define crash_synced_file(path) ((void)0)
#endif

#endif
