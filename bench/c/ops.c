/* What one operation of the core costs: ops OPERATION PROFILE BATCH ROWS PATH [BACKLOG KEPT LEVELS
** NEIGHBOURS HELD]
**
** Sets the stage, goes through one batch so that every statement is prepared, and then measures
** ROWS further rows, BATCH in each call. valgrind's callgrind counts from there to the end and
** nothing else; the pages that went to the WAL are counted here. Answers `rows pages`.
**
** A file that is there already is taken as it is: its stage was set by a call with ROWS 0.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage.h"
#include "store.h"

#if defined(__has_include)
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif
#endif
#ifndef CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_START_INSTRUMENTATION ((void)0)
#define CALLGRIND_STOP_INSTRUMENTATION ((void)0)
#endif

#define MINUTE_US INT64_C(60000000)

typedef void operation(stage *s, int64_t at, int32_t n);

/* ---- putting in ---- */

static void put(stage *s, int64_t at, int32_t n, bool keyed, const char *lane) {
  static int32_t lane_bytes[100000];
  static char lanes[100000 * 8];
  fp_put p = {.queue = s->queue, .kind = s->kind, .count = n, .bodies = s->bodies,
              .body_bytes = s->body_bytes, .life = FP_LIFE_LASTING, .max_attempts = -1};
  if (keyed) {
    p.keys = s->keys;
    p.key_bytes = s->key_bytes;
    p.digests = s->digests;
    for (int64_t i = 0; i < (int64_t)n * KEY_BYTES; i++) s->keys[i] = (char)('a' + rand() % 26);
  }
  for (int32_t i = 0; lane != NULL && i < n; i++) {
    lane_bytes[i] = 8;
    (void)snprintf(&lanes[i * 8], 9, lane, (int)((at + i) % 10000000));
  }
  if (lane != NULL) {
    p.lanes = lanes;
    p.lane_bytes = lane_bytes;
  }
  must(s, fp_enqueue(s->store, NULL, &p, s->ids + at, s->created, &s->err), "enqueue");
}

static void enqueue(stage *s, int64_t at, int32_t n) { put(s, at, n, false, NULL); }
static void enqueue_key(stage *s, int64_t at, int32_t n) { put(s, at, n, true, NULL); }
static void enqueue_lane(stage *s, int64_t at, int32_t n) { put(s, at, n, false, "l%07d"); }
static void enqueue_behind(stage *s, int64_t at, int32_t n) { put(s, at, n, false, "the-lane"); }

/* ---- claiming and settling ---- */

static void claim(stage *s, int64_t at, int32_t n) { stage_claim(s, at, n, NULL); }

static void answered(const stage *s, int32_t n, int32_t answer) {
  for (int32_t i = 0; i < n; i++) expect(s->answers[i] == answer, "every answer is as expected");
}

static void ack(stage *s, int64_t at, int32_t n) {
  fp_settle settle = {.count = n, .claims = s->pairs + 2 * at};
  must(s, fp_settle_many(s->store, NULL, &settle, s->answers, &s->err), "ack");
  answered(s, n, FP_DONE);
}

static void settle(stage *s, int64_t at, int32_t n, fp_verdict all, const char *blob) {
  static fp_verdict verdicts[100000];
  static char blobs[100000 * 32];
  size_t bytes = blob != NULL ? strlen(blob) : 0;
  for (int32_t i = 0; i < n; i++) {
    verdicts[i] = all;
    verdicts[i].id = s->pairs[2 * (at + i)];
    verdicts[i].token = s->pairs[2 * (at + i) + 1];
    if (bytes > 0) memcpy(blobs + (size_t)i * bytes, blob, bytes);
  }
  fp_settle settling = {.count = n, .verdicts = verdicts, .blob = blobs};
  must(s, fp_settle_many(s->store, NULL, &settling, s->answers, &s->err), "settle");
  answered(s, n, FP_DONE);
}

static fp_verdict plain(int64_t verb, int64_t delay_us) {
  return (fp_verdict){.verb = verb, .delay_us = delay_us, .result_bytes = -1, .kind_bytes = -1,
                      .code_bytes = -1, .text_bytes = -1};
}

static fp_verdict with_failure(int64_t verb, int64_t delay_us) {
  fp_verdict v = plain(verb, delay_us);
  v.kind_bytes = 5;
  v.code_bytes = 10;
  v.text_bytes = 9;
  return v;
}

#define FAILURE "errorValueErrorno number"

static void ack_result(stage *s, int64_t at, int32_t n) {
  fp_verdict v = plain(FP_ACK, 0);
  v.result_bytes = 20;
  settle(s, at, n, v, "{\"answer\":1234567890}");
}

static void renew(stage *s, int64_t at, int32_t n) {
  settle(s, at, n, plain(FP_RENEW, MINUTE_US), NULL);
}

static void begin(stage *s, int64_t at, int32_t n) {
  settle(s, at, n, plain(FP_BEGIN, MINUTE_US), NULL);
}

static void unknown(stage *s, int64_t at, int32_t n) {
  settle(s, at, n, with_failure(FP_UNKNOWN, 0), FAILURE);
}

static void retry(stage *s, int64_t at, int32_t n) {
  settle(s, at, n, plain(FP_RETRY, MINUTE_US), NULL);
}

static void release(stage *s, int64_t at, int32_t n) {
  settle(s, at, n, plain(FP_RELEASE, 0), NULL);
}

static void retry_failed(stage *s, int64_t at, int32_t n) {
  settle(s, at, n, with_failure(FP_RETRY, MINUTE_US), FAILURE);
}

static void fail(stage *s, int64_t at, int32_t n) {
  settle(s, at, n, with_failure(FP_FAIL, 0), FAILURE);
}

/* The batch before is acked in the same commit as this one is claimed; or in two. */
static void fused(stage *s, int64_t at, int32_t n) {
  fp_settle settling = {.count = n, .claims = s->pairs + 2 * (at - n)};
  stage_claim(s, at, n, at >= n ? &settling : NULL);
}

static void apart(stage *s, int64_t at, int32_t n) {
  if (at >= n) ack(s, at - n, n);
  claim(s, at, n);
}

/* ---- by id, and the end of all ---- */

static void get_at(stage *s, const int64_t *id, int64_t step, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    fp_rows row;
    must(s, fp_get(s->store, NULL, id[i * step], &row, &s->err), "get");
    expect(row.count == 1, "the message is found");
    fp_rows_free(&row);
  }
}

static void get(stage *s, int64_t at, int32_t n) { get_at(s, s->ids + at, 1, n); }
static void get_claimed(stage *s, int64_t at, int32_t n) { get_at(s, s->pairs + 2 * at, 2, n); }

static void cancel(stage *s, int64_t at, int32_t n) {
  must(s, fp_cancel(s->store, NULL, n, s->ids + at, s->answers, &s->err), "cancel");
  answered(s, n, FP_DONE);
}

static void cancel_claimed(stage *s, int64_t at, int32_t n) {
  for (int32_t i = 0; i < n; i++) s->ids[at + i] = s->pairs[2 * (at + i)];
  cancel(s, at, n);
}

static void replay(stage *s, int64_t at, int32_t n) {
  for (int32_t i = 0; i < n; i++) s->pairs[2 * (at + i) + 1] = -1;
  const int64_t *pairs = s->pairs + 2 * at;
  must(s, fp_replay(s->store, n, pairs, 0, 0, NULL, 0, 1, s->answers, &s->err), "replay");
  answered(s, n, FP_DONE);
}

static void confirm(stage *s, int64_t at, int32_t n) {
  for (int32_t i = 0; i < n; i++) s->pairs[2 * (at + i) + 1] = -1;
  must(s, fp_confirm(s->store, n, s->pairs + 2 * at, "", 0, s->answers, &s->err), "confirm");
  answered(s, n, FP_DONE);
}

static void purge_done(stage *s, int64_t at, int32_t n) {
  int64_t now_us, purged;
  (void)at;
  must(s, fp_now(s->store, &now_us, &s->err), "now");
  must(s, fp_purge(s->store, s->queue, FP_DONE_UNLISTED, now_us + 1, n, 1, &purged, &s->err),
       "purge");
  expect(purged == n, "as many were purged as were asked for");
}

/* Nothing is due. */
static void look(stage *s, int64_t at, int32_t n) {
  for (int32_t i = 0; i < n; i++) stage_claim(s, at, 0, NULL);
}

/* ---- the door, by a connection of its own ---- */

static sqlite3 *door; /* opened at its first use, like a program's own */

static sqlite3_stmt *door_statement(stage *s, const char *sql) {
  static sqlite3_stmt *statement;
  if (statement != NULL) return statement;
  expect(sqlite3_open(s->store->options.path, &door) == SQLITE_OK, "the file opens");
  expect(sqlite3_exec(door, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL) == SQLITE_OK, "set");
  expect(sqlite3_prepare_v2(door, sql, -1, &statement, NULL) == SQLITE_OK, "the door is there");
  return statement;
}

static void door_do(const char *sql) {
  expect(sqlite3_exec(door, sql, NULL, NULL, NULL) == SQLITE_OK, sqlite3_errmsg(door));
}

static void door_step(sqlite3_stmt *statement) {
  expect(sqlite3_step(statement) == SQLITE_DONE, sqlite3_errmsg(door));
  (void)sqlite3_reset(statement);
}

static void door_put(stage *s, int32_t n, bool keyed) {
  sqlite3_stmt *put = door_statement(s, "INSERT INTO fencepost_enqueue (queue, kind, body, key)"
                                        " VALUES ('q', ?, ?, ?)");
  door_do("BEGIN IMMEDIATE");
  for (int32_t i = 0; i < n; i++) {
    char key[KEY_BYTES];
    for (int k = 0; k < KEY_BYTES; k++) key[k] = (char)('a' + rand() % 26);
    if (s->kind != 0) (void)sqlite3_bind_text(put, 1, "k", 1, SQLITE_STATIC);
    (void)sqlite3_bind_blob(put, 2, s->bodies, BODY_BYTES, SQLITE_STATIC);
    if (keyed) (void)sqlite3_bind_text(put, 3, key, KEY_BYTES, SQLITE_TRANSIENT);
    door_step(put);
  }
  door_do("COMMIT");
}

static void door_enqueue(stage *s, int64_t at, int32_t n) { (void)at, door_put(s, n, false); }
static void door_enqueue_key(stage *s, int64_t at, int32_t n) { (void)at, door_put(s, n, true); }

static void door_ack(stage *s, int64_t at, int32_t n) {
  sqlite3_stmt *ack = door_statement(s, "INSERT INTO fencepost_settle (id, token, verb)"
                                        " VALUES (?, ?, 'ack')");
  door_do("BEGIN IMMEDIATE");
  for (int64_t i = at; i < at + n; i++) {
    (void)sqlite3_bind_int64(ack, 1, s->pairs[2 * i]);
    (void)sqlite3_bind_int64(ack, 2, s->pairs[2 * i + 1]);
    door_step(ack);
  }
  door_do("COMMIT");
}

/* What every connection pays when it opens the file. */
static void connect_only(stage *s, int64_t at, int32_t n) {
  for (int64_t i = at; i < at + n; i++) {
    sqlite3 *one;
    expect(sqlite3_open(s->store->options.path, &one) == SQLITE_OK, "the file opens");
    int rc = sqlite3_exec(one, "SELECT 1 FROM fencepost_meta", NULL, NULL, NULL);
    expect(rc == SQLITE_OK, "the file is read");
    (void)sqlite3_close(one);
  }
}

static const struct {
  const char *name;
  operation *run, *before[3]; /* and what was done to all the messages before */
} operations[] = {
    {"enqueue", enqueue, {NULL}},
    {"enqueue_key", enqueue_key, {NULL}},
    {"enqueue_lane", enqueue_lane, {NULL}},
    {"enqueue_behind", enqueue_behind, {NULL}},
    {"claim", claim, {enqueue}},
    {"claim_there", claim, {NULL}}, /* of what was in the file before */
    {"renew", renew, {enqueue, claim}},
    {"begin", begin, {enqueue, claim}},
    {"retry", retry, {enqueue, claim}},
    {"retry_failed", retry_failed, {enqueue, claim}},
    {"release", release, {enqueue, claim}},
    {"ack", ack, {enqueue, claim}},
    {"ack_key", ack, {enqueue_key, claim}},
    {"ack_lane", ack, {enqueue_lane, claim}},
    {"ack_result", ack_result, {enqueue, claim}},
    {"fused", fused, {enqueue}},
    {"apart", apart, {enqueue}},
    {"fail", fail, {enqueue, claim}},
    {"unknown", unknown, {enqueue, claim, begin}},
    {"get", get, {enqueue}},
    {"get_claimed", get_claimed, {enqueue, claim}},
    {"get_ended", get_claimed, {enqueue, claim, ack}},
    {"cancel", cancel, {enqueue}},
    {"cancel_claimed", cancel_claimed, {enqueue, claim}},
    {"replay", replay, {enqueue, claim, fail}},
    {"confirm", confirm, {enqueue, claim, unknown}},
    {"purge", purge_done, {enqueue, claim, ack}},
    {"look", look, {NULL}},
    {"door_enqueue", door_enqueue, {NULL}},
    {"door_enqueue_key", door_enqueue_key, {NULL}},
    {"door_ack", door_ack, {enqueue, claim}},
    {"connect", connect_only, {NULL}},
};

static int64_t pages_written(const stage *s) {
  int written = 0, unused;
  sqlite3 *handle = s->store->writer.handle;
  (void)sqlite3_db_status(handle, SQLITE_DBSTATUS_CACHE_WRITE, &written, &unused, 0);
  if (door == NULL) return written;
  int64_t ours = written;
  (void)sqlite3_db_status(door, SQLITE_DBSTATUS_CACHE_WRITE, &written, &unused, 0);
  return ours + written;
}

/* The table of places as large as it will be: growing is no part of an operation. */
static void grow_places(stage *s, int64_t count) {
  places *p = &s->store->places;
  for (int64_t i = 1; i <= count; i++) {
    place at = {.id = i, .token = 1};
    expect(places_put(p, &at), "there is memory");
  }
  for (int64_t i = 1; i <= count; i++) expect(places_drop(p, i), "there is memory");
  places_keep(p);
}

static int number_of(const char *name) {
  for (int i = 0; i < COUNT_OF(operations); i++) {
    if (strcmp(operations[i].name, name) == 0) return i;
  }
  fprintf(stderr, "there is no operation %s\n", name);
  exit(1);
}

static int64_t argument(int count, char **texts, int index, int64_t otherwise) {
  return index < count ? strtoll(texts[index], NULL, 10) : otherwise;
}

/* What stands in the file besides the messages that are measured. */
static void set_stage(stage *s, int count, char **texts) {
  int64_t backlog = argument(count, texts, 6, 0), kept = argument(count, texts, 7, 0);
  int64_t levels = argument(count, texts, 8, 1), neighbours = argument(count, texts, 9, 0);
  int64_t held = argument(count, texts, 10, 0);
  if (kept > 0) {
    int64_t ended = stage_queue(s, "ended", "kept");
    stage_fill(s, ended, kept, 0);
    stage_drain(s, ended, kept);
  }
  if (neighbours > 0) stage_fill(s, stage_queue(s, "neighbour", "bulk"), neighbours, 0);
  for (int32_t level = 1; held > 0 && level < levels; level++) {
    stage_fill(s, s->queue, held, level); /* above the others, and all of them leased */
    stage_hold(s, s->queue, held);
  }
  if (held > 0) levels = 1;
  for (int32_t level = 0; level < levels; level++) {
    stage_fill(s, s->queue, backlog / levels, -level);
  }
}

int main(int count, char **texts) {
  expect(count >= 6, "ops OPERATION PROFILE BATCH ROWS PATH […]");
  int at_operation = number_of(texts[1]);
  int32_t batch = (int32_t)argument(count, texts, 3, 1);
  int64_t rows = argument(count, texts, 4, 0), total = rows + batch;
  expect(batch > 0 && batch <= 100000 && rows % batch == 0, "whole batches of at most 100,000");
  bool there = access(texts[5], F_OK) == 0;
  stage s;
  stage_open(&s, texts[5], true, texts[2], batch, total);
  if (!there) set_stage(&s, count, texts);
  grow_places(&s, total);
  for (int i = 0; rows > 0 && i < 3 && operations[at_operation].before[i] != NULL; i++) {
    for (int64_t at = 0; at < total; at += batch) operations[at_operation].before[i](&s, at, batch);
  }
  int64_t pages = 0;
  if (rows > 0) {
    operations[at_operation].run(&s, 0, batch);
    pages = -pages_written(&s);
    CALLGRIND_START_INSTRUMENTATION;
    for (int64_t at = batch; at < total; at += batch) operations[at_operation].run(&s, at, batch);
    CALLGRIND_STOP_INSTRUMENTATION;
    pages += pages_written(&s);
  }
  stage_close(&s);
  printf("%lld %lld\n", (long long)rows, (long long)pages);
  return 0;
}
