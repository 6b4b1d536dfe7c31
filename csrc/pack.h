/* Packed rows: the one way many values cross to the binding.
**
**     records   count * width int64, row by row, in the machine's byte order
**     blob      the variable parts of all rows, one after the other, row by row
**
** A row is begun, its fixed values are put in the order of its layout, and each part is appended
** to the blob while its length (-1: NULL) goes into the record. Layouts are written beside the
** functions that fill them, in fencepost.h; the golden bytes are in tests/test_pack.py.
** A failed allocation is remembered: the later beats are no-ops and pack_take tells. */
#ifndef FENCEPOST_PACK_H
#define FENCEPOST_PACK_H

#include "err.h"

typedef struct pack {
  int32_t width, count;
  int64_t *records;
  int64_t used, room; /* in int64 values */
  char *blob;
  int64_t blob_used, blob_room;
  bool failed;
} pack;

pack pack_of(int32_t width);
void pack_clear(pack *p);               /* as it was at first, for a request that runs once more */
void pack_i64(pack *p, int64_t value);  /* the next value of the row under way */
void pack_many(pack *p, const int64_t *values, int count);
void pack_part(pack *p, span part);     /* its length as the next value, its bytes to the blob */
void pack_bytes(pack *p, const void *at, int64_t bytes); /* to the blob alone */
void pack_row(pack *p);                 /* the row is whole */
/* The end of a call that answers with rows: where `code` is FP_OK they are handed over to *rows,
** else they are freed and *rows is empty. Answers `code`; FP_STORAGE where memory ran out. */
int pack_take(pack *p, int code, fp_rows *rows, fp_error *err);
void pack_free(pack *p);

#endif
