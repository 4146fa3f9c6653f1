/* Order over all agents (R9, order fair): first come, first served, by tickets that the masters
 * keep.
 *
 *   1. Every waiter has a number, and the lowest is served first. It is the time at which the
 *      waiter came, by the clock that proposes fencing numbers. The first waiter of an agent gets
 *      at least one more than the last number on the masters. So the order is that of arrival, but
 *      for the difference of the clocks. A number that is further ahead than clocks can differ
 *      comes from a clock that was corrected since. It raises no other number, and its agent
 *      replaces it by the present time.
 *   2. An agent keeps one ticket per key on every master: that of its first waiter. Each attempt
 *      shows it, and a master grants only to the lowest ticket that it has (of equal numbers to the
 *      lower agent). So attempts do not split the votes.
 *   3. A ticket that is not shown for TICKET_MS is void. So a dead or frozen agent delays others
 *      for no longer. Attempts are closer to each other than that.
 *   4. An agent that reaches no quorum withdraws its ticket. It leaves none until a quorum has
 *      answered. Otherwise it would delay, on the masters that it reaches, agents that reach a
 *      quorum. An attempt can be refused by fewer masters than a quorum, so replies are counted
 *      also after its decision.
 *   5. A grant removes the ticket. The undoing of a failed attempt puts it back in the same call.
 *      So split votes cost no waiter its position, and a later waiter does not overtake it in the
 *      next attempt.
 *   6. While a caller of this agent holds the key, its waiters need no ticket: the hand-over shows
 *      one, or the release writes one. If no request waits here, the DELETE of a hold removes the
 *      agent's ticket, also if another holder has the key by now. (The DELETE of a hold that is not
 *      known here does not.) Each of them publishes whose turn it is.
 *   7. If readers share a key (R18), tickets have a mode. A reader passes readers, and no writer. A
 *      writer passes no waiter. Readers that contend side by side are each served by their own
 *      number; the masters keep the ticket of the first. While readers of this agent hold the key,
 *      its waiters have a ticket on the masters as at any other agent.
 *
 * Tickets decide which waiter is next. They never decide whether there is one holder. If masters
 * lost tickets, or have different ones, the order or an attempt may be lost, and the next attempt
 * shows the number again. A call without `wait` has no ticket and is refused while any waiter has
 * one. */
#include "internal.h"

#include <string.h>

#include "core_assert.h"

/* ---- tickets ---- */

static bool ticket_is_wanted(const struct key *key)
{
    return form_is_fair(key->form);
}

void ticket_given(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_WAITING);
    struct key *key = request->key;
    if (!ticket_is_wanted(key))
        return;
    request->ticket = fence_agreed_time(core, key->group);
    bool first = request_first(&key->contention->waiters) == request;
    request->ticket_is_fresh = key_admits(key) && first;
    if (first)
        /* Replies to earlier attempts do not count. */
        key->contention->tickets.since = (struct instant){0};
}

/* Determines whether a quorum answered, at the beginning of the next attempt, but not before the
 * masters' time has passed. */
static void count_answers(struct core *core, struct key *key, const struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING && lock->key == key);
    bool asked = key->contention->tickets.since.us != 0;
    uint32_t node_timeout_ms = core->groups[key->group].config.node_timeout_ms;
    if (asked && instant_before(core->now,
                                instant_after_ms(key->contention->tickets.since, node_timeout_ms)))
        return;
    key->contention->tickets.unreachable =
        asked && set_size(key->contention->tickets.answered) < lock->quorum &&
        !MUTANT(TICKET_WITHOUT_QUORUM);
    key->contention->tickets.answered = 0;
    key->contention->tickets.since = core->now;
    if (key->contention->tickets.unreachable)
        ticket_withdrawn(core, key);
}

void ticket_answered(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(reply->master < core->groups[lock->group].config.masters);
    bool decides =
        reply->vote == VOTE_YES || reply->vote == VOTE_TAKEN || reply->vote == VOTE_FOREIGN;
    uint32_t node_timeout_ms = core->groups[lock->group].config.node_timeout_ms;
    if ((reply->op != OP_ACQUIRE && reply->op != OP_HANDOVER) || !decides ||
        lock->key->contention == NULL || /* It is held, and no request waits. */
        !instant_before(core->now, instant_after_ms(lock->acquired_at, node_timeout_ms)))
        return;
    lock->key->contention->tickets.answered |= set_of(reply->master);
    if (set_size(lock->key->contention->tickets.answered) >= lock->quorum)
        lock->key->contention->tickets.unreachable = false;
}

void ticket_begin_attempt(struct core *core, struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING && lock->pending->contender == request->slot);
    struct key *key = lock->key;
    uint64_t now = fence_agreed_time(core, key->group);
    if (request->ticket > now + (uint64_t)TICKET_AHEAD_MS * 1000 || MUTANT(TICKET_RENUMBERED))
        request->ticket = now;
    lock->pending->ticket = request->ticket;
    lock->pending->ticket_is_fresh = request->ticket_is_fresh;
    lock->pending->ticket_is_kept =
        lock->pending->ticket != 0 && request_first(&key->contention->waiters) == request;
    if (lock->pending->ticket == 0)
        return;
    count_answers(core, key, lock);
    if (!lock->pending->ticket_is_kept)
        return;
    key->contention->tickets.shown = lock->pending->ticket;
    if (!key->contention->tickets.unreachable)
        key->contention->tickets.behind |= core->groups[key->group].up;
}

void ticket_heard(struct core *core, struct lock *lock, uint8_t master, uint64_t number)
{
    CORE_ASSERT(lock->pending->contender != NO_REQUEST && number != 0);
    lock->pending->ticket_at |= lock->pending->ticket_is_kept ? set_of(master) : 0;
    if (!lock->pending->ticket_is_fresh || number < lock->pending->ticket)
        return;
    struct core_request *request = &core->requests[lock->pending->contender];
    request->ticket_is_fresh = false;
    request->ticket = lock->pending->ticket = lock->key->contention->tickets.shown = number;
}

void ticket_forgotten(struct lock *lock)
{
    CORE_ASSERT(lock->pending != NULL);
    lock->pending->ticket = 0;
}

void ticket_granted(struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING || lock->state == LOCK_RAISING);
    struct key *key = lock->key;
    /* The release removes the tickets on other masters. But readers hold the key for long, beside
     * others. */
    if (key->form != FORM_SHARED)
        key->contention->tickets.behind = 0;
    else if (lock->pending->ticket_is_kept)
        key->contention->tickets.behind = lock->pending->ticket_at;
    key->contention->tickets.unreachable = false;
    key->contention->tickets.since = (struct instant){0};
}

void ticket_released(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_RELEASING);
    struct key *key = lock->key;
    const struct core_request *next = request_first(&key->contention->waiters);
    lock->pending->ticket_is_left =
        key->form == FORM_SHARED && next != NULL && next->attempt != NULL;
    if (next == NULL || next->ticket == 0 || next->ticket_is_fresh ||
        key->contention->tickets.unreachable || MUTANT(TICKET_AFTER_RELEASE))
        return;
    lock->pending->ticket = key->contention->tickets.shown = next->ticket;
    lock->pending->ticket_mode = next->terms.mode;
    key->contention->tickets.behind |= core->groups[key->group].up;
}

void ticket_withdrawn(struct core *core, struct key *key)
{
    master_set masters = key->contention->tickets.behind & core->groups[key->group].up;
    key->contention->tickets.behind = 0;
    if (masters != 0 && !MUTANT(TICKET_OUTLIVES_WAITER))
        outbox_withdraw(core, key, masters);
}

void ticket_attempt_failed(struct core *core, struct lock *lock, enum answer answer)
{
    CORE_ASSERT(lock->pending->contender != NO_REQUEST);
    struct key *key = lock->key;
    if (!lock->pending->ticket_is_kept ||
        core->requests[lock->pending->contender].ticket_is_fresh ||
        key->contention->tickets.unreachable || MUTANT(TICKET_LOST_WITH_VOTE))
        /* No master has told its number yet, or it has no ticket there. */
        ticket_forgotten(lock);
    if (answer != ANSWER_QUORUM_UNAVAILABLE || MUTANT(TICKET_WITHOUT_QUORUM))
        return;
    ticket_forgotten(lock);
    key->contention->tickets.unreachable = true;
    key->contention->tickets.answered = 0;
    ticket_withdrawn(core, key);
}

bool ticket_is_stale(const struct key *key)
{
    const struct core_request *first = request_first(&key->contention->waiters);
    return key->contention->tickets.behind != 0 && first != NULL &&
           first->ticket != key->contention->tickets.shown && ticket_is_wanted(key);
}

/* ---- the next try of a contender ---- */

/* When the contender of a key tries again (R9).
 *
 *   - A release deletes the key on each master and publishes there. The quorum-th message wakes the
 *     contender, after a random delay of 0..(one round trip x agents that wait). Without the delay
 *     they would split the votes.
 *   - A subscription counts once a quorum has confirmed it. An earlier release may have been
 *     missed, so the contender then tries once more without a message.
 *   - Without a message it tries when the holder's lease has run out, or when a back-off with
 *     jitter ends, if that is earlier. The back-off begins short only if no message can come. If
 *     one can come, it grows beyond retry.max: a thousand subscribed waiters must not keep the
 *     masters busy.
 *   - If the order is fair, the message names the agent whose turn it is. Only that agent wakes,
 *     and at once: no other would be granted.
 *   - After handover_max hand-overs while other agents wait, the turn of this agent ends. It pauses
 *     for the longest of their random delays. Otherwise its own attempt would always be the first.
 *   - An agent whose turn has ended lets the others go first: one turn each, and each message
 *     counts as one turn. Its delay grows with the number of agents that are still ahead. So the
 *     agent that has waited for longest comes first, and the next one only if it does not. If
 *     chance decided, one of three agents would wait for several turns of the others.
 *
 * An undone attempt publishes too. It had less than a quorum, so it alone wakes no contender. If
 * several attempts split the votes, their undoing together wakes the contenders, which is intended.
 * If the undone attempt had all masters that refused, its lease is not waited for, only a back-off.
 * A search at a semaphore is several attempts of one agent, each at another slot. So messages count
 * per slot. Otherwise the search would wake itself without end (R20). */

enum {
    SIT_OUT_ROUND_TRIPS = 2,
    TURN_ROUND_TRIPS = 3, /* Round trips from one agent in the order to the next. */
    TURN_LATE_US = 2000,  /* Lateness of a busy process, added to each of these. */
    SPREAD_US_MIN = 100,  /* Least random delay for each agent that waits. */
    /* Limit of every delay, because masters may report any number of agents. */
    PAUSE_US_MAX = 2000000,
    HALVINGS_MAX = 16,
    HEARING_RETRY_MAX = 20 /* With a subscription the back-off grows to this many times
                            * retry.max. */
};

static uint8_t quorum_of(const struct core *core, const struct key *key)
{
    return round_quorum(core->policies[key->policy].algorithm,
                        core->groups[key->group].config.masters);
}

/* ---- the channel ---- */

static void forget_messages(struct key *key)
{
    CORE_ASSERT(key->permits >= 1 && key->permits <= LIMIT_PERMITS);
    memset(key->contention->channel.messages, 0, key->permits * sizeof(master_set));
    key->contention->channel.released = false;
}

static void tell_watch(struct core *core, const struct key *key, enum effect_kind kind)
{
    outbox_effect(core, kind)->watch =
        (struct effect_watch){key->group, key->policy, key_text(key)};
}

void wake_watch(struct core *core, struct key *key)
{
    if (!key->contention->channel.watched)
        tell_watch(core, key, EFFECT_WATCH);
    key->contention->channel.watched = true;
}

void wake_unwatch(struct core *core, struct key *key)
{
    CORE_ASSERT(list_is_empty(&key->contention->waiters));
    key->contention->channel.turn_ended = false;
    if (!key->contention->channel.watched || key->contention->follower != NULL)
        return;
    key->contention->channel.watched = key->contention->channel.again = false;
    key->contention->channel.confirmed = 0;
    forget_messages(key);
    tell_watch(core, key, EFFECT_UNWATCH);
}

/* ---- the next attempt ---- */

bool wake_sits_out(const struct core *core, const struct key *key)
{
    return instant_before(core->now, key->contention->sits_out_until);
}

static void try_in(struct core *core, struct key *key, int64_t us, enum cause cause)
{
    CORE_ASSERT(us >= 0);
    CORE_ASSERT(key_admits(key));
    if (key_awaits_round(key))
        return;
    struct instant at = instant_after_us(core->now, us);
    if (instant_before(at, key->contention->sits_out_until)) {
        at = key->contention->sits_out_until;
        cause = CAUSE_SAT_OUT;
    }
    if (key_has_retry(core, key) &&
        !instant_before(at, timers_at(&core->timers, timer_of_key(core, key))))
        return;
    timers_set(&core->timers, timer_of_key(core, key), at);
    key->contention->cause = cause;
}

void wake_after_sitting_out(struct core *core, struct key *key)
{
    if (wake_sits_out(core, key) && !key_has_retry(core, key) && key_next_waiter(key) != NULL)
        try_in(core, key, 0, CAUSE_SAT_OUT);
}

/* Returns the largest random delay (R9). Without it ten agents split the votes two times in three.
 * Each agent uses the round trip that it has measured, and the one with the longest would lose to
 * the others each time. So an agent that has lost more often than there are agents halves its
 * delay, one that has lost twice as often halves it again, and so on. */
static int64_t spread_us(const struct core *core, const struct key *key)
{
    uint32_t halvings = key->contention->channel.agents == 0
                            ? 0
                            : key->contention->channel.losses / key->contention->channel.agents;
    int64_t us = core->groups[key->group].round_trip_us * key->contention->channel.agents;
    /* Without a delay they would collide forever. */
    int64_t least_us = (int64_t)SPREAD_US_MIN * key->contention->channel.agents;
    CORE_ASSERT(us >= 0);
    us >>= halvings < HALVINGS_MAX ? halvings : HALVINGS_MAX;
    us = us > least_us ? us : least_us;
    return us < PAUSE_US_MAX ? us : PAUSE_US_MAX;
}

/* Returns the delay after a message (R9). An agent whose turn has ended waits for those ahead. An
 * agent that has had no turn may come at any time. Up to half of a round trip is random, in case
 * several agents believe to be first. */
static int64_t message_delay_us(struct core *core, const struct key *key)
{
    uint32_t agents = key->contention->channel.agents, ahead = key->contention->channel.ahead;
    CORE_ASSERT(agents > 0);
    int64_t spread = spread_us(core, key);
    if (!key->contention->channel.turn_ended || MUTANT(TURNS_BY_CHANCE))
        return chance_below(core, CHANCE_MESSAGE, spread + 1);
    int64_t round_trip_us = spread / agents; /* Less for an agent that loses again and again. */
    if (MUTANT(LINE_REVERSED))
        ahead = agents - ahead;
    int64_t turns_us = (TURN_ROUND_TRIPS * round_trip_us + TURN_LATE_US) * ahead;
    return (turns_us < PAUSE_US_MAX ? turns_us : PAUSE_US_MAX) +
           chance_below(core, CHANCE_MESSAGE, round_trip_us / 2 + 1);
}

/* Counts the end of a turn of another agent, unless it was this agent's turn. Agents ahead may also
 * have left. */
static void turn_ended_elsewhere(const struct core *core, struct key *key)
{
    uint32_t others = key->contention->channel.agents > 0 ? key->contention->channel.agents - 1 : 0;
    if (wake_sits_out(core, key))
        return;
    if (key->contention->channel.ahead > others)
        key->contention->channel.ahead = others;
    if (key->contention->channel.ahead > 0)
        key->contention->channel.ahead--;
}

static void try_after_message(struct core *core, struct key *key)
{
    CORE_ASSERT(!list_is_empty(&key->contention->waiters));
    bool alone = key->contention->channel.agents <= 1 || ticket_is_wanted(key);
    turn_ended_elsewhere(core, key);
    key->contention->back_off_ms = 0;
    try_in(core, key, alone ? 0 : message_delay_us(core, key), CAUSE_MESSAGE);
}

static void try_after_back_off(struct core *core, struct key *key)
{
    CORE_ASSERT(!list_is_empty(&key->contention->waiters));
    const struct core_policy *policy = &core->policies[key->policy];
    bool will_hear = key->contention->last_answer == ANSWER_LOCK_HELD &&
                     set_size(key->contention->channel.confirmed) >= quorum_of(core, key);
    uint32_t shortest_ms = will_hear ? policy->retry_max_ms : policy->retry_min_ms;
    uint32_t longest_ms =
        will_hear ? policy->retry_max_ms * HEARING_RETRY_MAX : policy->retry_max_ms;
    if (key->contention->back_off_ms < shortest_ms)
        key->contention->back_off_ms = shortest_ms;
    if (key->contention->back_off_ms > longest_ms)
        key->contention->back_off_ms = longest_ms;
    int64_t most_us = (int64_t)key->contention->back_off_ms * 1000;
    int64_t delay_us = most_us / 2 + chance_below(core, CHANCE_BACK_OFF, most_us / 2 + 1);
    if (ticket_is_wanted(key) && delay_us > TICKET_MS * 1000 / 3)
        delay_us = TICKET_MS * 1000 / 3; /* Each attempt shows the ticket again. */
    enum cause cause = CAUSE_BACK_OFF;
    int64_t left_ms = key->contention->last_occupant.left_ms;
    if (left_ms >= 0 && left_ms * 1000 < delay_us) {
        delay_us = left_ms * 1000 + 1000;
        cause = CAUSE_TTL;
    }
    try_in(core, key, delay_us, cause);
    key->contention->back_off_ms = key->contention->back_off_ms * 2 < longest_ms
                                       ? key->contention->back_off_ms * 2
                                       : longest_ms;
}

/* Returns true if the masters that refused, and have published no release since, leave a quorum. */
static bool may_be_free(const struct core *core, const struct key *key)
{
    master_set refuse = key->contention->last_refused_by & ~key->contention->channel.messages[0];
    return set_size(refuse) + quorum_of(core, key) <= core->groups[key->group].config.masters;
}

void wake_begin_attempt(struct key *key)
{
    CORE_ASSERT(key->references > 0);
    forget_messages(key);
    key->contention->channel.again = false;
}

void wake_after_failure(struct core *core, struct key *key)
{
    CORE_ASSERT(!list_is_empty(&key->contention->waiters));
    if (key->contention->last_answer == ANSWER_LOCK_HELD) {
        key->contention->channel.losses++;
        wake_watch(core, key);
    }
    if (key->contention->channel.again)
        try_in(core, key, 0, CAUSE_SUBSCRIBED);
    else if (key->contention->channel.released)
        try_after_message(core, key);
    else
        try_after_back_off(core, key);
}

/* ---- messages of masters ---- */

static struct key *watched_key(struct core *core, const struct event_channel *event)
{
    CORE_ASSERT(event->group < core->group_count &&
                event->master < core->groups[event->group].config.masters);
    struct key *key = key_find(core, event->key);
    bool is_watched = key != NULL && key->contention != NULL && key->contention->channel.watched;
    return is_watched && key->group == event->group ? key : NULL;
}

/* Returns true if an attempt may begin. Beside a hand-over another slot may be searched (R20).
 * Readers that contend are waited for. */
static bool may_try(const struct key *key)
{
    return key_admits(key) && (key->form != FORM_SHARED || key->contention->attempts == 0);
}

void wake_subscribed(struct core *core, const struct event_channel *event)
{
    struct key *key = watched_key(core, event);
    if (key == NULL || set_has(key->contention->channel.confirmed, event->master))
        return;
    key->contention->channel.confirmed |= set_of(event->master);
    if (set_size(key->contention->channel.confirmed) != quorum_of(core, key))
        return;
    follow_subscription_changed(core, key);
    if (list_is_empty(&key->contention->waiters))
        return;
    if (may_try(key))
        try_in(core, key, 0, CAUSE_SUBSCRIBED);
    else if (key->contention->attempts > 0)
        key->contention->channel.again = true;
}

void wake_unsubscribed(struct core *core, const struct event_channel *event)
{
    struct key *key = watched_key(core, event);
    if (key == NULL)
        return;
    master_set before = key->contention->channel.confirmed,
               after = before & (master_set)~set_of(event->master);
    key->contention->channel.confirmed = after;
    uint8_t quorum = quorum_of(core, key);
    if (set_size(before) >= quorum && set_size(after) < quorum)
        follow_subscription_changed(core, key);
}

/* Counts the message of a release. Returns true for the quorum-th one. */
static bool hear_release(const struct core *core, struct key *key,
                         const struct event_channel *event)
{
    bool is_semaphore = key->form == FORM_SLOTS;
    if (MUTANT(MESSAGE_UNHEARD) || event->has_slot != is_semaphore ||
        (is_semaphore && event->slot >= key->permits))
        return false; /* Another kind of key, or one with more permits, is there (A4). */
    master_set *messages = &key->contention->channel.messages[is_semaphore ? event->slot : 0];
    if (set_has(*messages, event->master))
        return false;
    *messages |= set_of(event->master);
    bool is_told = set_size(*messages) == quorum_of(core, key);
    key->contention->channel.released |= is_told;
    return is_told;
}

void wake_message(struct core *core, const struct event_channel *event)
{
    struct key *key = watched_key(core, event);
    if (key == NULL)
        return;
    if (event->agents > 0)
        key->contention->channel.agents = event->agents;
    follow_heard(core, key, event->master, quorum_of(core, key));
    if (list_is_empty(&key->contention->waiters))
        return;
    bool reads = request_first(&key->contention->waiters)->terms.mode == MODE_READ;
    if (event->next != 0 && event->next != core->agent && !(event->next_reads && reads))
        return; /* It is another agent's turn. */
    bool is_told = hear_release(core, key, event);
    if (!may_try(key))
        return;
    if (is_told) {
        try_after_message(core, key);
    } else if (key->form != FORM_SLOTS &&
               set_has(key->contention->last_refused_by, event->master) && may_be_free(core, key) &&
               !MUTANT(CONTENDER_WAITED_FOR)) {
        int64_t most_us = (int64_t)core->policies[key->policy].retry_max_ms * 1000;
        try_in(core, key, most_us / 2 + chance_below(core, CHANCE_BACK_OFF, most_us / 2 + 1),
               CAUSE_BACK_OFF);
    }
}

/* ---- hand-over ---- */

/* Ends the agent's turn, because `others` wait elsewhere (R9). */
static void end_turn(const struct core *core, struct key *key, uint32_t others)
{
    CORE_ASSERT(others > 0);
    int64_t round_trips = (int64_t)key->contention->channel.agents + 1 + SIT_OUT_ROUND_TRIPS;
    int64_t us = core->groups[key->group].round_trip_us * round_trips + TURN_LATE_US;
    key->contention->sits_out_until =
        instant_after_us(core->now, us < PAUSE_US_MAX ? us : PAUSE_US_MAX);
    key->contention->handovers = 0;
    key->contention->channel.turn_ended = true;
    key->contention->channel.ahead = others;
}

/* Returns the next holder of a key whose holder here releases it (R9): the first waiter. Returns
 * NULL after handover_max hand-overs in a row while other agents wait: then it is their turn. With
 * a handover_max of 0 that is after each hold. If
 * the order is fair, tickets decide that: a master refuses a hand-over, and deletes the key, if it
 * is another agent's turn. */
struct core_request *wake_next_holder(struct core *core, struct key *key)
{
    if (key->form == FORM_SHARED)
        return NULL; /* There is no hand-over to readers or writers (R18). */
    CORE_ASSERT(key_holder(key) != NULL);
    const struct group *group = &core->groups[key->group];
    uint32_t most = core->policies[key->policy].handover_max;
    struct core_request *first = key_next_waiter(key);
    if (first != NULL && MUTANT(NEXT_HOLDER_OUT_OF_ORDER))
        first = CONTAINER_OF(key->contention->waiters.head.prev, struct core_request, link);
    if (first == NULL || core->draining || core->locks_under_way >= core->locks_max ||
        set_size(group->up) < quorum_of(core, key))
        return NULL;
    const struct contention *contention = key->contention;
    uint32_t agents = contention->channel.agents,
             others = agents - (contention->channel.watched && agents > 0);
    if (most == 0 && key->form == FORM_SLOTS)
        return NULL; /* Other slots may be free. */
    if (most == 0 && others == 0)
        others = 1; /* Only hand-overs are told how many agents wait. */
    if (!ticket_is_wanted(key) && contention->handovers >= most && others > 0) {
        end_turn(core, key, others);
        return NULL;
    }
    if (most == 0)
        return NULL;
    key->contention->handovers++;
    return first;
}
