#include "check.h"
#include "flow.h"
#include "record.h"

int flow_check_id(const char *id, int32_t id_bytes, fp_error *err) {
  return check_name("a workflow's id", (span){id, id_bytes}, KEY_BYTES_MAX, err);
}

int flow_check_key(span key, fp_error *err) {
  int code = check_name("a record's key", key, KEY_BYTES_MAX, err);
  if (code == FP_OK && record_reserved(key)) {
    code = err_set(err, FP_INVALID, "the key '%.*s' begins like those that the store gives itself",
                   (int)key.bytes, key.at);
  }
  return code;
}

int flow_check_value(int64_t bytes, fp_error *err) {
  return check_between("a value's bytes", bytes, -1, BODY_BYTES_MAX, err);
}

int flow_check_parent(const fp_parent *p, fp_error *err) {
  const span key = {p->key, p->key_bytes};
  int code = flow_check_id(p->id, p->id_bytes, err);
  if (code == FP_OK) code = check_name("a child's key", key, KEY_BYTES_MAX, err);
  if (code == FP_OK) code = flow_check_key(key, err);
  return code;
}

int flow_check_start(const fp_start *s, fp_error *err) {
  int64_t most = s->absolute ? MOMENT_US_MAX : SPAN_US_MAX;
  int code = flow_check_id(s->id, s->id_bytes, err);
  if (code == FP_OK) code = check_between("the queue", s->queue, 1, QUEUE_MAX, err);
  if (code == FP_OK) code = check_between("kind", s->kind, 1, INT64_MAX, err);
  if (code == FP_OK) code = check_between("the arguments' bytes", s->args_bytes, -1, BODY_BYTES_MAX,
                                          err);
  if (code == FP_OK) code = check_between("the headers' bytes", s->header_bytes, -1,
                                          HEADERS_BYTES_MAX, err);
  if (code == FP_OK) code = check_between("delay (microseconds)", s->delay_us, 0, most, err);
  if (code == FP_OK) code = check_between("priority", s->priority, PRIORITY_MIN, PRIORITY_MAX, err);
  if (code == FP_OK) code = check_between("max_attempts", s->max_attempts, -1, ATTEMPTS_MAX, err);
  if (code == FP_OK && s->parent != NULL) code = flow_check_parent(s->parent, err);
  return code;
}

int flow_check_coming(const fp_outside *put, fp_error *err) {
  int code = flow_check_id(put->id, put->id_bytes, err);
  if (code == FP_OK && put->key != NULL) {
    code = flow_check_key((span){put->key, put->key_bytes}, err);
  }
  if (code == FP_OK) code = flow_check_value(put->value_bytes, err);
  if (code == FP_OK) code = check_between("kind", put->kind, 0, FP_RECORD_SHOWN_MAX, err);
  if (code == FP_OK) code = check_between("the queue", put->queue, 0, QUEUE_MAX, err);
  return code;
}
