#include "shelf.h"

#include "fault.h"

enum { PAGE_BYTES = SMALL(4194304, 64), WITH_VALUES = 4 };

int shelf_put(txn *t, const shelf_load *load, fp_error *err) {
  const char *key = load->keys, *value = load->values;
  int64_t seq = txn_draw(t, load->count);
  int code = FP_OK;
  for (int32_t i = 0; code == FP_OK && i < load->count; i++) {
    stmt s = stmt_use(&t->d->sql, load->replace ? SQL_SHELF_REPLACE : SQL_SHELF_PUT);
    put_text(&s, "workflow", load->id);
    put_i64(&s, "seq", seq + i);
    put_text(&s, "key", (span){key, load->key_bytes[i]});
    put_i64(&s, "kind", SHELF_KIND);
    put_bytes(&s, "value", (span){value, load->value_bytes[i]});
    put_i64(&s, "written_at", t->now_us);
    code = stmt_end(&s, err);
    key += load->key_bytes[i];
    value += load->value_bytes[i];
  }
  return code;
}

int shelf_erase(txn *t, const shelf_range *range, int64_t *erased, fp_error *err) {
  int changed = 0;
  stmt s = stmt_use(&t->d->sql, SQL_SHELF_ERASE);
  put_text(&s, "workflow", range->id);
  put_text(&s, "from", range->from);
  put_text(&s, "upto", range->upto);
  int code = stmt_changes(&s, &changed, err);
  *erased = changed;
  return code;
}

int shelf_page(txn *t, const shelf_range *range, bool backwards, int32_t limit, pack *rows,
               fp_error *err) {
  stmt s = stmt_use(&t->d->sql, backwards ? SQL_SHELF_BACKWARDS : SQL_SHELF_FORWARDS);
  put_text(&s, "workflow", range->id);
  put_text(&s, "from", range->from);
  put_text(&s, "upto", range->upto);
  while (rows->count < limit && rows->blob_used < PAGE_BYTES && stmt_row(&s)) {
    pack_i64(rows, get_i64(&s, "seq"));
    pack_i64(rows, get_i64(&s, "written_at"));
    pack_part(rows, get_text(&s, "key"));
    if (rows->width == WITH_VALUES) pack_part(rows, get_bytes(&s, "value"));
    pack_row(rows);
  }
  return stmt_end(&s, err);
}

/* The next one after the last that was packed is found by its own seek: a shelf may hold any number
** of records, and none of them is looked at. */
int shelf_ids(txn *t, span from, span upto, int32_t limit, pack *rows, fp_error *err) {
  int64_t at = 0, bytes = 0;
  bool more = true;
  int code = FP_OK;
  while (code == FP_OK && more && rows->count < limit && !rows->failed) {
    stmt s = stmt_use(&t->d->sql, SQL_SHELF_NEXT);
    put_text(&s, "after", rows->count == 0 ? from : (span){rows->blob + at, bytes});
    put_text(&s, "upto", upto);
    more = stmt_row(&s) && get_is_text(&s); /* behind all text stands what is none, for ever */
    if (more) {
      at = rows->blob_used;
      pack_part(rows, get_text(&s, "workflow"));
      pack_row(rows);
      bytes = rows->blob_used - at;
    }
    code = stmt_end(&s, err);
  }
  return code;
}
