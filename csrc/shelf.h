/* The shelf: records that another library keeps here, by keys whose order means something to it.
**
** The rows are those of workflows, but nobody runs them: there is no claim and no fence, a range of
** keys is walked in either direction and taken away, and a record may be put anew where its owner
** says so. Only whoever made the id of a shelf knows what stands on it. */
#ifndef FENCEPOST_SHELF_H
#define FENCEPOST_SHELF_H

#include "pack.h"
#include "txn.h"

enum { SHELF_KIND = 100 }; /* of its records: they are no steps */

/* Part of a shelf: its keys from `from` on, and before `upto`, as bytes compare. */
typedef struct shelf_range {
  span id, from, upto;
} shelf_range;

/* Records to put: count keys and values, each joined, and how long each is. A key that is there
** keeps what it has, unless `replace`. */
typedef struct shelf_load {
  span id;
  int32_t count;
  bool replace;
  const char *keys, *values;
  const int32_t *key_bytes;
  const uint32_t *value_bytes;
} shelf_load;

int shelf_put(txn *t, const shelf_load *load, fp_error *err);
int shelf_erase(txn *t, const shelf_range *range, int64_t *erased, fp_error *err);
/* Up to `limit` records, or fewer where they are large; `width` 4 with the values, 3 without. */
int shelf_page(txn *t, const shelf_range *range, bool backwards, int32_t limit, pack *rows,
               fp_error *err);
/* Up to `limit` ids of shelves after `from` (not included), each once. */
int shelf_ids(txn *t, span from, span upto, int32_t limit, pack *rows, fp_error *err);

#endif
