/* What the core is told of a master: that it is up or down, and what its clock shows. */
#ifndef LOCKAGENT_CORE_READING_H
#define LOCKAGENT_CORE_READING_H

#include "types.h"

/* One reading of a master's clock. */
struct clock_reading {
    int64_t wall_us;     /* unix time that the master told */
    struct instant sent; /* before the question was written */
    /* after the answer was heard; 0: there is no reading */
    struct instant heard;
};

struct event_master {
    uint8_t group, master;
    /* UP: never 0; another number than before where the master may have forgotten keys. UP may
     * come for a master that is up, when its epoch has changed */
    uint16_t epoch;
    int64_t clock_offset_us;      /* UP, CLOCK: the master's wall clock minus ours */
    struct clock_reading reading; /* CLOCK: what the offset was reckoned from */
    uint64_t floor;               /* FENCE_FLOOR: of the group (R12) */
};

#endif
