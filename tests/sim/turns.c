/* The order over all agents, with order fair (C11, R9). Checked in a healed world, in which nothing
 * takes longer than it should:
 *
 *   - No caller is granted a key before one that came earlier and still waits, except within the
 *     difference of the clocks.
 *   - The first waiter of an agent has a higher number than the tickets that a quorum had then, no
 *     matter what time the clocks show.
 *   - A ticket withholds votes only while a caller waits for the key at its agent, and a little
 *     longer; and only while its agent reaches a quorum.
 *
 * One agent may be far from so many masters that no quorum answers it in time: its waiters get
 * nothing, and the others must not suffer for it (C6). */
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* After so long the healed world has no message of the faulty phase in flight. */
    RESTING_US = 2500000,
    SLACK_US = 300000,
    /* With two round trips added: until the ticket of a new waiter is on all masters. */
    COMING_US = 5000,
    /* After so long a first attempt is decided, and an agent without waiters is at rest. */
    SETTLED_US = 50000,
    /* After so long the ticket of a waiter that left is off the masters. */
    WITHDRAWING_US = 100000,
};

void turns_reset(struct world *w)
{
    w->choked = SIM_AGENTS;
    w->choked_at = 0;
    w->far = 0;
    for (uint8_t a = 0; a < w->options.agents; a++) {
        struct agent *agent = &w->agents[a];
        memset(agent->head, 0, sizeof agent->head);
        memset(agent->shown_at, 0, sizeof agent->shown_at);
        memset(agent->head_since, 0, sizeof agent->head_since);
        memset(agent->wanted_last, 0, sizeof agent->wanted_last);
    }
}

/* ---- waiters --------------------------------------------------------------------------------- */

static const struct request *head_of(const struct agent *agent, uint8_t key)
{
    const struct request *head = NULL;
    for (size_t i = 0; i < SIM_REQUESTS; i++) {
        const struct request *request = agent->open[i];
        if (request != NULL && request->kind == EVENT_ACQUIRE && request->wait_ms > 0 &&
            request->key == key && (head == NULL || request->arrived < head->arrived))
            head = request;
    }
    return head;
}

static bool is_looked_at(const struct world *w)
{
    return w->options.fair && w->healed;
}

void turns_after_step(struct world *w, uint8_t index)
{
    struct agent *agent = &w->agents[index];
    for (uint8_t key = 0; key < w->options.keys && is_looked_at(w); key++) {
        const struct request *head = head_of(agent, key);
        if (head != NULL || agent->head[key] != NULL || agent->held[key] != NULL)
            agent->wanted_last[key] = w->now;
        if (head != agent->head[key])
            agent->head_since[key] = w->now;
        agent->head[key] = head;
    }
}

static bool is_wanted(const struct world *w, uint8_t index, uint8_t key)
{
    const struct agent *agent = &w->agents[index];
    return agent->head[key] != NULL || agent->held[key] != NULL;
}

static bool has_lost_since(const struct world *w, uint8_t agent, uint8_t key, int64_t since)
{
    for (uint16_t i = 1; i < w->hold_count; i++) {
        const struct hold *hold = &w->holds[i];
        if (hold->key == key && hold->tenures[agent].lost && hold->window_until > since)
            return true;
    }
    return false;
}

/* Returns true if the agent has a hold that was released elsewhere, lost or not. It begins no
 * attempt before the validity that it reported has ended. Beside readers every waiter contends
 * (R18). */
static bool sits_on_a_hold(const struct world *w, uint8_t agent, uint8_t key)
{
    const struct hold *hold = w->agents[agent].held[key];
    while (hold != NULL && hold->mode == MODE_READ)
        hold = hold->tenures[agent].next;
    return hold != NULL || has_lost_since(w, agent, key, w->now - SLACK_US);
}

/* ---- by tickets ------------------------------------------------------------------------------ */

/* Returns true if a quorum has had the ticket of the first waiter there since before `before`, with
 * one and the same number, and the agent knows that. */
static bool is_ticketed(const struct world *w, uint8_t agent, uint8_t key, int64_t before,
                        uint64_t *ret_number)
{
    if (w->agents[agent].head_since[key] + SETTLED_US >= w->now)
        return false;
    uint64_t highest = 0;
    unsigned masters = 0;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        for (unsigned i = 0; i < SIM_TICKETS; i++) {
            const struct kept_ticket *ticket = &w->masters[m].keys[key].tickets[i];
            if (ticket->agent == 0 || ticket->by != agent ||
                ticket->sent_at < w->agents[agent].head_since[key] || ticket->sent_at >= before)
                continue;
            if (ticket->number > highest)
                highest = ticket->number, masters = 0;
            masters += ticket->number == highest;
        }
    }
    *ret_number = highest;
    return masters >= world_quorum(w);
}

/* A master that votes for an attempt has not got its ticket until that is undone (R9). */
static bool is_attempting(const struct world *w, uint8_t agent, uint8_t key)
{
    int64_t round_trip_us = options_round_trip_us(&w->options);
    return w->agents[agent].shown_at[key] + COMING_US + 2 * round_trip_us > w->now;
}

void turns_came(struct world *w, const struct request *request)
{
    uint8_t key = request->key, agent = request->agent;
    if (!is_looked_at(w) || agent == w->choked || request->kind != EVENT_ACQUIRE ||
        request->caller >= w->caller_count)
        return;
    /* It takes so long that clocks drift apart by more than R9 allows, or they step. */
    if (w->switches.in_turn || w->switches.clocks)
        return;
    struct caller *caller = &w->callers[request->caller];
    bool first =
        !is_wanted(w, agent, key) && w->agents[agent].wanted_last[key] + SETTLED_US < w->now;
    if (!caller->probes || !first || sits_on_a_hold(w, agent, key))
        return;
    uint64_t number;
    for (uint8_t a = 0; a < w->options.agents; a++)
        if (a != agent && a != w->choked && !is_attempting(w, a, key) &&
            is_ticketed(w, a, key, w->now, &number))
            caller->behind[a] = w->agents[a].head[key];
}

void turns_shown(struct world *w, uint8_t agent, const struct order *order)
{
    w->agents[agent].shown_at[order->key] = w->now;
    size_t index = order->label_len < 3
                       ? SIZE_MAX
                       : (size_t)(order->label[1] - '0') * 10 + (size_t)(order->label[2] - '0');
    if (!is_looked_at(w) || order->ticket.number == 0 || order->ticket.fresh ||
        index >= w->caller_count)
        return;
    const struct caller *caller = &w->callers[index];
    for (uint8_t a = 0; a < w->options.agents && caller->request != NULL; a++) {
        const struct request *before = caller->behind[a];
        uint64_t number;
        if (before == NULL || before->state != REQUEST_OPEN ||
            w->agents[a].head[caller->key] != before ||
            !is_ticketed(w, a, caller->key, caller->request->asked_at, &number))
            continue;
        if (order->ticket.number <= number)
            checker_fail(w,
                         "C11 c%u at a%u has a lower number for k%u than c%u at a%u, whose ticket "
                         "a quorum had when it came",
                         caller->index, agent, caller->key, before->caller, a);
    }
}

void turns_withheld(struct world *w, uint8_t master, uint8_t key, const struct kept_ticket *ticket)
{
    const struct agent *agent = &w->agents[ticket->by];
    bool wanted = is_wanted(w, ticket->by, key);
    if (!w->healed || ticket->sent_at <= w->healed_at + RESTING_US)
        return;
    /* The rest of a lost hold runs out, as the key may. */
    if (!wanted && w->now - agent->wanted_last[key] > WITHDRAWING_US &&
        !has_lost_since(w, ticket->by, key, ticket->sent_at))
        checker_fail(w, "C11 m%u withholds k%u for a%u, where nobody has waited for %lld us",
                     master, key, ticket->by, (long long)(w->now - agent->wanted_last[key]));
    /* It learns by its first attempt that it reaches no quorum. */
    if (wanted && ticket->by == w->choked && agent->head_since[key] >= w->choked_at &&
        ticket->sent_at > agent->head_since[key] + FAR_US(w) &&
        !has_lost_since(w, ticket->by, key, agent->head_since[key]))
        checker_fail(w, "C11 m%u withholds k%u for a%u, which reaches no quorum", master, key,
                     ticket->by);
}

/* ---- by the time of coming ------------------------------------------------------------------- */

/* R18: Returns true if the other caller may be passed. A reader passes readers. It passes a writer
 * that its agent has not shown yet because other waiters were before it there. */
static bool may_be_passed(const struct world *w, const struct caller *other, int64_t slack_us)
{
    const struct agent *agent = &w->agents[other->agent];
    int64_t shown_us = slack_us + 2000 * (int64_t)w->options.node_timeout_ms + SETTLED_US;
    return other->request->mode == MODE_READ || agent->head[other->key] != other->request ||
           agent->head_since[other->key] + shown_us > w->now;
}

static int compare_times(const void *a, const void *b)
{
    const int64_t *first = a, *second = b;
    return (*first > *second) - (*first < *second);
}

static int64_t median_wall_us(const struct world *w)
{
    int64_t walls[SIM_MASTERS];
    for (uint8_t m = 0; m < w->options.masters; m++)
        walls[m] = master_wall_us(w, m);
    qsort(walls, w->options.masters, sizeof walls[0], compare_times);
    return walls[w->options.masters / 2];
}

/* One agent may go by the masters' clocks already, while another one goes by its own. */
static bool some_distrust(const struct world *w)
{
    int64_t median_us = median_wall_us(w);
    bool some = false, all = true;
    for (uint8_t a = 0; a < w->options.agents; a++) {
        int64_t off_us = llabs(median_us - agent_wall_us(w, a));
        some = some || off_us > 950 * (int64_t)CLOCK_TRUST_MS;
        all = all && off_us > 1050 * (int64_t)CLOCK_TRUST_MS;
    }
    return some && !all;
}

/* Agents whose clocks are off from the masters' median by less than CLOCK_TRUST_MS go by their own,
 * the others by that median, as they read it once. */
void turns_granted(struct world *w, const struct caller *caller, const struct request *request)
{
    if (w->switches.clocks) /* those that tell who came first have stopped or jumped */
        return;
    int64_t round_trip_us = options_round_trip_us(&w->options);
    int64_t slack_us = COMING_US + 2 * round_trip_us + 2 * w->now / 1000000 * w->options.rate_ppm;
    if (w->options.wall_us != 0 || w->options.wall_jumps != 0 || some_distrust(w))
        slack_us += 2 * (int64_t)CLOCK_TRUST_MS * 1000;
    for (size_t i = 0; i < w->caller_count; i++) {
        const struct caller *other = &w->callers[i];
        if (!other->probes || other->hopeless || other->key != caller->key ||
            other->state != CALLER_ASKING || other->request == NULL ||
            other->request->kind != EVENT_ACQUIRE)
            continue;
        int64_t earlier_us = request->asked_at - other->request->asked_at;
        if (request->mode == MODE_READ && may_be_passed(w, other, slack_us))
            continue;
        if (earlier_us > slack_us && !sits_on_a_hold(w, other->agent, caller->key))
            checker_fail(
                w, "C11 c%u at a%u is granted k%u before c%u at a%u, who came %lld us earlier",
                caller->index, caller->agent, caller->key, other->index, other->agent,
                (long long)earlier_us);
    }
}
