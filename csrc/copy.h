/* Copies of a store's file: a backup while it is in use, and the way back from one.
**
**   1. A copy is one moment of the file, whole, on the disk, and only then has it its name: whoever
**      finds the name finds all of it. Until then it is a file of ours that nobody else can read.
**   2. Nothing that is there is replaced unless that was asked for; and nothing at all where a
**      -wal, -shm or -journal stands, which SQLite would take for the copy's own.
**   3. In a file that was brought back no claim from before opens anything: the counter is raised
**      past all that may have been drawn since, and leased messages have a token that nobody holds.
*/
#ifndef FENCEPOST_COPY_H
#define FENCEPOST_COPY_H

#include "db.h"

/* One step over all pages, on a connection of its own: no commit makes it begin anew, and it holds
** up nobody but the checkpoint. FP_INVALID: `path` is taken, or is the file itself. */
int copy_backup(const fp_options *from, const char *path, bool over, fp_error *err);
/* FP_INVALID: `path` is taken, or `backup` is no store; FP_STORAGE: it is damaged; FP_NEWER. */
int copy_restore(const char *backup, const char *path, fp_error *err);
/* Is there no -wal beside it, so that it may be read as a file that nobody writes? */
bool copy_is_alone(const char *path);

#endif
