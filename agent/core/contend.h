/* Who contends for a key (R9). */
#ifndef LOCKAGENT_CORE_CONTEND_H
#define LOCKAGENT_CORE_CONTEND_H

#include "state.h"

/* A request comes: it waits for the lock, or wants one answer now. It is refused if this agent
 * drains, or if the policy does not allow its ttl. */
void contend_arrived(struct core *core, struct core_request *request);
/* The same for a request whose hold is about to end here. It enters the queue, or is refused, and
 * nothing else is done: the caller calls contend_again() when the hold has ended. */
void contend_queued(struct core *core, struct core_request *request);
void contend_again(struct core *core, struct key *key);
/* The time by which a request in the queue of a key is answered. A request without `wait` waits
 * only for its round's place (R16). */
struct instant contend_deadline(const struct core_request *request);
/* The key is free as far as is known here: the next one of the queue, if any, tries. */
void contend_next(struct core *core, struct key *key);
/* The same, as a hold of this mode has ended here. */
void contend_freed(struct core *core, struct key *key, enum mode mode);
/* Rounds begin, in order, as far as there are places and the effects have room (R16). */
void contend_admitted(struct core *core);
/* R14: the attempt's votes do not count. It is undone, and the next contender asks again. */
void contend_anew(struct core *core, struct lock *attempt);
/* It is time to try again. */
void contend_timer(struct core *core, struct key *key);
/* The request's time is up. */
void contend_wait_over(struct core *core, struct core_request *request);
/* A request left the queue: unless an attempt is under way or timed, the next one contends. */
void contend_left(struct core *core, struct key *key);

#endif
