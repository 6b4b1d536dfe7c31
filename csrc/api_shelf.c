/* The exported functions of the shelf. Each checks what it was given, lines up, and makes one inner
** call. */
#include "check.h"
#include "group.h"
#include "shelf.h"

typedef struct shelving {
  shelf_load load;
  shelf_range range;
  int64_t erased;
  bool backwards;
  int32_t limit;
  pack rows;
} shelving;

static shelf_range range_of(const fp_range *r) {
  return (shelf_range){{r->id, r->id_bytes}, {r->from, r->from_bytes}, {r->upto, r->upto_bytes}};
}

/* What only bounds a range may be empty, or a character longer than what stands in it. */
static int check_bound(const char *what, span bound, fp_error *err) {
  return bound.bytes == 0 ? FP_OK : check_name(what, bound, KEY_BYTES_MAX + 4, err);
}

static int check_range(const shelf_range *r, fp_error *err) {
  int code = check_name("the shelf's id", r->id, KEY_BYTES_MAX, err);
  if (code == FP_OK) code = check_bound("the first key", r->from, err);
  if (code == FP_OK) code = check_bound("the key after the last", r->upto, err);
  return code;
}

/* *bytes: and what it is about to write. */
static int check_load(const shelf_load *load, int64_t *bytes, fp_error *err) {
  const char *key = load->keys;
  int code = check_name("the shelf's id", load->id, KEY_BYTES_MAX, err);
  if (code == FP_OK) code = check_between("the number of records", load->count, 1, BATCH_MAX, err);
  *bytes = load->count * (int64_t)ROW_BYTES;
  for (int32_t i = 0; code == FP_OK && i < load->count; i++) {
    code = check_name("a key", (span){key, load->key_bytes[i]}, KEY_BYTES_MAX, err);
    if (code == FP_OK) {
      code = check_between("a value's bytes", load->value_bytes[i], 0, BODY_BYTES_MAX, err);
    }
    key += load->key_bytes[i];
    *bytes += load->value_bytes[i];
  }
  if (code == FP_OK) code = check_between("the records' bytes", *bytes, 0, BATCH_BYTES_MAX, err);
  return code;
}

static int put(txn *t, void *argument, fp_error *err) {
  const shelving *g = argument;
  return shelf_put(t, &g->load, err);
}

static int erase(txn *t, void *argument, fp_error *err) {
  shelving *g = argument;
  return shelf_erase(t, &g->range, &g->erased, err);
}

static int page(txn *t, void *argument, fp_error *err) {
  shelving *g = argument;
  pack_clear(&g->rows);
  return shelf_page(t, &g->range, g->backwards, g->limit, &g->rows, err);
}

static int ids(txn *t, void *argument, fp_error *err) {
  shelving *g = argument;
  pack_clear(&g->rows);
  return shelf_ids(t, g->range.from, g->range.upto, g->limit, &g->rows, err);
}

int fp_shelf_put(fp_store *store, fp_tx *tx, const fp_load *l, fp_error *err) {
  shelving g = {.load = {{l->id, l->id_bytes}, l->count, l->replace != 0, l->keys, l->values,
                         l->key_bytes, l->value_bytes}};
  int64_t bytes;
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_load(&g.load, &bytes, err);
  if (code == FP_OK) code = group_run(store, tx, "records", bytes, put, &g, err);
  group_leave(store);
  return code;
}

int fp_shelf_erase(fp_store *store, fp_tx *tx, const fp_range *range, int64_t *erased,
                   fp_error *err) {
  shelving g = {.range = range_of(range)};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_range(&g.range, err);
  if (code == FP_OK) code = group_run(store, tx, "erasing records", ROW_BYTES, erase, &g, err);
  group_leave(store);
  *erased = g.erased;
  return code;
}

/* Counted in already: looks, unless `code` says no, and counts out. */
static int looked(fp_store *store, fp_tx *tx, int code, request look, shelving *g, fp_rows *rows,
                  fp_error *err) {
  if (code == FP_OK) code = check_between("limit", g->limit, 1, PAGE_MAX, err);
  if (code == FP_OK) code = group_look(store, tx, look, g, err);
  code = pack_take(&g->rows, code, rows, err);
  group_leave(store);
  return code;
}

int fp_shelf_page(fp_store *store, fp_tx *tx, const fp_range *range, int32_t backwards,
                  int32_t values, int32_t limit, fp_rows *rows, fp_error *err) {
  shelving g = {.range = range_of(range), .backwards = backwards != 0, .limit = limit,
                .rows = pack_of(values ? 4 : 3)};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_range(&g.range, err);
  return looked(store, tx, code, page, &g, rows, err);
}

int fp_shelf_ids(fp_store *store, fp_tx *tx, const fp_range *range, int32_t limit, fp_rows *rows,
                 fp_error *err) {
  shelving g = {.range = range_of(range), .limit = limit, .rows = pack_of(1)};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_bound("the id before the first", g.range.from, err);
  if (code == FP_OK) code = check_bound("the id after the last", g.range.upto, err);
  return looked(store, tx, code, ids, &g, rows, err);
}
