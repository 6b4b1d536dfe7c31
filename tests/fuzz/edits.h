/* What an input does to the bytes of a file before anybody opens it. */
#ifndef FUZZ_EDITS_H
#define FUZZ_EDITS_H

#include <stdbool.h>

#include "input.h"
#include "scene.h"

typedef struct damaged {
  unsigned char *image;
  int64_t bytes;
} damaged;

/* A copy of the scene's file, damaged as the input says; the caller frees its image.
** `rows_only`: what is changed are rows, through SQLite, and none on which the queue SCENE_WHOLE
** rests. Otherwise any row and any byte. */
damaged damage_done(const scene *s, input *in, bool rows_only);

#endif
