/* Safe retry (D3). */
#ifndef LOCKAGENT_CORE_IDEMPOTENCY_H
#define LOCKAGENT_CORE_IDEMPOTENCY_H

#include "state.h"

/* A hash of what must be the same when a request is asked again. */
uint64_t idempotency_hash(const struct event_acquire *event);
/* True when the request was asked before: it is answered, or has taken the place of the older
 * one. */
MUST_CHECK bool idempotency_settles(struct core *core, struct core_request *request);
/* True when an answer did not arrive, but another one has or may. */
MUST_CHECK bool idempotency_keeps(struct lock *lock);
/* A DELETE of a lock: the idempotency key that it was acquired with, if any, is refused from now
 * on. */
void idempotency_use_up(struct core *core, struct lock *lock);
/* A DELETE by idempotency key: from now on that is refused. The lock to be released, or what
 * remembers that there is none (ENDED); NULL when the table is full. */
MUST_CHECK struct lock *idempotency_released(struct core *core, struct key *key,
                                             const struct secret *secret);

#endif
