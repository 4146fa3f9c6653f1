/* Semaphores: one slot after the other is asked for, until one is free or none can be (R20). */
#include "core_rig.h"

enum { FIRST = 0x07 }; /* a quorum of five */

static void begin_with(uint32_t permits)
{
    prepare(5);
    rig.policy.form = FORM_SLOTS;
    rig.policy.permits = permits;
    rig.policy.handover_max = 4;
    begin();
}

static unsigned slot_sent(enum op op)
{
    return rig.sent[op].token.slot;
}

/* Lets a quorum refuse the slot that was asked for. It reports the taken slots. */
static void refuse(slot_set taken, int64_t pttl_ms)
{
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, FIRST,
               (struct event_reply){
                   .vote = VOTE_TAKEN,
                   .occupant = {.left_ms = pttl_ms, .taken = taken, .label = text("other")}});
}

/* Lets these masters publish that a slot of "k" is free. */
static void hear_released(unsigned slot, master_set masters, uint32_t agents)
{
    for (uint8_t m = 0; m < 5; m++) {
        struct event event = {.kind = EVENT_MESSAGE};
        event.channel = (struct event_channel){.master = m,
                                               .key = text("k"),
                                               .agents = agents,
                                               .slot = (uint8_t)slot,
                                               .has_slot = true};
        if (masters >> m & 1)
            step(event);
    }
}

static struct token grant(uint32_t request)
{
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(request, ANSWER_GRANTED);
    return rig.answer.hold.token;
}

Test(slots, r20_a_grant_names_its_slot_and_how_many_there_are)
{
    begin_with(3);
    acquire(1, "k");
    struct token token = grant(1);
    cr_assert(token.has_slot && token.slot < 3);
    cr_assert_eq(rig.answer.hold.permits, 3);
    cr_assert_eq(rig.sent[OP_ACQUIRE].permits, 3);
    expect_trace(TRACE_GRANTED);
    cr_assert_eq(rig.trace.attempts, 1);
    cr_assert_eq(rig.trace.slot, token.slot);
}

Test(slots, r20_all_permits_are_had_here_at_once_and_no_more)
{
    struct token tokens[3];
    slot_set slots = 0;
    begin_with(3);
    for (uint32_t i = 0; i < 3; i++) {
        acquire(1, "k");
        tokens[i] = grant(1);
        slots |= (slot_set)1 << tokens[i].slot;
    }
    cr_assert_eq(slots, 7, "each has a slot of its own");
    acquire(1, "k");
    expect_answer(1, ANSWER_LOCK_HELD); /* no master is asked */
    cr_assert_gt(rig.answer.occupant.left_ms, 0);
    release(2, "k", tokens[1]);
    expect_send(OP_RELEASE, ALL);
    cr_assert_eq(rig.sent[OP_RELEASE].token.slot, tokens[1].slot);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    acquire(1, "k");
    cr_assert_eq(grant(1).slot, tokens[1].slot, "the one that is not had here");
}

/* R20: a refused caller may try again when the first of the holds here ends. */
Test(slots, r20_retry_after_is_that_of_the_first_hold_to_end)
{
    begin_with(2);
    at_ms(0), acquire(1, "k");
    const struct instant first_end = (grant(1), rig.answer.hold.valid_until);
    at_ms(4000), acquire(1, "k");
    grant(1);
    cr_assert(instant_before(first_end, rig.answer.hold.valid_until));
    at_ms(5000), acquire(1, "k");
    expect_answer(1, ANSWER_LOCK_HELD);
    const int64_t left_ms =
        instant_us_between((struct instant){rig.epoch_us + rig.now_us}, first_end) / 1000;
    cr_assert(rig.answer.occupant.left_ms >= left_ms &&
                  rig.answer.occupant.left_ms < left_ms + 1500,
              "%lld, and the first one ends in %lld", (long long)rig.answer.occupant.left_ms,
              (long long)left_ms);
}

Test(slots, r20_the_next_attempt_is_at_a_slot_that_a_quorum_calls_free)
{
    begin_with(8);
    acquire(1, "k");
    refuse(/* taken= */ 0xff ^ 0x10, 700);
    cr_assert_neq(slot_sent(OP_ACQUIRE), 4, "with this seed");
    expect_send(OP_RELEASE, 0x18); /* all masters that have not refused (R5) */
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(slot_sent(OP_ACQUIRE), 4);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    expect_trace(TRACE_GRANTED);
    cr_assert_eq(rig.trace.attempts, 2);
}

/* The other slot is taken on two masters. The three that have not replied may still be a quorum. */
Test(slots, r20_what_fewer_than_a_quorum_call_taken_is_tried_all_the_same)
{
    begin_with(2);
    acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    unsigned asked = slot_sent(OP_ACQUIRE);
    reply_with(
        OP_ACQUIRE, 0x03,
        (struct event_reply){.vote = VOTE_TAKEN,
                             .occupant = {.left_ms = 700, .taken = 0x3, .label = text("other")}});
    reply_with(
        OP_ACQUIRE, 0x04,
        (struct event_reply){
            .vote = VOTE_TAKEN,
            .occupant = {.left_ms = 700, .taken = (slot_set)1 << asked, .label = text("other")}});
    expect_send(OP_RELEASE, 0x18);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(slot_sent(OP_ACQUIRE), 1 - asked);
    reply(OP_ACQUIRE, 0x1c, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
}

/* R20: the third slot was taken when the first attempt was refused. It is free when the second
 * one is refused. */
Test(slots, r20_what_masters_say_last_of_the_slots_counts)
{
    begin_with(3);
    acquire(1, "k");
    expect_send(OP_ACQUIRE, ALL);
    unsigned first = slot_sent(OP_ACQUIRE), second = (first + 1) % 3, third = (first + 2) % 3;
    struct event_reply held = {.vote = VOTE_TAKEN,
                               .occupant = {.left_ms = 700, .label = text("other")}};
    held.occupant.taken = 0x7 & ~((slot_set)1 << second);
    reply_with(OP_ACQUIRE, FIRST, held);
    expect_send(OP_RELEASE, 0x18);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(slot_sent(OP_ACQUIRE), second);
    held.occupant.taken = 0x7 & ~((slot_set)1 << third);
    reply_with(OP_ACQUIRE, FIRST, held);
    expect_send(OP_RELEASE, 0x18);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(slot_sent(OP_ACQUIRE), third);
}

Test(slots, r20_where_none_can_be_free_one_refusal_is_enough)
{
    begin_with(8);
    acquire(1, "k");
    refuse(0xff, 450);
    expect_send(OP_RELEASE, 0x18);
    expect_answer(1, ANSWER_LOCK_HELD);
    cr_assert_eq(rig.answer.occupant.left_ms, 450, "the least that is left of any slot");
    expect_nothing();
}

Test(slots, r20_each_slot_is_tried_once_where_masters_say_nothing_of_the_others)
{
    slot_set tried = 0;
    begin_with(4);
    acquire(1, "k");
    for (unsigned i = 0; i < 4; i++) {
        refuse(/* taken= */ 0, 700);
        slot_set slot = (slot_set)1 << slot_sent(OP_ACQUIRE);
        cr_assert_eq(tried & slot, 0, "slot %u is tried twice", slot_sent(OP_ACQUIRE));
        tried |= slot;
        expect_send(OP_RELEASE, 0x18);
    }
    cr_assert_eq(tried, 15);
    expect_answer(1, ANSWER_LOCK_HELD);
    expect_nothing();
}

Test(slots, r20_a_release_hands_its_slot_to_the_next_who_waits_here)
{
    begin_with(2);
    acquire(1, "k");
    struct token first = grant(1);
    acquire(1, "k");
    struct token second = grant(1);
    acquire_as(3, "k", .wait_ms = 10000);
    acquire_as(4, "k", .wait_ms = 10000);
    expect_nothing();
    release(1, "k", second);
    expect_send(OP_HANDOVER, ALL);
    cr_assert_eq(rig.sent[OP_HANDOVER].token.slot, second.slot);
    struct send_item to_third = rig.sent[OP_HANDOVER];
    release(2, "k", first); /* while that is in flight: to the next one */
    expect_send(OP_HANDOVER, ALL);
    cr_assert_eq(rig.sent[OP_HANDOVER].token.slot, first.slot);
    reply(OP_HANDOVER, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    expect_answer(4, ANSWER_GRANTED);
    rig.sent[OP_HANDOVER] = to_third;
    reply(OP_HANDOVER, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
    expect_answer(3, ANSWER_GRANTED);
}

Test(slots, r20_who_comes_together_gets_a_slot_each)
{
    begin_with(3);
    for (uint32_t i = 1; i <= 4; i++)
        acquire(i, "k");
    for (uint32_t i = 1; i <= 3; i++)
        grant(i);
    expect_answer(4, ANSWER_LOCK_HELD);
    expect_nothing();
}

Test(slots, r20_a_message_during_a_search_is_not_forgotten)
{
    begin_with(2);
    acquire_as(1, "k", .wait_ms = 10000);
    refuse(/* taken= */ 0, 5000);
    unsigned tried = slot_sent(OP_ACQUIRE);
    struct event event = {.kind = EVENT_SUBSCRIBED};
    expect_send(OP_RELEASE, 0x18);
    refuse(3, 5000);
    cr_assert_neq(slot_sent(OP_ACQUIRE), tried);
    expect_send(OP_RELEASE, 0x18);
    for (uint8_t m = 0; m < 3; m++) {
        event.channel = (struct event_channel){.master = m, .key = text("k")};
        step(event);
    }
    at_ms(1);
    refuse(/* taken= */ 0, 5000); /* a quorum of subscriptions: tried once more (R9) */
    expect_send(OP_RELEASE, 0x18);
    expect_send(OP_ACQUIRE, ALL); /* the second attempt of that search */
    hear_released(0, FIRST, 1);
    reply_with(OP_ACQUIRE, FIRST,
               (struct event_reply){.vote = VOTE_TAKEN, .occupant = {.left_ms = 5000, .taken = 3}});
    expect_send(OP_RELEASE, 0x18);
    at_ms(2);
    expect_send(OP_ACQUIRE, ALL); /* one of them was released meanwhile */
}

/* A quorum refuses slot after slot, and a slot that a master granted is undone. A minority tells of
 * each slot, and a quorum of both together. */
Test(slots, r9_what_a_search_undoes_wakes_it_as_little_as_an_attempt)
{
    begin_with(2);
    acquire_as(1, "k", .wait_ms = 10000);
    refuse(/* taken= */ 0, 5000);
    unsigned first = slot_sent(OP_ACQUIRE);
    expect_send(OP_RELEASE, 0x18);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x1c,
               (struct event_reply){.vote = VOTE_TAKEN, .occupant = {.left_ms = 5000, .taken = 3}});
    expect_send(OP_RELEASE, 0x03);
    expect_channel(EFFECT_WATCH);
    hear_released(first, 0x18, 1);
    hear_released(1 - first, 0x03, 1);
    hear_released(1 - first, 0x01, 1); /* an older one, late */
    at_ms(20);
    expect_nothing();
    hear_released(first, 0x01, 1);
    at_ms(21);
    expect_send(OP_ACQUIRE, ALL); /* a quorum told of the same slot */
}

Test(slots, r9_a_message_of_no_slot_or_of_one_that_is_not_wakes_nobody)
{
    begin_with(2);
    acquire_as(1, "k", .wait_ms = 10000);
    refuse(/* taken= */ 3, 5000);
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    channel("k", EVENT_MESSAGE, ALL, 1);
    hear_released(2, ALL, 1);
    at_ms(20);
    expect_nothing();
}

/* Hands over one slot. The other one was held elsewhere, and a message about it comes. */
static void expect_search_beside_hand_over(enum event_kind last_heard)
{
    begin_with(2);
    acquire(1, "k");
    struct token here = grant(1);
    acquire_as(3, "k", .wait_ms = 10000);
    refuse(/* taken= */ 3, 5000);
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    if (last_heard == EVENT_MESSAGE) {
        channel("k", EVENT_SUBSCRIBED, ALL, 0);
        refuse(/* taken= */ 3, 5000);
        expect_send(OP_RELEASE, 0x18);
    }
    acquire_as(4, "k", .wait_ms = 10000);
    release(2, "k", here);
    expect_send(OP_HANDOVER, ALL);
    if (last_heard == EVENT_MESSAGE)
        hear_released(1u - here.slot, ALL, 1);
    else
        channel("k", last_heard, ALL, 1);
    reply(OP_HANDOVER, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    expect_answer(3, ANSWER_GRANTED);
    at_ms(1);
    cr_assert_neq(grant(4).slot, here.slot);
}

Test(slots, r20_a_message_during_a_hand_over_is_not_forgotten)
{
    expect_search_beside_hand_over(EVENT_MESSAGE);
}

Test(slots, r20_a_subscription_during_a_hand_over_is_not_forgotten)
{
    expect_search_beside_hand_over(EVENT_SUBSCRIBED);
}

Test(slots, r20_a_token_with_another_slot_or_none_is_not_the_hold_s)
{
    begin_with(4);
    acquire(1, "k");
    struct token token = grant(1), other = token;
    other.slot = 1 - token.slot;
    renew(2, "k", other);
    expect_send(OP_ADOPT, ALL); /* that slot's key is asked for */
    cr_assert_eq(rig.sent[OP_ADOPT].token.slot, other.slot);
    reply(OP_ADOPT, ALL, VOTE_ABSENT);
    expect_answer(2, ANSWER_NOT_HELD);
    other.has_slot = false, other.slot = 0;
    renew(2, "k", other);
    expect_answer(2, ANSWER_NOT_HELD);
    release(2, "k", other);
    expect_answer(2, ANSWER_NOT_HELD);
    renew(2, "k", token);
    expect_send(OP_RENEW, ALL);
    expect_nothing();
}

Test(slots, r20_a_mutex_takes_no_token_with_a_slot)
{
    begin_five();
    acquire(1, "k");
    struct token token = grant(1);
    cr_assert_not(token.has_slot);
    token.has_slot = true;
    release(2, "k", token);
    expect_answer(2, ANSWER_NOT_HELD);
    expect_nothing();
}

Test(slots, r20_an_adopted_slot_stands_beside_those_that_are_held_here)
{
    struct hold_view view;
    struct lock_ref lock;
    uint32_t next = 0;
    begin_with(2);
    acquire(1, "k");
    struct token here = grant(1), there = here;
    there.random[0] ^= 1;
    there.slot = 1 - here.slot;
    renew(2, "k", there);
    expect_send(OP_ADOPT, ALL);
    reply_with(OP_ADOPT, ALL, (struct event_reply){.vote = VOTE_YES, .fence = there.fence});
    expect_answer(2, ANSWER_RENEWED);
    struct instant now = {rig.epoch_us + rig.now_us};
    cr_assert(core_next_hold_of(rig.core, text("k"), now, &next, &view, &lock));
    cr_assert_eq(view.token.slot, 0);
    cr_assert(core_next_hold_of(rig.core, text("k"), now, &next, &view, &lock));
    cr_assert_eq(view.token.slot, 1);
    cr_assert_not(core_next_hold_of(rig.core, text("k"), now, &next, &view, &lock));
}

/* C5: it may have been released at another agent. A renewal shows that, so it is due at once. */
Test(slots, c5_a_hold_whose_slot_a_quorum_calls_free_is_not_shown)
{
    begin_with(2);
    acquire_as(1, "k", .renew = RENEW_AGENT);
    struct token token = grant(1);
    slot_set others = (slot_set)1 << (1 - token.slot);
    at_ms(2000);
    read_key(2, "k");
    expect_send(OP_READ, ALL);
    struct event_reply other = {.vote = VOTE_YES, .occupant = {.left_ms = 9, .taken = others}},
                       both = {.vote = VOTE_YES, .occupant = {.left_ms = 9, .taken = 3}};
    reply_with(OP_READ, 0x03, other);
    reply_with(OP_READ, 0x1c, both);
    expect_answer(2, ANSWER_STATE);
    cr_assert_eq(rig.answer.denied, 0, "three masters have it");
    read_key(3, "k");
    expect_send(OP_READ, ALL);
    reply_with(OP_READ, 0x03, both);
    reply_with(OP_READ, 0x1c, other);
    expect_answer(3, ANSWER_STATE);
    cr_assert_eq(rig.answer.denied, (slot_set)1 << token.slot);
    at_ms(2001);
    expect_send(OP_RENEW, ALL);
}

/* C5: the state that a read has met on its way to the masters says nothing of a later grant. */
Test(slots, c5_a_hold_that_is_newer_than_the_read_is_shown)
{
    begin_with(2);
    read_key(1, "k");
    expect_send(OP_READ, ALL);
    at_ms(1);
    acquire(2, "k");
    grant(2);
    reply_with(OP_READ, ALL, (struct event_reply){.vote = VOTE_ABSENT});
    expect_answer(1, ANSWER_STATE);
    cr_assert_eq(rig.answer.denied, 0);
}

Test(slots, r20_a_key_is_held_where_all_its_slots_are)
{
    begin_with(2);
    read_key(1, "k");
    expect_send(OP_READ, ALL);
    reply_with(OP_READ, FIRST,
               (struct event_reply){.vote = VOTE_YES, .occupant = {.left_ms = 9, .taken = 2}});
    reply_with(OP_READ, 0x18,
               (struct event_reply){.vote = VOTE_YES, .occupant = {.left_ms = 9, .taken = 3}});
    expect_answer(1, ANSWER_STATE);
    cr_assert_eq(rig.answer.state, KEY_FREE);
    cr_assert_eq(rig.answer.occupant.taken, 2);
    read_key(1, "k");
    expect_send(OP_READ, ALL);
    reply_with(OP_READ, ALL,
               (struct event_reply){.vote = VOTE_YES, .occupant = {.left_ms = 9, .taken = 3}});
    expect_answer(1, ANSWER_STATE);
    cr_assert_eq(rig.answer.state, KEY_HELD);
    cr_assert_eq(rig.answer.occupant.taken, 3);
}

Test(slots, r20_who_does_not_wait_is_asked_for_at_once_also_where_a_retry_is_planned)
{
    prepare(5);
    rig.policy.form = FORM_SLOTS;
    rig.policy.permits = 3;
    rig.group.node_timeout_ms = 500;
    rig.config.rounds_min = rig.config.rounds_first = rig.config.rounds_max = 1;
    begin();
    acquire_as(1, "k", .wait_ms = 10000);
    refuse(/* taken= */ 7, 5000);
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    channel("k", EVENT_SUBSCRIBED, ALL, 0);
    at_us(rig.now_us + 1);
    refuse(/* taken= */ 7, 5000);
    expect_send(OP_RELEASE, 0x18);
    at_us(rig.now_us + 1);
    acquire(2, "other"); /* takes the only round */
    expect_send(OP_ACQUIRE, ALL);
    struct send_item other = rig.sent[OP_ACQUIRE];
    at_ms(200); /* it is time to try again, and no round is free (R16) */
    expect_nothing();
    hear_released(2, ALL, 9); /* so it is planned again */
    rig.sent[OP_ACQUIRE] = other;
    reply(OP_ACQUIRE, FIRST, VOTE_YES);
    expect_send(OP_ACQUIRE, ALL);
    acquire(3, "k");
    reply(OP_ACQUIRE, FIRST, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, FIRST, VOTE_YES);
    expect_answer(3, ANSWER_GRANTED);
}

Test(slots, r20_a_search_ends_as_its_agent_drains)
{
    begin_with(3);
    acquire(1, "k");
    step((struct event){.kind = EVENT_DRAIN});
    refuse(/* taken= */ 0, 700);
    expect_send(OP_RELEASE, 0x18);
    expect_answer(1, ANSWER_DRAINING); /* the other slots may be free */
    expect_nothing();
}

Test(slots, r20_who_is_handed_a_slot_no_more_stands_in_line_for_another)
{
    prepare(5);
    rig.policy.form = FORM_SLOTS;
    rig.policy.permits = 2;
    rig.policy.handover_max = 4;
    rig.config.rounds_min = rig.config.rounds_first = rig.config.rounds_max = 1;
    begin();
    acquire(1, "k");
    struct token token = grant(1);
    acquire(2, "other"); /* takes the only round */
    expect_send(OP_ACQUIRE, ALL);
    acquire_as(3, "k", .wait_ms = 10000);
    cr_assert_eq(core_stats(rig.core)->rounds[0].waiting, 1);
    release(1, "k", token);
    expect_send(OP_HANDOVER, ALL);
    cr_assert_eq(core_stats(rig.core)->rounds[0].waiting, 0);
}

/* ---- hand-overs beside other attempts, and slots beyond the permits -------------------------- */

/* Begins with both slots held here. */
static void begin_full(struct token ret_tokens[2])
{
    begin_with(2);
    for (uint32_t i = 0; i < 2; i++) {
        acquire(i, "k");
        ret_tokens[i] = grant(i);
    }
}

/* R16: the slot that is handed over stays taken. */
Test(slots, r16_who_does_not_wait_is_refused_at_once_beside_a_hand_over)
{
    struct token tokens[2];
    begin_full(tokens);
    acquire_as(2, "k", .wait_ms = 10000);
    release(3, "k", tokens[0]);
    expect_send(OP_HANDOVER, ALL);
    at_ms(1), acquire(4, "k");
    expect_answer(4, ANSWER_LOCK_HELD);
    expect_nothing();
}

/* R16: no slot is held when the call comes. From the first grant on hand-overs may overlap without
 * end: one of them is always in flight. */
Test(slots, r16_who_does_not_wait_is_refused_as_the_first_of_two_hand_overs_is_granted)
{
    struct token tokens[2];
    struct send_item first = {0};
    begin_full(tokens);
    for (uint32_t i = 0; i < 2; i++) {
        acquire_as(2 + i, "k", .wait_ms = 10000);
        release(4 + i, "k", tokens[i]);
        expect_send(OP_HANDOVER, ALL);
        first = i == 0 ? rig.sent[OP_HANDOVER] : first;
    }
    acquire(6, "k");
    expect_nothing();
    rig.sent[OP_HANDOVER] = first;
    at_ms(1), reply(OP_HANDOVER, ALL, VOTE_YES);
    expect_answer(4, ANSWER_RELEASED);
    expect_answer(2, ANSWER_GRANTED);
    expect_answer(6, ANSWER_LOCK_HELD);
    expect_nothing();
}

/* R9: the other slot is held here. */
Test(slots, r9_a_wait_that_ends_during_its_hand_over_leaves_nothing_behind)
{
    struct token tokens[2];
    begin_full(tokens);
    acquire_as(2, "k", .wait_ms = 30);
    at_ms(10), release(3, "k", tokens[0]);
    expect_send(OP_HANDOVER, ALL);
    at_ms(30);
    expect_answer(2, ANSWER_WAIT_TIMEOUT);
    expect_send(OP_RELEASE, ALL);
    cr_assert(token_same_random(&rig.sent[OP_RELEASE].token, &rig.sent[OP_HANDOVER].token));
    reply(OP_HANDOVER, ALL, VOTE_YES);
    expect_answer(3, ANSWER_RELEASED);
    reply(OP_RELEASE, ALL, VOTE_YES);
    at_ms(1000);
    expect_nothing();
}

/* R16: "So is a call without wait after 10 s", also if no hand-over is decided by then. */
Test(slots, r16_who_does_not_wait_waits_10_s_for_hand_overs_at_most)
{
    struct token tokens[2];
    prepare(5);
    rig.policy.form = FORM_SLOTS;
    rig.policy.permits = 2;
    rig.policy.handover_max = 4;
    rig.policy.ttl_ms = 60000;
    rig.group.node_timeout_ms = 15000;
    begin();
    for (uint32_t i = 0; i < 2; i++) {
        acquire(i, "k");
        tokens[i] = grant(i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        acquire_as(2 + i, "k", .wait_ms = 60000);
        release(6 + i, "k", tokens[i]);
        expect_send(OP_HANDOVER, ALL);
    }
    acquire(5, "k");
    at_us(9999999);
    expect_nothing();
    at_ms(10000);
    expect_answer(5, ANSWER_OVERLOADED);
}

/* D8.2: the hand-over fails beside a search, for which other waiters wait. */
Test(slots, d8_a_waiter_whose_hand_over_fails_is_not_forgotten_by_the_drain)
{
    begin_with(2);
    acquire(1, "k");
    struct token token = grant(1);
    acquire_as(2, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL); /* a search, at the other slot */
    acquire_as(3, "k", .wait_ms = 200000);
    release(4, "k", token);
    expect_send(OP_HANDOVER, ALL);
    step((struct event){.kind = EVENT_DRAIN});
    reply_with(OP_HANDOVER, FIRST, (struct event_reply){.vote = VOTE_TAKEN, .is_deleted = true});
    expect_answer(4, ANSWER_RELEASED);
    expect_answer(3, ANSWER_DRAINING);
    reply(OP_ACQUIRE, FIRST, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED);
}

/* Adopts a hold of a slot that the policy no longer has (R20). Returns its token. */
static struct token adopt_slot(unsigned slot)
{
    struct token token = {.fence = 1700000000000001, .has_slot = true, .slot = (uint8_t)slot};
    token.random[0] = (uint8_t)(1 + slot);
    renew(62, "k", token);
    expect_send(OP_ADOPT, ALL);
    reply_with(OP_ADOPT, FIRST, (struct event_reply){.vote = VOTE_YES, .fence = token.fence});
    expect_answer(62, ANSWER_RENEWED);
    return token;
}

/* R20: "until then their holds count". */
Test(slots, r20_an_attempt_fails_where_a_slot_beyond_the_permits_has_been_adopted_meanwhile)
{
    begin_with(2);
    acquire(1, "k");
    struct token token = grant(1);
    acquire_as(2, "k", .wait_ms = 200000);
    expect_send(OP_ACQUIRE, ALL);
    struct token high = adopt_slot(5);
    reply_with(OP_ACQUIRE, FIRST,
               (struct event_reply){.vote = VOTE_TAKEN, .occupant = {.left_ms = 700, .taken = 3}});
    rig.count = 0;
    at_ms(2000);
    expect_nothing(); /* Two slots are held here. */
    release(3, "k", high);
    release(4, "k", token);
    let_time_pass_until(OP_ACQUIRE, 2000);
}

/* R20: otherwise the holders of that slot would never be gone. */
Test(slots, r20_a_slot_beyond_the_permits_is_not_handed_over)
{
    begin_with(2);
    struct token high = adopt_slot(5);
    adopt_slot(1);
    acquire_as(2, "k", .wait_ms = 200000);
    at_ms(1);
    rig.count = 0;
    release(3, "k", high);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(3, ANSWER_RELEASED);
    cr_assert_eq(sent_to(OP_HANDOVER), 0);
}
