/* A hold: how long it is valid, when it is renewed, when it is lost. */
#ifndef LOCKAGENT_CORE_HOLD_H
#define LOCKAGENT_CORE_HOLD_H

#include "state.h"

/* When it is given up, if it is not renewed until then (R7). */
struct instant hold_lost_at(const struct lock *lock);
bool hold_reaches_max(const struct lock *lock);
/* A round that was sent at `from` has won: the lock is held from now on. */
void hold_begun(struct core *core, struct lock *lock, struct instant from);
/* A round that was sent at `from` has won: the validity counts anew, and is never shorter than
 * before. */
void hold_extend(struct core *core, struct lock *lock, struct instant from);
/* Of a hold whose renewal is not planned yet. */
void hold_plan_renewal(struct core *core, struct lock *lock, struct instant from);
/* By how much its renewal may begin before or after the time that is planned (R8). */
int64_t hold_slack_us(const struct lock *lock);
/* Brings the next renewal forward where it can make a master count again. */
void hold_mend_soon(struct core *core, struct lock *lock);
/* A request is refused because of this hold, which may have been released at another agent. The
 * watchdog renews the hold at once, but no more often than it repeats a failed renewal. */
void hold_doubted(struct core *core, const struct lock *lock);
/* How long to wait before a renewal that failed is tried again. */
int64_t hold_retry_us(struct core *core, const struct lock *lock);
/* Sets the lock's timer to the end of its round or of the hold, whichever comes first. */
void hold_arm(struct core *core, struct lock *lock);

#endif
