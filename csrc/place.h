/* Where in the line the claims of this handle stand.
**
** A claim is (id, token); its place moves with every renewal. Bulk queues keep no index on id, so
** the handle that gave a claim out remembers its place here; for addressed queues this table is a
** short cut in front of the index. An entry is a hint that DUE_DROP proves by token: a stale one
** opens nothing.
**
** Changes made in a transaction are logged, so that a rollback undoes them, and a place that a
** ROLLBACK TO of the caller's own savepoint brought back can be sought where it was. */
#ifndef FENCEPOST_PLACE_H
#define FENCEPOST_PLACE_H

#include "base.h"

/* A row of the line, as far as settling and moving need it. */
typedef struct place {
  int64_t id, token;
  int64_t turn, due_at;
  int64_t queue, kind;
  int64_t attempts, generation, again, placed_at, worker;
  int32_t stage;
  int32_t addressed;
  int32_t life;  /* of its message's key */
  int32_t laned; /* 1: its message has a lane */
} place;

typedef struct places {
  place *slots; /* id 0: empty; open addressing, linear probing */
  int64_t count, room;
  place *log; /* what stood there before, newest last; token 0: nothing */
  int64_t log_count, log_room;
} places;

void places_free(places *p);
bool places_get(const places *p, int64_t id, place *out);
bool places_put(places *p, const place *at); /* false: out of memory, nothing changed */
bool places_drop(places *p, int64_t id);     /* the same */
void places_keep(places *p);                 /* the transaction is in the file */
void places_undo(places *p);                 /* it is not */
bool places_full(const places *p); /* the next new one will need more room */
/* The first entry at or behind slot *at, which moves past it; false: there is none. */
bool places_walk(const places *p, int64_t *at, place *out);

#endif
