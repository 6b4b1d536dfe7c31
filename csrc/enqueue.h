/* Enqueue: one message or many, all or none.
**
** First every key is taken, item by item, and this alone can meet a Conflict; the keys taken so
** far are then given back, so that nothing has changed. After that the messages are written, and
** nothing expected can fail any more. Where equal messages are replaced or re-armed no key can meet
** a Conflict, and the two go on in turns, item by item. */
#ifndef FENCEPOST_ENQUEUE_H
#define FENCEPOST_ENQUEUE_H

#include "key.h"
#include "lane.h"

typedef struct enqueuing {
  const fp_put *put;
  int64_t *ids;
  unsigned char *created;
} enqueuing;

int enqueue(txn *t, void *enqueuing_argument, fp_error *err);

#endif
