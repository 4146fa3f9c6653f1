/* Deadlines in a heap, ordered by (time, order of arming), so that equal deadlines fire in order.
 * A timer is a number, which its owner knows: whoever moves one of 100,000 looks at a few places
 * of the heap and of a table, and at no other owner. */
#ifndef LOCKAGENT_CORE_TIMERS_H
#define LOCKAGENT_CORE_TIMERS_H

#include "types.h"

struct timer_entry {
    struct instant at;
    uint32_t order; /* of arming; it wraps */
    uint32_t timer; /* which one it is */
};

/* With none armed: `heap` has room for `size` entries and one more, `places` is as many zeros. Both
 * stay the caller's. */
struct timers {
    struct timer_entry *heap; /* heap[1..count] */
    uint32_t *places;         /* of each timer in the heap, from 1; 0: it is not armed */
    uint32_t size;            /* timers are below it */
    uint32_t count, order;
};

/* Arms `timer`, or moves it if it is armed for another time. INSTANT_NEVER disarms. */
void timers_set(struct timers *timers, uint32_t timer, struct instant at);
void timers_clear(struct timers *timers, uint32_t timer);
/* The earliest; one is armed. */
uint32_t timers_first(const struct timers *timers);
/* When the earliest fires; INSTANT_NEVER: none is armed. */
struct instant timers_due(const struct timers *timers);
bool timers_is_armed(const struct timers *timers, uint32_t timer);
/* When that one fires; INSTANT_NEVER: it is not armed. */
struct instant timers_at(const struct timers *timers, uint32_t timer);
/* It is not armed, or stands in the heap where it is believed to. */
bool timers_know(const struct timers *timers, uint32_t timer);

#endif
