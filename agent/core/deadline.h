/* Until when a command may create a key, by the clock of the master that runs it (R5). */
#ifndef LOCKAGENT_CORE_DEADLINE_H
#define LOCKAGENT_CORE_DEADLINE_H

#include "state.h"

/* Until when a grant or a renewal is valid whose first request was sent at `from`: ttl - drift
 * later (R4). */
struct instant deadline_of_validity(const struct core *core, uint8_t group, struct instant from,
                                    uint32_t ttl_ms);
/* Until when a master may do this for the lock; NEVER where it creates no key. */
struct instant deadline_to_create(const struct core *core, const struct lock *lock, enum op op);
/* So many ms are left of that at a master whose clock is slow; 0 where nobody's is known. */
uint32_t deadline_left_ms(const struct core *core, uint8_t group, struct instant deadline);
/* What the clock of a master shows now at the least, unix time in ms; 0: it is not known. */
int64_t deadline_clock_ms(const struct core *core, uint8_t group, uint8_t master);
/* Takes note of a reading, if it says more than the one before it. `is_base`: the next ones are
 * compared with it (R14), and it is taken in any case. */
void deadline_heard(struct core *core, uint8_t group, uint8_t master,
                    const struct clock_reading *reading, bool is_base);

#endif
