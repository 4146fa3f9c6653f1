/* How the scripts recognise the holder, on a real redis-server. A token that differs in one digit
 * is refused, and the guard lets only the holder's own hand-over pass. A doubled acquire and the
 * number of a repair are here too. */
#include <time.h>

#include "agent/redis/internal.h"
#include "redis_rig.h"

#define TICKETS "lockagent:ticket:lock:k"

static struct server one;

static struct send_item handover(uint8_t token, uint8_t previous)
{
    struct send_item item = item_of("k", token, BIG);
    memset(item.previous.random, previous, RANDOM_BYTES);
    return item;
}

static struct send_item fair(struct send_item item)
{
    item.form = FORM_FAIR;
    item.ticket = (struct ticket){.agent = 0xa};
    return item;
}

/* Lets token 1 ask for keys of a token with one different digit. */
static void expect_refusals(const char *value)
{
    struct send_item item = item_of("k", 1, BIG);
    item.ttl_ms = 100000;
    const struct {
        enum op op;
        struct send_item item;
    } cases[] = {{OP_RAISE, item},
                 {OP_RENEW, item},
                 {OP_REPAIR, item},
                 {OP_ADOPT, item},
                 {OP_RELEASE, item},
                 {OP_RELEASE, fair(item)},
                 {OP_HANDOVER, handover(2, 1)},
                 {OP_HANDOVER, fair(handover(2, 1))}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct record got = exchange(cases[i].op, 0, cases[i].item);
        cr_assert_eq(got.vote, VOTE_TAKEN, "%s: %s where %s is stored", op_name(cases[i].op),
                     vote_name(got.vote), value);
        cr_assert_str_eq(ask(&one, "GET lock:k"), value, "%s", op_name(cases[i].op));
        cr_assert_leq(ask_number(&one, "PTTL", "lock:k"), 60000, "%s", op_name(cases[i].op));
        cr_assert_str_eq(stored_number(&one, "lock:k"), "7", "%s", op_name(cases[i].op));
    }
}

/* R7, R10, R12, D3 */
Test(tokens, one_digit_of_forty_makes_another_holder)
{
    begin(&one, NULL);
    for (unsigned digit = 0; digit < 40; digit++) {
        char value[] = A40 ":me";
        value[digit] = digit % 3 == 0 ? 'f' : value[digit] == '0' ? '1' : '0';
        ask(&one, "SET lock:k %s PX 60000", value);
        store_number(&one, "lock:k", "7");
        expect_refusals(value);
    }
    end(&one);
}

/* Starts a group that is guarded, of one master, which is new to it: it has no vote. */
static void begin_guarded(void)
{
    server_start(&one, NULL);
    rig_configure();
    rig_master(0, &one, true);
    rig.config->groups[0].guard = true;
    rig.config->max_ttl_ms = 60000;
    rig_start();
    RUN_UNTIL(is_up(0), 3000);
}

/* D5.3, R9: it is an acquire wherever it does not find the holder's key. */
Test(tokens, a_hand_over_is_guarded_as_an_acquire_is)
{
    begin_guarded();
    struct record got = exchange(OP_HANDOVER, 0, handover(2, 1));
    cr_assert_eq(got.vote, VOTE_GUARDED, "%s", vote_name(got.vote));
    cr_assert_gt(got.pttl_ms, 50000);
    cr_assert_str_eq(ask(&one, "EXISTS lock:k " BUCKET_OF_K), "0");
    ask(&one, "SET lock:k %s:else PX 60000", B40);
    got = exchange(OP_HANDOVER, 0, handover(3, 1));
    cr_assert_eq(got.vote, VOTE_GUARDED, "%s", vote_name(got.vote));
    cr_assert_str_eq(ask(&one, "GET lock:k"), B40 ":else");
    ask(&one, "SET lock:k %s:000000a1:7:me PX 60000", A40);
    /* the holder's own: it has forgotten nothing of this key */
    got = exchange(OP_HANDOVER, 0, handover(2, 1));
    cr_assert_eq(got.vote, VOTE_YES, "%s", vote_name(got.vote));
    cr_assert_gt(got.pttl_ms, 50000, "it says that it has no vote (D3.4)");
    cr_assert_str_eq(ask(&one, "GET lock:k"), B40 ":000000a1:" BIG_TEXT ":me");
    ask(&one, "DEL lockagent:marker lock:k"); /* a master without a marker does not vote either */
    got = exchange(OP_HANDOVER, 0, handover(2, 1));
    cr_assert_eq(got.vote, VOTE_GUARDED, "%s", vote_name(got.vote));
    end(&one);
}

/* D3.4: a hand-over is a release as well. As there, a master without a vote says so, and one with a
 * vote does not, also if the agent names none (a closed group, R23). A master that follows another
 * one has that one's vote. */
Test(tokens, d3_a_hand_over_that_names_no_vote_says_whether_the_master_has_one)
{
    begin_guarded();
    for (unsigned votes = 0; votes < 2; votes++) {
        ask(&one, votes ? "SET " VOTE_KEY " =1" : "DEL " VOTE_KEY);
        for (unsigned is_fair = 0; is_fair < 2; is_fair++) {
            struct send_item item = is_fair ? fair(handover(2, 1)) : handover(2, 1);
            ask(&one, "DEL " TICKETS);
            ask(&one, "SET lock:k " A40 ":000000a1:7:me PX 60000");
            struct record got = exchange(OP_HANDOVER, 0, item);
            cr_assert_eq(got.vote, VOTE_YES, "%s", vote_name(got.vote));
            cr_assert_eq(got.pttl_ms > 0, votes == 0, "%u %u", votes, is_fair);
        }
        /* It is the turn of another agent's waiter. */
        ask(&one, "HSET " TICKETS " 000000000000000b 5:%lld", (long long)time(NULL) * 1000 + 3000);
        ask(&one, "SET lock:k " A40 ":000000a1:7:me PX 60000");
        struct record got = exchange(OP_HANDOVER, 0, fair(handover(2, 1)));
        cr_assert_eq(got.vote, votes ? VOTE_TAKEN : VOTE_GUARDED, "%s", vote_name(got.vote));
        cr_assert_str_eq(ask(&one, "EXISTS lock:k"), "0");
    }
    strcpy(rig.redis->guards[0].masters[0].last.vote, "=2");
    ask(&one, "DEL " TICKETS);
    ask(&one, "SET lock:k " A40 ":000000a1:7:me PX 60000");
    struct record got = exchange(OP_HANDOVER, 0, handover(2, 1));
    cr_assert(got.vote == VOTE_YES && got.pttl_ms > 0, "%s", vote_name(got.vote));
    end(&one);
}

#define OTHER "0303030303030303030303030303030303030303"

/* R6: the release has deleted the token if it was there. */
Test(tokens, r6_a_hand_over_says_whether_it_has_found_the_token)
{
    server_start(&one, NULL);
    rig_configure();
    rig_master(0, &one, true);
    rig_start();
    RUN_UNTIL(is_up(0), 3000);
    for (unsigned is_fair = 0; is_fair < 2; is_fair++) {
        struct send_item item = is_fair ? fair(handover(2, 1)) : handover(2, 1);
        ask(&one, "DEL " TICKETS " lock:k");
        struct record got = exchange(OP_HANDOVER, 0, item);
        cr_assert(got.vote == VOTE_YES && !got.is_deleted, "the key is free");
        ask(&one, "SET lock:k " OTHER ":000000a1:7:me PX 60000");
        got = exchange(OP_HANDOVER, 0, item);
        cr_assert(got.vote == VOTE_TAKEN && !got.is_deleted, "another holder has it");
        ask(&one, "SET lock:k " A40 ":000000a1:7:me PX 60000");
        got = exchange(OP_HANDOVER, 0, item);
        cr_assert(got.vote == VOTE_YES && got.is_deleted);
        got = exchange(OP_HANDOVER, 0, item);
        cr_assert(got.vote == VOTE_YES && !got.is_deleted, "it came twice");
    }
    /* It is the turn of another agent's waiter. */
    ask(&one, "HSET " TICKETS " 000000000000000b 5:%lld", (long long)time(NULL) * 1000 + 3000);
    ask(&one, "SET lock:k " A40 ":000000a1:7:me PX 60000");
    struct record got = exchange(OP_HANDOVER, 0, fair(handover(2, 1)));
    cr_assert(got.vote == VOTE_TAKEN && got.is_deleted);
    cr_assert_str_eq(ask(&one, "EXISTS lock:k"), "0");
    got = exchange(OP_HANDOVER, 0, fair(handover(2, 1)));
    cr_assert(got.vote == VOTE_TAKEN && !got.is_deleted, "nothing was there");
    end(&one);
}

static struct send_item strangers(unsigned format, bool numbered)
{
    struct send_item item = item_of("k", 1, BIG);
    item.asked = true;
    item.numbered = item.fencing = numbered;
    if (format == 1 || format == 2)
        item = fair(item);
    item.form = format == 3 ? FORM_REDISSON : format == 2 ? FORM_SHARED : item.form;
    return item;
}

/* D3.4: the agent that has the hold may create a forgotten key anew, before it learns of a release
 * elsewhere (R7). So a master without a vote answers nothing certain to a DELETE, at any agent:
 * neither that the key is not there, nor that it has deleted it. */
Test(tokens, d3_a_master_that_may_have_forgotten_tells_a_delete_nothing)
{
    begin_guarded();
    for (unsigned format = 0; format < 4; format++) { /* plain, fair, rw, redisson */
        for (unsigned numbered = 0; numbered < 2; numbered++) {
            struct send_item item = strangers(format, numbered), known = item;
            known.numbered = false;
            struct send_item of_itself = known;
            of_itself.asked = false;
            ask(&one, "DEL lock:k");
            cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_GUARDED, "%u", format);
            cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_GUARDED, "%u", format);
            cr_assert_eq(exchange(OP_RELEASE, 0, known).vote, VOTE_GUARDED, "%u", format);
            cr_assert_eq(exchange(OP_RELEASE, 0, of_itself).vote, VOTE_ABSENT, "%u", format);
            known.fencing = true;
            cr_assert_eq(exchange(OP_REPAIR, 0, known).vote, VOTE_REPAIRED, "%u", format);
            cr_assert_eq(exchange(OP_RELEASE, 0, known).vote, VOTE_GUARDED, "%u", format);
            cr_assert_str_eq(ask(&one, "EXISTS lock:k"), "0", "it is deleted all the same");
            cr_assert_eq(exchange(OP_REPAIR, 0, known).vote, VOTE_REPAIRED, "%u", format);
            cr_assert_eq(exchange(OP_RELEASE, 0, of_itself).vote, VOTE_YES, "%u", format);
            cr_assert_eq(exchange(OP_REPAIR, 0, known).vote, VOTE_REPAIRED, "%u", format);
            cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_GUARDED, "%u", format);
            cr_assert_str_eq(ask(&one, "EXISTS lock:k"), "0", "it is deleted all the same");
            /* Another holder has the key. Found with readers, when a PUT was called wrong. */
            struct send_item other = known;
            other.token.random[0] ^= 1;
            cr_assert_eq(exchange(OP_REPAIR, 0, other).vote, VOTE_REPAIRED, "%u", format);
            cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_GUARDED, "%u", format);
            other = known; /* The key has another number. */
            other.token.fence++;
            ask(&one, "DEL lock:k");
            cr_assert_eq(exchange(OP_REPAIR, 0, other).vote, VOTE_REPAIRED, "%u", format);
            cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_GUARDED, "%u", format);
            ask(&one, "DEL lock:k");
        }
    }
    ask(&one, "SET " VOTE_KEY " =1");
    for (unsigned format = 0; format < 4; format++) {
        struct send_item item = strangers(format, true);
        /* All but repairs count only with the vote that the agent knows (D3.4, R24). */
        char *known = rig.redis->guards[0].masters[0].last.vote;
        strcpy(known, "=1");
        cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_ABSENT, "%u", format);
        strcpy(known, "=2");
        cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_GUARDED, "%u", format);
        strcpy(known, "=1");
        cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_ABSENT, "%u", format);
        item.numbered = false;
        cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_ABSENT, "%u", format);
        cr_assert_eq(exchange(OP_REPAIR, 0, item).vote, VOTE_REPAIRED, "%u", format);
        strcpy(known, "=2"); /* The same if the key is there. Its lease is extended. */
        ask(&one, "PEXPIRE lock:k 5000");
        cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_GUARDED, "%u", format);
        cr_assert(format == 2 || strtol(ask(&one, "PTTL lock:k"), NULL, 10) > 5000, "%u", format);
        cr_assert_eq(exchange(OP_RESUME, 0, item).vote, VOTE_GUARDED, "%u", format);
        strcpy(known, "=1");
        cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_YES, "%u", format);
        cr_assert_eq(exchange(OP_RESUME, 0, item).vote, VOTE_YES, "%u", format);
        cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_YES, "%u", format);
        cr_assert_str_eq(ask(&one, "EXISTS " VOTE_KEY), "1", "a release takes a key, not the vote");
    }
    end(&one);
}

/* R7: no round proves that the lock was not released at another agent. A master that has a vote
 * answers such a release. So it does not create the key. */
static void repair_unproved(bool guard)
{
    server_start(&one, NULL);
    rig_configure();
    rig_master(0, &one, true);
    rig.config->groups[0].guard = guard;
    rig.config->max_ttl_ms = 60000;
    rig_start();
    RUN_UNTIL(is_up(0), 3000);
    for (unsigned format = 0; format < 4; format++) { /* plain, fair, rw, redisson */
        struct send_item item = strangers(format, false);
        item.unproved = true;
        ask(&one, "DEL lock:k " VOTE_KEY);
        enum vote got = exchange(OP_REPAIR, 0, item).vote;
        cr_assert_eq(got, guard ? VOTE_REPAIRED : VOTE_ABSENT, "%u %s", format, vote_name(got));
        ask(&one, "DEL lock:k");
        ask(&one, "SET " VOTE_KEY " 1");
        cr_assert_eq(exchange(OP_REPAIR, 0, item).vote, VOTE_ABSENT, "%u", format);
        cr_assert_str_eq(ask(&one, "EXISTS lock:k"), "0");
        item.unproved = false;
        cr_assert_eq(exchange(OP_REPAIR, 0, item).vote, VOTE_REPAIRED, "%u", format);
    }
    end(&one);
}

Test(tokens, r7_an_unproved_repair_needs_a_master_without_a_vote)
{
    repair_unproved(/* guard= */ true);
}

Test(tokens, r7_nothing_is_repaired_unproved_without_a_guard)
{
    repair_unproved(/* guard= */ false);
}

/* R9: the attempt was granted before. A ticket that was put there since is the agent's next
 * waiter's. */
Test(tokens, a_doubled_acquire_keeps_the_ticket)
{
    begin(&one, NULL);
    struct send_item item = fair(item_of("k", 1, BIG));
    item.ticket = (struct ticket){.agent = 0xa, .number = BIG + 7, .ttl_ms = 3000};
    struct record first = exchange(OP_ACQUIRE, 0, item);
    cr_assert_eq(first.vote, VOTE_YES);
    cr_assert_str_eq(ask(&one, "EXISTS " TICKETS), "0");
    ask(&one, "HSET " TICKETS " 000000000000000a 1760000000000009:9000000000000");
    struct record second = exchange(OP_ACQUIRE, 0, item);
    cr_assert(second.vote == VOTE_YES && second.fence == first.fence);
    cr_assert_str_eq(ask(&one, "HGET " TICKETS " 000000000000000a"),
                     "1760000000000009:9000000000000");
    end(&one);
}

/* R12: "A repair raises the bucket to the hold's number." It lowers none. */
Test(tokens, r12_a_repair_raises_a_number_that_is_behind)
{
    begin(&one, NULL);
    for (unsigned format = 0; format < 4; format++) { /* plain, fair, rw, redisson */
        struct send_item item = strangers(format, /* numbered= */ false);
        item.fencing = true;
        ask(&one, "FLUSHALL");
        store_number(&one, "lock:k", "7");
        /* The lock is missing, and the number is too low. */
        struct record got = exchange(OP_REPAIR, 0, item);
        cr_assert(got.vote == VOTE_REPAIRED && got.fence == BIG, "%u", format);
        cr_assert_str_eq(stored_number(&one, "lock:k"), BIG_TEXT, "%u", format);
        store_number(&one, "lock:k", "7");
        got = exchange(OP_REPAIR, 0, item); /* only the number is too low */
        cr_assert(got.vote == VOTE_YES && got.fence == BIG, "%u", format);
        cr_assert_str_eq(stored_number(&one, "lock:k"), BIG_TEXT, "%u", format);
        store_number(&one, "lock:k", "1760000000000009");
        got = exchange(OP_REPAIR, 0, item);
        cr_assert(got.vote == VOTE_YES && got.fence == BIG + 9, "%u", format);
        cr_assert_str_eq(stored_number(&one, "lock:k"), "1760000000000009", "%u", format);
    }
    end(&one);
}
