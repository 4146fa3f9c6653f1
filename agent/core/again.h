/* A POST of a caller that has the lock already (D3.5, R11). */
#ifndef LOCKAGENT_CORE_AGAIN_H
#define LOCKAGENT_CORE_AGAIN_H

#include "state.h"

/* Begins a round that confirms `lock`, which is held here, for a request of its holder. The request
 * is answered `answer` (REPEATED or REENTERED) when a quorum has confirmed the lock. */
void again_asked(struct core *core, struct lock *lock, struct core_request *request,
                 enum answer answer);
/* If the owner of the request holds the key here, the request enters that hold, or is refused, and
 * true is returned. */
MUST_CHECK bool again_enters(struct core *core, struct core_request *request);
/* The request's time is up, and no quorum has confirmed the hold since it came. */
void again_time_over(struct core *core, struct core_request *request);
/* The caller of the request goes away. The request is freed. */
void again_left(struct core *core, struct core_request *request);

#endif
