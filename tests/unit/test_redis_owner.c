/* The owner's name in the value (D3), and the number that a stranger's release compares (C4), on
 * a real redis-server. */
#include "redis_rig.h"

#define OTHER ":000000b2:"

static struct server one;

static struct send_item by_other(struct send_item item)
{
    item.agent = item.previous_agent = 0xb2;
    return item;
}

/* Begins with a hold of item_of("k", 1, BIG), by its own agent. */
static void begin_held(void)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
}

static void expect_stored(const char *value, const char *number)
{
    const char *stored = ask(&one, "GET lock:k");
    cr_assert(stored != NULL, "the key was deleted");
    cr_assert_str_eq(stored, value);
    cr_assert_str_eq(stored_number(&one, "lock:k"), number);
}

Test(redis_owner, adoption_writes_the_adopters_name_and_keeps_the_label)
{
    begin_held();
    struct send_item item = by_other(item_of("k", 1, BIG));
    item.label = (struct text){"", 0};
    struct record got = exchange(OP_ADOPT, 0, item);
    cr_assert(got.vote == VOTE_YES && got.fence == BIG);
    expect_stored(A40 OTHER BIG_TEXT ":me", BIG_TEXT);
    got = exchange(OP_READ, 0, item);
    cr_assert_str_eq(got.holder, "me");
    end(&one);
}

/* R7: no lease is shortened, and a key without an end gets none. */
Test(redis_owner, adoption_keeps_the_longer_lease)
{
    begin_held();
    struct send_item item = by_other(item_of("k", 1, BIG));
    item.ttl_ms = 90000;
    exchange(OP_ADOPT, 0, item);
    cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 80000);
    item = item_of("k", 1, BIG);
    item.ttl_ms = 1000;
    cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_YES);
    cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 80000);
    ask(&one, "PERSIST lock:k");
    cr_assert_eq(exchange(OP_ADOPT, 0, by_other(item)).vote, VOTE_YES);
    cr_assert_eq(ask_number(&one, "PTTL", "lock:k"), -1);
    expect_stored(A40 OTHER BIG_TEXT ":me", BIG_TEXT);
    end(&one);
}

/* A master out of memory refuses to set keys. An agent that restarts then must not lose its
 * holds. */
Test(redis_owner, adoption_works_where_memory_is_full)
{
    begin_held();
    ask(&one, "CONFIG SET maxmemory 1");
    cr_assert_eq(exchange(OP_ADOPT, 0, by_other(item_of("k", 1, BIG))).vote, VOTE_YES);
    expect_stored(A40 OTHER BIG_TEXT ":me", BIG_TEXT);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("l", 1, BIG)).vote, VOTE_REFUSED);
    end(&one);
}

Test(redis_owner, what_another_agent_owns_is_moved_and_stays_as_it_is)
{
    begin_held();
    static const enum op ops[] = {OP_RENEW, OP_REPAIR, OP_RAISE, OP_RELEASE};
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct send_item item = by_other(item_of("k", 1, BIG + 7));
        item.ttl_ms = 90000;
        struct record got = exchange(ops[i], 0, item);
        cr_assert_eq(got.vote, VOTE_MOVED, "%s: %s", op_name(ops[i]), vote_name(got.vote));
        cr_assert_str_eq(got.holder, "me");
        cr_assert(got.pttl_ms > 0 && got.pttl_ms <= 10000);
        expect_stored(A40 AGENT BIG_TEXT ":me", BIG_TEXT);
        cr_assert_leq(ask_number(&one, "PTTL", "lock:k"), 10000);
    }
    end(&one);
}

/* R25: no operation of an unlocked hold creates its key. Another hold does not meet the
 * tombstone. */
Test(redis_owner, r25_an_unlocked_hold_is_never_repaired)
{
    begin_held();
    ask(&one, "SET lockagent:unlocked:010101010101:lock:k deleted");
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_YES); /* Not read. */
    ask(&one, "DEL lock:k");
    static const enum op ops[] = {OP_RENEW, OP_RESUME, OP_REPAIR};
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct record got = exchange(ops[i], 0, item_of("k", 1, BIG));
        cr_assert_eq(got.vote, VOTE_UNLOCKED, "%s: %s", op_name(ops[i]), vote_name(got.vote));
        cr_assert_null(ask(&one, "GET lock:k"));
    }
    cr_assert_eq(exchange(OP_ADOPT, 0, item_of("k", 1, BIG)).vote, VOTE_ABSENT);
    cr_assert_eq(exchange(OP_REPAIR, 0, item_of("l", 1, BIG)).vote, VOTE_REPAIRED);
    cr_assert_eq(exchange(OP_REPAIR, 0, item_of("k", 2, BIG + 1)).vote, VOTE_REPAIRED);
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_UNLOCKED); /* Not held. */
    end(&one);
}

/* ---- a label that changes (D3.9) ------------------------------------------------------------- */

static struct send_item labelled(struct send_item item, const char *label)
{
    item.label = (struct text){label, strlen(label)};
    return item;
}

/* Also one that the label before begins with: the whole value is compared. */
Test(redis_owner, d3_9_a_renewal_writes_the_label_and_no_other_part)
{
    begin_held();
    static const struct {
        enum op op;
        const char *label, *stored;
    } steps[] = {{OP_RENEW, "leader", "leader"}, {OP_RENEW, "lead", "lead"},
                 {OP_RENEW, "", "lead"},         {OP_RESUME, "resumed", "resumed"},
                 {OP_REPAIR, "kept", "kept"},    {OP_REPAIR, "", "kept"},
                 {OP_ADOPT, "", "kept"},         {OP_ADOPT, "adopted", "adopted"},
                 {OP_RAISE, "", "adopted"}};
    for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        char value[128];
        struct record got =
            exchange(steps[i].op, 0, labelled(item_of("k", 1, BIG), steps[i].label));
        cr_assert_eq(got.vote, VOTE_YES, "step %u: %s", i, vote_name(got.vote));
        snprintf(value, sizeof(value), "%s%s%s:%s", A40, AGENT, BIG_TEXT, steps[i].stored);
        expect_stored(value, BIG_TEXT);
        long left_ms = ask_number(&one, "PTTL", "lock:k");
        cr_assert(left_ms > 5000 && left_ms <= 10000, "step %u: %ld ms", i, left_ms);
    }
    ask(&one, "DEL lock:k");
    cr_assert_eq(exchange(OP_REPAIR, 0, labelled(item_of("k", 1, BIG), "new")).vote, VOTE_REPAIRED);
    expect_stored(A40 AGENT BIG_TEXT ":new", BIG_TEXT);
    end(&one);
}

/* Neither a former holder, nor an agent that the hold has left, nor a wrong number writes it. */
Test(redis_owner, d3_9_a_late_command_leaves_the_label_of_another_holder)
{
    begin_held();
    static const enum op ops[] = {OP_RENEW, OP_RESUME, OP_REPAIR, OP_ADOPT, OP_RAISE};
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct send_item former = labelled(item_of("k", 2, BIG - 1), "former");
        cr_assert_eq(exchange(ops[i], 0, former).vote, VOTE_TAKEN, "%s", op_name(ops[i]));
        expect_stored(A40 AGENT BIG_TEXT ":me", BIG_TEXT);
    }
    for (unsigned i = 0; ops[i] != OP_ADOPT; i++) {
        struct send_item moved = labelled(by_other(item_of("k", 1, BIG)), "former");
        cr_assert_eq(exchange(ops[i], 0, moved).vote, VOTE_MOVED, "%s", op_name(ops[i]));
        expect_stored(A40 AGENT BIG_TEXT ":me", BIG_TEXT);
    }
    struct send_item wrong = labelled(item_of("k", 1, BIG + 1), "wrong");
    cr_assert_eq(exchange(OP_ADOPT, 0, wrong).vote, VOTE_MISNUMBERED);
    expect_stored(A40 AGENT BIG_TEXT ":me", BIG_TEXT);
    end(&one);
}

Test(redis_owner, what_the_holder_asks_for_is_deleted_whoever_owns_it)
{
    begin_held();
    struct send_item item = by_other(item_of("k", 1, BIG));
    item.asked = true;
    item.token.random[RANDOM_BYTES - 1] ^= 1; /* a near miss is not the token */
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_TAKEN);
    item.token.random[RANDOM_BYTES - 1] ^= 1;
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_YES);
    cr_assert_null(ask(&one, "GET lock:k"));
    end(&one);
}

/* R7: found when a master that had missed the agent's claim called the agent's own hold another
 * agent's. The other way round, an earlier command of this agent finds no key of the adopter. */
Test(redis_owner, r7_an_adopter_renews_the_keys_that_it_granted_itself)
{
    static const enum op ops[] = {OP_RENEW, OP_RESUME, OP_REPAIR};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct send_item granted = by_other(item_of("k", 1, BIG)), adopted = granted;
        adopted.agent |= 1;
        cr_assert_eq(exchange(OP_ACQUIRE, 0, granted).vote, VOTE_YES);
        cr_assert_eq(exchange(ops[i], 0, adopted).vote, VOTE_YES, "%s", op_name(ops[i]));
        expect_stored(A40 ":000000b3:" BIG_TEXT ":me", BIG_TEXT);
        cr_assert_eq(exchange(ops[i], 0, granted).vote, VOTE_MOVED, "%s", op_name(ops[i]));
        cr_assert_eq(exchange(OP_RELEASE, 0, granted).vote, VOTE_MOVED);
        struct send_item third = adopted;
        third.agent = 0xb5;
        cr_assert_eq(exchange(ops[i], 0, third).vote, VOTE_MOVED, "%s", op_name(ops[i]));
        ask(&one, "FLUSHALL");
    }
    end(&one);
}

/* D3.5: a DELETE may join the agent's own release. That deletes its own value alone. */
Test(redis_owner, a_release_that_a_delete_may_join_deletes_the_agents_own_value)
{
    begin_held();
    struct send_item items[] = {by_other(item_of("k", 1, BIG)), item_of("k", 1, BIG)};
    items[0].voted = items[1].voted = true;
    cr_assert_eq(exchange(OP_RELEASE, 0, items[0]).vote, VOTE_MOVED);
    expect_stored(A40 AGENT BIG_TEXT ":me", BIG_TEXT);
    cr_assert_eq(exchange(OP_RELEASE, 0, items[1]).vote, VOTE_YES);
    cr_assert_null(ask(&one, "GET lock:k"));
    end(&one);
}

Test(redis_owner, a_hand_over_takes_the_key_from_its_owner_or_as_the_holder_asked)
{
    begin_held();
    struct send_item heir = by_other(item_of("k", 2, BIG + 1));
    memset(heir.previous.random, 1, RANDOM_BYTES);
    cr_assert_eq(exchange(OP_HANDOVER, 0, heir).vote, VOTE_TAKEN);
    expect_stored(A40 AGENT BIG_TEXT ":me", BIG_TEXT);
    heir.asked = true;
    cr_assert_eq(exchange(OP_HANDOVER, 0, heir).vote, VOTE_YES);
    expect_stored(B40 OTHER "1760000000000001:me", "1760000000000001");
    struct send_item next = by_other(item_of("k", 1, BIG + 2));
    memset(next.previous.random, 2, RANDOM_BYTES);
    cr_assert_eq(exchange(OP_HANDOVER, 0, next).vote, VOTE_YES);
    expect_stored(A40 OTHER "1760000000000002:me", "1760000000000002");
    end(&one);
}

/* C4: found when the number was compared only after the key had been deleted. */
Test(redis_owner, a_strangers_release_needs_exactly_the_stored_number)
{
    begin_held();
    struct send_item item = by_other(item_of("k", 1, BIG));
    item.asked = item.numbered = true;
    const uint64_t wrong[] = {BIG - 1, BIG + 1, 0, 1, UINT64_MAX};
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        item.token.fence = wrong[i];
        struct record got = exchange(OP_RELEASE, 0, item);
        cr_assert(got.vote == VOTE_MISNUMBERED && got.fence == BIG, "number %llu: %s",
                  (unsigned long long)wrong[i], vote_name(got.vote));
        expect_stored(A40 AGENT BIG_TEXT ":me", BIG_TEXT);
    }
    item.token.fence = BIG;
    struct record got = exchange(OP_RELEASE, 0, item);
    cr_assert(got.vote == VOTE_YES && got.fence == BIG);
    cr_assert_null(ask(&one, "GET lock:k"));
    end(&one);
}

/* The number that is stored for the next grant proves nothing. It differs if an attempt was
 * refused or a neighbour of the bucket was granted, and it is missing if the master has forgotten
 * its data (R12). */
Test(redis_owner, the_number_of_the_next_grant_is_not_the_holders)
{
    begin_held();
    struct send_item item = by_other(item_of("k", 1, BIG));
    store_number(&one, "lock:k", "1760000000000009");
    cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_YES);
    ask(&one, "DEL %s", bucket_key("lock:k"));
    cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_YES);
    item.asked = item.numbered = true;
    item.token.fence = BIG + 9;
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_MISNUMBERED);
    item.token.fence = BIG;
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_YES);
    end(&one);
}

Test(redis_owner, the_number_0_is_nobodys)
{
    begin_held();
    ask(&one, "DEL %s", bucket_key("lock:k"));
    struct send_item item = by_other(item_of("k", 1, 0));
    item.asked = item.numbered = true;
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_MISNUMBERED);
    cr_assert_str_eq(ask(&one, "GET lock:k"), A40 AGENT BIG_TEXT ":me");
    end(&one);
}

/* In a batch each item has its own owner, number and way of asking. */
Test(redis_owner, items_of_a_batch_are_compared_one_by_one)
{
    begin_held();
    exchange(OP_ACQUIRE, 0, item_of("l", 1, BIG)), exchange(OP_ACQUIRE, 0, plain_of("m", 1));
    struct send_item items[] = {by_other(item_of("k", 1, BIG)), item_of("l", 1, BIG),
                                by_other(plain_of("m", 1))};
    /* If the policy does not fence, there is no number to compare. */
    items[2].asked = items[2].numbered = true;
    uint32_t first = rig_send(OP_RELEASE, 1, items, 3);
    RUN_UNTIL(reply_to(first + 2, 0), 3000);
    cr_assert_eq(reply_to(first, 0)->vote, VOTE_MOVED);
    cr_assert_eq(reply_to(first + 1, 0)->vote, VOTE_YES);
    cr_assert_eq(reply_to(first + 2, 0)->vote, VOTE_YES);
    end(&one);
}
