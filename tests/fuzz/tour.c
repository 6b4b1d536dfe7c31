#include "tour.h"

#include <string.h>

enum { IDS = 64, QUEUES = SCENE_WHOLE - 1, WORKFLOW = 6, RUNS_FROM = 4, RUNS_TO = 14 };

static int32_t length_of(const char *text) { return (int32_t)strlen(text); }

static void look(world *w) {
  fp_rows rows = {0};
  fp_error err;
  int64_t number;
  told_rows(fp_check(w->store, 1, &rows, &err), &err, &rows, 1, 1);
  told_rows(fp_stats(w->store, &rows, &err), &err, &rows, 14, 1 << 13);
  told_rows(fp_kinds(w->store, &rows, &err), &err, &rows, 2, 2);
  told_rows(fp_workers(w->store, &rows, &err), &err, &rows, 5, 16);
  told_rows(fp_uuid(w->store, &rows, &err), &err, &rows, 1, 1);
  told_rows(fp_schedules(w->store, &rows, &err), &err, &rows, 7, 0x78);
  told(fp_size(w->store, NULL, 1, &number, &err), &err);
  for (int64_t id = 1; id < IDS; id += 3) {
    told_rows(fp_get(w->store, NULL, id, &rows, &err), &err, &rows, 16, 0x7C00);
    told_rows(fp_content(w->store, id, &rows, &err), &err, &rows, 4, 15);
  }
}

static void list(world *w) {
  int64_t next[3];
  fp_rows rows = {0};
  fp_error err;
  for (int32_t state = FP_PENDING; state <= FP_WAITING; state++) {
    fp_filter f = {.state = state, .limit = 7, .since_us = INT64_MIN, .before_us = INT64_MAX,
                   .lane_bytes = -1};
    int32_t more = state != FP_DONE_UNLISTED;
    for (int page = 0; page < 9 && more; page++) {
      int code = fp_list(w->store, &f, &rows, next, &more, &err);
      told_rows(code, &err, &rows, 16, 0x7C00);
      f.has_after = 1;
      memcpy(f.after, next, sizeof next);
    }
  }
  for (int32_t state = FP_RUN_ANY; state <= FP_RUN_CANCELLED; state++) {
    fp_run_filter f = {.state = state, .limit = 3, .text = "r", .text_bytes = 1};
    int32_t more = 1;
    for (int page = 0; page < 9 && more; page++) {
      int code = fp_run_list(w->store, &f, &rows, next, &more, &err);
      told_rows(code, &err, &rows, 11, 0x7E0);
      f.has_after = 1;
      memcpy(f.after, next, sizeof next);
    }
  }
}

/* Three of each queue, of which each ends in another way; and three more. */
static void work(world *w, int64_t queue, int32_t equal) {
  static const uint32_t body_bytes[] = {4, 1, 1};
  static const int32_t key_bytes[] = {1, 1, 3}, lane_bytes[] = {4, 1, 1};
  fp_put put = {.queue = queue, .count = 3, .equal = equal, .bodies = "bodyno",
                .body_bytes = body_bytes, .keys = "abnew", .key_bytes = key_bytes,
                .lanes = "lanexy", .lane_bytes = lane_bytes, .life = 1 + equal % 2,
                .max_attempts = -1};
  int64_t ids[3], number, policy[FP_POLICY_FIELDS];
  int32_t answers[HELD_MAX], released;
  unsigned char created[3];
  fp_rows rows = {0};
  fp_error err;
  told(fp_enqueue(w->store, NULL, &put, ids, created, &err), &err);
  const fp_take take = {.queue_count = 1, .limit = 3, .queues = &queue, .lease_us = 5};
  w->held_count = 0;
  int code = fp_step(w->store, NULL, NULL, &take, &rows, &err);
  world_claimed(w, code, &err, &rows);
  fp_verdict verdicts[HELD_MAX];
  fp_settle settle = {.count = w->held_count, .verdicts = verdicts};
  for (int32_t i = 0; i < w->held_count; i++) {
    const hold *h = &w->held[i];
    told(fp_progress(w->store, NULL, h->id, "2", 1, &err), &err);
    verdicts[i] = (fp_verdict){.id = h->id, .token = h->token, .verb = 1 + (queue + i) % 9,
                               .result_bytes = -1, .kind_bytes = -1, .code_bytes = -1,
                               .text_bytes = -1};
  }
  code = fp_step(w->store, &settle, answers, &take, &rows, &err);
  world_claimed(w, code, &err, &rows);
  told(fp_release_lane(w->store, queue, "lane", 4, &released, &err), &err);
  told_rows(fp_lanes(w->store, queue, "", 0, 10, &rows, &err), &err, &rows, 2, 2);
  told_rows(fp_get_by_key(w->store, queue, 0, 1, "a", 1, &rows, &err), &err, &rows, 16, 0x7C00);
  told(fp_queue_find(w->store, NULL, "jobs", 4, &number, policy, &err), &err);
}

static void raise(world *w) {
  int64_t ids[IDS / 2], pairs[IDS], purged;
  int32_t answers[IDS], more;
  fp_error err;
  for (int i = 0; i < IDS / 2; i++) {
    ids[i] = 3 * i + 2;
    pairs[2 * i] = i + 1;
    pairs[2 * i + 1] = -1;
  }
  told(fp_cancel(w->store, NULL, IDS / 2, ids, answers, &err), &err);
  told(fp_confirm(w->store, IDS / 4, pairs, "yes", 3, answers, &err), &err);
  told(fp_replay(w->store, IDS / 2, pairs, 5, 1, "again", 5, 1, answers, &err), &err);
  told(fp_retain(w->store, 50, &purged, &more, &err), &err);
  for (int32_t state = FP_DONE_UNLISTED; state <= FP_CANCELLED; state++) {
    int64_t before_us = w->hand_us - DAY_US;
    told(fp_purge(w->store, 2, state, before_us, 50, 1, &purged, &err), &err);
  }
  told(fp_look_after(w->store, &more, &err), &err);
}

/* ---- workflows ---- */

static void look_at_run(world *w, const char *id) {
  int32_t more = 1;
  fp_rows rows = {0};
  fp_error err;
  told_rows(fp_run_get(w->store, NULL, id, length_of(id), &rows, &err), &err, &rows, 11, 0x7E0);
  int code = fp_record_page(w->store, NULL, id, length_of(id), -1, 2, &rows, &more, &err);
  told_rows(code, &err, &rows, 6, 0x30);
}

/* What comes to a run, and what becomes of it. */
static void touch_run(world *w, const char *id, int what) {
  const fp_outside come = {.id = id, .id_bytes = length_of(id), .key = what % 2 ? "more" : NULL,
                           .key_bytes = 4, .value = "v", .value_bytes = 1, .wake = 1,
                           .queue = WORKFLOW};
  fp_start start = {.queue = WORKFLOW, .kind = 1, .id = id, .id_bytes = length_of(id),
                    .args = "{}", .args_bytes = 2, .header_bytes = -1, .max_attempts = -1};
  int64_t message, token, gone;
  int32_t answer, created, bytes = length_of(id);
  fp_rows rows = {0};
  fp_error err;
  told_rows(fp_outside_put(w->store, NULL, &come, &rows, &err), &err, &rows, 2, 2);
  told(fp_pass_claim(w->store, id, bytes, 10, 10, &token, &err), &err);
  told(fp_start_run(w->store, NULL, &start, &message, &created, &err), &err);
  start.id = "fork";
  start.id_bytes = 4;
  told(fp_run_fork(w->store, NULL, id, bytes, "next", 4, &start, &message, &err), &err);
  if (what % 4 == 0) told(fp_run_cancel(w->store, NULL, id, bytes, &answer, &err), &err);
  if (what % 4 == 1) told(fp_run_resume(w->store, NULL, id, bytes, &answer, &err), &err);
  if (what % 4 == 2) told(fp_run_delete(w->store, NULL, WORKFLOW, id, bytes, &gone, &err), &err);
  if (what % 4 == 3) told(fp_discard(w->store, NULL, id, bytes, &gone, &err), &err);
}

/* The passes that a claim has brought: they record, begin children, and end. */
static void pass(world *w, int64_t verb) {
  static const uint32_t body_bytes = 1;
  int64_t queue = WORKFLOW, message;
  int32_t answers[2], created;
  fp_rows rows = {0};
  fp_error err;
  const fp_take take = {.queue_count = 1, .limit = 2, .queues = &queue, .lease_us = 5};
  w->held_count = 0;
  int code = fp_step(w->store, NULL, NULL, &take, &rows, &err);
  world_claimed(w, code, &err, &rows);
  for (int32_t i = 0; i < w->held_count; i++) {
    const hold *h = &w->held[i];
    if (h->key_bytes == 0) continue;
    const fp_parent parent = {.id = h->key, .id_bytes = h->key_bytes, .key = "again",
                              .key_bytes = 5, .token = h->token};
    const fp_put put = {.queue = 2, .count = 1, .bodies = "a", .body_bytes = &body_bytes,
                        .max_attempts = -1};
    char blob[HELD_KEY_MAX + 8];
    memcpy(blob, h->key, (size_t)h->key_bytes);
    memcpy(blob + h->key_bytes, "morev", 5);
    const fp_record record = {h->key_bytes, h->token, 4, 0, 1, -1, 0, 0};
    const fp_records records = {1, &record, blob};
    const fp_end end = {.id_bytes = h->key_bytes, .token = h->token, .verb = verb, .at_us = 5,
                        .waiting_bytes = -1, .result_bytes = -1, .kind_bytes = 4, .code_bytes = -1,
                        .text_bytes = -1};
    const fp_ends ends = {1, &end, blob};
    told(fp_start_job(w->store, NULL, &put, &parent, &message, &created, &err), &err);
    code = fp_pass_end(w->store, NULL, &records, answers, &rows, &ends, answers + 1, &err);
    told_rows(code, &err, &rows, 2, 2);
  }
}

/* ---- beside messages ---- */

static void keep_others(world *w) {
  const fp_range all = {.id = "shelf", .upto = "zz", .id_bytes = 5, .upto_bytes = 2};
  const fp_schedule daily = {.kind = 1, .last_fired_us = START_US + 1, .name = "daily",
                             .expression = "* * * * *", .zone = "UTC", .name_bytes = 5,
                             .expression_bytes = 9, .zone_bytes = 3};
  int64_t erased, fired_us, running, purged;
  int32_t found, more;
  fp_rows rows = {0};
  fp_error err;
  int code = fp_shelf_page(w->store, NULL, &all, 1, 1, 10, &rows, &err);
  told_rows(code, &err, &rows, 4, 12);
  told_rows(fp_shelf_ids(w->store, NULL, &all, 10, &rows, &err), &err, &rows, 1, 1);
  told(fp_shelf_erase(w->store, NULL, &all, &erased, &err), &err);
  code = fp_schedule_find(w->store, NULL, "daily", 5, &found, &fired_us, &running, &err);
  told(code, &err);
  told(fp_schedule_keep(w->store, NULL, &daily, &err), &err);
  for (int32_t state = FP_RUN_FAILED; state <= FP_RUN_CANCELLED; state++) {
    code = fp_run_purge(w->store, state, INT64_MAX, 3, 1, &purged, &more, &err);
    told(code, &err);
  }
}

static void copy(world *w) {
  int64_t now_us;
  fp_rows rows = {0};
  fp_error err;
  told(fp_backup(w->store, w->scene->copy, 1, &err), &err);
  told(fp_restore(w->scene->copy, w->scene->second, &err), &err);
  int code = fp_status(w->scene->second, START_US, &now_us, &rows, &err);
  told_rows(code, &err, &rows, 14, 1 << 13);
}

static void work_all(world *w) {
  for (int64_t queue = 1; queue <= QUEUES; queue++) work(w, queue, (int32_t)queue % 5);
}

static void go_on(world *w) {
  fp_error err;
  w->hand_us += 9 * DAY_US;
  told(fp_hand(w->store, w->hand_us, &err), &err);
  for (int64_t verb = FP_END_DONE; verb <= FP_END_RELEASE; verb++) pass(w, verb);
  for (int64_t queue = 1; queue <= QUEUES; queue++) work(w, queue, (int32_t)(queue + 1) % 5);
}

static void touch_runs(world *w) {
  for (int i = RUNS_FROM; i < RUNS_TO; i++) {
    look_at_run(w, scene_names[i]);
    touch_run(w, scene_names[i], i);
  }
}

void tour(world *w, uint8_t stages) {
  const deed all[] = {look, list, work_all, touch_runs, raise, go_on, keep_others, copy};
  for (int i = 0; i < 8; i++) {
    if (stages == 0 || stages >> i & 1) all[i](w);
  }
}
