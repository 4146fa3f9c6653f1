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

/* ---- events ---------------------------------------------------------------------------------------------------- */

/* As in Redisson: a caller that names a ttl gets a plain lease, one that names none the watchdog; so does one that is bound. */
static enum renew renew_of(const struct event_acquire *event, const struct core_policy *policy)
{
    if (event->renew != RENEW_UNSET)
        return event->renew;
    if (event->bound)
        return RENEW_AGENT;
    return event->ttl_ms != 0 ? RENEW_CALLER : policy->renew;
}

static void take_terms(struct request *request, const struct event_acquire *event, const struct core_policy *policy)
{
    request->ttl_ms = event->ttl_ms != 0 ? event->ttl_ms : policy->ttl_ms;
    request->renew = renew_of(event, policy);
    request->bound = event->bound;
    request->max_hold_ms = event->bound ? policy->bound_max_hold_ms : policy->max_hold_ms;
    if (event->max_hold_ms != 0 && event->max_hold_ms < request->max_hold_ms)
        request->max_hold_ms = event->max_hold_ms;
    CORE_ASSERT(event->label.len <= LIMIT_LABEL_BYTES);
    request->label_len = (uint8_t)event->label.len;
    if (event->label.len > 0)
        memcpy(request->label, event->label.at, event->label.len);
    secret_take(&request->idempotency, event->idempotency);
    request->terms = idempotency_terms(event);
    if (policy->reentrant)
        secret_take(&request->owner, event->owner);
}

/* Who asks for what it has already is answered also while the agent drains: that is no new lock. */
static void acquire(struct core *core, const struct event_acquire *event)
{
    struct effect_answer refusal;
    struct key *key = key_get(core, event->key);
    if (key == NULL) {
        request_refuse(core, event->request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    struct request *request = request_new(core, event->request, key);
    int64_t wait_ms = event->wait_ms < core->wait_ms_max ? event->wait_ms : core->wait_ms_max;
    take_terms(request, event, &core->policies[key->policy]);
    if (idempotency_settles(core, request, wait_ms) || reentry_takes(core, request))
        return;
    if (core->draining && !MUTANT(DRAIN_GRANTS))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    else if (policy_allows_ttl(core, key, request->ttl_ms, request->renew, &refusal))
        queue_join(core, key, request, wait_ms);
    else
        request_answer(core, request, refusal);
}

/* What a PUT of a lock that this agent knows comes to. */
static void renew_known(struct core *core, struct lock *lock, struct request *request)
{
    struct effect_answer refusal;
    uint32_t ttl_ms = request->ttl_ms != 0 ? request->ttl_ms : lock->ttl_ms;
    enum renew renew = request->renew != RENEW_UNSET ? request->renew : lock->renew;
    if (lock->state == LOCK_LOST || (lock->state == LOCK_ENDED && lock->reason != REASON_NONE))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
    else if (lock->state != LOCK_HELD)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_NOT_HELD});
    else if (!policy_allows_ttl_of(core, lock, ttl_ms, renew, &refusal))
        request_answer(core, request, refusal);
    else
        hold_renew(core, lock, request);
}

/* True while this agent holds the key with another token: the masters need not be asked. */
static bool is_held_here(const struct core *core, const struct key *key)
{
    return key->live != NULL && lock_is_held(core, key->live);
}

static void renew(struct core *core, const struct event_renew *event)
{
    struct effect_answer refusal;
    struct key *key = key_get(core, event->key);
    if (key == NULL) {
        request_refuse(core, event->request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    struct request *request = request_new(core, event->request, key);
    request->ttl_ms = event->ttl_ms;
    struct lock *lock = lock_by_token(key, &event->token);
    request->renew = lock != NULL && lock->bound ? RENEW_AGENT : event->renew; /* D3: its connection is open still */
    uint32_t ttl_ms = event->ttl_ms != 0 ? event->ttl_ms : core->policies[key->policy].ttl_ms;
    if (lock != NULL)
        renew_known(core, lock, request);
    else if (is_held_here(core, key))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
    else if (core->draining)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    else if (!policy_allows_ttl(core, key, ttl_ms, event->renew, &refusal))
        request_answer(core, request, refusal);
    else
        adoption_begun(core, key, request, &event->token);
}

static void release_known(struct core *core, struct lock *lock, struct request *request)
{
    switch (lock->state) {
    case LOCK_HELD:
        if (reentry_left(core, lock))
            request_answer(core, request, answer_for_lock(ANSWER_RELEASED, lock));
        else
            release_begun(core, lock, request);
        break;
    case LOCK_RELEASING:
        request->state = REQUEST_RELEASING;
        list_append(&lock->requests, &request->link);
        break;
    case LOCK_LOST: /* the holder gives it up before its validity has ended: its keys need not wait */
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
        if (!reentry_left(core, lock))
            release_begun(core, lock, /* request= */ NULL);
        break;
    case LOCK_ENDED:
        if (lock->reason != REASON_NONE)
            request_answer(core, request, (struct effect_answer){.answer = ANSWER_LOCK_LOST, .reason = lock->reason});
        else
            request_answer(
                core, request,
                answer_for_lock(release_is_pending(core, lock) ? ANSWER_RELEASE_PENDING : ANSWER_NOT_HELD, lock));
        break;
    case LOCK_FREE:
    case LOCK_ACQUIRING:
    case LOCK_RAISING:
    case LOCK_ADOPTING:
        CORE_ASSERT(!"a lock that callers can name");
    }
}

static void release_by_idempotency(struct core *core, struct key *key, struct request *request, struct text text)
{
    struct secret secret = {0};
    secret_take(&secret, text);
    struct lock *lock = idempotency_released(core, key, &secret);
    if (lock == NULL)
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
    else
        release_known(core, lock, request);
}

static void release(struct core *core, const struct event_release *event)
{
    struct key *key = key_get(core, event->key);
    if (key == NULL) {
        request_refuse(core, event->request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
        return;
    }
    struct request *request = request_new(core, event->request, key);
    if (event->idempotency.len > 0) {
        release_by_idempotency(core, key, request, event->idempotency);
        return;
    }
    struct lock *lock = lock_by_token(key, &event->token);
    if (lock != NULL)
        idempotency_use_up(core, lock);
    if (lock != NULL)
        release_known(core, lock, request);
    else if (is_held_here(core, key))
        request_answer(core, request, (struct effect_answer){.answer = ANSWER_TOKEN_MISMATCH});
    else
        release_of_stranger(core, key, request, &event->token);
}

static void read_state(struct core *core, const struct event_read *event)
{
    struct key *key = key_get(core, event->key);
    if (key == NULL)
        request_refuse(core, event->request, (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS});
    else
        read_begun(core, key, request_new(core, event->request, key));
}

static void restore(struct core *core, const struct event_restore *event)
{
    struct key *key = key_get(core, event->key);
    if (key == NULL)
        return;
    key->references++;
    hold_restored(core, key, event);
    key_release(core, key);
}

/* A caller that goes away while it waits is never granted the lock. A release or renewal that it asked for goes on. */
static void cancel(struct core *core, uint32_t number)
{
    CORE_ASSERT(number < core->requests_max);
    struct request *request = &core->requests[number];
    if (request->state == REQUEST_FREE)
        return;
    struct key *key = request->key;
    bool queued = request->state == REQUEST_WAITING || request->state == REQUEST_ONCE;
    struct lock *live = key->live;
    bool contends = queued && live != NULL && live->contender == number;
    if (contends && MUTANT(GRANT_AFTER_CANCEL))
        return;
    key->references++;
    request_forget(core, request);
    if (contends)
        attempt_abandoned(core, live);
    if (queued)
        queue_left(core, key);
    key_release(core, key);
}

static void undelivered(struct core *core, struct lock_ref ref)
{
    struct lock *lock = lock_by_ref(core, ref);
    if (lock != NULL && (lock->state == LOCK_HELD || lock->state == LOCK_LOST) && !idempotency_keeps(lock) &&
        !reentry_left(core, lock) && !(lock->bound && MUTANT(BOUND_OUTLIVES_CALLER)))
        release_begun(core, lock, /* request= */ NULL);
}

static void stuck(struct core *core, struct lock_ref ref)
{
    struct lock *lock = lock_by_ref(core, ref);
    if (lock != NULL && lock->state == LOCK_HELD)
        hold_lost(core, lock, REASON_STUCK);
}

static void replied(struct core *core, const struct event_reply *reply)
{
    if (reply->op == OP_WITHDRAW)
        return; /* what was not withdrawn runs out */
    if (reply->op == OP_READ) {
        CORE_ASSERT(reply->ref.slot < core->requests_max);
        struct request *request = &core->requests[reply->ref.slot];
        if (request->state == REQUEST_READING && request->generation == reply->ref.generation &&
            request->round.number == reply->ref.round)
            read_reply(core, request, reply);
        return;
    }
    struct lock *lock = lock_by_ref(core, reply->ref);
    if (lock == NULL)
        return;
    if (reply->op == OP_HANDOVER) {
        release_inherited(core, lock, reply);
        if (lock->state == LOCK_FREE) /* it ended before, and has made room for its predecessor */
            return;
    }
    hold_heard(core, lock, reply);
    switch (lock->state) {
    case LOCK_ACQUIRING:
    case LOCK_RAISING:
        attempt_reply(core, lock, reply);
        break;
    case LOCK_ADOPTING:
        adoption_reply(core, lock, reply);
        break;
    case LOCK_HELD:
        hold_reply(core, lock, reply);
        break;
    case LOCK_RELEASING:
    case LOCK_ENDED:
        release_reply(core, lock, reply);
        break;
    case LOCK_LOST: /* it is too late for any reply */
        break;
    case LOCK_FREE:
        CORE_ASSERT(!"lock_by_ref finds no free lock");
    }
}

static void master_changed(struct core *core, enum event_kind kind, const struct event_master *event)
{
    CORE_ASSERT(event->group < core->group_count);
    struct group *group = &core->groups[event->group];
    CORE_ASSERT(event->master < group->config.masters);
    struct master *master = &group->masters[event->master];
    if (kind == EVENT_MASTER_DOWN) {
        master->up = false;
        group->up &= (master_set)~set_of(event->master);
        return;
    }
    master->clock_known = true;
    master->clock_offset_us = event->clock_offset_us;
    if (kind == EVENT_MASTER_UP) {
        CORE_ASSERT(event->epoch != 0);
        master->up = true;
        master->epoch = event->epoch;
        group->up |= set_of(event->master);
        release_master_up(core, event->group, event->master);
    }
}

/* Its attempt is under way, and will be decided soon. */
static bool is_contender(const struct request *request)
{
    const struct lock *live = request->key->live;
    return live != NULL && live->contender == request->slot;
}

static void answer_draining(struct core *core, struct request *request)
{
    struct key *key = request->key;
    key->references++;
    request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    queue_left(core, key);
    key_release(core, key);
}

/* Each of those who wait may be the last one of its key, whose channel is then left: whom the effects have no room for is
 * answered by its timer. */
static void drain(struct core *core)
{
    core->draining = true;
    for (uint32_t i = 0; i < core->requests_used; i++) {
        struct request *request = &core->requests[i];
        if ((request->state != REQUEST_WAITING && request->state != REQUEST_ONCE) || is_contender(request))
            continue;
        if (outbox_has_room(core))
            answer_draining(core, request);
        else
            timers_set(&core->timers, &request->timer, core->now);
    }
}

/* The holds are ended by their timers, as many a step as its effects can take. */
static void end_all(struct core *core, bool releases)
{
    core->draining = core->ending = true;
    core->ending_releases = releases;
    for (uint32_t i = 0; i < core->locks_used; i++) {
        struct lock *lock = &core->locks[i];
        if (lock->state == LOCK_HELD || lock->state == LOCK_LOST)
            timers_set(&core->timers, &lock->timer, core->now);
    }
}

static void take(struct core *core, const struct event *event)
{
    switch (event->kind) {
    case EVENT_TIME:
        break;
    case EVENT_ACQUIRE:
        acquire(core, &event->acquire);
        break;
    case EVENT_RENEW:
        renew(core, &event->renew);
        break;
    case EVENT_RELEASE:
        release(core, &event->release);
        break;
    case EVENT_RESTORE:
        restore(core, &event->restore);
        break;
    case EVENT_READ:
        read_state(core, &event->read);
        break;
    case EVENT_CANCEL:
        cancel(core, event->cancel.request);
        break;
    case EVENT_UNDELIVERED:
        undelivered(core, event->undelivered.lock);
        break;
    case EVENT_STUCK:
        stuck(core, event->stuck.lock);
        break;
    case EVENT_REPLY:
        replied(core, &event->reply);
        break;
    case EVENT_MASTER_UP:
    case EVENT_MASTER_DOWN:
    case EVENT_MASTER_CLOCK:
        master_changed(core, event->kind, &event->master);
        break;
    case EVENT_SUBSCRIBED:
        wake_subscribed(core, &event->channel);
        break;
    case EVENT_UNSUBSCRIBED:
        wake_unsubscribed(core, &event->channel);
        break;
    case EVENT_MESSAGE:
        wake_message(core, &event->channel);
        break;
    case EVENT_DRAIN:
        drain(core);
        break;
    case EVENT_END:
        end_all(core, event->end.release);
        break;
    }
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
    else if (core->draining && !is_contender(request))
        answer_draining(core, request);
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
        take(core, event);
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
