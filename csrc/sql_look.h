/* Statements of looking and keeping: listings, counts, checks, retention.
**
** Those named CHECK_ walk a whole table, because recounting is what they are for; all others cost
** the rows they answer, and no more. */
#ifndef FENCEPOST_SQL_LOOK_H
#define FENCEPOST_SQL_LOOK_H

#define SQL_LIST_LINE                                                                           \
  "SELECT d.turn AS turn, d.due_at AS due_at, d.id AS id, d.attempts AS attempts,"              \
  " d.stage AS stage, d.generation AS generation, m.queue AS queue, m.kind AS kind,"            \
  " m.enqueued_at AS enqueued_at, m.due AS due, m.life AS life, m.key AS key, m.lane AS lane,"  \
  " t.kind AS failure_kind, t.code AS failure_code, t.text AS failure_text"                     \
  " FROM fencepost_due d LEFT JOIN fencepost_message m ON m.id = d.id"                          \
  " LEFT JOIN fencepost_trouble t ON t.id = d.id WHERE d.turn = :turn"

#define SQL_LOOK_LIST                                                                           \
  X(DATA_VERSION, "PRAGMA data_version")                                                        \
  X(LIST_AT, SQL_LIST_LINE " AND d.due_at = :due_at AND d.id = :id")                            \
  /* What follows a place: first its ties, then what is later. One comparison of both would walk\
  ** all the ties for each page. */                                                             \
  X(LIST_TIES, SQL_LIST_LINE " AND d.due_at = :due_at AND d.id > :id ORDER BY d.id")            \
  X(LIST_LATER,                                                                                 \
    SQL_LIST_LINE " AND d.due_at > :due_at AND d.due_at < :before ORDER BY d.due_at, d.id")     \
  X(LIST_OUTCOME,                                                                               \
    "SELECT o.id AS id, o.queue AS queue, o.kind AS kind, o.state AS state,"                    \
    " o.settled_at AS settled_at, o.attempts AS attempts, o.generation AS generation,"          \
    " o.failure_kind AS failure_kind, o.failure_code AS failure_code,"                          \
    " o.failure_text AS failure_text, m.enqueued_at AS enqueued_at, m.life AS life,"            \
    " m.key AS key, m.lane AS lane"                                                             \
    " FROM fencepost_outcome o LEFT JOIN fencepost_message m ON m.id = o.id WHERE o.id = :id")  \
  X(ENDED_TIE,                                                                                  \
    "SELECT settled_at, id FROM fencepost_outcome WHERE queue = :queue AND state = :state"      \
    " AND state > 3 AND settled_at = :settled_at AND id < :id ORDER BY id DESC LIMIT 1")        \
  X(ENDED_BEFORE,                                                                               \
    "SELECT settled_at, id FROM fencepost_outcome WHERE queue = :queue AND state = :state"      \
    " AND state > 3 AND settled_at < :settled_at AND settled_at >= :since"                      \
    " ORDER BY settled_at DESC, id DESC LIMIT 1")                                               \
  X(CONTENT,                                                                                    \
    "SELECT m.body AS body, m.headers AS headers, o.result AS result, p.value AS value"         \
    " FROM fencepost_message m LEFT JOIN fencepost_outcome o ON o.id = m.id"                    \
    " LEFT JOIN fencepost_progress p ON p.id = m.id WHERE m.id = :id")                          \
  X(FATE,                                                                                       \
    "SELECT m.queue AS queue, o.state AS state FROM fencepost_message m"                        \
    " LEFT JOIN fencepost_outcome o ON o.id = m.id WHERE m.id = :id")                           \
  X(RESULT, "SELECT result FROM fencepost_outcome WHERE id = :id")                              \
  X(QUEUES, "SELECT id FROM fencepost_queue WHERE id > :id ORDER BY id")                        \
  X(KINDS, "SELECT id, name FROM fencepost_kind WHERE id > :id ORDER BY id")                    \
  X(STATS,                                                                                      \
    "SELECT q.id AS id, q.profile AS profile, q.paused AS paused, y.pending AS pending,"        \
    " y.waiting AS waiting, y.leased AS leased, y.done AS done, y.dead AS dead,"                \
    " y.unknown AS unknown, y.cancelled AS cancelled, q.lane_width AS lane_width,"              \
    " q.name AS name"                                                                           \
    " FROM fencepost_queue q LEFT JOIN fencepost_tally y ON y.queue = q.id"                     \
    " WHERE q.id > :id ORDER BY q.id")                                                          \
  X(NEXT_DUE,                                                                                   \
    "SELECT due_at FROM fencepost_due WHERE turn = :turn AND due_at > :now"                     \
    " ORDER BY due_at LIMIT 1")                                                                 \
  X(DUE_STAGES,                                                                                 \
    "SELECT stage FROM fencepost_due WHERE turn = :turn AND due_at <= :now ORDER BY due_at")    \
  X(CHECK_DUE,                                                                                  \
    "SELECT turn, due_at, id, token, stage FROM fencepost_due WHERE turn > :turn"               \
    " ORDER BY turn")                                                                           \
  X(CHECK_MESSAGE,                                                                              \
    "SELECT id, queue, kind, priority, life, key, lane,"                                        \
    " enqueued_at BETWEEN 0 AND 9007199254740991 AS timed FROM fencepost_message"               \
    " WHERE id > :id ORDER BY id")                                                              \
  X(CHECK_OUTCOME,                                                                              \
    "SELECT id, queue, state, token, settled_at BETWEEN 0 AND 9007199254740991 AS timed"        \
    " FROM fencepost_outcome WHERE id > :id ORDER BY id")                                       \
  X(CHECK_LANE,                                                                                 \
    "SELECT queue, name, number, out, held FROM fencepost_lane WHERE queue > :queue"            \
    " ORDER BY queue, name")                                                                    \
  X(CHECK_KEY,                                                                                  \
    "SELECT k.queue AS queue, k.key AS key, k.id AS id, m.id AS message FROM fencepost_key k"   \
    " LEFT JOIN fencepost_message m ON m.id = k.id AND m.queue = k.queue AND m.kind = k.kind"   \
    " AND m.life = k.life AND m.key = k.key"                                                    \
    " WHERE k.queue > :queue AND k.until IS NULL")                                              \
  X(CHECK_FILE, "PRAGMA integrity_check(100)")                                                  \
  X(RETAIN_ENDED,                                                                               \
    "SELECT id FROM fencepost_outcome WHERE queue = :queue AND state = :state AND state > 3"    \
    " AND settled_at < :before ORDER BY settled_at, id LIMIT :limit")                           \
  /* Unlisted outcomes stand in no index but their own: they are met by going along the table. */\
  X(RETAIN_WALK,                                                                                \
    "SELECT id, queue, state, settled_at FROM fencepost_outcome WHERE id > :id ORDER BY id")    \
  X(KEY_WALK,                                                                                   \
    "SELECT queue, kind, life, key, until FROM fencepost_key"                                   \
    " WHERE (queue, kind, life, key) > (:queue, :kind, :life, :key)"                            \
    " ORDER BY queue, kind, life, key")                                                         \
  X(KEY_UNTIL,                                                                                  \
    "UPDATE fencepost_key SET until = :until WHERE queue = :queue AND kind = :kind"             \
    " AND life = :life AND key = :key AND id = :id")                                            \
  X(KEY_EXPIRE,                                                                                 \
    "DELETE FROM fencepost_key WHERE queue = :queue AND kind = :kind AND life = :life"          \
    " AND key = :key AND until <= :now")

#endif
