/* Waiting, the one function for all who wait: a claim without work, a result, a full queue.
**
** The version moves with every commit of any connection and process. Read it before you look at
** what you wait for, and no wake-up is lost. */
#ifndef FENCEPOST_WAKE_H
#define FENCEPOST_WAKE_H

#include "store.h"

int wake_version(fp_store *store, int64_t *version, fp_error *err);
/* Until the version is another than *version, store time reaches until_us, or one slice has passed.
** *version is brought up to date. FP_CLOSED: the store was closed meanwhile. */
int wake_wait(fp_store *store, int64_t *version, int64_t until_us, fp_error *err);

#endif
