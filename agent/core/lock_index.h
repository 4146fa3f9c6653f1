/* Finds the locks of a key by what callers name them by: a token, or an idempotency key. However
 * many of a key have ended and owe a release still, none of them is walked. */
#ifndef LOCKAGENT_CORE_LOCK_INDEX_H
#define LOCKAGENT_CORE_LOCK_INDEX_H

#include "state.h"

/* It has its token, and is found by it from now on until it is free. Its number may change. */
void lock_index_token(struct core *core, struct lock *lock);
/* The same for its idempotency key; nothing to do where it has none. */
void lock_index_secret(struct core *core, struct lock *lock);
/* From both, if it is in them: its key and its words are still its own. */
void lock_index_remove(struct core *core, struct lock *lock);
/* The next one of the key with that random part, whatever its number and state, after `after`, or
 * the first one where that is NULL; the oldest comes first. NULL: there is no other. */
MUST_CHECK struct lock *lock_index_next(const struct core *core, const struct key *key,
                                        const struct token *token, const struct lock *after);
/* The same by an idempotency key, which is not none. */
MUST_CHECK struct lock *lock_index_next_secret(const struct core *core, const struct key *key,
                                               const struct secret *secret,
                                               const struct lock *after);

#endif
