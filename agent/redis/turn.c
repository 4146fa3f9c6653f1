/* One turn of the loop after the other, until everything has closed (turn.h). */
#include "agent/redis/turn.h"
#include "agent/redis/health.h"
#include "agent/redis/marker.h"
#include "agent/redis/operations.h"
#include "agent/redis/phases.h"
#include "agent/redis/replication.h"
#include "agent/redis/subscriber.h"

/* How often what the core sends while the room closes is still answered. */
enum { LAST_REPORTS = 100 };

/* What the core has sent since the last turn is reported before the room is done. */
static void on_turn_closed(uv_handle_t *handle)
{
    struct redis *redis = handle->data;
    if (--redis->open_turn > 0)
        return;
    for (unsigned i = 0; redis->unsent != NULL && i < LAST_REPORTS; i++)
        operations_report_unsent(redis);
    redis->done(redis->done_arg);
}

/* Ends everything that is open; when libuv has let go of it and nothing is left to report, the
 * turn's own handles go. */
static void stop_all(struct redis *redis)
{
    for (size_t i = 0; i < redis->master_count; i++)
        phases_stop(&redis->masters[i]);
    if (redis->unsent != NULL || redis->open > 0)
        return;
    redis->closing = true;
    uv_close((uv_handle_t *)&redis->tick, on_turn_closed);
    uv_close((uv_handle_t *)&redis->idle, on_turn_closed);
    uv_close((uv_handle_t *)&redis->prepare, on_turn_closed);
}

static void on_redis_turn(uv_prepare_t *prepare)
{
    struct redis *redis = prepare->data;
    if (!redis->work)
        return;
    if (redis->sink.about_to_write != NULL)
        redis->sink.about_to_write(redis->sink.arg);
    redis->work = false;
    operations_report_unsent(redis);
    for (size_t i = 0; i < redis->master_count; i++) {
        struct master *master = &redis->masters[i];
        if (master->pipeline != NULL) {
            replication_turn(master);
            pipeline_turn(master->pipeline);
        }
        subscriber_turn(master);
    }
    if (redis->stopping)
        stop_all(redis);
    if (!redis->work && !redis->closing)
        uv_idle_stop(&redis->idle);
}

static void on_tick(uv_timer_t *timer)
{
    struct redis *redis = timer->data;
    for (size_t i = 0; i < redis->master_count; i++)
        phases_tick(&redis->masters[i]);
    for (uint8_t group = 0; group < redis->config->group_count; group++) {
        health_look(redis, group);
        marker_tick(redis, group);
    }
}

void turn_start(struct redis *redis)
{
    uv_prepare_init(redis->loop, &redis->prepare);
    uv_idle_init(redis->loop, &redis->idle);
    uv_timer_init(redis->loop, &redis->tick);
    redis->open_turn = 3;
    redis->prepare.data = redis->idle.data = redis->tick.data = redis;
    uv_prepare_start(&redis->prepare, on_redis_turn);
    uv_timer_start(&redis->tick, on_tick, TICK_MS, TICK_MS);
}
