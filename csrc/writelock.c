#include "writelock.h"

#include "wake.h"

/* SQLite asks, while another process, or another handle, has the lock. True: try again. */
static int wait_for_lock(void *argument, int tries) {
  fp_store *store = argument;
  int64_t left_us = store->lock_until_us - sys_awake_us();
  int64_t nap_us = tries < 4 ? INT64_C(200) << tries : LOCK_NAP_US;
  if (left_us <= 0) return 0;
  if (!store->waits) store->waits = locks_take(&store->writer.file, LOCKS_WAITING, true) == 0;
  store->in_a_row = 0;
  wake_nap(store, nap_us < left_us ? nap_us : left_us);
  return 1;
}

void writelock_install(fp_store *store) {
  (void)sqlite3_busy_handler(store->writer.handle, wait_for_lock, store);
}

static bool somebody_waits(const fp_store *store) {
  return locks_probe(&store->writer.file, LOCKS_WAITING) == 1;
}

/* Those who wait are asleep, and take a moment to come; one after the other they go first. One that
** is stopped never comes, and is waited for less and less often. */
static void give_way(fp_store *store) {
  bool came = true;
  for (int i = 0; came && i < GIVE_WAY_TO && somebody_waits(store); i++) {
    int64_t version = wake_version(store);
#ifdef FENCEPOST_TEST
    store->group_counts[4]++;
#endif
    wake_nap(store, GIVE_WAY_US);
    came = wake_version(store) != version;
  }
  if (came) store->in_vain = 0;
  if (!came && store->in_vain < GIVE_WAY_SELDOM) store->in_vain++;
}

void writelock_ask(fp_store *store, int64_t until_us) {
  store->lock_until_us = until_us;
  if (store->in_a_row < IN_A_ROW << store->in_vain) return;
  store->in_a_row = 0;
  if (sys_awake_us() - store->got_us > GIVE_WAY_US) return;
  give_way(store);
}

void writelock_asked(fp_store *store, bool got) {
  store->lock_until_us = 0;
  if (store->waits) locks_drop(&store->writer.file, LOCKS_WAITING);
  store->waits = false;
  if (!got) return;
  store->in_a_row++;
  store->got_us = sys_awake_us();
}
