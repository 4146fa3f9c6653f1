/* Fuzzes the core in the explorer's world (tests/explore): the same agents, masters, callers and
 * checkers, with larger tables. The input takes the choices, and the world is checked after each.
 *
 *   bytes 1 to 4  the world: masters, kind of the keys, rules and faults
 *   then          a choice at a time: a caller's move, a delivery, a step of time, a fault
 *   at the end    nothing fails any more, and every waiter gets the lock (calm.c)
 */
#include "tests/explore/explore.h"
#include "tests/fuzz/fuzz.h"

enum {
    STEPS_MAX = 1000,
    QUIET_STEPS_MAX = 5000,
    FORGETS_MAX = 2,      /* masters that lose their keys in one input, as in `make explore` */
    HORIZON_MS = 3600000, /* No input takes as long. */
    DELAY_US = 30,        /* times the square of a byte */
};

static struct script script;
static unsigned forgets;

/* ---- the world ------------------------------------------------------------------------------- */

enum keys { KEYS_PLAIN, KEYS_FAIR, KEYS_READ, KEYS_SLOTS, KEYS_JAVA, KEYS_KINDS };

static void draw_keys(enum keys keys)
{
    script.keys = keys == KEYS_SLOTS ? SIM_KEYS / 2 : SIM_KEYS - 1;
    script.fair = keys == KEYS_FAIR;
    script.rw = keys == KEYS_READ;
    script.permits = keys == KEYS_SLOTS ? 2 : 1;
    script.redisson = keys == KEYS_JAVA;
}

/* In a third of the worlds masters forget. Some of these have a single master with a replica. */
static void draw_masters(uint8_t how, uint8_t rules)
{
    script.forgetful = rules % 3 == 0;
    script.masters = (uint8_t)(script.forgetful ? 3 + how % 3 : 1 + how % SIM_MASTERS);
    script.has_replica = script.forgetful && rules % 9 == 0;
    script.needs_all_masters = !script.has_replica && how / 8 % 8 == 0;
    script.is_new_group = script.forgetful && !script.has_replica && how / 64 == 3;
}

static void draw_faults(uint8_t which)
{
    unsigned of_masters = script.forgetful ? MAY(FORGET) | MAY(RESTART) | MAY(PROMOTE) : 0;
    script.faults = MAY(DELAY) | MAY(CUT) | MAY(DOUBLE) | MAY(REFUSE) | MAY(LOSE_SIGNAL);
    script.faults |= which & 1 ? MAY(FREEZE) : 0;
    script.faults |= which & 2 ? MAY(CRASH) : 0;
    script.faults |= which & 4 ? MAY(CLOCK) : 0;
    script.faults |= script.has_replica ? MAY(LAG) | MAY(PROMOTE) : of_masters;
    script.rate_ppm = which & 8 ? 4950 : 0;
    script.number_ahead_us = which & 16 && !script.forgetful ? 5000000 : 0;
    script.left_over_ms = which & 32 && !script.redisson && !script.rw ? 400 : 0;
    script.tells_end_first = which & 64;
    script.wall_behind_us = which & 128 ? 700000 : 0;
}

static void begin(struct fuzz_bytes *bytes)
{
    uint8_t how = fuzz_byte(bytes), keys = fuzz_byte(bytes), rules = fuzz_byte(bytes);
    script = (struct script){.name = "fuzz",
                             .what = "the input's choices",
                             .agents = 2,
                             .callers = SIM_CALLERS,
                             .needs_each = true,
                             .horizon_ms = HORIZON_MS,
                             .handover_max = 2};
    draw_masters(how, rules);
    draw_keys((enum keys)(keys % KEYS_KINDS));
    script.agents = keys & 64 ? 3 : 2;
    script.journal = keys & 128;
    script.has_no_numbers = how & 128 && !script.forgetful;
    script.agents_renew = rules & 4;
    script.lock_delay_ms = rules & 8 ? 300 : 0;
    script.reentrant = script.permits == 1 && rules & 16;
    script.roaming = rules & 32;
    script.has_small_tables = rules & 64;
    script.has_few_rounds = rules & 128;
    draw_faults(fuzz_byte(bytes));
    forgets = 0;
    world.verbose = getenv("TELL") != NULL;
    if (world.verbose)
        setvbuf(stdout, NULL, _IOLBF, 0); /* also of an input that ends the process */
    if (world.scripting == NULL)
        FUZZ_CHECK(master_load(&world, NULL) == NULL, "the scripts do not compile");
    masters_forget_all();
    state_forget_all();
    state_reset();
    world.property[0] = '\0';
    scene_begin(&script);
    /* Order and promptness are exact if clocks agree (faultless.c). */
    scene.has_failed = script.rate_ppm != 0 || script.wall_behind_us != 0;
}

/* Returns true if more is in flight than the world has room for. Then the input ends. */
static bool is_full(void)
{
    return strcmp(world.property, "explore") == 0;
}

static void check(void)
{
    FUZZ_CHECK(world.violation[0] == '\0' || is_full(), "%s", world.violation);
}

static void take(struct choice choice)
{
    if (world.verbose)
        choice_tell(&choice);
    choice_take(&choice);
    check();
}

/* ---- callers --------------------------------------------------------------------------------- */

static uint8_t an_agent(uint8_t which)
{
    return which % script.agents;
}

static void draw_post(struct move *move, struct fuzz_bytes *bytes)
{
    uint8_t how = fuzz_byte(bytes), terms = fuzz_byte(bytes);
    *move = (struct move){.kind = MOVE_POST,
                          .agent = an_agent(how & 3),
                          .key = (uint8_t)(how / 4 % 4 % script.keys),
                          .renew = (enum renew)(how / 16 % 4 % 3),
                          .reads = script.rw && how & 64,
                          .wait_ms = terms & 3 ? 50 << 3 * (terms & 3) : 0,
                          .unheard = terms & 128};
    if (how & 128) {
        move->ttl_ms = (uint32_t)fuzz_byte(bytes) * 5;
        move->max_hold_ms = 20 * (int64_t)fuzz_byte(bytes);
    }
    if ((terms & 12) == 4)
        move->bound = true;
    else if ((terms & 12) == 8 && script.reentrant)
        move->owner = (uint8_t)(1 + terms / 16 % 2);
    else if ((terms & 12) == 12)
        move->secret = ++world.secrets;
    if (move->bound && move->renew == RENEW_CALLER)
        move->renew = RENEW_UNSET;
}

/* Draws the last request with an idempotency key once more, or a copy of it that arrives behind the
 * release of its lock. */
static bool draw_again(struct move *move, uint8_t caller, bool is_copy)
{
    for (unsigned i = scene.moved[caller]; i-- > 0;)
        if (script.moves[caller][i].secret != 0 && !script.moves[caller][i].copy) {
            *move = script.moves[caller][i];
            move->copy = is_copy;
            move->unheard = move->together = move->follows = false;
            return !is_copy || scene.unasked_count < UNASKED_MAX / 2;
        }
    return false;
}

/* Returns the caller's own hold, or one of the latest of all; NULL: there is none. */
static const struct hold *draw_hold(struct move *move, uint8_t caller, uint8_t which)
{
    uint16_t granted = (uint16_t)(world.hold_count - 1);
    if (which < 128 && world.callers[caller].hold != NULL)
        return world.callers[caller].hold;
    if (granted == 0)
        return NULL;
    move->of_hold = (uint16_t)(granted - which % 8 % granted);
    return &world.holds[move->of_hold];
}

/* Spoils the token, as the simulator's callers do: it must fail. */
static void spoil(struct move *move, const struct hold *hold, bool by_number)
{
    const struct agent *agent = &world.agents[move->agent];
    bool is_known = hold->agent == move->agent && hold->incarnation == agent->incarnation;
    if (hold->released || move->of_hold == 0)
        return;
    move->wrong = by_number && !is_known && !script.has_no_numbers &&
                  (move->kind == MOVE_PUT || script.roaming);
    move->is_strange = !move->wrong;
}

static bool draw_with_token(struct move *move, uint8_t caller, struct fuzz_bytes *bytes)
{
    uint8_t which = fuzz_byte(bytes), how = fuzz_byte(bytes);
    const struct hold *hold = draw_hold(move, caller, which);
    if (hold == NULL)
        return false;
    bool renews = move->kind == MOVE_PUT;
    move->agent = how & 3 ? an_agent((uint8_t)((how & 3) - 1)) : hold->agent;
    move->renew = (enum renew)(how / 16 % 4 % 3);
    move->ttl_ms = renews && how & 64 ? (uint32_t)fuzz_byte(bytes) * 5 : 0;
    if (how / 4 % 4 > 1)
        spoil(move, hold, how / 4 % 4 == 3);
    bool is_right = !move->wrong && !move->is_strange;
    if (is_right && renews && !script.roaming)
        move->agent = hold->agent;
    if (!renews && how & 128 && move->of_hold == 0 && hold->secret != 0 &&
        hold->agent < SIM_AGENTS && hold->incarnation == world.agents[hold->agent].incarnation) {
        move->by_secret = true;
        move->agent = hold->agent;
        move->secret = hold->secret;
        move->key = options_key_of(&world.options, hold->key);
    }
    return !(is_right && renews && hold->ended && !hold->released);
}

static bool java_has_it(void)
{
    return !scene.java.ended && scene.java.window_until > world.now;
}

static bool draw_rarely(struct move *move, uint8_t caller, uint8_t which)
{
    move->agent = an_agent(which / 8);
    switch (which % 8) {
    case 0:
        move->kind = MOVE_DRAIN;
        return true;
    case 1:
        move->kind = MOVE_END;
        move->releases = which & 128;
        return true;
    case 2:
        move->kind = MOVE_RELOAD;
        return true;
    case 3:
    case 4:
        return draw_again(move, caller, which % 8 == 4);
    case 5:
        move->kind = java_has_it() ? MOVE_JAVA_RELEASES : MOVE_JAVA_TAKES;
        return script.redisson;
    default:
        move->kind = MOVE_GET;
        move->key = (uint8_t)(which / 16 % script.keys);
        return true;
    }
}

static bool draw_move(struct move *move, uint8_t caller, struct fuzz_bytes *bytes)
{
    const struct caller *asks = &world.callers[caller];
    *move = (struct move){.kind = MOVE_LEAVE};
    if (asks->request != NULL)
        return true;
    uint8_t what = fuzz_byte(bytes);
    switch (what % 8) {
    case 0:
    case 1:
    case 2:
        draw_post(move, bytes);
        return true;
    case 3:
    case 4:
        move->kind = MOVE_PUT;
        return draw_with_token(move, caller, bytes);
    case 5:
        move->kind = MOVE_DELETE;
        return draw_with_token(move, caller, bytes);
    case 6:
        return asks->hold != NULL && asks->hold->bound;
    default:
        return draw_rarely(move, caller,
                           what / 8 == 31 ? fuzz_byte(bytes) : (uint8_t)(7 + what / 8 * 16));
    }
}

/* Lets two callers of one agent ask in the same iteration of its loop. */
static void ask_together(struct fuzz_bytes *bytes, uint8_t first)
{
    uint8_t second = (uint8_t)(first + 1);
    if (second >= SIM_CALLERS || scene.moved[first] == MOVES_MAX ||
        scene.moved[second] == MOVES_MAX || world.callers[first].request != NULL ||
        world.callers[second].request != NULL)
        return;
    struct move *moves[] = {&script.moves[first][scene.moved[first]],
                            &script.moves[second][scene.moved[second]]};
    draw_post(moves[0], bytes);
    draw_post(moves[1], bytes);
    moves[1]->agent = moves[0]->agent;
    moves[0]->together = moves[1]->follows = true;
    if (people_next_move(first) != NULL)
        take((struct choice){.kind = CHOICE_MOVE, .agent = first});
    else
        moves[0]->kind = moves[1]->kind = MOVE_NONE;
}

static void ask(struct fuzz_bytes *bytes, uint8_t caller)
{
    if (scene.moved[caller] == MOVES_MAX)
        return;
    struct move *move = &script.moves[caller][scene.moved[caller]];
    if (draw_move(move, caller, bytes) && people_next_move(caller) != NULL)
        take((struct choice){.kind = CHOICE_MOVE, .agent = caller});
    else
        move->kind = MOVE_NONE;
}

/* ---- the surroundings ------------------------------------------------------------------------ */

static void deliver(uint8_t which)
{
    struct choice list[CHOICES_MAX];
    bool over;
    unsigned count = choices_list(list, 0, ORDERS_ALL, &over);
    take(count > 0 ? list[which % count] : (struct choice){.kind = CHOICE_TIME});
}

/* Takes all that is due, in the order of the explorer, and may go on to the next deadline. */
static void deliver_all(bool moves_on)
{
    struct choice choice;
    for (unsigned steps = 0; choices_next_delivery(&choice) && !is_full(); steps++) {
        FUZZ_CHECK(steps < QUIET_STEPS_MAX, "C7 agents and masters talk forever");
        take(choice);
    }
    if (moves_on)
        take((struct choice){.kind = CHOICE_TIME});
}

/* Lets time pass while deliveries are on their way. No deadline is missed. */
static void delay_by(uint8_t how_long)
{
    struct choice list[CHOICES_MAX];
    bool over;
    unsigned count = choices_list(list, 0, ORDERS_ALL, &over);
    for (unsigned i = 0; i < count; i++)
        if (list[i].kind == CHOICE_TIMER) {
            take(list[i]);
            return;
        }
    int64_t next = choices_next_time(), until = world.now + DELAY_US * (int64_t)how_long * how_long;
    scene.has_failed = true;
    choices_pass_time(next < until ? next : until);
    scene_settle();
    check();
}

/* Returns whether an agent is stopped. Agents notice the end of a master's connections at once
 * (scene.c), and a stopped agent cannot. */
static bool some_stand_still(void)
{
    bool some = false;
    for (uint8_t a = 0; a < script.agents; a++)
        some = some || world.agents[a].stalled;
    return some;
}

static void fail(uint8_t which)
{
    struct choice list[CHOICES_MAX];
    bool over;
    unsigned free = choices_list(list, 0, ORDERS_ALL, &over),
             count = choices_list(list, 1, ORDERS_ALL, &over);
    if (count <= free)
        return;
    struct choice choice = list[free + which % (count - free)];
    bool forgets_keys = choice.kind >= CHOICE_FORGET && choice.kind <= CHOICE_PROMOTE;
    if (forgets_keys && (some_stand_still() || forgets++ >= FORGETS_MAX))
        return;
    take(choice);
}

/* ---- faults that the exhaustive search does not try ---- */

/* The master does not run its next command (LOADING, BUSY). */
static void run_not(uint8_t agent, uint8_t master)
{
    const struct connection *connection = &world.agents[agent].connections[master];
    if (scene_pending(&scene.paths[agent][master]) > 0 && connection->cut_out_until <= world.now &&
        !world.masters[master].down)
        scene_execute(agent, master, MISHAP_NOT_RUN);
}

/* The next reply cannot be read (0), or says that the key lives for so much longer than its holder
 * asked for. */
static void change_reply(uint8_t agent, uint8_t master, int64_t longer_ms)
{
    static struct verdict verdicts[LIMIT_BATCH];
    struct parcel *parcel = &scene.paths[agent][master].parcels[0];
    if (scene.paths[agent][master].parcel_count == 0 || !parcel->executed)
        return;
    unsigned count = parcel->message->count;
    memcpy(verdicts, parcel->verdicts, count * sizeof verdicts[0]);
    for (unsigned i = 0; i < count; i++)
        if (longer_ms == 0)
            verdicts[i] = (struct verdict){.reply = {.vote = VOTE_UNKNOWN, .occupant.left_ms = -1}};
        else if (verdicts[i].reply.vote == VOTE_TAKEN && verdicts[i].reply.occupant.left_ms >= 0)
            verdicts[i].reply.occupant.left_ms += longer_ms;
    parcel->verdicts = state_intern(verdicts, count * sizeof verdicts[0]);
}

/* The agent reads the master's clock. */
static void read_clock(uint8_t agent, uint8_t master)
{
    struct event event = {.kind = EVENT_MASTER_CLOCK};
    if (!world.agents[agent].alive || world.agents[agent].stalled ||
        !world.agents[agent].connections[master].up || world.masters[master].down)
        return;
    struct instant now = agent_clock(&world, agent);
    event.master.master = master;
    event.master.clock_offset_us = master_wall_us(&world, master) - agent_wall_us(&world, agent);
    event.master.reading = (struct clock_reading){
        .wall_us = master_wall_us(&world, master), .sent = now, .heard = now};
    agent_step_master(&world, agent, &event);
}

static void fail_otherwise(struct fuzz_bytes *bytes)
{
    uint8_t what = fuzz_byte(bytes), agent = an_agent(what & 3),
            master = (uint8_t)(what / 4 % 8 % world.options.masters);
    scene.has_failed = true;
    switch (what / 32 % 4) {
    case 0:
        run_not(agent, master);
        break;
    case 1:
        change_reply(agent, master, /* longer_ms= */ 0);
        break;
    case 2:
        change_reply(agent, master, (int64_t)1 << fuzz_byte(bytes) % 60);
        break;
    default:
        read_clock(agent, master);
        break;
    }
    scene_settle();
    check();
}

/* ---- one input ------------------------------------------------------------------------------- */

static void step(struct fuzz_bytes *bytes)
{
    uint8_t what = fuzz_byte(bytes);
    if (what < 80)
        ask(bytes, what % SIM_CALLERS);
    else if (what < 86)
        ask_together(bytes, what - 80);
    else if (what < 160)
        deliver(what - 86);
    else if (what < 200)
        deliver_all(what & 1);
    else if (what < 212)
        delay_by(fuzz_byte(bytes));
    else if (what < 250)
        fail(fuzz_byte(bytes));
    else
        fail_otherwise(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    begin(&bytes);
    check();
    for (unsigned steps = 0; bytes.left > 0 && steps < STEPS_MAX && !is_full(); steps++)
        step(&bytes);
    if (!is_full())
        calm_end();
    check();
    return 0;
}
