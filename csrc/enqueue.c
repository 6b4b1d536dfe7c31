#include "enqueue.h"

#include <string.h>

#include "fault.h"
#include "policy.h"
#include "settle.h"

enum { SLICE = SMALL(1000, 2) }; /* messages written by one statement */

/* One message of the batch, cut out of its columns. */
typedef struct item {
  span body, key, lane, headers, digest;
  int32_t life;
  int64_t due, priority;
} item;

/* Walks along the joined columns; each part is as long as its column says. */
typedef struct cursor {
  int32_t index;
  int64_t from_us; /* what delays and moments are added to */
  const char *body, *key, *lane, *headers;
} cursor;

static span cut(const char **at, const int32_t *bytes, int32_t index) {
  if (bytes == NULL || bytes[index] < 0) return NO_SPAN;
  span part = {*at == NULL ? "" : *at, bytes[index]};
  if (*at != NULL) *at += bytes[index];
  return part;
}

static cursor start_of(const txn *t, const fp_put *put) {
  int64_t from_us = put->absolute ? time_ahead(t->clock, t->now_us) : t->now_us;
  return (cursor){0, from_us, put->bodies, put->keys, put->lanes, put->headers};
}

static item next_item(const fp_put *put, cursor *c) {
  int32_t i = c->index++;
  item m = {.body = {put->body_bytes[i] == 0 ? "" : c->body, put->body_bytes[i]}};
  c->body += put->body_bytes[i];
  m.key = cut(&c->key, put->key_bytes, i);
  m.lane = cut(&c->lane, put->lane_bytes, i);
  m.headers = cut(&c->headers, put->header_bytes, i);
  m.life = m.key.at == NULL ? FP_LIFE_NONE : put->lives != NULL ? put->lives[i] : put->life;
  if (put->digests != NULL) {
    m.digest = (span){put->digests + (int64_t)i * DIGEST_BYTES, DIGEST_BYTES};
  }
  m.priority = put->priorities != NULL ? put->priorities[i] : put->priority;
  m.due = c->from_us + (put->delays_us != NULL ? put->delays_us[i] : put->delay_us);
  return m;
}

static keyed keyed_of(const fp_put *put, const item *m) {
  return (keyed){.queue = put->queue, .kind = put->kind, .life = m->life, .key = m->key,
                 .digest = m->digest, .body = m->body, .headers = m->headers};
}

/* Nothing has changed after this: the keys taken so far go back. Their numbers do when the request
** is reverted (txn.h), as of any that is refused. */
static int give_back(txn *t, const enqueuing *e, int32_t upto, int64_t wrote, fp_error *err) {
  fp_error first = *err;
  cursor c = start_of(t, e->put);
  err_clear(err);
  for (int32_t i = 0; i < upto; i++) {
    item m = next_item(e->put, &c);
    if (!e->created[i] || m.key.at == NULL) continue;
    int code = key_free(t, e->put->queue, e->put->kind, m.life, m.key, e->ids[i], err);
    if (code != FP_OK) return code;
  }
  t->d->sql.writes = wrote;
  *err = first;
  return first.code;
}

/* Another message has the key, and the call says what then. *mine: it goes to the new one. */
static int meet_owner(txn *t, const enqueuing *e, const item *m, int32_t equal, int64_t id,
                      int64_t *owner, bool *mine, fp_error *err) {
  place at;
  bool live;
  keyed k = keyed_of(e->put, m);
  *mine = false;
  if (equal == FP_EQUAL_RETURN) return FP_OK;
  int code = line_locate(t, *owner, &live, &at, err);
  if (code != FP_OK) return code;
  if (live && equal == FP_EQUAL_REARM) return line_rearm(t, &at, m->due, err);
  if (live && at.stage > 0) return FP_OK; /* replace: somebody works on it, so it stays */
  if (live) code = settle_cancel_at(t, &at, false, err);
  if (code == FP_OK) code = key_move(t, &k, id, err);
  *mine = true;
  return code;
}

static int check_room(txn *t, const policy *p, int64_t more, fp_error *err) {
  int64_t size = 0, max = p->field[MAX_SIZE];
  if (max == 0 || more == 0) return FP_OK;
  if (more > max) {
    return err_set(err, FP_INVALID, "%lld messages never fit into a queue of max_size %lld",
                   (long long)more, (long long)max);
  }
  int code = policy_size(t, p->queue, &size, err);
  if (code == FP_OK && size + more > max) {
    code = err_set(err, FP_FULL, "the queue is full: %lld of %lld, and %lld more would be too many",
                   (long long)size, (long long)max, (long long)more);
  }
  return code;
}

/* Decides for each further item whether it is new, and gives the new ones their numbers. */
static int take_keys(txn *t, const policy *p, enqueuing *e, int32_t equal, cursor *c,
                     int32_t upto, fp_error *err) {
  const fp_put *put = e->put;
  int64_t wrote = t->d->sql.writes, more = 0;
  for (int32_t i = c->index; i < upto; i++) {
    item m = next_item(put, c);
    int64_t id = t->d->head.last + 1, owner = id;
    bool same = false, mine = true;
    if (m.key.at != NULL) {
      keyed k = keyed_of(put, &m);
      int code = key_take(t, &k, id, &owner, &same, err);
      if (code != FP_OK) return code;
      mine = owner == id;
      if (!mine && equal == FP_EQUAL_COMPARE && !same) {
        err->id = owner;
        (void)err_set(err, FP_CONFLICT, "another message, %lld, owns the key '%.*s'",
                      (long long)owner, (int)m.key.bytes, m.key.at);
        return give_back(t, e, i, wrote, err);
      }
      if (!mine && equal != FP_EQUAL_COMPARE) {
        code = meet_owner(t, e, &m, equal, id, &owner, &mine, err);
        if (code != FP_OK) return code;
      }
    }
    e->ids[i] = mine ? txn_draw(t, 1) : owner;
    e->created[i] = mine ? 1 : 0;
    more += mine ? 1 : 0;
  }
  /* Replacing and re-arming have written already; their room was looked at before. */
  if (equal >= FP_EQUAL_REPLACE || check_room(t, p, more, err) == FP_OK) return FP_OK;
  return give_back(t, e, upto, wrote, err);
}

/* Messages about to be written, and where in the line each of them is to stand. */
typedef struct arrivals {
  const fp_put *put;
  int64_t now_us, max_attempts;
  int32_t count;
  item *items;
  place *places;
} arrivals;

static void cell_of_message(const given_rows *g, int64_t row, int column, sqlite3_context *out) {
  const arrivals *a = g->rows;
  const item *m = &a->items[row];
  switch (column) { /* as MESSAGE_PUT has them */
    case 0: give_i64(out, a->places[row].id); break;
    case 1: give_i64(out, a->put->queue); break;
    case 2: give_i64(out, a->put->kind); break;
    case 3: give_i64(out, m->priority); break;
    case 4: give_i64(out, a->now_us); break;
    case 5: give_i64(out, m->due); break;
    case 6: give_i64(out, a->max_attempts); break;
    case 7: give_i64(out, m->life); break;
    case 8: give_text(out, m->key); break;
    case 9: give_text(out, m->lane); break;
    case 10: give_bytes(out, m->headers); break;
    default: give_bytes(out, m->body);
  }
}

static int put_slice(txn *t, const arrivals *a, fp_error *err) {
  if (a->count == 0) return FP_OK;
  given_rows rows = {a->count, a, cell_of_message};
  stmt s = stmt_use(&t->d->sql, SQL_MESSAGE_PUT);
  put_rows(&s, "rows", &rows);
  int code = stmt_end(&s, err);
  if (code == FP_OK) code = line_put_many(t, a->places, a->count, err);
  return code;
}

/* The next arrival of the slice; its lane may let it wait. */
static int arrive(txn *t, arrivals *a, const policy *p, const item *m, int64_t id, fp_error *err) {
  int64_t room = 0;
  int code = FP_OK;
  place at = {.id = id, .turn = line_turn(a->put->queue, m->priority), .due_at = m->due,
              .placed_at = m->due};
  assert(a->items != NULL && a->places != NULL); /* there is room for a slice */
  if (m->lane.at != NULL) code = lane_enter(t, p, m->lane, &room, err);
  if (room < 0) {
    at.turn = room;
    at.due_at = at.placed_at = 0;
  }
  a->items[a->count] = *m;
  a->places[a->count++] = at;
  txn_count(t, a->put->queue, room < 0 ? N_WAITING : N_PENDING, 1);
  return code;
}

static int put_all(txn *t, const enqueuing *e, const policy *p, cursor *c, int32_t upto,
                   fp_error *err) {
  const fp_put *put = e->put;
  int32_t left = upto - c->index, room = left < SLICE ? left : SLICE;
  arrivals a = {.put = put, .now_us = t->now_us,
                .max_attempts = put->max_attempts >= 0 ? put->max_attempts
                                                       : p->field[MAX_ATTEMPTS],
                .items = mem_get(room * (int64_t)sizeof *a.items),
                .places = mem_get(room * (int64_t)sizeof *a.places)};
  int code = a.items == NULL || a.places == NULL ? err_memory(err) : FP_OK;
  for (int32_t i = c->index; code == FP_OK && i < upto; i++) {
    item m = next_item(put, c);
    if (e->created[i]) code = arrive(t, &a, p, &m, e->ids[i], err);
    if (code == FP_OK && (a.count == room || i + 1 == upto)) {
      code = put_slice(t, &a, err);
      a.count = 0;
    }
  }
  mem_free(a.items);
  mem_free(a.places);
  return code;
}

/* What this call may do with an equal message that is there. */
static int check_equal(const policy *p, const fp_put *put, int32_t equal, fp_error *err) {
  if (put->key_bytes == NULL || equal < FP_EQUAL_REPLACE) return FP_OK;
  if (!p->field[ADDRESSED]) {
    return err_set(err, FP_INVALID, "only an addressed queue can replace or re-arm a message");
  }
  if (equal == FP_EQUAL_REARM && p->field[PROFILE] != FP_PROFILE_WAKEUP) {
    return err_set(err, FP_INVALID, "only a queue of wake-ups can re-arm a message");
  }
  return FP_OK;
}

int enqueue(txn *t, void *argument, fp_error *err) {
  enqueuing *e = argument;
  const fp_put *put = e->put;
  const policy *p;
  int code = db_policy(t->d, put->queue, &p, err);
  if (code != FP_OK) return code;
  int32_t equal = put->equal;
  if (equal == FP_EQUAL_POLICY) {
    equal = p->field[PROFILE] == FP_PROFILE_WAKEUP ? FP_EQUAL_REARM : FP_EQUAL_COMPARE;
  }
  code = check_equal(p, put, equal, err);
  if (code == FP_OK && equal >= FP_EQUAL_REPLACE) code = check_room(t, p, put->count, err);
  /* What replaces or re-arms can meet an item of its own batch: then each is written before the
  ** next one is looked at. */
  int32_t stride = equal >= FP_EQUAL_REPLACE ? 1 : put->count;
  cursor taken = start_of(t, put), written = taken;
  while (code == FP_OK && taken.index < put->count) {
    int32_t upto = taken.index + stride;
    code = take_keys(t, p, e, equal, &taken, upto, err);
    if (code == FP_OK) code = db_policy(t->d, put->queue, &p, err);
    if (code == FP_OK) code = put_all(t, e, p, &written, upto, err);
  }
  return code;
}
