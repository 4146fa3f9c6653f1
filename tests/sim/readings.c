/* How agents read the masters' clocks (A1, A3): once a second on each connection that is up unless
 * the group is idle, when a connection comes up, and all at once when the core asks for it or when
 * an idle group is used. A question and its answer take their time as any other message does. They
 * have a stream of chance of their own, so that the other schedules do not change. */
#include "world.h"

enum {
    PERIOD_US_MIN = 700000,
    PERIOD_US_MAX = 980000,
    LATE_PERCENT = 15, /* if nothing else is late */
    LATE_US_MAX = 900000,
    PAUSED_AGAIN_US = 20000,
    AHEAD_US = 2, /* Less than any command takes, and more than a rounding. */
};

struct question {
    struct clock_reading reading;
    int64_t asked_at;
    uint32_t incarnation, generation;
    bool is_ahead; /* It is in the same write as a command, and ahead of it: no way is shorter. */
};

/* In some runs most of them take nearly as long as they may. */
static int64_t way_us(struct world *w, int64_t most)
{
    if (prng_in_10000(&w->readings, w->options.late))
        return prng_between(&w->readings, 10000, w->options.late_us_max);
    if (w->switches.clocks && prng_percent(&w->readings, LATE_PERCENT))
        return prng_between(&w->readings, 10000, LATE_US_MAX);
    if (w->switches.clocks && w->seed % 2 == 0)
        most = 450 * (int64_t)w->options.node_timeout_ms;
    return prng_between(&w->readings, 20, most);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_of_this_connection(const struct world *w, const struct happening *h)
{
    const struct question *question = h->what;
    const struct agent *agent = &w->agents[h->agent];
    return agent->alive && agent->incarnation == question->incarnation &&
           agent->connections[h->master].generation == question->generation;
}

static void ask(struct world *w, uint8_t agent, uint8_t master, bool is_ahead)
{
    struct connection *connection = &w->agents[agent].connections[master];
    struct question *question = world_allocate(w, sizeof *question);
    question->reading.sent = agent_clock(w, agent);
    question->asked_at = w->now;
    question->is_ahead = is_ahead;
    question->incarnation = w->agents[agent].incarnation;
    question->generation = connection->generation;
    int64_t at = later(w->now, connection->cut_out_until) +
                 (is_ahead ? AHEAD_US : way_us(w, w->options.out_us_max));
    connection->asked_until = later(connection->asked_until, at);
    world_plan(w, (struct happening){.at = connection->asked_until,
                                     .kind = HAPPEN_CLOCK_READ,
                                     .agent = agent,
                                     .master = master,
                                     .what = question});
}

static void ask_all(struct world *w, uint8_t agent, bool is_ahead)
{
    for (uint8_t m = 0; m < w->options.masters; m++)
        if (w->agents[agent].connections[m].up)
            ask(w, agent, m, is_ahead);
}

void readings_all(struct world *w, uint8_t agent)
{
    ask_all(w, agent, /* is_ahead= */ false);
}

void readings_ahead(struct world *w, uint8_t agent)
{
    ask_all(w, agent, /* is_ahead= */ true);
}

static void plan_next(struct world *w, uint8_t agent, uint8_t master)
{
    int64_t period_us = prng_between(&w->readings, PERIOD_US_MIN, PERIOD_US_MAX);
    world_plan_in(w, period_us,
                  (struct happening){.kind = HAPPEN_CLOCK_DUE,
                                     .agent = agent,
                                     .master = master,
                                     .number = w->agents[agent].connections[master].generation});
}

void readings_due(struct world *w, const struct happening *h)
{
    const struct connection *connection = &w->agents[h->agent].connections[h->master];
    const struct agent *agent = &w->agents[h->agent];
    if (!agent->alive || !connection->up || connection->generation != h->number)
        return;
    /* A shipped agent asks every 5 s while its group is idle (D5.3). This one does not ask. */
    if (!guard_idles(&agent->guard, agent_clock(w, h->agent)))
        ask(w, h->agent, h->master, /* is_ahead= */ false);
    plan_next(w, h->agent, h->master);
}

/* Reads the master's clock. A stopped master does so when it goes on. */
void readings_at_master(struct world *w, const struct happening *h)
{
    struct question *question = h->what;
    struct connection *connection = &w->agents[h->agent].connections[h->master];
    if (!is_of_this_connection(w, h) || !network_leads_to(w, h->agent, h->master))
        return;
    if (w->masters[h->master].paused) {
        struct happening again = *h;
        world_plan_in(w, PAUSED_AGAIN_US, again);
        return;
    }
    question->reading.wall_us = master_wall_us(w, h->master);
    int64_t at = later(w->now, connection->cut_back_until) +
                 (question->is_ahead ? AHEAD_US : way_us(w, w->options.back_us_max));
    connection->told_until = later(connection->told_until, at);
    world_plan(w, (struct happening){.at = connection->told_until,
                                     .kind = HAPPEN_CLOCK_TOLD,
                                     .agent = h->agent,
                                     .master = h->master,
                                     .what = question});
}

static void tell(struct world *w, uint8_t agent, uint8_t master,
                 const struct clock_reading *reading, int64_t asked_at)
{
    int64_t took_us = instant_us_between(reading->sent, reading->heard);
    struct event event = {.kind = EVENT_MASTER_CLOCK};
    event.master.master = master;
    event.master.clock_offset_us = master_wall_us(w, master) - agent_wall_us(w, agent);
    event.master.reading = *reading;
    w->figures.readings++;
    agent_step_master(w, agent, &event); /* in each of its groups */
    if (took_us <= 1000 * (int64_t)w->options.node_timeout_ms)
        w->agents[agent].clock_read_at[master] = asked_at;
}

void readings_told(struct world *w, const struct happening *h)
{
    struct question *question = h->what;
    if (!is_of_this_connection(w, h))
        return;
    question->reading.heard = agent_clock(w, h->agent);
    tell(w, h->agent, h->master, &question->reading, question->asked_at);
}

void readings_begin(struct world *w, uint8_t agent, uint8_t master)
{
    struct clock_reading reading = {.wall_us = master_wall_us(w, master),
                                    .sent = agent_clock(w, agent),
                                    .heard = agent_clock(w, agent)};
    struct connection *connection = &w->agents[agent].connections[master];
    connection->asked_until = connection->told_until = w->now;
    tell(w, agent, master, &reading, w->now);
    plan_next(w, agent, master);
}
