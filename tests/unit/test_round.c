/* The small parts of the core by themselves: votes, tokens, timers, patterns, hashes. */
#include <criterion/criterion.h>
#include <string.h>

#include "agent/core/hash_table.h"
#include "agent/core/internal.h"
#include "agent/core/names.h"
#include "agent/core/random.h"
#include "agent/core/round.h"
#include "agent/core/timers.h"

static const struct instant start = {1000000};

static struct round five(master_set asked)
{
    struct round round = {0};
    round_begin(&round, OP_ACQUIRE, 5, 3, asked, start, 50);
    return round;
}

static void vote(struct round *round, enum vote what, const char *masters)
{
    for (; *masters != '\0'; masters++)
        round_vote(round, (uint8_t)(*masters - '0'), what);
}

/* ---- R1, R2, R3 ---- */

Test(round, r2_quorum_is_a_majority_or_all)
{
    for (uint8_t n = 1; n <= LIMIT_MASTERS; n++) {
        cr_assert_eq(round_quorum(ALGORITHM_REDLOCK, n), n / 2 + 1);
        cr_assert_eq(round_quorum(ALGORITHM_MULTILOCK, n), n);
    }
    cr_assert_eq(round_quorum(ALGORITHM_SINGLE, 1), 1);
}

Test(round, r1_is_won_at_the_quorum_and_not_before)
{
    struct round round = five(0x1f);
    vote(&round, VOTE_YES, "04");
    cr_assert_eq(round_verdict(&round), VERDICT_OPEN);
    vote(&round, VOTE_YES, "2");
    cr_assert_eq(round_verdict(&round), VERDICT_WON);
}

Test(round, r1_is_lost_as_soon_as_no_quorum_is_left)
{
    struct round round = five(0x1f);
    vote(&round, VOTE_TAKEN, "01");
    cr_assert_eq(round_verdict(&round), VERDICT_OPEN);
    vote(&round, VOTE_UNKNOWN, "2");
    cr_assert_eq(round_verdict(&round), VERDICT_LOST);
}

Test(round, a_master_votes_once)
{
    struct round round = five(0x1f);
    vote(&round, VOTE_YES, "000000");
    vote(&round, VOTE_TAKEN, "0");
    cr_assert_eq(round_tally(&round).granted, 1);
    cr_assert_eq(round_tally(&round).taken, 0);
}

Test(round, r3_a_master_known_to_be_down_counts_as_failed_at_once)
{
    struct round round = five(0x03);
    cr_assert_eq(round_verdict(&round), VERDICT_LOST);
    cr_assert_eq(round_tally(&round).failed, 3);
    cr_assert_not(round_lost_to_holder(&round));
}

Test(round, r3_silence_at_the_deadline_is_unknown_and_never_no)
{
    struct round round = five(0x1f);
    vote(&round, VOTE_YES, "01");
    cr_assert_eq(round.deadline.us, start.us + 50 * 1000);
    round_close(&round);
    cr_assert_eq(round_verdict(&round), VERDICT_LOST);
    cr_assert_eq(round_tally(&round).taken, 0);
    cr_assert_eq(round_tally(&round).failed, 3);
    cr_assert_not(round_lost_to_holder(&round),
                  "two granted and three silent is unavailable, not held");
}

Test(round, granted_and_held_that_make_a_quorum_mean_held)
{
    struct round round = five(0x1f);
    vote(&round, VOTE_YES, "0");
    vote(&round, VOTE_TAKEN, "12");
    vote(&round, VOTE_UNKNOWN, "34");
    cr_assert_eq(round_verdict(&round), VERDICT_LOST);
    cr_assert(round_lost_to_holder(&round));
}

Test(round, a_multilock_with_one_holder_is_held_though_four_are_still_pending)
{
    struct round round = {0};
    round_begin(&round, OP_ACQUIRE, 5, 5, 0x1f, start, 50);
    vote(&round, VOTE_TAKEN, "3");
    cr_assert_eq(round_verdict(&round), VERDICT_LOST);
    cr_assert(round_lost_to_holder(&round));
}

Test(round, r7_a_repaired_key_counts_from_the_next_renewal_on)
{
    struct round round = {0};
    round_begin(&round, OP_RENEW, 5, 3, 0x1f, start, 50);
    vote(&round, VOTE_YES, "01");
    vote(&round, VOTE_REPAIRED, "234");
    cr_assert_eq(round_verdict(&round), VERDICT_LOST);
    cr_assert_eq(round_tally(&round).taken, 0);
}

Test(round, a_release_counts_every_definite_word)
{
    struct round round = {0};
    round_begin(&round, OP_RELEASE, 5, 3, 0x1f, start, 50);
    vote(&round, VOTE_YES, "0");
    vote(&round, VOTE_ABSENT, "1");
    cr_assert_eq(round_verdict(&round), VERDICT_OPEN);
    vote(&round, VOTE_TAKEN, "2");
    cr_assert_eq(round_verdict(&round), VERDICT_WON);
}

static enum taken take(struct round *round, uint8_t master, enum vote vote)
{
    struct event_reply reply = {
        .master = master, .op = round->op, .ref = {.round = round->number}, .vote = vote};
    return round_take(round, &reply);
}

Test(round, takes_no_late_reply_but_a_release)
{
    struct round round = five(0x1f);
    struct event_reply late = {.op = OP_ACQUIRE, .ref = {.round = round.number - 1}};
    cr_assert_eq(round_take(&round, &late), TAKEN_STALE);
    late.op = OP_RELEASE;
    cr_assert_eq(round_take(&round, &late), TAKEN_VOTE);
    round.asked = 0;
    cr_assert_eq(round_take(&round, &late), TAKEN_STALE);
}

Test(round, asks_again_once_where_nothing_was_run)
{
    struct round round = five(0x1f);
    cr_assert_eq(take(&round, 1, VOTE_NOT_RUN), TAKEN_RERUN);
    cr_assert_eq(take(&round, 1, VOTE_NOT_RUN), TAKEN_VOTE);
    cr_assert_eq(take(&round, 2, VOTE_REFUSED), TAKEN_VOTE);
    cr_assert_eq(round_tally(&round).failed, 2);
}

/* R6: a release goes again to a master that is back. Its scripts may be missing there once more. */
Test(round, r6_a_master_that_is_asked_anew_may_lack_the_script_again)
{
    struct round round = {0};
    round_begin(&round, OP_RELEASE, 5, 3, 0x1f, start, 50);
    cr_assert_eq(take(&round, 1, VOTE_NOT_RUN), TAKEN_RERUN);
    cr_assert_eq(take(&round, 1, VOTE_UNKNOWN), TAKEN_VOTE);
    round_reopen(&round, set_of(1));
    cr_assert_eq(take(&round, 1, VOTE_NOT_RUN), TAKEN_RERUN);
    cr_assert_eq(take(&round, 1, VOTE_YES), TAKEN_VOTE);
    cr_assert_eq(round_tally(&round).granted, 1);
}

/* ---- R10: tokens ---- */

Test(token, prints_and_parses_back)
{
    struct token token = {.fence = 1763690000000000}, back;
    char text[TOKEN_CHARS_MAX + 1];
    for (size_t i = 0; i < RANDOM_BYTES; i++)
        token.random[i] = (uint8_t)(i * 13 + 200);
    size_t len = token_print(&token, text);
    cr_assert_eq(len, strlen(text));
    cr_assert(token_parse((struct text){text, len}, &back));
    cr_assert(token_same_random(&token, &back));
    cr_assert_eq(back.fence, token.fence);
}

Test(token, r20_of_a_semaphore_names_its_slot)
{
    struct token token = {.fence = UINT64_MAX, .slot = LIMIT_PERMITS - 1, .has_slot = true}, back;
    char text[TOKEN_CHARS_MAX + 1];
    size_t len = token_print(&token, text);
    cr_assert_eq(len, TOKEN_CHARS_MAX);
    cr_assert_str_eq(text + len - 3, ".63");
    cr_assert(token_parse((struct text){text, len}, &back));
    cr_assert(token_same_slot(&back, &token));
    cr_assert(token_parse((struct text){text, len - 3}, &back));
    cr_assert(!back.has_slot && back.slot == 0);
}

Test(token, r10_one_different_bit_anywhere_is_another_token)
{
    struct token a = {.random = {1, 2, 3}}, b = a;
    for (size_t bit = 0; bit < 8 * RANDOM_BYTES; bit++) {
        b.random[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert_not(token_same_random(&a, &b));
        b.random[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    cr_assert(token_same_random(&a, &b));
}

Test(token, refuses_what_it_would_not_print)
{
    static const char *const bad[] = {
        "",
        ".",
        "0123456789abcdef0123456789abcdef01234567",
        "0123456789abcdef0123456789abcdef01234567.",
        "0123456789abcdef0123456789abcdef0123456.1",
        "0123456789ABCDEF0123456789abcdef01234567.1",
        "0123456789abcdef0123456789abcdef01234567.01",
        "0123456789abcdef0123456789abcdef01234567.-1",
        "0123456789abcdef0123456789abcdef01234567.1 ",
        "0123456789abcdef0123456789abcdef01234567.18446744073709551616",
        "0123456789abcdef0123456789abcdef01234567.184467440737095516150",
        "g123456789abcdef0123456789abcdef01234567.1",
        "0123456789abcdef0123456789abcdef01234567.1.",
        "0123456789abcdef0123456789abcdef01234567.1.64",
        "0123456789abcdef0123456789abcdef01234567.1.00",
        "0123456789abcdef0123456789abcdef01234567.1.1.1",
    };
    struct token token;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not(token_parse((struct text){bad[i], strlen(bad[i])}, &token), "%s", bad[i]);
    static const char most[] = "0123456789abcdef0123456789abcdef01234567.18446744073709551615";
    cr_assert(token_parse((struct text){most, strlen(most)}, &token));
    cr_assert_eq(token.fence, UINT64_MAX);
}

/* ---- timers ---- */

Test(timers, fire_in_order_of_time_then_of_arming)
{
    enum { COUNT = 500 };
    struct timer_entry heap[COUNT + 1];
    uint32_t places[COUNT] = {0};
    struct timers timers = {.heap = heap, .places = places, .size = COUNT};
    struct random random;
    random_seed(&random, 7);
    for (uint32_t i = 0; i < COUNT; i++)
        timers_set(&timers, i, (struct instant){random_below(&random, 50)});
    for (uint32_t i = 0; i < COUNT; i += 3)
        timers_set(&timers, i, (struct instant){random_below(&random, 50)});
    for (uint32_t i = 0; i < COUNT; i += 7)
        timers_clear(&timers, i);
    struct timer_entry last = {.at = {INT64_MIN}};
    uint32_t fired = 0;
    for (; timers_due(&timers).us != INSTANT_NEVER.us; fired++) {
        struct timer_entry first = heap[1];
        cr_assert_neq(first.timer % 7, 0, "it was cleared");
        cr_assert(timers_know(&timers, first.timer) && first.at.us == timers_due(&timers).us);
        cr_assert_eq(timers_at(&timers, first.timer).us, first.at.us);
        cr_assert(last.at.us < first.at.us ||
                  (last.at.us == first.at.us && last.order < first.order));
        last = first;
        timers_clear(&timers, timers_first(&timers));
        cr_assert_not(timers_is_armed(&timers, first.timer));
    }
    cr_assert_eq(fired, COUNT - (COUNT + 6) / 7);
}

Test(timers, never_disarms)
{
    struct timer_entry heap[2];
    uint32_t place = 0;
    struct timers timers = {.heap = heap, .places = &place, .size = 1};
    timers_set(&timers, 0, start);
    timers_set(&timers, 0, INSTANT_NEVER);
    cr_assert_not(timers_is_armed(&timers, 0));
    cr_assert_eq(timers_due(&timers).us, INSTANT_NEVER.us);
    cr_assert_eq(timers_at(&timers, 0).us, INSTANT_NEVER.us);
}

/* ---- policies, hashes, lists ---- */

static bool matches(const char *pattern, const char *key)
{
    return glob_matches(pattern, (struct text){key, strlen(key)});
}

Test(policy, globs_match_whole_keys)
{
    cr_assert(matches("*", "anything/at/all"));
    cr_assert(matches("jobs/*", "jobs/1"));
    cr_assert(matches("jobs/*", "jobs/a/b"));
    cr_assert(matches("jobs/?", "jobs/1"));
    cr_assert(matches("*/lock", "a/b/lock"));
    cr_assert(matches("a*b*c", "aXbXbXc"));
    cr_assert(matches("exact", "exact"));
    cr_assert_not(matches("jobs/*", "job/1"));
    cr_assert_not(matches("jobs/?", "jobs/12"));
    cr_assert_not(matches("exact", "exactly"));
    cr_assert_not(matches("a*b", "aXbX"));
    cr_assert_not(matches("", "a"));
}

Test(policy, a_hostile_pattern_is_not_exponential)
{
    char key[LIMIT_KEY_BYTES + 1];
    memset(key, 'a', LIMIT_KEY_BYTES);
    key[LIMIT_KEY_BYTES] = '\0';
    cr_assert_not(matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", key));
}

/* The reference vectors of SipHash are for 2-4; these pin our 1-3 so that agents of different
 * builds agree on groups (A4). */
Test(hash, is_the_same_on_every_build)
{
    static const char bytes[] = "jobs/42 and some more";
    cr_assert_eq(hash_bytes(1, 2, bytes, 0), hash_bytes(1, 2, "", 0));
    cr_assert_neq(hash_bytes(1, 2, bytes, 8), hash_bytes(1, 2, bytes, 9));
    cr_assert_neq(hash_bytes(1, 2, bytes, 8), hash_bytes(2, 1, bytes, 8));
    cr_assert_eq(hash_bytes(0, 0, "main", 4), UINT64_C(0xf22da7240b7add18));
}

Test(hash, spreads)
{
    unsigned buckets[16] = {0};
    for (uint32_t i = 0; i < 16000; i++)
        buckets[hash_bytes(3, 4, &i, sizeof(i)) & 15]++;
    for (int i = 0; i < 16; i++)
        cr_assert(buckets[i] > 850 && buckets[i] < 1150, "bucket %d has %u of 1000 expected", i,
                  buckets[i]);
}

/* ---- time ---- */

Test(hash, a_table_keeps_the_order_of_a_bucket_and_removes_from_anywhere)
{
    struct hash_link memory[4] = {{0}}, *links = memory + 1;
    uint32_t buckets[16] = {0};
    struct hash_table table = {(char *)memory, buckets, 16};
    for (size_t i = 0; i < 3; i++)
        hash_add(&table, &links[i], 5 + 16 * i);
    cr_assert(hash_first(&table, 5) == &links[0] && hash_next(&table, &links[1]) == &links[2]);
    hash_remove(&table, &links[1], 21);
    cr_assert(!hash_has(&links[1]) && hash_has(&links[2]));
    cr_assert(hash_next(&table, &links[0]) == &links[2] && hash_next(&table, &links[2]) == NULL);
    hash_remove(&table, &links[0], 5);
    hash_add(&table, &links[1], 5);
    cr_assert(hash_first(&table, 21) == &links[2] && hash_next(&table, &links[2]) == &links[1]);
    hash_remove(&table, &links[2], 37);
    hash_remove(&table, &links[1], 5);
    cr_assert_null(hash_first(&table, 5));
    hash_add(&table, &links[1], 5);
    cr_assert(hash_first(&table, 5) == &links[1] && hash_next(&table, &links[1]) == NULL);
    cr_assert_null(hash_first(&table, 6));
}

Test(names, a_slot_is_at_most_half_longer_than_the_one_before)
{
    for (unsigned size = 1; size < NAME_SIZES; size++) {
        size_t bytes = names_slot_bytes(size), before = names_slot_bytes(size - 1);
        cr_assert(bytes > before && 2 * bytes <= 3 * before, "%zu after %zu", bytes, before);
    }
}

/* The table takes as many names as there are keys, of any sizes, after any names. */
Test(names, none_is_refused_while_there_is_a_key)
{
    enum { KEYS = 40 };
    static char memory[NAME_SIZES][KEYS * LIMIT_KEY_BYTES];
    struct names names = {.taken = 0};
    const char *taken[KEYS] = {NULL};
    size_t lens[KEYS];
    char name[LIMIT_KEY_BYTES];
    struct random random;
    random_seed(&random, 7);
    for (unsigned size = 0; size < NAME_SIZES; size++)
        names.sizes[size] =
            (struct slots){.at = memory[size], .bytes = names_slot_bytes(size), .count = KEYS};
    for (int turn = 0; turn < 20000; turn++) {
        /* all short, all long, or anything: each size is once the only one */
        int64_t longest = turn / 1000 % 3 == 0 ? 8 : LIMIT_KEY_BYTES,
                shortest = turn / 1000 % 3 == 1 ? LIMIT_KEY_BYTES - 8 : 1;
        size_t i = (size_t)random_below(&random, KEYS);
        if (taken[i] != NULL) {
            for (size_t at = 0; at < lens[i]; at++)
                cr_assert_eq((unsigned char)taken[i][at], i, "name %zu was written over", i);
            names_give(&names, taken[i], lens[i]);
        }
        lens[i] = (size_t)(shortest + random_below(&random, longest - shortest + 1));
        memset(name, (int)i, lens[i]);
        taken[i] = names_take(&names, (struct text){name, lens[i]});
        cr_assert_leq(names.taken, KEYS);
    }
    cr_assert_eq(names.taken, KEYS);
}

Test(instant, saturates_instead_of_overflowing)
{
    cr_assert_eq(instant_after_us(INSTANT_NEVER, 1).us, INT64_MAX);
    cr_assert_eq(instant_after_us((struct instant){INT64_MIN}, -1).us, INT64_MIN);
    cr_assert_eq(instant_after_ms(start, -1).us, start.us - 1000);
}
