/* The face that the hostile build has beside the public one: faults, counts, and what only a test
** may ask. cffi reads the part between the two marks. */
#ifndef FENCEPOST_TEST_H
#define FENCEPOST_TEST_H

/* cdef begin */
void fp_fault_step(int64_t countdown, int32_t times);   /* that statement step fails; -1: none */
void fp_fault_memory(int64_t countdown, int32_t times); /* that allocation fails; -1: none */
/* Of the crash disk: that write fails as on a full disk or as on a broken one, half of it written;
** that sync fails; that other call does, which reads, opens, measures, removes, maps or locks. */
void fp_fault_write(int64_t countdown, int32_t times, int32_t full);
void fp_fault_sync(int64_t countdown, int32_t times);
void fp_fault_io(int64_t countdown, int32_t times);
void fp_fault_kill(int64_t countdown);                  /* SIGKILL at that statement step */
/* Where that kill, of this process, leaves "at" and the name of its step: in memory that others
** see, too. */
void fp_fault_last_word(char *into, int32_t bytes);
void fp_fault_stop(int64_t countdown);                  /* SIGSTOP there; no kill afterwards */
void fp_fault_spoil(int32_t on);                        /* each transaction is made twice */
/* Set before a store is opened: its bell has 1: no futex; 2: no listener, as where inotify has
** nothing left; 4: a deaf one, so that only a ring or the time wakes a sleeper. */
void fp_fault_bell(int32_t without);
uint32_t fp_fault_rung(void);                           /* the bits of the last ring */
/* 1: the next one who is about to sleep, and has looked for the last time, stops there until 0. */
void fp_fault_door(int32_t closed);
int32_t fp_fault_at_door(void);
int64_t fp_fault_hits(void);                            /* faults that fired since the last set */
int64_t fp_steps(void);                                 /* statement steps so far */
int64_t fp_memory_calls(void);                          /* allocations so far */
int64_t fp_memory_live(void);                           /* our allocations not yet given back */
int32_t fp_sql_count(void);
const char *fp_sql_name(int32_t index);
const char *fp_sql_text(int32_t index);
const char *fp_schema_text(void);
/* sqlite3_stmt_status over all statements of both connections: op as SQLite numbers it */
int64_t fp_sql_status(fp_store *store, int32_t op);
int64_t fp_sql_status_of(fp_store *store, int32_t index, int32_t op); /* of one statement */
/* How SQLite will run that statement: a record a line, 1 value: text_bytes; blob: text. */
int fp_explain(fp_store *store, int32_t index, fp_rows *rows, fp_error *err);
/* Runs that on a connection of its own, as another program does, and closes it. */
int fp_elsewhere(const char *path, const char *sql, fp_error *err);
/* What the writing connection answers to that PRAGMA. */
int fp_pragma(fp_store *store, const char *sql, int64_t *value, fp_error *err);
int64_t fp_places(fp_store *store);                     /* claims this handle keeps the place of */
/* What the bell did: sleeps that ended because the version moved, by their time, by a nudge, by a
** signal; those that nobody woke, though there was something else than the time; looks and alarms
** of the listener; who sleeps now. */
void fp_bell(fp_store *store, int64_t counts[8]);
void fp_die(fp_store *store);       /* to others it is dead; what it does next, a new worker does */
/* Looks after the other workers now; one slice. *more: there may be a further one. */
int fp_look_after(fp_store *store, int32_t *more, fp_error *err);
void fp_look_no_more(fp_store *store);                  /* but when fp_look_after is called */
int32_t fp_waiting(fp_store *store);                    /* calls that stand in line for the turn */
/* commits, requests in them, transactions that were made again, requests of the largest one, how
** often the lock was left to others */
void fp_group_counts(fp_store *store, int64_t counts[5]);
/* Before the first store is opened: the system has no locks of an open file description, or there
** is no shim at all, and SQLite is what it is everywhere else. */
enum { FP_LOCKS_REAL, FP_LOCKS_NO_OFD, FP_LOCKS_OFF };
void fp_locks_pretend(int32_t how);
/* The shim's calls, as SQLite makes them: an answer, or -errno. */
int32_t fp_locks_open(const char *path, int32_t writable);
int32_t fp_locks_close(int32_t fd);
int32_t fp_locks_lock(int32_t fd, int32_t type, int64_t start, int64_t bytes); /* F_SETLK */
/* A byte of ours, from 0 on: PROBE answers 1 (another has it), 0 or -1; the others 0 or -errno. */
enum { FP_LOCKS_SHARE, FP_LOCKS_TAKE, FP_LOCKS_DROP, FP_LOCKS_PROBE };
int32_t fp_locks_byte(const char *path, int64_t offset, int32_t verb);
int32_t fp_locks_strangers(const char *path);
int64_t fp_locks_held(void);  /* files, descriptors, mappings and bytes that the shim knows */
/* ---- the crash disk: see crash.h. It ends this process, and leaves the files as a power cut does,
** with what was not synced written, lost or in pieces, as `seed` says ---- */
void fp_crash_install(void);                            /* before the first open, for good */
void fp_crash_at(int64_t countdown, int32_t after, uint64_t seed); /* before (or just after) that
                                                        ** sync takes effect; -1: never */
void fp_crash_now(uint64_t seed);
void fp_crash_lies(int32_t lies);                       /* syncs answer well, and do nothing */
int64_t fp_syncs(void);                                 /* of the crash disk, so far */
/* cdef end */

#endif
