/* What callers ask for, and what becomes of it as they leave. */
#ifndef LOCKAGENT_CORE_CALLS_H
#define LOCKAGENT_CORE_CALLS_H

#include "state.h"

void call_acquire(struct core *core, const struct event_acquire *event);
void call_renew(struct core *core, const struct event_renew *event);
void call_release(struct core *core, const struct event_release *event);
void call_read(struct core *core, const struct event_read *event);
/* Begins the reads and adoptions for which there is room now (R16). */
void call_guests_admitted(struct core *core);
/* A read or an adoption has waited for room for too long. */
void call_guest_time_over(struct core *core, struct core_request *request);
void call_restore(struct core *core, const struct noted_hold *noted);
/* `number`: of a request, answered or not. */
void call_cancel(struct core *core, uint32_t number);
void call_undelivered(struct core *core, struct lock_ref ref);
void call_delivered(struct core *core, struct lock_ref ref);
void call_stuck(struct core *core, struct lock_ref ref);

#endif
