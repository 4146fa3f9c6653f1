/* Every way to forget a lock, on real masters (D5.3): no second holder, the first one keeps its
 * lock, and the guard ends. Also the reasons for which a master is degraded (D5.4). */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

TestSuite(guard, .init = world_open, .fini = world_close, .timeout = 60);

/* A short longest lease makes a short guard: 3 s. */
#define SHORT "limits: {max_ttl: 2s}\n"
#define NOT_DURABLE "      durable: false\n"

static double votes(const struct agent *agent)
{
    return metric(agent, "lockagent_group_masters_voting{group=\"main\"}");
}

static bool is_ready(const struct agent *agent)
{
    return get(agent, "/readyz")->status == 200;
}

/* Two of three masters have just forgotten `k`, which `holder` holds with the watchdog. */
static void expect_guarded(struct agent *holder, struct agent *rival, const struct reply *granted)
{
    cr_assert(eventually(votes(rival) == 1 &&
                         metric(rival, "lockagent_group_masters_up{group=\"main\"}") == 3));
    const struct reply *refused = acquire(rival, "k", "ttl=1s");
    cr_assert(refused->status == 503 || refused->status == 409, "%ld %s", refused->status,
              refused->body);
    /* There is no holder of this one, and still there is no quorum for it. */
    const struct reply *guarded = acquire(rival, "other", "ttl=1s");
    expect(guarded, 503, "quorum_unavailable");
    cr_assert_eq(number(guarded, "nodes.guarded"), 2, "%s", guarded->body);
    cr_assert_eq(json_array_size(member(guarded, "guarded")), 2, "%s", guarded->body);
    cr_assert_leq(number(guarded, "retry_after_ms"), 7100, "%s", guarded->body);
    cr_assert_not_null(header(guarded, "Retry-After"));
    cr_assert_not_null(strstr(get(rival, "/readyz")->body, "guarded"), "%s",
                       get(rival, "/readyz")->body);
    cr_assert_not_null(strstr(get(rival, "/")->body, "class=\"state guarded\""));
    cr_assert_geq(agent_logged(rival, "master state changed", "\"state\":\"guarded\""), 2u);

    /* R7: the holder goes on, and its key is repaired on masters that forgot it. */
    cr_assert(eventually_within(12000, masters_with("lock:k") == 3), "%zu, lost: %zu",
              masters_with("lock:k"), agent_logged(holder, "lock lost", ""));
    cr_assert(held_here(holder, "k"));
    /* One remembers, and two are needed to tell the others: they are guessed after 10 s more. */
    cr_assert(eventually_within(20000, votes(rival) == 3), "%s", get(rival, "/readyz")->body);
    expect_lock_held(rival, "k", "ttl=1s");
    expect(renew(holder, "k", token(granted), NULL), 200, NULL);
    give_back(holder, "k", token(granted));
    expect(acquire(rival, "k", "ttl=1s&wait=5s"), 201, NULL);
}

/* `forget` makes the first two masters forget. Until both are back the holder renews nowhere, so
 * its lease must outlast two starts of a redis-server on a busy machine. */
static void forget_by(enum masters_kind kind, const char *group, void (*forget)(void))
{
    const struct agent_options options = {.group = group, .extra = "limits: {max_ttl: 6s}\n"};
    masters_start(3, kind);
    struct agent *holder = agent_start(&options), *rival = agent_start(&options);
    cr_assert(eventually(votes(holder) == 3 && votes(rival) == 3));
    const struct reply *granted = acquire_free(holder, "k", "ttl=6s&renew=agent");
    cr_assert(eventually(masters_with("lock:k") == 3));
    forget();
    expect_guarded(holder, rival, granted);
}

static void restart(size_t master)
{
    master_kill(master);
    master_start(master);
}

static void restart_both(void)
{
    master_kill(0);
    master_kill(1);
    masters_start_again(2);
}

static void lose_both_volumes(void)
{
    for (size_t i = 0; i < 2; i++) {
        master_kill(i);
        master_lose_data(i);
    }
    masters_start_again(2);
}

static void flush_both(void)
{
    for (size_t i = 0; i < 2; i++)
        master_do(i, "FLUSHALL");
}

Test(guard, restart_without_data)
{
    forget_by(MASTERS_FORGETFUL, NOT_DURABLE, restart_both);
}

Test(guard, replaced_by_an_empty_server)
{
    forget_by(MASTERS_DURABLE, NOT_DURABLE, lose_both_volumes);
}

Test(guard, flushed)
{
    forget_by(MASTERS_FORGETFUL, NOT_DURABLE, flush_both);
}

Test(guard, flushed_though_durable)
{
    forget_by(MASTERS_DURABLE, "      durable: true\n", flush_both);
}

Test(guard, a_lost_volume_under_appendfsync_always)
{
    forget_by(MASTERS_DURABLE, "      durable: true\n", lose_both_volumes);
}

/* A promise kept: durable masters that restart with their data vote at once, and nothing is
 * repaired. */
Test(guard, durable_masters_restart_without_a_guard)
{
    masters_start(3, MASTERS_DURABLE);
    struct agent *agent = agent_start(NULL);
    acquire_free(agent, "k", "ttl=30s");
    cr_assert(eventually(masters_with("lock:k") == 3)); /* a quorum was enough for the answer */
    for (size_t i = 0; i < 3; i++)
        restart(i);
    expect(acquire(agent, "other", "ttl=30s&wait=10s"), 201, NULL);
    cr_assert(eventually(votes(agent) == 3));
    cr_assert_eq(masters_with("lock:k"), 3u);
    cr_assert_eq(agent_logged(agent, "master state changed", "guarded_ms"), 0u);
}

/* A replica has its master's marker. Promoted, it is another run, and may lack the last grants of
 * the master. */
Test(guard, a_promoted_replica_that_lacked_the_key)
{
    masters_start_new(2, MASTERS_FORGETFUL);
    const char *link = world_path("link.sock"), *other = master_url(1) + strlen("unix:");
    master_do(1, "REPLICAOF 127.0.0.1 %s", strrchr(master_url(0), ':') + 1);
    struct agent *agent =
        agent_start(&(struct agent_options){.masters = format("['%s']", master_url(0)),
                                            .group = NOT_DURABLE,
                                            .extra = SHORT,
                                            .node_timeout = "500ms"});
    cr_assert(eventually(master_do(1, "EXISTS lockagent:marker")->integer == 1));
    master_do(1, "REPLICAOF NO ONE");
    acquire_free(agent, "k", "ttl=2s");
    cr_assert_eq(masters_with("lock:k"), 1u);
    cr_assert_eq(agent_stop(agent), 0);
    cr_assert_eq(symlink(other, link), 0);
    struct agent *after = agent_start(&(struct agent_options){
        .masters = format("['unix:%s#%s']", link, master_url(0) + strlen("redis://")),
        .group = NOT_DURABLE,
        .extra = SHORT,
        .node_timeout = "500ms",
        .not_ready = true});
    cr_assert(eventually(agent_logged(after, "master state changed", "\"state\":\"guarded\"") > 0));
    expect(acquire(after, "k", "ttl=2s"), 503, "quorum_unavailable");
    expect(acquire(after, "k", "ttl=2s&wait=10s"), 201, NULL);
}

static bool follows(size_t master)
{
    return strstr(master_do(master, "INFO replication")->str, "master_link_status:up") != NULL;
}

/* A master that follows another one for a moment has that one's keys, vote and marker, and neither
 * its run nor a connection changes. No agent has looked at its marker when the acquire comes. */
static void follow_for_a_moment(const char *group)
{
    masters_start(3, MASTERS_FORGETFUL);
    const struct agent_options options = {.group = group, .extra = "limits: {max_ttl: 5s}\n"};
    struct agent *holder = agent_start(&options), *rival = agent_start(&options);
    master_do(0, "CONFIG SET repl-diskless-sync-delay 0");
    cr_assert(eventually_within(10000, votes(holder) == 3 && votes(rival) == 3));
    for (unsigned round = 0; round < 2; round++) {
        master_freeze(0);
        const struct reply *granted = acquire(holder, "k", "ttl=5s&renew=caller&wait=5s");
        expect(granted, 201, NULL);
        const int64_t until_ms = number(granted, "valid_until_boottime_ms");
        master_thaw(0);
        cr_assert(eventually(masters_with("lock:k") == 3)); /* runs earlier requests */
        master_do(0, "DEL lock:k");
        master_do(1, "REPLICAOF 127.0.0.1 %s", strrchr(master_url(0), ':') + 1);
        cr_assert(eventually(follows(1)));
        master_do(1, "REPLICAOF NO ONE");
        cr_assert_eq(masters_with("lock:k"), 1u);
        const struct reply *next;
        do {
            next = acquire(rival, "k", "ttl=5s");
            cr_assert(next->status != 201 || boottime_ms() >= until_ms, "a second holder");
        } while (next->status != 201 && boottime_ms() < until_ms);
        if (next->status != 201)
            next = acquire(rival, "k", "ttl=1s&wait=10s");
        expect(next, 201, NULL);
        give_back(rival, "k", token(next));
        cr_assert(eventually_within(10000, votes(holder) == 3 && votes(rival) == 3));
    }
}

/* D3.4: masters that follow another one have that one's vote. The DELETE comes from an agent that
 * does not know the hold, and no master has its key. Found when it was called wrong, and the hold
 * went on after `REPLICAOF NO ONE`. */
Test(guard, d3_a_delete_counts_no_master_that_follows_another)
{
    masters_start(3, MASTERS_FORGETFUL);
    const struct agent_options options = {.group = NOT_DURABLE,
                                          .extra = "limits: {max_ttl: 40s}\n"};
    struct agent *holder = agent_start(&options), *other = agent_start(&options);
    master_do(0, "CONFIG SET repl-diskless-sync-delay 0");
    cr_assert(eventually_within(10000, votes(holder) == 3 && votes(other) == 3));
    master_freeze(0);
    const struct reply *granted = acquire(holder, "k", "ttl=40s&renew=caller&wait=5s");
    expect(granted, 201, NULL);
    master_thaw(0);
    cr_assert(eventually(masters_with("lock:k") == 3)); /* runs earlier requests */
    master_do(0, "DEL lock:k");
    for (size_t m = 1; m < 3; m++)
        master_do(m, "REPLICAOF 127.0.0.1 %s", strrchr(master_url(0), ':') + 1);
    cr_assert(eventually_within(15000, follows(1) && follows(2)));
    cr_assert_eq(masters_with("lock:k"), 0u);
    expect(release(other, "k", token(granted)), 503, "quorum_unavailable");
}

Test(guard, a_master_that_followed_another_for_a_moment)
{
    follow_for_a_moment(NOT_DURABLE);
}

Test(guard, a_durable_master_that_followed_another_for_a_moment)
{
    follow_for_a_moment("      durable: true\n");
}

/* R12: all clocks were fast, and have been put right. The master that forgot was one of the two
 * that knew the number. */
Test(guard, numbers_rise_over_a_restart_behind_fast_clocks)
{
    const struct agent_options options = {.group = NOT_DURABLE, .extra = SHORT};
    masters_start_with_clocks(3);
    for (size_t i = 0; i < 3; i++)
        master_clock(i, 600000);
    struct agent *agent = agent_start(&options);
    cr_assert(eventually_within(8000, votes(agent) == 3));
    master_freeze(2);
    const struct reply *granted = acquire(agent, "k", "ttl=1s&wait=5s");
    expect(granted, 201, NULL);
    int64_t last = number(granted, "fencing_token");
    cr_assert_gt(last, 1000 * (wall_ms() + 500000), "of the fast clocks");
    release_or_owe(agent, "k", token(granted));
    master_thaw(2);
    cr_assert(eventually(votes(agent) == 3));
    for (size_t i = 0; i < 3; i++)
        master_clock(i, 0);
    restart(0);
    cr_assert(eventually(votes(agent) == 2));
    cr_assert(eventually_within(8000, votes(agent) == 3));
    master_freeze(1);
    granted = acquire(agent, "k", "ttl=1s&wait=5s");
    expect(granted, 201, NULL);
    cr_assert_gt(number(granted, "fencing_token"), last);
    master_thaw(1);
}

/* The guard is as long as the longest lease that any agent may have given, not as the longest lease
 * of the agent that noticed. */
Test(guard, an_agent_with_a_smaller_max_ttl)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *patient =
        agent_start(&(struct agent_options){.extra = "limits: {max_ttl: 6s}\n"});
    struct agent *hasty = agent_start(&(struct agent_options){.extra = "limits: {max_ttl: 1s}\n"});
    const struct reply *granted = acquire_free(patient, "k", "ttl=6s");
    cr_assert(eventually(masters_with("lock:k") == 3));
    for (size_t i = 0; i < 3; i++)
        master_do(i, "FLUSHALL");
    /* All have forgotten: when one has been guessed, the others are guessed after 10 s more. */
    const struct reply *heir = acquire(hasty, "k", "ttl=1s&wait=30s");
    expect(heir, 201, NULL);
    cr_assert_geq(boottime_ms(), number(granted, "valid_until_boottime_ms"), "two holders at once");
}

/* R7: repaired at once if the epoch is another one. Otherwise not while the lease that was
 * confirmed there can still run. */
Test(guard, a_key_is_repaired_at_once_only_where_it_was_forgotten)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.extra = "limits: {max_ttl: 6s}\n"});
    acquire_free(agent, "k", "ttl=6s&renew=agent");
    cr_assert(eventually(masters_with("lock:k") == 5));
    cr_assert(eventually(number(get(agent, "/locks/k"), "hold.confirmed") == 5));
    /* The lease that was confirmed there ends later than the validity. */
    const int64_t until = number(get(agent, "/locks/k"), "hold.valid_until_boottime_ms");
    master_do(1, "DEL lock:k"); /* as by a release elsewhere */
    for (bool absent = true; absent && boottime_ms() < until; sleep_ms(20)) {
        absent = master_get(1, "lock:k") == NULL;
        cr_assert(absent || boottime_ms() >= until,
                  "what was deleted in the same epoch stays deleted");
    }
    restart(3);
    cr_assert(eventually_within(5000, master_get(3, "lock:k") != NULL));
    cr_assert(eventually(masters_with("lock:k") == 5),
              "the lease there is over, and the hold goes on");
    cr_assert(held_here(agent, "k"));
}

/* A master that lacks its marker is not part of a new group if others have theirs. */
Test(guard, one_empty_master_is_not_a_new_group)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    cr_assert_eq(agent_stop(agent), 0);
    restart(1);
    struct agent *next = agent_start(NULL);
    cr_assert(
        eventually_within(4000, agent_logged(next, "master state changed", "guarded_ms") == 1));
    cr_assert_eq(votes(next), 2);
}

/* D5.3: a master that forgot is told the longest lease that the others remember, also if the
 * configuration of the command allows less. */
Test(guard, trust_tells_the_longest_lease_that_the_others_remember)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    cr_assert_eq(agent_stop(agent), 0);
    for (size_t i = 1; i < 3; i++)
        master_do(i, "HSET lockagent:marker max_ttl 3600000 longer 3600000");
    restart(0);
    const struct outcome outcome = agent_run((const char *[]){"trust", agent->config, NULL});
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    cr_assert_str_eq(master_do(0, "HGET lockagent:marker max_ttl")->str, "3600000");
}

/* All five are up, and one of them has no vote. */
Test(guard, the_status_page_counts_the_masters_that_vote)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    restart(0);
    cr_assert(eventually(votes(agent) == 4 &&
                         metric(agent, "lockagent_group_masters_up{group=\"main\"}") == 5));
    const struct reply *page = get(agent, "/");
    cr_assert_not_null(strstr(page->body, "4 of 5 masters vote, and 1 more may fail."), "%s",
                       page->body);
}

Test(guard, trust_ends_it)
{
    masters_start_new(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.group = NOT_DURABLE, .not_ready = true});
    cr_assert(eventually(metric(agent, "lockagent_group_masters_up{group=\"main\"}") == 3));
    expect(acquire(agent, "k", "ttl=2s"), 503, "quorum_unavailable");
    struct outcome outcome = agent_run((const char *[]){"trust", agent->config, NULL});
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    cr_assert_not_null(strstr(outcome.out, format("main: %s: trusted on a guess: 0 other masters "
                                                  "remembered, 2 are needed\n",
                                                  master_url(2))),
                       "%s", outcome.out);
    cr_assert(eventually(is_ready(agent)), "%s", get(agent, "/readyz")->body);
    acquire_free(agent, "k", "ttl=2s");
    /* It is their run that is trusted: a restart is one again. */
    restart(0);
    cr_assert(eventually(votes(agent) == 2));
    master_kill(1);
    outcome = agent_run((const char *[]){"trust", agent->config, NULL});
    cr_assert_neq(outcome.exit_status, 0);
    cr_assert_not_null(strstr(outcome.out, format("main: %s: trusted on a guess: 1 other masters "
                                                  "remembered, 2 are needed\n",
                                                  master_url(0))),
                       "%s", outcome.out);
    cr_assert_not_null(strstr(outcome.out, format("main: %s: votes already\n", master_url(2))),
                       "%s", outcome.out);
    cr_assert(eventually(votes(agent) == 2));
}

/* D5.3: a master that could not be told has reported its knowledge, and the next one is told
 * that. */
Test(guard, trust_tells_what_a_master_said_that_could_not_be_told)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    acquire_free(agent, "k", "ttl=2s");
    cr_assert_eq(agent_stop(agent), 0);
    const unsigned long long top =
        strtoull(master_do(2, "HGET lockagent:marker top")->str, NULL, 10) + 1000000;
    master_do(
        0, format("HSET lockagent:marker since %lld top %llu", (long long)time(NULL) * 1000, top));
    master_do(0, "ACL SETUSER lockagent -hset"); /* its marker cannot be changed */
    master_do(1, "FLUSHALL");
    const struct outcome outcome = agent_run((const char *[]){"trust", agent->config, NULL});
    cr_assert_neq(outcome.exit_status, 0, "%s", outcome.out);
    cr_assert_not_null(strstr(outcome.out, format("main: %s: trusted: 2 other", master_url(1))),
                       "%s", outcome.out);
    cr_assert_eq(strtoull(master_do(1, "HGET lockagent:marker floor")->str, NULL, 10), top);
}

/* D5.3: a master whose marker holds a number that was never granted is no witness. */
Test(guard, trust_counts_no_master_with_a_spoiled_number)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    acquire_free(agent, "k", "ttl=2s");
    cr_assert_eq(agent_stop(agent), 0);
    master_do(0, "HSET lockagent:marker top 8000000000000000");
    master_do(1, "FLUSHALL");
    const struct outcome outcome = agent_run((const char *[]){"trust", agent->config, NULL});
    cr_assert_neq(outcome.exit_status, 0, "%s", outcome.out);
    cr_assert_not_null(
        strstr(outcome.out,
               format("main: %s: not trusted: its marker holds a number", master_url(0))),
        "%s", outcome.out);
    cr_assert_not_null(strstr(outcome.out, format("main: %s: trusted on a guess: 1 other masters "
                                                  "remembered, 2 are needed\n",
                                                  master_url(1))),
                       "%s", outcome.out);
}

/* A script writes the vote by SET. The marker alone gives no vote. */
Test(guard, trust_says_that_a_vote_cannot_be_written)
{
    masters_start_new(3, MASTERS_FORGETFUL);
    const char *config = agent_config(NULL);
    master_do(1, "ACL SETUSER lockagent -set");
    const struct outcome outcome = agent_run((const char *[]){"trust", config, NULL});
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    cr_assert_not_null(strstr(outcome.out, format("main: %s: not trusted: its vote cannot be "
                                                  "written\n",
                                                  master_url(1))),
                       "%s", outcome.out);
    cr_assert_not_null(strstr(outcome.out, format("main: %s: trusted", master_url(2))), "%s",
                       outcome.out);
}

/* R23: the layouts of agents that have ended would still keep others away. */
Test(guard, trust_fails_if_layouts_stay)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *config = agent_config(NULL);
    master_do(1, "ACL SETUSER lockagent -del");
    const struct outcome outcome = agent_run((const char *[]){"trust", config, NULL});
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    cr_assert_not_null(strstr(outcome.out, format("main: %s: votes already\n", master_url(1))),
                       "%s", outcome.out);
    cr_assert_not_null(strstr(outcome.out, format("main: %s: DEL: noperm: ", master_url(1))), "%s",
                       outcome.out);
}

/* The marker and the vote are those of an earlier run, and no agent has come since. */
Test(guard, trust_looks_at_the_run_if_masters_are_not_durable)
{
    masters_start(3, MASTERS_DURABLE); /* a server that keeps its data, of a group that may not */
    const struct agent_options options = {.group = NOT_DURABLE, .extra = SHORT, .not_ready = true};
    struct agent *agent = agent_start(&options);
    cr_assert(eventually_within(20000, votes(agent) == 3), "%s", get(agent, "/readyz")->body);
    cr_assert_eq(agent_stop(agent), 0);
    for (size_t i = 0; i < 3; i++)
        restart(i);
    struct outcome outcome = agent_run((const char *[]){"trust", agent->config, NULL});
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    cr_assert_null(strstr(outcome.out, "votes already"), "%s", outcome.out);
    cr_assert_not_null(strstr(outcome.out, "trusted"), "%s", outcome.out);
}

/* A user without the right to INFO cannot tell one run from another. */
Test(guard, without_info_every_reconnect_is_a_restart)
{
    const char *acl = write_file(
        "users.acl", "user default on nopass ~* &* +@all\nuser locker on >pw ~* &* +@all -info\n");
    masters_start_with(1, MASTERS_FORGETFUL, "--aclfile", acl);
    struct agent *agent = agent_start(&(struct agent_options){
        .group = NOT_DURABLE "",
        .masters = format("['redis://locker:pw@%s']", master_url(0) + strlen("redis://")),
        .extra = SHORT});
    const size_t before = agent_logged(agent, "master state changed", "\"state\":\"guarded\"");
    acquire_free(agent, "k", "ttl=2s");
    master_do(0, "CLIENT KILL USER locker");
    cr_assert(
        eventually(agent_logged(agent, "master state changed", "\"state\":\"guarded\"") > before));
    expect(acquire(agent, "k2", "ttl=2s"), 503, "quorum_unavailable");
}

/* ---- sanity (D5.4) ---- */

static double degraded(const struct agent *agent, size_t master)
{
    return metric(agent,
                  format("lockagent_master_state{group=\"main\",master=\"%s\",state=\"degraded\"}",
                         strchr(master_url(master), '/') + (master == 0 ? 2 : 0)));
}

Test(guard, masters_that_are_none_are_degraded)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *warns = agent_start(NULL);
    struct agent *avoids = agent_start(
        &(struct agent_options){.group = "      durable: true\n      on_degraded: down\n"});
    cr_assert_eq(degraded(warns, 1), 0);
    master_do(1, "CONFIG SET maxmemory-policy allkeys-lru");
    master_do(1, "CONFIG SET maxmemory 100mb");
    cr_assert(eventually_within(6000, degraded(warns, 1) == 1 && degraded(avoids, 1) == 1));
    cr_assert_not_null(strstr(get(warns, "/readyz")->body, "allkeys-lru"), "%s",
                       get(warns, "/readyz")->body);
    cr_assert_geq(agent_logged(warns, "master state changed", "allkeys-lru"), 1u);
    cr_assert_eq(metric(warns, "lockagent_group_masters_up{group=\"main\"}"), 3);
    cr_assert_eq(metric(avoids, "lockagent_group_masters_up{group=\"main\"}"), 2);
    acquire_free(avoids, "k", "ttl=20s");
    cr_assert_null(master_get(1, "lock:k"), "a master that is down is not asked");
    master_do(1, "CONFIG SET maxmemory-policy noeviction");
    cr_assert(eventually_within(6000, degraded(warns, 1) == 0 && degraded(avoids, 1) == 0));
    cr_assert(eventually(metric(avoids, "lockagent_group_masters_up{group=\"main\"}") == 3));

    master_do(2, "REPLICAOF 127.0.0.1 1");
    cr_assert(eventually_within(6000, degraded(warns, 2) == 1));
    cr_assert_not_null(strstr(get(warns, "/readyz")->body, "a replica"), "%s",
                       get(warns, "/readyz")->body);
}

/* The numbers of the master are spoiled (R12), so no time brings its vote back. */
Test(guard, a_guard_without_an_end_is_not_shown_as_over)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.group = NOT_DURABLE, .extra = SHORT});
    const char *guarded = format("lockagent_master_guarded_seconds{group=\"main\",master=\"%s\"}",
                                 master_url(0) + strlen("redis://"));
    cr_assert(eventually(votes(agent) == 3));
    cr_assert_eq(metric(agent, guarded), 0);
    master_do(0, "HSET lockagent:marker top 9000000000000000");
    cr_assert(eventually(votes(agent) == 2));
    cr_assert_eq(metric(agent, guarded), 3, "max_ttl and a second");
}

Test(guard, one_server_named_twice_is_degraded)
{
    masters_start(2, MASTERS_FORGETFUL);
    const char *port = strrchr(master_url(0), ':') + 1;
    struct agent *agent = agent_start(
        &(struct agent_options){.masters = format("['%s', 'redis://localhost:%s', '%s']",
                                                  master_url(0), port, master_url(1))});
    cr_assert(eventually(strstr(get(agent, "/readyz")->body, "the same server as ") != NULL), "%s",
              get(agent, "/readyz")->body);
    cr_assert_eq(
        metric(agent,
               format("lockagent_master_degraded{group=\"main\",master=\"127.0.0.1:%s\"}", port)),
        1);
    cr_assert_eq(
        metric(agent,
               format("lockagent_master_degraded{group=\"main\",master=\"localhost:%s\"}", port)),
        1);
}

/* R7: without a guard a majority of masters restarts with its data. The lock is released at another
 * agent, and the first one has not renewed it since. */
Test(guard, without_a_guard_a_release_elsewhere_is_not_undone)
{
    const struct agent_options options = {.group = "      guard: off\n"};
    masters_start(3, MASTERS_DURABLE);
    struct agent *first = agent_start(&options), *second = agent_start(&options);
    const struct reply *granted = acquire_free(first, "k", "ttl=30s");
    cr_assert(eventually(masters_with("lock:k") == 3));
    for (size_t i = 0; i < 3; i++)
        restart(i);
    cr_assert(eventually(votes(first) == 3 && votes(second) == 3));
    give_back(second, "k", token(granted));
    expect(renew(first, "k", token(granted), NULL), 503, "renew_failed");
    cr_assert_eq(masters_with("lock:k"), 0u);
    acquire_free(second, "k", "ttl=1s");
}
