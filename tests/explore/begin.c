/* The beginning of a script: its agents and masters as it wants them, all connected. */
#include "explore.h"

#include "tests/keyspace/keyspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MASTERS = 3,
    TTL_MS = 1000,
    RELOADED_MS = 500, /* by which a reload makes a lock_delay longer */
    SMALL_TABLE = 3,
    FEW_ROUNDS = 2,
};

static void set_options(const struct script *script)
{
    world.options = (struct options){
        .agents = script->agents,
        .masters = script->has_replica    ? 1
                   : script->masters == 0 ? MASTERS
                                          : script->masters,
        .replicas = script->has_replica,
        .ack = script->has_replica,
        .keys = script->keys == 0 ? 1 : script->keys,
        .permits = script->permits == 0 ? 1 : script->permits,
        .callers = script->callers,
        .algorithm = script->needs_all_masters                     ? ALGORITHM_MULTILOCK
                     : script->has_replica || script->masters == 1 ? ALGORITHM_SINGLE
                                                                   : ALGORITHM_REDLOCK,
        .fencing = !script->has_no_numbers,
        .journal = script->journal,
        .fair = script->fair || script->rw,
        .rw = script->rw,
        .redisson = script->redisson,
        .renew = script->agents_renew ? RENEW_AGENT : RENEW_CALLER, /* unless a POST says */
        .node_timeout_ms = 50,
        .ttl_ms = TTL_MS,
        .ttl_ms_max = TTL_MS,
        .retry_ms_min = 300,
        .retry_ms_max = 600,
        .handover_max = script->no_handover         ? 0
                        : script->handover_max == 0 ? 1
                                                    : script->handover_max,
        .max_hold_ms = 600000,
        .lock_delay_ms = script->lock_delay_ms,
        .silence_us = 1000000,
        .owns = script->reentrant,
        .groups = 1,
        .policies = 1,
        .wall_us = script->wall_behind_us,
        .wall_jumps = (script->faults & MAY(CLOCK)) != 0,
        .locks_max = script->has_small_tables ? SMALL_TABLE : SIM_LOCKS,
        .waiters_max = script->has_small_tables ? SMALL_TABLE : SIM_REQUESTS,
        .rounds_min = script->has_few_rounds ? 1 : ROUNDS_MIN,
        .rounds_first = script->has_few_rounds ? 1 : ROUNDS_FIRST,
        .rounds_max = script->has_few_rounds ? FEW_ROUNDS : LIMIT_ROUNDS,
    };
    world.switches = (struct switches){.forgetful = script->forgetful,
                                       .compares = script->compares,
                                       .roaming = script->roaming,
                                       .few_rounds = script->has_few_rounds,
                                       .answers_unchecked = world.switches.answers_unchecked,
                                       .register_accepts_all = world.switches.register_accepts_all};
}

static void configure_core(void)
{
    master_name_places(&world.options);
    for (unsigned i = 0; i < sizeof world.naming / sizeof world.naming[0]; i++)
        world.naming[i].groups[0] = (struct config_group){
            .guard = world.switches.forgetful, .node_timeout_ms = world.options.node_timeout_ms};
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
                                 .permits = o->permits,
                                 .retry_min_ms = o->retry_ms_min,
                                 .retry_max_ms = o->retry_ms_max,
                                 .form = o->rw            ? FORM_SHARED
                                         : o->redisson    ? FORM_REDISSON
                                         : o->permits > 1 ? FORM_SLOTS
                                         : o->fair        ? FORM_FAIR
                                                          : FORM_PLAIN,
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
                                        .rounds_first = o->rounds_first,
                                        .rounds_max = o->rounds_max,
                                        .journal = o->journal};
}

/* Leaves the key of a lost holder. */
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
        master_plant(&world, index, (uint8_t)(world.options.keys - 1),
                     (uint64_t)(master_wall_us(&world, index) + scene.script->number_ahead_us),
                     /* lies= */ false);
    master->keys[0].planted = master->keys[1].planted = false;
    if (scene.script->is_new_group)
        master_clear(&world, index);
    if (index == 0 && scene.script->left_over_ms != 0)
        leave_key(master, scene.script->left_over_ms);
}

void scene_boot(uint8_t index)
{
    struct agent *agent = &world.agents[index];
    struct prng prng = {1u + scene.script->seed + index +
                        SIM_AGENTS * (uint64_t)agent->incarnation};
    prng.state = prng_next(&prng);
    agent->chance = prng;
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
        scene.paths[index][m].marker_at = INT64_MAX;
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
    w->writes.state = 1;
    w->now = w->healed_at = STARTS_US;
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
    w->promoted_at = -1;
    w->options.rate_ppm = script->rate_ppm; /* drift of agents alone */
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
