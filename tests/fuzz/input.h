/* What the fuzzer says, read as numbers, names and buffers.
**
**   1. An input that is used up goes on as zeros: every input is a whole one, and a short one says
**      something simple.
**   2. What is lent from it lies in memory of exactly its length: whoever reads one byte more is
**      caught by AddressSanitizer.
**   3. The face believes a caller's lengths as far as its limits go, and so does this: a length
**      within the limit comes with that many bytes. Any other comes with none, and has to be
**      refused unread. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdint.h>

enum { LENT_MAX = 4000 };

typedef struct input {
  const uint8_t *at, *end;
  void *lent[LENT_MAX];
  int lent_count;
} input;

/* Parts that are joined into one buffer while their lengths are read. */
typedef struct joined {
  char *at;
  int64_t used, room;
} joined;

input input_of(const uint8_t *data, uint64_t bytes);
void input_forget(input *in); /* gives back all that was lent */

uint8_t input_byte(input *in);
int32_t input_below(input *in, int32_t limit); /* from 0 on */
int64_t input_number(input *in);               /* small ones mostly, and those where limits lie */
int64_t input_optional(input *in);             /* the same, and -1 for 0 */
int32_t input_int(input *in);
/* How many of something: 0 to 7, or a count that has to be refused. */
int32_t input_count(input *in);
int32_t input_honest(int32_t count); /* so many are there */

/* Zeroed memory, until input_forget; of no bytes: a place that must not be read. */
void *input_room(input *in, int64_t bytes);
/* The next part, whose length is answered; one of our names, bytes, or a length that lies. */
int64_t input_part(input *in, joined *j, int64_t limit);
/* What was joined; *j is as it was at first. */
const char *input_joined(input *in, joined *j);
/* One part alone. */
const char *input_span(input *in, int64_t limit, int64_t *bytes);

#endif
