/* What every way of moving messages asks of its arguments. */
#ifndef FENCEPOST_CHECK_MOVE_H
#define FENCEPOST_CHECK_MOVE_H

#include "err.h"

/* *payload_bytes: about how many it writes, rows aside. */
int check_put(const fp_put *put, int64_t *payload_bytes, fp_error *err);
int check_settle(const fp_settle *settle, int64_t *payload_bytes, fp_error *err);
int check_take(const fp_take *take, fp_error *err);

#endif
