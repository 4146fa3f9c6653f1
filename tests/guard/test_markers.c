/* The contents of markers (D5.3): wrong values, copies, clocks and numbers. */
#include "tests/guard/rig.h"

TestSuite(guard_markers, .init = break_script, .fini = close_rig);

/* ---- markers that are no good ---- */

Test(guard_markers, numbers_that_nobody_granted_do_not_vote_and_are_no_witness)
{
    open_old_group(3, true);
    marker_set(rig.keys[1], "top", "1935000000000000"); /* in 2031 */
    lives(0, 1000);
    cr_assert_eq(state(0, 1), GUARD_SPOILED);
    cr_assert_str_empty(vote_of(0, 1));
    cr_assert_not(votes(1));
    forgets_and_waits(0);
    settle(0);
    cr_assert_not(votes(0));
    lives(0, 10500);
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_GUESSED);
    cr_assert_lt(field(0, "floor"), (uint64_t)1935000000000000, "it was not believed");
}

/* R12: A number is too far ahead by the agreed time. A master whose clock is days behind harms no
 * caller (D5.4). */
Test(guard_markers, numbers_of_now_are_good_on_a_master_whose_clock_is_behind)
{
    char top[24];
    open_old_group(3, true);
    snprintf(top, sizeof(top), "%llu", (unsigned long long)WALL_US);
    marker_set(rig.keys[1], "top", top);
    rig.skew_ms[1] = -INT64_C(3) * 24 * 3600 * 1000;
    lives(0, 1000);
    cr_assert_eq(field(1, "top"), WALL_US);
    cr_assert_eq(state(0, 1), GUARD_VOTES);
    cr_assert(votes(1));
}

Test(guard_markers, a_marker_that_lacks_a_field_is_none)
{
    open_old_group(3, true);
    marker_set(rig.keys[1], "told", "yes");
    lives(0, 1000);
    cr_assert_eq(state(0, 1), GUARD_RUNS);
    cr_assert_not(votes(1));
}

/* No agent could read such a marker, so none would ever give the master its vote again. */
Test(guard_markers, a_marker_that_no_agent_wrote_is_none)
{
    static const char *const wrong[][2] = {{"epoch", ""},
                                           {"epoch", "0123456789012345678901234567890123456789"},
                                           {"told", "7"},
                                           {"told", "0.5"}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        close_rig();
        open_old_group(3, true);
        marker_set(rig.keys[1], wrong[i][0], wrong[i][1]);
        lives(0, 1000);
        cr_assert_eq(state(0, 1), GUARD_RUNS, "%s %s", wrong[i][0], wrong[i][1]);
        lives(0, GUARD_MS + 2000);
        cr_assert(votes(1), "%s %s", wrong[i][0], wrong[i][1]);
    }
}

/* The agent reads an epoch as a string, so it would tell another epoch without end. */
Test(guard_markers, an_epoch_with_a_zero_byte_is_none)
{
    static const struct bytes set[] = {
        {"HSET", 4}, {"lockagent:marker", 16}, {"epoch", 5}, {"ab\0cd", 5}};
    open_old_group(3, true);
    keyspace_command(rig.keys[1], set, 4);
    lives(0, 1000);
    cr_assert_eq(state(0, 1), GUARD_RUNS);
    lives(0, GUARD_MS + 2000);
    cr_assert(votes(1));
}

Test(guard_markers, a_vote_that_the_marker_does_not_have_goes)
{
    open_old_group(3, true);
    char vote[GUARD_VOTE_BYTES];
    marker_set(rig.keys[1], "floor", "90");
    lives(0, 1000);
    cr_assert(stored_vote(rig.keys[1], vote));
    cr_assert_str_eq(vote, vote_of(0, 1));
    cr_assert_not_null(strstr(vote, ":0000000000000090"));
}

/* One master's nonsense is not carried on. */
Test(guard_markers, a_max_ttl_that_no_agent_can_have_is_not_believed)
{
    open_old_group(3, true);
    marker_set(rig.keys[1], "max_ttl", "99999999");
    lives(0, 1000);
    flush(0);
    lives(0, 2000);
    cr_assert_leq(field(0, "max_ttl"), (uint64_t)TTL_MS_MAX);
}

/* ---- copies ---- */

Test(guard_markers, a_copy_of_another_master_begins_anew)
{
    open_old_group(3, true);
    copy(1, 0);
    uint64_t number = 0;
    cr_assert_not(takes_lock(0, 1, 50, &number), "the vote is another master's");
    sees_guarded(0, 1);
    returns(0, 1);
    cr_assert_eq(state(0, 1), GUARD_RUNS);
    cr_assert_eq(state(0, 0), GUARD_VOTES);
    lives(0, 1000);
    cr_assert_eq(state(0, 0), GUARD_VOTES, "the original goes on");
    lives(0, GUARD_MS);
    cr_assert_eq(field(1, "told"), (uint64_t)GUARD_TOLD);
}

/* An agent that starts now asks both before either has answered. */
Test(guard_markers, two_masters_with_one_epoch_never_vote_both)
{
    open_old_group(3, true);
    copy(1, 0);
    for (unsigned m = 0; m < 3; m++)
        greets(1, m, false);
    for (unsigned m = 0; m < 3; m++)
        returns(1, m);
    for (unsigned m = 0; m < 3; m++) {
        is_ready(1, m);
        cr_assert(!*vote_of(1, 0) || !*vote_of(1, 1), "after %u", m);
    }
    settle(1);
    cr_assert(*vote_of(1, 0) && !*vote_of(1, 1), "one goes on, and one alone begins anew");
    lives(1, 2000);
    cr_assert(*vote_of(1, 0) && *vote_of(1, 2) && !*vote_of(1, 1));
    lives(1, GUARD_MS);
    cr_assert_eq(field(1, "told"), (uint64_t)GUARD_TOLD);
}

/* The agent read both masters and was late. It asks both at once now. */
Test(guard_markers, the_first_of_two_copies_goes_on_also_if_both_are_asked_at_once)
{
    open_old_group(3, true);
    copy(1, 0);
    for (unsigned m = 0; m < 3; m++)
        greets(1, m, false);
    for (unsigned m = 0; m < 3; m++)
        returns(1, m);
    for (unsigned m = 0; m < 3; m++)
        is_ready(1, m);
    passes(1, 1000);
    cr_assert(is_asked(1, 0) && is_asked(1, 1));
    settle(1);
    cr_assert_eq(state(1, 0), GUARD_VOTES);
    cr_assert_eq(state(1, 1), GUARD_RUNS);
}

/* D5.3: of two masters with one epoch the first goes on. The order in which an agent meets them
 * does not count. Otherwise two agents that meet them in different orders make both begin anew. */
Test(guard_markers, the_first_of_two_copies_goes_on_also_if_it_is_met_last)
{
    open_old_group(3, true);
    copy(1, 0);
    for (unsigned m = 3; m-- > 0;) {
        greets(1, m, false);
        returns(1, m);
    }
    for (unsigned m = 0; m < 3; m++)
        is_ready(1, m);
    settle(1);
    cr_assert_eq(state(1, 0), GUARD_VOTES);
    lives(1, 2000);
    cr_assert_eq(state(1, 0), GUARD_VOTES);
    cr_assert_eq(state(1, 1), GUARD_RUNS);
}

Test(guard_markers, a_copy_is_no_second_witness)
{
    open_old_group(3, true);
    flush(0);
    copy(2, 1);
    for (unsigned m = 0; m < 3; m++)
        greets(1, m, false);
    for (unsigned m = 0; m < 3; m++)
        returns(1, m);
    for (unsigned m = 0; m < 3; m++)
        is_ready(1, m);
    settle(1);
    cr_assert_eq(state(1, 2), GUARD_MISSING);
    lives(1, 600);
    cr_assert_eq(state(1, 1), GUARD_VOTES);
    cr_assert_eq(state(1, 2), GUARD_RUNS);
}

/* ---- clocks ---- */

/* The machine booted an hour ahead, and was set right. */
Test(guard_markers, a_guard_that_began_in_the_future_lasts_no_longer)
{
    open_old_group(3, false);
    restart(0, true);
    rig.skew_ms[0] = 3600 * 1000;
    loses(0, 0);
    meet(0, 0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    lives(0, 1000);
    rig.skew_ms[0] = 0;
    lives(0, GUARD_MS + 1200);
    cr_assert(votes(0));
    cr_assert_eq(field(0, "told"), (uint64_t)GUARD_TOLD);
}

Test(guard_markers, a_mistaken_max_ttl_falls_back)
{
    open_old_group(3, true);
    struct guard_answer answer;
    for (uint8_t m = 0; m < 3; m++)
        reach(1, &(struct guard_ask){.master = m, .question = GUARD_ASK_KEEP, .max_ttl_ms = 60000},
              &answer);
    lives(0, 69000);
    cr_assert_eq(field(0, "max_ttl"), 60000u, "a lease may run still");
    lives(0, 2 * 70000 - 69000 + 2 * IDLE_MS);
    for (unsigned m = 0; m < 3; m++)
        cr_assert_eq(field(m, "max_ttl"), (uint64_t)MAX_TTL_MS, "master %u", m);
}

/* D5.3: an agent that named 30 s may be gone, and its leases still run. */
Test(guard_markers, a_mistaken_max_ttl_falls_back_to_the_longest_that_was_named_since)
{
    open_old_group(3, true);
    struct guard_answer answer;
    struct guard_ask ask = {.question = GUARD_ASK_KEEP, .max_ttl_ms = 60000};
    reach(1, &ask, &answer);
    lives(0, 71000 + IDLE_MS);
    ask.max_ttl_ms = 30000;
    reach(1, &ask, &answer);
    lives(0, 71000 + IDLE_MS);
    cr_assert_eq(field(0, "max_ttl"), 30000u);
}

/* D5.3: a mistaken max_ttl does not stay until the clock shows the old time again. */
Test(guard_markers, a_mistaken_max_ttl_falls_back_though_the_clock_was_set_back)
{
    open_old_group(3, true);
    struct guard_answer answer;
    reach(1, &(struct guard_ask){.question = GUARD_ASK_KEEP, .max_ttl_ms = 60000}, &answer);
    rig.skew_ms[0] = -3600000;
    lives(0, 2 * 70000 + 2 * IDLE_MS);
    cr_assert_eq(field(0, "max_ttl"), (uint64_t)MAX_TTL_MS);
}

/* Each agent that comes learns the others' max_ttl before it greets the last master. */
Test(guard_markers, agents_that_come_and_go_do_not_keep_a_mistaken_max_ttl_alive)
{
    open_old_group(3, true);
    struct guard_answer answer;
    for (uint8_t m = 0; m < 3; m++)
        reach(1, &(struct guard_ask){.master = m, .question = GUARD_ASK_KEEP, .max_ttl_ms = 60000},
              &answer);
    for (unsigned life = 0; life < 6; life++) {
        guard_init(&rig.agents[1].guard, 3, 2, true, MAX_TTL_MS);
        for (unsigned m = 0; m < 3; m++)
            meet(1, (m + life) % 3);
        lives(1, 30000);
        for (unsigned m = 0; m < 3; m++)
            loses(1, m);
    }
    for (unsigned m = 0; m < 3; m++)
        cr_assert_eq(field(m, "max_ttl"), (uint64_t)MAX_TTL_MS, "master %u", m);
}

Test(guard_markers, max_ttl_is_the_own_for_those_that_vote_and_the_groups_for_the_others)
{
    open_old_group(3, true);
    struct guard_answer answer;
    reach(1, &(struct guard_ask){.master = 1, .question = GUARD_ASK_KEEP, .max_ttl_ms = 60000},
          &answer);
    lives(0, 1000);
    flush(0);
    sees_guarded(0, 0);
    returns(0, 0);
    passes(0, 900);
    cr_assert_eq(question(0, 0)->max_ttl_ms, 60000u, "it does not vote");
    cr_assert_eq(question(0, 1)->max_ttl_ms, (uint32_t)MAX_TTL_MS);
    cr_assert_eq(question(0, 2)->max_ttl_ms, (uint32_t)MAX_TTL_MS);
}

/* ---- numbers ---- */

Test(guard_markers, the_question_behind_a_number_lifts_the_top)
{
    open_old_group(3, true);
    uint64_t number = 0, lifted = 40000000 + 2000000;
    guard_numbers(&rig.agents[0].guard, 1u << 0 | 1u << 1, 40000000);
    lives(0, 1000);
    cr_assert_eq(guard_top(&rig.agents[0].guard, 0), lifted);
    cr_assert_eq(field(1, "top"), lifted);
    cr_assert_eq(field(2, "top"), 100u);
    cr_assert(takes_lock(0, 0, 40000001, &number));
    cr_assert_eq(field(0, "top"), lifted, "nothing more is written");
    cr_assert_eq(number, 40000001u);
}

Test(guard_markers, an_acquire_lifts_the_top_where_no_question_has)
{
    open_old_group(3, true);
    uint64_t number = 0;
    cr_assert(takes_lock(0, 2, 40000000, &number));
    cr_assert_geq(field(2, "top"), number);
}

/* The agent does not know the floor. */
Test(guard_markers, a_number_is_above_the_floor_also_if_the_agent_does_not_know_it)
{
    open_old_group(3, true);
    marker_set(rig.keys[1], "top", "7000");
    forgets_and_waits(0);
    settle(0);
    meet(1, 0);
    rig.agents[1].guard.floor = 0;
    uint64_t number = 0;
    char vote[ASKING_VOTE_BYTES];
    struct script_lock lock = {.agent = 1, .attempt = 1, .number = 5, .ttl_ms = 1000};
    script_vote(&rig.agents[0].guard, 0, (struct instant){rig.now_ms * 1000}, OP_ACQUIRE, 5, vote);
    cr_assert_eq(script_acquire(rig.keys[0], wall_ms(0), &lock, vote, &number), SAYS_YES);
    cr_assert_eq(number, 7001u);
}
