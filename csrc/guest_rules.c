/* What a guest may do: the authorizer, and the words for what it may not. */
#include <stdio.h>
#include <string.h>

#include "guest.h"

/* Their names tell that they are ours: tables, indexes, and what is not there yet. */
static bool ours(const char *name) {
  return name != NULL && sqlite3_strnicmp(name, "fencepost_", 10) == 0;
}

static bool door(const char *name) {
  return sqlite3_stricmp(name, "fencepost_enqueue") == 0 ||
         sqlite3_stricmp(name, "fencepost_settle") == 0;
}

/* SQLite's own tables, which every CREATE writes. */
static bool hidden(const char *name) { return sqlite3_strnicmp(name, "sqlite_", 7) == 0; }

static int deny(fp_store *store, const char *format, const char *name) {
  (void)snprintf(store->denied, sizeof store->denied, format, name);
  return SQLITE_DENY;
}

static bool listed(const char *const *list, int count, const char *name) {
  for (int i = 0; i < count; i++) {
    if (sqlite3_stricmp(list[i], name) == 0) return true;
  }
  return false;
}

/* Reading what a schema is like, and the two numbers of the header that are the application's. The
** last two are asked for by full-text and r-tree tables, whose own SQL is judged, too. */
static bool pragma_allowed(const char *name, const char *value) {
  static const char *const any[] = {"table_info", "table_xinfo", "table_list", "index_list",
                                    "index_info", "index_xinfo", "foreign_key_list",
                                    "foreign_key_check", "user_version", "application_id"};
  static const char *const reading[] = {"foreign_keys", "encoding", "database_list",
                                        "collation_list", "function_list", "data_version",
                                        "page_size"};
  return listed(any, COUNT_OF(any), name) ||
         (value == NULL && listed(reading, COUNT_OF(reading), name));
}

static int judge(void *store_argument, int action, const char *first, const char *second,
                 const char *database, const char *through) {
  fp_store *store = store_argument;
  (void)database;
  if (!store->guest) return SQLITE_OK;
  if (action == SQLITE_SAVEPOINT && strcmp(first, "ROLLBACK") == 0) store->goes_back = true;
  if (action == SQLITE_INSERT && through == NULL && !hidden(first)) store->inserts = true;
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
    case SQLITE_SAVEPOINT: return SQLITE_OK;
    case SQLITE_FUNCTION:
      if (sqlite3_stricmp(second, "load_extension") != 0) return SQLITE_OK;
      return deny(store, "the function %s is not allowed here", second);
    case SQLITE_TRANSACTION:
      return deny(store, "%s is not allowed here: the transaction is begun and ended outside of "
                         "SQL, and SAVEPOINT is allowed", first);
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
      return deny(store, "%s is not allowed here", action == SQLITE_ATTACH ? "ATTACH" : "DETACH");
    case SQLITE_PRAGMA:
      if (pragma_allowed(first, second)) return SQLITE_OK;
      return deny(store, "PRAGMA %s is not allowed here", first);
    case SQLITE_ALTER_TABLE: /* renamed, a temporary one could take the place of one of ours */
      if (sqlite3_stricmp(first, "temp") != 0) break;
      return deny(store, "ALTER TABLE of the temporary table %s is not allowed here", second);
    default: break;
  }
  /* All that is left writes: rows or the schema, by itself or through a trigger. */
  if (!ours(first) && !ours(second)) return SQLITE_OK;
  const char *name = ours(first) ? first : second;
  if (door(name)) { /* what it writes to the file would not be what this transaction remembers */
    return deny(store, "%s is for connections of other libraries: here, the call takes tx=", name);
  }
  return deny(store, "%s belongs to Fencepost: reading it is allowed here, changing it is not",
              name);
}

int guest_install(fp_store *store, fp_error *err) {
  int rc = sqlite3_set_authorizer(store->writer.handle, judge, store);
  return rc == SQLITE_OK ? FP_OK : err_from_db(err, store->writer.handle, rc, "authorizer");
}
