/* The masters' clocks as witnesses (R14). */
#ifndef LOCKAGENT_CORE_CLOCKS_H
#define LOCKAGENT_CORE_CLOCKS_H

#include "state.h"

/* Compares a reading of a master's clock with the one before it. If the master gained on this
 * agent, its keys end earlier, holds lose what that costs, and rounds under way are void. */
void clocks_heard(struct core *core, uint8_t group, uint8_t master,
                  const struct clock_reading *reading);

#endif
