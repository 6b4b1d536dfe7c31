#include "input.h"

#include <stdlib.h>
#include <string.h>

#include "scene.h"

enum { PLENTY = 3000 }; /* bytes, instead of a limit that is larger than LARGE */
enum { LARGE = 70000 };

static const int64_t edges[] = {
    -1, -2, INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1, INT32_MIN, INT32_MAX,
    INT64_C(1) << 31, INT64_C(1) << 32, -256, 255, 256, 1000, 1001, 1000000, 1000001,
    /* queues, counters, turns */
    (INT64_C(1) << 40) - 1, INT64_C(1) << 40, -(INT64_C(1) << 40), INT64_C(1) << 48,
    INT64_C(1) << 55, INT64_C(1) << 56, INT64_MAX - (INT64_C(1) << 40), INT64_MAX / 256,
    /* moments and spans, in microseconds */
    START_US, START_US + 1, START_US - 1000000, START_US + DAY_US, START_US + 9 * DAY_US, DAY_US,
    INT64_C(9007199254740991), INT64_C(9007199254740992), INT64_C(3155760000000000),
    INT64_C(3155760000000001), 60000000, 1000000000,
    /* batches and pages */
    10000, 10001, 100000, 100001,
};

static const int64_t lies[] = {-1, -2, INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX, -1000, 1 << 29};

input input_of(const uint8_t *data, uint64_t bytes) {
  return (input){.at = data, .end = data + bytes};
}

void input_forget(input *in) {
  while (in->lent_count > 0) free(in->lent[--in->lent_count]);
}

uint8_t input_byte(input *in) {
  return in->at < in->end ? *in->at++ : 0;
}

int32_t input_below(input *in, int32_t limit) { return input_byte(in) % limit; }

int64_t input_number(input *in) {
  enum { SMALL_ONES = 190, RAW = 250 };
  uint8_t tag = input_byte(in);
  if (tag < SMALL_ONES) return tag;
  if (tag < RAW) return edges[(size_t)(tag - SMALL_ONES) % (sizeof edges / sizeof edges[0])];
  uint64_t number = 0;
  for (int i = 0; i < 8; i++) number = number << 8 | input_byte(in);
  return (int64_t)number;
}

int64_t input_optional(input *in) {
  int64_t number = input_number(in);
  return number == 0 ? -1 : number;
}

int32_t input_int(input *in) { return (int32_t)(uint32_t)(uint64_t)input_number(in); }

int32_t input_count(input *in) {
  static const int32_t refused[] = {-1, INT32_MIN, INT32_MAX, 1000001};
  uint8_t tag = input_byte(in);
  return tag < 240 ? tag % 8 : refused[tag % 4];
}

int32_t input_honest(int32_t count) { return count >= 0 && count < 8 ? count : 0; }

static void *lend(input *in, void *memory) {
  if (memory == NULL || in->lent_count == LENT_MAX) abort();
  return in->lent[in->lent_count++] = memory;
}

void *input_room(input *in, int64_t bytes) {
  if (bytes > 0) return lend(in, calloc(1, (size_t)bytes));
  return (char *)lend(in, malloc(1)) + 1;
}

/* `bytes` more of the part under way, out of the input, or where `from` is not NULL from there. */
static void join(input *in, joined *j, const char *from, int64_t bytes) {
  while (j->used + bytes > j->room) {
    j->room = j->room * 2 + 256;
    j->at = realloc(j->at, (size_t)j->room);
    if (j->at == NULL) abort();
  }
  for (int64_t i = 0; i < bytes; i++) {
    j->at[j->used++] = from != NULL ? from[i] : (char)input_byte(in);
  }
}

int64_t input_part(input *in, joined *j, int64_t limit) {
  enum { NAMES = 64, RAW = 128, FILLED = 192 };
  int64_t tag = input_byte(in), bytes = 0;
  if (tag < NAMES) {
    const char *name = scene_names[tag % SCENE_NAMES];
    bytes = (int64_t)strlen(name);
    if (bytes <= limit) join(in, j, name, bytes);
  } else if (tag < RAW) {
    bytes = tag - NAMES;
    if (bytes <= limit) join(in, j, NULL, bytes);
  } else if (tag < FILLED) { /* as long as it may be, or a byte or more longer */
    bytes = (limit > LARGE ? PLENTY : limit) + tag % 4 - 1;
    for (int64_t i = 0; bytes <= limit && i < bytes; i++) join(in, j, "y", 1);
  } else {
    bytes = tag == FILLED ? limit + 1 : lies[(size_t)tag % (sizeof lies / sizeof lies[0])];
  }
  return bytes;
}

const char *input_joined(input *in, joined *j) {
  char *exact = input_room(in, j->used);
  if (j->used > 0) memcpy(exact, j->at, (size_t)j->used);
  free(j->at);
  *j = (joined){0};
  return exact;
}

const char *input_span(input *in, int64_t limit, int64_t *bytes) {
  joined j = {0};
  *bytes = input_part(in, &j, limit);
  return input_joined(in, &j);
}
