/* The end of a hold that nobody asked to be released. */
#ifndef LOCKAGENT_CORE_HOLD_END_H
#define LOCKAGENT_CORE_HOLD_END_H

#include "state.h"

/* It could not be renewed in time, or `reason`: it is said at once, and the keys stay while the
 * validity lasts (R7). */
void hold_lost(struct core *core, struct lock *lock, enum reason reason);
/* Masters deny the hold, for TAKEN, MOVED or GONE. Requests that wait here contend at once. */
void hold_taken(struct core *core, struct lock *lock, enum reason reason);
/* The hold's last validity has ended: the masters are asked to delete its key, or its lease runs
 * out. */
void hold_over(struct core *core, struct lock *lock);
/* A lost hold is left to its lease, whoever owns it. */
void hold_runs_out(struct core *core, struct lock *lock);
/* A quorum has `granted`, which is or will be a hold of the key here: what it can not be beside was
 * released elsewhere, or has run out. */
void holds_make_way(struct core *core, struct key *key, const struct lock *granted);
/* EVENT_END has come: ends the hold as it says. */
void hold_ended(struct core *core, struct lock *lock);

#endif
