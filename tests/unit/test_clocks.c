/* The masters' clocks as witnesses (R14) as timelines, and every small world of their steps. */
#include "core_rig.h"

enum { RUN = 5 };

/* Reports a reading of a master's clock. The question was sent `out_us` before the master looked,
 * and the reply came `back_us` after it, now. `ahead_us` is the clock's lead over the time since
 * the beginning. */
static void read_as(uint8_t master, int64_t ahead_us, int64_t out_us, int64_t back_us)
{
    struct event event = {.kind = EVENT_MASTER_CLOCK};
    int64_t heard_us = rig.epoch_us + rig.now_us;
    event.master.master = master;
    event.master.reading.wall_us = PROPOSAL * (int64_t)1000000 + rig.now_us - back_us + ahead_us;
    event.master.reading.sent.us = heard_us - back_us - out_us;
    event.master.reading.heard.us = heard_us;
    step(event);
}

static void read_all(master_set masters, int64_t ahead_us)
{
    for (uint8_t m = 0; m < rig.group.masters; m++)
        if (masters >> m & 1)
            read_as(m, ahead_us, 500, 500);
}

static void expect_gain(uint8_t master, int64_t us)
{
    expect_trace(TRACE_CLOCK_GAINED);
    cr_assert_eq(rig.trace.master, master);
    cr_assert_eq(rig.trace.elapsed_us, us, "m%u gained %lld us", master,
                 (long long)rig.trace.elapsed_us);
    bool asks = false;
    for (size_t i = 0; i < rig.count; i++)
        asks = asks || rig.records[i].effect.kind == EFFECT_READ_CLOCKS;
    cr_assert(asks, "all clocks are read at once");
}

static void expect_no_gain(void)
{
    for (size_t i = 0; i < rig.count; i++)
        cr_assert(rig.records[i].effect.kind != EFFECT_TRACE ||
                  rig.records[i].effect.trace.kind != TRACE_CLOCK_GAINED);
}

static struct hold_view listed(const char *key)
{
    uint32_t cursor = 0;
    struct hold_view view;
    while (core_next_hold(rig.core, (struct instant){rig.epoch_us + rig.now_us}, &cursor, &view))
        if (view.key.len == strlen(key) && memcmp(view.key.at, key, view.key.len) == 0)
            return view;
    cr_assert_fail("%s is not listed", key);
    return view;
}

static int64_t listed_until_us(const char *key)
{
    return listed(key).valid_until.us - rig.epoch_us;
}

Test(clocks, r14_a_pause_with_its_clocks_ends_what_is_over)
{
    begin_five();
    read_all(ALL, 0);
    hold_as("k", .ttl_ms = 10000);
    at_ms(1000), read_all(ALL, 0), expect_nothing();
    /* the machine was paused for 9 s, and its clocks with it */
    at_ms(2000), read_as(0, 9000000, 500, 500);
    expect_gain(0, 9001000);
    cr_assert(is_listed("k"));
    read_as(1, 9000000, 500, 500);
    cr_assert(is_listed("k"));
    read_as(2, 9000000, 500, 500);
    expect_lost(REASON_CLOCK_STOPPED);
    cr_assert_not(is_listed("k"));
}

Test(clocks, r14_a_short_pause_takes_its_time_from_the_validity_and_renews)
{
    begin_five();
    read_all(ALL, 0);
    hold_as("k", .ttl_ms = 10000, .renew = RENEW_AGENT);
    int64_t before_us = listed_until_us("k");
    at_ms(1000), read_all(ALL, 300000);
    cr_assert_leq(listed_until_us("k"), before_us - 300000);
    cr_assert_geq(listed_until_us("k"), before_us - 304000);
    rig.count = 0, at_ms(1001);
    expect_send(OP_RENEW, ALL);
    reply(OP_RENEW, 0x07, VOTE_YES);
    cr_assert_eq(listed_until_us("k"), 1000000 + 10000000 - 102000);
}

/* D8.3: another process of this agent must not promise the time that was taken off. */
Test(clocks, r14_a_shortened_validity_is_noted_in_the_journal)
{
    prepare(5);
    rig.config.journal = true;
    begin();
    read_all(ALL, 0);
    hold_as("k", .ttl_ms = 10000);
    rig.count = 0;
    at_ms(1000), read_all(ALL, 3000000);
    at_ms(1001);
    int64_t noted_us = 0;
    for (size_t i = 0; i < rig.count; i++)
        if (rig.records[i].effect.kind == EFFECT_HOLD)
            noted_us = rig.records[i].effect.hold.hold.valid_until.us - rig.epoch_us;
    cr_assert_gt(noted_us, 0, "it was not noted");
    cr_assert_eq(noted_us, listed_until_us("k"));
}

Test(clocks, r14_one_master_that_jumps_shortens_nothing_where_others_keep_time)
{
    begin_five();
    read_all(ALL, 0);
    hold_as("k", .ttl_ms = 10000);
    int64_t before_us = listed_until_us("k");
    at_ms(1000), read_as(0, 60000000, 500, 500), read_all(0x1e, 0);
    cr_assert_eq(listed_until_us("k"), before_us);
    cr_assert_eq(listed("k").confirmed, 4, "its lease there is over");
    at_ms(2000), read_as(1, 60000000, 500, 500);
    cr_assert_eq(listed_until_us("k"), before_us);
    at_ms(3000), read_as(2, 60000000, 500, 500); /* three make a quorum */
    expect_lost(REASON_CLOCK_STOPPED);
}

/* Its key ends early on that master: the renewal makes it last there as well. */
Test(clocks, r14_a_jump_that_shortens_nothing_renews_at_once)
{
    begin_five();
    read_all(ALL, 0);
    hold_as("k", .ttl_ms = 10000, .renew = RENEW_AGENT);
    int64_t before_us = listed_until_us("k");
    at_ms(1000), read_as(0, 3000000, 500, 500);
    cr_assert_eq(listed_until_us("k"), before_us);
    rig.count = 0, at_ms(1001);
    expect_send(OP_RENEW, ALL);
}

Test(clocks, r14_a_bare_quorum_needs_each_of_its_masters)
{
    begin_five();
    read_all(ALL, 0);
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x07, VOTE_YES), reply(OP_ACQUIRE, 0x18, VOTE_REFUSED);
    expect_answer(1, ANSWER_GRANTED);
    at_ms(1000), read_as(4, 60000000, 500, 500); /* it has no key */
    cr_assert(is_listed("k"));
    at_ms(1001), read_as(2, 60000000, 500, 500);
    expect_lost(REASON_CLOCK_STOPPED);
}

/* R24: two masters may have forgotten the lock before native commands set its key there. Their
 * replies come after the renewal was won, so they do not count yet, and back no validity. */
Test(clocks, r14_a_key_that_does_not_count_backs_no_validity)
{
    begin_five();
    read_all(ALL, 0);
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    reply_with(OP_ACQUIRE, 0x07, (struct event_reply){.vote = VOTE_YES, .is_native = true});
    expect_answer(1, ANSWER_GRANTED);
    at_ms(10), renew(2, "k", rig.answer.hold.token);
    expect_renewal(0x07, 0x18);
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
    find_without_vote(OP_RESUME, 0x18);
    at_ms(1000), read_as(2, 60000000, 500, 500);
    expect_lost(REASON_CLOCK_STOPPED);
}

/* Loses a hold that all masters granted. It survives the gain of two clocks, but not that of the
 * third one. */
static void lose_with_the_third_gain(master_set all)
{
    begin();
    read_all(all, 0);
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, all);
    reply(OP_ACQUIRE, all, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    int64_t before_us = listed_until_us("k");
    at_ms(1000), read_all(0x03, 60000000);
    cr_assert_eq(listed_until_us("k"), before_us);
    at_ms(2000), read_as(2, 60000000, 500, 500);
    expect_lost(REASON_CLOCK_STOPPED);
}

/* R14: N - Q + 1 masters that kept time leave no quorum to others. These are two of four masters,
 * and one of a multilock. */
Test(clocks, r14_two_of_four_that_keep_time_are_enough)
{
    prepare(4);
    lose_with_the_third_gain(0x0f);
}

Test(clocks, r14_one_of_a_multilock_that_keeps_time_is_enough)
{
    prepare(3);
    rig.policy.algorithm = ALGORITHM_MULTILOCK;
    lose_with_the_third_gain(0x07);
}

Test(clocks, r14_late_answers_slewing_and_steps_back_say_nothing)
{
    begin_five();
    read_all(ALL, 0);
    hold_as("k", .ttl_ms = 60000);
    int64_t before_us = listed_until_us("k");
    at_ms(3000), read_as(0, 0, 2900000, 1000); /* the question came late */
    at_ms(6000), read_as(0, 0, 1000, 2900000); /* the answer came late */
    at_ms(9000), read_as(0, 80000, 500, 500);  /* within 1 % of the 9 s since the base */
    at_ms(10000), read_as(0, -5000000, 500, 500);
    at_ms(11000), read_as(0, -5000000, 500, 500);
    expect_no_gain();
    cr_assert_eq(listed_until_us("k"), before_us);
    at_ms(12000), read_as(0, 0, 500, 500); /* forward again */
    expect_gain(0, 5001000);
}

Test(clocks, r14_a_late_answer_is_no_base)
{
    begin_five();
    read_all(ALL, 0);
    at_ms(1000), read_as(0, 0, 900000, 1000);
    at_ms(1001), read_as(0, 500000, 500, 500);
    expect_gain(0, 501000);
}

/* The step back is shown by late answers alone, and then a step forward by less. */
Test(clocks, r14_a_step_back_hides_no_later_one_forward)
{
    begin_five();
    read_all(ALL, 0);
    at_ms(1000), read_as(0, -2000000, 500, 800000);
    at_ms(2000), read_as(0, -2000000, 500, 80000); /* took less time than the base */
    at_ms(3000), read_as(0, -1700000, 500, 80000);
    expect_gain(0, 300000 + 80500);
    rig.count = 0;
    at_ms(4000), read_as(1, -2000000, 500, 80000), read_as(1, -2000000, 500, 500);
    expect_no_gain(); /* a lost hold is not gained again */
}

Test(clocks, r14_a_gain_counts_once)
{
    begin_five();
    read_all(ALL, 0);
    at_ms(1000), read_as(0, 5000000, 100000, 100000);
    expect_gain(0, 5100500);
    rig.count = 0, at_ms(1001), read_as(0, 5000000, 500, 500);
    expect_no_gain();
}

Test(clocks, r14_a_round_that_was_sent_before_is_void)
{
    begin_five();
    read_all(ALL, 0);
    at_ms(100), acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x03, VOTE_YES);
    at_ms(110), read_as(4, 9000000, 500, 500);
    struct send_item old = rig.sent[OP_ACQUIRE];
    expect_send(OP_RELEASE, ALL); /* undone */
    expect_send(OP_ACQUIRE, ALL); /* asked again with another token */
    struct send_item again = rig.sent[OP_ACQUIRE];
    cr_assert(memcmp(old.token.random, again.token.random, RANDOM_BYTES) != 0);
    rig.sent[OP_ACQUIRE] = old;
    reply(OP_ACQUIRE, 0x1c, VOTE_YES);
    cr_assert_not(is_listed("k"), "the votes of the round before count for nothing");
    rig.sent[OP_ACQUIRE] = again;
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
}

Test(clocks, r14_a_renewal_that_was_sent_before_extends_nothing)
{
    begin_five();
    read_all(ALL, 0);
    struct token token = hold_as("k", .ttl_ms = 10000);
    int64_t before_us = listed_until_us("k");
    at_ms(1000), renew(1, "k", token);
    expect_send(OP_RENEW, ALL);
    at_ms(1010), read_as(4, 9000000, 500, 500);
    struct send_item old = rig.sent[OP_RENEW];
    expect_send(OP_RENEW, ALL);
    struct send_item again = rig.sent[OP_RENEW];
    rig.sent[OP_RENEW] = old;
    reply(OP_RENEW, ALL, VOTE_YES);
    cr_assert_eq(listed_until_us("k"), before_us);
    rig.sent[OP_RENEW] = again;
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(listed_until_us("k"), 1010000 + 10000000 - 102000);
}

Test(clocks, r14_an_adoption_that_was_sent_before_is_asked_again)
{
    static const struct token token = {.random = {1}, .fence = 1699999999000000};
    begin_five();
    read_all(ALL, 0);
    at_ms(100), renew_as(1, "k", token, .ttl_ms = 10000);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x03, VOTE_YES);
    at_ms(110), read_as(4, 9000000, 500, 500);
    struct send_item old = rig.sent[OP_ADOPT];
    expect_send(OP_ADOPT, ALL);
    struct send_item again = rig.sent[OP_ADOPT];
    rig.sent[OP_ADOPT] = old;
    reply(OP_ADOPT, 0x1c, VOTE_YES);
    cr_assert_not(is_listed("k"), "the votes of the round before count for nothing");
    rig.sent[OP_ADOPT] = again;
    reply(OP_ADOPT, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(listed_until_us("k"), 110000 + 10000000 - 102000);
}

/* D3.4: the adoption that is asked anew has the first PUT's terms, and the further round the second
 * one's. */
Test(clocks, r14_a_put_that_joins_an_adoption_keeps_its_terms)
{
    static const struct token token = {.random = {1}, .fence = 1699999999000000};
    begin_five();
    read_all(ALL, 0);
    at_ms(100), renew_as(1, "k", token, .ttl_ms = 10000);
    expect_send(OP_ADOPT, ALL);
    renew_as(2, "k", token, .ttl_ms = 20000);
    at_ms(110), read_as(4, 9000000, 500, 500);
    expect_send(OP_ADOPT, ALL);
    reply(OP_ADOPT, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    expect_send(OP_RENEW, 0x07);
    cr_assert_eq(rig.sent[OP_RENEW].ttl_ms, 20000);
    reply(OP_RENEW, 0x07, VOTE_YES);
    expect_answer(2, ANSWER_RENEWED);
}

/* D3.4: a quorum with one and the same other number is a no. Masters 0 and 1 gave that number to
 * the first question only. */
Test(clocks, r14_other_numbers_that_an_adoption_heard_before_are_forgotten)
{
    static const struct token token = {.random = {1}, .fence = 1699999999000000};
    struct event_reply other = {.vote = VOTE_MISNUMBERED, .fence = token.fence + 1};
    begin_five();
    read_all(ALL, 0);
    at_ms(100), renew_as(1, "k", token, .ttl_ms = 10000);
    expect_send(OP_ADOPT, ALL);
    reply_with(OP_ADOPT, 0x03, other);
    at_ms(110), read_as(4, 9000000, 500, 500);
    expect_send(OP_ADOPT, ALL);
    reply_with(OP_ADOPT, 0x04, other);
    reply(OP_ADOPT, 0x18, VOTE_UNKNOWN);
    expect_nothing();
    reply(OP_ADOPT, 0x03, VOTE_YES);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
}

/* D3.9: the same of the labels that masters told. */
Test(clocks, r14_labels_that_an_adoption_heard_before_count_for_nothing)
{
    static const struct token token = {.random = {1}, .fence = 1699999999000000};
    begin_five();
    read_all(ALL, 0);
    at_ms(100), renew_as(1, "k", token, .ttl_ms = 10000);
    expect_send(OP_ADOPT, ALL);
    reply_with(OP_ADOPT, 0x03,
               (struct event_reply){
                   .vote = VOTE_YES, .fence = token.fence, .occupant.label = text("old")});
    at_ms(110), read_as(4, 9000000, 500, 500);
    expect_send(OP_ADOPT, ALL);
    reply_with(OP_ADOPT, 0x04,
               (struct event_reply){
                   .vote = VOTE_YES, .fence = token.fence, .occupant.label = text("new")});
    reply(OP_ADOPT, 0x03, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert(text_same(rig.answer.hold.label, text("new")));
}

/* R14: master 3 voted before its clock jumped. So its lease ends earlier than its late vote
 * suggests. */
Test(clocks, r14_a_late_vote_of_before_confirms_no_lease)
{
    begin_five();
    read_all(ALL, 0);
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    at_ms(40), read_as(3, 60000000, 500, 500);
    expect_gain(3, 60001000);
    reply(OP_ACQUIRE, 0x08, VOTE_YES);
    cr_assert_eq(listed("k").confirmed, 3);
    at_ms(1000), read_as(2, 60000000, 500, 500);
    expect_lost(REASON_CLOCK_STOPPED);
}

Test(clocks, r14_a_hold_out_of_a_journal_loses_what_any_master_gained)
{
    begin_five();
    read_all(ALL, 0);
    struct event event = {.kind = EVENT_RESTORE};
    event.restore = (struct noted_hold){
        .key = text("k"),
        .token = {.random = {1}, .fence = 7},
        .delivered = true,
        .acquired_at = {rig.epoch_us},
        .valid_until = {rig.epoch_us + 9000000},
        .max_hold_until = {rig.epoch_us + 60000000},
        .lease_until = {rig.epoch_us + 10000000},
        .terms = {.ttl_ms = 10000, .renew = RENEW_CALLER, .max_hold_ms = 60000, .count = 1}};
    step(event);
    at_ms(1000), read_as(0, 2000000, 500, 500);
    cr_assert_leq(listed_until_us("k"), 9000000 - 2000000);
    read_all(0x1e, 2000000); /* the same pause is not taken off five times */
    cr_assert_geq(listed_until_us("k"), 9000000 - 2003000);
}

/* sim --forgetful 3351 (C9): a hold of 9 s lost 5 of them to a gain of 1 s, because a PUT for less
 * had shown leases of 1 s. */
Test(clocks, r14_a_hold_out_of_a_journal_that_is_renewed_for_less_loses_no_more)
{
    begin_five();
    read_all(ALL, 0);
    struct event event = {.kind = EVENT_RESTORE};
    event.restore = (struct noted_hold){
        .key = text("k"),
        .token = {.random = {1}, .fence = 7},
        .delivered = true,
        .acquired_at = {rig.epoch_us},
        .valid_until = {rig.epoch_us + 9000000},
        .max_hold_until = {rig.epoch_us + 60000000},
        .lease_until = {rig.epoch_us + 10000000},
        .terms = {.ttl_ms = 10000, .renew = RENEW_CALLER, .max_hold_ms = 60000, .count = 1}};
    step(event);
    renew_as(1, "k", event.restore.token, .ttl_ms = 1000);
    expect_send(OP_RESUME, ALL);
    reply(OP_RESUME, 0x07, VOTE_YES);
    expect_answer(1, ANSWER_RENEWED);
    cr_assert_eq(listed_until_us("k"), 9000000);
    at_ms(500), read_as(4, 1000000, 500, 500);
    cr_assert_geq(listed_until_us("k"), 9000000 - 1003000);
}

/* ---- every small world ---- */

/* Returns when the leases of a hold that `has` are so far over that the other masters are a quorum.
 * The time is that of an agent whose clock has not gained. It tries all quorums. */
static int64_t free_from_us(uint8_t masters, uint8_t quorum, master_set has,
                            const int64_t gained_us[RUN], int64_t lease_us)
{
    int64_t first_us = INT64_MAX;
    for (unsigned set = 0; set < 1u << masters; set++) {
        int64_t last_us = INT64_MIN;
        uint8_t size = 0;
        for (uint8_t m = 0; m < masters; m++) {
            if ((set >> m & 1) == 0)
                continue;
            size++;
            /* A clock that was set back makes no lease shorter. */
            int64_t gain_us = gained_us[m] > 0 ? gained_us[m] : 0,
                    over_us = has >> m & 1 ? lease_us - gain_us : INT64_MIN;
            last_us = over_us > last_us ? over_us : last_us;
        }
        if (size == quorum && last_us < first_us)
            first_us = last_us;
    }
    return first_us;
}

/* Tries one world. `has` are the masters that have the hold. `gained_us` is each master's gain.
 * `slow_out` are the masters whose question was slow; the others were slow to answer. */
static void try_world(uint8_t masters, master_set has, const int64_t gained_us[RUN],
                      master_set slow_out)
{
    prepare(masters);
    begin();
    master_set all = (master_set)((1u << masters) - 1);
    uint8_t quorum = (uint8_t)(masters / 2 + 1);
    read_all(all, 0);
    acquire_as(1, "k", .ttl_ms = 60000);
    expect_send(OP_ACQUIRE, all);
    reply(OP_ACQUIRE, has, VOTE_YES);
    reply(OP_ACQUIRE, all & (master_set)~has, VOTE_REFUSED);
    expect_answer(1, ANSWER_GRANTED);
    int64_t lease_us = listed_until_us("k"); /* on masters that keep time, less the drift */
    at_ms(1000);
    for (uint8_t m = 0; m < masters; m++)
        read_as(m, gained_us[m], slow_out >> m & 1 ? 40000 : 500, slow_out >> m & 1 ? 500 : 40000);
    int64_t free_us = free_from_us(masters, quorum, has, gained_us, lease_us);
    int64_t until_us = listed_until_us("k");
    cr_assert_leq(until_us, free_us, "masters %u, has %x: valid for %lld us too long", masters, has,
                  (long long)(until_us - free_us));
    cr_assert_geq(until_us, free_us - 45000, "masters %u, has %x: %lld us are lost without need",
                  masters, has, (long long)(free_us - until_us));
}

static void try_worlds(uint8_t masters, unsigned ways)
{
    static const int64_t steps_us[] = {-4000000, 0, 2000000, 4000000};
    unsigned worlds = 1;
    for (uint8_t m = 0; m < masters; m++)
        worlds *= masters == 3 ? 4 : 3;
    for (unsigned has = 0; has < 1u << masters; has++) {
        if (__builtin_popcount(has) < masters / 2 + 1)
            continue;
        for (unsigned world = 0; world < worlds; world++) {
            int64_t gained_us[RUN] = {0};
            unsigned rest = world;
            for (uint8_t m = 0; m < masters; m++) {
                gained_us[m] = masters == 3 ? steps_us[rest % 4] : steps_us[1 + rest % 3];
                rest /= masters == 3 ? 4 : 3;
            }
            for (unsigned out = 0; out < ways; out++) {
                try_world(masters, (master_set)has, gained_us, (master_set)(out * 0x15u));
            }
        }
    }
}

Test(clocks, r14_three_masters_every_world, .timeout = 300)
{
    try_worlds(3, 2);
}

Test(clocks, r14_five_masters_every_world, .timeout = 300)
{
    try_worlds(5, 1);
}

/* ---- until when keys are created (R5) ---- */

/* Returns the master's clock in the last command of the kind, in ms of rig time, or -1. */
static int64_t clock_told_ms(enum op op, uint8_t master)
{
    int64_t told_ms = -1;
    for (size_t i = 0; i < rig.count; i++) {
        const struct effect *effect = &rig.records[i].effect;
        if (effect->kind == EFFECT_SEND && effect->send.op == op &&
            effect->send.clocks_ms[master] != 0)
            told_ms = effect->send.clocks_ms[master] - PROPOSAL * (int64_t)1000;
    }
    return told_ms;
}

Test(clocks, r5_an_acquire_says_until_when_it_creates_the_key)
{
    begin_five();
    at_ms(1000), read_as(0, 0, 500, 500), read_as(1, 7000000, 500, 40000), expect_nothing();
    at_ms(2000);
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    /* A second later by a slow clock: less 1 % of the time since it was read. */
    cr_assert_eq(clock_told_ms(OP_ACQUIRE, 0), 1999 - 10);
    cr_assert_eq(clock_told_ms(OP_ACQUIRE, 1), 7000 + 1960 - 10);
    cr_assert_eq(clock_told_ms(OP_ACQUIRE, 2), -1, "it was never read");
    cr_assert_eq(rig.sent[OP_ACQUIRE].left_ms, 9898 - 98 - 1);
}

/* R5: the agent forgets the reading from before the clock was set back. Otherwise the master would
 * answer `late` to each command that creates a key. */
Test(clocks, r5_a_clock_that_was_set_back_is_told_as_it_is)
{
    begin_five();
    read_as(0, 7000000, 500, 500);
    at_ms(1000), read_as(0, 0, 500, 500);
    at_ms(2000), acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(clock_told_ms(OP_ACQUIRE, 0), 1999 - 10);
}

/* The master's answers stay slower than node_timeout. Its clock falls behind by the time of the way
 * back. It does not fall behind by the drift since the last answer in time. */
Test(clocks, r5_late_readings_keep_the_clock_of_a_slow_master_known)
{
    begin_five();
    read_as(0, 0, 500, 500);
    at_ms(1000), read_as(0, 0, 500, 80000);
    at_ms(1500), acquire_as(1, "early", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(clock_told_ms(OP_ACQUIRE, 0), 1499 - 15, "the reading in time says more still");
    rig.count = 0;
    for (unsigned s = 2; s <= 200; s++)
        at_ms(s * 1000), read_as(0, 0, 500, 80000);
    rig.count = 0;
    acquire_as(2, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    cr_assert_eq(clock_told_ms(OP_ACQUIRE, 0), 200000 - 80);
}

/* It is a grant as well. */
Test(clocks, r5_a_hand_over_says_until_when_it_sets_the_next_token)
{
    prepare(5);
    rig.policy.handover_max = 16;
    begin();
    read_all(ALL, 0);
    struct token token = hold_as("k", .ttl_ms = 10000);
    acquire_as(1, "k", .ttl_ms = 10000, .wait_ms = 60000);
    at_ms(2000), rig.count = 0;
    release(2, "k", token);
    expect_send(OP_HANDOVER, ALL);
    cr_assert_eq(clock_told_ms(OP_HANDOVER, 0), 1999 - 20);
    cr_assert_eq(rig.sent[OP_HANDOVER].left_ms, 9898 - 98 - 1);
}

/* The end of the validity, as it is when the repair is sent. */
Test(clocks, r5_a_repair_ends_with_the_validity)
{
    begin_five();
    read_all(ALL, 0);
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x0f, VOTE_YES), reply(OP_ACQUIRE, 0x10, VOTE_REFUSED);
    expect_answer(1, ANSWER_GRANTED);
    at_ms(3000);
    renew_as(2, "k", rig.answer.hold.token, .ttl_ms = 60000);
    expect_send(OP_RENEW, 0x0f), expect_send(OP_REPAIR, 0x10);
    cr_assert_eq(clock_told_ms(OP_REPAIR, 4), 2999 - 30);
    cr_assert_eq(rig.sent[OP_REPAIR].left_ms, 6898 - 68 - 1);
}

/* A master that did nothing because it was too late may be asked again, and does not deny. */
Test(clocks, r5_late_is_neither_yes_nor_no)
{
    begin_five();
    acquire_as(1, "k", .ttl_ms = 10000);
    expect_send(OP_ACQUIRE, ALL);
    reply(OP_ACQUIRE, 0x03, VOTE_YES), reply(OP_ACQUIRE, 0x1c, VOTE_LATE);
    expect_answer(1, ANSWER_QUORUM_UNAVAILABLE);
}
