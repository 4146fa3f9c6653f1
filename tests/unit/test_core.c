/* The lock core as timelines: events at virtual instants go into core_step(), and every resulting
 * effect is expected. This file has release, adoption, a late clock, many locks at once, and the
 * simulator's findings. test_acquire.c, test_renew.c, test_waiting.c and others have the rest. */
#include "agent/core/state.h"
#include "core_rig.h"

/* ---- release: R6, R10 ------------------------------------------------------------------------ */

Test(release, r10_released_when_a_quorum_has_confirmed)
{
    begin_five();
    struct token token = hold("k");
    at_ms(10), release(1, "k", token);
    expect_send(OP_RELEASE, ALL); /* also to masters that are believed not to have the key */
    cr_assert_not(is_listed("k"));
    at_ms(11), reply(OP_RELEASE, 0x03, VOTE_YES);
    expect_nothing();
    at_ms(12), reply(OP_RELEASE, 0x10, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
}

Test(release, r6_pending_at_its_deadline_and_the_debt_is_paid_when_the_master_is_back)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    at_ms(10), release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    at_ms(11), reply(OP_RELEASE, 0x03, VOTE_YES);
    at_us(109999);
    expect_nothing();
    at_ms(110); /* ttl/10 */
    expect_answer(1, ANSWER_RELEASE_PENDING);
    at_ms(200), reply(OP_RELEASE, 0x0c, VOTE_YES);
    master_is(4, EVENT_MASTER_DOWN, 0);
    reply(OP_RELEASE, 0x10, VOTE_UNKNOWN);
    expect_nothing();
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 1);
    at_ms(400), master_is(4, EVENT_MASTER_UP, 1);
    let_time_pass_until(OP_RELEASE, 10);
    expect_send(OP_RELEASE, 0x10);
    reply(OP_RELEASE, 0x10, VOTE_YES);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 0);
    at_ms(3000);
    expect_nothing();
}

/* R6: a master without a vote has looked for the token. A quorum has deleted it, so nothing more is
 * wanted there: many releases would be asked for again and again until its guard ends. */
Test(release, r6_a_guarded_master_is_owed_nothing_after_a_quorum_has_deleted)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 10000);
    at_ms(10), release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x18, VOTE_GUARDED);
    reply(OP_RELEASE, 0x03, VOTE_YES);
    at_ms(1010);
    expect_answer(1, ANSWER_RELEASE_PENDING);
    reply(OP_RELEASE, 0x18, VOTE_GUARDED);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 1); /* Too few have deleted it. */
    let_time_pass_until(OP_RELEASE, 600);
    expect_send(OP_RELEASE, 0x1c);
    reply(OP_RELEASE, 0x1c, VOTE_YES);
    token = hold_as("l", .ttl_ms = 10000);
    release(2, "l", token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x18, VOTE_GUARDED);
    reply(OP_RELEASE, 0x07, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    let_time_pass_until(OP_RELEASE, 600);
    expect_send(OP_RELEASE, 0x18);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 1);
    reply(OP_RELEASE, 0x18, VOTE_GUARDED);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 0);
}

Test(release, pending_at_once_where_a_quorum_is_impossible)
{
    begin_five();
    struct token token = hold("k");
    for (uint8_t m = 0; m < 3; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    at_ms(10), release(1, "k", token);
    expect_send(OP_RELEASE, 0x18);
    expect_answer(1, ANSWER_RELEASE_PENDING);
}

Test(release, r6_a_debt_ends_with_the_longest_lease_that_anybody_may_have_asked_for)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    master_is(4, EVENT_MASTER_DOWN, 0);
    at_ms(10), release(1, "k", token);
    expect_send(OP_RELEASE, 0x0f);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
    at_ms(rig.config.max_ttl_ms);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 1);
    at_ms(rig.config.max_ttl_ms + 10);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 0);
    master_is(4, EVENT_MASTER_UP, 1);
    expect_nothing();
}

/* R6: the table is bounded. When it is full, an entry without a debt makes room before an older one
 * that is owed a release. */
Test(release, r6_a_full_table_forgets_entries_without_a_debt_first)
{
    prepare(5);
    rig.config.locks_max = 2;
    begin();
    release(1, "owed", hold("owed"));
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x0f, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
    hold_as("lost", .ttl_ms = 1000);
    at_ms(1000);
    expect_lost(REASON_EXPIRED);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 2);
    release(2, "third", hold("third"));
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    cr_assert_eq(core_stats(rig.core)->debt[0][4], 1);
}

Test(release, r6_a_quorum_is_owed_until_so_many_have_confirmed)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    cr_assert_not(core_owes_quorum(rig.core));
    at_ms(10), release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    at_ms(11), reply(OP_RELEASE, 0x03, VOTE_YES);
    cr_assert(core_owes_quorum(rig.core));
    at_ms(12), reply(OP_RELEASE, 0x04, VOTE_ABSENT);
    cr_assert_not(core_owes_quorum(rig.core));
    reply(OP_RELEASE, 0x18, VOTE_ABSENT); /* All have answered. */
    expect_answer(1, ANSWER_RELEASED);
}

/* Four masters are owed a release, but no lock's release is owed to a quorum. */
Test(release, r6_debts_of_several_locks_do_not_add_up)
{
    begin_five();
    struct token one = hold("one"), two = hold("two");
    release(1, "one", one);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
    release(2, "two", two);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x1c, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    cr_assert_not(core_owes_quorum(rig.core));
}

/* R12, R6: a master that was not needed keeps the number that it gave itself. It still has the key,
 * so this is no release, and no denial either. */
Test(release, r6_a_key_with_another_number_stays_owed)
{
    begin_five();
    struct token token = hold("k");
    struct event_reply other = {.vote = VOTE_MISNUMBERED, .fence = token.fence + 5};
    release(1, "k", token);
    expect_send(OP_RELEASE, ALL);
    reply_with(OP_RELEASE, 0x03, other);
    expect_nothing();
    reply(OP_RELEASE, 0x18, VOTE_YES);
    expect_nothing();
    reply_with(OP_RELEASE, 0x04, other);
    expect_answer(1, ANSWER_RELEASE_PENDING); /* as if these three had not answered */
    for (uint8_t m = 0; m < 5; m++)
        cr_assert_eq(core_stats(rig.core)->debt[0][m], m < 3, "master %u", m);
    reply_with(OP_RELEASE, 0x01, other); /* late */
    at_ms(400);
    expect_nothing(); /* It is asked again no sooner than after silence. */
    let_time_pass_until(OP_RELEASE, 2000);
    expect_send(OP_RELEASE, 0x07);
    reply(OP_RELEASE, 0x07, VOTE_YES);
    cr_assert_eq(core_stats(rig.core)->debt[0][0], 0);
}

Test(release, r10_a_wrong_token_releases_nothing)
{
    begin_five();
    struct token token = hold("k");
    token.random[0] ^= 0x80;
    at_ms(1), release(1, "k", token);
    if (core_stats(rig.core)->requests == 1) {
        expect_send(OP_RELEASE, ALL);
        cr_assert(token_same_random(&rig.sent[OP_RELEASE].token, &token));
        reply(OP_RELEASE, ALL, VOTE_TAKEN);
    }
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    cr_assert(is_listed("k"));
}

/* C4: a master that does not answer may have it. Without its word too few deny. */
Test(release, c4_a_strangers_delete_waits_for_who_can_still_deny)
{
    static const struct token nobodys = {.random = {1, 2, 3, 4, 5}, .fence = 1699999999000000};
    begin_five();
    at_ms(0), release(1, "k", nobodys);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x07, VOTE_UNKNOWN);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    release(2, "l", nobodys);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x01, VOTE_UNKNOWN);
    reply(OP_RELEASE, 0x06, VOTE_ABSENT);
    reply(OP_RELEASE, 0x08, VOTE_UNKNOWN);
    expect_nothing(); /* no quorum can have it any more, and one more may deny it */
    reply(OP_RELEASE, 0x10, VOTE_ABSENT);
    expect_answer(2, ANSWER_NOT_HELD);
}

/* ---- adoption: D3 ---------------------------------------------------------------------------- */

static const struct token old_token = {.random = {1, 2, 3, 4, 5}, .fence = 1699999999000000};

Test(adoption, goes_on_where_a_quorum_stores_token_and_number)
{
    begin_five();
    at_ms(0), renew_as(1, "k", old_token, .ttl_ms = 2000);
    expect_send(OP_ADOPT, ALL);
    cr_assert_eq(rig.sent[OP_ADOPT].token.fence, old_token.fence);
    at_ms(1), reply(OP_ADOPT, 0x13, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert(rig.answer.adopted);
    cr_assert(rig.answer.continuous);
    cr_assert_eq(rig.answer.hold.renew, RENEW_CALLER);
    cr_assert_eq(rig.answer.hold.token.fence, old_token.fence);
    cr_assert_eq(valid_until_us(), 2000000 - 22000);
    reply(OP_ADOPT, 0x0c, VOTE_ABSENT);
    rig.count = 0;
    at_ms(1001),
        renew(2, "k",
              /* The keys of 2 and 3 may have been released elsewhere. This PUT shows that they were
               * not. */
              old_token);
    expect_renewal(0x13, 0x0c);
    reply(OP_RESUME, 0x0c, VOTE_ABSENT);
    reply(OP_RENEW, 0x13, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    renew(2, "k", old_token);
    expect_send(OP_RENEW, 0x13);
    expect_send(OP_REPAIR, 0x0c);
    expect_nothing();
}

/* C12: the masters confirmed the adoption before a DELETE at another agent. That one was answered
 * before the second PUT came. */
Test(adoption, d3_a_put_that_joins_is_answered_by_a_further_round)
{
    begin_five();
    renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    at_ms(5), renew(2, "k", old_token);
    reply(OP_ADOPT, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    expect_renewal(0x07, 0x18);
    expect_nothing();
    reply(OP_RENEW, 0x07, VOTE_ABSENT);
    expect_answer(2, ANSWER_LOCK_LOST);
}

/* D3.4: a PUT that comes while the adoption is in flight has its own terms, by a further round. */
Test(adoption, d3_a_put_that_joins_has_its_own_terms)
{
    for (int i = 0; i < 3; i++) { /* another ttl, another renew, both */
        uint32_t ttl_ms = i == 1 ? 0 : 30000;
        enum renew by = i == 0 ? RENEW_UNSET : RENEW_AGENT;
        begin_five();
        renew_as(1, "k", old_token, .ttl_ms = 2000, .renew = RENEW_CALLER);
        expect_send(OP_ADOPT, ALL);
        renew_as(2, "k", old_token, .ttl_ms = 2000);
        renew_as(3, "k", old_token, .ttl_ms = ttl_ms, .renew = by);
        at_ms(5), reply(OP_ADOPT, 0x07, VOTE_YES);
        expect_answer(1, ANSWER_RENEWED);
        cr_assert_eq(rig.answer.hold.ttl_ms, 2000);
        expect_renewal(0x07, 0x18); /* The others have not answered yet. */
        cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, i == 1 ? 2000 : 30000);
        expect_nothing();
        reply(OP_RENEW, 0x07, VOTE_YES);
        expect_answer(2, ANSWER_RENEWED);
        expect_answer(3, ANSWER_RENEWED);
        cr_assert_eq(rig.answer.hold.ttl_ms, i == 1 ? 2000 : 30000);
        cr_assert_eq(rig.answer.hold.renew, i == 0 ? RENEW_CALLER : RENEW_AGENT);
        at_ms(2500);
        cr_assert_eq(is_listed("k"), i != 1, "the watchdog of the second one has no answer");
    }
}

Test(adoption, another_number_means_that_somebody_held_it_in_between)
{
    begin_five();
    at_ms(0), renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x03, VOTE_YES);
    reply_with(OP_ADOPT, 0x1c,
               (struct event_reply){
                   .vote = VOTE_MISNUMBERED, .fence = old_token.fence + 9, .occupant.left_ms = -1});
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    cr_assert_not(is_listed("k"));
}

Test(adoption, answers_what_the_masters_say)
{
    begin_five();
    at_ms(0), renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_ABSENT);
    expect_answer(1, ANSWER_NOT_HELD);
    renew(2, "l", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_TAKEN);
    expect_answer(2, ANSWER_TOKEN_MISMATCH);
    renew(3, "m", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_UNKNOWN);
    expect_answer(3, ANSWER_QUORUM_UNAVAILABLE);
}

/* C4: a master that does not answer may have it. */
Test(adoption, c4_a_token_is_called_wrong_only_where_no_quorum_can_have_it)
{
    begin_five();
    at_ms(0), renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x03, VOTE_ABSENT);
    reply(OP_ADOPT, 0x04, VOTE_UNKNOWN);
    expect_nothing(); /* one more may deny it */
    reply(OP_ADOPT, 0x08, VOTE_ABSENT);
    expect_answer(1, ANSWER_NOT_HELD);
    renew(2, "l", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x03, VOTE_ABSENT);
    reply(OP_ADOPT, 0x04, VOTE_UNKNOWN);
    reply(OP_ADOPT, 0x08, VOTE_YES);
    expect_nothing();
    reply(OP_ADOPT, 0x10, VOTE_YES);
    expect_answer(2, ANSWER_QUORUM_UNAVAILABLE);
    renew(3, "m", old_token);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x01, VOTE_TAKEN);
    reply(OP_ADOPT, 0x06, VOTE_UNKNOWN);
    reply(OP_ADOPT, 0x18, VOTE_YES);
    expect_answer(3, ANSWER_QUORUM_UNAVAILABLE);
}

Test(adoption, c4_a_release_calls_a_token_wrong_only_where_no_quorum_can_have_it)
{
    begin_five();
    at_ms(0), release(1, "k", old_token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x03, VOTE_ABSENT);
    reply(OP_RELEASE, 0x04, VOTE_UNKNOWN);
    reply(OP_RELEASE, 0x18, VOTE_YES);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
}

Test(adoption, a_release_by_an_old_token_reaches_every_master)
{
    begin_five();
    at_ms(0), release(1, "k", old_token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x15, VOTE_YES);
    reply(OP_RELEASE, 0x0a, VOTE_ABSENT);
    expect_answer(1, ANSWER_RELEASED);
    release(2, "k", old_token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_ABSENT);
    expect_answer(2, ANSWER_NOT_HELD);
}

/* The masters confirm the adoption before they delete the key. Another caller may have it when
 * their replies arrive. */
Test(adoption, a_release_of_the_same_token_ends_it)
{
    begin_five();
    at_ms(0), renew(1, "k", old_token);
    expect_send(OP_ADOPT, ALL);
    release(2, "k", old_token);
    expect_answer(1, ANSWER_NOT_HELD);
    expect_send(OP_RELEASE, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_nothing();
    cr_assert_not(is_listed("k"));
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
}

/* ---- once found by the simulator ------------------------------------------------------------- */

Test(found, an_adopted_hold_that_expired_released_what_an_earlier_agent_had_promised)
{
    begin_five();
    /* The token was granted for longer, before the restart. */
    at_ms(0), renew_as(1, "k", old_token, .ttl_ms = 2000);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_us(1978000);
    expect_lost(REASON_EXPIRED);
    at_ms(9000);
    expect_nothing();
}

Test(found, a_put_behind_a_delete_with_the_same_strange_token_was_answered_without_the_masters)
{
    begin_five();
    at_ms(0), release(1, "k", old_token);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, 0x07, VOTE_TAKEN);
    expect_answer(1, ANSWER_TOKEN_MISMATCH);
    renew(2, "k", old_token); /* while two masters have not answered the release yet */
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x07, VOTE_TAKEN);
    expect_answer(2, ANSWER_TOKEN_MISMATCH);
}

Test(found, a_lease_given_to_the_watchdog_in_its_last_moment_was_lost_at_once)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 1000);
    /* the margin of a watchdog's hold has begun 72 ms ago */
    at_ms(960), renew_as(1, "k", token, .renew = RENEW_AGENT);
    expect_send(OP_RENEW, ALL);
    at_ms(970);
    expect_nothing();
    reply(OP_RENEW, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(rig.answer.hold.renew, RENEW_AGENT);
    cr_assert_eq(valid_until_us(), 960000 + 988000);
}

Test(found, the_agents_end_released_a_lost_lock_within_its_validity)
{
    begin_five();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    for (uint8_t m = 0; m < 3; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    at_ms(2668);
    expect_lost(REASON_QUORUM_LOST);
    rig.count = 0;
    at_ms(2700), step((struct event){.kind = EVENT_END});
    at_us(2967999);
    expect_nothing();
}

/* D8.2: an agent that ends and releases does not wait for the end of a lost hold. */
Test(found, the_agents_end_releases_what_is_lost_too)
{
    begin_five();
    hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    for (uint8_t m = 0; m < 3; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    at_ms(2668);
    expect_lost(REASON_QUORUM_LOST);
    rig.count = 0;
    at_ms(2700), step((struct event){.kind = EVENT_END, .end.release = true});
    at_ms(2702);
    expect_send(OP_RELEASE, 0x18);
}

Test(found, a_second_copy_of_an_old_denial_took_the_lock)
{
    begin_five();
    at_ms(0), acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    struct token token = rig.answer.hold.token;
    reply(OP_ACQUIRE, 0x18, VOTE_REFUSED);
    at_ms(1000), renew(1, "k", token);
    expect_send(OP_RENEW, 0x07);
    expect_send(OP_REPAIR, 0x18);
    struct lock_ref old = rig.sent[OP_REPAIR].ref;
    reply(OP_REPAIR, 0x18, VOTE_TAKEN); /* a dead holder's keys */
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_ms(2000), renew(1, "k", token);
    expect_send(OP_RENEW, 0x07);
    expect_send(OP_REPAIR, 0x18);
    reply(OP_REPAIR, 0x18, VOTE_REPAIRED);
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    at_ms(3000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x1e, VOTE_YES);
    reply(OP_RENEW, 0x01, VOTE_ABSENT); /* one of five denies it */
    expect_answer(1, ANSWER_RENEWED);
    at_ms(3001), rig.sent[OP_REPAIR].ref = old, reply(OP_REPAIR, 0x18, VOTE_TAKEN);
    expect_nothing();
    cr_assert(is_listed("k"));
}

/* ---- read ------------------------------------------------------------------------------------ */

Test(read, says_held_free_or_unknown_per_master)
{
    begin_five();
    at_ms(0), read_key(1, "k");
    expect_send(OP_READ, ALL);
    reply_with(OP_READ, 0x07,
               (struct event_reply){.vote = VOTE_YES,
                                    .occupant = {.left_ms = 500, .label = text("other")}});
    reply(OP_READ, 0x08, VOTE_ABSENT);
    reply(OP_READ, 0x10, VOTE_REFUSED);
    expect_answer(1, ANSWER_STATE);
    cr_assert_eq(rig.answer.state, KEY_HELD);
    cr_assert_not(rig.answer.local);
    cr_assert_eq(rig.answer.occupant.label.len, 5);

    read_key(2, "l");
    expect_send(OP_READ, ALL);
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_answer(2, ANSWER_STATE);
    cr_assert_eq(rig.answer.state, KEY_FREE);

    read_key(3, "m");
    expect_send(OP_READ, ALL);
    reply(OP_READ, 0x07, VOTE_UNKNOWN);
    at_ms(1000);
    expect_answer(3, ANSWER_STATE);
    cr_assert_eq(rig.answer.state, KEY_UNKNOWN);
}

/* R2: two of four masters have the key. They are no quorum, but the others are none either. */
Test(read, is_held_where_two_of_four_have_the_key)
{
    prepare(4);
    begin();
    read_key(1, "k");
    expect_send(OP_READ, 0x0f);
    reply(OP_READ, 0x03, VOTE_YES);
    reply(OP_READ, 0x04, VOTE_ABSENT);
    reply(OP_READ, 0x08, VOTE_REFUSED);
    expect_answer(1, ANSWER_STATE);
    cr_assert_eq(rig.answer.state, KEY_HELD);
}

static enum key_state read_with(uint8_t masters, uint8_t have, uint8_t lack)
{
    const master_set all = (master_set)((1u << masters) - 1), has = (master_set)((1u << have) - 1),
                     known = (master_set)((1u << (have + lack)) - 1);
    prepare(masters);
    begin();
    read_key(1, "k");
    expect_send(OP_READ, all);
    reply(OP_READ, has, VOTE_YES);
    reply(OP_READ, known & (master_set)~has, VOTE_ABSENT);
    reply(OP_READ, all & (master_set)~known, VOTE_REFUSED);
    expect_answer(1, ANSWER_STATE);
    return rig.answer.state;
}

/* Free: a quorum has no key. Held: masters without the key, and masters without an answer, do not
 * count. */
Test(read, every_count_of_masters_that_have_the_key)
{
    for (uint8_t masters = 1; masters <= 5; masters++) {
        for (uint8_t have = 0; have <= masters; have++) {
            for (uint8_t lack = 0; lack <= masters - have; lack++) {
                const int quorum = masters / 2 + 1;
                const enum key_state state = lack >= quorum            ? KEY_FREE
                                             : masters - have < quorum ? KEY_HELD
                                                                       : KEY_UNKNOWN;
                cr_expect_eq(read_with(masters, have, lack), state, "%d masters: %d have, %d lack",
                             masters, have, lack);
            }
        }
    }
}

/* ---- a late clock: R14 ----------------------------------------------------------------------- */

Test(stall, r14_first_observe_then_act)
{
    begin_five();
    struct token token = hold_as("k", .ttl_ms = 3000, .renew = RENEW_AGENT);
    stalled_until_ms(5000), renew(1, "k", token);
    expect_trace(TRACE_STALLED);
    expect_trace(TRACE_LOST);
    cr_assert(rig.trace.reason == REASON_STALLED || rig.trace.reason == REASON_QUORUM_LOST);
    expect_send(OP_RELEASE, ALL);
    expect_send(OP_ADOPT, ALL); /* it may be another agent's by now (D3) */
    reply(OP_ADOPT, ALL, VOTE_ABSENT);
    expect_answer(1, ANSWER_LOCK_LOST);
    cr_assert_not(is_listed("k"));
}

Test(stall, r14_votes_that_were_read_late_are_unknown)
{
    begin_five();
    at_ms(0), acquire_as(1, "k", .ttl_ms = 1000);
    expect_send(OP_ACQUIRE, ALL);
    stalled_until_ms(2000), reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
    expect_send(OP_RELEASE, ALL);
    cr_assert_not(is_listed("k"));
}

/* ---- abundance ------------------------------------------------------------------------------- */

Test(abundance, thousands_that_expire_together_come_out_in_turns)
{
    enum { MANY = 2000 };
    prepare(5);
    rig.config.locks_max = MANY;
    begin();
    for (int i = 0; i < MANY; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        hold_as(key, .ttl_ms = 1000);
    }
    cr_assert_eq(core_stats(rig.core)->locks_held, MANY);
    rig.now_us = 1000000;
    size_t lost = 0, items = 0, turns = 0;
    struct event event = {.kind = EVENT_TIME, .now = {rig.epoch_us + rig.now_us}};
    for (bool taken = false; !taken; turns++) {
        taken = core_step(rig.core, &event, rig.effects);
        for (size_t i = 0; i < rig.effects->count; i++) {
            const struct effect *effect = &rig.effects->list[i];
            lost += effect->kind == EFFECT_TRACE && effect->trace.kind == TRACE_LOST;
            items += effect->kind == EFFECT_SEND && effect->send.op == OP_RELEASE
                         ? effect->send.count
                         : 0;
            if (effect->kind == EFFECT_SEND)
                cr_assert_leq(effect->send.count, LIMIT_BATCH);
        }
        cr_assert_lt(turns, 1000);
    }
    for (; (core_next_deadline(rig.core).us <= event.now.us || core_awaits_flush(rig.core)) &&
           turns < 2000;
         turns++) {
        event.kind = event.kind == EVENT_TIME ? EVENT_FLUSH : EVENT_TIME;
        (void)!core_step(rig.core, &event, rig.effects);
        for (size_t i = 0; i < rig.effects->count; i++) {
            const struct effect *effect = &rig.effects->list[i];
            lost += effect->kind == EFFECT_TRACE && effect->trace.kind == TRACE_LOST;
            items += effect->kind == EFFECT_SEND && effect->send.op == OP_RELEASE
                         ? effect->send.count
                         : 0;
        }
    }
    cr_assert_gt(turns, MANY / LIMIT_EFFECTS);
    cr_assert_eq(lost, MANY, "%zu of %d were said to be lost", lost, MANY);
    cr_assert_eq(items, MANY, "%zu of %d were released", items, MANY);
    cr_assert_eq(core_stats(rig.core)->locks_held, 0);
}

/* A master that is stopped is owed a release per grant; none may be mistaken for another. */
Test(abundance, each_of_many_tokens_of_one_key_is_known_as_its_own)
{
    enum { MANY = 300 };
    static struct token tokens[MANY];
    prepare(5);
    rig.config.locks_max = MANY;
    begin();
    for (int i = 0; i < MANY; i++) {
        tokens[i] = hold_as("k", .ttl_ms = 60000);
        release(1, "k", tokens[i]);
        expect_send(OP_RELEASE, ALL);
        reply(OP_RELEASE, i % 2 == 0 ? 0x07 : 0x03, VOTE_YES);
        if (i % 2 != 0)
            reply(OP_RELEASE, 0x1c, VOTE_UNKNOWN);
        expect_answer(1, i % 2 == 0 ? ANSWER_RELEASED : ANSWER_RELEASE_PENDING);
        rig.count = 0;
    }
    cr_assert_eq(core_stats(rig.core)->debt[0][4], MANY);
    for (int i = MANY - 1; i >= 0; i--) {
        release(1, "k", tokens[i]);
        expect_answer(1, i % 2 == 0 ? ANSWER_NOT_HELD : ANSWER_RELEASE_PENDING);
    }
    release(1, "other", tokens[0]); /* the token does not belong to this key */
    expect_send(OP_RELEASE, ALL);
}

/* Counts the locks in the commands of one kind that were sent since rig.count was 0. Writes the
 * number of commands to `ret_commands`. */
static size_t count_items(enum op op, size_t *ret_commands)
{
    size_t items = 0;
    *ret_commands = 0;
    for (size_t i = 0; i < rig.count; i++) {
        const struct effect *effect = &rig.records[i].effect;
        if (effect->kind != EFFECT_SEND || effect->send.op != op)
            continue;
        cr_assert_leq(effect->send.count, LIMIT_BATCH);
        items += effect->send.count;
        ++*ret_commands;
    }
    return items;
}

static void hold_many(int many, uint32_t ttl_ms)
{
    prepare(5);
    rig.config.locks_max = (uint32_t)many;
    begin();
    for (int i = 0; i < many; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        hold_as(key, .ttl_ms = ttl_ms, .renew = RENEW_AGENT);
    }
    rig.count = 0;
}

Test(abundance, r8_renewals_that_are_late_are_not_put_off_and_share_commands)
{
    enum { MANY = 500 };
    size_t commands;
    hold_many(MANY, 3000);
    stalled_until_ms(1050); /* every one is late by now */
    step((struct event){.kind = EVENT_TIME});
    cr_assert_eq(count_items(OP_RENEW, &commands), MANY);
    cr_assert_leq(commands, MANY / LIMIT_BATCH + 1);
}

/* One event may take several steps: the agent was stopped during all of them. */
Test(abundance, r14_all_that_a_stall_has_ended_is_called_stalled)
{
    enum { MANY = 400 };
    unsigned stalled = 0;
    hold_many(MANY, 3000);
    stalled_until_ms(2800); /* all are lost by now, and still valid */
    step((struct event){.kind = EVENT_TIME});
    cr_assert_gt(rig.turns, 1, "one step has no room for so many");
    for (size_t i = 0; i < rig.count; i++) {
        const struct effect *effect = &rig.records[i].effect;
        if (effect->kind != EFFECT_TRACE || effect->trace.kind != TRACE_LOST)
            continue;
        cr_assert_eq(effect->trace.reason, REASON_STALLED, "number %u is lost by %s", stalled,
                     reason_name(effect->trace.reason));
        stalled++;
    }
    cr_assert_eq(stalled, MANY);
}

/* The table of keys refuses no request. Each lock and each request has a key of its own here, and
 * all end in the step that brings one more. */
Test(abundance, there_is_a_key_for_every_lock_and_every_request)
{
    enum { LOCKS = 2, REQUESTS = 4 };
    static const char *const names[] = {"a", "b", "c", "d"}, *const asked[] = {"e", "f", "g"};
    prepare(5);
    rig.config.locks_max = LOCKS;
    rig.config.requests_max = REQUESTS;
    begin();
    for (int i = 0; i < 2 * LOCKS; i++) {
        acquire_as(0, names[i], .ttl_ms = 1000);
        expect_send(OP_ACQUIRE, ALL);
        reply(OP_ACQUIRE, ALL, VOTE_YES);
        expect_answer(0, ANSWER_GRANTED);
        if (i >= LOCKS)
            continue;
        release(1, names[i], rig.answer.hold.token);
        expect_send(OP_RELEASE, ALL);
        reply(OP_RELEASE, 0x07, VOTE_YES); /* the others owe it until the lease has run out */
        expect_answer(1, ANSWER_RELEASED);
    }
    cr_assert_eq(core_stats(rig.core)->locks_tracked, 2 * LOCKS);
    for (uint32_t i = 0; i < REQUESTS - 1; i++)
        read_key(i, asked[i]);
    stalled_until_ms(2000), read_key(REQUESTS - 1, "h");
    for (uint32_t i = 0; i < REQUESTS - 1; i++)
        expect_answer(i, ANSWER_STATE);
    at_ms(3000);
    expect_answer(REQUESTS - 1, ANSWER_STATE);
}

/* Many renewals are sent as one call at a time, filled up with those that are nearly due. Nothing
 * begins with another event, and all has begun when a third of the ttl is over. */
Test(abundance, r8_renewals_come_one_call_at_a_time)
{
    enum { MANY = 2000, TTL_MS = 30000 };
    size_t commands, items = 0, calls = 0;
    hold_many(MANY, TTL_MS);
    while (items < MANY) {
        int64_t due_us = core_next_deadline(rig.core).us - rig.epoch_us;
        cr_assert_leq(due_us, TTL_MS * 1000 / 3);
        rig.now_us = due_us > rig.now_us ? due_us : rig.now_us;
        rig.count = 0;
        read_key(1, "free");
        cr_assert_eq(count_items(OP_RENEW, &commands), 0);
        cancel(1);
        rig.count = 0;
        step((struct event){.kind = EVENT_TIME});
        items += count_items(OP_RENEW, &commands);
        cr_assert(commands == 1 && rig.now_us > TTL_MS * 1000 / 4);
        calls++;
    }
    cr_assert_leq(calls, MANY / LIMIT_BATCH + 8, "%zu calls", calls);
    cr_assert_eq(core_stats(rig.core)->locks_held, MANY);
}

/* If more renewals are due than calls are sent, the rest still begins within a third of the ttl, or
 * in the next iteration of the loop. */
Test(abundance, r8_what_is_put_off_is_not_late)
{
    enum { MANY = 2000, TTL_MS = 30000, TURN_US = 40000 };
    size_t commands, items = 0;
    hold_many(MANY, TTL_MS);
    rig.now_us = core_next_deadline(rig.core).us - rig.epoch_us;
    for (; items < MANY; rig.now_us += TURN_US) {
        rig.count = 0;
        step((struct event){.kind = EVENT_TIME});
        items += count_items(OP_RENEW, &commands);
        cr_assert_leq(rig.now_us, TTL_MS * 1000 / 3 + TURN_US);
    }
}

/* D9: no hold of 100,000 keeps the memory of its attempt or its contention. */
Test(abundance, d9_a_hold_has_what_a_hold_needs_alone)
{
    enum { MANY = 2000, TTL_MS = 30000 };
    hold_many(MANY, TTL_MS);
    step((struct event){.kind = EVENT_TIME});
    cr_assert_eq(rig.core->stats.locks_held, MANY);
    cr_assert_eq(rig.core->pending.taken, 0);
    cr_assert_eq(rig.core->contentions.taken, 0);
    cr_assert_lt(rig.core->lock_bytes + sizeof(struct key), 450);
}
