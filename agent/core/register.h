/* The part of the guard that compares layouts (R23). guard_gate() and guard_set_layout() belong to
 * it too. */
#ifndef LOCKAGENT_CORE_REGISTER_H
#define LOCKAGENT_CORE_REGISTER_H

#include "guard.h"

enum {
    /* F without the time that a master may be silent: two questions are never further apart. */
    REGISTER_QUESTION_MS_MAX = 6000,
};

/* Returns true if the master has answered that the layout is noted there, and the question was
 * asked a short time ago. A later answer that names new neighbours alone takes nothing back. */
bool register_is_noted(const struct guard_master *master, struct instant now);

/* Adds the layout to a question. A guard that is refused lets nothing be noted, so that it keeps no
 * other agent away. */
void register_ask(const struct guard *guard, struct instant now, struct guard_ask *ask);

/* Takes the layouts at work on a master. One that is no neighbour is remembered for as long as the
 * master would do so. Without that memory, this agent could be the first that is noted when the
 * master forgets. */
void register_hear(struct guard *guard, uint8_t index, const struct guard_layouts *heard,
                   struct instant now, struct guard_effects *effects);

/* Returns when the next event is due at the latest; INSTANT_NEVER unless the guard listens. */
struct instant register_deadline(const struct guard *guard);

/* Call it with each event. After a start, or a pause of the whole agent, the guard listens anew:
 * a master that has not answered since, and that could be asked, may know a layout that is no
 * neighbour. */
void register_step(struct guard *guard, struct instant now);

/* Notes that the group may have leases until then: a refused layout keeps its entries so long. */
void register_leases(struct guard *guard, struct instant until);

#endif
