/* The step: first what has expired, then the event; and the tables' memory. */
#include "core.h"

#include <string.h>

#include "core_assert.h"
#include "state.h"

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* What the tables need, and where each begins: one pass measures, the same pass places. */
struct layout {
    uint8_t *at;
    size_t size;
};

static void *place(struct layout *layout, size_t count, size_t size)
{
    size_t offset = (layout->size + 15) & ~(size_t)15;
    layout->size = offset + count * size;
    return layout->at == NULL ? NULL : layout->at + offset;
}

static uint32_t power_of_two_from(uint32_t least)
{
    uint32_t size = 16;
    while (size < least)
        size *= 2;
    return size;
}

/* As many ended locks are remembered as there may be live ones. What is freed is used again only after the step, and within
 * a step every request begins one lock at most, so these are enough. */
static size_t lay_out(struct core *core, const struct core_config *config, uint8_t *memory)
{
    struct layout layout = {.at = memory, .size = sizeof(struct core)};
    uint32_t locks = 2 * config->locks_max + config->requests_max + 1, keys = locks + config->requests_max;
    uint32_t buckets = power_of_two_from(keys);
    struct lock *lock_table = place(&layout, locks, sizeof(struct lock));
    struct key *key_table = place(&layout, keys, sizeof(struct key));
    struct request *request_table = place(&layout, config->requests_max, sizeof(struct request));
    struct key **bucket_table = place(&layout, buckets, sizeof(struct key *));
    uint32_t timers = locks + keys + config->requests_max;
    struct timer **heap = place(&layout, timers + 1, sizeof(struct timer *));
    if (core != NULL) {
        core->locks = lock_table, core->locks_size = locks;
        core->keys = key_table, core->keys_size = keys;
        core->requests = request_table;
        core->buckets = bucket_table, core->bucket_count = buckets;
        timers_init(&core->timers, heap, timers);
    }
    return layout.size;
}

size_t core_size(const struct core_config *config)
{
    return lay_out(NULL, config, NULL);
}

static void check_config(const struct core_config *config)
{
    CORE_ASSERT(config->group_count >= 1 && config->group_count <= LIMIT_GROUPS);
    CORE_ASSERT(config->locks_max >= 1 && config->locks_max <= LIMIT_LOCKS);
    CORE_ASSERT(config->requests_max >= 1 && config->requests_max <= LIMIT_REQUESTS);
    for (size_t i = 0; i < config->group_count; i++)
        CORE_ASSERT(config->groups[i].masters >= 1 && config->groups[i].masters <= LIMIT_MASTERS);
}

static uint64_t agent_name(uint64_t seed)
{
    struct random random;
    random_seed(&random, ~seed);
    return random_next(&random) | 1;
}

struct core *core_init(void *memory, const struct core_config *config)
{
    check_config(config);
    struct core *core = memory;
    lay_out(core, config, memory);
    core->locks_max = core->ended_max = config->locks_max;
    core->requests_max = config->requests_max;
    core->waiters_max = config->waiters_max;
    core->max_ttl_ms = config->max_ttl_ms;
    core->wait_ms_max = config->wait_ms_max;
    core->journal = config->journal;
    core->group_count = config->group_count;
    for (size_t i = 0; i < config->group_count; i++) {
        core->groups[i].config = config->groups[i];
        core->groups[i].name_hash = hash_bytes(0, 0, config->group_names[i], strlen(config->group_names[i]));
    }
    random_seed(&core->random, config->seed);
    core->hash_key[0] = random_next(&core->random);
    core->hash_key[1] = random_next(&core->random);
    core->agent = agent_name(config->seed);
    list_init(&core->settled);
    list_init(&core->locks_free);
    list_init(&core->locks_retired);
    list_init(&core->locks_ended);
    list_init(&core->locks_remembered);
    core_set_policies(core, config->policies, config->policy_count);
    return core;
}

void core_set_policies(struct core *core, const struct core_policy *policies, size_t count)
{
    CORE_ASSERT(count >= 1 && count <= LIMIT_POLICIES);
    CORE_ASSERT(core->policy_count == 0 || core->policy_count == count);
    for (size_t i = 0; i < count; i++) {
        CORE_ASSERT(policies[i].renew != RENEW_UNSET);
        CORE_ASSERT(policies[i].lock_delay_ms < core->max_ttl_ms);
        CORE_ASSERT(policies[i].group_count >= 1 && policies[i].group_count <= LIMIT_GROUPS);
        core->policies[i] = policies[i];
    }
    core->policy_count = count;
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

static void lock_timer(struct core *core, struct lock *lock)
{
    switch (lock->state) {
    case LOCK_ACQUIRING:
    case LOCK_RAISING:
        attempt_timer(core, lock);
        break;
    case LOCK_ADOPTING:
        adoption_timer(core, lock);
        break;
    case LOCK_HELD:
    case LOCK_LOST:
        hold_timer(core, lock);
        break;
    case LOCK_RELEASING:
        release_timer(core, lock);
        break;
    case LOCK_ENDED:
        release_owed_timer(core, lock);
        break;
    case LOCK_FREE:
        CORE_ASSERT(!"a free lock has no timer");
    }
}

static void request_timer(struct core *core, struct request *request)
{
    if (request->state == REQUEST_READING)
        read_timer(core, request);
    else if (core->draining && !request_contends(request))
        request_refused_by_drain(core, request);
    else
        queue_wait_over(core, request);
}

/* R14: whatever was due by now is observed before anything is done. False when the effects filled up before all of it
 * was. */
static bool observe(struct core *core)
{
    requests_settle(core);
    struct timer *timer;
    while ((timer = timers_first(&core->timers)) != NULL && !instant_before(core->now, timer->at)) {
        if (!outbox_has_room(core))
            return false;
        timers_clear(&core->timers, timer);
        switch (timer->owner) {
        case TIMER_OF_LOCK:
            lock_timer(core, CONTAINER_OF(timer, struct lock, timer));
            break;
        case TIMER_OF_KEY:
            queue_retry_timer(core, CONTAINER_OF(timer, struct key, retry));
            break;
        case TIMER_OF_REQUEST:
            request_timer(core, CONTAINER_OF(timer, struct request, timer));
            break;
        }
    }
    return outbox_has_room(core);
}

/* R14: a step that comes much later than it was asked for means that this process was stopped or its loop was stuck. A
 * wall clock that jumped against the boot clock makes what is known of the masters' clocks relative to it stale by just
 * that much. */
static void notice_lateness(struct core *core, const struct event *event)
{
    struct instant due = instant_max(core_next_deadline(core), core->now); /* one set in the past is no stall */
    int64_t late_us = core->started && due.us != INSTANT_NEVER.us ? instant_us_between(due, event->now) : 0;
    if (!core->unfinished)
        core->stalled = late_us > (int64_t)STALL_MS * 1000;
    if (core->stalled && !core->unfinished)
        outbox_effect(core, EFFECT_TRACE)->trace = (struct effect_trace){.kind = TRACE_STALLED, .elapsed_us = late_us};
    int64_t jump_us = (event->wall_us - core->wall_us) - instant_us_between(core->now, event->now);
    int64_t limit_us = (int64_t)CLOCK_TRUST_MS * 1000;
    if (core->started && (jump_us > limit_us || jump_us < -limit_us)) {
        for (size_t g = 0; g < core->group_count; g++) {
            for (uint8_t m = 0; m < core->groups[g].config.masters; m++)
                core->groups[g].masters[m].clock_offset_us -= jump_us;
        }
    }
}

bool core_step(struct core *core, const struct event *event, struct effects *effects)
{
    CORE_ASSERT(!core->started || !instant_before(event->now, core->now));
    effects->count = effects->item_count = 0;
    core->effects = effects;
    lock_table_recycle(core);
    notice_lateness(core, event);
    if (MUTANT(WALL_CLOCK_USED) && core->started)
        core->now = instant_after_us(core->now, event->wall_us > core->wall_us ? event->wall_us - core->wall_us : 0);
    else
        core->now = event->now;
    core->wall_us = event->wall_us;
    core->started = true;
    bool observed = MUTANT(LATE_CLOCK_ACTS) || observe(core);
    outbox_flush(core);
    if (observed) {
        event_take(core, event);
        outbox_flush(core);
    }
    if (MUTANT(LATE_CLOCK_ACTS)) {
        observe(core);
        outbox_flush(core);
    }
    core->effects = NULL;
    core->unfinished = !observed;
    return observed;
}

struct instant core_next_deadline(const struct core *core)
{
    if (!list_is_empty(&core->settled))
        return core->now;
    const struct timer *first = timers_first(&core->timers);
    return first == NULL ? INSTANT_NEVER : first->at;
}

/* ---- looking in ------------------------------------------------------------------------------------------------ */

struct entropy *core_entropy(struct core *core)
{
    return &core->entropy;
}

const struct core_stats *core_stats(const struct core *core)
{
    return &core->stats;
}

bool core_next_hold(const struct core *core, struct instant now, uint32_t *cursor, struct hold_view *ret_view)
{
    while (*cursor < core->locks_used) {
        const struct lock *lock = &core->locks[(*cursor)++];
        if (lock->state != LOCK_HELD || !instant_before(now, lock->valid_until))
            continue;
        *ret_view = lock_view(lock);
        return true;
    }
    return false;
}

bool core_next_wait(const struct core *core, uint32_t *cursor, struct text *ret_key, struct instant *ret_since)
{
    while (*cursor < core->requests_used) {
        const struct request *request = &core->requests[(*cursor)++];
        if (request->state != REQUEST_WAITING)
            continue;
        *ret_key = key_text(request->key);
        *ret_since = request->came_at;
        return true;
    }
    return false;
}
