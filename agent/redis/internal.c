/* What every module may do to the room (internal.h). */
#include "agent/redis/internal.h"
#include "agent/core/core_assert.h"

static void stay_awake(uv_idle_t *idle)
{
    (void)idle; /* that it is active makes the loop look for events without sleeping */
}

void redis_wake(struct redis *redis)
{
    redis->work = true;
    if (!redis->closing)
        uv_idle_start(&redis->idle, stay_awake);
}

void redis_closed(struct redis *redis)
{
    CORE_ASSERT(redis->open > 0);
    if (--redis->open == 0)
        redis_wake(redis); /* it may have been what a stop waits for */
}

struct instant redis_now(void)
{
    return (struct instant){(int64_t)(uv_hrtime() / 1000)};
}

uint64_t redis_random(struct redis *redis)
{
    uint64_t x = redis->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}
