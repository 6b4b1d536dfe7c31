/* The keeper: the one thread that C starts, so that a handler which holds the interpreter's lock
** does not lose its lease meanwhile.
**
**   1. Each beat renews, in one transaction and first in line, every claim it was given, for the
**      lease that was named with it, until it is dropped or its own end has come.
**   2. A claim that somebody else has meanwhile is marked lost, and is not renewed any more.
**   3. A beat that the world refused (a busy or full file) is tried again, at the latest with the
**      next one; a claim is lost only when the file says so.
**   4. No claim is renewed once it was dropped, except by a beat that is under way; that one cannot
**      harm it, because a settled claim is not there to be renewed.
**
** The list has its own lock, which is never held while the file is. A closed store makes the keeper
** idle; a forked child has no thread, and only frees. */
#ifndef FENCEPOST_KEEPER_H
#define FENCEPOST_KEEPER_H

#include "settle.h"
#include "store.h"

enum { KEEPER_WIDTH = 4 }; /* id, token, lease_us, until_us of a claim that is to be held */

int keeper_start(fp_store *store, int64_t beat_us, fp_keeper **keeper, fp_error *err);
/* As fp_keeper_hold and fp_keeper_drop. */
int keeper_hold(fp_keeper *keeper, int32_t count, const int64_t *claims, fp_error *err);
void keeper_drop(fp_keeper *keeper, int32_t count, const int64_t *claims);
bool keeper_lost(fp_keeper *keeper, int64_t id, int64_t token);
void keeper_stop(fp_keeper *keeper);

#endif
