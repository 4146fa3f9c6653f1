/* Deadlines in a heap, ordered by time and then by order of arming, so that equal deadlines fire in
 * order. A timer is a number that its owner knows. To move one of 100,000 timers only a few entries
 * of the heap and of a table are read, and no other owner. */
#ifndef LOCKAGENT_CORE_TIMERS_H
#define LOCKAGENT_CORE_TIMERS_H

#include "core_assert.h"
#include "types.h"

struct timer_entry {
    struct instant at;
    uint32_t order; /* Order of arming; it wraps. */
    uint32_t timer; /* The number of the timer. */
};

/* At first no timer is armed. `heap` has room for `size` + 1 entries, and `places` has `size`
 * zeros. Both belong to the caller. */
struct timers {
    struct timer_entry *heap; /* The entries are heap[1..count]. */
    uint32_t *places;         /* Index in the heap of each timer, from 1; 0: it is not armed. */
    uint32_t size;            /* Timers are below it. */
    uint32_t count, order;
};

/* Arms `timer`, or moves it to another time. INSTANT_NEVER disarms it. */
void timers_set(struct timers *timers, uint32_t timer, struct instant at);
void timers_clear(struct timers *timers, uint32_t timer);
/* Returns the earliest timer. At least one must be armed. */
uint32_t timers_first(const struct timers *timers);
/* Returns the time of the earliest timer; INSTANT_NEVER if none is armed. */
static inline struct instant timers_due(const struct timers *timers)
{
    return timers->count == 0 ? INSTANT_NEVER : timers->heap[1].at;
}
static inline bool timers_is_armed(const struct timers *timers, uint32_t timer)
{
    CORE_ASSERT(timer < timers->size);
    return timers->places[timer] != 0;
}
/* Returns the time of that timer; INSTANT_NEVER if it is not armed. */
struct instant timers_at(const struct timers *timers, uint32_t timer);
/* Returns true if the timer is not armed, or if `places` has its right index. */
bool timers_know(const struct timers *timers, uint32_t timer);

#endif
