/* The exported functions of workflows. Each checks what it was given, lines up, and makes one inner
** call. */
#include "check.h"
#include "flow.h"
#include "group.h"
#include "pass.h"
#include "record.h"

/* ---- passes ---- */

/* *bytes: and what they are about to write. */
static int check_records(const fp_records *all, int64_t *bytes, fp_error *err) {
  int code = check_between("the number of records", all->count, 0, BATCH_MAX, err);
  const char *blob = all->blob;
  for (int32_t i = 0; code == FP_OK && i < all->count; i++) {
    const fp_record *r = &all->records[i];
    code = check_between("the id's bytes", r->id_bytes, 1, KEY_BYTES_MAX, err);
    if (code == FP_OK) code = check_between("the key's bytes", r->key_bytes, 1, KEY_BYTES_MAX, err);
    if (code == FP_OK) code = check_between("kind", r->kind, 0, FP_RECORD_SHOWN_MAX, err);
    if (code == FP_OK) code = flow_check_value(r->value_bytes, err);
    if (code == FP_OK) {
      code = check_between("the start of a step", r->started_us, -1, MOMENT_US_MAX, err);
    }
    if (code == FP_OK) code = flow_check_id(blob, (int32_t)r->id_bytes, err);
    if (code == FP_OK) code = flow_check_key((span){blob + r->id_bytes, r->key_bytes}, err);
    if (code != FP_OK) break;
    int64_t value_bytes = r->value_bytes < 0 ? 0 : r->value_bytes;
    blob += r->id_bytes + r->key_bytes + value_bytes;
    *bytes += ROW_BYTES + value_bytes;
  }
  if (code == FP_OK) code = check_between("the batch's bytes", *bytes, 0, BATCH_BYTES_MAX, err);
  return code;
}

static int check_end(const fp_end *e, const char **blob, fp_error *err) {
  bool moment = e->verb == FP_END_SLEEP || e->verb == FP_END_WAIT;
  bool least = e->verb == FP_END_WAIT || e->verb == FP_END_RETRY || e->verb == FP_END_RELEASE;
  const check_limit limits[] = {
      {"the id's bytes", e->id_bytes, 1, KEY_BYTES_MAX},
      {"the verb", e->verb, FP_END_DONE, FP_END_RELEASE},
      {"at (microseconds)", moment || least ? e->at_us : 0, least ? -1 : 0,
       moment ? MOMENT_US_MAX : SPAN_US_MAX},
      {"the bytes of what it waits for", e->waiting_bytes, -1, HEADERS_BYTES_MAX},
      {"the result's bytes", e->result_bytes, -1, BODY_BYTES_MAX},
      {"the failure's kind (bytes)", e->kind_bytes, -1, FAILURE_WORD_BYTES_MAX},
      {"the failure's code (bytes)", e->code_bytes, -1, FAILURE_WORD_BYTES_MAX},
      {"the failure's text (bytes)", e->text_bytes, -1, FAILURE_TEXT_BYTES_MAX},
  };
  int code = check_limits(limits, COUNT_OF(limits), err);
  if (code == FP_OK) code = flow_check_id(*blob, (int32_t)e->id_bytes, err);
  const int64_t part[] = {e->id_bytes, e->waiting_bytes, e->result_bytes, e->kind_bytes,
                          e->code_bytes, e->text_bytes};
  for (int i = 0; code == FP_OK && i < COUNT_OF(part); i++) *blob += part[i] < 0 ? 0 : part[i];
  return code;
}

static int check_ends(const fp_ends *all, int64_t *bytes, fp_error *err) {
  int code = check_between("the number of ends", all->count, 0, BATCH_MAX, err);
  const char *blob = all->blob;
  for (int32_t i = 0; code == FP_OK && i < all->count; i++) {
    code = check_end(&all->ends[i], &blob, err);
    if (code == FP_OK) *bytes += ROW_BYTES + all->ends[i].result_bytes;
  }
  return code;
}

int fp_pass_end(fp_store *store, fp_tx *tx, const fp_records *records, int32_t *record_answers,
                fp_rows *stored, const fp_ends *ends, int32_t *answers, fp_error *err) {
  pack rows = pack_of(RECORDED_WIDTH);
  ending e = {.records = records, .record_answers = record_answers, .rows = &rows, .ends = ends,
              .answers = answers};
  int64_t bytes = 0;
  *stored = (fp_rows){0};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  if (records != NULL) code = check_records(records, &bytes, err);
  if (code == FP_OK && ends != NULL) code = check_ends(ends, &bytes, err);
  if (code == FP_OK) code = group_run(store, tx, "a workflow's pass", bytes, flow_end, &e, err);
  code = pack_take(&rows, code, stored, err);
  group_leave(store);
  return code;
}

int fp_record_find(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int64_t token,
                   const char *key, int32_t key_bytes, fp_rows *row, fp_error *err) {
  pack rows = pack_of(1);
  finding f = {.id = {id, id_bytes}, .key = {key, key_bytes}, .token = token, .rows = &rows};
  *row = (fp_rows){0};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = flow_check_id(id, id_bytes, err);
  if (code == FP_OK) code = flow_check_key(f.key, err);
  if (code == FP_OK) code = group_look(store, tx, flow_find, &f, err);
  code = pack_take(&rows, code, row, err);
  group_leave(store);
  return code;
}

/* One of the requests of pass.h. */
static int pass_request(fp_store *store, fp_tx *tx, request run, passing *g, fp_error *err) {
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = flow_check_id(g->workflow.at, (int32_t)g->workflow.bytes, err);
  if (code == FP_OK) {
    code = check_between("budget (microseconds)", g->budget_us, 1, SPAN_US_MAX, err);
  }
  if (code == FP_OK) {
    code = check_between("alive (microseconds)", g->alive_us, 1, SPAN_US_MAX, err);
  }
  if (code == FP_OK) code = group_run(store, tx, "a workflow's pass", ROW_BYTES, run, g, err);
  group_leave(store);
  return code;
}

int fp_pass_claim(fp_store *store, const char *id, int32_t id_bytes, int64_t budget_us,
                  int64_t alive_us, int64_t *token, fp_error *err) {
  passing g = {.workflow = {id, id_bytes}, .budget_us = budget_us, .alive_us = alive_us};
  int code = pass_request(store, NULL, pass_claim, &g, err);
  *token = code == FP_OK ? g.token : 0;
  return code;
}

int fp_pass_extend(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int64_t token,
                   int64_t budget_us, int64_t alive_us, int32_t *held, fp_error *err) {
  passing g = {.workflow = {id, id_bytes}, .token = token, .budget_us = budget_us,
               .alive_us = alive_us};
  int code = pass_request(store, tx, pass_extend, &g, err);
  *held = code == FP_OK && g.held;
  return code;
}

int fp_pass_renew(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int64_t token,
                  int64_t alive_us, int32_t *held, fp_error *err) {
  passing g = {.workflow = {id, id_bytes}, .token = token, .budget_us = 1, .alive_us = alive_us};
  int code = pass_request(store, tx, pass_renew, &g, err);
  *held = code == FP_OK && g.held;
  return code;
}

int fp_pass_release(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int64_t token,
                    int32_t *held, fp_error *err) {
  passing g = {.workflow = {id, id_bytes}, .token = token, .budget_us = 1, .alive_us = 1};
  int code = pass_request(store, tx, pass_release, &g, err);
  *held = code == FP_OK && g.held;
  return code;
}

/* ---- from outside ---- */

int fp_outside_put(fp_store *store, fp_tx *tx, const fp_outside *put, fp_rows *row,
                   fp_error *err) {
  pack rows = pack_of(RECORDED_WIDTH);
  coming c = {.put = put, .rows = &rows};
  *row = (fp_rows){0};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = flow_check_coming(put, err);
  if (code == FP_OK) {
    int64_t bytes = put->value_bytes + ROW_BYTES;
    code = group_run(store, tx, "a signal", bytes, flow_come, &c, err);
  }
  code = pack_take(&rows, code, row, err);
  group_leave(store);
  return code;
}

/* One of those requests that ask about a run by its id. */
static int ask(fp_store *store, fp_tx *tx, const char *what, request run, asking *g,
               fp_error *err) {
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = flow_check_id(g->id.at, (int32_t)g->id.bytes, err);
  if (code == FP_OK) code = check_between("the queue", g->queue, 0, QUEUE_MAX, err);
  if (code == FP_OK) code = group_run(store, tx, what, ROW_BYTES, run, g, err);
  group_leave(store);
  return code;
}

int fp_discard(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int64_t *gone,
               fp_error *err) {
  asking g = {.id = {id, id_bytes}};
  int code = ask(store, tx, "a discard", flow_discard, &g, err);
  *gone = code == FP_OK ? g.gone : 0;
  return code;
}

int fp_run_cancel(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int32_t *answer,
                  fp_error *err) {
  asking g = {.id = {id, id_bytes}};
  int code = ask(store, tx, "a cancellation", flow_cancel, &g, err);
  *answer = g.answer;
  return code;
}

int fp_run_resume(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, int32_t *answer,
                  fp_error *err) {
  asking g = {.id = {id, id_bytes}};
  int code = ask(store, tx, "a resumption", flow_resume, &g, err);
  *answer = g.answer;
  return code;
}

int fp_run_delete(fp_store *store, fp_tx *tx, int64_t queue, const char *id, int32_t id_bytes,
                  int64_t *gone, fp_error *err) {
  asking g = {.id = {id, id_bytes}, .queue = queue};
  int code = ask(store, tx, "a deletion", flow_delete, &g, err);
  *gone = code == FP_OK ? g.gone : 0;
  return code;
}
