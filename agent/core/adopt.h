/* Adoption: a PUT with a token that this agent does not know (D3). */
#ifndef LOCKAGENT_CORE_ADOPT_H
#define LOCKAGENT_CORE_ADOPT_H

#include "state.h"

/* Returns true if the masters are being asked for the token already: another PUT of it joins. */
bool adoption_is_under_way(const struct core *core, const struct key *key,
                           const struct token *token);
void adoption_begun(struct core *core, struct key *key, struct core_request *request,
                    const struct token *token);
/* A hold that this agent has lost, perhaps to another one, is asked for here: adopts it back if
 * the masters have it. */
void adoption_of_lost(struct core *core, struct lock *lost, struct core_request *request);
/* The token that is about to be adopted is to be released. */
void adoption_released(struct core *core, struct key *key, const struct token *token);
void adoption_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
void adoption_timer(struct core *core, struct lock *lock);

#endif
