/* The rig of the guard's tests: one or two agents over the shipped scripts. The test says when each
 * question reaches its master, and when each answer returns. */
#ifndef LOCKAGENT_TESTS_GUARD_RIG_H
#define LOCKAGENT_TESTS_GUARD_RIG_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/guard/script.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* no file needs all of it */

enum { MASTERS_MAX = 5, AGENTS = 2, MAX_TTL_MS = 5000, GUARD_MS = MAX_TTL_MS + 1001 };
enum { IDLE_MS = 5000 }; /* An idle group is asked for its markers so often, and 100 ms sooner. */
#define WALL_MS ((int64_t)1760000000 * 1000)
#define WALL_US ((uint64_t)WALL_MS * 1000)

/* Questions go no further than here until the test lets them reach their master, and answers until
 * it lets them come back. */
static struct {
    struct keyspace *keys[MASTERS_MAX];
    unsigned servers[MASTERS_MAX]; /* number of the process, which is its run */
    int64_t skew_ms[MASTERS_MAX];  /* skew of its clock */
    struct agent {
        struct guard guard;
        struct {
            bool open, reached;
            struct guard_ask ask;
            struct guard_answer answer;
            struct guard_layouts layouts;
        } asked[MASTERS_MAX];
        master_set epochs, floors;
        int64_t wall_us; /* the agreed time; 0: the time of the rig */
    } agents[AGENTS];
    unsigned masters;
    int64_t now_ms;
    unsigned epochs;
    bool hides_run; /* INFO is not allowed */
} rig;

static int64_t wall_us(unsigned a)
{
    return rig.agents[a].wall_us != 0 ? rig.agents[a].wall_us : (WALL_MS + rig.now_ms) * 1000;
}

static int64_t wall_ms(unsigned m)
{
    return WALL_MS + rig.now_ms + rig.skew_ms[m];
}

static void tell(unsigned a, struct guard_event event)
{
    struct agent *agent = &rig.agents[a];
    struct guard_effects effects;
    guard_step(&agent->guard, &event, (struct instant){rig.now_ms * 1000}, wall_us(a), &effects);
    agent->epochs |= effects.epochs;
    agent->floors |= effects.floors;
    for (unsigned i = 0; i < effects.ask_count; i++) {
        uint8_t m = effects.asks[i].master;
        cr_assert_not(agent->asked[m].open, "master %u is asked twice", m);
        agent->asked[m].open = true;
        agent->asked[m].reached = false;
        agent->asked[m].ask = effects.asks[i];
    }
}

static void reach_fully(unsigned a, const struct guard_ask *ask, struct guard_answer *ret_answer,
                        struct guard_layouts *ret_layouts)
{
    char epoch[24], run[24] = "";
    snprintf(epoch, sizeof(epoch), "%016x", ++rig.epochs * 0x01030507u);
    if (!rig.hides_run)
        snprintf(run, sizeof(run), "%08x%08x", ask->master + 1u, rig.servers[ask->master]);
    script_marker(rig.keys[ask->master], wall_ms(ask->master), ask, wall_us(a), run, epoch,
                  ret_answer, ret_layouts);
}

static void reach(unsigned a, const struct guard_ask *ask, struct guard_answer *ret_answer)
{
    struct guard_layouts layouts;
    reach_fully(a, ask, ret_answer, &layouts);
}

static void arrives(unsigned a, unsigned m)
{
    struct agent *agent = &rig.agents[a];
    cr_assert(agent->asked[m].open && !agent->asked[m].reached, "master %u is asked", m);
    agent->asked[m].reached = true;
    reach_fully(a, &agent->asked[m].ask, &agent->asked[m].answer, &agent->asked[m].layouts);
}

static void returns(unsigned a, unsigned m)
{
    struct agent *agent = &rig.agents[a];
    if (!agent->asked[m].reached)
        arrives(a, m);
    agent->asked[m].open = agent->asked[m].reached = false;
    tell(a, (struct guard_event){.kind = GUARD_ANSWERED,
                                 .master = (uint8_t)m,
                                 .answer = agent->asked[m].answer,
                                 .layouts = agent->asked[m].layouts});
}

static void greets(unsigned a, unsigned m, bool same_connection)
{
    tell(a, (struct guard_event){.kind = GUARD_GREETS,
                                 .master = (uint8_t)m,
                                 .same_connection = same_connection,
                                 .knows_run = !rig.hides_run});
}

static void is_ready(unsigned a, unsigned m)
{
    tell(a, (struct guard_event){.kind = GUARD_READY, .master = (uint8_t)m});
}

static void meet(unsigned a, unsigned m)
{
    greets(a, m, /* same_connection= */ false);
    returns(a, m);
    is_ready(a, m);
}

static void loses(unsigned a, unsigned m)
{
    rig.agents[a].asked[m].open = false;
    tell(a, (struct guard_event){.kind = GUARD_AWAY, .master = (uint8_t)m});
}

static void is_refused(unsigned a, unsigned m)
{
    rig.agents[a].asked[m].open = false;
    tell(a, (struct guard_event){.kind = GUARD_REFUSED, .master = (uint8_t)m});
}

static void sees_guarded(unsigned a, unsigned m)
{
    tell(a, (struct guard_event){
                .kind = GUARD_SEES_GUARDED, .master = (uint8_t)m, .answer = {.left_ms = -1}});
}

static bool is_asked(unsigned a, unsigned m)
{
    return rig.agents[a].asked[m].open;
}

static const struct guard_ask *question(unsigned a, unsigned m)
{
    cr_assert(is_asked(a, m), "master %u is asked", m);
    return &rig.agents[a].asked[m].ask;
}

/* Until nothing is asked any more. */
static void settle(unsigned a)
{
    for (unsigned turns = 0, left = 1; left > 0; turns++) {
        cr_assert_lt(turns, 20u, "it asks without end");
        left = 0;
        for (unsigned m = 0; m < rig.masters; m++)
            if (is_asked(a, m)) {
                returns(a, m);
                left++;
            }
    }
}

static void passes(unsigned a, int64_t ms)
{
    rig.now_ms += ms;
    tell(a, (struct guard_event){.kind = GUARD_TIME});
}

/* The time passes, and the agent lives through it. */
static void lives(unsigned a, int64_t ms)
{
    for (int64_t end_ms = rig.now_ms + ms; rig.now_ms < end_ms;) {
        int64_t step_ms = end_ms - rig.now_ms < 100 ? end_ms - rig.now_ms : 100;
        rig.now_ms += step_ms;
        if (!instant_before((struct instant){rig.now_ms * 1000},
                            guard_deadline(&rig.agents[a].guard)))
            passes(a, 0);
        settle(a);
    }
}

/* The agent sends a command with this lease. If the group was idle, questions go ahead of it. */
static void uses(unsigned a, uint32_t lease_ms)
{
    struct instant now = {rig.now_ms * 1000};
    if (guard_uses(&rig.agents[a].guard, lease_ms, now) &&
        !instant_before(now, guard_deadline(&rig.agents[a].guard)))
        passes(a, 0);
}

static bool votes(unsigned m)
{
    char vote[GUARD_VOTE_BYTES];
    return stored_vote(rig.keys[m], vote);
}

static uint64_t field(unsigned m, const char *name)
{
    return marker_number(rig.keys[m], name);
}

static enum guard_state state(unsigned a, unsigned m)
{
    return guard_state(&rig.agents[a].guard, (uint8_t)m, (struct instant){rig.now_ms * 1000});
}

static int64_t left_ms(unsigned a, unsigned m)
{
    return guard_left_ms(&rig.agents[a].guard, (uint8_t)m, (struct instant){rig.now_ms * 1000});
}

static const char *vote_of(unsigned a, unsigned m)
{
    return guard_vote(&rig.agents[a].guard, (uint8_t)m, (struct instant){rig.now_ms * 1000});
}

static void restart(unsigned m, bool keeps_data)
{
    rig.servers[m]++;
    if (!keeps_data)
        keyspace_clear(rig.keys[m]);
}

static void flush(unsigned m)
{
    keyspace_clear(rig.keys[m]);
}

static void copy(unsigned into, unsigned from)
{
    keyspace_copy(rig.keys[into], rig.keys[from]);
}

static bool takes_lock(unsigned a, unsigned m, uint64_t proposal, uint64_t *ret_number)
{
    static uint32_t attempts;
    char vote[ASKING_VOTE_BYTES];
    struct script_lock lock = {
        .agent = a, .attempt = ++attempts, .number = proposal, .ttl_ms = MAX_TTL_MS};
    script_vote(&rig.agents[a].guard, (uint8_t)m, (struct instant){rig.now_ms * 1000}, OP_ACQUIRE,
                proposal, vote);
    bool yes = script_acquire(rig.keys[m], wall_ms(m), &lock, vote, ret_number) == SAYS_YES;
    script_release(rig.keys[m], wall_ms(m), &lock);
    return yes;
}

static void open_rig(unsigned masters, unsigned quorum, bool durable)
{
    rig.now_ms = 1000;
    rig.masters = masters;
    for (unsigned m = 0; m < masters; m++)
        rig.keys[m] = keyspace_new();
    for (unsigned a = 0; a < AGENTS; a++)
        guard_init(&rig.agents[a].guard, (uint8_t)masters, (uint8_t)quorum, durable, MAX_TTL_MS);
}

/* Frees all that open_rig() made, and forgets the rest. */
static void close_rig(void)
{
    for (unsigned m = 0; m < rig.masters; m++)
        keyspace_free(rig.keys[m]);
    memset(&rig, 0, sizeof(rig));
}

/* Every master votes, as one that was trusted by hand, and agent 0 knows it. */
static void open_old_group(unsigned masters, bool durable)
{
    open_rig(masters, masters / 2 + 1, durable);
    for (unsigned m = 0; m < masters; m++) {
        struct guard_answer answer;
        struct guard_ask ask = {.master = (uint8_t)m,
                                .question = GUARD_ASK_TRUST,
                                .max_ttl_ms = MAX_TTL_MS,
                                .top = 100,
                                .told = GUARD_TOLD};
        reach(0, &ask, &answer);
        cr_assert(votes(m));
        meet(0, m);
    }
    settle(0);
}

static void settle_others(unsigned a, unsigned m)
{
    for (unsigned other = 0; other < rig.masters; other++)
        if (other != m && is_asked(a, other))
            returns(a, other);
}

/* Makes master m forget. Its guard ends and agent 0 learns of that. All others are asked for the
 * first time since. */
static void forgets_and_waits(unsigned m)
{
    flush(m);
    sees_guarded(0, m);
    returns(0, m);
    cr_assert_eq(state(0, m), GUARD_RUNS);
    lives(0, GUARD_MS - 300);
    cr_assert_not(votes(m));
    passes(0, 300);
    while (!is_asked(0, m)) {
        passes(0, 100);
        settle_others(0, m);
    }
    settle_others(0, m);
    returns(0, m);
    cr_assert_eq(state(0, m), GUARD_WAITS);
    cr_assert_eq(left_ms(0, m), -1);
    cr_assert_not(votes(m));
}

/* Breaks the script that scripts.txt names. */
static void break_script(void)
{
    if (getenv("BREAK_FILE"))
        script_break(getenv("BREAK_FILE"), getenv("BREAK_FROM"), getenv("BREAK_TO"));
}

#endif
