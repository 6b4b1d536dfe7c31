/* What the files of this room share. */
#ifndef FENCEPOST_FLOW_PART_H
#define FENCEPOST_FLOW_PART_H

#include "flow.h"

/* A wake-up without a kind, in a queue of wake-ups, for who has no run. */
int flow_wake_plain(txn *t, int64_t queue, span id, fp_error *err);

#endif
