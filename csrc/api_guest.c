/* The exported functions of the caller's own SQL, and of the keeper. */
#include "check.h"
#include "group.h"
#include "guest.h"
#include "keeper.h"

/* ---- the caller's own SQL: it has the turn already ---- */

int fp_guest_open(fp_tx *tx, const char *sql, int64_t sql_bytes, fp_guest **guest, fp_error *err) {
  *guest = NULL;
  fp_store *store = tx->store;
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = guest_open(tx, (span){sql, sql_bytes}, guest, err);
  group_leave(store);
  return code;
}

int fp_guest_run(fp_guest *guest, int32_t sets, const char *params, int64_t params_bytes,
                 fp_rows *rows, int64_t *changed, int64_t *last_rowid, fp_error *err) {
  *rows = (fp_rows){0};
  *changed = *last_rowid = 0;
  fp_tx *tx = guest_tx(guest);
  err_clear(err);
  if (tx == NULL) return err_set(err, FP_INVALID, "the transaction is over");
  fp_store *store = tx->store;
  pack values = pack_of(0);
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = guest_run(guest, sets, (span){params, params_bytes}, &values, changed, last_rowid, err);
  code = pack_take(&values, code, rows, err);
  if (code == FP_OK) {
    rows->width = guest_columns(guest);
  } else {
    *changed = *last_rowid = 0;
  }
  group_leave(store);
  return code;
}

void fp_guest_close(fp_guest *guest) {
  if (guest != NULL) guest_close(guest);
}

/* ---- the keeper ---- */

int fp_keeper_start(fp_store *store, int64_t beat_us, fp_keeper **keeper, fp_error *err) {
  *keeper = NULL;
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("the beat (microseconds)", beat_us, 1000, SPAN_US_MAX, err);
  if (code == FP_OK) code = keeper_start(store, beat_us, keeper, err);
  group_leave(store);
  return code;
}

int fp_keeper_hold(fp_keeper *keeper, int32_t count, const int64_t *claims, fp_error *err) {
  err_clear(err);
  if (keeper == NULL) return err_set(err, FP_CLOSED, "the keeper is stopped");
  int code = check_between("count", count, 0, BATCH_MAX, err);
  for (int32_t i = 0; code == FP_OK && i < count; i++) {
    int64_t lease_us = claims[(int64_t)i * KEEPER_WIDTH + 2];
    code = check_between("lease (microseconds)", lease_us, 0, SPAN_US_MAX, err);
  }
  if (code == FP_OK) code = keeper_hold(keeper, count, claims, err);
  return code;
}

void fp_keeper_drop(fp_keeper *keeper, int32_t count, const int64_t *claims) {
  if (keeper != NULL) keeper_drop(keeper, count, claims);
}

int fp_keeper_lost(fp_keeper *keeper, int64_t id, int64_t token) {
  return keeper == NULL || keeper_lost(keeper, id, token);
}

void fp_keeper_stop(fp_keeper *keeper) {
  if (keeper != NULL) keeper_stop(keeper);
}
