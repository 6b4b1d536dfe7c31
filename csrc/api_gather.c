/* The exported function that brings many calls of one thread: what a facade for coroutines has
** collected. Each is checked, lined up and run as its own function would. */
#include <string.h>

#include "check.h"
#include "check_move.h"
#include "claim.h"
#include "enqueue.h"
#include "fault.h"
#include "flow.h"
#include "group.h"
#include "orphans.h"

enum { GATHERED_MAX = 1000 }; /* calls at once */

typedef struct gathered {
  waiter waiter;
  union {
    enqueuing enqueue;
    settling settle;
    claiming claim;
    cancelling cancel;
    starting start;
    coming come;
  } as;
  pack rows; /* of a claim, or of what came */
} gathered;

static void will(gathered *g, const char *what, int64_t bytes, request run, fp_call *call) {
  g->waiter = (waiter){
      .what = what, .run = run, .argument = &g->as, .bytes = bytes, .err = &call->err};
}

static int prepare_step(gathered *g, fp_call *call) {
  int64_t bytes = 0;
  int code = check_take(call->take, &call->err);
  if (code == FP_OK && call->settle != NULL) {
    code = check_settle(call->settle, &bytes, &call->err);
  }
  int64_t items = call->take->limit;
  if (call->settle != NULL) items += call->settle->count;
  bytes += items * ROW_BYTES;
  g->as.claim = (claiming){.take = call->take, .settle = call->settle, .answers = call->answers,
                           .rows = &g->rows};
  will(g, "a claim", bytes, claim_step, call);
  return code;
}

static int prepare_cancel(gathered *g, fp_call *call) {
  g->as.cancel =
      (cancelling){.count = call->count, .ids = call->messages, .answers = call->answers};
  will(g, "a cancellation", call->count * (int64_t)ROW_BYTES, settle_cancel, call);
  return check_between("the number of messages", call->count, 0, BATCH_MAX, &call->err);
}

static int prepare_start(gathered *g, fp_call *call) {
  int code = flow_check_start(call->start, &call->err);
  if (code != FP_OK) return code;
  g->as.start = (starting){.start = call->start};
  will(g, "a workflow's start", call->start->args_bytes + 2 * ROW_BYTES, flow_start, call);
  return FP_OK;
}

static int prepare_outside(gathered *g, fp_call *call) {
  int code = flow_check_coming(call->outside, &call->err);
  if (code != FP_OK) return code;
  g->rows = pack_of(RECORDED_WIDTH);
  g->as.come = (coming){.put = call->outside, .rows = &g->rows};
  will(g, "a signal", call->outside->value_bytes + ROW_BYTES, flow_come, call);
  return FP_OK;
}

static int prepare(gathered *g, fp_call *call) {
  int64_t bytes;
  int code;
  err_clear(&call->err);
  g->rows = pack_of(CLAIM_WIDTH);
  switch (call->verb) {
    case FP_CALL_ENQUEUE:
      code = check_put(call->put, &bytes, &call->err);
      g->as.enqueue = (enqueuing){.put = call->put, .ids = call->ids, .created = call->created};
      will(g, "an enqueue", bytes + call->put->count * (int64_t)ROW_BYTES, enqueue, call);
      return code;
    case FP_CALL_SETTLE:
      code = check_settle(call->settle, &bytes, &call->err);
      g->as.settle = (settling){.settle = call->settle, .answers = call->answers};
      will(g, "a settlement", bytes + call->settle->count * (int64_t)ROW_BYTES, settle_many, call);
      return code;
    case FP_CALL_STEP:
      return prepare_step(g, call);
    case FP_CALL_CANCEL:
      return prepare_cancel(g, call);
    case FP_CALL_START:
      return prepare_start(g, call);
    case FP_CALL_OUTSIDE:
      return prepare_outside(g, call);
    default:
      return err_set(&call->err, FP_INVALID, "%d is no call that can be gathered", call->verb);
  }
}

static bool has_rows(const fp_call *call) {
  return call->verb == FP_CALL_STEP || call->verb == FP_CALL_OUTSIDE;
}

static void answer(gathered *g, fp_call *call) {
  if (call->code == FP_OK && call->verb == FP_CALL_START) {
    call->ids[0] = g->as.start.message;
    call->created[0] = g->as.start.created;
  }
  if (has_rows(call)) {
    call->code = pack_take(&g->rows, call->code, call->rows, &call->err);
  } else {
    pack_free(&g->rows);
  }
}

/* Those that are not refused at once stand in line. */
static int run_all(fp_store *store, int32_t count, fp_call *const *calls, gathered *all,
                   waiter **lined, fp_error *err) {
  int32_t standing = 0;
  bool claims = false;
  for (int32_t i = 0; i < count; i++) {
    if (has_rows(calls[i])) *calls[i]->rows = (fp_rows){0};
    calls[i]->code = prepare(&all[i], calls[i]);
    if (calls[i]->code != FP_OK) continue;
    claims = claims || (calls[i]->verb == FP_CALL_STEP && calls[i]->take->limit > 0);
    lined[standing++] = &all[i].waiter;
  }
  if (claims) orphans_look(store);
  int code = group_run_all(store, lined, standing, err);
  for (int32_t i = 0; i < count; i++) {
    if (calls[i]->code == FP_OK) calls[i]->code = code == FP_OK ? all[i].waiter.code : code;
    answer(&all[i], calls[i]);
  }
  return code;
}

int fp_gather(fp_store *store, int32_t count, fp_call *const *calls, fp_error *err) {
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = check_between("the number of calls", count, 0, GATHERED_MAX, err);
  if (code == FP_OK) {
    gathered *all = mem_get((count + 1) * (int64_t)sizeof *all);
    waiter **lined = mem_get((count + 1) * (int64_t)sizeof *lined);
    if (all == NULL || lined == NULL) {
      code = err_memory(err);
    } else {
      code = run_all(store, count, calls, all, lined, err);
    }
    mem_free(lined);
    mem_free(all);
  }
  group_leave(store);
  return code;
}
