/* What can happen next in the guard's world, and what each of it does. */
#include "stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS = 2, RECONNECT_US = 20 * MS };
/* How long a master is out of reach: less and more than a second, which is what a witness of its
 * past may be away for. How long what is on its way is held up, and an agent is gone. */
static const int64_t away_us[LENGTHS] = {300 * MS, 4000 * MS},
                     held_up_us[LENGTHS] = {200 * MS, 900 * MS},
                     gone_us[LENGTHS] = {50 * MS, 1600 * MS};

/* ---- what can happen next ---- */

static int64_t chaos_until_us(void)
{
    return script->chaos_ms * MS;
}

int64_t guard_end_us(void)
{
    return chaos_until_us() + script->calm_ms * MS;
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
    case CHOICE_TICK:
        return m == 0 && guard_deadline(&world.agents[a].guard).us <= now_us;
    default: /* LOCK, RENEW */
        return scene.asked[a] < script->asks && stage_link(a, m)->ready &&
               now_us < chaos_until_us() &&
               !(kind == CHOICE_LOCK && world.agents[a].guard.masters[m].unsure);
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
        for (uint8_t m = 0; m < MASTERS; m++)
            if (is_enabled(kind, a, m) && (!only_first || listing->count == 0))
                add(listing, kind, a, m, 0);
}

static void list_faults_of_path(struct listing *listing, uint8_t a, uint8_t m)
{
    const struct path *path = stage_path(a, m);
    unsigned waits = stage_pending(path);
    if (!world.agents[a].alive)
        return;
    for (uint8_t how = 0; how < LENGTHS && (script->faults & MAY_LOSE) != 0; how++) {
        add(listing, CHOICE_CUT_NEVER, a, m, how);
        if (path->count > 0)
            add(listing, CHOICE_CUT_RUN, a, m, how);
        if (waits > 0)
            add(listing, CHOICE_CUT_LATER, a, m, how);
        if (waits > 0 && path->out_until <= world.now_us)
            add(listing, CHOICE_HOLD_OUT, a, m, how);
        if (path->count > waits && path->back_until <= world.now_us)
            add(listing, CHOICE_HOLD_BACK, a, m, how);
    }
    bool writes = is_enabled(CHOICE_EXECUTE, a, m) &&
                  path->parcels[path->count - waits].request.request < REQUEST_LOCK;
    if ((script->faults & MAY_REFUSE) != 0 && writes)
        add(listing, CHOICE_REFUSE, a, m, 0);
}

static bool may_forget(enum forgetting how)
{
    static const unsigned needs[] = {[FLUSHED] = MAY_FLUSH,
                                     [EMPTIED] = MAY_EMPTY,
                                     [PROMOTED] = MAY_PROMOTE,
                                     [PROMOTED_UNVOTED] = MAY_PROMOTE,
                                     [RESTARTED] = MAY_RESTART};
    return (script->faults & needs[how]) != 0;
}

static void list_faults(struct listing *listing)
{
    for (uint8_t a = 0; a < AGENTS; a++) {
        for (uint8_t m = 0; m < MASTERS; m++)
            list_faults_of_path(listing, a, m);
        for (uint8_t how = 0; how < LENGTHS && (script->faults & MAY_CRASH) != 0; how++)
            if (world.agents[a].alive)
                add(listing, CHOICE_CRASH, a, 0, how);
    }
    for (uint8_t m = 0; m < MASTERS; m++)
        for (enum forgetting how = FLUSHED; how <= RESTARTED; how++)
            if (may_forget(how) && (how == RESTARTED || check_may_forget(&world, m)))
                add(listing, CHOICE_FORGET, 0, m, how);
}

/* All that is due is done before time moves on; with one order of it, the first. */
void guard_choices_list(struct listing *listing, unsigned faults_left, bool all_orders)
{
    listing->count = 0;
    for (enum choice_kind kind = CHOICE_START; kind <= CHOICE_TICK; kind++)
        list_kind(listing, kind, !all_orders);
    bool is_quiet = listing->count == 0;
    list_kind(listing, CHOICE_LOCK, false);
    list_kind(listing, CHOICE_RENEW, false);
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
        if (world.agents[a].alive)
            sooner(&next, guard_deadline(&world.agents[a].guard).us);
        for (uint8_t m = 0; m < MASTERS; m++) {
            sooner(&next, stage_path(a, m)->connect_at);
            sooner(&next, stage_path(a, m)->out_until);
            sooner(&next, stage_path(a, m)->back_until);
        }
    }
    for (uint8_t m = 0; m < MASTERS; m++) {
        char since[GUARD_WORD_BYTES];
        if (marker_field(world.masters[m].keys, "since", since))
            sooner(&next, world.now_us + MS * (strtoll(since, NULL, 10) +
                                               marker_max_ttl_ms(world.masters[m].keys) + 1001 -
                                               stage_wall_ms(m)));
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

void guard_choice_take(const struct choice *choice)
{
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
        stage_tell(a, (struct guard_event){.kind = GUARD_TIME}, REQUEST_MARKER);
        break;
    case CHOICE_LOCK:
    case CHOICE_RENEW:
        scene.asked[a]++;
        stage_send(a, m,
                   (struct happening){.request = choice->kind == CHOICE_LOCK ? REQUEST_LOCK
                                                                             : REQUEST_RENEW});
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
        stage_forget(m, (enum forgetting)how);
        break;
    }
    check_now(&world);
}

/* ---- telling it ---- */

static const char *request_word(const struct happening *request)
{
    return request->request == REQUEST_LOCK    ? "acquire"
           : request->request == REQUEST_RENEW ? "renewal"
                                               : guard_question_word(request->ask.question);
}

static void tell_master(const struct choice *choice)
{
    static const char *const fates[] = {[FLUSHED] = "is flushed",
                                        [EMPTIED] = "restarts empty",
                                        [PROMOTED] = "is replaced by a replica that lacks keys",
                                        [PROMOTED_UNVOTED] =
                                            "is replaced by a replica that lacks keys and the vote",
                                        [RESTARTED] = "restarts with its data"};
    uint8_t a = choice->agent, m = choice->master;
    const struct path *path = stage_path(a, m);
    if (choice->kind == CHOICE_FORGET)
        printf("Master %u %s", m, fates[choice->how]);
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
                                        [CHOICE_LOCK] = "asks for a lock at",
                                        [CHOICE_RENEW] = "renews a lock at",
                                        [CHOICE_CUT_NEVER] = "loses, with what is in flight,",
                                        [CHOICE_CUT_RUN] = "loses, once what is in flight has run,",
                                        [CHOICE_CUT_LATER] =
                                            "loses, before what is in flight will run,",
                                        [CHOICE_HOLD_OUT] = "is held up on its way to",
                                        [CHOICE_HOLD_BACK] = "is held up on the way back from",
                                        [CHOICE_CRASH] = "is killed"};
    bool is_of_agent =
        choice->kind == CHOICE_START || choice->kind == CHOICE_TICK || choice->kind == CHOICE_CRASH;
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
        printf("Agent %u hears master %u%s: epoch '%s', birth '%s', left %" PRId64, choice->agent,
               choice->master, heard->refused ? " refuse" : "", heard->answer.epoch,
               heard->answer.birth, heard->answer.left_ms);
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
