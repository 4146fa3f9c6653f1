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
 *      masters that it reaches, those who reach the others as well.
 *   5. A grant takes the ticket off; the DELETE of a hold takes off what is left of it, also where another one has the key by now (the
 *      undoing of an attempt and a stranger's release do not), and tells whose turn it is. While a caller here holds the key, those who wait here need no ticket: the hand-over shows it.
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
    request->ticket_is_fresh = key->live == NULL && list_first(&key->waiters) == &request->link;
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

void ticket_granted(struct key *key)
{
    key->tickets.behind = 0;
    key->tickets.unreachable = false;
}

void ticket_withdrawn(struct core *core, struct key *key)
{
    master_set masters = key->tickets.behind & core->groups[key->group].up;
    key->tickets.behind = 0;
    if (masters != 0)
        outbox_withdraw(core, key, masters);
}

void ticket_attempt_failed(struct core *core, struct key *key, bool reachable)
{
    key->tickets.unreachable = !reachable;
    if (!reachable)
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
    struct ticket ticket = {.agent = shows || releases ? core->agent : 0};
    if (shows) {
        ticket.number = op == OP_HANDOVER && MUTANT(HANDOVER_JUMPS_LINE) ? 1 : lock->ticket;
        ticket.ttl_ms = lock->ticket == 0 || lock->key->tickets.unreachable ? 0 : TICKET_MS;
        ticket.fresh = lock->ticket_is_fresh;
    }
    return ticket;
}
