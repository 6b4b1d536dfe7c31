/* The exported functions that move messages: enqueue, settle, claim, cancel, replay; and the
** caller's transaction. Each checks what it was given, lines up, and makes one inner call. */
#include "check.h"
#include "check_move.h"
#include "claim.h"
#include "enqueue.h"
#include "group.h"
#include "orphans.h"
#include "replay.h"
#include "wake.h"

/* ---- enqueue ---- */

int fp_enqueue(fp_store *store, fp_tx *tx, const fp_put *put, int64_t *ids,
               unsigned char *created, fp_error *err) {
  enqueuing e = {.put = put, .ids = ids, .created = created};
  int64_t bytes;
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_put(put, &bytes, err);
  bytes += put->count * (int64_t)ROW_BYTES;
  if (code == FP_OK) code = group_run(store, tx, "an enqueue", bytes, enqueue, &e, err);
  group_leave(store);
  return code;
}

/* ---- settle and claim ---- */

int fp_settle_many(fp_store *store, fp_tx *tx, const fp_settle *settle, int32_t *answers,
                   fp_error *err) {
  settling s = {.settle = settle, .answers = answers};
  int64_t bytes;
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_settle(settle, &bytes, err);
  bytes += settle->count * (int64_t)ROW_BYTES;
  if (code == FP_OK) code = group_run(store, tx, "a settlement", bytes, settle_many, &s, err);
  group_leave(store);
  return code;
}

static uint32_t bits_of(const fp_take *take) {
  uint32_t bits = 0;
  for (int32_t i = 0; i < take->queue_count; i++) bits |= BELL_OF(take->queues[i]);
  return bits;
}

/* Waits, and looks after the other workers now and then. As long as nobody commits, what the file
** has said of what is due holds, and it is not asked again; unless a hand moves the clock. */
static int doze(fp_store *store, int64_t version, int64_t span_us, waiting *w, fp_error *err) {
  int64_t end_us = sys_awake_us() + span_us, left_us = span_us;
  int code = FP_OK;
  do {
    int64_t pause_us = orphans_pause_us(store);
    w->span_us = left_us < pause_us ? left_us : pause_us;
    code = wake_wait(store, version, w, err);
    if (code != FP_OK || w->back || wake_version(store) != version) break;
    left_us = end_us - sys_awake_us();
    if (left_us > 0) orphans_look(store);
  } while (left_us > 0 && store->clock.hand_us < 0);
  return code;
}

/* Looks before it writes, so that nobody who merely waits takes the write lock. */
static int wait_for_due(fp_store *store, const fp_take *take, bool *due, fp_error *err) {
  looking look = {.take = take};
  waiting w = {.bits = bits_of(take), .nudges = take->nudges};
  int64_t span_us = WAIT_SLICE_MS * INT64_C(1000), waited_us = 0, start_us = sys_awake_us();
  if (take->slice_us > 0 && take->slice_us < span_us) span_us = take->slice_us;
  for (;;) {
    int64_t version = wake_version(store); /* before the looks: no wake-up is lost */
    orphans_look(store);
    int code = group_look(store, NULL, claim_look, &look, err);
    if (code != FP_OK) return code;
    *due = look.next_us <= look.now_us;
    if (*due && waited_us > 0) wake_found(store);
    int64_t until_us = look.next_us < take->until_us ? look.next_us : take->until_us;
    if (*due || look.now_us >= take->until_us || w.back || waited_us >= span_us) return FP_OK;
    int64_t left_us = until_us - look.now_us;
    code = doze(store, version, left_us < span_us - waited_us ? left_us : span_us - waited_us, &w,
                err);
    if (code != FP_OK) return code;
    waited_us = sys_awake_us() - start_us;
  }
}

int fp_step(fp_store *store, const fp_settle *settle, int32_t *answers, const fp_take *take,
            fp_rows *claims, fp_error *err) {
  *claims = (fp_rows){0};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  pack rows = pack_of(CLAIM_WIDTH);
  claiming c = {.take = take, .settle = settle, .answers = answers, .rows = &rows};
  bool go = true;
  int64_t bytes = 0;
  code = check_take(take, err);
  if (code == FP_OK && settle != NULL) code = check_settle(settle, &bytes, err);
  if (code == FP_OK && settle == NULL && take->until_us > 0) {
    code = wait_for_due(store, take, &go, err); /* which looks after the others itself */
  } else if (code == FP_OK && take->limit > 0) {
    orphans_look(store);
  }
  bytes += ((int64_t)take->limit + (settle == NULL ? 0 : settle->count)) * ROW_BYTES;
  if (code == FP_OK && go) code = group_run(store, NULL, "a claim", bytes, claim_step, &c, err);
  code = pack_take(&rows, code, claims, err);
  group_leave(store);
  return code;
}

/* ---- by id ---- */

int fp_cancel(fp_store *store, fp_tx *tx, int32_t count, const int64_t *ids, int32_t *answers,
              fp_error *err) {
  cancelling c = {.count = count, .ids = ids, .answers = answers};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_between("the number of messages", count, 0, BATCH_MAX, err);
  if (code == FP_OK) {
    code = group_run(store, tx, "a cancellation", count * ROW_BYTES, settle_cancel, &c, err);
  }
  group_leave(store);
  return code;
}

int fp_replay(fp_store *store, int32_t count, const int64_t *pairs, int64_t delay_us,
              int64_t gap_us, const char *note, int32_t note_bytes, int32_t apply,
              int32_t *answers, fp_error *err) {
  replaying r = {.count = count, .pairs = pairs, .delay_us = delay_us, .gap_us = gap_us,
                .note = {note, note_bytes}, .apply = apply != 0, .answers = answers};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("the number of messages", count, 0, BATCH_MAX, err);
  if (code == FP_OK) code = check_between("delay (microseconds)", delay_us, 0, SPAN_US_MAX, err);
  if (code == FP_OK) {
    code = check_between("the gap (microseconds)", gap_us, 0, SPAN_US_MAX / BATCH_MAX, err);
  }
  if (code == FP_OK) {
    code = check_between("the note's bytes", note_bytes, 0, FAILURE_TEXT_BYTES_MAX, err);
  }
  if (code == FP_OK && apply) {
    code = group_run(store, NULL, "a replay", count * ROW_BYTES, replay, &r, err);
  }
  if (code == FP_OK && !apply) code = group_look(store, NULL, replay, &r, err);
  group_leave(store);
  return code;
}

int fp_confirm(fp_store *store, int32_t count, const int64_t *pairs, const char *note,
               int32_t note_bytes, int32_t *answers, fp_error *err) {
  confirming c = {.count = count, .pairs = pairs, .note = {note, note_bytes}, .answers = answers};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("the number of messages", count, 0, BATCH_MAX, err);
  if (code == FP_OK) {
    code = check_between("the note's bytes", note_bytes, 0, FAILURE_TEXT_BYTES_MAX, err);
  }
  if (code == FP_OK) {
    code = group_run(store, NULL, "a confirmation", count * ROW_BYTES, confirm, &c, err);
  }
  group_leave(store);
  return code;
}

typedef struct releasing {
  int64_t queue;
  span lane;
  bool released;
} releasing;

static int release_lane(txn *t, void *argument, fp_error *err) {
  releasing *g = argument;
  const policy *p;
  int code = db_policy(t->d, g->queue, &p, err);
  if (code == FP_OK) code = lane_release(t, p, g->lane, 0, &g->released, err);
  return code;
}

int fp_release_lane(fp_store *store, int64_t queue, const char *lane, int32_t lane_bytes,
                    int32_t *released, fp_error *err) {
  releasing g = {.queue = queue, .lane = {lane, lane_bytes}};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_name("the lane", g.lane, LANE_BYTES_MAX, err);
  if (code == FP_OK) code = group_run(store, NULL, "a lane's release", 0, release_lane, &g, err);
  *released = g.released ? 1 : 0;
  group_leave(store);
  return code;
}

typedef struct progressing {
  int64_t id;
  span value;
} progressing;

static int put_progress(txn *t, void *argument, fp_error *err) {
  const progressing *g = argument;
  facts f;
  int code = line_facts(t, g->id, &f, err);
  bool found = f.found;
  facts_free(&f);
  if (code != FP_OK) return code;
  if (!found) return err_set(err, FP_GONE, "there is no message %lld", (long long)g->id);
  t->progressed = 1;
  stmt s = stmt_use(&t->d->sql, SQL_PROGRESS_PUT);
  put_i64(&s, "id", g->id);
  put_bytes(&s, "value", g->value);
  put_i64(&s, "at", t->now_us);
  return stmt_end(&s, err);
}

int fp_progress(fp_store *store, fp_tx *tx, int64_t id, const char *value, int64_t value_bytes,
                fp_error *err) {
  progressing g = {.id = id, .value = {value, value_bytes}};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_between("the progress's bytes", value_bytes, 0, HEADERS_BYTES_MAX, err);
  if (code == FP_OK) code = group_run(store, tx, "progress", value_bytes, put_progress, &g, err);
  group_leave(store);
  return code;
}

/* ---- the caller's transaction ---- */

int fp_tx_begin(fp_store *store, fp_tx **tx, fp_error *err) {
  *tx = NULL;
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = group_begin(store, tx, err);
  group_leave(store);
  return code;
}

int fp_tx_end(fp_tx *tx, int32_t commit, fp_error *err) {
  fp_store *store = tx->store;
  bool own;
  int code = group_enter_last(tx, &own, err);
  if (code != FP_OK) return code;
  code = group_end(tx, commit && own, err);
  group_leave(store);
  if (code == FP_OK && commit && !own) {
    code = err_set(err, FP_INVALID, "the transaction belongs to another thread: it was rolled "
                                    "back");
  }
  return code;
}
