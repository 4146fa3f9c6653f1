/* The world of one script: what the simulator draws by chance is fixed here, and what it plans for
 * later stands here until somebody chooses it. */
#include "explore.h"

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TTL_MS = 1000,
    SCRATCH_BYTES = 1 << 18,
    DEFERRED_MAX = 16,
    CONNECT_US = 20000,
    BOOT_US = 50000,
    END_US = 50000,     /* from an agent's last word to its end */
    RELOADED_MS = 500,  /* by which a reload makes a lock_delay longer */
    MARKER_US = 500000, /* until an agent that was told nothing looks at the marker */
    MASTER_US = 50000,  /* a restart of one */
    MARKER_SOON_US = 1000,
    MESSAGE_BYTES = 2048,
};

struct world world;
struct scene scene;

/* ---- what the simulator's parts ask of a clock ---- */

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

void scene_settle(void)
{
    for (unsigned i = 0; i < deferred_count && world.violation[0] == '\0'; i++)
        happen(&deferred[i]);
    deferred_count = 0;
    scratch_used = 0;
    masters_share();
    for (uint8_t a = 0; a < world.options.agents; a++)
        world.agents[a].timer_at = INT64_MAX;
    world.prng.state = 1;
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
    return state_intern(copy.bytes, size);
}

/* No master here has replicas. */
void network_turn(struct world *w, uint8_t agent)
{
    (void)w, (void)agent;
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
        if (!connection->up)
            defer((struct deferred){.kind = HAPPEN_REPLY, .agent = agent, .parcel = parcel});
        else if (path->parcel_count == PARCELS_MAX)
            checker_fail(w, "explore: too much is in flight");
        else
            path->parcels[path->parcel_count++] = parcel;
    }
}

static void execute(struct parcel *parcel, enum mishap mishap)
{
    struct flight flight = flight_of(parcel);
    const struct master *master = &world.masters[parcel->master];
    if (master->down || master->boot != parcel->master_boot)
        return;
    flight_execute(&world, &flight, mishap);
    parcel->verdicts =
        state_intern(flight.verdicts, parcel->message->count * sizeof flight.verdicts[0]);
    parcel->epoch = flight.epoch;
    parcel->executed = true;
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

void scene_connect(uint8_t agent, uint8_t master)
{
    struct connection *connection = connection_of(agent, master);
    connection->up = true;
    connection->master_boot = world.masters[master].boot;
    path_of(agent, master)->connect_at = INT64_MAX;
    master_mark(&world, master, /* connecting= */ true);
    tell_epoch(agent, master, world.masters[master].epoch);
    path_of(agent, master)->subscribes = world.agents[agent].watches[0];
}

void scene_look_at_marker(uint8_t agent, uint8_t master)
{
    path_of(agent, master)->marker_at = INT64_MAX;
    master_mark(&world, master, /* connecting= */ false);
    if (world.masters[master].epoch != connection_of(agent, master)->epoch)
        tell_epoch(agent, master, world.masters[master].epoch);
}

/* What the scripts say of the marker. */
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
    for (unsigned i = 0; i <= twice; i++)
        flight_report(&world, &flight, parcel.verdicts, VOTE_YES);
}

/* The connection is gone; its agent has not heard of it. */
static void forget_path(uint8_t agent, uint8_t master)
{
    struct path *path = path_of(agent, master);
    struct connection *connection = connection_of(agent, master);
    path->parcel_count = path->signal_count = 0;
    path->subscribes = false;
    path->connect_at = path->marker_at = INT64_MAX;
    connection->up = false;
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
    for (unsigned i = 0; i < count; i++) {
        struct flight flight = flight_of(&parcels[i]);
        flight_report(&world, &flight, NULL, VOTE_UNKNOWN);
    }
    struct event down = {.kind = EVENT_MASTER_DOWN};
    down.master.master = master;
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
        for (uint8_t place = 0; place < SIM_KEYS; place++) /* what was released may be back */
            master->keys[place].stray = true;
        world.forgot_at = world.now;
    }
    scene.back_at[index] = world.now + MASTER_US;
}

void scene_master_starts(uint8_t master)
{
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
        connection_of(agent, m)->subscribed[key] = false;
        path_of(agent, m)->subscribes = watches && connection_of(agent, m)->up;
    }
}

static bool is_subscribed(const struct world *w, uint8_t agent, uint8_t master)
{
    return network_leads_to(w, agent, master) && connection_of(agent, master)->subscribed[0];
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
    path_of(agent, master)->subscribes = false;
    connection_of(agent, master)->subscribed[0] = true;
    say(agent, master, (struct signal){.kind = EVENT_SUBSCRIBED});
}

uint32_t channel_publish(struct world *w, uint8_t master, uint8_t name, struct bytes message)
{
    char text[64] = "";
    memcpy(text, message.at, message.len < sizeof text ? message.len : sizeof text - 1);
    struct signal signal = {.kind = EVENT_MESSAGE};
    signal.said = message_read(text);
    for (uint8_t a = 0; a < w->options.agents; a++)
        if (is_subscribed(w, a, master))
            say(a, master, signal);
    return channel_agents(w, master, name);
}

uint32_t channel_agents(struct world *w, uint8_t master, uint8_t name)
{
    uint32_t agents = 0;
    (void)name;
    for (uint8_t a = 0; a < w->options.agents; a++)
        agents += is_subscribed(w, a, master);
    return agents;
}

static void tell(uint8_t agent, uint8_t master, const struct signal *signal)
{
    struct event event = {.kind = signal->kind};
    event.channel = signal->said;
    event.channel.master = master;
    event.channel.key = (struct text){"k0", 2};
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
    connection_of(agent, master)->subscribed[0] = false;
    if (w->agents[agent].watches[0] && w->violation[0] == '\0')
        tell(agent, master, &(struct signal){.kind = EVENT_UNSUBSCRIBED});
}

/* ---- the beginning ---- */

static void set_options(const struct script *script)
{
    world.options = (struct options){
        .agents = script->agents,
        .masters = SIM_MASTERS,
        .keys = 1,
        .permits = script->permits == 0 ? 1 : script->permits,
        .callers = script->callers,
        .algorithm = ALGORITHM_REDLOCK,
        .fencing = true,
        .journal = script->journal,
        .fair = script->fair || script->rw,
        .rw = script->rw,
        .renew = RENEW_CALLER, /* where a POST does not say */
        .node_timeout_ms = 50,
        .ttl_ms = TTL_MS,
        .ttl_ms_max = TTL_MS,
        .retry_ms_min = 300,
        .retry_ms_max = 600,
        .handover_max = script->handover_max == 0 ? 1 : script->handover_max,
        .max_hold_ms = 600000,
        .lock_delay_ms = script->lock_delay_ms,
        .silence_us = 1000000,
        .owns = script->reentrant,
        .groups = 1,
        .policies = 1,
        .wall_us = script->wall_behind_us,
        .wall_jumps = (script->faults & MAY(CLOCK)) != 0,
        .locks_max = SIM_LOCKS,
        .waiters_max = SIM_REQUESTS,
        .rounds_min = ROUNDS_MIN,
        .rounds_max = LIMIT_ROUNDS,
    };
    world.switches = (struct switches){.forgetful = script->forgetful,
                                       .roaming = script->roaming,
                                       .answers_unchecked = world.switches.answers_unchecked,
                                       .register_accepts_all = world.switches.register_accepts_all};
}

static void configure_core(void)
{
    master_name_places(&world.options);
    for (unsigned i = 0; i < sizeof world.naming / sizeof world.naming[0]; i++)
        world.naming[i].groups[0].guard = world.switches.forgetful;
    static const char *const names[] = {"main"};
    const struct options *o = &world.options;
    uint32_t longest_delay_ms = o->lock_delay_ms == 0 ? 0 : o->lock_delay_ms + RELOADED_MS;
    struct core_policy policy = {.match = "*",
                                 .group_count = 1,
                                 .algorithm = o->algorithm,
                                 .renew = o->renew,
                                 .ttl_ms = o->ttl_ms,
                                 .max_hold_ms = o->max_hold_ms,
                                 .bound_max_hold_ms = 2 * o->max_hold_ms,
                                 .lock_delay_ms = o->lock_delay_ms,
                                 .reentrant = o->owns > 0,
                                 .fencing = o->fencing,
                                 .fence_retention_ms = SIM_FENCE_RETENTION_MS,
                                 .permits = o->permits,
                                 .retry_min_ms = o->retry_ms_min,
                                 .retry_max_ms = o->retry_ms_max,
                                 .order = o->fair ? ORDER_FAIR : ORDER_ANY,
                                 .kind = o->rw ? KIND_RW : KIND_MUTEX,
                                 .handover_max = o->handover_max};
    world.policies[0] = policy;
    world.groups[0] = (struct core_group){
        .masters = o->masters, .node_timeout_ms = o->node_timeout_ms, .drift_ppm = 10000};
    world.config = (struct core_config){.groups = world.groups,
                                        .group_count = 1,
                                        .group_names = names,
                                        .policies = world.policies,
                                        .policy_count = 1,
                                        .max_ttl_ms = o->ttl_ms_max + longest_delay_ms,
                                        .wait_ms_max = 300000,
                                        .locks_max = o->locks_max,
                                        .requests_max = SIM_REQUESTS,
                                        .waiters_max = o->waiters_max,
                                        .rounds_min = o->rounds_min,
                                        .rounds_max = o->rounds_max,
                                        .journal = o->journal};
}

/* Of a holder that is gone. */
static void leave_key(struct master *master, uint32_t ms)
{
    char text[RESP_DIGITS_MAX + 1];
    snprintf(text, sizeof text, "%u", ms);
    const char *const words[] = {
        "SET", "lock:k0", "0123456789abcdef0123456789abcdef01234567:000000ff:gone", "PX", text};
    struct bytes args[sizeof words / sizeof words[0]];
    for (size_t i = 0; i < sizeof args / sizeof args[0]; i++)
        args[i] = (struct bytes){words[i], strlen(words[i])};
    master->keyspace->now_us = master_wall_us(&world, master->index);
    keyspace_command(master->keyspace, args, sizeof args / sizeof args[0]);
}

static void begin_master(uint8_t index)
{
    struct master *master = &world.masters[index];
    master->keyspace = NULL; /* that one is shared */
    master_reset(&world, index);
    master->rate_ppm = master->wall_us = 0;
    masters_own(index);
    if (index == 0 && scene.script->number_ahead_us != 0)
        master_plant(&world, index, 0,
                     (uint64_t)(master_wall_us(&world, index) + scene.script->number_ahead_us),
                     /* lies= */ false);
    master->keys[0].planted = false;
    if (scene.script->is_new_group)
        master_clear(&world, index);
    if (index == 0 && scene.script->left_over_ms != 0)
        leave_key(master, scene.script->left_over_ms);
}

void scene_boot(uint8_t index)
{
    struct agent *agent = &world.agents[index];
    struct prng prng = {1 + index + SIM_AGENTS * (uint64_t)agent->incarnation};
    prng.state = prng_next(&prng);
    world.prng = prng;
    agent_boot(&world, index);
    struct entropy *entropy = core_entropy(agent->core);
    prng_fill(&prng, entropy->bytes, sizeof entropy->bytes);
    entropy->left = sizeof entropy->bytes;
}

static void begin_agent(uint8_t index)
{
    struct agent *agent = &world.agents[index];
    agent->rate_ppm = index == 0 ? -scene.script->rate_ppm : scene.script->rate_ppm;
    agent->boot_base_us = 1000000 * (index + 1);
    agent->wall_us = index == 1 ? -scene.script->wall_behind_us : 0;
    agent->stalled = agent->alive = false;
    agent->incarnation = agent->name = 0;
    agent->stalled_last = 0;
    agent->parked_count = 0;
    memset(agent->journal, 0, sizeof agent->journal);
    memset(agent->connections, 0, sizeof agent->connections);
    scene_boot(index);
    for (uint8_t m = 0; m < world.options.masters; m++) {
        path_of(index, m)->marker_at = INT64_MAX;
        scene_connect(index, m);
    }
}

void scene_begin(const struct script *script)
{
    struct world *w = &world;
    if (w->effects == NULL)
        w->effects = calloc(1, sizeof *w->effects);
    if (w->effects == NULL)
        abort();
    memset(&scene, 0, sizeof scene);
    scene.script = script;
    w->prng.state = 1;
    w->now = w->healed_at = 1000000;
    w->healed = false;
    w->order = w->steps = w->arrivals = w->secrets = 0;
    set_options(script);
    configure_core();
    turns_reset(w);
    wakes_reset(w);
    checker_reset(w);
    for (uint8_t m = 0; m < w->options.masters; m++)
        begin_master(m);
    masters_share();
    for (uint8_t a = 0; a < w->options.agents; a++)
        begin_agent(a);
    memset(w->callers, 0, sizeof w->callers);
    w->caller_count = script->callers;
    for (uint8_t c = 0; c < w->caller_count; c++)
        w->callers[c].index = c;
    scene_settle();
    for (uint8_t m = 0; m < w->options.masters; m++)
        scene.late_copies[m] = scene.first_copies[m] = masters_copy(m);
    if (script->one_is_guarded) {
        scene_master_forgets(0);
        masters_share();
        for (uint8_t a = 0; a < w->options.agents; a++)
            scene_look_at_marker(a, 0);
        scene_settle();
    }
}
