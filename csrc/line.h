/* The line. A message that waits and a message that is out with a worker are the same row in the
** same table; being claimed is only a later place in the line.
**
** A claim moves the row back to the end of its lease and stamps it with the next token, so a
** worker that dies needs no rescuer: the row comes due again by itself, and the dead worker's
** token is now too small to settle anything. Two facts, and every promise follows from them:
**
**   1. Only the holder of the newest token may settle, renew or return.    (at most one finisher)
**   2. A row leaves the line only into an outcome.                         (at least one delivery)
**
** turn = queue << 8 | (127 - priority), so that a higher priority stands before a lower one; a
** negative turn is the waiting room of the lane of that number. */
#ifndef FENCEPOST_LINE_H
#define FENCEPOST_LINE_H

#include "txn.h"

int64_t line_turn(int64_t queue, int64_t priority);
/* What it is counted as: N_PENDING, N_WAITING (in its lane, or for something to come), N_LEASED. */
int line_state(int64_t turn, int64_t due_at, int64_t stage);

/* What a message says of itself; key and lane are copies, to be freed by facts_free. */
typedef struct facts {
  bool found;
  int64_t queue, kind, priority, enqueued_at, due, max_attempts, life;
  span key, lane; /* at NULL: none */
  char *memory;
} facts;
int line_facts(txn *t, int64_t id, facts *f, fp_error *err);
void facts_free(facts *f);

/* How a message has ended. */
typedef struct line_outcome {
  bool found; /* false: it has not, or nothing of that was kept */
  int64_t id, queue, state, settled_at, attempts, token, generation;
} line_outcome;
int line_outcome_of(txn *t, int64_t id, line_outcome *e, fp_error *err);

/* A level is all that stands under one turn. From *turn to the next one before `end`, and the first
** moment there; *turn 0: there is none. */
int line_next_level(txn *t, int64_t end, int64_t *turn, int64_t *due_at, fp_error *err);
/* The number of a lane; 0: it has none, so that nobody is in it. */
int line_lane(txn *t, int64_t queue, span name, int64_t *number, fp_error *err);

/* What is known of a failure; at NULL: not said. */
typedef struct failure {
  span kind, code, text;
} failure;

/* The columns of a row from token to placed_at, in the order of the table, which are the next
** to be read. */
void line_read(stmt *s, place *at);
int line_put(txn *t, const place *at, fp_error *err);
int line_put_many(txn *t, const place *all, int64_t count, fp_error *err);
/* By place, token and stage: what another handle has begun is not as remembered. */
int line_drop(txn *t, const place *at, bool *dropped, fp_error *err);

/* May the remembered place of a claim be taken at its word? */
bool line_trusts(const txn *t, const policy *p, const place *at);

/* Takes the claim's row out of the line, wherever it stands now, and says where it stood.
** *found false: (id, token) is not the newest claim, or (inbox queues) its lease has run out; then
** nothing has changed. */
int line_take(txn *t, int64_t id, int64_t token, bool *found, place *at, fp_error *err);

/* A wake-up: pending, it is due at the earlier of both moments; leased, once more after it. */
int line_rearm(txn *t, place *at, int64_t due_us, fp_error *err);

/* Forgets the hints of lapsed claims that somebody else has taken since. Called before the table of
** hints would grow, so that claims nobody ever settles do not pile up in it. */
int line_forget_lost(txn *t, fp_error *err);

/* Where a message stands, by its id alone. *found false: not in line. FP_INVALID: it is of a bulk
** queue and has moved, so that nobody but the holder of its claim can say. */
int line_locate(txn *t, int64_t id, bool *found, place *at, fp_error *err);

#endif
