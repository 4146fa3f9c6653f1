/* Deadlines in a heap, ordered by (time, order of arming), so that equal deadlines fire in
 * order. */
#ifndef LOCKAGENT_CORE_TIMERS_H
#define LOCKAGENT_CORE_TIMERS_H

#include "types.h"

enum timer_owner { TIMER_OF_LOCK, TIMER_OF_KEY, TIMER_OF_REQUEST };

/* Lives inside its owner. All zero: not armed. */
struct timer {
    uint32_t place : 30; /* in the heap, from 1; 0: not armed */
    enum timer_owner owner : 2;
};

#define TIMER_PLACE_MAX ((1u << 30) - 1)

struct timer_entry {
    struct instant at;
    uint32_t order; /* of arming; it wraps */
    uint32_t timer; /* where it is, from timers.base */
};

struct timers {
    struct timer_entry *heap; /* heap[1..count] */
    uint32_t count, size, order;
    char *base;
};

/* `heap` has room for `size` entries and one more, at most TIMER_PLACE_MAX; it stays the caller's.
 * All timers are in the 4 GB from `base`. */
void timers_init(struct timers *timers, struct timer_entry *heap, uint32_t size, void *base);
/* Arms `timer`, or moves it if it is armed for another time. INSTANT_NEVER disarms. */
void timers_set(struct timers *timers, struct timer *timer, struct instant at);
void timers_clear(struct timers *timers, struct timer *timer);
/* The earliest, or NULL. */
struct timer *timers_first(const struct timers *timers);
/* When the earliest fires; INSTANT_NEVER: none is armed. */
struct instant timers_due(const struct timers *timers);
/* It is not armed, or stands in the heap where it believes. */
bool timers_know(const struct timers *timers, const struct timer *timer);
/* When that one fires; INSTANT_NEVER: it is not armed. */
struct instant timers_at(const struct timers *timers, const struct timer *timer);

#endif
