/* One key, five masters, nothing broken: acquire, renew, release, expire, and the rights of each
 * caller. */
#include "harness.h"

#include <string.h>

TestSuite(lock, .init = world_open, .fini = world_close, .timeout = 60);

static size_t held_by_token(const char *key, const char *token)
{
    size_t count = 0;
    for (size_t i = 0; i < master_count(); i++) {
        const char *value = master_get(i, format("lock:%s", key));
        count += value && !strncmp(value, token, 40) && value[40] == ':';
    }
    return count;
}

static void expect_grant_headers(const struct reply *reply)
{
    cr_assert_str_eq(header(reply, "Lock-Token"), token(reply));
    cr_assert_str_eq(header(reply, "Fencing-Token"),
                     format("%lld", (long long)number(reply, "fencing_token")));
    cr_assert_str_eq(header(reply, "Valid-For-Ms"),
                     format("%lld", (long long)number(reply, "valid_for_ms")));
}

Test(lock, life_of_a_lock)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "1s"});

    const struct reply *granted = acquire(agent, "jobs/1", "ttl=10s&label=worker-7");
    const int64_t now = boottime_ms();
    expect(granted, 201, NULL);
    cr_assert_str_eq(header(granted, "Location"), "/locks/jobs/1");
    cr_assert_str_eq(string(granted, "key"), "jobs/1");
    cr_assert_eq(strspn(token(granted), "0123456789abcdef"), 40u, "%s", token(granted));
    cr_assert_str_eq(token(granted) + 40,
                     format(".%lld", (long long)number(granted, "fencing_token")));
    cr_assert_eq(number(granted, "ttl_ms"), 10000);
    /* R4: validity = ttl - elapsed - ttl * 1 % - 2 ms */
    cr_assert_leq(number(granted, "valid_for_ms"), 10000 - 102);
    cr_assert_gt(number(granted, "valid_for_ms"), 5000);
    const int64_t until = number(granted, "valid_until_boottime_ms");
    cr_assert(until > now && until <= now + number(granted, "valid_for_ms") + 1, "%lld at %lld",
              (long long)until, (long long)now);
    cr_assert_eq(number(granted, "max_hold_ms"), 600000);
    cr_assert_geq(number(granted, "nodes.granted"), 3);
    cr_assert_eq(number(granted, "nodes.total"), 5);
    cr_assert_eq(number(granted, "nodes.quorum"), 3);
    cr_assert_geq(number(granted, "waited_ms"), 0);
    cr_assert_str_eq(string(granted, "renew"), "caller");
    expect_grant_headers(granted);

    /* Masters store the random part, the number and the label; and the fence beside it (R12). */
    cr_assert(eventually(held_by_token("jobs/1", token(granted)) == 5));
    cr_assert_str_eq(master_get(0, "lock:jobs/1") + 40 + 10,
                     format("%lld:worker-7", (long long)number(granted, "fencing_token")));
    cr_assert(master_pttl(0, "lock:jobs/1") > 5000 && master_pttl(0, "lock:jobs/1") <= 10000);
    cr_assert_geq(masters_with(bucket_of("jobs/1")), 3u);

    const struct reply *renewed = renew(agent, "jobs/1", token(granted), "ttl=20s");
    expect(renewed, 200, NULL);
    cr_assert_str_eq(token(renewed), token(granted), "a renewal never changes token or number");
    cr_assert_gt(number(renewed, "valid_for_ms"), 10000);
    cr_assert_leq(number(renewed, "valid_for_ms"), 20000 - 202);
    expect_grant_headers(renewed);

    expect(release(agent, "jobs/1", token(granted)), 204, NULL);
    cr_assert(eventually(masters_with("lock:jobs/1") == 0));
    cr_assert_str_eq(key_state(agent, "jobs/1"), "free");
    const struct reply *next = acquire(agent, "jobs/1", "ttl=4s");
    expect(next, 201, NULL);
    cr_assert_gt(number(next, "fencing_token"), number(granted, "fencing_token"));
}

/* R7: a hold is as long as its max_hold, also if a tenth of the ttl is longer. */
Test(lock, a_max_hold_that_is_much_shorter_than_the_ttl)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(
        &(struct agent_options){.extra = "policies: [{match: '*', ttl: 30s, max_hold: 2s}]\n"});
    const struct reply *granted = acquire(agent, "k", "renew=agent");
    const int64_t now = boottime_ms();
    expect(granted, 201, NULL);
    cr_assert_eq(number(granted, "ttl_ms"), 30000);
    cr_assert_eq(number(granted, "max_hold_ms"), 2000);
    cr_assert(held_here(agent, "k"));
    cr_assert(eventually(!held_here(agent, "k")));
    cr_assert_geq(boottime_ms() - now, 1000);
    cr_assert(eventually(
        metric(agent, "lockagent_locks_lost_total{policy=\"*\",reason=\"max_hold\"}") == 1));
}

/* D3, as in Redisson: no ttl means the policy's and the watchdog, a ttl of one's own a plain lease;
 * either can be asked for. */
Test(lock, who_renews)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        /* may do all, under any prefix */
        agent_start(&(struct agent_options){
            .group = "      username: default\n",
            .extra = "policies:\n"
                     "  - {match: 'lease/*', ttl: 5s, renew: caller, max_hold: 1m}\n"
                     "  - {match: 'own-prefix/*', prefix: 'other:'}\n"});
    static const struct {
        const char *key, *parameters, *renew;
        int64_t ttl_ms, max_hold_ms;
    } cases[] = {
        {"a", NULL, "agent", 30000, 600000},
        {"b", "ttl=2s", "caller", 2000, 600000},
        {"c", "ttl=2s&renew=agent", "agent", 2000, 600000},
        {"d", "renew=caller", "caller", 30000, 600000},
        {"e", "max_hold=2m", "agent", 30000, 120000},
        {"f", "max_hold=10m", "agent", 30000, 600000},
        {"lease/a", NULL, "caller", 5000, 60000},
        {"lease/b", "renew=agent", "agent", 5000, 60000},
        {"own-prefix/a", NULL, "agent", 30000, 600000},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct reply *granted = acquire(agent, cases[i].key, cases[i].parameters);
        expect(granted, 201, NULL);
        cr_assert_str_eq(string(granted, "renew"), cases[i].renew, "%s", cases[i].key);
        cr_assert_str_eq(header(granted, "Renewed-By"), cases[i].renew, "%s", cases[i].key);
        cr_assert_eq(number(granted, "ttl_ms"), cases[i].ttl_ms, "%s", cases[i].key);
        cr_assert_eq(number(granted, "max_hold_ms"), cases[i].max_hold_ms, "%s", cases[i].key);
    }
    expect(acquire(agent, "lease/c", "max_hold=2m"), 400, "bad_request");
    expect(acquire(agent, "h", "max_hold=24h"), 400, "bad_request");
    cr_assert_eq(masters_with("lock:h"), 0u);
    cr_assert_geq(masters_with("other:own-prefix/a"), 2u);
    cr_assert_eq(masters_with("lock:own-prefix/a"), 0u);
}

/* Two agents ask at the same instant, again and again: never two holders, and always one. */
Test(lock, two_agents_contend)
{
    masters_start(5, MASTERS_FORGETFUL);
    const struct agent_options options = {.node_timeout = "1s"};
    struct agent *agents[2] = {agent_start(&options), agent_start(&options)};
    int wins[2] = {0, 0};
    for (int round = 0; round < 30; round++) {
        const char *path = format("/locks/contended/%d?ttl=20s&label=rival", round);
        const int wires[2] = {wire_request(agents[round % 2], "POST", path, NULL),
                              wire_request(agents[1 - round % 2], "POST", path, NULL)};
        const struct reply *replies[2];
        int winner = -1;
        for (int i = 0; i < 2; i++) {
            replies[i] = wire_receive(wires[i], PATIENCE_MS);
            wire_close(wires[i]);
            if (replies[i]->status == 201) {
                cr_assert_eq(winner, -1, "round %d: two holders", round);
                winner = i;
            }
        }
        cr_assert_neq(winner, -1, "round %d: nobody won", round);
        const struct reply *loser = replies[1 - winner];
        expect(loser, 409, "lock_held");
        cr_assert_not_null(header(loser, "Retry-After"));
        cr_assert_not_null(strstr(header(loser, "Content-Type"), "application/problem+json"));
        wins[winner == 0 ? round % 2 : 1 - round % 2]++;
        /* R5: the loser gives back the votes that it got. */
        const char *key = format("contended/%d", round);
        cr_assert(eventually(held_by_token(key, token(replies[winner])) ==
                             masters_with(format("lock:%s", key))));
    }
    cr_assert_eq(wins[0] + wins[1], 30);

    const struct reply *refused = expect_lock_held(agents[0], "contended/0", "ttl=20s");
    cr_assert_str_eq(string(refused, "holder"), "rival");
    cr_assert(number(refused, "retry_after_ms") > 0 && number(refused, "retry_after_ms") <= 20000);
}

/* R10: only the holder's token renews or releases, at the holder's agent and at any other. */
Test(lock, the_wrong_token_is_refused)
{
    masters_start(5, MASTERS_FORGETFUL);
    /* An agent that does not know the hold answers 503 if masters are late. */
    const struct agent_options options = {.node_timeout = "2s"};
    struct agent *mine = agent_start(&options), *other = agent_start(&options);
    const struct reply *granted = acquire(mine, "k", "ttl=30s");
    const char *wrong = format("%s.%lld", "00112233445566778899aabbccddeeff00112233",
                               (long long)number(granted, "fencing_token"));
    char *near = format("%s", token(granted));
    near[39] = near[39] == '0' ? '1' : '0';
    struct agent *agents[] = {mine, other};
    for (int i = 0; i < 2; i++) {
        expect(release(agents[i], "k", wrong), 412, "token_mismatch");
        expect(release(agents[i], "k", near), 412, "token_mismatch");
        expect(renew(agents[i], "k", wrong, NULL), 412, "token_mismatch");
        expect(renew(agents[i], "k", near, "ttl=20s"), 412, "token_mismatch");
        expect(release(agents[i], "nobody-holds-this", wrong), 404, "not_held");
        expect(renew(agents[i], "nobody-holds-this", wrong, NULL), 404, "not_held");
        static const char *const methods[] = {"PUT", "DELETE"};
        for (int m = 0; m < 2; m++) {
            expect(http(agents[i], &(struct call){.method = methods[m], .path = "/locks/k"}), 400,
                   "token_required");
            const struct reply *malformed =
                http(agents[i], &(struct call){.method = methods[m],
                                               .path = "/locks/k",
                                               .headers = {"Lock-Token: nonsense"}});
            cr_assert(malformed->status == 400 || malformed->status == 412, "%ld",
                      malformed->status);
        }
    }
    cr_assert_eq(held_by_token("k", token(granted)), 5u);
    cr_assert(held_here(mine, "k"));
    expect(release(mine, "k", token(granted)), 204, NULL);
    const struct reply *again = release(mine, "k", token(granted));
    cr_assert(again->status == 404 || again->status == 410 || again->status == 412, "%ld",
              again->status);
}

/* A lease that is not renewed ends by itself, is then free for others, and is gone for its
 * holder. */
Test(lock, an_expired_lease_is_free)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *mine = agent_start(NULL), *other = agent_start(NULL);
    const int64_t before = boottime_ms();
    const struct reply *first = acquire_free(mine, "k", "ttl=4s");
    expect_lock_held(other, "k", "ttl=2s");
    const struct reply *second = acquire(other, "k", "ttl=10s&wait=10s");
    expect(second, 201, NULL);
    cr_assert_geq(boottime_ms() - before, number(first, "valid_for_ms"),
                  "the lease was taken away from a living holder");
    cr_assert_gt(number(second, "fencing_token"), number(first, "fencing_token"));
    cr_assert_not(held_here(mine, "k"));
    const struct reply *late = renew(mine, "k", token(first), NULL);
    expect(late, 410, "lock_lost");
    cr_assert_str_eq(string(late, "reason"), "expired");
    const struct reply *gone = release(mine, "k", token(first));
    cr_assert(gone->status == 410 || gone->status == 412, "%ld", gone->status);
    cr_assert_geq(held_by_token("k", token(second)), 3u);
    cr_assert(held_here(other, "k"));
}

/* R7: nothing shortens a lease, neither on the masters nor here. */
Test(lock, a_shorter_ttl_never_shortens)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire_free(agent, "k", "ttl=40s");
    cr_assert(eventually(masters_with("lock:k") == 5));
    const struct reply *shorter = renew(agent, "k", token(granted), "ttl=1s");
    expect(shorter, 200, NULL);
    cr_assert_gt(number(shorter, "valid_for_ms"), 20000);
    cr_assert_geq(number(shorter, "valid_until_boottime_ms"),
                  number(granted, "valid_until_boottime_ms") - 1);
    for (size_t i = 0; i < 5; i++)
        cr_assert_gt(master_pttl(i, "lock:k"), 20000, "master %zu", i);

    /* The same when the replies are lost: a majority is frozen while the renewal is in flight, and
     * runs it later. */
    for (size_t i = 0; i < 3; i++)
        master_freeze(i);
    const struct reply *unheard = renew(agent, "k", token(granted), "ttl=1s");
    expect(unheard, 503, "renew_failed");
    cr_assert_gt(number(unheard, "valid_for_ms"), 15000, "a failed renewal takes nothing away");
    for (size_t i = 0; i < 3; i++)
        master_thaw(i);
    cr_assert(eventually(get(agent, "/readyz")->status == 200));
    sleep_ms(1200);
    for (size_t i = 0; i < 5; i++)
        cr_assert_gt(master_pttl(i, "lock:k"), 15000, "master %zu", i);
    cr_assert(held_here(agent, "k"));
    give_back(agent, "k", token(granted));
}

/* D5.2: a flushed script cache is noticed and repaired within the request. */
Test(lock, flushed_scripts)
{
    masters_start(5, MASTERS_FORGETFUL);
    /* Five masters load each script at the same time. */
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "1s"});
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 5; i++)
            master_do(i, "SCRIPT FLUSH");
        const struct reply *granted = acquire(agent, "k", "ttl=20s");
        expect(granted, 201, NULL);
        for (size_t i = 0; i < 5; i++)
            master_do(i, "SCRIPT FLUSH");
        expect(renew(agent, "k", token(granted), NULL), 200, NULL);
        for (size_t i = 0; i < 5; i++)
            master_do(i, "SCRIPT FLUSH");
        expect(release(agent, "k", token(granted)), 204, NULL);
        cr_assert(eventually(masters_with("lock:k") == 0), "NOSCRIPT left an orphan");
    }
}

/* D5.5: a key that is not ours has another owner, of any type; it is never touched. */
Test(lock, foreign_keys)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.node_timeout = "500ms"});
    for (size_t i = 0; i < 5; i++) {
        master_do(i, "RPUSH lock:list a b");
        master_do(i, "SET lock:text theirs");
        master_do(i, "HSET lock:hash field 1");
    }
    static const char *const keys[] = {"list", "text", "hash"};
    for (int k = 0; k < 3; k++) {
        expect_lock_held(agent, keys[k], "ttl=2s");
        cr_assert_str_eq(key_state(agent, keys[k]), "held");
        expect(renew(agent, keys[k], "00112233445566778899aabbccddeeff00112233.7", NULL), 412,
               "token_mismatch");
        expect(release(agent, keys[k], "00112233445566778899aabbccddeeff00112233.7"), 412,
               "token_mismatch");
    }
    for (size_t i = 0; i < 5; i++) {
        cr_assert_eq(master_do(i, "LLEN lock:list")->integer, 2);
        cr_assert_str_eq(master_get(i, "lock:text"), "theirs");
        cr_assert_eq(master_pttl(i, "lock:text"), -1);
        master_do(i, "DEL lock:list");
    }
    expect(acquire(agent, "list", "ttl=2s&wait=5s"), 201, NULL);
}

/* D3: the masters' replies, and this agent's knowledge of its own hold. */
Test(lock, reading_a_lock)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *mine = agent_start(NULL), *other = agent_start(NULL);
    cr_assert_str_eq(key_state(mine, "k"), "free");
    const struct reply *granted = acquire(mine, "k", "ttl=30s&label=night-shift");
    cr_assert(eventually(masters_with("lock:k") == 5));
    struct agent *agents[] = {mine, other};
    for (int i = 0; i < 2; i++) {
        const struct reply *seen = get(agents[i], "/locks/k");
        expect(seen, 200, NULL);
        cr_assert_str_eq(string(seen, "state"), "held");
        cr_assert_str_eq(string(seen, "holder"), "night-shift");
        cr_assert_null(strstr(seen->body, token(granted)), "a read never shows the token");
        cr_assert_null(strstr(seen->body, format("%.40s", token(granted))), "nor its random part");
        cr_assert_eq(held_here(agents[i], "k"), i == 0);
    }
    give_back(mine, "k", token(granted));
    cr_assert(eventually(!strcmp(key_state(other, "k"), "free")));
}
