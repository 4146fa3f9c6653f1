/* Fencing numbers that cannot have been granted, on a real redis-server: the reaction of each
 * script (R12). */
#include "redis_rig.h"

static struct server one;

#define FENCE "lockagent:fence:lock:k"
static const uint64_t day_us = 24ull * 3600 * 1000 * 1000;

/* Texts that are no number, or no number that a double tells from its neighbours. */
static const char *const nonsense[] = {
    "0176000000000000",
    "9007199254740992",
    "9007199254740993",
    "9999999999999999",
    "10000000000000000",
    "18446744073709551616",
    "-1",
    "1e15",
    "1760000000000000.0",
    "0x6",
    "01760000000000000",
    "12x4",
    "1760000000000000x",
};
enum { NONSENSE = sizeof(nonsense) / sizeof(nonsense[0]) };

static void store(const char *number)
{
    ask(&one, "FLUSHALL");
    ask(&one, "SET %s %s", FENCE, number);
}

static void expect_untouched(const char *number)
{
    cr_assert_str_eq(ask(&one, "GET " FENCE), number);
    cr_assert_eq(ask_number(&one, "PTTL", FENCE), -1);
}

Test(fence, no_script_counts_on_with_what_is_no_number)
{
    begin(&one, NULL);
    for (unsigned i = 0; i < NONSENSE; i++) {
        store(nonsense[i]);
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_SPOILED, "%s",
                     nonsense[i]);
        cr_assert_eq(exchange(OP_REPAIR, 0, item_of("k", 1, BIG)).vote, VOTE_SPOILED, "%s",
                     nonsense[i]);
        cr_assert_null(ask(&one, "GET lock:k"));
        ask(&one, "SET lock:k %s:000000a1:7:me PX 9000", A40);
        cr_assert_eq(exchange(OP_RAISE, 0, item_of("k", 1, BIG)).vote, VOTE_SPOILED, "%s",
                     nonsense[i]);
        struct record got = exchange(OP_ADOPT, 0, item_of("k", 1, 8));
        cr_assert(got.vote == VOTE_MISNUMBERED && got.fence == 7, "%s", nonsense[i]);
        got = exchange(OP_RENEW, 0, item_of("k", 1, BIG)); /* the lease counts */
        cr_assert(got.vote == VOTE_YES && got.fence == 0, "%s", nonsense[i]);
        expect_untouched(nonsense[i]);
        cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, BIG)).vote, VOTE_YES, "%s",
                     nonsense[i]);
        expect_untouched(nonsense[i]);
    }
    end(&one);
}

Test(fence, a_fence_key_of_another_type_is_no_number)
{
    begin(&one, NULL);
    static const char *const others[] = {"HSET", "RPUSH", "SADD"};
    for (unsigned i = 0; i < 3; i++) {
        ask(&one, "FLUSHALL");
        ask(&one, "%s %s field 1", others[i], FENCE);
        struct record refused = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
        cr_assert(refused.vote == VOTE_SPOILED && !refused.tickets, "%s", others[i]);
        cr_assert_eq(exchange(OP_REPAIR, 0, item_of("k", 1, BIG)).vote, VOTE_SPOILED, "%s",
                     others[i]);
        cr_assert_str_eq(ask(&one, "EXISTS lock:k"), "0");
        ask(&one, "SET lock:k %s:000000a1:7:me PX 9000", A40);
        cr_assert_eq(exchange(OP_RAISE, 0, item_of("k", 1, BIG)).vote, VOTE_SPOILED, "%s",
                     others[i]);
        cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_YES, "%s", others[i]);
        cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, BIG)).vote, VOTE_YES, "%s", others[i]);
    }
    end(&one);
}

/* The bound is two days ahead of the proposal, to the microsecond. Below it the number rises by
 * one. From there on the number cannot have been granted. */
Test(fence, two_days_ahead_is_the_bound)
{
    begin(&one, NULL);
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)(BIG + 2 * day_us - 1));
    store(text);
    struct record got = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
    cr_assert(got.vote == VOTE_YES && got.fence == BIG + 2 * day_us);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)(BIG + 2 * day_us));
    cr_assert_str_eq(ask(&one, "GET " FENCE), text);
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    store(text);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_SPOILED);
    expect_untouched(text);
    got = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG + 1)); /* time goes on */
    cr_assert(got.vote == VOTE_YES && got.fence == BIG + 2 * day_us + 1);
    end(&one);
}

/* The largest number that a double tells from its neighbours is counted exactly, with a proposal to
 * match. */
Test(fence, numbers_are_exact_up_to_the_last)
{
    begin(&one, NULL);
    static const uint64_t last = 9007199254740991;
    store("9007199254740989");
    struct record got = exchange(OP_ACQUIRE, 0, item_of("k", 1, last - 2 * day_us));
    cr_assert(got.vote == VOTE_YES && got.fence == last - 1);
    cr_assert_str_eq(ask(&one, "GET " FENCE), "9007199254740990");
    end(&one);
}

/* A hand-over does nothing either: the holder's release stays owed, and is asked for again. */
Test(fence, a_hand_over_leaves_the_key_to_the_release)
{
    begin(&one, NULL);
    exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
    ask(&one, "SET " FENCE " 9999999999999999");
    struct send_item item = item_of("k", 2, BIG + 1);
    item.previous = item_of("k", 1, 0).token;
    cr_assert_eq(exchange(OP_HANDOVER, 0, item).vote, VOTE_SPOILED);
    cr_assert_str_eq(ask(&one, "GET lock:k"), A40 ":000000a1:" BIG_TEXT ":me");
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    end(&one);
}

Test(fence, a_missing_key_and_zero_are_zero)
{
    begin(&one, NULL);
    store("0");
    struct record got = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
    cr_assert(got.vote == VOTE_YES && got.fence == BIG);
    ask(&one, "FLUSHALL");
    got = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
    cr_assert(got.vote == VOTE_YES && got.fence == BIG);
    end(&one);
}

/* A number that was not read is not missing: the stored one must not be written over. */
Test(fence, r12_a_master_that_refuses_to_read_many_keys_keeps_its_numbers)
{
    begin(&one, NULL);
    ask(&one, "SET lockagent:fence:lock:k %llu", (unsigned long long)BIG + 1000);
    ask(&one, "ACL SETUSER default -mget");
    struct send_item items[] = {item_of("k", 1, BIG), item_of("new", 1, BIG)};
    uint32_t first = rig_send(OP_ACQUIRE, 1, items, 2);
    RUN_UNTIL(reply_to(first + 1, 0), 3000);
    cr_assert_eq(reply_to(first, 0)->vote, VOTE_YES);
    cr_assert_eq(reply_to(first, 0)->fence, BIG + 1001);
    cr_assert_eq(reply_to(first + 1, 0)->fence, BIG);
    cr_assert_eq(exchange(OP_RELEASE, 0, items[0]).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 2, BIG + 1)).fence, BIG + 1002);
    end(&one);
}

/* A fence key that was kept for less, or forever, lives for the retention from each grant on. */
Test(fence, r12_each_grant_gives_the_fence_key_its_retention)
{
    static const char *const stored[] = {"SET " FENCE " 7", "SET " FENCE " 7 PX 5000",
                                         "SET " FENCE " 1760000000000009 PX 5000"};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(stored) / sizeof(stored[0]); i++) {
        ask(&one, "FLUSHALL");
        ask(&one, stored[i]);
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
        long long left_ms = ask_number(&one, "PTTL", FENCE);
        cr_assert(left_ms > 3590000 && left_ms <= 3600000, "%s: %lld", stored[i], left_ms);
    }
    end(&one);
}

/* ---- calls of several keys ---- */

enum { EACH = 3 };

static void expect_each(enum op op, const struct send_item items[EACH], enum vote vote,
                        const uint64_t numbers[EACH])
{
    uint32_t first = rig_send(op, 1, items, EACH);
    RUN_UNTIL(reply_to(first + EACH - 1, 0), 3000);
    for (unsigned i = 0; i < EACH; i++) {
        const struct record *got = reply_to(first + i, 0);
        cr_assert_eq(got->vote, items[i].fencing ? vote : got->vote, "%s %u: %s", op_name(op), i,
                     vote_name(got->vote));
        cr_assert_eq(got->fence, numbers[i], "%s %u: %llu", op_name(op), i,
                     (unsigned long long)got->fence);
    }
}

/* The second of them is not numbered at all. */
/* A renewal and a repair do the same. */
Test(fence, r12_a_second_phase_gives_a_fence_key_without_expiry_one)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    ask(&one, "PERSIST " FENCE);
    cr_assert_eq(exchange(OP_RAISE, 0, item_of("k", 1, BIG + 5)).fence, BIG + 5);
    cr_assert_gt(ask_number(&one, "PTTL", FENCE), 3500000);
    end(&one);
}

Test(fence, r12_each_item_of_a_call_has_its_own_number)
{
    static const uint64_t numbers[EACH] = {BIG, 0, BIG + 5}, none[EACH] = {0, 0, 0};
    struct send_item items[EACH] = {item_of("k", 1, BIG), plain_of("l", 1),
                                    item_of("m", 1, BIG + 5)};
    begin(&one, NULL);
    expect_each(OP_ACQUIRE, items, VOTE_YES, numbers);
    ask(&one, "PEXPIRE lockagent:fence:lock:k 3000000");
    ask(&one, "PEXPIRE lockagent:fence:lock:m 1000");
    items[0].fencing = false; /* it is left alone */
    expect_each(OP_RENEW, items, VOTE_YES, none);
    items[0].fencing = true;
    cr_assert_leq(ask_number(&one, "PTTL", "lockagent:fence:lock:k"), 3000000);
    cr_assert_gt(ask_number(&one, "PTTL", "lockagent:fence:lock:m"), 3500000);
    ask(&one, "DEL lock:k plain:l lock:m");
    expect_each(OP_REPAIR, items, VOTE_REPAIRED, numbers);
    items[0].numbered = items[2].numbered = items[0].asked = items[2].asked = true;
    items[0].token.fence = BIG + 5, items[2].token.fence = BIG;
    expect_each(OP_RELEASE, items, VOTE_MISNUMBERED, numbers);
    items[0].token.fence = BIG, items[2].token.fence = BIG + 5;
    expect_each(OP_RELEASE, items, VOTE_YES, numbers);
    end(&one);
}

/* R12: however a lock is stored, a repair keeps its number for the retention at least, and for no
 * less than it was kept before. */
Test(fence, r12_a_repair_keeps_a_number_for_no_less_than_before)
{
    static const enum form forms[] = {FORM_PLAIN, FORM_SHARED, FORM_REDISSON};
    begin(&one, NULL);
    for (unsigned i = 0; i < 2 * sizeof(forms) / sizeof(forms[0]); i++) {
        bool is_gone = i % 2 == 1;
        struct send_item item = item_of("k", 1, BIG + 1);
        item.form = forms[i / 2];
        item.ticket.agent = 1;
        ask(&one, "FLUSHALL");
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_YES);
        for (unsigned kept_s = 1; kept_s <= 7200; kept_s += 7199) {
            if (is_gone)
                ask(&one, "DEL lock:k");
            ask(&one, "SET " FENCE " " BIG_TEXT " EX %u", kept_s); /* a number before ours */
            cr_assert_eq(exchange(OP_REPAIR, 0, item).vote, is_gone ? VOTE_REPAIRED : VOTE_YES);
            cr_assert_str_eq(ask(&one, "GET " FENCE), "1760000000000001");
            long long left_ms = ask_number(&one, "PTTL", FENCE),
                      most_ms = kept_s > 3600 ? kept_s * 1000LL : 3600000;
            cr_assert(left_ms > most_ms - 60000 && left_ms <= most_ms, "%u: %lld ms", i, left_ms);
        }
    }
    end(&one);
}
