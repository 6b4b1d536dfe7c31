/* The check: three streams in the order of ids (messages, outcomes, and the line sorted in memory)
** meet, so that one pass shows who is missing where. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "gauge_part.h"
#include "line.h"

/* A row of the line. */
typedef struct stand {
  int64_t id, turn, due_at;
  int64_t stage;
} stand;

typedef struct queue_count {
  int64_t queue, lane_width;
  int64_t said[N_STATES], found[N_STATES];
  char name[NAME_BYTES_MAX + 1];
} queue_count;

typedef struct lane_count {
  int64_t number, out, waiting;
} lane_count;

/* What the two walks stand on; the spans are the statement's until its next row. */
typedef struct message_row {
  bool there;
  int64_t id, queue, kind, priority, life;
  span key, lane;
  bool timed; /* its moment is one */
} message_row;

typedef struct outcome_row {
  bool there, timed;
  int64_t id, queue, state;
} outcome_row;

typedef struct check {
  txn *t;
  pack *p;
  stand *stands;
  queue_count *queues;
  lane_count *lanes;
  int64_t stand_count, stand_room, queue_total, queue_room, lane_total, lane_room;
  int64_t at;      /* the stand that the merge has come to */
  int64_t highest; /* of all ids and tokens met */
} check;

static void *room_for(void *list, int64_t used, int64_t *room, int64_t unit, fp_error *err) {
  if (used < *room) return list;
  int64_t wanted = *room == 0 ? SMALL(256, 1) : *room * 2;
  void *more = mem_resize(list, wanted * unit);
  if (more == NULL) {
    (void)err_memory(err);
  } else {
    *room = wanted;
  }
  return more;
}

static void met(check *c, int64_t number) {
  if (number > c->highest) c->highest = number;
}

/* ---- what is held in memory ---- */

/* Ids come first in what is compared, so that this orders stands, queues and lanes alike. */
static int by_first(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

static int read_line(check *c, fp_error *err) {
  stmt s = stmt_use(&c->t->d->sql, SQL_CHECK_DUE);
  put_i64(&s, "turn", INT64_MIN);
  while (err->code == FP_OK && stmt_row(&s)) {
    stand at = {.turn = get_i64(&s, "turn")};
    at.due_at = get_i64(&s, "due_at");
    at.id = get_i64(&s, "id");
    met(c, get_i64(&s, "token"));
    at.stage = get_i64(&s, "stage");
    stand *list = room_for(c->stands, c->stand_count, &c->stand_room, (int64_t)sizeof at, err);
    if (list == NULL) break;
    c->stands = list;
    c->stands[c->stand_count++] = at;
  }
  int code = stmt_end(&s, err);
  if (c->stands != NULL) qsort(c->stands, (size_t)c->stand_count, sizeof(stand), by_first);
  return code != FP_OK ? code : err->code;
}

static int read_queues(check *c, fp_error *err) {
  stmt s = stmt_use(&c->t->d->sql, SQL_STATS);
  put_i64(&s, "id", 0);
  while (err->code == FP_OK && stmt_row(&s)) {
    queue_count q = {.queue = get_i64(&s, "id")};
    (void)get_i64(&s, "profile");
    (void)get_i64(&s, "paused");
    for (int i = 0; i < N_STATES; i++) q.said[i] = get_i64(&s, tally_column[i]);
    q.lane_width = get_i64(&s, "lane_width");
    span name = get_text(&s, "name");
    (void)snprintf(q.name, sizeof q.name, "%.*s", (int)name.bytes, name.at);
    queue_count *list = room_for(c->queues, c->queue_total, &c->queue_room, (int64_t)sizeof q, err);
    if (list == NULL) break;
    c->queues = list;
    c->queues[c->queue_total++] = q;
  }
  int code = stmt_end(&s, err);
  return code != FP_OK ? code : err->code;
}

static queue_count *queue_of(check *c, int64_t queue) {
  if (c->queue_total == 0) return NULL;
  return bsearch(&queue, c->queues, (size_t)c->queue_total, sizeof(queue_count), by_first);
}

static int read_lanes(check *c, fp_error *err) {
  stmt s = stmt_use(&c->t->d->sql, SQL_CHECK_LANE);
  put_i64(&s, "queue", 0);
  while (err->code == FP_OK && stmt_row(&s)) {
    (void)get_i64(&s, "queue");
    (void)get_text(&s, "name");
    lane_count l = {.number = get_i64(&s, "number")};
    lane_count *list = room_for(c->lanes, c->lane_total, &c->lane_room, (int64_t)sizeof l, err);
    if (list == NULL) break;
    c->lanes = list;
    c->lanes[c->lane_total++] = l;
  }
  int code = stmt_end(&s, err);
  if (c->lanes != NULL) qsort(c->lanes, (size_t)c->lane_total, sizeof(lane_count), by_first);
  return code != FP_OK ? code : err->code;
}

static lane_count *lane_of(check *c, int64_t number) {
  if (c->lane_total == 0) return NULL;
  return bsearch(&number, c->lanes, (size_t)c->lane_total, sizeof(lane_count), by_first);
}

/* ---- the merge ---- */

static void next_message(check *c, stmt *s, message_row *m) {
  *m = (message_row){.there = stmt_row(s)};
  if (!m->there) return;
  m->id = get_i64(s, "id");
  m->queue = get_i64(s, "queue");
  m->kind = get_i64(s, "kind");
  m->priority = get_i64(s, "priority");
  m->life = get_i64(s, "life");
  m->key = get_text(s, "key");
  m->lane = get_text(s, "lane");
  m->timed = get_i64(s, "timed") != 0;
  met(c, m->id);
}

static void next_outcome(check *c, stmt *s, outcome_row *o) {
  *o = (outcome_row){.there = stmt_row(s)};
  if (!o->there) return;
  o->id = get_i64(s, "id");
  o->queue = get_i64(s, "queue");
  o->state = get_i64(s, "state");
  met(c, o->id);
  met(c, get_i64(s, "token"));
  o->timed = get_i64(s, "timed") != 0;
}

static int check_lane_of(check *c, const message_row *m, const stand *at, fp_error *err) {
  lane_count *l = NULL;
  if (m->lane.at != NULL) {
    int64_t number;
    int code = line_lane(c->t, m->queue, m->lane, &number, err);
    if (code != FP_OK) return code;
    if (number != 0) l = lane_of(c, number);
    if (l == NULL) {
      gauge_say(c->p, "The lane of message %lld, which is in line, has no row.", (long long)m->id);
    }
  }
  if (at->turn < 0 && (l == NULL || l->number != -at->turn)) {
    gauge_say(c->p, "Message %lld waits in a lane that is not its own.", (long long)m->id);
  }
  if (l != NULL && at->turn > 0) l->out++;
  if (l != NULL && at->turn < 0) l->waiting++;
  return FP_OK;
}

static int check_key_of(check *c, const message_row *m, fp_error *err) {
  if (m->key.at == NULL || m->life == FP_LIFE_NONE) return FP_OK;
  int64_t owner = 0;
  stmt s = stmt_use(&c->t->d->sql, SQL_KEY_GET);
  put_i64(&s, "queue", m->queue);
  put_i64(&s, "kind", m->kind);
  put_i64(&s, "life", m->life);
  put_text(&s, "key", m->key);
  if (stmt_row(&s)) owner = get_i64(&s, "id");
  int code = stmt_end(&s, err);
  if (code == FP_OK && owner != m->id) {
    gauge_say(c->p, "Message %lld is in line, but its key '%.*s' is not its own.", (long long)m->id,
              (int)m->key.bytes, m->key.at);
  }
  return code;
}

/* A message, and the row of the line that carries it. */
static int check_in_line(check *c, const message_row *m, const stand *at, fp_error *err) {
  queue_count *q = queue_of(c, m->queue);
  if (q == NULL) {
    gauge_say(c->p, "Message %lld is of queue %lld, which does not exist.", (long long)m->id,
              (long long)m->queue);
    return FP_OK;
  }
  q->found[line_state(at->turn, at->due_at, at->stage)]++;
  bool damaged = m->priority < PRIORITY_MIN || m->priority > PRIORITY_MAX;
  if (damaged || (at->turn >= 0 && at->turn != line_turn(m->queue, m->priority))) {
    gauge_say(c->p, "Message %lld stands at another turn than its queue's and its priority's.",
              (long long)m->id);
  }
  int code = check_lane_of(c, m, at, err);
  if (code == FP_OK) code = check_key_of(c, m, err);
  return code;
}

static void check_ended(check *c, const message_row *m, const outcome_row *o) {
  queue_count *q = queue_of(c, o->queue);
  if (m != NULL && m->queue != o->queue) {
    gauge_say(c->p, "Message %lld ended in another queue than it was put into.", (long long)o->id);
  }
  if (q == NULL) {
    gauge_say(c->p, "The outcome of message %lld is of queue %lld, which does not exist.",
              (long long)o->id, (long long)o->queue);
  } else {
    q->found[txn_state_of(o->state)]++;
  }
}

/* One id, wherever it was met. */
static int check_one(check *c, int64_t id, const message_row *m, const outcome_row *o,
                     fp_error *err) {
  int code = FP_OK;
  int64_t rows = 0;
  while (c->at + rows < c->stand_count && c->stands[c->at + rows].id == id) rows++;
  if (rows > 1) {
    gauge_say(c->p, "Message %lld stands in line %lld times.", (long long)id, (long long)rows);
  }
  if (rows > 0 && o != NULL) {
    gauge_say(c->p, "Message %lld has ended, and is in line, too.", (long long)id);
  }
  if (m == NULL && rows > 0) {
    gauge_say(c->p, "Message %lld is in line, but is itself missing.", (long long)id);
  }
  if (m == NULL && o != NULL) {
    gauge_say(c->p, "Message %lld has an outcome, but is itself missing.", (long long)id);
  }
  if (m != NULL && rows == 0 && o == NULL) {
    gauge_say(c->p, "Message %lld is neither in line nor has it ended.", (long long)id);
  }
  if ((m != NULL && !m->timed) || (o != NULL && !o->timed)) {
    gauge_say(c->p, "Message %lld %s at a moment that cannot be.", (long long)id,
              m == NULL || m->timed ? "ended" : "was enqueued");
  }
  for (; rows > 0 && code == FP_OK; rows--, c->at++) {
    if (m != NULL) code = check_in_line(c, m, &c->stands[c->at], err);
  }
  if (o != NULL) check_ended(c, m, o);
  return code;
}

static int merge(check *c, fp_error *err) {
  message_row m;
  outcome_row o;
  int code = FP_OK;
  stmt ms = stmt_use(&c->t->d->sql, SQL_CHECK_MESSAGE);
  stmt os = stmt_use(&c->t->d->sql, SQL_CHECK_OUTCOME);
  put_i64(&ms, "id", INT64_MIN);
  put_i64(&os, "id", INT64_MIN);
  next_message(c, &ms, &m);
  next_outcome(c, &os, &o);
  while (code == FP_OK && (m.there || o.there || c->at < c->stand_count)) {
    int64_t id = INT64_MAX;
    if (m.there) id = m.id;
    if (o.there && o.id < id) id = o.id;
    if (c->at < c->stand_count && c->stands[c->at].id < id) id = c->stands[c->at].id;
    bool is_m = m.there && m.id == id, is_o = o.there && o.id == id;
    code = check_one(c, id, is_m ? &m : NULL, is_o ? &o : NULL, err);
    if (is_m) next_message(c, &ms, &m);
    if (is_o) next_outcome(c, &os, &o);
  }
  int message_code = stmt_end(&ms, err), outcome_code = stmt_end(&os, err);
  if (code == FP_OK) code = message_code != FP_OK ? message_code : outcome_code;
  return code;
}

/* ---- what the file says of itself ---- */

static void check_tally(check *c) {
  for (int64_t i = 0; i < c->queue_total; i++) {
    const queue_count *q = &c->queues[i];
    for (int n = 0; n < N_STATES; n++) {
      if (q->said[n] == q->found[n]) continue;
      gauge_say(c->p, "The tally of queue '%s' says %lld %s, but there are %lld.", q->name,
                (long long)q->said[n], tally_column[n], (long long)q->found[n]);
    }
  }
  if (c->highest > c->t->d->head.last) {
    gauge_say(c->p, "The counter stands at %lld, behind the number %lld that was given out.",
              (long long)c->t->d->head.last, (long long)c->highest);
  }
}

static int check_lanes(check *c, fp_error *err) {
  stmt s = stmt_use(&c->t->d->sql, SQL_CHECK_LANE);
  put_i64(&s, "queue", 0);
  while (stmt_row(&s)) {
    const queue_count *q = queue_of(c, get_i64(&s, "queue"));
    span name = get_text(&s, "name");
    const lane_count *l = lane_of(c, get_i64(&s, "number"));
    int64_t out = get_i64(&s, "out"), held = get_i64(&s, "held");
    if (q == NULL || l == NULL) {
      gauge_say(c->p, "The lane '%.*s' is of a queue that does not exist.", (int)name.bytes,
                name.at);
      continue;
    }
    if (l->out != out) {
      gauge_say(c->p,
                "The lane '%.*s' of queue '%s' says %lld of it are in line, but there are %lld.",
                (int)name.bytes, name.at, q->name, (long long)out, (long long)l->out);
    }
    if (l->waiting > 0 && !held && out < q->lane_width) {
      gauge_say(c->p, "In the lane '%.*s' of queue '%s' %lld wait although a slot is free.",
                (int)name.bytes, name.at, q->name, (long long)l->waiting);
    }
  }
  return stmt_end(&s, err);
}

static int check_keys(check *c, fp_error *err) {
  stmt s = stmt_use(&c->t->d->sql, SQL_CHECK_KEY);
  put_i64(&s, "queue", 0);
  while (stmt_row(&s)) {
    (void)get_i64(&s, "queue");
    span key = get_text(&s, "key");
    int64_t id = get_i64(&s, "id");
    if (get_null(&s)) {
      gauge_say(c->p, "The key '%.*s' points to message %lld, which does not have it.",
                (int)key.bytes, key.at, (long long)id);
    }
  }
  return stmt_end(&s, err);
}

static int check_file(check *c, fp_error *err) {
  stmt s = stmt_use(&c->t->d->sql, SQL_CHECK_FILE);
  while (stmt_row(&s)) {
    span words = get_text(&s, "integrity_check");
    if (words.bytes == 2 && memcmp(words.at, "ok", 2) == 0) continue;
    gauge_say(c->p, "SQLite's check of the file: %.*s", (int)words.bytes, words.at);
  }
  return stmt_end(&s, err);
}

static int recount(check *c, fp_error *err) {
  int64_t highest = 0;
  int code = read_queues(c, err);
  if (code == FP_OK) code = read_lanes(c, err);
  if (code == FP_OK) code = read_line(c, err);
  if (code == FP_OK) code = merge(c, err);
  if (code == FP_OK) code = gauge_check_flow(c->t, c->p, &highest, err);
  met(c, highest);
  if (code == FP_OK) check_tally(c);
  if (code == FP_OK) code = check_lanes(c, err);
  return code == FP_OK ? check_keys(c, err) : code;
}

/* A page that makes no sense ends what has met it: that is a finding, and hides no other. */
static int say_damage(check *c, int code, fp_error *err) {
  if (code == FP_OK || (err->sqlite_code & 0xff) != SQLITE_CORRUPT) return code;
  gauge_say(c->p, "The file is damaged: %s [%s].", err->message, err->statement);
  err_clear(err);
  return FP_OK;
}

int gauge_check(txn *t, bool full, pack *p, fp_error *err) {
  check c = {.t = t, .p = p};
  int code = full ? say_damage(&c, check_file(&c, err), err) : FP_OK; /* the cause comes first */
  if (code == FP_OK) code = say_damage(&c, recount(&c, err), err);
  mem_free(c.stands);
  mem_free(c.queues);
  mem_free(c.lanes);
  return code;
}
