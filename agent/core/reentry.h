/* Reentrancy (R11). */
#ifndef LOCKAGENT_CORE_REENTRY_H
#define LOCKAGENT_CORE_REENTRY_H

#include "state.h"

/* The hold of the key that the request's owner has here; NULL: none. */
struct lock *reentry_hold(const struct core *core, const struct core_request *request);
/* The owner reads, and asks to write. */
bool reentry_is_upgrade(const struct lock *lock, const struct core_request *request);
void reentry_refuses_upgrade(struct core *core, struct core_request *request);
/* Answers those of the key's queue that are the new holder's own. */
void reentry_admit(struct core *core, struct lock *lock);
/* True when one of several releases has come, and the hold goes on. */
MUST_CHECK bool reentry_left(struct core *core, struct lock *lock);

#endif
