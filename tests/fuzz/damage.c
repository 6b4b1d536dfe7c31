/* A damaged file: rows with garbage in them, pages with garbage in them, half a file. It opens or
** is refused in words, and then each call answers or says why it cannot.
**
** The first byte chooses. Where only rows were damaged, and none of one queue's own, the store
** opens and that queue goes on as if nothing were; in between come stages of the tour. Otherwise
** nothing is promised but that nothing worse happens than an error; what is left of the input are
** calls, and where nothing is left there is the whole tour. */
#include <stdlib.h>
#include <string.h>

#include "edits.h"
#include "tour.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A message that is put is handed out, as it was put, and ends. */
static void expect_whole(world *w) {
  enum { BODY = 15, TURNS = 20, LIMIT = 50 };
  const uint32_t body_bytes = 5;
  const fp_put put = {.queue = SCENE_WHOLE, .count = 1, .bodies = "whole",
                      .body_bytes = &body_bytes, .max_attempts = -1};
  int64_t id, queue = SCENE_WHOLE;
  unsigned char created;
  fp_error err;
  must(fp_enqueue(w->store, NULL, &put, &id, &created, &err) == FP_OK, "a message is put", &err);
  const fp_take take = {.queue_count = 1, .limit = LIMIT, .queues = &queue, .lease_us = DAY_US};
  int32_t answer = -1;
  for (int turn = 0; turn < TURNS && answer < 0; turn++) {
    fp_rows rows = {0};
    int code = fp_step(w->store, NULL, NULL, &take, &rows, &err);
    must(code == FP_OK, "there are claims in the whole queue", &err);
    for (int64_t i = 0, at = 0; i < rows.count; i++) {
      const int64_t *record = &rows.records[i * rows.width];
      for (int part = BODY - 3; part < BODY; part++) at += record[part] > 0 ? record[part] : 0;
      if (record[0] == id) {
        must(record[BODY] == 5 && memcmp(rows.blob + at, "whole", 5) == 0, "its body", NULL);
        const fp_settle ack = {.count = 1, .claims = record};
        code = fp_settle_many(w->store, NULL, &ack, &answer, &err);
        must(code == FP_OK && answer == FP_DONE, "it ends", &err);
      }
      at += record[BODY] > 0 ? record[BODY] : 0;
    }
    fp_rows_free(&rows);
  }
  must(answer == FP_DONE, "it is handed out", NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  world w = {.in = input_of(data, bytes), .scene = scene_made(), .hand_us = START_US};
  bool rows_only = input_byte(&w.in) % 2;
  damaged d = damage_done(w.scene, &w.in, rows_only);
  scene_write(w.scene, d.image, d.bytes);
  free(d.image);
  fp_error err;
  int code = scene_open(w.scene, w.hand_us, &w.store, &err);
  told(code, &err);
  must(code == FP_OK || !rows_only, "a store with damaged rows opens", &err);
  if (code == FP_OK) {
    fp_look_no_more(w.store);
    if (rows_only || w.in.at == w.in.end) {
      tour(&w, input_byte(&w.in));
    } else {
      world_live(&w);
    }
    if (rows_only) expect_whole(&w);
  }
  world_end(&w);
  return 0;
}
