/* A heap of timers that know their place. It is four wide, and the times stand in it: whoever moves
 * one of 100,000 timers looks at a few neighbouring entries on nine levels, and at no timer. */
#include "timers.h"

#include "core_assert.h"

enum { WIDTH = 4 };

static bool fires_before(const struct timer_entry *a, const struct timer_entry *b)
{
    /* less than 2^31 armings lie between two for the same moment */
    return a->at.us != b->at.us ? a->at.us < b->at.us : (int32_t)(a->order - b->order) < 0;
}

static struct timer *timer_of(const struct timers *timers, const struct timer_entry *entry)
{
    return (void *)(timers->base + entry->timer);
}

static void set_place(struct timer *timer, uint32_t place)
{
    CORE_ASSERT(place <= TIMER_PLACE_MAX);
    timer->place = place & TIMER_PLACE_MAX;
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
    set_place(timer_of(timers, entry), place);
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

/* Puts `entry` at `place`, or up or down from there, where it belongs. */
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

void timers_init(struct timers *timers, struct timer_entry *heap, uint32_t size, void *base)
{
    CORE_ASSERT(heap != NULL && size >= 1 && size <= TIMER_PLACE_MAX);
    *timers = (struct timers){.heap = heap, .size = size, .base = base};
}

bool timers_know(const struct timers *timers, const struct timer *timer)
{
    return timer->place == 0 || (timer->place <= timers->count &&
                                 timer_of(timers, &timers->heap[timer->place]) == timer);
}

static struct timer_entry entry_of(struct timers *timers, const struct timer *timer,
                                   struct instant at)
{
    size_t from_base = (size_t)((const char *)timer - timers->base);
    CORE_ASSERT((const char *)timer >= timers->base && from_base <= UINT32_MAX);
    return (struct timer_entry){at, ++timers->order, (uint32_t)from_base};
}

void timers_set(struct timers *timers, struct timer *timer, struct instant at)
{
    CORE_ASSERT(timers_know(timers, timer));
    if (at.us == timers_at(timers, timer).us)
        return;
    if (at.us == INSTANT_NEVER.us) {
        timers_clear(timers, timer);
        return;
    }
    if (timer->place == 0) {
        CORE_ASSERT(timers->count < timers->size);
        set_place(timer, ++timers->count);
    }
    settle(timers, timer->place, entry_of(timers, timer, at));
}

void timers_clear(struct timers *timers, struct timer *timer)
{
    CORE_ASSERT(timers_know(timers, timer));
    if (timer->place == 0)
        return;
    uint32_t place = timer->place;
    struct timer_entry last = timers->heap[timers->count--];
    set_place(timer, 0);
    if (timer_of(timers, &last) != timer)
        settle(timers, place, last);
}

struct timer *timers_first(const struct timers *timers)
{
    return timers->count == 0 ? NULL : timer_of(timers, &timers->heap[1]);
}

struct instant timers_due(const struct timers *timers)
{
    return timers->count == 0 ? INSTANT_NEVER : timers->heap[1].at;
}

struct instant timers_at(const struct timers *timers, const struct timer *timer)
{
    return timer->place == 0 ? INSTANT_NEVER : timers->heap[timer->place].at;
}
