/* Rounds in flight (R16) as timelines: their limit, and the admission queue. */
#include "core_rig.h"

enum { NODE_TIMEOUT_MS = 50 };

static void begin_with_rounds(uint32_t rounds_min, uint32_t rounds_max)
{
    prepare(5);
    rig.config.rounds_min = rig.config.rounds_first = rounds_min;
    rig.config.rounds_max = rounds_max;
    rig.config.locks_max = 64;
    begin();
}

static const struct core_rounds *rounds(void)
{
    return &core_stats(rig.core)->rounds[0];
}

static void expect_rounds(uint32_t in_flight, uint32_t waiting)
{
    cr_assert_eq(rounds()->in_flight, in_flight, "at %lld us: %u in flight, not %u",
                 (long long)rig.now_us, rounds()->in_flight, in_flight);
    cr_assert_eq(rounds()->waiting, waiting, "at %lld us: %u wait, not %u", (long long)rig.now_us,
                 rounds()->waiting, waiting);
}

/* Expects that the next acquire is of this key. Returns it, to be answered later. */
static struct send_item expect_round_of(const char *key)
{
    expect_send(OP_ACQUIRE, ALL);
    struct send_item item = rig.sent[OP_ACQUIRE];
    cr_assert(item.key.len == strlen(key) && memcmp(item.key.at, key, item.key.len) == 0,
              "at %lld us: the round is of %.*s, not of %s", (long long)rig.now_us,
              (int)item.key.len, item.key.at, key);
    return item;
}

static void answer_round(struct send_item item, master_set masters, enum vote vote)
{
    rig.sent[OP_ACQUIRE] = item;
    reply(OP_ACQUIRE, masters, vote);
}

/* ---- the admission queue --------------------------------------------------------------------- */

Test(admission, r16_rounds_beyond_the_limit_wait_in_the_order_of_coming)
{
    begin_with_rounds(2, 2);
    acquire(1, "a"), acquire(2, "b"), acquire(3, "c"), acquire_as(4, "d", .wait_ms = 60000);
    struct send_item a = expect_round_of("a"), b = expect_round_of("b");
    expect_nothing();
    expect_rounds(2, 2);
    at_ms(5), answer_round(b, ALL, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED);
    struct send_item c = expect_round_of("c");
    expect_rounds(2, 1);
    at_ms(6), answer_round(a, 0x07, VOTE_TAKEN);
    expect_answer(1, ANSWER_LOCK_HELD);
    expect_send(OP_RELEASE, 0x18);
    expect_round_of("d");
    expect_rounds(2, 0);
    at_ms(7), answer_round(c, ALL, VOTE_YES);
    expect_answer(3, ANSWER_GRANTED);
    cr_assert_eq(rig.answer.waited_us, 7000);
    expect_rounds(1, 0);
}

Test(admission, r16_the_clock_of_a_round_begins_with_its_place)
{
    begin_with_rounds(1, 1);
    acquire(1, "a"), acquire(2, "b");
    struct send_item a = expect_round_of("a");
    at_ms(40), answer_round(a, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    struct send_item b = expect_round_of("b");
    at_ms(80), answer_round(b, ALL, VOTE_YES);
    expect_answer(2, ANSWER_GRANTED);
    cr_assert_eq(valid_until_us(), (40 + 10000 - 102) * 1000);
    expect_trace(TRACE_ATTEMPT), expect_trace(TRACE_ATTEMPT);
    cr_assert_eq(rig.trace.queued_us, 40000);
    cr_assert_eq(rig.trace.elapsed_us, 40000);
}

Test(admission, r4_the_clock_of_a_round_begins_as_it_is_written)
{
    begin_five();
    rig.holds_back = true;
    acquire(1, "a");
    cr_assert(core_awaits_flush(rig.core));
    expect_nothing();
    at_ms(30), step((struct event){.kind = EVENT_FLUSH});
    cr_assert_not(core_awaits_flush(rig.core));
    struct send_item a = expect_round_of("a");
    at_us(79999);
    expect_nothing();
    answer_round(a, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(valid_until_us(), (30 + 10000 - 102) * 1000);
}

Test(admission, r16_who_left_is_dropped_at_once)
{
    begin_with_rounds(1, 1);
    acquire(1, "a"), acquire(2, "b"), acquire_as(3, "c", .wait_ms = 60000), acquire(4, "d");
    struct send_item a = expect_round_of("a");
    expect_rounds(1, 3);
    cancel(2);
    expect_rounds(1, 2);
    cancel(3);
    expect_rounds(1, 1);
    at_ms(1), answer_round(a, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    expect_round_of("d");
    expect_nothing();
}

Test(admission, r16_who_leaves_with_its_round_gives_the_place_on)
{
    begin_with_rounds(1, 1);
    acquire(1, "a"), acquire(2, "b");
    expect_round_of("a");
    at_ms(1), cancel(1);
    expect_send(OP_RELEASE, ALL);
    expect_round_of("b");
    expect_rounds(1, 0);
}

Test(admission, r16_the_place_of_a_key_is_for_the_first_of_those_who_want_it)
{
    begin_with_rounds(1, 1);
    acquire(1, "a"), acquire_as(2, "b", .wait_ms = 60000), acquire_as(3, "b", .wait_ms = 60000);
    struct send_item a = expect_round_of("a");
    expect_rounds(1, 1);
    cancel(2);
    expect_rounds(1, 1);
    answer_round(a, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    answer_round(expect_round_of("b"), ALL, VOTE_YES);
    expect_answer(3, ANSWER_GRANTED);
}

Test(admission, r16_a_wait_ends_exactly_also_in_the_line)
{
    begin_with_rounds(1, 1);
    acquire(1, "a"), acquire_as(2, "b", .wait_ms = 33);
    struct send_item a = expect_round_of("a");
    at_us(32999), expect_nothing();
    at_ms(33);
    expect_answer(2, ANSWER_OVERLOADED);
    cr_assert_geq(rig.answer.occupant.left_ms, 0);
    expect_rounds(1, 0);
    answer_round(a, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    expect_nothing();
}

/* The result of the last round is reported, as always. */
Test(admission, r16_who_was_refused_before_is_told_of_the_holder)
{
    begin_with_rounds(1, 1);
    acquire_as(1, "b", .wait_ms = 100);
    answer_round(expect_round_of("b"), ALL, VOTE_TAKEN);
    expect_send(OP_RELEASE, 0x18);
    expect_channel(EFFECT_WATCH);
    at_ms(2), acquire(2, "a");
    expect_round_of("a");
    at_ms(51), expect_rounds(1, 1);
    at_ms(52);
    expect_answer(2, ANSWER_QUORUM_UNAVAILABLE);
    expect_send(OP_RELEASE, ALL);
    acquire(3, "c");
    at_ms(53), answer_round(expect_round_of("b"), ALL, VOTE_TAKEN);
    at_ms(100);
    expect_answer(1, ANSWER_WAIT_TIMEOUT);
    cr_assert_eq(rig.answer.occupant.label.len, 5);
}

/* Begins with a round that takes as long as a caller may wait to be sent. */
static void begin_with_slow_rounds(void)
{
    prepare(5);
    rig.config.rounds_min = rig.config.rounds_first = rig.config.rounds_max = 1;
    rig.group.node_timeout_ms = 2 * ADMISSION_MS_MAX;
    rig.policy.ttl_ms = rig.config.max_ttl_ms = 10 * ADMISSION_MS_MAX;
    begin();
    at_ms(0), acquire(1, "a");
    expect_round_of("a");
}

Test(admission, r16_who_tries_once_waits_for_a_place_for_a_while)
{
    begin_with_slow_rounds();
    acquire(2, "b");
    at_us(ADMISSION_MS_MAX * 1000 - 1), expect_nothing();
    at_ms(ADMISSION_MS_MAX);
    expect_answer(2, ANSWER_OVERLOADED);
    expect_rounds(1, 0);
}

Test(admission, d3_a_repeat_takes_the_place_in_the_line_too)
{
    begin_with_slow_rounds();
    acquire_as(2, "b", .idempotency = text("0123456789abcdef"));
    at_ms(4000), acquire_as(3, "b", .idempotency = text("0123456789abcdef"));
    expect_answer(2, ANSWER_SUPERSEDED);
    at_ms(ADMISSION_MS_MAX), expect_nothing();
    at_ms(4000 + ADMISSION_MS_MAX);
    expect_answer(3, ANSWER_OVERLOADED);
}

Test(admission, d8_draining_answers_those_in_the_line)
{
    begin_with_rounds(1, 1);
    acquire(1, "a"), acquire(2, "b"), acquire_as(3, "c", .wait_ms = 60000);
    struct send_item a = expect_round_of("a");
    at_ms(1), step((struct event){.kind = EVENT_DRAIN});
    expect_answer(2, ANSWER_DRAINING);
    expect_answer(3, ANSWER_DRAINING);
    expect_rounds(1, 0);
    answer_round(a, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    expect_nothing();
}

/* A command that relieves the masters, or keeps a promise, never waits. */
Test(admission, r16_only_rounds_for_a_lock_wait)
{
    prepare(5);
    rig.config.rounds_min = rig.config.rounds_first = rig.config.rounds_max = 1;
    rig.policy.handover_max = 1;
    begin();
    struct token held = hold("held"), left = hold("left"), handed = hold("handed");
    acquire_as(1, "handed", .wait_ms = 60000);
    acquire(2, "a"), acquire(3, "b");
    expect_round_of("a");
    expect_rounds(1, 1);
    renew(4, "held", held);
    expect_send(OP_RENEW, ALL);
    release(5, "left", left);
    expect_send(OP_RELEASE, ALL);
    release(6, "handed", handed);
    expect_send(OP_HANDOVER, ALL);
    expect_rounds(1, 1);
    expect_nothing();
}

/* ---- guests ---------------------------------------------------------------------------------- */

static void expect_guests(uint32_t in_flight, uint32_t waiting)
{
    cr_assert_eq(rounds()->guests, in_flight, "at %lld us: %u guests in flight, not %u",
                 (long long)rig.now_us, rounds()->guests, in_flight);
    cr_assert_eq(rounds()->guests_waiting, waiting, "at %lld us: %u guests wait, not %u",
                 (long long)rig.now_us, rounds()->guests_waiting, waiting);
}

static struct token strange_token(void)
{
    return (struct token){.random = {1, 2, 3}, .fence = 1699999999000000};
}

/* Reads and PUTs of unknown tokens went to the masters without a bound, and cost holders of this
 * agent their renewals. */
Test(admission, r16_guests_are_bounded_and_begin_in_the_order_of_coming)
{
    begin_with_rounds(8, 8); /* guests have half of them if no key waits */
    for (uint32_t request = 1; request <= 4; request++) {
        read_key(request, "k");
        expect_send(OP_READ, ALL);
    }
    read_key(5, "k");
    renew(6, "other", strange_token());
    read_key(7, "k");
    expect_nothing();
    expect_guests(4, 3);
    at_ms(50); /* no master answers: the four reads are over */
    for (uint32_t request = 1; request <= 4; request++)
        expect_answer(request, ANSWER_STATE);
    expect_send(OP_READ, ALL);
    expect_send(OP_ADOPT, ALL);
    expect_send(OP_READ, ALL);
    expect_guests(3, 0);
    reply(OP_ADOPT, ALL, VOTE_ABSENT);
    expect_answer(6, ANSWER_NOT_HELD);
    expect_guests(2, 0);
}

/* Guests come after acquires, but they do not starve: they have a quarter. */
Test(admission, r16_while_keys_wait_a_quarter_is_left_to_guests)
{
    begin_with_rounds(8, 8);
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    for (uint32_t i = 0; i < 9; i++)
        acquire(i + 1, keys[i]);
    for (uint32_t i = 0; i < 8; i++)
        expect_send(OP_ACQUIRE, ALL);
    expect_rounds(8, 1);
    read_key(10, "k"), expect_send(OP_READ, ALL);
    read_key(11, "k"), expect_send(OP_READ, ALL);
    read_key(12, "k");
    expect_nothing();
    expect_guests(2, 1);
}

/* Replies come many at a time. The places that become free in one iteration are for the keys that
 * wait, which take them at its end. */
Test(admission, r16_no_guest_takes_the_place_of_a_key_that_waits)
{
    begin_with_rounds(8, 8);
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "l", "m"};
    struct send_item rounds_of_keys[8];
    for (uint32_t i = 0; i < 12; i++)
        acquire(i + 1, keys[i]);
    for (uint32_t i = 0; i < 8; i++)
        rounds_of_keys[i] = expect_round_of(keys[i]);
    for (uint32_t request = 20; request < 22; request++)
        read_key(request, "k"), expect_send(OP_READ, ALL);
    rig.holds_back = true;
    for (uint32_t i = 0; i < 4; i++)
        answer_round(rounds_of_keys[i], ALL, VOTE_YES), expect_answer(i + 1, ANSWER_GRANTED);
    read_key(22, "k");
    expect_guests(2, 1);
    step((struct event){.kind = EVENT_FLUSH});
    expect_round_of("i"); /* one call for all four */
    expect_nothing();
    expect_rounds(8, 0);
    expect_guests(2, 1);
}

/* R16: beyond their quarter guests use the rest of the limit, and no more. */
Test(admission, r16_rounds_and_guests_share_the_limit)
{
    begin_with_rounds(8, 8);
    static const char *const keys[] = {"a", "b", "c", "d", "e"};
    for (uint32_t i = 0; i < 5; i++)
        acquire(i + 1, keys[i]), expect_send(OP_ACQUIRE, ALL);
    for (uint32_t request = 10; request < 13; request++)
        read_key(request, "k"), expect_send(OP_READ, ALL);
    read_key(13, "k");
    expect_nothing();
    expect_rounds(5, 0);
    expect_guests(3, 1);
}

Test(admission, r16_a_guest_that_leaves_is_passed_over)
{
    begin_with_rounds(1, 1);
    read_key(1, "k");
    expect_send(OP_READ, ALL);
    read_key(2, "k"), renew(3, "other", strange_token());
    expect_guests(1, 2);
    cancel(2);
    expect_guests(1, 1);
    cancel(1);
    expect_send(OP_ADOPT, ALL);
    expect_guests(1, 0);
}

Test(admission, d3_who_waits_for_a_place_learns_of_an_adoption)
{
    begin_with_rounds(1, 1);
    struct token strange = hold("k");
    release(1, "k", strange);
    expect_send(OP_RELEASE, ALL);
    reply(OP_RELEASE, ALL, VOTE_YES);
    expect_answer(1, ANSWER_RELEASED);
    strange.random[0] ^= 1;
    acquire(2, "a"), acquire(3, "k");
    expect_round_of("a");
    renew(4, "k", strange);
    expect_send(OP_ADOPT, ALL);
    reply_with(OP_ADOPT, ALL, (struct event_reply){.vote = VOTE_YES, .fence = strange.fence});
    expect_answer(4, ANSWER_RENEWED);
    expect_answer(3, ANSWER_LOCK_HELD);
    expect_rounds(1, 0);
}

/* Masters that are known to be down are not asked, so no caller waits for them. */
Test(admission, d5_what_needs_no_answer_takes_no_place)
{
    begin_with_rounds(1, 1);
    for (uint8_t m = 0; m < 3; m++)
        master_is(m, EVENT_MASTER_DOWN, 0);
    for (uint32_t request = 1; request <= 5; request++) {
        acquire(request, "k");
        expect_answer(request, ANSWER_QUORUM_UNAVAILABLE);
    }
    expect_rounds(0, 0);
}

/* ---- the limit ------------------------------------------------------------------------------- */

enum { CROWD = 60 };

/* Lets so many callers ask, each for a key of its own. */
static void ask_all(void)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%u", i);
        acquire(i, key);
    }
}

/* Answers all rounds that are in flight now. */
static void answer_all(master_set masters, enum vote vote)
{
    struct send_item items[CROWD];
    size_t count = 0;
    for (size_t i = 0; i < rig.count; i++) {
        struct record *r = &rig.records[i];
        if (r->expected || r->effect.kind != EFFECT_SEND || r->effect.send.op != OP_ACQUIRE)
            continue;
        r->expected = true;
        for (size_t at = 0; at < r->effect.send.count; at++)
            items[count++] = r->items[at];
    }
    rig.count = 0;
    for (size_t i = 0; i < count; i++) {
        char key[8];
        snprintf(key, sizeof key, "%.*s", (int)items[i].key.len, items[i].key.at);
        answer_round(items[i], masters, vote);
    }
}

Test(admission, r16_the_limit_grows_while_masters_are_quick_and_somebody_waits)
{
    begin_with_rounds(2, 16);
    ask_all();
    expect_rounds(2, CROWD - 2);
    uint32_t last = rounds()->limit;
    for (int64_t ms = 2; rounds()->waiting > 0; ms += 2) {
        at_ms(ms), answer_all(ALL, VOTE_YES);
        cr_assert_leq(rounds()->limit, 16);
        cr_assert(rounds()->limit > last || last == 16 || rounds()->waiting == 0);
        last = rounds()->limit;
    }
    cr_assert_gt(last, 8);
    at_ms(200), answer_all(ALL, VOTE_YES);
    uint32_t before = rounds()->limit;
    for (uint32_t i = 0; i < 20; i++) { /* no request waits: nothing more is learned */
        acquire(50, "alone"), answer_all(0x07, VOTE_TAKEN);
    }
    cr_assert_eq(rounds()->limit, before);
}

Test(admission, r16_the_limit_is_halved_once_in_a_node_timeout_where_masters_are_slow)
{
    begin_with_rounds(2, 16);
    ask_all();
    for (int64_t ms = 1; rounds()->limit < 16; ms++)
        at_ms(ms), answer_all(ALL, VOTE_YES);
    cr_assert_eq(rounds()->in_flight, 16);
    int64_t sent_ms = rig.now_us / 1000;
    at_ms(sent_ms + 45), answer_all(ALL, VOTE_YES); /* sixteen slow decisions */
    cr_assert_eq(rounds()->limit, 8);
}

/* R16: "They do not move the limit, so one below 64 counts as 64 for them". */
Test(admission, r16_a_low_limit_takes_no_place_from_guests)
{
    prepare(5);
    rig.config.rounds_min = 2, rig.config.rounds_first = 8, rig.config.rounds_max = 16;
    begin();
    acquire(1, "k1"), at_ms(1), answer_all(0x07, VOTE_TAKEN);
    for (int64_t i = 0; i < 2; i++) {
        at_ms(100 * (i + 1)), acquire(1, "k1");
        at_ms(100 * (i + 1) + 46), answer_all(0x07, VOTE_TAKEN);
    }
    cr_assert_eq(rounds()->limit, 2);
    for (uint32_t i = 10; i < 20; i++)
        read_key(i, "other");
    cr_assert_eq(rounds()->guests, 4);
}

/* R24: a key that another holder has costs two round trips. The masters are not slow for that. */
Test(admission, r16_two_round_trips_are_not_one_slow_one)
{
    begin_with_rounds(2, 16);
    ask_all();
    for (int64_t ms = 1; rounds()->limit < 16; ms++)
        at_ms(ms), answer_all(ALL, VOTE_YES);
    int64_t sent_ms = rig.now_us / 1000;
    at_ms(sent_ms + 20), answer_all(0x07, VOTE_BY_SCRIPT);
    at_ms(sent_ms + 40), answer_all(0x07, VOTE_TAKEN);
    cr_assert_geq(rounds()->limit, 16);
}

/* R16: a master whose second reply is not there did not decide. */
Test(admission, r16_who_did_not_decide_makes_no_second_round_trip)
{
    prepare(5);
    rig.config.rounds_min = 1, rig.config.rounds_first = 8;
    begin();
    for (int64_t i = 0; i < 2; i++) {
        at_ms(100 * i), acquire(1, "k1");
        struct send_item item = expect_round_of("k1");
        if (i == 0)
            answer_round(item, 0x08, VOTE_BY_SCRIPT);
        at_ms(100 * i + 40), answer_round(item, 0x07, VOTE_TAKEN);
        expect_answer(1, ANSWER_LOCK_HELD);
        cr_assert_eq(rounds()->limit, 8, "after decision %lld", (long long)i);
        rig.count = 0;
    }
}

/* The masters answered requests of other agents meanwhile: too much was asked. */
Test(admission, r16_what_times_out_of_masters_that_answer_halves_the_limit)
{
    begin_with_rounds(2, 16);
    hold("held");
    ask_all();
    for (int64_t ms = 1; rounds()->limit < 16; ms++)
        at_ms(ms), answer_all(ALL, VOTE_YES);
    int64_t sent_ms = rig.now_us / 1000;
    at_ms(sent_ms + 20), read_key(60, "other");
    expect_send(OP_READ, ALL), reply(OP_READ, ALL, VOTE_ABSENT);
    at_ms(sent_ms + NODE_TIMEOUT_MS);
    cr_assert_eq(rounds()->limit, 8);
}

/* Two of five are down. The first refusal decides the round, and that is an answer. */
Test(admission, r16_a_minority_that_is_down_is_no_outage)
{
    begin_with_rounds(2, 16);
    master_is(3, EVENT_MASTER_DOWN, 0), master_is(4, EVENT_MASTER_DOWN, 0);
    ask_all();
    for (int64_t ms = 1; rounds()->limit < 16 && ms < 20; ms++)
        at_ms(ms), answer_all(0x01, VOTE_TAKEN);
    cr_assert_eq(rounds()->limit, 16);
}

/* Silence of a majority is an outage. Asking less does not help, and later requests must not
 * suffer. */
Test(admission, r16_an_outage_leaves_the_limit_as_it_is)
{
    begin_with_rounds(2, 16);
    ask_all();
    for (int64_t ms = 1; rounds()->limit < 16; ms++)
        at_ms(ms), answer_all(ALL, VOTE_YES);
    int64_t sent_ms = rig.now_us / 1000;
    rig.count = 0;
    at_ms(sent_ms + 10), read_key(60, "other");
    expect_send(OP_READ, ALL), reply(OP_READ, 0x03, VOTE_ABSENT); /* two of five are there */
    at_ms(sent_ms + 3 * NODE_TIMEOUT_MS);
    cr_assert_eq(rounds()->limit, 16);
    cr_assert_eq(rounds()->waiting, 0); /* their turns have come, and were in vain */
}

/* R14: a process that was stopped does not know how long its masters took. */
Test(admission, r16_a_stall_leaves_the_limit_as_it_is)
{
    begin_with_rounds(2, 16);
    ask_all();
    for (int64_t ms = 1; rounds()->limit < 16; ms++)
        at_ms(ms), answer_all(ALL, VOTE_YES);
    stalled_until_ms(rig.now_us / 1000 + 5000), step((struct event){.kind = EVENT_TIME});
    cr_assert_eq(rounds()->limit, 16);
}

/* A link with a round trip of more than half of node_timeout is no overload. */
Test(admission, r16_masters_that_are_far_are_not_slow)
{
    begin_with_rounds(2, 16);
    ask_all();
    for (int64_t ms = 30; rounds()->waiting > 0; ms += 30)
        at_ms(ms), answer_all(ALL, VOTE_YES);
    cr_assert_gt(rounds()->limit, 4);
}

/* Lets callers come at each call, for so many keys, each for itself. */
static void keep_asking(void)
{
    static uint32_t next;
    while (rounds()->in_flight + rounds()->waiting < CROWD) {
        char key[8];
        snprintf(key, sizeof key, "k%u", next % CROWD);
        acquire(next++ % CROWD, key);
    }
}

/* The link has become slow permanently. Earlier fast rounds are forgotten, and the limit grows
 * again. */
Test(admission, r16_masters_that_have_moved_away_are_not_slow_for_ever)
{
    enum { FAR_MS = 30 };
    begin_with_rounds(2, 16);
    keep_asking();
    for (int64_t ms = 1; rounds()->limit < 16; ms++)
        at_ms(ms), answer_all(0x07, VOTE_TAKEN), keep_asking();
    uint32_t least = 16;
    for (int i = 0; i < 40; i++) {
        at_ms(rig.now_us / 1000 + FAR_MS), answer_all(0x07, VOTE_TAKEN), keep_asking();
        least = rounds()->limit < least ? rounds()->limit : least;
    }
    cr_assert_lt(least, 16, "at first they seem slow");
    cr_assert_eq(rounds()->limit, 16);
}

/* Progress from before a slow decision is lost. */
Test(admission, r16_a_limit_that_was_halved_grows_from_there)
{
    begin_with_rounds(8, 64);
    ask_all();
    for (int i = 0; i < 2; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        at_ms(1), answer_round(expect_round_of(key), 0x07, VOTE_TAKEN);
    }
    cr_assert_eq(rounds()->limit, 9);
    at_ms(45), answer_all(0x07, VOTE_TAKEN);
    cr_assert_eq(rounds()->limit, 8);
    at_ms(46);
    for (int i = 0; i < 2; i++) {
        expect_send(OP_ACQUIRE, ALL);
        reply(OP_ACQUIRE, 0x07, VOTE_TAKEN);
    }
    cr_assert_eq(rounds()->limit, 9);
}

/* R3: if this process is late for the deadline, replies that came in time may still be unread. */
Test(admission, r3_a_process_that_is_late_hears_first)
{
    begin_five();
    acquire(1, "a"), acquire(2, "b");
    struct send_item a = expect_round_of("a");
    expect_round_of("b");
    stalled_until_ms(90), step((struct event){.kind = EVENT_TIME});
    expect_nothing();
    answer_round(a, ALL, VOTE_YES);
    expect_answer(1, ANSWER_GRANTED);
    cr_assert_eq(valid_until_us(), (10000 - 102) * 1000);
    at_us(90999), expect_nothing();
    at_ms(91);
    expect_answer(2, ANSWER_QUORUM_UNAVAILABLE);
    expect_send(OP_RELEASE, ALL);
}

/* Retry-After reports the length of the queue. */
Test(admission, r16_retry_after_tells_how_long_the_line_is)
{
    begin_with_rounds(1, 1);
    for (int64_t i = 0; i < 40; i++) { /* a decision takes 20 ms */
        at_ms(i * 20), acquire(1, "a");
        struct send_item a = expect_round_of("a");
        at_ms(i * 20 + 20), answer_round(a, 0x07, VOTE_TAKEN);
        expect_answer(1, ANSWER_LOCK_HELD);
        rig.count = 0;
    }
    acquire(1, "a");
    for (uint32_t i = 2; i < 12; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%u", i);
        acquire_as(i, key, .wait_ms = i == 11 ? 1 : 0);
    }
    at_ms(rig.now_us / 1000 + 1);
    expect_answer(11, ANSWER_OVERLOADED);
    cr_assert_geq(rig.answer.occupant.left_ms, 180);
    cr_assert_leq(rig.answer.occupant.left_ms, 240);
}

/* ---- readers side by side -------------------------------------------------------------------- */

/* Lets a quorum refuse every acquire that is in flight, until no more is sent. Returns how many
 * there were. */
static unsigned refuse_all(void)
{
    unsigned refused = 0;
    for (size_t i = 0; i < rig.count && refused < 100; i++) {
        struct record *r = &rig.records[i];
        if (r->effect.kind != EFFECT_SEND || r->effect.send.op != OP_ACQUIRE)
            continue;
        r->expected = true;
        for (uint16_t at = 0; at < r->effect.send.count; at++, refused++)
            answer_round(r->items[at], 0x07, VOTE_TAKEN);
    }
    rig.count = 0;
    return refused;
}

/* Expects a pause while more readers wait than may be in flight. If refused readers contended again
 * while others are in flight or queued, there would never be one. The masters would be asked
 * without end. */
static void expect_pause(uint32_t places)
{
    prepare(5);
    rig.policy.form = FORM_SHARED;
    rig.config.rounds_min = rig.config.rounds_first = rig.config.rounds_max = places;
    begin();
    for (uint32_t i = 1; i <= 4; i++)
        acquire_as(i, "a", .wait_ms = 60000, .mode = MODE_READ);
    cr_assert_eq(refuse_all(), places);
    expect_rounds(0, 0);
    at_ms(60);
    cr_assert_leq(refuse_all(), 2 * places);
}

Test(admission, r18_readers_that_are_refused_pause_though_others_are_under_way)
{
    expect_pause(2);
}

Test(admission, r18_readers_that_are_refused_pause_though_others_stand_in_line)
{
    expect_pause(1);
}
