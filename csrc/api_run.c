/* The exported functions of runs: how they begin and how they are looked at. Each checks what it
** was given, lines up, and makes one inner call. */
#include "check.h"
#include "check_move.h"
#include "flow.h"
#include "group.h"
#include "record.h"

/* ---- start ---- */

int fp_start_run(fp_store *store, fp_tx *tx, const fp_start *start, int64_t *message,
                 int32_t *created, fp_error *err) {
  starting g = {.start = start};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = flow_check_start(start, err);
  if (code == FP_OK) {
    int64_t bytes = start->args_bytes + 2 * ROW_BYTES;
    code = group_run(store, tx, "a workflow's start", bytes, flow_start, &g, err);
  }
  *message = g.message;
  *created = g.created;
  group_leave(store);
  return code;
}

int fp_start_job(fp_store *store, fp_tx *tx, const fp_put *put, const fp_parent *parent,
                 int64_t *message, int32_t *created, fp_error *err) {
  starting g = {.put = put, .parent = parent};
  int64_t bytes = 0;
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = flow_check_parent(parent, err);
  if (code == FP_OK && (put->count != 1 || put->key_bytes != NULL)) {
    code = err_set(err, FP_INVALID, "a child is one message, and its key is given to it");
  }
  if (code == FP_OK) code = check_put(put, &bytes, err);
  bytes += 2 * ROW_BYTES;
  if (code == FP_OK) code = group_run(store, tx, "an enqueue", bytes, flow_start_job, &g, err);
  *message = g.message;
  *created = g.created;
  group_leave(store);
  return code;
}

int fp_run_fork(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, const char *key,
                int32_t key_bytes, const fp_start *start, int64_t *message, fp_error *err) {
  forking g = {.id = {id, id_bytes}, .key = {key, key_bytes}, .start = *start};
  g.start.kind = 1; /* the other run's, once that is known */
  g.start.args_bytes = -1;
  g.start.parent = NULL;
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = flow_check_id(id, id_bytes, err);
  if (code == FP_OK && key != NULL) code = check_name("a record's key", g.key, KEY_BYTES_MAX, err);
  if (code == FP_OK) code = flow_check_start(&g.start, err);
  if (code == FP_OK) code = group_run(store, tx, "a fork", ROW_BYTES, flow_fork, &g, err);
  *message = g.message;
  group_leave(store);
  return code;
}

int fp_run_purge(fp_store *store, int32_t state, int64_t before_us, int32_t limit, int32_t apply,
                 int64_t *purged, int32_t *more, fp_error *err) {
  sweep g = {.state = state, .limit = limit, .before_us = before_us, .apply = apply != 0};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("the state", state, FP_RUN_FAILED, FP_RUN_CANCELLED, err);
  if (code == FP_OK) code = check_between("limit", limit, 1, SLICE_MAX, err);
  if (code == FP_OK && apply) {
    code = group_run(store, NULL, "a purge", limit * ROW_BYTES, flow_purge, &g, err);
  }
  if (code == FP_OK && !apply) code = group_look(store, NULL, flow_purge, &g, err);
  *purged = g.purged;
  *more = g.more;
  group_leave(store);
  return code;
}

/* ---- looking ---- */

/* What is asked, of which each request reads its part; the answer's rows. */
typedef struct question {
  span id;
  int64_t after;
  int32_t limit;
  const fp_run_filter *filter;
  int64_t *next;
  bool more;
  pack rows;
} question;

static int show(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  pack_clear(&q->rows);
  return flow_show(t, q->id, &q->rows, err);
}

static int page(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  pack_clear(&q->rows);
  return record_page(t, q->id, q->after, q->limit, &q->rows, &q->more, err);
}

static int list(txn *t, void *argument, fp_error *err) {
  question *q = argument;
  return flow_list(t, q->filter, &q->rows, q->next, &q->more, err);
}

/* Counted in already: asks the reader (or inside the transaction), and counts out. */
static int answer(fp_store *store, fp_tx *tx, int code, request look, question *q, fp_rows *rows,
                  fp_error *err) {
  if (code == FP_OK) code = group_look(store, tx, look, q, err);
  code = pack_take(&q->rows, code, rows, err);
  group_leave(store);
  return code;
}

int fp_run_get(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes, fp_rows *row,
               fp_error *err) {
  question q = {.id = {id, id_bytes}, .rows = pack_of(RUN_WIDTH)};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  return answer(store, tx, flow_check_id(id, id_bytes, err), show, &q, row, err);
}

int fp_run_list(fp_store *store, const fp_run_filter *filter, fp_rows *rows, int64_t next[3],
                int32_t *has_next, fp_error *err) {
  question q = {.filter = filter, .next = next, .rows = pack_of(RUN_WIDTH)};
  *has_next = 0;
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("limit", filter->limit, 1, PAGE_MAX, err);
  if (code == FP_OK) {
    code = check_between("the state", filter->state, FP_RUN_ANY, FP_RUN_CANCELLED, err);
  }
  if (code == FP_OK && filter->has_after) {
    code = check_between("the cursor's state", filter->after[0], 0, FP_RUN_CANCELLED, err);
  }
  code = answer(store, NULL, code, list, &q, rows, err);
  if (code == FP_OK) *has_next = q.more;
  return code;
}

int fp_record_page(fp_store *store, fp_tx *tx, const char *id, int32_t id_bytes,
                   int64_t after_seq, int32_t limit, fp_rows *rows, int32_t *more, fp_error *err) {
  question q = {.id = {id, id_bytes}, .after = after_seq, .limit = limit,
                .rows = pack_of(RECORD_PAGE_WIDTH)};
  *more = 0;
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = flow_check_id(id, id_bytes, err);
  if (code == FP_OK) code = check_between("limit", limit, 1, SLICE_MAX, err);
  code = answer(store, tx, code, page, &q, rows, err);
  if (code == FP_OK) *more = q.more;
  return code;
}
