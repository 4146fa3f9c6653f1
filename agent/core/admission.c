/* Bounds the rounds in flight by the speed of the masters (R16).
 *
 *   a key needs a round --> queue of its group --EVENT_FLUSH--> in flight --> the next may begin
 *                           in order of arrival  below the limit  decided, or abandoned
 *
 * If the masters get more rounds than they can answer in time, each round outlives node_timeout, is
 * undone, and is asked again: the more rounds, the fewer answers. So the limit grows by
 * ROUNDS_GROWTH a round trip while keys wait and the masters are quick. It is halved if a decision
 * takes more than half of the time between the quickest decision and node_timeout. That happens at
 * most once per such time, because the rounds in flight then were asked under the earlier limit.
 *
 * A key that waits has sent nothing. Its round, and the clock of the round, begin right before the
 * bytes are written (R4). Only rounds for locks that this agent does not hold are counted.
 * Hand-overs, releases, renewals, repairs and undoing relieve the masters or keep promises, and
 * never wait.
 *
 * Guests are reads and adoptions of locks that this agent does not hold. They have a queue of their
 * own. A quarter of the limit is always theirs, so that many acquires do not keep them out. They
 * may have more only if no key waits, so that they cost an acquire little. They do not move the
 * limit.
 *
 * Masters that do not reply to anything are away, and fewer rounds would not bring them back. So a
 * round during an outage does not change the limit. */
#include "internal.h"

#include "core_assert.h"

enum { DECISION_SMOOTHING = 8, GUESTS_SHARE = 4, GUESTS_AT_MOST = 2 };

static struct core_rounds *rounds_of(struct core *core, uint8_t group)
{
    CORE_ASSERT(group < core->group_count);
    return &core->stats.rounds[group];
}

/* ---- the queue of keys ----------------------------------------------------------------------- */

static bool has_room(const struct core *core, uint8_t group)
{
    CORE_ASSERT(group < core->group_count);
    return core->stats.rounds[group].in_flight < core->stats.rounds[group].limit;
}

void admission_awaited(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references > 0 && !key_awaits_round(key));
    struct list *queue = &core->groups[key->group].admission.queue;
    key->contention->admission.since = core->now;
    if (MUTANT(ADMISSION_OUT_OF_ORDER) && !list_is_empty(queue))
        list_insert(list_first(queue), &key->contention->admission.link);
    else
        list_append(queue, &key->contention->admission.link);
    rounds_of(core, key->group)->waiting++;
    core->groups[key->group].admission.is_full |= !has_room(core, key->group);
}

void admission_left(struct core *core, struct key *key)
{
    if (!key_awaits_round(key))
        return;
    CORE_ASSERT(rounds_of(core, key->group)->waiting > 0);
    list_remove(&key->contention->admission.link);
    rounds_of(core, key->group)->waiting--;
}

bool admission_was_refused(const struct core *core, const struct key *key)
{
    return key_awaits_round(key) && core->groups[key->group].admission.is_full &&
           instant_before(key->contention->admission.since, core->now);
}

static bool is_due(const struct core *core, uint8_t group)
{
    return has_room(core, group) && !list_is_empty(&core->groups[group].admission.queue);
}

/* Returns true if a guest may begin. A quarter of the limit, at least one, is always theirs. If no
 * key waits, they may have up to half of it. It is no more because masters answer in order, so a
 * holder's renewal waits behind the guests that came first. They do not move the limit, so one
 * below its first value counts as that for them. */
static bool has_room_for_guest(const struct core *core, uint8_t group)
{
    CORE_ASSERT(group < core->group_count);
    const struct core_rounds *rounds = &core->stats.rounds[group];
    uint32_t limit = rounds->limit > core->rounds_first ? rounds->limit : core->rounds_first,
             share = limit / GUESTS_SHARE;
    if (MUTANT(GUESTS_UNBOUNDED))
        return true;
    return rounds->guests < (share > 0 ? share : 1) ||
           (rounds->waiting == 0 && rounds->guests < limit / GUESTS_AT_MOST &&
            rounds->in_flight + rounds->guests < limit);
}

static bool guest_is_due(const struct core *core, uint8_t group)
{
    return core->stats.rounds[group].guests_waiting > 0 && has_room_for_guest(core, group);
}

bool admission_is_due(const struct core *core)
{
    for (uint8_t g = 0; g < core->group_count; g++)
        if (is_due(core, g) || guest_is_due(core, g))
            return true;
    return false;
}

struct key *admission_next(struct core *core)
{
    for (size_t g = 0; g < core->group_count; g++) {
        struct link *first = list_first(&core->groups[g].admission.queue);
        core->groups[g].admission.is_full = first != NULL && !has_room(core, (uint8_t)g);
        if (!is_due(core, (uint8_t)g))
            continue;
        struct key *key = CONTAINER_OF(first, struct contention, admission.link)->key;
        key->contention->admission.waited_us =
            instant_us_between(key->contention->admission.since, core->now);
        admission_left(core, key);
        return key;
    }
    return NULL;
}

int64_t admission_wait_ms(const struct core *core, uint8_t group)
{
    CORE_ASSERT(group < core->group_count);
    const struct core_rounds *rounds = &core->stats.rounds[group];
    if (rounds->waiting == 0)
        return 0;
    int64_t turns = 1 + rounds->waiting / rounds->limit;
    return (turns * core->groups[group].admission.decision_us + 999) / 1000;
}

/* ---- rounds in flight ------------------------------------------------------------------------ */

static uint32_t *places_of(struct core *core, const struct lock *lock)
{
    struct core_rounds *rounds = rounds_of(core, lock->group);
    return lock->is_guest ? &rounds->guests : &rounds->in_flight;
}

void admission_begun(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING && !lock->has_place);
    lock->has_place = true;
    rounds_of(core, lock->group)->in_flight++;
}

void admission_ended(struct core *core, struct lock *lock)
{
    if (!lock->has_place || MUTANT(PLACE_KEPT))
        return;
    CORE_ASSERT(*places_of(core, lock) > 0);
    --*places_of(core, lock);
    lock->has_place = lock->is_guest = false;
}

/* ---- guests ---------------------------------------------------------------------------------- */

bool admission_admits_guest(const struct core *core, uint8_t group)
{
    return list_is_empty(&core->groups[group].admission.guests) && has_room_for_guest(core, group);
}

void admission_guest_waits(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_BEGUN && !request->admitted);
    request->state = REQUEST_GUEST;
    list_append(&core->groups[request->key->group].admission.guests, &request->link);
    rounds_of(core, request->key->group)->guests_waiting++;
    timers_set(&core->timers, timer_of_request(core, request),
               instant_after_ms(request->came_at, ADMISSION_MS_MAX));
}

struct core_request *admission_next_guest(struct core *core)
{
    for (uint8_t g = 0; g < core->group_count; g++) {
        if (!guest_is_due(core, g))
            continue;
        struct core_request *request = request_first(&core->groups[g].admission.guests);
        CORE_ASSERT(request->state == REQUEST_GUEST);
        admission_guest_left(core, request);
        list_remove(&request->link);
        timers_clear(&core->timers, timer_of_request(core, request));
        request->state = REQUEST_BEGUN;
        request->admitted = true;
        return request;
    }
    return NULL;
}

void admission_guest_reads(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_READING && !request->in_flight);
    request->in_flight = true;
    rounds_of(core, request->key->group)->guests++;
}

void admission_guest_left(struct core *core, struct core_request *request)
{
    struct core_rounds *rounds = rounds_of(core, request->key->group);
    CORE_ASSERT(!request->in_flight || rounds->guests > 0);
    rounds->guests -= request->in_flight;
    request->in_flight = false;
    rounds->guests_waiting -= request->state == REQUEST_GUEST;
}

void admission_guest_adopts(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ADOPTING && !lock->has_place);
    lock->has_place = lock->is_guest = true;
    ++*places_of(core, lock);
}

/* ---- the limit ------------------------------------------------------------------------------- */

static void grow(struct core *core, uint8_t group)
{
    CORE_ASSERT(core->rounds_min >= 1 && core->rounds_min <= core->rounds_max);
    struct admission *admission = &core->groups[group].admission;
    struct core_rounds *rounds = rounds_of(core, group);
    if (!admission->is_full || rounds->limit == core->rounds_max || MUTANT(LIMIT_STAYS_LOW))
        return;
    admission->credit += ROUNDS_GROWTH;
    while (admission->credit >= rounds->limit && rounds->limit < core->rounds_max)
        admission->credit -= rounds->limit++;
}

/* Halves the limit. If all masters have become slow, the earlier quickest decision does not count
 * any more. */
static void halve(struct core *core, uint8_t group, int64_t took_us)
{
    CORE_ASSERT(took_us >= 0);
    struct admission *admission = &core->groups[group].admission;
    struct core_rounds *rounds = rounds_of(core, group);
    uint32_t node_timeout_ms = core->groups[group].config.node_timeout_ms;
    if (instant_before(core->now, instant_after_ms(admission->halved_at, node_timeout_ms)))
        return;
    admission->halved_at = core->now;
    admission->credit = 0;
    rounds->limit = rounds->limit / 2 > core->rounds_min ? rounds->limit / 2 : core->rounds_min;
    admission->quickest_us += (took_us - admission->quickest_us) / DECISION_SMOOTHING;
}

/* Returns true if fewer masters than a quorum have replied to anything since the round was sent. */
static bool is_outage(const struct group *group, const struct round *round)
{
    CORE_ASSERT(round->quorum >= 1 && round->total == group->config.masters);
    master_set heard = 0;
    for (uint8_t m = 0; m < round->total; m++)
        if (instant_before(round->started, group->masters[m].heard_at))
            heard |= set_of(m);
    return set_size(heard & round->asked) < round->quorum;
}

void admission_decided(struct core *core, const struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING);
    struct group *group = lock_group(core, lock);
    struct admission *admission = &group->admission;
    const struct round *round = &lock->round;
    bool was_sent = lock->written != 0;
    /* An agent that was stopped cannot measure its masters (R14). */
    if (!lock->has_place || !was_sent || core->stalled)
        return;
    int64_t took_us = instant_us_between(round->started, core->now),
            timeout_us = (int64_t)group->config.node_timeout_ms * 1000;
    admission->decision_us += (took_us - admission->decision_us) / DECISION_SMOOTHING;
    bool is_answered = round_verdict(round) == VERDICT_WON || round_lost_to_holder(round);
    if (!is_answered && is_outage(group, round))
        return;
    if (is_answered && (round->scripted & (round->yes | round->no)) != 0)
        took_us /= 2; /* Two round trips (R24). */
    if (admission->quickest_us > took_us)
        admission->quickest_us = took_us;
    if (2 * took_us >= admission->quickest_us + timeout_us)
        halve(core, lock->group, took_us);
    else if (is_answered)
        grow(core, lock->group);
}
