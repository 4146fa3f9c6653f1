/* The scripts of the Redis room, each path of them, on a real redis-server. */
#include <time.h>

#include "agent/core/guard.h"
#include "agent/redis/asking.h"
#include "agent/redis/scripts.h"
#include "redis_rig.h"

static struct server one;

/* A master makes every function of a script anew in each call (embed.py). */
Test(scripts, no_script_has_what_only_another_form_needs)
{
    cr_assert_not_null(strstr(redis_scripts[SCRIPT_ACQUIRE_SLOTS].text, "with_slots("));
    for (unsigned id = SCRIPT_ACQUIRE; id < SCRIPT_COUNT; id++) {
        bool has = strstr(redis_scripts[id].text, "with_slots") != NULL;
        cr_assert_eq(has, id == SCRIPT_ACQUIRE_SLOTS, "%s", redis_scripts[id].name);
    }
}

Test(scripts, acquire_grants_once_and_refuses_with_label_and_ttl)
{
    begin(&one, NULL);
    struct record got = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
    cr_assert_eq(got.vote, VOTE_YES);
    cr_assert_eq(got.fence, BIG);
    cr_assert_str_eq(ask(&one, "GET lock:k"), A40 AGENT BIG_TEXT ":me");
    cr_assert_str_eq(stored_number(&one, "lock:k"), BIG_TEXT); /* R12: exact */
    cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 9000);
    cr_assert_eq(ask_number(&one, "PTTL", bucket_key("lock:k")), -1);
    got = exchange(OP_ACQUIRE, 0, item_of("k", 2, BIG + 5));
    cr_assert_eq(got.vote, VOTE_TAKEN);
    cr_assert_str_eq(got.holder, "me");
    cr_assert(got.pttl_ms > 9000 && got.pttl_ms <= 10000);
    cr_assert_str_eq(ask(&one, "GET lock:k"), A40 AGENT BIG_TEXT ":me");
    end(&one);
}

/* R24: native commands of the same attempt may have set the key, perhaps without raising its
 * number. It keeps its end. Other forms have no native commands: there the command came twice. */
Test(scripts, r24_an_acquire_that_finds_its_own_key_numbers_it_anew)
{
    static const struct {
        enum form form;
        uint64_t number;
    } rows[] = {{FORM_PLAIN, BIG + 9},
                {FORM_SLOTS, BIG + 9},
                {FORM_FAIR, BIG},
                {FORM_SHARED, BIG},
                {FORM_REDISSON, BIG}};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct send_item item = item_of("k", 1, BIG);
        item.form = rows[i].form;
        item.permits = item.form == FORM_SLOTS ? 3 : 1;
        item.token.has_slot = item.form == FORM_SLOTS;
        item.mode = MODE_WRITE;
        item.ticket.agent = 7;
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).fence, BIG);
        const char *key = item.token.has_slot ? "lockagent:slot:0:lock:k" : "lock:k";
        long long ends_ms = ask_number(&one, "PEXPIRETIME", key);
        item.token.fence = BIG + 9;
        item.ttl_ms = 60000;
        struct record got = exchange(OP_ACQUIRE, 0, item);
        cr_assert_eq(got.vote, VOTE_YES, "%u", i);
        cr_assert_eq(got.fence, rows[i].number, "%u: %llu", i, (unsigned long long)got.fence);
        bool is_prolonged = ask_number(&one, "PEXPIRETIME", key) > ends_ms + 40000;
        cr_assert_eq(is_prolonged, form_is_native(item.form), "%u", i);
        ask(&one, "FLUSHALL");
    }
    end(&one);
}

Test(scripts, fencing_numbers_rise_also_when_the_proposals_fall)
{
    begin(&one, NULL);
    uint64_t last = 0;
    for (unsigned i = 0; i < 200; i++) {
        struct send_item item = item_of("k", 1, BIG - 10 * i);
        struct record got = exchange(OP_ACQUIRE, 0, item);
        cr_assert_eq(got.vote, VOTE_YES);
        cr_assert_gt(got.fence, last);
        last = got.fence;
        item.token.fence = last;
        item.asked = item.numbered = true;
        got = exchange(OP_RELEASE, 0, item);
        cr_assert_eq(got.vote, VOTE_YES);
        cr_assert_eq(got.fence, last);
    }
    cr_assert_eq(last, BIG + 199);
    /* two agents may propose the same microsecond */
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 2, last)).fence, last + 1);
    end(&one);
}

Test(scripts, without_fencing_no_number_is_stored)
{
    begin(&one, NULL);
    struct send_item item = plain_of("k", 1);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RENEW, 0, item).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_YES);
    cr_assert_str_eq(ask(&one, "DBSIZE"), "1");
    cr_assert_eq(exchange(OP_ACQUIRE, 0, plain_of("k", 2)).vote, VOTE_TAKEN);
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_REPAIR, 0, item).vote, VOTE_REPAIRED);
    cr_assert_str_eq(ask(&one, "DBSIZE"), "1");
    end(&one);
}

Test(scripts, a_key_of_another_type_is_foreign_everywhere)
{
    begin(&one, NULL);
    ask(&one, "LPUSH lock:k x");
    static const enum op ops[] = {OP_ACQUIRE, OP_RAISE,   OP_RENEW, OP_REPAIR,
                                  OP_ADOPT,   OP_RELEASE, OP_READ};
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct record got = exchange(ops[i], 0, item_of("k", 1, BIG));
        cr_assert_eq(got.vote, VOTE_FOREIGN, "%s: %s", op_name(ops[i]), vote_name(got.vote));
        cr_assert_eq(got.pttl_ms, -1);
    }
    cr_assert_eq(rig.outcomes[REDIS_OUTCOME_WRONGTYPE], 7);
    cr_assert_str_eq(ask(&one, "LLEN lock:k"), "1");
    end(&one);
}

Test(scripts, a_foreign_bucket_fails_the_acquire_before_anything_is_written)
{
    begin(&one, NULL);
    ask(&one, "LPUSH %s x", bucket_key("lock:a"));
    ask(&one, "SET %s 12", bucket_key("lock:b"));
    store_number(&one, "lock:c", "99999999999999999999");
    static const char *const keys[] = {"a", "b", "c"};
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of(keys[i], 1, BIG)).vote, VOTE_SPOILED);
        cr_assert_eq(exchange(OP_REPAIR, 0, item_of(keys[i], 1, BIG)).vote, VOTE_SPOILED);
        cr_assert_null(ask(&one, "GET lock:%s", keys[i]));
    }
    /* The lease counts in a renewal, and the value in an adoption. */
    ask(&one, "SET lock:a %s" BIG_TEXT ":me PX 1000", A40 AGENT);
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("a", 1, BIG)).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_ADOPT, 0, item_of("a", 1, BIG)).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("a", 1, BIG)).vote, VOTE_YES);
    end(&one);
}

Test(scripts, nothing_but_the_label_is_told_of_other_holders)
{
    begin(&one, NULL);
    static const struct {
        const char *value, *label;
    } cases[] = {
        {B40 ":0123abcd:7:web-1:x", "web-1:x"},
        {B40 ":0123abcd:web-1:x", ""},
        {B40 ":0123abcd:7", ""},
        {B40 ":0123abcd::y", ""},
        {B40 ":0123abcd:7x:y", ""},
        {B40 ":0123abcd:1760000000000000:", ""},
        {B40 ":0123abcd:", ""},
        {B40 ":0123abcd", ""},
        {B40 ":web-1", ""},
        {B40 ":0123abcx:7:y", ""},
        {B40 ":0123abcd0:7:y", ""},
        {B40 ":0123abc:7:y", ""},
        {B40, ""},
        {"abc:def", ""},
        {"x" B40 ":0123abcd:7:y", ""},
        {"0" B40 ":0123abcd:7:y", ""},
        {"", ""},
        {":secret", ""},
        {B40 ":0123abcd:0:caf\xc3\xa9", "caf\xc3\xa9"},
        {B40 ":0123abcd:0:0123456789012345678901234567890123456789012345678901234567890123",
         "0123456789012345678901234567890123456789012345678901234567890123"},
        /* A label that no caller could have given is no label: the value is foreign. */
        {B40 ":0123abcd:0:0123456789012345678901234567890123456789012345678901234567890123-", ""},
        {B40 ":0123abcd:0:password=sesame\n", ""},
        {B40 ":0123abcd:0:\xff\xfe", ""},
        {B40 ":0123abcd:0:caf\xc3", ""},
        {B40 ":0123abcd:0:\xc2\x85", ""},
        {B40 ":0123abcd:0:\x7f", ""}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask(&one, "SET lock:k %s", cases[i].value);
        struct record got = exchange(OP_READ, 0, item_of("k", 1, 0));
        cr_assert_eq(got.vote, VOTE_YES);
        cr_assert_eq(got.pttl_ms, -1);
        cr_assert_str_eq(got.holder, cases[i].label);
        got = exchange(OP_RELEASE, 0, item_of("k", 1, 0));
        cr_assert_eq(got.vote, VOTE_TAKEN);
        cr_assert_str_eq(got.holder, cases[i].label);
    }
    ask(&one, "DEL lock:k");
    cr_assert_eq(exchange(OP_READ, 0, item_of("k", 1, 0)).vote, VOTE_ABSENT);
    end(&one);
}

/* R7: nothing shortens. R12: only a repair looks at the bucket. */
Test(scripts, no_renewal_shortens_a_lease_or_lowers_a_number)
{
    begin(&one, NULL);
    static const enum op ops[] = {OP_RENEW, OP_REPAIR, OP_ADOPT};
    for (unsigned i = 0; i < 3; i++) {
        struct send_item item = item_of("k", 1, 7);
        ask(&one, "SET lock:k %s7:me PX 60000", A40 AGENT);
        store_number(&one, "lock:k", "9");
        struct record got = exchange(ops[i], 0, item);
        cr_assert_eq(got.vote, VOTE_YES);
        cr_assert_eq(got.fence,
                     ops[i] == OP_RENEW    ? 0
                     : ops[i] == OP_REPAIR ? 9
                                           : 7,
                     "%s", op_name(ops[i]));
        cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 50000);
        cr_assert_str_eq(stored_number(&one, "lock:k"), "9");
        item.ttl_ms = 100000;
        exchange(ops[i], 0, item);
        cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 90000);
        ask(&one, "PERSIST lock:k");
        exchange(ops[i], 0, item);
        cr_assert_eq(ask_number(&one, "PTTL", "lock:k"), -1);
        cr_assert_str_eq(stored_number(&one, "lock:k"), "9");
        cr_assert_eq(ask_number(&one, "PTTL", bucket_key("lock:k")), -1);
    }
    end(&one);
}

Test(scripts, raise_only_lifts_and_only_where_the_token_is)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_RAISE, 0, item_of("k", 1, BIG)).vote, VOTE_ABSENT);
    exchange(OP_ACQUIRE, 0, item_of("k", 1, 100));
    struct record got = exchange(OP_RAISE, 0, item_of("k", 1, BIG + 1));
    cr_assert(got.vote == VOTE_YES && got.fence == BIG + 1);
    cr_assert_str_eq(stored_number(&one, "lock:k"), "1760000000000001");
    got = exchange(OP_RAISE, 0, item_of("k", 1, BIG - 5));
    cr_assert(got.vote == VOTE_YES && got.fence == BIG + 1);
    cr_assert_eq(exchange(OP_RAISE, 0, item_of("k", 2, BIG + 9)).vote, VOTE_TAKEN);
    cr_assert_str_eq(stored_number(&one, "lock:k"), "1760000000000001");
    end(&one);
}

Test(scripts, repair_creates_what_is_missing_and_never_lowers_a_number)
{
    begin(&one, NULL);
    struct record got = exchange(OP_REPAIR, 0, item_of("k", 1, BIG));
    cr_assert(got.vote == VOTE_REPAIRED && got.fence == BIG);
    cr_assert_str_eq(ask(&one, "GET lock:k"), A40 AGENT BIG_TEXT ":me");
    ask(&one, "DEL lock:k");
    got = exchange(OP_REPAIR, 0, item_of("k", 1, 50));
    cr_assert(got.vote == VOTE_REPAIRED && got.fence == BIG);
    ask(&one, "DEL %s", bucket_key("lock:k")); /* the number alone was lost */
    got = exchange(OP_REPAIR, 0, item_of("k", 1, BIG + 3));
    cr_assert(got.vote == VOTE_YES && got.fence == BIG + 3);
    cr_assert_eq(exchange(OP_REPAIR, 0, item_of("k", 2, BIG + 4)).vote, VOTE_TAKEN);
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("absent", 2, BIG)).vote, VOTE_ABSENT);
    cr_assert_null(ask(&one, "GET lock:absent"));
    end(&one);
}

Test(scripts, adopt_needs_exactly_the_stored_number)
{
    begin(&one, NULL);
    struct send_item item = item_of("k", 1, BIG);
    exchange(OP_ACQUIRE, 0, item);
    item.ttl_ms = 90000;
    item.token.fence = BIG - 1;
    struct record got = exchange(OP_ADOPT, 0, item);
    cr_assert(got.vote == VOTE_MISNUMBERED && got.fence == BIG);
    cr_assert_leq(ask_number(&one, "PTTL", "lock:k"), 10000);
    item.token.fence = BIG;
    got = exchange(OP_ADOPT, 0, item);
    cr_assert(got.vote == VOTE_YES && got.fence == BIG);
    cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 80000);
    cr_assert_eq(exchange(OP_ADOPT, 0, item_of("k", 2, BIG)).vote, VOTE_TAKEN);
    cr_assert_eq(exchange(OP_ADOPT, 0, item_of("no", 1, BIG)).vote, VOTE_ABSENT);
    end(&one);
}

Test(scripts, one_bad_item_does_not_spoil_a_batch)
{
    begin(&one, NULL);
    struct send_item items[LIMIT_BATCH];
    char keys[LIMIT_BATCH][600];
    for (unsigned i = 0; i < LIMIT_BATCH; i++) {
        memset(keys[i], 'k', LIMIT_KEY_BYTES);
        /* the longest keys: the largest command */
        snprintf(keys[i] + LIMIT_KEY_BYTES - 3, 4, "%03u", i);
        items[i] = i % 3 == 2 ? plain_of(keys[i], 1) : item_of(keys[i], 1, BIG);
        exchange(OP_ACQUIRE, 0, items[i]);
    }
    ask(&one, "DEL lock:%s", keys[0]);
    ask(&one, "SET lock:%s %s7:you PX 5000", keys[1], B40 AGENT);
    ask(&one, "DEL plain:%s", keys[2]);
    ask(&one, "LPUSH plain:%s x", keys[2]);
    static const enum op ops[] = {OP_RENEW, OP_REPAIR, OP_RELEASE};
    for (unsigned o = 0; o < 3; o++) {
        uint32_t first = rig_send(ops[o], 1, items, LIMIT_BATCH);
        RUN_UNTIL(reply_to(first + LIMIT_BATCH - 1, 0), 3000);
        enum vote want = ops[o] == OP_REPAIR  ? VOTE_REPAIRED
                         : ops[o] == OP_RENEW ? VOTE_ABSENT
                                              : VOTE_YES;
        cr_assert_eq(reply_to(first, 0)->vote, want);
        cr_assert_eq(reply_to(first + 1, 0)->vote, VOTE_TAKEN);
        cr_assert_str_eq(reply_to(first + 1, 0)->holder, "you");
        cr_assert_eq(reply_to(first + 2, 0)->vote, VOTE_FOREIGN);
        for (unsigned i = 3; i < LIMIT_BATCH; i++) {
            cr_assert_eq(reply_to(first + i, 0)->vote, VOTE_YES);
            bool looks = ops[o] == OP_REPAIR && i % 3 != 2;
            cr_assert_eq(reply_to(first + i, 0)->fence, looks ? BIG : 0);
        }
    }
    end(&one);
}

/* R1: each of them is numbered, or refused, for itself. */
Test(scripts, one_bad_item_does_not_spoil_an_acquire_of_many)
{
    begin(&one, NULL);
    struct send_item items[LIMIT_BATCH];
    char keys[LIMIT_BATCH][8];
    for (unsigned i = 0; i < LIMIT_BATCH; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%u", i);
        items[i] = i % 7 == 5 ? plain_of(keys[i], 1) : item_of(keys[i], 1, BIG);
    }
    ask(&one, "LPUSH lock:k0 x");
    ask(&one, "SET lock:k1 %s7:you PX 5000", B40 AGENT);
    store_number(&one, "lock:k2", "9007199254740991");
    ask(&one, "SADD %s x", bucket_key("lock:k3"));
    store_number(&one, "lock:k4", "1760000000000006");
    store_number(&one, "lock:k6", "7");
    uint32_t first = rig_send(OP_ACQUIRE, 1, items, LIMIT_BATCH);
    RUN_UNTIL(reply_to(first + LIMIT_BATCH - 1, 0), 3000);
    cr_assert_eq(reply_to(first, 0)->vote, VOTE_FOREIGN);
    cr_assert_eq(reply_to(first + 1, 0)->vote, VOTE_TAKEN);
    cr_assert_str_eq(reply_to(first + 1, 0)->holder, "you");
    cr_assert_eq(reply_to(first + 2, 0)->vote, VOTE_SPOILED);
    cr_assert_eq(reply_to(first + 3, 0)->vote, VOTE_SPOILED);
    cr_assert_null(ask(&one, "GET lock:k3"));
    for (unsigned i = 4; i < LIMIT_BATCH; i++) {
        const struct record *got = reply_to(first + i, 0);
        cr_assert_eq(got->vote, VOTE_YES, "%u", i);
        cr_assert_eq(got->fence, i % 7 == 5 ? 0 : i == 4 ? BIG + 7 : BIG, "%u", i);
    }
    cr_assert_str_eq(ask(&one, "GET lock:k49"), A40 AGENT BIG_TEXT ":me");
    end(&one);
}

/* D5.5: the server refuses the whole call because of one key. */
Test(scripts, a_key_that_the_acl_refuses_leaves_the_others_to_be_asked_for_alone)
{
    begin(&one, NULL);
    struct send_item items[] = {item_of("a", 1, BIG), item_of("b", 1, BIG)};
    ask(&one, "ACL SETUSER default resetkeys ~lock:a ~lockagent:*");
    static const enum op ops[] = {OP_ACQUIRE, OP_RENEW, OP_RELEASE};
    for (unsigned o = 0; o < 3; o++) {
        uint32_t first = rig_send(ops[o], 1, items, 2);
        RUN_UNTIL(reply_to(first + 1, 0), 3000);
        cr_assert_eq(reply_to(first, 0)->vote, VOTE_NOT_RUN);
        cr_assert_eq(reply_to(first + 1, 0)->vote, VOTE_NOT_RUN);
        cr_assert_eq(exchange(ops[o], 0, items[0]).vote, VOTE_YES);
        cr_assert_eq(exchange(ops[o], 0, items[1]).vote, VOTE_REFUSED);
    }
    end(&one);
}

/* R10: a release compares the random part as a whole, and nothing more. */
Test(scripts, release_compares_the_whole_random_part)
{
    begin(&one, NULL);
    ask(&one, "SET lock:k %sx:me", A40);
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, 0)).vote, VOTE_TAKEN);
    ask(&one, "SET lock:k %s", A40);
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, 0)).vote, VOTE_TAKEN);
    ask(&one, "SET lock:k %s1760000000000000:another-label", A40 AGENT);
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, 0)).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, 0)).vote, VOTE_ABSENT);
    end(&one);
}

/* ---- the marker (D5.3) ---- */

static void begin_guarded(bool durable)
{
    server_start(&one, NULL);
    rig_configure();
    rig_master(0, &one, true);
    rig.config->groups[0].guard = true;
    rig.config->groups[0].durable = durable;
    rig.config->max_ttl_ms = 1000;
    rig_start();
    RUN_UNTIL(is_up(0), 3000);
}

static int64_t guarded_ms(void)
{
    return redis_master(rig.redis, 0, 0).guarded_ms;
}

Test(scripts, a_master_without_a_vote_says_for_how_long)
{
    begin_guarded(/* durable= */ false);
    struct record got = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
    cr_assert_eq(got.vote, VOTE_GUARDED);
    cr_assert(got.pttl_ms > 1000 && got.pttl_ms <= 2001, "%lld", (long long)got.pttl_ms);
    cr_assert_str_eq(ask(&one, "EXISTS lock:k %s", bucket_key("lock:k")), "0");
    cr_assert(guarded_ms() > 1000 && !redis_master(rig.redis, 0, 0).votes);
    cr_assert_eq(redis_master(rig.redis, 0, 0).state, REDIS_GUARDED);
    /* Holders are still served. */
    cr_assert_eq(exchange(OP_REPAIR, 0, item_of("k", 1, BIG)).vote, VOTE_REPAIRED);
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    /* Longer for an agent that gives longer leases. */
    ask(&one, "HSET lockagent:marker max_ttl 60000");
    got = exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG));
    cr_assert(got.vote == VOTE_GUARDED && got.pttl_ms > 55000);
    ask(&one, "HSET lockagent:marker since 0");
    RUN_UNTIL(guarded_ms() == 0, 3000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    cr_assert_str_eq(ask(&one, "HGET lockagent:marker max_ttl"), "60000");
    end(&one);
}

/* The vote exists exactly while the master votes, so that an acquire need not count. It appears
 * when the master is told so. It goes with another epoch, and with the marker. */
Test(scripts, d5_3_the_vote_is_there_while_the_master_votes)
{
    begin_guarded(/* durable= */ false);
    cr_assert_null(ask(&one, "GET lockagent:votes"));
    ask(&one, "HSET lockagent:marker since 1"); /* the guard has ended: it waits to be told */
    struct record got = exchange(OP_ACQUIRE, 0, item_of("early", 1, BIG));
    cr_assert(got.vote == VOTE_GUARDED && got.pttl_ms == -1);
    RUN_UNTIL(guarded_ms() == 0, 3000);
    char vote[GUARD_VOTE_BYTES], epoch[64];
    snprintf(epoch, sizeof(epoch), "%s", ask(&one, "HGET lockagent:marker epoch"));
    snprintf(vote, sizeof(vote), "%s", ask(&one, "GET lockagent:votes"));
    cr_assert(strstr(vote, epoch), "%s", vote);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    ask(&one, "DEL lockagent:marker"); /* by hand: until the next look at it */
    RUN_UNTIL(ask(&one, "GET lockagent:votes") == NULL, 3000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("l", 1, BIG)).vote, VOTE_GUARDED);
    ask(&one, "SET lockagent:votes %s", vote); /* as one that was left behind */
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("l", 1, BIG)).vote, VOTE_GUARDED);
    RUN_UNTIL(ask(&one, "GET lockagent:votes") == NULL, 3000);
    ask(&one, "LPUSH lockagent:votes x"); /* a stranger's goes */
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("l", 1, BIG)).vote, VOTE_GUARDED);
    RUN_UNTIL(guarded_ms() == 0, 4000);
    cr_assert_str_eq(ask(&one, "TYPE lockagent:votes"), "string");
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("l", 1, BIG)).vote, VOTE_YES);
    cr_assert(redis_master(rig.redis, 0, 0).guessed, "nobody else could remember");
    end(&one);
}

static void ask_marker(const char *how, uint32_t max_ttl_ms)
{
    ask(&one,
        "EVALSHA %s 3 lockagent:marker lockagent:votes lockagent:layouts "
        "run 00000000000000bb %u %s 0 %s 0 ee 5 1 0 %s %s 0 %s",
        redis_scripts[SCRIPT_MARKER].sha, max_ttl_ms, how, "", "", "", "");
}

/* Each way to a guard takes the vote off in the same call. */
Test(scripts, d5_3_no_vote_outlives_what_it_was_for)
{
    static const struct {
        const char *how, *run;
    } ways[] = {{"restart", "another"}, /* with its old data, or as a promoted replica */
                {"keep", NULL}};        /* the marker alone is missing */
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        ask(&one, "FLUSHALL");
        ask(&one, "SET lockagent:votes =run:ee:0000000000000001");
        if (ways[i].run)
            ask(&one,
                "HSET lockagent:marker epoch ee run %s since %lld000 max_ttl 1000 longer 1000 "
                "longer_since 0 top 1 floor 1 told 1",
                ways[i].run, (long long)time(NULL) - 3600);
        ask_marker(ways[i].how, 1000);
        cr_assert_str_eq(ask(&one, "EXISTS lockagent:votes"), "0", "%u", i);
    }
    ask(&one, "HSET lockagent:marker epoch ee");
    ask_marker("trust", 1000);
    cr_assert_str_eq(ask(&one, "GET lockagent:votes"), "=run:ee:0000000000000005");
    cr_assert_str_eq(ask(&one, "HGET lockagent:marker epoch"), "ee");
    end(&one);
}

/* R7: the marker's epoch comes with the report that a key is missing. The core learns of it
 * first. */
Test(scripts, a_missing_key_comes_with_its_epoch)
{
    begin_guarded(/* durable= */ true);
    RUN_UNTIL(guarded_ms() == 0, 4000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    uint16_t before = last_of(EVENT_MASTER_UP, 0)->epoch;
    ask(&one, "DEL lock:k");
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_ABSENT);
    cr_assert_eq(last_of(EVENT_MASTER_UP, 0)->epoch, before, "a release elsewhere is no new epoch");
    ask(&one, "FLUSHALL");
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_ABSENT);
    cr_assert_neq(last_of(EVENT_MASTER_UP, 0)->epoch, before);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 2, BIG)).vote, VOTE_GUARDED);
    RUN_UNTIL(guarded_ms() > 0, 4000);
    end(&one);
}

/* ---- deadlines (R5) ---- */

static int64_t server_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct send_item of_kind(unsigned kind, uint8_t token)
{
    struct send_item item = item_of("k", token, BIG);
    item.permits = kind == 2 ? 3 : 1;
    item.token.has_slot = kind == 2;
    item.form = (enum form)kind;
    item.ticket.agent = 7;
    return item;
}

/* Expects that neither the key nor the number of the next grant is created. */
static void expect_nothing(enum op op, unsigned kind, int64_t clock_ms, uint32_t left_ms)
{
    struct send_item item = of_kind(kind, 1);
    item.left_ms = left_ms;
    rig.clock_ms = clock_ms;
    struct record got = exchange(op, 0, item);
    rig.clock_ms = 0;
    cr_assert_eq(got.vote, VOTE_LATE, "%s %u: %s", op_name(op), kind, vote_name(got.vote));
    cr_assert_str_eq(ask(&one, "DBSIZE"), "0", "%s %u", op_name(op), kind);
}

Test(scripts, r5_what_comes_after_its_deadline_creates_nothing)
{
    static const enum op ops[] = {OP_ACQUIRE, OP_REPAIR};
    begin(&one, NULL);
    for (unsigned kind = 0; kind < 5; kind++) {
        for (unsigned i = 0; i < 2; i++) {
            expect_nothing(ops[i], kind, server_ms() - 2000, 1000);
            expect_nothing(ops[i], kind, server_ms() - 2000, 0);
            /* the clock has been set back since */
            expect_nothing(ops[i], kind, server_ms() + 60000, 120000);
            struct send_item item = of_kind(kind, 1);
            item.left_ms = 60000;
            rig.clock_ms = server_ms() - 2000;
            cr_assert_eq(exchange(ops[i], 0, item).vote,
                         ops[i] == OP_REPAIR ? VOTE_REPAIRED : VOTE_YES, "%u", kind);
            rig.clock_ms = server_ms() - 2000; /* an existing key does not depend on the time */
            item.left_ms = 0;
            /* An acquire that numbers it anew depends on it (R24). The key is left there. */
            bool is_anew = ops[i] == OP_ACQUIRE && form_is_native((enum form)kind);
            long long keys = strtoll(ask(&one, "DBSIZE"), NULL, 10);
            cr_assert_eq(exchange(ops[i], 0, item).vote, is_anew ? VOTE_LATE : VOTE_YES, "%u",
                         kind);
            cr_assert_eq(strtoll(ask(&one, "DBSIZE"), NULL, 10), keys, "%u", kind);
            rig.clock_ms = 0;
            ask(&one, "FLUSHALL");
        }
    }
    end(&one);
}

/* Each lock of a call has its own deadline. */
Test(scripts, r5_each_lock_of_a_call_has_its_own_deadline)
{
    begin(&one, NULL);
    struct send_item items[3] = {item_of("a", 1, BIG), item_of("b", 1, BIG), item_of("c", 1, BIG)};
    items[0].left_ms = items[2].left_ms = 60000;
    rig.clock_ms = server_ms() - 1000;
    uint32_t first = rig_send(OP_ACQUIRE, 1, items, 3);
    RUN_UNTIL(reply_to(first + 2, 0), 3000);
    cr_assert_eq(reply_to(first, 0)->vote, VOTE_YES);
    cr_assert_eq(reply_to(first + 1, 0)->vote, VOTE_LATE);
    cr_assert_eq(reply_to(first + 2, 0)->vote, VOTE_YES);
    cr_assert_str_eq(ask(&one, "EXISTS lock:b %s", bucket_key("lock:b")), "0");
    end(&one);
}

/* The holder's key stays: its release is asked for by itself. */
Test(scripts, r5_a_hand_over_that_is_late_leaves_the_holders_key)
{
    begin(&one, NULL);
    for (unsigned kind = 0; kind < 5; kind += kind == 2 ? 2 : 1) {
        cr_assert_eq(exchange(OP_ACQUIRE, 0, of_kind(kind, 1)).vote, VOTE_YES);
        struct send_item heir = of_kind(kind, 2);
        memset(heir.previous.random, 1, RANDOM_BYTES);
        rig.clock_ms = server_ms() - 1000;
        cr_assert_eq(exchange(OP_HANDOVER, 0, heir).vote, VOTE_LATE, "%u", kind);
        rig.clock_ms = 0;
        cr_assert_eq(exchange(OP_RELEASE, 0, of_kind(kind, 1)).vote, VOTE_YES, "%u", kind);
    }
    end(&one);
}

/* ---- the number in the value (R12) ---- */

/* A master that was not needed for the grant has the number that it gave itself. */
Test(scripts, r12_raise_and_renewal_set_the_number_of_the_value_right)
{
    static const enum op ops[] = {OP_RAISE, OP_RENEW, OP_REPAIR};
    begin(&one, NULL);
    for (unsigned kind = 0; kind < 5; kind++) {
        for (unsigned i = 0; i < 3; i++) {
            cr_assert_eq(exchange(OP_ACQUIRE, 0, of_kind(kind, 1)).vote, VOTE_YES);
            struct send_item item = of_kind(kind, 1);
            item.token.fence = BIG + 5;
            item.agent = 0xb2;
            cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_MISNUMBERED, "%u", kind);
            item.agent = 0xa1;
            cr_assert_eq(exchange(ops[i], 0, item).vote, VOTE_YES, "%u", kind);
            const char *key = kind == 2 ? "lockagent:slot:0:lock:k" : "lock:k";
            cr_assert_gt(ask_number(&one, "PTTL", key), 9000, "%u", kind);
            struct record got = exchange(OP_READ, 0, of_kind(kind == 2 ? 0 : kind, 1));
            cr_assert(kind == 2 || strcmp(got.holder, "me") == 0, "%u", kind);
            item.agent = 0xb2;
            got = exchange(OP_ADOPT, 0, item);
            cr_assert_eq(got.vote, VOTE_YES, "%u %s: %s", kind, op_name(ops[i]),
                         vote_name(got.vote));
            item.asked = true;
            cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_YES, "%u", kind);
            cr_assert_str_eq(ask(&one, "EXISTS lock:k lockagent:slot:0:lock:k"), "0");
            ask(&one, "FLUSHALL");
        }
    }
    end(&one);
}

static redisContext *listener(void)
{
    redisContext *line = redisConnect("127.0.0.1", one.port);
    cr_assert(line && !line->err);
    redisSetTimeout(line, (struct timeval){.tv_sec = 3});
    return line;
}

static void take_and_release(const struct send_item *items, unsigned count)
{
    static const enum op ops[] = {OP_ACQUIRE, OP_RELEASE};
    for (unsigned i = 0; i < 2; i++) {
        uint32_t first = rig_send(ops[i], 1, items, count);
        RUN_UNTIL(reply_to(first + count - 1, 0), 3000);
    }
}

/* R9: "So a release of many mutexes asks about one channel, and about those of the keys only if an
 * agent is on it." */
Test(scripts, r9_a_release_of_many_tells_whoever_waits_for_one_of_them)
{
    const struct send_item items[] = {plain_of("a", 1), plain_of("b", 1), plain_of("c", 1)},
                           gone_first[] = {plain_of("gone", 1), plain_of("b", 1)};
    begin(&one, NULL);
    redisContext *line = listener(), *other = listener();
    freeReplyObject(redisCommand(line, "SUBSCRIBE lockagent:channel:plain:b"));
    take_and_release(items, 3);
    cr_assert_null(strstr(ask(&one, "INFO commandstats"), "cmdstat_publish"));
    freeReplyObject(redisCommand(other, "SUBSCRIBE lockagent:channel:/"));
    take_and_release(items, 3);
    redisReply *reply;
    cr_assert_eq(redisGetReply(line, (void **)&reply), REDIS_OK);
    cr_assert_str_eq(reply->element[1]->str, "lockagent:channel:plain:b");
    cr_assert_str_eq(reply->element[2]->str, "1");
    freeReplyObject(reply);
    cr_assert_not_null(strstr(ask(&one, "INFO commandstats"), "cmdstat_publish:calls=1,"));
    /* The first lock of the call is not there. */
    cr_assert_eq(exchange(OP_ACQUIRE, 0, gone_first[1]).vote, VOTE_YES);
    uint32_t first = rig_send(OP_RELEASE, 1, gone_first, 2);
    RUN_UNTIL(reply_to(first + 1, 0), 3000);
    cr_assert_eq(redisGetReply(line, (void **)&reply), REDIS_OK);
    cr_assert_str_eq(reply->element[1]->str, "lockagent:channel:plain:b");
    freeReplyObject(reply);
    redisFree(line), redisFree(other);
    end(&one);
}

/* R9: "The agent of a waiter subscribes on all masters, first to one channel that is the same for
 * all keys". It stays there for as long as the connection. */
Test(scripts, r9_who_waits_for_a_key_is_on_the_channel_of_all)
{
    const struct effect_watch watch = {.key = {"k", 1}};
    begin(&one, NULL);
    redis_watch(rig.redis, &watch);
    RUN_UNTIL(count_of(EVENT_SUBSCRIBED, 0) == 1, 3000);
    static const char count[] = "return redis.call('PUBSUB', 'NUMSUB', 'lockagent:channel:/')[2]";
    cr_assert_str_eq(ask(&one, "EVAL %s 0", count), "1");
    ask(&one, "PUBLISH lockagent:channel:/ any"); /* by a stranger */
    ask(&one, "PUBLISH lockagent:channel:lock:k 1");
    RUN_UNTIL(count_of(EVENT_MESSAGE, 0) == 1, 3000);
    cr_assert_eq(redis_master(rig.redis, 0, 0).faults[REDIS_FAULT_SURPLUS], 0);
    redis_unwatch(rig.redis, &watch);
    RUN_UNTIL(strcmp(ask(&one, "PUBLISH lockagent:channel:lock:k 1"), "0") == 0, 3000);
    cr_assert_str_eq(ask(&one, "EVAL %s 0", count), "1");
    end(&one);
}
