/* How soon a release wakes the waiters at other agents, and which one it wakes first (R9).
 *
 * In a healed world a waiter's agent is subscribed on a quorum of masters. The message of a release
 * then lets it try. The next grant of the key comes within three round trips and the spread of the
 * woken waiters, unless the vote is split and a back-off follows. That is seldom. So the share of
 * late grants is bounded, loosely in each run (C6) and closely over many (main.c).
 *
 * If many callers wait at each agent, an agent that has had its turn is passed over by no agent
 * that has had one since. Delays can break this order too. So the share of turns by which an agent
 * is passed over is bounded in the same way (C11). */
#include "world.h"

#include <string.h>

enum {
    /* a waiter has made its first attempt, and its subscriptions are confirmed */
    SETTLED_US = 100000,
    SLACK_US = 5000,
    LATE_IN_ONE_RUN = 3, /* may be chance */
    PASSED_OVER_IN_ONE_RUN = 9,
};

void wakes_reset(struct world *w)
{
    memset(w->freed_at, 0, sizeof w->freed_at);
    memset(w->turn_last, 0, sizeof w->turn_last);
    w->wakes = w->wakes_late = w->turn_number = w->turns = w->turns_passed_over = 0;
}

static bool is_subscribed(const struct world *w, uint8_t agent, uint8_t key)
{
    unsigned masters = 0;
    for (uint8_t m = 0; m < w->options.masters; m++)
        masters += w->agents[agent].connections[m].subscribed[key];
    return masters >= world_quorum(w);
}

static bool waits(const struct world *w, uint8_t agent, uint8_t key, int64_t since)
{
    for (size_t i = 0; i < SIM_REQUESTS; i++) {
        const struct request *request = w->agents[agent].open[i];
        if (request != NULL && request->kind == EVENT_ACQUIRE && request->key == key &&
            request->wait_ms > 0 && request->asked_at < since)
            return true;
    }
    return false;
}

void wakes_released(struct world *w, uint8_t agent, uint8_t key)
{
    w->freed_at[key] = 0;
    if (!w->healed || w->now <= w->healed_at + 2500000 || waits(w, agent, key, w->now))
        return; /* A waiter at this agent is handed the key. */
    for (uint8_t a = 0; a < w->options.agents; a++)
        if (a != agent && a != w->choked && waits(w, a, key, w->now - SETTLED_US) &&
            is_subscribed(w, a, key))
            w->freed_at[key] = w->now;
}

/* Returns true if the agent has had a turn, but not the last one, and a caller waits there for the
 * first key. */
static bool wants_turn(const struct world *w, uint8_t agent)
{
    uint32_t last = w->turn_last[agent];
    return last != 0 && last < w->turn_number - 1 && waits(w, agent, 0, w->now - SETTLED_US);
}

/* The first key's, for which many wait. */
static void turn_began(struct world *w, uint8_t agent)
{
    uint32_t last = w->turn_last[agent];
    w->turn_last[agent] = ++w->turn_number;
    if (last == 0)
        return;
    bool is_choice = false, passes_over = false;
    for (uint8_t a = 0; a < w->options.agents; a++) {
        bool wanted = a != agent && wants_turn(w, a);
        is_choice |= wanted;
        passes_over |= wanted && w->turn_last[a] < last;
    }
    w->turns += is_choice;
    w->turns_passed_over += passes_over;
}

void wakes_granted(struct world *w, uint8_t agent, uint8_t key)
{
    if (w->switches.many_wait && w->healed && key == 0 &&
        (w->turn_last[agent] == 0 || w->turn_last[agent] != w->turn_number))
        turn_began(w, agent);
    int64_t round_trip_us = options_round_trip_us(&w->options);
    if (w->freed_at[key] == 0)
        return;
    w->wakes++;
    w->wakes_late += w->now - w->freed_at[key] > (3 + w->options.agents) * round_trip_us + SLACK_US;
    w->freed_at[key] = 0;
}

void wakes_end(struct world *w)
{
    w->figures.wakes += w->wakes;
    w->figures.wakes_late += w->wakes_late;
    if (w->wakes_late > LATE_IN_ONE_RUN && 2 * w->wakes_late > w->wakes)
        checker_fail(w, "C6 %u of %u releases woke nobody in time", w->wakes_late, w->wakes);
    w->figures.turns += w->turns;
    w->figures.turns_passed_over += w->turns_passed_over;
    if (w->turns_passed_over > PASSED_OVER_IN_ONE_RUN && 4 * w->turns_passed_over > 3 * w->turns)
        checker_fail(w, "C11 in %u of %u turns an agent was passed over", w->turns_passed_over,
                     w->turns);
}
