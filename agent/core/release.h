/* Releases that a DELETE asks for, or the end of a caller. */
#ifndef LOCKAGENT_CORE_RELEASE_H
#define LOCKAGENT_CORE_RELEASE_H

#include "state.h"

/* A release of a lock that this agent holds. `request`: the DELETE that is answered by it, or
 * NULL. `asked`: the holder wants it, and so it counts at whichever agent the hold is; else it
 * is this agent's own affair (D3). */
void release_begun(struct core *core, struct lock *lock, struct core_request *request, bool asked);
/* A DELETE with a token that this agent does not know; or knows as lost for `reason`, which is
 * then the answer where the masters do not have it. */
void release_of_stranger(struct core *core, struct key *key, struct core_request *request,
                         const struct token *token, enum reason reason);
void release_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
/* What a master says to a hand-over, it says of the predecessor's release too. */
void release_inherited(struct core *core, const struct lock *heir, const struct event_reply *reply);
void release_timer(struct core *core, struct lock *lock);

#endif
