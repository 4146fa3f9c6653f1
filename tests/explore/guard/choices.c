/* The next possible choices in the guard's world, and their effects. */
#include "stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS = 2, RECONNECT_US = 20 * MS };
/* How long a master is out of reach: less and more than a second, because a witness of its past may
 * be away for one second. How long a message is held up, and how long an agent is gone. */
static const int64_t away_us[LENGTHS] = {300 * MS, 4000 * MS},
                     held_up_us[LENGTHS] = {200 * MS, 900 * MS},
                     gone_us[LENGTHS] = {50 * MS, 1600 * MS};

/* ---- the next possible choices ---- */

static int64_t chaos_until_us(void)
{
    return script->chaos_ms * MS;
}

int64_t guard_end_us(void)
{
    return chaos_until_us() + script->calm_ms * MS;
}

static int64_t decides_at(uint8_t a)
{
    return world.agents[a].attempt.began_us + ROUND_MS * MS;
}

static bool is_ready(uint8_t a)
{
    unsigned ready = 0;
    for (uint8_t m = 0; m < script->masters; m++)
        ready += stage_link(a, m)->ready;
    return ready >= script->quorum;
}

static bool is_enabled(enum choice_kind kind, uint8_t a, uint8_t m)
{
    const struct path *path = stage_path(a, m);
    int64_t now_us = world.now_us;
    if (kind == CHOICE_START)
        return m == 0 && scene.start_at[a] <= now_us;
    if (!world.agents[a].alive)
        return false;
    switch (kind) {
    case CHOICE_CONNECT:
        return path->connect_at <= now_us;
    case CHOICE_EXECUTE:
        return !path->broken && path->out_until <= now_us && stage_pending(path) > 0;
    case CHOICE_HEAR:
        return path->back_until <= now_us && path->count > 0 && path->parcels[0].executed;
    case CHOICE_READY:
        return path->greeted;
    case CHOICE_BREAK:
        return path->broken;
    case CHOICE_DECIDE:
        return m == 0 && world.agents[a].attempt.open && now_us >= decides_at(a);
    case CHOICE_RELEASE: /* a little later than it was granted, so that the holder may die */
        return m == 0 && world.agents[a].attempt.holds && now_us >= decides_at(a);
    case CHOICE_TICK:
        return m == 0 && guard_deadline(&world.agents[a].guard).us <= now_us;
    default: /* LOCK */
        return m == 0 && scene.asked[a] < script->asks[a] && now_us < chaos_until_us() &&
               !world.agents[a].attempt.open && !world.agents[a].attempt.holds && is_ready(a);
    }
}

static void add(struct listing *listing, enum choice_kind kind, unsigned a, unsigned m,
                unsigned how)
{
    if (listing->count == CHOICES_MAX)
        abort();
    listing->list[listing->count++] = (struct choice){kind, (uint8_t)a, (uint8_t)m, (uint8_t)how};
}

static void list_kind(struct listing *listing, enum choice_kind kind, bool only_first)
{
    for (uint8_t a = 0; a < AGENTS; a++)
        for (uint8_t m = 0; m < script->masters; m++)
            if (is_enabled(kind, a, m) && (!only_first || listing->count == 0))
                add(listing, kind, a, m, 0);
}

static void list_faults_of_path(struct listing *listing, uint8_t a, uint8_t m)
{
    const struct path *path = stage_path(a, m);
    unsigned waits = stage_pending(path);
    if (!world.agents[a].alive)
        return;
    bool loses = (script->faults & MAY_LOSE) != 0 && !(script->blocked[a] >> m & 1);
    bool delays = (script->faults & (MAY_LOSE | MAY_DELAY)) != 0;
    for (uint8_t how = 0; how < LENGTHS && delays; how++) {
        if (loses)
            add(listing, CHOICE_CUT_NEVER, a, m, how);
        if (loses && path->count > 0)
            add(listing, CHOICE_CUT_RUN, a, m, how);
        if (waits > 0)
            add(listing, CHOICE_CUT_LATER, a, m, how);
        if (loses && waits > 0 && path->out_until <= world.now_us)
            add(listing, CHOICE_HOLD_OUT, a, m, how);
        if (loses && path->count > waits && path->back_until <= world.now_us)
            add(listing, CHOICE_HOLD_BACK, a, m, how);
    }
    bool writes = is_enabled(CHOICE_EXECUTE, a, m) &&
                  path->parcels[path->count - waits].request.request < REQUEST_LOCK;
    if ((script->faults & MAY_REFUSE) != 0 && writes)
        add(listing, CHOICE_REFUSE, a, m, 0);
}

static bool may_forget(enum forgetting how)
{
    static const unsigned needs[] = {
        [FLUSHED] = MAY_FLUSH,   [EMPTIED] = MAY_EMPTY, [OLD_DATA] = MAY_AGE,
        [OLD_UNVOTED] = MAY_AGE, [COPIED] = MAY_COPY,   [RESTARTED] = MAY_RESTART};
    return (script->faults & needs[how]) != 0;
}

static void list_faults(struct listing *listing)
{
    for (uint8_t a = 0; a < AGENTS; a++) {
        for (uint8_t m = 0; m < script->masters; m++)
            list_faults_of_path(listing, a, m);
        for (uint8_t how = 0; how < LENGTHS && (script->faults & MAY_CRASH) != 0; how++)
            if (world.agents[a].alive)
                add(listing, CHOICE_CRASH, a, 0, how);
    }
    for (uint8_t m = 0; m < script->masters; m++)
        for (enum forgetting how = FLUSHED; how <= RESTARTED; how++)
            for (uint8_t from = 0; from < (how == COPIED ? script->masters : 1); from++)
                if (may_forget(how) && (how != COPIED || from != m))
                    add(listing, CHOICE_FORGET, from, m, how);
}

/* All that is due is done before time moves on; with one order of it, the first. */
void guard_choices_list(struct listing *listing, unsigned faults_left, bool all_orders)
{
    listing->count = 0;
    for (enum choice_kind kind = CHOICE_START; kind <= CHOICE_TICK; kind++)
        list_kind(listing, kind, !all_orders);
    bool is_quiet = listing->count == 0;
    if (is_quiet)
        list_kind(listing, CHOICE_LOCK, false);
    for (uint8_t i = 0; i < scene.stray_count; i++)
        add(listing, CHOICE_STRAY, 0, i, 0);
    if (is_quiet)
        add(listing, CHOICE_TIME, 0, 0, 0);
    if (faults_left > 0 && world.now_us < chaos_until_us())
        list_faults(listing);
}

/* ---- time ---- */

static void sooner(int64_t *next, int64_t at)
{
    if (at > world.now_us && at < *next)
        *next = at;
}

int64_t guard_next_time(void)
{
    int64_t next = guard_end_us(), part_us = 250 * MS;
    for (uint8_t a = 0; a < AGENTS; a++) {
        sooner(&next, scene.start_at[a]);
        if (world.agents[a].attempt.open || world.agents[a].attempt.holds)
            sooner(&next, decides_at(a));
        if (world.agents[a].alive)
            sooner(&next, guard_deadline(&world.agents[a].guard).us);
        for (uint8_t m = 0; m < script->masters; m++) {
            sooner(&next, stage_path(a, m)->connect_at);
            sooner(&next, stage_path(a, m)->out_until);
            sooner(&next, stage_path(a, m)->back_until);
        }
    }
    for (uint8_t m = 0; m < script->masters; m++) {
        struct keyspace *keys = world.masters[m].keys;
        uint64_t since = marker_number(keys, "since");
        if (since != 0)
            sooner(&next, world.now_us + MS * ((int64_t)since + 1001 +
                                               (int64_t)marker_number(keys, "max_ttl") -
                                               master_wall_ms(&world, &world.masters[m])));
    }
    if (world.now_us < chaos_until_us())
        sooner(&next, (world.now_us / part_us + 1) * part_us);
    return next;
}

/* ---- taking one ---- */

static void take_stray(unsigned index)
{
    struct happening stray = scene.strays[index];
    scene.stray_count--;
    memmove(scene.strays + index, scene.strays + index + 1,
            (scene.stray_count - index) * sizeof stray);
    memset(scene.strays + scene.stray_count, 0, sizeof stray);
    stage_execute(&stray);
}

/* Sets back the agents' clocks, which are of no help. Each proposal is as it was at first. */
static void set_back_clocks(void)
{
    struct sim_master now = {.skew_ms = 0};
    for (uint8_t a = 0; a < AGENTS; a++)
        world.agents[a].skew_ms = 1000 - master_wall_ms(&world, &now);
}

void guard_choice_take(const struct choice *choice)
{
    set_back_clocks();
    check_reach(&world);
    uint8_t a = choice->agent, m = choice->master, how = choice->how;
    switch (choice->kind) {
    case CHOICE_START:
        stage_start(a);
        break;
    case CHOICE_CONNECT:
        stage_connect(a, m);
        break;
    case CHOICE_EXECUTE:
    case CHOICE_REFUSE:
        stage_execute_next(a, m, choice->kind == CHOICE_REFUSE);
        break;
    case CHOICE_HEAR:
        stage_hear(a, m);
        break;
    case CHOICE_READY:
        stage_end_greeting(a, m);
        break;
    case CHOICE_BREAK:
        stage_lose(a, m, FATE_NEVER, RECONNECT_US);
        break;
    case CHOICE_TICK:
        act_guard(&world, a, (struct guard_event){.kind = GUARD_TIME}, REQUEST_MARKER);
        break;
    case CHOICE_DECIDE:
        act_decide(&world, a);
        break;
    case CHOICE_RELEASE:
        act_release(&world, a);
        break;
    case CHOICE_LOCK:
        scene.asked[a]++;
        act_lock(&world, a);
        break;
    case CHOICE_STRAY:
        take_stray(m);
        break;
    case CHOICE_TIME:
        world.now_us = guard_next_time();
        break;
    case CHOICE_CUT_NEVER:
    case CHOICE_CUT_RUN:
    case CHOICE_CUT_LATER:
        stage_lose(a, m, (enum fate)(choice->kind - CHOICE_CUT_NEVER), away_us[how]);
        break;
    case CHOICE_HOLD_OUT:
        stage_path(a, m)->out_until = world.now_us + held_up_us[how];
        break;
    case CHOICE_HOLD_BACK:
        stage_path(a, m)->back_until = world.now_us + held_up_us[how];
        break;
    case CHOICE_CRASH:
        stage_crash(a, gone_us[how]);
        break;
    case CHOICE_FORGET:
        stage_forget(m, (enum forgetting)how, a);
        break;
    }
    check_now(&world);
}

/* ---- telling it ---- */

static const char *request_word(const struct happening *request)
{
    return request->request == REQUEST_LOCK      ? "acquire"
           : request->request == REQUEST_RAISE   ? "raise"
           : request->request == REQUEST_RELEASE ? "release"
                                                 : guard_question_word(request->ask.question);
}

static void tell_master(const struct choice *choice)
{
    static const char *const fates[] = {[FLUSHED] = "is flushed",
                                        [EMPTIED] = "restarts empty",
                                        [OLD_DATA] = "restarts with old data",
                                        [OLD_UNVOTED] =
                                            "restarts with old data, and without the vote",
                                        [COPIED] = "is filled with the data of another one",
                                        [RESTARTED] = "restarts with its data"};
    uint8_t a = choice->agent, m = choice->master;
    const struct path *path = stage_path(a, m);
    if (choice->kind == CHOICE_FORGET)
        printf("Master %u %s (%u)", m, fates[choice->how], a);
    else
        printf("Master %u %s agent %u's %s", m, choice->kind == CHOICE_REFUSE ? "refuses" : "runs",
               a, request_word(&path->parcels[path->count - stage_pending(path)].request));
}

static void tell_agent(const struct choice *choice)
{
    static const char *const verbs[] = {[CHOICE_START] = "starts",
                                        [CHOICE_CONNECT] = "is connected to",
                                        [CHOICE_READY] = "has greeted",
                                        [CHOICE_BREAK] = "hears of the end of its connection to",
                                        [CHOICE_TICK] = "has come to a deadline",
                                        [CHOICE_LOCK] = "asks for the lock",
                                        [CHOICE_DECIDE] = "has waited for long enough",
                                        [CHOICE_RELEASE] = "releases the lock",
                                        [CHOICE_CUT_NEVER] = "loses, with what is in flight,",
                                        [CHOICE_CUT_RUN] = "loses, once what is in flight has run,",
                                        [CHOICE_CUT_LATER] =
                                            "loses, before what is in flight will run,",
                                        [CHOICE_HOLD_OUT] = "is held up on its way to",
                                        [CHOICE_HOLD_BACK] = "is held up on the way back from",
                                        [CHOICE_CRASH] = "is killed"};
    bool is_of_agent = choice->kind == CHOICE_START || choice->kind == CHOICE_CRASH ||
                       (choice->kind >= CHOICE_DECIDE && choice->kind <= CHOICE_LOCK);
    printf("Agent %u %s", choice->agent, verbs[choice->kind]);
    if (!is_of_agent)
        printf(" master %u", choice->master);
    if (choice->kind >= CHOICE_CUT_NEVER && choice->kind <= CHOICE_CUT_LATER)
        printf(" for %lld ms", (long long)away_us[choice->how] / MS);
}

void guard_choice_tell(const struct choice *choice)
{
    const struct happening *heard = &stage_path(choice->agent, choice->master)->parcels[0].request;
    printf("%10.6f  ", (double)world.now_us / 1e6);
    switch (choice->kind) {
    case CHOICE_TIME:
        printf("Time passes, until %.6f", (double)guard_next_time() / 1e6);
        break;
    case CHOICE_STRAY:
        printf("Master %u runs agent %u's %s, which its dead connection had left behind",
               scene.strays[choice->master].master, scene.strays[choice->master].agent,
               request_word(&scene.strays[choice->master]));
        break;
    case CHOICE_HEAR:
        printf("Agent %u hears master %u%s say to its %s: epoch '%s', left %" PRId64
               ", top %" PRIu64 ", floor %" PRIu64 ", vote '%s', number %" PRIu64,
               choice->agent, choice->master, heard->refused ? " refuse, and" : "",
               request_word(heard), heard->answer.epoch, heard->answer.left_ms, heard->answer.top,
               heard->answer.floor, heard->answer.vote, heard->number);
        break;
    case CHOICE_EXECUTE:
    case CHOICE_REFUSE:
    case CHOICE_FORGET:
        tell_master(choice);
        break;
    default:
        tell_agent(choice);
        break;
    }
    puts(".");
}
