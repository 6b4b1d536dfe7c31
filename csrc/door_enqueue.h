/* The way in: what enqueue.c does, as triggers. */
#ifndef FENCEPOST_DOOR_ENQUEUE_H
#define FENCEPOST_DOOR_ENQUEUE_H

#include "door_guard.h"

#define DOOR_IS_WAKEUP "(SELECT profile FROM fencepost_queue WHERE id = NEW.queue) = 4"

#define DOOR_ENQUEUE                                                                            \
  "CREATE VIEW fencepost_enqueue (id, queue, kind, body, key, life, lane, priority, delay, due,"\
  " max_attempts, headers) AS SELECT id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL," \
  " NULL, NULL FROM fencepost_message ORDER BY id DESC LIMIT 1"

#define DOOR_ENQUEUE_IN                                                                         \
  "CREATE TRIGGER fencepost_enqueue_in INSTEAD OF INSERT ON fencepost_enqueue BEGIN"            \
  DOOR_REFUSE("the file gives the id", "NEW.id IS NOT NULL")                                    \
  DOOR_REFUSE("there is no such queue",                                                         \
              "NOT EXISTS (SELECT 1 FROM fencepost_queue WHERE name = NEW.queue)")              \
  DOOR_REFUSE("a kind is text of 1 to 255 bytes", DOOR_NO_NAME("NEW.kind", "255"))              \
  DOOR_REFUSE("a queue of jobs asks for a kind: the job''s name",                               \
              "NEW.kind IS NULL AND 1 = (SELECT profile FROM fencepost_queue"                   \
              " WHERE name = NEW.queue)")                                                       \
  DOOR_REFUSE("only a queue of jobs takes a kind",                                              \
              "NEW.kind IS NOT NULL AND 0 = (SELECT profile % 4 FROM fencepost_queue"           \
              " WHERE name = NEW.queue)")                                                       \
  DOOR_REFUSE("a body is TEXT or BLOB, of at most 256 MiB",                                     \
              "NEW.body IS NULL OR " DOOR_NO_BYTES("NEW.body", "268435456"))                    \
  DOOR_REFUSE("headers are TEXT or BLOB, of at most 65536 bytes",                               \
              DOOR_NO_BYTES("NEW.headers", "65536"))                                            \
  DOOR_REFUSE("this file is not in UTF-8: a body and headers must be BLOBs",                    \
              "(" DOOR_NOT_UTF8("NEW.body") ") OR (" DOOR_NOT_UTF8("NEW.headers") ")")          \
  DOOR_REFUSE("a key is text of 1 to 1024 bytes", DOOR_NO_NAME("NEW.key", "1024"))              \
  DOOR_REFUSE("the life of a key is ''lasting'' or ''live''",                                   \
              "NEW.life IS NOT NULL AND (NEW.key IS NULL"                                       \
              " OR NEW.life NOT IN ('lasting', 'live'))")                                       \
  DOOR_REFUSE("a lane is text of 1 to 255 bytes", DOOR_NO_NAME("NEW.lane", "255"))              \
  DOOR_REFUSE("a priority is a whole number from -128 to 127",                                  \
              DOOR_NO_NUMBER("NEW.priority", "-128", "127"))                                    \
  DOOR_REFUSE("a delay is seconds, up to 100 years", DOOR_NO_SECONDS("NEW.delay", "3155760000"))\
  DOOR_REFUSE("due is seconds since 1970, up to the year 2255",                                 \
              DOOR_NO_SECONDS("NEW.due", "9007199254"))                                         \
  DOOR_REFUSE("delay and due at once: one of them says when",                                   \
              "NEW.delay IS NOT NULL AND NEW.due IS NOT NULL")                                  \
  DOOR_REFUSE("max_attempts is a whole number from 0 to 1000000",                               \
              DOOR_NO_NUMBER("NEW.max_attempts", "0", "1000000"))                               \
  DOOR_REFUSE("the tables are damaged",                                                         \
              DOOR_HEAD_DAMAGED " OR NOT EXISTS (SELECT 1 FROM fencepost_tally WHERE queue ="   \
              " (SELECT id FROM fencepost_queue WHERE name = NEW.queue)) OR EXISTS (SELECT 1"   \
              " FROM fencepost_message WHERE id > (SELECT last FROM fencepost_tally"            \
              " WHERE queue = 0))")                                                             \
  " INSERT INTO fencepost_door_put VALUES ((SELECT last + 1 FROM fencepost_tally"               \
  " WHERE queue = 0), " DOOR_NOW ", " DOOR_WALL ","                                             \
  " (SELECT id FROM fencepost_queue WHERE name = NEW.queue), NEW.kind, CASE WHEN NEW.kind"      \
  " IS NOT NULL THEN (SELECT id FROM fencepost_kind WHERE name = NEW.kind) ELSE 0 END,"         \
  " CASE WHEN NEW.key IS NULL THEN 0 WHEN NEW.life = 'live' THEN 2 ELSE 1 END,"                 \
  " CAST(NEW.body AS BLOB), NEW.key, NEW.lane, coalesce(NEW.priority, 0), NEW.delay, NEW.due,"  \
  " NEW.max_attempts, CAST(NEW.headers AS BLOB)); END"

/* `kind` NULL: the name is new. */
#define DOOR_PUT                                                                                \
  "CREATE VIEW fencepost_door_put (id, now, wall, queue, name, kind, life, body, key, lane,"    \
  " priority, delay, due, max_attempts, headers) AS SELECT NULL, NULL, NULL, NULL, NULL, NULL," \
  " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0"

/* The message that has the key. An ended wake-up gives its key to the next one. */
#define DOOR_OWNER                                                                              \
  "(SELECT k.id FROM fencepost_key k WHERE k.queue = NEW.queue AND k.kind = NEW.kind"           \
  " AND k.life = NEW.life AND k.key = NEW.key AND (k.until IS NULL OR k.until > NEW.now)"       \
  " AND (NOT " DOOR_IS_WAKEUP " OR (EXISTS (SELECT 1 FROM fencepost_message WHERE id = k.id)"   \
  " AND NOT EXISTS (SELECT 1 FROM fencepost_outcome WHERE id = k.id))))"

#define DOOR_PUT_IN                                                                             \
  "CREATE TRIGGER fencepost_door_put_in INSTEAD OF INSERT ON fencepost_door_put BEGIN"          \
  " INSERT INTO fencepost_kind (name) SELECT NEW.name WHERE NEW.kind IS NULL;"                  \
  " INSERT INTO fencepost_door_key VALUES (NEW.id, NEW.now, NEW.queue,"                         \
  " coalesce(NEW.kind, (SELECT id FROM fencepost_kind WHERE name = NEW.name)), NEW.life,"       \
  " " DOOR_OWNER ", NEW.body, NEW.key, NEW.lane, NEW.priority,"                                 \
  " CASE WHEN NEW.due IS NULL"                                                                  \
  " THEN NEW.now + CAST(round(coalesce(NEW.delay, 0) * 1000000.0) AS INTEGER)"                  \
  /* `due` is read off a wall clock, which store time may be ahead of. */                       \
  " ELSE CAST(round(NEW.due * 1000000.0) AS INTEGER)"                                           \
  " + CASE WHEN NEW.now - NEW.wall > 100000 THEN NEW.now - NEW.wall ELSE 0 END END,"            \
  " coalesce(NEW.max_attempts, (SELECT max_attempts FROM fencepost_queue"                       \
  " WHERE id = NEW.queue)), NEW.headers); END"

/* `owner`: the message that has the key, NULL if the key is free. */
#define DOOR_KEY                                                                                \
  "CREATE VIEW fencepost_door_key (id, now, queue, kind, life, owner, body, key, lane,"         \
  " priority, due, max_attempts, headers) AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL,"  \
  " NULL, NULL, NULL, NULL, NULL, NULL WHERE 0"

/* Where a message was put first, as a condition on the line. */
#define DOOR_FIRST_PLACE(id)                                                                    \
  "turn = (SELECT queue << 8 | (127 - priority) FROM fencepost_message WHERE id = " id ")"      \
  " AND due_at = (SELECT due FROM fencepost_message WHERE id = " id ") AND id = " id

#define DOOR_KEY_IN                                                                             \
  "CREATE TRIGGER fencepost_door_key_in INSTEAD OF INSERT ON fencepost_door_key BEGIN"          \
  DOOR_REFUSE("another message has this key",                                                   \
              "NEW.owner IS NOT NULL AND NOT " DOOR_IS_WAKEUP " AND NOT EXISTS (SELECT 1"       \
              " FROM fencepost_message WHERE id = NEW.owner AND body = NEW.body"                \
              " AND headers IS NEW.headers)")                                                   \
  DOOR_REFUSE("the queue is full",                                                              \
              "(NEW.owner IS NULL OR " DOOR_IS_WAKEUP ") AND EXISTS (SELECT 1"                  \
              " FROM fencepost_queue q CROSS JOIN fencepost_tally c WHERE q.id = NEW.queue"     \
              " AND c.queue = NEW.queue AND q.max_size > 0"                                     \
              " AND c.pending + c.waiting + c.leased >= q.max_size)")                           \
  " INSERT INTO fencepost_door_rearm VALUES (NEW.owner, NEW.due, " DOOR_IS_WAKEUP ");"          \
  " INSERT INTO fencepost_door_arrive VALUES (NEW.owner, NEW.id, NEW.now, NEW.queue, NEW.kind," \
  " NEW.life, NEW.body, NEW.key, NEW.lane,"                                                     \
  " (SELECT number FROM fencepost_lane WHERE queue = NEW.queue AND name = NEW.lane),"           \
  " coalesce((SELECT l.held OR l.out >= q.lane_width FROM fencepost_lane l"                     \
  " CROSS JOIN fencepost_queue q WHERE l.queue = NEW.queue AND l.name = NEW.lane"               \
  " AND q.id = NEW.queue), 0), NEW.priority, NEW.due, NEW.max_attempts, NEW.headers); END"

/* An equal wake-up is re-armed: due at the earlier moment, or, leased, once more after. */
#define DOOR_REARM                                                                              \
  "CREATE VIEW fencepost_door_rearm (owner, due, wakeup) AS SELECT NULL, NULL, NULL WHERE 0"

#define DOOR_REARM_IN                                                                           \
  "CREATE TRIGGER fencepost_door_rearm_in INSTEAD OF INSERT ON fencepost_door_rearm"            \
  " WHEN NEW.wakeup AND NEW.owner IS NOT NULL BEGIN"                                            \
  " UPDATE fencepost_due SET due_at = NEW.due, placed_at = NEW.due, addressed = 1"              \
  " WHERE " DOOR_FIRST_PLACE("NEW.owner") " AND stage = 0 AND due_at > NEW.due;"                \
  " UPDATE fencepost_due SET due_at = NEW.due, placed_at = NEW.due WHERE id = NEW.owner"        \
  " AND addressed = 1 AND stage = 0 AND due_at > NEW.due;"                                      \
  " UPDATE fencepost_due SET again = NEW.due WHERE id = NEW.owner AND addressed = 1"            \
  " AND stage > 0 AND (again = 0 OR again > NEW.due); END"

/* `number`: of the lane, NULL if it is new or there is none; `waits` 1: behind others in it. */
#define DOOR_ARRIVE                                                                             \
  "CREATE VIEW fencepost_door_arrive (owner, id, now, queue, kind, life, body, key, lane,"      \
  " number, waits, priority, due, max_attempts, headers) AS SELECT NULL, NULL, NULL, NULL,"     \
  " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0"

#define DOOR_ARRIVE_IN                                                                          \
  "CREATE TRIGGER fencepost_door_arrive_in INSTEAD OF INSERT ON fencepost_door_arrive"          \
  " WHEN NEW.owner IS NULL BEGIN"                                                               \
  /* The id is one number off the counter, a new lane's number the next one. */                 \
  " UPDATE fencepost_tally SET last = NEW.id + (NEW.lane IS NOT NULL AND NEW.number IS NULL),"  \
  " time = NEW.now WHERE queue = 0;"                                                            \
  " UPDATE fencepost_tally SET pending = pending + 1 - NEW.waits,"                              \
  " waiting = waiting + NEW.waits WHERE queue = NEW.queue;"                                     \
  /* A key whose time is over has its row still. */                                             \
  " DELETE FROM fencepost_key WHERE queue = NEW.queue AND kind = NEW.kind"                      \
  " AND life = NEW.life AND key = NEW.key;"                                                     \
  " INSERT INTO fencepost_key (queue, kind, life, key, id)"                                     \
  " SELECT NEW.queue, NEW.kind, NEW.life, NEW.key, NEW.id WHERE NEW.key IS NOT NULL;"           \
  " UPDATE fencepost_lane SET out = out + 1 WHERE queue = NEW.queue AND name = NEW.lane"        \
  " AND NOT NEW.waits;"                                                                         \
  " INSERT INTO fencepost_lane (queue, name, number, out, held, parked_by)"                     \
  " SELECT NEW.queue, NEW.lane, NEW.id + 1, 1, 0, 0"                                            \
  " WHERE NEW.lane IS NOT NULL AND NEW.number IS NULL;"                                         \
  " INSERT INTO fencepost_message (id, queue, kind, priority, enqueued_at, due, max_attempts,"  \
  " life, key, lane, headers, body) VALUES (NEW.id, NEW.queue, NEW.kind, NEW.priority, NEW.now,"\
  " NEW.due, NEW.max_attempts, NEW.life, NEW.key, NEW.lane, NEW.headers, NEW.body);"            \
  " INSERT INTO fencepost_due (turn, due_at, id, token, attempts, stage, addressed, generation,"\
  " again, placed_at, worker) VALUES"                                                           \
  " (CASE WHEN NEW.waits THEN -NEW.number ELSE NEW.queue << 8 | (127 - NEW.priority) END,"      \
  " CASE WHEN NEW.waits THEN 0 ELSE NEW.due END, NEW.id, 0, 0, 0, 0, 0, 0,"                     \
  " CASE WHEN NEW.waits THEN 0 ELSE NEW.due END, 0); END"

/* A queue that is declared in Python and not in the file yet, with all of its policy. */
#define DOOR_QUEUE                                                                              \
  "CREATE VIEW fencepost_door_queue (name, keep, key_window, addressed, listed, max_attempts,"  \
  " max_age, lease, base, factor, cap, jitter, lane_width, on_dead, on_unknown, max_size,"      \
  " concurrency, rate, held_until, paused, profile) AS SELECT NULL, NULL, NULL, NULL, NULL,"    \
  " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"  \
  " NULL WHERE 0"

#define DOOR_QUEUE_IN                                                                           \
  "CREATE TRIGGER fencepost_door_queue_in INSTEAD OF INSERT ON fencepost_door_queue BEGIN"      \
  DOOR_REFUSE("a queue''s name is text of 1 to 255 bytes",                                      \
              "NEW.name IS NULL OR " DOOR_NO_NAME("NEW.name", "255"))                           \
  " INSERT INTO fencepost_queue (id, name, keep, key_window, addressed, listed, max_attempts,"  \
  " max_age, lease, base, factor, cap, jitter, lane_width, on_dead, on_unknown, max_size,"      \
  " concurrency, rate, held_until, paused, profile) SELECT coalesce((SELECT id"                 \
  " FROM fencepost_queue ORDER BY id DESC LIMIT 1), 0) + 1, NEW.name, NEW.keep, NEW.key_window,"\
  " NEW.addressed, NEW.listed, NEW.max_attempts, NEW.max_age, NEW.lease, NEW.base, NEW.factor," \
  " NEW.cap, NEW.jitter, NEW.lane_width, NEW.on_dead, NEW.on_unknown, NEW.max_size,"            \
  " NEW.concurrency, NEW.rate, NEW.held_until, NEW.paused, NEW.profile"                         \
  " WHERE NOT EXISTS (SELECT 1 FROM fencepost_queue WHERE name = NEW.name);"                    \
  " INSERT INTO fencepost_tally (queue) SELECT q.id FROM fencepost_queue q"                     \
  " WHERE q.name = NEW.name"                                                                    \
  " AND NOT EXISTS (SELECT 1 FROM fencepost_tally WHERE queue = q.id); END"

#endif
