/* Interplay of a hold's lease, owner, releases and secrets, as timelines. */
#include "core_rig.h"

enum { QUORUM = 0x07, REST = 0x18 };

static const struct token strange = {.random = {1, 2, 3, 4, 5}, .fence = 1699999999000000};

/* Returns the token of a hold that masters 1 to 4 granted. Master 0 answered `vote`. */
static struct token hold_unheard_by_0(enum vote vote)
{
    begin_five();
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x1e, VOTE_YES);
    reply(OP_ACQUIRE, 0x01, vote);
    expect_answer(1, ANSWER_GRANTED);
    expect_nothing();
    return rig.answer.hold.token;
}

/* The reply of masters that are asked for their vote (R24), and of others. */
static void extended(master_set masters, enum vote vote, master_set by_vote)
{
    if ((masters & by_vote) != 0)
        reply(OP_RESUME, masters & by_vote, vote);
    if ((masters & (master_set)~by_vote) != 0)
        reply(OP_RENEW, masters & (master_set)~by_vote, vote);
}

static void renewal(struct token token, master_set yes, master_set absent)
{
    renew(2, "k", token);
    const master_set by_vote = sent_to(OP_RESUME);
    expect_send(OP_RENEW, ALL & (master_set)~by_vote);
    if (by_vote != 0)
        expect_send(OP_RESUME, by_vote);
    extended(absent, VOTE_ABSENT, by_vote);
    extended(yes, VOTE_YES, by_vote);
    expect_answer(2, ANSWER_RENEWED);
    expect_nothing();
}

static void repair_of_0(struct token token, enum vote vote)
{
    renew(2, "k", token);
    expect_send(OP_RENEW, 0x1e);
    expect_send(OP_REPAIR, 0x01);
    reply(OP_REPAIR, 0x01, vote);
    reply(OP_RENEW, 0x1e, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    expect_nothing();
}

/* ---- R7: a hold that was released elsewhere does not come back ------------------------------- */

/* It had the key, and its word was lost: that it has none now may be a release. */
Test(interplay, r7_a_master_that_was_not_heard_is_repaired_only_with_proof)
{
    struct token token = hold_unheard_by_0(VOTE_UNKNOWN);
    at_ms(1000), renewal(token, 0x1e, 0x01);
    at_ms(1249), renewal(token, 0x1e, 0x01); /* sent before a release of that time was decided */
    at_ms(2500), renewal(token, 0x1e, 0x01); /* sent after that: the proof */
    at_ms(2600), repair_of_0(token, VOTE_REPAIRED);
    at_ms(2700), renewal(token, ALL, 0);
}

Test(interplay, r7_a_repair_that_was_not_heard_of_needs_the_proof_again)
{
    struct token token = hold_unheard_by_0(VOTE_UNKNOWN);
    at_ms(1000), renewal(token, 0x1e, 0x01);
    at_ms(2500), renewal(token, 0x1e, 0x01);
    at_ms(2600), repair_of_0(token, VOTE_UNKNOWN);
    /* The key was there and has been released since, or the repair never ran. */
    at_ms(2700), renewal(token, 0x1e, 0x01);
    at_ms(2800), renewal(token, 0x1e, 0x01);
    at_ms(3800), renewal(token, 0x1e, 0x01);
    at_ms(3900), repair_of_0(token, VOTE_REPAIRED);
}

/* Nothing was written there, so nothing can have been released there. */
Test(interplay, r7_a_master_that_wrote_nothing_is_repaired_at_once)
{
    static const enum vote nothing[] = {VOTE_TAKEN,   VOTE_FOREIGN, VOTE_GUARDED,
                                        VOTE_SPOILED, VOTE_REFUSED, VOTE_NOT_SENT};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        struct token token = hold_unheard_by_0(nothing[i]);
        rig.count = 0;
        at_ms(1000), repair_of_0(token, VOTE_REPAIRED);
    }
}

/* Released elsewhere by 0, 1 and 2, and granted there to another; then 0 forgets. The key of 0
 * would make a quorum again. */
Test(interplay, r7_a_new_epoch_does_not_bring_back_what_was_released_elsewhere)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(1000), master_is(0, EVENT_MASTER_UP, 2);
    rig.count = 0;
    renew(2, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x01, VOTE_ABSENT);
    reply(OP_RENEW, 0x06, VOTE_TAKEN);
    expect_answer(2, ANSWER_RENEW_FAILED);
    at_ms(3000), renew(2, "k", token);
    expect_send(OP_RENEW, ALL);
}

/* If a majority forgot, no quorum could ever prove anything. The guard keeps others away, and the
 * hold goes on. */
Test(interplay, r7_what_a_majority_forgot_is_repaired_at_once)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(1000);
    for (uint8_t m = 0; m < 3; m++)
        master_is(m, EVENT_MASTER_UP, 2);
    rig.count = 0;
    renew(2, "k", token);
    expect_send(OP_RENEW, 0x18);
    expect_send(OP_REPAIR, 0x07);
    reply(OP_REPAIR, 0x07, VOTE_REPAIRED);
    reply(OP_RENEW, 0x18, VOTE_YES);
    expect_answer(2, ANSWER_RENEW_FAILED);
    at_ms(1100), renew(3, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(3, ANSWER_RENEWED);
}

/* A DELETE at another agent has its votes within 250 ms: neither of the two agents knows by which
 * ttl the other one knows the hold. */
Test(interplay, r7_the_proof_waits_for_a_strangers_release)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 2000);
    at_ms(100), master_is(0, EVENT_MASTER_UP, 2);
    rig.count = 0;
    at_us(354499), renewal(token, 0x1e, 0x01);
    at_us(354500), renewal(token, 0x1e, 0x01); /* 250 ms, and 1 % and 2 ms for the clocks (A1) */
    at_ms(400), repair_of_0(token, VOTE_REPAIRED);
}

/* R3: a release has that time under any policy. */
Test(interplay, r3_a_strangers_release_is_decided_in_time)
{
    prepare(5);
    rig.policy.ttl_ms = 30000;
    begin();
    release(1, "k", strange);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x03, VOTE_YES);
    at_us(249999);
    expect_nothing();
    at_ms(250);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    reply(OP_RELEASE, 0x04, VOTE_YES); /* too late to be an answer */
    expect_nothing();
}

/* R3: an agent may know the hold by a longer ttl than the agent that has it now. */
Test(interplay, r3_a_release_of_a_long_hold_is_decided_in_time)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 60000);
    at_ms(1000), release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x03, VOTE_YES);
    at_us(1249999);
    expect_nothing();
    at_ms(1250);
    expect_answer(1, ANSWER_RELEASE_PENDING);
}

/* ---- D3: a PUT is the holder's latest wish --------------------------------------------------- */

Test(interplay, d3_a_hold_that_is_adopted_is_not_deleted_by_a_release_that_is_owed)
{
    begin_five();
    release(1, "k", strange);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_REFUSED);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    at_ms(100), renew_as(2, "k", strange, .ttl_ms = 5000);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    at_ms(4000);
    expect_nothing();
    cr_assert(is_listed("k"));
}

/* A release that is in flight on an ended connection may arrive after the adoption. */
Test(interplay, d3_a_master_that_may_still_run_a_release_is_not_asked_to_adopt)
{
    begin_five();
    release(1, "k", strange);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x01, VOTE_UNKNOWN);
    reply(OP_RELEASE, 0x1e, VOTE_REFUSED);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    at_ms(100), renew_as(2, "k", strange, .ttl_ms = 5000);
    expect_send(OP_ADOPT, 0x1e);
    expect_nothing();
}

/* R11: a caller that has it twice, loses it, and adopts it back still has it twice. */
Test(interplay, r11_an_adoption_back_keeps_count_owner_and_idempotency_key)
{
    prepare(5);
    rig.policy.reentrant = true;
    begin();
    struct event_acquire with = {.ttl_ms = 1000,
                                 .owner = text("me-and-nobody-else"),
                                 .idempotency = text("0123456789abcdef")};
    struct token token = hold_with("k", with);
    acquire_as(2, "k", .ttl_ms = 1000, .owner = text("me-and-nobody-else"));
    expect_confirmed(2, ANSWER_REENTERED);
    at_ms(988);
    expect_lost(REASON_EXPIRED);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_MOVED);
    at_ms(1200), renew_as(3, "k", token, .ttl_ms = 5000);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(3, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.count, 2);
    acquire_with(4, "k", with);
    expect_confirmed(4, ANSWER_REPEATED);
    release(5, "k", token);
    expect_answer(5, ANSWER_RELEASED);
    expect_nothing();
    cr_assert(is_listed("k"));
    release(6, "k", token);
    expect_send(OP_RELEASE, ALL);
}

/* D3: the connection that the hold was bound to is told of the loss. Its end has no effect any
 * more. */
Test(interplay, d3_a_lost_bound_hold_that_is_adopted_back_has_no_watchdog)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 3000, .bound = true);
    let_time_pass_until(OP_RENEW, 1100);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, QUORUM, VOTE_MOVED);
    expect_lost(REASON_MOVED);
    renew(1, "k", token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.renew, RENEW_CALLER);
}

/* Found by the simulator (--in-turn --roaming): the master kept the lease of the agent that had
 * adopted the token, after the release was owed for as long as this agent's own lease. */
Test(interplay, r6_a_release_after_an_adoption_back_is_owed_for_any_lease)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_ms(100), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, QUORUM, VOTE_MOVED);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    master_is(4, EVENT_MASTER_DOWN, 0);
    at_ms(200), release(2, "k", token);
    expect_send(OP_RELEASE, 0x0f);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    at_ms(50000);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 1);
    master_is(4, EVENT_MASTER_UP, 1);
    let_time_pass_until(OP_RELEASE, 10);
    expect_send(OP_RELEASE, 0x10);
    at_ms(60300);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 0);
}

/* ---- the journal knows of every name that was written ---------------------------------------- */

static const struct effect_hold *noted(void)
{
    for (size_t i = rig.count; i-- > 0;)
        if (rig.records[i].effect.kind == EFFECT_HOLD)
            return &rig.records[i].effect.hold;
    cr_assert_fail("nothing was noted");
    return NULL;
}

/* Found by the simulator: the next process released a hold of another agent, because the masters
 * had this agent's name again. */
Test(interplay, d3_the_journal_knows_of_an_adoption_back_before_the_masters_do)
{
    prepare(5);
    rig.config.journal = true;
    begin();
    struct token token = hold_as("k", .ttl_ms = 2000);
    at_ms(500), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, QUORUM, VOTE_MOVED);
    cr_assert(noted()->hold.adopted && !noted()->hold.ended);
    cr_assert_eq(rig.records[rig.count - 1].effect.kind, EFFECT_SEND);
    expect_send(OP_ADOPT, ALL);
}

Test(interplay, d3_the_journal_forgets_a_lost_hold_before_it_is_adopted_back)
{
    for (int i = 0; i < 2; i++) { /* while its validity lasts, and after its release */
        prepare(5);
        rig.config.journal = true;
        begin();
        struct token token = hold_as("k", .ttl_ms = 1000);
        i == 0 ? at_us(983000) : at_ms(988);
        expect_lost(REASON_EXPIRED);
        rig.count = 0;
        renew(1, "k", token);
        cr_assert(noted()->forgotten);
        cr_assert_eq(rig.records[rig.count - 1].effect.kind, EFFECT_SEND);
        expect_send(OP_ADOPT, ALL);
        at_ms(2000);
        expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    }
}

/* ---- adoptions beside other agents ----------------------------------------------------------- */

Test(interplay, c4_a_put_with_another_number_does_not_join_an_adoption)
{
    begin_five();
    struct token wrong = strange;
    wrong.fence--;
    renew(1, "k", strange);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x03, VOTE_YES);
    renew(2, "k", wrong);
    struct send_item right = rig.sent[OP_ADOPT];
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_MISNUMBERED);
    expect_answer(2, ANSWER_TOKEN_MISMATCH);
    rig.sent[OP_ADOPT] = right;
    reply(OP_ADOPT, 0x04, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    expect_nothing();
}

/* An agent whose hold was moved knows that another agent has it. Too few answers now are no
 * loss. */
Test(interplay, d3_what_another_agent_has_is_unavailable_while_masters_are)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_ms(988);
    expect_lost(REASON_EXPIRED);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_MOVED);
    renew(1, "k", token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, QUORUM, VOTE_UNKNOWN);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
}

/* Its keys are not deleted a moment before they are asked for again. */
Test(interplay, d3_a_lost_hold_is_not_released_before_it_is_adopted_back)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_us(983000);
    expect_lost(REASON_EXPIRED);
    renew(1, "k", token);
    expect_send(OP_ADOPT, ALL);
    expect_nothing();
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
}

/* An attempt here cannot win. An acquire that does not wait, but has joined the attempt, is told of
 * the hold. */
Test(interplay, d3_an_adoption_ends_the_attempt_that_is_under_way_here)
{
    begin_five();
    renew(1, "k", strange);
    expect_send(OP_ADOPT, ALL);
    acquire_as(2, "k", .wait_ms = 60000);
    acquire(3, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    expect_send(OP_RELEASE, ALL);
    expect_answer(3, ANSWER_LOCK_HELD);
    expect_nothing();
}

Test(interplay, d3_an_adoption_back_keeps_label_and_max_hold_and_what_is_used_up)
{
    begin_five();
    struct event_acquire with = {
        .ttl_ms = 1000, .max_hold_ms = 7000, .idempotency = text("0123456789abcdef")};
    struct token token = hold_with("k", with);
    at_ms(988);
    expect_lost(REASON_EXPIRED);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_MOVED);
    struct event event = {.kind = EVENT_RELEASE};
    event.release = (struct event_release){
        .request = 2, .key = text("k"), .idempotency = text("0123456789abcdef")};
    step(event);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_REFUSED);
    expect_answer(2, ANSWER_QUORUM_UNAVAILABLE);
    renew_as(3, "k", token, .ttl_ms = 2000);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(3, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.max_hold_until.us - rig.epoch_us - rig.now_us, 7000000);
    cr_assert_eq(rig.answer.hold.label.len, 2);
    cr_assert_arr_eq(rig.answer.hold.label.at, "me", 2);
    acquire_with(4, "k", with);
    expect_answer(4, ANSWER_SUPERSEDED);
}

/* R6: the original lease is not known here, so the release is owed for the longest one. */
Test(interplay, r6_the_release_of_an_adopted_hold_is_owed_for_the_longest_lease)
{
    begin_five();
    renew_as(1, "k", strange, .ttl_ms = 1000);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x0f, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    master_is(4, EVENT_MASTER_DOWN, 0);
    release(2, "k", strange);
    expect_send(OP_RELEASE, 0x0f);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    at_ms(50000), master_is(4, EVENT_MASTER_UP, 1);
    at_ms(50001);
    expect_send(OP_RELEASE, 0x10);
}

/* ---- leases ---------------------------------------------------------------------------------- */

/* The hold is adopted back. Master 0 lost its key by itself, but the other agent may have repaired
 * and released it since. */
Test(interplay, r7_after_an_adoption_back_nothing_is_known_of_who_does_not_confirm)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    for (int64_t ms = 3000; ms <= 12000; ms += 3000)
        at_ms(ms), renewal(token, 0x1e, 0);
    at_ms(12500), renewal(token, 0x1e, 0x01);
    at_ms(13000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_MOVED);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x01, VOTE_ABSENT);
    reply(OP_ADOPT, 0x1e, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_ms(13100), renewal(token, 0x1e, 0x01);
    at_ms(14000), renewal(token, 0x1e, 0x01);
    at_ms(14100), repair_of_0(token, VOTE_REPAIRED);
}

/* The reply to the acquire comes after the second phase. Still, nothing was written there. */
Test(interplay, r7_a_late_no_to_the_acquire_is_one)
{
    begin_five();
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(
        OP_ACQUIRE, 0x02,
        (struct event_reply){.vote = VOTE_YES, .fence = rig.sent[OP_ACQUIRE].token.fence + 5});
    reply(OP_ACQUIRE, 0x0c, VOTE_YES);
    expect_send(OP_RAISE, 0x0c);
    reply(OP_ACQUIRE, 0x01, VOTE_REFUSED);
    reply(OP_RAISE, 0x0c, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    at_ms(1000), renew(2, "k", rig.answer.hold.token);
    expect_renewal(0x0e, 0x10); /* 4 did not reply */
    expect_send(OP_REPAIR, 0x01);
}

/* R7: no renewal shortens a lease. So a shorter ttl does not end the count of silent masters
 * sooner. */
Test(interplay, r7_confirmed_counts_the_longest_lease)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(100), renew_as(1, "k", token, .ttl_ms = 2000);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_ms(5000), read_key(2, "k");
    expect_send(OP_READ, ALL);
    reply(OP_READ, ALL, VOTE_YES);
    expect_answer(2, ANSWER_STATE);
    cr_assert_eq(rig.answer.hold.confirmed, 5);
}

/* ---- claims ---------------------------------------------------------------------------------- */

/* A PUT that came while the watchdog's round was out is a wish as any other. */
Test(interplay, d3_a_put_that_meets_a_round_adopts_back_too)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    let_time_pass_until(OP_RENEW, 1100);
    expect_send(OP_RENEW, ALL);
    renew(1, "k", token);
    reply(OP_RENEW, QUORUM, VOTE_MOVED);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, QUORUM, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    expect_nothing();
}

/* Masters that denied before are asked again. Until they have answered, nothing is known. */
Test(interplay, d3_an_adoption_back_is_not_lost_by_its_first_bad_answer)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 3000);
    renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, QUORUM, VOTE_MOVED);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x10, VOTE_UNKNOWN);
    reply(OP_ADOPT, QUORUM, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    expect_nothing();
}

/* An earlier agent may have reported a longer validity. So a lost hold runs out even if the end
 * says `release`. */
Test(interplay, d3_the_end_does_not_release_what_was_adopted_and_is_lost)
{
    begin_five();
    renew_as(1, "k", strange, .ttl_ms = 1000);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_us(984000);
    expect_lost(REASON_EXPIRED);
    step((struct event){.kind = EVENT_END, .end.release = true});
    at_ms(3000);
    expect_nothing();
}

/* R6: another agent may have asked for a longer lease than this one, also if no DELETE came. */
Test(interplay, r6_the_release_of_an_adopted_hold_at_the_end_is_owed_for_any_lease)
{
    begin_five();
    renew_as(1, "k", strange, .ttl_ms = 1000);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    master_is(4, EVENT_MASTER_DOWN, 0);
    at_ms(100), step((struct event){.kind = EVENT_END, .end.release = true});
    at_ms(101);
    expect_send(OP_RELEASE, 0x0f);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    at_ms(60000);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 1);
    at_ms(60200);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 0);
}

/* ---- events without an effect ---------------------------------------------------------------- */

/* A connection that ends and comes back in the same epoch makes nothing later. */
Test(interplay, r7_an_epoch_is_new_once)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(100), master_is(0, EVENT_MASTER_UP, 2);
    at_ms(1000), master_is(0, EVENT_MASTER_DOWN, 0);
    at_ms(1100), master_is(0, EVENT_MASTER_UP, 2);
    rig.count = 0;
    at_ms(1100), renewal(token, 0x1e, 0x01);
    at_ms(1200), repair_of_0(token, VOTE_REPAIRED);
}

Test(interplay, d8_a_draining_agent_adopts_nothing_back)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_ms(988);
    expect_lost(REASON_EXPIRED);
    expect_send(OP_RELEASE, ALL);
    step((struct event){.kind = EVENT_DRAIN});
    renew(1, "k", token);
    expect_answer(1, ANSWER_DRAINING);
    expect_nothing();
}

/* Else it would be held here, and its DELETE answered. */
Test(interplay, d3_a_delete_ends_an_adoption_back)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_ms(988);
    expect_lost(REASON_EXPIRED);
    expect_send(OP_RELEASE, ALL);
    renew(1, "k", token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x03, VOTE_YES);
    release(2, "k", token);
    expect_answer(1, ANSWER_NOT_HELD);
    expect_send(OP_RELEASE, ALL);
    reply(OP_ADOPT, 0x1c, VOTE_YES);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    cr_assert_not(is_listed("k"));
}

/* A renewal asks no master for a number (R12). */
Test(interplay, r12_a_wild_number_in_a_renewal_spoils_no_vote)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply_with(OP_RENEW, ALL, (struct event_reply){.vote = VOTE_YES, .fence = LIMIT_FENCE});
    expect_answer(1, ANSWER_RENEWED);
}

/* D8.2: an adoption ends the attempt of a caller that waits here. Nothing else would answer it
 * while the agent drains. */
Test(interplay, d8_a_waiter_whose_attempt_gives_way_is_refused_while_the_agent_drains)
{
    struct token other = {.random = {7}, .fence = PROPOSAL};
    begin_five();
    acquire_as(1, "k", .wait_ms = 60000);
    expect_send(OP_ACQUIRE, ALL);
    renew(2, "k", other);
    expect_send(OP_ADOPT, ALL);
    step((struct event){.kind = EVENT_DRAIN});
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    at_us(rig.now_us);
    expect_answer(1, ANSWER_DRAINING);
}

/* D8.2: an agent grants and adopts nothing after its end, because nothing would renew it. */
Test(interplay, d8_nothing_is_granted_after_the_end)
{
    struct token other = {.random = {7}, .fence = PROPOSAL};
    begin_five();
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    renew(2, "other", other);
    expect_send(OP_ADOPT, ALL);
    step((struct event){.kind = EVENT_DRAIN});
    step((struct event){.kind = EVENT_END, .end.release = true});
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_DRAINING);
    expect_send(OP_RELEASE, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(2, ANSWER_QUORUM_UNAVAILABLE);
    cr_assert_not(is_listed("k"));
    cr_assert_not(is_listed("other"));
}
