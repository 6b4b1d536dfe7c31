/* What looks, waits and copies; shelves and schedules; and many calls at once. */
#include <string.h>

#include "world.h"

enum { MESSAGE = 16, CLAIM = 16, GATHERED = 5 };

static void get(world *w) {
  int64_t id = world_message(w);
  fp_rows rows = {0};
  fp_error err;
  told_rows(fp_get(w->store, w->tx, id, &rows, &err), &err, &rows, MESSAGE, 0x7C00);
  told_rows(fp_content(w->store, id, &rows, &err), &err, &rows, 4, 15);
}

static void get_by_key(world *w) {
  int64_t queue = world_queue(w), kind = input_number(&w->in), bytes;
  int32_t life = input_int(&w->in);
  const char *key = input_span(&w->in, 1024, &bytes);
  fp_rows rows = {0};
  fp_error err;
  int code = fp_get_by_key(w->store, queue, kind, life, key, (int32_t)bytes, &rows, &err);
  told_rows(code, &err, &rows, MESSAGE, 0x7C00);
}

/* Page by page, from a cursor of the input's own or from the first one on. */
static void list(world *w) {
  input *in = &w->in;
  int64_t bytes, *next = input_room(in, 24);
  int32_t more = 1;
  fp_filter f = {.state = input_int(in), .limit = input_int(in), .since_us = INT64_MIN,
                 .before_us = INT64_MAX, .lane_bytes = -1};
  uint8_t with = input_byte(in);
  if (with & 1) f.queue = world_queue(w);
  if (with & 2) f.kind = input_number(in);
  if (with & 4) f.since_us = input_number(in);
  if (with & 8) f.before_us = input_number(in);
  if (with & 16) {
    f.lane = input_span(in, 255, &bytes);
    f.lane_bytes = (int32_t)bytes;
  }
  if (with & 32) {
    f.has_after = 1;
    for (int i = 0; i < 3; i++) f.after[i] = input_number(in);
  }
  for (int page = 0; page < 4 && more; page++) {
    fp_rows rows = {0};
    fp_error err;
    int code = fp_list(w->store, &f, &rows, next, &more, &err);
    told_rows(code, &err, &rows, MESSAGE, 0x7C00);
    f.has_after = 1;
    memcpy(f.after, next, sizeof f.after);
  }
}

static void lanes(world *w) {
  int64_t queue = world_queue(w), bytes;
  const char *after = input_span(&w->in, 255, &bytes);
  fp_rows rows = {0};
  fp_error err;
  int code = fp_lanes(w->store, queue, after, (int32_t)bytes, input_int(&w->in), &rows, &err);
  told_rows(code, &err, &rows, 2, 2);
}

static void look_around(world *w) {
  fp_rows rows = {0};
  fp_error err;
  int64_t a, b;
  told_rows(fp_stats(w->store, &rows, &err), &err, &rows, 14, 1 << 13);
  told_rows(fp_kinds(w->store, &rows, &err), &err, &rows, 2, 2);
  told_rows(fp_workers(w->store, &rows, &err), &err, &rows, 5, 16);
  told_rows(fp_uuid(w->store, &rows, &err), &err, &rows, 1, 1);
  told_rows(fp_schedules(w->store, &rows, &err), &err, &rows, 7, 0x78);
  told(fp_size(w->store, w->tx, world_queue(w), &a, &err), &err);
  told(fp_beside(w->store, &a, &b, &err), &err);
  told(fp_wal(w->store, &a, &b, &err), &err);
  told(fp_now(w->store, &a, &err), &err);
}

static void check(world *w) {
  fp_rows rows = {0};
  fp_error err;
  told_rows(fp_check(w->store, input_byte(&w->in) % 2, &rows, &err), &err, &rows, 1, 1);
}

static void find_queue(world *w) {
  int64_t bytes, number, *policy = input_room(&w->in, FP_POLICY_FIELDS * INT64_C(8));
  const char *name = input_span(&w->in, 255, &bytes);
  fp_error err;
  told(fp_queue_find(w->store, w->tx, name, (int32_t)bytes, &number, policy, &err), &err);
}

static void schedules(world *w) {
  input *in = &w->in;
  int64_t bytes, last_fired_us, running;
  int32_t found;
  fp_schedule s = {.name = input_span(in, 1000, &bytes)};
  s.name_bytes = (int32_t)bytes;
  s.expression = input_span(in, 1000, &bytes);
  s.expression_bytes = (int32_t)bytes;
  s.zone = input_span(in, 1000, &bytes);
  s.zone_bytes = (int32_t)bytes;
  s.kind = input_number(in);
  s.missed = input_number(in);
  s.last_fired_us = input_number(in);
  s.running = input_number(in);
  fp_error err;
  told(fp_schedule_find(w->store, w->tx, s.name, s.name_bytes, &found, &last_fired_us, &running,
                        &err), &err);
  told(fp_schedule_keep(w->store, w->tx, &s, &err), &err);
}

/* ---- the shelf ---- */

static void load_shelf(world *w) {
  input *in = &w->in;
  int64_t bytes;
  fp_load l = {.id = input_span(in, 1024, &bytes), .count = input_count(in)};
  int32_t count = input_honest(l.count);
  int32_t *key_bytes = input_room(in, count * INT64_C(4));
  uint32_t *value_bytes = input_room(in, count * INT64_C(4));
  joined keys = {0}, values = {0};
  l.id_bytes = (int32_t)bytes;
  for (int32_t i = 0; i < count; i++) {
    key_bytes[i] = (int32_t)input_part(in, &keys, 1024);
    value_bytes[i] = (uint32_t)input_part(in, &values, 268435456);
  }
  l.keys = input_joined(in, &keys);
  l.values = input_joined(in, &values);
  l.key_bytes = key_bytes;
  l.value_bytes = value_bytes;
  l.replace = input_byte(in) % 2;
  fp_error err;
  told(fp_shelf_put(w->store, w->tx, &l, &err), &err);
}

static void walk_shelf(world *w) {
  input *in = &w->in;
  int64_t bytes[3], erased;
  fp_range r;
  r.id = input_span(in, 1024, &bytes[0]);
  r.from = input_span(in, 1028, &bytes[1]);
  r.upto = input_span(in, 1028, &bytes[2]);
  r.id_bytes = (int32_t)bytes[0];
  r.from_bytes = (int32_t)bytes[1];
  r.upto_bytes = (int32_t)bytes[2];
  uint8_t how = input_byte(in);
  int32_t limit = input_int(in), values = how >> 1 & 1;
  fp_rows rows = {0};
  fp_error err;
  int code = fp_shelf_page(w->store, w->tx, &r, how & 1, values, limit, &rows, &err);
  told_rows(code, &err, &rows, 3 + values, values ? 12 : 4);
  told_rows(fp_shelf_ids(w->store, w->tx, &r, limit, &rows, &err), &err, &rows, 1, 1);
  if (how & 4) told(fp_shelf_erase(w->store, w->tx, &r, &erased, &err), &err);
}

/* ---- waiting; a nudge came before ---- */

static int64_t *numbers(world *w, int32_t *said) {
  *said = input_count(&w->in);
  int32_t count = input_honest(*said);
  int64_t *list = input_room(&w->in, count * INT64_C(8));
  for (int32_t i = 0; i < count; i++) list[i] = input_number(&w->in);
  return list;
}

static void watch(world *w) {
  fp_watched a = {.nudges = 1};
  a.queues = numbers(w, &a.queue_count);
  a.ids = numbers(w, &a.id_count);
  a.heard = numbers(w, &a.heard_count);
  if (a.heard_count != input_honest(a.heard_count)) a.heard_count = 0; /* it has no limit */
  a.version = input_number(&w->in);
  a.until_us = input_number(&w->in);
  unsigned char *due = input_room(&w->in, input_honest(a.queue_count));
  int64_t version, now_us;
  fp_rows rows = {0};
  fp_error err;
  int code = fp_watch(w->store, &a, due, &version, &now_us, &rows, &err);
  told_rows(code, &err, &rows, 17, 0x17C00);
}

static void wait(world *w) {
  int64_t version;
  fp_error err;
  int code = fp_version(w->store, &version, &err);
  told(code, &err);
  version -= 1; /* what is not so any more is not waited for */
  if (code != FP_OK) return;
  told(fp_wait(w->store, input_number(&w->in), &version, input_number(&w->in), &err), &err);
}

/* ---- copies ---- */

static void copy(world *w) {
  const scene *s = w->scene;
  int64_t now_us;
  fp_rows rows = {0};
  fp_error err;
  int32_t over = input_byte(&w->in) % 4 != 3;
  told(fp_backup(w->store, s->copy, over, &err), &err);
  told(fp_restore(s->copy, s->second, &err), &err);
  int code = fp_status(input_byte(&w->in) % 2 ? s->second : s->path, START_US, &now_us, &rows,
                       &err);
  told_rows(code, &err, &rows, 14, 1 << 13);
}

/* Closed and opened again, as by the next process. */
static void open_again(world *w) {
  fp_error err;
  if (w->tx != NULL) return;
  told(fp_close(w->store, &err), &err);
  fp_free(w->store);
  w->store = NULL;
  int code = scene_open(w->scene, w->hand_us, &w->store, &err);
  told(code, &err);
  if (code == FP_OK) fp_look_no_more(w->store);
}

/* ---- many at once ---- */

static void say_call(world *w, fp_call *c) {
  int32_t count = 0;
  c->verb = input_below(&w->in, 7) + 1;
  if (c->verb == FP_CALL_ENQUEUE) c->put = world_put(w, &count);
  if (c->verb == FP_CALL_START) c->start = world_start(w);
  if (c->verb == FP_CALL_OUTSIDE) c->outside = world_outside(w);
  if (c->verb == FP_CALL_SETTLE || (c->verb == FP_CALL_STEP && input_byte(&w->in) % 2)) {
    c->settle = world_settle(w, &count);
  }
  if (c->verb == FP_CALL_STEP) c->take = world_take(w);
  if (c->verb == FP_CALL_CANCEL) c->messages = numbers(w, &c->count);
  if (c->verb == FP_CALL_CANCEL) count = input_honest(c->count);
  c->ids = input_room(&w->in, c->verb == FP_CALL_START ? 8 : count * INT64_C(8));
  c->created = input_room(&w->in, c->verb == FP_CALL_START ? 1 : count);
  c->answers = input_room(&w->in, count * INT64_C(4));
  c->rows = input_room(&w->in, (int64_t)sizeof *c->rows);
}

static void gather(world *w) {
  int32_t said = input_count(&w->in), count = input_honest(said) % GATHERED;
  fp_call *all[GATHERED];
  fp_error err;
  for (int32_t i = 0; i < count; i++) {
    all[i] = input_room(&w->in, (int64_t)sizeof *all[i]);
    say_call(w, all[i]);
  }
  if (said == input_honest(said)) said = count;
  int code = fp_gather(w->store, said, all, &err);
  told(code, &err);
  for (int32_t i = 0; code == FP_OK && i < count; i++) {
    fp_call *c = all[i];
    if (c->verb == FP_CALL_STEP) {
      world_claimed(w, c->code, &c->err, c->rows);
    } else if (c->verb == FP_CALL_OUTSIDE) {
      told_rows(c->code, &c->err, c->rows, 2, 2);
    } else {
      told(c->code, &c->err);
    }
  }
}

const deed deeds_look[] = {get, get_by_key, list, lanes, look_around, check, find_queue, schedules,
                           load_shelf, walk_shelf, watch, wait, copy, open_again, gather};
const int32_t deeds_look_count = sizeof deeds_look / sizeof deeds_look[0];
