/* The part of the public face that is for a facade of coroutines: many calls of one thread at once.
** The rules are those of fencepost.h. cffi reads the part between the two marks. */
#ifndef FENCEPOST_MANY_H
#define FENCEPOST_MANY_H

/* cdef begin */
enum {
  FP_CALL_ENQUEUE = 1,
  FP_CALL_SETTLE = 2,
  FP_CALL_STEP = 3,
  FP_CALL_CANCEL = 4,
  FP_CALL_START = 5,
  FP_CALL_OUTSIDE = 6
};

/* One of the functions of fencepost.h, without a transaction; its answers go where that function's
** would go, `code` and `err` are its own. FP_AGAIN: it was not run. */
typedef struct fp_call {
  int32_t verb;           /* FP_CALL_… */
  int32_t code;           /* out */
  const fp_put *put;      /* ENQUEUE */
  int64_t *ids;           /* and of START: one */
  unsigned char *created; /* the same */
  const fp_settle *settle; /* SETTLE, STEP */
  int32_t *answers;       /* and of CANCEL */
  const fp_take *take;    /* STEP, which does not wait here */
  fp_rows *rows;          /* of STEP and OUTSIDE, to be given back */
  int32_t count;          /* CANCEL */
  const int64_t *messages;
  const fp_start *start;  /* START, of nobody's child */
  const fp_outside *outside; /* OUTSIDE */
  fp_error err;
} fp_call;

/* They line up side by side, in their order, and so share commits with each other and with whoever
** else calls; each fails alone. A code other than FP_OK: none was run. At most 1000. */
int fp_gather(fp_store *store, int32_t count, fp_call *const *calls, fp_error *err);

typedef struct fp_watched {
  int32_t queue_count, id_count, heard_count;
  const int64_t *queues;  /* in rising order: is there something due that can be claimed? */
  const int64_t *ids;     /* messages: have they ended? */
  const int64_t *heard;   /* queues in which something may happen, as in fp_wait … */
  int64_t version;        /* … after this version */
  int64_t until_us;       /* store time */
  int64_t nudges;         /* as in fp_take */
} fp_watched;

/* Waits for many at once: until any of that is so, one slice at the most. due[i]: of queue i.
** *version is brought up to date, *now_us is when it looked last. *ended: of each message that is
** in line no more a record of 17 values, 16 as of a message and result_bytes; blob: as of a
** message, then the result. State -1: there is none of that id (any more); the id alone is told. */
int fp_watch(fp_store *store, const fp_watched *watched, unsigned char *due, int64_t *version,
             int64_t *now_us, fp_rows *ended, fp_error *err);
/* cdef end */

#endif
