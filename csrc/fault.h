/* The hostile build: each allocation and each statement step is a place where the test can make
** the world fail, by countdown. The release build has none of this: the macros are plain calls.
**
** All memory of ours goes through mem_…, and so through SQLite's allocator, which the test build
** replaces; one countdown reaches both. */
#ifndef FENCEPOST_FAULT_H
#define FENCEPOST_FAULT_H

#include <sqlite3.h>

#include "base.h"

/* What the bell does without. */
enum { FAULT_NO_FUTEX = 1, FAULT_NO_EVENTS = 2, FAULT_DEAF = 4 };

#ifdef FENCEPOST_TEST
void fault_install(void);        /* before SQLite is first used */
int fault_step(const char *name); /* 0, or the result code that this step must answer */
int fault_write(void);           /* the same, for a write and a sync of the crash disk */
int fault_sync(void);
int fault_io(int rc);            /* `rc`, if this call on it must fail: neither write nor sync */
bool fault_spoils(void);         /* must this transaction be made again, although it went well? */
int fault_bell(void);            /* FAULT_…: what the system does not have */
void fault_rung(uint32_t bits);  /* it was rung for these */
void fault_door(void);           /* between the last look and the sleep: holds on, if it must */
void *mem_get(int64_t bytes);
void *mem_resize(void *old, int64_t bytes);
void mem_free(void *memory);
#define SMALL(usual, tiny) (tiny) /* buffers that grow start tiny, so that they do grow */
#else
#define fault_install() ((void)0)
#define fault_step(name) 0
#define fault_spoils() false
#define fault_bell() 0
#define fault_rung(bits) ((void)(bits))
#define fault_door() ((void)0)
#define mem_get(bytes) sqlite3_malloc64((sqlite3_uint64)(bytes))
#define mem_resize(old, bytes) sqlite3_realloc64((old), (sqlite3_uint64)(bytes))
#define mem_free(memory) sqlite3_free(memory)
#define SMALL(usual, tiny) (usual)
#endif

#endif
