/* A heap of width four that contains the times. One of 100,000 timers moves over nine levels at
 * most, and past four adjacent entries on each. */
#include "timers.h"

#include "core_assert.h"

enum { WIDTH = 4 };

static bool fires_before(const struct timer_entry *a, const struct timer_entry *b)
{
    /* Two entries for the same moment are fewer than 2^31 armings apart. */
    return a->at.us != b->at.us ? a->at.us < b->at.us : (int32_t)(a->order - b->order) < 0;
}

static uint32_t parent_of(uint32_t place)
{
    CORE_ASSERT(place >= 2);
    return (place - 2) / WIDTH + 1;
}

static uint32_t first_child_of(uint32_t place)
{
    return WIDTH * (place - 1) + 2;
}

static void put_at(struct timers *timers, uint32_t place, const struct timer_entry *entry)
{
    CORE_ASSERT(place >= 1 && place <= timers->count);
    timers->heap[place] = *entry;
    timers->places[entry->timer] = place;
}

static uint32_t earliest_child(const struct timers *timers, uint32_t place)
{
    uint32_t first = first_child_of(place), earliest = first;
    CORE_ASSERT(first <= timers->count);
    for (uint32_t child = first + 1; child < first + WIDTH && child <= timers->count; child++) {
        if (fires_before(&timers->heap[child], &timers->heap[earliest]))
            earliest = child;
    }
    return earliest;
}

/* Puts `entry` at `place`, or moves it up or down from there to its position. */
static void settle(struct timers *timers, uint32_t place, struct timer_entry entry)
{
    CORE_ASSERT(place >= 1 && place <= timers->count);
    for (; place > 1 && fires_before(&entry, &timers->heap[parent_of(place)]);
         place = parent_of(place))
        put_at(timers, place, &timers->heap[parent_of(place)]);
    while (first_child_of(place) <= timers->count) {
        uint32_t child = earliest_child(timers, place);
        if (!fires_before(&timers->heap[child], &entry))
            break;
        put_at(timers, place, &timers->heap[child]);
        place = child;
    }
    put_at(timers, place, &entry);
}

void timers_set(struct timers *timers, uint32_t timer, struct instant at)
{
    CORE_ASSERT(timers_know(timers, timer));
    if (at.us == timers_at(timers, timer).us)
        return;
    if (at.us == INSTANT_NEVER.us) {
        timers_clear(timers, timer);
        return;
    }
    uint32_t place = timers->places[timer];
    if (place == 0)
        place = ++timers->count;
    settle(timers, place, (struct timer_entry){at, ++timers->order, timer});
}

void timers_clear(struct timers *timers, uint32_t timer)
{
    CORE_ASSERT(timers_know(timers, timer));
    uint32_t place = timers->places[timer];
    if (place == 0)
        return;
    struct timer_entry last = timers->heap[timers->count--];
    timers->places[timer] = 0;
    if (last.timer != timer)
        settle(timers, place, last);
}

uint32_t timers_first(const struct timers *timers)
{
    CORE_ASSERT(timers->count > 0);
    return timers->heap[1].timer;
}

struct instant timers_at(const struct timers *timers, uint32_t timer)
{
    CORE_ASSERT(timer < timers->size);
    uint32_t place = timers->places[timer];
    return place == 0 ? INSTANT_NEVER : timers->heap[place].at;
}

bool timers_know(const struct timers *timers, uint32_t timer)
{
    CORE_ASSERT(timer < timers->size);
    uint32_t place = timers->places[timer];
    return place == 0 || (place <= timers->count && timers->heap[place].timer == timer);
}
