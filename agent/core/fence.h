/* Fencing numbers (R12). */
#ifndef LOCKAGENT_CORE_FENCE_H
#define LOCKAGENT_CORE_FENCE_H

#include "state.h"

/* What a grant in `group` is to be numbered with, at least: the agreed time in us, from 1. */
uint64_t fence_proposal(const struct core *core, uint8_t group);
/* True for a number that no agent can have granted by now. */
bool fence_is_wild(const struct core *core, uint8_t group, uint64_t number);
/* True where the renewal that begins is to extend the lock's fence keys. */
bool fence_key_is_due(const struct core *core, const struct lock *lock);
/* A master stores that number for the lock. */
void fence_heard(struct lock *lock, uint8_t master, uint64_t number);

#endif
