/* The clocks of this host. Only the loop and the files above it read them. Every room below gets
 * the time as an argument. */
#ifndef LOCKAGENT_CLOCK_H
#define LOCKAGENT_CLOCK_H

#include "agent/core/types.h"

/* Return the time on CLOCK_BOOTTIME, which counts suspend, and on CLOCK_REALTIME, in us of unix
 * time. */
struct instant clock_now(void);
int64_t clock_wall_us(void);

/* Returns true if `at` is now or over. */
bool clock_has_reached(struct instant at);

#endif
