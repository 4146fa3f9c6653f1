/* The rules for the keys of locks, the same for all sources. */
#ifndef LOCKAGENT_BASE_KEY_H
#define LOCKAGENT_BASE_KEY_H

#include "agent/core/types.h"

/* NULL when `key` is one, or why it is none: to be read behind "the key" (D3). */
const char *key_fault(struct text key);

/* Returns true for keys that are the agent's own if no prefix is configured: a caller's lock of
 * such a name would be one of the agent's keys on the masters (D3). */
bool key_is_agents_own(struct text key);

#endif
