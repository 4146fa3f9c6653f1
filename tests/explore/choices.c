/* The next possible choices. Every change of the world is of one of these kinds, and has one of two
 * costs: an expected event is free, and a failure is a fault. */
#include "explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long a direction is held up: past the deadline of a vote, half a lease, and for as long as a
 * silent connection lives (R3). How long an agent is stopped: noticed (R14), half a lease, and past
 * its end. */
enum { LENGTHS = 3 };
static const int64_t held_up_us[LENGTHS] = {51000, 500000, 990000},
                     frozen_us[LENGTHS] = {150000, 600000, 1300000};
/* By how much a wall clock is set: far ahead, far behind, and by so little that it is trusted on
 * (R12). */
static const int64_t set_by_us[LENGTHS] = {60000000, -60000000, -450000};
/* Which copy takes a master's place: without the last change, or of the start. */
enum { COPIES = 2 };

/* ---- the kinds ---- */

static const struct kind {
    char letter;
    bool is_fault;
    bool has_master;
    bool touches; /* the agent's core takes a step */
} kinds[CHOICE_KINDS] = {
    [CHOICE_TIMER] = {'t', false, false, true},      [CHOICE_CONNECT] = {'c', false, true, true},
    [CHOICE_MARKER] = {'k', false, true, true},      [CHOICE_EXECUTE] = {'x', false, true, false},
    [CHOICE_SUBSCRIBE] = {'u', false, true, false},  [CHOICE_REPLY] = {'r', false, true, true},
    [CHOICE_SIGNAL] = {'s', false, true, true},      [CHOICE_MOVE] = {'m', false, false, true},
    [CHOICE_TIME] = {'T', false, false, false},      [CHOICE_STRAY] = {'y', false, false, false},
    [CHOICE_HOLD_OUT] = {'O', true, true, false},    [CHOICE_HOLD_BACK] = {'B', true, true, false},
    [CHOICE_CUT_NEVER] = {'N', true, true, true},    [CHOICE_CUT_RUN] = {'R', true, true, true},
    [CHOICE_CUT_LATER] = {'L', true, true, true},    [CHOICE_FREEZE] = {'F', true, false, false},
    [CHOICE_CRASH_NEVER] = {'C', true, false, true}, [CHOICE_CRASH_RUN] = {'D', true, false, true},
    [CHOICE_FORGET] = {'G', true, true, false},      [CHOICE_RESTART] = {'E', true, true, false},
    [CHOICE_PROMOTE] = {'P', true, true, false},     [CHOICE_CLOCK] = {'W', true, false, false},
    [CHOICE_LAG] = {'A', true, false, false},        [CHOICE_DOUBLE] = {'2', true, true, true},
    [CHOICE_LOSE_SIGNAL] = {'S', true, true, false}, [CHOICE_REFUSE] = {'Q', true, true, false},
};

bool choice_is_fault(const struct choice *choice)
{
    return kinds[choice->kind].is_fault;
}

/* ---- enabled choices ---- */

static bool is_out_open(uint8_t a, uint8_t m)
{
    return world.agents[a].connections[m].cut_out_until <= world.now && !world.masters[m].down;
}

static bool is_back_open(uint8_t a, uint8_t m)
{
    return world.agents[a].connections[m].cut_back_until <= world.now;
}

static bool hears(uint8_t a)
{
    return world.agents[a].alive && !world.agents[a].stalled;
}

static bool is_enabled(enum choice_kind kind, uint8_t a, uint8_t m)
{
    const struct path *path = &scene.paths[a][m];
    bool replies = path->parcel_count > 0 && path->parcels[0].executed;
    switch (kind) {
    case CHOICE_EXECUTE:
        return is_out_open(a, m) && scene_pending(path) > 0;
    case CHOICE_SUBSCRIBE:
        return is_out_open(a, m) && path->subscribes;
    case CHOICE_REPLY:
        return hears(a) && is_back_open(a, m) && replies;
    case CHOICE_SIGNAL:
        return hears(a) && is_back_open(a, m) && path->signal_count > 0;
    case CHOICE_CONNECT:
        return hears(a) && path->connect_at <= world.now && !world.masters[m].down;
    case CHOICE_MARKER:
        return hears(a) && path->marker_at <= world.now && path->parcel_count == 0 &&
               is_out_open(a, m) && is_back_open(a, m);
    default:
        return false;
    }
}

static bool has_timer(uint8_t a)
{
    const struct agent *agent = &world.agents[a];
    if (!agent->alive)
        return scene.boot_at[a] <= world.now;
    return !agent->stalled && core_next_deadline(agent->core).us <= agent_clock(&world, a).us;
}

struct listing {
    struct choice *list;
    unsigned count;
};

static void add(struct listing *listing, enum choice_kind kind, unsigned a, unsigned m,
                unsigned length)
{
    if (listing->count == CHOICES_MAX)
        abort();
    listing->list[listing->count++] =
        (struct choice){(uint8_t)kind, (uint8_t)a, (uint8_t)m, (uint8_t)length};
}

/* What happens before time moves on. */
static void list_due(struct listing *listing, bool all)
{
    static const enum choice_kind in_order[] = {CHOICE_EXECUTE, CHOICE_SUBSCRIBE, CHOICE_REPLY,
                                                CHOICE_SIGNAL,  CHOICE_CONNECT,   CHOICE_MARKER};
    const struct options *o = &world.options;
    for (unsigned i = 0; i < sizeof in_order / sizeof in_order[0]; i++)
        for (uint8_t a = 0; a < o->agents; a++)
            for (uint8_t m = 0; m < o->masters; m++)
                if ((all || listing->count == 0) && is_enabled(in_order[i], a, m))
                    add(listing, in_order[i], a, m, 0);
    for (uint8_t a = 0; a < o->agents; a++)
        if ((all || listing->count == 0) && has_timer(a))
            add(listing, CHOICE_TIMER, a, 0, 0);
}

/* ---- time ---- */

static void sooner(int64_t *next, int64_t at)
{
    if (at > world.now && at < *next)
        *next = at;
}

static void sooner_of_path(int64_t *next, uint8_t a, uint8_t m)
{
    const struct path *path = &scene.paths[a][m];
    const struct connection *connection = &world.agents[a].connections[m];
    sooner(next, connection->cut_out_until);
    sooner(next, connection->cut_back_until);
    if (world.agents[a].alive)
        sooner(next, path->connect_at), sooner(next, path->marker_at);
}

/* The first microsecond at which the master takes a key, or an entry of it, for expired. */
static void sooner_of_keys(int64_t *next, uint8_t m)
{
    for (uint8_t place = 0; place < options_places(&world.options); place++) {
        int64_t end_ms = master_next_end_ms(&world, m, place);
        if (end_ms != INT64_MAX)
            sooner(next, world.now + end_ms * 1000 - master_wall_us(&world, m));
    }
}

int64_t choices_next_time(void)
{
    const struct options *o = &world.options;
    int64_t next = INT64_MAX, part_us = 250 * (int64_t)o->ttl_ms;
    for (uint8_t a = 0; a < o->agents; a++) {
        const struct agent *agent = &world.agents[a];
        if (agent->alive && !agent->stalled && core_next_deadline(agent->core).us != INT64_MAX)
            sooner(&next, scene_real_us(a, core_next_deadline(agent->core)));
        sooner(&next, scene.frozen_until[a]);
        sooner(&next, scene.boot_at[a]);
        sooner(&next, scene.ends_at[a]);
        for (uint8_t m = 0; m < o->masters; m++)
            sooner_of_path(&next, a, m);
    }
    for (uint8_t m = 0; m < o->masters; m++) {
        sooner_of_keys(&next, m);
        sooner(&next, scene.back_at[m]);
    }
    sooner(&next, scene.lags_until);
    if (!world.healed)
        sooner(&next, (world.now / part_us + 1) * part_us);
    return next;
}

void choices_pass_time(int64_t until)
{
    world.now = until;
    for (uint8_t a = 0; a < world.options.agents; a++)
        if (world.agents[a].stalled && scene.frozen_until[a] <= world.now) {
            world.agents[a].stalled = false;
            world.agents[a].stalled_last = world.now;
        }
    for (uint8_t a = 0; a < world.options.agents; a++)
        if (scene.ends_at[a] != 0 && scene.ends_at[a] <= world.now)
            scene_crash(a, FATE_RUN);
    for (uint8_t m = 0; m < world.options.masters; m++)
        if (scene.back_at[m] != 0 && scene.back_at[m] <= world.now)
            scene_master_starts(m);
}

static int64_t horizon(void)
{
    return world.healed_at + 1000 * (int64_t)scene.script->horizon_ms;
}

/* ---- the list ---- */

static bool has_work(uint8_t a)
{
    bool works = false;
    for (uint8_t place = 0; place < options_places(&world.options); place++)
        works = works || world.agents[a].held[place] != NULL;
    for (unsigned i = 0; i < SIM_REQUESTS; i++)
        works = works || world.agents[a].open[i] != NULL;
    for (uint8_t m = 0; m < world.options.masters; m++)
        works = works || scene.paths[a][m].parcel_count > 0;
    return works;
}

static void list_faults_of_path(struct listing *listing, uint8_t a, uint8_t m)
{
    const struct path *path = &scene.paths[a][m];
    const struct connection *connection = &world.agents[a].connections[m];
    unsigned may = scene.script->faults, pending = scene_pending(path);
    for (unsigned length = 0; length < LENGTHS && (may & MAY(DELAY)) != 0; length++) {
        if (pending > 0 && connection->cut_out_until <= world.now)
            add(listing, CHOICE_HOLD_OUT, a, m, length);
        if (path->parcel_count + path->signal_count > pending &&
            connection->cut_back_until <= world.now)
            add(listing, CHOICE_HOLD_BACK, a, m, length);
    }
    if ((may & MAY(CUT)) != 0 && hears(a) && pending > 0) {
        add(listing, CHOICE_CUT_NEVER, a, m, 0);
        add(listing, CHOICE_CUT_LATER, a, m, 0);
    }
    if ((may & MAY(CUT)) != 0 && hears(a) && path->parcel_count > 0)
        add(listing, CHOICE_CUT_RUN, a, m, 0);
    if ((may & MAY(DOUBLE)) != 0 && is_enabled(CHOICE_REPLY, a, m))
        add(listing, CHOICE_DOUBLE, a, m, 0);
    if ((may & MAY(LOSE_SIGNAL)) != 0 && is_enabled(CHOICE_SIGNAL, a, m))
        add(listing, CHOICE_LOSE_SIGNAL, a, m, 0);
    if ((may & MAY(REFUSE)) != 0 && is_enabled(CHOICE_EXECUTE, a, m))
        add(listing, CHOICE_REFUSE, a, m, 0);
}

static void list_faults(struct listing *listing)
{
    unsigned may = scene.script->faults;
    for (uint8_t a = 0; a < world.options.agents; a++) {
        for (uint8_t m = 0; m < world.options.masters; m++)
            list_faults_of_path(listing, a, m);
        if (!hears(a) || !has_work(a))
            continue;
        for (unsigned length = 0; length < LENGTHS && (may & MAY(FREEZE)) != 0; length++)
            add(listing, CHOICE_FREEZE, a, 0, length);
        if ((may & MAY(CRASH)) != 0) {
            add(listing, CHOICE_CRASH_NEVER, a, 0, 0);
            add(listing, CHOICE_CRASH_RUN, a, 0, 0);
        }
        for (unsigned length = 0; length < LENGTHS && (may & MAY(CLOCK)) != 0; length++)
            add(listing, CHOICE_CLOCK, a, 0, length);
    }
    for (uint8_t m = 0; m < world.options.masters && !world.masters[m].down; m++) {
        if ((may & MAY(FORGET)) != 0)
            add(listing, CHOICE_FORGET, 0, m, 0);
        if ((may & MAY(RESTART)) != 0)
            add(listing, CHOICE_RESTART, 0, m, 0);
        unsigned copies = scene.script->has_replica ? 1 : COPIES;
        for (unsigned copy = 0; copy < copies && (may & MAY(PROMOTE)) != 0; copy++)
            add(listing, CHOICE_PROMOTE, 0, m, copy);
    }
    bool may_lag = (may & MAY(LAG)) != 0 && scene.lags_until <= world.now;
    for (unsigned length = 0; length < LENGTHS && may_lag; length++)
        add(listing, CHOICE_LAG, 0, 0, length);
}

/* Lists the callers' moves. A caller that moves at once moves before time does. In one order of
 * delivery, it moves when all is delivered. */
static bool list_moves(struct listing *listing, bool all, bool is_quiet)
{
    bool waits = true;
    for (uint8_t c = 0; c < world.caller_count; c++) {
        const struct move *move = people_next_move(c);
        if (move == NULL)
            continue;
        waits = waits && !move->soon;
        if (all || is_quiet || !move->soon)
            add(listing, CHOICE_MOVE, c, 0, 0);
    }
    return waits;
}

/* Returns true if all have made their moves, no lock is held, and no message is in flight or
 * late. */
static bool is_at_rest(void)
{
    bool rests = scene.stray_count == 0;
    for (uint8_t c = 0; c < world.caller_count; c++)
        rests = rests && people_is_done(c);
    for (uint8_t a = 0; a < world.options.agents; a++)
        rests = rests && hears(a) && !has_work(a);
    return rests;
}

unsigned choices_list(struct choice list[CHOICES_MAX], unsigned faults_left, enum orders orders,
                      bool *ret_over)
{
    struct listing listing = {list, 0};
    bool all_orders = orders != ORDERS_ONE;
    list_due(&listing, all_orders);
    *ret_over = false;
    unsigned reduced =
        orders == ORDERS_REDUCED && faults_left == 0 ? reduction_of(list, listing.count) : 0;
    if (reduced > 0)
        return reduced;
    bool is_quiet = listing.count == 0, is_late = is_quiet && choices_next_time() > horizon();
    bool waits = list_moves(&listing, all_orders, is_quiet);
    for (unsigned i = 0; i < scene.stray_count && (all_orders || is_quiet); i++)
        add(&listing, CHOICE_STRAY, 0, i, 0);
    if (is_quiet && waits && !is_late)
        add(&listing, CHOICE_TIME, 0, 0, 0);
    *ret_over = is_quiet && (is_late || is_at_rest());
    if (*ret_over && !is_late)
        return 0;
    if (faults_left > 0)
        list_faults(&listing);
    return listing.count;
}

bool choices_next_delivery(struct choice *ret_choice)
{
    struct choice list[CHOICES_MAX];
    struct listing listing = {list, 0};
    list_due(&listing, /* all= */ false);
    if (listing.count == 0)
        list_moves(&listing, /* all= */ false, /* is_quiet= */ true);
    if (listing.count > 0)
        *ret_choice = list[0];
    return listing.count > 0;
}

/* ---- taking one ---- */

static void take_timer(uint8_t a)
{
    struct event event = {.kind = EVENT_TIME};
    if (world.agents[a].alive) {
        agent_step(&world, a, &event);
        return;
    }
    scene.boot_at[a] = 0;
    scene_boot(a);
}

static void take_time(void)
{
    int64_t next = choices_next_time();
    faultless_time_passes(next);
    choices_pass_time(next);
}

static void take_delivery(const struct choice *choice)
{
    uint8_t a = choice->agent, m = choice->master;
    switch (choice->kind) {
    case CHOICE_TIMER:
        take_timer(a);
        break;
    case CHOICE_CONNECT:
        scene_connect(a, m);
        break;
    case CHOICE_MARKER:
        scene_look_at_marker(a, m);
        break;
    case CHOICE_EXECUTE:
    case CHOICE_REFUSE:
        scene_execute(a, m, choice->kind == CHOICE_REFUSE ? MISHAP_REFUSED : MISHAP_NONE);
        break;
    case CHOICE_SUBSCRIBE:
        scene_subscribe(a, m);
        break;
    case CHOICE_REPLY:
    case CHOICE_DOUBLE:
        scene_reply(a, m, choice->kind == CHOICE_DOUBLE);
        break;
    case CHOICE_STRAY:
        scene_execute_stray(m);
        break;
    default: /* SIGNAL, LOSE_SIGNAL */
        scene_signal(a, m, choice->kind == CHOICE_LOSE_SIGNAL);
        break;
    }
}

static void promote(uint8_t m, unsigned copy)
{
    if (scene.script->has_replica)
        scene_promote_replica();
    else
        scene_master_stops(m, copy == 0 ? &scene.late_copies[m] : &scene.first_copies[m]);
}

static void take_fault(const struct choice *choice)
{
    uint8_t a = choice->agent, m = choice->master;
    struct connection *connection = &world.agents[a].connections[m];
    switch (choice->kind) {
    case CHOICE_HOLD_OUT:
        connection->cut_out_until = world.now + held_up_us[choice->length];
        break;
    case CHOICE_HOLD_BACK:
        connection->cut_back_until = world.now + held_up_us[choice->length];
        break;
    case CHOICE_CUT_NEVER:
    case CHOICE_CUT_RUN:
    case CHOICE_CUT_LATER:
        scene_cut(a, m, (enum fate)(choice->kind - CHOICE_CUT_NEVER));
        break;
    case CHOICE_FREEZE:
        world.agents[a].stalled = true;
        scene.frozen_until[a] = world.now + frozen_us[choice->length];
        break;
    case CHOICE_CRASH_NEVER:
    case CHOICE_CRASH_RUN:
        scene_crash(a, choice->kind == CHOICE_CRASH_RUN ? FATE_RUN : FATE_NEVER);
        break;
    case CHOICE_FORGET:
        scene_master_forgets(m);
        break;
    case CHOICE_PROMOTE:
        promote(m, choice->length);
        break;
    case CHOICE_LAG:
        scene.lags_until = world.now + held_up_us[choice->length];
        break;
    case CHOICE_CLOCK:
        world.agents[a].wall_us += set_by_us[choice->length];
        break;
    default: /* RESTART */
        scene_master_stops(m, NULL);
        break;
    }
}

static uint8_t agent_of(const struct choice *choice)
{
    return choice->kind == CHOICE_MOVE ? people_agent(choice->agent) : choice->agent;
}

void choice_take(const struct choice *choice)
{
    if (kinds[choice->kind].touches && !world.agents[agent_of(choice)].alive)
        state_touch_whole(agent_of(choice));
    else if (kinds[choice->kind].touches)
        state_touch(agent_of(choice));
    if (choice_is_fault(choice))
        faultless_fails(choice);
    if (choice->kind == CHOICE_TIME)
        take_time();
    else if (choice->kind == CHOICE_MOVE)
        people_move(choice->agent);
    else if (choice->kind >= CHOICE_HOLD_OUT && choice->kind <= CHOICE_LAG)
        take_fault(choice);
    else
        take_delivery(choice);
    scene_settle();
}

/* ---- telling it ---- */

static const struct message *next_message(uint8_t a, uint8_t m)
{
    const struct path *path = &scene.paths[a][m];
    return path->parcels[path->parcel_count - scene_pending(path)].message;
}

static void tell_move(uint8_t c)
{
    static const char *const verbs[] = {"",
                                        "asks for the lock (POST)",
                                        "renews it (PUT)",
                                        "releases it (DELETE)",
                                        "looks at it (GET)",
                                        "leaves",
                                        "has its agent drain",
                                        "has its agent read its configuration",
                                        "has its agent end",
                                        "is a Java service, and takes it",
                                        "is a Java service, and gives it back"};
    const struct caller *caller = &world.callers[c];
    const struct move *move = people_next_move(c);
    printf("Caller %u %s at agent %u", c,
           world.healed && !caller->probes ? verbs[MOVE_DELETE] : verbs[move->kind],
           people_agent(c));
    if (move->kind == MOVE_POST && move->reads)
        printf(", to read");
    if (move->kind == MOVE_POST && move->wait_ms > 0)
        printf(", and is ready to wait");
}

static void tell_delivery(const struct choice *choice)
{
    uint8_t a = choice->agent, m = choice->master;
    const struct path *path = &scene.paths[a][m];
    switch (choice->kind) {
    case CHOICE_TIMER:
        printf(world.agents[a].alive ? "A deadline of agent %u has come" : "Agent %u is back", a);
        break;
    case CHOICE_CONNECT:
        printf("Agent %u is connected to master %u again", a, m);
        break;
    case CHOICE_MARKER:
        printf("Agent %u looks at the marker of master %u", a, m);
        break;
    case CHOICE_EXECUTE:
        printf("Master %u runs agent %u's %s", m, a, op_name(next_message(a, m)->op));
        break;
    case CHOICE_REFUSE:
        printf("Master %u refuses agent %u's %s", m, a, op_name(next_message(a, m)->op));
        break;
    case CHOICE_SUBSCRIBE:
        printf("Agent %u is subscribed at master %u", a, m);
        break;
    case CHOICE_REPLY:
    case CHOICE_DOUBLE:
        printf("Agent %u hears master %u's answer to its %s%s: %s", a, m,
               op_name(path->parcels[0].message->op), choice->kind == CHOICE_DOUBLE ? " twice" : "",
               vote_name(path->parcels[0].verdicts[0].reply.vote));
        break;
    case CHOICE_STRAY:
        printf("Master %u runs agent %u's %s, which its dead connection had left behind",
               scene.strays[m].master, scene.strays[m].message->agent,
               op_name(scene.strays[m].message->op));
        break;
    default:
        printf(choice->kind == CHOICE_SIGNAL
                   ? "Agent %u hears master %u's %s"
                   : "Agent %u does not hear master %u's %s, which is lost",
               a, m, path->signals[0].kind == EVENT_MESSAGE ? "message" : "confirmation");
        break;
    }
}

static void tell_fault(const struct choice *choice)
{
    static const char *const fates[] = {"never runs", "has run", "runs later"};
    uint8_t a = choice->agent, m = choice->master;
    switch (choice->kind) {
    case CHOICE_HOLD_OUT:
        printf("What agent %u sends to master %u is held up for %lld ms", a, m,
               (long long)held_up_us[choice->length] / 1000);
        break;
    case CHOICE_HOLD_BACK:
        printf("What master %u says to agent %u is held up for %lld ms", m, a,
               (long long)held_up_us[choice->length] / 1000);
        break;
    case CHOICE_CUT_NEVER:
    case CHOICE_CUT_RUN:
    case CHOICE_CUT_LATER:
        printf("The connection of agent %u to master %u ends; what is in flight %s", a, m,
               fates[choice->kind - CHOICE_CUT_NEVER]);
        break;
    case CHOICE_FREEZE:
        printf("Agent %u pauses for %lld ms", a, (long long)frozen_us[choice->length] / 1000);
        break;
    case CHOICE_CRASH_NEVER:
    case CHOICE_CRASH_RUN:
        printf("Agent %u dies; what it has in flight %s", a,
               fates[choice->kind == CHOICE_CRASH_RUN]);
        break;
    case CHOICE_FORGET:
        printf("Master %u forgets everything", m);
        break;
    case CHOICE_PROMOTE:
        printf("A replica of master %u takes its place, %s", m,
               scene.script->has_replica ? "as it is"
               : choice->length == 0     ? "without the last change"
                                         : "as it was at the start");
        break;
    case CHOICE_LAG:
        printf("The replica pauses for %lld ms", (long long)held_up_us[choice->length] / 1000);
        break;
    case CHOICE_CLOCK:
        printf("The wall clock of agent %u is set by %lld ms", a,
               (long long)set_by_us[choice->length] / 1000);
        break;
    default:
        printf("Master %u restarts empty", m);
        break;
    }
}

void choice_tell(const struct choice *choice)
{
    printf("%10.6f  ", (double)world.now / 1e6);
    if (choice->kind == CHOICE_TIME)
        printf("Time passes, until %.6f", (double)choices_next_time() / 1e6);
    else if (choice->kind == CHOICE_MOVE)
        tell_move(choice->agent);
    else if (choice->kind >= CHOICE_HOLD_OUT && choice->kind <= CHOICE_LAG)
        tell_fault(choice);
    else
        tell_delivery(choice);
    puts(".");
}

void choice_print(const struct choice *choice)
{
    printf("%c%u%u%u", kinds[choice->kind].letter, choice->agent, choice->master, choice->length);
}

bool choice_parse(const char **text, struct choice *ret_choice)
{
    const char *at = *text;
    for (unsigned kind = 0; kind < CHOICE_KINDS; kind++)
        if (at[0] != '\0' && at[0] == kinds[kind].letter && strlen(at) >= 4) {
            *ret_choice = (struct choice){(uint8_t)kind, (uint8_t)(at[1] - '0'),
                                          (uint8_t)(at[2] - '0'), (uint8_t)(at[3] - '0')};
            *text = at + 4;
            return true;
        }
    return false;
}
