/* Single durable enqueues from many threads: crowd PATH full|normal group|mutex|own THREADS EACH
**
** `group` is one handle that all share. The other two are what one writes by hand on SQLite, with a
** table and an index: one connection behind a mutex, or one for each thread and a time-out of a
** minute. Answers the nanoseconds it took; of the latencies the median, the 99th percentile and
** the worst; and how many messages of others came between two of one thread's, at the 99th
** percentile and at the worst: that is fairness, whatever the disk does. Of several processes each
** runs this on the same file, from the line on the input on.
*/
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stage.h"

typedef struct crowd {
  const char *path, *variant;
  bool normal;
  int each;
  stage stage;         /* group */
  sqlite3 *shared;     /* mutex */
  pthread_mutex_t mutex;
  int64_t *latencies;  /* of all threads */
  int64_t *between;    /* numbers that others got, before this one */
  pthread_barrier_t ready;
} crowd;

typedef struct member {
  crowd *crowd;
  int number;
} member;

static int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void run(sqlite3 *handle, const char *sql) {
  char *words = NULL;
  if (sqlite3_exec(handle, sql, NULL, NULL, &words) == SQLITE_OK) return;
  fprintf(stderr, "%s: %s\n", sql, words);
  exit(1);
}

static sqlite3 *connect(const crowd *c) {
  sqlite3 *handle = NULL;
  expect(sqlite3_open(c->path, &handle) == SQLITE_OK, "the file opens");
  (void)sqlite3_busy_timeout(handle, 60000);
  run(handle, "PRAGMA journal_mode = WAL");
  run(handle, c->normal ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL");
  run(handle, "CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY, queue TEXT NOT NULL,"
              " due INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,"
              " token INTEGER NOT NULL DEFAULT 0, body NOT NULL);"
              "CREATE INDEX IF NOT EXISTS job_due ON job (queue, due)");
  return handle;
}

static sqlite3_stmt *insert_of(sqlite3 *handle) {
  sqlite3_stmt *insert = NULL;
  const char *sql = "INSERT INTO job (queue, due, body) VALUES ('q', ?1, ?2)";
  expect(sqlite3_prepare_v2(handle, sql, -1, &insert, NULL) == SQLITE_OK, "the statement");
  return insert;
}

static int64_t by_hand(sqlite3 *handle, sqlite3_stmt *insert, const char *body) {
  run(handle, "BEGIN IMMEDIATE");
  (void)sqlite3_bind_int64(insert, 1, now_ns() / 1000);
  (void)sqlite3_bind_blob(insert, 2, body, BODY_BYTES, SQLITE_STATIC);
  expect(sqlite3_step(insert) == SQLITE_DONE, "the row is put");
  (void)sqlite3_reset(insert);
  int64_t id = sqlite3_last_insert_rowid(handle);
  run(handle, "COMMIT");
  return id;
}

static int64_t by_group(crowd *c, const char *body) {
  uint32_t bytes = BODY_BYTES;
  int64_t id;
  unsigned char created;
  fp_error err;
  fp_put put = {.queue = c->stage.queue, .count = 1, .bodies = body, .body_bytes = &bytes,
                .max_attempts = -1};
  int code;
  do code = fp_enqueue(c->stage.store, NULL, &put, &id, &created, &err); while (code == FP_AGAIN);
  if (code == FP_OK) return id;
  fprintf(stderr, "enqueue: %s\n", err.message);
  exit(1);
}

static void *work(void *argument) {
  const member *m = argument;
  crowd *c = m->crowd;
  char body[BODY_BYTES];
  memset(body, 'x', sizeof body);
  bool own = strcmp(c->variant, "own") == 0, mutex = strcmp(c->variant, "mutex") == 0;
  sqlite3 *handle = own ? connect(c) : c->shared;
  sqlite3_stmt *insert = own || mutex ? insert_of(handle) : NULL;
  (void)pthread_barrier_wait(&c->ready);
  (void)pthread_barrier_wait(&c->ready);
  for (int64_t i = 0, last = 0; i < c->each; i++) {
    int64_t begun = now_ns(), at = m->number * (int64_t)c->each + i;
    if (mutex) (void)pthread_mutex_lock(&c->mutex);
    int64_t id = insert != NULL ? by_hand(handle, insert, body) : by_group(c, body);
    if (mutex) (void)pthread_mutex_unlock(&c->mutex);
    c->latencies[at] = now_ns() - begun;
    c->between[at] = last > 0 ? id - last - 1 : 0;
    last = id;
  }
  (void)sqlite3_finalize(insert);
  if (own) (void)sqlite3_close(handle);
  return NULL;
}

static int by_size(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

int main(int count, char **texts) {
  expect(count == 6, "five words: PATH full|normal group|mutex|own THREADS EACH");
  int threads = atoi(texts[4]), all = threads * atoi(texts[5]);
  crowd c = {.path = texts[1], .normal = strcmp(texts[2], "normal") == 0, .variant = texts[3],
             .each = atoi(texts[5])};
  expect(threads > 0 && c.each > 0, "numbers");
  (void)pthread_mutex_init(&c.mutex, NULL);
  (void)pthread_barrier_init(&c.ready, NULL, (unsigned)threads + 1);
  c.latencies = calloc((size_t)all, sizeof *c.latencies);
  c.between = calloc((size_t)all, sizeof *c.between);
  pthread_t *ids = calloc((size_t)threads, sizeof *ids);
  member *members = calloc((size_t)threads, sizeof *members);
  expect(c.latencies != NULL && c.between != NULL, "there is memory");
  expect(ids != NULL && members != NULL, "there is memory");
  bool group = strcmp(c.variant, "group") == 0;
  if (group) stage_open(&c.stage, c.path, c.normal, "bulk", 1, 1);
  if (!group) c.shared = connect(&c); /* for `own`, too: its threads cannot all make the file */
  for (int i = 0; i < threads; i++) {
    members[i] = (member){&c, i};
    expect(pthread_create(&ids[i], NULL, work, &members[i]) == 0, "a thread starts");
  }
  (void)pthread_barrier_wait(&c.ready);
  printf("ready\n");
  (void)fflush(stdout);
  (void)getchar();
  int64_t begun = now_ns();
  (void)pthread_barrier_wait(&c.ready);
  for (int i = 0; i < threads; i++) (void)pthread_join(ids[i], NULL);
  int64_t took = now_ns() - begun;
  int64_t high = (int64_t)all * 99 / 100;
  qsort(c.latencies, (size_t)all, sizeof *c.latencies, by_size);
  qsort(c.between, (size_t)all, sizeof *c.between, by_size);
  printf("%lld %lld %lld %lld %lld %lld\n", (long long)took, (long long)c.latencies[all / 2],
         (long long)c.latencies[high], (long long)c.latencies[all - 1],
         (long long)c.between[high], (long long)c.between[all - 1]);
  if (group) stage_close(&c.stage);
  (void)sqlite3_close(c.shared);
  return 0;
}
