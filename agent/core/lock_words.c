/* The words of locks. They stand in a table of their own. */
#include "lock_words.h"

#include "core_assert.h"
#include "slots.h"

const struct words *lock_words(const struct lock *lock)
{
    static const struct words none;
    CORE_ASSERT(lock->words == NULL || lock->words->lock == lock);
    return lock->words == NULL ? &none : &lock->words->words;
}

void lock_keep_words(struct core *core, struct lock *lock, const struct words *words)
{
    CORE_ASSERT(lock->state != LOCK_FREE && lock->words == NULL);
    if (words_are_none(words))
        return;
    lock->words = slots_take(&core->words);
    *lock->words = (struct kept_words){.lock = lock, .words = *words};
}
