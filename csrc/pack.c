#include "pack.h"

#include <string.h>

#include "fault.h"

pack pack_of(int32_t width) {
  pack p = {0};
  p.width = width;
  return p;
}

void pack_clear(pack *p) {
  p->count = 0;
  p->used = p->blob_used = 0;
  p->failed = false;
}

/* Room for `more` further units of `unit` bytes; doubles, so that growing stays cheap. */
static void *grown(pack *p, void *old, int64_t used, int64_t more, int64_t *room, int64_t unit) {
  if (p->failed) return NULL;
  if (used + more <= *room) return old;
  int64_t wanted = *room * 2 > used + more ? *room * 2 : used + more;
  if (wanted < SMALL(1024, 1)) wanted = SMALL(1024, 1);
  void *memory = mem_resize(old, wanted * unit);
  if (memory == NULL) {
    p->failed = true;
    return NULL;
  }
  *room = wanted;
  return memory;
}

void pack_i64(pack *p, int64_t value) {
  int64_t *records = grown(p, p->records, p->used, 1, &p->room, (int64_t)sizeof *records);
  if (records == NULL) return;
  p->records = records;
  p->records[p->used++] = value;
}

void pack_many(pack *p, const int64_t *values, int count) {
  int64_t *records = grown(p, p->records, p->used, count, &p->room, (int64_t)sizeof *records);
  if (records == NULL) return;
  p->records = records;
  memcpy(p->records + p->used, values, (size_t)count * sizeof *values);
  p->used += count;
}

void pack_bytes(pack *p, const void *at, int64_t bytes) {
  if (at == NULL || bytes == 0) return;
  char *blob = grown(p, p->blob, p->blob_used, bytes, &p->blob_room, 1);
  if (blob == NULL) return;
  p->blob = blob;
  memcpy(p->blob + p->blob_used, at, (size_t)bytes);
  p->blob_used += bytes;
}

void pack_part(pack *p, span part) {
  pack_i64(p, part.at == NULL ? -1 : part.bytes);
  pack_bytes(p, part.at, part.bytes);
}

void pack_row(pack *p) {
  if (p->failed) return;
  p->count++;
  assert(p->width == 0 || p->used == (int64_t)p->count * p->width);
}

int pack_take(pack *p, int code, fp_rows *rows, fp_error *err) {
  *rows = (fp_rows){0};
  if (code == FP_OK && p->failed) code = err_memory(err);
  if (code == FP_OK) {
    rows->count = p->count;
    rows->width = p->width;
    rows->records = p->records;
    rows->blob = p->blob;
    rows->blob_bytes = p->blob_used;
    *p = pack_of(p->width);
  }
  pack_free(p);
  return code;
}

void pack_free(pack *p) {
  mem_free(p->records);
  mem_free(p->blob);
  *p = pack_of(p->width);
}

void fp_rows_free(fp_rows *rows) {
  mem_free((void *)(uintptr_t)rows->records);
  mem_free((void *)(uintptr_t)rows->blob);
  *rows = (fp_rows){0};
}
