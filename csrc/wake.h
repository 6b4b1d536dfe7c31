/* Waiting for a change of the file, the one way for all: a claim without work, a result, a full
** queue, the write lock. The bell does the work (bell.h); here is what a store knows of it. */
#ifndef FENCEPOST_WAKE_H
#define FENCEPOST_WAKE_H

#include "store.h"

#define WAKE_LOCK BELL_LOCK /* rings for who waits for the write lock */

/* What is waited for, and for how long. */
typedef struct waiting {
  uint32_t bits;    /* BELL_OF the queues; BELL_ANY: each commit */
  int64_t span_us;  /* of store time; at most a slice is waited */
  int64_t nudges;   /* comes back after one more; 0: never mind */
  bool back;        /* out: a signal or a nudge ended it, which the caller's caller has to see */
} waiting;

/* Read it before you look at what you wait for, and no wake-up is lost. */
int64_t wake_version(const fp_store *store);
/* Until the version is another one, or the span is over. Where the clock is set by hand, the hand
** may move meanwhile: then it comes back in between. FP_CLOSED: the store was closed meanwhile. */
int wake_wait(fp_store *store, int64_t version, waiting *w, fp_error *err);
/* Waking up was worth it. */
void wake_found(fp_store *store);
/* After a COMMIT: `bits` is the transaction's `rings`, and WAKE_LOCK where the lock came free. */
void wake_ring(fp_store *store, uint32_t bits);
/* Another process has the write lock: until one of ours rings that it is free, or the span is
** over. */
void wake_nap(fp_store *store, int64_t span_us);

#endif
