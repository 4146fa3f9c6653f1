/* Events about a master: it is up or down, and the readings of its clock. */
#ifndef LOCKAGENT_CORE_READING_H
#define LOCKAGENT_CORE_READING_H

#include "types.h"

/* One reading of a master's clock. */
struct clock_reading {
    int64_t wall_us;     /* Unix time in the master's reply. */
    struct instant sent; /* Before the question was written. */
    /* After the reply was received; 0: there is no reading. */
    struct instant heard;
};

struct event_master {
    uint8_t group, master;
    /* UP: never 0. It is another number than before if the master may have forgotten keys. UP may
     * come for a master that is up, if its epoch has changed. */
    uint16_t epoch;
    int64_t clock_offset_us;      /* UP, CLOCK: the master's wall clock minus ours. */
    struct clock_reading reading; /* CLOCK: the reading that gave the offset. */
    uint64_t floor;               /* FENCE_FLOOR: the floor of the group (R12). */
};

#endif
