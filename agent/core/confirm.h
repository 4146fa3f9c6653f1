/* Requests that have the lock already, as the hold's round is decided or it ends (D3.5, R11). */
#ifndef LOCKAGENT_CORE_CONFIRM_H
#define LOCKAGENT_CORE_CONFIRM_H

#include "state.h"

/* True if the request asks for a hold that it has already; false of a PUT. */
static inline bool confirm_is_wanted(const struct core_request *request)
{
    return request->again != ANSWER_GRANTED;
}

/* Counts the owners that the round of this hold confirms. Called before the journal notes the
 * hold, which happens before any answer. */
void confirm_counted(struct lock *lock);
/* Answers one of them. `is_good`: a quorum confirmed the hold in a round that was sent after the
 * request came. */
void confirm_answered(struct core *core, struct lock *lock, struct core_request *request,
                      bool is_good);
/* The hold ends here. Repeats get `repeats` with the lock's reason. Owners enter the queue of the
 * key, where they contend like any other request: returns true if there are any, and then the
 * caller has to call contend_again(). */
MUST_CHECK bool confirm_hold_ended(struct core *core, struct lock *lock, enum answer repeats);

#endif
