/* The end of keys and locks. */
#ifndef LOCKAGENT_CORE_RETIRE_H
#define LOCKAGENT_CORE_RETIRE_H

#include "state.h"

/* A lock or a request leaves the key. */
void key_release(struct core *core, struct key *key);
void lock_free(struct core *core, struct lock *lock);
/* From under way to ENDED; the oldest ended one makes room if need be, rather one that owes
 * nothing (R6). */
void lock_end(struct core *core, struct lock *lock);

#endif
