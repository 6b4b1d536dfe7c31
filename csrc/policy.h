/* Queues and kinds: the rows that names stand for, and what a profile fixes.
**
** A name that has a number has it for good: no row of these is ever deleted or renumbered, so the
** number may be remembered once it is committed. */
#ifndef FENCEPOST_POLICY_H
#define FENCEPOST_POLICY_H

#include "txn.h"

/* What the kind of queue fixes; the rest is the same for all. */
void policy_defaults(int32_t profile, int64_t *fields);
/* number 0: there is none. `fields` may be NULL. */
int policy_find(txn *t, span name, int64_t *number, int64_t *fields, fp_error *err);
/* Makes the queue, or brings its row to `fields` (INT64_MIN: as it is, or the profile's default).
** *raised: the lane width grew, so lanes have to be widened. FP_INVALID: the name is of another
** profile, or `addressed` would change while messages are in line. */
int policy_define(txn *t, span name, int32_t profile, const int64_t *fields, int64_t *number,
                  bool *raised, fp_error *err);
int policy_size(txn *t, int64_t queue, int64_t *size, fp_error *err); /* messages in line */
int policy_set(txn *t, int64_t queue, int field, int64_t value, fp_error *err);
int policy_kind(txn *t, span name, bool make, int64_t *number, fp_error *err); /* 0: none */

/* How long a lasting key answers after its message ended: key_window, or the longer of keep and
** 7 days. */
int64_t policy_key_window(const policy *p);

#endif
