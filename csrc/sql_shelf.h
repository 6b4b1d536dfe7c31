/* Statements of the shelf: records by ranges of their keys. */
#ifndef FENCEPOST_SQL_SHELF_H
#define FENCEPOST_SQL_SHELF_H

#define SQL_SHELF_RANGE                                                                         \
  "SELECT seq, written_at, key, value FROM fencepost_record"                                    \
  " WHERE workflow = :workflow AND key >= :from AND key < :upto ORDER BY key"

#define SQL_SHELF_NEW                                                                           \
  "INSERT INTO fencepost_record (workflow, seq, key, kind, value, started_at, written_at)"      \
  " VALUES (:workflow, :seq, :key, :kind, :value, NULL, :written_at)"                           \
  " ON CONFLICT (workflow, key) DO "

#define SQL_SHELF_LIST                                                                          \
  X(SHELF_PUT, SQL_SHELF_NEW "NOTHING")                                                         \
  X(SHELF_REPLACE,                                                                              \
    SQL_SHELF_NEW "UPDATE SET value = excluded.value, written_at = excluded.written_at")        \
  X(SHELF_FORWARDS, SQL_SHELF_RANGE)                                                            \
  X(SHELF_BACKWARDS, SQL_SHELF_RANGE " DESC")                                                   \
  X(SHELF_ERASE,                                                                                \
    "DELETE FROM fencepost_record WHERE workflow = :workflow AND key >= :from AND key < :upto") \
  X(SHELF_NEXT,                                                                                 \
    "SELECT workflow FROM fencepost_record WHERE workflow > :after AND workflow < :upto"        \
    " ORDER BY workflow LIMIT 1")

#endif
