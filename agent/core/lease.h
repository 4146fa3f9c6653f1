/* Where the key of a hold is, as the masters last said (R7). */
#ifndef LOCKAGENT_CORE_LEASE_H
#define LOCKAGENT_CORE_LEASE_H

#include "state.h"

/* Notes what a vote says of it. Only the first reply to the latest round counts: an older one
 * that comes late may contradict what the master said since. */
void lease_heard(struct core *core, struct lock *lock, const struct event_reply *reply);
/* True when those that do not deny the token within its lease are fewer than a quorum: somebody
 * else released or took it. */
/* Why a hold that is taken has ended here: TAKEN, MOVED or GONE. */
enum reason lease_reason(const struct core *core, const struct lock *lock);
bool lease_is_taken(const struct core *core, const struct lock *lock);
/* The masters on which a renewal may create the key. */
master_set lease_repairable(const struct core *core, const struct lock *lock);
/* When a further round brings a master nearer to being counted; NEVER where none does. */
struct instant lease_mends_at(const struct core *core, const struct lock *lock);
/* How many masters have the key for certain at `now`. */
uint8_t lease_confirmed(const struct core *core, const struct lock *lock, struct instant now);
/* The clock of `master` gained on ours, by `most_us` at the most: the lease there ends earlier.
 * Returns until when so many masters keep the key that the others are no quorum: the hold is not
 * valid for longer. */
struct instant lease_gained(const struct core *core, struct lock *lock, uint8_t master,
                            int64_t least_us, int64_t most_us);

/* What is known of a hold without asking anybody. */
struct tally lease_tally(const struct core *core, const struct lock *lock);

#endif
