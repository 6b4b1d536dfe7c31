/* What every room may rely on: limits with their units, assert, ALWAYS, and the few plain types.
**
** Limits are checked once, in api, where a caller can be told; below api they are asserted.
** assert means "we have a proof"; ALWAYS means "we believe it", and is followed by something as
** simple as a return, because that arm is never tested.
*/
#ifndef FENCEPOST_BASE_H
#define FENCEPOST_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef FENCEPOST_TEST
#define ALWAYS(x) (assert(x), 1)
#else
#define ALWAYS(x) (x)
#endif

#define COUNT_OF(a) ((int)(sizeof(a) / sizeof((a)[0])))

enum {
  SCHEMA_VERSION = 1,
  SQLITE_FLOOR = 3051003,

  NAME_BYTES_MAX = 255,        /* of a queue or a kind */
  KEY_BYTES_MAX = 1024,        /* of a key */
  LANE_BYTES_MAX = 255,        /* of a lane's name */
  HEADERS_BYTES_MAX = 65536,   /* of all headers of one message, encoded */
  BODY_BYTES_MAX = 268435456,  /* of one payload or one result: 256 MiB */
  FAILURE_TEXT_BYTES_MAX = 1000,
  FAILURE_WORD_BYTES_MAX = 64, /* of a failure's kind or code */
  DIGEST_BYTES = 32,           /* SHA-256 */

  BATCH_MAX = 100000,          /* messages of one enqueue, settle or cancel */
  CLAIM_MAX = 10000,           /* messages of one claim */
  CLAIM_QUEUES_MAX = 10000,    /* queues of one claim */
  PAGE_MAX = 1000,             /* rows of one page of a listing */
  SLICE_MAX = 10000,           /* rows of one purge */

  PRIORITY_MIN = -128,
  PRIORITY_MAX = 127,
  ATTEMPTS_MAX = 1000000,
  WAIT_SLICE_MS = 500          /* a call waits in C for one thing (its turn, the file's lock, a
                               ** change) no longer than this before it comes back */
};

#define BATCH_BYTES_MAX INT64_C(1073741824)         /* payload bytes of one enqueue: 1 GiB */
#define CLAIM_BYTES_DEFAULT INT64_C(67108864)       /* payload bytes of one claim: 64 MiB */
#define SPAN_US_MAX INT64_C(3155760000000000)       /* 100 years: longest delay, lease, age */
#define MOMENT_US_MAX INT64_C(9007199254740991)     /* 2^53 - 1: the year 2255 */
#define NEVER_US (MOMENT_US_MAX + 1)                /* due when somebody moves it, and not before */
#define SECOND_US INT64_C(1000000)
#define QUEUE_MAX INT64_C(1099511627775)            /* 2^40 - 1, so that a turn fits 48 bits */
#define COUNTER_MAX (INT64_MAX - INT64_C(1099511627776))

/* Bytes that somebody else owns. `at` may be NULL only when `bytes` is 0. */
typedef struct span {
  const char *at;
  int64_t bytes;
} span;

#define LITERAL(text) ((span){(text), (int64_t)sizeof(text) - 1})
#define NO_SPAN ((span){NULL, 0})

/* The columns of a blob, cut in order; -1 bytes: NULL. */
static inline span span_cut(const char **at, int64_t bytes) {
  if (bytes < 0) return NO_SPAN;
  span part = {bytes == 0 ? "" : *at, bytes};
  if (bytes > 0) *at += bytes;
  return part;
}

#endif
