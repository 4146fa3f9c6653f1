/* Order over all agents (R9, order fair): first come, first served, by tickets that the masters keep.
 *
 *   1. Every waiter has a number, the lowest is served first: the time of its coming by the clock that proposes fencing numbers.
 *      One who comes to an agent where nobody waits gets at least one more than the last number on the masters. So the order is that of
 *      coming, but for the difference of the clocks. Numbers that are ahead by more than clocks can differ are of a clock that was set
 *      right since: they raise nobody else's, and the agent itself takes the present time instead.
 *   2. An agent keeps one ticket of a key on every master: that of the first who waits here. Each attempt shows it, and a master
 *      grants only to the lowest that it has (equal numbers: to the lower agent), so attempts do not split the votes.
 *   3. A ticket that is not shown again for TICKET_MS is void: a dead or frozen agent blocks nobody for longer. Attempts are nearer
 *      to each other than that.
 *   4. An agent that reaches no quorum withdraws its ticket, and leaves none until a quorum has answered: else it would block, on the
 *      masters that it reaches, those who reach the others as well. Fewer than a quorum may refuse an attempt, so who answers is
 *      counted beyond its decision.
 *   5. A grant takes the ticket off, and the undoing of an attempt that failed puts it back in the same moment: votes that are split
 *      cost nobody the place in the line, and nobody who came later takes part in the next attempt.
 *   6. While a caller here holds the key, those who wait here need no ticket: the hand-over shows it, or the release puts it there.
 *      Where nobody waits here, the DELETE of a hold takes off what is left of its ticket, also where another one has the key by now
 *      (a stranger's release does not). Each of them tells whose turn it is.
 *
 * Tickets decide who is served, never whether there is one holder: masters that lost them, or show different ones, cost order or
 * an attempt, and the next attempt shows the number again. Who does not wait has no ticket and is refused while anybody has one. */
#include "core_assert.h"
#include "state.h"

bool ticket_is_wanted(const struct core *core, const struct key *key)
{
    return core->policies[key->policy].order == ORDER_FAIR;
}

void ticket_given(struct core *core, struct request *request)
{
    struct key *key = request->key;
    if (!ticket_is_wanted(core, key))
        return;
    request->ticket = fence_proposal(core, key->group);
    bool first = list_first(&key->waiters) == &request->link;
    request->ticket_is_fresh = key->live == NULL && first;
    if (first)
        key->tickets.since = (struct instant){0}; /* what was asked for those before says nothing now */
}

/* Whether a quorum answered, as it is known when one more attempt begins; not before the masters' time is up. */
static void count_answers(struct core *core, struct key *key, const struct lock *lock)
{
    bool asked = key->tickets.since.us != 0;
    uint32_t node_timeout_ms = core->groups[key->group].config.node_timeout_ms;
    if (asked && instant_before(core->now, instant_after_ms(key->tickets.since, node_timeout_ms)))
        return;
    key->tickets.unreachable =
        asked && set_size(key->tickets.answered) < lock->quorum && !MUTANT(TICKET_WITHOUT_QUORUM);
    key->tickets.answered = 0;
    key->tickets.since = core->now;
    if (key->tickets.unreachable)
        ticket_withdrawn(core, key);
}

void ticket_answered(struct core *core, struct lock *lock, const struct event_reply *reply)
{
    bool decides = reply->vote == VOTE_YES || reply->vote == VOTE_HELD || reply->vote == VOTE_FOREIGN;
    uint32_t node_timeout_ms = core->groups[lock->group].config.node_timeout_ms;
    if ((reply->op != OP_ACQUIRE && reply->op != OP_HANDOVER) || !decides ||
        !instant_before(core->now, instant_after_ms(lock->acquired_at, node_timeout_ms)))
        return;
    lock->key->tickets.answered |= set_of(reply->master);
    if (set_size(lock->key->tickets.answered) >= lock->quorum)
        lock->key->tickets.unreachable = false;
}

void ticket_begin_attempt(struct core *core, struct lock *lock, struct request *request)
{
    struct key *key = lock->key;
    uint64_t now = fence_proposal(core, key->group);
    if (request->ticket > now + (uint64_t)TICKET_AHEAD_MS * 1000 || MUTANT(TICKET_RENUMBERED))
        request->ticket = now;
    lock->ticket = request->ticket;
    lock->ticket_is_fresh = request->ticket_is_fresh;
    if (lock->ticket == 0)
        return;
    count_answers(core, key, lock);
    key->tickets.shown = lock->ticket;
    if (!key->tickets.unreachable)
        key->tickets.behind |= core->groups[key->group].up;
}

void ticket_heard(struct core *core, struct lock *lock, uint64_t number)
{
    if (!lock->ticket_is_fresh || number < lock->ticket)
        return;
    struct request *request = &core->requests[lock->contender];
    request->ticket_is_fresh = false;
    request->ticket = lock->ticket = lock->key->tickets.shown = number;
}

void ticket_forgotten(struct lock *lock)
{
    lock->ticket = 0;
}

void ticket_granted(struct lock *lock)
{
    struct key *key = lock->key;
    ticket_forgotten(lock);
    key->tickets.behind = 0;
    key->tickets.unreachable = false;
    key->tickets.since = (struct instant){0};
}

void ticket_released(struct core *core, struct lock *lock)
{
    struct key *key = lock->key;
    struct link *first = list_first(&key->waiters);
    const struct request *next = first == NULL ? NULL : CONTAINER_OF(first, struct request, link);
    if (next == NULL || next->ticket == 0 || next->ticket_is_fresh || key->tickets.unreachable ||
        MUTANT(TICKET_AFTER_RELEASE))
        return;
    lock->ticket = key->tickets.shown = next->ticket;
    key->tickets.behind |= core->groups[key->group].up;
}

void ticket_withdrawn(struct core *core, struct key *key)
{
    master_set masters = key->tickets.behind & core->groups[key->group].up;
    key->tickets.behind = 0;
    if (masters != 0 && !MUTANT(TICKET_OUTLIVES_WAITER))
        outbox_withdraw(core, key, masters);
}

void ticket_attempt_failed(struct core *core, struct lock *lock, enum answer answer)
{
    struct key *key = lock->key;
    if (core->requests[lock->contender].ticket_is_fresh || key->tickets.unreachable || MUTANT(TICKET_LOST_WITH_VOTE))
        ticket_forgotten(lock); /* no master has said what its number is to be; or it has none there */
    if (answer != ANSWER_QUORUM_UNAVAILABLE || MUTANT(TICKET_WITHOUT_QUORUM))
        return;
    ticket_forgotten(lock);
    key->tickets.unreachable = true;
    key->tickets.answered = 0;
    ticket_withdrawn(core, key);
}

bool ticket_is_stale(const struct core *core, const struct key *key)
{
    struct link *first = list_first(&key->waiters);
    return key->tickets.behind != 0 && first != NULL &&
           CONTAINER_OF(first, struct request, link)->ticket != key->tickets.shown && ticket_is_wanted(core, key);
}

struct ticket ticket_of(const struct core *core, const struct lock *lock, enum op op)
{
    bool shows = op == OP_ACQUIRE || op == OP_HANDOVER;
    bool releases = lock->state == LOCK_RELEASING && !lock->stranger; /* then nobody waited here by a ticket */
    bool undoes = lock->state == LOCK_ENDED && lock->ticket != 0;
    struct ticket ticket = {.agent = shows || releases || undoes ? core->agent : 0};
    if (releases || undoes) {
        ticket.number = lock->ticket;
        ticket.ttl_ms = lock->ticket == 0 ? 0 : TICKET_MS;
    } else if (shows) {
        ticket.number = op == OP_HANDOVER && MUTANT(HANDOVER_JUMPS_LINE) ? 1 : lock->ticket;
        ticket.ttl_ms = lock->ticket == 0 || lock->key->tickets.unreachable ? 0 : TICKET_MS;
        ticket.fresh = lock->ticket_is_fresh && !MUTANT(TICKET_NOT_RAISED);
    }
    return ticket;
}
