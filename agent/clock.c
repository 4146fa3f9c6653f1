/* Reads the clocks. */
#include "agent/clock.h"

#include <time.h>

#include "agent/core/core_assert.h"

static int64_t read_clock_us(clockid_t id)
{
    struct timespec now;
    int failed = clock_gettime(id, &now);
    CORE_ASSERT(failed == 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

struct instant clock_now(void)
{
    return (struct instant){read_clock_us(CLOCK_BOOTTIME)};
}

int64_t clock_wall_us(void)
{
    return read_clock_us(CLOCK_REALTIME);
}

bool clock_has_reached(struct instant at)
{
    return !instant_before(clock_now(), at);
}
