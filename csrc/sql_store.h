/* Statements of the file itself: transactions, the head, counts, policies, kinds. */
#ifndef FENCEPOST_SQL_STORE_H
#define FENCEPOST_SQL_STORE_H

#define SQL_STORE_LIST                                                                          \
  X(BEGIN, "BEGIN IMMEDIATE")                                                                   \
  X(LOOK, "BEGIN")                                                                              \
  X(COMMIT, "COMMIT")                                                                           \
  X(VERSION, "SELECT version FROM fencepost_meta WHERE one = 1")                                \
  X(HEAD,                                                                                       \
    "SELECT t.last AS last, t.time AS time, m.version AS version, m.boot_id AS boot_id,"        \
    " m.clock_offset AS clock_offset, m.asleep AS asleep, m.grace_until AS grace_until,"        \
    " m.longest_lease AS longest_lease"                                                         \
    " FROM fencepost_tally t CROSS JOIN fencepost_meta m WHERE t.queue = 0 AND m.one = 1")      \
  X(META_UUID, "SELECT store_uuid FROM fencepost_meta WHERE one = 1")                          \
  X(META_PUT,                                                                                   \
    "INSERT INTO fencepost_meta (one, version, store_uuid, boot_id, clock_offset, asleep,"      \
    " grace_until, longest_lease, created_at) VALUES (1, :version, :store_uuid, :boot_id,"      \
    " :clock_offset, :asleep, 0, 0, :created_at)")                                              \
  X(META_KEEP,                                                                                  \
    "UPDATE fencepost_meta SET boot_id = :boot_id, clock_offset = :clock_offset,"               \
    " asleep = :asleep, grace_until = :grace_until, longest_lease = :longest_lease"             \
    " WHERE one = 1")                                                                           \
  X(HEAD_KEEP, "UPDATE fencepost_tally SET last = :last, time = :time WHERE queue = 0")         \
  X(TALLY_PUT, "INSERT INTO fencepost_tally (queue) VALUES (:queue)")                           \
  X(TALLY_ADD,                                                                                  \
    "UPDATE fencepost_tally SET pending = pending + :pending, waiting = waiting + :waiting,"    \
    " leased = leased + :leased, done = done + :done, dead = dead + :dead,"                     \
    " unknown = unknown + :unknown, cancelled = cancelled + :cancelled WHERE queue = :queue")   \
  X(TALLY_SIZE,                                                                                 \
    "SELECT pending + waiting + leased AS size FROM fencepost_tally WHERE queue = :queue")      \
  X(TALLY_LEASED, "SELECT leased FROM fencepost_tally WHERE queue = :queue")                    \
  X(RATE_GET, "SELECT rate_level, rate_at FROM fencepost_queue WHERE id = :id")                 \
  X(RATE_KEEP,                                                                                  \
    "UPDATE fencepost_queue SET rate_level = :rate_level, rate_at = :rate_at WHERE id = :id")   \
  X(POLICY,                                                                                     \
    "SELECT keep, key_window, addressed, listed, max_attempts, max_age, lease, base, factor,"   \
    " cap, jitter, lane_width, on_dead, on_unknown, max_size, concurrency, rate, held_until,"   \
    " paused, profile FROM fencepost_queue WHERE id = :id")                                     \
  X(QUEUE_ID, "SELECT id FROM fencepost_queue WHERE name = :name")                              \
  X(QUEUE_LAST, "SELECT id FROM fencepost_queue ORDER BY id DESC LIMIT 1")                      \
  X(QUEUE_PUT,                                                                                  \
    "INSERT INTO fencepost_queue (id, name, keep, key_window, addressed, listed,"               \
    " max_attempts, max_age, lease, base, factor, cap, jitter, lane_width, on_dead, on_unknown,"\
    " max_size, concurrency, rate, held_until, paused, profile)"                                \
    " VALUES (:id, :name, :keep, :key_window, :addressed, :listed, :max_attempts, :max_age,"    \
    " :lease, :base, :factor, :cap, :jitter, :lane_width, :on_dead, :on_unknown, :max_size,"    \
    " :concurrency, :rate, :held_until, :paused, :profile)")                                    \
  X(QUEUE_SET,                                                                                  \
    "UPDATE fencepost_queue SET keep = :keep, key_window = :key_window,"                        \
    " addressed = :addressed, listed = :listed, max_attempts = :max_attempts,"                  \
    " max_age = :max_age, lease = :lease, base = :base, factor = :factor, cap = :cap,"          \
    " jitter = :jitter, lane_width = :lane_width, on_dead = :on_dead,"                          \
    " on_unknown = :on_unknown, max_size = :max_size, concurrency = :concurrency,"              \
    " rate = :rate, held_until = :held_until, paused = :paused, profile = :profile"             \
    " WHERE id = :id")                                                                          \
  X(WORKER_PUT,                                                                                 \
    "INSERT INTO fencepost_worker (id, pid, started, boot_id, name, seen_at)"                   \
    " VALUES (:id, :pid, :started, :boot_id, :name, :seen_at)")                                 \
  X(WORKER_GET, "SELECT id FROM fencepost_worker WHERE id = :id")                               \
  X(WORKER_DROP, "DELETE FROM fencepost_worker WHERE id = :id")                                 \
  X(WORKERS, "SELECT id FROM fencepost_worker WHERE id > :id ORDER BY id")                      \
  X(WORKERS_TOLD,                                                                               \
    "SELECT id, pid, started, name FROM fencepost_worker WHERE id > :id ORDER BY id")           \
  /* In a file just brought back (copy.h), whose line is gone through once. */                   \
  X(RESTORED_LEASES, "UPDATE fencepost_due SET token = :token WHERE stage > 0")                 \
  X(SCHEDULE_GET, "SELECT last_fired, running FROM fencepost_schedule WHERE name = :name")      \
  X(SCHEDULES_TOLD,                                                                             \
    "SELECT missed, last_fired, running, s.name AS name, k.name AS kind, expression, zone"      \
    " FROM fencepost_schedule s LEFT JOIN fencepost_kind k ON k.id = s.kind"                    \
    " WHERE s.name > :name ORDER BY s.name")                                                    \
  X(SCHEDULE_KEEP,                                                                              \
    "INSERT INTO fencepost_schedule (name, kind, expression, zone, missed, last_fired, running)"\
    " VALUES (:name, :kind, :expression, :zone, :missed, :last_fired, :running)"                \
    " ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, missed = excluded.missed,"         \
    " last_fired = excluded.last_fired, running = excluded.running")                            \
  X(KIND_ID, "SELECT id FROM fencepost_kind WHERE name = :name")                                \
  X(KIND_PUT, "INSERT INTO fencepost_kind (name) VALUES (:name)")

#endif
