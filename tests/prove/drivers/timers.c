/* A heap in which TIMERS timers are in order, three levels deep; then CALLS of them are armed,
 * moved or disarmed, in any order, each for any place in the order.
 *
 * sources: agent/core/timers.c
 * options: -eva-precision 2 -eva-slevel 100000
 *   -inline-calls timers_set,timers_clear,settle,put_at,earliest_child */
#include "agent/core/timers.h"
#include "tests/prove/prove.h"

enum { TIMERS = 6, CALLS = 2 };

static struct timer_entry heap[TIMERS + 2];
static uint32_t places[TIMERS + 1];

int main(void)
{
    struct timers timers = {heap, places, TIMERS + 1, 0, 0};
    for (uint32_t i = 0; i < TIMERS; i++)
        timers_set(&timers, i, (struct instant){2 * i + 1});
    for (int i = 0; i < CALLS; i++) {
        uint32_t timer = (uint32_t)Frama_C_interval_split(0, TIMERS);
        struct instant at = {4 * Frama_C_interval_split(0, TIMERS / 2)};
        if (at.us == 2 * TIMERS)
            at = INSTANT_NEVER;
        timers_set(&timers, timer, at);
        timers_due(&timers);
        if (timers.count > 0)
            timers_is_armed(&timers, timers_first(&timers));
    }
    return 0;
}
