#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { CLAIM_WIDTH = 16 };

/* ---- what was answered ---- */

void told(int code, const fp_error *err) {
  if (code == FP_OK) return;
  must(code > FP_OK && code <= FP_CONSTRAINT, "a code of the face", err);
  must(err->code == code, "the error says its code", err);
  const char *end = memchr(err->message, 0, sizeof err->message);
  must(end != NULL && end != err->message, "it has words", err);
  must(strchr(err->message, '\n') == NULL, "of one line", err);
  must(memchr(err->statement, 0, sizeof err->statement) != NULL, "and a statement's name", err);
}

void told_rows(int code, const fp_error *err, fp_rows *rows, int32_t width, uint32_t lengths) {
  told(code, err);
  int64_t bytes = 0, sum = 0;
  must(code == FP_OK || rows->count == 0, "no rows beside an error", err);
  must(rows->count == 0 || rows->width == width, "the width that is promised", NULL);
  for (int64_t i = 0; i < (int64_t)rows->count * width; i++) {
    if ((lengths >> (i % width) & 1) == 0) continue;
    must(rows->records[i] >= -1, "a length", NULL);
    if (rows->records[i] > 0) bytes += rows->records[i];
  }
  must(bytes == rows->blob_bytes, "the blob is as long as its parts", NULL);
  for (int64_t i = 0; i < bytes; i++) sum += rows->blob[i];
  must(sum <= bytes * 255, "each byte is there", NULL);
  fp_rows_free(rows);
}

void world_claimed(world *w, int code, const fp_error *err, fp_rows *rows) {
  enum { KEY = 12 };
  int64_t at = 0;
  for (int32_t i = 0; code == FP_OK && i < rows->count; i++) {
    const int64_t *record = &rows->records[(int64_t)i * CLAIM_WIDTH];
    hold *h = &w->held[w->held_count % HELD_MAX];
    *h = (hold){.id = record[0], .token = record[1]};
    must(record[1] > 0, "a token", NULL);
    if (record[KEY] > 0 && record[KEY] <= HELD_KEY_MAX) {
      memcpy(h->key, rows->blob + at, (size_t)record[KEY]);
      h->key_bytes = (int32_t)record[KEY];
    }
    for (int part = KEY; part < CLAIM_WIDTH; part++) at += record[part] > 0 ? record[part] : 0;
    w->held_count++;
  }
  told_rows(code, err, rows, CLAIM_WIDTH, 0xF000);
}

/* ---- what is asked ---- */

int64_t world_queue(world *w) {
  uint8_t tag = input_byte(&w->in);
  return tag < 224 ? tag % (SCENE_QUEUES + 1) : input_number(&w->in);
}

int64_t world_message(world *w) {
  enum { OLD = 170, NEW = 230 };
  uint8_t tag = input_byte(&w->in);
  if (tag < OLD) return tag;
  return tag < NEW ? SCENE_COUNTER + 1 + tag - OLD : input_number(&w->in);
}

hold world_hold(world *w) {
  uint8_t tag = input_byte(&w->in);
  int32_t count = w->held_count < HELD_MAX ? w->held_count : HELD_MAX;
  if (tag < 200 && count > 0) return w->held[tag % count];
  hold h = {.id = input_number(&w->in), .token = input_number(&w->in)};
  return h;
}

static void say_verdict(world *w, fp_verdict *v, joined *blob) {
  const hold h = world_hold(w);
  input *in = &w->in;
  *v = (fp_verdict){.id = h.id, .token = h.token, .verb = input_number(in)};
  v->delay_us = input_number(in);
  v->result_bytes = input_part(in, blob, 268435456);
  v->kind_bytes = input_part(in, blob, 64);
  v->code_bytes = input_part(in, blob, 64);
  v->text_bytes = input_part(in, blob, 1000);
}

const fp_settle *world_settle(world *w, int32_t *count) {
  input *in = &w->in;
  fp_settle *s = input_room(in, (int64_t)sizeof *s);
  uint8_t how = input_byte(in);
  s->count = input_count(in);
  *count = input_honest(s->count);
  if (how % 3 == 0) {
    int64_t *pairs = input_room(in, *count * (int64_t)sizeof *pairs * 2);
    for (int32_t i = 0; i < *count; i++) {
      const hold h = world_hold(w);
      pairs[2 * i] = h.id;
      pairs[2 * i + 1] = h.token;
    }
    s->claims = pairs;
    return s;
  }
  joined blob = {0};
  fp_verdict *all = input_room(in, *count * (int64_t)sizeof *all);
  for (int32_t i = 0; i < *count; i++) say_verdict(w, &all[i], &blob);
  s->verdicts = all;
  s->blob = input_joined(in, &blob);
  return s;
}

const fp_take *world_take(world *w) {
  input *in = &w->in;
  fp_take *t = input_room(in, (int64_t)sizeof *t);
  t->queue_count = input_count(in);
  int32_t count = input_honest(t->queue_count);
  int64_t *queues = input_room(in, count * (int64_t)sizeof *queues);
  for (int32_t i = 0; i < count; i++) queues[i] = world_queue(w);
  t->queues = queues;
  t->limit = input_int(in);
  t->lease_us = input_number(in);
  uint8_t more = input_byte(in);
  if (more & 1) t->bytes_max = input_number(in);
  if (more & 2) t->until_us = input_number(in);
  if (more & 4) t->alone = input_int(in);
  if (more & 8) t->turn = input_int(in);
  if (more & 16) t->ahead = input_int(in);
  if (more & 32) t->slice_us = input_number(in);
  t->nudges = 1; /* and one comes before each call: nobody waits here */
  return t;
}

/* One column of lengths and their bytes, if the input wants it. */
static const char *parts(input *in, int32_t count, int64_t limit, const int32_t **bytes) {
  joined j = {0};
  int32_t *lengths = input_room(in, count * (int64_t)sizeof *lengths);
  for (int32_t i = 0; i < count; i++) lengths[i] = (int32_t)input_part(in, &j, limit);
  *bytes = lengths;
  return input_joined(in, &j);
}

const fp_put *world_put(world *w, int32_t *items) {
  enum { KEYS = 1, LANES = 2, HEADERS = 4, DIGESTS = 8, DELAYS = 16, PRIORITIES = 32, LIVES = 64,
         ABSOLUTE = 128 };
  input *in = &w->in;
  fp_put *p = input_room(in, (int64_t)sizeof *p);
  p->queue = world_queue(w);
  p->count = input_count(in);
  int32_t count = *items = input_honest(p->count);
  uint8_t with = input_byte(in);
  joined j = {0};
  uint32_t *body_bytes = input_room(in, count * (int64_t)sizeof *body_bytes);
  for (int32_t i = 0; i < count; i++) body_bytes[i] = (uint32_t)input_part(in, &j, 268435456);
  p->bodies = input_joined(in, &j);
  p->body_bytes = body_bytes;
  if (with & KEYS) p->keys = parts(in, count, 1024, &p->key_bytes);
  if (with & LANES) p->lanes = parts(in, count, 255, &p->lane_bytes);
  if (with & HEADERS) p->headers = parts(in, count, 65536, &p->header_bytes);
  if (with & DIGESTS) p->digests = input_room(in, count * INT64_C(32));
  int64_t *delays = with & DELAYS ? input_room(in, count * (int64_t)sizeof *delays) : NULL;
  signed char *priorities = with & PRIORITIES ? input_room(in, count) : NULL;
  unsigned char *lives = with & LIVES ? input_room(in, count) : NULL;
  for (int32_t i = 0; i < count; i++) {
    if (delays != NULL) delays[i] = input_number(in);
    if (priorities != NULL) priorities[i] = (signed char)input_byte(in);
    if (lives != NULL) lives[i] = input_byte(in) % 4;
  }
  p->delays_us = delays;
  p->priorities = priorities;
  p->lives = lives;
  p->absolute = with & ABSOLUTE;
  p->life = 1;
  p->max_attempts = -1;
  uint8_t more = input_byte(in);
  if (more & 1) p->equal = input_int(in);
  if (more & 2) p->life = input_int(in);
  if (more & 4) p->kind = input_number(in);
  if (more & 8) p->delay_us = input_number(in);
  if (more & 16) p->priority = input_int(in);
  if (more & 32) p->max_attempts = input_int(in);
  return p;
}

/* ---- a life ---- */

void world_live(world *w) {
  const deed *const rooms[] = {deeds_move, deeds_flow, deeds_look};
  const int32_t counts[] = {deeds_move_count, deeds_flow_count, deeds_look_count};
  while (w->in.at < w->in.end && w->store != NULL) {
    int32_t verb = input_below(&w->in, counts[0] + counts[1] + counts[2]), room = 0;
    while (verb >= counts[room]) verb -= counts[room++];
    fp_nudge(w->store);
    rooms[room][verb](w);
    input_forget(&w->in);
  }
}

void world_end(world *w) {
  fp_error err;
  if (w->tx != NULL) told(fp_tx_end(w->tx, 0, &err), &err);
  w->tx = NULL;
  if (w->store != NULL) told(fp_close(w->store, &err), &err);
  fp_free(w->store);
  w->store = NULL;
  must(fp_memory_live() == 0, "all that was allocated is given back", NULL);
}
