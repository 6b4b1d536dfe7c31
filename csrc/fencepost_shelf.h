/* The part of the public face that is the shelf: what another library keeps here, by keys whose
** order means something to it. The rules are those of fencepost.h, which includes it. cffi reads
** the part between the two marks. */
#ifndef FENCEPOST_SHELF_FACE_H
#define FENCEPOST_SHELF_FACE_H

/* cdef begin */
/* A shelf is told by an id. A range of keys, as bytes compare: from `from` on, before `upto`. */
typedef struct fp_range {
  const char *id, *from, *upto;
  int32_t id_bytes, from_bytes, upto_bytes;
} fp_range;

typedef struct fp_load {
  const char *id;
  int32_t id_bytes;
  int32_t count;
  int32_t replace;             /* 0: a key that is there keeps what it has */
  const char *keys, *values;   /* joined */
  const int32_t *key_bytes;
  const uint32_t *value_bytes;
} fp_load;

int fp_shelf_put(fp_store *store, fp_tx *tx, const fp_load *load, fp_error *err);
int fp_shelf_erase(fp_store *store, fp_tx *tx, const fp_range *range, int64_t *erased,
                   fp_error *err);
/* A record each of seq, written_at, key_bytes and, with `values`, value_bytes; blob: key, value.
** Fewer than `limit` where they are large: only a page without records is the last one. */
int fp_shelf_page(fp_store *store, fp_tx *tx, const fp_range *range, int32_t backwards,
                  int32_t values, int32_t limit, fp_rows *rows, fp_error *err);
/* The ids of shelves after `from` and before `upto`: id_bytes; blob: id. `range->id` is unused. */
int fp_shelf_ids(fp_store *store, fp_tx *tx, const fp_range *range, int32_t limit, fp_rows *rows,
                 fp_error *err);
/* cdef end */

#endif
