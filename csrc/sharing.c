#include "sharing.h"

#include "wake.h"

/* SQLite asks, while another process, or another handle, has the lock. True: try again. */
static int wait_for_lock(void *argument, int tries) {
  fp_store *store = argument;
  int64_t left_us = store->lock_until_us - sys_awake_us();
  int64_t nap_us = tries < 2 ? INT64_C(200) << tries : LOCK_NAP_US;
  if (left_us <= 0) return 0;
  if (!store->waits) store->waits = locks_take(&store->file, LOCKS_WAITING, true) == 0;
  store->in_a_row = 0;
  wake_nap(store, nap_us < left_us ? nap_us : left_us);
  return 1;
}

void sharing_install(fp_store *store) {
  (void)locks_identify(store->options.path, &store->file);
  (void)sqlite3_busy_handler(store->writer.handle, wait_for_lock, store);
}

void sharing_ask(fp_store *store, int64_t until_us) {
  store->lock_until_us = until_us;
  if (store->in_a_row < IN_A_ROW) return;
  store->in_a_row = 0;
  if (sys_awake_us() - store->got_us > GIVE_WAY_US) return;
  if (locks_probe(&store->file, LOCKS_WAITING) == 1) sys_sleep(GIVE_WAY_US);
}

void sharing_asked(fp_store *store, bool got) {
  store->lock_until_us = 0;
  if (store->waits) locks_drop(&store->file, LOCKS_WAITING);
  store->waits = false;
  if (!got) return;
  store->in_a_row++;
  store->got_us = sys_awake_us();
}
