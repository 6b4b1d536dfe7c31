#include "guest.h"

#include <stdio.h>
#include <string.h>

#include "fault.h"

enum { SHOWN_MAX = 300 }; /* bytes that an error shows of the statement, and of SQLite's words */

struct fp_guest {
  fp_tx *tx;         /* NULL: the transaction is over */
  sqlite3_stmt *stmt;
  int64_t generation; /* of the process that opened it */
  bool goes_back;    /* ROLLBACK TO */
  bool inserts;
  fp_guest *next;
};

/* ---- words ---- */

/* One line, and the beginning of a long one; never half a character. */
static void shorten(char *into, const char *sql, int64_t bytes) {
  int used = 0;
  bool cut = false, blank = false;
  for (int64_t i = 0; i < bytes && !cut; i++) {
    bool space = sql[i] == ' ' || (sql[i] >= '\t' && sql[i] <= '\r');
    if (space) {
      blank = used > 0;
      continue;
    }
    cut = used + 2 > SHOWN_MAX;
    if (blank && !cut) into[used++] = ' ';
    if (!cut) into[used++] = sql[i];
    blank = false;
  }
  while (cut && used > 0 && ((unsigned char)into[used - 1] & 0xC0) == 0x80) used--;
  if (cut && used > 0 && ((unsigned char)into[used - 1] & 0x80) != 0) used--;
  (void)snprintf(into + used, 5, "%s", cut ? " ..." : "");
}

static const char *way_out(const char *words) {
  bool foreign = strstr(words, "no such function") != NULL ||
                 strstr(words, "no such collation") != NULL ||
                 strstr(words, "no such module") != NULL;
  return !foreign ? "" : " (functions, collations and modules made in Python exist only on the "
                         "connection they were made on: compute the value there, and pass it "
                         "here as a parameter)";
}

/* What became of the caller's statement, and whether its transaction is still there. */
static int tell(fp_store *store, int rc, const char *sql, int64_t sql_bytes, fp_error *err) {
  sqlite3 *handle = store->writer.handle;
  char shown[SHOWN_MAX + 8];
  shorten(shown, sql, sql_bytes);
  if (store->denied[0] != 0) return err_set(err, FP_INVALID, "%s; in: %s", store->denied, shown);

  bool its_own = (sqlite3_errcode(handle) & 0xff) == (rc & 0xff);
  const char *said = its_own ? sqlite3_errmsg(handle) : sqlite3_errstr(rc);
  char words[SHOWN_MAX + 8]; /* they may carry half the statement themselves */
  shorten(words, said, (int64_t)strlen(said));
  err->sqlite_code = its_own ? sqlite3_extended_errcode(handle) : rc;
  bool gone = sqlite3_get_autocommit(handle);
  return err_set(err, gone ? FP_STORAGE : FP_CONSTRAINT, "%s%s [sqlite %d]%s; in: %s", words,
                 way_out(words), err->sqlite_code,
                 gone ? "; the transaction was rolled back" : "", shown);
}

/* ---- open and close ---- */

/* SQLite has to be asked: only its parser knows where a statement ends. What it finds is judged,
** too, since some PRAGMAs are in force as soon as they are prepared. */
static bool anything_in(fp_store *store, const char *sql, int64_t bytes) {
  const char *end = sql + bytes;
  bool any = false;
  store->guest = true;
  while (!any && sql < end) {
    sqlite3_stmt *further = NULL;
    int rc = sqlite3_prepare_v3(store->writer.handle, sql, (int)(end - sql), 0, &further, &sql);
    (void)sqlite3_finalize(further);
    any = rc != SQLITE_OK || further != NULL;
  }
  store->guest = false;
  return any;
}

/* Not for a dead transaction: a statement would run outside of any. */
static int check_alive(const fp_tx *tx, fp_error *err) {
  if (!tx->dead && !sqlite3_get_autocommit(tx->store->writer.handle)) return FP_OK;
  return err_set(err, FP_INVALID, "the transaction was rolled back by an earlier failure");
}

static int prepare(fp_guest *guest, const char *sql, int64_t bytes, fp_error *err) {
  fp_store *store = guest->tx->store;
  const char *tail = sql;
  store->denied[0] = 0;
  store->goes_back = store->inserts = false;
  store->guest = true;
  int rc = fault_step("GUEST_PREPARE");
  if (rc == SQLITE_OK) {
    rc = sqlite3_prepare_v3(store->writer.handle, sql, (int)bytes, 0, &guest->stmt, &tail);
  }
  store->guest = false;
  guest->goes_back = store->goes_back;
  guest->inserts = store->inserts;
  if (rc != SQLITE_OK) return tell(store, rc, sql, bytes, err);
  if (guest->stmt == NULL) return err_set(err, FP_INVALID, "there is no statement in the SQL text");
  if (anything_in(store, tail, bytes - (tail - sql))) {
    return err_set(err, FP_INVALID, "the SQL text holds more than one statement");
  }
  return FP_OK;
}

int guest_open(fp_tx *tx, span sql, fp_guest **out, fp_error *err) {
  *out = NULL;
  int code = check_alive(tx, err);
  if (code != FP_OK) return code;
  if (sql.bytes < 0 || sql.bytes > INT32_MAX || memchr(sql.at, 0, (size_t)sql.bytes) != NULL) {
    return err_set(err, FP_INVALID, "the SQL text holds a NUL character, or is too long");
  }
  fp_guest *guest = mem_get((int64_t)sizeof *guest);
  if (guest == NULL) return err_memory(err);
  *guest = (fp_guest){.tx = tx, .generation = sys_generation()};
  code = prepare(guest, sql.at, sql.bytes, err);
  if (code != FP_OK) {
    (void)sqlite3_finalize(guest->stmt);
    mem_free(guest);
    return code;
  }
  guest->next = tx->guests;
  tx->guests = guest;
  *out = guest;
  return FP_OK;
}

void guest_close_all(fp_tx *tx) {
  while (tx->guests != NULL) {
    fp_guest *guest = tx->guests;
    tx->guests = guest->next;
    (void)sqlite3_finalize(guest->stmt);
    guest->stmt = NULL;
    guest->tx = NULL;
  }
}

void guest_close(fp_guest *guest) {
  if (guest->tx != NULL && guest->generation == sys_generation()) {
    fp_guest **at = &guest->tx->guests;
    while (*at != guest) at = &(*at)->next;
    *at = guest->next;
    (void)sqlite3_finalize(guest->stmt);
  }
  mem_free(guest);
}

fp_tx *guest_tx(const fp_guest *guest) { return guest->tx; }

int32_t guest_columns(const fp_guest *guest) { return sqlite3_column_count(guest->stmt); }

int32_t fp_guest_parameter_count(fp_guest *guest) {
  return guest->stmt == NULL ? 0 : sqlite3_bind_parameter_count(guest->stmt);
}

const char *fp_guest_parameter(fp_guest *guest, int32_t index) {
  return guest->stmt == NULL ? NULL : sqlite3_bind_parameter_name(guest->stmt, index);
}

/* ---- values ---- */

/* Packed values that somebody else owns, and how far they were read. */
typedef struct values {
  const char *at, *end;
} values;

typedef struct value {
  char tag;
  int64_t number; /* of 'i'; the length of 't' and 'b' */
  double real;
  const char *bytes;
} value;

/* False: there is none, or it is cut off. */
static bool next_value(values *from, value *v) {
  *v = (value){0};
  if (from->at >= from->end) return false;
  v->tag = *from->at++;
  if (v->tag == 'n') return true;
  if (from->end - from->at < 8) return false;
  memcpy(v->tag == 'f' ? (void *)&v->real : (void *)&v->number, from->at, 8);
  from->at += 8;
  if (v->tag == 'i' || v->tag == 'f') return true;
  if (v->tag != 't' && v->tag != 'b') return false;
  if (v->number < 0 || v->number > from->end - from->at) return false;
  v->bytes = from->at;
  from->at += v->number;
  return true;
}

static int64_t count_values(values from, bool *whole) {
  value v;
  int64_t count = 0;
  while (next_value(&from, &v)) count++;
  *whole = v.tag == 0 && from.at == from.end;
  return count;
}

/* The bytes stay the caller's: they outlive the step, and the bindings are cleared after it. */
static int bind(sqlite3_stmt *s, int index, const value *v) {
  switch (v->tag) {
    case 'i': return sqlite3_bind_int64(s, index, v->number);
    case 'f': return sqlite3_bind_double(s, index, v->real);
    case 't':
      return sqlite3_bind_text64(s, index, v->bytes, (sqlite3_uint64)v->number, SQLITE_STATIC,
                                 SQLITE_UTF8);
    case 'b':
      if (v->number == 0) return sqlite3_bind_zeroblob(s, index, 0);
      return sqlite3_bind_blob64(s, index, v->bytes, (sqlite3_uint64)v->number, SQLITE_STATIC);
    default: return sqlite3_bind_null(s, index);
  }
}

static void pack_tagged(pack *p, char tag, const void *bytes, int64_t length) {
  pack_bytes(p, &tag, 1);
  if (tag == 't' || tag == 'b') pack_bytes(p, &length, (int64_t)sizeof length);
  pack_bytes(p, bytes, length);
}

static void pack_column(pack *p, sqlite3_stmt *s, int at) {
  int type = sqlite3_column_type(s, at);
  if (type == SQLITE_INTEGER) {
    int64_t number = sqlite3_column_int64(s, at);
    pack_tagged(p, 'i', &number, (int64_t)sizeof number);
  } else if (type == SQLITE_FLOAT) {
    double real = sqlite3_column_double(s, at);
    pack_tagged(p, 'f', &real, (int64_t)sizeof real);
  } else if (type == SQLITE_NULL) {
    pack_tagged(p, 'n', NULL, 0);
  } else {
    /* The length must be asked for after the bytes: they may have been converted. */
    const void *bytes = type == SQLITE_TEXT ? (const void *)sqlite3_column_text(s, at)
                                            : sqlite3_column_blob(s, at);
    int length = sqlite3_column_bytes(s, at);
    if (bytes == NULL && (length > 0 || type == SQLITE_TEXT)) p->failed = true;
    if (!p->failed) pack_tagged(p, type == SQLITE_TEXT ? 't' : 'b', bytes, length);
  }
}

/* ---- run ---- */

/* With one set of parameters, to its end. */
static int run_once(fp_guest *guest, values *from, int columns, pack *p, int64_t *changed) {
  sqlite3 *handle = guest->tx->store->writer.handle;
  int rc = SQLITE_OK, count = sqlite3_bind_parameter_count(guest->stmt);
  for (int i = 1; rc == SQLITE_OK && i <= count; i++) {
    value v;
    (void)next_value(from, &v);
    rc = bind(guest->stmt, i, &v);
  }
  int64_t before = sqlite3_total_changes64(handle);
  if (rc == SQLITE_OK) rc = SQLITE_ROW;
  while (rc == SQLITE_ROW) {
    rc = fault_step("GUEST");
    if (rc == SQLITE_OK) rc = sqlite3_step(guest->stmt);
    if (rc != SQLITE_ROW) break;
    for (int i = 0; i < columns; i++) pack_column(p, guest->stmt, i);
    pack_row(p);
  }
  if (rc == SQLITE_DONE && sqlite3_total_changes64(handle) != before) {
    *changed += sqlite3_changes64(handle);
  }
  return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int run_all(fp_guest *guest, int32_t sets, values from, pack *p, int64_t *changed,
                   fp_error *err) {
  fp_tx *tx = guest->tx;
  fp_store *store = tx->store;
  const char *sql = sqlite3_sql(guest->stmt);
  int code = FP_OK, columns = sqlite3_column_count(guest->stmt);
  store->denied[0] = 0;
  store->guest = true;
  (void)sqlite3_set_last_insert_rowid(store->writer.handle, tx->rowid);
  for (int32_t i = 0; code == FP_OK && i < sets; i++) {
    int rc = run_once(guest, &from, columns, p, changed);
    if (rc != SQLITE_OK) code = tell(store, rc, sql, (int64_t)strlen(sql), err);
    (void)sqlite3_reset(guest->stmt); /* it only says again what step has said */
  }
  store->guest = false;
  (void)sqlite3_clear_bindings(guest->stmt);
  tx->rowid = sqlite3_last_insert_rowid(store->writer.handle);
  if (code != FP_OK) return code;
  /* Past this point the statement has done its work, and a failure cannot undo it alone. */
  if (guest->goes_back) code = txn_went_back(&tx->txn, err);
  if (code == FP_OK && p->failed) code = err_memory(err);
  if (code != FP_OK && !(p->failed && sqlite3_stmt_readonly(guest->stmt))) {
    txn_rollback(&tx->txn);
    tx->dead = true;
  }
  return code;
}

static int check_params(fp_guest *guest, int32_t sets, values from, fp_error *err) {
  bool whole;
  int64_t given = count_values(from, &whole), count = sqlite3_bind_parameter_count(guest->stmt);
  if (!whole) return err_set(err, FP_INVALID, "the parameters are not packed as they must be");
  if (given == count * sets) return FP_OK;
  return err_set(err, FP_INVALID, "the statement has %lld parameters; %lld values were given%s",
                 (long long)count, (long long)given, sets == 1 ? "" : " for all sets together");
}

int guest_run(fp_guest *guest, int32_t sets, span params, pack *p, int64_t *changed,
              int64_t *last_rowid, fp_error *err) {
  fp_tx *tx = guest->tx;
  values from = {params.at, params.at};
  if (params.bytes > 0) from.end += params.bytes;
  *changed = *last_rowid = 0;
  int code = check_alive(tx, err);
  if (code == FP_OK) code = check_params(guest, sets, from, err);
  if (code == FP_OK) code = run_all(guest, sets, from, p, changed, err);
  if (code == FP_OK && guest->inserts && *changed > 0) *last_rowid = tx->rowid;
  return code;
}
