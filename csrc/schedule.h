/* Schedules: up to which moment each has fired, and what it enqueued last. What the moments are is
** the binding's to know; a schedule is brought forward in the transaction of what it enqueues, so
** that of all processes one does. */
#ifndef FENCEPOST_SCHEDULE_H
#define FENCEPOST_SCHEDULE_H

#include "txn.h"

typedef struct schedule {
  bool found;
  int64_t last_fired; /* a moment */
  int64_t running;    /* the message it enqueued last; 0: none */
} schedule;

/* As it is declared, which the file keeps for who looks at it. */
typedef struct schedule_words {
  span name, expression, zone;
  int64_t kind, missed;
} schedule_words;

int schedule_find(txn *t, span name, schedule *out, fp_error *err);
/* Makes its row, or brings it forward. */
int schedule_keep(txn *t, const schedule_words *w, const schedule *is, fp_error *err);

#endif
