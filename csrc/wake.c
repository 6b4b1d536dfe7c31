#include "wake.h"

#include "group.h"

/* With the reader taken. */
static int read_version(fp_store *store, int64_t *version, fp_error *err) {
  stmt s = stmt_use(&store->reader.sql, SQL_DATA_VERSION);
  if (stmt_row(&s)) *version = get_i64(&s, "data_version");
  return stmt_end(&s, err);
}

int wake_version(fp_store *store, int64_t *version, fp_error *err) {
  if (!group_take_reader(store, err)) return FP_AGAIN;
  int code = read_version(store, version, err);
  group_give_reader(store);
  return code;
}

static int read_head(txn *t, void *argument, fp_error *err) {
  (void)t;
  (void)argument;
  (void)err;
  return FP_OK; /* the look itself has brought the reader's head up to date */
}

/* Has the version moved, or how long is it until then? The head that store time rests on changes
** with a commit only, so that as long as the version stands, the one read is the newest. */
static int look(fp_store *store, int64_t *version, int64_t until_us, bool *moved, int64_t *left_us,
                fp_error *err) {
  int64_t now = *version;
  if (!group_take_reader(store, err)) return FP_AGAIN;
  int code = read_version(store, &now, err);
  *left_us = until_us - time_look(&store->clock, &store->reader.head);
  group_give_reader(store);
  *moved = now != *version;
  *version = now;
  return code;
}

static int check_open(fp_store *store, fp_error *err) {
  sys_lock(&store->gate);
  bool closing = store->closing;
  sys_unlock(&store->gate);
  return closing ? err_set(err, FP_CLOSED, "the store was closed") : FP_OK;
}

int wake_wait(fp_store *store, int64_t *version, int64_t until_us, fp_error *err) {
  int64_t end = sys_awake_us() + WAIT_SLICE_MS * INT64_C(1000);
  int code = group_look(store, NULL, read_head, NULL, err);
  while (code == FP_OK) {
    bool moved;
    int64_t left_us, slice_us = end - sys_awake_us(), nap_us = WAIT_LOOK_MS * INT64_C(1000);
    code = check_open(store, err);
    if (code == FP_OK) code = look(store, version, until_us, &moved, &left_us, err);
    if (code != FP_OK || moved || left_us <= 0 || slice_us <= 0) break;
    if (left_us < nap_us) nap_us = left_us;
    if (slice_us < nap_us) nap_us = slice_us;
    sys_sleep(nap_us);
  }
  if (code == FP_AGAIN) { /* the reader was busy for a slice: that is as long as we may wait */
    err_clear(err);
    code = FP_OK;
  }
  return code;
}
