/* Where the file lies: its folders, and what must be refused because its locks or its side files
** could not be trusted there. */
#ifndef FENCEPOST_DISK_H
#define FENCEPOST_DISK_H

#include "err.h"

enum { DISK_PATH_BYTES_MAX = 4000 };

/* Makes missing parent folders (0700) when options->create. */
int disk_make_parents(const fp_options *options, fp_error *err);
/* FP_INVALID: no path, ":memory:", a folder, a second hard link, a file mounted alone, or (unless
** options->network) a network or user-space file system. A missing file is fine. */
int disk_check(const fp_options *options, fp_error *err);
/* A file of ours that nobody else can have opened, 0600, under a name made of `path`. */
int disk_make(const char *path, char made[DISK_PATH_BYTES_MAX + 1], fp_error *err);
/* What was written to it is on the disk. */
int disk_sync(const char *path, fp_error *err);
/* Gives it the name `path`. Unless `over`, FP_INVALID where there is something of that name. */
int disk_publish(const char *made, const char *path, bool over, fp_error *err);
#ifdef FENCEPOST_SYSTEM_SQLITE
/* A missing file, 0600, when options->create: the system's SQLite would let everybody read it. */
int disk_make_own(const fp_options *options, fp_error *err);
#endif

#endif
