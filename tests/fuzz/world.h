/* An open store and what the input does with it: each call of the face is here once, with
** arguments that the input says. Whatever they are, a call answers what fencepost.h promises of
** it, or an error in words. */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "fencepost.h"
#include "input.h"
#include "scene.h"

enum { HELD_MAX = 16, HELD_KEY_MAX = 40 };

/* A claim that was given out, and the workflow whose pass it is. */
typedef struct hold {
  int64_t id, token;
  char key[HELD_KEY_MAX];
  int32_t key_bytes;
} hold;

typedef struct world {
  input in;
  const scene *scene;
  fp_store *store;
  fp_tx *tx; /* NULL: none is open */
  hold held[HELD_MAX];
  int32_t held_count;
  int64_t hand_us;
} world;

typedef void (*deed)(world *w);

/* All that moves, keeps house and looks; the workflows; those that look and copy. */
extern const deed deeds_move[], deeds_flow[], deeds_look[];
extern const int32_t deeds_move_count, deeds_flow_count, deeds_look_count;

/* Calls until the input is used up. */
void world_live(world *w);
/* The transaction is rolled back, the store closed. Nothing of it may be left. */
void world_end(world *w);

/* ---- what the deeds share ---- */

/* Judges what a call has said. */
void told(int code, const fp_error *err);
/* The same, and its rows: `lengths` has a bit for each column that is a length. */
void told_rows(int code, const fp_error *err, fp_rows *rows, int32_t width, uint32_t lengths);

int64_t world_queue(world *w);
int64_t world_message(world *w);
/* A claim; of those that were given out, if the input does not say otherwise. */
hold world_hold(world *w);
/* Verdicts or pairs, or none. *count of answers that they need. */
const fp_settle *world_settle(world *w, int32_t *count);
const fp_put *world_put(world *w, int32_t *count);
const fp_start *world_start(world *w);
const fp_outside *world_outside(world *w);
const fp_take *world_take(world *w);
/* Keeps the claims of a step, and gives its rows back. */
void world_claimed(world *w, int code, const fp_error *err, fp_rows *rows);

#endif
