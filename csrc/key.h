/* Keys: who says a thing first owns the key; whoever says it again is answered with the first.
**
** A lasting key (`key`) answers until retention removes it; a live one (`unique`) while its message
** is in line. "Equal" is the digest of kind and body; where a row has none, the bodies are. */
#ifndef FENCEPOST_KEY_H
#define FENCEPOST_KEY_H

#include "line.h"

typedef struct keyed {
  int64_t queue, kind;
  int32_t life;
  span key, digest, body, headers; /* digest at NULL: compare body and headers */
} keyed;

/* Gives the key to `id` unless another message has it. *owner: who has it now.
** *equal: the other one says the same. An expired key is free. */
int key_take(txn *t, const keyed *k, int64_t id, int64_t *owner, bool *equal, fp_error *err);
/* Gives the key to `id`, whoever has it. */
int key_move(txn *t, const keyed *k, int64_t id, fp_error *err);
int key_free(txn *t, int64_t queue, int64_t kind, int64_t life, span key, int64_t id,
             fp_error *err);
int key_owner(txn *t, int64_t queue, int64_t kind, int64_t life, span key, int64_t *owner,
              fp_error *err); /* 0: nobody, or not any more */

#endif
