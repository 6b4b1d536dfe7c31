#define _GNU_SOURCE /* realpath under -std=c11 */
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/mount.h>
#include <sys/param.h>
#else
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif

#include "crash.h"
#include "locks.h"
#include "sys.h"

static void parent_of(const char *path, char folder[DISK_PATH_BYTES_MAX + 1]) {
  const char *slash = strrchr(path, '/');
  size_t bytes = slash == NULL ? 0 : (size_t)(slash - path);
  if (slash == NULL) {
    memcpy(folder, ".", 2);
  } else if (bytes == 0) {
    memcpy(folder, "/", 2);
  } else {
    memcpy(folder, path, bytes);
    folder[bytes] = 0;
  }
}

/* The name of a folder just made is as safe as what will be written in it. Where the one above may
** not be read it cannot be synced; SQLite goes on then, too. */
static void keep_name(const char *path) {
  char above[DISK_PATH_BYTES_MAX + 1];
  parent_of(path, above);
  int folder = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  if (fsync(folder) == 0) crash_kept(above);
  (void)close(folder);
}

int disk_make_parents(const fp_options *options, fp_error *err) {
  char path[DISK_PATH_BYTES_MAX + 1];
  size_t bytes = strlen(options->path);
  if (!options->create || bytes > DISK_PATH_BYTES_MAX) return FP_OK;
  memcpy(path, options->path, bytes + 1);
  for (size_t i = 1; i < bytes; i++) {
    if (path[i] != '/') continue;
    path[i] = 0;
    if (mkdir(path, 0700) == 0) {
      crash_made(path);
      keep_name(path);
    } else if (errno != EEXIST) {
      int why = errno; /* the look that follows has an errno of its own */
      struct stat there;
      if (stat(path, &there) != 0) {
        return err_set(err, FP_STORAGE, "the folder %s cannot be made: %s", path, strerror(why));
      }
    }
    path[i] = '/';
  }
  return FP_OK;
}

/* Names the file system if its locks cannot be trusted between processes, else NULL. */
static const char *doubtful(const char *path) {
  struct statfs where;
  if (statfs(path, &where) != 0) return NULL;
#ifdef __APPLE__
  return (where.f_flags & MNT_LOCAL) ? NULL : where.f_fstypename;
#else
  switch ((unsigned long)where.f_type & 0xffffffffUL) {
    case 0x6969UL: return "NFS";
    case 0x517BUL:
    case 0xFF534D42UL:
    case 0xFE534D42UL: return "SMB";
    case 0x65735546UL: return "FUSE";
    case 0x01021997UL: return "9p";
    default: return NULL;
  }
#endif
}

/* Is the file itself a mount point, as where a container was given one file? Device numbers do not
** tell (on overlayfs a file's differs from its folder's), so the kernel's list is read. */
static bool mounted_alone(const char *path) {
  bool alone = false;
  char real[PATH_MAX];
  FILE *mounts = realpath(path, real) == NULL ? NULL : fopen("/proc/self/mountinfo", "re");
  if (mounts == NULL) return false;
  char line[2 * PATH_MAX], point[PATH_MAX];
  while (!alone && fgets(line, (int)sizeof line, mounts) != NULL) {
    if (sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1) alone = strcmp(point, real) == 0;
  }
  (void)fclose(mounts);
  return alone;
}

int disk_check(const fp_options *options, fp_error *err) {
  const char *path = options->path;
  char folder[DISK_PATH_BYTES_MAX + 1];
  if (path == NULL || path[0] == 0) return err_set(err, FP_INVALID, "the path is empty");
  if (strlen(path) > DISK_PATH_BYTES_MAX) return err_set(err, FP_INVALID, "the path is too long");
  if (strcmp(path, ":memory:") == 0) {
    return err_set(err, FP_INVALID, "':memory:' is another database for each connection; "
                                    "a store needs a file");
  }
  parent_of(path, folder);
  const char *system = doubtful(folder);
  if (system == NULL) system = doubtful(path); /* a symbolic link may lead elsewhere */
  if (system != NULL && !options->network) {
    return err_set(err, FP_INVALID, "%s lies on %s, whose locks cannot be trusted between "
                                    "processes; network=True opens it all the same", path, system);
  }
  struct stat file;
  if (stat(path, &file) != 0) return FP_OK;
  if (S_ISDIR(file.st_mode)) return err_set(err, FP_INVALID, "%s is a folder", path);
  if (!S_ISREG(file.st_mode)) return err_set(err, FP_INVALID, "%s is not a plain file", path);
  if (file.st_nlink > 1) {
    return err_set(err, FP_INVALID, "%s has a second hard link: under another name it would have "
                                    "another WAL, and both would be damaged", path);
  }
  if (locks_mode() == LOCKS_CLASSIC && locks_strangers(path) > 0) {
    return err_set(err, FP_INVALID, "another SQLite in this process has %s open, and without locks "
                                    "of open file descriptions, which this system lacks, each "
                                    "would drop the locks of the other: close it there first, or "
                                    "use the store in a process of its own", path);
  }
  if (mounted_alone(path)) {
    return err_set(err, FP_INVALID, "%s is mounted alone: its WAL would stay outside; mount its "
                                    "folder instead", path);
  }
  return FP_OK;
}

/* ---- a file that gets its name once it is whole ---- */

static int say_why(fp_error *err, const char *path, const char *what) {
  int why = errno;
  return err_set(err, FP_STORAGE, "%s cannot be %s: %s", path, what, strerror(why));
}

int disk_make(const char *path, char made[DISK_PATH_BYTES_MAX + 1], fp_error *err) {
  uint32_t dice;
  sys_random(&dice, (int)sizeof dice);
  int bytes = snprintf(made, DISK_PATH_BYTES_MAX + 1, "%s.%08x.part", path, (unsigned)dice);
  if (bytes > DISK_PATH_BYTES_MAX) return err_set(err, FP_INVALID, "the path is too long");
  int fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return say_why(err, made, "made");
  (void)close(fd);
  return FP_OK;
}

int disk_sync(const char *path, fp_error *err) {
  int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return say_why(err, path, "opened");
#ifdef __APPLE__
  bool synced = fcntl(fd, F_FULLFSYNC) == 0 || fsync(fd) == 0;
#else
  bool synced = fsync(fd) == 0;
#endif
  if (synced) crash_synced_file(path);
  int code = synced ? FP_OK : say_why(err, path, "synced");
  (void)close(fd);
  return code;
}

/* Fails with EEXIST where the name is taken, also if that happened just now. */
static int rename_new(const char *made, const char *path) {
#ifdef __APPLE__
  int failed = renamex_np(made, path, RENAME_EXCL);
#else
  enum { NO_REPLACE = 1 };
  int failed = (int)syscall(SYS_renameat2, AT_FDCWD, made, AT_FDCWD, path, NO_REPLACE);
#endif
  if (failed == 0 || (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)) return failed;
  struct stat there; /* a file system that cannot do it in one step */
  if (lstat(path, &there) != 0) return rename(made, path);
  errno = EEXIST;
  return -1;
}

int disk_publish(const char *made, const char *path, bool over, fp_error *err) {
  if ((over ? rename(made, path) : rename_new(made, path)) != 0) {
    if (errno != EEXIST) return say_why(err, path, "put in its place");
    return err_set(err, FP_INVALID, "%s is there already, and is not replaced", path);
  }
  crash_moved(made, path);
  keep_name(path);
  return FP_OK;
}

#ifdef FENCEPOST_SYSTEM_SQLITE
/* It has its name only after we closed it: a close takes the locks of whoever else in this process
** has the file open. */
int disk_make_own(const fp_options *options, fp_error *err) {
  char made[DISK_PATH_BYTES_MAX + 1];
  if (!options->create || access(options->path, F_OK) == 0) return FP_OK;
  int code = disk_make(options->path, made, err);
  if (code != FP_OK) return code;
  code = disk_publish(made, options->path, false, err);
  if (code == FP_OK) return FP_OK;
  (void)unlink(made);
  if (code == FP_INVALID) err_clear(err); /* somebody was faster */
  return code == FP_INVALID ? FP_OK : code;
}
#endif
