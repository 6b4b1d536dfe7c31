/* The exported functions that are about the file as a whole: its backup, the way back, and a look
** at it from outside, without opening it as a store. */
#include <sys/stat.h>

#include "check.h"
#include "copy.h"
#include "fault.h"
#include "gauge.h"
#include "group.h"

static int nothing(txn *t, void *argument, fp_error *err) {
  (void)t;
  (void)argument;
  (void)err;
  return FP_OK;
}

int fp_backup(fp_store *store, const char *path, int32_t over, fp_error *err) {
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = group_look(store, NULL, nothing, NULL, err); /* is the file still where it was? */
  if (code == FP_OK) code = copy_backup(&store->options, path, over != 0, err);
  group_leave(store);
  return code;
}

/* Before the first file is opened in this process. */
static int set_up(fp_error *err) {
  err_clear(err);
  fault_install();
  int why = locks_install();
  if (why != 0) return err_set(err, FP_STORAGE, "the locks cannot be set up: errno %d", why);
  return FP_OK;
}

int fp_restore(const char *backup, const char *path, fp_error *err) {
  int code = set_up(err);
  return code == FP_OK ? copy_restore(backup, path, err) : code;
}

enum { STATS_WIDTH = 14 };

static int look(db *d, int64_t at_us, int64_t *now_us, pack *rows, fp_error *err) {
  store_clock clock;
  txn t = {.d = d, .clock = &clock};
  time_start(&clock, -1);
  stmt s = stmt_use(&d->sql, SQL_LOOK);
  int code = stmt_end(&s, err);
  if (code == FP_OK) code = db_refresh(d, err);
  if (code != FP_OK) return code;
  *now_us = t.now_us = at_us >= 0 ? at_us : time_look(&clock, &d->head);
  return gauge_stats(&t, rows, err);
}

#ifdef __APPLE__
#define CHANGED_NS(at) ((at).st_ctimespec.tv_nsec)
#else
#define CHANGED_NS(at) ((at).st_ctim.tv_nsec)
#endif

/* A file that nobody wrote to has the same look before and after. */
static bool is_as_before(const char *path, const struct stat *before) {
  struct stat now;
  return stat(path, &now) == 0 && copy_is_alone(path) && now.st_ino == before->st_ino &&
         now.st_size == before->st_size && now.st_ctime == before->st_ctime &&
         CHANGED_NS(now) == CHANGED_NS(*before);
}

int fp_status(const char *path, int64_t at_us, int64_t *now_us, fp_rows *rows, fp_error *err) {
  pack found = pack_of(STATS_WIDTH);
  struct stat before;
  bool alone;
  *rows = (fp_rows){0};
  int code = set_up(err);
  if (code == FP_OK) code = check_between("at", at_us, -1, MOMENT_US_MAX, err);
  if (code != FP_OK) return code;
  do {
    db d;
    err_clear(err);
    pack_clear(&found);
    alone = copy_is_alone(path) && stat(path, &before) == 0;
    code = db_open_still(&d, path, alone, err);
    if (code != FP_OK) continue;
    code = look(&d, at_us, now_us, &found, err);
    db_close(&d);
  } while (alone && !is_as_before(path, &before)); /* somebody came: it is not alone any more */
  return pack_take(&found, code, rows, err);
}
