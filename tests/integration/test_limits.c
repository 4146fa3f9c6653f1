/* Every limit refuses, and none of them keeps a holder from releasing (D9). */
#include "harness.h"

#include <string.h>

TestSuite(limits, .init = world_open, .fini = world_close, .timeout = 60);

/* Waiters fill all that they may; the holder still comes in, and the first waiter gets the lock. */
Test(limits, a_holder_comes_in_beside_the_waiters)
{
    enum { WAITERS = 64 };
    int waiters[WAITERS];
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "limits: {connections: 128, waiters: 64}\n"});
    const struct reply *holder = acquire_free(agent, "k", "ttl=60s");
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = wire_request(agent, "POST", "/locks/k?ttl=60s&wait=60s", NULL);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == WAITERS), "%f",
              metric(agent, "lockagent_waiters"));
    for (int i = 0; i < 3; i++) {
        const struct reply *refused = acquire(agent, i % 2 ? "k" : "another", "wait=1s&ttl=5s");
        if (i % 2 == 0) {
            /* Free, so no caller needs to wait: a refusal is right too, as it asked for a waiter's
             * place. */
            cr_assert(refused->status == 201 || refused->status == 429, "%ld", refused->status);
            if (refused->status == 201)
                give_back(agent, "another", token(refused));
            continue;
        }
        expect(refused, 429, "too_many_waiters");
        cr_assert_not_null(header(refused, "Retry-After"));
    }
    expect_lock_held(agent, "k", NULL);
    expect(renew(agent, "k", token(holder), NULL), 200, NULL);
    give_back(agent, "k", token(holder));
    expect(wire_receive(waiters[0], PATIENCE_MS), 201, NULL);
    for (int i = 0; i < WAITERS; i++)
        wire_close(waiters[i]);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 0));
}

/* More connections than there may be, none of which says a word: the header's deadline makes room
 * again. */
Test(limits, idle_connections_give_way)
{
    enum { IDLE = 300 };
    int idle[IDLE];
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){
        .admin = true, .extra = "limits: {connections: 128, header_timeout: 1s}\n"});
    const struct reply *holder = acquire(agent, "k", "ttl=60s");
    for (int i = 0; i < IDLE; i++)
        idle[i] = wire_open(agent);
    /* D9: health stays reachable on the admin listener's own daemon. */
    expect(http(agent, &(struct call){.path = "/livez", .admin = true, .timeout_ms = 5000}), 200,
           NULL);
    give_back(agent, "k", token(holder));
    const int fresh = wire_request(agent, "POST", "/locks/k?ttl=5s", NULL);
    expect(wire_receive(fresh, PATIENCE_MS), 201, NULL);
    wire_close(fresh);
    for (int i = 0; i < IDLE; i++)
        wire_close(idle[i]);
    acquire_free(agent, "after", "ttl=5s");
}

Test(limits, too_many_locks)
{
    enum { LOCKS = 6 };
    const char *tokens[LOCKS];
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = format("limits: {locks: %d}\n", LOCKS)});
    for (int i = 0; i < LOCKS; i++) {
        const struct reply *granted = acquire_free(agent, format("k%d", i), "ttl=60s");
        tokens[i] = token(granted);
    }
    const struct reply *refused = acquire(agent, "one-more", "ttl=60s");
    expect(refused, 429, "too_many_locks");
    cr_assert_eq(number(refused, "retry_after_ms"), 1000);
    cr_assert_not_null(header(refused, "Retry-After"));
    cr_assert_eq(masters_with("lock:one-more"), 0u);
    expect_lock_held(agent, "k0", "ttl=60s");
    expect(renew(agent, "k0", tokens[0], NULL), 200, NULL);
    give_back(agent, "k0", tokens[0]);
    cr_assert(eventually(acquire(agent, "one-more", "ttl=60s")->status == 201));
}

/* A busy hour in small: many callers on few keys through two agents; never two holders, and in the
 * end nothing is left. */
Test(limits, a_crowd)
{
    enum { CALLERS = 40, KEYS = 4 };
    int wires[CALLERS];
    int served = 0;
    masters_start(5, MASTERS_FORGETFUL);
    const struct agent_options options = {.node_timeout = "500ms"};
    struct agent *agents[] = {agent_start(&options), agent_start(&options)};
    const char *tokens[KEYS] = {NULL};
    struct agent *holders[KEYS] = {NULL};
    for (int i = 0; i < CALLERS; i++)
        wires[i] = wire_request(agents[i / KEYS % 2], "POST",
                                format("/locks/crowd/%d?ttl=60s&wait=60s", i % KEYS), NULL);
    for (const int64_t until = boottime_ms() + 40000; served < CALLERS && boottime_ms() < until;
         sleep_ms(2)) {
        for (int i = 0; i < CALLERS; i++) {
            const int k = i % KEYS;
            if (wires[i] < 0 || wire_is_silent(wires[i]))
                continue;
            const struct reply *granted = wire_receive(wires[i], PATIENCE_MS);
            expect(granted, 201, NULL);
            cr_assert_null(tokens[k], "two holders of key %d", k);
            tokens[k] = token(granted);
            holders[k] = agents[i / KEYS % 2];
            wire_close(wires[i]);
            wires[i] = -1;
            served++;
        }
        for (int k = 0; k < KEYS; k++) {
            if (!tokens[k])
                continue;
            const char *given = tokens[k];
            tokens[k] = NULL;
            give_back(holders[k], format("crowd/%d", k), given);
        }
    }
    cr_assert_eq(served, CALLERS, "only %d of %d were served", served, CALLERS);
    for (int k = 0; k < KEYS; k++)
        cr_assert(eventually(masters_with(format("lock:crowd/%d", k)) == 0));
}
