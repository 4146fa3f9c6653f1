/* The clocks of this host. They are read where events are stamped, in the loop and above it; every
 * room below is told the time. */
#ifndef LOCKAGENT_CLOCK_H
#define LOCKAGENT_CLOCK_H

#include "agent/core/types.h"

/* CLOCK_BOOTTIME, which counts suspend, and CLOCK_REALTIME in unix time; read now. */
struct instant clock_now(void);
int64_t clock_wall_us(void);

/* True from this point in time on. */
bool clock_has_reached(struct instant at);

#endif
