/* Locks that their holder may take again (R11), and locks that stay taken for a while after an
 * unclean loss (R15). */
#include "harness.h"

#include <string.h>
#include <sys/socket.h>

TestSuite(reentrant, .init = world_open, .fini = world_close, .timeout = 90);

#define MINE "owner=0123456789abcdef-mine"
#define THEIRS "owner=0123456789abcdef-other"

static const char policy[] =
    "policies: [{match: 'r/*', reentrant: true}, {match: 'slow/*', lock_delay: 3s}]\n";

static struct agent *start(void)
{
    masters_start(5, MASTERS_FORGETFUL);
    return agent_start(&(struct agent_options){.extra = policy});
}

/* The same token and number, counted, once a quorum has confirmed it. With a quorum frozen nothing
 * is counted. */
Test(reentrant, the_same_owner_has_it_again)
{
    struct agent *agent = start(), *other = agent_start(&(struct agent_options){.extra = policy});
    const struct reply *first = acquire(agent, "r/k", "ttl=30s&" MINE);
    expect(first, 201, NULL);
    for (size_t i = 0; i < 3; i++)
        master_freeze(i);
    expect(acquire(agent, "r/k", "ttl=30s&" MINE), 503, "quorum_unavailable");
    for (size_t i = 0; i < 3; i++)
        master_thaw(i);
    const struct reply *again;
    cr_assert(eventually((again = acquire(agent, "r/k", "ttl=30s&" MINE))->status == 200));
    cr_assert_eq(number(again, "count"), 2);
    cr_assert_str_eq(token(again), token(first));
    cr_assert_eq(number(again, "fencing_token"), number(first, "fencing_token"));
    expect(acquire(agent, "r/k", "ttl=30s&" THEIRS), 409, "lock_held");
    expect(acquire(agent, "r/k", "ttl=30s"), 409, "lock_held");
    expect(acquire(other, "r/k", "ttl=30s&" MINE), 409, "lock_held"); /* at this agent only */
    cr_assert_eq(number(get(agent, "/locks/r/k"), "hold.count"), 2);
    give_back(agent, "r/k", token(first));
    cr_assert(held_here(agent, "r/k"));
    expect(acquire(agent, "r/k", "ttl=30s&" THEIRS), 409, "lock_held");
    give_back(agent, "r/k", token(first));
    expect(acquire(agent, "r/k", "ttl=30s&" THEIRS), 201, NULL);
}

/* An owner is as secret as a token: neither shown nor logged nor stored; and it is refused if it
 * would do nothing. */
Test(reentrant, an_owner_is_secret)
{
    struct agent *agent = start();
    acquire_free(agent, "r/k", "ttl=30s&" MINE);
    cr_assert_null(strstr(get(agent, "/locks")->body, "-mine"));
    cr_assert_null(strstr(get(agent, "/locks/r/k")->body, "-mine"));
    cr_assert_eq(agent_logged(agent, NULL, "-mine"), 0u);
    const char *stored; /* This master may get the key later. */
    cr_assert(eventually((stored = master_get(0, "lock:r/k")) != NULL));
    cr_assert_null(strstr(stored, "-mine"));
    expect(acquire(agent, "plain", "ttl=30s&" MINE), 400, "bad_request");
    expect(acquire(agent, "r/k", "ttl=30s&owner=short"), 400, "bad_request");
}

/* Each of them may be bound to a connection of its own. The end of a connection counts down, and
 * the last one releases. */
Test(reentrant, bound_to_several_connections)
{
    struct agent *agent = start();
    const int first = wire_request(agent, "POST", "/locks/r/k?ttl=30s&bind=connection&" MINE, NULL);
    cr_assert(eventually(held_here(agent, "r/k")));
    const int second =
        wire_request(agent, "POST", "/locks/r/k?ttl=30s&bind=connection&" MINE, NULL);
    cr_assert(eventually(number(get(agent, "/locks/r/k"), "hold.count") == 2));
    wire_close(first);
    cr_assert(eventually(number(get(agent, "/locks/r/k"), "hold.count") == 1));
    sleep_ms(200);
    cr_assert(held_here(agent, "r/k"));
    wire_close(second);
    cr_assert(eventually(masters_with("lock:r/k") == 0)); /* Its lease is longer. */
    cr_assert_not(held_here(agent, "r/k"));
}

/* R15: the key stays taken for lock_delay after the validity has ended without a release, and no
 * longer. */
Test(reentrant, a_lost_lock_stays_taken_for_its_delay)
{
    struct agent *agent = start();
    const struct reply *lost = acquire_free(agent, "slow/k", "ttl=1s");
    cr_assert_leq(number(lost, "valid_for_ms"), 1000);
    int64_t kept; /* This master may get the key later. */
    cr_assert(eventually((kept = master_pttl(0, "lock:slow/k")) > 0));
    cr_assert(kept > 2000 && kept <= 4000, "%lld ms", (long long)kept);
    const int64_t until = number(lost, "valid_until_boottime_ms");
    const struct reply *next = acquire(agent, "slow/k", "ttl=20s&wait=20s");
    expect(next, 201, NULL);
    cr_assert_geq(boottime_ms(), until + 2900, "taken over before the delay was over");
    /* A release needs no delay: the lease alone is longer than this look. */
    give_back(agent, "slow/k", token(next));
    cr_assert(eventually(masters_with("lock:slow/k") == 0));
    const struct reply *refused = acquire(agent, "slow/k", "ttl=58s");
    expect(refused, 400, "bad_request");
    cr_assert_eq(number(refused, "ttl_ms_max"), 57000);
}
