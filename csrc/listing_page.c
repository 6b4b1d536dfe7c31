/* Pages, by keyset: no offset, no sort, no row looked at twice. */
#include <string.h>

#include "fault.h"
#include "line.h"
#include "listing.h"

/* A page under way, and the last row it looked at. */
typedef struct page {
  txn *t;
  const fp_filter *f;
  pack *p;
  int64_t turn, moment, id; /* moment: due_at, or settled_at of an outcome */
  int32_t looks;
  bool full; /* it ends before the row at hand */
} page;

static bool same(span a, span b) {
  return a.at != NULL && a.bytes == b.bytes && memcmp(a.at, b.at, (size_t)a.bytes) == 0;
}

static bool of_lane(const fp_filter *f, const entry *e) {
  return f->lane_bytes < 0 || same(e->lane, (span){f->lane, f->lane_bytes});
}

static bool of_state(const fp_filter *f, const entry *e) {
  switch (f->state) {
    case FP_PENDING: return e->state == FP_PENDING || e->state == FP_WAITING;
    case FP_LEASED: return e->state == FP_LEASED || e->state == FP_BEGUN;
    default: return e->state == f->state;
  }
}

static bool wanted(const fp_filter *f, const entry *e) {
  int64_t moment = e->settled_at >= 0 ? e->settled_at : e->due;
  return of_state(f, e) && (f->queue == 0 || e->queue == f->queue) &&
         (f->kind == 0 || e->kind == f->kind) && of_lane(f, e) && moment >= f->since_us &&
         moment < f->before_us;
}

/* Takes the row or leaves it. False: it no longer fits, and the page ends before it. */
static bool look_at(page *g, const entry *e) {
  bool take = wanted(g->f, e);
  g->full = g->looks >= LISTING_LOOKS || (take && g->p->count >= g->f->limit);
  if (g->full) return false;
  g->looks++;
  if (take) listing_pack(g->p, e);
  return true;
}

/* ---- in line ---- */

/* The rows of this turn that stand after (moment, id): its ties, or what is later. *stranger: they
** wait in a lane of another queue or another name, and so do all that follow in this turn. */
static int walk(page *g, int id, int64_t before_us, bool *stranger, fp_error *err) {
  stmt s = stmt_use(&g->t->d->sql, id);
  put_i64(&s, "turn", g->turn);
  put_i64(&s, "due_at", g->moment);
  if (id == SQL_LIST_TIES) put_i64(&s, "id", g->id);
  if (id == SQL_LIST_LATER) put_i64(&s, "before", before_us);
  while (!*stranger && stmt_row(&s)) {
    entry e;
    listing_read_line(&s, &e);
    if (!look_at(g, &e)) break;
    *stranger = e.turn < 0 &&
                ((g->f->queue != 0 && e.queue != g->f->queue) || !of_lane(g->f, &e));
    g->id = e.id;
    g->moment = e.turn < 0 ? 0 : e.due;
  }
  return stmt_end(&s, err);
}

/* From where the page stands to the last turn before `end`, each between the two moments. */
static int walk_turns(page *g, int64_t end, int64_t since_us, int64_t before_us, fp_error *err) {
  while (!g->full) {
    bool stranger = false;
    int64_t turn, first;
    int code = walk(g, SQL_LIST_TIES, before_us, &stranger, err);
    if (code == FP_OK && !g->full && !stranger) {
      code = walk(g, SQL_LIST_LATER, before_us, &stranger, err);
    }
    if (code != FP_OK || g->full) return code;
    g->moment = g->id = INT64_MAX; /* this turn is done */
    g->full = g->looks++ >= LISTING_LOOKS;
    if (g->full) return code;
    turn = g->turn;
    code = line_next_level(g->t, end, &turn, &first, err);
    if (code != FP_OK || turn == 0) return code;
    g->turn = turn;
    g->moment = since_us == INT64_MIN ? INT64_MIN : since_us - 1;
  }
  return FP_OK;
}

/* Those behind the head of their lane; their rows all carry the moment 0. */
static int walk_lanes(page *g, bool from_start, fp_error *err) {
  int64_t end = 0;
  int code = FP_OK;
  if (from_start) {
    g->turn = INT64_MIN;
    g->moment = g->id = INT64_MAX;
  }
  if (g->f->queue != 0 && g->f->lane_bytes >= 0) {
    int64_t number;
    code = line_lane(g->t, g->f->queue, (span){g->f->lane, g->f->lane_bytes}, &number, err);
    if (code != FP_OK || number == 0) return code;
    if (from_start) g->turn = -number - 1;
    end = -number + 1;
  }
  return walk_turns(g, end, INT64_MIN, INT64_MAX, err);
}

static int page_in_line(page *g, fp_error *err) {
  const fp_filter *f = g->f;
  int64_t first = f->queue == 0 ? 0 : (f->queue << 8) - 1;
  int64_t end = f->queue == 0 ? INT64_MAX : (f->queue + 1) << 8;
  if (f->has_after) {
    g->turn = f->after[0];
    g->moment = f->after[1];
    g->id = f->after[2];
    if (g->turn >= 0 && (g->turn < first || g->turn >= end)) {
      return err_set(err, FP_INVALID, "the cursor is of another listing");
    }
  } else {
    g->turn = f->state == FP_WAITING ? -1 : first;
    g->moment = g->id = INT64_MAX;
  }
  bool in_lanes = f->has_after && g->turn < 0;
  int code = FP_OK;
  if (!in_lanes && f->state != FP_WAITING) {
    code = walk_turns(g, end, f->since_us, f->before_us, err);
  }
  bool lanes = f->state == FP_PENDING || f->state == FP_WAITING;
  if (code == FP_OK && lanes && !g->full) code = walk_lanes(g, !in_lanes, err);
  return code;
}

/* ---- ended ---- */

/* Where the walk along one queue's outcomes stands. */
typedef struct source {
  int64_t queue, settled_at, id;
} source;

static int step_back(page *g, source *at, int id, bool *found, fp_error *err) {
  stmt s = stmt_use(&g->t->d->sql, id);
  put_i64(&s, "queue", at->queue);
  put_i64(&s, "state", g->f->state);
  put_i64(&s, "settled_at", at->settled_at);
  if (id == SQL_ENDED_TIE) put_i64(&s, "id", at->id);
  if (id == SQL_ENDED_BEFORE) put_i64(&s, "since", g->f->since_us);
  *found = stmt_row(&s);
  if (*found) {
    at->settled_at = get_i64(&s, "settled_at");
    at->id = get_i64(&s, "id");
  }
  return stmt_end(&s, err);
}

/* To the outcome that ended just before. */
static int older(page *g, source *at, bool *found, fp_error *err) {
  int code = step_back(g, at, SQL_ENDED_TIE, found, err);
  if (code == FP_OK && !*found) code = step_back(g, at, SQL_ENDED_BEFORE, found, err);
  return code;
}

typedef struct sources {
  source *at;
  int count, room;
} sources;

static int add_source(page *g, sources *all, int64_t queue, fp_error *err) {
  bool found;
  source at = {.queue = queue, .settled_at = g->moment, .id = g->id};
  int code = older(g, &at, &found, err);
  if (code != FP_OK || !found) return code;
  if (all->count == all->room) {
    int room = all->room == 0 ? SMALL(16, 1) : all->room * 2;
    source *more = mem_resize(all->at, room * (int64_t)sizeof *more);
    if (more == NULL) return err_memory(err);
    all->at = more;
    all->room = room;
  }
  all->at[all->count++] = at;
  return FP_OK;
}

static int all_sources(page *g, sources *all, fp_error *err) {
  if (g->f->queue != 0) return add_source(g, all, g->f->queue, err);
  int code = FP_OK;
  stmt s = stmt_use(&g->t->d->sql, SQL_QUEUES);
  put_i64(&s, "id", 0);
  while (code == FP_OK && stmt_row(&s)) code = add_source(g, all, get_i64(&s, "id"), err);
  int end_code = stmt_end(&s, err);
  return code != FP_OK ? code : end_code;
}

static source *newest(sources *all) {
  source *best = &all->at[0];
  for (int i = 1; i < all->count; i++) {
    source *at = &all->at[i];
    bool newer = at->settled_at > best->settled_at ||
                 (at->settled_at == best->settled_at && at->id > best->id);
    if (newer) best = at;
  }
  return best;
}

static int page_ended(page *g, fp_error *err) {
  sources all = {0};
  g->moment = g->f->before_us;
  g->id = INT64_MIN;
  if (g->f->has_after) {
    g->moment = g->f->after[1];
    g->id = g->f->after[2];
  }
  int code = all_sources(g, &all, err);
  while (code == FP_OK && all.count > 0 && !g->full) {
    source *at = newest(&all);
    stmt s;
    entry e;
    bool found;
    listing_read_outcome(&s, g->t, at->id, &found, &e);
    if (found && look_at(g, &e)) {
      g->moment = at->settled_at;
      g->id = at->id;
    }
    code = stmt_end(&s, err);
    if (code != FP_OK || g->full) break;
    code = older(g, at, &found, err);
    if (!found) *at = all.at[--all.count];
  }
  mem_free(all.at);
  return code;
}

int listing_page(txn *t, const fp_filter *f, pack *p, int64_t next[3], bool *more, fp_error *err) {
  page g = {.t = t, .f = f, .p = p};
  bool in_line = f->state <= FP_BEGUN || f->state == FP_WAITING;
  int code = in_line ? page_in_line(&g, err) : page_ended(&g, err);
  *more = code == FP_OK && g.full;
  next[0] = g.turn;
  next[1] = g.moment;
  next[2] = g.id;
  return code;
}
