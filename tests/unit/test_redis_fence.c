/* Fencing numbers that cannot have been granted, on a real redis-server: the reaction of each
 * script (R12). */
#include "redis_rig.h"

static struct server one;

#define COUNTER "redisson_lock_token:{lock:k}" /* RFencedLock's key (R22) */
static const uint64_t day_us = 24ull * 3600 * 1000 * 1000;

/* Scores that a double does not tell from their neighbours. */
static const char *const wild[] = {
    "inf", "9007199254740992", "9007199254740994", "18446744073709551616", "1e300",
};
enum { WILD = sizeof(wild) / sizeof(wild[0]) };

static void store(const char *number)
{
    ask(&one, "FLUSHALL");
    store_number(&one, "lock:k", number);
}

static double stored(void)
{
    return strtod(stored_number(&one, "lock:k"), NULL);
}

static void expect_untouched(const char *number)
{
    double expected = strtod(number, NULL), got = stored();
    cr_assert_eq(got, expected, "%s became %g", number, got);
    cr_assert_eq(ask_number(&one, "PTTL", BUCKET_OF_K), -1);
}

/* Lets each script look at the invalid number that is stored. */
static void expect_spoiled(const char *what)
{
    struct record refused = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
    cr_assert(refused.vote == VOTE_SPOILED && !refused.tickets, "%s: %s", what,
              vote_name(refused.vote));
    refused = exchange(OP_REPAIR, 0, item_of("k", 1, BIG));
    cr_assert_eq(refused.vote, VOTE_SPOILED, "%s: %s", what, vote_name(refused.vote));
    cr_assert_null(ask(&one, "GET lock:k"));
    ask(&one, "SET lock:k %s7:me PX 9000", A40 AGENT);
    refused = exchange(OP_RAISE, 0, item_of("k", 1, BIG));
    cr_assert_eq(refused.vote, VOTE_SPOILED, "%s: %s", what, vote_name(refused.vote));
    struct record got = exchange(OP_ADOPT, 0, item_of("k", 1, 8));
    cr_assert(got.vote == VOTE_MISNUMBERED && got.fence == 7, "%s", what);
    static const enum op ops[] = {OP_RENEW, OP_REPAIR}; /* the lease counts */
    for (unsigned i = 0; i < 2; i++) {
        got = exchange(ops[i], 0, item_of("k", 1, BIG));
        cr_assert(got.vote == VOTE_YES && got.fence == 0, "%s: %s", what, op_name(ops[i]));
    }
    got = exchange(OP_ADOPT, 0, item_of("k", 1, BIG));
    cr_assert_eq(got.vote, VOTE_YES, "%s", what);
}

static void expect_spoiled_and_untouched(const char *number)
{
    store(number);
    expect_spoiled(number);
    expect_untouched(number);
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, BIG)).vote, VOTE_YES, "%s", number);
    expect_untouched(number);
}

/* R12: "A master with such a number in a bucket has no vote on the locks of the bucket." */
Test(fence, r12_no_script_counts_on_with_what_is_no_number)
{
    begin(&one, NULL);
    for (unsigned i = 0; i < WILD; i++)
        expect_spoiled_and_untouched(wild[i]);
    end(&one);
}

/* R12: "Each granting master stores and returns max(stored + 1, p, floor + 1)": of a score that no
 * agent wrote, the whole number below it. */
Test(fence, r12_a_score_that_is_no_number_is_passed)
{
    static const struct {
        const char *score;
        uint64_t granted, raised;
    } cases[] = {{"1.5", BIG, BIG + 7},
                 {"-1", BIG, BIG + 7},
                 {"-inf", BIG, BIG + 7},
                 {"1760000000000000.5", BIG + 1, BIG + 7},
                 {"1760000000000008.5", BIG + 9, BIG + 8}};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        store(cases[i].score);
        struct record got = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
        cr_assert(got.vote == VOTE_YES && got.fence == cases[i].granted, "%s: %llu", cases[i].score,
                  (unsigned long long)got.fence);
        cr_assert_eq(stored(), (double)cases[i].granted, "%s", cases[i].score);
        store_number(&one, "lock:k", cases[i].score);
        got = exchange(OP_RAISE, 0, item_of("k", 1, BIG + 7));
        cr_assert(got.vote == VOTE_YES && got.fence == cases[i].raised, "%s: %llu", cases[i].score,
                  (unsigned long long)got.fence);
    }
    end(&one);
}

Test(fence, r12_a_key_of_another_type_is_no_number)
{
    begin(&one, NULL);
    static const char *const others[] = {"HSET %s field 1", "RPUSH %s 1", "SADD %s 1", "SET %s 7"};
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        ask(&one, "FLUSHALL");
        ask(&one, others[i], BUCKET_OF_K);
        expect_spoiled(others[i]);
        cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, BIG)).vote, VOTE_YES, "%s", others[i]);
        cr_assert_str_neq(ask(&one, "TYPE " BUCKET_OF_K), "zset", "%s", others[i]);
    }
    end(&one);
}

/* The bound is two days ahead of the proposal, to the microsecond. Below it the number rises by
 * one. From there on the number cannot have been granted. */
Test(fence, r12_two_days_ahead_is_the_bound)
{
    begin(&one, NULL);
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)(BIG + 2 * day_us - 1));
    store(text);
    struct record got = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
    cr_assert(got.vote == VOTE_YES && got.fence == BIG + 2 * day_us);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)(BIG + 2 * day_us));
    expect_untouched(text);
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    store(text);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_SPOILED);
    expect_untouched(text);
    got = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG + 1)); /* time goes on */
    cr_assert(got.vote == VOTE_YES && got.fence == BIG + 2 * day_us + 1);
    end(&one);
}

/* A second phase has the same bound. */
Test(fence, r12_two_days_ahead_is_the_bound_of_a_raise)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)(BIG + 2 * day_us));
    store_number(&one, "lock:k", text);
    cr_assert_eq(exchange(OP_RAISE, 0, item_of("k", 1, BIG)).vote, VOTE_SPOILED);
    struct record got = exchange(OP_RAISE, 0, item_of("k", 1, BIG + 1));
    cr_assert(got.vote == VOTE_YES && got.fence == BIG + 2 * day_us);
    expect_untouched(text);
    end(&one);
}

/* The largest number that a double tells from its neighbours is counted exactly, with a proposal to
 * match. */
Test(fence, r12_numbers_are_exact_up_to_the_last)
{
    begin(&one, NULL);
    static const uint64_t last = 9007199254740991;
    store("9007199254740989");
    struct record got = exchange(OP_ACQUIRE, 0, item_of("k", 1, last - 2 * day_us));
    cr_assert(got.vote == VOTE_YES && got.fence == last - 1);
    expect_untouched("9007199254740990");
    end(&one);
}

/* A hand-over does nothing either: the holder's release stays owed, and is asked for again. */
Test(fence, r12_a_hand_over_leaves_the_key_to_the_release)
{
    begin(&one, NULL);
    exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
    store_number(&one, "lock:k", "9999999999999999");
    struct send_item item = item_of("k", 2, BIG + 1);
    item.previous = item_of("k", 1, 0).token;
    cr_assert_eq(exchange(OP_HANDOVER, 0, item).vote, VOTE_SPOILED);
    cr_assert_str_eq(ask(&one, "GET lock:k"), A40 ":000000a1:" BIG_TEXT ":me");
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    end(&one);
}

/* A bucket may have members of another program. Only `n` is a number of lockagent. */
Test(fence, r12_a_missing_number_and_zero_are_zero)
{
    static const char *const zeros[] = {"PING", "ZADD %s 0 n", "ZADD %s -0 n",
                                        "ZADD %s 9000000000000000 m"};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(zeros) / sizeof(zeros[0]); i++) {
        for (unsigned is_low = 0; is_low < 2; is_low++) {
            uint64_t proposed = is_low ? 1 : BIG;
            ask(&one, "FLUSHALL");
            ask(&one, zeros[i], BUCKET_OF_K);
            struct record got = exchange(OP_ACQUIRE, 0, item_of("k", 1, proposed));
            cr_assert(got.vote == VOTE_YES && got.fence == proposed, "%s", zeros[i]);
            ask(&one, "DEL lock:k");
            got = exchange(OP_ACQUIRE, 0, item_of("k", 1, proposed));
            cr_assert(got.vote == VOTE_YES && got.fence == proposed + 1, "%s", zeros[i]);
        }
    }
    end(&one);
}

/* A number that was not read is not missing: the stored one must not be written over. */
Test(fence, r12_a_master_that_refuses_to_read_many_keys_keeps_its_numbers)
{
    begin(&one, NULL);
    store_number(&one, "lock:k", "1760000000001000");
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

/* A user that may not read or write buckets gets no number. A grant without one would lie. */
Test(fence, r12_a_master_that_refuses_sorted_sets_refuses_numbered_locks)
{
    static const char *const commands[] = {"zadd", "zscore"};
    begin(&one, NULL);
    for (unsigned i = 0; i < 2; i++) {
        ask(&one, "FLUSHALL");
        store_number(&one, "lock:k", "1760000000001000");
        ask(&one, "ACL SETUSER default -%s", commands[i]);
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_REFUSED, "%s",
                     commands[i]);
        cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0, "%s", commands[i]);
        ask(&one, "ACL SETUSER default +%s", commands[i]);
        RUN_UNTIL(is_up(0), 3000);
        expect_untouched("1760000000001000");
    }
    end(&one);
}

/* ---- RFencedLock's counter (R22) ---- */

static struct send_item java_item(uint8_t token, uint64_t fence)
{
    struct send_item item = item_of("k", token, fence);
    item.form = FORM_REDISSON;
    return item;
}

static void begin_java(void)
{
    begin(&one, NULL);
    rig.config->policies[POLICY_FENCED].core.fencing = FENCING_REDISSON;
}

/* Texts that INCR refuses, or no number that a double tells from its neighbours. */
static const char *const no_counts[] = {
    "0176000000000000",
    "00",
    "9007199254740992",
    "9007199254740993",
    "9999999999999999",
    "10000000000000000",
    "18446744073709551616",
    "-1",
    "1e15",
    "1760000000000000.0",
    "0x6",
    "12x4",
    "1760000000000000x",
    "inf",
};

/* R22: a counter is a text that INCR counts on with. */
Test(fence, r22_no_script_counts_on_with_what_is_no_count)
{
    begin_java();
    for (unsigned i = 0; i < sizeof(no_counts) / sizeof(no_counts[0]); i++) {
        ask(&one, "FLUSHALL");
        ask(&one, "SET " COUNTER " %s", no_counts[i]);
        cr_assert_eq(exchange(OP_ACQUIRE, 0, java_item(1, BIG)).vote, VOTE_SPOILED, "%s",
                     no_counts[i]);
        cr_assert_eq(exchange(OP_REPAIR, 0, java_item(1, BIG)).vote, VOTE_SPOILED, "%s",
                     no_counts[i]);
        cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0, "%s", no_counts[i]);
        ask(&one, "HSET lock:k " A40 AGENT "7:me 1 mode lockagent");
        cr_assert_eq(exchange(OP_RAISE, 0, java_item(1, BIG)).vote, VOTE_SPOILED, "%s",
                     no_counts[i]);
        cr_assert_eq(exchange(OP_RENEW, 0, java_item(1, BIG)).vote, VOTE_YES, "%s", no_counts[i]);
        cr_assert_eq(exchange(OP_RELEASE, 0, java_item(1, BIG)).vote, VOTE_YES, "%s", no_counts[i]);
        cr_assert_str_eq(ask(&one, "GET " COUNTER), no_counts[i]);
    }
    end(&one);
}

/* R22: "the key is RFencedLock's, ..., without expiry, and both are in one order" */
Test(fence, r22_a_counter_stays_a_string_that_never_expires)
{
    static const char *const counts[] = {NULL, "0", "7", "1760000000000009"};
    begin_java();
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        ask(&one, "FLUSHALL");
        if (counts[i])
            ask(&one, "SET " COUNTER " %s", counts[i]);
        struct record got = exchange(OP_ACQUIRE, 0, java_item(1, BIG));
        cr_assert(got.vote == VOTE_YES && got.fence == (i == 3 ? BIG + 10 : BIG), "%u", i);
        cr_assert_eq(exchange(OP_RAISE, 0, java_item(1, BIG + 20)).fence, BIG + 20);
        ask(&one, "DEL lock:k");
        cr_assert_eq(exchange(OP_REPAIR, 0, java_item(1, BIG + 30)).fence, BIG + 30);
        ask(&one, "SET " COUNTER " 1760000000000029");
        cr_assert_eq(exchange(OP_REPAIR, 0, java_item(1, BIG + 30)).fence, BIG + 30);
        struct send_item heir = java_item(2, BIG);
        memset(heir.previous.random, 1, RANDOM_BYTES);
        cr_assert_eq(exchange(OP_HANDOVER, 0, heir).fence, BIG + 31);
        cr_assert_str_eq(ask(&one, "GET " COUNTER), "1760000000000031");
        cr_assert_eq(ask_number(&one, "PTTL", COUNTER), -1);
        cr_assert_eq(ask_number(&one, "INCR", COUNTER), (long long)BIG + 32, "Java counts on");
        cr_assert_str_eq(ask(&one, "EXISTS " BUCKET_OF_K), "0");
        cr_assert_eq(exchange(OP_RELEASE, 0, java_item(2, BIG)).vote, VOTE_YES);
        cr_assert_str_eq(ask(&one, "DBSIZE"), "1");
    }
    end(&one);
}

/* A hash of form redisson that the agents number by themselves has a bucket, like every other. */
Test(fence, r22_a_lock_of_redisson_with_own_numbers_has_a_bucket)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, java_item(1, BIG)).fence, BIG);
    cr_assert_str_eq(stored_number(&one, "lock:k"), BIG_TEXT);
    cr_assert_str_eq(ask(&one, "EXISTS " COUNTER), "0");
    end(&one);
}
