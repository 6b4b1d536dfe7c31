/* Whatever crosses into the core: lengths that lie, numbers from the edges, text that is none, in
** any order of calls. Each is refused in words or answered as the face promises, and when all is
** over the file is as sound as it was. */
#include <stdio.h>

#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void expect_sound(world *w) {
  fp_rows rows = {0};
  fp_error err;
  if (w->tx != NULL) told(fp_tx_end(w->tx, 0, &err), &err);
  w->tx = NULL;
  must(fp_check(w->store, 1, &rows, &err) == FP_OK, "the check", &err);
  if (rows.count > 0) fprintf(stderr, "%.*s\n", (int)rows.blob_bytes, rows.blob);
  must(rows.count == 0, "the file is sound", NULL);
  fp_rows_free(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  world w = {.in = input_of(data, bytes), .scene = scene_made(), .hand_us = START_US};
  fp_error err;
  scene_write(w.scene, w.scene->image, w.scene->bytes);
  must(scene_open(w.scene, w.hand_us, &w.store, &err) == FP_OK, "the store opens", &err);
  fp_look_no_more(w.store);
  world_live(&w);
  expect_sound(&w);
  world_end(&w);
  return 0;
}
