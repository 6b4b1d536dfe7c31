/* What each cost driver stands on: a store, one queue, and the buffers of its calls. */
#ifndef BENCH_STAGE_H
#define BENCH_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "fencepost.h"

enum { CLAIM_RECORD = 16, BODY_BYTES = 200, KEY_BYTES = 18, DIGEST = 32 };

/* bulk: nothing is kept. kept: outcomes are, unlisted. job: kept, addressed and listed. */
typedef struct stage {
  fp_store *store;
  fp_error err;
  const char *profile;
  int64_t queue, kind;
  int32_t batch;     /* messages of one call */
  int64_t *ids;      /* of message i */
  int64_t *pairs;    /* (id, token) of claim i, as fp_settle and fp_replay want them */
  /* Of one call: */
  char *bodies, *keys, *digests;
  uint32_t *body_bytes;
  int32_t *key_bytes, *answers;
  unsigned char *created;
} stage;

/* Says the core's own words and ends the process, unless `code` is FP_OK. */
void must(stage *s, int code, const char *what);
void expect(bool holds, const char *what);

/* Room for `messages` ids and claims, and for calls of `batch`. */
void stage_open(stage *s, const char *path, bool normal, const char *profile, int32_t batch,
                int64_t messages);
int64_t stage_queue(stage *s, const char *name, const char *profile);
/* `count` messages at `priority`; nobody asks for their ids. */
void stage_fill(stage *s, int64_t queue, int64_t count, int32_t priority);
/* Claims `count` of the queue's messages, and acks them, or holds them for a day. */
void stage_drain(stage *s, int64_t queue, int64_t count);
void stage_hold(stage *s, int64_t queue, int64_t count);
/* Claims exactly n and writes their pairs from claim `at` on. */
void stage_claim(stage *s, int64_t at, int32_t n, const fp_settle *settle);
void stage_close(stage *s);

#endif
