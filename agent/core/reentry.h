/* Reentrancy (R11). */
#ifndef LOCKAGENT_CORE_REENTRY_H
#define LOCKAGENT_CORE_REENTRY_H

#include "state.h"

/* True when the request is the holder's own: it is answered. */
MUST_CHECK bool reentry_takes(struct core *core, struct core_request *request);
/* Answers those of the key's queue that are the new holder's own. */
void reentry_admit(struct core *core, struct lock *lock);
/* True when one of several releases has come, and the hold goes on. */
MUST_CHECK bool reentry_left(struct core *core, struct lock *lock);

#endif
