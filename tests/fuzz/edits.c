#include "edits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

enum { PAGE = 4096, EDITS_MAX = 6, WAL_AT = 18 };

/* ---- the rows ---- */

#define NOT_WHOLE_ID "id NOT IN (SELECT id FROM fencepost_message WHERE queue = 7)"

static const struct {
  const char *name, *spared; /* the rows that SCENE_WHOLE does not need */
} tables[] = {
    {"message", "queue <> 7"}, {"due", NOT_WHOLE_ID},     {"outcome", "queue <> 7"},
    {"key", "queue <> 7"},     {"lane", "queue <> 7"},    {"trouble", NOT_WHOLE_ID},
    {"progress", NOT_WHOLE_ID}, {"queue", "id <> 7"},     {"tally", "queue NOT IN (0, 7)"},
    {"kind", "1"},             {"schedule", "1"},         {"worker", "1"},
    {"run", "1"},              {"record", "1"},           {"claim", "1"},
    {"meta", "0"},
};
enum { TABLES = sizeof tables / sizeof tables[0] };

/* nth(n): true for the n-th row that asks, and for all of them where n is too large to be meant. */
static void nth(sqlite3_context *out, int count, sqlite3_value **arguments) {
  enum { ALL = 200 };
  int *asked = sqlite3_user_data(out), n = sqlite3_value_int(arguments[0]);
  (void)count;
  sqlite3_result_int(out, (*asked)++ == n || n >= ALL);
}

/* The image, open as a database in memory. It is no WAL there. */
static sqlite3 *open_image(const damaged *d, int *asked) {
  sqlite3 *db = NULL;
  unsigned char *copy = sqlite3_malloc64((sqlite3_uint64)d->bytes);
  must(copy != NULL && sqlite3_open(":memory:", &db) == SQLITE_OK, "a database in memory", NULL);
  memcpy(copy, d->image, (size_t)d->bytes);
  memset(copy + WAL_AT, 1, 2);
  int rc = sqlite3_deserialize(db, "main", copy, d->bytes, d->bytes,
                               SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
  must(rc == SQLITE_OK, "the image in it", NULL);
  (void)sqlite3_create_function(db, "nth", 1, SQLITE_UTF8, asked, nth, NULL, NULL);
  (void)sqlite3_exec(db, "PRAGMA ignore_check_constraints = 1", NULL, NULL, NULL);
  return db;
}

static void close_image(sqlite3 *db, damaged *d) {
  sqlite3_int64 bytes;
  unsigned char *copy = sqlite3_serialize(db, "main", &bytes, 0);
  if (copy != NULL && bytes > 0) {
    d->image = realloc(d->image, (size_t)bytes);
    must(d->image != NULL, "memory", NULL);
    d->bytes = bytes;
    memcpy(d->image, copy, (size_t)bytes);
    if (bytes > WAL_AT + 2) memset(d->image + WAL_AT, 2, 2);
  }
  sqlite3_free(copy);
  (void)sqlite3_close(db);
}

static void bind_value(input *in, sqlite3_stmt *s, int at) {
  int64_t bytes;
  double real;
  const char *part;
  switch (input_below(in, 8)) {
    case 0:
    case 1:
    case 2: (void)sqlite3_bind_int64(s, at, input_number(in)); break;
    case 3:
      part = input_span(in, 3000, &bytes);
      if (bytes < 0 || bytes > 3000) bytes = 0;
      (void)sqlite3_bind_text(s, at, part, (int)bytes, SQLITE_STATIC);
      break;
    case 4:
      part = input_span(in, 3000, &bytes);
      if (bytes < 0 || bytes > 3000) bytes = 0;
      (void)sqlite3_bind_blob(s, at, bytes > 0 ? part : "", (int)bytes, SQLITE_STATIC);
      break;
    case 5:
      bytes = input_number(in);
      memcpy(&real, &bytes, sizeof real);
      (void)sqlite3_bind_double(s, at, input_byte(in) % 2 ? real : (double)bytes + 0.5);
      break;
    case 6: (void)sqlite3_bind_zeroblob(s, at, 70000 + input_byte(in)); break;
    default: (void)sqlite3_bind_null(s, at);
  }
}

static void run_edit(sqlite3 *db, const char *sql, input *in, int values) {
  sqlite3_stmt *s = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK) {
    for (int i = 1; i <= values; i++) bind_value(in, s, i);
    (void)sqlite3_step(s);
  }
  (void)sqlite3_finalize(s);
}

static void edit_rows(sqlite3 *db, input *in, bool spare, int *asked) {
  int table = input_below(in, TABLES), verb = input_below(in, 8), row = input_byte(in);
  const char *name = tables[table].name, *spared = spare ? tables[table].spared : "1";
  const char *else_ = spare ? "IGNORE" : "REPLACE";
  char sql[400], shape[64];
  sqlite3_stmt *all = NULL;
  snprintf(shape, sizeof shape, "SELECT * FROM fencepost_%s", name);
  if (sqlite3_prepare_v2(db, shape, -1, &all, NULL) != SQLITE_OK) return;
  int columns = sqlite3_column_count(all);
  *asked = 0;
  if (verb == 0) {
    snprintf(sql, sizeof sql, "DELETE FROM fencepost_%s WHERE %s AND nth(%d)", name, spared, row);
    run_edit(db, sql, in, 0);
  } else if (verb == 1) {
    int used = snprintf(sql, sizeof sql, "INSERT OR %s INTO fencepost_%s VALUES (?", else_, name);
    for (int i = 1; i < columns; i++) used += snprintf(sql + used, sizeof sql - (size_t)used, ",?");
    snprintf(sql + used, sizeof sql - (size_t)used, ")");
    run_edit(db, sql, in, columns);
  } else {
    const char *column = sqlite3_column_name(all, input_below(in, columns));
    snprintf(sql, sizeof sql, "UPDATE OR %s fencepost_%s SET \"%s\" = ?1 WHERE %s AND nth(%d)",
             else_, name, column, spared, row);
    run_edit(db, sql, in, 1);
  }
  (void)sqlite3_finalize(all);
}

/* ---- NULL where none may stand ---- */

/* The scene's file with NOT NULL blanked out in its schema, and where that differs: what stands in
** those places is put back after the edits, so that the file says NOT NULL, and holds NULLs. */
static damaged loose;
static int64_t *differs, differ_count;

static void loosen(const scene *s) {
  int asked = 0;
  loose = (damaged){malloc((size_t)s->bytes), s->bytes};
  differs = malloc((size_t)s->bytes * sizeof *differs);
  must(loose.image != NULL && differs != NULL, "memory", NULL);
  memcpy(loose.image, s->image, (size_t)s->bytes);
  sqlite3 *db = open_image(&loose, &asked);
  int rc = sqlite3_exec(db, "PRAGMA writable_schema = 1;"
                            "UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '        ')"
                            " WHERE type = 'table'", NULL, NULL, NULL);
  must(rc == SQLITE_OK, "a schema without NOT NULL", NULL);
  close_image(db, &loose);
  must(loose.bytes == s->bytes, "a file of the same size", NULL);
  for (int64_t i = 0; i < s->bytes; i++) {
    if (loose.image[i] != s->image[i] && loose.image[i] == ' ') differs[differ_count++] = i;
  }
}

static void tighten(const scene *s, damaged *d) {
  for (int64_t i = 0; i < differ_count; i++) {
    if (differs[i] < d->bytes) d->image[differs[i]] = s->image[differs[i]];
  }
}

/* ---- the bytes ---- */

static int64_t somewhere(input *in, int64_t below) {
  uint64_t number = 0;
  for (int i = 0; i < 3; i++) number = number << 8 | input_byte(in);
  return below > 0 ? (int64_t)(number % (uint64_t)below) : 0;
}

static void edit_bytes(damaged *d, input *in) {
  int64_t pages = d->bytes / PAGE, page = somewhere(in, pages) * PAGE, other;
  if (pages == 0) return;
  switch (input_below(in, 6)) {
    case 0: /* the beginning of a page: its kind, its count of cells, where they lie */
      d->image[page + input_below(in, 12) + (page == 0 ? 100 : 0)] = input_byte(in);
      break;
    case 1: d->image[page + somewhere(in, PAGE)] ^= input_byte(in); break;
    case 2: d->image[input_below(in, 100)] = input_byte(in); break;
    case 3:
      other = somewhere(in, PAGE);
      for (int64_t i = other; i < PAGE; i++) d->image[page + i] = input_byte(in);
      break;
    case 4:
      other = somewhere(in, pages) * PAGE;
      memmove(d->image + page, d->image + other, PAGE);
      break;
    default: d->bytes = input_byte(in) % 2 ? page : somewhere(in, d->bytes);
  }
}

damaged damage_done(const scene *s, input *in, bool rows_only) {
  int asked = 0, edits = 1 + input_below(in, EDITS_MAX);
  int row_edits = rows_only ? edits : input_below(in, edits + 1);
  if (loose.image == NULL) loosen(s);
  const damaged *from = row_edits > 0 ? &loose : &(damaged){s->image, s->bytes};
  damaged d = {malloc((size_t)from->bytes), from->bytes};
  must(d.image != NULL, "memory", NULL);
  memcpy(d.image, from->image, (size_t)from->bytes);
  if (row_edits > 0) {
    sqlite3 *db = open_image(&d, &asked);
    for (int i = 0; i < row_edits; i++) edit_rows(db, in, rows_only, &asked);
    input_forget(in);
    close_image(db, &d);
    tighten(s, &d);
  }
  for (int i = row_edits; i < edits; i++) edit_bytes(&d, in);
  return d;
}
