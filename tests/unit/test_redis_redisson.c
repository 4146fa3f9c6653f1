/* The scripts of format redisson on a real redis-server (R22). */
#include "redis_rig.h"

static struct server one;

#define JAVA "9f0c6a4e-5e0b-4b63-9d0d-1f5f6d2f0001:41"

static struct send_item java_item(const char *key, uint8_t token, uint64_t fence)
{
    struct send_item item = item_of(key, token, fence);
    item.form = FORM_REDISSON;
    item.permits = 1;
    return item;
}

static struct send_item of_agent(struct send_item item, uint32_t agent)
{
    item.agent = item.previous_agent = agent;
    return item;
}

static void expect_hash(const char *number, const char *agent)
{
    cr_assert_str_eq(ask(&one, "HGET lock:k %s:%s:%s:me", A40, agent, number), "1");
    cr_assert_str_eq(ask(&one, "HGET lock:k mode"), "lockagent");
    cr_assert_eq(ask_number(&one, "HLEN", "lock:k"), 2);
    cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 0);
}

Test(redisson, a_doubled_command_is_no_second_entry)
{
    begin(&one, NULL);
    struct record first = exchange(OP_ACQUIRE, 0, java_item("k", 1, BIG));
    cr_assert(first.vote == VOTE_YES && first.fence == BIG);
    expect_hash(BIG_TEXT, "000000a1");
    struct record again = exchange(OP_ACQUIRE, 0, java_item("k", 1, BIG + 7));
    cr_assert(again.vote == VOTE_YES && again.fence == BIG);
    expect_hash(BIG_TEXT, "000000a1");
    cr_assert_eq(exchange(OP_RELEASE, 0, java_item("k", 1, 0)).vote, VOTE_YES);
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    end(&one);
}

Test(redisson, a_handover_leaves_one_holder)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, java_item("k", 2, BIG)).vote, VOTE_YES);
    struct send_item next = java_item("k", 1, BIG + 9);
    memset(next.previous.random, 2, RANDOM_BYTES);
    struct record got = exchange(OP_HANDOVER, 0, next);
    cr_assert(got.vote == VOTE_YES && got.fence == BIG + 9);
    expect_hash("1760000000000009", "000000a1");
    memset(next.token.random, 3, RANDOM_BYTES);
    cr_assert_eq(exchange(OP_HANDOVER, 0, next).vote, VOTE_TAKEN, "it has left already");
    end(&one);
}

/* R22: the agent may not count the listeners. */
Test(redisson, a_release_is_told_if_listeners_may_not_be_counted)
{
    begin(&one, NULL);
    exchange(OP_ACQUIRE, 0, java_item("k", 1, BIG));
    ask(&one, "ACL SETUSER default -pubsub");
    cr_assert_eq(exchange(OP_RELEASE, 0, java_item("k", 1, 0)).vote, VOTE_YES);
    cr_assert_not_null(strstr(ask(&one, "INFO commandstats"), "cmdstat_publish:calls=1,"));
    end(&one);
}

/* R22: a refusal reports how many instances listen for the release, with this one (R9). */
Test(redisson, r22_a_refusal_tells_how_many_listen)
{
    begin(&one, NULL);
    ask(&one, "HSET lock:k " JAVA " 1");
    ask(&one, "PEXPIRE lock:k 5000");
    redisContext *listeners[2];
    for (unsigned i = 0; i < 2; i++) {
        listeners[i] = redisConnectUnix(one.socket);
        cr_assert(listeners[i] && !listeners[i]->err);
        freeReplyObject(redisCommand(listeners[i], "SUBSCRIBE redisson_lock__channel:{lock:k}"));
    }
    const struct record refused = exchange(OP_ACQUIRE, 0, java_item("k", 1, BIG));
    cr_assert_eq(refused.vote, VOTE_TAKEN);
    cr_assert_eq(refused.agents, 2);
    for (unsigned i = 0; i < 2; i++)
        redisFree(listeners[i]);
    end(&one);
}

/* R22: agents subscribe to Redisson's channel, and to no other. */
Test(redisson, r22_who_waits_is_on_one_channel)
{
    const struct effect_watch watch = {.key = {"k", 1}};
    begin(&one, NULL);
    rig.config->policies[0].core.form = FORM_REDISSON;
    redis_watch(rig.redis, &watch);
    RUN_UNTIL(count_of(EVENT_SUBSCRIBED, 0) == 1, 3000);
    cr_assert_str_eq(ask(&one, "EVAL %s 0", "return #redis.call('PUBSUB', 'CHANNELS')"), "1");
    end(&one);
}

Test(redisson, what_java_holds_is_left_alone)
{
    begin(&one, NULL);
    static const enum op ops[] = {OP_ACQUIRE, OP_HANDOVER, OP_RAISE,  OP_RENEW,
                                  OP_REPAIR,  OP_ADOPT,    OP_RELEASE};
    ask(&one, "HSET lock:k " JAVA " 3");
    ask(&one, "PEXPIRE lock:k 5000");
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct record got = exchange(ops[i], 0, java_item("k", 1, BIG));
        cr_assert(got.vote == VOTE_TAKEN && got.pttl_ms > 0, "%s", op_name(ops[i]));
        cr_assert_str_eq(ask(&one, "HGET lock:k " JAVA), "3");
        cr_assert_eq(ask_number(&one, "HLEN", "lock:k"), 1);
        cr_assert_leq(ask_number(&one, "PTTL", "lock:k"), 5000);
    }
    cr_assert_eq(exchange(OP_READ, 0, java_item("k", 1, 0)).vote, VOTE_YES);
    end(&one);
}

/* A client that keeps the rules never stores a value that is not a hash. The other scripts see this
 * hash as foreign. */
Test(redisson, the_other_format_is_foreign)
{
    begin(&one, NULL);
    ask(&one, "SET lock:k %s:000000a1:7:me PX 9000", A40);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, java_item("k", 1, BIG)).vote, VOTE_FOREIGN);
    cr_assert_eq(exchange(OP_RELEASE, 0, java_item("k", 1, BIG)).vote, VOTE_FOREIGN);
    ask(&one, "DEL lock:k");
    cr_assert_eq(exchange(OP_ACQUIRE, 0, java_item("k", 1, BIG)).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_FOREIGN);
    end(&one);
}

Test(redisson, an_adoption_writes_its_agents_name)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, java_item("k", 1, BIG)).vote, VOTE_YES);
    struct record wrong = exchange(OP_ADOPT, 0, of_agent(java_item("k", 1, BIG + 1), 0xb2));
    cr_assert(wrong.vote == VOTE_MISNUMBERED && wrong.fence == BIG);
    struct record got = exchange(OP_ADOPT, 0, of_agent(java_item("k", 1, BIG), 0xb2));
    cr_assert(got.vote == VOTE_YES && got.fence == BIG);
    expect_hash(BIG_TEXT, "000000b2");
    cr_assert_eq(exchange(OP_RENEW, 0, java_item("k", 1, BIG)).vote, VOTE_MOVED);
    cr_assert_eq(exchange(OP_RENEW, 0, of_agent(java_item("k", 1, BIG), 0xb2)).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RELEASE, 0, java_item("k", 1, BIG)).vote, VOTE_MOVED);
    end(&one);
}

/* The field has another name after it. Java never sees two holders, nor none. */
Test(redisson, d3_9_a_renewal_gives_the_field_another_label)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, java_item("k", 1, BIG)).vote, VOTE_YES);
    struct send_item item = java_item("k", 1, BIG);
    item.label = (struct text){"leader", 6};
    cr_assert_eq(exchange(OP_RENEW, 0, item).vote, VOTE_YES);
    cr_assert_str_eq(ask(&one, "HGET lock:k %s:000000a1:%s:leader", A40, BIG_TEXT), "1");
    cr_assert_eq(ask_number(&one, "HLEN", "lock:k"), 2);
    cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 0);
    cr_assert_eq(exchange(OP_RENEW, 0, java_item("k", 1, BIG)).vote, VOTE_YES);
    expect_hash(BIG_TEXT, "000000a1");
    end(&one);
}

Test(redisson, r7_nothing_shortens)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, java_item("k", 1, BIG)).vote, VOTE_YES);
    struct send_item item = java_item("k", 1, BIG);
    item.ttl_ms = 1000;
    static const enum op ops[] = {OP_RENEW, OP_REPAIR, OP_ADOPT, OP_ACQUIRE};
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        cr_assert_eq(exchange(ops[i], 0, item).vote, VOTE_YES, "%s", op_name(ops[i]));
        cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 5000, "%s", op_name(ops[i]));
    }
    ask(&one, "DEL lock:k");
    cr_assert_eq(exchange(OP_RENEW, 0, item).vote, VOTE_ABSENT);
    cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_ABSENT);
    cr_assert_eq(exchange(OP_REPAIR, 0, item).vote, VOTE_REPAIRED);
    expect_hash(BIG_TEXT, "000000a1");
    end(&one);
}

/* Agents take 0 and 1 for a release. Anything else on the channel is none. */
Test(redisson, only_redissons_messages_are_releases)
{
    static const char *const others[] = {"2", "00", "", "1 slot 0", "released"};
    const struct effect_watch watched = {.policy = POLICY_FENCED, .key = {"k", 1}};
    server_start(&one, NULL);
    rig_configure();
    rig.config->policies[POLICY_FENCED].core.form = FORM_REDISSON;
    rig_master(0, &one, false);
    rig_start();
    RUN_UNTIL(is_up(0), 3000);
    redis_watch(rig.redis, &watched);
    RUN_UNTIL(count_of(EVENT_SUBSCRIBED, 0) == 1, 3000);
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        cr_assert_str_eq(ask(&one, "PUBLISH redisson_lock__channel:{lock:k} %s", others[i]), "1");
    ask(&one, "PUBLISH redisson_lock__channel:{lock:k} 0");
    ask(&one, "PUBLISH redisson_lock__channel:{lock:k} 1");
    RUN_UNTIL(count_of(EVENT_MESSAGE, 0) >= 2, 3000);
    uint64_t until = uv_hrtime() + 50000000;
    RUN_UNTIL(uv_hrtime() > until, 1000);
    cr_assert_eq(count_of(EVENT_MESSAGE, 0), 2);
    end(&one);
}
