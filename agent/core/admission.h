/* How many acquire rounds of a group may be in flight, and who waits for a place (R16). Behind them
 * the guests: requests that ask the masters about a lock that this agent does not hold. */
#ifndef LOCKAGENT_CORE_ADMISSION_H
#define LOCKAGENT_CORE_ADMISSION_H

#include "state.h"

/* The key stands in the line of its group from now on, unless it does already; `cause` is what sets
 * the round off. */
void admission_awaited(struct core *core, struct key *key, enum cause cause);
/* Nobody wants a round for the key any more; nothing to do if it stands in no line. */
void admission_left(struct core *core, struct key *key);
/* The key stands in the line, and there was no place for it. */
bool admission_was_refused(const struct core *core, const struct key *key);
/* Somebody waits for a place that is free. */
bool admission_is_due(const struct core *core);
/* Takes the first one for whom there is a free place off its line; NULL if there is none. Its
 * admission.cause and admission.waited_us stay as they are until it waits again. */
struct key *admission_next(struct core *core);

/* The round of this lock takes a place, */
void admission_begun(struct core *core, struct lock *lock);
/* and gives it back, if it has one. */
void admission_ended(struct core *core, struct lock *lock);

/* Returns true if a request may ask the masters of `group` at once, as a guest. */
bool admission_admits_guest(const struct core *core, uint8_t group);
/* Puts the request at the end of its group's guests, with a deadline of ADMISSION_MS_MAX. */
void admission_guest_waits(struct core *core, struct core_request *request);
/* Takes the first guest that may begin off its queue: it is REQUEST_BEGUN and `admitted`. Returns
 * NULL if there is none. */
struct core_request *admission_next_guest(struct core *core);
/* The read of this request counts as in flight from now on, until admission_guest_left(). */
void admission_guest_reads(struct core *core, struct core_request *request);
/* The request waits no more, or its read is over. Does nothing if it is neither. */
void admission_guest_left(struct core *core, struct core_request *request);
/* The round of this adoption counts as in flight, until admission_ended(). */
void admission_guest_adopts(struct core *core, struct lock *lock);
/* The first phase of an attempt was decided: the limit follows from how long that took. */
void admission_decided(struct core *core, const struct lock *lock);

/* After so long whoever comes to the group now may expect a place, in ms; 0: at once. */
int64_t admission_wait_ms(const struct core *core, uint8_t group);

#endif
