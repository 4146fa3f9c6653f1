/* The Redis room around the WAIT for replicas (R21), on a real master with a real replica. */
#include "agent/redis/internal.h"
#include "redis_rig.h"

static struct server one, two;

static void begin_replicated_with(unsigned ack, bool guard)
{
    static char port[8];
    server_start(&one, NULL);
    ask(&one, "CONFIG SET repl-diskless-sync-delay 0");
    server_start(&two, NULL);
    snprintf(port, sizeof(port), "%d", one.port);
    ask(&two, "REPLICAOF 127.0.0.1 %s", port);
    rig_configure();
    rig_master(0, &one, false);
    rig.config->groups[0].node_timeout_ms = 1020;
    rig.config->groups[0].replicas_ack = ack;
    rig.config->groups[0].replicas_timeout_ms = 1000;
    rig.config->groups[0].guard = guard;
    rig.config->max_ttl_ms = 1000;
    rig_start();
    RUN_UNTIL(is_up(0) && strstr(ask(&one, "INFO replication"), "state=online"), 5000);
}

static void begin_replicated(unsigned ack)
{
    begin_replicated_with(ack, /* guard= */ false);
}

static void end_replicated(void)
{
    end(&one);
    server_remove(&two);
}

static unsigned waits(void)
{
    const char *says = strstr(ask(&one, "INFO commandstats"), "cmdstat_wait:calls=");
    return says == NULL ? 0 : (unsigned)strtoul(says + strlen("cmdstat_wait:calls="), NULL, 10);
}

/* The batch's replies are a list of lists: votes that are kept back are the same as before. */
Test(redis_replicas, one_wait_stands_behind_fifty_locks)
{
    struct send_item items[LIMIT_BATCH];
    char keys[LIMIT_BATCH][8];
    begin_replicated(1);
    ask(&one, "SET lock:k7 " B40 ":000000a2:7:them PX 60000");
    for (unsigned i = 0; i < LIMIT_BATCH; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%u", i);
        items[i] = item_of(keys[i], 1, BIG);
    }
    uint32_t slot = rig_send(OP_ACQUIRE, 1, items, LIMIT_BATCH);
    uint32_t renewed = rig_send(OP_RENEW, 1, items, LIMIT_BATCH);
    RUN_UNTIL(reply_to(renewed + LIMIT_BATCH - 1, 0), 3000);
    for (unsigned i = 0; i < LIMIT_BATCH; i++) {
        cr_assert_eq(reply_to(slot + i, 0)->vote, i == 7 ? VOTE_TAKEN : VOTE_YES);
        cr_assert_eq(reply_to(slot + i, 0)->fence, i == 7 ? 0 : BIG);
        cr_assert_eq(reply_to(renewed + i, 0)->vote, i == 7 ? VOTE_TAKEN : VOTE_YES);
    }
    cr_assert_str_eq(reply_to(slot + 7, 0)->holder, "them");
    cr_assert_eq(waits(), 1u);
    cr_assert_eq(exchange(OP_RELEASE, 0, items[0]).vote, VOTE_YES);
    cr_assert_eq(waits(), 1u, "a release waits for nobody");
    end_replicated();
}

/* R24: without a script no WAIT would follow the lock. With a guard the vote says so, too. */
Test(redis_replicas, r24_native_commands_are_not_sent_to_a_master_with_replicas)
{
    begin_replicated(1);
    redisReply *time = redisCommand(one.control, "TIME");
    rig.clock_ms = strtoll(time->element[0]->str, NULL, 10) * 1000;
    freeReplyObject(time);
    struct send_item item = item_of("k", 1, BIG);
    item.left_ms = 60000;
    item.asked = rig.native = true;
    cr_assert_neq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_BY_SCRIPT);
    cr_assert_eq(waits(), 1u);
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_YES);
    rig.native = false;
    cr_assert_null(strstr(ask(&one, "INFO commandstats"), "cmdstat_exec"));
    end_replicated();
}

Test(redis_replicas, what_too_few_have_is_no_vote)
{
    begin_replicated(2);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_UNREPLICATED);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 2, BIG)).vote, VOTE_TAKEN);
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_UNREPLICATED);
    cr_assert_eq(exchange(OP_RELEASE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    cr_assert_eq(redis_master(rig.redis, 0, 0).unreplicated, 2u);
    RUN_UNTIL(redis_master(rig.redis, 0, 0).degraded, 4000);
    cr_assert(is_up(0), "it serves all the same");
    end_replicated();
}

/* R21: "A message goes before each WAIT." "If the right to it is missing, WAIT's answer counts for
 * nothing." */
Test(redis_replicas, r21_a_wait_says_nothing_without_a_write_before_it)
{
    begin_replicated(1);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    const char *says = ask(&one, "INFO commandstats");
    cr_assert_not_null(strstr(says, "cmdstat_publish:calls=1,"), "%s", says);
    cr_assert_eq(waits(), 1u);
    ask(&one, "ACL SETUSER default -publish");
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_UNREPLICATED);
    cr_assert_eq(waits(), 2u);
    RUN_UNTIL(!is_up(0), 1000);
    ask(&one, "ACL SETUSER default +publish");
    RUN_UNTIL(is_up(0), 3000);
    cr_assert_eq(exchange(OP_RENEW, 0, item_of("k", 1, BIG)).vote, VOTE_YES);
    end_replicated();
}

/* R21: a read and a release that come after an unreplicated write are answered unchanged, and are
 * not counted. */
Test(redis_replicas, r21_only_votes_are_counted_as_unreplicated)
{
    begin_replicated(2);
    struct send_item item = item_of("k", 1, BIG);
    uint32_t acquire = rig_send(OP_ACQUIRE, 1, &item, 1), read = rig_send(OP_READ, 1, &item, 1),
             release = rig_send(OP_RELEASE, 1, &item, 1);
    RUN_UNTIL(reply_to(release, 0), 3000);
    cr_assert_eq(reply_to(acquire, 0)->vote, VOTE_UNREPLICATED);
    cr_assert_eq(reply_to(read, 0)->vote, VOTE_YES);
    cr_assert_eq(reply_to(release, 0)->vote, VOTE_YES);
    cr_assert_eq(redis_master(rig.redis, 0, 0).unreplicated, 1u);
    end_replicated();
}

static uint32_t late_slot;

static void send_and_be_late(uv_timer_t *timer)
{
    struct send_item item = item_of("k", 1, BIG);
    late_slot = rig_send(OP_ACQUIRE, 1, &item, 1);
    uv_timer_start(timer, nothing, 5, 5);
    usleep(30000);
}

/* R21: the loop's clock is 30 ms behind when the timer of the WAIT is set, so the timer comes too
 * early. The reply still comes at the end of replicas.timeout, and not with the end of the
 * connection. */
Test(redis_replicas, r21_a_timer_that_comes_early_is_set_again)
{
    begin_replicated(2);
    rig.config->groups[0].replicas_timeout_ms = 300;
    ask(&one, "CLIENT KILL TYPE normal SKIPME yes"); /* the time-out is that of a connection */
    RUN_UNTIL(!is_up(0), 3000);
    RUN_UNTIL(is_up(0), 3000);
    uv_timer_start(&rig.clock, send_and_be_late, 5, 0);
    while (ask(&one, "GET lock:k") == NULL)
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    ask(&one, "PING"); /* so it has written its reply */
    kill(one.pid, SIGSTOP);
    RUN_UNTIL(reply_to(late_slot, 0), 5000);
    kill(one.pid, SIGCONT);
    cr_assert_eq(reply_to(late_slot, 0)->vote, VOTE_UNREPLICATED, "%s",
                 vote_name(reply_to(late_slot, 0)->vote));
    end_replicated();
}

/* Votes that are kept back when the connection ends are unknown, once each. */
Test(redis_replicas, the_end_of_the_connection_is_the_end_of_the_wait)
{
    begin_replicated(2);
    struct send_item item = item_of("k", 1, BIG);
    uint32_t slot = rig_send(OP_ACQUIRE, 1, &item, 1), later = rig_send(OP_READ, 1, &item, 1);
    RUN_UNTIL(ask(&one, "GET lock:k") != NULL, 3000);
    ask(&one, "CLIENT KILL TYPE normal SKIPME yes");
    RUN_UNTIL(reply_to(later, 0), 3000);
    cr_assert_eq(reply_to(slot, 0)->vote, VOTE_UNKNOWN);
    cr_assert_eq(reply_to(later, 0)->vote, VOTE_UNKNOWN);
    RUN_UNTIL(is_up(0), 3000);
    end_replicated();
}

/* An ACL without it: no vote, and the master is down for a command. */
Test(redis_replicas, a_refused_wait_is_no_vote)
{
    begin_replicated(1);
    ask(&one, "ACL SETUSER default -wait");
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item_of("k", 1, BIG)).vote, VOTE_UNREPLICATED);
    cr_assert(is_down_with(0, "noperm"), "%s", redis_master(rig.redis, 0, 0).reason);
    end_replicated();
}

/* The group is idle, and the last question for the marker was asked a moment ago. */
static bool has_just_looked(void)
{
    int64_t asked_us = instant_us_between(rig.redis->guards[0].masters[0].asked_at, redis_now());
    return marker_idles(rig.redis, 0) && asked_us > 500000 && asked_us < 1500000;
}

/* R21: a server that has become a replica is left, also if the group is idle: no later than 3 s
 * after a look at its health, and these are 5 s apart. */
Test(redis_replicas, r21_a_replica_is_left_in_an_idle_group, .timeout = 40)
{
    begin_replicated_with(1, /* guard= */ true);
    RUN_UNTIL(redis_master(rig.redis, 0, 0).votes, 6000);
    RUN_UNTIL(has_just_looked(), 15000);
    ask(&two, "REPLICAOF NO ONE");
    ask(&one, "REPLICAOF 127.0.0.1 %d", two.port);
    RUN_UNTIL(state_was_told("it has become a replica"), 5000);
    end_replicated();
}
