/* How many acquire rounds of a group may be in flight, and who waits for a place (R16). */
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
/* The first phase of an attempt was decided: the limit follows from how long that took. */
void admission_decided(struct core *core, const struct lock *lock);

/* After so long whoever comes to the group now may expect a place, in ms; 0: at once. */
int64_t admission_wait_ms(const struct core *core, uint8_t group);

#endif
