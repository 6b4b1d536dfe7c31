/* Listings: one message, or a page of them, without their payloads.
**
** Orders, and what `since` and `before` bound:
**   pending, leased   in the order of the line: queue by queue, higher priority first, then by due
**                     moment and id; they bound the due moment (of a leased one: its lease's end)
**   waiting           pending behind the head of its lane: after all others that are pending, lane
**                     by lane, by id; they bound the first due moment
**   outcomes          newest first: by the moment they ended, then by id, both descending, over
**                     all queues when none is named; they bound the moment they ended
**
** A page begins after the row where the last one ended, so rows that come and go in between shift
** nothing; one that moved in the line meanwhile can be met twice or not at all. A filter may
** discard rows for ever: after LISTING_LOOKS rows the page ends, however short, with a cursor. */
#ifndef FENCEPOST_LISTING_H
#define FENCEPOST_LISTING_H

#include "pack.h"
#include "txn.h"

enum { LISTING_LOOKS = 10000, LISTING_GONE = -1 /* the state of what is not there */ };

/* A row of a listing, wherever it was read; the spans belong to the statement it was read from. */
typedef struct entry {
  int64_t id, queue, kind, state, attempts, generation;
  int64_t enqueued_at; /* -1: the message itself is missing, which is damage */
  int64_t settled_at, due; /* -1: not ended; not in line */
  int64_t life;
  int64_t turn; /* 0: ended */
  span key, lane, failure_kind, failure_code, failure_text;
} entry;

/* From a row of LIST_AT, LIST_TIES or LIST_LATER. */
void listing_read_line(stmt *s, entry *e);
/* *found false: it has no outcome. `s` is open then, too: stmt_end it when done with *e. */
void listing_read_outcome(stmt *s, txn *t, int64_t id, bool *found, entry *e);
/* A record of fencepost.h's layout. */
void listing_pack(pack *p, const entry *e);

/* One record, or none where there is no such message (any more). FP_INVALID: it is of a bulk queue
** and has moved (line_locate). */
int listing_get(txn *t, int64_t id, pack *p, fp_error *err);
/* The same, of the message that owns the key now. */
int listing_by_key(txn *t, int64_t queue, int64_t kind, int32_t life, span key, pack *p,
                   fp_error *err);
/* Four lengths; body, headers, result and progress are the parts. FP_GONE. */
int listing_content(txn *t, int64_t id, pack *p, fp_error *err);
/* If it is not in line (any more): a record of fp_watch's layout. *queue: where it is, or was; left
** as it is for what is gone. */
int listing_ended(txn *t, int64_t id, int64_t *queue, pack *p, fp_error *err);
/* A page. *more: `next` is where the following one begins. FP_INVALID: the cursor is of another
** listing. */
int listing_page(txn *t, const fp_filter *f, pack *p, int64_t next[3], bool *more, fp_error *err);

#endif
