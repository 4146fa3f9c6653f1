/* When the contender of a key tries again (R9). */
#ifndef LOCKAGENT_CORE_WAKE_H
#define LOCKAGENT_CORE_WAKE_H

#include "state.h"

void wake_watch(struct core *core, struct key *key);
void wake_unwatch(struct core *core, struct key *key);
bool wake_sits_out(const struct core *core, const struct key *key);
void wake_after_sitting_out(struct core *core, struct key *key);
void wake_begin_attempt(struct key *key);
void wake_after_failure(struct core *core, struct key *key);
void wake_subscribed(struct core *core, const struct event_channel *event);
void wake_unsubscribed(struct core *core, const struct event_channel *event);
void wake_message(struct core *core, const struct event_channel *event);
/* The request that is handed the key which a holder here releases; NULL: none, the key is to be
 * deleted. */
MUST_CHECK struct core_request *wake_heir(struct core *core, struct key *key);

#endif
