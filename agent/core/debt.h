/* What masters still have to delete: failed attempts (R5), and releases that were not confirmed
 * (R6). */
#ifndef LOCKAGENT_CORE_DEBT_H
#define LOCKAGENT_CORE_DEBT_H

#include "state.h"

/* These masters may have the key, and owe its release from now on. */
void debt_add(struct core *core, struct lock *lock, master_set masters);
/* The master has said that the key is not there any more. */
void debt_paid(struct core *core, struct lock *lock, uint8_t master);
/* Ends a lock and asks the masters that may have its key to delete it, all but `except` (R5,
 * R6). */
void debt_begun(struct core *core, struct lock *lock, master_set except);
/* Ends a lock whose keys are left to their lease: no release of it is owed. */
void debt_left_to_lease(struct core *core, struct lock *lock);
/* Frees an ended lock that owes nothing and need not be remembered, or arms its timer. */
void debt_settled(struct core *core, struct lock *lock);
void debt_timer(struct core *core, struct lock *lock);
/* An ended lock is asked for by its holder: no release of it is sent from now on, nor by the
 * process after this one. */
void debt_left_off(struct core *core, struct lock *lock);
/* True while an ended lock's key may still stand on so many masters that nobody else can have
 * it. */
bool debt_is_pending(const struct core *core, const struct lock *lock);
void debt_master_up(struct core *core, uint8_t group, uint8_t master);

#endif
