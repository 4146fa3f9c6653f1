/* The network: one ordered connection per agent and master. The end of a connection loses the order
 * (R5) and the results of the commands in flight. */
#include "world.h"

#include "agent/redis/replies.h"

#include <string.h>

enum { HEALED_GRACE_US = 1000000, DOUBLED_AFTER_US = 1000000, PAUSED_US = 1000 };

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

/* The chance of the way that it takes. */
static struct prng *link_of(struct world *w, const struct flight *flight)
{
    return &w->agents[flight->message->agent].links[flight->master];
}

/* Half of the usual delays are short ones: agents differ in how far they are from a master. */
static int64_t delay_us(const struct world *w, struct prng *link, int64_t most)
{
    if (prng_in_10000(link, w->options.late))
        return prng_between(link, 10000, w->options.late_us_max);
    return prng_between(link, 20, prng_percent(link, 50) ? most : most / 8 + 20);
}

static void depart(struct world *w, struct flight *flight)
{
    struct connection *connection = connection_of(w, flight);
    int64_t at = w->now + delay_us(w, link_of(w, flight), w->options.out_us_max);
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

/* Returns the message's command for one master. */
static struct bytes command_for(struct world *w, uint8_t agent, uint8_t master,
                                const struct message *message)
{
    char vote_bytes[ASKING_VOTE_BYTES], own_bytes[ASKING_OWN_BYTES];
    struct text vote = {"", 0};
    if (!message->has_own)
        return message->command;
    if (message->names_vote)
        vote = marking_vote(w, agent, master, message, vote_bytes);
    struct text own = asking_own(own_bytes, message->op, message->clocks_ms[master], vote);
    char *bytes = world_allocate(w, message->command.len + own.len);
    memcpy(bytes, message->command.at, message->command.len);
    memcpy(bytes + message->command.len, own.at, own.len);
    return (struct bytes){bytes, message->command.len + own.len};
}

/* Makes a flight one of native commands, if these can be sent to its master (R24). */
static void go_native(struct world *w, uint8_t agent, struct flight *flight)
{
    const struct message *message = flight->message;
    uint8_t m = flight->master;
    if (message->native == NULL || (message->native->takes && message->clocks_ms[m] == 0))
        return;
    bool votes = asking_names_vote(&w->naming[0], message->group, OP_ACQUIRE);
    const char *vote = votes ? marking_native_vote(w, agent, m, message) : "";
    if (vote == NULL)
        return;
    flight->vote = memcpy(world_allocate(w, strlen(vote) + 1), vote, strlen(vote) + 1);
    char *bytes = world_allocate(w, message->native->bytes.len);
    memcpy(bytes, message->native->bytes.at, message->native->bytes.len);
    if (message->native->takes)
        asking_native_ends(message->native, bytes, message->clocks_ms[m]);
    flight->command = (struct bytes){bytes, message->native->bytes.len};
    w->figures.natives++;
}

/* One of no operation. */
static const struct message *own_message(struct world *w, uint8_t agent)
{
    struct message *message = world_allocate(w, sizeof *message);
    message->op = OP_COUNT;
    message->agent = agent;
    message->incarnation = w->agents[agent].incarnation;
    message->sent_at = w->now;
    return message;
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
    marking_uses(w, agent, send, items);
    const struct message *message = flight_copy(w, agent, send, items);
    if (send->op == OP_ACQUIRE || send->op == OP_HANDOVER || send->op == OP_ADOPT)
        clocks_asked(w, agent, message);
    master_set sent = 0;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        if ((send->masters >> m & 1) == 0)
            continue;
        struct flight *flight = world_allocate(w, sizeof *flight);
        struct connection *connection = &w->agents[agent].connections[m];
        flight->message = message;
        flight->command = command_for(w, agent, m, message);
        flight->master = m;
        flight->generation = connection->generation;
        flight->master_boot = connection->master_boot;
        go_native(w, agent, flight);
        if (connection->up && !prng_in_10000(&w->agents[agent].links[m], w->options.not_sent)) {
            depart(w, flight);
            replicas_sent(&connection->replicas, send->op, agent_clock(w, agent));
            sent |= (master_set)(1u << m);
        } else
            world_plan_in(w, prng_between(&w->agents[agent].links[m], 0, 20),
                          (struct happening){
                              .kind = HAPPEN_REPLY, .agent = agent, .master = m, .what = flight});
    }
    if (message->names_vote && (send->op == OP_ACQUIRE || send->op == OP_HANDOVER))
        marking_numbers(w, agent, sent, message);
}

void network_ask(struct world *w, uint8_t agent, uint8_t master, struct marking *marking)
{
    struct connection *connection = &w->agents[agent].connections[master];
    struct flight *flight = world_allocate(w, sizeof *flight);
    flight->message = own_message(w, agent);
    flight->marking = marking;
    flight->master = master;
    flight->generation = connection->generation;
    flight->master_boot = connection->master_boot;
    depart(w, flight);
}

/* ---- the WAIT for replicas (R21) ---- */

/* A reply has left the master. */
static void send_back(struct world *w, struct flight *flight)
{
    struct connection *connection = connection_of(w, flight);
    int64_t at = w->now + delay_us(w, link_of(w, flight), w->options.back_us_max);
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

void network_turn(struct world *w, uint8_t agent)
{
    struct connection *connection = &w->agents[agent].connections[0];
    struct instant now = agent_clock(w, agent);
    if (w->options.ack == 0 || !w->agents[agent].alive || !connection->up)
        return;
    uint32_t timeout_ms = replicas_asks(&connection->replicas, now);
    if (timeout_ms == 0)
        return;
    struct flight *flight = world_allocate(w, sizeof *flight);
    flight->message = own_message(w, agent);
    flight->generation = connection->generation;
    flight->master_boot = connection->master_boot;
    flight->wait.timeout_ms = timeout_ms;
    depart(w, flight);
    int64_t until = agent_real_us(w, agent, connection->replicas.until) + 1;
    world_plan(w, (struct happening){.at = later(until, w->now + 1),
                                     .kind = HAPPEN_GIVE_UP,
                                     .agent = agent,
                                     .number = connection->generation});
}

static void begin_waiting(struct world *w, struct flight *flight)
{
    if (!w->switches.waits_without_message)
        replica_message(w, connection_of(w, flight));
    flight->executed = true;
    flight->wait.offset = connection_of(w, flight)->offset;
    connection_of(w, flight)->waiting = flight;
    world_plan_in(w, 1000 * (int64_t)flight->wait.timeout_ms,
                  (struct happening){.kind = HAPPEN_WAITED, .what = flight});
    network_replicated(w);
}

/* Its connection goes on. */
static void end_waiting(struct world *w, struct flight *flight)
{
    struct connection *connection = connection_of(w, flight);
    struct flight *behind = connection->blocked;
    connection->waiting = connection->blocked = NULL;
    flight->wait.count = replica_count(w, flight->wait.offset);
    world_say(w, "    m%u WAIT for a%u: %u", flight->master, flight->message->agent,
              flight->wait.count);
    send_back(w, flight);
    while (behind != NULL) {
        struct flight *next = behind->next_parked;
        network_arrive(w, behind);
        behind = next;
    }
}

/* Ends the time of a WAIT. A stopped master looks at the time when it goes on. */
void network_waited(struct world *w, struct flight *flight)
{
    if (w->masters[flight->master].paused)
        world_plan_in(w, PAUSED_US, (struct happening){.kind = HAPPEN_WAITED, .what = flight});
    else if (flight_is_connected(w, flight) && connection_of(w, flight)->waiting == flight &&
             w->masters[flight->master].boot == flight->master_boot)
        end_waiting(w, flight);
}

void network_replicated(struct world *w)
{
    for (uint8_t a = 0; a < w->options.agents; a++) {
        struct flight *waiting = w->agents[a].connections[0].waiting;
        if (waiting != NULL && w->masters[0].boot == waiting->master_boot && !w->masters[0].down &&
            !w->masters[0].paused && replica_count(w, waiting->wait.offset) >= w->options.ack)
            end_waiting(w, waiting);
    }
}

/* Behind the others that came behind a WAIT. */
static bool is_blocked(struct world *w, struct flight *flight)
{
    struct connection *connection = connection_of(w, flight);
    if (!flight_is_connected(w, flight) || connection->waiting == NULL)
        return false;
    struct flight **end = &connection->blocked;
    while (*end != NULL)
        end = &(*end)->next_parked;
    flight->next_parked = NULL;
    *end = flight;
    return true;
}

static void execute(struct world *w, struct flight *flight)
{
    bool refused = prng_in_10000(link_of(w, flight), w->options.refused),
         not_run = prng_in_10000(link_of(w, flight), w->options.not_run);
    enum mishap mishap = refused ? MISHAP_REFUSED : not_run ? MISHAP_NOT_RUN : MISHAP_NONE;
    struct connection *connection =
        flight_is_connected(w, flight) ? connection_of(w, flight) : NULL;
    uint64_t sent = w->masters[flight->master].keyspace->sent;
    if (flight->marking != NULL)
        marking_run(w, flight, mishap);
    else
        flight_execute(w, flight, mishap);
    replica_note_writes(w, connection, sent);
    replica_follow(w);
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
    if (is_blocked(w, flight))
        return;
    if (master->paused) {
        flight->next_parked = NULL;
        *master->parked_end = flight;
        master->parked_end = &flight->next_parked;
        return;
    }
    if (flight->wait.timeout_ms > 0) {
        if (flight_is_connected(w, flight))
            begin_waiting(w, flight);
        return;
    }
    execute(w, flight);
    if (flight_is_connected(w, flight))
        send_back(w, flight);
}

void network_tell_up(struct world *w, uint8_t agent, uint8_t master)
{
    struct event event = {.kind = EVENT_MASTER_UP};
    event.master.master = master;
    event.master.epoch = w->agents[agent].connections[master].epoch;
    event.master.clock_offset_us = master_wall_us(w, master) - agent_wall_us(w, agent);
    agent_step_master(w, agent, &event);
}

/* Gives a reply to the agent, if it is not kept back, or not any more. */
static void hear(struct world *w, struct flight *flight, bool copy)
{
    if (flight->marking != NULL) {
        marking_answered(w, flight);
        return;
    }
    if (!copy && prng_in_10000(link_of(w, flight), w->options.doubled))
        world_plan_in(w, prng_between(link_of(w, flight), 0, DOUBLED_AFTER_US),
                      (struct happening){.kind = HAPPEN_REPLY,
                                         .agent = flight->message->agent,
                                         .master = flight->master,
                                         .copy = true,
                                         .what = flight});
    if (!copy && w->switches.forgetful)
        marking_overhear(w, flight);
    flight_report(w, flight, flight->verdicts, VOTE_YES);
    if (!copy && w->violation[0] == '\0' && prng_in_10000(link_of(w, flight), 100)) {
        struct event event = {.kind = EVENT_MASTER_CLOCK};
        event.master.master = flight->master;
        event.master.clock_offset_us =
            master_wall_us(w, flight->master) - agent_wall_us(w, flight->message->agent);
        agent_step_master(w, flight->message->agent, &event);
    }
}

/* R21: Gives the replies that were kept back to the agent. */
static void hear_kept(struct world *w, uint8_t agent, uint8_t master, bool enough)
{
    struct connection *connection = &w->agents[agent].connections[master];
    struct flight *flight = connection->kept;
    connection->kept = NULL;
    while (flight != NULL && w->violation[0] == '\0') {
        struct flight *next = flight->next;
        for (size_t i = 0; i < flight->message->count && !enough; i++) {
            enum vote *vote = &flight->verdicts[i].reply.vote;
            *vote = replicas_vote(flight->message->op, *vote);
            w->figures.unreplicated += *vote == VOTE_UNREPLICATED;
        }
        hear(w, flight, /* copy= */ false);
        flight = next;
    }
    network_turn(w, agent);
}

static void keep(struct connection *connection, struct flight *flight)
{
    struct flight **end = &connection->kept;
    while (*end != NULL)
        end = &(*end)->next;
    flight->next = NULL;
    *end = flight;
}

void network_give_up(struct world *w, uint8_t agent, uint8_t master, uint32_t generation)
{
    struct connection *connection = &w->agents[agent].connections[master];
    if (connection->generation == generation && w->agents[agent].alive &&
        replicas_give_up(&connection->replicas, agent_clock(w, agent)))
        hear_kept(w, agent, master, /* enough= */ false);
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
        if (flight->wait.timeout_ms > 0) {
            bool enough = replicas_answered(&connection->replicas, flight->wait.count);
            hear_kept(w, flight->message->agent, flight->master, enough);
            return;
        }
        if (replicas_keeps(&connection->replicas, flight->message->op)) {
            keep(connection, flight);
            return;
        }
    }
    hear(w, flight, copy);
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

/* Takes all flights without a result at the agent. Flights that it has kept back come first. */
static struct flight *take_all(struct connection *connection)
{
    struct flight *flights, **end = &connection->kept;
    while (*end != NULL)
        end = &(*end)->next;
    *end = connection->first;
    flights = connection->kept;
    connection->kept = connection->waiting = connection->blocked = NULL;
    connection->first = connection->last = NULL;
    return flights;
}

/* Takes all flights of a lost connection. A command that had not arrived may arrive much later, or
 * not at all. If one byte is lost, all later bytes are lost as well. */
static struct flight *cut_off(struct world *w, uint8_t agent, uint8_t master)
{
    struct connection *connection = &w->agents[agent].connections[master];
    struct prng *link = &w->agents[agent].links[master];
    struct flight *flights = take_all(connection);
    int64_t extra_us =
        prng_percent(link, 60) ? 0 : prng_between(link, 0, 2000 * (int64_t)w->options.ttl_ms_max);
    bool lost = prng_percent(link, 40);
    for (struct flight *flight = flights; flight != NULL; flight = flight->next) {
        lost = lost || prng_percent(link, 20);
        flight->lost = lost;
        flight->extra_us = extra_us;
    }
    connection->up = connection->checking = false;
    connection->arrival_last = connection->reply_last = 0;
    connection->offset = 0;
    connection->generation++;
    memset(connection->subscribed, 0, sizeof connection->subscribed);
    return flights;
}

void network_abandon(struct world *w, uint8_t agent)
{
    for (uint8_t m = 0; m < w->options.masters; m++)
        cut_off(w, agent, m);
}

static void report_all_unknown(struct world *w, const struct flight *flight)
{
    for (; flight != NULL; flight = flight->next)
        if (flight->wait.timeout_ms == 0 && flight->marking == NULL)
            flight_report(w, flight, NULL, VOTE_UNKNOWN);
}

void network_drop(struct world *w, uint8_t agent, uint8_t master, uint32_t generation)
{
    struct connection *connection = &w->agents[agent].connections[master];
    if (connection->generation != generation || !connection->up || !w->agents[agent].alive)
        return;
    world_say(w, "a%u-m%u: connection ends", agent, master);
    struct flight *flights = cut_off(w, agent, master);
    struct event down = {.kind = EVENT_MASTER_DOWN};
    down.master.master = master;
    if (w->switches.forgetful)
        marking_away(w, agent, master);
    if (!w->options.down_first)
        report_all_unknown(w, flights);
    if (w->violation[0] == '\0')
        agent_step_master(w, agent, &down);
    if (w->options.down_first)
        report_all_unknown(w, flights);
    channel_dropped(w, agent, master);
    world_plan_in(w, prng_between(&w->agents[agent].links[master], 1000, 250000),
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
            w, prng_between(&w->agents[agent].links[index], 10000, 500000),
            (struct happening){
                .kind = HAPPEN_CONNECT, .agent = agent, .master = index, .number = generation});
        return;
    }
    connection->up = true;
    connection->master_boot = master->boot;
    replicas_begin(&connection->replicas, w->options.ack, w->options.replicas_timeout_ms);
    if (w->switches.forgetful) {
        uint64_t sent = master->keyspace->sent;
        marking_greet(w, agent, index);
        replica_note_writes(w, connection, sent);
        replica_follow(w);
        marking_ready(w, agent, index);
    } else {
        connection->epoch = master->epoch;
    }
    struct event event = {.kind = EVENT_MASTER_UP};
    event.master.master = index;
    event.master.epoch = connection->epoch;
    event.master.clock_offset_us = master_wall_us(w, index) - agent_wall_us(w, agent) +
                                   prng_between(&w->agents[agent].links[index], -500, 500);
    readings_begin(w, agent, index);
    agent_step_master(w, agent, &event);
    channel_connected(w, agent, index);
}
