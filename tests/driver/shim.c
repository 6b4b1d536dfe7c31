/* The lock shim under threads: stores that are opened and closed all the time, beside a program
** that locks the same files by itself, restarts and checkpoints of a WAL, bytes of ours, and forks.
**
** The two that want the same lock must never both have it. At the end the shim knows nothing any
** more.
*/
#include "shim.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fencepost.h"

enum { FILES = 3, ROUNDS = 300, FORKS = 20, PATH_BYTES = 128 };
enum { PENDING = 1 << 30, CHECKPOINTER = 121, READERS = 124, READERS_COUNT = 4 };

static char paths[FILES][PATH_BYTES];
static atomic_int inside[FILES]; /* who has the lock: ours and a guest's, never both */
static atomic_int restarting, checkpointing;
static atomic_int stop;

static void *open_stores(void *argument) {
  for (int i = 0; i < ROUNDS / 10; i++) {
    fp_options options = {.path = argument, .create = 1, .wal = 1, .network = 1, .normal = 1,
                          .hand_us = -1};
    fp_store *store = NULL;
    fp_error err;
    int code = fp_open(&options, &store, &err);
    if (code == FP_AGAIN) continue;
    if (code != FP_OK) fprintf(stderr, "open: %s\n", err.message);
    expect(code == FP_OK, "a store opens");
    do code = fp_close(store, &err); while (code == FP_AGAIN);
    fp_free(store);
  }
  return NULL;
}

static void enter(int file) {
  expect(atomic_fetch_add(&inside[file], 1) == 0, "a lock has one holder");
  atomic_fetch_sub(&inside[file], 1);
}

/* On bytes that SQLite's own locks leave alone. */
static void *lock_through_it(void *unused) {
  (void)unused;
  for (int i = 0; i < ROUNDS; i++) {
    int file = i % FILES;
    int fd = fp_locks_open(paths[file], 1);
    expect(fd > 2, "a descriptor");
    if (fp_locks_lock(fd, F_WRLCK, 7, 1) == 0) {
      enter(file);
      expect(fp_locks_lock(fd, F_UNLCK, 7, 1) == 0, "it can be given back");
    }
    if (i % 2) expect(fp_locks_byte(paths[file], i % 5, FP_LOCKS_SHARE) == 0, "a byte is taken");
    if (i % 2) fp_locks_byte(paths[file], i % 5, FP_LOCKS_DROP);
    (void)fp_locks_byte(paths[file], 6, FP_LOCKS_PROBE);
    (void)fp_locks_strangers(paths[file]);
    expect(fp_locks_close(fd) == 0, "it closes");
  }
  return NULL;
}

static void *lock_beside_it(void *unused) {
  (void)unused;
  int fds[FILES];
  for (int i = 0; i < FILES; i++) fds[i] = open(paths[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  for (int i = 0; !atomic_load(&stop); i++) {
    int file = i % FILES;
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 7, .l_len = 1};
    if (fcntl(fds[file], F_SETLK, &range) != 0) continue;
    enter(file);
    range.l_type = F_UNLCK;
    expect(fcntl(fds[file], F_SETLK, &range) == 0, "it can be given back");
  }
  for (int i = 0; i < FILES; i++) close(fds[i]);
  return NULL;
}

/* SQLite itself keeps two of our threads from the same lock; between these two, the shim does. */
static void *restart(void *argument) {
  int fd = *(int *)argument;
  for (int i = 0; i < ROUNDS; i++) {
    if (fp_locks_lock(fd, F_WRLCK, READERS, READERS_COUNT) != 0) continue;
    atomic_store(&restarting, 1);
    expect(!atomic_load(&checkpointing), "no restart beside a checkpoint");
    atomic_store(&restarting, 0);
    expect(fp_locks_lock(fd, F_UNLCK, READERS, READERS_COUNT) == 0, "it can be given back");
  }
  return NULL;
}

static void *checkpoint(void *argument) {
  int fd = *(int *)argument;
  for (int i = 0; i < ROUNDS; i++) {
    if (fp_locks_lock(fd, F_WRLCK, CHECKPOINTER, 1) != 0) continue;
    atomic_store(&checkpointing, 1);
    expect(!atomic_load(&restarting), "no checkpoint beside a restart");
    atomic_store(&checkpointing, 0);
    expect(fp_locks_lock(fd, F_UNLCK, CHECKPOINTER, 1) == 0, "it can be given back");
  }
  return NULL;
}

static void fork_now(void) {
  pid_t child = fork();
  expect(child >= 0, "a fork");
  if (child == 0) {
    if (fp_locks_held() != 0) _exit(1);
    int fd = fp_locks_open(paths[0], 1);
    (void)fp_locks_lock(fd, F_RDLCK, PENDING, 1);
    _exit(fp_locks_close(fd) == 0 ? 0 : 1);
  }
  int status = 0;
  expect(waitpid(child, &status, 0) == child && status == 0, "a child opens a file of its own");
}

void drive_shim(const char *folder) {
  static const char *const suffixes[] = {"", "-wal", "-shm"};
  pthread_t threads[16];
  int count = 0;
  for (int i = 0; i < FILES; i++) snprintf(paths[i], PATH_BYTES, "%s/shim%d.db", folder, i);
  char shm[PATH_BYTES];
  snprintf(shm, PATH_BYTES, "%s/alone", folder);
  int fd = fp_locks_open(shm, 1);
  pthread_t beside;
  pthread_create(&beside, NULL, lock_beside_it, NULL);
  for (int i = 0; i < FILES; i++) pthread_create(&threads[count++], NULL, open_stores, paths[i]);
  pthread_create(&threads[count++], NULL, open_stores, paths[0]);
  pthread_create(&threads[count++], NULL, lock_through_it, NULL);
  pthread_create(&threads[count++], NULL, restart, &fd);
  pthread_create(&threads[count++], NULL, checkpoint, &fd);
  for (int i = 0; i < FORKS; i++) fork_now();
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  atomic_store(&stop, 1);
  pthread_join(beside, NULL);
  fp_locks_close(fd);
  for (int i = 0; i < FILES; i++) { /* what could not be closed beside a guest is swept up now */
    fd = fp_locks_open(paths[i], 1);
    fp_locks_close(fd);
  }
  expect(fp_locks_held() == 0, "the shim keeps nothing");
  for (int i = 0; i < FILES; i++) {
    for (int j = 0; j < 3; j++) {
      char path[PATH_BYTES + 8];
      snprintf(path, sizeof path, "%s%s", paths[i], suffixes[j]);
      unlink(path);
    }
  }
  unlink(shm);
}
