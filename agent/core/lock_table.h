/* The table of locks, and how a lock passes from one state to the next. */
#ifndef LOCKAGENT_CORE_LOCK_TABLE_H
#define LOCKAGENT_CORE_LOCK_TABLE_H

#include "state.h"

/* A fresh lock of `key` with the policy's terms and no token yet; NULL when locks_max are under
 * way. */
MUST_CHECK struct lock *lock_new(struct core *core, struct key *key, enum lock_state state,
                                 enum mode mode);
/* NULL when the lock that it names is gone. */
MUST_CHECK struct lock *lock_by_ref(struct core *core, struct lock_ref ref);
/* The lock that a caller can name by that token; NULL: none. */
MUST_CHECK struct lock *lock_by_token(const struct core *core, const struct key *key,
                                      const struct token *token);
struct lock_ref lock_ref(const struct lock *lock);
/* Neither free nor ended: it is one of limits.locks. */
bool lock_is_under_way(const struct lock *lock);
/* Granted, and valid at this step. */
bool lock_is_held(const struct core *core, const struct lock *lock);
/* In a state in which it may become, or is, a hold: it is in key->holds. */
bool lock_occupies_key(enum lock_state state);
/* A pair that the diagram of state.h does not have is a fault of this program. */
void lock_set_state(struct core *core, struct lock *lock, enum lock_state state);
/* Borrows key and label from the lock. */
struct hold_view lock_view(const struct lock *lock);
/* Takes it off its key and its lists. Effects of this step may still name it: its slot is used
 * again after it. */
void lock_remove(struct core *core, struct lock *lock);
/* Slots that the step before freed may be used again. */
void lock_table_recycle(struct core *core);

#endif
