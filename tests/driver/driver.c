/* The core without Python: threads that produce, consume, look, keep house and write their own
** rows, over two handles on one file, then the books are closed and compared; at last a handle is
** closed by two threads while others are at work on it.
**
** Before that, the lock shim by itself (shim.c).
**
** It exists for ThreadSanitizer and for leaks, which say little in a process that Python shares.
** Every message must be settled exactly once, the check must find nothing, and when both handles
** are freed no allocation of ours may be left.
*/
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fencepost.h"
#include "shim.h"

enum {
  PRODUCERS = 8,
  CONSUMERS = 3,
  MESSAGES = 200, /* by each producer */
  BATCH = 2,
  TAKEN_MAX = 16,
  RECORD = 16 /* int64 values of a claim */
};

static fp_store *stores[2];
static int64_t queue;
static atomic_int settled;
static atomic_int wrote;
static fp_keeper *keeper; /* of the first handle */

static void check(int code, const fp_error *err, const char *what) {
  if (code == FP_OK) return;
  fprintf(stderr, "%s: code %d: %s [%s, sqlite %d]\n", what, code, err->message, err->statement,
          err->sqlite_code);
  exit(1);
}

void expect(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}

/* Both answers mean that nothing was done. */
static int again(int code) { return code == FP_AGAIN || code == FP_BUSY; }

static void *produce(void *argument) {
  fp_store *store = argument;
  char bodies[BATCH];
  uint32_t body_bytes[BATCH];
  memset(bodies, 'x', sizeof bodies);
  for (int i = 0; i < BATCH; i++) body_bytes[i] = 1;
  fp_put put = {.queue = queue, .count = BATCH, .bodies = bodies, .body_bytes = body_bytes,
                .life = FP_LIFE_NONE, .max_attempts = -1};

  for (int sent = 0; sent < MESSAGES; sent += BATCH) {
    int64_t ids[BATCH];
    unsigned char created[BATCH];
    fp_error err;
    int code;
    do code = fp_enqueue(store, NULL, &put, ids, created, &err); while (again(code));
    check(code, &err, "enqueue");
    for (int i = 0; i < BATCH; i++) expect(created[i] && ids[i] > 0, "each message is new");
  }
  return NULL;
}

static void settle(fp_store *store, const fp_rows *claims) {
  int64_t pairs[2 * TAKEN_MAX];
  int32_t answers[TAKEN_MAX];
  fp_settle acks = {.count = claims->count, .claims = pairs};
  fp_error err;
  int code;
  for (int i = 0; i < claims->count; i++) {
    int64_t id = claims->records[(int64_t)i * claims->width];
    int64_t token = claims->records[(int64_t)i * claims->width + 1];
    pairs[2 * i] = id;
    pairs[2 * i + 1] = token;
    if (store != stores[0]) continue;
    int64_t held[] = {id, token, 60000000, 0};
    check(fp_keeper_hold(keeper, 1, held, &err), &err, "hold");
  }
  usleep(3000); /* a beat, now and then */
  for (int i = 0; store == stores[0] && i < claims->count; i++) {
    expect(!fp_keeper_lost(keeper, pairs[2 * i], pairs[2 * i + 1]), "a held claim is not lost");
    fp_keeper_drop(keeper, 1, &pairs[2 * i]);
  }
  do code = fp_settle_many(store, NULL, &acks, answers, &err); while (again(code));
  check(code, &err, "settle");
  for (int i = 0; i < claims->count; i++) expect(answers[i] == FP_DONE, "each ack is the first");
  atomic_fetch_add(&settled, claims->count);
}

static void *consume(void *argument) {
  fp_store *store = argument;
  while (atomic_load(&settled) < PRODUCERS * MESSAGES) {
    int64_t now_us = 0;
    fp_error err;
    int code = fp_now(store, &now_us, &err);
    if (again(code)) continue;
    check(code, &err, "now");

    fp_take take = {.queue_count = 1, .limit = TAKEN_MAX, .queues = &queue,
                    .lease_us = 60000000, .until_us = now_us + 20000,
                    .nudges = fp_nudges(store)};
    fp_rows claims = {0};
    code = fp_step(store, NULL, NULL, &take, &claims, &err);
    if (!again(code)) {
      check(code, &err, "claim");
      expect(claims.count == 0 || claims.width == RECORD, "a claim is a record of 16");
      if (claims.count > 0) settle(store, &claims);
    }
    fp_rows_free(&claims);
  }
  return NULL;
}

/* The application's own rows, in transactions that wait in the same line as everyone. */
static void run_sql(fp_tx *tx, const char *sql) {
  fp_guest *guest = NULL;
  fp_error err;
  check(fp_guest_open(tx, sql, (int64_t)strlen(sql), &guest, &err), &err, sql);
  fp_rows rows = {0};
  int64_t changed = 0;
  int64_t last_rowid = 0;
  check(fp_guest_run(guest, 1, NULL, 0, &rows, &changed, &last_rowid, &err), &err, sql);
  fp_rows_free(&rows);
  fp_guest_close(guest);
}

static void *write_own(void *argument) {
  fp_store *store = argument;
  for (int i = 0; i < 40; i++) {
    fp_tx *tx = NULL;
    fp_error err;
    int code;
    do code = fp_tx_begin(store, &tx, &err); while (again(code));
    check(code, &err, "begin");
    run_sql(tx, "CREATE TABLE IF NOT EXISTS own (n INTEGER)");
    run_sql(tx, "INSERT INTO own VALUES (1)");
    check(fp_tx_end(tx, i % 2, &err), &err, "end");
    atomic_fetch_add(&wrote, i % 2);
  }
  return NULL;
}

static void *look(void *argument) {
  fp_store *store = argument;
  while (atomic_load(&settled) < PRODUCERS * MESSAGES) {
    fp_rows rows = {0};
    fp_error err;
    int code = fp_stats(store, &rows, &err);
    if (!again(code)) check(code, &err, "stats");
    fp_rows_free(&rows);
    usleep(2000);
  }
  return NULL;
}

/* What a worker and an operator do in between. */
static void *keep_house(void *argument) {
  fp_store *store = argument;
  int64_t version = 0, purged, next[3];
  for (int64_t id = 1; atomic_load(&settled) < PRODUCERS * MESSAGES; id += 7) {
    fp_rows row = {0}, page = {0}, names = {0};
    fp_filter filter = {.state = FP_LEASED, .limit = 5, .since_us = INT64_MIN,
                        .before_us = INT64_MAX, .lane_bytes = -1};
    int32_t more;
    fp_error err;
    int code = fp_get(store, NULL, id, &row, &err); /* of a bulk queue: the handle's own places */
    if (!again(code) && code != FP_INVALID) check(code, &err, "get");
    code = fp_list(store, &filter, &page, next, &more, &err);
    if (!again(code)) check(code, &err, "list");
    code = fp_kinds(store, &names, &err);
    if (!again(code)) check(code, &err, "kinds");
    code = fp_retain(store, 10, &purged, &more, &err);
    if (!again(code)) check(code, &err, "retain");
    code = fp_purge(store, 0, FP_DONE_UNLISTED, 1, 10, 1, &purged, &err);
    if (!again(code)) check(code, &err, "purge");
    code = fp_wait(store, id % 2 * queue, &version, INT64_MAX, &err);
    if (!again(code)) check(code, &err, "wait");
    fp_nudge(store);
    fp_rows_free(&row);
    fp_rows_free(&page);
    fp_rows_free(&names);
  }
  return NULL;
}

/* Goes on until the handle is closed under it. */
static void *never_stop(void *argument) {
  fp_store *store = argument;
  int code = FP_OK;
  for (int i = 0; code != FP_CLOSED; i++) {
    uint32_t body_bytes = 1;
    int64_t id, version = 0;
    unsigned char created;
    fp_put put = {.queue = queue, .count = 1, .bodies = "x", .body_bytes = &body_bytes,
                  .max_attempts = -1};
    fp_error err;
    code = i % 2 ? fp_enqueue(store, NULL, &put, &id, &created, &err)
                 : fp_wait(store, queue, &version, 0, &err);
    if (!again(code) && code != FP_CLOSED) check(code, &err, "work on a handle");
  }
  return NULL;
}

static void *close_it(void *argument) {
  fp_store *store = argument;
  fp_error err;
  int code;
  do code = fp_close(store, &err); while (again(code));
  check(code, &err, "close");
  int64_t now_us;
  expect(fp_now(store, &now_us, &err) == FP_CLOSED, "what is closed is closed for all");
  return NULL;
}

static void close_at_work(fp_store *store) {
  pthread_t threads[5];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, never_stop, store);
  usleep(20000);
  for (int i = 3; i < 5; i++) pthread_create(&threads[i], NULL, close_it, store);
  for (int i = 0; i < 5; i++) pthread_join(threads[i], NULL);
}

static fp_store *opened(const char *path) {
  fp_options options = {.path = path, .create = 1, .wal = 1, .network = 1, .normal = 1,
                        .hand_us = -1};
  fp_store *store = NULL;
  fp_error err;
  int code;
  do code = fp_open(&options, &store, &err); while (again(code));
  check(code, &err, "open");
  return store;
}

static void define(void) {
  int64_t policy[FP_POLICY_FIELDS];
  fp_error err;
  for (int i = 0; i < FP_POLICY_FIELDS; i++) policy[i] = INT64_MIN;
  check(fp_queue_define(stores[0], NULL, "driven", 6, FP_PROFILE_QUEUE, policy, &queue, &err),
        &err, "define");
}

static void audit(void) {
  fp_rows rows = {0};
  fp_error err;
  int code;
  do code = fp_check(stores[0], 1, &rows, &err); while (again(code));
  check(code, &err, "check");
  expect(rows.count == 0, "the check finds nothing");
  fp_rows_free(&rows);
  expect(atomic_load(&settled) == PRODUCERS * MESSAGES, "each message is settled once");
}

int main(void) {
  char folder[] = "fencepost-driver-XXXXXX";
  char path[64];
  expect(mkdtemp(folder) != NULL, "a folder can be made");
  drive_shim(folder);
  snprintf(path, sizeof path, "%s/store.db", folder);
  for (int i = 0; i < 2; i++) stores[i] = opened(path);
  define();

  fp_error err;
  check(fp_keeper_start(stores[0], 5000, &keeper, &err), &err, "keeper");

  pthread_t threads[PRODUCERS + CONSUMERS + 5];
  int count = 0;
  for (int i = 0; i < PRODUCERS; i++) {
    pthread_create(&threads[count++], NULL, produce, stores[i % 2]);
  }
  for (int i = 0; i < CONSUMERS; i++) {
    pthread_create(&threads[count++], NULL, consume, stores[i % 2]);
  }
  pthread_create(&threads[count++], NULL, look, stores[0]);
  pthread_create(&threads[count++], NULL, look, stores[1]);
  pthread_create(&threads[count++], NULL, write_own, stores[0]);
  for (int i = 0; i < 2; i++) pthread_create(&threads[count++], NULL, keep_house, stores[i]);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);

  audit();
  fp_keeper_stop(keeper);
  close_at_work(stores[1]);
  for (int i = 0; i < 2; i++) {
    check(fp_close(stores[i], &err), &err, "close");
    check(fp_close(stores[i], &err), &err, "close again");
    fp_free(stores[i]);
  }
  expect(fp_memory_live() == 0, "no allocation of ours is left");

  const char *suffixes[] = {"", "-wal", "-shm"};
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/store.db%s", folder, suffixes[i]);
    unlink(path);
  }
  expect(rmdir(folder) == 0, "the store left no other file behind");
  printf("%d messages settled, %d transactions of the application: 1 passed, 0 failed\n",
         atomic_load(&settled), atomic_load(&wrote));
  return 0;
}
