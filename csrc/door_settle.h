/* The way out: what settle.c and lane.c do, as triggers. */
#ifndef FENCEPOST_DOOR_SETTLE_H
#define FENCEPOST_DOOR_SETTLE_H

#include "door_guard.h"

#define DOOR_SETTLE                                                                             \
  "CREATE VIEW fencepost_settle (id, token, verb, delay, result, failure_kind, failure_code,"   \
  " failure_text, lease_end) AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"    \
  " WHERE 0"

#define DOOR_ADDRESSED "(SELECT addressed FROM fencepost_queue WHERE id = NEW.queue)"

/* Where the claim stands. A bulk queue has no index on id: there the caller says where the lease
** ends, or all that is out on that level is gone through. The time in the file is up to a second
** behind that of the last write (TIME_KEEP_US of txn.c), and the wall clock may be, too. */
#define DOOR_CLAIMED_AT                                                                         \
  "CASE WHEN " DOOR_ADDRESSED " THEN (SELECT due_at FROM fencepost_due WHERE id = NEW.id"       \
  " AND addressed = 1) ELSE coalesce((SELECT due_at FROM fencepost_due WHERE turn = NEW.turn"   \
  " AND due_at = NEW.lease_end AND id = NEW.id AND token = NEW.token),"                         \
  " (SELECT due_at FROM fencepost_due WHERE turn = NEW.turn AND due_at > NEW.now"               \
  " AND due_at <= NEW.now + 1000000 + (SELECT longest_lease FROM fencepost_meta WHERE one = 1)" \
  " AND id = NEW.id AND token = NEW.token)) END"

/* Where a message stands of which no claim is known. */
#define DOOR_FIRST_AT                                                                           \
  "(SELECT d.due_at FROM fencepost_message m CROSS JOIN fencepost_due d ON d.turn = NEW.turn"   \
  " AND d.due_at = m.due AND d.id = m.id WHERE m.id = NEW.id)"
#define DOOR_WAITS_AT                                                                           \
  "(SELECT d.turn FROM fencepost_message m CROSS JOIN fencepost_lane l"                         \
  " CROSS JOIN fencepost_due d ON d.turn = -l.number AND d.due_at = 0 AND d.id = m.id"          \
  " WHERE m.id = NEW.id AND l.queue = m.queue AND l.name = m.lane)"

#define DOOR_SETTLE_IN                                                                          \
  "CREATE TRIGGER fencepost_settle_in INSTEAD OF INSERT ON fencepost_settle BEGIN"              \
  /* IN with more than two would build a table of them each time. */                            \
  DOOR_REFUSE("a verb is ack, retry, release, fail or cancel", "NEW.verb IS NULL"               \
              " OR (NEW.verb NOT IN ('ack', 'retry') AND NEW.verb NOT IN ('release', 'fail')"   \
              " AND NEW.verb <> 'cancel')")                                                     \
  DOOR_REFUSE("an id is a whole number", "typeof(NEW.id) <> 'integer'")                         \
  DOOR_REFUSE("a token is a whole number from 1, and only cancel goes without",                 \
              "(NEW.token IS NULL AND NEW.verb <> 'cancel') OR "                                \
              DOOR_NO_NUMBER("NEW.token", "1", "9223372036854775807"))                          \
  DOOR_REFUSE("a delay is seconds, up to 100 years", DOOR_NO_SECONDS("NEW.delay", "3155760000"))\
  DOOR_REFUSE("a delay goes with retry and release",                                            \
              "NEW.delay IS NOT NULL AND NEW.verb NOT IN ('retry', 'release')")                 \
  DOOR_REFUSE("a result is TEXT or BLOB, of at most 256 MiB",                                   \
              DOOR_NO_BYTES("NEW.result", "268435456"))                                         \
  DOOR_REFUSE("a result goes with ack", "NEW.result IS NOT NULL AND NEW.verb <> 'ack'")         \
  DOOR_REFUSE("this file is not in UTF-8: a result must be a BLOB",                             \
              DOOR_NOT_UTF8("NEW.result"))                                                      \
  DOOR_REFUSE("a failure goes with retry and fail", "NEW.verb NOT IN ('retry', 'fail')"         \
              " AND (NEW.failure_kind IS NOT NULL OR NEW.failure_code IS NOT NULL"              \
              " OR NEW.failure_text IS NOT NULL)")                                              \
  DOOR_REFUSE("a failure_kind is text of 1 to 64 bytes",                                        \
              DOOR_NO_NAME("NEW.failure_kind", "64"))                                           \
  DOOR_REFUSE("a failure_code is text of at most 64 bytes",                                     \
              DOOR_NO_WORDS("NEW.failure_code", "64"))                                          \
  DOOR_REFUSE("a failure_text is text of at most 1000 bytes",                                   \
              DOOR_NO_WORDS("NEW.failure_text", "1000"))                                        \
  DOOR_REFUSE("lease_end is the moment the claim was given, in microseconds",                   \
              DOOR_NO_NUMBER("NEW.lease_end", "0", "9223372036854775807"))                      \
  DOOR_REFUSE("the tables are damaged", DOOR_HEAD_DAMAGED)                                      \
  " INSERT INTO fencepost_door_claim VALUES (NEW.id, NEW.token, NEW.verb,"                      \
  " CAST(round(NEW.delay * 1000000.0) AS INTEGER), CAST(NEW.result AS BLOB),"                   \
  " coalesce(NEW.failure_kind, CASE WHEN NEW.verb = 'fail' OR NEW.failure_code IS NOT NULL"     \
  " OR NEW.failure_text IS NOT NULL THEN 'error' END), NEW.failure_code, NEW.failure_text,"     \
  " NEW.lease_end, " DOOR_NOW ", (SELECT queue FROM fencepost_message WHERE id = NEW.id),"      \
  " (SELECT queue << 8 | (127 - priority) FROM fencepost_message WHERE id = NEW.id)); END"

/* `turn`: of its queue and priority; NULL: there is no such message. */
#define DOOR_CLAIM                                                                              \
  "CREATE VIEW fencepost_door_claim (id, token, verb, delay, result, failure_kind,"             \
  " failure_code, failure_text, lease_end, now, queue, turn) AS SELECT NULL, NULL, NULL, NULL," \
  " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0"

#define DOOR_CLAIM_IN                                                                           \
  "CREATE TRIGGER fencepost_door_claim_in INSTEAD OF INSERT ON fencepost_door_claim BEGIN"      \
  /* More than this message would have to follow (run.h). */                                    \
  DOOR_REFUSE("a run is ended by Fencepost itself",                                             \
              "EXISTS (SELECT 1 FROM fencepost_message m CROSS JOIN fencepost_queue q"          \
              " ON q.id = m.queue WHERE m.id = NEW.id AND m.life = 2 AND m.kind <> 0"           \
              " AND q.profile = 4)")                                                            \
  DOOR_REFUSE("this file is not in UTF-8: the child of a run is ended by Fencepost itself",     \
              "length(CAST('a' AS BLOB)) <> 1 AND EXISTS (SELECT 1 FROM fencepost_message"      \
              " WHERE id = NEW.id AND life = 2 AND substr(key, 1, 6) = 'child:')")              \
  " INSERT INTO fencepost_door_row VALUES (NEW.id, NEW.token, NEW.verb, NEW.delay, NEW.result," \
  " NEW.failure_kind, NEW.failure_code, NEW.failure_text, NEW.now,"                             \
  " CASE WHEN NEW.token IS NULL THEN coalesce(" DOOR_WAITS_AT ", NEW.turn) ELSE NEW.turn END,"  \
  " CASE WHEN NEW.token IS NOT NULL THEN " DOOR_CLAIMED_AT                                      \
  " WHEN " DOOR_WAITS_AT " IS NOT NULL THEN 0 ELSE coalesce(" DOOR_FIRST_AT ","                 \
  " CASE WHEN " DOOR_ADDRESSED " THEN (SELECT due_at FROM fencepost_due WHERE id = NEW.id"      \
  " AND addressed = 1) END) END); END"

/* `turn`, `due_at`: where the row should stand; NULL: nowhere. */
#define DOOR_ROW                                                                                \
  "CREATE VIEW fencepost_door_row (id, token, verb, delay, result, failure_kind,"               \
  " failure_code, failure_text, now, turn, due_at) AS SELECT NULL, NULL, NULL, NULL, NULL,"     \
  " NULL, NULL, NULL, NULL, NULL, NULL WHERE 0"

/* The row that is spoken of: the newest claim, and (inbox queues) one whose lease has not ended;
** or, without a token, whatever stands there. */
#define DOOR_THE_ROW                                                                            \
  "d.turn = NEW.turn AND d.due_at = NEW.due_at AND d.id = NEW.id AND (NEW.token IS NULL"        \
  " OR (d.token = NEW.token AND d.stage > 0 AND (q.profile <> 3 OR d.due_at > NEW.now)))"

/* base * factor^(attempt - 1), at most cap, spread by jitter to both sides (settle.c). */
#define DOOR_BACK_OFF                                                                           \
  "CAST((WITH RECURSIVE grown (attempt, span) AS (SELECT 1, CAST(q.base AS REAL) UNION ALL"     \
  " SELECT attempt + 1, span * (q.factor / 1000.0) FROM grown WHERE attempt < d.attempts"       \
  " AND span < q.cap AND span > 0 AND q.factor > 1000) SELECT min(max(span), q.cap) FROM grown)"\
  " * (1.0 + random() / 9223372036854775808.0 * q.jitter / 1000.0) AS INTEGER)"

/* A retry comes too late: attempts or age are used up. */
#define DOOR_LATE                                                                               \
  "(t.used_up OR (t.max_age > 0 AND t.back_at - coalesce(t.since, t.first_due) > t.max_age))"

/* It was re-armed while it was out, so that nothing which would end it does (settle_next_turn); but
** for who cancels without a token. */
#define DOOR_ANEW                                                                               \
  "(t.again <> 0 AND CASE NEW.verb WHEN 'retry' THEN " DOOR_LATE " WHEN 'release' THEN 0"       \
  " WHEN 'cancel' THEN NEW.token IS NOT NULL ELSE 1 END)"

#define DOOR_ROW_IN                                                                             \
  "CREATE TRIGGER fencepost_door_row_in INSTEAD OF INSERT ON fencepost_door_row BEGIN"          \
  DOOR_REFUSE("lease lost", "NEW.token IS NOT NULL AND NOT EXISTS (SELECT 1"                    \
              " FROM fencepost_message m CROSS JOIN fencepost_queue q ON q.id = m.queue"        \
              " CROSS JOIN fencepost_due d WHERE m.id = NEW.id AND " DOOR_THE_ROW ")"           \
              /* Said again by the token that ended it: no error, and no change. */             \
              " AND NOT EXISTS (SELECT 1 FROM fencepost_outcome WHERE id = NEW.id"              \
              " AND token = NEW.token)")                                                        \
  DOOR_REFUSE("only an addressed queue finds a message that has moved by its id alone",         \
              "NEW.due_at IS NULL AND NEW.token IS NULL AND EXISTS (SELECT 1"                   \
              " FROM fencepost_message WHERE id = NEW.id) AND NOT EXISTS (SELECT 1"             \
              " FROM fencepost_outcome WHERE id = NEW.id)")                                     \
  " INSERT INTO fencepost_door_end SELECT r.id, NEW.now, r.turn, r.due_at, r.stage,"            \
  " CASE WHEN NEW.verb = 'release' THEN max(r.attempts - 1, 0)"                                 \
  " WHEN r.anew THEN 0 ELSE r.attempts END,"                                                    \
  " coalesce(NEW.token, 0), r.generation + coalesce(r.state = 5, 0), r.queue, r.kind,"          \
  " r.life, r.key, r.lane, NEW.result,"                                                         \
  " CASE WHEN (r.anew OR r.state = 5) AND NEW.verb = 'retry'"                                   \
  " THEN CASE WHEN r.used_up THEN coalesce(NEW.failure_kind, 'error') ELSE 'too_old' END"       \
  " ELSE NEW.failure_kind END,"                                                                 \
  " NEW.failure_code, NEW.failure_text, r.anew,"                                                \
  " CASE WHEN r.anew THEN r.again ELSE r.since END,"                                            \
  " CASE WHEN r.anew OR (r.again <> 0 AND r.again < r.back_at) THEN r.again"                    \
  " ELSE r.back_at END, r.addressed, r.state,"                                                  \
  " r.state = 5 OR (r.state > 0 AND (r.keep > 0 OR r.life = 1)),"                               \
  " r.state = 5 AND r.on_dead = 1, r.lane_width"                                                \
  " FROM (SELECT t.*, " DOOR_ANEW " AS anew, CASE WHEN " DOOR_ANEW " THEN NULL"                 \
  " WHEN NEW.verb = 'ack' THEN 3 + (t.listed AND t.keep > 0)"                                   \
  " WHEN NEW.verb = 'retry' AND " DOOR_LATE " THEN 5"                                           \
  " WHEN NEW.verb = 'fail' THEN 5 WHEN NEW.verb = 'cancel' THEN 7 END AS state"                 \
  " FROM (SELECT d.id AS id, d.turn AS turn, d.due_at AS due_at, d.stage AS stage,"             \
  " d.attempts AS attempts, d.generation AS generation, d.again AS again, m.queue AS queue,"    \
  " m.kind AS kind, m.life AS life, m.key AS key, m.lane AS lane, q.keep AS keep,"              \
  " q.listed AS listed, q.addressed AS addressed, q.max_age AS max_age, q.on_dead AS on_dead,"  \
  " q.lane_width AS lane_width, m.max_attempts > 0 AND d.attempts >= m.max_attempts AS used_up,"\
  " (SELECT since FROM fencepost_trouble WHERE id = d.id) AS since,"                            \
  " max(m.due, m.enqueued_at) AS first_due,"                                                    \
  " CASE NEW.verb WHEN 'retry' THEN NEW.now + coalesce(NEW.delay, " DOOR_BACK_OFF ")"           \
  " WHEN 'release' THEN CASE WHEN NEW.delay > 0 AND NEW.now + NEW.delay > d.placed_at"          \
  " THEN NEW.now + NEW.delay ELSE d.placed_at END END AS back_at"                               \
  " FROM fencepost_message m CROSS JOIN fencepost_queue q ON q.id = m.queue"                    \
  " CROSS JOIN fencepost_due d WHERE m.id = NEW.id AND " DOOR_THE_ROW                             \
  /* Two LIMITs keep SQLite from writing the back-off, and its chance, into each use of it. */  \
  " LIMIT 1) t LIMIT 1) r; END"

/* `state`: of the outcome, NULL: it goes back into the line, to `back_at`; `anew` 1: it was
** re-armed meanwhile; `since`: for `trouble`; `kept`: the outcome stays; `halts`: its lane does. */
#define DOOR_END                                                                                \
  "CREATE VIEW fencepost_door_end (id, now, turn, due_at, stage, attempts, token, generation,"  \
  " queue, kind, life, key, lane, result, failure_kind, failure_code, failure_text, anew,"      \
  " since, back_at, addressed, state, kept, halts, lane_width) AS SELECT NULL, NULL, NULL,"     \
  " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"  \
  " NULL, NULL, NULL,"                                                                          \
  " NULL, NULL, NULL, NULL WHERE 0"

#define DOOR_END_IN                                                                             \
  "CREATE TRIGGER fencepost_door_end_in INSTEAD OF INSERT ON fencepost_door_end BEGIN"          \
  /* Each moment that is given, not one a second: the next one that asks has another clock. */   \
  " UPDATE fencepost_tally SET time = NEW.now WHERE queue = 0 AND time < NEW.now;"              \
  " UPDATE fencepost_tally SET waiting = waiting - (NEW.turn < 0),"                             \
  " pending = pending - (NEW.turn > 0 AND NEW.stage = 0) + (NEW.state IS NULL),"                \
  " leased = leased - (NEW.turn > 0 AND NEW.stage > 0),"                                        \
  " done = done + coalesce(NEW.kept AND NEW.state < 5, 0),"                                     \
  " dead = dead + coalesce(NEW.state = 5, 0),"                                                  \
  " cancelled = cancelled + coalesce(NEW.kept AND NEW.state = 7, 0) WHERE queue = NEW.queue;"   \
  " DELETE FROM fencepost_due WHERE turn = NEW.turn AND due_at = NEW.due_at AND id = NEW.id;"   \
  /* back into the line; what failed is noted, or (re-armed) forgotten */                       \
  " INSERT INTO fencepost_due (turn, due_at, id, token, attempts, stage, addressed, generation,"\
  " again, placed_at, worker) SELECT NEW.turn, NEW.back_at, NEW.id, 0, NEW.attempts, 0,"        \
  " NEW.addressed, NEW.generation, 0, NEW.back_at, 0 WHERE NEW.state IS NULL;"                  \
  " DELETE FROM fencepost_trouble WHERE id = NEW.id"                                            \
  " AND (NEW.state IS NOT NULL OR NEW.anew OR NEW.failure_kind IS NOT NULL);"                   \
  " INSERT INTO fencepost_trouble (id, kind, code, text, since)"                                \
  " SELECT NEW.id, NEW.failure_kind, NEW.failure_code, NEW.failure_text, NEW.since"             \
  " WHERE NEW.state IS NULL AND (NEW.anew OR NEW.failure_kind IS NOT NULL);"                    \
  /* or out of it */                                                                            \
  " INSERT INTO fencepost_outcome (id, queue, kind, state, settled_at, attempts, token,"        \
  " generation, failure_kind, failure_code, failure_text, result) SELECT NEW.id, NEW.queue,"    \
  " NEW.kind, NEW.state, NEW.now, NEW.attempts, NEW.token, NEW.generation, NEW.failure_kind,"   \
  " NEW.failure_code, NEW.failure_text, NEW.result WHERE NEW.kept;"                             \
  " DELETE FROM fencepost_key WHERE queue = NEW.queue AND kind = NEW.kind AND life = 2"         \
  " AND key = NEW.key AND id = NEW.id AND NEW.life = 2 AND NEW.state IS NOT NULL;"              \
  " DELETE FROM fencepost_message WHERE id = NEW.id AND NEW.state IS NOT NULL AND NOT NEW.kept;"\
  " DELETE FROM fencepost_progress WHERE id = NEW.id AND NEW.state IS NOT NULL"                 \
  " AND NOT NEW.kept;"                                                                          \
  /* Its lane goes on or halts. Who waited in it had no part in `out`. */                       \
  " UPDATE fencepost_lane SET out = out - 1, held = max(held, NEW.halts),"                      \
  " parked_by = CASE WHEN NEW.halts THEN NEW.id ELSE parked_by END"                             \
  " WHERE queue = NEW.queue AND name = NEW.lane AND NEW.turn > 0 AND NEW.state IS NOT NULL;"    \
  " INSERT INTO fencepost_door_promote VALUES (CASE WHEN NEW.turn > 0"                          \
  " AND NEW.state IS NOT NULL THEN (SELECT d.id FROM fencepost_lane l CROSS JOIN fencepost_due" \
  " d ON d.turn = -l.number WHERE l.queue = NEW.queue AND l.name = NEW.lane AND NOT l.held"     \
  " AND l.out < NEW.lane_width ORDER BY d.due_at, d.id LIMIT 1) END,"                           \
  " NEW.now, NEW.queue, NEW.lane);"                                                             \
  " DELETE FROM fencepost_lane WHERE queue = NEW.queue AND name = NEW.lane AND out = 0"         \
  " AND NOT held AND NEW.turn > 0 AND NEW.state IS NOT NULL;"                                   \
  /* What has a live key may be the child of a run. */                                          \
  " INSERT INTO fencepost_door_child VALUES (CASE WHEN NEW.state IS NOT NULL AND NEW.life = 2"  \
  " AND substr(NEW.key, 1, 6) = 'child:' THEN NEW.key END, NEW.id, NEW.now, NEW.state,"         \
  " NEW.result, NEW.failure_kind, NEW.failure_text); END"

/* The first who waits in a lane goes into the line; NULL: nobody does. */
#define DOOR_PROMOTE                                                                            \
  "CREATE VIEW fencepost_door_promote (id, now, queue, lane)"                                   \
  " AS SELECT NULL, NULL, NULL, NULL WHERE 0"

#define DOOR_PROMOTE_IN                                                                         \
  "CREATE TRIGGER fencepost_door_promote_in INSTEAD OF INSERT ON fencepost_door_promote"        \
  " WHEN NEW.id IS NOT NULL BEGIN"                                                              \
  " UPDATE fencepost_lane SET out = out + 1 WHERE queue = NEW.queue AND name = NEW.lane;"       \
  " UPDATE fencepost_tally SET waiting = waiting - 1, pending = pending + 1"                    \
  " WHERE queue = NEW.queue;"                                                                   \
  /* Its place is a part of the key, and the row stays the same: changed where it stands. */    \
  " UPDATE fencepost_due SET turn = NEW.queue << 8 | (127 - coalesce((SELECT priority"          \
  " FROM fencepost_message WHERE id = NEW.id), 0)), due_at = coalesce((SELECT due"              \
  " FROM fencepost_message WHERE id = NEW.id), NEW.now), placed_at = coalesce((SELECT due"      \
  " FROM fencepost_message WHERE id = NEW.id), NEW.now)"                                        \
  " WHERE turn = -(SELECT number FROM fencepost_lane WHERE queue = NEW.queue"                   \
  " AND name = NEW.lane) AND due_at = 0 AND id = NEW.id; END"

/* ---- what a run is told of a job that was its child (run.c) ---- */

/* `key`: child:, the bytes of the parent's id, a colon, that id and the child's key; NULL: it was
** nobody's child. */
#define DOOR_CHILD                                                                              \
  "CREATE VIEW fencepost_door_child (key, id, now, state, result, failure_kind, failure_text)"  \
  " AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0"

#define DOOR_CHILD_PARENT "7 + instr(substr(NEW.key, 7), ':')"
#define DOOR_CHILD_BYTES "CAST(substr(NEW.key, 7) AS INTEGER)"

/* The value is as fencepost_flow.h says. Blobs side by side keep their bytes, whatever they are. */
#define DOOR_CHILD_IN                                                                           \
  "CREATE TRIGGER fencepost_door_child_in INSTEAD OF INSERT ON fencepost_door_child"            \
  " WHEN NEW.key IS NOT NULL BEGIN"                                                             \
  " INSERT INTO fencepost_door_told VALUES (CAST(substr(CAST(NEW.key AS BLOB),"                 \
  " " DOOR_CHILD_PARENT ", " DOOR_CHILD_BYTES ") AS TEXT), CAST(substr(CAST(NEW.key AS BLOB),"  \
  " " DOOR_CHILD_PARENT " + " DOOR_CHILD_BYTES ") AS TEXT), NEW.id, NEW.now,"                   \
  " CAST(CASE WHEN NEW.state < 5 THEN x'64' || coalesce(NEW.result, x'') WHEN NEW.state = 7"    \
  " THEN x'63' ELSE x'66' || CAST(coalesce(NEW.failure_kind, 'error') AS BLOB) || x'00'"        \
  " || CAST(coalesce(NEW.failure_text, '') AS BLOB) END AS BLOB)); END"

/* Anybody may make a key that looks like a child's: the parent has to know it. */
#define DOOR_TOLD                                                                               \
  "CREATE VIEW fencepost_door_told (parent, key, id, now, value)"                               \
  " AS SELECT NULL, NULL, NULL, NULL, NULL WHERE 0"

#define DOOR_TOLD_IN                                                                            \
  "CREATE TRIGGER fencepost_door_told_in INSTEAD OF INSERT ON fencepost_door_told"              \
  " WHEN EXISTS (SELECT 1 FROM fencepost_record WHERE workflow = NEW.parent"                    \
  " AND key = 'child:' || NEW.key AND kind = 51 AND CAST(CAST(value AS TEXT) AS INTEGER) = NEW.id)"\
  " AND EXISTS (SELECT 1 FROM fencepost_run WHERE id = NEW.parent AND state < 5)"               \
  " AND NOT EXISTS (SELECT 1 FROM fencepost_record WHERE workflow = NEW.parent"                 \
  " AND key = NEW.key) BEGIN"                                                                   \
  " INSERT INTO fencepost_record (workflow, seq, key, kind, value, started_at, written_at)"     \
  " VALUES (NEW.parent, (SELECT last + 1 FROM fencepost_tally WHERE queue = 0), NEW.key, 2,"    \
  " NEW.value, NULL, NEW.now);"                                                                 \
  " UPDATE fencepost_tally SET last = last + 1 WHERE queue = 0;"                                \
  " INSERT INTO fencepost_door_wake VALUES ("                                                   \
  "(SELECT message FROM fencepost_run WHERE id = NEW.parent AND state < 3), NEW.now); END"

/* The wake-up of a live run; NULL: it is none. One that waits for others is due at the end of time
** (NEVER_US). */
#define DOOR_WAKE "CREATE VIEW fencepost_door_wake (id, now) AS SELECT NULL, NULL WHERE 0"

#define DOOR_WAKE_IN                                                                            \
  "CREATE TRIGGER fencepost_door_wake_in INSTEAD OF INSERT ON fencepost_door_wake"              \
  " WHEN NEW.id IS NOT NULL BEGIN"                                                              \
  " UPDATE fencepost_tally SET waiting = waiting - 1, pending = pending + 1"                    \
  " WHERE queue = (SELECT queue FROM fencepost_message WHERE id = NEW.id) AND EXISTS (SELECT 1" \
  " FROM fencepost_due WHERE id = NEW.id AND addressed = 1 AND stage = 0"                       \
  " AND due_at = 9007199254740992);"                                                            \
  " INSERT INTO fencepost_door_rearm VALUES (NEW.id, NEW.now, 1); END"

#endif
