/* Records: what a workflow has done and was told, in the order in which it was first written.
**
** Whoever writes a key first has given it its value, its place and its moment for good; whoever
** writes it again is told what is there. Nothing here asks who may write: pass.h does. */
#ifndef FENCEPOST_RECORD_H
#define FENCEPOST_RECORD_H

#include "pack.h"
#include "txn.h"

#define RECORD_INBOX LITERAL("inbox:")   /* and 20 digits: an entry */
#define RECORD_CHILD LITERAL("child:")   /* and a key: what was started under it */
#define RECORD_PARENT LITERAL("parent:") /* whose child this is */

enum {
  RECORD_PAGE_WIDTH = 6,
  RECORD_INBOX_BYTES = 26 /* "inbox:" and 20 digits */
};

typedef struct record {
  span workflow, key, value; /* value at NULL: NULL */
  int64_t kind, started_us;  /* -1: not said */
} record;

/* Is the key one of our own? */
bool record_reserved(span key);
/* *first false: the key has a record, and nothing has changed. */
int record_put(txn *t, const record *r, bool *first, fp_error *err);
/* What is there now, of which record_put says that it was not first. *same: it has that value. If
** not, it goes to *p as the next part. */
int record_stored(txn *t, const record *r, bool *same, pack *p, fp_error *err);
/* The next entry of the inbox. */
int record_append(txn *t, span workflow, span value, char key[RECORD_INBOX_BYTES], fp_error *err);
/* The value goes to *p as a row of one part; no row: there is no such record. */
int record_find(txn *t, span workflow, span key, pack *p, fp_error *err);
/* *seq 0: there is no such record. */
int record_seq(txn *t, span workflow, span key, int64_t *seq, fp_error *err);
/* Rows of fp_record_page. */
int record_page(txn *t, span workflow, int64_t after, int32_t limit, pack *p, bool *more,
                fp_error *err);
/* Those up to `seq` go. */
int record_drop(txn *t, span workflow, int64_t seq, int64_t *gone, fp_error *err);
/* At most *room of them, oldest first, which are then taken off it; *all: none is left. */
int record_drop_some(txn *t, span workflow, int64_t *room, bool *all, fp_error *err);
int record_drop_links(txn *t, span workflow, fp_error *err);
/* Those before `seq`, under another id that has none; links stay behind. */
int record_copy(txn *t, span workflow, int64_t seq, span copy, fp_error *err);

/* ---- links: from a run to what it has started, and back ---- */

int record_links(txn *t, span workflow, pack *p, fp_error *err);
/* A copy of a short value, with room for its end; *bytes -1: there is none, or it is no link. */
int record_link(txn *t, span workflow, span key, int64_t kind, char *into, int64_t room,
                int64_t *bytes, fp_error *err);

#endif
