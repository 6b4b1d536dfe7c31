/* Statements of the way of a message: message, key, due, lane, outcome. */
#ifndef FENCEPOST_SQL_LINE_H
#define FENCEPOST_SQL_LINE_H

#define SQL_DUE_COLUMNS                                                                         \
  "turn, due_at, id, token, attempts, stage, addressed, generation, again, placed_at, worker"

/* What a claim hands out. A row whose message is missing is damaged; it must come out here, or it
** would stop the line. */
#define SQL_DUE_ROWS                                                                            \
  "SELECT d.due_at AS due_at, d.id AS id, d.token AS token, d.attempts AS attempts,"            \
  " d.stage AS stage, d.generation AS generation, d.again AS again,"                            \
  " d.placed_at AS placed_at, m.id AS message, m.kind AS kind, m.enqueued_at AS enqueued_at,"   \
  " m.due AS due, m.max_attempts AS max_attempts, m.life AS life, m.key AS key,"                \
  " m.lane AS lane, m.headers AS headers, m.body AS body"                                       \
  " FROM fencepost_due d LEFT JOIN fencepost_message m ON m.id = d.id"

#define SQL_LINE_LIST                                                                           \
  /* What C holds (given.h). OR FAIL: a failed write rolls everything back anyway, so SQLite     \
  ** need not be able to take back this statement alone. */                                     \
  X(MESSAGE_PUT,                                                                                \
    "INSERT OR FAIL INTO fencepost_message (id, queue, kind, priority, enqueued_at, due,"       \
    " max_attempts, life, key, lane, headers, body)"                                            \
    " SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 FROM fencepost_given(:rows)")     \
  X(MESSAGE_DROP, "DELETE FROM fencepost_message WHERE id = :id")                               \
  X(MESSAGE_DROP_RANGE, "DELETE FROM fencepost_message WHERE id BETWEEN :low AND :high")        \
  X(MESSAGE_FACTS,                                                                              \
    "SELECT queue, kind, priority, enqueued_at, due, max_attempts, life, key, lane"             \
    " FROM fencepost_message WHERE id = :id")                                                   \
  X(MESSAGE_SAME,                                                                               \
    "SELECT 1 AS same FROM fencepost_message"                                                   \
    " WHERE id = :id AND body = :body AND headers IS :headers")                                 \
  /* The keeper of a key: whoever comes second is told by changes() = 0. */                     \
  X(KEY_PUT,                                                                                    \
    "INSERT INTO fencepost_key (queue, kind, life, key, id, digest)"                            \
    " VALUES (:queue, :kind, :life, :key, :id, :digest) ON CONFLICT DO NOTHING")                \
  X(KEY_GET,                                                                                    \
    "SELECT id, digest, until FROM fencepost_key"                                               \
    " WHERE queue = :queue AND kind = :kind AND life = :life AND key = :key")                   \
  X(KEY_SET,                                                                                    \
    "UPDATE fencepost_key SET id = :id, digest = :digest, until = NULL"                         \
    " WHERE queue = :queue AND kind = :kind AND life = :life AND key = :key")                   \
  X(KEY_DROP,                                                                                   \
    "DELETE FROM fencepost_key WHERE queue = :queue AND kind = :kind AND life = :life"          \
    " AND key = :key AND id = :id")                                                             \
  X(DUE_PUT,                                                                                    \
    "INSERT INTO fencepost_due (" SQL_DUE_COLUMNS ") VALUES (:turn, :due_at, :id, :token,"      \
    " :attempts, :stage, :addressed, :generation, :again, :placed_at, :worker)")                \
  X(DUE_PUT_MANY,                                                                               \
    "INSERT OR FAIL INTO fencepost_due (" SQL_DUE_COLUMNS ")"                                   \
    " SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10 FROM fencepost_given(:rows)")          \
  X(DUE_DROP,                                                                                   \
    "DELETE FROM fencepost_due WHERE turn = :turn AND due_at = :due_at AND id = :id"            \
    " AND token = :token AND stage = :stage")                                                   \
  /* The rows just selected. The bound is the last selected row, so that what was read and what \
  ** is taken cannot differ; changes() must say how many they were. */                          \
  X(DUE_DROP_RANGE,                                                                             \
    "DELETE FROM fencepost_due WHERE turn = :turn AND (due_at, id) <= (:due_at, :id)")          \
  /* Claims that came together, by their tokens (settle_run.c). */                              \
  X(DUE_COUNT_RUN,                                                                              \
    "SELECT count(*) AS rows FROM fencepost_due WHERE turn = :turn AND due_at = :due_at"        \
    " AND id BETWEEN :low AND :high AND token BETWEEN :first_token AND :last_token")            \
  X(DUE_DROP_RUN,                                                                               \
    "DELETE FROM fencepost_due WHERE turn = :turn AND due_at = :due_at"                         \
    " AND id BETWEEN :low AND :high AND token BETWEEN :first_token AND :last_token")            \
  X(DUE_AT,                                                                                     \
    "SELECT token, attempts, stage, addressed, generation, again, placed_at, worker"            \
    " FROM fencepost_due WHERE turn = :turn AND due_at = :due_at AND id = :id")                 \
  X(DUE_BY_ID,                                                                                  \
    "SELECT turn, due_at, token, attempts, stage, addressed, generation, again, placed_at,"     \
    " worker FROM fencepost_due WHERE id = :id AND addressed = 1")                              \
  /* The next level of a queue, with its first due moment: a level that is not due costs this   \
  ** one step. */                                                                               \
  /* A turn that is no whole number is passed by: it would be the next of itself. */            \
  X(NEXT_TURN,                                                                                  \
    "SELECT turn, due_at FROM fencepost_due WHERE turn >= :turn + 1 AND turn < :queue_end"      \
    " ORDER BY turn, due_at LIMIT 1")                                                           \
  X(DUE_SELECT,                                                                                 \
    SQL_DUE_ROWS " WHERE d.turn = :turn AND d.due_at <= :now"                                   \
    " ORDER BY d.due_at, d.id LIMIT :limit")                                                    \
  /* Within a grace, when lapsed leases are not taken over, but for those of the dead. */       \
  X(DUE_SELECT_GRACE,                                                                           \
    SQL_DUE_ROWS " WHERE d.turn = :turn AND d.due_at <= :now AND (d.stage = 0 OR d.worker < 0)" \
    " ORDER BY d.due_at, d.id LIMIT :limit")                                                    \
  /* What stands behind a place, and of that what one worker holds (orphans.c). */              \
  X(DUE_HELD,                                                                                   \
    "SELECT due_at, id, worker, token, attempts, stage, addressed, generation, again,"          \
    " placed_at FROM fencepost_due WHERE turn = :turn AND (due_at, id) > (:due_at, :id)"        \
    " AND due_at <= :end ORDER BY due_at, id")                                                  \
  X(DUE_DROP_HELD,                                                                              \
    "DELETE FROM fencepost_due WHERE turn = :turn AND (due_at, id) > (:due_at, :id)"            \
    " AND (due_at, id) <= (:last_due_at, :last_id) AND worker = :worker")                       \
  /* Where all places of a queue are taken: those that a lost holder keeps. */                  \
  X(DUE_SELECT_LAPSED,                                                                          \
    SQL_DUE_ROWS " WHERE d.turn = :turn AND d.due_at >= :from AND d.due_at <= :now"             \
    " AND d.stage > 0 AND d.worker < :below ORDER BY d.due_at, d.id LIMIT :limit")              \
  X(LANE_GET,                                                                                   \
    "SELECT number, out, held, parked_by FROM fencepost_lane"                                   \
    " WHERE queue = :queue AND name = :name")                                                   \
  X(LANE_PUT,                                                                                   \
    "INSERT INTO fencepost_lane (queue, name, number, out, held, parked_by)"                    \
    " VALUES (:queue, :name, :number, :out, 0, 0)")                                             \
  X(LANE_SET,                                                                                   \
    "UPDATE fencepost_lane SET out = :out, held = :held, parked_by = :parked_by"                \
    " WHERE queue = :queue AND name = :name")                                                   \
  X(LANE_DROP, "DELETE FROM fencepost_lane WHERE queue = :queue AND name = :name")              \
  X(LANE_HEAD,                                                                                  \
    "SELECT id, token, attempts, generation FROM fencepost_due"                                 \
    " WHERE turn = :turn ORDER BY due_at, id LIMIT 1")                                          \
  X(LANE_NEXT,                                                                                  \
    "SELECT name, number, out, held, parked_by FROM fencepost_lane"                             \
    " WHERE queue = :queue AND name > :name ORDER BY name LIMIT 1")                             \
  X(TROUBLE_ANY, "SELECT id FROM fencepost_trouble LIMIT 1")                                    \
  X(TROUBLE_GET, "SELECT kind, code, text, since FROM fencepost_trouble WHERE id = :id")        \
  X(TROUBLE_PUT,                                                                                \
    "INSERT INTO fencepost_trouble (id, kind, code, text) VALUES (:id, :kind, :code, :text)"    \
    " ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, code = excluded.code,"               \
    " text = excluded.text")                                                                    \
  X(TROUBLE_SINCE,                                                                              \
    "INSERT INTO fencepost_trouble (id, since) VALUES (:id, :since)")                           \
  X(TROUBLE_DROP, "DELETE FROM fencepost_trouble WHERE id = :id")                               \
  X(PROGRESS_ANY, "SELECT id FROM fencepost_progress LIMIT 1")                                  \
  X(PROGRESS_PUT,                                                                               \
    "INSERT INTO fencepost_progress (id, value, at) VALUES (:id, :value, :at)"                  \
    " ON CONFLICT (id) DO UPDATE SET value = excluded.value, at = excluded.at")                 \
  X(PROGRESS_DROP, "DELETE FROM fencepost_progress WHERE id = :id")                             \
  X(OUTCOME_PUT,                                                                                \
    "INSERT INTO fencepost_outcome (id, queue, kind, state, settled_at, attempts, token,"       \
    " generation, failure_kind, failure_code, failure_text, result)"                            \
    " VALUES (:id, :queue, :kind, :state, :settled_at, :attempts, :token, :generation,"         \
    " :failure_kind, :failure_code, :failure_text, :result)")                                   \
  X(OUTCOME_PUT_MANY,                                                                           \
    "INSERT OR FAIL INTO fencepost_outcome (id, queue, kind, state, settled_at, attempts,"      \
    " token, generation, failure_kind, failure_code, failure_text, result)"                     \
    " SELECT c0, c1, c2, c3, c4, c5, c6, c7, NULL, NULL, NULL, c8 FROM fencepost_given(:rows)") \
  X(OUTCOME_GET,                                                                                \
    "SELECT queue, kind, state, settled_at, attempts, token, generation"                        \
    " FROM fencepost_outcome WHERE id = :id")                                                   \
  X(OUTCOME_DROP, "DELETE FROM fencepost_outcome WHERE id = :id")

#endif
