/* Order over all agents (R9, order fair): first come, first served, by tickets that the masters
 * keep.
 *
 *   1. Every waiter has a number, the lowest is served first: the time of its coming by the clock
 *      that proposes fencing numbers. One who comes to an agent where nobody waits gets at least
 *      one more than the last number on the masters. So the order is that of coming, but for the
 *      difference of the clocks. Numbers that are ahead by more than clocks can differ are of a
 *      clock that was set right since: they raise nobody else's, and the agent itself takes the
 *      present time instead.
 *   2. An agent keeps one ticket of a key on every master: that of the first who waits here. Each
 *      attempt shows it, and a master grants only to the lowest that it has (equal numbers: to the
 *      lower agent), so attempts do not split the votes.
 *   3. A ticket that is not shown again for TICKET_MS is void: a dead or frozen agent blocks nobody
 *      for longer. Attempts are nearer to each other than that.
 *   4. An agent that reaches no quorum withdraws its ticket, and leaves none until a quorum has
 *      answered: else it would block, on the masters that it reaches, those who reach the others as
 *      well. Fewer than a quorum may refuse an attempt, so who answers is counted beyond its
 *      decision.
 *   5. A grant takes the ticket off, and the undoing of an attempt that failed puts it back in the
 *      same moment: votes that are split cost nobody the place in the line, and nobody who came
 *      later takes part in the next attempt.
 *   6. While a caller here holds the key, those who wait here need no ticket: the hand-over shows
 *      it, or the release puts it there. Where nobody waits here, the DELETE of a hold takes off
 *      what is left of its ticket, also where another one has the key by now (a stranger's release
 *      does not). Each of them tells whose turn it is.
 *
 *   7. Where readers share a key (R18), tickets have a mode. A reader passes readers, and no
 *      writer; a writer passes nobody. Of readers that contend side by side each is served by its
 *      own number; the masters keep that of the first one. While readers here hold the key, who
 *      waits here has its ticket on the masters, as anywhere else.
 *
 * Tickets decide who is served, never whether there is one holder: masters that lost them, or show
 * different ones, cost order or an attempt, and the next attempt shows the number again. Who does
 * not wait has no ticket and is refused while anybody has one. */
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
    bool first = request_first(&key->contest->waiters) == request;
    request->ticket_is_fresh = key_admits(key) && first;
    if (first)
        /* what was asked for those before says nothing now */
        key->contest->tickets.since = (struct instant){0};
}

/* Whether a quorum answered, as it is known when one more attempt begins; not before the masters'
 * time is up. */
static void count_answers(struct core *core, struct key *key, const struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING && lock->key == key);
    bool asked = key->contest->tickets.since.us != 0;
    uint32_t node_timeout_ms = core->groups[key->group].config.node_timeout_ms;
    if (asked &&
        instant_before(core->now, instant_after_ms(key->contest->tickets.since, node_timeout_ms)))
        return;
    key->contest->tickets.unreachable = asked &&
                                        set_size(key->contest->tickets.answered) < lock->quorum &&
                                        !MUTANT(TICKET_WITHOUT_QUORUM);
    key->contest->tickets.answered = 0;
    key->contest->tickets.since = core->now;
    if (key->contest->tickets.unreachable)
        ticket_withdrawn(core, key);
}

void ticket_answered(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    CORE_ASSERT(reply->master < core->groups[lock->group].config.masters);
    bool decides =
        reply->vote == VOTE_YES || reply->vote == VOTE_TAKEN || reply->vote == VOTE_FOREIGN;
    uint32_t node_timeout_ms = core->groups[lock->group].config.node_timeout_ms;
    if ((reply->op != OP_ACQUIRE && reply->op != OP_HANDOVER) || !decides ||
        lock->key->contest == NULL || /* it is held, and nobody waits */
        !instant_before(core->now, instant_after_ms(lock->acquired_at, node_timeout_ms)))
        return;
    lock->key->contest->tickets.answered |= set_of(reply->master);
    if (set_size(lock->key->contest->tickets.answered) >= lock->quorum)
        lock->key->contest->tickets.unreachable = false;
}

void ticket_begin_attempt(struct core *core, struct lock *lock, struct core_request *request)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING && lock->errand->contender == request->slot);
    struct key *key = lock->key;
    uint64_t now = fence_agreed_time(core, key->group);
    if (request->ticket > now + (uint64_t)TICKET_AHEAD_MS * 1000 || MUTANT(TICKET_RENUMBERED))
        request->ticket = now;
    lock->errand->ticket = request->ticket;
    lock->errand->ticket_is_fresh = request->ticket_is_fresh;
    lock->errand->ticket_is_kept =
        lock->errand->ticket != 0 && request_first(&key->contest->waiters) == request;
    if (lock->errand->ticket == 0)
        return;
    count_answers(core, key, lock);
    if (!lock->errand->ticket_is_kept)
        return;
    key->contest->tickets.shown = lock->errand->ticket;
    if (!key->contest->tickets.unreachable)
        key->contest->tickets.behind |= core->groups[key->group].up;
}

void ticket_heard(struct core *core, struct lock *lock, uint8_t master, uint64_t number)
{
    CORE_ASSERT(lock->errand->contender != NO_REQUEST && number != 0);
    lock->errand->ticket_at |= lock->errand->ticket_is_kept ? set_of(master) : 0;
    if (!lock->errand->ticket_is_fresh || number < lock->errand->ticket)
        return;
    struct core_request *request = &core->requests[lock->errand->contender];
    request->ticket_is_fresh = false;
    request->ticket = lock->errand->ticket = lock->key->contest->tickets.shown = number;
}

void ticket_forgotten(struct lock *lock)
{
    CORE_ASSERT(lock->errand != NULL);
    lock->errand->ticket = 0;
}

void ticket_granted(struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_ACQUIRING || lock->state == LOCK_RAISING);
    struct key *key = lock->key;
    /* its release takes off what others keep still; but readers hold it for long, beside others */
    if (key->form != FORM_SHARED)
        key->contest->tickets.behind = 0;
    else if (lock->errand->ticket_is_kept)
        key->contest->tickets.behind = lock->errand->ticket_at;
    key->contest->tickets.unreachable = false;
    key->contest->tickets.since = (struct instant){0};
}

void ticket_released(struct core *core, struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_RELEASING);
    struct key *key = lock->key;
    const struct core_request *next = request_first(&key->contest->waiters);
    lock->errand->ticket_is_left =
        key->form == FORM_SHARED && next != NULL && next->attempt != NULL;
    if (next == NULL || next->ticket == 0 || next->ticket_is_fresh ||
        key->contest->tickets.unreachable || MUTANT(TICKET_AFTER_RELEASE))
        return;
    lock->errand->ticket = key->contest->tickets.shown = next->ticket;
    lock->errand->ticket_mode = next->terms.mode;
    key->contest->tickets.behind |= core->groups[key->group].up;
}

void ticket_withdrawn(struct core *core, struct key *key)
{
    master_set masters = key->contest->tickets.behind & core->groups[key->group].up;
    key->contest->tickets.behind = 0;
    if (masters != 0 && !MUTANT(TICKET_OUTLIVES_WAITER))
        outbox_withdraw(core, key, masters);
}

void ticket_attempt_failed(struct core *core, struct lock *lock, enum answer answer)
{
    CORE_ASSERT(lock->errand->contender != NO_REQUEST);
    struct key *key = lock->key;
    if (!lock->errand->ticket_is_kept || core->requests[lock->errand->contender].ticket_is_fresh ||
        key->contest->tickets.unreachable || MUTANT(TICKET_LOST_WITH_VOTE))
        /* no master has said what its number is to be; or it has none there */
        ticket_forgotten(lock);
    if (answer != ANSWER_QUORUM_UNAVAILABLE || MUTANT(TICKET_WITHOUT_QUORUM))
        return;
    ticket_forgotten(lock);
    key->contest->tickets.unreachable = true;
    key->contest->tickets.answered = 0;
    ticket_withdrawn(core, key);
}

bool ticket_is_stale(const struct key *key)
{
    const struct core_request *first = request_first(&key->contest->waiters);
    return key->contest->tickets.behind != 0 && first != NULL &&
           first->ticket != key->contest->tickets.shown && ticket_is_wanted(key);
}

/* ---- the next try of a contender ---- */

/* When the contender of a key tries again (R9).
 *
 *   - A release deletes the key on each master and publishes there. The quorum-th message wakes the
 *     contender, after a delay of 0..(one round trip x agents that wait): without it they would
 *     split the votes among them.
 *   - A subscription is worth something once a quorum has confirmed it. What was released before
 *     that was missed, so the contender then tries once more without a message.
 *   - Without a message it tries when the holder's lease has run out, or after a jittered back-off,
 *     whichever comes first. The pauses begin short only where no message can come. Where one will
 *     come they grow beyond retry.max: a thousand waiters that listen must not keep the masters
 *     busy.
 *   - Where the order is fair, the message says whose turn it is. Only that agent wakes, and at
 *     once: nobody else would be granted.
 *   - After handover_max hand-overs here while others wait, the turn of this agent ends. It sits
 *     out the longest of their delays by chance: its own attempt would always be the first.
 *   - Agents whose turn has ended stand in a line: as many turns as there are others come before
 *     the next one here, and each message counts as one. The delay grows with those that are still
 *     ahead, so the one that has waited for longest comes first, and the others only where it does
 *     not. Were it left to chance, one of three agents would wait for several turns of the others.
 *
 * An undone attempt publishes too. By itself it can wake nobody, for it had less than a quorum;
 * where several attempts split the votes, their undoing together does, as it should. But what it
 * had may be all that refused: then its lease is not waited for, only a back-off. A search at a
 * semaphore is several attempts of one agent, each at another slot: so what is told of one slot
 * says nothing of the others, or the search would wake itself without end (R20). */

enum {
    SIT_OUT_ROUND_TRIPS = 2,
    TURN_ROUND_TRIPS = 3, /* from one agent in line to the next, */
    TURN_LATE_US = 2000,  /* and what a process may be late by itself; */
    SPREAD_US_MIN = 100,  /* of each agent that waits */
    /* for all of them together, in line or not: masters may name any number of agents */
    PAUSE_US_MAX = 2000000,
    HALVINGS_MAX = 16,
    HEARING_RETRY_MAX = 20 /* who hears of releases pauses up to so many times retry.max */
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
    memset(key->contest->channel.messages, 0, key->permits * sizeof(master_set));
    key->contest->channel.released = false;
}

static void tell_watch(struct core *core, const struct key *key, enum effect_kind kind)
{
    outbox_effect(core, kind)->watch =
        (struct effect_watch){key->group, key->policy, key_text(key)};
}

static void wake_watch(struct core *core, struct key *key)
{
    CORE_ASSERT(!list_is_empty(&key->contest->waiters));
    if (key->contest->channel.watched)
        return;
    key->contest->channel.watched = true;
    tell_watch(core, key, EFFECT_WATCH);
}

void wake_unwatch(struct core *core, struct key *key)
{
    CORE_ASSERT(list_is_empty(&key->contest->waiters));
    key->contest->channel.in_line = false;
    if (!key->contest->channel.watched)
        return;
    key->contest->channel.watched = key->contest->channel.again = false;
    key->contest->channel.confirmed = 0;
    forget_messages(key);
    tell_watch(core, key, EFFECT_UNWATCH);
}

/* ---- the next attempt ---- */

bool wake_sits_out(const struct core *core, const struct key *key)
{
    return instant_before(core->now, key->contest->sits_out_until);
}

static void try_in(struct core *core, struct key *key, int64_t us, enum cause cause)
{
    CORE_ASSERT(us >= 0);
    CORE_ASSERT(key_admits(key));
    struct instant at = instant_after_us(core->now, us);
    if (instant_before(at, key->contest->sits_out_until)) {
        at = key->contest->sits_out_until;
        cause = CAUSE_SAT_OUT;
    }
    if (key_has_retry(core, key) &&
        !instant_before(at, timers_at(&core->timers, timer_of_key(core, key))))
        return;
    timers_set(&core->timers, timer_of_key(core, key), at);
    key->contest->cause = cause;
}

void wake_after_sitting_out(struct core *core, struct key *key)
{
    CORE_ASSERT(wake_sits_out(core, key));
    try_in(core, key, 0, CAUSE_SAT_OUT);
}

/* R9: without the spread ten agents split the votes two times in three. Each agent counts with the
 * round trip that it has seen, and the one that has seen the longest would lose to the others each
 * time: so who has lost more often than there are agents takes half of the spread, a quarter when
 * it has lost twice as often, and so on. */
static int64_t spread_us(const struct core *core, const struct key *key)
{
    uint32_t halvings = key->contest->channel.agents == 0
                            ? 0
                            : key->contest->channel.losses / key->contest->channel.agents;
    int64_t us = core->groups[key->group].round_trip_us * key->contest->channel.agents;
    /* none would have them collide for ever */
    int64_t least_us = (int64_t)SPREAD_US_MIN * key->contest->channel.agents;
    CORE_ASSERT(us >= 0);
    us >>= halvings < HALVINGS_MAX ? halvings : HALVINGS_MAX;
    us = us > least_us ? us : least_us;
    return us < PAUSE_US_MAX ? us : PAUSE_US_MAX;
}

/* How long so many agents in line are waited for. */
static int64_t line_us(int64_t round_trip_us, uint32_t agents)
{
    CORE_ASSERT(round_trip_us >= 0);
    int64_t us = (TURN_ROUND_TRIPS * round_trip_us + TURN_LATE_US) * agents;
    return us < PAUSE_US_MAX ? us : PAUSE_US_MAX;
}

/* R9: who is in line waits for those ahead of it; who is not may come between any two. Half a round
 * trip is left to chance, for several that believe to be first. */
static int64_t message_delay_us(struct core *core, const struct key *key)
{
    uint32_t agents = key->contest->channel.agents, ahead = key->contest->channel.ahead;
    CORE_ASSERT(agents > 0);
    int64_t spread = spread_us(core, key);
    if (!key->contest->channel.in_line || MUTANT(TURNS_BY_CHANCE))
        return chance_below(core, CHANCE_MESSAGE, spread + 1);
    int64_t round_trip_us = spread / agents; /* less for who loses again and again */
    if (MUTANT(LINE_REVERSED))
        ahead = agents - ahead;
    return line_us(round_trip_us, ahead) +
           chance_below(core, CHANCE_MESSAGE, round_trip_us / 2 + 1);
}

/* Unless it was the one of this agent. Who is ahead may have left as well. */
static void turn_ended_elsewhere(const struct core *core, struct key *key)
{
    uint32_t others = key->contest->channel.agents > 0 ? key->contest->channel.agents - 1 : 0;
    if (wake_sits_out(core, key))
        return;
    if (key->contest->channel.ahead > others)
        key->contest->channel.ahead = others;
    if (key->contest->channel.ahead > 0)
        key->contest->channel.ahead--;
}

static void try_after_message(struct core *core, struct key *key)
{
    CORE_ASSERT(!list_is_empty(&key->contest->waiters));
    bool alone = key->contest->channel.agents <= 1 || ticket_is_wanted(key);
    turn_ended_elsewhere(core, key);
    key->contest->back_off_ms = 0;
    try_in(core, key, alone ? 0 : message_delay_us(core, key), CAUSE_MESSAGE);
}

static void try_after_back_off(struct core *core, struct key *key)
{
    CORE_ASSERT(!list_is_empty(&key->contest->waiters));
    const struct core_policy *policy = &core->policies[key->policy];
    bool will_hear = key->contest->last_answer == ANSWER_LOCK_HELD &&
                     set_size(key->contest->channel.confirmed) >= quorum_of(core, key);
    uint32_t shortest_ms = will_hear ? policy->retry_max_ms : policy->retry_min_ms;
    uint32_t longest_ms =
        will_hear ? policy->retry_max_ms * HEARING_RETRY_MAX : policy->retry_max_ms;
    if (key->contest->back_off_ms < shortest_ms)
        key->contest->back_off_ms = shortest_ms;
    if (key->contest->back_off_ms > longest_ms)
        key->contest->back_off_ms = longest_ms;
    int64_t most_us = (int64_t)key->contest->back_off_ms * 1000;
    int64_t delay_us = most_us / 2 + chance_below(core, CHANCE_BACK_OFF, most_us / 2 + 1);
    if (ticket_is_wanted(key) && delay_us > TICKET_MS * 1000 / 3)
        delay_us = TICKET_MS * 1000 / 3; /* each attempt shows the ticket again */
    enum cause cause = CAUSE_BACK_OFF;
    if (key->contest->last_retry_ms >= 0 && key->contest->last_retry_ms * 1000 < delay_us) {
        delay_us = key->contest->last_retry_ms * 1000 + 1000;
        cause = CAUSE_TTL;
    }
    try_in(core, key, delay_us, cause);
    key->contest->back_off_ms =
        key->contest->back_off_ms * 2 < longest_ms ? key->contest->back_off_ms * 2 : longest_ms;
}

/* Those that refused, and have told of no release since, leave a quorum. */
static bool may_be_free(const struct core *core, const struct key *key)
{
    master_set refuse = key->contest->last_refused_by & ~key->contest->channel.messages[0];
    return set_size(refuse) + quorum_of(core, key) <= core->groups[key->group].config.masters;
}

static void try_within_retry_max(struct core *core, struct key *key)
{
    int64_t most_us = (int64_t)core->policies[key->policy].retry_max_ms * 1000;
    try_in(core, key, most_us / 2 + chance_below(core, CHANCE_BACK_OFF, most_us / 2 + 1),
           CAUSE_BACK_OFF);
}

void wake_begin_attempt(struct key *key)
{
    CORE_ASSERT(key->references > 0);
    forget_messages(key);
    key->contest->channel.again = false;
}

void wake_after_failure(struct core *core, struct key *key)
{
    CORE_ASSERT(!list_is_empty(&key->contest->waiters));
    if (key->contest->last_answer == ANSWER_LOCK_HELD) {
        key->contest->channel.losses++;
        wake_watch(core, key);
    }
    if (key->contest->channel.again)
        try_in(core, key, 0, CAUSE_SUBSCRIBED);
    else if (key->contest->channel.released)
        try_after_message(core, key);
    else
        try_after_back_off(core, key);
}

/* ---- what masters tell ---- */

static struct key *watched_key(struct core *core, const struct event_channel *event)
{
    CORE_ASSERT(event->group < core->group_count &&
                event->master < core->groups[event->group].config.masters);
    struct key *key = key_find(core, event->key);
    bool is_watched = key != NULL && key->contest != NULL && key->contest->channel.watched;
    return is_watched && key->group == event->group ? key : NULL;
}

/* Beside a hand-over another permit may be asked for (R20). Readers that contend are waited for. */
static bool may_try(const struct key *key)
{
    return key_admits(key) && (key->form != FORM_SHARED || key->contest->attempts == 0);
}

void wake_subscribed(struct core *core, const struct event_channel *event)
{
    struct key *key = watched_key(core, event);
    if (key == NULL || set_has(key->contest->channel.confirmed, event->master))
        return;
    CORE_ASSERT(!list_is_empty(&key->contest->waiters));
    key->contest->channel.confirmed |= set_of(event->master);
    if (set_size(key->contest->channel.confirmed) != quorum_of(core, key))
        return;
    if (may_try(key))
        try_in(core, key, 0, CAUSE_SUBSCRIBED);
    else if (key->contest->attempts > 0)
        key->contest->channel.again = true;
}

void wake_unsubscribed(struct core *core, const struct event_channel *event)
{
    struct key *key = watched_key(core, event);
    if (key != NULL)
        key->contest->channel.confirmed &= (master_set)~set_of(event->master);
}

/* True with the quorum-th message of one release. */
static bool hear_release(const struct core *core, struct key *key,
                         const struct event_channel *event)
{
    bool is_semaphore = key->form == FORM_SLOTS;
    if (MUTANT(MESSAGE_UNHEARD) || (event->permit > 0) != is_semaphore ||
        event->permit > key->permits)
        return false; /* what another kind, or more permits, have there (A4) */
    master_set *messages = &key->contest->channel.messages[is_semaphore ? event->permit - 1 : 0];
    if (set_has(*messages, event->master))
        return false;
    *messages |= set_of(event->master);
    bool is_told = set_size(*messages) == quorum_of(core, key);
    key->contest->channel.released |= is_told;
    return is_told;
}

void wake_message(struct core *core, const struct event_channel *event)
{
    struct key *key = watched_key(core, event);
    if (key == NULL)
        return;
    CORE_ASSERT(!list_is_empty(&key->contest->waiters));
    if (event->agents > 0)
        key->contest->channel.agents = event->agents;
    bool reads = request_first(&key->contest->waiters)->terms.mode == MODE_READ;
    if (event->next != 0 && event->next != core->agent && !(event->next_reads && reads))
        return; /* it is somebody else's turn */
    bool is_told = hear_release(core, key, event);
    if (!may_try(key))
        return;
    if (is_told)
        try_after_message(core, key);
    else if (key->form != FORM_SLOTS && set_has(key->contest->last_refused_by, event->master) &&
             may_be_free(core, key) && !MUTANT(CONTENDER_WAITED_FOR))
        try_within_retry_max(core, key);
}

/* ---- hand-over ---- */

/* R9: `others` wait elsewhere. They have their turn first. */
static void end_turn(const struct core *core, struct key *key, uint32_t others)
{
    CORE_ASSERT(others > 0);
    int64_t round_trips = (int64_t)key->contest->channel.agents + 1 + SIT_OUT_ROUND_TRIPS;
    int64_t us = core->groups[key->group].round_trip_us * round_trips + TURN_LATE_US;
    key->contest->sits_out_until =
        instant_after_us(core->now, us < PAUSE_US_MAX ? us : PAUSE_US_MAX);
    key->contest->handovers = 0;
    key->contest->channel.in_line = true;
    key->contest->channel.ahead = others;
}

/* R9: who gets the key of a holder here that releases it: the first that waits, but after
 * handover_max times in a row while other agents wait too, nobody: then they have their chance.
 * Where the order is fair, tickets see to that: a master refuses a hand-over, and deletes the key,
 * if it is another agent's turn. */
struct core_request *wake_heir(struct core *core, struct key *key)
{
    if (key->form == FORM_SHARED)
        return NULL; /* R18 */
    CORE_ASSERT(key_holder(key) != NULL);
    const struct group *group = &core->groups[key->group];
    uint32_t most = core->policies[key->policy].handover_max;
    struct core_request *first = key_next_waiter(key);
    if (first != NULL && MUTANT(HEIR_OUT_OF_ORDER))
        first = CONTAINER_OF(key->contest->waiters.head.prev, struct core_request, link);
    if (first == NULL || most == 0 || core->draining || core->locks_under_way >= core->locks_max ||
        set_size(group->up) < quorum_of(core, key))
        return NULL;
    const struct contest *contest = key->contest;
    uint32_t agents = contest->channel.agents,
             others = agents - (contest->channel.watched && agents > 0);
    if (!ticket_is_wanted(key) && contest->handovers >= most && others > 0) {
        end_turn(core, key, others);
        return NULL;
    }
    key->contest->handovers++;
    return first;
}
