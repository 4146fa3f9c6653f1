/* Fencing numbers (R12). */
#ifndef LOCKAGENT_CORE_FENCE_H
#define LOCKAGENT_CORE_FENCE_H

#include "state.h"

/* Returns the agreed time in us, from 1. */
uint64_t fence_agreed_time(const struct core *core, uint8_t group);
/* Returns the number that a grant in `group` gets at least: the agreed time, or what follows the
 * largest floor of its masters. A floor too far ahead of the agreed time is ignored. */
uint64_t fence_proposal(const struct core *core, uint8_t group);
/* Takes note of a floor of one of the group's masters. */
void fence_learns_floor(struct core *core, uint8_t group, uint64_t floor);
/* True for a number that no agent can have granted by now. */
bool fence_is_wild(const struct core *core, uint8_t group, uint64_t number);
/* True where the renewal that begins is to extend the lock's fence keys. */
bool fence_key_is_due(const struct core *core, const struct lock *lock);
/* A master stores that number for the lock. */
void fence_heard(struct lock *lock, uint8_t master, uint64_t number);
/* A master has the token that is asked for with this number, and that is another one. */
void fence_heard_other(struct lock *lock, uint8_t master, uint64_t number);

#endif
