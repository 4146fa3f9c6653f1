/* D3: one token at several living agents. The value on the masters names the agent that owns the
 * hold, so an agent whose hold was adopted touches nothing by itself. The holder's requests work at
 * any of these agents. */
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

TestSuite(adoption, .init = world_open, .fini = world_close, .timeout = 60);

/* position of the agent's name in `<random>:<agent>:<number>:<label>` */
enum { OWNER = 41, OWNER_DIGITS = 8 };

static struct agent *first, *second;

static void begin(const char *extra)
{
    masters_start(3, MASTERS_FORGETFUL);
    /* An agent that does not know a hold answers 503 if masters are late. Leases of 2 s allow no
     * more time. */
    first = agent_start(&(struct agent_options){.extra = extra, .node_timeout = "500ms"});
    second = agent_start(&(struct agent_options){.node_timeout = "500ms"});
}

/* On how many masters the value of the key begins so. */
static size_t masters_that_store(const char *key, const char *begins)
{
    size_t count = 0;
    for (size_t i = 0; i < master_count(); i++) {
        const char *value = master_get(i, format("lock:%s", key));
        count += value != NULL && strncmp(value, begins, strlen(begins)) == 0;
    }
    return count;
}

static bool all_store_the_same(const char *key)
{
    const char *value = master_get(0, format("lock:%s", key));
    return value != NULL && masters_that_store(key, value) == master_count();
}

/* The name of the agent that owns the key, as the first master has it. That master may get the key
 * after the quorum that granted it. */
static const char *owner_of(const char *key)
{
    const char *value = NULL;
    cr_assert(eventually((value = master_get(0, format("lock:%s", key))) != NULL));
    cr_assert_geq(strlen(value), OWNER + OWNER_DIGITS + 1, "no owner in the value");
    return format("%.*s", OWNER_DIGITS, value + OWNER);
}

/* A quorum has decided it. The other masters soon name the adopter as well: until then, the end of
 * the earlier agent may take its own key off there. */
static void adopted(const struct reply *reply)
{
    expect(reply, 200, NULL);
    cr_assert(json_is_true(member(reply, "continuous")), "%s", reply->body);
    cr_assert(eventually(all_store_the_same("k")));
}

/* The second agent's hold is as it was: on every master, and no other caller gets the key. */
static void expect_intact(const char *key, const char *token)
{
    expect_lock_held(first, key, "ttl=2s");
    cr_assert(held_here(second, key));
    cr_assert_eq(masters_that_store(key, format("%.41s", format("%.40s:", token))), master_count());
    expect(renew(second, key, token, NULL), 200, NULL);
}

Test(adoption, the_end_of_the_validity_at_the_earlier_agent_releases_nothing)
{
    begin(NULL);
    const struct reply *granted = acquire_free(first, "k", "ttl=2s&label=web-1");
    const char *before = owner_of("k");
    adopted(renew(second, "k", token(granted), "ttl=30s"));
    cr_assert_str_neq(owner_of("k"), before, "the value does not name the adopter");
    sleep_ms(2200);
    cr_assert(!held_here(first, "k"));
    expect_intact("k", token(granted));
    const struct reply *refused = expect_lock_held(first, "k", "ttl=2s");
    cr_assert_str_eq(string(refused, "holder"), "web-1", "%s", refused->body);
}

Test(adoption, an_earlier_agent_that_was_stopped_releases_nothing)
{
    begin(NULL);
    const struct reply *granted = acquire_free(first, "k", "ttl=2s");
    agent_signal(first, SIGSTOP);
    adopted(renew(second, "k", token(granted), "ttl=30s"));
    sleep_ms(2200);
    agent_signal(first, SIGCONT);
    cr_assert(eventually(!held_here(first, "k")));
    sleep_ms(200);
    expect_intact("k", token(granted));
}

/* D8.2: a request whose round is out is answered by it. */
Test(adoption, an_agent_that_ends_answers_a_put_that_asks_the_masters)
{
    begin(NULL);
    /* Its rounds wait for longer than the masters are stopped. */
    struct agent *third = agent_start(
        &(struct agent_options){.node_timeout = "2s", .extra = "shutdown: {grace: 30s}\n"});
    const struct reply *granted = acquire_free(first, "k", "ttl=20s");
    for (size_t i = 0; i < master_count(); i++)
        master_freeze(i);
    const int put =
        wire_request(third, "PUT", format("/locks/k?ttl=30s&token=%s", token(granted)), NULL);
    expect(get(third, "/livez"), 200, NULL); /* The agent has read the PUT before. */
    sleep_ms(100);
    agent_signal(third, SIGTERM);
    sleep_ms(100);
    for (size_t i = 0; i < master_count(); i++)
        master_thaw(i);
    expect(wire_receive(put, PATIENCE_MS), 200, NULL);
    wire_close(put);
    agent_kill(third); /* The hold would keep it for the grace. */
}

Test(adoption, the_earlier_agent_says_lost_and_a_put_there_adopts_back)
{
    begin(NULL);
    const struct reply *granted = acquire_free(first, "k", "ttl=3s&renew=agent");
    const char *before = owner_of("k");
    const int watch = wire_request(first, "GET", "/locks/k?watch", NULL);
    cr_assert(eventually(!wire_is_silent(watch)));
    adopted(renew(second, "k", token(granted), "ttl=30s"));
    wire_expect_event(watch, "\"event\":\"lost\"", "\"reason\":\"moved\"");
    wire_close(watch);
    expect_intact("k", token(granted));
    adopted(renew(first, "k", token(granted), "ttl=30s"));
    /* D3.3: the adopted hold has another name than the granted one, in the last bit. */
    cr_assert_eq(strtoul(owner_of("k"), NULL, 16), strtoul(before, NULL, 16) ^ 1);
    cr_assert(held_here(first, "k"));
    expect(release(second, "k", token(granted)), 204, NULL);
    cr_assert(eventually(masters_with("lock:k") == 0));
}

/* A PUT at the earlier agent, before that has noticed anything: callers behind one address that
 * spreads them over agents. */
Test(adoption, puts_and_a_delete_may_be_spread_over_agents)
{
    begin(NULL);
    const struct reply *granted = acquire_free(first, "k", "ttl=6s");
    for (int i = 0; i < 10; i++) {
        struct agent *agent = i % 2 == 0 ? second : first;
        const struct reply *renewed = renew(agent, "k", token(granted), "ttl=6s");
        expect(renewed, 200, NULL);
        cr_assert_eq(number(renewed, "fencing_token"), number(granted, "fencing_token"));
        sleep_ms(300);
    }
    expect(renew(second, "k", token(granted), "ttl=30s"), 200, NULL);
    cr_assert(eventually(!held_here(first, "k")));
    sleep_ms(200); /* It has tried to release. */
    adopted(renew(first, "k", token(granted), "ttl=30s"));
    expect(renew(second, "k", token(granted), "ttl=30s"), 200, NULL);
    expect(release(first, "k", token(granted)), 204, NULL);
    cr_assert(eventually(masters_with("lock:k") == 0));
}

Test(adoption, a_delete_at_the_agent_where_it_has_expired_releases_it)
{
    begin(NULL);
    const struct reply *granted = acquire_free(first, "k", "ttl=2s");
    adopted(renew(second, "k", token(granted), "ttl=30s"));
    cr_assert(eventually(!held_here(first, "k")));
    sleep_ms(200);
    expect(release(first, "k", token(granted)), 204, NULL);
    cr_assert(eventually(masters_with("lock:k") == 0));
}

Test(adoption, the_end_of_max_hold_at_the_earlier_agent_releases_nothing)
{
    begin(NULL);
    const struct reply *granted = acquire_free(first, "k", "ttl=5s&max_hold=2s");
    adopted(renew(second, "k", token(granted), "ttl=30s"));
    sleep_ms(2300);
    expect_intact("k", token(granted));
}

Test(adoption, the_earlier_agents_end_releases_nothing)
{
    begin("shutdown: {grace: 500ms, unreleased: release}\n");
    const struct reply *granted = acquire(first, "k", "ttl=30s"),
                       *own = acquire(first, "own", "ttl=30s");
    expect(granted, 201, NULL);
    expect(own, 201, NULL);
    adopted(renew(second, "k", token(granted), "ttl=30s"));
    cr_assert_eq(agent_stop(first), 0);
    cr_assert(eventually(masters_with("lock:own") == 0), "what is its own, it releases");
    cr_assert(held_here(second, "k"));
    cr_assert_eq(masters_with("lock:k"), master_count());
}

static int64_t valid_until(const struct agent *agent, const char *key)
{
    return number(get(agent, format("/locks/%s", key)), "hold.valid_until_boottime_ms");
}

/* The agent's name outlives the process with the holds. */
Test(adoption, a_journal_keeps_the_agents_name)
{
    begin(format("journal: {file: %s}\n", world_path("holds")));
    const struct reply *granted = acquire_free(first, "k", "ttl=10s&renew=agent");
    const char *before = owner_of("k");
    expect(get(first, "/livez"), 200, NULL); /* that the grant was written is noted by now (D8.3) */
    agent_kill(first);
    agent_restart(first);
    const int64_t until = valid_until(first, "k");
    cr_assert(eventually(valid_until(first, "k") > until), "it can not renew what it held");
    acquire_free(first, "other", "ttl=30s");
    cr_assert_str_eq(owner_of("other"), before);
    adopted(renew(second, "k", token(granted), "ttl=30s"));
    agent_kill(first);
    agent_restart(first);
    cr_assert(eventually(!held_here(first, "k")));
    expect_intact("k", token(granted));
}

/* C4: found when the number was compared only after the key had been deleted. */
Test(adoption, a_delete_with_a_wrong_number_changes_nothing)
{
    begin(NULL);
    const struct reply *granted = acquire_free(first, "k", "ttl=30s");
    const int64_t fence = number(granted, "fencing_token");
    const int64_t wrong[] = {fence - 1, fence + 1, 0, 1};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *other = format("%.40s.%lld", token(granted), (long long)wrong[i]);
        expect(release(second, "k", other), 412, "token_mismatch");
        expect(release(first, "k", other), 412, "token_mismatch");
        expect(renew(second, "k", other, NULL), 412, "token_mismatch");
        expect(renew(first, "k", other, NULL), 412, "token_mismatch");
        cr_assert_eq(masters_with("lock:k"), master_count(), "number %lld", (long long)wrong[i]);
        cr_assert(held_here(first, "k"));
    }
    expect(release(second, "k", token(granted)), 204, NULL);
    cr_assert(eventually(masters_with("lock:k") == 0));
}

static const char reentrant[] = "policies: [{match: 'r/*', reentrant: true}]\n";

static struct reply *ask_again(const struct agent *agent, const char *path)
{
    return http(agent, &(struct call){.method = "POST",
                                      .path = path,
                                      .headers = {"Idempotency-Key: 0123456789abcdef"}});
}

/* The lock is released at the second agent, and another caller has it there. */
static void goes_to_a_stranger(const char *key, const char *token)
{
    expect(release(second, key, token), 204, NULL);
    acquire_free(second, key, "ttl=30s&label=stranger");
    const struct reply *seen = get(first, format("/locks/%s", key));
    cr_assert_str_eq(string(seen, "holder"), "stranger", "%s", seen->body);
    cr_assert_null(member(seen, "hold"), "%s", seen->body);
}

/* D3.5: the request that took it asks again at the first agent, which did not learn of that. */
Test(adoption, what_was_released_elsewhere_is_not_repeated)
{
    begin(NULL);
    const struct reply *granted = ask_again(first, "/locks/k?ttl=30s&label=first");
    expect(granted, 201, NULL);
    expect(ask_again(first, "/locks/k?ttl=30s&label=first"), 200, NULL);
    goes_to_a_stranger("k", token(granted));
    expect(ask_again(first, "/locks/k?ttl=30s&label=first"), 410, "lock_lost");
    cr_assert(held_here(second, "k"));
}

/* R11: so does its owner. */
Test(adoption, what_was_released_elsewhere_is_not_entered)
{
    begin(reentrant);
    const char *mine = "ttl=30s&owner=0123456789abcdef-mine&label=first";
    const struct reply *granted = acquire_free(first, "r/k", mine);
    expect(acquire(first, "r/k", mine), 200, NULL);
    goes_to_a_stranger("r/k", token(granted));
    expect_lock_held(first, "r/k", mine);
    cr_assert(held_here(second, "r/k"));
}

/* How many holds of the agent ended because masters say that the lock is gone. */
static double ended_elsewhere(const struct agent *agent)
{
    return metric(agent, "lockagent_locks_ended_elsewhere_total{policy=\"*\",reason=\"gone\"}");
}

/* R9: a caller is refused here because of a hold that was released elsewhere. This makes the agent
 * ask. That is no loss. */
Test(adoption, what_was_released_elsewhere_is_free_here_soon)
{
    begin(NULL);
    const struct reply *granted = acquire_free(first, "k", "ttl=60s&renew=agent");
    expect(release(second, "k", token(granted)), 204, NULL);
    const struct reply *next = acquire(first, "k", "ttl=60s&wait=10s");
    expect(next, 201, NULL);
    cr_assert_leq(number(next, "waited_ms"), 5000); /* shorter than ttl/3 */
    cr_assert_eq(ended_elsewhere(first), 1);
    cr_assert_eq(metric(first, "lockagent_locks_lost_total{policy=\"*\",reason=\"taken\"}"), 0);
}

/* C6: this agent is not told of the release. Its next renewal finds that the hold is gone, and the
 * same renewal repairs a master that had refused the lock. That key runs out. */
Test(adoption, c6_the_renewal_that_learns_of_a_release_may_leave_a_key_for_a_ttl)
{
    begin(NULL);
    master_do(2, "SET lock:k another PX 60000");
    const struct reply *granted = acquire_free(first, "k", "ttl=9s&renew=agent");
    expect(granted, 201, NULL);
    expect(release(second, "k", token(granted)), 204, NULL);
    master_do(2, "DEL lock:k");
    cr_assert(eventually(ended_elsewhere(first) == 1));
    cr_assert_eq(masters_with("lock:k"), 1);
    cr_assert_leq(master_pttl(2, "lock:k"), 9000);
}

/* A majority forgot, and the agent that has the lock will bring it back: no caller is told
 * elsewhere that it is gone. */
Test(adoption, d3_a_lock_that_a_majority_forgot_is_not_called_released_elsewhere)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *has = agent_start(NULL), *other = agent_start(NULL);
    const struct reply *granted = acquire_free(has, "k", "ttl=6s&renew=agent");
    for (size_t m = 0; m < 3; m++)
        master_do(m, "FLUSHALL");
    expect(release(other, "k", token(granted)), 503, "quorum_unavailable");
    expect(renew(other, "k", token(granted), NULL), 503, "quorum_unavailable");
    expect(release(has, "k", token(granted)), 202, NULL);
    cr_assert(eventually(masters_with("lock:k") == 0));
}
