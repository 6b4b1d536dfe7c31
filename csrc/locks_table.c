#include "locks_table.h"

#include "fault.h"

enum { SLOTS_FIRST = SMALL(64, 2) };

static entry **slot_of(table *t, uint64_t first, uint64_t second) {
  uint64_t mixed = (first ^ (second << 32 | second >> 32)) * UINT64_C(0x9E3779B97F4A7C15);
  return t->slots == NULL ? &t->only : &t->slots[(mixed >> 32) & t->slot_mask];
}

entry *table_find(const table *t, uint64_t first, uint64_t second) {
  entry *one = *slot_of((table *)(uintptr_t)t, first, second);
  while (one != NULL && (one->first != first || one->second != second)) one = one->next;
  return one;
}

static void put(table *t, entry *one) {
  entry **slot = slot_of(t, one->first, one->second);
  one->next = *slot;
  *slot = one;
}

/* Everything, as one chain. */
static entry *all_of(table *t) {
  entry *all = NULL;
  uint64_t slots = t->slots == NULL ? 1 : t->slot_mask + 1;
  for (uint64_t i = 0; i < slots; i++) {
    entry **slot = t->slots == NULL ? &t->only : &t->slots[i];
    while (*slot != NULL) {
      entry *one = *slot;
      *slot = one->next;
      one->next = all;
      all = one;
    }
  }
  return all;
}

static void grow(table *t) {
  uint64_t slots = t->slots == NULL ? SLOTS_FIRST : (t->slot_mask + 1) * 2;
  entry **wider = mem_get((int64_t)(slots * sizeof *wider));
  if (wider == NULL) return;
  for (uint64_t i = 0; i < slots; i++) wider[i] = NULL;
  entry *all = all_of(t);
  mem_free(t->slots);
  t->slots = wider;
  t->slot_mask = slots - 1;
  while (all != NULL) {
    entry *one = all;
    all = one->next;
    put(t, one);
  }
}

void table_add(table *t, entry *one) {
  if ((uint64_t)t->count >= (t->slots == NULL ? 1 : t->slot_mask + 1)) grow(t);
  put(t, one);
  t->count++;
}

static void give_back(table *t) {
  mem_free(t->slots);
  *t = (table){0};
}

void table_remove(table *t, entry *one) {
  entry **at = slot_of(t, one->first, one->second);
  while (*at != one) at = &(*at)->next;
  *at = one->next;
  if (--t->count == 0) give_back(t);
}

entry *table_empty(table *t) {
  entry *all = all_of(t);
  give_back(t);
  return all;
}
