/* Where the key of a hold is, as the masters last said (R7). */
#ifndef LOCKAGENT_CORE_LEASE_H
#define LOCKAGENT_CORE_LEASE_H

#include "state.h"

/* Notes what a vote says of it. Only the first reply to the latest round counts: an older one
 * that comes late may contradict what the master said since. */
void lease_heard(struct core *core, struct lock *lock, const struct event_reply *reply);
/* True when those that do not deny the token within its lease are fewer than a quorum: somebody
 * else released or took it. */
bool lease_is_taken(const struct core *core, const struct lock *lock);
/* The masters on which a renewal may create the key. */
master_set lease_repairable(const struct core *core, const struct lock *lock);
/* When a further round brings a master nearer to being counted; NEVER where none does. */
struct instant lease_mends_at(const struct core *core, const struct lock *lock);
/* How many masters have the key for certain at `now`. */
uint8_t lease_confirmed(const struct core *core, const struct lock *lock, struct instant now);
/* What is known of a hold without asking anybody. */
struct tally lease_tally(const struct core *core, const struct lock *lock);

#endif
