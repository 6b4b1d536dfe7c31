/* What the files of this room share. */
#ifndef FENCEPOST_SETTLE_PART_H
#define FENCEPOST_SETTLE_PART_H

#include "settle.h"

/* What is said of the i-th claim. */
fp_verdict settle_verdict(const fp_settle *all, int32_t i);

/* Looks at the claims from `first` on, of which the next *length (at least one) belong together.
** *together: they are settled, and the blob is behind their results; else nothing has changed, and
** each is to be settled alone. */
int settle_run(txn *t, const fp_settle *all, int32_t first, const char **blob, int32_t *length,
               bool *together, fp_error *err);

#endif
