/* The store that every input begins with: some of everything. It is made once, and kept as the
** bytes of its file; each input gets a copy, which lies in TMPDIR, or in memory where the system
** has such a place. */
#ifndef FUZZ_SCENE_H
#define FUZZ_SCENE_H

#include <stddef.h>
#include <stdint.h>

#include "fencepost.h"

#define START_US INT64_C(1800000000000000)
#define DAY_US INT64_C(86400000000)

enum {
  SCENE_NAMES = 24,
  SCENE_QUEUES = 7,
  SCENE_COUNTER = 5000, /* the last number that was given to a message or a claim */
  SCENE_WHOLE = 7 /* the number of a queue that nobody damages */
};

typedef struct scene {
  unsigned char *image;
  int64_t bytes;
  char path[128], copy[128], second[128]; /* the store, a backup, and what came back from it */
} scene;

extern const char *const scene_names[SCENE_NAMES]; /* of its queues, kinds, keys, lanes and runs */

/* Ends the program where what cannot fail has failed: a finding, or a fault of the fuzzer. */
void must(int holds, const char *what, const fp_error *err);

/* Once. Its files go when the program ends. */
const scene *scene_made(void);
/* The file is that image now, and there is nothing beside it. */
void scene_write(const scene *s, const unsigned char *image, int64_t bytes);
int scene_open(const scene *s, int64_t hand_us, fp_store **store, fp_error *err);
void scene_read(const scene *s, unsigned char **image, int64_t *bytes);

#endif
