/* The exported functions of the store itself: open and close, its clock, its queues. Each checks
** what it was given, lines up, and makes one inner call. */
#include <string.h>

#include "check.h"
#include "disk.h"
#include "fault.h"
#include "group.h"
#include "guest.h"
#include "lane.h"
#include "locks.h"
#include "policy.h"

const char *fp_sqlite_version(void) { return sqlite3_libversion(); }
int32_t fp_schema_version(void) { return SCHEMA_VERSION; }

static void discard(fp_store *store) {
  registry_drop(&store->writer);
  roster_free(&store->roster);
  bell_free(&store->bell);
  group_close(store);
  places_free(&store->places);
  sys_cond_free(&store->gate);
  mem_free((void *)(uintptr_t)store->options.path);
  mem_free(store);
}

/* The WAL-index is there once somebody has read. */
static int hang_bell(fp_store *store, fp_error *err) {
  db *d = &store->reader;
  stmt s = stmt_use(&d->sql, SQL_DATA_VERSION);
  int code = stmt_end(&s, err);
  return code == FP_OK ? bell_open(&store->bell, d->handle, err) : code;
}

int fp_open(const fp_options *options, fp_store **out, fp_error *err) {
  err_clear(err);
  *out = NULL;
  fault_install();
  int why = locks_install();
  if (why != 0) return err_set(err, FP_STORAGE, "the locks cannot be set up: %s", strerror(why));
  if (sqlite3_libversion_number() < SQLITE_FLOOR) { /* a distribution's own, swapped underneath */
    return err_set(err, FP_STORAGE, "SQLite %s is too old: up to 3.51.2 a WAL reset can damage a "
                                    "file that several processes write", sqlite3_libversion());
  }
  if (options->path == NULL) return err_set(err, FP_INVALID, "the path is empty");
  size_t bytes = strlen(options->path) + 1;
  fp_store *store = mem_get((int64_t)sizeof *store);
  char *path = mem_get((int64_t)bytes);
  if (store != NULL) memset(store, 0, sizeof *store);
  if (store == NULL || path == NULL || sys_cond_init(&store->gate) != 0) {
    mem_free(path);
    mem_free(store);
    return err_memory(err);
  }
  memcpy(path, options->path, bytes);
  store->options = *options;
  store->options.path = path;
  store->generation = sys_generation();
  time_start(&store->clock, options->hand_us);

  int code = disk_make_parents(&store->options, err);
  if (code == FP_OK) code = db_open(&store->writer, &store->options, false, err);
  if (code == FP_OK) code = db_migrate(&store->writer, &store->options, &store->clock, err);
  if (code == FP_OK) code = db_open(&store->reader, &store->options, true, err);
  if (code == FP_OK) code = guest_install(store, err);
  if (code == FP_OK) registry_open(&store->writer, &store->options);
  if (code == FP_OK) code = hang_bell(store, err);
  if (code != FP_OK) {
    discard(store);
    return code;
  }
  group_install(store);
  *out = store;
  return FP_OK;
}

/* An orderly end is no death; where the row cannot go just now, it goes as a dead worker's. */
static void leave_registry(fp_store *store) {
  fp_error unused;
  err_clear(&unused);
  if (store->writer.worker != 0) {
    (void)group_run(store, NULL, "closing the store", ROW_BYTES, registry_strike, NULL, &unused);
  }
  registry_drop(&store->writer);
}

int fp_close(fp_store *store, fp_error *err) {
  err_clear(err);
  if (store->generation != sys_generation()) {
    return err_set(err, FP_FORKED, "this handle was opened before a fork: only its own process "
                                   "can close it");
  }
  int code = FP_OK;
  sys_lock(&store->gate);
  if (store->open != NULL && pthread_equal(store->open->owner, pthread_self())) {
    code = err_set(err, FP_INVALID, "this thread has a transaction open: end it before closing");
  } else {
    store->closing = true;
    sys_wake_all(&store->gate);
  }
  if (code == FP_OK) {
    sys_unlock(&store->gate);
    bell_shut(&store->bell); /* who sleeps there is a user, and has to leave first */
    sys_lock(&store->gate);
  }
  int64_t start = sys_awake_us(), left = WAIT_SLICE_MS * INT64_C(1000);
  while (code == FP_OK && store->users > 0 && left > 0) {
    sys_wait(&store->gate, left);
    left = start + WAIT_SLICE_MS * INT64_C(1000) - sys_awake_us();
  }
  if (code == FP_OK && store->users > 0) {
    code = err_set(err, FP_AGAIN, "the store cannot be closed yet: %s is under way",
                   store->writing ? store->writer_what : "a call");
  }
  bool mine = code == FP_OK && !store->closed;
  if (mine) store->users++; /* who closes it, too, waits until it is closed */
  sys_unlock(&store->gate);
  if (mine) {
    leave_registry(store);
    bell_close(&store->bell);
    group_close(store);
    sys_lock(&store->gate);
    store->closed = true;
    sys_unlock(&store->gate);
    group_leave(store);
  }
  return code;
}

void fp_free(fp_store *store) {
  if (store == NULL) return;
  /* In a forked child the connections belong to the parent: they are leaked, not closed. */
  if (store->generation != sys_generation()) return;
  discard(store);
}

static int read_now(txn *t, void *argument, fp_error *err) {
  (void)err;
  *(int64_t *)argument = t->now_us;
  return FP_OK;
}

int fp_now(fp_store *store, int64_t *now_us, fp_error *err) {
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = group_look(store, NULL, read_now, now_us, err);
  group_leave(store);
  return code;
}

typedef struct handing {
  fp_store *store;
  int64_t now_us;
} handing;

/* With the turn and the reader both, since both read the clock. */
static int move_hand(txn *t, void *argument, fp_error *err) {
  const handing *g = argument;
  if (!group_take_reader(g->store, err)) return FP_AGAIN;
  t->clock->hand_us = g->now_us;
  group_give_reader(g->store);
  return FP_OK;
}

int fp_hand(fp_store *store, int64_t now_us, fp_error *err) {
  handing g = {store, now_us};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("the moment", now_us, -1, MOMENT_US_MAX, err);
  if (code == FP_OK) code = group_run(store, NULL, "the clock's hand", 0, move_hand, &g, err);
  group_leave(store);
  return code;
}

/* ---- queues and kinds ---- */

typedef struct naming {
  span name;
  int32_t profile;
  const int64_t *policy;
  int64_t *number, *found;
} naming;

static int find_queue(txn *t, void *argument, fp_error *err) {
  naming *n = argument;
  return policy_find(t, n->name, n->number, n->found, err);
}

static int define_queue(txn *t, void *argument, fp_error *err) {
  naming *n = argument;
  const policy *p;
  bool raised;
  int code = policy_define(t, n->name, n->profile, n->policy, n->number, &raised, err);
  if (code != FP_OK || !raised) return code;
  code = db_policy(t->d, *n->number, &p, err);
  if (code == FP_OK) code = lane_widen(t, p, err);
  return code;
}

static int find_kind(txn *t, void *argument, fp_error *err) {
  naming *n = argument;
  return policy_kind(t, n->name, false, n->number, err);
}

static int make_kind(txn *t, void *argument, fp_error *err) {
  naming *n = argument;
  return policy_kind(t, n->name, true, n->number, err);
}

static int check_policy(const int64_t *f, fp_error *err) {
  static const char *const name[FP_POLICY_FIELDS] = {
      "keep", "key_window", "addressed", "listed", "max_attempts", "max_age", "lease",
      "the back-off's base", "the back-off's factor (thousandths)", "the back-off's cap",
      "the back-off's jitter (thousandths)", "lane_width", "on_dead", "on_unknown", "max_size",
      "concurrency", "rate (thousandths)", "held_until", "paused", "profile"};
  int code = FP_OK;
  for (int i = 0; code == FP_OK && i < FP_POLICY_FIELDS; i++) {
    if (f[i] == INT64_MIN) continue;
    code = check_between(name[i], f[i], policy_limits[i].low, policy_limits[i].high, err);
  }
  return code;
}

int fp_queue_find(fp_store *store, fp_tx *tx, const char *name, int32_t name_bytes,
                  int64_t *number, int64_t *policy_out, fp_error *err) {
  naming n = {.name = {name, name_bytes}, .number = number, .found = policy_out};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_name("the queue's name", n.name, NAME_BYTES_MAX, err);
  if (code == FP_OK) code = group_look(store, tx, find_queue, &n, err);
  group_leave(store);
  return code;
}

int fp_queue_define(fp_store *store, fp_tx *tx, const char *name, int32_t name_bytes,
                    int32_t profile, const int64_t *fields, int64_t *number, fp_error *err) {
  naming n = {.name = {name, name_bytes}, .profile = profile, .policy = fields, .number = number};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_name("the queue's name", n.name, NAME_BYTES_MAX, err);
  if (code == FP_OK) code = check_between("profile", profile, 0, FP_PROFILE_WAKEUP, err);
  if (code == FP_OK) code = check_policy(fields, err);
  if (code == FP_OK) code = group_run(store, tx, "defining a queue", 0, define_queue, &n, err);
  group_leave(store);
  return code;
}

int fp_queue_policy(int32_t profile, const int64_t *said, int64_t *made, fp_error *err) {
  err_clear(err);
  int code = check_between("profile", profile, 0, FP_PROFILE_WAKEUP, err);
  if (code == FP_OK) code = check_policy(said, err);
  if (code != FP_OK) return code;
  policy_defaults(profile, made);
  for (int i = 0; i < FP_POLICY_FIELDS; i++) {
    if (said[i] != INT64_MIN && i != PROFILE) made[i] = said[i];
  }
  return FP_OK;
}

typedef struct sizing {
  int64_t queue, *size;
} sizing;

static int size_of(txn *t, void *argument, fp_error *err) {
  const sizing *g = argument;
  return policy_size(t, g->queue, g->size, err);
}

int fp_size(fp_store *store, fp_tx *tx, int64_t queue, int64_t *size, fp_error *err) {
  sizing g = {queue, size};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = group_look(store, tx, size_of, &g, err);
  group_leave(store);
  return code;
}

typedef struct pausing {
  int64_t queue;
  int64_t paused;
} pausing;

static int pause_queue(txn *t, void *argument, fp_error *err) {
  const pausing *g = argument;
  return policy_set(t, g->queue, PAUSED, g->paused, err);
}

int fp_queue_pause(fp_store *store, fp_tx *tx, int64_t queue, int32_t paused, fp_error *err) {
  pausing g = {queue, paused != 0};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = group_run(store, tx, "pausing a queue", 0, pause_queue, &g, err);
  group_leave(store);
  return code;
}

int fp_kind(fp_store *store, fp_tx *tx, const char *name, int32_t name_bytes, int64_t *number,
            fp_error *err) {
  naming n = {.name = {name, name_bytes}, .number = number};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_name("the name", n.name, NAME_BYTES_MAX, err);
  if (code == FP_OK) code = group_look(store, tx, find_kind, &n, err);
  if (code == FP_OK && *number == 0) {
    code = group_run(store, tx, "naming a kind", 0, make_kind, &n, err);
  }
  group_leave(store);
  return code;
}

#ifdef FENCEPOST_TEST
#include "door.h"
#include "schema.h"

const char *fp_schema_text(void) {
  static const char *const v1[] = {SCHEMA_V1, SCHEMA_DOOR};
  static char text[65536];
  text[0] = 0;
  for (int i = 0; i < COUNT_OF(v1); i++) {
    (void)strncat(text, v1[i], sizeof text - strlen(text) - 1);
    (void)strncat(text, ";\n", sizeof text - strlen(text) - 1);
  }
  return text;
}

int64_t fp_places(fp_store *store) { return store->places.count; }

int64_t fp_sql_status(fp_store *store, int32_t op) {
  int64_t sum = 0;
  for (int i = 0; i < SQL_COUNT; i++) {
    sqlite3_stmt *both[] = {store->writer.sql.handle[i], store->reader.sql.handle[i]};
    for (int j = 0; j < 2; j++) sum += both[j] ? sqlite3_stmt_status(both[j], op, 0) : 0;
  }
  return sum;
}
#endif
