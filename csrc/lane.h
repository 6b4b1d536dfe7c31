/* Lanes: strictly one after the other (or `lane_width` at once), first in, first out by id.
**
** A lane's row counts how many of its messages stand in the line (`out`); the others wait under
** the lane's own turn, where due-select never meets them. Whoever leaves the line lets the next
** one in, in the same transaction. A retried or delayed head keeps its slot, so nobody overtakes.
**
**   out < width  implies  nobody waits, unless the lane is held. */
#ifndef FENCEPOST_LANE_H
#define FENCEPOST_LANE_H

#include "line.h"
#include "pack.h"

/* A further message of the lane. *turn: 0, it stands in the line; else the turn to wait at. */
int lane_enter(txn *t, const policy *p, span name, int64_t *turn, fp_error *err);
/* One that stood in the line has left it: the next one steps in. */
int lane_leave(txn *t, const policy *p, span name, fp_error *err);
/* The same, where the head died or is unknown and the queue says halt: nobody steps in until
** lane_release. */
int lane_park(txn *t, const policy *p, span name, int64_t id, fp_error *err);
/* One that is unknown is tried again: if its lane halted for it, it has its slot back, before those
** who wait, and the lane goes on with it; else it enters as any. */
int lane_resume(txn *t, const policy *p, span name, int64_t id, int64_t *turn, fp_error *err);
/* Lets a halted lane go on; `by` not 0: only if it was that message that halted it. */
int lane_release(txn *t, const policy *p, span name, int64_t by, bool *released, fp_error *err);
/* Those that stand still, by name, behind `after`: rows of 2 values, as fp_lanes says. */
int lane_halted(txn *t, int64_t queue, span after, int32_t limit, pack *rows, fp_error *err);
/* The queue's lane_width grew. */
int lane_widen(txn *t, const policy *p, fp_error *err);

#endif
