/* The model of a master: a clock of its own, and for each key a lock and a fencing number, changed only by the scripts.
 */
#include "world.h"

#include <string.h>

enum { FENCE_RETENTION_MS = 3600 * 1000 };

void master_reset(struct world *w, uint8_t index)
{
    struct master *master = &w->masters[index];
    memset(master, 0, sizeof *master);
    master->rate_ppm = prng_between(&w->prng, -w->options.rate_ppm, w->options.rate_ppm);
    master->wall_us = prng_percent(&w->prng, 80) ? prng_between(&w->prng, -5000, 5000)
                                                 : prng_between(&w->prng, -100000000, 100000000);
    master->epoch = (uint16_t)prng_between(&w->prng, 1, 1000);
    master->parked_end = &master->parked;
    /* All of them new: they vote at once. Fencing numbers outlive lost counters only by time, so the clocks are near each
     * other where counters are lost. */
    master->marker.since_ms = INT64_MIN / 2;
    if (w->switches.forgetful)
        master->wall_us = prng_between(&w->prng, -5000, 5000);
    /* A foreigner sits on one key of one master: with a majority to decide, nobody else minds. */
    if (index == 0 && w->options.masters >= 5 && prng_percent(&w->prng, 3))
        master->keys[0].foreign = true;
}

int64_t master_wall_us(const struct world *w, uint8_t index)
{
    const struct master *master = &w->masters[index];
    return 1700000000000000 + w->now + w->now * master->rate_ppm / 1000000 + master->wall_us + master->jumped_us;
}

/* Redis counts its expiries in whole milliseconds. */
static int64_t clock_ms(const struct world *w, uint8_t index)
{
    return master_wall_us(w, index) / 1000;
}

static void expire(struct master_key *key, int64_t now_ms)
{
    if (key->locked && now_ms >= key->expires_ms)
        key->locked = false;
    if (key->fence != 0 && now_ms >= key->fence_expires_ms)
        key->fence = 0;
}

static bool holds(const struct master_key *key, const uint8_t random[RANDOM_BYTES])
{
    return key->locked && memcmp(key->random, random, RANDOM_BYTES) == 0;
}

bool master_holds(const struct world *w, uint8_t index, uint8_t key, const uint8_t random[RANDOM_BYTES])
{
    struct master_key state = w->masters[index].keys[key];
    expire(&state, clock_ms(w, index));
    return holds(&state, random);
}

bool master_is_locked(const struct world *w, uint8_t index, uint8_t key)
{
    struct master_key state = w->masters[index].keys[key];
    expire(&state, clock_ms(w, index));
    return state.locked;
}

uint8_t master_name(const struct world *w, uint8_t agent, uint8_t key)
{
    return world_breaks(w, BREAK_DISAGREEMENT) && agent % 2 == 1 ? (uint8_t)(key + SIM_KEYS) : key;
}

static void set_lock(struct master_key *key, const struct order *order, int64_t now_ms)
{
    key->locked = true;
    memcpy(key->random, order->token.random, RANDOM_BYTES);
    key->expires_ms = now_ms + order->ttl_ms;
    key->label_len = order->label_len;
    memcpy(key->label, order->label, sizeof key->label);
}

static void store_fence(struct master_key *key, uint64_t fence, int64_t now_ms, uint32_t ttl_ms)
{
    key->fence = fence;
    key->fence_expires_ms = now_ms + ttl_ms + FENCE_RETENTION_MS;
}

/* What there is instead of the token that was asked for. */
static struct verdict not_yours(const struct master_key *key, int64_t now_ms)
{
    if (!key->locked)
        return (struct verdict){.vote = VOTE_ABSENT, .pttl_ms = -1};
    struct verdict verdict = {.vote = VOTE_HELD, .pttl_ms = key->expires_ms - now_ms, .label_len = key->label_len};
    memcpy(verdict.label, key->label, sizeof verdict.label);
    return verdict;
}

/* ---- tickets (R9, order fair) ---- */

static void forget_tickets(const struct world *w, struct master_key *key, int64_t now_ms, uint64_t agent)
{
    for (unsigned i = 0; i < SIM_TICKETS; i++) {
        struct kept_ticket *ticket = &key->tickets[i];
        if (ticket->agent == agent || (now_ms >= ticket->until_ms && !w->switches.eternal_tickets))
            ticket->agent = 0;
    }
}

static struct kept_ticket *first_ticket(struct master_key *key, uint64_t but, uint64_t most, uint64_t *ret_last)
{
    struct kept_ticket *first = NULL;
    *ret_last = 0;
    for (unsigned i = 0; i < SIM_TICKETS; i++) {
        struct kept_ticket *ticket = &key->tickets[i];
        if (ticket->agent == 0 || ticket->agent == but)
            continue;
        *ret_last = ticket->number > *ret_last && ticket->number <= most ? ticket->number : *ret_last;
        if (first == NULL || ticket->number < first->number ||
            (ticket->number == first->number && ticket->agent < first->agent))
            first = ticket;
    }
    return first;
}

uint64_t master_next(struct world *w, uint8_t index, uint8_t key)
{
    uint64_t last;
    struct master_key *state = &w->masters[index].keys[key];
    forget_tickets(w, state, clock_ms(w, index), /* agent= */ 0);
    const struct kept_ticket *first = first_ticket(state, /* but= */ 0, /* most= */ 0, &last);
    return first == NULL ? 0 : first->agent;
}

static void keep_ticket(struct world *w, struct master_key *key, const struct message *message,
                        const struct ticket *shown, uint64_t number, int64_t now_ms)
{
    forget_tickets(w, key, now_ms, shown->agent);
    for (unsigned i = 0; i < SIM_TICKETS && shown->ttl_ms != 0; i++) {
        if (key->tickets[i].agent == 0) {
            key->tickets[i] = (struct kept_ticket){.agent = shown->agent,
                                                   .number = number,
                                                   .until_ms = now_ms + shown->ttl_ms,
                                                   .by = message->agent,
                                                   .sent_at = message->sent_at};
            return;
        }
    }
}

void master_mark(struct world *w, uint8_t index, bool connecting)
{
    struct master *master = &w->masters[index];
    bool other_run = connecting && master->marker.boot != master->boot;
    if (!w->switches.forgetful || !(master->marker.missing || other_run))
        return;
    master->marker.missing = false;
    master->marker.boot = master->boot;
    master->marker.since_ms = clock_ms(w, index);
    master->marker.max_ttl_ms = w->config.max_ttl_ms;
    master->epoch++;
    world_say(w, "m%u begins epoch %u", index, master->epoch);
}

void master_forget(struct world *w, uint8_t index)
{
    struct master *master = &w->masters[index];
    world_say(w, "m%u forgets everything", index);
    memset(master->keys, 0, sizeof master->keys);
    master->marker.missing = true;
    master->epoch++;
    w->forgot_at = w->now;
    w->figures.forgotten++;
}

/* D5.3: for how long it has no vote; 0: it has one; -1: the marker is missing. */
static int64_t guard_left_ms(const struct world *w, const struct master *master, int64_t now_ms)
{
    if (!w->switches.forgetful || w->switches.guard_off)
        return 0;
    if (master->marker.missing)
        return -1;
    int64_t left_ms = master->marker.since_ms + master->marker.max_ttl_ms + 1001 - now_ms;
    return left_ms > 0 ? left_ms : 0;
}

/* A hand-over replaces the token of the holder that releases (R9). */
static struct verdict acquire(const struct world *w, struct master_key *key, const struct order *order, int64_t now_ms,
                              bool inherits)
{
    bool mine = holds(key, order->token.random);
    if (key->locked && !inherits && !mine && !w->switches.set_without_nx)
        return not_yours(key, now_ms);
    if (!mine) {
        set_lock(key, order, now_ms);
        if (order->fencing)
            store_fence(key, key->fence + 1 > order->token.fence ? key->fence + 1 : order->token.fence, now_ms,
                        order->ttl_ms);
    }
    return (struct verdict){.vote = VOTE_YES, .fence = order->fencing ? key->fence : 0, .pttl_ms = -1};
}

/* R9: only to the lowest ticket; whose it is not gets a ticket, and loses the key that it would hand over. */
static struct verdict acquire_in_turn(struct world *w, uint8_t index, const struct message *message,
                                      const struct order *order, int64_t now_ms, bool inherits)
{
    struct master_key *key = &w->masters[index].keys[master_name(w, message->agent, order->key)];
    uint64_t last, number = order->ticket.number;
    forget_tickets(w, key, now_ms, /* agent= */ 0);
    const struct kept_ticket *first =
        first_ticket(key, order->ticket.agent, number + (uint64_t)TICKET_AHEAD_MS * 1000, &last);
    if (number != 0 && order->ticket.fresh && number <= last)
        number = last + 1;
    bool turn =
        first == NULL || w->switches.ignore_tickets ||
        (number != 0 && (number < first->number || (number == first->number && order->ticket.agent < first->agent)));
    struct verdict verdict = {.vote = VOTE_HELD};
    if (turn || (key->locked && !inherits)) {
        verdict = acquire(w, key, order, now_ms, inherits);
    } else {
        verdict.pttl_ms = first->until_ms - now_ms;
        w->figures.queued++;
        turns_withheld(w, index, order->key, first);
        key->locked = false;
        if (inherits)
            channel_publish(w, index, order->key);
    }
    verdict.ticket = number;
    if (verdict.vote == VOTE_YES)
        forget_tickets(w, key, now_ms, order->ticket.agent);
    else
        keep_ticket(w, key, message, &order->ticket, number, now_ms);
    return verdict;
}

static struct verdict withdraw(struct world *w, uint8_t index, const struct order *order, int64_t now_ms)
{
    struct master_key *key = &w->masters[index].keys[order->key];
    forget_tickets(w, key, now_ms, order->ticket.agent);
    w->figures.withdrawn++;
    if (!key->locked && master_next(w, index, order->key) != 0)
        channel_publish(w, index, order->key);
    return (struct verdict){.vote = VOTE_YES, .pttl_ms = -1};
}

/* Nothing shortens: the larger of what is left and the new ttl (R7). */
static struct verdict extend(const struct world *w, struct master_key *key, const struct order *order, int64_t now_ms)
{
    if (now_ms + order->ttl_ms > key->expires_ms || w->switches.renewal_shortens)
        key->expires_ms = now_ms + order->ttl_ms;
    if (order->fencing && key->fence != 0)
        store_fence(key, key->fence, now_ms, order->ttl_ms);
    return (struct verdict){.vote = VOTE_YES, .fence = order->fencing ? key->fence : 0, .pttl_ms = -1};
}

static struct verdict raise_fence(struct master_key *key, const struct order *order, int64_t now_ms)
{
    if (!holds(key, order->token.random))
        return not_yours(key, now_ms);
    if (order->token.fence > key->fence)
        store_fence(key, order->token.fence, now_ms, order->ttl_ms);
    return (struct verdict){.vote = VOTE_YES, .fence = key->fence, .pttl_ms = -1};
}

static struct verdict repair(struct world *w, uint8_t index, const struct message *message, const struct order *order,
                             int64_t now_ms)
{
    struct master_key *key = &w->masters[index].keys[order->key];
    if (key->locked && !holds(key, order->token.random))
        return not_yours(key, now_ms);
    bool missing = !key->locked;
    if (missing) {
        checker_repaired(w, index, message, order);
        set_lock(key, order, now_ms);
    }
    if (order->fencing && order->token.fence > key->fence)
        store_fence(key, order->token.fence, now_ms, order->ttl_ms);
    struct verdict verdict = extend(w, key, order, now_ms);
    verdict.vote = missing ? VOTE_REPAIRED : VOTE_YES;
    return verdict;
}

static struct verdict adopt(const struct world *w, struct master_key *key, const struct order *order, int64_t now_ms)
{
    if (!holds(key, order->token.random))
        return not_yours(key, now_ms);
    if (order->fencing && key->fence != order->token.fence)
        return (struct verdict){.vote = VOTE_MISNUMBERED, .fence = key->fence, .pttl_ms = -1};
    return extend(w, key, order, now_ms);
}

static struct verdict look(const struct master_key *key, int64_t now_ms)
{
    struct verdict verdict = not_yours(key, now_ms);
    if (verdict.vote == VOTE_HELD)
        verdict.vote = VOTE_YES;
    return verdict;
}

struct verdict master_execute(struct world *w, uint8_t index, const struct message *message, const struct order *order)
{
    struct master_key *key = &w->masters[index].keys[master_name(w, message->agent, order->key)];
    int64_t now_ms = clock_ms(w, index);
    expire(key, now_ms);
    if (key->foreign)
        return (struct verdict){.vote = VOTE_FOREIGN, .pttl_ms = -1};
    switch (message->op) {
    case OP_ACQUIRE:
    case OP_HANDOVER: {
        bool compares = !w->switches.handover_without_compare;
        bool inherits = message->op == OP_HANDOVER && (compares ? holds(key, order->previous.random) : key->locked);
        int64_t left_ms = inherits ? 0 : guard_left_ms(w, &w->masters[index], now_ms);
        if (left_ms != 0) {
            w->figures.guarded++;
            return (struct verdict){.vote = VOTE_GUARDED, .pttl_ms = left_ms};
        }
        if (inherits)
            checker_deleted(w, index, order->key, key->random, message->sent_at);
        struct verdict verdict = order->ticket.agent != 0 ? acquire_in_turn(w, index, message, order, now_ms, inherits)
                                                          : acquire(w, key, order, now_ms, inherits);
        verdict.agents = channel_agents(w, index, order->key);
        return verdict;
    }
    case OP_RAISE:
        return raise_fence(key, order, now_ms);
    case OP_RENEW:
        if (holds(key, order->token.random) || (key->locked && w->switches.renew_without_compare))
            return extend(w, key, order, now_ms);
        return not_yours(key, now_ms);
    case OP_REPAIR:
        return repair(w, index, message, order, now_ms);
    case OP_ADOPT:
        return adopt(w, key, order, now_ms);
    case OP_READ:
        return look(key, now_ms);
    case OP_WITHDRAW:
        return withdraw(w, index, order, now_ms);
    default: /* OP_RELEASE */
        break;
    }
    if (order->ticket.agent != 0 && order->ticket.number == 0)
        forget_tickets(w, key, now_ms, order->ticket.agent);
    if (!key->locked || (!holds(key, order->token.random) && !w->switches.release_without_compare))
        return not_yours(key, now_ms);
    checker_deleted(w, index, order->key, key->random, message->sent_at);
    key->locked = false;
    if (order->ticket.number != 0)
        keep_ticket(w, key, message, &order->ticket, order->ticket.number, now_ms);
    channel_publish(w, index, order->key);
    return (struct verdict){.vote = VOTE_YES, .pttl_ms = -1};
}
