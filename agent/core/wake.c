/* When the contender of a key tries again (R9).
 *
 *   a release deletes the key on each master and publishes there; the quorum-th message wakes the contender, after a
 *   delay of 0..(one round trip x agents that wait), for else they would split the votes among them
 *   a subscription is worth something once a quorum has confirmed it: what was released before was missed, so then it
 *   tries once more
 *   without a message: when the holder's lease has run out, or after a jittered back-off, whichever comes first; the pauses begin
 *   short only where no message can come, and where one will come they grow beyond retry.max: a thousand waiters that
 *   listen must not keep the masters busy
 *   where the order is fair, the message says whose turn it is: only that one wakes, and at once, for nobody else would be granted
 *   after handover_max hand-overs here while others wait, it sits out the longest of their delays: its own attempt
 *   would always be the first
 *
 * An undone attempt publishes too. By itself it can wake nobody, for it had less than a quorum; where several attempts split
 * the votes, their undoing together does, as it should. */
#include "core_assert.h"
#include "state.h"

enum {
    SIT_OUT_ROUND_TRIPS = 2,
    SPREAD_US_MIN = 100, /* of each agent that waits */
    HALVINGS_MAX = 16,
    HEARING_RETRY_MAX = 20 /* who hears of releases pauses up to so many times retry.max */
};

static uint8_t quorum_of(const struct core *core, const struct key *key)
{
    return round_quorum(core->policies[key->policy].algorithm, core->groups[key->group].config.masters);
}

static bool is_contending(const struct key *key)
{
    return key->live != NULL && (key->live->state == LOCK_ACQUIRING || key->live->state == LOCK_RAISING);
}

/* ---- the channel ---- */

static void put(struct core *core, const struct key *key, enum effect_kind kind)
{
    outbox_effect(core, kind)->watch = (struct effect_watch){key->group, key->policy, key_text(key)};
}

void wake_watch(struct core *core, struct key *key)
{
    if (key->channel.watched)
        return;
    key->channel.watched = true;
    put(core, key, EFFECT_WATCH);
}

void wake_unwatch(struct core *core, struct key *key)
{
    if (!key->channel.watched)
        return;
    key->channel.watched = key->channel.again = false;
    key->channel.confirmed = key->channel.messages = 0;
    put(core, key, EFFECT_UNWATCH);
}

/* ---- the next attempt ---- */

bool wake_sits_out(const struct core *core, const struct key *key)
{
    return instant_before(core->now, key->sits_out_until);
}

static void try_in(struct core *core, struct key *key, int64_t us, enum cause cause)
{
    struct instant at = instant_after_us(core->now, us);
    if (instant_before(at, key->sits_out_until)) {
        at = key->sits_out_until;
        cause = CAUSE_SAT_OUT;
    }
    if (key->retry.place != 0 && !instant_before(at, key->retry.at))
        return;
    timers_set(&core->timers, &key->retry, at);
    key->cause = cause;
}

void wake_after_sitting_out(struct core *core, struct key *key)
{
    try_in(core, key, 0, CAUSE_SAT_OUT);
}

/* R9: without the spread ten agents split the votes two times in three. Each agent counts with the round trip that it has seen,
 * and the one that has seen the longest would lose to the others each time: so who has lost more often than there are agents
 * takes half of the spread, a quarter when it has lost twice as often, and so on. */
static int64_t spread_us(const struct core *core, const struct key *key)
{
    uint32_t halvings = key->channel.agents == 0 ? 0 : key->channel.losses / key->channel.agents;
    int64_t us = core->groups[key->group].round_trip_us * key->channel.agents;
    int64_t least_us = (int64_t)SPREAD_US_MIN * key->channel.agents; /* none would have them collide for ever */
    us >>= halvings < HALVINGS_MAX ? halvings : HALVINGS_MAX;
    return us > least_us ? us : least_us;
}

static void try_after_message(struct core *core, struct key *key)
{
    bool alone = key->channel.agents <= 1 || ticket_is_wanted(core, key);
    key->back_off_ms = 0;
    try_in(core, key, alone ? 0 : random_below(&core->random, spread_us(core, key) + 1), CAUSE_MESSAGE);
}

static void try_after_back_off(struct core *core, struct key *key)
{
    const struct core_policy *policy = &core->policies[key->policy];
    bool will_hear = key->last_answer == ANSWER_LOCK_HELD && set_size(key->channel.confirmed) >= quorum_of(core, key);
    uint32_t shortest_ms = will_hear ? policy->retry_max_ms : policy->retry_min_ms;
    uint32_t longest_ms = will_hear ? policy->retry_max_ms * HEARING_RETRY_MAX : policy->retry_max_ms;
    if (key->back_off_ms < shortest_ms)
        key->back_off_ms = shortest_ms;
    if (key->back_off_ms > longest_ms)
        key->back_off_ms = longest_ms;
    int64_t most_us = (int64_t)key->back_off_ms * 1000;
    int64_t delay_us = most_us / 2 + random_below(&core->random, most_us / 2 + 1);
    if (ticket_is_wanted(core, key) && delay_us > TICKET_MS * 1000 / 3)
        delay_us = TICKET_MS * 1000 / 3; /* each attempt shows the ticket again */
    enum cause cause = CAUSE_BACK_OFF;
    if (key->last_retry_ms >= 0 && key->last_retry_ms * 1000 < delay_us) {
        delay_us = key->last_retry_ms * 1000 + 1000;
        cause = CAUSE_TTL;
    }
    try_in(core, key, delay_us, cause);
    key->back_off_ms = key->back_off_ms * 2 < longest_ms ? key->back_off_ms * 2 : longest_ms;
}

void wake_begin_attempt(struct key *key)
{
    key->channel.messages = 0;
    key->channel.again = false;
}

void wake_after_failure(struct core *core, struct key *key)
{
    if (key->last_answer == ANSWER_LOCK_HELD) {
        key->channel.losses++;
        wake_watch(core, key);
    }
    if (key->channel.again)
        try_in(core, key, 0, CAUSE_SUBSCRIBED);
    else if (set_size(key->channel.messages) >= quorum_of(core, key))
        try_after_message(core, key);
    else
        try_after_back_off(core, key);
}

/* ---- what masters tell ---- */

static struct key *watched_key(struct core *core, const struct event_channel *event)
{
    CORE_ASSERT(event->group < core->group_count && event->master < core->groups[event->group].config.masters);
    struct key *key = key_find(core, event->key);
    return key != NULL && key->channel.watched && key->group == event->group ? key : NULL;
}

void wake_subscribed(struct core *core, const struct event_channel *event)
{
    struct key *key = watched_key(core, event);
    if (key == NULL || set_has(key->channel.confirmed, event->master))
        return;
    key->channel.confirmed |= set_of(event->master);
    if (set_size(key->channel.confirmed) != quorum_of(core, key))
        return;
    if (key->live == NULL)
        try_in(core, key, 0, CAUSE_SUBSCRIBED);
    else
        key->channel.again = is_contending(key);
}

void wake_unsubscribed(struct core *core, const struct event_channel *event)
{
    struct key *key = watched_key(core, event);
    if (key != NULL)
        key->channel.confirmed &= (master_set)~set_of(event->master);
}

void wake_message(struct core *core, const struct event_channel *event)
{
    struct key *key = watched_key(core, event);
    if (key == NULL)
        return;
    key->channel.agents = event->agents;
    if (event->next != 0 && event->next != core->agent)
        return; /* it is somebody else's turn */
    key->channel.messages |= set_of(event->master);
    if (key->live == NULL && set_size(key->channel.messages) == quorum_of(core, key))
        try_after_message(core, key);
}

/* ---- hand-over ---- */

/* R9: who gets the key of a holder here that releases it: the first that waits, but after handover_max times in a row while other
 * agents wait too, nobody: then they have their chance. Where the order is fair, tickets see to that: a master refuses a
 * hand-over, and deletes the key, if it is another agent's turn. */
struct request *wake_heir(struct core *core, struct key *key)
{
    const struct group *group = &core->groups[key->group];
    uint32_t most = core->policies[key->policy].handover_max;
    struct link *first = list_first(&key->waiters);
    if (first != NULL && MUTANT(HEIR_OUT_OF_ORDER))
        first = key->waiters.head.prev;
    if (first == NULL || most == 0 || core->draining || core->locks_live >= core->locks_max ||
        set_size(group->up) < quorum_of(core, key))
        return NULL;
    bool others_wait = key->channel.agents > (key->channel.watched ? 1u : 0u);
    if (!ticket_is_wanted(core, key) && key->handovers >= most && others_wait) {
        key->sits_out_until = instant_after_us(core->now, group->round_trip_us *
                                                              ((int64_t)key->channel.agents + 1 + SIT_OUT_ROUND_TRIPS));
        key->handovers = 0;
        return NULL;
    }
    key->handovers++;
    return CONTAINER_OF(first, struct request, link);
}
