/* What a guard knows of its masters: facts about one of them, and the questions of guard.h. They
 * change nothing. For guard.c alone. */
#ifndef LOCKAGENT_CORE_GUARD_KNOWN_H
#define LOCKAGENT_CORE_GUARD_KNOWN_H

#include "guard.h"

bool guard_same_word(const char *a, const char *b);

/* One before it has the same epoch: the one's data is the other's. Whichever of them forgot by
 * that, the two are one master until this one has begun anew. */
bool guard_is_copy(const struct guard *guard, uint8_t index);

bool guard_votes_now(const struct guard *guard, uint8_t index);

/* It has not forgotten, or has been told since: it can be a witness. */
bool guard_remembers(const struct guard *guard, uint8_t index);

/* Its guard is over, and it has not been told. */
bool guard_waits(const struct guard_master *master);

/* It answered a question that was asked after the agent heard that `waiting` waits. */
bool guard_answered_since(const struct guard_master *master, const struct guard_master *waiting);

#endif
