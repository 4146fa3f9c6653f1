/* Events in, effects out: the only caller of core_step() in the agent. */
#include "agent/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "agent/core/core_assert.h"
#include "agent/log.h"

enum {
    QUEUE = 1024,       /* events that may arise from the effects of one step */
    SLEEP_MS_MAX = 1000 /* epoll counts on a clock that stops in suspend: look at the boot clock at least so often */
};

struct loop {
    uv_loop_t *uv;
    uv_timer_t timer;
    struct instant armed; /* what the timer was set for */
    const struct config *config;
    struct metrics *metrics;
    struct redis *redis;
    struct api *api;
    struct core *core;
    bool stepping;
    struct event queue[QUEUE];
    size_t queued, taken;
    struct effects effects;
};

static int64_t read_clock_us(clockid_t id)
{
    struct timespec now;
    CORE_ASSERT(clock_gettime(id, &now) == 0);
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

static void fill_with_random(void *bytes, size_t size)
{
    uint8_t *at = bytes;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        CORE_ASSERT(got > 0 || errno == EINTR);
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        }
    }
}

static void refill_entropy(struct core *core)
{
    struct entropy *entropy = core_entropy(core);
    if (entropy->left >= ENTROPY_BYTES / 2)
        return;
    fill_with_random(entropy->bytes, sizeof(entropy->bytes));
    entropy->left = sizeof(entropy->bytes);
}

/* ---- effects --------------------------------------------------------------------------------------------------- */

static void log_trace(const struct loop *loop, const struct effect_trace *trace)
{
    const char *group = loop->config->groups[trace->group].name;
    switch (trace->kind) {
    case TRACE_GRANTED:
        log_event(trace->adopted ? LOG_INFO : LOG_DEBUG, trace->adopted ? "lock adopted" : "lock acquired",
                  LOG_BYTES_FIELD("key", trace->key), LOG_BYTES_FIELD("label", trace->label),
                  LOG_INT_FIELD("fencing_token", (int64_t)trace->fence), LOG_TEXT_FIELD("group", group),
                  LOG_INT_FIELD("waited_us", trace->elapsed_us));
        break;
    case TRACE_LOST:
        log_event(LOG_WARN, "lock lost", LOG_BYTES_FIELD("key", trace->key), LOG_BYTES_FIELD("label", trace->label),
                  LOG_TEXT_FIELD("reason", reason_name(trace->reason)), LOG_TEXT_FIELD("group", group),
                  LOG_INT_FIELD("held_ms", trace->elapsed_us / 1000));
        break;
    case TRACE_RELEASED:
        log_event(LOG_DEBUG, "lock released", LOG_BYTES_FIELD("key", trace->key),
                  LOG_BYTES_FIELD("label", trace->label), LOG_TEXT_FIELD("group", group),
                  LOG_INT_FIELD("held_ms", trace->elapsed_us / 1000));
        break;
    case TRACE_RENEW_FAILED:
        log_event(LOG_WARN, "renewal failed", LOG_BYTES_FIELD("key", trace->key), LOG_TEXT_FIELD("group", group));
        break;
    case TRACE_DEBT_DROPPED:
        log_event(LOG_WARN, "owed release dropped", LOG_BYTES_FIELD("key", trace->key), LOG_TEXT_FIELD("group", group));
        break;
    case TRACE_FOREIGN:
        log_event(LOG_ERROR, "a key of another type stands under a lock's name", LOG_BYTES_FIELD("key", trace->key),
                  LOG_TEXT_FIELD("group", group),
                  LOG_TEXT_FIELD("master", loop->config->groups[trace->group].masters[trace->master].url));
        break;
    case TRACE_STALLED:
        log_event(LOG_WARN, "this process was stopped or late", LOG_INT_FIELD("late_ms", trace->elapsed_us / 1000));
        break;
    case TRACE_ATTEMPT:
    case TRACE_RENEWED:
        break; /* too many for a log: metrics count them */
    }
}

static void deliver(struct loop *loop, const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_SEND:
        redis_send(loop->redis, &effect->send, &loop->effects.items[effect->send.first]);
        break;
    case EFFECT_ANSWER:
        api_answer(loop->api, &effect->answer);
        break;
    case EFFECT_TRACE:
        metrics_traced(loop->metrics, &effect->trace);
        log_trace(loop, &effect->trace);
        api_notify(loop->api, &effect->trace);
        break;
    }
}

/* ---- events ---------------------------------------------------------------------------------------------------- */

static void step(struct loop *loop, struct event *event)
{
    bool taken;
    do {
        event->now = clock_now();
        event->wall_us = clock_wall_us();
        refill_entropy(loop->core);
        taken = core_step(loop->core, event, &loop->effects);
        for (size_t i = 0; i < loop->effects.count; i++)
            deliver(loop, &loop->effects.list[i]);
    } while (!taken);
}

static void on_timer(uv_timer_t *timer);

/* Sleeps until the core's next deadline. A timer that is armed too early only wakes up for nothing, so it is moved only
 * forward. */
static void arm(struct loop *loop)
{
    struct instant due = core_next_deadline(loop->core);
    if (uv_is_closing((uv_handle_t *)&loop->timer))
        return;
    if (uv_is_active((const uv_handle_t *)&loop->timer) && !instant_before(due, loop->armed))
        return;
    int64_t sleep_us = due.us == INSTANT_NEVER.us ? INT64_MAX : instant_us_between(clock_now(), due);
    uint64_t sleep_ms = sleep_us <= 0                     ? 0
                        : sleep_us >= SLEEP_MS_MAX * 1000 ? SLEEP_MS_MAX
                                                          : (uint64_t)(sleep_us + 999) / 1000;
    loop->armed = due;
    uv_update_time(loop->uv);
    uv_timer_start(&loop->timer, on_timer, sleep_ms, 0);
}

void loop_submit(struct loop *loop, struct event *event)
{
    if (loop->stepping) {
        CORE_ASSERT(loop->queued < QUEUE);
        loop->queue[loop->queued++] = *event;
        return;
    }
    loop->stepping = true;
    step(loop, event);
    for (loop->taken = 0; loop->taken < loop->queued; loop->taken++) {
        struct event waiting = loop->queue[loop->taken];
        step(loop, &waiting);
    }
    loop->queued = 0;
    loop->stepping = false;
    arm(loop);
}

static void on_timer(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    struct instant due = core_next_deadline(loop->core);
    int64_t late_us = due.us == INSTANT_NEVER.us ? 0 : instant_us_between(due, clock_now());
    if (late_us >= 0)
        metrics_loop_lag(loop->metrics, late_us);
    loop_submit(loop, &(struct event){.kind = EVENT_TIME});
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

struct core *loop_core(struct loop *loop)
{
    return loop->core;
}

struct loop *loop_new(uv_loop_t *uv, const struct config *config, struct metrics *metrics)
{
    struct core_group groups[LIMIT_GROUPS];
    struct core_policy *policies = calloc(LIMIT_POLICIES, sizeof(*policies));
    const char *names[LIMIT_GROUPS];
    struct core_config core_config;
    uint64_t seed;
    struct loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL || policies == NULL)
        goto out_of_memory;
    fill_with_random(&seed, sizeof(seed));
    config_for_core(config, seed, groups, policies, names, &core_config);
    void *memory = calloc(1, core_size(&core_config));
    if (memory == NULL)
        goto out_of_memory;
    loop->uv = uv;
    loop->config = config;
    loop->metrics = metrics;
    loop->core = core_init(memory, &core_config);
    free(policies);
    uv_timer_init(uv, &loop->timer);
    loop->timer.data = loop;
    return loop;

out_of_memory:
    free(policies);
    free(loop);
    return NULL;
}

void loop_connect(struct loop *loop, struct redis *redis, struct api *api)
{
    loop->redis = redis;
    loop->api = api;
}

void loop_reload(struct loop *loop)
{
    struct core_policy *policies = calloc(LIMIT_POLICIES, sizeof(*policies));
    CORE_ASSERT(policies != NULL);
    for (size_t i = 0; i < loop->config->policy_count; i++)
        policies[i] = loop->config->policies[i].core;
    core_set_policies(loop->core, policies, loop->config->policy_count);
    free(policies);
}

void loop_stop(struct loop *loop)
{
    uv_close((uv_handle_t *)&loop->timer, NULL);
}

void loop_free(struct loop *loop)
{
    if (loop == NULL)
        return;
    free(loop->core);
    free(loop);
}
