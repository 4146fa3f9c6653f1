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
#include "ticket.h"

#include "core_assert.h"
#include "fence.h"
#include "key_table.h"
#include "outbox.h"

bool ticket_is_wanted(const struct core *core, const struct key *key)
{
    return core->policies[key->policy].order == ORDER_FAIR;
}

void ticket_given(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_WAITING);
    struct key *key = request->key;
    if (!ticket_is_wanted(core, key))
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
    if (!key->is_shared)
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
    lock->errand->ticket_is_left = key->is_shared && next != NULL && next->attempt != NULL;
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

bool ticket_is_stale(const struct core *core, const struct key *key)
{
    const struct core_request *first = request_first(&key->contest->waiters);
    return key->contest->tickets.behind != 0 && first != NULL &&
           first->ticket != key->contest->tickets.shown && ticket_is_wanted(core, key);
}
