#include "place.h"

#include <string.h>

#include "fault.h"

void places_free(places *p) {
  mem_free(p->slots);
  mem_free(p->log);
  *p = (places){0};
}

/* Ids come from one counter, so neighbours are common: a multiplicative hash spreads them. */
static int64_t home_of(const places *p, int64_t id) {
  uint64_t mixed = (uint64_t)id * UINT64_C(0x9E3779B97F4A7C15);
  return (int64_t)((mixed >> 20) & (uint64_t)(p->room - 1));
}

/* The slot of the id, or the empty one where it would stand. */
static int64_t slot_of(const places *p, int64_t id) {
  int64_t at = home_of(p, id);
  while (p->slots[at].id != 0 && p->slots[at].id != id) at = (at + 1) & (p->room - 1);
  return at;
}

bool places_get(const places *p, int64_t id, place *out) {
  if (p->room == 0) return false;
  int64_t at = slot_of(p, id);
  if (p->slots[at].id == 0) return false;
  *out = p->slots[at];
  return true;
}

bool places_full(const places *p) { return (p->count + 1) * 2 > p->room; }

bool places_walk(const places *p, int64_t *at, place *out) {
  while (*at < p->room && p->slots[*at].id == 0) (*at)++;
  if (*at >= p->room) return false;
  *out = p->slots[(*at)++];
  return true;
}

static bool grow(places *p) {
  if (!places_full(p)) return true;
  places bigger = {.room = p->room == 0 ? SMALL(256, 2) : p->room * 2};
  bigger.slots = mem_get(bigger.room * (int64_t)sizeof(place));
  if (bigger.slots == NULL) return false;
  memset(bigger.slots, 0, (size_t)bigger.room * sizeof(place));
  for (int64_t i = 0; i < p->room; i++) {
    if (p->slots[i].id != 0) bigger.slots[slot_of(&bigger, p->slots[i].id)] = p->slots[i];
  }
  mem_free(p->slots);
  p->slots = bigger.slots;
  p->room = bigger.room;
  return true;
}

static bool log_room(places *p) {
  if (p->log_count < p->log_room) return true;
  int64_t room = p->log_room == 0 ? SMALL(256, 1) : p->log_room * 2;
  place *log = mem_resize(p->log, room * (int64_t)sizeof(place));
  if (log == NULL) return false;
  p->log = log;
  p->log_room = room;
  return true;
}

static void set(places *p, const place *at) {
  int64_t slot = slot_of(p, at->id);
  if (p->slots[slot].id == 0) p->count++;
  p->slots[slot] = *at;
}

/* Takes the slot out and moves up those behind it that would no longer be found. */
static void clear(places *p, int64_t slot) {
  int64_t hole = slot, mask = p->room - 1;
  for (int64_t at = (slot + 1) & mask; p->slots[at].id != 0; at = (at + 1) & mask) {
    int64_t home = home_of(p, p->slots[at].id);
    if (((at - home) & mask) >= ((at - hole) & mask)) {
      p->slots[hole] = p->slots[at];
      hole = at;
    }
  }
  p->slots[hole].id = 0;
  p->count--;
}

bool places_put(places *p, const place *at) {
  assert(at->id > 0 && at->token > 0);
  if (!log_room(p) || !grow(p)) return false;
  place before = {.id = at->id};
  (void)places_get(p, at->id, &before);
  p->log[p->log_count++] = before;
  set(p, at);
  return true;
}

bool places_drop(places *p, int64_t id) {
  place before;
  if (!places_get(p, id, &before)) return true;
  if (!log_room(p)) return false;
  p->log[p->log_count++] = before;
  clear(p, slot_of(p, id));
  return true;
}

void places_keep(places *p) { p->log_count = 0; }

void places_undo(places *p) {
  while (p->log_count > 0) {
    const place *before = &p->log[--p->log_count];
    if (before->token != 0) { /* no memory is needed: it stood here before */
      set(p, before);
    } else if (p->slots[slot_of(p, before->id)].id != 0) {
      clear(p, slot_of(p, before->id));
    }
  }
}
