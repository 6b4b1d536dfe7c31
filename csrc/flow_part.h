/* What the files of this room share. */
#ifndef FENCEPOST_FLOW_PART_H
#define FENCEPOST_FLOW_PART_H

#include "flow.h"

/* The columns of a blob, cut in order. */
static inline span flow_cut(const char **at, int64_t bytes) {
  if (bytes < 0) return NO_SPAN;
  span part = {bytes == 0 ? "" : *at, bytes};
  if (bytes > 0) *at += bytes;
  return part;
}

/* A wake-up without a kind, in a queue of wake-ups, for who has no run. */
int flow_wake_plain(txn *t, int64_t queue, span id, fp_error *err);

#endif
