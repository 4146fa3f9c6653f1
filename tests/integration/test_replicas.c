/* One master and its replicas (R21), on real servers: a write that they do not confirm is no grant
 * and no renewal. A promoted replica grants nothing before all keys that it may lack have run
 * out. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "tests/free_port.h"

TestSuite(replicas, .init = world_open, .fini = world_close, .timeout = 90);

static const struct agent_options *one_master_for(const char *ttl)
{
    static struct agent_options options;
    options = (struct agent_options){
        .masters = format("['%s']", master_url(0)),
        .node_timeout = "500ms",
        .group = "      durable: false\n      replicas: {ack: 1, timeout: 400ms}\n",
        .extra = format("limits: {max_ttl: %s}\n"
                        "policies:\n  - {match: '*', algorithm: single, ttl: %s}\n",
                        ttl, ttl),
    };
    return &options;
}

static const struct agent_options *one_master(void)
{
    return one_master_for("3s");
}

/* Long enough that no hold is lost while a replica takes the master's place on a busy machine. */
static const struct agent_options *one_master_to_lose(void)
{
    return one_master_for("6s");
}

static bool is_copied(size_t replica)
{
    return strstr(master_do(replica, "INFO replication")->str, "master_link_status:up") != NULL;
}

/* The first write reaches a replica when that has reported itself, which may take a second. */
static bool master_reaches(size_t count)
{
    master_do(0, "SET started 1");
    return master_do(0, "WAIT %u 1000", (unsigned)count)->integer == (long long)count;
}

/* A master, and `count` replicas of it that have caught up. */
static void start(size_t count)
{
    masters_start(1 + count, MASTERS_FORGETFUL);
    master_do(0, "CONFIG SET repl-diskless-sync-delay 0");
    for (size_t i = 1; i <= count; i++) {
        master_do(i, "CONFIG SET masteruser default");
        master_do(i, "REPLICAOF 127.0.0.1 %s", strrchr(master_url(0), ':') + 1);
        cr_assert(eventually(is_copied(i)));
    }
    cr_assert(eventually(master_reaches(count)), "%s", master_do(0, "INFO replication")->str);
}

/* The address of the master leads to the replica. */
static void promote(size_t replica)
{
    const char *port = strrchr(master_url(0), ':') + 1;
    master_kill(0);
    master_do(replica, "REPLICAOF NO ONE");
    cr_assert(eventually(strcmp(master_do(replica, "CONFIG SET port %s", port)->str, "OK") == 0));
}

static double unreplicated(const struct agent *agent)
{
    const char *page = get(agent, "/metrics")->body;
    const char *at = strstr(page, "\nlockagent_master_unreplicated_total{");
    cr_assert_not_null(at);
    return strtod(strchr(at, '}') + 1, NULL);
}

Test(replicas, what_a_replica_has_is_granted_and_renewed)
{
    start(1);
    struct agent *agent = agent_start(one_master());
    const struct reply *granted = acquire(agent, "k", "ttl=2s");
    expect(granted, 201, NULL);
    cr_assert_not_null(master_get(1, "lock:k"));
    expect(renew(agent, "k", token(granted), "ttl=3s"), 200, NULL);
    cr_assert_gt(master_pttl(1, "lock:k"), 2000);
    cr_assert_eq(unreplicated(agent), 0);
    give_back(agent, "k", token(granted));
}

Test(replicas, a_frozen_replica_is_no_grant_and_leaves_nothing)
{
    start(1);
    struct agent *agent = agent_start(one_master());
    master_freeze(1);
    const int64_t began = boottime_ms();
    const struct reply *refused = acquire(agent, "k", "ttl=3s");
    expect(refused, 503, "quorum_unavailable");
    cr_assert_geq(boottime_ms() - began, 390);
    cr_assert_eq(number(refused, "nodes.unreplicated"), 1, "%s", refused->body);
    cr_assert_eq(number(refused, "nodes.granted"), 0, "%s", refused->body);
    cr_assert_eq(number(refused, "nodes.error"), 0, "%s", refused->body);
    cr_assert(eventually_within(2500, master_get(0, "lock:k") == NULL));
    cr_assert_geq(unreplicated(agent), 1);
    master_thaw(1);
    cr_assert(eventually(acquire(agent, "k", "ttl=3s")->status == 201));
    cr_assert_not_null(master_get(1, "lock:k"));
}

/* Native commands have no WAIT behind them (R24). Without a guard no vote keeps them off. */
Test(replicas, a_frozen_replica_is_no_grant_without_a_guard)
{
    start(1);
    struct agent_options options = *one_master();
    options.group = "      guard: off\n      replicas: {ack: 1, timeout: 400ms}\n";
    struct agent *agent = agent_start(&options);
    expect(acquire(agent, "k", "ttl=3s"), 201, NULL);
    master_freeze(1);
    const struct reply *refused = acquire(agent, "another", "ttl=3s");
    expect(refused, 503, "quorum_unavailable");
    cr_assert_eq(number(refused, "nodes.unreplicated"), 1, "%s", refused->body);
}

/* Returns how many holds were lost because no quorum replied. An agent that was late itself says
 * `stalled` of these, and logs that it was late. */
static size_t lost_with_the_quorum(const struct agent *agent)
{
    const bool was_late = agent_logged(agent, "process was stopped or late", NULL) > 0;
    return agent_logged(agent, "lock lost", "\"reason\":\"quorum_lost\"") +
           (was_late ? agent_logged(agent, "lock lost", "\"reason\":\"stalled\"") : 0);
}

Test(replicas, a_renewal_that_no_replica_has_is_not_counted)
{
    start(1);
    struct agent *agent = agent_start(one_master());
    acquire_free(agent, "lost", "ttl=2s&renew=agent");
    const struct reply *kept = acquire_free(agent, "kept", "ttl=3s");
    master_freeze(1);
    const struct reply *failed = renew(agent, "kept", token(kept), NULL);
    expect(failed, 503, "renew_failed");
    cr_assert_eq(number(failed, "nodes.unreplicated"), 1, "%s", failed->body);
    cr_assert(held_here(agent, "kept"));
    cr_assert(eventually(lost_with_the_quorum(agent) == 1));
    cr_assert_not(held_here(agent, "lost"));
    master_thaw(1);
}

/* R21: "Without the message, a replica that lacks the longer lease could be counted, if another
 * connection had written it." Fails without it from Redis 7.2 on. */
Test(replicas, a_renewal_that_writes_nothing_needs_what_was_written_before)
{
    start(1);
    struct agent *agent = agent_start(one_master_for("20s"));
    const struct reply *kept = acquire_free(agent, "k", "ttl=8s");
    master_freeze(1);
    expect(renew(agent, "k", token(kept), "ttl=20s"), 503, "renew_failed");
    const size_t ups = agent_logged(agent, "master state changed", "\"state\":\"up\"");
    master_do(0, "CLIENT KILL TYPE normal SKIPME yes");
    cr_assert(eventually(agent_logged(agent, "master state changed", "\"state\":\"up\"") > ups));
    const struct reply *shorter = renew(agent, "k", token(kept), "ttl=10s");
    expect(shorter, 503, "renew_failed");
    cr_assert_eq(number(shorter, "nodes.unreplicated"), 1, "%s", shorter->body);
    master_thaw(1);
}

Test(replicas, fewer_than_are_asked_for_are_shown)
{
    start(1);
    struct agent *agent = agent_start(one_master());
    cr_assert(eventually(get(agent, "/readyz")->status == 200));
    cr_assert_null(strstr(get(agent, "/readyz")->body, "degraded"));
    master_kill(1);
    cr_assert(eventually_within(4000, strstr(get(agent, "/readyz")->body, "degraded") != NULL),
              "%s", get(agent, "/readyz")->body);
    cr_assert_not_null(strstr(get(agent, "/readyz")->body, "replicas.ack"), "%s",
                       get(agent, "/readyz")->body);
    master_start(1);
    master_do(1, "REPLICAOF 127.0.0.1 %s", strrchr(master_url(0), ':') + 1);
    cr_assert(eventually(strstr(get(agent, "/readyz")->body, "degraded") == NULL));
    cr_assert(eventually(acquire(agent, "k", "ttl=3s")->status == 201));
}

/* Expects a guard of max_ttl and 1 s: its holds are kept, and nothing new is granted. */
static void expect_guarded(struct agent *holder, struct agent *rival)
{
    const struct reply *refused;
    cr_assert(eventually((refused = acquire(rival, "other", "ttl=3s"))->status == 503 &&
                         number(refused, "nodes.guarded") == 1),
              "%s", refused->body);
    const int64_t began = boottime_ms();
    cr_assert(eventually(held_here(holder, "k") && master_get(1, "lock:k") != NULL));
    refused = acquire(rival, "k", "ttl=3s");
    cr_assert(refused->status == 503 || refused->status == 409, "%s", refused->body);
    cr_assert(eventually_within(12000, acquire(rival, "other", "ttl=3s")->status == 201));
    cr_assert_geq(boottime_ms() - began, 2500);
    cr_assert(held_here(holder, "k"));
    expect(acquire(rival, "k", "ttl=3s"), 409, "lock_held");
}

/* The promoted one needs a replica of its own, otherwise nothing is granted ever again. */
static void give_replica(size_t promoted, size_t replica)
{
    const char *port = strrchr(master_url(0), ':') + 1;
    master_do(promoted, "CONFIG SET repl-diskless-sync-delay 0");
    master_do(replica, "REPLICAOF 127.0.0.1 %s", port);
}

Test(replicas, a_promoted_replica_keeps_what_it_has_and_grants_nothing_at_first)
{
    start(2);
    struct agent *holder = agent_start(one_master_to_lose()),
                 *rival = agent_start(one_master_to_lose());
    expect(acquire(holder, "k", "ttl=6s&renew=agent"), 201, NULL);
    cr_assert(eventually(master_get(1, "lock:k") != NULL));
    promote(1);
    give_replica(1, 2);
    expect_guarded(holder, rival);
}

Test(replicas, a_replica_that_is_promoted_without_the_key_lets_nobody_else_have_it)
{
    start(2);
    struct agent *holder = agent_start(one_master_to_lose()),
                 *rival = agent_start(one_master_to_lose());
    master_do(1, "REPLICAOF NO ONE"); /* from here on it receives nothing */
    expect(acquire(holder, "k", "ttl=6s&renew=agent"), 201, NULL);
    cr_assert_null(master_get(1, "lock:k"));
    promote(1);
    give_replica(1, 2);
    expect_guarded(holder, rival);
}

/* The master follows a replica that lacks the hold, and is the master again, before any agent looks
 * at its marker. The server is the same run all the time. */
Test(replicas, a_master_that_followed_a_replica_grants_nothing_at_first)
{
    start(2);
    struct agent *holder = agent_start(one_master_to_lose()),
                 *rival = agent_start(one_master_to_lose());
    cr_assert(eventually_within(12000, acquire(rival, "other", "ttl=3s")->status == 201));
    master_do(1, "REPLICAOF NO ONE"); /* from here on it receives nothing */
    expect(acquire(holder, "k", "ttl=6s"), 201, NULL);
    const int64_t until = boottime_ms() + 4000;
    master_do(0, "CONFIG SET masteruser default");
    master_do(1, "CONFIG SET repl-diskless-sync-delay 0");
    const int port = free_port();
    cr_assert_str_eq(master_do(1, "CONFIG SET port %d", port)->str, "OK");
    master_do(0, "REPLICAOF 127.0.0.1 %d", port);
    cr_assert(eventually(is_copied(0)), "%s", master_do(0, "INFO replication")->str);
    master_do(0, "REPLICAOF NO ONE");
    cr_assert_null(master_get(0, "lock:k"));
    while (boottime_ms() < until) {
        const struct reply *refused = acquire(rival, "k", "ttl=3s");
        cr_assert(refused->status == 503 || refused->status == 409, "%s", refused->body);
    }
}

/* R21: another server may be behind its address by now. A switch by hand ends no connections. */
Test(replicas, a_master_that_has_become_a_replica_is_left)
{
    start(1);
    struct agent *agent = agent_start(one_master());
    const int port = atoi(strrchr(master_url(1), ':') + 1);
    master_do(1, "REPLICAOF NO ONE");
    master_do(0, "REPLICAOF 127.0.0.1 %d", port);
    cr_assert(eventually(agent_logged(agent, "master state changed", "it has become a replica")));
    master_do(0, "REPLICAOF NO ONE");
    cr_assert(eventually(get(agent, "/readyz")->status == 200));
}

/* The first backup gives the server another replication id, and takes nothing from its data. */
Test(replicas, a_backup_takes_no_vote_away)
{
    masters_start(1, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){
        .masters = format("['%s']", master_url(0)),
        .node_timeout = "500ms",
        .group = "      durable: false\n",
        .extra = "limits: {max_ttl: 6s}\n"
                 "policies:\n  - {match: '*', algorithm: single, ttl: 3s}\n",
    });
    cr_assert(eventually_within(12000, acquire(agent, "before", "ttl=3s")->status == 201));
    const char *before = format("%s", master_do(0, "HGET lockagent:marker epoch")->str);
    const char *replid = format("%s", master_do(0, "HGET lockagent:marker replid")->str);
    const char *backup = format("redis-cli -p %s --rdb %s >/dev/null 2>&1",
                                strrchr(master_url(0), ':') + 1, world_path("backup.rdb"));
    cr_assert_eq(system(backup), 0); // NOLINT(cert-env33-c): a tool of the masters
    cr_assert(eventually(strcmp(master_do(0, "HGET lockagent:marker replid")->str, replid) != 0));
    cr_assert_str_eq(master_do(0, "HGET lockagent:marker epoch")->str, before);
    expect(acquire(agent, "after", "ttl=3s"), 201, NULL);
}
