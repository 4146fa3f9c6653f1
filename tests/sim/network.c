/* The network: one ordered connection per agent and master, whose end loses the order (R5) and the
 * fate of what was in flight. */
#include "world.h"

#include "agent/redis/replies.h"

#include <string.h>

enum { HEALED_GRACE_US = 1000000, DOUBLED_AFTER_US = 1000000 };

static struct connection *connection_of(struct world *w, const struct flight *flight)
{
    return &w->agents[flight->message->agent].connections[flight->master];
}

bool network_leads_to(const struct world *w, uint8_t agent, uint8_t master)
{
    return !w->masters[master].down &&
           w->agents[agent].connections[master].master_boot == w->masters[master].boot;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Half of the usual delays are short ones: agents differ in how far they are from a master. */
static int64_t delay_us(struct world *w, int64_t most)
{
    if (prng_in_10000(&w->prng, w->options.late))
        return prng_between(&w->prng, 10000, w->options.late_us_max);
    return prng_between(&w->prng, 20, prng_percent(&w->prng, 50) ? most : most / 8 + 20);
}

static void depart(struct world *w, struct flight *flight)
{
    struct connection *connection = connection_of(w, flight);
    int64_t at = w->now + delay_us(w, w->options.out_us_max);
    if (is_far(w, flight->message->agent, flight->master))
        at += FAR_US(w);
    if (w->now < connection->cut_out_until)
        at = later(at, connection->cut_out_until + 1000);
    at = later(at, connection->arrival_last);
    connection->arrival_last = at;
    if (connection->first == NULL)
        connection->first = flight;
    else
        connection->last->next = flight;
    connection->last = flight;
    world_plan(w, (struct happening){.at = at, .kind = HAPPEN_COMMAND, .what = flight});
    if (!connection->checking) {
        connection->checking = true;
        world_plan_in(w, w->options.silence_us,
                      (struct happening){.kind = HAPPEN_CHECK,
                                         .agent = flight->message->agent,
                                         .master = flight->master,
                                         .number = connection->generation});
    }
}

void network_send(struct world *w, uint8_t agent, const struct effect_send *send,
                  const struct send_item *items)
{
    if (send->count == 0 || send->masters == 0 || send->masters >> w->options.masters != 0)
        checker_fail(w,
                     "seam: a command without items or masters, or to masters that there are not");
    if (send->count > (op_is_gathered(send->op) ? LIMIT_BATCH : 1))
        checker_fail(w, "seam: %u items in one %s", send->count, op_name(send->op));
    if (w->violation[0] != '\0')
        return;
    w->figures.shared_acquires += send->op == OP_ACQUIRE && send->count > 1;
    w->figures.shared_releases += send->op == OP_RELEASE && send->count > 1;
    const struct message *message = flight_copy(w, agent, send, items);
    for (uint8_t m = 0; m < w->options.masters; m++) {
        if ((send->masters >> m & 1) == 0)
            continue;
        struct flight *flight = world_allocate(w, sizeof *flight);
        struct connection *connection = &w->agents[agent].connections[m];
        flight->message = message;
        flight->master = m;
        flight->generation = connection->generation;
        flight->master_boot = connection->master_boot;
        if (connection->up && !prng_in_10000(&w->prng, w->options.not_sent))
            depart(w, flight);
        else
            world_plan_in(w, prng_between(&w->prng, 0, 20),
                          (struct happening){
                              .kind = HAPPEN_REPLY, .agent = agent, .master = m, .what = flight});
    }
}

static void execute(struct world *w, struct flight *flight)
{
    bool refused = prng_in_10000(&w->prng, w->options.refused),
         not_run = prng_in_10000(&w->prng, w->options.not_run);
    flight_execute(w, flight, refused ? MISHAP_REFUSED : not_run ? MISHAP_NOT_RUN : MISHAP_NONE);
}

void network_arrive(struct world *w, struct flight *flight)
{
    struct master *master = &w->masters[flight->master];
    if (flight->lost || master->down || master->boot != flight->master_boot)
        return;
    /* In a healed world nothing travels for longer than the grace. */
    if (w->healed && !flight_is_connected(w, flight) && w->now > w->healed_at + HEALED_GRACE_US)
        return;
    if (flight->extra_us != 0) {
        int64_t extra_us = flight->extra_us;
        flight->extra_us = 0;
        world_plan_in(w, extra_us, (struct happening){.kind = HAPPEN_COMMAND, .what = flight});
        return;
    }
    if (master->paused) {
        flight->next_parked = NULL;
        *master->parked_end = flight;
        master->parked_end = &flight->next_parked;
        return;
    }
    execute(w, flight);
    if (!flight_is_connected(w, flight))
        return;
    struct connection *connection = connection_of(w, flight);
    int64_t at = w->now + delay_us(w, w->options.back_us_max);
    if (w->now < connection->cut_back_until)
        at = later(at, connection->cut_back_until + 1000);
    at = later(at, connection->reply_last);
    connection->reply_last = at;
    world_plan(w, (struct happening){.at = at,
                                     .kind = HAPPEN_REPLY,
                                     .agent = flight->message->agent,
                                     .master = flight->master,
                                     .what = flight});
}

static void tell_epoch(struct world *w, uint8_t agent, uint8_t master, uint16_t epoch)
{
    struct connection *connection = &w->agents[agent].connections[master];
    struct event event = {.kind = EVENT_MASTER_UP};
    event.master.master = master;
    event.master.epoch = connection->epoch = epoch;
    event.master.clock_offset_us = master_wall_us(w, master) - agent_wall_us(w, agent);
    agent_step_master(w, agent, &event);
}

/* What the scripts say of the marker: behind a key that is missing its epoch, and to an acquire
 * that there is none. */
static void hear_epoch(struct world *w, const struct flight *flight)
{
    const struct message *message = flight->message;
    struct connection *connection = connection_of(w, flight);
    if (!w->switches.forgetful || !connection->up || flight->epoch == 0 ||
        flight->epoch == connection->epoch)
        return;
    tell_epoch(w, message->agent, flight->master, flight->epoch);
    world_plan_in(w, prng_between(&w->prng, 100, 5000),
                  (struct happening){.kind = HAPPEN_MARKER,
                                     .agent = message->agent,
                                     .master = flight->master,
                                     .number = connection->generation});
}

/* Its reply comes behind all that is in flight, so it is asked when nothing is. */
void network_marker(struct world *w, uint8_t agent, uint8_t index, uint32_t generation)
{
    struct connection *connection = &w->agents[agent].connections[index];
    struct master *master = &w->masters[index];
    if (connection->generation != generation || !connection->up || !w->agents[agent].alive)
        return;
    if (connection->first != NULL || !network_leads_to(w, agent, index) || master->paused ||
        w->now < connection->cut_out_until || w->now < connection->cut_back_until) {
        world_plan_in(
            w, prng_between(&w->prng, 1000, 20000),
            (struct happening){
                .kind = HAPPEN_MARKER, .agent = agent, .master = index, .number = generation});
        return;
    }
    master_mark(w, index, /* connecting= */ false);
    if (master->epoch != connection->epoch)
        tell_epoch(w, agent, index, master->epoch);
}

void network_reply(struct world *w, struct flight *flight, bool copy)
{
    struct agent *agent = &w->agents[flight->message->agent];
    if (agent->incarnation != flight->message->incarnation || !agent->alive)
        return;
    if (!flight->executed) { /* it was never sent */
        flight_report(w, flight, NULL, VOTE_NOT_SENT);
        return;
    }
    if (!copy) {
        struct connection *connection = connection_of(w, flight);
        if (connection->generation != flight->generation)
            return; /* its end has already been reported as unknown */
        if (connection->first != flight) {
            checker_fail(w, "seam: a%u is answered out of order by m%u", flight->message->agent,
                         flight->master);
            return;
        }
        connection->first = flight->next;
        if (connection->first == NULL)
            connection->last = NULL;
        if (prng_in_10000(&w->prng, w->options.doubled))
            world_plan_in(w, prng_between(&w->prng, 0, DOUBLED_AFTER_US),
                          (struct happening){.kind = HAPPEN_REPLY,
                                             .agent = flight->message->agent,
                                             .master = flight->master,
                                             .copy = true,
                                             .what = flight});
    }
    if (!copy)
        hear_epoch(w, flight);
    flight_report(w, flight, flight->verdicts, VOTE_YES);
    if (!copy && w->violation[0] == '\0' && prng_in_10000(&w->prng, 100)) {
        struct event event = {.kind = EVENT_MASTER_CLOCK};
        event.master.master = flight->master;
        event.master.clock_offset_us =
            master_wall_us(w, flight->master) - agent_wall_us(w, flight->message->agent);
        agent_step_master(w, flight->message->agent, &event);
    }
}

void network_check(struct world *w, uint8_t agent, uint8_t master, uint32_t generation)
{
    struct connection *connection = &w->agents[agent].connections[master];
    if (connection->generation != generation)
        return;
    connection->checking = connection->first != NULL;
    if (connection->first == NULL)
        return;
    int64_t due_at = connection->first->message->sent_at + w->options.silence_us;
    if (due_at <= w->now)
        network_drop(w, agent, master, generation);
    else
        world_plan(w, (struct happening){.at = due_at,
                                         .kind = HAPPEN_CHECK,
                                         .agent = agent,
                                         .master = master,
                                         .number = generation});
}

/* What had not arrived may arrive much later, or not at all; once one byte is lost, so is all
 * behind it. */
static struct flight *cut_off(struct world *w, struct connection *connection)
{
    struct flight *flights = connection->first;
    int64_t extra_us = prng_percent(&w->prng, 60)
                           ? 0
                           : prng_between(&w->prng, 0, 2000 * (int64_t)w->options.ttl_ms_max);
    bool lost = prng_percent(&w->prng, 40);
    for (struct flight *flight = flights; flight != NULL; flight = flight->next) {
        lost = lost || prng_percent(&w->prng, 20);
        flight->lost = lost;
        flight->extra_us = extra_us;
    }
    connection->first = connection->last = NULL;
    connection->up = connection->checking = false;
    connection->arrival_last = connection->reply_last = 0;
    connection->generation++;
    memset(connection->subscribed, 0, sizeof connection->subscribed);
    return flights;
}

void network_abandon(struct world *w, uint8_t agent)
{
    for (uint8_t m = 0; m < w->options.masters; m++)
        cut_off(w, &w->agents[agent].connections[m]);
}

static void report_all_unknown(struct world *w, const struct flight *flight)
{
    for (; flight != NULL; flight = flight->next)
        flight_report(w, flight, NULL, VOTE_UNKNOWN);
}

void network_drop(struct world *w, uint8_t agent, uint8_t master, uint32_t generation)
{
    struct connection *connection = &w->agents[agent].connections[master];
    if (connection->generation != generation || !connection->up || !w->agents[agent].alive)
        return;
    world_say(w, "a%u-m%u: connection ends", agent, master);
    struct flight *flights = cut_off(w, connection);
    struct event down = {.kind = EVENT_MASTER_DOWN};
    down.master.master = master;
    if (!w->options.down_first)
        report_all_unknown(w, flights);
    if (w->violation[0] == '\0')
        agent_step_master(w, agent, &down);
    if (w->options.down_first)
        report_all_unknown(w, flights);
    channel_dropped(w, agent, master);
    world_plan_in(w, prng_between(&w->prng, 1000, 250000),
                  (struct happening){.kind = HAPPEN_CONNECT,
                                     .agent = agent,
                                     .master = master,
                                     .number = connection->generation});
}

void network_connect(struct world *w, uint8_t agent, uint8_t index, uint32_t generation)
{
    struct connection *connection = &w->agents[agent].connections[index];
    struct master *master = &w->masters[index];
    if (connection->generation != generation || connection->up || !w->agents[agent].alive)
        return;
    if (master->down || master->paused || w->now < connection->cut_out_until ||
        w->now < connection->cut_back_until) {
        world_plan_in(
            w, prng_between(&w->prng, 10000, 500000),
            (struct happening){
                .kind = HAPPEN_CONNECT, .agent = agent, .master = index, .number = generation});
        return;
    }
    connection->up = true;
    connection->master_boot = master->boot;
    master_mark(w, index, /* connecting= */ true);
    connection->epoch = master->epoch;
    struct event event = {.kind = EVENT_MASTER_UP};
    event.master.master = index;
    event.master.epoch = master->epoch;
    event.master.clock_offset_us =
        master_wall_us(w, index) - agent_wall_us(w, agent) + prng_between(&w->prng, -500, 500);
    agent_step_master(w, agent, &event);
    channel_connected(w, agent, index);
}
