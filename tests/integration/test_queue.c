/* Waiting for a release that is published, and hand-over (R9). The pauses between attempts are a
 * minute here, so that a waiter that is not told stays out for longer than any test waits. */
#include "harness.h"

#include <string.h>

TestSuite(queue, .init = world_open, .fini = world_close, .timeout = 120);

static struct agent *patient_agent(void)
{
    return agent_start(
        &(struct agent_options){.extra = "policies:\n  - {match: '*', ttl: 50s, retry: {min: 60s, "
                                         "max: 60s}, handover_max: 4}\n"});
}

static int waiter(struct agent *agent, const char *key)
{
    return wire_request(agent, "POST", format("/locks/%s?wait=100s", key), NULL);
}

static size_t channels(void)
{
    size_t count = 0;
    for (size_t i = 0; i < master_count(); i++)
        count += master_do(i, "PUBSUB CHANNELS lockagent:channel:*")->elements;
    return count;
}

static size_t subscribers(size_t master)
{
    const char *list = master_do(master, "CLIENT LIST TYPE pubsub")->str;
    size_t count = 0;
    for (; (list = strstr(list, "id=")) != NULL; list++)
        count++;
    return count;
}

/* Waits until every agent but those that hold it listens on every master. */
static bool all_listen(const char *key, long long agents)
{
    for (size_t i = 0; i < master_count(); i++) {
        const redisReply *reply = master_do(i, "PUBSUB NUMSUB lockagent:channel:lock:%s", key);
        if (reply->elements != 2 || reply->element[1]->integer != agents)
            return false;
    }
    return true;
}

Test(queue, r9_a_release_elsewhere_wakes_the_waiter)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *mine = patient_agent(), *other = patient_agent();
    const struct reply *holder = acquire(mine, "k", NULL);
    expect(holder, 201, NULL);
    cr_assert_eq(subscribers(0), 0u, "nobody waits, and somebody listens");
    const int wire = waiter(other, "k");
    cr_assert(eventually(all_listen("k", 1)));
    sleep_ms(100);
    cr_assert(wire_is_silent(wire));
    give_back(mine, "k", token(holder));
    const struct reply *heir = wire_receive(wire, PATIENCE_MS);
    expect(heir, 201, NULL);
    cr_assert_gt(number(heir, "fencing_token"), number(holder, "fencing_token"));
    cr_assert(eventually(channels() == 0), "nobody waits any more, and somebody listens");
    cr_assert(eventually(subscribers(0) == 0), "the subscriber's connection stays for ever");
    wire_close(wire);
}

/* It is told by the masters that are left, a subscription is asked for again on a new connection,
 * and a key that was released in between is found. */
Test(queue, r9_a_waiter_whose_subscriptions_are_cut_is_told_all_the_same)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *mine = patient_agent(), *other = patient_agent();
    for (int cut = 2; cut <= 5; cut++) {
        const struct reply *holder = acquire(mine, "k", NULL);
        expect(holder, 201, NULL);
        const int wire = waiter(other, "k");
        cr_assert(eventually(all_listen("k", 1)));
        for (int i = 0; i < cut; i++)
            master_do((size_t)i, "CLIENT KILL TYPE pubsub");
        give_back(mine, "k", token(holder));
        const struct reply *heir = wire_receive(wire, PATIENCE_MS);
        expect(heir, 201, NULL);
        wire_close(wire);
        give_back(other, "k", token(heir));
        cr_assert(eventually(masters_with("lock:k") == 0));
    }
}

/* Two of five masters are dead: three tell, and that is a quorum. */
Test(queue, r9_a_minority_that_is_down_is_not_missed)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *mine = patient_agent(), *other = patient_agent();
    master_kill(0), master_kill(1);
    const struct reply *holder = acquire(mine, "k", "wait=10s");
    expect(holder, 201, NULL);
    const int wire = waiter(other, "k");
    cr_assert(eventually(metric(other, "lockagent_waiters") == 1));
    sleep_ms(500);
    release_or_owe(mine, "k", token(holder));
    expect(wire_receive(wire, PATIENCE_MS), 201, NULL);
    wire_close(wire);
}

/* One command per master hands it over: the key is never free in between, and the release publishes
 * nothing. */
Test(queue, r9_a_release_hands_the_key_to_the_next_waiter_here)
{
    enum { WAITERS = 20 };
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = patient_agent();
    int wires[WAITERS];
    const struct reply *holder = acquire(agent, "k", NULL);
    expect(holder, 201, NULL);
    for (int i = 0; i < WAITERS; i++) {
        wires[i] = waiter(agent, "k");
        cr_assert(eventually(metric(agent, "lockagent_waiters") == i + 1));
    }
    master_do(0, "CONFIG RESETSTAT");
    for (int i = 0; i < WAITERS; i++) {
        give_back(agent, "k", token(holder));
        const struct reply *heir = wire_receive(wires[i], PATIENCE_MS);
        expect(heir, 201, NULL);
        cr_assert_str_neq(token(heir), token(holder));
        cr_assert_gt(number(heir, "fencing_token"), number(holder, "fencing_token"));
        const long again = release(agent, "k", token(holder))->status;
        cr_assert(again == 404 || again == 412, "%ld", again);
        holder = heir;
        wire_close(wires[i]);
    }
    cr_assert_eq(channels(), 0u);
    give_back(agent, "k", token(holder));
    cr_assert(eventually(masters_with("lock:k") == 0));
}

/* After handover_max in a row the waiters of another agent have their chance. */
Test(queue, r9_waiters_of_another_agent_are_not_starved)
{
    enum { MINE = 30 };
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *mine = patient_agent(), *other = patient_agent();
    int wires[MINE];
    const struct reply *holder = acquire(mine, "k", NULL);
    for (int i = 0; i < MINE; i++) { /* one after the other: in this order they are served */
        wires[i] = waiter(mine, "k");
        cr_assert(eventually(metric(mine, "lockagent_waiters") == i + 1));
    }
    const int stranger = waiter(other, "k");
    cr_assert(eventually(all_listen("k", 1)));
    int served = 0;
    while (served < MINE && wire_is_silent(stranger)) {
        give_back(mine, "k", token(holder));
        cr_assert(eventually(!wire_is_silent(wires[served]) || !wire_is_silent(stranger)));
        if (!wire_is_silent(wires[served]))
            holder = wire_receive(wires[served++], PATIENCE_MS);
    }
    cr_assert_lt(served, MINE, "the other agent's waiter was the last");
    expect(wire_receive(stranger, PATIENCE_MS), 201, NULL);
    for (int i = 0; i < MINE; i++)
        wire_close(wires[i]);
    wire_close(stranger);
}

/* Takes the lock of each waiter as it comes and releases it, until all have had it. */
static void serve_all(struct agent **agents, const int *wires, const char **keys, int count,
                      int agent_count)
{
    bool done[512] = {false};
    for (int left = count; left > 0;) {
        bool any = false;
        for (int i = 0; i < count; i++) {
            if (done[i] || wire_is_silent(wires[i]))
                continue;
            const struct reply *granted = wire_receive(wires[i], PATIENCE_MS);
            expect(granted, 201, NULL);
            give_back(agents[i % agent_count], keys[i], token(granted));
            wire_close(wires[i]);
            done[i] = any = true;
            left--;
        }
        if (!any)
            sleep_ms(1);
    }
}

Test(queue, five_hundred_waiters_of_one_key_all_succeed)
{
    enum { WAITERS = 500, AGENTS = 3 };
    static int wires[WAITERS];
    static const char *keys[WAITERS];
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agents[AGENTS];
    for (int a = 0; a < AGENTS; a++)
        agents[a] = agent_start(NULL);
    for (int i = 0; i < WAITERS; i++) {
        keys[i] = "k";
        wires[i] = wire_request(agents[i % AGENTS], "POST", "/locks/k?ttl=20s&wait=100s", NULL);
    }
    serve_all(agents, wires, keys, WAITERS, AGENTS);
    cr_assert(eventually(masters_with("lock:k") == 0));
    cr_assert(eventually(channels() == 0));
}

Test(queue, five_thousand_waits_over_five_keys_leave_no_channel_behind)
{
    enum { WAITERS = 500, ROUNDS = 10, AGENTS = 3 };
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    static int wires[WAITERS];
    static const char *keys[WAITERS];
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agents[AGENTS];
    for (int a = 0; a < AGENTS; a++)
        agents[a] = agent_start(NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WAITERS; i++) {
            keys[i] = names[i % 5];
            wires[i] = wire_request(agents[i % AGENTS], "POST",
                                    format("/locks/%s?ttl=20s&wait=100s", keys[i]), NULL);
        }
        serve_all(agents, wires, keys, WAITERS, AGENTS);
    }
    cr_assert(eventually(channels() == 0));
    for (int a = 0; a < AGENTS; a++)
        cr_assert_eq(metric(agents[a], "lockagent_waiters"), 0);
}
