/* The door: two views through which any other SQLite, in any language, puts messages in and
** settles claims by a plain INSERT, in its own transaction.
**
** A view has no rows to insert into; its INSTEAD OF trigger does what enqueue.c and settle.c do,
** and leaves the file exactly as they would (the tests compare whole files). A trigger has no
** variables: where one is needed, the next statement is an INSERT into a view of a further trigger,
** whose NEW.columns are the variables. Those views are named fencepost_door_…, and are nobody's
** but ours; what is inserted into them goes by position:
**
**   fencepost_enqueue -> door_put (in numbers) -> door_key (is it taken?) -> door_arrive (the rows)
**   fencepost_settle  -> door_claim (in numbers) -> door_row (what follows) -> door_end (the rows)
**                                                                  -> door_promote (its lane)
**                      -> door_child (whose was it?) -> door_told (who is told) -> door_wake
**
** Rules for all of it:
**   1. It must parse and run in SQLite 3.26, and with trusted_schema off.
**   2. No statement relies on a constraint: the OR IGNORE or OR REPLACE of the caller's own INSERT
**      overrules what is said inside. RAISE(ABORT) is not overruled, so each guard is one, and all
**      guards of a level stand before its first write.
**   3. The words after "fencepost: " are what python/fencepost/_door/drivers.py tells errors by.
**   4. An INSERT … SELECT into a view, or into a table that it reads, builds a temporary table, and
**      so does an UPDATE of what has no rowid: 20,000 instructions each, used or not. So it is
**      VALUES, and the condition is the WHEN of the trigger. One such table is left, in door_row.
**   5. A migration drops and makes all of it anew; what is here has no data. */
#ifndef FENCEPOST_DOOR_H
#define FENCEPOST_DOOR_H

#include "door_enqueue.h"
#include "door_settle.h"

/* A trigger can only be made where its view is. */
#define SCHEMA_DOOR                                                                             \
  DOOR_QUEUE, DOOR_ENQUEUE, DOOR_PUT, DOOR_KEY, DOOR_REARM, DOOR_ARRIVE, DOOR_SETTLE,           \
      DOOR_CLAIM, DOOR_ROW, DOOR_END, DOOR_PROMOTE, DOOR_CHILD, DOOR_TOLD, DOOR_WAKE,           \
      DOOR_QUEUE_IN, DOOR_ENQUEUE_IN, DOOR_PUT_IN, DOOR_KEY_IN, DOOR_REARM_IN, DOOR_ARRIVE_IN,  \
      DOOR_SETTLE_IN, DOOR_CLAIM_IN, DOOR_ROW_IN, DOOR_END_IN, DOOR_PROMOTE_IN, DOOR_CHILD_IN,  \
      DOOR_TOLD_IN, DOOR_WAKE_IN

#endif
