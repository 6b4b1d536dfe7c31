/* What moves messages, and the transactions in which it may happen. */
#include <stdlib.h>
#include <string.h>

#include "world.h"

static int32_t *answers_of(world *w, int32_t count) {
  return input_room(&w->in, count * (int64_t)sizeof(int32_t));
}

static void enqueue(world *w) {
  int32_t count;
  const fp_put *put = world_put(w, &count);
  int64_t *ids = input_room(&w->in, count * (int64_t)sizeof *ids);
  unsigned char *created = input_room(&w->in, count);
  fp_error err;
  told(fp_enqueue(w->store, w->tx, put, ids, created, &err), &err);
}

static void settle(world *w) {
  int32_t count;
  const fp_settle *all = world_settle(w, &count);
  fp_error err;
  told(fp_settle_many(w->store, w->tx, all, answers_of(w, count), &err), &err);
}

static void step(world *w) {
  int32_t count = 0;
  const fp_settle *all = input_byte(&w->in) % 2 ? world_settle(w, &count) : NULL;
  const fp_take *take = world_take(w);
  fp_rows rows = {0};
  fp_error err;
  int code = fp_step(w->store, all, answers_of(w, count), take, &rows, &err);
  world_claimed(w, code, &err, &rows);
}

/* The simplest claim there is: of one queue, whatever is due. */
static void claim(world *w) {
  int64_t queue = 1 + input_below(&w->in, SCENE_QUEUES);
  const fp_take take = {.queue_count = 1, .queues = &queue, .limit = 5, .lease_us = 1000};
  fp_rows rows = {0};
  fp_error err;
  world_claimed(w, fp_step(w->store, NULL, NULL, &take, &rows, &err), &err, &rows);
}

static void cancel(world *w) {
  int32_t said = input_count(&w->in), count = input_honest(said);
  int64_t *ids = input_room(&w->in, count * (int64_t)sizeof *ids);
  for (int32_t i = 0; i < count; i++) ids[i] = world_message(w);
  fp_error err;
  told(fp_cancel(w->store, w->tx, said, ids, answers_of(w, count), &err), &err);
}

/* Ids and generations, and what the operator has to say. */
typedef struct raising {
  int32_t count, note_bytes;
  const int64_t *pairs;
  const char *note;
  int32_t *answers;
} raising;

static raising raised(world *w) {
  raising r = {.count = input_count(&w->in)};
  int32_t count = input_honest(r.count);
  int64_t bytes, *pairs = input_room(&w->in, count * (int64_t)sizeof *pairs * 2);
  for (int32_t i = 0; i < count; i++) {
    pairs[2 * i] = world_message(w);
    pairs[2 * i + 1] = input_optional(&w->in);
  }
  r.pairs = pairs;
  r.note = input_span(&w->in, 1000, &bytes);
  r.note_bytes = (int32_t)bytes;
  r.answers = answers_of(w, count);
  return r;
}

static void replay(world *w) {
  const raising r = raised(w);
  int64_t delay_us = input_number(&w->in), gap_us = input_number(&w->in);
  int32_t apply = input_byte(&w->in) % 4 != 3;
  fp_error err;
  told(fp_replay(w->store, r.count, r.pairs, delay_us, gap_us, r.note, r.note_bytes, apply,
                 r.answers, &err), &err);
}

static void confirm(world *w) {
  const raising r = raised(w);
  fp_error err;
  told(fp_confirm(w->store, r.count, r.pairs, r.note, r.note_bytes, r.answers, &err), &err);
}

static void release_lane(world *w) {
  int64_t bytes, queue = world_queue(w);
  const char *lane = input_span(&w->in, 255, &bytes);
  int32_t released;
  fp_error err;
  told(fp_release_lane(w->store, queue, lane, (int32_t)bytes, &released, &err), &err);
}

static void progress(world *w) {
  int64_t bytes, id = world_message(w);
  const char *value = input_span(&w->in, 65536, &bytes);
  fp_error err;
  told(fp_progress(w->store, w->tx, id, value, bytes, &err), &err);
}

static void define(world *w) {
  int64_t bytes, number, *policy = input_room(&w->in, FP_POLICY_FIELDS * INT64_C(8));
  const char *name = input_span(&w->in, 255, &bytes);
  int32_t profile = input_int(&w->in);
  for (int i = 0; i < FP_POLICY_FIELDS; i++) policy[i] = INT64_MIN;
  for (int i = input_below(&w->in, 6); i > 0; i--) {
    policy[input_below(&w->in, FP_POLICY_FIELDS)] = input_number(&w->in);
  }
  int64_t *made = input_room(&w->in, FP_POLICY_FIELDS * INT64_C(8));
  fp_error err;
  told(fp_queue_policy(profile, policy, made, &err), &err);
  told(fp_queue_define(w->store, w->tx, name, (int32_t)bytes, profile, policy, &number, &err),
       &err);
}

static void pause(world *w) {
  int64_t queue = world_queue(w);
  fp_error err;
  told(fp_queue_pause(w->store, w->tx, queue, input_byte(&w->in) % 2, &err), &err);
}

static void name_kind(world *w) {
  int64_t bytes, number;
  const char *name = input_span(&w->in, 255, &bytes);
  fp_error err;
  told(fp_kind(w->store, w->tx, name, (int32_t)bytes, &number, &err), &err);
}

static void purge(world *w) {
  int64_t queue = world_queue(w), purged;
  int32_t state = 3 + input_below(&w->in, 6), limit = input_int(&w->in), apply = limit % 4 != 3;
  int64_t before_us = START_US + 9 * DAY_US;
  if (input_byte(&w->in) % 4 == 3) before_us = input_number(&w->in);
  fp_error err;
  told(fp_purge(w->store, queue, state, before_us, limit, apply, &purged, &err), &err);
}

static void retain(world *w) {
  int64_t purged;
  int32_t more;
  fp_error err;
  told(fp_retain(w->store, input_int(&w->in), &purged, &more, &err), &err);
}

/* What a worker that died has held is taken over. */
static void look_after(world *w) {
  int32_t more;
  fp_error err;
  fp_die(w->store);
  told(fp_look_after(w->store, &more, &err), &err);
}

static void move_hand(world *w) {
  int64_t now_us = input_number(&w->in);
  if (now_us < 0) now_us = w->hand_us + DAY_US; /* the real clock would make each run another one */
  fp_error err;
  int code = fp_hand(w->store, now_us, &err);
  if (code == FP_OK) w->hand_us = now_us;
  told(code, &err);
}

static void keep(world *w) {
  int32_t said = input_count(&w->in), count = input_honest(said);
  int64_t *claims = input_room(&w->in, count * INT64_C(32));
  int64_t *pairs = input_room(&w->in, count * INT64_C(16));
  for (int32_t i = 0; i < count; i++) {
    const hold h = world_hold(w);
    claims[4 * i] = pairs[2 * i] = h.id;
    claims[4 * i + 1] = pairs[2 * i + 1] = h.token;
    claims[4 * i + 2] = input_number(&w->in);
    claims[4 * i + 3] = input_number(&w->in);
  }
  fp_keeper *keeper;
  fp_error err;
  int code = fp_keeper_start(w->store, DAY_US, &keeper, &err);
  told(code, &err);
  if (code != FP_OK) return;
  told(fp_keeper_hold(keeper, said, claims, &err), &err);
  if (count > 0) (void)fp_keeper_lost(keeper, pairs[0], pairs[1]);
  if (said == count) fp_keeper_drop(keeper, count, pairs);
  fp_keeper_stop(keeper);
}

/* ---- the caller's transaction, and its own SQL ---- */

static void begin(world *w) {
  fp_tx *tx;
  fp_error err;
  int code = fp_tx_begin(w->store, &tx, &err);
  told(code, &err);
  if (code == FP_OK) w->tx = tx;
}

static void end(world *w) {
  fp_error err;
  if (w->tx == NULL) return;
  told(fp_tx_end(w->tx, input_byte(&w->in) % 4 != 3, &err), &err);
  w->tx = NULL;
}

/* Rows of packed values, `width` in each. */
static void told_values(int code, const fp_error *err, fp_rows *rows) {
  told(code, err);
  const char *at = rows->blob, *last = at == NULL ? at : at + rows->blob_bytes;
  for (int64_t i = 0; i < (int64_t)rows->count * rows->width; i++) {
    int64_t length = 0;
    must(at < last && memchr("niftb", *at, 5) != NULL, "a value begins with its tag", NULL);
    char tag = *at++;
    must(tag == 'n' || last - at >= 8, "and has its number", NULL);
    if (tag != 'n') memcpy(&length, at, sizeof length), at += sizeof length;
    if (tag != 't' && tag != 'b') continue;
    must(length >= 0 && length <= last - at, "and its bytes", NULL);
    at += length;
  }
  must(at == last, "there is nothing behind the last value", NULL);
  fp_rows_free(rows);
}

static void own_sql(world *w) {
  static const char *const texts[] = {
      "CREATE TABLE IF NOT EXISTS own (a, b)", "INSERT INTO own VALUES (?, ?)",
      "SELECT ?, :named, count(*) FROM own", "SELECT * FROM own LIMIT 10", "SAVEPOINT s",
      "ROLLBACK TO s", "RELEASE s", "DELETE FROM fencepost_due", "COMMIT",
      "PRAGMA user_version = 3",
      "SELECT id, key, lane, body FROM fencepost_message LIMIT 20", "VALUES (1) ; VALUES (2)",
      "SELECT 1 /* \xc3\xa4 */ -- ", "INSERT OR ROLLBACK INTO own VALUES (?, abs(?))"};
  enum { TEXTS = sizeof texts / sizeof texts[0] };
  uint8_t tag = input_byte(&w->in);
  int64_t bytes = (int64_t)strlen(texts[tag % TEXTS]), param_bytes, changed, last_rowid;
  const char *sql = texts[tag % TEXTS];
  if (tag >= 200) sql = input_span(&w->in, 20, &bytes);
  if (bytes > 20 && tag >= 200) return; /* what is long enough can go on for ever */
  const char *params = input_span(&w->in, 60, &param_bytes);
  int32_t sets = input_count(&w->in);
  if (sets > input_honest(sets)) sets = 1; /* as often as it is told: there is no limit */
  fp_guest *guest;
  fp_rows rows = {0};
  fp_error err;
  if (w->tx == NULL) begin(w);
  if (w->tx == NULL) return;
  int code = fp_guest_open(w->tx, sql, bytes, &guest, &err);
  told(code, &err);
  if (code != FP_OK) return;
  for (int32_t i = fp_guest_parameter_count(guest); i > 0; i--) (void)fp_guest_parameter(guest, i);
  if (param_bytes > 60) param_bytes = 0; /* the face has no limit for them */
  code = fp_guest_run(guest, sets, params, param_bytes, &rows, &changed, &last_rowid, &err);
  told_values(code, &err, &rows);
  fp_guest_close(guest);
}

const deed deeds_move[] = {enqueue, settle, step, claim, cancel, replay, confirm, release_lane,
                           progress, define, pause, name_kind, purge, retain, look_after,
                           move_hand, keep, begin, end, own_sql};
const int32_t deeds_move_count = sizeof deeds_move / sizeof deeds_move[0];
