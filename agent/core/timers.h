/* All deadlines of the core in one heap, ordered by (time, order of arming), so that equal deadlines fire in order. */
#ifndef LOCKAGENT_CORE_TIMERS_H
#define LOCKAGENT_CORE_TIMERS_H

#include "types.h"

enum timer_owner { TIMER_OF_LOCK, TIMER_OF_KEY, TIMER_OF_REQUEST };

/* Lives inside its owner. All zero: not armed. */
struct timer {
    struct instant at;
    uint64_t order;
    uint32_t place; /* in the heap, from 1; 0: not armed */
    enum timer_owner owner;
};

struct timers {
    struct timer **heap; /* heap[1..count] */
    uint32_t count, size;
    uint64_t order;
};

/* `heap` has room for `size` timers and one more pointer; it stays the caller's. */
void timers_init(struct timers *timers, struct timer **heap, uint32_t size);
/* Arms `timer`, or moves it if it is armed. INSTANT_NEVER disarms. */
void timers_set(struct timers *timers, struct timer *timer, struct instant at);
void timers_clear(struct timers *timers, struct timer *timer);
/* The earliest, or NULL. */
struct timer *timers_first(const struct timers *timers);

#endif
