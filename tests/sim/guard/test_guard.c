/* The guard's protocol step by step: timelines of one or two agents over the shipped marker script.
 * Named after what went wrong. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/guard/script.h"

enum { MASTERS = 5, AGENTS = 2, MAX_TTL_MS = 60000 };
#define WALL_MS ((int64_t)1760000000 * 1000)

/* Questions go no further than here until the test lets them reach their master, and answers until
 * it lets them come back. */
static struct {
    struct keyspace *keys[MASTERS];
    struct agent {
        struct guard guard;
        struct {
            bool open, reached;
            struct guard_ask ask;
            struct guard_answer answer;
        } asked[MASTERS];
        master_set epochs;
    } agents[AGENTS];
    int64_t now_ms;
    unsigned epochs;
    bool twins; /* master 1 is master 0 by another name */
} rig;

static void tell(unsigned a, struct guard_event event)
{
    struct agent *agent = &rig.agents[a];
    struct guard_effects effects;
    guard_step(&agent->guard, &event, (struct instant){rig.now_ms * 1000}, &effects);
    agent->epochs |= effects.epochs;
    for (unsigned i = 0; i < effects.ask_count; i++) {
        uint8_t m = effects.asks[i].master;
        cr_assert_not(agent->asked[m].open, "master %u is asked twice", m);
        agent->asked[m].open = true;
        agent->asked[m].reached = false;
        agent->asked[m].ask = effects.asks[i];
    }
}

static void reach(const struct guard_ask *ask, struct guard_answer *ret_answer)
{
    char epoch[24];
    snprintf(epoch, sizeof(epoch), "%016x", ++rig.epochs * 0x01030507u);
    script_marker(rig.keys[rig.twins && ask->master == 1 ? 0 : ask->master], WALL_MS + rig.now_ms,
                  ask, "run", epoch, ret_answer);
}

static void arrives(unsigned a, unsigned m)
{
    struct agent *agent = &rig.agents[a];
    cr_assert(agent->asked[m].open && !agent->asked[m].reached);
    agent->asked[m].reached = true;
    reach(&agent->asked[m].ask, &agent->asked[m].answer);
}

static void returns(unsigned a, unsigned m)
{
    struct agent *agent = &rig.agents[a];
    if (!agent->asked[m].reached)
        arrives(a, m);
    agent->asked[m].open = agent->asked[m].reached = false;
    tell(a, (struct guard_event){
                .kind = GUARD_ANSWERED, .master = (uint8_t)m, .answer = agent->asked[m].answer});
}

static void meet(unsigned a, unsigned m)
{
    tell(a, (struct guard_event){.kind = GUARD_GREETS, .master = (uint8_t)m});
    returns(a, m);
    tell(a, (struct guard_event){.kind = GUARD_READY, .master = (uint8_t)m});
}

static void passes(unsigned a, int64_t ms)
{
    rig.now_ms += ms;
    tell(a, (struct guard_event){.kind = GUARD_TIME});
}

/* Until nothing is asked any more. */
static void settle(unsigned a)
{
    for (unsigned turns = 0, left = 1; left > 0; turns++) {
        cr_assert_lt(turns, 20u, "it asks without end");
        left = 0;
        for (unsigned m = 0; m < MASTERS; m++)
            if (rig.agents[a].asked[m].open) {
                returns(a, m);
                left++;
            }
    }
}

static bool votes(unsigned m)
{
    return script_guard_left_ms(rig.keys[m], WALL_MS + rig.now_ms) == 0;
}

static unsigned voting(void)
{
    unsigned count = 0;
    for (unsigned m = 0; m < MASTERS; m++)
        count += votes(m);
    return count;
}

static enum guard_state state(unsigned a, unsigned m)
{
    return guard_state(&rig.agents[a].guard, (uint8_t)m, (struct instant){rig.now_ms * 1000});
}

static int64_t left_ms(unsigned a, unsigned m)
{
    return guard_left_ms(&rig.agents[a].guard, (uint8_t)m, (struct instant){rig.now_ms * 1000});
}

static void flush(unsigned m)
{
    keyspace_clear(rig.keys[m]);
}

static void open_rig(void)
{
    rig.now_ms = 1000;
    for (unsigned m = 0; m < MASTERS; m++)
        rig.keys[m] = keyspace_new();
    for (unsigned a = 0; a < AGENTS; a++)
        guard_init(&rig.agents[a].guard, MASTERS, /* durable= */ true, MAX_TTL_MS);
}

static void open_old_group(void)
{
    open_rig();
    for (unsigned m = 0; m < MASTERS; m++)
        meet(0, m);
    settle(0);
    cr_assert_eq(voting(), MASTERS);
}

TestSuite(guard);

/* Seen once: one master voted, the four others were guarded for 61 s. They were just being looked
 * at when the fifth got ready, were left out for that, and then the marker of the fifth said that
 * the group is old. */
Test(guard, a_look_in_flight_does_not_split_a_new_group)
{
    open_rig();
    for (unsigned m = 1; m < MASTERS; m++)
        meet(0, m);
    passes(0, 250);
    for (unsigned m = 1; m < MASTERS; m++)
        cr_assert(rig.agents[0].asked[m].open, "master %u is looked at", m);
    meet(0, 0);
    settle(0);
    cr_assert_eq(voting(), MASTERS);
    for (unsigned m = 0; m < MASTERS; m++)
        cr_assert_eq(state(0, m), GUARD_VOTES);
}

Test(guard, a_new_group_votes_only_when_all_masters_were_seen)
{
    open_rig();
    for (unsigned m = 0; m < MASTERS - 1; m++)
        meet(0, m);
    settle(0);
    cr_assert_eq(voting(), 0u);
    cr_assert_eq(state(0, 0), GUARD_BEGINS);
    cr_assert_eq(left_ms(0, 0), -1);
    passes(0, 2001);
    settle(0);
    cr_assert_eq(state(0, 0), GUARD_RUNS,
                 "a birth that takes long is shown as the guard that it is");
    cr_assert_eq(left_ms(0, 0), MAX_TTL_MS + 1001 - 2001);
    /* The fifth comes late, and the group is new all the same. */
    meet(0, MASTERS - 1);
    settle(0);
    cr_assert_eq(voting(), MASTERS);
}

/* A fifth master that never comes: the guard runs from the first sight. */
Test(guard, a_birth_that_is_not_completed_ends_with_its_guard)
{
    open_rig();
    for (unsigned m = 0; m < MASTERS - 1; m++)
        meet(0, m);
    settle(0);
    passes(0, MAX_TTL_MS + 1000);
    settle(0);
    cr_assert_eq(voting(), 0u);
    passes(0, 900);
    settle(0);
    cr_assert_eq(voting(), MASTERS - 1u);
    meet(0, MASTERS - 1);
    settle(0);
    cr_assert_eq(voting(), MASTERS - 1u, "the group is old by now");
}

Test(guard, two_agents_share_one_birth)
{
    open_rig();
    for (unsigned m = 0; m < MASTERS; m++) {
        meet(0, m);
        meet(1, MASTERS - 1 - m);
    }
    settle(1);
    settle(0);
    cr_assert_eq(voting(), MASTERS);
    passes(1, 250);
    settle(1);
    for (unsigned m = 0; m < MASTERS; m++)
        cr_assert_eq(state(1, m), GUARD_VOTES);
}

Test(guard, some_empty_masters_among_old_ones_are_no_newborns)
{
    open_old_group();
    for (unsigned m = 0; m < MASTERS - 1; m++)
        flush(m);
    for (unsigned m = 0; m < MASTERS; m++)
        meet(1, m);
    settle(1);
    cr_assert_eq(voting(), 1u);
    cr_assert_eq(state(1, 4), GUARD_VOTES);
}

/* The epoch of a server that is named twice must not vanish from the birth's name. */
Test(guard, a_server_that_is_named_twice_is_no_newborn_either)
{
    rig.twins = true;
    open_rig();
    for (unsigned m = 0; m < MASTERS; m++)
        meet(0, m);
    settle(0);
    cr_assert_eq(voting(), MASTERS - 1u, "all but the marker that nobody asks for");
    flush(0);
    for (unsigned m = 0; m < MASTERS; m++)
        meet(1, m);
    settle(1);
    cr_assert_not(votes(0), "it forgot");
}

/* An agent that has seen the group before does not take it for new when all have forgotten. */
Test(guard, who_knows_the_group_begins_no_birth)
{
    open_old_group();
    for (unsigned m = 0; m < MASTERS; m++)
        flush(m);
    passes(0, 900);
    settle(0);
    for (unsigned m = 0; m < MASTERS; m++)
        meet(1, m);
    settle(1);
    cr_assert_eq(voting(), 0u);
}

/* From a connection that has ended, or an agent that was killed: it comes when the master has
 * forgotten meanwhile. */
Test(guard, a_late_vote_is_for_the_epoch_that_it_has_seen)
{
    open_rig();
    for (unsigned m = 0; m < MASTERS; m++)
        meet(0, m);
    while (rig.agents[0].asked[2].ask.question != GUARD_ASK_VOTE)
        for (unsigned m = 0; m < MASTERS; m++)
            if (rig.agents[0].asked[m].open &&
                rig.agents[0].asked[m].ask.question != GUARD_ASK_VOTE)
                returns(0, m);
    struct guard_ask late = rig.agents[0].asked[2].ask;
    settle(0);
    cr_assert_eq(voting(), MASTERS);
    flush(2);
    meet(1, 2);
    settle(1);
    struct guard_answer answer;
    reach(&late, &answer);
    cr_assert_not(votes(2), "it forgot");
}

/* Invariant 6: the agent that gives the longest leases may be away just now. */
Test(guard, a_longer_max_ttl_outlives_the_marker)
{
    open_rig();
    rig.agents[1].guard.max_ttl_ms = 10 * MAX_TTL_MS;
    for (unsigned m = 0; m < MASTERS; m++) {
        meet(1, m);
        meet(0, m);
    }
    settle(1);
    settle(0);
    passes(0, 900);
    settle(0);
    flush(3);
    passes(0, 900);
    settle(0);
    cr_assert_gt(left_ms(0, 3), 9 * MAX_TTL_MS);
}

/* One master's nonsense is not carried on. */
Test(guard, a_max_ttl_that_no_agent_can_have_is_not_believed)
{
    open_old_group();
    passes(0, 900);
    rig.agents[0].asked[0].open = false;
    struct guard_answer lie = {.epoch = "00000000000000aa", .max_ttl_ms = TTL_MS_MAX + 1};
    tell(0, (struct guard_event){.kind = GUARD_ANSWERED, .master = 0, .answer = lie});
    settle(0);
    passes(0, 900);
    cr_assert_eq(rig.agents[0].asked[0].ask.max_ttl_ms, MAX_TTL_MS);
}

/* A script of the core's own is the first to meet what has changed. */
Test(guard, what_the_cores_scripts_meet_is_looked_at_at_once)
{
    open_old_group();
    flush(0);
    tell(0,
         (struct guard_event){.kind = GUARD_SEES_GUARDED, .master = 0, .answer = {.left_ms = -1}});
    cr_assert(rig.agents[0].asked[0].open);
    cr_assert_eq(state(0, 0), GUARD_MISSING);
    tell(0,
         (struct guard_event){.kind = GUARD_SEES_GUARDED, .master = 1, .answer = {.left_ms = 500}});
    cr_assert(rig.agents[0].asked[1].open);
    cr_assert_not(rig.agents[0].asked[2].open);
    tell(0, (struct guard_event){
                .kind = GUARD_SEES_EPOCH, .master = 2, .answer = {.epoch = "00000000000000aa"}});
    cr_assert(rig.agents[0].asked[2].open);
    settle(0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    cr_assert_eq(state(0, 1), GUARD_VOTES);
}

Test(guard, a_refused_marker_makes_a_master_unsure_until_it_was_written)
{
    open_old_group();
    rig.agents[0].epochs = 0;
    tell(0, (struct guard_event){.kind = GUARD_AWAY, .master = 1});
    rig.agents[0].asked[1].open = false;
    tell(0, (struct guard_event){.kind = GUARD_GREETS, .master = 1});
    rig.agents[0].asked[1].open = false;
    tell(0, (struct guard_event){.kind = GUARD_REFUSED, .master = 1});
    tell(0, (struct guard_event){.kind = GUARD_READY, .master = 1});
    cr_assert_eq(state(0, 1), GUARD_UNSURE);
    cr_assert_eq(rig.agents[0].epochs, 1u << 1, "whatever was confirmed may be forgotten");
    passes(0, 900);
    settle(0);
    cr_assert_eq(state(0, 1), GUARD_VOTES);
}

/* One answer that makes no difference, and it would be asked again at once, for ever. */
Test(guard, a_step_that_changed_nothing_is_not_repeated_at_once)
{
    open_rig();
    for (unsigned m = 0; m < MASTERS; m++)
        meet(0, m);
    cr_assert_eq(rig.agents[0].asked[0].ask.question, GUARD_ASK_JOIN);
    struct guard_answer same = {.left_ms = 1000, .birth = "new", .max_ttl_ms = MAX_TTL_MS};
    memcpy(same.epoch, rig.agents[0].asked[0].ask.epoch, sizeof(same.epoch));
    rig.agents[0].asked[0].open = false;
    tell(0, (struct guard_event){.kind = GUARD_ANSWERED, .master = 0, .answer = same});
    cr_assert_not(rig.agents[0].asked[0].open);
    passes(0, 250);
    settle(0);
    cr_assert_eq(voting(), MASTERS);
}

/* One that is guarded forgot, so the group was there before. */
Test(guard, who_meets_a_guarded_master_begins_no_birth)
{
    open_rig();
    struct guard_answer answer;
    reach(&(struct guard_ask){.master = 0, .question = GUARD_ASK_KEEP, .max_ttl_ms = MAX_TTL_MS},
          &answer);
    meet(0, 0);
    tell(0, (struct guard_event){.kind = GUARD_GREETS, .master = 1});
    cr_assert_eq(rig.agents[0].asked[1].ask.question, GUARD_ASK_KEEP);
}

Test(guard, a_settled_master_is_not_asked_before_it_is_due)
{
    open_old_group();
    passes(0, 899);
    for (unsigned m = 0; m < MASTERS; m++)
        cr_assert_not(rig.agents[0].asked[m].open);
    passes(0, 1);
    for (unsigned m = 0; m < MASTERS; m++)
        cr_assert(rig.agents[0].asked[m].open);
}

Test(guard, the_deadline_is_never_while_no_master_can_be_asked)
{
    open_rig();
    cr_assert_eq(guard_deadline(&rig.agents[0].guard).us, INSTANT_NEVER.us);
    meet(0, 0);
    cr_assert_eq(guard_deadline(&rig.agents[0].guard).us, (rig.now_ms + 250) * 1000);
}
