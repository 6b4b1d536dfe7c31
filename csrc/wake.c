#include "wake.h"

enum { HAND_US = 10000 }; /* how late a turn of the clock's hand may be noticed */

int64_t wake_version(const fp_store *store) { return bell_version(&store->bell); }
void wake_found(fp_store *store) { bell_found(&store->bell); }
void wake_ring(fp_store *store, uint32_t bits) { bell_ring(&store->bell, bits | BELL_ANY); }
void wake_nap(fp_store *store, int64_t span_us) { bell_nap(&store->bell, WAKE_LOCK, span_us); }

static int check_open(fp_store *store, fp_error *err) {
  sys_lock(&store->gate);
  bool closing = store->closing;
  sys_unlock(&store->gate);
  return closing ? err_set(err, FP_CLOSED, "the store was closed") : FP_OK;
}

int wake_wait(fp_store *store, int64_t version, waiting *w, fp_error *err) {
  int64_t span_us = w->span_us, most_us = WAIT_SLICE_MS * INT64_C(1000);
  if (store->clock.hand_us >= 0) most_us = HAND_US;
  if (span_us > most_us) span_us = most_us;
  int why = bell_sleep(&store->bell, version, w->bits, w->nudges, sys_awake_us() + span_us);
  w->back = why == BELL_SIGNAL || why == BELL_NUDGED;
  return check_open(store, err);
}
