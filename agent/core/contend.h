/* Who contends for a key (R9). */
#ifndef LOCKAGENT_CORE_CONTEND_H
#define LOCKAGENT_CORE_CONTEND_H

#include "state.h"

/* A request comes: it waits so long for the lock, or wants one answer now (0). */
void contend_arrived(struct core *core, struct key *key, struct core_request *request,
                     int64_t wait_ms);
/* When a request that came to the queue of a key with this wait is answered at the latest: who
 * tries once waits for a place for its round alone (R16). */
struct instant contend_deadline(const struct core_request *request, int64_t wait_ms);
/* The key is free as far as is known here: the next one of the queue, if any, tries. */
void contend_next(struct core *core, struct key *key);
/* The same, as a hold of this mode has ended here. */
void contend_freed(struct core *core, struct key *key, enum mode mode);
/* Rounds begin, in order, as far as there are places and the effects have room (R16). */
void contend_admitted(struct core *core);
/* It is time to try again. */
void contend_timer(struct core *core, struct key *key);
/* The request's time is up. */
void contend_wait_over(struct core *core, struct core_request *request);
/* A request left the queue: unless an attempt is under way or timed, the next one contends. */
void contend_left(struct core *core, struct key *key);

#endif
