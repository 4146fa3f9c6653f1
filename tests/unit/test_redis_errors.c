/* Every class of error reply (D5.5), as real redis-servers give it, and its meaning to the Redis
 * room. */
#include <sys/stat.h>

#include "agent/redis/replies.h"
#include "redis_rig.h"

static struct server one;

Test(errors, script_flush_is_not_run_and_then_works)
{
    begin(&one, NULL);
    ask(&one, "SCRIPT FLUSH");
    struct send_item item = item_of("k", 1, BIG);
    uint32_t slot = rig_send(OP_ACQUIRE, 1, &item, 1);
    rig_send(OP_RELEASE, 1, &item, 1);
    RUN_UNTIL(replies() == 2, 1000);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_NOT_RUN);
    cr_assert_eq(reply_to(slot + 1, 0)->vote, VOTE_NOT_RUN);
    cr_assert_null(ask(&one, "GET lock:k"), "resending it here would orphan a key");
    cr_assert(is_up(0));
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_YES);
    ask(&one, "SCRIPT FLUSH");
    cr_assert_eq(exchange(OP_RENEW, 0, item).vote, VOTE_NOT_RUN);
    cr_assert_eq(exchange(OP_RENEW, 0, item).vote, VOTE_YES);
    end(&one);
}

/* The server dies while it loads them: the next connection loads them, and again when asked. */
Test(errors, scripts_are_loaded_again_after_a_connection_that_ended_meanwhile)
{
    begin(&one, NULL);
    struct send_item item = item_of("k", 1, BIG);
    ask(&one, "SCRIPT FLUSH");
    uint32_t slot = rig_send(OP_READ, 1, &item, 1);
    RUN_UNTIL(reply_to(slot, 0), 1000);
    kill(one.pid, SIGSTOP);
    for (unsigned turns = 0; turns < 5; turns++) /* SCRIPT LOAD is written */
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    server_kill(&one);
    RUN_UNTIL(!is_up(0), 1000);
    server_run(&one, NULL);
    server_control(&one);
    RUN_UNTIL(is_up(0), 3000);
    ask(&one, "SCRIPT FLUSH");
    RUN_UNTIL(exchange(OP_READ, 0, item).vote == VOTE_ABSENT, 3000);
    end(&one);
}

/* Expects that an error refuses, is counted, and leaves the master up. */
static void assert_refused(enum op op, struct send_item item, enum redis_outcome outcome)
{
    unsigned before = rig.outcomes[outcome];
    struct record got = exchange(op, 0, item);
    cr_assert_eq(got.vote, VOTE_REFUSED, "%s: %s", op_name(op), vote_name(got.vote));
    cr_assert_eq(rig.outcomes[outcome], before + 1, "%s: not %s", op_name(op),
                 redis_outcome_name(outcome));
    cr_assert(is_up(0));
}

Test(errors, out_of_memory_refuses_acquires_only)
{
    begin(&one, NULL);
    struct send_item item = item_of("k", 1, BIG);
    exchange(OP_ACQUIRE, 0, item);
    ask(&one, "CONFIG SET maxmemory 1");
    assert_refused(OP_ACQUIRE, item_of("other", 1, BIG), REDIS_OUTCOME_OOM);
    assert_refused(OP_ACQUIRE, plain_of("other", 1), REDIS_OUTCOME_OOM);
    assert_refused(OP_REPAIR, item_of("other", 1, BIG), REDIS_OUTCOME_OOM);
    cr_assert(state_was_told("up oom: out of memory"));
    cr_assert_eq(exchange(OP_RENEW, 0, item).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_YES);
    ask(&one, "CONFIG SET maxmemory 0");
    cr_assert_null(ask(&one, "GET lock:other"));
    cr_assert_null(stored_number(&one, "lock:other"));
    end(&one);
}

/* Makes snapshots of the server fail, so that it refuses writes. Returns the folder that is in the
 * way of the file. */
static const char *fail_snapshots(void)
{
    static char missing[128];
    ask(&one, "CONFIG SET rdbcompression no");
    snprintf(missing, sizeof(missing), "%s/dump.rdb", one.dir);
    cr_assert_eq(mkdir(missing, 0700), 0); /* the snapshot cannot be put there */
    ask(&one, "CONFIG SET save %s", "1000 1000");
    ask(&one, "BGSAVE");
    for (int i = 0; i < 400 && !strstr(ask(&one, "INFO persistence"), "rdb_last_bgsave_status:err");
         i++)
        usleep(5000);
    return missing;
}

Test(errors, misconf_and_noreplicas_and_readonly_refuse)
{
    begin(&one, NULL);
    struct send_item item = item_of("k", 1, BIG);
    exchange(OP_ACQUIRE, 0, item);
    ask(&one, "CONFIG SET min-replicas-to-write 1");
    assert_refused(OP_ACQUIRE, item_of("other", 1, BIG), REDIS_OUTCOME_NOREPLICAS);
    assert_refused(OP_RELEASE, item, REDIS_OUTCOME_NOREPLICAS);
    ask(&one, "CONFIG SET min-replicas-to-write 0");

    /* A probe has just come, so the next one is 3 s away: it would take the master down. */
    ask(&one, "CONFIG RESETSTAT");
    RUN_UNTIL(strstr(ask(&one, "INFO commandstats"), "cmdstat_ping:"), 5000);
    const char *missing = fail_snapshots();
    assert_refused(OP_ACQUIRE, item_of("other", 1, BIG), REDIS_OUTCOME_MISCONF);
    assert_refused(OP_RENEW, item, REDIS_OUTCOME_MISCONF);
    assert_refused(OP_RELEASE, item, REDIS_OUTCOME_MISCONF);
    ask(&one, "CLIENT KILL TYPE normal SKIPME yes");
    RUN_UNTIL(is_down_with(0, "PING: misconf"), 1000);
    rmdir(missing);
    ask(&one, "CONFIG SET stop-writes-on-bgsave-error no");
    RUN_UNTIL(is_up(0), 1000);

    ask(&one, "REPLICAOF 127.0.0.1 %d", free_port());
    assert_refused(OP_ACQUIRE, item_of("other", 1, BIG), REDIS_OUTCOME_READONLY);
    assert_refused(OP_RENEW, item, REDIS_OUTCOME_READONLY);
    cr_assert_eq(exchange(OP_READ, 0, item).vote, VOTE_YES);
    end(&one);
}

/* A master that refuses writes takes no lock, also if no caller has asked for one yet. */
Test(errors, a_ping_that_is_refused_with_misconf_takes_the_master_down)
{
    begin(&one, NULL);
    const char *missing = fail_snapshots();
    RUN_UNTIL(is_down_with(0, "PING: refuses writes because its snapshots fail"), 5000);
    cr_assert_eq(count_of(EVENT_MASTER_DOWN, 0), 1);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_NOT_SENT);
    rmdir(missing);
    ask(&one, "CONFIG SET stop-writes-on-bgsave-error no");
    RUN_UNTIL(is_up(0), 5000);
    cr_assert_eq(redis_master(rig.redis, 0, 0).reconnects, 0);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    end(&one);
}

/* Expects an error that marks the master: refused, and down with its reason. */
static void assert_marked(struct send_item item, enum redis_outcome outcome, const char *reason)
{
    unsigned downs = count_of(EVENT_MASTER_DOWN, 0);
    uint32_t slot = rig_send(OP_ACQUIRE, 1, &item, 1);
    RUN_UNTIL(reply_to(slot, 0), 1000);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_REFUSED, "%s", vote_name(reply_to(slot, 0)->vote));
    cr_assert_eq(rig.outcomes[outcome], 1);
    cr_assert_eq(count_of(EVENT_MASTER_DOWN, 0), downs + 1);
    cr_assert_lt(last_of(EVENT_MASTER_DOWN, 0), reply_to(slot, 0));
    cr_assert(is_down_with(0, reason), "%s", redis_master(rig.redis, 0, 0).reason);
    cr_assert_eq(exchange(OP_READ, 0, item).vote, VOTE_NOT_SENT);
}

Test(errors, a_busy_master_is_down_until_the_script_ends)
{
    static const char *const options[] = {"--busy-reply-threshold", "50", NULL};
    begin(&one, options);
    redisContext *stuck = redisConnectUnix(one.socket);
    redisAppendCommand(stuck, "EVAL %s 0", "while true do end");
    int done = 0;
    cr_assert_eq(redisBufferWrite(stuck, &done), REDIS_OK);
    usleep(100000);
    assert_marked(item_of("k", 1, BIG), REDIS_OUTCOME_BUSY, "busy");
    RUN_UNTIL(is_down_with(0, "busy"), 300);
    ask(&one, "SCRIPT KILL");
    RUN_UNTIL(is_up(0), 1000);
    cr_assert_eq(last_of(EVENT_MASTER_UP, 0)->epoch, 1);
    cr_assert_eq(redis_master(rig.redis, 0, 0).reconnects, 0);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    redisFree(stuck);
    end(&one);
}

Test(errors, a_replica_without_its_master_is_down)
{
    begin(&one, NULL);
    ask(&one, "CONFIG SET replica-serve-stale-data no");
    ask(&one, "REPLICAOF 127.0.0.1 %d", free_port());
    assert_marked(item_of("k", 1, BIG), REDIS_OUTCOME_MASTERDOWN, "masterdown");
    ask(&one, "REPLICAOF NO ONE");
    RUN_UNTIL(is_up(0), 1000);
    cr_assert_eq(redis_master(rig.redis, 0, 0).reconnects, 0);
    end(&one);
}

Test(errors, a_command_that_the_acl_forbids_marks_the_master)
{
    begin(&one, NULL);
    ask(&one, "ACL SETUSER default -set");
    /* inside EVAL it comes as -ERR */
    assert_marked(item_of("k", 1, BIG), REDIS_OUTCOME_NOPERM, "noperm");
    ask(&one, "ACL SETUSER default +set");
    RUN_UNTIL(is_up(0), 1000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    ask(&one, "ACL SETUSER default -pexpire");
    cr_assert_eq(exchange(OP_RENEW, 0,
                          (struct send_item){.key = {"k", 1},
                                             .token = item_of("k", 1, BIG).token,
                                             .agent = 0xa1,
                                             .ttl_ms = 50000,
                                             .fencing = true})
                     .vote,
                 VOTE_REFUSED);
    cr_assert(is_down_with(0, "noperm"));
    end(&one);
}

/* An error of one key of a call does not hide that the master refuses the other keys. */
Test(errors, a_key_of_another_type_does_not_hide_that_a_command_is_forbidden)
{
    begin(&one, NULL);
    ask(&one, "LPUSH lock:a x");
    ask(&one, "ACL SETUSER default -set");
    struct send_item items[] = {item_of("a", 1, BIG), item_of("b", 1, BIG)};
    uint32_t first = rig_send(OP_ACQUIRE, 1, items, 2);
    RUN_UNTIL(reply_to(first + 1, 0), 1000);
    cr_assert_eq(reply_to(first, 0)->vote, VOTE_FOREIGN);
    cr_assert_eq(reply_to(first + 1, 0)->vote, VOTE_REFUSED);
    cr_assert(is_down_with(0, "noperm"), "%s", redis_master(rig.redis, 0, 0).reason);
    end(&one);
}

/* If it marked the master, any caller could take it down by naming such a key. */
Test(errors, a_key_that_the_acl_forbids_leaves_the_master_up)
{
    begin(&one, NULL);
    ask(&one, "ACL SETUSER default resetkeys ~lock:* ~lockagent:*");
    assert_refused(OP_ACQUIRE, plain_of("k", 1), REDIS_OUTCOME_NOPERM);
    cr_assert(state_was_told("up noperm"));
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    end(&one);
}

/* The least rights that the agent needs, as docs/masters.md lists them. */
Test(errors, the_documented_acl_is_enough)
{
    server_start(&one, NULL);
    ask(&one,
        "ACL SETUSER agent on >p ~lock:* ~lockagent:* resetchannels -@all +get +mget +set +del "
        "+zadd +zscore +pexpire +pttl +evalsha "
        "+script|load +ping +info +time +client|setname +client|id +client|kill");
    rig_configure();
    rig_master(0, &one, false);
    strcpy(rig.config->groups[0].masters[0].username, "agent");
    strcpy(rig.config->groups[0].masters[0].password, "p");
    rig_start();
    RUN_UNTIL(is_up(0), 2000);
    static const enum op ops[] = {OP_ACQUIRE, OP_RAISE, OP_RENEW,  OP_REPAIR,
                                  OP_ADOPT,   OP_READ,  OP_RELEASE};
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        cr_assert_eq(exchange(ops[i], 0, item_of("k", 1, BIG)).vote, VOTE_YES, "%s",
                     op_name(ops[i]));
    cr_assert_eq(rig.outcomes[REDIS_OUTCOME_OK], 7);
    end(&one);
}

Test(errors, a_command_that_the_acl_forbids_outside_of_scripts_marks_too)
{
    begin(&one, NULL);
    ask(&one, "ACL SETUSER default -evalsha");
    assert_marked(plain_of("k", 1), REDIS_OUTCOME_NOPERM, "noperm");
    end(&one);
}

Test(errors, classes_with_and_without_what_eval_adds)
{
    static const struct {
        const char *text;
        enum redis_outcome outcome;
    } cases[] = {
        {"OOM command not allowed when used memory > 'maxmemory'. script: 0123, on @user_script:9.",
         REDIS_OUTCOME_OOM},
        {"-OOM command not allowed when used memory > 'maxmemory'.", REDIS_OUTCOME_OOM},
        {"@user_script: 12: OOM command not allowed", REDIS_OUTCOME_OOM},
        {"ERR The user executing the script can't run this command or subcommand script: 01",
         REDIS_OUTCOME_NOPERM},
        {"@user_script: 1: The user executing the script can't access at least one of the keys",
         REDIS_OUTCOME_NOPERM},
        /* as Redis 7.2 and later, and Valkey, have it */
        {"ERR ACL failure in script: User lockagent has no permissions to run the 'get' command",
         REDIS_OUTCOME_NOPERM},
        {"ERR ACL failure in script: No permissions to access a key script: 01, on @user_script:1.",
         REDIS_OUTCOME_NOPERM},
        {"NOPERM this user has no permissions to run the 'evalsha' command", REDIS_OUTCOME_NOPERM},
        {"ERR max number of clients reached", REDIS_OUTCOME_MAXCLIENTS},
        {"ERR max number of clients + cluster connections reached", REDIS_OUTCOME_MAXCLIENTS},
        {"NOSCRIPT No matching script. Please use EVAL.", REDIS_OUTCOME_NOSCRIPT},
        {"NOREPLICAS Not enough good replicas to write. script: 01, on @user_script:1.",
         REDIS_OUTCOME_NOREPLICAS},
        {"ERR unknown command 'EVALSHA', with args beginning with: '01' ", REDIS_OUTCOME_NOCOMMAND},
        {"ERR unknown subcommand 'SETNAME'. Try CLIENT HELP.", REDIS_OUTCOME_NOCOMMAND},
        /* A part of the script may have run. */
        {"ERR Unknown Redis command called from script script: 01, on @user_script:9.",
         REDIS_OUTCOME_OTHER},
        {"BUSYKEY Target key name already exists.", REDIS_OUTCOME_OTHER},
        {"ERR value is not an integer", REDIS_OUTCOME_OTHER},
        {"", REDIS_OUTCOME_OTHER},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_assert_eq(outcome_of_error(cases[i].text), cases[i].outcome, "%s", cases[i].text);
    char says[160];
    outcome_describe(REDIS_OUTCOME_OTHER,
                     "ERR unknown thing 'X', with args beginning with: 'secret'\n", says,
                     sizeof(says));
    cr_assert_str_eq(says, "unexpected answer: ERR unknown thing 'X'");
    static const char script[] = "ERR ACL failure in script: User lockagent has no permissions";
    outcome_describe(outcome_of_error(script), script, says, sizeof(says));
    cr_assert_str_eq(says, "noperm: the ACL does not allow what the scripts need");
    outcome_describe(REDIS_OUTCOME_OTHER, "ERR Unknown command called from script", says,
                     sizeof(says));
    cr_assert_str_eq(says, "other: a script needs a command that the server does not have");
    outcome_describe(REDIS_OUTCOME_OTHER, NULL, says, sizeof(says));
    cr_assert_str_eq(says, "other");
}

/* A reply that no script promises is unknown: the command may have been done. */
Test(errors, a_reply_of_an_unknown_shape_is_unknown)
{
    char held[] = "held", ok[] = "OK", stranger[] = "foreign";
    redisReply word = {.type = REDIS_REPLY_STRING, .str = held, .len = 4};
    redisReply number = {.type = REDIS_REPLY_INTEGER, .integer = 5};
    redisReply minus = {.type = REDIS_REPLY_INTEGER, .integer = -2};
    redisReply absent = {.type = REDIS_REPLY_INTEGER, .integer = -1};
    redisReply nil = {.type = REDIS_REPLY_NIL};
    redisReply status = {.type = REDIS_REPLY_STATUS, .str = ok, .len = 2};
    redisReply *parts[] = {&word, &number, &nil};
    redisReply empty = {.type = REDIS_REPLY_ARRAY, .elements = 0};
    redisReply cut = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = parts};
    redisReply unlabelled = {.type = REDIS_REPLY_ARRAY, .elements = 3, .element = parts};
    redisReply foreign = {.type = REDIS_REPLY_STRING, .str = stranger, .len = 7};
    /* -1 means no expiry. -2 has no meaning. */
    redisReply *beyond_expiry_parts[] = {&foreign, &minus};
    redisReply beyond_expiry = {
        .type = REDIS_REPLY_ARRAY, .elements = 2, .element = beyond_expiry_parts};
    static const enum op ops[] = {OP_ACQUIRE, OP_RENEW, OP_READ};
    redisReply *shapes[] = {&minus, &nil, &status,     &word,
                            &empty, &cut, &unlabelled, &beyond_expiry};
    for (unsigned o = 0; o < 3; o++) {
        struct event_reply got;
        for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
            enum redis_outcome outcome = item_reply_read(ops[o], shapes[i], &got);
            cr_assert(got.vote == VOTE_UNKNOWN && outcome == REDIS_OUTCOME_OTHER, "%u %u", o, i);
        }
        item_reply_read(ops[o], ops[o] == OP_ACQUIRE ? &absent : &word, &got);
        cr_assert_eq(got.vote, VOTE_UNKNOWN);
    }
}

/* R9: a message that was in flight as the channel was left is not an error. */
Test(errors, r9_a_message_that_crosses_an_unsubscribe_is_passed_over)
{
    const struct effect_watch left = {.key = {"k", 1}}, kept = {.key = {"l", 1}};
    begin(&one, NULL);
    redis_watch(rig.redis, &left);
    redis_watch(rig.redis, &kept);
    RUN_UNTIL(count_of(EVENT_SUBSCRIBED, 0) == 2, 3000);
    cr_assert_str_eq(ask(&one, "PUBLISH lockagent:channel:lock:k 1"), "1");
    redis_unwatch(rig.redis, &left); /* it is unread still */
    RUN_UNTIL(strcmp(ask(&one, "PUBLISH lockagent:channel:lock:k 1"), "0") == 0, 3000);
    ask(&one, "PUBLISH lockagent:channel:lock:l 1");
    RUN_UNTIL(count_of(EVENT_MESSAGE, 0) == 1, 1000);
    cr_assert_eq(redis_master(rig.redis, 0, 0).faults[REDIS_FAULT_SURPLUS], 0);
    end(&one);
}

/* R9: only the loss of the subscriber's connection is reported. Waiters then look for themselves
 * until the channel is subscribed to again. */
Test(errors, r9_the_end_of_the_subscription_alone_is_told)
{
    const struct effect_watch watched = {.key = {"k", 1}};
    begin(&one, NULL);
    redis_watch(rig.redis, &watched);
    RUN_UNTIL(count_of(EVENT_SUBSCRIBED, 0) == 1, 3000);
    ask(&one, "CLIENT KILL TYPE pubsub");
    RUN_UNTIL(count_of(EVENT_UNSUBSCRIBED, 0) == 1, 3000);
    cr_assert(is_up(0));
    RUN_UNTIL(count_of(EVENT_SUBSCRIBED, 0) == 2, 3000);
    end(&one);
}

/* R9: the subscription ends with the connection for commands, and that is reported as well. */
Test(errors, r9_the_end_of_the_subscription_with_its_master_is_told)
{
    const struct effect_watch watched = {.key = {"k", 1}};
    begin(&one, NULL);
    redis_watch(rig.redis, &watched);
    RUN_UNTIL(count_of(EVENT_SUBSCRIBED, 0) == 1, 3000);
    ask(&one, "CLIENT KILL TYPE normal SKIPME yes");
    RUN_UNTIL(count_of(EVENT_MASTER_DOWN, 0) == 1, 3000);
    RUN_UNTIL(count_of(EVENT_UNSUBSCRIBED, 0) == 1, 1000);
    RUN_UNTIL(count_of(EVENT_SUBSCRIBED, 0) == 2, 5000);
    end(&one);
}

/* R9: a subscription that was confirmed begins with short pauses again, however many have ended. */
Test(errors, r9_a_subscription_that_ends_often_comes_back_soon)
{
    enum { TIMES = 6, SOON_MS = 2500 };
    const struct effect_watch watched = {.key = {"k", 1}};
    begin(&one, NULL);
    redis_watch(rig.redis, &watched);
    RUN_UNTIL(count_of(EVENT_SUBSCRIBED, 0) == 1, 3000);
    for (unsigned i = 1; i <= TIMES; i++) {
        ask(&one, "CLIENT KILL TYPE pubsub");
        RUN_UNTIL(count_of(EVENT_UNSUBSCRIBED, 0) == i, 3000);
        RUN_UNTIL(count_of(EVENT_SUBSCRIBED, 0) == i + 1, SOON_MS);
    }
    end(&one);
}

/* D5.4: the state of the last server at an address says nothing about the next one. */
Test(errors, a_server_that_follows_a_cluster_node_is_up)
{
    char bus[8]; /* Redis would take the port above by 10,000, and there may be none */
    const char *const options[] = {"--cluster-enabled", "yes", "--cluster-port", bus, NULL};
    snprintf(bus, sizeof(bus), "%d", free_port());
    server_start(&one, options);
    server_kill(&one);
    unlink(one.socket);
    rig_configure();
    rig_master(0, &one, false);
    rig_start();
    RUN_UNTIL(is_down_with(0, "connect"), 3000);
    server_run(&one, options);
    server_control(&one);
    RUN_UNTIL(is_down_with(0, "Redis Cluster"), 5000);
    cr_assert(state_was_told("Redis Cluster"), "it is down for another reason than before");
    server_kill(&one);
    unlink(one.socket);
    server_run(&one, NULL);
    server_control(&one);
    RUN_UNTIL(is_up(0), 8000);
    end(&one);
}

/* D5.4: one server named twice is degraded, until only one of the two names leads there. */
Test(errors, a_name_that_leads_nowhere_is_no_second_server)
{
    server_start(&one, NULL);
    rig_configure();
    rig_master(0, &one, false);
    rig_master(1, &one, true);
    rig_start();
    RUN_UNTIL(is_up(0) && is_up(1), 3000);
    RUN_UNTIL(redis_master(rig.redis, 0, 0).degraded && redis_master(rig.redis, 0, 1).degraded,
              4000);
    cr_assert_not_null(strstr(redis_master(rig.redis, 0, 0).reason, "the same server as"));
    ask(&one, "CONFIG SET port 0");
    ask(&one, "CLIENT KILL TYPE normal SKIPME yes");
    RUN_UNTIL(is_up(0) && !is_up(1) && !redis_master(rig.redis, 0, 0).degraded, 8000);
    end(&one);
}

/* D5.4: a master that may evict keys is asked for no new lock. It still hands on a lock that is
 * held. */
Test(errors, d5_4_a_master_that_may_evict_hands_on)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    ask(&one, "CONFIG SET maxmemory 100mb");
    ask(&one, "CONFIG SET maxmemory-policy allkeys-lru");
    RUN_UNTIL(strstr(redis_master(rig.redis, 0, 0).reason, "may evict"), 8000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("l", 2, BIG)).vote, VOTE_GUARDED);
    struct send_item next = item_of("k", 3, BIG + 9);
    memset(next.previous.random, 1, RANDOM_BYTES);
    cr_assert_eq(exchange(OP_HANDOVER, 0, next).vote, VOTE_YES);
    end(&one);
}
