/* Keys that are followed (D3.8), by timelines: the times of looks, and the lines. */
#include "core_rig.h"

enum { FOLLOWER = 40, A = 0xa0, B = 0xb0 };

TestSuite(follow);

/* Follows "k" at the agent of that name. */
static void begin_following_at(uint32_t agent)
{
    prepare(5);
    rig.config.agent = agent;
    begin();
    struct event event = {.kind = EVENT_READ};
    event.read = (struct event_read){.request = FOLLOWER, .key = text("k"), .follows = true};
    step(event);
    expect_channel(EFFECT_WATCH);
    expect_send(OP_READ, ALL);
}

static void begin_following(void)
{
    begin_following_at(0);
}

static void masters_show(master_set masters, uint32_t agent, uint64_t fence, int64_t left_ms,
                         const char *label)
{
    struct event_reply with = {
        .vote = VOTE_YES,
        .occupant = {.label = text(label), .left_ms = left_ms, .agent = agent, .fence = fence}};
    reply_with(OP_READ, masters, with);
}

static struct effect_followed expect_line(enum key_state state)
{
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != EFFECT_FOLLOWED)
            continue;
        cr_assert_eq(r->effect.followed.state, state, "at %lld us: state %d", (long long)rig.now_us,
                     r->effect.followed.state);
        cr_assert_eq(r->effect.followed.request, (uint32_t)FOLLOWER);
        r->expected = true;
        return r->effect.followed;
    }
    cr_assert_fail("at %lld us: no line", (long long)rig.now_us);
    return (struct effect_followed){0};
}

static bool has_label(struct effect_followed line, const char *label)
{
    struct text found = line.occupant.label;
    return found.len == strlen(label) && memcmp(found.at, label, found.len) == 0;
}

/* Returns after how many ms the next look begins, which is expected. */
static int64_t next_look_ms(void)
{
    int64_t due_us = core_next_deadline(rig.core).us - rig.epoch_us, took_us = due_us - rig.now_us;
    rig.now_us = due_us;
    step((struct event){.kind = EVENT_TIME});
    expect_send(OP_READ, ALL);
    return took_us / 1000;
}

/* Follows a key that A holds with number 7, for `left_ms` more. */
static void follow_held(int64_t left_ms)
{
    begin_following();
    masters_show(ALL, A, 7, left_ms, "one");
    struct effect_followed line = expect_line(KEY_HELD);
    cr_assert(has_label(line, "one"));
    cr_assert_eq(line.occupant.agent, (uint32_t)A);
    cr_assert_eq(line.occupant.fence, 7u);
    cr_assert_not(line.here);
    expect_nothing();
}

/* The end of the lease is looked at; a renewal in the meantime is no change. */
Test(follow, looks_at_the_end_of_the_lease)
{
    follow_held(2000);
    int64_t pause_ms = next_look_ms();
    cr_assert(pause_ms >= 2000 && pause_ms <= 2000 + FOLLOW_MS_MIN, "%lld", (long long)pause_ms);
    masters_show(ALL, A, 7, 30000, "one");
    expect_nothing();
    pause_ms = next_look_ms();
    cr_assert(pause_ms >= FOLLOW_HELD_MS_MAX * 3 / 4 && pause_ms <= FOLLOW_HELD_MS_MAX, "%lld",
              (long long)pause_ms);
}

/* While the key is free the pauses double up to the longest. */
Test(follow, pauses_grow_while_it_is_free)
{
    begin_following();
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_line(KEY_FREE);
    int64_t before_ms = 0, pause_ms = 0;
    for (int look = 0; look < 12; look++) {
        pause_ms = next_look_ms();
        cr_assert(pause_ms >= before_ms * 3 / 4 && pause_ms <= FOLLOW_FREE_MS_MAX);
        before_ms = pause_ms;
        reply(OP_READ, ALL, VOTE_ABSENT);
        expect_nothing();
    }
    cr_assert_geq(pause_ms, FOLLOW_FREE_MS_MAX * 3 / 4);
    /* A change begins them anew. */
    next_look_ms();
    masters_show(ALL, B, 9, 100, "two");
    cr_assert_eq(expect_line(KEY_HELD).occupant.fence, 9u);
    next_look_ms();
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_line(KEY_FREE);
    cr_assert_leq(next_look_ms(), FOLLOW_MS_MIN);
}

/* Messages of a quorum make one look due, fewer none: an attempt that was undone publishes too. */
Test(follow, a_quorum_of_messages_is_a_look)
{
    follow_held(30000);
    rig.now_us += 100000;
    channel("k", EVENT_MESSAGE, 0x03, 1);
    int64_t due_us = core_next_deadline(rig.core).us - rig.epoch_us;
    cr_assert_gt(due_us - rig.now_us, 1000000);
    channel("k", EVENT_MESSAGE, 0x03, 1); /* the same masters once more */
    channel("k", EVENT_MESSAGE, 0x04, 1);
    cr_assert_leq(next_look_ms(), 100);
    channel("k", EVENT_MESSAGE, 0x18, 1); /* those of the others */
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_line(KEY_FREE);
    expect_nothing();
}

/* The messages of an earlier release do not hide those of the next one. */
Test(follow, each_release_is_a_look)
{
    follow_held(30000);
    for (int release = 0; release < 3; release++) {
        rig.now_us += 100000;
        channel("k", EVENT_MESSAGE, 0x07, 1);
        cr_assert_leq(next_look_ms(), 100);
        masters_show(ALL, A, 7, 30000, "one");
        expect_nothing();
    }
}

/* A message that comes in a look makes another one due: the look may be older than the release. */
Test(follow, a_message_in_a_look_is_another_look)
{
    follow_held(30000);
    next_look_ms();
    channel("k", EVENT_MESSAGE, ALL, 1);
    masters_show(ALL, A, 7, 30000, "one");
    cr_assert_leq(next_look_ms(), FOLLOW_MS_MIN);
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_line(KEY_FREE);
}

/* Releases that follow each other closely do not make looks that do. */
Test(follow, looks_have_a_pause_between_them)
{
    follow_held(30000);
    next_look_ms();
    masters_show(ALL, A, 7, 30000, "one");
    channel("k", EVENT_MESSAGE, ALL, 1);
    int64_t pause_ms = next_look_ms();
    cr_assert_geq(pause_ms, FOLLOW_MS_MIN, "%lld", (long long)pause_ms);
}

/* A subscription that a quorum confirms or loses may have missed a message. */
Test(follow, subscriptions_are_looks)
{
    follow_held(30000);
    rig.now_us += 100000;
    channel("k", EVENT_SUBSCRIBED, 0x07, 0);
    cr_assert_leq(next_look_ms(), 1);
    masters_show(ALL, A, 7, 30000, "one");
    rig.now_us += 100000;
    channel("k", EVENT_UNSUBSCRIBED, 0x01, 0);
    cr_assert_leq(next_look_ms(), 1);
    masters_show(ALL, A, 7, 30000, "one");
    channel("k", EVENT_UNSUBSCRIBED, 0x02, 0);
    expect_nothing();
    cr_assert_gt(next_look_ms(), 1000);
}

/* One look that shows no state, or no holder, may have met an attempt. Two of them are told. */
Test(follow, vague_looks_are_told_the_second_time)
{
    follow_held(30000);
    next_look_ms();
    masters_show(0x03, A, 7, 30000, "one");
    reply(OP_READ, 0x0c, VOTE_ABSENT);
    reply(OP_READ, 0x10, VOTE_UNKNOWN);
    expect_nothing();
    cr_assert_leq(next_look_ms(), FOLLOW_MS_MIN);
    masters_show(0x03, A, 7, 30000, "one");
    masters_show(0x0c, B, 8, 30000, "two"); /* two votes each: no quorum names a holder */
    reply(OP_READ, 0x10, VOTE_ABSENT);
    struct effect_followed line = expect_line(KEY_HELD);
    cr_assert_eq(line.occupant.fence, 0u);
    cr_assert_eq(line.occupant.agent, 0u);
    next_look_ms();
    reply(OP_READ, 0x1e, VOTE_UNKNOWN);
    masters_show(0x01, A, 7, 30000, "one");
    expect_line(KEY_UNKNOWN);
    next_look_ms();
    masters_show(0x07, A, 7, 30000, "one");
    reply(OP_READ, 0x18, VOTE_UNKNOWN);
    cr_assert_eq(expect_line(KEY_HELD).occupant.fence, 7u);
    expect_nothing();
}

/* Without any master a look is decided at once, and does not spin. */
Test(follow, without_masters_it_is_unknown)
{
    follow_held(30000);
    for (uint8_t m = 0; m < 5; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    size_t steps = 0;
    for (int64_t until_us = rig.now_us + 20000000; rig.now_us < until_us; steps++) {
        rig.now_us = core_next_deadline(rig.core).us - rig.epoch_us;
        step((struct event){.kind = EVENT_TIME});
    }
    expect_line(KEY_UNKNOWN);
    expect_nothing();
    cr_assert_lt(steps, 40u);
}

/* The number and the agent are those of a quorum; an adopted hold has the agent's other name. */
Test(follow, a_quorum_names_the_holder)
{
    begin_following();
    masters_show(0x01, B, 6, 30000, "older");
    masters_show(0x0e, A | 1, 7, 30000, "one");
    masters_show(0x10, A, 7, 30000, "one");
    struct effect_followed line = expect_line(KEY_HELD);
    cr_assert(has_label(line, "one"), "a minority has named the holder");
    cr_assert_eq(line.occupant.agent, (uint32_t)A);
    cr_assert_eq(line.occupant.fence, 7u);
    expect_nothing();
}

/* A hold of this agent is told without a look, and the look in flight says nothing any more. */
Test(follow, an_own_hold_is_told_at_once)
{
    begin_following();
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_line(KEY_FREE);
    next_look_ms();
    acquire_with(1, "k", (struct event_acquire){.label = text("me")});
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    struct token token = rig.answer.hold.token;
    step((struct event){.kind = EVENT_TIME});
    struct effect_followed line = expect_line(KEY_HELD);
    cr_assert(line.here && has_label(line, "me"));
    cr_assert_eq(line.occupant.fence, token.fence);
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_nothing();
    rig.now_us += 100000;
    release(2, "k", token);
    expect_send(OP_RELEASE, ALL);
    expect_send(OP_READ, ALL); /* behind the release, in the same call of the loop */
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(2, ANSWER_RELEASED);
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_line(KEY_FREE);
    expect_nothing();
    acquire(3, "k");
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(3, ANSWER_GRANTED);
    step((struct event){.kind = EVENT_TIME});
    cr_assert_gt(expect_line(KEY_HELD).occupant.fence, token.fence);
}

static struct effect_followed own_hold_is_told(uint32_t request, uint32_t ttl_ms)
{
    acquire_with(request, "k", (struct event_acquire){.label = text("me"), .ttl_ms = ttl_ms});
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, ALL, VOTE_YES);
    expect_answer(request, ANSWER_GRANTED);
    step((struct event){.kind = EVENT_TIME});
    struct effect_followed line = expect_line(KEY_HELD);
    cr_assert(line.here && has_label(line, "me"));
    return line;
}

/* Masters may show that it was released at another agent, or unlocked. */
Test(follow, an_own_hold_is_looked_at)
{
    begin_following();
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_line(KEY_FREE);
    own_hold_is_told(1, 10000);
    cr_assert_leq(next_look_ms(), FOLLOW_HELD_MS_MAX);
    reply(OP_READ, ALL, VOTE_ABSENT);
    cr_assert_not(expect_line(KEY_FREE).here);
    expect_nothing();
}

/* Its key stays until its validity is over, and looks the same at the masters. */
Test(follow, an_own_hold_that_is_lost_is_not_here_any_more)
{
    begin_following_at(B);
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_line(KEY_FREE);
    struct effect_followed line = own_hold_is_told(1, 1000);
    at_us(rig.answer.hold.valid_until.us - rig.epoch_us - 5000);
    expect_lost(REASON_EXPIRED);
    let_time_pass_until(OP_READ, 300);
    expect_send(OP_READ, ALL);
    reply_with(OP_READ, ALL, (struct event_reply){.vote = VOTE_YES, .occupant = line.occupant});
    cr_assert_not(expect_line(KEY_HELD).here);
}

/* C19: of a hold of this agent no smaller number is told than before. */
Test(follow, c19_a_smaller_own_number_is_not_told)
{
    begin_following();
    masters_show(ALL, B, 8000000000000000, 30000, "two");
    expect_line(KEY_HELD);
    next_look_ms();
    reply(OP_READ, ALL, VOTE_ABSENT);
    expect_line(KEY_FREE);
    cr_assert_eq(own_hold_is_told(1, 10000).occupant.fence, 0u);
}

/* A waiter and the follower share one subscription, which lasts as long as either. */
Test(follow, the_channel_is_shared)
{
    follow_held(30000);
    channel("k", EVENT_SUBSCRIBED, ALL, 0);
    acquire_with(1, "k", (struct event_acquire){.wait_ms = 10000});
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, ALL, held_for(30000));
    expect_send(OP_RELEASE, 0x18);
    expect_nothing();
    cancel(FOLLOWER);
    expect_nothing();
    cancel(1);
    expect_channel(EFFECT_UNWATCH);

    follow_held(30000);
    acquire_with(1, "k", (struct event_acquire){.wait_ms = 10000});
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, ALL, held_for(30000));
    rig.count = 0;
    cancel(1);
    expect_nothing();
    cancel(FOLLOWER);
    expect_channel(EFFECT_UNWATCH);
    expect_nothing();
    cr_assert_eq(core_stats(rig.core)->requests, 0u);
    int64_t later_us = rig.now_us + 20000000;
    at_us(later_us);
    expect_nothing();
}

/* A release that is published in the first attempt of a waiter is not missed: the subscription is
 * the follower's, so no confirmation makes the waiter try again. */
Test(follow, a_waiter_hears_by_the_subscription_of_a_follower)
{
    follow_held(30000);
    channel("k", EVENT_SUBSCRIBED, ALL, 0);
    rig.count = 0;
    acquire_with(1, "k", (struct event_acquire){.wait_ms = 10000});
    expect_send(OP_ACQUIRE, ALL);
    channel("k", EVENT_MESSAGE, ALL, 1);
    reply_with(OP_ACQUIRE, ALL, held_for(30000));
    let_time_pass_until(OP_ACQUIRE, 10); /* A back-off is longer. */
}
