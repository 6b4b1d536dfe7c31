#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1000, KEEP = 0, ADDRESSED = 2, LISTED = 3 };
#define DAY_US (INT64_C(86400) * 1000000)

void must(stage *s, int code, const char *what) {
  if (code == FP_OK) return;
  fprintf(stderr, "%s: code %d: %s [%s, sqlite %d]\n", what, code, s->err.message,
          s->err.statement, s->err.sqlite_code);
  exit(1);
}

void expect(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}

static void *room(int64_t count, size_t bytes) {
  void *memory = calloc((size_t)count + 1, bytes);
  expect(memory != NULL, "there is memory");
  return memory;
}

int64_t stage_queue(stage *s, const char *name, const char *profile) {
  int64_t policy[FP_POLICY_FIELDS], number;
  bool job = strcmp(profile, "job") == 0, kept = strcmp(profile, "kept") == 0;
  expect(job || kept || strcmp(profile, "bulk") == 0, "the profile is bulk, kept or job");
  for (int i = 0; i < FP_POLICY_FIELDS; i++) policy[i] = INT64_MIN;
  if (kept) policy[KEEP] = 7 * DAY_US;
  int32_t kind = job ? FP_PROFILE_JOB : FP_PROFILE_QUEUE;
  must(s, fp_queue_define(s->store, NULL, name, (int32_t)strlen(name), kind, policy, &number,
                          &s->err), "queue");
  return number;
}

void stage_open(stage *s, const char *path, bool normal, const char *profile, int32_t batch,
                int64_t messages) {
  int64_t wide = batch > CHUNK ? batch : CHUNK;
  *s = (stage){.profile = profile, .batch = batch};
  fp_options options = {.path = path, .create = 1, .normal = normal, .hand_us = -1};
  must(s, fp_open(&options, &s->store, &s->err), "open");
  s->queue = stage_queue(s, "q", profile);
  if (strcmp(profile, "job") == 0) {
    must(s, fp_kind(s->store, NULL, "k", 1, &s->kind, &s->err), "kind");
  }
  s->ids = room(messages + wide, sizeof *s->ids);
  s->pairs = room(2 * (messages + wide), sizeof *s->pairs);
  s->bodies = room(wide, BODY_BYTES);
  s->keys = room(wide, KEY_BYTES);
  s->digests = room(wide, DIGEST);
  s->body_bytes = room(wide, sizeof *s->body_bytes);
  s->key_bytes = room(wide, sizeof *s->key_bytes);
  s->answers = room(wide, sizeof *s->answers);
  s->created = room(wide, 1);
  memset(s->bodies, 'x', (size_t)(wide * BODY_BYTES));
  for (int64_t i = 0; i < wide; i++) {
    s->body_bytes[i] = BODY_BYTES;
    s->key_bytes[i] = KEY_BYTES;
  }
}

void stage_fill(stage *s, int64_t queue, int64_t count, int32_t priority) {
  int64_t ids[CHUNK];
  while (count > 0) {
    fp_put put = {.queue = queue, .kind = s->kind, .count = count < CHUNK ? (int32_t)count : CHUNK,
                  .bodies = s->bodies, .body_bytes = s->body_bytes, .priority = priority,
                  .max_attempts = -1};
    must(s, fp_enqueue(s->store, NULL, &put, ids, s->created, &s->err), "fill");
    count -= put.count;
  }
}

static void take_out(stage *s, int64_t queue, int64_t count, bool acked) {
  int64_t pairs[2 * CHUNK];
  while (count > 0) {
    fp_take take = {.queue_count = 1, .queues = &queue, .lease_us = DAY_US,
                    .limit = count < CHUNK ? (int32_t)count : CHUNK};
    fp_rows rows;
    must(s, fp_step(s->store, NULL, NULL, &take, &rows, &s->err), "take out");
    expect(rows.count > 0, "there is something to take out");
    for (int32_t i = 0; i < rows.count; i++) {
      memcpy(&pairs[2 * i], &rows.records[i * CLAIM_RECORD], 2 * sizeof *pairs);
    }
    fp_settle settle = {.count = acked ? rows.count : 0, .claims = pairs};
    must(s, fp_settle_many(s->store, NULL, &settle, s->answers, &s->err), "take out");
    count -= rows.count;
    fp_rows_free(&rows);
  }
}

void stage_drain(stage *s, int64_t queue, int64_t count) { take_out(s, queue, count, true); }
void stage_hold(stage *s, int64_t queue, int64_t count) { take_out(s, queue, count, false); }

void stage_claim(stage *s, int64_t at, int32_t n, const fp_settle *settle) {
  fp_take take = {.queue_count = 1, .queues = &s->queue, .limit = n};
  fp_rows rows;
  must(s, fp_step(s->store, settle, s->answers, &take, &rows, &s->err), "claim");
  expect(rows.count == n, "as many were claimed as were asked for");
  for (int32_t i = 0; i < n; i++) {
    memcpy(&s->pairs[2 * (at + i)], &rows.records[i * CLAIM_RECORD], 2 * sizeof *s->pairs);
  }
  fp_rows_free(&rows);
}

void stage_close(stage *s) {
  must(s, fp_close(s->store, &s->err), "close");
  fp_free(s->store);
  free(s->ids);
  free(s->pairs);
  free(s->bodies);
  free(s->keys);
  free(s->digests);
  free(s->body_bytes);
  free(s->key_bytes);
  free(s->answers);
  free(s->created);
}
