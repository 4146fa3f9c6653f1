/* Holds from a journal, as timelines: holds that go on, are released, or run out (R7). */
#include "core_rig.h"

static void begin_with_journal(void)
{
    prepare(5);
    rig.config.journal = true;
    begin();
}

static struct noted_hold a_hold(int64_t valid_ms)
{
    struct noted_hold hold = {
        .key = text("k"),
        .token = {.fence = 77},
        .terms = {.renew = RENEW_AGENT, .ttl_ms = 3000, .count = 1},
        .metadata = {.label = "me", .label_len = 2},
        .delivered = true,
        .acquired_at = {rig.epoch_us - 1000},
        .valid_until = {rig.epoch_us + valid_ms * 1000},
        .max_hold_until = {rig.epoch_us + 600000000},
        .lease_until = {rig.epoch_us + (valid_ms + 50) * 1000},
    };
    memset(hold.token.random, 7, RANDOM_BYTES);
    return hold;
}

static void restore(struct noted_hold hold)
{
    step((struct event){.kind = EVENT_RESTORE, .restore = hold});
}

/* Expects that a request is answered when masters with a vote have confirmed the hold (R24). */
static void expect_resumed(uint32_t request, enum answer answer)
{
    expect_send(OP_RESUME, ALL);
    reply(OP_RESUME, ALL, VOTE_YES);
    expect_answer(request, answer);
}

static const struct effect_hold *noted(void)
{
    for (size_t i = rig.count; i-- > 0;)
        if (rig.records[i].effect.kind == EFFECT_HOLD)
            return &rig.records[i].effect.hold;
    cr_assert_fail("nothing was noted");
    return NULL;
}

Test(restore, r7_a_watchdog_hold_is_renewed_at_once_and_the_first_renewal_creates_no_key)
{
    begin_with_journal();
    restore(a_hold(2000)), at_ms(1);
    cr_assert(is_listed("k"));
    expect_send(OP_RESUME, ALL);
    reply(OP_RESUME, 0x03, VOTE_ABSENT);
    reply(OP_RESUME, 0x1c, VOTE_YES);
    cr_assert(!noted()->hold.ended && noted()->hold.valid_until.us > rig.epoch_us + 2000000);
    expect_nothing();
    at_ms(250);
    expect_nothing();
    /* Keys that were released elsewhere meanwhile are not created anew: this round shows that. */
    let_time_pass_until(OP_RENEW, 500);
    expect_renewal(0x1c, 0x03);
    reply(OP_RESUME, 0x03, VOTE_ABSENT);
    reply(OP_RENEW, 0x1c, VOTE_YES);
    expect_nothing();
    let_time_pass_until(OP_RENEW, 500);
    expect_send(OP_RENEW, 0x1c);
    expect_send(OP_REPAIR, 0x03); /* from then on it is a hold like any other */
    struct token token = a_hold(0).token;
    release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    cr_assert(noted()->hold.ended);
}

/* Three masters have it, but never at once, and forget it together: that the hold goes on, no
 * quorum has shown (R7, C8). */
Test(restore, r7_what_no_quorum_has_confirmed_is_not_created_where_a_majority_forgot)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(9000);
    hold.terms.ttl_ms = 10000;
    restore(hold), at_ms(1);
    expect_send(OP_RESUME, ALL);
    reply(OP_RESUME, 0x03, VOTE_YES);
    let_time_pass_until(OP_RESUME, 2000);
    expect_send(OP_RESUME, ALL);
    reply(OP_RESUME, 0x04, VOTE_YES);
    for (uint8_t m = 0; m < 3; m++)
        master_is(m, EVENT_MASTER_UP, 9);
    let_time_pass_until(OP_RESUME, 2000);
    expect_send(OP_RESUME, ALL); /* no repair anywhere */
}

Test(restore, r7_a_quorum_that_does_not_confirm_leaves_it_to_end)
{
    begin_with_journal();
    restore(a_hold(2000)), at_ms(1);
    expect_send(OP_RESUME, ALL);
    reply(OP_RESUME, 0x07, VOTE_ABSENT);
    reply(OP_RESUME, 0x18, VOTE_YES);
    let_time_pass_until(OP_RESUME, 500);
    expect_send(OP_RESUME, ALL); /* again no repair */
    at_ms(1700);
    expect_lost(REASON_QUORUM_LOST);
}

Test(restore, the_masters_may_come_up_later)
{
    prepare(5);
    rig.config.journal = true;
    begin();
    for (uint8_t m = 0; m < 5; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    restore(a_hold(2000)), at_ms(300);
    cr_assert(is_listed("k"));
    for (uint8_t m = 0; m < 5; m++)
        master_is(m, EVENT_MASTER_UP, 2);
    rig.count = 0;
    let_time_pass_until(OP_RESUME, 300);
    expect_send(OP_RESUME, ALL);
}

Test(restore, a_plain_lease_ends_when_it_was_to_end)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(2000);
    hold.terms.renew = RENEW_CALLER;
    restore(hold), at_us(1994999);
    expect_nothing();
    cr_assert(is_listed("k"));
    at_us(1999999);
    expect_lost(REASON_EXPIRED);
    expect_nothing();
    at_ms(2000);
    expect_send(OP_RELEASE, ALL);
}

Test(restore, what_is_over_is_released_also_where_masters_come_up_later)
{
    prepare(5);
    rig.config.journal = true;
    begin();
    master_is(4, EVENT_MASTER_DOWN, 0), rig.count = 0;
    at_ms(10), restore(a_hold(5));
    expect_send(OP_RELEASE, 0x0f);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    cr_assert_not(is_listed("k"));
    master_is(4, EVENT_MASTER_UP, 1);
    at_ms(11);
    expect_send(OP_RELEASE, 0x10);
    reply(OP_RELEASE, 0x10, VOTE_YES);
    cr_assert(noted()->forgotten);
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 0);
}

/* R6: another agent may have asked for a lease of max_ttl before the DELETE. */
Test(restore, r6_a_release_is_owed_for_max_ttl_after_a_restart_too)
{
    prepare(5);
    rig.config.journal = true;
    rig.config.max_ttl_ms = 60000;
    begin();
    master_is(4, EVENT_MASTER_DOWN, 0), rig.count = 0;
    struct noted_hold hold = a_hold(5);
    hold.ended = hold.released = true;
    at_ms(10), restore(hold);
    expect_send(OP_RELEASE, 0x0f);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    at_ms(59000);
    rig.count = 0;
    master_is(4, EVENT_MASTER_UP, 1);
    at_ms(59001);
    expect_send(OP_RELEASE, 0x10);
}

static void begin_with_ended(bool released)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(5);
    hold.ended = hold.released = released;
    at_ms(10), restore(hold);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x0f, VOTE_MOVED);
}

/* D3, C4: its holder may have it at another agent by now. */
Test(restore, what_is_over_and_was_not_given_back_is_asked_of_the_masters)
{
    begin_with_ended(/* released= */ false);
    renew(1, "k", a_hold(5).token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    begin_with_ended(/* released= */ false);
    release(2, "k", a_hold(5).token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x07, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    begin_with_ended(/* released= */ true);
    renew(3, "k", a_hold(5).token);
    expect_answer(3, ANSWER_NOT_HELD);
}

/* D3.5: the same by its idempotency key, when the release has been decided. */
Test(restore, what_is_over_is_asked_for_by_its_idempotency_key)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(2000);
    secret_take(&hold.metadata.idempotency, text("0123456789abcdef"));
    at_ms(3000), restore(hold);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_MOVED);
    struct event_release event = {
        .request = 1, .key = text("k"), .idempotency = text("0123456789abcdef")};
    step((struct event){.kind = EVENT_RELEASE, .release = event});
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
}

Test(restore, what_was_reported_lost_runs_out)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(2000);
    hold.ended = true;
    restore(hold), at_ms(3000);
    cr_assert_eq(rig.count, 0);
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 0);
}

/* D3.5: another agent may have it. */
Test(restore, d3_a_delete_of_what_runs_out_asks_the_masters)
{
    for (int adopted = 0; adopted < 2; adopted++) {
        begin_with_journal();
        struct noted_hold hold = a_hold(adopted ? 5 : 2000);
        hold.adopted = adopted, hold.ended = !adopted;
        hold.metadata.idempotency = (struct secret){.len = 6, .bytes = "secret"};
        at_ms(10), restore(hold);
        expect_nothing();
        struct event_release event = {
            .request = 2, .key = text("k"), .idempotency = text("secret")};
        step((struct event){.kind = EVENT_RELEASE, .release = event});
        expect_send(OP_RELEASE, ALL);
        reply_with(OP_RELEASE, 0x07,
                   (struct event_reply){.vote = VOTE_YES, .fence = hold.token.fence});
        expect_answer(2, ANSWER_RELEASED);
        rig.count = 0;
    }
}

/* D3.5: also after one more restart within the minute. */
Test(restore, d3_what_runs_out_and_may_be_asked_for_is_noted_again)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(5);
    hold.adopted = true;
    hold.metadata.idempotency = (struct secret){.len = 6, .bytes = "secret"};
    at_ms(10), restore(hold);
    at_ms(11);
    cr_assert(noted()->hold.adopted);
    cr_assert_eq(noted()->hold.valid_until.us, hold.valid_until.us);
    at_ms(70000);
    cr_assert(noted()->forgotten);
}

/* D8.3: the next hold of the key may be noted in an earlier place. */
Test(restore, d8_what_is_over_is_released_beside_the_next_hold)
{
    begin_with_journal();
    restore(a_hold(2000));
    struct noted_hold over = a_hold(5);
    memset(over.token.random, 8, RANDOM_BYTES);
    over.ended = over.released = true;
    rig.count = 0;
    at_ms(10), restore(over);
    expect_send(OP_RELEASE, ALL);
    cr_assert(is_listed("k"));
}

/* Another agent may have reported a longer validity. */
Test(restore, what_was_adopted_and_is_over_runs_out)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(5);
    hold.adopted = true;
    at_ms(10), restore(hold), at_ms(3000);
    cr_assert_eq(rig.count, 0);
}

/* R15: the restart guard counts on max_ttl, even if the policy has changed. */
Test(restore, r15_a_lock_delay_is_cut_to_max_ttl)
{
    prepare(5);
    rig.config.journal = true;
    rig.policy.lock_delay_ms = 59000;
    begin();
    rig.count = 0;
    restore(a_hold(2000)), at_ms(1);
    expect_send(OP_RESUME, ALL);
    cr_assert_eq(rig.sent[OP_RESUME].ttl_ms, 60000);
}

/* R15: limits.max_ttl was larger when the journal was written. The guard of a master that forgets
 * counts on the new one, so no later lease is longer. The validity that was reported stays. */
Test(restore, r15_a_ttl_above_max_ttl_is_cut_to_it)
{
    struct noted_hold of_agent = (begin_with_journal(), a_hold(85000)), of_caller = of_agent;
    of_agent.terms.ttl_ms = of_caller.terms.ttl_ms = 90000;
    restore(of_agent), at_ms(1);
    expect_send(OP_RESUME, ALL);
    cr_assert_eq(rig.sent[OP_RESUME].ttl_ms, 60000);
    begin_with_journal();
    of_caller.terms.renew = RENEW_CALLER;
    restore(of_caller), at_ms(80000);
    cr_assert(is_listed("k"), "it is valid for as long as it was");
    expect_nothing();
    renew(1, "k", of_caller.token);
    expect_send(OP_RESUME, ALL);
    cr_assert_eq(rig.sent[OP_RESUME].ttl_ms, 60000);
    reply(OP_RESUME, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.ttl_ms, 60000);
}

Test(restore, r14_too_late_for_any_renewal_it_is_lost_at_once)
{
    begin_with_journal();
    restore(a_hold(200)); /* the margin is 300 ms */
    expect_lost(REASON_STALLED);
    cr_assert(noted()->hold.ended);
    cr_assert_not(is_listed("k"));
}

Test(restore, a_hold_that_is_found_twice_is_one)
{
    begin_with_journal();
    restore(a_hold(2000)), restore(a_hold(2000)), at_ms(1);
    expect_send(OP_RESUME, ALL);
    expect_nothing();
    cr_assert_eq(core_stats(rig.core)->locks_held, 1);
}

Test(restore, every_change_is_noted_before_it_is_answered)
{
    begin_with_journal();
    acquire_as(1, "k", .ttl_ms = 3000);
    expect_send(OP_ACQUIRE, ALL);
    rig.count = 0;
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    size_t note = RECORDS, answer = RECORDS;
    for (size_t i = 0; i < rig.count; i++) {
        note = rig.records[i].effect.kind == EFFECT_HOLD && note == RECORDS ? i : note;
        answer = rig.records[i].effect.kind == EFFECT_ANSWER ? i : answer;
    }
    cr_assert(note < answer && answer < RECORDS);
    cr_assert_eq(noted()->hold.lease_until.us, rig.epoch_us + 3000000);
}

/* D3.3: the original lease is not known until the hold is adopted. */
Test(restore, an_adopted_hold_is_noted_with_its_new_lease)
{
    begin_with_journal();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_ms(988);
    expect_lost(REASON_EXPIRED);
    renew_as(1, "k", token, .ttl_ms = 4000);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(noted()->hold.lease_until.us, rig.epoch_us + 4988000);
}

Test(restore, without_a_journal_nothing_is_noted)
{
    begin_five();
    hold("k");
    for (size_t i = 0; i < rig.count; i++)
        cr_assert_neq(rig.records[i].effect.kind, EFFECT_HOLD);
}

/* ---- the callers of a hold ------------------------------------------------------------------- */

static struct token granted(struct event_acquire with)
{
    acquire_with(63, "k", with);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(63, ANSWER_GRANTED);
    return rig.answer.hold.token;
}

/* Two callers have the hold as the agent ends. One of them gives it back. The next process must not
 * release the hold while the other still has it. */
Test(restore, r11_a_share_given_back_after_the_end_is_no_release)
{
    prepare(5);
    rig.config.journal = rig.policy.reentrant = true;
    begin();
    struct token token =
        granted((struct event_acquire){.ttl_ms = 3000, .owner = text("0123456789abcdef")});
    acquire_as(1, "k", .owner = text("0123456789abcdef"));
    expect_confirmed(1, ANSWER_REENTERED);
    at_ms(100), step((struct event){.kind = EVENT_END});
    at_ms(101);
    cr_assert(noted()->hold.ended && !noted()->hold.released);
    at_ms(200), release(2, "k", token);
    expect_answer(2, ANSWER_LOCK_LOST);
    cr_assert(noted()->hold.ended && !noted()->hold.released);
    cr_assert(noted()->hold.valid_until.us > rig.epoch_us + 2000000);
}

/* The agent gives back a hold that no caller released. Its holder may go on at another agent. So
 * the next process may delete only keys that still bear this agent's name. */
Test(restore, d3_what_the_agent_released_at_its_end_was_not_given_back)
{
    begin_with_journal();
    granted((struct event_acquire){.ttl_ms = 3000});
    at_ms(100), step((struct event){.kind = EVENT_END, .end.release = true});
    at_ms(101);
    cr_assert(noted()->hold.ended && !noted()->hold.released);
    cr_assert_leq(noted()->hold.valid_until.us, rig.epoch_us + rig.now_us);
}

Test(restore, r11_an_owner_goes_on_with_its_count)
{
    prepare(5);
    rig.config.journal = rig.policy.reentrant = true;
    begin();
    struct token token =
        granted((struct event_acquire){.ttl_ms = 3000, .owner = text("0123456789abcdef")});
    cr_assert_eq(noted()->hold.terms.count, 1);
    acquire_as(1, "k", .owner = text("0123456789abcdef"));
    expect_confirmed(1, ANSWER_REENTERED);
    cr_assert_eq(noted()->hold.terms.count, 2);
    const struct secret owner = noted()->hold.metadata.owner;
    cr_assert(owner.len == 16 && memcmp(owner.bytes, "0123456789abcdef", 16) == 0);
    release(2, "k", token);
    expect_answer(2, ANSWER_RELEASED);
    cr_assert_eq(noted()->hold.terms.count, 1);
}

Test(restore, r11_as_many_releases_as_before)
{
    prepare(5);
    rig.config.journal = rig.policy.reentrant = true;
    begin();
    struct noted_hold hold = a_hold(2000);
    hold.terms.renew = RENEW_CALLER;
    hold.terms.count = 2;
    secret_take(&hold.metadata.owner, text("0123456789abcdef"));
    restore(hold), at_ms(1);
    acquire_as(1, "k", .owner = text("0123456789abcdef"));
    expect_resumed(1, ANSWER_REENTERED);
    acquire_as(2, "k", .owner = text("fedcba9876543210"));
    expect_answer(2, ANSWER_LOCK_HELD);
    release(3, "k", hold.token), release(4, "k", hold.token);
    expect_answer(3, ANSWER_RELEASED), expect_answer(4, ANSWER_RELEASED);
    expect_nothing();
    release(5, "k", hold.token);
    expect_send(OP_RELEASE, ALL);
}

/* R11: an owner that has the lock as often as can be counted is refused, and keeps its shares. */
Test(restore, r11_the_count_of_an_owner_has_an_end)
{
    prepare(5);
    rig.config.journal = rig.policy.reentrant = true;
    begin();
    struct noted_hold hold = a_hold(2000);
    hold.terms.renew = RENEW_CALLER;
    hold.terms.count = LIMIT_REENTRIES - 1;
    secret_take(&hold.metadata.owner, text("0123456789abcdef"));
    restore(hold), at_ms(1);
    acquire_as(1, "k", .owner = text("0123456789abcdef"));
    expect_resumed(1, ANSWER_REENTERED);
    acquire_as(2, "k", .owner = text("0123456789abcdef"));
    expect_confirmed(2, ANSWER_TOO_MANY_LOCKS);
    release(3, "k", hold.token);
    expect_answer(3, ANSWER_RELEASED);
    cr_assert_eq(noted()->hold.terms.count, LIMIT_REENTRIES - 1);
    expect_nothing();
}

/* A POST whose answer was lost with the process is sent again, and gets its hold. */
Test(restore, d3_a_request_that_is_asked_again_after_a_restart)
{
    begin_with_journal();
    granted((struct event_acquire){.ttl_ms = 3000, .idempotency = text("0123456789abcdef")});
    struct noted_hold hold = a_hold(2000);
    hold.metadata.asked = noted()->hold.metadata.asked;
    cr_assert_eq(noted()->hold.metadata.idempotency.len, 16);
    begin_with_journal();
    secret_take(&hold.metadata.idempotency, text("0123456789abcdef"));
    hold.terms.renew = RENEW_CALLER;
    restore(hold), at_ms(1);
    acquire_as(1, "k", .ttl_ms = 3000, .idempotency = text("0123456789abcdef"));
    expect_resumed(1, ANSWER_REPEATED);
    cr_assert(token_same_random(&rig.answer.hold.token, &hold.token));
    acquire_as(2, "k", .ttl_ms = 2000, .idempotency = text("0123456789abcdef"));
    expect_answer(2, ANSWER_IDEMPOTENCY_MISMATCH);
}

/* D3.5: "had the lock and lost it". Another agent may have the hold, so a new request of a
 * semaphore would get a second slot. */
Test(restore, d3_a_request_whose_hold_is_over_has_lost_it)
{
    begin_with_journal();
    granted((struct event_acquire){.ttl_ms = 3000, .idempotency = text("0123456789abcdef")});
    uint64_t asked = noted()->hold.metadata.asked;
    for (int ended = 0; ended < 2; ended++) {
        begin_with_journal();
        struct noted_hold hold = a_hold(ended ? 2000 : 5);
        hold.ended = ended;
        hold.metadata.asked = asked;
        secret_take(&hold.metadata.idempotency, text("0123456789abcdef"));
        at_ms(10), restore(hold);
        acquire_as(1, "k", .ttl_ms = 3000, .idempotency = text("0123456789abcdef"));
        expect_answer(1, ANSWER_LOCK_LOST);
        cr_assert_eq(rig.answer.reason, REASON_EXPIRED);
        acquire_as(2, "k", .ttl_ms = 2000, .idempotency = text("0123456789abcdef"));
        expect_answer(2, ANSWER_IDEMPOTENCY_MISMATCH);
    }
}

static void begin_with_delay(uint32_t lock_delay_ms)
{
    prepare(5);
    rig.config.journal = true;
    rig.policy.lock_delay_ms = lock_delay_ms;
    begin();
}

/* D3.5: also if the agent is started once more within the minute. With a lock_delay the hold runs
 * out (R15), and is remembered in the same way. */
Test(restore, d3_a_request_whose_hold_is_over_has_lost_it_after_one_more_restart)
{
    for (uint32_t lock_delay_ms = 0; lock_delay_ms <= 5000; lock_delay_ms += 5000) {
        begin_with_delay(lock_delay_ms);
        struct noted_hold hold = a_hold(5);
        hold.delivered = false;
        secret_take(&hold.metadata.idempotency, text("0123456789abcdef"));
        at_ms(10), restore(hold);
        struct noted_hold again = noted()->hold;
        cr_assert(again.ended && !again.released);
        again.key = text("k");
        begin_with_delay(lock_delay_ms);
        at_ms(20), restore(again);
        acquire_as(1, "k", .ttl_ms = 3000, .idempotency = text("0123456789abcdef"));
        expect_answer(1, ANSWER_IDEMPOTENCY_MISMATCH); /* It is known. */
    }
}

/* D3.5: a hold that goes on may be lost then. The journal does not say that a plain lease was
 * delivered, but a hold that is lost is no failure. */
Test(restore, d3_a_request_whose_hold_was_lost_after_a_restart_has_lost_it)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(2000);
    hold.terms.renew = RENEW_CALLER, hold.delivered = false;
    secret_take(&hold.metadata.idempotency, text("0123456789abcdef"));
    restore(hold);
    at_ms(2001);
    struct noted_hold again = noted()->hold;
    cr_assert(again.ended && !again.released);
    again.key = text("k");
    begin_with_journal();
    at_ms(2002), restore(again);
    acquire_as(1, "k", .ttl_ms = 3000, .idempotency = text("0123456789abcdef"));
    expect_answer(1, ANSWER_IDEMPOTENCY_MISMATCH); /* It is known. */
}

/* D3.5: a hold that was lost and is still valid, as after SIGTERM. Its validity stays noted, so
 * that no process releases its keys inside it. */
Test(restore, d3_what_was_reported_lost_is_noted_again)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(2000);
    hold.ended = true;
    secret_take(&hold.metadata.idempotency, text("0123456789abcdef"));
    restore(hold), at_ms(10);
    struct noted_hold again = noted()->hold;
    cr_assert(again.ended && !again.released && again.delivered);
    cr_assert_eq(again.valid_until.us, hold.valid_until.us);
    expect_nothing();
    at_ms(70000);
    cr_assert(noted()->forgotten);
}

/* D3.5: "failed, or its caller was gone". The agent had ended the hold because its answer did not
 * arrive. */
Test(restore, d3_a_request_whose_answer_did_not_arrive_is_a_new_one)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(5);
    hold.ended = true, hold.delivered = false;
    secret_take(&hold.metadata.idempotency, text("0123456789abcdef"));
    at_ms(10), restore(hold);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    acquire_as(1, "k", .ttl_ms = 3000, .idempotency = text("0123456789abcdef"));
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
}

/* The connection that it was bound to is gone; its caller may live, and has its validity. */
Test(restore, a_bound_hold_is_a_plain_lease_from_then_on)
{
    begin_with_journal();
    granted((struct event_acquire){.ttl_ms = 3000, .bound = true});
    cr_assert_eq(noted()->hold.terms.renew, RENEW_CALLER);
    cr_assert_eq(rig.answer.hold.renew, RENEW_AGENT);
}

/* R15: a hold that was not released keeps its key taken for the lock_delay. A released hold does
 * not. */
Test(restore, r15_only_a_release_ends_the_lock_delay)
{
    prepare(5);
    rig.config.journal = true;
    rig.policy.lock_delay_ms = 5000;
    begin();
    struct noted_hold hold = a_hold(5);
    at_ms(10), restore(hold);
    expect_nothing();
    hold.ended = true;
    restore(hold);
    expect_nothing();
    hold.released = true;
    restore(hold);
    expect_send(OP_RELEASE, ALL);
}

/* ---- the mark that the answer was written ---------------------------------------------------- */

static void delivered(struct lock_ref lock)
{
    step((struct event){.kind = EVENT_DELIVERED, .delivered.lock = lock});
}

static size_t notes(void)
{
    size_t count = 0;
    for (size_t i = 0; i < rig.count; i++)
        count += rig.records[i].effect.kind == EFFECT_HOLD;
    return count;
}

/* The process ended between the grant and the mark. A hold that perhaps no caller has is not
 * renewed. Its keys stay for the validity that the answer would have promised, because the answer
 * may have been sent after all. */
Test(restore, a_watchdog_hold_that_was_not_delivered_is_not_renewed)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(2000);
    hold.delivered = false;
    cr_assert(core_is_doubtful(&hold));
    restore(hold), at_ms(1);
    cr_assert(is_listed("k"));
    cr_assert_eq(noted()->hold.terms.renew, RENEW_CALLER);
    at_ms(1900);
    expect_nothing();
    at_ms(2000);
    expect_trace(TRACE_LOST);
    cr_assert_eq(rig.trace.reason, REASON_EXPIRED);
    expect_send(OP_RELEASE, ALL);
}

/* An agent may be killed twice in a row. Its second successor knows all that the first one knew. */
Test(restore, d8_a_hold_that_was_delivered_is_renewed_after_a_second_restart_as_well)
{
    begin_with_journal();
    restore(a_hold(2000));
    at_ms(11);
    struct noted_hold again = noted()->hold;
    cr_assert(again.delivered);
    again.key = text("k"); /* its bytes were the core's */
    begin_with_journal();
    restore(again), at_ms(1);
    expect_send(OP_RESUME, ALL);
    cr_assert(noted()->hold.delivered && noted()->hold.terms.renew == RENEW_AGENT);
}

Test(restore, a_put_shows_that_its_caller_has_it)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(2000);
    hold.delivered = false;
    restore(hold), at_ms(1);
    renew_with(1, "k", hold.token, (struct event_renew){.ttl_ms = 3000, .renew = RENEW_AGENT});
    expect_send(OP_RESUME, ALL);
    reply(OP_RESUME, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert(noted()->hold.delivered && noted()->hold.terms.renew == RENEW_AGENT);
}

/* D3: its caller asks again with the key, and finds its hold as it was. */
Test(restore, what_can_be_asked_for_again_goes_on)
{
    begin_with_journal();
    struct noted_hold hold = a_hold(2000);
    hold.delivered = false;
    secret_take(&hold.metadata.idempotency, text("0123456789abcdef"));
    cr_assert(!core_is_doubtful(&hold));
    restore(hold), at_ms(1);
    expect_send(OP_RESUME, ALL);
    reply(OP_RESUME, ALL, VOTE_YES);
    cr_assert(!noted()->hold.delivered && noted()->hold.terms.renew == RENEW_AGENT);
}

Test(restore, the_mark_is_noted_once)
{
    begin_with_journal();
    struct token token = granted((struct event_acquire){.ttl_ms = 3000, .renew = RENEW_AGENT});
    cr_assert(!noted()->hold.delivered);
    size_t before = notes();
    delivered(rig.answer.lock);
    cr_assert(noted()->hold.delivered && token_same_random(&noted()->hold.token, &token));
    cr_assert_eq(notes(), before + 1);
    delivered(rig.answer.lock);
    cr_assert_eq(notes(), before + 1);
    release(1, "k", token);
    before = notes();
    delivered(rig.answer.lock); /* late: it is over */
    cr_assert_eq(notes(), before);
}

/* No watchdog renews them for a caller that may not be there: a second write would be for
 * nothing. */
Test(restore, leases_and_bound_holds_need_no_mark)
{
    begin_with_journal();
    granted((struct event_acquire){.ttl_ms = 3000});
    size_t before = notes();
    delivered(rig.answer.lock);
    cr_assert_eq(notes(), before);
    begin_with_journal();
    granted((struct event_acquire){.ttl_ms = 3000, .bound = true});
    before = notes();
    delivered(rig.answer.lock);
    cr_assert_eq(notes(), before);
}

static struct token adopted_for_the_watchdog(void)
{
    begin_with_journal();
    struct token token = a_hold(0).token;
    renew_with(1, "k", token, (struct event_renew){.ttl_ms = 3000, .renew = RENEW_AGENT});
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    return token;
}

/* A caller that adopts a hold has its token already. */
Test(restore, an_adopted_hold_is_marked_from_the_start)
{
    adopted_for_the_watchdog();
    cr_assert(noted()->hold.delivered && noted()->hold.adopted);
}

/* A hold that was adopted runs out after its end, because another agent may have reported a longer
 * validity. If its caller has released it, the release is owed, also by the next process. */
Test(restore, an_adopted_hold_that_was_given_back_is_still_released)
{
    struct token token = adopted_for_the_watchdog();
    at_ms(100), release(2, "k", token);
    expect_send(OP_RELEASE, ALL);
    cr_assert(noted()->hold.ended && noted()->hold.released && !noted()->hold.adopted);
}

/* R17, R20: nothing that is asked of the key now would find it. */
Test(restore, d8_a_hold_of_a_key_that_is_of_another_kind_now_is_refused)
{
    begin_with_journal();
    struct noted_hold slot = a_hold(2000), read = a_hold(2000);
    slot.token.slot = 1, slot.token.has_slot = true;
    read.terms.mode = MODE_READ;
    restore(slot), restore(read);
    cr_assert(!is_listed("k"), "of a mutex");
    prepare(5);
    rig.policy.form = FORM_SLOTS;
    rig.policy.permits = 2;
    rig.config.journal = true;
    begin();
    restore(a_hold(2000)), restore(read);
    cr_assert(!is_listed("k"), "of a semaphore");
    restore(slot);
    cr_assert(is_listed("k"));
}

/* R23: a closed group sends no resumption, so holds of every form begin with one. */
Test(restore, r23_holds_of_every_form_are_resumed_and_not_renewed)
{
    static const enum form forms[] = {FORM_PLAIN, FORM_FAIR, FORM_SHARED, FORM_REDISSON};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        prepare(5);
        rig.policy.form = forms[f];
        rig.config.journal = true;
        begin();
        restore(a_hold(2000)), at_ms(1);
        expect_send(OP_RESUME, ALL);
        reply(OP_RESUME, ALL, VOTE_YES);
        expect_nothing();
        let_time_pass_until(OP_RENEW, 2000);
    }
}

/* R24: no native command has set the key of a fair lock, so a master without a vote counts. */
Test(restore, r24_a_fair_lock_is_resumed_by_masters_without_a_vote)
{
    prepare(5);
    rig.policy.form = FORM_FAIR;
    rig.config.journal = true;
    begin();
    restore(a_hold(2000)), at_ms(1);
    expect_send(OP_RESUME, ALL);
    reply(OP_RESUME, ALL, VOTE_GUARDED);
    let_time_pass_until(OP_RENEW, 2000);
    cr_assert_gt(noted()->hold.valid_until.us, rig.epoch_us + 2000000);
}
