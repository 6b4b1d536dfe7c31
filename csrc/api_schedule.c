/* The exported functions of schedules. Each checks what it was given, lines up, and makes one inner
** call. */
#include "check.h"
#include "gauge.h"
#include "group.h"
#include "schedule.h"

enum {
  NAME_MAX_BYTES = 1000, /* a job's name and its expression; of each word */
  SCHEDULE_WIDTH = 7
};

typedef struct scheduling {
  schedule_words words;
  schedule is;
} scheduling;

static int find(txn *t, void *argument, fp_error *err) {
  scheduling *g = argument;
  return schedule_find(t, g->words.name, &g->is, err);
}

static int keep(txn *t, void *argument, fp_error *err) {
  const scheduling *g = argument;
  return schedule_keep(t, &g->words, &g->is, err);
}

int fp_schedule_find(fp_store *store, fp_tx *tx, const char *name, int32_t name_bytes,
                     int32_t *found, int64_t *last_fired_us, int64_t *running, fp_error *err) {
  scheduling g = {.words.name = {name, name_bytes}};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_name("the schedule's name", g.words.name, NAME_MAX_BYTES, err);
  if (code == FP_OK) code = group_look(store, tx, find, &g, err);
  group_leave(store);
  *found = g.is.found;
  *last_fired_us = g.is.last_fired;
  *running = g.is.running;
  return code;
}

static int told(txn *t, void *rows, fp_error *err) {
  pack_clear(rows);
  return gauge_schedules(t, rows, err);
}

int fp_schedules(fp_store *store, fp_rows *rows, fp_error *err) {
  pack p = pack_of(SCHEDULE_WIDTH);
  *rows = (fp_rows){0};
  int code = group_enter(store, NULL, err);
  if (code != FP_OK) return code;
  code = group_look(store, NULL, told, &p, err);
  code = pack_take(&p, code, rows, err);
  group_leave(store);
  return code;
}

int fp_schedule_keep(fp_store *store, fp_tx *tx, const fp_schedule *w, fp_error *err) {
  scheduling g = {.words = {{w->name, w->name_bytes}, {w->expression, w->expression_bytes},
                            {w->zone, w->zone_bytes}, w->kind, w->missed},
                  .is = {true, w->last_fired_us, w->running}};
  int code = group_enter(store, tx, err);
  if (code != FP_OK) return code;
  code = check_name("the schedule's name", g.words.name, NAME_MAX_BYTES, err);
  if (code == FP_OK) code = check_name("the expression", g.words.expression, NAME_MAX_BYTES, err);
  if (code == FP_OK) code = check_name("the zone", g.words.zone, NAME_MAX_BYTES, err);
  if (code == FP_OK) code = check_between("missed", w->missed, 0, 2, err);
  if (code == FP_OK) code = check_between("the moment", w->last_fired_us, 0, MOMENT_US_MAX, err);
  if (code == FP_OK) code = group_run(store, tx, "a schedule", ROW_BYTES, keep, &g, err);
  group_leave(store);
  return code;
}
