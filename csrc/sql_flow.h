/* Statements of workflows: records, passes, runs. */
#ifndef FENCEPOST_SQL_FLOW_H
#define FENCEPOST_SQL_FLOW_H

#define SQL_RUN_SHOWN                                                                           \
  "SELECT rowid, id, kind, message, state, waiting_for, failure_kind, failure_text, created_at," \
  " ended_at FROM fencepost_run WHERE state = :state"

#define SQL_FLOW_LIST                                                                           \
  /* Whoever comes second is told by changes() = 0. */                                          \
  X(RECORD_PUT,                                                                                 \
    "INSERT INTO fencepost_record (workflow, seq, key, kind, value, started_at, written_at)"    \
    " VALUES (:workflow, :seq, :key, :kind, :value, NULLIF(:started_at, -1), :written_at)"      \
    " ON CONFLICT (workflow, key) DO NOTHING")                                                  \
  X(RECORD_GET,                                                                                 \
    "SELECT seq, kind, value FROM fencepost_record WHERE workflow = :workflow AND key = :key")  \
  X(RECORD_PAGE,                                                                                \
    "SELECT seq, key, kind, value, started_at, written_at FROM fencepost_record"                \
    " WHERE workflow = :workflow AND seq > :seq ORDER BY seq")                                  \
  X(RECORD_LINKS,                                                                               \
    "SELECT kind, value FROM fencepost_record"                                                  \
    " WHERE workflow = :workflow AND key >= 'child:' AND key < 'child;'")                       \
  X(RECORD_DROP,                                                                                \
    "DELETE FROM fencepost_record WHERE workflow = :workflow AND seq <= :seq")                  \
  X(RECORD_DROP_LINKS,                                                                          \
    "DELETE FROM fencepost_record WHERE workflow = :workflow"                                   \
    " AND key >= 'child:' AND key <= 'parent:' AND kind >= 50 AND kind < 60")                   \
  /* The numbers stay, so that the order does; links are of the other run's own children. */    \
  X(RECORD_COPY,                                                                                \
    "INSERT INTO fencepost_record (workflow, seq, key, kind, value, started_at, written_at)"    \
    " SELECT :copy, seq, key, kind, value, started_at, written_at FROM fencepost_record"        \
    " WHERE workflow = :workflow AND seq < :seq AND kind < 50")                                 \
  X(PASS_GET,                                                                                   \
    "SELECT token, held_until, alive_until, alive_for FROM fencepost_claim"                     \
    " WHERE workflow = :workflow")                                                              \
  X(PASS_PUT,                                                                                   \
    "INSERT INTO fencepost_claim (workflow, token, held_until, alive_until, alive_for)"         \
    " VALUES (:workflow, :token, :held_until, :alive_until, :alive_for)"                        \
    " ON CONFLICT (workflow) DO UPDATE SET token = excluded.token,"                             \
    " held_until = excluded.held_until, alive_until = excluded.alive_until,"                    \
    " alive_for = excluded.alive_for")                                                          \
  X(PASS_DROP, "DELETE FROM fencepost_claim WHERE workflow = :workflow")                        \
  X(RUN_PUT,                                                                                    \
    "INSERT INTO fencepost_run (id, kind, message, state, args, created_at)"                    \
    " VALUES (:id, :kind, :message, 0, :args, :created_at)")                                    \
  X(RUN_GET, "SELECT kind, message, state FROM fencepost_run WHERE id = :id")                   \
  X(RUN_SAME,                                                                                   \
    "SELECT 1 AS same FROM fencepost_run WHERE id = :id AND kind = :kind AND args IS :args")    \
  X(RUN_SHOW,                                                                                   \
    "SELECT id, kind, message, state, waiting_for, args, result, failure_kind, failure_text,"   \
    " created_at, ended_at FROM fencepost_run WHERE id = :id")                                  \
  X(RUN_GOES_ON,                                                                                \
    "UPDATE fencepost_run SET state = :state, waiting_for = :waiting_for, ended_at = NULL"      \
    " WHERE id = :id")                                                                          \
  X(RUN_FAILING,                                                                                \
    "UPDATE fencepost_run SET state = 0, failure_kind = :failure_kind,"                         \
    " failure_text = :failure_text WHERE id = :id")                                             \
  X(RUN_END,                                                                                    \
    "UPDATE fencepost_run SET state = :state, waiting_for = NULL, result = :result,"            \
    " failure_kind = :failure_kind, failure_text = :failure_text, ended_at = :ended_at"         \
    " WHERE id = :id")                                                                          \
  X(RUN_PARKED, "UPDATE fencepost_run SET state = 4 WHERE id = :id AND state = 3")              \
  X(RUN_PART, "UPDATE fencepost_run SET message = 0, state = :state WHERE id = :id")            \
  X(RUN_DROP, "DELETE FROM fencepost_run WHERE id = :id")                                       \
  X(RUN_ARGS, "SELECT args FROM fencepost_run WHERE id = :id")                                  \
  X(RUNS_LIVE, SQL_RUN_SHOWN " AND ended_at IS NULL AND rowid < :rowid ORDER BY rowid DESC")    \
  X(RUNS_TIES, SQL_RUN_SHOWN " AND ended_at = :ended_at AND rowid < :rowid ORDER BY rowid DESC") \
  X(RUNS_BEFORE,                                                                                \
    SQL_RUN_SHOWN " AND ended_at < :ended_at ORDER BY ended_at DESC, rowid DESC")               \
  X(RUNS_OLD,                                                                                   \
    "SELECT id FROM fencepost_run WHERE state = :state AND ended_at < :before"                  \
    " ORDER BY ended_at LIMIT :limit")                                                          \
  X(CHECK_RUN,                                                                                  \
    "SELECT r.id AS id, r.message AS message, r.state AS state, r.ended_at AS ended_at,"        \
    " m.key AS key, o.state AS outcome FROM fencepost_run r"                                    \
    " LEFT JOIN fencepost_message m ON m.id = r.message AND m.kind = r.kind"                    \
    " LEFT JOIN fencepost_outcome o ON o.id = r.message WHERE r.rowid > :rowid")                \
  X(CHECK_PASS, "SELECT max(token) AS token FROM fencepost_claim WHERE workflow >= :workflow")  \
  X(CHECK_RECORD,                                                                               \
    "SELECT max(seq) AS seq FROM fencepost_record WHERE workflow >= :workflow")                 \
  /* As RESTORED_LEASES (sql_store.h). */                                                       \
  X(RESTORED_PASSES, "UPDATE fencepost_claim SET token = :token, held_until = 0, alive_until = 0")

#endif
