/* What workflows do: records, passes, runs, and what comes to them from outside. */
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum { RECORDED = 2, RUN = 11, PAGED = 6 };

/* The id of a workflow with the token of its pass: of a claim that was given out, or of none. */
typedef struct pass {
  const char *id;
  int32_t id_bytes;
  int64_t token;
} pass;

static pass passing(world *w) {
  const hold h = world_hold(w);
  pass p = {.id_bytes = h.key_bytes, .token = h.token};
  if (h.key_bytes > 0) {
    char *id = input_room(&w->in, h.key_bytes);
    memcpy(id, h.key, (size_t)h.key_bytes);
    p.id = id;
  } else {
    int64_t bytes;
    p.id = input_span(&w->in, 1024, &bytes);
    p.id_bytes = (int32_t)bytes;
  }
  return p;
}

/* A name of the input's own, for what has a limit of KEY_BYTES_MAX. */
static const char *name(world *w, int32_t *name_bytes) {
  int64_t bytes;
  const char *at = input_span(&w->in, 1024, &bytes);
  *name_bytes = (int32_t)bytes;
  return at;
}

static int64_t join_id(world *w, joined *j, int64_t *token) {
  const hold h = world_hold(w);
  *token = h.token;
  if (h.key_bytes == 0) return input_part(&w->in, j, 1024);
  j->at = realloc(j->at, (size_t)(j->used + h.key_bytes));
  must(j->at != NULL, "memory", NULL);
  memcpy(j->at + j->used, h.key, (size_t)h.key_bytes);
  j->used += h.key_bytes;
  j->room = j->used;
  return h.key_bytes;
}

static const fp_records *records(world *w, int32_t *count) {
  input *in = &w->in;
  fp_records *all = input_room(in, (int64_t)sizeof *all);
  all->count = input_count(in);
  *count = input_honest(all->count);
  fp_record *each = input_room(in, *count * (int64_t)sizeof *each);
  joined blob = {0};
  for (int32_t i = 0; i < *count; i++) {
    each[i].id_bytes = join_id(w, &blob, &each[i].token);
    each[i].key_bytes = input_part(in, &blob, 1024);
    each[i].value_bytes = input_part(in, &blob, 268435456);
    each[i].kind = input_number(in);
    each[i].started_us = input_optional(in);
  }
  all->records = each;
  all->blob = input_joined(in, &blob);
  return all;
}

static const fp_ends *ends(world *w, int32_t *count) {
  input *in = &w->in;
  fp_ends *all = input_room(in, (int64_t)sizeof *all);
  all->count = input_count(in);
  *count = input_honest(all->count);
  fp_end *each = input_room(in, *count * (int64_t)sizeof *each);
  joined blob = {0};
  for (int32_t i = 0; i < *count; i++) {
    each[i].id_bytes = join_id(w, &blob, &each[i].token);
    each[i].verb = input_number(in);
    each[i].at_us = input_optional(in);
    each[i].waiting_bytes = input_part(in, &blob, 65536);
    each[i].result_bytes = input_part(in, &blob, 268435456);
    each[i].kind_bytes = input_part(in, &blob, 64);
    each[i].code_bytes = input_part(in, &blob, 64);
    each[i].text_bytes = input_part(in, &blob, 1000);
  }
  all->ends = each;
  all->blob = input_joined(in, &blob);
  return all;
}

static void end_pass(world *w) {
  int32_t record_count = 0, end_count = 0;
  uint8_t which = input_byte(&w->in);
  const fp_records *r = which % 4 != 1 ? records(w, &record_count) : NULL;
  const fp_ends *e = which % 4 != 2 ? ends(w, &end_count) : NULL;
  int32_t *record_answers = input_room(&w->in, record_count * INT64_C(4));
  int32_t *answers = input_room(&w->in, end_count * INT64_C(4));
  fp_rows rows = {0};
  fp_error err;
  int code = fp_pass_end(w->store, w->tx, r, record_answers, &rows, e, answers, &err);
  told_rows(code, &err, &rows, RECORDED, 2);
}

static void find_record(world *w) {
  const pass p = passing(w);
  int32_t key_bytes;
  const char *key = name(w, &key_bytes);
  fp_rows rows = {0};
  fp_error err;
  int code = fp_record_find(w->store, w->tx, p.id, p.id_bytes, p.token, key, key_bytes, &rows,
                            &err);
  told_rows(code, &err, &rows, 1, 1);
}

static void claim_pass(world *w) {
  hold *h = &w->held[w->held_count % HELD_MAX];
  int32_t bytes;
  int64_t token;
  const char *id = name(w, &bytes);
  int64_t budget_us = input_number(&w->in), alive_us = input_number(&w->in);
  fp_error err;
  int code = fp_pass_claim(w->store, id, bytes, budget_us, alive_us, &token, &err);
  told(code, &err);
  if (code != FP_OK || bytes > HELD_KEY_MAX) return;
  *h = (hold){.token = token, .key_bytes = bytes};
  memcpy(h->key, id, (size_t)bytes);
  w->held_count++;
}

static void hold_pass(world *w) {
  const pass p = passing(w);
  int32_t held, how = input_below(&w->in, 3);
  int64_t budget_us = input_number(&w->in), alive_us = input_number(&w->in);
  fp_error err;
  int code;
  if (how == 0) {
    code = fp_pass_extend(w->store, w->tx, p.id, p.id_bytes, p.token, budget_us, alive_us, &held,
                          &err);
  } else if (how == 1) {
    code = fp_pass_renew(w->store, w->tx, p.id, p.id_bytes, p.token, alive_us, &held, &err);
  } else {
    code = fp_pass_release(w->store, w->tx, p.id, p.id_bytes, p.token, &held, &err);
  }
  told(code, &err);
}

const fp_outside *world_outside(world *w) {
  input *in = &w->in;
  fp_outside *o = input_room(in, (int64_t)sizeof *o);
  uint8_t with = input_byte(in);
  o->id = name(w, &o->id_bytes);
  if (with & 1) o->key = name(w, &o->key_bytes);
  o->value = input_span(in, 268435456, &o->value_bytes);
  if (with & 2) o->kind = input_int(in);
  o->live = with & 4;
  o->wake = with & 8;
  o->queue = with & 16 ? world_queue(w) : 6;
  return o;
}

static void outside(world *w) {
  const fp_outside *o = world_outside(w);
  fp_rows rows = {0};
  fp_error err;
  int code = fp_outside_put(w->store, w->tx, o, &rows, &err);
  told_rows(code, &err, &rows, RECORDED, 2);
}

static const fp_parent *parent_of(world *w) {
  fp_parent *p = input_room(&w->in, (int64_t)sizeof *p);
  const pass of = passing(w);
  p->id = of.id;
  p->id_bytes = of.id_bytes;
  p->token = of.token;
  p->key = name(w, &p->key_bytes);
  return p;
}

const fp_start *world_start(world *w) {
  input *in = &w->in;
  fp_start *s = input_room(in, (int64_t)sizeof *s);
  int64_t bytes;
  uint8_t with = input_byte(in);
  s->queue = with & 1 ? world_queue(w) : 6;
  s->kind = with & 2 ? input_number(in) : 1;
  s->id = name(w, &s->id_bytes);
  s->args = input_span(in, 268435456, &s->args_bytes);
  s->header_bytes = s->max_attempts = -1;
  if (with & 4) {
    s->headers = input_span(in, 65536, &bytes);
    s->header_bytes = (int32_t)bytes;
  }
  s->absolute = with & 8;
  if (with & 16) s->delay_us = input_number(in);
  if (with & 32) s->priority = input_int(in);
  if (with & 64) s->max_attempts = input_int(in);
  if (with & 128) s->parent = parent_of(w);
  return s;
}

static void start_run(world *w) {
  const fp_start *s = world_start(w);
  int64_t message;
  int32_t created;
  fp_error err;
  told(fp_start_run(w->store, w->tx, s, &message, &created, &err), &err);
}

static void start_job(world *w) {
  const fp_parent *parent = parent_of(w);
  int32_t count, created;
  const fp_put *put = world_put(w, &count);
  int64_t message;
  fp_error err;
  told(fp_start_job(w->store, w->tx, put, parent, &message, &created, &err), &err);
}

/* One of those that ask for nothing but an id. */
static void by_id(world *w) {
  int32_t bytes, answer, how = input_below(&w->in, 4);
  int64_t gone;
  const char *id = name(w, &bytes);
  fp_error err;
  int code;
  if (how == 0) {
    code = fp_run_cancel(w->store, w->tx, id, bytes, &answer, &err);
  } else if (how == 1) {
    code = fp_run_resume(w->store, w->tx, id, bytes, &answer, &err);
  } else if (how == 2) {
    code = fp_discard(w->store, w->tx, id, bytes, &gone, &err);
  } else {
    code = fp_run_delete(w->store, w->tx, world_queue(w), id, bytes, &gone, &err);
  }
  told(code, &err);
}

static void fork_run(world *w) {
  int32_t id_bytes, key_bytes = 0;
  const char *id = name(w, &id_bytes);
  const char *key = input_byte(&w->in) % 2 ? name(w, &key_bytes) : NULL;
  const fp_start *s = world_start(w);
  int64_t message;
  fp_error err;
  told(fp_run_fork(w->store, w->tx, id, id_bytes, key, key_bytes, s, &message, &err), &err);
}

static void purge_runs(world *w) {
  int32_t state = 3 + input_below(&w->in, 5), limit = input_int(&w->in), apply = limit % 4 != 3;
  int64_t before_us = START_US + 9 * DAY_US, purged;
  if (input_byte(&w->in) % 4 == 3) before_us = input_number(&w->in);
  int32_t more;
  fp_error err;
  told(fp_run_purge(w->store, state, before_us, limit, apply, &purged, &more, &err), &err);
}

static void get_run(world *w) {
  int32_t bytes;
  const char *id = name(w, &bytes);
  fp_rows rows = {0};
  fp_error err;
  told_rows(fp_run_get(w->store, w->tx, id, bytes, &rows, &err), &err, &rows, RUN, 0x7E0);
}

/* Page by page, from a cursor of the input's own or from the first one on. */
static void list_runs(world *w) {
  int64_t bytes, *next = input_room(&w->in, 24);
  int32_t more = 1;
  fp_run_filter f = {.state = (int32_t)input_optional(&w->in), .limit = input_int(&w->in)};
  uint8_t with = input_byte(&w->in);
  if (with & 1) f.kind = input_number(&w->in);
  if (with & 2) {
    f.text = input_span(&w->in, 1024, &bytes);
    f.text_bytes = (int32_t)bytes;
  }
  if (with & 4) {
    f.has_after = 1;
    for (int i = 0; i < 3; i++) f.after[i] = input_number(&w->in);
  }
  for (int page = 0; page < 4 && more; page++) {
    fp_rows rows = {0};
    fp_error err;
    int code = fp_run_list(w->store, &f, &rows, next, &more, &err);
    told_rows(code, &err, &rows, RUN, 0x7E0);
    f.has_after = 1;
    memcpy(f.after, next, sizeof f.after);
  }
}

static void page_records(world *w) {
  int32_t bytes, more;
  const char *id = name(w, &bytes);
  int64_t after = input_optional(&w->in);
  fp_rows rows = {0};
  fp_error err;
  int code = fp_record_page(w->store, w->tx, id, bytes, after, input_int(&w->in), &rows, &more,
                            &err);
  told_rows(code, &err, &rows, PAGED, 0x30);
}

const deed deeds_flow[] = {end_pass, find_record, claim_pass, hold_pass, outside,
                           start_run, start_job, by_id, fork_run, purge_runs, get_run, list_runs,
                           page_records};
const int32_t deeds_flow_count = sizeof deeds_flow / sizeof deeds_flow[0];
