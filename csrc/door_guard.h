/* What the door's triggers ask of what they are given. */
#ifndef FENCEPOST_DOOR_GUARD_H
#define FENCEPOST_DOOR_GUARD_H

/* Milliseconds are all that SQLite's clock gives. It stands still for the whole INSERT. */
#define DOOR_WALL "(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)"

#define DOOR_NOW "(SELECT max(time, " DOOR_WALL ") FROM fencepost_tally WHERE queue = 0)"

/* Bytes of a text are at most this many in UTF-8. In a UTF-16 file the bytes that SQLite counts are
** two for each unit, which is three at the most in UTF-8. */
#define DOOR_LONGER(text, bytes)                                                                \
  "length(CAST(" text " AS BLOB)) * (length(CAST('a' AS BLOB)) + 1) > 2 * " bytes
#define DOOR_NO_NAME(text, bytes)                                                               \
  text " IS NOT NULL AND (typeof(" text ") <> 'text' OR " text " = ''"                          \
  " OR instr(" text ", char(0)) > 0 OR " DOOR_LONGER(text, bytes) ")"
#define DOOR_NO_BYTES(value, bytes)                                                             \
  value " IS NOT NULL AND (typeof(" value ") NOT IN ('text', 'blob')"                           \
  " OR length(CAST(" value " AS BLOB)) > " bytes ")"
#define DOOR_NO_NUMBER(value, low, high)                                                        \
  value " IS NOT NULL AND (typeof(" value ") <> 'integer'"                                      \
  " OR " value " NOT BETWEEN " low " AND " high ")"
#define DOOR_NO_SECONDS(value, high)                                                            \
  value " IS NOT NULL AND (typeof(" value ") NOT IN ('integer', 'real')"                        \
  " OR " value " NOT BETWEEN 0 AND " high ")"
#define DOOR_NO_WORDS(text, bytes)                                                              \
  text " IS NOT NULL AND (typeof(" text ") <> 'text' OR " DOOR_LONGER(text, bytes) ")"
#define DOOR_NOT_UTF8(value) "typeof(" value ") = 'text' AND length(CAST('a' AS BLOB)) <> 1"

#define DOOR_REFUSE(words, when) " SELECT RAISE(ABORT, 'fencepost: " words "') WHERE " when ";"

/* What db.c's is_damaged says of the head, and a number that was given out already. */
#define DOOR_HEAD_DAMAGED                                                                       \
  "NOT EXISTS (SELECT 1 FROM fencepost_tally WHERE queue = 0"                                   \
  " AND last BETWEEN 0 AND 4611685468671574015 AND time BETWEEN 0 AND 9007199254740991)"

#endif
