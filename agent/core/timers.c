/* A binary heap of timers that know their place. */
#include "timers.h"

#include "core_assert.h"

static bool fires_before(const struct timer *a, const struct timer *b)
{
    return a->at.us != b->at.us ? a->at.us < b->at.us : a->order < b->order;
}

static void put(struct timers *timers, uint32_t place, struct timer *timer)
{
    timers->heap[place] = timer;
    timer->place = place;
}

static void sift_up(struct timers *timers, struct timer *timer)
{
    uint32_t place = timer->place;
    for (; place > 1 && fires_before(timer, timers->heap[place / 2]); place /= 2)
        put(timers, place, timers->heap[place / 2]);
    put(timers, place, timer);
}

static void sift_down(struct timers *timers, struct timer *timer)
{
    uint32_t place = timer->place;
    for (;;) {
        uint32_t child = 2 * place;
        if (child > timers->count)
            break;
        if (child < timers->count && fires_before(timers->heap[child + 1], timers->heap[child]))
            child++;
        if (!fires_before(timers->heap[child], timer))
            break;
        put(timers, place, timers->heap[child]);
        place = child;
    }
    put(timers, place, timer);
}

void timers_init(struct timers *timers, struct timer **heap, uint32_t size)
{
    *timers = (struct timers){.heap = heap, .size = size};
}

void timers_set(struct timers *timers, struct timer *timer, struct instant at)
{
    if (at.us == INSTANT_NEVER.us) {
        timers_clear(timers, timer);
        return;
    }
    timer->at = at;
    timer->order = ++timers->order;
    if (timer->place == 0) {
        CORE_ASSERT(timers->count < timers->size);
        timer->place = ++timers->count;
        timers->heap[timer->place] = timer;
    }
    sift_up(timers, timer);
    sift_down(timers, timer);
}

void timers_clear(struct timers *timers, struct timer *timer)
{
    if (timer->place == 0)
        return;
    struct timer *last = timers->heap[timers->count--];
    if (last != timer) {
        put(timers, timer->place, last);
        sift_up(timers, last);
        sift_down(timers, last);
    }
    timer->place = 0;
}

struct timer *timers_first(const struct timers *timers)
{
    return timers->count == 0 ? NULL : timers->heap[1];
}
