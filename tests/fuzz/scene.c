#define _GNU_SOURCE /* mkdtemp under -std=c11 */
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

enum { ITEMS = 6, TAKEN = 4, CLAIM_WIDTH = 16 };

const char *const scene_names[SCENE_NAMES] = {
    "a", "b", "lane", "x", "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "kid", "plain", "shelf",
    "step", "next", "bulk", "jobs", "inbox", "workflow", "kind", "daily", "whole"};

void must(int holds, const char *what, const fp_error *err) {
  if (holds) return;
  fprintf(stderr, "not so: %s", what);
  if (err != NULL) fprintf(stderr, ": code %d: %s [%s]", err->code, err->message, err->statement);
  fprintf(stderr, "\n");
  abort();
}

/* ---- messages ---- */

static int64_t define(fp_store *store, const char *name, int32_t profile, int64_t width) {
  enum { LANE_WIDTH = 11, ON_DEAD = 12, JITTER = 10 };
  int64_t policy[FP_POLICY_FIELDS], number;
  fp_error err;
  for (int i = 0; i < FP_POLICY_FIELDS; i++) policy[i] = INT64_MIN;
  policy[JITTER] = 0;
  policy[LANE_WIDTH] = width;
  policy[ON_DEAD] = 1;
  int32_t bytes = (int32_t)strlen(name);
  int code = fp_queue_define(store, NULL, name, bytes, profile, policy, &number, &err);
  must(code == FP_OK, "a queue", &err);
  return number;
}

static void put(fp_store *store, int64_t queue, int64_t kind, int64_t delay_us) {
  static const uint32_t body_bytes[ITEMS] = {4, 4, 4, 4, 4, 4};
  static const int32_t key_bytes[ITEMS] = {1, -1, 1, -1, 4, -1};
  static const int32_t lane_bytes[ITEMS] = {-1, 4, 4, 1, -1, -1};
  static const unsigned char lives[ITEMS] = {1, 1, 2, 1, 1, 1};
  int64_t ids[ITEMS];
  unsigned char created[ITEMS];
  fp_error err;
  fp_put it = {.queue = queue, .kind = kind, .count = ITEMS, .equal = FP_EQUAL_RETURN,
               .bodies = "bodybodybodybodybodybody", .body_bytes = body_bytes, .keys = "abstep",
               .key_bytes = key_bytes, .lives = lives, .lanes = "lanelanex",
               .lane_bytes = lane_bytes, .delay_us = delay_us, .max_attempts = -1};
  must(fp_enqueue(store, NULL, &it, ids, created, &err) == FP_OK, "messages", &err);
}

/* Hands out the first ones; each ends in another way. */
static void settle(fp_store *store, int64_t queue) {
  static const int64_t verbs[] = {FP_ACK, FP_FAIL, FP_RETRY, FP_BEGIN};
  static const char words[] = "resulterrorcodewordserrorcodewords";
  fp_take take = {.queue_count = 1, .limit = TAKEN, .queues = &queue, .lease_us = 30000000};
  fp_rows rows = {0};
  fp_error err;
  must(fp_step(store, NULL, NULL, &take, &rows, &err) == FP_OK, "a claim", &err);
  for (int32_t i = 0; i < rows.count; i++) {
    fp_verdict v = {.id = rows.records[i * CLAIM_WIDTH], .token = rows.records[i * CLAIM_WIDTH + 1],
                    .verb = verbs[i], .result_bytes = i == 0 ? 6 : -1,
                    .kind_bytes = i == 0 ? -1 : 5, .code_bytes = i == 0 ? -1 : 4,
                    .text_bytes = i == 0 ? -1 : 5};
    fp_settle one = {.count = 1, .verdicts = &v, .blob = i == 0 ? words : words + 6};
    int32_t answer;
    (void)fp_progress(store, NULL, v.id, "half", 4, &err);
    must(fp_settle_many(store, NULL, &one, &answer, &err) == FP_OK, "a settlement", &err);
    v.verb = FP_UNKNOWN;
    if (i == 3) must(fp_settle_many(store, NULL, &one, &answer, &err) == FP_OK, "unknown", &err);
  }
  fp_rows_free(&rows);
}

/* ---- workflows ---- */

static void start(fp_store *store, int64_t queue, int64_t kind, const char *id,
                  const fp_parent *parent) {
  fp_start it = {.queue = queue, .kind = kind, .id = id, .id_bytes = (int32_t)strlen(id),
                 .args = "{}", .args_bytes = 2, .header_bytes = -1, .max_attempts = 2,
                 .parent = parent};
  int64_t message;
  int32_t created;
  fp_error err;
  must(fp_start_run(store, NULL, &it, &message, &created, &err) == FP_OK, "a run", &err);
}

static void begin_child(fp_store *store, const char *id, int64_t token, int64_t jobs) {
  const fp_parent parent = {.id = id, .id_bytes = 2, .key = "job", .key_bytes = 3, .token = token};
  static const uint32_t body_bytes = 4;
  const fp_put put = {.queue = jobs, .count = 1, .bodies = "body", .body_bytes = &body_bytes,
                      .max_attempts = -1};
  int64_t message;
  int32_t created;
  fp_error err;
  int code = fp_start_job(store, NULL, &put, &parent, &message, &created, &err);
  must(code == FP_OK, "a child", &err);
}

/* Records, and then its end. `id` has two characters. */
static void pass(fp_store *store, const char *id, int64_t token, int64_t verb) {
  char blob[32];
  snprintf(blob, sizeof blob, "%.2sstepvalue%.2snext", id, id);
  const fp_record records[] = {{2, token, 4, FP_RECORD_STEP, 5, START_US, 0, 0},
                               {2, token, 4, FP_RECORD_SLEEP, -1, -1, 0, 0}};
  const fp_records all = {2, records, blob};
  char words[32];
  snprintf(words, sizeof words, "%.2s[]doneerrortext", id);
  const fp_end end = {.id_bytes = 2, .token = token, .verb = verb, .at_us = START_US + 5,
                      .waiting_bytes = 2, .result_bytes = 4, .kind_bytes = 5, .code_bytes = -1,
                      .text_bytes = 4};
  const fp_ends ends = {verb != 0, &end, words};
  int32_t answers[3];
  fp_rows rows = {0};
  fp_error err;
  must(fp_pass_end(store, NULL, &all, answers, &rows, &ends, answers + 2, &err) == FP_OK, "a pass",
       &err);
  fp_rows_free(&rows);
}

static void come(fp_store *store, const char *id, int64_t queue) {
  const fp_outside it = {.id = id, .id_bytes = (int32_t)strlen(id), .value = "value",
                         .value_bytes = 5, .key = queue > 0 ? NULL : "sent",
                         .key_bytes = queue > 0 ? 0 : 4, .wake = 1, .queue = queue};
  fp_rows rows = {0};
  fp_error err;
  must(fp_outside_put(store, NULL, &it, &rows, &err) == FP_OK, "a signal", &err);
  fp_rows_free(&rows);
}

/* A run in each state, a family, an inbox, and a workflow without a run. */
static void furnish_flow(fp_store *store, int64_t queue, int64_t jobs, int64_t kind) {
  static const int64_t verbs[] = {FP_END_DONE, FP_END_FAIL, FP_END_PARK, FP_END_SLEEP, FP_END_WAIT,
                                  0, FP_END_WAIT};
  enum { RUNS = 8 };
  int64_t token;
  fp_error err;
  for (int i = 0; i < RUNS; i++) start(store, queue, kind, scene_names[4 + i], NULL);
  fp_take take = {.queue_count = 1, .limit = RUNS - 1, .queues = &queue, .lease_us = 30000000};
  fp_rows rows = {0};
  must(fp_step(store, NULL, NULL, &take, &rows, &err) == FP_OK, "passes", &err);
  must(rows.count == RUNS - 1, "all runs are due", NULL);
  int64_t held = rows.records[5 * CLAIM_WIDTH + 1];
  const fp_parent parent = {.id = "r5", .id_bytes = 2, .key = "kid", .key_bytes = 3, .token = held};
  start(store, queue, kind, "kid", &parent);
  begin_child(store, "r5", held, jobs);
  for (int32_t i = 0; i < rows.count; i++) {
    pass(store, scene_names[4 + i], rows.records[i * CLAIM_WIDTH + 1], verbs[i]);
  }
  fp_rows_free(&rows);
  come(store, "r6", 0);
  come(store, "plain", queue);
  int code = fp_pass_claim(store, "plain", 5, 10, 10, &token, &err);
  must(code == FP_OK, "a pass without a run", &err);
}

/* ---- all of it ---- */

static void furnish_rest(fp_store *store, int64_t kind) {
  fp_error err;
  static const int32_t key_bytes[] = {1, 1};
  static const uint32_t value_bytes[] = {4, 0};
  const fp_load load = {.id = "shelf", .id_bytes = 5, .count = 2, .keys = "ab", .values = "book",
                        .key_bytes = key_bytes, .value_bytes = value_bytes};
  must(fp_shelf_put(store, NULL, &load, &err) == FP_OK, "a shelf", &err);
  const fp_schedule daily = {.kind = kind, .last_fired_us = START_US, .running = 3, .name = "daily",
                             .expression = "0 0 * * *", .zone = "UTC", .name_bytes = 5,
                             .expression_bytes = 9, .zone_bytes = 3};
  must(fp_schedule_keep(store, NULL, &daily, &err) == FP_OK, "a schedule", &err);
}

static void furnish(fp_store *store) {
  static const struct {
    const char *name;
    int32_t profile;
  } queues[] = {{"bulk", FP_PROFILE_QUEUE}, {"jobs", FP_PROFILE_JOB}, {"outbox", FP_PROFILE_OUTBOX},
                {"inbox", FP_PROFILE_INBOX}, {"wake", FP_PROFILE_WAKEUP}};
  int64_t kind;
  fp_error err;
  must(fp_kind(store, NULL, "kind", 4, &kind, &err) == FP_OK, "a kind", &err);
  for (int i = 0; i < 5; i++) {
    int64_t queue = define(store, queues[i].name, queues[i].profile, 1);
    put(store, queue, 0, 0);
    put(store, queue, kind, DAY_US);
    settle(store, queue);
  }
  furnish_flow(store, define(store, "workflow", FP_PROFILE_WAKEUP, 1), 2, kind);
  int64_t whole = define(store, "whole", FP_PROFILE_JOB, 1);
  must(whole == SCENE_WHOLE, "the number of that queue", NULL);
  put(store, whole, 0, DAY_US);
  furnish_rest(store, kind);
}

/* What comes later has numbers that no small one in an input meets. And the door goes, which
** nobody here passes through: to read its triggers is half of what it takes to open the file. */
static void adapt(const char *path) {
  sqlite3 *db;
  char sql[200];
  snprintf(sql, sizeof sql, "UPDATE fencepost_tally SET last = %d WHERE queue = 0;"
           "PRAGMA writable_schema = 1;"
           "DELETE FROM sqlite_schema WHERE type IN ('view', 'trigger');"
           "VACUUM", SCENE_COUNTER);
  must(sqlite3_open(path, &db) == SQLITE_OK, "the file", NULL);
  must(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "a file for the fuzzer", NULL);
  must(sqlite3_close(db) == SQLITE_OK, "it is closed", NULL);
}

static scene made;

static void remove_files(void) {
  const char *const paths[] = {made.path, made.copy, made.second};
  const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 4; j++) {
      char name[160];
      snprintf(name, sizeof name, "%s%s", paths[i], suffixes[j]);
      (void)unlink(name);
    }
  }
}

static void remove_folder(void) {
  remove_files();
  *strrchr(made.path, '/') = 0;
  (void)rmdir(made.path);
}

int scene_open(const scene *s, int64_t hand_us, fp_store **store, fp_error *err) {
  fp_options options = {.path = s->path, .create = s->bytes == 0, .wal = 1, .foreign_keys = 1,
                        .normal = FP_UNSYNCED, .hand_us = hand_us};
  return fp_open(&options, store, err);
}

void scene_write(const scene *s, const unsigned char *image, int64_t bytes) {
  remove_files();
  FILE *file = fopen(s->path, "we");
  must(file != NULL && fwrite(image, 1, (size_t)bytes, file) == (size_t)bytes, "a file", NULL);
  must(fclose(file) == 0, "a file", NULL);
}

void scene_read(const scene *s, unsigned char **image, int64_t *bytes) {
  FILE *file = fopen(s->path, "re");
  must(file != NULL && fseek(file, 0, SEEK_END) == 0, "the file", NULL);
  *bytes = ftell(file);
  rewind(file);
  *image = malloc((size_t)*bytes);
  must(*image != NULL && fread(*image, 1, (size_t)*bytes, file) == (size_t)*bytes, "all of it",
       NULL);
  (void)fclose(file);
}

const scene *scene_made(void) {
  const char *const places[] = {getenv("TMPDIR"), "/dev/shm", "/tmp"};
  if (made.bytes > 0) return &made;
  for (int i = 0; made.path[0] == 0 && i < 3; i++) {
    char folder[96];
    if (places[i] == NULL || strlen(places[i]) > 64) continue;
    snprintf(folder, sizeof folder, "%s/fuzz-XXXXXX", places[i]);
    if (mkdtemp(folder) == NULL) continue;
    snprintf(made.path, sizeof made.path, "%s/store.db", folder);
    snprintf(made.copy, sizeof made.copy, "%s/copy.db", folder);
    snprintf(made.second, sizeof made.second, "%s/second.db", folder);
  }
  must(made.path[0] != 0, "a place for the files: TMPDIR is one that can be written", NULL);
  (void)atexit(remove_folder);

  fp_fault_bell(2); /* no thread that listens: an input is one thread's */
  (void)sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0); /* its pool would hide what reads too far */
  fp_store *store;
  fp_error err;
  must(scene_open(&made, START_US, &store, &err) == FP_OK, "a store", &err);
  fp_look_no_more(store);
  furnish(store);
  must(fp_close(store, &err) == FP_OK, "closed", &err);
  fp_free(store);
  adapt(made.path);
  scene_read(&made, &made.image, &made.bytes);
  return &made;
}
