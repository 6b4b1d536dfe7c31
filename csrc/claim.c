#include "claim.h"

#include <string.h>

#include "claim_part.h"
#include "fault.h"
#include "limit.h"
#include "registry.h"
#include "run.h"

/* One queue of a claim under way. */
typedef struct taking {
  txn *t;
  const fp_take *take;
  pack *rows;
  const policy *p;
  int64_t lease_us, lease_end, bytes_left;
  int64_t worker;  /* who claims, once something was found */
  int64_t room;    /* so many more of this queue */
  bool grace;      /* lapsed leases are not taken over */
  bool occupied;   /* and nothing else is: the queue's places are all taken */
  bool stop;       /* nothing further in this claim */
  place *picked;   /* the rows of one select, in order */
  bool *unfit;     /* of each: it goes out of the line instead */
  int picked_count, picked_room;
} taking;

static bool make_room(taking *k) {
  if (k->picked_count < k->picked_room) return true;
  int room = k->picked_room == 0 ? SMALL(64, 1) : k->picked_room * 2;
  place *picked = mem_resize(k->picked, room * (int64_t)sizeof *picked);
  if (picked != NULL) k->picked = picked;
  bool *unfit = mem_resize(k->unfit, room * (int64_t)sizeof *unfit);
  if (unfit != NULL) k->unfit = unfit;
  if (picked == NULL || unfit == NULL) return false;
  k->picked_room = room;
  return true;
}

static place read_place(stmt *s, const taking *k, int64_t turn) {
  place at = {.turn = turn, .queue = k->p->queue};
  at.due_at = get_i64(s, "due_at");
  at.id = get_i64(s, "id");
  at.token = get_i64(s, "token");
  at.attempts = get_count(s, "attempts");
  at.stage = (int32_t)get_i64(s, "stage");
  at.generation = get_count(s, "generation");
  at.again = get_i64(s, "again");
  at.placed_at = get_i64(s, "placed_at");
  return at;
}

/* Lays the row out for the caller; its token follows once the numbers are drawn. */
static void lay_out(stmt *s, taking *k, place *at, bool lapsed) {
  pack *r = k->rows;
  at->kind = get_i64(s, "kind");
  int64_t enqueued_at = get_i64(s, "enqueued_at"), due = get_i64(s, "due");
  int64_t max_attempts = get_i64(s, "max_attempts");
  at->life = (int32_t)get_i64(s, "life");
  span key = get_text(s, "key"), lane = get_text(s, "lane");
  at->laned = lane.at != NULL;
  const int64_t fixed[] = {at->id, 0, at->attempts + 1, at->queue, at->kind, enqueued_at, due,
                           k->lease_end, at->generation, max_attempts, lapsed ? 1 : 0, at->life};
  pack_many(r, fixed, COUNT_OF(fixed));
  pack_part(r, key);
  pack_part(r, lane);
  pack_part(r, get_bytes(s, "headers"));
  pack_part(r, get_bytes(s, "body"));
  pack_row(r);
}

/* Its holder was lost after it began, and the queue wants nothing done twice. */
static bool doubted(const policy *p, const place *at) {
  return at->stage == FP_BEGUN && p->field[ON_UNKNOWN] == 0;
}

/* Are its attempts used up? Reads one column ahead of its turn, without moving there. */
static bool used_up(const stmt *s, const place *at) {
  enum { MAX_ATTEMPTS_COLUMN = 12 };
  int64_t limit = sqlite3_column_int64(s->handle, MAX_ATTEMPTS_COLUMN);
  return limit > 0 && at->attempts >= limit;
}

/* Looks at one selected row. False: it stays in the line, and the claim ends before it. */
static bool pick(stmt *s, taking *k, int64_t turn) {
  enum { BODY_COLUMN = 17 };
  place at = read_place(s, k, turn);
  bool missing = get_null(s), lapsed = at.stage > 0;
  (void)get_i64(s, "message");
  bool unfit = missing || doubted(k->p, &at) || used_up(s, &at);
  bool alone = lapsed || (k->take->alone == FP_ALONE_TRIED && at.attempts > 0);
  int64_t bytes = sqlite3_column_bytes(s->handle, BODY_COLUMN);
  bool first = k->rows->count == 0, left = alone && k->take->alone == FP_ALONE_NEVER;
  if (!unfit && (left || (!first && (alone || bytes > k->bytes_left)))) {
    k->stop = true;
    return false;
  }
  if (!make_room(k)) {
    k->rows->failed = true;
    return false;
  }
  if (!unfit) {
    lay_out(s, k, &at, lapsed);
    k->bytes_left -= bytes;
    k->stop = alone || k->rows->count >= k->take->limit;
  }
  k->unfit[k->picked_count] = unfit;
  k->picked[k->picked_count++] = at;
  return !k->stop;
}

static int select_due(taking *k, int64_t turn, int64_t limit, fp_error *err) {
  txn *t = k->t;
  k->picked_count = 0;
  int id = k->grace ? SQL_DUE_SELECT_GRACE : SQL_DUE_SELECT;
  stmt s = stmt_use(&t->d->sql, k->occupied ? SQL_DUE_SELECT_LAPSED : id);
  put_i64(&s, "turn", turn);
  if (k->occupied) put_i64(&s, "from", limit_seen(t, k->p->queue));
  put_i64(&s, "now", t->now_us);
  if (k->occupied) put_i64(&s, "below", claim_holders(t));
  put_i64(&s, "limit", limit);
  while (stmt_row(&s) && pick(&s, k, turn)) {
  }
  int code = stmt_end(&s, err);
  if (code == FP_OK && k->rows->failed) code = err_memory(err);
  return code;
}

/* Takes the selected rows out of their places: in one stroke up to the last one, or, where rows
** between them stay, one by one. */
static int drop_picked(taking *k, fp_error *err) {
  txn *t = k->t;
  int changed = 0;
  bool apart = k->grace || k->occupied;
  const place *last = &k->picked[k->picked_count - 1];
  for (int i = 0; apart && i < k->picked_count; i++) {
    bool dropped;
    int code = line_drop(t, &k->picked[i], &dropped, err);
    if (code != FP_OK) return code;
    changed += dropped ? 1 : 0;
  }
  if (!apart) {
    stmt s = stmt_use(&t->d->sql, SQL_DUE_DROP_RANGE);
    put_i64(&s, "turn", last->turn);
    put_i64(&s, "due_at", last->due_at);
    put_i64(&s, "id", last->id);
    int code = stmt_changes(&s, &changed, err);
    if (code != FP_OK) return code;
  }
  if (changed != k->picked_count) {
    return err_set(err, FP_STORAGE, "%d rows were selected, and %d were there", k->picked_count,
                   changed);
  }
  return FP_OK;
}

/* A row that cannot be handed out any more leaves the line, and says why. */
static int bury(txn *t, const policy *p, place *at, fp_error *err) {
  facts f;
  int32_t state = doubted(p, at) ? FP_STATE_UNKNOWN : FP_STATE_DEAD;
  int code = line_facts(t, at->id, &f, err);
  if (code != FP_OK) return code;
  failure why = {.kind = LITERAL("worker_lost"),
                 .text = LITERAL("its worker was lost, and its attempts were used up")};
  if (state == FP_STATE_UNKNOWN) why.text = LITERAL("its worker was lost after it had begun");
  if (!f.found) {
    state = FP_STATE_DEAD;
    why.kind = LITERAL("damaged");
    why.text = LITERAL("its message is missing in the file");
  }
  at->kind = f.kind;
  at->life = (int32_t)f.life;
  at->laned = f.lane.at != NULL;
  bool known = f.found;
  facts_free(&f);
  at->token = 0; /* nobody settled it: what its holder says later is lost, not "already" */
  if (at->again != 0 && known) return settle_next_turn(t, at, &why, err);
  return settle_leave(t, at, state, &why, NO_SPAN, err);
}

/* Puts the picked rows into the line that can be handed out; seldom do others stand between. */
static int put_fit(const taking *k, fp_error *err) {
  int code = FP_OK;
  for (int i = 0, from = 0; code == FP_OK && i <= k->picked_count; i++) {
    if (i < k->picked_count && !k->unfit[i]) continue;
    if (i > from) code = line_put_many(k->t, &k->picked[from], i - from, err);
    from = i + 1;
  }
  return code;
}

/* With the wake-up of a run its pass is taken. */
static int take_passes(const taking *k, fp_error *err) {
  int code = FP_OK;
  if (k->p->field[PROFILE] != FP_PROFILE_WAKEUP) return code;
  for (int i = 0; code == FP_OK && i < k->picked_count; i++) {
    const place *at = &k->picked[i];
    if (!k->unfit[i] && at->kind != 0) code = run_taken(k->t, at->id, at->token, at->due_at, err);
  }
  return code;
}

/* The rows of one select go to the end of their lease. */
static int lease_picked(taking *k, fp_error *err) {
  txn *t = k->t;
  int code = FP_OK;
  int64_t taken = 0, fresh = 0;
  for (int i = 0; i < k->picked_count; i++) taken += k->unfit[i] ? 0 : 1;
  if (taken > 0 && k->worker == 0) code = registry_enrol(t, &k->worker, err);
  if (code != FP_OK) return code;
  int64_t token = txn_draw(t, taken), row = k->rows->count - taken;
  for (int i = 0; i < k->picked_count; i++) {
    place *at = &k->picked[i];
    if (k->unfit[i]) continue;
    fresh += at->stage == 0 ? 1 : 0;
    if (at->stage == 0) at->placed_at = at->due_at;
    at->due_at = k->lease_end;
    at->token = token++;
    at->attempts++;
    at->stage = 1;
    at->worker = k->worker;
    at->addressed = k->p->field[ADDRESSED] != 0;
    k->rows->records[row++ * CLAIM_WIDTH + 1] = at->token;
  }
  code = put_fit(k, err);
  if (code == FP_OK) code = take_passes(k, err);
  for (int i = 0; code == FP_OK && i < k->picked_count; i++) {
    if (k->unfit[i]) continue;
    if (places_full(t->places)) code = line_forget_lost(t, err);
    if (code == FP_OK && !places_put(t->places, &k->picked[i])) code = err_memory(err);
  }
  txn_count(t, k->p->queue, N_PENDING, -fresh);
  txn_count(t, k->p->queue, N_LEASED, fresh);
  return code;
}

/* All that one level of a queue gives. */
static int take_level(taking *k, int64_t turn, fp_error *err) {
  bool more = true;
  while (more && !k->stop && k->room > 0) {
    int64_t limit = k->take->limit - k->rows->count, before = k->rows->count;
    if (limit > k->room) limit = k->room;
    int code = select_due(k, turn, limit, err);
    if (code != FP_OK || k->picked_count == 0) return code;
    more = k->picked_count == limit;
    k->room -= k->rows->count - before;
    code = drop_picked(k, err);
    if (code == FP_OK) code = lease_picked(k, err);
    /* Only now, or a row that steps into a lane's place would fall into the range just dropped. */
    for (int i = 0; code == FP_OK && i < k->picked_count; i++) {
      if (!k->unfit[i]) continue;
      code = bury(k->t, k->p, &k->picked[i], err);
      more = true; /* it made room, and its lane may have let another one in */
    }
    if (code == FP_OK) code = db_policy(k->t->d, k->p->queue, &k->p, err);
    if (code != FP_OK) return code;
  }
  return FP_OK;
}

static bool shut(const policy *p, int64_t now_us) {
  return p->field[PAUSED] != 0 || p->field[HELD_UNTIL] > now_us;
}

static int take_queue(taking *k, int64_t queue, claim_gap *empty, fp_error *err) {
  txn *t = k->t;
  int code = db_policy(t->d, queue, &k->p, err);
  if (code != FP_OK || shut(k->p, t->now_us)) return code;
  k->lease_us = k->take->lease_us > 0 ? k->take->lease_us : k->p->field[LEASE];
  k->lease_end = t->now_us + k->lease_us;
  int64_t turn, due_at;
  int32_t before = k->rows->count;
  allowance a = {.room = INT64_MAX};
  if (limit_any(k->p)) code = limit_read(t, k->p, &a, err);
  int64_t at_once = claim_for_places(k->take, k->p, before);
  k->room = a.room < at_once ? a.room : at_once;
  if (code != FP_OK || k->room <= 0) return code;
  k->occupied = a.occupied;
  code = claim_first_level(t, queue, empty, &turn, &due_at, err);
  while (code == FP_OK && turn != 0) {
    if (due_at <= t->now_us) code = take_level(k, turn, err);
    if (code != FP_OK || k->stop || k->room == 0) break;
    code = line_next_level(t, (queue + 1) << 8, &turn, &due_at, err);
  }
  if (code != FP_OK) return code;
  if (k->rows->count == before) {
    if (k->occupied && !k->stop && !k->grace) limit_saw(t, queue, INT64_MAX);
    return FP_OK;
  }
  txn_lease(t, queue, k->lease_us);
  return limit_spend(t, k->p, &a, k->rows->count - before, err);
}

int claim_step(txn *t, void *argument, fp_error *err) {
  claiming *g = argument;
  int code = FP_OK;
  pack_clear(g->rows);
  if (g->settle != NULL) {
    settling s = {.settle = g->settle, .answers = g->answers};
    code = settle_many(t, &s, err);
  }
  const fp_take *take = g->take;
  taking k = {.t = t, .take = take, .rows = g->rows, .grace = t->now_us < t->d->head.grace_until,
              .bytes_left = take->bytes_max > 0 ? take->bytes_max : CLAIM_BYTES_DEFAULT};
  k.stop = take->limit == 0;
  claim_gap empty = {0, 0};
  for (int32_t i = 0; code == FP_OK && !k.stop && i < take->queue_count; i++) {
    int64_t queue = take->queues[(take->turn + i) % take->queue_count];
    if (!claim_in_gap(&empty, queue)) code = take_queue(&k, queue, &empty, err);
  }
  mem_free(k.picked);
  mem_free(k.unfit);
  return code;
}
