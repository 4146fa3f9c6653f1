/* Connections of agents and masters, runs of servers, and new masters (D5.3). */
#include "tests/guard/rig.h"

#define REPLID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define REPLID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

TestSuite(guard_connections, .init = break_script, .fini = close_rig);

/* ---- connections ---- */

/* The core's own script is the first to meet the change. */
Test(guard_connections, what_the_cores_scripts_meet_is_looked_at_at_once)
{
    open_old_group(5, true);
    flush(0);
    sees_guarded(0, 0);
    cr_assert(is_asked(0, 0));
    sees_guarded(0, 1);
    cr_assert(is_asked(0, 1));
    cr_assert_not(is_asked(0, 2));
    tell(0, (struct guard_event){
                .kind = GUARD_SEES_EPOCH, .master = 2, .answer = {.epoch = "00000000000000aa"}});
    cr_assert(is_asked(0, 2));
    settle(0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    cr_assert_eq(state(0, 1), GUARD_VOTES);
}

/* The reading of the earlier epoch does not count for the new one. */
Test(guard_connections, a_master_of_a_new_epoch_is_not_seen_until_it_answers)
{
    open_old_group(3, true);
    cr_assert_str_not_empty(vote_of(0, 2));
    tell(0, (struct guard_event){
                .kind = GUARD_SEES_EPOCH, .master = 2, .answer = {.epoch = "00000000000000aa"}});
    cr_assert_eq(state(0, 2), GUARD_MISSING);
    cr_assert_str_empty(vote_of(0, 2));
}

/* D5.3: An operator who trusts a restarted master ends its guard for the present run. The earlier
 * run that the operator looked at is not trusted. */
Test(guard_connections, trust_counts_for_the_run_that_it_meets)
{
    struct guard_ask ask = {
        .question = GUARD_ASK_TRUST, .max_ttl_ms = MAX_TTL_MS, .top = 100, .told = GUARD_TOLD};
    struct guard_answer answer;
    open_old_group(3, false);
    struct guard_ask look = {.question = GUARD_ASK_KEEP, .max_ttl_ms = MAX_TTL_MS};
    reach(0, &look, &answer);
    memcpy(ask.epoch, answer.epoch, sizeof(ask.epoch));
    rig.servers[0]++;
    reach(0, &ask, &answer);
    cr_assert_not(votes(0), "it has restarted since");
    cr_assert_str_neq(answer.epoch, ask.epoch);
    ask.epoch[0] = '\0';
    reach(0, &ask, &answer);
    cr_assert(votes(0));
    look.question = GUARD_ASK_RESTART;
    reach(0, &look, &answer);
    cr_assert_eq(answer.left_ms, 0);
    cr_assert(votes(0), "the run is the one that was trusted");
}

/* Acquires in flight with the earlier vote come back behind the new one. If they cleared the known
 * vote, the next ones would name no vote, and so on without end. */
Test(guard_connections, late_refusals_do_not_clear_the_vote_that_was_read_since)
{
    open_old_group(3, true);
    marker_set(rig.keys[0], "floor", "90");
    sees_guarded(0, 0);
    for (unsigned turns = 0; turns < 10; turns++) {
        returns(0, 0);
        cr_assert(*vote_of(0, 0), "turn %u", turns);
        sees_guarded(0, 0);
        cr_assert(*vote_of(0, 0), "turn %u: an acquire that is sent now names it", turns);
        if (!is_asked(0, 0))
            break;
    }
}

Test(guard_connections, a_refused_marker_makes_a_master_unsure_until_it_was_written)
{
    open_old_group(3, true);
    rig.agents[0].epochs = 0;
    loses(0, 1);
    greets(0, 1, false);
    is_refused(0, 1);
    is_ready(0, 1);
    cr_assert_eq(state(0, 1), GUARD_UNSURE);
    cr_assert_str_empty(vote_of(0, 1));
    cr_assert_eq(rig.agents[0].epochs, 1u << 1, "whatever was confirmed may be forgotten");
    lives(0, 1000);
    cr_assert_eq(state(0, 1), GUARD_VOTES);
}

/* INFO is not allowed. The server was restarted with its data and could not write its marker; then
 * it was LOADING for a moment, so the greeting began anew. */
Test(guard_connections, an_unsure_master_is_asked_for_a_new_epoch_also_on_the_same_connection)
{
    rig.hides_run = true;
    open_old_group(3, false);
    lives(0, GUARD_MS + 1200); /* each new connection is as a restart then */
    restart(1, true);
    loses(0, 1);
    greets(0, 1, false);
    is_refused(0, 1);
    is_ready(0, 1);
    tell(0, (struct guard_event){.kind = GUARD_AWAY, .master = 1});
    greets(0, 1, /* same_connection= */ true);
    cr_assert_eq(question(0, 1)->question, GUARD_ASK_RESTART);
    returns(0, 1);
    is_ready(0, 1);
    cr_assert_eq(state(0, 1), GUARD_RUNS);
    tell(0, (struct guard_event){.kind = GUARD_AWAY, .master = 1});
    greets(0, 1, /* same_connection= */ true);
    cr_assert_eq(question(0, 1)->question, GUARD_ASK_KEEP, "now it was written");
}

Test(guard_connections, another_run_is_a_new_epoch_unless_the_group_is_durable)
{
    open_old_group(3, false);
    restart(0, true);
    loses(0, 0);
    meet(0, 0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    cr_assert_eq(left_ms(0, 0), GUARD_MS);
    close_rig();
    open_old_group(3, true);
    restart(0, true);
    loses(0, 0);
    meet(0, 0);
    cr_assert_eq(state(0, 0), GUARD_VOTES);
}

/* INFO is not allowed, so the server may be another run behind each new connection. */
Test(guard_connections, a_new_connection_is_a_new_epoch_if_the_run_is_not_known)
{
    rig.hides_run = true;
    open_old_group(3, false);
    lives(0, GUARD_MS + 1200);
    cr_assert_eq(state(0, 0), GUARD_VOTES);
    loses(0, 0);
    greets(0, 0, /* same_connection= */ false);
    cr_assert_eq(question(0, 0)->question, GUARD_ASK_RESTART);
    returns(0, 0);
    is_ready(0, 0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    cr_assert_not(votes(0));
}

/* The server's replication id, and its second one ("": zeros). */
static void has_replid(unsigned m, const char *replid, const char *second)
{
    snprintf(rig.keys[m]->replid, sizeof(rig.keys[m]->replid), "%s", replid);
    snprintf(rig.keys[m]->replid2, sizeof(rig.keys[m]->replid2), "%s", second);
}

Test(guard_connections, a_server_that_followed_another_one_has_forgotten)
{
    open_old_group(3, false);
    has_replid(0, REPLID_A, "");
    lives(0, 1000);
    has_replid(0, REPLID_B, ""); /* its first replica */
    lives(0, 1000);
    cr_assert_eq(state(0, 0), GUARD_VOTES);
    has_replid(0, REPLID_A, REPLID_B);
    lives(0, 1000);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    cr_assert_not(votes(0));
}

static void meets_a_master_with_replicas(void)
{
    open_rig(1, 1, false);
    has_replid(0, REPLID_A, "");
    rig.agents[0].guard.has_replicas = true;
    meet(0, 0);
}

/* The same server, and all within a second: no agent has asked it since. */
Test(guard_connections, an_acquire_notices_that_the_master_has_followed_its_replica)
{
    uint64_t number = 0;
    meets_a_master_with_replicas();
    lives(0, 2 * GUARD_MS);
    cr_assert_eq(vote_of(0, 0)[0], '@');
    cr_assert(takes_lock(0, 0, WALL_US + 60000000, &number));
    has_replid(0, REPLID_B, REPLID_A);
    cr_assert_not(takes_lock(0, 0, WALL_US + 60000001, &number));
    sees_guarded(0, 0);
    returns(0, 0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
}

/* R21: some agents have `replicas` already, and others not yet. Each took the others' vote away. */
Test(guard_connections, r21_an_agent_without_replicas_leaves_the_vote_of_one_with_them)
{
    meets_a_master_with_replicas();
    rig.keys[0]->replicas = 1;
    lives(0, 2 * GUARD_MS);
    guard_init(&rig.agents[1].guard, 1, 1, false, MAX_TTL_MS);
    meet(1, 0);
    lives(1, 2000);
    cr_assert_eq(vote_of(1, 0)[0], '@');
    cr_assert_str_eq(vote_of(1, 0), vote_of(0, 0));
    rig.keys[0]->replicas = 0;
    lives(1, 2000);
    cr_assert_eq(vote_of(1, 0)[0], '=');
}

/* Between the last question and the tell, which looks whether the epoch is still the same. */
Test(guard_connections, a_tell_does_not_hide_that_the_master_has_followed_its_replica)
{
    uint64_t number = 0;
    meets_a_master_with_replicas();
    passes(0, GUARD_MS);
    returns(0, 0);
    cr_assert_eq(question(0, 0)->question, GUARD_ASK_TELL);
    has_replid(0, REPLID_B, REPLID_A);
    returns(0, 0);
    cr_assert_not(takes_lock(0, 0, WALL_US + 60000000, &number));
    lives(0, IDLE_MS);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
    lives(0, GUARD_MS + 1000);
    cr_assert(takes_lock(0, 0, WALL_US + 60000000, &number));
}

/* ---- lockagent trust --new ---- */

#define OWN "lockagent:new:1"

static const char *calls_new(unsigned m, const char *call)
{
    return script_new(rig.keys[m], wall_ms(m), call, OWN);
}

Test(guard_connections, a_new_master_votes_after_three_calls)
{
    open_rig(1, 1, false);
    cr_assert_str_eq(calls_new(0, "claim"), "new");
    rig.now_ms += 2000;
    cr_assert_str_eq(calls_new(0, "look"), "new");
    cr_assert_not(votes(0));
    cr_assert_str_eq(calls_new(0, "vote"), "new");
    cr_assert(votes(0));
    cr_assert_str_eq(calls_new(0, "claim"), "votes");
}

/* The locks that were granted there since the first call are lost as well. */
Test(guard_connections, a_new_master_that_has_forgotten_the_key_of_the_run_gets_no_vote)
{
    open_rig(2, 2, false);
    for (unsigned m = 0; m < 2; m++)
        cr_assert_str_eq(calls_new(m, "claim"), "new");
    flush(0);
    cr_assert_str_eq(calls_new(0, "look"), "lost");
    cr_assert_str_eq(calls_new(1, "look"), "new");
    flush(1);
    cr_assert_str_eq(calls_new(1, "vote"), "lost");
    cr_assert_not(votes(1));
}

/* The key of a run that was stopped for long has ended by itself. */
Test(guard_connections, a_run_of_long_ago_gives_no_vote)
{
    open_rig(1, 1, false);
    calls_new(0, "claim");
    rig.now_ms += 5001;
    cr_assert_str_eq(calls_new(0, "vote"), "lost");
    cr_assert_not(votes(0));
}

Test(guard_connections, an_agents_marker_stops_each_call_for_a_new_master)
{
    static const char *const calls[] = {"claim", "look", "vote"};
    for (unsigned i = 0; i < 3; i++) {
        open_rig(1, 1, false);
        calls_new(0, "claim");
        meet(0, 0);
        cr_assert_str_eq(calls_new(0, calls[i]), "marked");
        cr_assert_not(votes(0));
        close_rig();
    }
}

Test(guard_connections, a_settled_master_is_not_asked_before_it_is_due)
{
    open_old_group(3, true);
    lives(0, 900);
    passes(0, 899);
    for (unsigned m = 0; m < 3; m++)
        cr_assert_not(is_asked(0, m));
    passes(0, 1);
    for (unsigned m = 0; m < 3; m++)
        cr_assert(is_asked(0, m));
}

/* ---- an idle group ---- */

/* Counts the questions to a master while this time passes. */
static uint64_t questions_in(int64_t ms)
{
    uint64_t before = rig.agents[0].guard.questions;
    lives(0, ms);
    return (rig.agents[0].guard.questions - before) / rig.masters;
}

static void becomes_idle(void)
{
    lives(0, MAX_TTL_MS + 1000);
}

Test(guard_connections, an_idle_group_is_asked_every_five_seconds)
{
    open_old_group(3, true);
    cr_assert_geq(questions_in(MAX_TTL_MS - 1000), 4u, "it has just started");
    becomes_idle();
    uint64_t asked = questions_in(50000);
    cr_assert(asked >= 9 && asked <= 11, "%llu", (unsigned long long)asked);
}

/* D5.3: every lease that the agent has asked for there has ended. */
Test(guard_connections, a_group_is_not_idle_while_a_lease_may_run)
{
    open_old_group(3, true);
    becomes_idle();
    uses(0, 20000);
    settle(0);
    cr_assert_geq(questions_in(19000), 18u);
    lives(0, 2000);
    cr_assert_leq(questions_in(20000), 5u);
    uses(0, 0); /* a release */
    settle(0);
    cr_assert_geq(questions_in(4800), 4u);
    lives(0, 1000);
    cr_assert_leq(questions_in(20000), 5u);
}

Test(guard_connections, a_group_is_not_idle_while_a_master_has_no_vote)
{
    open_old_group(3, true);
    becomes_idle();
    flush(1);
    lives(0, IDLE_MS);
    cr_assert_eq(state(0, 1), GUARD_RUNS);
    cr_assert_geq(questions_in(4000), 4u);
    lives(0, GUARD_MS);
    cr_assert(votes(1));
    becomes_idle();
    cr_assert_leq(questions_in(20000), 5u);
}

Test(guard_connections, a_group_is_idle_again_after_a_refused_question)
{
    open_old_group(3, true);
    becomes_idle();
    passes(0, IDLE_MS);
    cr_assert(is_asked(0, 1));
    is_refused(0, 1);
    settle(0);
    cr_assert_geq(questions_in(2000), 1u);
    cr_assert_leq(questions_in(20000), 5u);
}

/* D5.3: the masters look at their markers before the first command of an idle group. The server
 * has followed another one and has older data, with the vote that the agent knows. */
Test(guard_connections, a_question_goes_ahead_of_the_first_command_of_an_idle_group)
{
    uint64_t number = 0;
    open_old_group(1, false);
    has_replid(0, REPLID_A, "");
    becomes_idle();
    lives(0, IDLE_MS);
    has_replid(0, REPLID_B, REPLID_A);
    passes(0, 1000);
    cr_assert(votes(0) && !is_asked(0, 0), "it is not known yet");
    uses(0, MAX_TTL_MS);
    arrives(0, 0);
    cr_assert_not(takes_lock(0, 0, WALL_US + 60000000, &number));
    returns(0, 0);
    cr_assert_eq(state(0, 0), GUARD_RUNS);
}

Test(guard_connections, a_command_is_not_delayed_by_needless_questions)
{
    open_old_group(3, true);
    becomes_idle();
    uses(0, 0);
    settle(0);
    for (unsigned i = 0; i < 8; i++) {
        rig.now_ms += 100;
        uses(0, 0);
        for (unsigned m = 0; m < 3; m++)
            cr_assert_not(is_asked(0, m));
    }
    loses(0, 1);
    lives(0, 2 * IDLE_MS);
    uses(0, 0);
    cr_assert_not(is_asked(0, 1), "it is away");
}

Test(guard_connections, the_deadline_is_never_while_no_master_can_be_asked)
{
    open_rig(3, 2, true);
    cr_assert_eq(guard_deadline(&rig.agents[0].guard).us, INSTANT_NEVER.us);
    meet(0, 0);
    cr_assert_eq(guard_deadline(&rig.agents[0].guard).us, (rig.now_ms + 900) * 1000);
}
