/* Masters that are away for longer than a lease, one after another, with all that they know
 * (R7). */
#include "harness.h"

#include <string.h>

TestSuite(away, .init = world_open, .fini = world_close, .timeout = 120);

enum { TTL_MS = 4000, AWAY_MS = 5000, NOBODY = WORLD_MASTERS };

/* The hold is valid, and counts no master as confirmed that has no key. A frozen one cannot be
 * asked: `frozen_has` is the test's knowledge of it. */
static void expect_held(struct agent *agent, size_t frozen, bool frozen_has)
{
    const struct reply *seen = get(agent, "/locks/k");
    cr_assert(json_is_object(member(seen, "hold")), "%s\n%s", seen->body,
              read_whole_file(agent->log));
    int64_t keys = frozen_has;
    for (size_t i = 0; i < master_count(); i++)
        keys += i != frozen && master_get(i, "lock:k") != NULL;
    cr_assert_leq(number(seen, "hold.confirmed"), keys, "master %zu is away: %s", frozen,
                  seen->body);
}

static void watch_until(struct agent *agent, int64_t until_ms, size_t frozen,
                        int64_t frozen_until_ms)
{
    while (boottime_ms() < until_ms) {
        expect_held(agent, frozen, boottime_ms() < frozen_until_ms);
        sleep_ms(50);
    }
}

/* Each master is stopped for longer than the ttl, so that its key runs out. The next one is stopped
 * as soon as this one goes on: at least three of five could carry the hold at every moment. */
Test(away, in_turn_costs_no_hold)
{
    masters_start(5, MASTERS_DURABLE);
    struct agent *agent = agent_start(NULL);
    const struct reply *granted = acquire_free(agent, "k", "ttl=4s&renew=agent");
    cr_assert(eventually(number(get(agent, "/locks/k"), "hold.confirmed") == 5));
    for (size_t m = 0; m < 3; m++) {
        master_freeze(m);
        const int64_t frozen_at = boottime_ms();
        watch_until(agent, frozen_at + AWAY_MS, m, frozen_at + TTL_MS + 100);
        master_thaw(m);
    }
    watch_until(agent, boottime_ms() + 2 * TTL_MS, NOBODY, 0);
    cr_assert(eventually(number(get(agent, "/locks/k"), "hold.confirmed") == 5), "%s",
              get(agent, "/locks/k")->body);
    cr_assert_eq(masters_with("lock:k"), 5u);
    give_back(agent, "k", token(granted));
    cr_assert(eventually(masters_with("lock:k") == 0));
}

/* A stranger's key that came onto one master while it was away is left alone, and the hold's own is
 * there again once that is gone. */
Test(away, another_holders_key_is_not_repaired_over)
{
    masters_start(5, MASTERS_DURABLE);
    struct agent *agent = agent_start(NULL);
    acquire_free(agent, "k", "ttl=4s&renew=agent");
    cr_assert(eventually(number(get(agent, "/locks/k"), "hold.confirmed") == 5));
    const char *ours = master_get(1, "lock:k"),
               *theirs = "0123456789012345678901234567890123456789:them";
    master_freeze(0);
    sleep_ms(AWAY_MS);
    master_thaw(0);
    master_do(0, "SET lock:k %s", theirs);
    /* on a slow machine the repair can come before the stranger */
    cr_assert(eventually(number(get(agent, "/locks/k"), "hold.confirmed") == 4));
    const int64_t until = boottime_ms() + TTL_MS;
    while (boottime_ms() < until) {
        expect_held(agent, 0, false);
        cr_assert_str_eq(master_get(0, "lock:k"), theirs);
        sleep_ms(50);
    }
    master_do(0, "DEL lock:k");
    cr_assert(
        eventually(master_get(0, "lock:k") != NULL && strcmp(master_get(0, "lock:k"), ours) == 0));
    cr_assert(eventually(number(get(agent, "/locks/k"), "hold.confirmed") == 5));
}

/* The key of one master after another runs out while that master is away, and a stranger asks
 * before the repair: its refused attempt raises the number that this master stores for the next
 * grant. The hold is on all five masters, so its token is right at every agent (R12, D3.4). */
Test(away, a_right_token_is_right_everywhere_after_a_stranger_asked_in_turn)
{
    masters_start(5, MASTERS_DURABLE);
    struct agent *agent = agent_start(NULL), *stranger = agent_start(NULL);
    const struct reply *granted = acquire_free(agent, "k", "ttl=30s&renew=caller");
    cr_assert(eventually(masters_with("lock:k") == 5));
    for (size_t m = 0; m < 3; m++) {
        const char *value = format("%s", master_get(m, "lock:k"));
        const int64_t number = master_number(m, "k");
        master_do(m, "DEL lock:k");
        expect_lock_held(stranger, "k", "ttl=2s");
        /* Other masters may have decided the refusal, so this one may get the attempt later. */
        cr_assert(eventually(master_number(m, "k") > number));
        cr_assert(eventually(master_get(m, "lock:k") == NULL), "the attempt was not undone");
        master_do(m, "SET lock:k %s PX 30000", value);
    }
    const struct reply *adopted = renew(stranger, "k", token(granted), "ttl=30s");
    expect(adopted, 200, NULL);
    cr_assert(json_is_true(member(adopted, "continuous")), "%s", adopted->body);
    struct agent *third = agent_start(&(struct agent_options){.node_timeout = "2s"});
    expect(release(third, "k", token(granted)), 204, NULL);
    cr_assert(eventually(masters_with("lock:k") == 0));
}
