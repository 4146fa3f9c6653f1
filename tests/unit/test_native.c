/* Locks that native commands take (R24), as timelines: when they are used, how the script decides
 * after them, and which keys count. */
#include "core_rig.h"

/* Expects an acquire, by native commands or by script. */
static void expect_acquire(master_set masters, bool native)
{
    for (size_t i = 0; i < rig.count; i++) {
        const struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != EFFECT_SEND || r->effect.send.op != OP_ACQUIRE)
            continue;
        cr_assert_eq(r->effect.send.native, native, "at %lld us", (long long)rig.now_us);
        break;
    }
    expect_send(OP_ACQUIRE, masters);
}

/* Grants by native commands. Their reply has no number. */
static void grant(master_set masters)
{
    reply_with(OP_ACQUIRE, masters, (struct event_reply){.vote = VOTE_YES, .is_native = true});
}

/* Lets native commands of these masters grant nothing, and expects that each is asked by script. */
static void ask_by_script(master_set masters)
{
    struct send_item native = rig.sent[OP_ACQUIRE];
    for (uint8_t m = 0; m < LIMIT_MASTERS; m++) {
        if ((masters >> m & 1) == 0)
            continue;
        rig.sent[OP_ACQUIRE] = native;
        reply(OP_ACQUIRE, (master_set)(1u << m), VOTE_BY_SCRIPT);
        expect_acquire((master_set)(1u << m), false);
    }
}

/* Returns a hold of "k" that the first three masters granted by native commands. The others have
 * run the same commands, and are silent. */
static struct token hold_of_three(struct event_acquire with)
{
    acquire_with(1, "k", with);
    expect_acquire(ALL, true);
    grant(0x07);
    expect_answer(1, ANSWER_GRANTED);
    expect_nothing();
    return rig.answer.hold.token;
}

/* ---- which locks go by native commands ---- */

Test(native, r24_a_mutex_and_a_slot_are_taken_by_native_commands_and_no_other_form)
{
    for (enum form form = 0; form < FORM_COUNT; form++) {
        prepare(5);
        rig.policy.form = form;
        rig.policy.permits = form == FORM_SLOTS ? 3 : 1;
        begin();
        at_ms(0), acquire(1, "k");
        expect_acquire(ALL, form == FORM_PLAIN || form == FORM_SLOTS);
    }
}

/* (R24) A key that was refused here goes by script for ten seconds. Other keys do not. */
Test(native, r24_a_key_that_was_refused_goes_by_script_for_a_while)
{
    static const enum vote refusals[] = {VOTE_TAKEN, VOTE_FOREIGN};
    for (unsigned i = 0; i < 2; i++) {
        begin_five();
        at_ms(0), acquire(1, "k");
        expect_acquire(ALL, true);
        ask_by_script(0x07);
        for (uint8_t m = 0; m < 3; m++)
            reply(OP_ACQUIRE, (master_set)(1u << m), refusals[i]);
        expect_answer(1, ANSWER_LOCK_HELD);
        rig.count = 0;
        at_ms(1), acquire(2, "other");
        expect_acquire(ALL, true);
        grant(ALL);
        rig.count = 0;
        at_us(REFUSED_MS * 1000 - 1), acquire(3, "k");
        expect_acquire(ALL, false);
        reply(OP_ACQUIRE, ALL, VOTE_GUARDED);
        rig.count = 0;
        at_us(REFUSED_MS * 1000), acquire(4, "k");
        expect_acquire(ALL, true);
    }
}

/* R24: "or if a master that was asked once more did not answer in time". Each attempt would need
 * two round trips, for which there is no time. */
Test(native, r24_a_key_whose_second_round_trip_is_late_goes_by_script)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_acquire(ALL, true);
    at_ms(30);
    ask_by_script(ALL);
    at_ms(50);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    rig.count = 0;
    at_ms(60), acquire(2, "other");
    expect_acquire(ALL, true);
    grant(ALL);
    rig.count = 0;
    at_ms(61), acquire(3, "k");
    expect_acquire(ALL, false);
    at_ms(91);
    reply(OP_ACQUIRE, ALL, VOTE_TAKEN);
    expect_answer(3, ANSWER_LOCK_HELD);
}

/* Only another holder's key is a refusal. */
Test(native, r24_an_error_or_a_master_without_vote_is_no_refusal)
{
    static const enum vote others[] = {VOTE_GUARDED, VOTE_REFUSED, VOTE_SPOILED, VOTE_LATE,
                                       VOTE_UNKNOWN};
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        begin_five();
        at_ms(0), acquire(1, "k");
        expect_acquire(ALL, true);
        ask_by_script(ALL);
        reply(OP_ACQUIRE, ALL, others[i]);
        expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
        rig.count = 0;
        at_ms(1), acquire(2, "k");
        expect_acquire(ALL, true);
    }
}

/* ---- after native commands that grant nothing ---- */

Test(native, r24_a_master_that_grants_nothing_is_asked_by_script)
{
    prepare(5);
    rig.policy.fencing = false;
    begin();
    at_ms(0), acquire(1, "k");
    expect_acquire(ALL, true);
    ask_by_script(0x01);
    struct send_item script = rig.sent[OP_ACQUIRE];
    grant(0x06);
    expect_nothing(); /* It is no vote, so two of five are no quorum. */
    rig.sent[OP_ACQUIRE] = script;
    reply(OP_ACQUIRE, 0x01, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.tally.granted, 3);
}

/* The script may have to be sent twice. */
Test(native, r24_a_script_that_was_flushed_is_asked_for_again_after_native_commands)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_acquire(ALL, true);
    ask_by_script(0x01);
    reply(OP_ACQUIRE, 0x01, VOTE_NOT_RUN);
    expect_acquire(0x01, false);
    reply(OP_ACQUIRE, 0x01, VOTE_NOT_RUN);
    expect_nothing();
}

/* A key that native commands have set is not created again by the script, also if that has to be
 * sent twice. Other masters' keys may be. */
Test(native, r24_the_script_is_told_that_the_key_was_set)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_acquire(ALL, true);
    struct send_item native = rig.sent[OP_ACQUIRE];
    reply_with(OP_ACQUIRE, 0x01, (struct event_reply){.vote = VOTE_BY_SCRIPT, .is_set = true});
    expect_acquire(0x01, false);
    cr_assert(rig.sent[OP_ACQUIRE].was_set);
    reply(OP_ACQUIRE, 0x01, VOTE_NOT_RUN);
    expect_acquire(0x01, false);
    cr_assert(rig.sent[OP_ACQUIRE].was_set);
    rig.sent[OP_ACQUIRE] = native;
    reply(OP_ACQUIRE, 0x02, VOTE_BY_SCRIPT);
    expect_acquire(0x02, false);
    cr_assert_not(rig.sent[OP_ACQUIRE].was_set);
}

/* D3.7: a master that has found another key has refused for its holder, although its script does
 * not reply in time. Other masters count by their replies. */
Test(native, r24_a_held_lock_is_held_also_where_two_round_trips_take_too_long)
{
    for (uint8_t silent = 5; silent >= 2; silent--) {
        begin_five();
        acquire(1, "k");
        expect_acquire(ALL, true);
        struct send_item native = rig.sent[OP_ACQUIRE];
        at_ms(30);
        for (uint8_t m = 0; m < 5; m++) {
            rig.sent[OP_ACQUIRE] = native;
            struct event_reply found = {.vote = VOTE_BY_SCRIPT, .is_unset = true};
            reply_with(OP_ACQUIRE, (master_set)(1u << m), found);
        }
        at_ms(40), reply(OP_ACQUIRE, (master_set)(0x1fu << silent & 0x1f), VOTE_GUARDED);
        at_ms(51);
        bool is_held = silent >= 3;
        expect_answer(1, is_held ? ANSWER_LOCK_HELD : ANSWER_QUORUM_UNAVAILABLE);
        if (is_held)
            cr_assert_eq(rig.answer.tally.taken, silent);
        rig.count = 0;
    }
}

/* R6: the script finds the attempt's own key and leaves it, so its reply does not prove that no key
 * is there. Only another holder's key does. */
Test(native, r24_after_native_commands_the_script_does_not_prove_that_no_key_is_there)
{
    static const struct {
        enum vote vote;
        bool proves;
    } rows[] = {{VOTE_REFUSED, false}, {VOTE_NOT_SENT, false}, {VOTE_GUARDED, false},
                {VOTE_SPOILED, false}, {VOTE_LATE, false},     {VOTE_TAKEN, true},
                {VOTE_FOREIGN, true}};
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin_five();
        at_ms(0), acquire(1, "k");
        expect_acquire(ALL, true);
        ask_by_script(0x07);
        for (uint8_t m = 0; m < 3; m++)
            reply(OP_ACQUIRE, (master_set)(1u << m), rows[i].vote);
        expect_answer(1, rows[i].proves ? ANSWER_LOCK_HELD : ANSWER_QUORUM_UNAVAILABLE);
        expect_send(OP_RELEASE, rows[i].proves ? 0x18 : ALL);
    }
}

/* Without native commands before it, a script that was not sent has left nothing. */
Test(native, r24_what_was_never_sent_is_not_released)
{
    for (unsigned by_script = 0; by_script < 2; by_script++) {
        begin_five();
        at_ms(0), acquire(1, "k");
        expect_acquire(ALL, true);
        if (by_script)
            ask_by_script(0x07);
        reply(OP_ACQUIRE, 0x07, VOTE_NOT_SENT);
        expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
        expect_send(OP_RELEASE, by_script ? ALL : 0x18);
    }
}

/* ---- numbers ---- */

/* R12: a quorum stores the number of a hold. Native commands store the proposal. */
Test(native, r24_the_number_of_a_native_grant_is_the_proposal)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_acquire(ALL, true);
    uint64_t proposal = rig.sent[OP_ACQUIRE].token.fence;
    cr_assert_gt(proposal, 0);
    grant(0x07);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.hold.token.fence, proposal);
}

/* The script proposes a larger number. If not a quorum stores it, the second phase raises the
 * others. */
Test(native, r24_a_larger_number_of_the_script_is_raised_on_a_quorum)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_acquire(ALL, true);
    struct send_item native = rig.sent[OP_ACQUIRE];
    ask_by_script(0x01);
    struct send_item script = rig.sent[OP_ACQUIRE];
    cr_assert_gt(script.token.fence, native.token.fence);
    reply(OP_ACQUIRE, 0x01, VOTE_YES);
    rig.sent[OP_ACQUIRE] = native;
    grant(0x06);
    expect_send(OP_RAISE, 0x06);
    cr_assert_eq(rig.sent[OP_RAISE].token.fence, script.token.fence);
    reply(OP_RAISE, 0x02, VOTE_YES);
    expect_nothing();
    reply(OP_RAISE, 0x04, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.hold.token.fence, script.token.fence);
}

/* Other masters store the proposal, and the script's number comes after the grant. */
Test(native, r24_a_number_of_the_script_after_the_grant_changes_nothing)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_acquire(ALL, true);
    struct send_item native = rig.sent[OP_ACQUIRE];
    ask_by_script(0x01);
    struct send_item script = rig.sent[OP_ACQUIRE];
    rig.sent[OP_ACQUIRE] = native;
    grant(0x0e);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.hold.token.fence, native.token.fence);
    rig.sent[OP_ACQUIRE] = script;
    reply(OP_ACQUIRE, 0x01, VOTE_YES);
    expect_nothing();
    at_ms(100), renew(2, "k", rig.answer.hold.token);
    expect_renewal(0x0f, 0x10);
    cr_assert_eq(rig.sent[OP_RENEW].token.fence, native.token.fence);
}

/* Each of three masters stores another number: the largest is the hold's. So no second phase is
 * needed. */
Test(native, r24_all_scripts_after_native_commands_propose_one_number)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_acquire(ALL, true);
    struct send_item native = rig.sent[OP_ACQUIRE], scripts[3];
    for (uint8_t m = 0; m < 3; m++) {
        rig.sent[OP_ACQUIRE] = native;
        ask_by_script((master_set)(1u << m));
        scripts[m] = rig.sent[OP_ACQUIRE];
        cr_assert_eq(scripts[m].token.fence, scripts[0].token.fence);
    }
    cr_assert(native.token.fence < scripts[0].token.fence);
    for (uint8_t m = 0; m < 3; m++) {
        rig.sent[OP_ACQUIRE] = scripts[m];
        reply(OP_ACQUIRE, (master_set)(1u << m), VOTE_YES);
    }
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.hold.token.fence, scripts[0].token.fence);
}

/* R12: a grant by script has no number 0. Only native commands reply without one. */
Test(native, r12_a_script_grants_no_number_0)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_acquire(ALL, true);
    reply_with(OP_ACQUIRE, ALL, (struct event_reply){.vote = VOTE_YES});
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
}

/* ---- keys that do not count ---- */

/* A master that has its vote, and the key, grants the lock at that moment. */
Test(native, r24_a_key_on_a_master_with_its_vote_counts_at_once)
{
    begin_five();
    struct token token = hold_of_three((struct event_acquire){.ttl_ms = 10000});
    at_ms(100), renew(2, "k", token);
    expect_renewal(0x07, 0x18);
    reply(OP_RESUME, 0x18, VOTE_YES);
    expect_nothing();
    reply(OP_RENEW, 0x01, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    at_ms(200), renew(3, "k", token);
    expect_send(OP_RENEW, ALL);
}

/* R23: a closed group sends no resumption. The hold is renewed there all the same, and the key
 * counts from the next renewal on. */
Test(native, r24_a_resumption_that_is_not_sent_is_a_renewal)
{
    begin_five();
    struct token token = hold_of_three((struct event_acquire){.ttl_ms = 10000});
    at_ms(100), renew(2, "k", token);
    expect_renewal(0x07, 0x18);
    reply(OP_RENEW, 0x03, VOTE_YES);
    reply(OP_RESUME, 0x08, VOTE_NOT_SENT);
    expect_send(OP_RENEW, 0x08);
    reply(OP_RENEW, 0x08, VOTE_YES);
    expect_nothing(); /* two of five count */
    struct send_item renewal = rig.sent[OP_RENEW];
    reply(OP_RENEW, 0x04, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    reply(OP_RESUME, 0x10, VOTE_NOT_SENT); /* also after the round */
    expect_send(OP_RENEW, 0x10);
    cr_assert_eq(rig.sent[OP_RENEW].ref.round, renewal.ref.round);
    reply(OP_RENEW, 0x10, VOTE_YES);
    at_ms(200), renew(3, "k", token);
    expect_renewal(0x0f, 0x10);
}

/* A master that ran the commands without its vote may be the one that forgot. A key that a renewal
 * finds there counts from the next one on, after a round that a quorum won. */
Test(native, r24_a_key_that_a_renewal_finds_counts_from_the_next_one_on)
{
    begin_five();
    struct token token = hold_of_three((struct event_acquire){.ttl_ms = 10000});
    at_ms(100), renew(2, "k", token);
    expect_renewal(0x07, 0x18);
    find_without_vote(OP_RESUME, 0x18);
    reply(OP_RENEW, 0x03, VOTE_YES);
    expect_nothing(); /* two of five count */
    reply(OP_RENEW, 0x04, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    at_ms(200), renew(3, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x1c, VOTE_YES);
    expect_answer(3, ANSWER_RENEWED);
}

/* A call that is late may set the key after two rounds in which it was missing. A repair that finds
 * it has not created it. */
Test(native, r24_a_key_that_a_repair_finds_counts_from_the_next_renewal_on)
{
    begin_five();
    struct token token = hold_of_three((struct event_acquire){.ttl_ms = 10000});
    for (uint32_t i = 0; i < 2; i++) { /* The second one proves that it was not released. */
        at_ms(100 + 400 * i), renew(2 + i, "k", token);
        expect_renewal(0x07, 0x18);
        reply(OP_RESUME, 0x18, VOTE_ABSENT);
        reply(OP_RENEW, 0x07, VOTE_YES);
        expect_answer(2 + i, ANSWER_RENEWED);
    }
    at_ms(600), renew(4, "k", token);
    expect_send(OP_RENEW, 0x07);
    expect_send(OP_REPAIR, 0x18);
    reply(OP_REPAIR, 0x18, VOTE_YES);
    reply(OP_RENEW, 0x03, VOTE_YES);
    expect_nothing(); /* two of five count */
    reply(OP_RENEW, 0x04, VOTE_YES);
    expect_answer(4, ANSWER_RENEWED);
    at_ms(700), renew(5, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x19, VOTE_YES);
    expect_answer(5, ANSWER_RENEWED);
}

/* R7: SET found another key there, and the others have granted the lock. So the master never had
 * the key. Without that reply, or after another one, it may have it. */
Test(native, r24_a_master_that_had_another_key_is_repaired_at_once)
{
    begin_five();
    struct token token = hold_of_three((struct event_acquire){.ttl_ms = 10000});
    reply_with(OP_ACQUIRE, 0x08, (struct event_reply){.vote = VOTE_BY_SCRIPT, .is_unset = true});
    reply(OP_ACQUIRE, 0x10, VOTE_BY_SCRIPT);
    expect_nothing();
    at_ms(100), renew(2, "k", token);
    expect_renewal(0x07, 0x10);
    expect_send(OP_REPAIR, 0x08);
}

/* R7: the first reply of a master may be to a renewal. The end that native commands named there may
 * be later than that of the renewal, by the spread (100 ms). So a *no* counts that much longer. */
static void deny_at(int64_t ms)
{
    begin_five();
    struct token token = hold_of_three((struct event_acquire){.ttl_ms = 10000});
    static const int64_t rounds_ms[] = {100, 3000, 6000, 9000};
    for (unsigned i = 0; i < sizeof(rounds_ms) / sizeof(rounds_ms[0]); i++) {
        at_ms(rounds_ms[i]), renew(2 + i, "k", token);
        if (i == 0)
            expect_renewal(0x07, 0x18), reply(OP_RESUME, 0x18, VOTE_YES);
        else
            expect_send(OP_RENEW, ALL);
        reply(OP_RENEW, 0x07, VOTE_YES);
        expect_answer(2 + i, ANSWER_RENEWED);
    }
    at_ms(ms), renew(9, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x19, VOTE_ABSENT);
}

enum { FOUND_END_MS = 100 + 10000 + 100 + 103 };

Test(native, r24_a_key_that_a_renewal_finds_may_live_for_the_spread_longer)
{
    deny_at(FOUND_END_MS - 1);
    expect_answer(9, ANSWER_LOCK_LOST);
}

Test(native, r24_a_key_that_a_renewal_finds_lives_no_longer_than_that)
{
    deny_at(FOUND_END_MS);
    expect_answer(9, ANSWER_RENEW_FAILED);
    cr_assert(is_listed("k"));
}

/* A round that no quorum won proves nothing, however often the key was found. */
Test(native, r24_a_failed_round_counts_no_key)
{
    begin_five();
    struct token token = hold_of_three((struct event_acquire){.ttl_ms = 10000});
    for (unsigned i = 0; i < 3; i++) {
        at_ms(100 + 1500 * i), renew(2 + i, "k", token);
        expect_renewal(0x07, 0x18);
        find_without_vote(OP_RESUME, 0x18);
        reply(OP_RENEW, 0x03, VOTE_YES);
        expect_nothing();
        at_ms(100 + 1500 * i + 1400);
        expect_answer(2 + i, ANSWER_RENEW_FAILED);
    }
}

/* A late yes of the acquire is the master's own grant, with its vote. */
Test(native, r24_a_late_yes_after_the_grant_counts)
{
    begin_five();
    struct token token = hold_of_three((struct event_acquire){.ttl_ms = 10000});
    at_ms(20), grant(0x18);
    expect_nothing();
    at_ms(100), renew(2, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x19, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
}

/* After the grant no script is sent to a master that grants nothing. The renewal asks for its vote.
 */
Test(native, r24_after_a_late_by_script_the_renewal_asks_for_the_vote)
{
    begin_five();
    struct token token = hold_of_three((struct event_acquire){.ttl_ms = 10000});
    at_ms(20), reply(OP_ACQUIRE, 0x18, VOTE_BY_SCRIPT);
    expect_nothing();
    at_ms(100), renew(2, "k", token);
    expect_renewal(0x07, 0x18);
}

/* The key may be there although the script replied that it has done nothing. */
Test(native, r24_a_script_that_did_nothing_leaves_a_key_that_does_not_count)
{
    static const enum vote votes[] = {VOTE_REFUSED, VOTE_NOT_SENT, VOTE_GUARDED, VOTE_SPOILED,
                                      VOTE_LATE};
    for (unsigned i = 0; i < sizeof(votes) / sizeof(votes[0]); i++) {
        begin_five();
        at_ms(0), acquire_as(1, "k", .ttl_ms = 10000);
        expect_acquire(ALL, true);
        struct send_item native = rig.sent[OP_ACQUIRE];
        ask_by_script(0x01);
        reply(OP_ACQUIRE, 0x01, votes[i]);
        rig.sent[OP_ACQUIRE] = native;
        grant(0x0e);
        expect_answer(1, ANSWER_GRANTED);
        at_ms(100), renew(2, "k", rig.answer.hold.token);
        expect_renewal(0x0e, 0x11);
        find_without_vote(OP_RESUME, 0x01);
        reply(OP_RENEW, 0x06, VOTE_YES);
        expect_nothing();
        reply(OP_RENEW, 0x08, VOTE_YES);
        expect_answer(2, ANSWER_RENEWED);
    }
}

/* A master that was asked by script decides with its vote: its refusal ends the doubt. */
Test(native, r24_a_hold_by_script_counts_everywhere)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .ttl_ms = 10000);
    expect_acquire(ALL, true);
    ask_by_script(ALL);
    reply(OP_ACQUIRE, ALL, VOTE_TAKEN);
    expect_answer(1, ANSWER_LOCK_HELD);
    rig.count = 0;
    at_ms(10), acquire_as(2, "k", .ttl_ms = 10000);
    expect_acquire(ALL, false);
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED);
    expect_nothing();
    at_ms(100), renew(3, "k", rig.answer.hold.token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x18, VOTE_YES);
    reply(OP_RENEW, 0x01, VOTE_YES);
    expect_answer(3, ANSWER_RENEWED);
}

/* R9: the next holder gets a key that does not count from its predecessor. */
Test(native, r24_a_hand_over_on_another_master_does_not_count)
{
    prepare(5);
    rig.policy.handover_max = 16;
    rig.policy.retry_min_ms = rig.policy.retry_max_ms = 60000;
    begin();
    struct token token = hold_of_three((struct event_acquire){.ttl_ms = 10000});
    acquire_as(2, "k", .wait_ms = 300000);
    rig.count = 0;
    at_ms(10), release(3, "k", token);
    expect_send(OP_HANDOVER, ALL);
    struct event_reply yes = {.vote = VOTE_YES, .fence = rig.sent[OP_HANDOVER].token.fence};
    reply_with(OP_HANDOVER, 0x1b, yes);
    expect_nothing(); /* Two of them had the first token for certain. */
    reply_with(OP_HANDOVER, 0x04, yes);
    expect_answer(3, ANSWER_RELEASED);
    expect_answer(2, ANSWER_GRANTED);
}

/* A lease that does not count backs no validity when a clock gains (R14): see backed_until(). It
 * counts for the adoption if the master has its vote. */
Test(native, r24_an_adoption_counts_masters_with_a_vote)
{
    static const struct token token = {.random = {1}, .fence = 1699999999000000};
    begin_five();
    at_ms(0), renew_as(1, "k", token, .ttl_ms = 10000);
    expect_send(OP_ADOPT, ALL);
    struct event_reply adopted = {.vote = VOTE_YES, .fence = token.fence, .occupant.left_ms = -1};
    find_without_vote(OP_ADOPT, 0x18);
    reply_with(OP_ADOPT, 0x03, adopted);
    expect_nothing();
    reply_with(OP_ADOPT, 0x04, adopted);
    expect_answer(1, ANSWER_RENEWED);
    rig.count = 0;
    at_ms(100), renew(2, "k", token);
    expect_renewal(0x07, 0x18);
    find_without_vote(OP_RESUME, 0x18);
    reply(OP_RENEW, 0x03, VOTE_YES);
    expect_nothing();
    reply(OP_RENEW, 0x04, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
}

/* ---- restored holds ---- */

static void restore_hold_of(enum renew renew)
{
    struct noted_hold hold = {
        .key = text("k"),
        .token = {.random = {7}, .fence = 77},
        .terms = {.renew = renew, .ttl_ms = 9000, .count = 1},
        .metadata = {.label = "me", .label_len = 2},
        .delivered = true,
        .acquired_at = {rig.epoch_us - 1000},
        .valid_until = {rig.epoch_us + 8000000},
        .max_hold_until = {rig.epoch_us + 600000000},
        .lease_until = {rig.epoch_us + 8050000},
    };
    step((struct event){.kind = EVENT_RESTORE, .restore = hold});
}

static void begin_with_journal(void)
{
    prepare(5);
    rig.config.journal = true;
    begin();
}

/* The process before may have sent native commands to a master without its vote. */
Test(native, r24_a_restored_hold_is_resumed_by_masters_with_a_vote)
{
    begin_with_journal();
    restore_hold_of(RENEW_AGENT), at_ms(1);
    expect_send(OP_RESUME, ALL);
    find_without_vote(OP_RESUME, 0x1c);
    reply(OP_RESUME, 0x03, VOTE_YES);
    expect_nothing();
    /* The round has failed, so the next one resumes again. */
    let_time_pass_until(OP_RESUME, 3000);
    expect_send(OP_RESUME, ALL);
    find_without_vote(OP_RESUME, 0x18);
    reply(OP_RESUME, 0x07, VOTE_YES);
    rig.count = 0;
    /* From then on it is a hold like any other. Two masters count from the next renewal on. */
    at_ms(rig.now_us / 1000 + 10), renew(2, "k", (struct token){.random = {7}, .fence = 77});
    expect_renewal(0x07, 0x18);
    find_without_vote(OP_RESUME, 0x18);
    reply(OP_RENEW, 0x03, VOTE_YES);
    expect_nothing();
    reply(OP_RENEW, 0x04, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
}

/* A master with a vote counts, also if it replies after the others. */
Test(native, r24_a_late_reply_to_a_resumption_counts)
{
    begin_with_journal();
    restore_hold_of(RENEW_CALLER), at_ms(1);
    renew(1, "k", (struct token){.random = {7}, .fence = 77});
    expect_send(OP_RESUME, ALL);
    reply(OP_RESUME, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    reply(OP_RESUME, 0x18, VOTE_YES);
    at_ms(100), renew(2, "k", (struct token){.random = {7}, .fence = 77});
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x19, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
}

/* ---- gathered calls ---- */

/* The items of one call of native commands have one form, and are all numbered or none. A key that
 * goes by script is in another call. */
Test(native, r24_a_call_of_native_commands_has_no_item_that_goes_by_script)
{
    prepare(5);
    rig.policy.fencing = false;
    begin();
    at_ms(0), acquire(1, "a");
    expect_acquire(ALL, true);
    ask_by_script(ALL);
    reply(OP_ACQUIRE, ALL, VOTE_TAKEN);
    rig.count = 0;
    rig.holds_back = true;
    acquire(2, "a"), acquire(3, "b"), acquire(4, "c");
    rig.holds_back = false;
    step((struct event){.kind = EVENT_FLUSH});
    unsigned natives = 0, scripts = 0;
    for (size_t i = 0; i < rig.count; i++) {
        const struct record *r = &rig.records[i];
        if (r->effect.kind != EFFECT_SEND || r->effect.send.op != OP_ACQUIRE)
            continue;
        natives += r->effect.send.native ? r->effect.send.count : 0u;
        scripts += r->effect.send.native ? 0u : r->effect.send.count;
        cr_assert_eq(r->effect.send.native, r->items[0].key.at[0] != 'a');
    }
    cr_assert_eq(natives, 2);
    cr_assert_eq(scripts, 1);
}

/* ---- releases ---- */

/* Expects a release, by native commands or by script. `untold`: the keys may be gone, and no
 * waiter was told. */
static void expect_release(master_set masters, bool native, bool untold)
{
    for (size_t i = 0; i < rig.count; i++) {
        const struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != EFFECT_SEND || r->effect.send.op != OP_RELEASE)
            continue;
        cr_assert_eq(r->effect.send.native, native, "at %lld us", (long long)rig.now_us);
        break;
    }
    expect_send(OP_RELEASE, masters);
    cr_assert_eq(rig.sent[OP_RELEASE].untold, untold);
}

/* Returns a lock that its holder gives back by native commands. */
static void give_back_natively(void)
{
    struct token token =
        hold_of_three((struct event_acquire){.ttl_ms = 10000, .label = text("me")});
    rig.count = 0;
    at_ms(10), release(2, "k", token);
    expect_release(ALL, true, /* untold= */ false);
    cr_assert_eq(rig.sent[OP_RELEASE].token.fence, token.fence);
    cr_assert_eq(rig.sent[OP_RELEASE].label.len, 2, "the whole value is compared");
}

Test(native, r24_a_release_of_a_mutex_or_a_slot_goes_by_native_commands)
{
    for (enum form form = 0; form < FORM_COUNT; form++) {
        prepare(5);
        rig.policy.form = form;
        rig.policy.permits = form == FORM_SLOTS ? 3 : 1;
        begin();
        bool native = form == FORM_PLAIN || form == FORM_SLOTS;
        at_ms(0), acquire(1, "k");
        expect_acquire(ALL, native);
        reply(OP_ACQUIRE, ALL, VOTE_YES);
        expect_answer(1, ANSWER_GRANTED);
        rig.count = 0;
        at_ms(1), release(2, "k", rig.answer.hold.token);
        expect_release(ALL, native, /* untold= */ false);
    }
}

Test(native, r24_a_master_that_released_counts)
{
    begin_five();
    give_back_natively();
    reply(OP_RELEASE, 0x03, VOTE_YES);
    expect_nothing();
    reply(OP_RELEASE, 0x04, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    reply(OP_RELEASE, 0x18, VOTE_YES);
    expect_nothing();
}

/* It is no vote. The script is asked once, and knows that it may have to tell. */
Test(native, r24_a_master_on_which_somebody_waits_is_asked_by_script)
{
    begin_five();
    give_back_natively();
    struct send_item native = rig.sent[OP_RELEASE];
    reply_with(OP_RELEASE, 0x01, (struct event_reply){.vote = VOTE_BY_SCRIPT, .is_deleted = true});
    expect_release(0x01, false, /* untold= */ true);
    struct send_item script = rig.sent[OP_RELEASE];
    rig.sent[OP_RELEASE] = native;
    reply(OP_RELEASE, 0x06, VOTE_YES);
    expect_nothing();
    rig.sent[OP_RELEASE] = script;
    reply(OP_RELEASE, 0x01, VOTE_ABSENT); /* The native commands have deleted it. */
    expect_answer(2, ANSWER_RELEASED);
    rig.sent[OP_RELEASE] = native;
    reply(OP_RELEASE, 0x08, VOTE_BY_SCRIPT); /* after the answer */
    expect_release(0x08, false, /* untold= */ true);
}

/* R6: the master that owes a reply is asked by script, and the waiters are told. */
Test(native, r24_a_release_without_reply_is_sent_again_by_script)
{
    begin_five();
    give_back_natively();
    reply(OP_RELEASE, 0x07, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    reply(OP_RELEASE, 0x18, VOTE_UNKNOWN);
    rig.count = 0;
    let_time_pass_until(OP_RELEASE, 5000);
    expect_release(0x18, false, /* untold= */ true);
}

/* The same before it is decided, although the key may go by native commands. */
Test(native, r24_only_the_first_command_of_a_release_goes_by_native_commands)
{
    begin_five();
    give_back_natively();
    reply(OP_RELEASE, 0x03, VOTE_YES);
    reply(OP_RELEASE, 0x04, VOTE_UNKNOWN);
    master_is(2, EVENT_MASTER_DOWN, 0);
    rig.count = 0;
    master_is(2, EVENT_MASTER_UP, 1);
    let_time_pass_until(OP_RELEASE, 1000);
    expect_release(0x04, false, /* untold= */ true);
    reply(OP_RELEASE, 0x04, VOTE_ABSENT);
    expect_nothing(); /* The native commands or another release have deleted it (R6). */
    reply(OP_RELEASE, 0x18, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
}

/* An agent waits for it. */
Test(native, r24_the_next_release_goes_by_script_for_a_while)
{
    begin_five();
    give_back_natively();
    reply(OP_RELEASE, 0x01, VOTE_BY_SCRIPT);
    expect_release(0x01, false, /* untold= */ true);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    rig.count = 0;
    at_ms(20), acquire(3, "k");
    expect_acquire(ALL, false);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(3, ANSWER_GRANTED);
    rig.count = 0;
    at_ms(30), release(4, "k", rig.answer.hold.token);
    expect_release(ALL, false, /* untold= */ false);
}

/* The agent does not know the label of a strange token. */
Test(native, r24_a_token_that_the_agent_does_not_know_is_released_by_script)
{
    static const struct token token = {.random = {1}, .fence = 1699999999000000};
    begin_five();
    at_ms(0), release(1, "k", token);
    expect_release(ALL, false, /* untold= */ false);
}

Test(native, r24_an_undo_goes_by_script)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_acquire(ALL, true);
    reply(OP_ACQUIRE, 0x07, VOTE_UNKNOWN);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_release(ALL, false, /* untold= */ false);
}
