#include "check_move.h"

#include "check.h"

static int check_part(const char *what, const char **at, const int32_t *bytes, int32_t i,
                      int64_t bytes_max, fp_error *err) {
  if (bytes == NULL || bytes[i] < 0) return FP_OK;
  int code = check_name(what, (span){*at, bytes[i]}, bytes_max, err);
  if (*at != NULL) *at += bytes[i];
  return code;
}

static int check_when(const fp_put *put, int64_t when, fp_error *err) {
  if (put->absolute) return check_between("due", when, 0, MOMENT_US_MAX, err);
  return check_between("delay (microseconds)", when, 0, SPAN_US_MAX, err);
}

int check_put(const fp_put *put, int64_t *payload_bytes, fp_error *err) {
  const char *key = put->keys, *lane = put->lanes;
  int64_t bytes = 0;
  int code = check_between("the number of messages", put->count, 1, BATCH_MAX, err);
  if (code == FP_OK) code = check_between("equal", put->equal, 0, FP_EQUAL_REARM, err);
  if (code == FP_OK) code = check_between("max_attempts", put->max_attempts, -1, ATTEMPTS_MAX, err);
  if (code == FP_OK && put->delays_us == NULL) code = check_when(put, put->delay_us, err);
  if (code == FP_OK && put->priorities == NULL) {
    code = check_between("priority", put->priority, PRIORITY_MIN, PRIORITY_MAX, err);
  }
  for (int32_t i = 0; code == FP_OK && i < put->count; i++) {
    bytes += put->body_bytes[i];
    if (put->body_bytes[i] > BODY_BYTES_MAX) {
      code = check_between("the payload's bytes", put->body_bytes[i], 0, BODY_BYTES_MAX, err);
    }
    if (code == FP_OK && put->delays_us != NULL) code = check_when(put, put->delays_us[i], err);
    if (code == FP_OK && put->header_bytes != NULL) {
      code = check_between("the headers' bytes", put->header_bytes[i], -1, HEADERS_BYTES_MAX, err);
    }
    if (code == FP_OK) code = check_part("a key", &key, put->key_bytes, i, KEY_BYTES_MAX, err);
    if (code == FP_OK) code = check_part("a lane", &lane, put->lane_bytes, i, LANE_BYTES_MAX, err);
    if (code == FP_OK && put->key_bytes != NULL && put->key_bytes[i] >= 0) {
      int32_t life = put->lives != NULL ? put->lives[i] : put->life;
      code = check_between("the key's life", life, FP_LIFE_LASTING, FP_LIFE_LIVE, err);
    }
  }
  if (code == FP_OK) code = check_between("the batch's bytes", bytes, 0, BATCH_BYTES_MAX, err);
  *payload_bytes = bytes;
  return code;
}

static int check_verdict(const fp_verdict *v, fp_error *err) {
  /* -1: as the queue says */
  bool own = v->verb == FP_RETRY || v->verb == FP_RENEW || v->verb == FP_BEGIN;
  const check_limit limits[] = {
      {"the verb", v->verb, FP_ACK, FP_UNKNOWN},
      {"delay (microseconds)", v->delay_us, own ? -1 : 0, SPAN_US_MAX},
      {"the result's bytes", v->result_bytes, -1, BODY_BYTES_MAX},
      {"the failure's kind (bytes)", v->kind_bytes, -1, FAILURE_WORD_BYTES_MAX},
      {"the failure's code (bytes)", v->code_bytes, -1, FAILURE_WORD_BYTES_MAX},
      {"the failure's text (bytes)", v->text_bytes, -1, FAILURE_TEXT_BYTES_MAX},
  };
  return check_limits(limits, COUNT_OF(limits), err);
}

int check_settle(const fp_settle *settle, int64_t *payload_bytes, fp_error *err) {
  int64_t bytes = 0;
  int code = check_between("the number of claims", settle->count, 0, BATCH_MAX, err);
  for (int32_t i = 0; settle->verdicts != NULL && code == FP_OK && i < settle->count; i++) {
    const fp_verdict *v = &settle->verdicts[i];
    code = check_verdict(v, err);
    if (code == FP_OK) bytes += v->result_bytes + v->text_bytes;
  }
  *payload_bytes = bytes;
  return code;
}

int check_take(const fp_take *take, fp_error *err) {
  const check_limit limits[] = {
      {"limit", take->limit, 0, CLAIM_MAX},
      {"the number of queues", take->queue_count, 0, CLAIM_QUEUES_MAX},
      {"lease (microseconds)", take->lease_us, 0, SPAN_US_MAX},
      {"bytes", take->bytes_max, 0, BATCH_BYTES_MAX},
      {"alone", take->alone, 0, FP_ALONE_NEVER},
      {"turn", take->turn, 0, CLAIM_QUEUES_MAX},
      {"ahead", take->ahead, 0, CLAIM_MAX},
      {"the slice", take->slice_us, 0, SPAN_US_MAX},
  };
  return check_limits(limits, COUNT_OF(limits), err);
}
