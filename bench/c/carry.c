/* Messages in, and out again, in pure C: carry PATH full|normal BODIES
**
** BODIES is a file: a number of messages, the length of each (uint32), and their bytes. Each line
** on the input is one order, `enqueue BATCH` or `carry BATCH` (claim and ack, two commits a batch),
** over all of them; its answer is the nanoseconds it took, those of them on the CPU, and how many
** bodies came out in the order in which they went in.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stage.h"

typedef struct load {
  uint32_t count;
  uint32_t *lengths;
  char *bytes;
  int64_t *starts; /* of body i in bytes; one more than there are */
} load;

static load read_load(const char *path) {
  load l = {0};
  FILE *file = fopen(path, "rb");
  expect(file != NULL && fread(&l.count, sizeof l.count, 1, file) == 1, "the bodies are there");
  l.lengths = calloc(l.count, sizeof *l.lengths);
  l.starts = calloc((size_t)l.count + 1, sizeof *l.starts);
  expect(l.lengths != NULL && l.starts != NULL, "there is memory");
  expect(fread(l.lengths, sizeof *l.lengths, l.count, file) == l.count, "lengths");
  for (uint32_t i = 0; i < l.count; i++) l.starts[i + 1] = l.starts[i] + l.lengths[i];
  l.bytes = malloc((size_t)l.starts[l.count] + 1);
  expect(l.bytes != NULL, "there is memory");
  expect(fread(l.bytes, 1, (size_t)l.starts[l.count], file) == (size_t)l.starts[l.count], "bytes");
  (void)fclose(file);
  return l;
}

static int64_t clock_ns(clockid_t which) {
  struct timespec now;
  (void)clock_gettime(which, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint32_t enqueue(stage *s, const load *l, int32_t batch) {
  for (uint32_t at = 0; at < l->count; at += (uint32_t)batch) {
    uint32_t left = l->count - at;
    fp_put put = {.queue = s->queue, .count = left < (uint32_t)batch ? (int32_t)left : batch,
                  .bodies = l->bytes + l->starts[at], .body_bytes = l->lengths + at,
                  .max_attempts = -1};
    must(s, fp_enqueue(s->store, NULL, &put, s->ids, s->created, &s->err), "enqueue");
  }
  return l->count;
}

/* How many rows carry the next bodies of the load. */
static uint32_t in_order(const load *l, uint32_t at, const fp_rows *rows) {
  enum { BODY = 15 };
  const char *body = rows->blob;
  uint32_t same = 0;
  for (int32_t i = 0; i < rows->count && at + (uint32_t)i < l->count; i++) {
    int64_t bytes = rows->records[i * CLAIM_RECORD + BODY];
    const char *sent = l->bytes + l->starts[at + (uint32_t)i];
    if (bytes == l->lengths[at + (uint32_t)i] && memcmp(body, sent, (size_t)bytes) == 0) same++;
    body += bytes;
  }
  return same;
}

static uint32_t carry(stage *s, const load *l, int32_t batch) {
  uint32_t at = 0, same = 0;
  for (;;) {
    fp_take take = {.queue_count = 1, .queues = &s->queue, .limit = batch};
    fp_rows rows;
    must(s, fp_step(s->store, NULL, NULL, &take, &rows, &s->err), "claim");
    for (int32_t i = 0; i < rows.count; i++) {
      memcpy(&s->pairs[2 * i], &rows.records[i * CLAIM_RECORD], 2 * sizeof *s->pairs);
    }
    same += in_order(l, at, &rows);
    at += (uint32_t)rows.count;
    fp_settle settle = {.count = rows.count, .claims = s->pairs};
    bool none = rows.count == 0;
    fp_rows_free(&rows);
    if (none) return same;
    must(s, fp_settle_many(s->store, NULL, &settle, s->answers, &s->err), "ack");
  }
}

int main(int count, char **texts) {
  expect(count == 4, "carry PATH full|normal BODIES");
  load l = read_load(texts[3]);
  stage s;
  stage_open(&s, texts[1], strcmp(texts[2], "normal") == 0, "bulk", (int32_t)l.count, l.count);
  char order[16];
  int batch;
  while (scanf("%15s %d", order, &batch) == 2) {
    int64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint32_t done = strcmp(order, "enqueue") == 0 ? enqueue(&s, &l, batch) : carry(&s, &l, batch);
    wall = clock_ns(CLOCK_MONOTONIC) - wall;
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%lld %lld %u\n", (long long)wall, (long long)cpu, done);
    (void)fflush(stdout);
  }
  stage_close(&s);
  free(l.lengths);
  free(l.starts);
  free(l.bytes);
  return 0;
}
