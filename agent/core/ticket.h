/* Order over all agents (R9, order fair). */
#ifndef LOCKAGENT_CORE_TICKET_H
#define LOCKAGENT_CORE_TICKET_H

#include "state.h"

bool ticket_is_wanted(const struct core *core, const struct key *key);
/* A number for one who begins to wait. */
void ticket_given(struct core *core, struct core_request *request);
/* An attempt is about to be sent, with the number of the one whom it is for. */
void ticket_begin_attempt(struct core *core, struct lock *lock, struct core_request *request);
/* A master has this agent's ticket, with this number. */
void ticket_heard(struct core *core, struct lock *lock, uint8_t master, uint64_t number);
/* An attempt is about to be a hold. */
void ticket_granted(struct lock *lock);
/* A hold is about to be released: whoever waits first here takes its place. */
void ticket_released(struct core *core, struct lock *lock);
/* A master answered an attempt, perhaps behind its decision. */
void ticket_answered(struct core *core, struct lock *lock, const struct event_reply *reply);
void ticket_attempt_failed(struct core *core, struct lock *lock, enum answer answer);
/* No release of it that is sent from now on puts a ticket there: its request is gone, or shows
 * it by the next attempt. */
void ticket_forgotten(struct lock *lock);
/* Nobody waits here any more. */
void ticket_withdrawn(struct core *core, struct key *key);
/* True when the masters were told of one who does not wait any more. */
bool ticket_is_stale(const struct core *core, const struct key *key);

#endif
