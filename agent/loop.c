/* Passes events to the core and its effects to the rooms: the only caller of core_step() in the
 * agent. */
#include "agent/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "agent/alarm.h"
#include "agent/clock.h"
#include "agent/clock_watch.h"
#include "agent/core/core_assert.h"
#include "agent/log.h"
#include "agent/redis/asking.h"

enum { QUEUE = 1024 }; /* Limit of the events that arise from the effects of one step. */

struct loop {
    struct alarm alarm; /* Rings at the core's next deadline. */
    struct clock_watch clock_watch;
    uv_check_t turns;
    uint64_t turn_began_ns, asleep_ns; /* By uv_hrtime(), in ns; `asleep_ns` counts from the start
                                        * of the loop. */
    const struct config *config;
    struct metrics *metrics;
    struct redis *redis;
    struct loop_sink sink;
    struct journal *journal; /* NULL: no journal is kept. */
    bool journal_fails;      /* The last write to the journal failed, and this was logged. */
    struct core *core;
    bool stepping;
    struct event queue[QUEUE];
    size_t queued, taken;
    struct effects effects;
};

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

/* ---- effects ---- */

/* Logs the end of a hold. A lease that its caller does not renew ends on time, and a hold that was
 * continued or released at another agent was not lost. So neither is a warning. */
static void log_lost(const struct effect_trace *trace, const char *group)
{
    bool elsewhere = reason_is_elsewhere(trace->reason);
    log_event(trace->reason == REASON_EXPIRED || elsewhere ? LOG_INFO : LOG_WARN,
              elsewhere ? "lock ended elsewhere" : "lock lost", LOG_BYTES_FIELD("key", trace->key),
              LOG_BYTES_FIELD("label", trace->label),
              LOG_TEXT_FIELD("reason", reason_name(trace->reason)), LOG_TEXT_FIELD("group", group),
              LOG_INT_FIELD("held_ms", trace->elapsed_us / 1000));
}

/* Logs a key that is not lockagent's. Of an invalid number the key is named as well: it does not
 * show in the name of the lock. */
static void log_foreign(const struct loop *loop, const struct effect_trace *trace)
{
    const struct config_group *group = &loop->config->groups[trace->group];
    const struct config_policy *policy = &loop->config->policies[trace->policy];
    char bytes[ASKING_NUMBER_KEY_BYTES];
    struct text number = {"", 0};
    if (trace->spoiled && !trace->tickets)
        number =
            asking_number_key(bytes, policy, trace->key, policy->core.permits > 1, trace->slot);
    log_event(
        LOG_ERROR,
        trace->tickets   ? "key of tickets has another type: the master has no vote on this lock"
        : trace->spoiled ? "stored fencing number is invalid: the master has no vote on this lock"
                         : "a key of another type has a lock's name",
        LOG_BYTES_FIELD("key", trace->key), LOG_BYTES_FIELD("number_key", number),
        LOG_TEXT_FIELD("group", group->name),
        LOG_TEXT_FIELD("master", group->masters[trace->master].url));
}

static void log_trace(const struct loop *loop, const struct effect_trace *trace)
{
    const char *group = loop->config->groups[trace->group].name;
    switch (trace->kind) {
    case TRACE_GRANTED:
        log_event(trace->adopted ? LOG_INFO : LOG_DEBUG,
                  trace->adopted ? "lock adopted" : "lock acquired",
                  LOG_BYTES_FIELD("key", trace->key), LOG_BYTES_FIELD("label", trace->label),
                  LOG_INT_FIELD("fencing_token", (int64_t)trace->fence),
                  LOG_TEXT_FIELD("group", group), LOG_INT_FIELD("waited_us", trace->elapsed_us));
        break;
    case TRACE_LOST:
        log_lost(trace, group);
        break;
    case TRACE_RELEASED:
        log_event(LOG_DEBUG, "lock released", LOG_BYTES_FIELD("key", trace->key),
                  LOG_BYTES_FIELD("label", trace->label), LOG_TEXT_FIELD("group", group),
                  LOG_INT_FIELD("held_ms", trace->elapsed_us / 1000));
        break;
    case TRACE_RENEW_FAILED:
        /* Later failures of the hold are counted by metrics only. Right after a start most masters
         * are not reached yet. */
        if (!trace->failing)
            log_event(trace->resumed ? LOG_INFO : LOG_WARN, "renewal failed",
                      LOG_BYTES_FIELD("key", trace->key), LOG_TEXT_FIELD("group", group));
        break;
    case TRACE_RENEWED:
        if (trace->failing)
            log_event(LOG_INFO, "renewal succeeded again", LOG_BYTES_FIELD("key", trace->key),
                      LOG_TEXT_FIELD("group", group));
        break;
    case TRACE_DEBT_DROPPED:
        log_event(LOG_WARN, "owed release dropped", LOG_BYTES_FIELD("key", trace->key),
                  LOG_TEXT_FIELD("group", group));
        break;
    case TRACE_FOREIGN:
        log_foreign(loop, trace);
        break;
    case TRACE_STALLED:
        log_event(LOG_WARN, "process was stopped or late",
                  LOG_INT_FIELD("late_ms", trace->elapsed_us / 1000));
        break;
    case TRACE_CLOCK_GAINED:
        log_event(
            LOG_WARN, "master's clock gained on this agent's: one of them stopped or jumped",
            LOG_TEXT_FIELD("group", group),
            LOG_TEXT_FIELD("master", loop->config->groups[trace->group].masters[trace->master].url),
            LOG_INT_FIELD("gained_ms", trace->elapsed_us / 1000));
        break;
    case TRACE_ATTEMPT:
        break; /* Too frequent for the log; metrics count them. */
    }
}

void loop_log_quorum(const struct config *config, uint8_t group,
                     const struct redis_group_view *view)
{
    bool is_lost = view->up < view->quorum;
    log_event(is_lost ? LOG_ERROR : LOG_INFO,
              is_lost ? "group lost its quorum" : "group has its quorum again",
              LOG_TEXT_FIELD("group", config->groups[group].name),
              LOG_INT_FIELD("masters_up", (int64_t)view->up),
              LOG_INT_FIELD("quorum", (int64_t)view->quorum),
              LOG_INT_FIELD("masters", (int64_t)view->total));
}

/* Writes the hold to the journal. If this fails, the agent goes on; only a restart would forget the
 * hold. */
static void note_hold(struct loop *loop, const struct effect_hold *hold)
{
    if (loop->journal == NULL)
        return;
    bool fails = !journal_note(loop->journal, hold);
    if (fails)
        metrics_journal_failed(loop->metrics);
    if (fails != loop->journal_fails)
        log_event(fails ? LOG_ERROR : LOG_INFO,
                  fails ? "journal could not be written: a restart forgets holds that are not in it"
                        : "journal is written again",
                  LOG_TEXT_FIELD("file", loop->config->journal_file));
    loop->journal_fails = fails;
}

static void deliver(struct loop *loop, const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_SEND:
        redis_send(loop->redis, &effect->send, &loop->effects.items[effect->send.first]);
        break;
    case EFFECT_WATCH:
        redis_watch(loop->redis, &effect->watch);
        break;
    case EFFECT_UNWATCH:
        redis_unwatch(loop->redis, &effect->watch);
        break;
    case EFFECT_READ_CLOCKS:
        redis_read_clocks(loop->redis, effect->group);
        break;
    case EFFECT_ANSWER:
        loop->sink.answer(loop->sink.arg, &effect->answer);
        break;
    case EFFECT_FOLLOWED:
        loop->sink.followed(loop->sink.arg, &effect->followed);
        break;
    case EFFECT_HOLD:
        note_hold(loop, &effect->hold);
        break;
    case EFFECT_TRACE:
        metrics_traced(loop->metrics, &effect->trace);
        log_trace(loop, &effect->trace);
        if (loop->sink.trace != NULL)
            loop->sink.trace(loop->sink.arg, &effect->trace);
        break;
    }
}

/* ---- events ---- */

static void step_core(struct loop *loop, struct event *event)
{
    struct entropy *entropy = core_entropy(loop->core);
    bool taken;
    do {
        event->now = clock_now();
        event->wall_us = clock_wall_us();
        if (entropy->left < ENTROPY_BYTES / 2) {
            fill_with_random(entropy->bytes, sizeof(entropy->bytes));
            entropy->left = sizeof(entropy->bytes);
        }
        taken = core_step(loop->core, event, &loop->effects);
        for (size_t i = 0; i < loop->effects.count; i++)
            deliver(loop, &loop->effects.list[i]);
    } while (!taken);
}

void loop_submit(struct loop *loop, struct event *event)
{
    if (loop->stepping) {
        CORE_ASSERT(loop->queued < QUEUE);
        loop->queue[loop->queued++] = *event;
        return;
    }
    loop->stepping = true;
    step_core(loop, event);
    for (loop->taken = 0; loop->taken < loop->queued; loop->taken++) {
        struct event waiting = loop->queue[loop->taken];
        step_core(loop, &waiting);
    }
    loop->queued = 0;
    loop->stepping = false;
    /* An alarm that is too early does no harm, and most deadlines are moved before they come. */
    struct instant due = core_next_deadline(loop->core);
    if (instant_before(due, loop->alarm.at))
        alarm_set(&loop->alarm, due);
    if (core_awaits_flush(loop->core))
        redis_turn_soon(loop->redis);
}

void loop_flush(struct loop *loop)
{
    CORE_ASSERT(!loop->stepping);
    while (core_awaits_flush(loop->core))
        loop_submit(loop, &(struct event){.kind = EVENT_FLUSH});
}

static void on_deadline(void *arg)
{
    struct loop *loop = arg;
    struct instant due = core_next_deadline(loop->core);
    int64_t late_us = due.us == INSTANT_NEVER.us ? 0 : instant_us_between(due, clock_now());
    if (late_us >= 0)
        metrics_loop_lag(loop->metrics, late_us);
    loop_submit(loop, &(struct event){.kind = EVENT_TIME});
}

/* Reads all masters' clocks, because this machine may have been paused (R14). */
static void on_clock_set(void *arg)
{
    struct loop *loop = arg;
    for (size_t group = 0; group < loop->config->group_count && loop->redis != NULL; group++)
        redis_read_clocks(loop->redis, (uint8_t)group);
}

/* Measures the turn that ends now, without the time in which the loop slept. The loop has just
 * polled its sockets. */
static void turn_ended(uv_check_t *check)
{
    struct loop *loop = check->data;
    uint64_t now_ns = uv_hrtime(), asleep_ns = uv_metrics_idle_time(check->loop);
    if (loop->turn_began_ns != 0) {
        uint64_t took_ns = now_ns - loop->turn_began_ns, slept_ns = asleep_ns - loop->asleep_ns;
        metrics_loop_turn(loop->metrics,
                          took_ns < slept_ns ? 0 : (int64_t)(took_ns - slept_ns) / 1000);
    }
    loop->turn_began_ns = now_ns;
    loop->asleep_ns = asleep_ns;
}

/* ---- life ---- */

struct core *loop_core(struct loop *loop)
{
    return loop->core;
}

uint32_t loop_agent_name(void)
{
    uint32_t name;
    fill_with_random(&name, sizeof(name));
    return name;
}

struct loop *loop_new(uv_loop_t *uv, const struct config *config, struct metrics *metrics,
                      uint32_t agent)
{
    struct core_group groups[LIMIT_GROUPS];
    struct core_policy *policies = calloc(LIMIT_POLICIES, sizeof(*policies));
    const char *names[LIMIT_GROUPS];
    struct core_config core_config;
    uint64_t seed;
    struct loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL || policies == NULL || !alarm_open(&loop->alarm, uv, on_deadline, loop))
        goto failed;
    fill_with_random(&seed, sizeof(seed));
    config_for_core(config, seed, groups, policies, names, &core_config);
    core_config.agent = agent;
    void *memory = calloc(1, core_size(&core_config));
    if (memory == NULL) {
        alarm_close(&loop->alarm);
        goto failed;
    }
    loop->config = config;
    loop->metrics = metrics;
    loop->core = core_init(memory, &core_config);
    uv_loop_configure(uv, UV_METRICS_IDLE_TIME);
    uv_check_init(uv, &loop->turns);
    loop->turns.data = loop;
    uv_check_start(&loop->turns, turn_ended);
    uv_unref((uv_handle_t *)&loop->turns);
    if (!clock_watch_open(&loop->clock_watch, uv, on_clock_set, loop))
        log_event(LOG_WARN,
                  "clock watch could not be opened: masters' clocks are read only once a second",
                  LOG_INT_FIELD("errno", errno));
    free(policies);
    return loop;

failed:
    free(policies);
    free(loop);
    return NULL;
}

void loop_connect(struct loop *loop, struct redis *redis, const struct loop_sink *sink)
{
    loop->redis = redis;
    loop->sink = *sink;
}

void loop_keep_journal(struct loop *loop, struct journal *journal)
{
    loop->journal = journal;
}

bool loop_reload(struct loop *loop, const struct config *next)
{
    struct core_policy *policies = calloc(LIMIT_POLICIES, sizeof(*policies));
    if (policies == NULL)
        return false;
    for (size_t i = 0; i < next->policy_count; i++)
        policies[i] = next->policies[i].core;
    core_set_policies(loop->core, policies, next->policy_count);
    free(policies);
    return true;
}

void loop_stop(struct loop *loop)
{
    uv_close((uv_handle_t *)&loop->turns, NULL);
    clock_watch_close(&loop->clock_watch);
    alarm_close(&loop->alarm);
}

void loop_free(struct loop *loop)
{
    if (loop == NULL)
        return;
    free(loop->core);
    free(loop);
}
