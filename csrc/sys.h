/* The operating system, as much of it as the core needs: a lock, a condition with a time-out, a
** word to wait on, three clocks, and the generation that a fork raises. */
#ifndef FENCEPOST_SYS_H
#define FENCEPOST_SYS_H

#include <pthread.h>

#include "base.h"

typedef struct sys_cond {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
} sys_cond;

int sys_cond_init(sys_cond *c); /* 0, or errno */
void sys_cond_free(sys_cond *c);
void sys_lock(sys_cond *c);
void sys_unlock(sys_cond *c);
void sys_wake_all(sys_cond *c);
/* With the lock held: until somebody wakes, or `span_us` passed. May wake early, for no reason. */
void sys_wait(sys_cond *c, int64_t span_us);

/* A word that one thread waits on until another one sets it; it may stand on the waiter's stack,
** and is gone as soon as the waiter has seen what it waited for. */
typedef struct sys_word {
  _Atomic uint32_t value;
#ifndef __linux__
  pthread_mutex_t mutex;
  pthread_cond_t changed;
#endif
} sys_word;

void sys_word_init(sys_word *w, uint32_t value);
void sys_word_free(sys_word *w);
uint32_t sys_word_get(sys_word *w);
void sys_word_put(sys_word *w, uint32_t value); /* wakes nobody */
void sys_word_set(sys_word *w, uint32_t value); /* wakes who waits */
/* Until its value is not `seen`, or `span_us` passed. May wake early, for no reason. */
void sys_word_wait(sys_word *w, uint32_t seen, int64_t span_us);

void sys_sleep(int64_t span_us);

/* Starts a thread that no signal is given to: signals stay with the threads that expect them. 0, or
** errno. */
int sys_start(pthread_t *thread, void *(*run)(void *), void *argument);

int64_t sys_wall_us(void);  /* microseconds since 1970 UTC; steps when somebody sets it */
int64_t sys_boot_us(void);  /* since boot, the time asleep included; never steps */
int64_t sys_awake_us(void); /* since boot, the time asleep left out; never steps */

int64_t sys_pid(void);
void sys_host(char text[64]); /* the machine's name, cut to that */

/* A text that changes at each boot; NUL-terminated, at most 63 bytes. */
void sys_boot_id(char text[64]);

/* How many forks lie between the program's first process and this one, as far as `locks` has seen
** them. The generation is the only mutable global here. */
void sys_raise_generation(void);
int64_t sys_generation(void);

void sys_random(void *into, int bytes);

#endif
