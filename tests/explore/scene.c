/* The world of one script. Values that the simulator draws by chance are fixed here. Events that it
 * plans for later are kept here until the search chooses them. */
#include "explore.h"

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCRATCH_BYTES = 1 << 18,
    CONNECT_US = 20000,
    BOOT_US = 50000,
    END_US = 50000,     /* from an agent's last word to its end */
    MARKER_US = 500000, /* until an agent that was told nothing looks at the marker */
    MASTER_US = 50000,  /* a restart of one */
    MARKER_SOON_US = 1000,
    WAIT_US = 20000, /* a replica is waited for */
    COMMAND_BYTES = 8192,
};

struct world world;
struct scene scene;

/* ---- functions that the simulator's parts need from a clock ---- */

static char scratch[SCRATCH_BYTES];
static size_t scratch_used;

/* Until the end of the choice. */
void *world_allocate(struct world *w, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (scratch_used + bytes > sizeof scratch)
        abort();
    void *at = scratch + scratch_used;
    scratch_used += bytes;
    (void)w;
    return memset(at, 0, bytes);
}

unsigned world_quorum(const struct world *w)
{
    return w->options.masters / 2u + 1;
}

void world_say(struct world *w, const char *format, ...)
{
    if (!w->verbose)
        return;
    va_list list;
    va_start(list, format);
    fputs("            ", stdout);
    vprintf(format, list);
    putchar('\n');
    va_end(list);
}

/* What happens in the same moment, behind the step that asks for it. */
struct deferred {
    enum happening_kind kind;
    struct request *request;
    const uint8_t *orphan; /* the random part of its token */
    uint8_t agent, place;
    struct parcel parcel;
};
static struct deferred deferred[DEFERRED_MAX];
static unsigned deferred_count;

static void defer(struct deferred one)
{
    if (deferred_count == DEFERRED_MAX)
        abort();
    deferred[deferred_count++] = one;
}

void world_plan(struct world *w, struct happening happening)
{
    switch (happening.kind) {
    case HAPPEN_CONNECT:
        scene.paths[happening.agent][happening.master].connect_at = w->now + CONNECT_US;
        break;
    case HAPPEN_DELIVERED:
        if (people_death(happening.what) != DEATH_NONE)
            happening.kind = HAPPEN_FAULT;
        defer((struct deferred){
            .kind = happening.kind, .request = happening.what, .agent = happening.agent});
        break;
    case HAPPEN_CANCEL:
        defer((struct deferred){.kind = happening.kind, .request = happening.what});
        break;
    case HAPPEN_ORPHAN:
        defer((struct deferred){
            .kind = HAPPEN_ORPHAN, .orphan = happening.what, .place = happening.master});
        break;
    default: /* timers are asked for their time, and holders write when they release */
        break;
    }
}

void world_plan_in(struct world *w, int64_t us, struct happening happening)
{
    (void)us;
    world_plan(w, happening);
}

static struct flight flight_of(const struct parcel *parcel)
{
    return (struct flight){.message = parcel->message,
                           .command = parcel->command,
                           .vote = parcel->vote,
                           .generation = parcel->generation,
                           .master_boot = parcel->master_boot,
                           .epoch = parcel->epoch,
                           .master = parcel->master};
}

static struct orphan {
    uint8_t random[RANDOM_BYTES], place;
} orphans[DEFERRED_MAX];
static unsigned orphan_count;

void scene_check_orphans(void)
{
    for (unsigned i = 0; i < orphan_count; i++)
        checker_orphan(&world, orphans[i].place, orphans[i].random);
    orphan_count = 0;
}

static void happen(const struct deferred *one)
{
    struct flight flight;
    switch (one->kind) {
    case HAPPEN_DELIVERED:
        agent_delivered(&world, one->request);
        break;
    case HAPPEN_CANCEL:
        agent_take_cancel(&world, one->request);
        break;
    case HAPPEN_FAULT:
        scene_crash(one->agent, FATE_RUN);
        break;
    case HAPPEN_REPLY: /* it was never sent */
        flight = flight_of(&one->parcel);
        if (world.agents[one->agent].incarnation == flight.message->incarnation)
            flight_report(&world, &flight, NULL, VOTE_NOT_SENT);
        break;
    default: /* ORPHAN */
        if (orphan_count == DEFERRED_MAX)
            break;
        memcpy(orphans[orphan_count].random, one->orphan, RANDOM_BYTES);
        orphans[orphan_count++].place = one->place;
        break;
    }
}

static bool is_followed(void)
{
    return world.options.replicas > 0 && scene.lags_until <= world.now && !world.masters[0].down;
}

static void follow(void)
{
    struct replica *replica = &world.replicas[0];
    if (!is_followed())
        return;
    replica->keyspace = world.masters[0].keyspace;
    memcpy(replica->keys, world.masters[0].keys, sizeof replica->keys);
}

void scene_settle(void)
{
    for (unsigned i = 0; i < deferred_count && world.violation[0] == '\0'; i++)
        happen(&deferred[i]);
    deferred_count = 0;
    scratch_used = 0;
    masters_share();
    follow();
    for (uint8_t a = 0; a < world.options.agents; a++) {
        world.agents[a].timer_at = INT64_MAX;
        world.agents[a].chance.state = 1;
    }
    world.writes.state = 1;
}

/* ---- clocks ---- */

/* The first microsecond at which the agent's clock shows it. */
int64_t scene_real_us(uint8_t agent, struct instant deadline)
{
    int64_t at = agent_real_us(&world, agent, deadline), now = world.now;
    world.now = at;
    while (agent_clock(&world, agent).us < deadline.us)
        world.now++;
    at = world.now;
    world.now = now;
    return at;
}

/* ---- connections ---- */

static struct path *path_of(uint8_t agent, uint8_t master)
{
    return &scene.paths[agent][master];
}

static struct connection *connection_of(uint8_t agent, uint8_t master)
{
    return &world.agents[agent].connections[master];
}

bool network_leads_to(const struct world *w, uint8_t agent, uint8_t master)
{
    return !w->masters[master].down &&
           w->agents[agent].connections[master].master_boot == w->masters[master].boot;
}

static const struct message *intern_message(const struct message *message)
{
    static union {
        struct message message;
        char bytes[MESSAGE_BYTES];
    } copy;
    size_t size = sizeof *message + message->count * sizeof message->orders[0];
    if (size > sizeof copy)
        abort();
    memcpy(copy.bytes, message, size);
    copy.message.command.at = state_intern(message->command.at, message->command.len);
    if (message->native != NULL) {
        struct native native = *message->native;
        native.bytes.at = state_intern(native.bytes.at, native.bytes.len);
        copy.message.native = state_intern(&native, sizeof native);
    }
    return state_intern(copy.bytes, size);
}

/* Small worlds have no clocks that are read. */
void readings_all(struct world *w, uint8_t agent)
{
    (void)w, (void)agent;
}

/* A WAIT and the replication that it waits for are one step here (wait_for_replica). */
void network_turn(struct world *w, uint8_t agent)
{
    (void)w, (void)agent;
}

/* Returns a guard that knows the marker as the agent saw it last on the master. */
static const struct guard *guard_of(uint8_t master, const struct message *message)
{
    static struct guard guard;
    const struct guard_answer *known = &connection_of(message->agent, master)->known;
    guard = (struct guard){.master_count = world.options.masters, .floor = known->floor};
    guard.masters[master] = (struct guard_master){.seen = true, .last = *known};
    return &guard;
}

/* Makes a parcel one of native commands, if these can be sent to its master (R24). */
static void go_native(struct parcel *parcel)
{
    static char bytes[COMMAND_BYTES];
    const struct message *message = parcel->message;
    uint8_t m = parcel->master;
    if (message->native == NULL || (message->native->takes && message->clocks_ms[m] == 0))
        return;
    bool votes = asking_names_vote(&world.naming[0], message->group, OP_ACQUIRE);
    const char *vote =
        !votes ? ""
               : asking_native_vote(guard_of(m, message), m, (struct instant){0},
                                    message->native->takes ? &message->proposals : NULL);
    size_t len = message->native->bytes.len;
    if (vote == NULL)
        return;
    if (len > sizeof bytes)
        abort();
    memcpy(bytes, message->native->bytes.at, len);
    if (message->native->takes)
        asking_native_ends(message->native, bytes, message->clocks_ms[m]);
    parcel->vote = state_intern(vote, strlen(vote) + 1);
    parcel->command = (struct bytes){state_intern(bytes, len), len};
    world.figures.natives++;
}

/* Returns the message's command for one master, with the vote that the agent saw there last. */
static struct bytes command_for(uint8_t master, const struct message *message)
{
    static char bytes[COMMAND_BYTES];
    char vote_bytes[ASKING_VOTE_BYTES], own_bytes[ASKING_OWN_BYTES];
    struct text vote = {"", 0};
    if (!message->has_own)
        return message->command;
    if (message->names_vote)
        vote = asking_vote(vote_bytes, guard_of(master, message), master, (struct instant){0},
                           message->op, &message->proposals);
    struct text own = asking_own(own_bytes, message->op, message->clocks_ms[master], vote);
    size_t len = message->command.len;
    if (len + own.len > sizeof bytes)
        abort();
    memcpy(bytes, message->command.at, len);
    memcpy(bytes + len, own.at, own.len);
    return (struct bytes){state_intern(bytes, len + own.len), len + own.len};
}

void network_send(struct world *w, uint8_t agent, const struct effect_send *send,
                  const struct send_item *items)
{
    const struct message *message = intern_message(flight_copy(w, agent, send, items));
    for (uint8_t m = 0; m < w->options.masters; m++) {
        struct path *path = path_of(agent, m);
        const struct connection *connection = connection_of(agent, m);
        struct parcel parcel = {.message = message,
                                .generation = connection->generation,
                                .master_boot = connection->master_boot,
                                .master = m};
        if ((send->masters >> m & 1) == 0)
            continue;
        parcel.command = command_for(m, message);
        go_native(&parcel);
        if (!connection->up)
            defer((struct deferred){.kind = HAPPEN_REPLY, .agent = agent, .parcel = parcel});
        else if (path->parcel_count == PARCELS_MAX)
            checker_fail(w, "explore: too much is in flight");
        else
            path->parcels[path->parcel_count++] = parcel;
    }
}

/* R21: Data that the replica does not have counts like an answer to WAIT that reports so. Such an
 * answer comes late. */
static void wait_for_replica(const struct message *message, struct verdict *verdicts)
{
    if (world.options.replicas == 0 || is_followed())
        return;
    for (unsigned i = 0; i < message->count; i++) {
        enum vote *vote = &verdicts[i].reply.vote;
        *vote = replicas_vote(message->op, *vote);
        world.figures.unreplicated += *vote == VOTE_UNREPLICATED;
    }
    connection_of(message->agent, 0)->cut_back_until = world.now + WAIT_US;
}

static void execute(struct parcel *parcel, enum mishap mishap)
{
    struct flight flight = flight_of(parcel);
    const struct master *master = &world.masters[parcel->master];
    if (master->down || master->boot != parcel->master_boot)
        return;
    flight_execute(&world, &flight, mishap);
    wait_for_replica(parcel->message, flight.verdicts);
    parcel->verdicts =
        state_intern(flight.verdicts, parcel->message->count * sizeof flight.verdicts[0]);
    parcel->epoch = flight.epoch;
    parcel->executed = true;
    exercised_ran(parcel->message, flight.verdicts);
}

unsigned scene_pending(const struct path *path)
{
    unsigned count = 0;
    for (unsigned i = 0; i < path->parcel_count; i++)
        count += !path->parcels[i].executed;
    return count;
}

void scene_execute(uint8_t agent, uint8_t master, enum mishap mishap)
{
    struct path *path = path_of(agent, master);
    execute(&path->parcels[path->parcel_count - scene_pending(path)], mishap);
}

void scene_execute_stray(unsigned index)
{
    struct parcel stray = scene.strays[index];
    scene.stray_count--;
    memmove(scene.strays + index, scene.strays + index + 1,
            (scene.stray_count - index) * sizeof scene.strays[0]);
    memset(scene.strays + scene.stray_count, 0, sizeof scene.strays[0]);
    execute(&stray, MISHAP_NONE);
}

static void tell_epoch(uint8_t agent, uint8_t master, uint16_t epoch)
{
    struct event event = {.kind = EVENT_MASTER_UP};
    event.master.master = master;
    event.master.epoch = connection_of(agent, master)->epoch = epoch;
    event.master.clock_offset_us = master_wall_us(&world, master) - agent_wall_us(&world, agent);
    agent_step_master(&world, agent, &event);
}

/* The largest top of the masters that remember. */
static uint64_t largest_top(void)
{
    uint64_t largest = 0;
    for (uint8_t m = 0; m < world.options.masters; m++) {
        uint64_t top = master_top(&world, m);
        largest = top > largest ? top : largest;
    }
    return largest;
}

/* Lets an agent look at the marker. The guard of the agents is not in this world. An agent that
 * finds a master which waits to be told tells it at once the number that all agents know. */
static void mark(uint8_t agent, uint8_t master, bool connecting)
{
    struct guard_answer answer;
    struct guard_ask ask = {.question = connecting ? GUARD_ASK_RESTART : GUARD_ASK_KEEP,
                            .max_ttl_ms = world.config.max_ttl_ms};
    int64_t wall_us = agent_wall_us(&world, agent);
    if (!world.switches.forgetful)
        return;
    master_mark(&world, master, &ask, wall_us, &answer);
    if (answer.left_ms == 0 && answer.told == GUARD_NOT_TOLD && !answer.spoiled) {
        ask.question = GUARD_ASK_TELL;
        ask.top = largest_top();
        ask.told = GUARD_TOLD;
        if (world.options.masters == 1) { /* no other master remembers: it goes by its clock */
            ask.top = (uint64_t)wall_us > ask.top ? (uint64_t)wall_us : ask.top;
            ask.told = GUARD_GUESSED;
        }
        memcpy(ask.epoch, answer.epoch, sizeof ask.epoch);
        master_mark(&world, master, &ask, wall_us, &answer);
    }
    struct guard_answer *known = &connection_of(agent, master)->known;
    *known = (struct guard_answer){.top = answer.top, .floor = answer.floor};
    memcpy(known->vote, answer.vote, sizeof known->vote);
    if (answer.left_ms > 0)
        path_of(agent, master)->marker_at = world.now + 1020 * answer.left_ms;
    struct event event = {.kind = EVENT_FENCE_FLOOR, .master.floor = answer.floor};
    agent_step(&world, agent, &event);
}

static uint16_t epoch_now(uint8_t master)
{
    uint16_t epoch = world.masters[master].epoch;
    return world.switches.forgetful ? MARKER_EPOCH(epoch, master) : epoch;
}

static uint8_t watched_keys(uint8_t agent)
{
    unsigned keys = 0;
    for (uint8_t k = 0; k < world.options.keys; k++)
        keys |= (unsigned)world.agents[agent].watches[k] << k;
    return (uint8_t)keys;
}

/* Lets the agent read the master's clock, so that native commands can go there (R24). */
static void read_clock(uint8_t agent, uint8_t master)
{
    struct instant now = agent_clock(&world, agent);
    struct event event = {.kind = EVENT_MASTER_CLOCK};
    if (!scene.script->native)
        return;
    event.master.master = master;
    event.master.clock_offset_us = master_wall_us(&world, master) - agent_wall_us(&world, agent);
    event.master.reading = (struct clock_reading){
        .wall_us = master_wall_us(&world, master), .sent = now, .heard = now};
    agent_step_master(&world, agent, &event);
}

void scene_connect(uint8_t agent, uint8_t master)
{
    struct connection *connection = connection_of(agent, master);
    connection->up = true;
    connection->master_boot = world.masters[master].boot;
    path_of(agent, master)->connect_at = INT64_MAX;
    mark(agent, master, /* connecting= */ true);
    tell_epoch(agent, master, epoch_now(master));
    read_clock(agent, master);
    path_of(agent, master)->subscribes = watched_keys(agent);
}

void scene_look_at_marker(uint8_t agent, uint8_t master)
{
    path_of(agent, master)->marker_at = INT64_MAX;
    mark(agent, master, /* connecting= */ false);
    if (epoch_now(master) != connection_of(agent, master)->epoch)
        tell_epoch(agent, master, epoch_now(master));
}

/* Handles the epoch that the scripts report from the marker. */
static void hear_epoch(uint8_t agent, uint8_t master, uint16_t epoch)
{
    if (!world.switches.forgetful || epoch == 0 || epoch == connection_of(agent, master)->epoch)
        return;
    tell_epoch(agent, master, epoch);
    path_of(agent, master)->marker_at = world.now + MARKER_SOON_US;
}

void scene_reply(uint8_t agent, uint8_t master, bool twice)
{
    struct path *path = path_of(agent, master);
    struct parcel parcel = path->parcels[0];
    struct flight flight = flight_of(&parcel);
    path->parcel_count--;
    memmove(path->parcels, path->parcels + 1, path->parcel_count * sizeof parcel);
    hear_epoch(agent, master, parcel.epoch);
    for (unsigned i = 0; i < parcel.message->count; i++)
        if (parcel.verdicts[i].reply.vote == VOTE_GUARDED && path->marker_at == INT64_MAX)
            path->marker_at = world.now + MARKER_SOON_US;
    for (unsigned i = 0; i <= twice; i++)
        flight_report(&world, &flight, parcel.verdicts, VOTE_YES);
}

/* Ends the connection. Its agent does not know it yet. */
static void forget_path(uint8_t agent, uint8_t master)
{
    struct path *path = path_of(agent, master);
    struct connection *connection = connection_of(agent, master);
    path->parcel_count = path->signal_count = 0;
    path->subscribes = 0;
    path->connect_at = path->marker_at = INT64_MAX;
    connection->up = false;
    memset(&connection->known, 0, sizeof connection->known);
    connection->generation++;
    connection->cut_out_until = connection->cut_back_until = 0;
    memset(connection->subscribed, 0, sizeof connection->subscribed);
}

void network_abandon(struct world *w, uint8_t agent)
{
    for (uint8_t m = 0; m < w->options.masters; m++)
        forget_path(agent, m);
}

static void seal(uint8_t agent, uint8_t master, enum fate fate)
{
    struct path *path = path_of(agent, master);
    for (unsigned i = 0; i < path->parcel_count; i++) {
        struct parcel *parcel = &path->parcels[i];
        if (parcel->executed || fate == FATE_NEVER)
            continue;
        if (fate == FATE_RUN)
            execute(parcel, MISHAP_NONE);
        else if (scene.stray_count < STRAYS_MAX)
            scene.strays[scene.stray_count++] = *parcel;
    }
}

void scene_cut(uint8_t agent, uint8_t master, enum fate fate)
{
    struct path *path = path_of(agent, master);
    struct parcel parcels[PARCELS_MAX];
    seal(agent, master, fate);
    unsigned count = path->parcel_count;
    memcpy(parcels, path->parcels, count * sizeof parcels[0]);
    forget_path(agent, master);
    struct event down = {.kind = EVENT_MASTER_DOWN};
    down.master.master = master;
    if (scene.script->tells_end_first)
        agent_step_master(&world, agent, &down);
    for (unsigned i = 0; i < count; i++) {
        struct flight flight = flight_of(&parcels[i]);
        flight_report(&world, &flight, NULL, VOTE_UNKNOWN);
    }
    if (!scene.script->tells_end_first)
        agent_step_master(&world, agent, &down);
    channel_dropped(&world, agent, master);
    path->connect_at = world.now + CONNECT_US;
}

void scene_crash(uint8_t agent, enum fate fate)
{
    for (uint8_t m = 0; m < world.options.masters; m++)
        seal(agent, m, fate);
    agent_crash(&world, agent);
    scene.boot_at[agent] = world.now + BOOT_US;
    scene.ends_at[agent] = 0;
}

void scene_end(uint8_t agent, bool release)
{
    agent_end(&world, agent, release);
    scene.ends_at[agent] = world.now + END_US;
}

/* mark() does the work of the agents' guards. */
void marking_boot(struct world *w, uint8_t agent)
{
    (void)w, (void)agent;
}

/* ---- masters that forget ---- */

void scene_master_forgets(uint8_t master)
{
    masters_own(master);
    master_forget(&world, master);
    for (uint8_t a = 0; a < world.options.agents; a++)
        path_of(a, master)->marker_at = world.now + MARKER_US;
}

/* Each agent finds the end of its connection. */
void scene_master_stops(uint8_t index, const struct copy *copy)
{
    struct master *master = &world.masters[index];
    for (uint8_t a = 0; a < world.options.agents; a++) {
        state_touch(a);
        if (connection_of(a, index)->up)
            scene_cut(a, index, FATE_NEVER);
    }
    master->down = true;
    master->boot++;
    if (copy == NULL) {
        masters_own(index);
        master_forget(&world, index);
    } else {
        master->keyspace = copy->keyspace;
        memcpy(master->keys, copy->keys, sizeof copy->keys);
        for (uint8_t place = 0; place < SIM_KEYS; place++) /* released keys may be back */
            master->keys[place].stray = true;
        world.forgot_at = world.now;
    }
    scene.back_at[index] = world.now + MASTER_US;
}

void scene_promote_replica(void)
{
    struct copy copy = {.keyspace = world.replicas[0].keyspace};
    memcpy(copy.keys, world.replicas[0].keys, sizeof copy.keys);
    scene_master_stops(0, &copy);
    masters_own(0);
    master_begin_history(&world.masters[0]);
    world.figures.failovers++;
}

void scene_master_starts(uint8_t master)
{
    if (world.options.replicas > 0)
        world.promoted_at = world.now;
    world.masters[master].down = false;
    scene.back_at[master] = 0;
}

/* ---- channels ---- */

void channel_watch(struct world *w, uint8_t agent, uint8_t key, bool watches)
{
    if (w->agents[agent].watches[key] == watches)
        checker_fail(w, "seam: a%u %s k%u twice", agent, watches ? "watches" : "leaves", key);
    w->agents[agent].watches[key] = watches;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        struct path *path = path_of(agent, m);
        bool asks = watches && connection_of(agent, m)->up;
        connection_of(agent, m)->subscribed[key] = false;
        path->subscribes = (uint8_t)((path->subscribes & ~(1u << key)) | (unsigned)asks << key);
    }
}

/* There is one prefix here, so the second half of the names is that of the first. */
static bool is_subscribed(const struct world *w, uint8_t agent, uint8_t master, uint8_t name)
{
    return network_leads_to(w, agent, master) &&
           connection_of(agent, master)->subscribed[name % SIM_KEYS];
}

static void say(uint8_t agent, uint8_t master, struct signal signal)
{
    struct path *path = path_of(agent, master);
    if (path->signal_count == SIGNALS_MAX)
        checker_fail(&world, "explore: too many messages are on the way");
    else
        path->signals[path->signal_count++] = signal;
}

void scene_subscribe(uint8_t agent, uint8_t master)
{
    struct path *path = path_of(agent, master);
    uint8_t key = 0;
    while ((path->subscribes >> key & 1) == 0)
        key++;
    path->subscribes &= (uint8_t) ~(1u << key);
    connection_of(agent, master)->subscribed[key] = true;
    say(agent, master, (struct signal){.kind = EVENT_SUBSCRIBED, .key = key});
}

uint32_t channel_publish(struct world *w, uint8_t master, uint8_t name, struct bytes message)
{
    char text[64] = "";
    memcpy(text, message.at, message.len < sizeof text ? message.len : sizeof text - 1);
    struct signal signal = {.kind = EVENT_MESSAGE, .key = name};
    if (!w->options.redisson)
        signal.said = message_read(text);
    else if (!message_is_redissons(text))
        return 0;
    for (uint8_t a = 0; a < w->options.agents; a++)
        if (is_subscribed(w, a, master, name))
            say(a, master, signal);
    return channel_agents(w, master, name);
}

uint32_t channel_agents(struct world *w, uint8_t master, uint8_t name)
{
    uint32_t agents = 0;
    for (uint8_t a = 0; a < w->options.agents; a++)
        agents += is_subscribed(w, a, master, name);
    return agents;
}

static void tell(uint8_t agent, uint8_t master, const struct signal *signal)
{
    struct event event = {.kind = signal->kind};
    event.channel = signal->said;
    event.channel.master = master;
    event.channel.key = options_key_text(signal->key);
    if (signal->kind == EVENT_MESSAGE)
        exercised_count(DEED_MESSAGE);
    agent_step(&world, agent, &event);
}

void scene_signal(uint8_t agent, uint8_t master, bool is_lost)
{
    struct path *path = path_of(agent, master);
    struct signal signal = path->signals[0];
    path->signal_count--;
    memmove(path->signals, path->signals + 1, path->signal_count * sizeof signal);
    if (!is_lost)
        tell(agent, master, &signal);
}

void channel_dropped(struct world *w, uint8_t agent, uint8_t master)
{
    for (uint8_t k = 0; k < w->options.keys; k++) {
        connection_of(agent, master)->subscribed[k] = false;
        if (w->agents[agent].watches[k] && w->violation[0] == '\0')
            tell(agent, master, &(struct signal){.kind = EVENT_UNSUBSCRIBED, .key = k});
    }
}
