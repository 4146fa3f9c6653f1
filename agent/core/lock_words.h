/* What the caller of a lock gave beside its terms; few locks have any. */
#ifndef LOCKAGENT_CORE_LOCK_WORDS_H
#define LOCKAGENT_CORE_LOCK_WORDS_H

#include "state.h"

/* Those of the lock; empty where none was given. */
const struct words *lock_words(const struct lock *lock);
/* Copies them, once for each lock. */
void lock_keep_words(struct core *core, struct lock *lock, const struct words *words);

#endif
