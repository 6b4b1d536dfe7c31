/* What SQLite itself costs, with nothing around it: raw BODIES
**
** The statements of bench/_hand.py, prepared once, on bodies that are lines of the file BODIES; a
** bare table, for the price of a commit; and pages written to a file with no SQLite at all, for
** the price of the disk. Orders come line by line, and each gets one line of JSON back; they are
** those of bench/peers/child.py.
*/
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sqlite3.h"

#define LEASE_US INT64_C(30000000)
#define PAGE 4120 /* a page of 4096 bytes and its header, as in a WAL */

enum { PUT, LOOK, LEASE, ACK, COUNT, BARE, BEGIN, COMMIT, STATEMENTS };

static const char *const SQL[STATEMENTS] = {
  "INSERT INTO job (queue, due, body) VALUES ('q', ?1, ?2)",
  "SELECT id, attempts, body, due FROM job WHERE queue = 'q' AND due <= ?1 ORDER BY due, id"
  " LIMIT 1",
  "UPDATE job SET due = ?1, attempts = attempts + 1, token = ?2"
  " WHERE queue = 'q' AND (due, id) <= (?3, ?4)",
  "DELETE FROM job WHERE id = ?1 AND token = ?2",
  "SELECT count(*) FROM job",
  "INSERT INTO bare (body) VALUES (?1)",
  "BEGIN IMMEDIATE",
  "COMMIT",
};

typedef struct raw {
  char **lines; /* the bodies */
  int64_t lines_in_all, next_in, next_out;
  sqlite3 *db;
  sqlite3_stmt *made[STATEMENTS];
  char folder[1024];
} raw;

static void expect(bool holds, const char *what) {
  if (holds) return;
  printf("{\"error\": \"%s\"}\n", what);
  (void)fflush(stdout);
  exit(1);
}

static int64_t clock_ns(clockid_t which) {
  struct timespec now;
  (void)clock_gettime(which, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void read_bodies(raw *r, const char *path) {
  FILE *file = fopen(path, "rb");
  expect(file != NULL, "the bodies are there");
  char line[4096];
  while (fgets(line, sizeof line, file) != NULL) {
    if (r->lines_in_all % 1024 == 0) {
      r->lines = realloc(r->lines, (size_t)(r->lines_in_all + 1024) * sizeof *r->lines);
      expect(r->lines != NULL, "there is memory");
    }
    line[strcspn(line, "\n")] = 0;
    r->lines[r->lines_in_all++] = strdup(line);
  }
  (void)fclose(file);
}

/* ---- the database ---- */

static void execute(raw *r, const char *sql) {
  expect(sqlite3_exec(r->db, sql, NULL, NULL, NULL) == SQLITE_OK, sql);
}

static void open_db(raw *r, const char *sync) {
  char text[2048];
  (void)mkdir(r->folder, 0777);
  (void)snprintf(text, sizeof text, "%s/raw.db", r->folder);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  expect(sqlite3_open_v2(text, &r->db, flags, NULL) == SQLITE_OK, "the database opens");
  execute(r, "PRAGMA journal_mode = WAL");
  (void)snprintf(text, sizeof text, "PRAGMA synchronous = %s", sync);
  execute(r, text);
  execute(r,
    "CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, due INTEGER NOT"
    " NULL, attempts INTEGER NOT NULL DEFAULT 0, token INTEGER NOT NULL DEFAULT 0, body NOT NULL);"
    "CREATE INDEX IF NOT EXISTS job_due ON job (queue, due);"
    "CREATE TABLE IF NOT EXISTS bare (body NOT NULL)");
  for (int i = 0; i < STATEMENTS; i++) {
    int code = sqlite3_prepare_v3(r->db, SQL[i], -1, SQLITE_PREPARE_PERSISTENT, &r->made[i], NULL);
    expect(code == SQLITE_OK, SQL[i]);
  }
}

static void close_db(raw *r) {
  for (int i = 0; i < STATEMENTS; i++) (void)sqlite3_finalize(r->made[i]);
  expect(sqlite3_close(r->db) == SQLITE_OK, "the database closes");
}

/* One run of a statement; whether there was a row, which is then still there to be read. */
static bool run(raw *r, int which) {
  int code = sqlite3_step(r->made[which]);
  expect(code == SQLITE_ROW || code == SQLITE_DONE, SQL[which]);
  if (code == SQLITE_DONE) (void)sqlite3_reset(r->made[which]);
  return code == SQLITE_ROW;
}

static void bind_next(raw *r, int which, int at) {
  expect(r->next_in < r->lines_in_all, "there is a body left");
  const char *body = r->lines[r->next_in++];
  (void)sqlite3_bind_text(r->made[which], at, body, -1, SQLITE_STATIC);
}

static int64_t put(raw *r, int64_t n, int64_t batch) {
  int64_t due = clock_ns(CLOCK_REALTIME) / 1000;
  for (int64_t i = 0; i < n; i++) {
    if (batch > 1 && i % batch == 0) (void)run(r, BEGIN);
    (void)sqlite3_bind_int64(r->made[PUT], 1, due);
    bind_next(r, PUT, 2);
    (void)run(r, PUT);
    if (batch > 1 && ((i + 1) % batch == 0 || i + 1 == n)) (void)run(r, COMMIT);
  }
  return n;
}

static int64_t bare(raw *r, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    bind_next(r, BARE, 1);
    (void)run(r, BARE);
  }
  r->next_in -= n; /* they are in no queue */
  return n;
}

/* Claim one and ack it, two commits; it is the one that is next in line. */
static int64_t take(raw *r, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    int64_t now = clock_ns(CLOCK_REALTIME) / 1000, token = now + i;
    (void)run(r, BEGIN);
    (void)sqlite3_bind_int64(r->made[LOOK], 1, now);
    if (!run(r, LOOK)) {
      (void)run(r, COMMIT);
      return i;
    }
    int64_t id = sqlite3_column_int64(r->made[LOOK], 0);
    const char *body = (const char *)sqlite3_column_text(r->made[LOOK], 2);
    expect(strcmp(body, r->lines[r->next_out++]) == 0, "each comes once, and in its order");
    int64_t due = sqlite3_column_int64(r->made[LOOK], 3);
    (void)sqlite3_reset(r->made[LOOK]);
    (void)sqlite3_bind_int64(r->made[LEASE], 1, now + LEASE_US);
    (void)sqlite3_bind_int64(r->made[LEASE], 2, token);
    (void)sqlite3_bind_int64(r->made[LEASE], 3, due);
    (void)sqlite3_bind_int64(r->made[LEASE], 4, id);
    (void)run(r, LEASE);
    (void)run(r, COMMIT);
    (void)sqlite3_bind_int64(r->made[ACK], 1, id);
    (void)sqlite3_bind_int64(r->made[ACK], 2, token);
    (void)run(r, ACK);
    expect(sqlite3_changes(r->db) == 1, "the claim was still ours");
  }
  return n;
}

static int64_t count(raw *r) {
  (void)run(r, COUNT);
  int64_t rows = sqlite3_column_int64(r->made[COUNT], 0);
  (void)sqlite3_reset(r->made[COUNT]);
  return rows;
}

/* `bytes` in pages, one after the other, and one wait for the disk, `n` times over. */
static int64_t pages(raw *r, int64_t n, int64_t bytes, const char *sync) {
  static char page[PAGE];
  char path[2048];
  (void)snprintf(path, sizeof path, "%s/pages", r->folder);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  expect(fd >= 0, "the file of pages opens");
  for (int64_t i = 0; i < n; i++) {
    for (int64_t at = 0; at < bytes; at += PAGE) {
      memset(page, (int)(i + at), sizeof page);
      off_t to = (off_t)((i * bytes + at) / PAGE * PAGE);
      expect(pwrite(fd, page, PAGE, to) == PAGE, "a page is written");
    }
    if (strcmp(sync, "full") == 0) expect(fdatasync(fd) == 0, "the disk has it");
  }
  (void)close(fd);
  return n;
}

int main(int argc, char **texts) {
  static raw r;
  expect(argc == 2, "raw BODIES");
  read_bodies(&r, texts[1]);
  printf("{\"title\": \"SQLite in C, the hand-written one's statements\", \"version\": \"%s\","
         " \"default\": \"-\", \"acks\": \"-\", \"syncs\": [\"full\", \"normal\"],"
         " \"offers\": [\"put\", \"many\", \"take\", \"bare\", \"pages\"]}\n",
         sqlite3_libversion());
  (void)fflush(stdout);
  char line[2048], what[16], sync[16] = "full";
  while (fgets(line, sizeof line, stdin) != NULL) {
    long long n = 0, more = 0;
    int64_t done = 0, wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    expect(sscanf(line, "%15s %lld %lld", what, &n, &more) >= 1, "an order");
    if (strcmp(what, "open") == 0) {
      expect(sscanf(line, "open %15s %lld %1023s", sync, &n, r.folder) == 3, "open SYNC N PATH");
      r.next_in = n;
      r.next_out = 0;
      open_db(&r, sync);
    } else if (strcmp(what, "close") == 0) {
      close_db(&r);
    } else if (strcmp(what, "put") == 0 || strcmp(what, "many") == 0) {
      done = put(&r, n, more > 0 ? more : 1);
    } else if (strcmp(what, "take") == 0) {
      done = take(&r, n);
    } else if (strcmp(what, "count") == 0) {
      done = count(&r);
      expect(done == r.next_in - r.next_out, "what was put in and not taken is there");
    } else if (strcmp(what, "bare") == 0) {
      done = bare(&r, n);
    } else {
      expect(strcmp(what, "pages") == 0, "an order that is known");
      done = pages(&r, n, more, sync);
    }
    wall = clock_ns(CLOCK_MONOTONIC) - wall;
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"wall\": %lld, \"cpu\": %lld, \"done\": %lld}\n", (long long)wall, (long long)cpu,
           (long long)done);
    (void)fflush(stdout);
  }
  return 0;
}
