/* One attempt at a lock. */
#ifndef LOCKAGENT_CORE_ATTEMPT_H
#define LOCKAGENT_CORE_ATTEMPT_H

#include "state.h"

void attempt_begun(struct core *core, struct key *key, struct core_request *request,
                   enum cause cause);
/* R9: the same, and the key is taken from `predecessor`, whose holder releases it, in one round
 * trip. */
void attempt_inherited(struct core *core, struct key *key, struct core_request *request,
                       struct lock *predecessor);
void attempt_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
void attempt_timer(struct core *core, struct lock *lock);
/* R14: the attempt's votes do not count. It is undone, and the next contender asks again. */
void attempt_voided(struct core *core, struct lock *lock);
/* The caller is gone, or its time is up: undo, and let the next one contend. */
void attempt_abandoned(struct core *core, struct lock *lock);

#endif
