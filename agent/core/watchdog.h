/* The watchdog of a hold: its renewals (R7, R8). */
#ifndef LOCKAGENT_CORE_WATCHDOG_H
#define LOCKAGENT_CORE_WATCHDOG_H

#include "state.h"

/* Arms a restored hold's timers: a watchdog's is renewed at once. */
void watchdog_resumed(struct core *core, struct lock *lock);
/* A PUT, or a POST that has the hold already: begins a round, or waits for one of its own if a
 * round is out. */
void watchdog_renew(struct core *core, struct lock *lock, struct core_request *request);
void watchdog_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
/* Begins the renewals that are due: a batch of them, or all that are late. */
void watchdog_renews(struct core *core);
/* Of a hold, held or lost. */
void watchdog_timer(struct core *core, struct lock *lock);

#endif
