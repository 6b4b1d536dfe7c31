/* A hash table of things that carry their own link, so that adding never fails: where there is no
** memory for more slots, the chains grow longer instead. */
#ifndef FENCEPOST_LOCKS_TABLE_H
#define FENCEPOST_LOCKS_TABLE_H

#include "base.h"

/* The first member of what is in a table. */
typedef struct entry {
  struct entry *next;
  uint64_t first, second; /* the key */
} entry;

typedef struct table {
  entry **slots; /* NULL: there is one, `only` */
  entry *only;
  uint64_t slot_mask;
  int64_t count;
} table;

entry *table_find(const table *t, uint64_t first, uint64_t second); /* NULL: not there */
void table_add(table *t, entry *one); /* whose key is set, and in no table yet */
void table_remove(table *t, entry *one);
/* Takes everything out: a chain of all that was in it. The table is empty then, and holds no
** memory, as whenever nothing is in it. */
entry *table_empty(table *t);

#endif
