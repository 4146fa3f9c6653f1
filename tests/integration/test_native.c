/* Locks that native commands take (R24). */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

TestSuite(native, .init = world_open, .fini = world_close, .timeout = 120);

enum { MASTERS = 3, SPREAD_MS = 400 /* twice node_timeout */ };

/* Returns how many calls of the command the master has had. */
static unsigned calls_of(size_t master, const char *command)
{
    const char *field = format("cmdstat_%s:calls=", command),
               *at = strstr(master_do(master, "INFO commandstats")->str, field);
    return at == NULL ? 0 : (unsigned)strtoul(at + strlen(field), NULL, 10);
}

static unsigned multis(size_t master)
{
    return calls_of(master, "multi");
}

/* Returns how many all masters have had. */
static unsigned calls(void)
{
    unsigned sum = 0;
    for (size_t m = 0; m < MASTERS; m++)
        sum += multis(m);
    return sum;
}

/* Takes the lock, and returns whether all masters granted it without a script. An agent asks by
 * script at first: its numbers are above the tops that it knows (R12). */
static bool takes_natively(struct agent *agent, const char *key)
{
    unsigned before = calls();
    const struct reply *granted = acquire_free(agent, key, "ttl=10s");
    cr_assert(eventually(masters_with(format("lock:%s", key)) == MASTERS));
    bool is_native = calls() == before + MASTERS;
    for (size_t m = 0; m < MASTERS; m++) {
        long long left_ms = master_do(m, format("PTTL lock:%s", key))->integer;
        cr_assert(left_ms > 5000 && left_ms <= 10000 + SPREAD_MS, "%lld", left_ms);
    }
    give_back(agent, key, token(granted));
    cr_assert(eventually(masters_with(format("lock:%s", key)) == 0)); /* The last reply has come. */
    return is_native;
}

Test(native, r24_a_free_lock_is_taken_without_a_script)
{
    masters_start(MASTERS, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    cr_assert(eventually(takes_natively(agent, "k")));
    cr_assert(eventually(takes_natively(agent, "k"))); /* its own key is no hindrance */
}

Test(native, r24_a_lock_that_was_refused_is_asked_for_by_script)
{
    masters_start(MASTERS, MASTERS_FORGETFUL);
    struct agent *holder = agent_start(&(struct agent_options){.admin = true}),
                 *other = agent_start(&(struct agent_options){.admin = true});
    const struct reply *granted = acquire_free(holder, "k", "ttl=60s");
    expect_lock_held(other, "k", NULL);
    cr_assert(eventually(takes_natively(other, "another")));
    for (unsigned i = 0; i < 3; i++) {
        unsigned before = calls();
        expect_lock_held(other, "k", NULL);
        cr_assert_eq(calls(), before);
    }
    give_back(holder, "k", token(granted));
    cr_assert(eventually(masters_with("lock:k") == 0));
    unsigned before = calls();
    acquire_free(other, "k", "ttl=20s");
    cr_assert_eq(calls(), before);
}

/* Returns whether the masters compare and delete; if they do not, locks are released by script. */
static bool masters_compare(void)
{
    const redisReply *reply = master_do(0, "COMMAND INFO DELIFEQ DELEX");
    return reply->element[0]->type == REDIS_REPLY_ARRAY ||
           reply->element[1]->type == REDIS_REPLY_ARRAY;
}

/* Returns how many native commands that delete the master has had. */
static unsigned compares_of(size_t master)
{
    return calls_of(master, "delifeq") + calls_of(master, "delex");
}

/* Returns how many all masters have had. */
static unsigned compared(void)
{
    unsigned sum = 0;
    for (size_t m = 0; m < MASTERS; m++)
        sum += compares_of(m);
    return sum;
}

/* Returns how many DELs all masters have had, which scripts call. */
static unsigned deleted(void)
{
    unsigned sum = 0;
    for (size_t m = 0; m < MASTERS; m++)
        sum += calls_of(m, "del");
    return sum;
}

/* Returns how many messages all masters have published. */
static unsigned published(void)
{
    unsigned sum = 0;
    for (size_t m = 0; m < MASTERS; m++)
        sum += calls_of(m, "publish");
    return sum;
}

/* Takes a lock for which no caller waits, and gives it back. Returns whether all masters were asked
 * as expected. */
static bool gives_back(struct agent *agent, const char *key)
{
    const struct reply *granted = acquire_free(agent, key, "ttl=10s&label=me");
    const unsigned commands = compared(), scripts = deleted();
    give_back(agent, key, token(granted));
    cr_assert(eventually(masters_with(format("lock:%s", key)) == 0));
    return compared() == commands + (masters_compare() ? MASTERS : 0) &&
           deleted() == scripts + (masters_compare() ? 0 : MASTERS);
}

Test(native, r24_a_lock_that_nobody_waits_for_is_given_back_without_a_script)
{
    masters_start(MASTERS, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    cr_assert(eventually(gives_back(agent, "k")));
    cr_assert(eventually(gives_back(agent, "k")));
}

/* R9: the native commands delete the key and see that an agent waits. The script tells the waiter.
 * Its pauses are too long to find the lock free by itself. */
Test(native, r24_a_waiter_at_another_agent_hears_of_a_release_at_once)
{
    masters_start(MASTERS, MASTERS_FORGETFUL);
    const struct agent_options options = {
        .admin = true, .extra = "policies: [{match: '*', retry: {min: 1m, max: 1m}}]\n"};
    struct agent *holder = agent_start(&options), *other = agent_start(&options);
    cr_assert(eventually(takes_natively(holder, "another")));
    const struct reply *granted = acquire_free(holder, "k", "ttl=60s");
    const int waiter = wire_request(other, "POST", "/locks/k?ttl=60s&wait=60s", NULL);
    for (size_t m = 0; m < MASTERS; m++)
        cr_assert(eventually(
            master_do(m, "PUBSUB NUMSUB lockagent:channel:lock:k")->element[1]->integer == 1));
    /* It asks once more when it has subscribed. */
    cr_assert(eventually(
        metric(other, "lockagent_acquire_causes_total{policy=\"*\",cause=\"subscribed\"}") >= 1 &&
        metric(other, "lockagent_group_rounds_in_flight{group=\"main\"}") == 0));
    const unsigned commands = compared(), messages = published();
    give_back(holder, "k", token(granted));
    const struct reply *heir = wire_receive(waiter, PATIENCE_MS);
    expect(heir, 201, NULL);
    cr_assert(eventually(published() == messages + MASTERS));
    cr_assert_eq(compared(), commands + (masters_compare() ? MASTERS : 0));
    wire_close(waiter);
}

/* Another lock of the bucket has raised the number there, so the native commands are no vote. Their
 * reply comes after the grant. Another master goes away before all three have confirmed the lock.
 */
Test(native, r24_a_renewal_counts_a_master_that_gives_it_its_vote)
{
    masters_start(MASTERS, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    cr_assert(eventually(takes_natively(agent, "k")));
    master_do(2, "ZADD %s %lld n", bucket_of("k"), (long long)(wall_ms() + 2000) * 1000);
    master_freeze(2);
    const struct reply *granted = acquire_free(agent, "k", "ttl=30s");
    cr_assert_lt(number(granted, "fencing_token"), (wall_ms() + 1000) * 1000);
    master_thaw(2);
    cr_assert(eventually(masters_with("lock:k") == MASTERS));
    sleep_ms(SPREAD_MS); /* The reply has come. */
    master_freeze(0);
    expect(renew(agent, "k", token(granted), NULL), 200, NULL);
    master_thaw(0);
}

/* D5.3: the vote is read in the same call, behind the keys. The agent does not know yet that it is
 * gone. */
Test(native, r24_masters_that_were_emptied_grant_no_second_hold)
{
    masters_start(MASTERS, MASTERS_FORGETFUL);
    struct agent *holder = agent_start(&(struct agent_options){.admin = true}),
                 *other = agent_start(&(struct agent_options){.admin = true});
    acquire_free(holder, "k", "ttl=20s");
    cr_assert(eventually(takes_natively(other, "another")));
    for (size_t m = 0; m < 2; m++)
        master_do(m, "FLUSHALL");
    for (unsigned i = 0; i < 5; i++)
        cr_assert_neq(acquire(other, "k", "ttl=20s")->status, 201);
}

/* The end of a lease has 13 digits until the year 2286. An agent that was given a longer one ended
 * with a failed assertion, and so did every other agent of this master. */
Test(native, r24_a_master_whose_clock_shows_a_far_year_is_asked_by_script)
{
    const int64_t century_ms = INT64_C(100) * 365 * 24 * 3600 * 1000;
    masters_start_with_clocks(MASTERS);
    master_clock(2, 3 * century_ms);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    const int64_t until = boottime_ms() + 2500; /* The agent learns the lifted top meanwhile. */
    do { /* Masters of a busy machine may miss node_timeout, so it waits. */
        const struct reply *granted = acquire(agent, "k", "ttl=10s&wait=10s");
        expect(granted, 201, NULL);
        give_back(agent, "k", token(granted));
    } while (boottime_ms() < until);
    cr_assert_gt(multis(0), compares_of(0));
    /* A release needs no clock. The last one may reach this master later. */
    cr_assert(eventually(multis(2) == compares_of(2)), "%u and %u", multis(2), compares_of(2));
}

/* D5.4: a master that may evict keys is asked for no new lock, by native commands either. */
Test(native, r24_masters_that_may_evict_are_not_asked)
{
    masters_start(MASTERS, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    cr_assert(eventually(takes_natively(agent, "k")));
    for (size_t m = 0; m < 2; m++) {
        master_do(m, "CONFIG SET maxmemory 100mb");
        master_do(m, "CONFIG SET maxmemory-policy volatile-ttl");
    }
    const int64_t until = boottime_ms() + PATIENCE_MS;
    while (agent_logged(agent, "master state changed", "may evict keys") < 2) {
        cr_assert_lt(boottime_ms(), until);
        const struct reply *reply = acquire(agent, "k", "ttl=10s");
        if (reply->status == 201) /* Each grant lets the next one go by native commands. */
            give_back(agent, "k", token(reply));
    }
    for (unsigned i = 0; i < 20; i++)
        expect(acquire(agent, "k", "ttl=10s"), 503, "quorum_unavailable");
}

static bool follows(size_t master)
{
    return strstr(master_do(master, "INFO replication")->str, "master_link_status:up") != NULL;
}

/* Gives `to` the marker and the vote of `from`: an older copy of it. */
static void copy_marker(size_t from, size_t to)
{
    static const char *const fields[] = {"epoch",  "run",          "replid", "since", "max_ttl",
                                         "longer", "longer_since", "top",    "floor", "told"};
    master_do(to, "FLUSHALL");
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const redisReply *value = master_do(from, "HGET lockagent:marker %s", fields[i]);
        if (value->type == REDIS_REPLY_STRING)
            master_do(to, "HSET lockagent:marker %s %s", fields[i], format("%s", value->str));
    }
    master_do(to, "SET lockagent:votes %s", master_get(from, "lockagent:votes"));
}

/* D5.3: a master has followed an older copy of itself, which lacks the key. Its vote is the same,
 * so native commands cannot see it. An agent whose group is idle asks for the marker right
 * before. */
Test(native, d5_3_an_idle_agent_asks_for_the_markers_before_its_first_commands)
{
    masters_start(1 + MASTERS, MASTERS_FORGETFUL); /* The first one is the copy. */
    const struct agent_options options = {
        .masters = format("['%s', '%s', '%s']", master_url(1), master_url(2), master_url(3)),
        .group = "      durable: false\n",
        .extra = "limits: {max_ttl: 3s}\npolicies: [{match: '*', ttl: 3s}]\n"};
    struct agent *holder = agent_start(&options), *other = agent_start(&options);
    for (size_t m = 1; m <= MASTERS; m++) /* Otherwise the script is asked (R12). */
        master_do(m, "HSET lockagent:marker top %lld", (long long)(wall_ms() + 60000) * 1000);
    master_do(0, "CONFIG SET repl-diskless-sync-delay 0");
    sleep_ms(6500); /* The group of the other agent is idle 5 s after its start. */
    copy_marker(1, 0);
    const struct reply *granted = acquire(holder, "k", "ttl=3s");
    expect(granted, 201, NULL);
    const int64_t until = number(granted, "valid_until_boottime_ms");
    cr_assert(eventually(masters_with("lock:k") == MASTERS));
    master_do(3, "DEL lock:k");
    master_do(1, "REPLICAOF 127.0.0.1 %s", strrchr(master_url(0), ':') + 1);
    cr_assert(eventually(follows(1)));
    master_do(1, "REPLICAOF NO ONE");
    cr_assert_eq(masters_with("lock:k"), 1u);
    const unsigned before = multis(3);
    const struct reply *refused = acquire(other, "k", "ttl=3s");
    cr_assert(refused->status != 201 || boottime_ms() >= until, "a second holder: %s",
              refused->body);
    cr_assert(eventually(multis(3) == before + 1), "the script was asked at once");
}
