/* Fencing numbers on honest masters beside those that store nonsense (R12). */
#include "harness.h"

#include <string.h>

TestSuite(fence, .init = world_open, .fini = world_close, .timeout = 120);

enum { GRANTS = 6 };

/* Values that no agent ever stored: beyond the numbers that a double tells apart, or no sorted
 * set. */
static const char *const wild[] = {
    "ZADD %s 9007199254740992 n",
    "ZADD %s 9999999999999999 n",
    "ZADD %s 99999999999999999 n",
    "ZADD %s 18446744073709551615 n",
    "ZADD %s inf n",
    "SET %s 1760000000000000",
    "HSET %s n 1",
    "RPUSH %s 1",
};
enum { WILD = sizeof(wild) / sizeof(wild[0]) };

static void spoil(size_t master, const char *key, const char *with)
{
    const char *name = bucket_of(key);
    master_do(master, "DEL %s", name);
    cr_assert_neq(master_do(master, with, name)->type, REDIS_REPLY_ERROR);
}

/* Acquires and releases again and again; the numbers rise strictly, and are as near to the time as
 * they always are. */
static void expect_rising(struct agent *agent, const char *key, const char *why)
{
    int64_t last = 0;
    for (unsigned i = 0; i < GRANTS; i++) {
        const struct reply *granted = acquire(agent, key, "ttl=5s&wait=5s");
        cr_assert_eq(granted->status, 201, "%s: %ld %s", why, granted->status, granted->body);
        int64_t number_now = number(granted, "fencing_token");
        cr_assert_gt(number_now, last, "%s: %lld after %lld", why, (long long)number_now,
                     (long long)last);
        cr_assert_lt(number_now, (wall_ms() + 3 * 24 * 3600 * 1000) * 1000, "%s: %lld", why,
                     (long long)number_now);
        last = number_now;
        expect(renew(agent, key, token(granted), NULL), 200, NULL);
        give_back(agent, key, token(granted));
    }
}

Test(fence, one_master_with_a_wild_number_spoils_nothing)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    const char *ahead =
        format("ZADD %%s %lld n", (long long)(wall_ms() + (int64_t)3 * 24 * 3600 * 1000) * 1000);
    for (unsigned i = 0; i <= WILD; i++) {
        const char *key = format("k%u", i), *with = i < WILD ? wild[i] : ahead;
        spoil(2, key, with);
        expect_rising(agent, key, with);
    }
    cr_assert(eventually(agent_logged(agent, NULL, "number is invalid") >= 1), "no alarm:\n%s",
              read_whole_file(agent->log));
}

/* Three of five: there is no holder of the lock, so no caller is told that it is held. */
Test(fence, too_many_of_them_are_no_holder)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    for (unsigned i = 0; i < WILD; i++) {
        const char *key = format("k%u", i);
        for (size_t m = 0; m < 3; m++)
            spoil(m, key, wild[i]);
        const struct reply *refused = acquire(agent, key, "ttl=5s");
        cr_assert_eq(refused->status, 503, "%s: %ld %s", wild[i], refused->status, refused->body);
        expect(refused, 503, "quorum_unavailable");
        /* The attempt was decided by these masters, so the alarm has named their bucket. */
        cr_assert(eventually(strstr(read_whole_file(agent->log), bucket_of(key))), "%s", key);
        cr_assert(eventually(masters_with(format("lock:%s", key)) == 0));
        master_do(0, "DEL %s", bucket_of(key)); /* a quorum of sane ones is enough */
        expect_rising(agent, key, wild[i]);
    }
}

/* Releasing with a waiter hands the key over; the master that has no number to give lets go of it
 * too. */
Test(fence, a_hand_over_goes_round_a_spoiled_master)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *first = acquire_free(agent, "k", "ttl=20s");
    int wire = wire_request(agent, "POST", "/locks/k?ttl=20s&wait=10s", NULL);
    cr_assert(eventually(waiting_at(agent) == 1));
    sleep_ms(300);
    spoil(2, "k", wild[1]);
    give_back(agent, "k", token(first));
    const struct reply *second = wire_receive(wire, PATIENCE_MS);
    expect(second, 201, NULL);
    cr_assert_gt(number(second, "fencing_token"), number(first, "fencing_token"));
    give_back(agent, "k", token(second));
    cr_assert(eventually(masters_with("lock:k") == 0), "the spoiled master kept a key");
    wire_close(wire);
}

/* A token whose number no agent can have granted is no proof of anything. */
Test(fence, a_wild_number_is_not_adopted)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL), *other = agent_start(NULL);
    const struct reply *granted = acquire_free(agent, "k", "ttl=20s");
    for (size_t m = 0; m < 5; m++)
        spoil(m, "k", "ZADD %s 9007199254740993 n");
    const char *forged = format("%.40s.9007199254740993", token(granted));
    const struct reply *refused = renew(other, "k", forged, NULL);
    cr_assert_neq(refused->status, 200, "%s", refused->body);
    expect(refused, 412, "token_mismatch");
}
