/* Order over all agents (R9, order fair): three of them serve their callers in the order in which
 * these came. */
#include "harness.h"

#include <signal.h>
#include <string.h>

TestSuite(fair, .init = world_open, .fini = world_close, .timeout = 150);

enum { AGENTS = 3, TICKET_TIME_MS = 3000 };

#define TICKETS_SPOILED "key of tickets has another type: the master has no vote on this lock"

static struct agent *agents[AGENTS];

static void begin_with(const char *node_timeout)
{
    masters_start(5, MASTERS_FORGETFUL);
    for (int a = 0; a < AGENTS; a++)
        agents[a] = agent_start(&(struct agent_options){
            .node_timeout = node_timeout,
            .extra = "policies:\n  - {match: '*', ttl: 30s, order: fair}\n"});
}

static void begin(void)
{
    begin_with(NULL);
}

/* An agent that reaches no quorum within node_timeout withdraws its ticket (R9), and others pass
 * its waiters. On a busy machine it may be late. */
static void begin_patiently(void)
{
    begin_with("2s");
}

static int waiter(struct agent *agent)
{
    const int before = waiting_at(agent);
    const int wire = wire_request(agent, "POST", "/locks/k?wait=100s", NULL);
    cr_assert(eventually(waiting_at(agent) == before + 1));
    return wire;
}

static size_t tickets(size_t master)
{
    return (size_t)master_do(master, "HLEN lockagent:ticket:lock:k")->integer;
}

/* The agents that wait at a quorum of masters. */
static bool quorum_has_tickets(size_t count)
{
    size_t masters = 0;
    for (size_t i = 0; i < master_count(); i++)
        masters += tickets(i) == count;
    return masters >= 3;
}

/* Begins waiters in turn at all agents, while the first agent holds the key. An agent's first
 * ticket is above those that the masters have by then. So the next waiter comes when they have it.
 */
static void line_up(int *wires, int count)
{
    for (int i = 0; i < count; i++) {
        wires[i] = waiter(agents[i % AGENTS]);
        if (i > 0 && i < AGENTS)
            cr_assert(eventually(quorum_has_tickets((size_t)i)));
    }
}

/* Serves `count` waiters; number i is at agent i % AGENTS; each must come before all that came
 * later. `holder` is a hold at `at`. */
static void serve_in_order(const int *wires, int count, struct agent *at,
                           const struct reply *holder)
{
    for (int i = 0; i < count; i++) {
        give_back(at, "k", token(holder));
        at = agents[i % AGENTS];
        holder = wire_receive(wires[i], PATIENCE_MS);
        expect(holder, 201, NULL);
        for (int later = i + 1; later < count; later++)
            cr_assert(wire_is_silent(wires[later]), "%d overtook %d", later, i);
        wire_close(wires[i]);
    }
    give_back(at, "k", token(holder));
}

Test(fair, r9_sixty_waiters_at_three_agents_are_served_in_the_order_of_their_coming)
{
    enum { WAITERS = 60 };
    int wires[WAITERS];
    begin_patiently();
    const struct reply *holder = acquire(agents[0], "k", NULL);
    expect(holder, 201, NULL);
    line_up(wires, WAITERS);
    serve_in_order(wires, WAITERS, agents[0], holder);
    cr_assert(
        eventually(masters_with("lock:k") == 0 && masters_with("lockagent:ticket:lock:k") == 0));
}

Test(fair, r9_five_hundred_waiters_of_one_key_all_succeed_in_order)
{
    enum { WAITERS = 500 };
    static int wires[WAITERS];
    begin_patiently();
    const struct reply *holder = acquire(agents[0], "k", NULL);
    expect(holder, 201, NULL);
    line_up(wires, WAITERS);
    serve_in_order(wires, WAITERS, agents[0], holder);
}

Test(fair, r9_in_order_with_a_minority_of_the_masters_down)
{
    enum { WAITERS = 12 };
    int wires[WAITERS];
    begin();
    master_kill(1), master_freeze(3);
    const struct reply *holder = acquire(agents[0], "k", "wait=20s");
    expect(holder, 201, NULL);
    for (int i = 0; i < WAITERS; i++) {
        wires[i] = waiter(agents[i % AGENTS]);
        sleep_ms(50);
    }
    sleep_ms(500);
    serve_in_order(wires, WAITERS, agents[0], holder);
    master_thaw(3);
}

/* D3.7: a key that is not a hold never counts as a holder; here a key that is not a list of
 * tickets. */
Test(fair, d3_a_stranger_in_place_of_the_tickets_is_no_holder)
{
    begin();
    for (size_t i = 0; i < 3; i++)
        master_do(i, "SET lockagent:ticket:lock:k x");
    cr_assert_str_eq(key_state(agents[0], "k"), "free");
    const struct reply *look = get(agents[0], "/locks/k");
    cr_assert_eq(number(look, "nodes.held"), 0);
    expect(acquire(agents[0], "k", NULL), 503, "quorum_unavailable");
    /* The alarm names the key that has to go. */
    cr_assert(eventually(agent_logged(agents[0], TICKETS_SPOILED, "\"k\"") >= 1),
              "no alarm about the tickets in the log:\n%s", read_whole_file(agents[0]->log));
    cr_assert_eq(agent_logged(agents[0], NULL, "number is invalid"), 0);
    for (size_t i = 0; i < 3; i++)
        master_do(i, "DEL lockagent:ticket:lock:k");
    expect(acquire(agents[0], "k", NULL), 201, NULL);
}

Test(fair, r9_a_dead_agent_blocks_nobody_for_longer_than_its_ticket)
{
    begin();
    const struct reply *holder = acquire(agents[0], "k", NULL);
    expect(holder, 201, NULL);
    const int dead = waiter(agents[1]);
    cr_assert(eventually(quorum_has_tickets(1)));
    const int alive = waiter(agents[2]);
    cr_assert(eventually(quorum_has_tickets(2)));
    agent_kill(agents[1]);
    give_back(agents[0], "k", token(holder));
    const int64_t before = boottime_ms();
    expect(wire_receive(alive, PATIENCE_MS), 201, NULL);
    cr_assert_leq(boottime_ms() - before, 2 * TICKET_TIME_MS);
    wire_close(dead), wire_close(alive);
}

/* It has its place again when it goes on. */
Test(fair, r9_a_stopped_agent_blocks_nobody_for_longer_than_its_ticket)
{
    begin();
    const struct reply *holder = acquire(agents[0], "k", NULL);
    expect(holder, 201, NULL);
    const int stopped = waiter(agents[1]);
    cr_assert(eventually(quorum_has_tickets(1)));
    const int first = waiter(agents[2]), second = waiter(agents[2]);
    cr_assert(eventually(quorum_has_tickets(2)));
    agent_signal(agents[1], SIGSTOP);
    give_back(agents[0], "k", token(holder));
    const struct reply *next = wire_receive(first, PATIENCE_MS);
    expect(next, 201, NULL);
    agent_signal(agents[1], SIGCONT);
    cr_assert(eventually(quorum_has_tickets(1)));
    give_back(agents[2], "k", token(next));
    next = wire_receive(stopped, PATIENCE_MS);
    expect(next, 201, NULL);
    cr_assert(wire_is_silent(second));
    give_back(agents[1], "k", token(next));
    expect(wire_receive(second, PATIENCE_MS), 201, NULL);
    wire_close(stopped), wire_close(first), wire_close(second);
}

/* Its ticket is taken off, also while the key is held, and the caller behind it is next. */
Test(fair, r9_a_waiter_that_hangs_up_leaves_no_ticket)
{
    begin_patiently();
    static const char withdrawn[] = "lockagent_master_commands_total{group=\"main\",master=\"%"
                                    "s\",op=\"withdraw\",outcome=\"ok\"}";
    const struct reply *holder = acquire(agents[0], "k", NULL);
    expect(holder, 201, NULL);
    const int gone = waiter(agents[1]);
    cr_assert(eventually(quorum_has_tickets(1)));
    const int next = waiter(agents[2]);
    cr_assert(eventually(quorum_has_tickets(2)));
    wire_close(gone);
    cr_assert(eventually(quorum_has_tickets(1)));
    cr_assert(
        eventually(metric(agents[1], format(withdrawn, master_url(0) + strlen("redis://"))) == 1),
        "it ran out");
    give_back(agents[0], "k", token(holder));
    holder = wire_receive(next, PATIENCE_MS);
    expect(holder, 201, NULL);
    wire_close(next);
    give_back(agents[2], "k", token(holder));
    cr_assert(eventually(masters_with("lockagent:ticket:lock:k") == 0));
}

/* A stopped agent has the only ticket: the key is free, and yet a caller that does not wait cannot
 * have it. */
Test(fair, r9_who_does_not_wait_is_refused_while_somebody_waits)
{
    begin();
    const struct reply *holder = acquire(agents[0], "k", NULL);
    const int waiting = waiter(agents[1]);
    cr_assert(eventually(quorum_has_tickets(1)));
    agent_signal(agents[1], SIGSTOP);
    give_back(agents[0], "k", token(holder));
    cr_assert(eventually(masters_with("lock:k") == 0));
    const struct reply *refused = expect_lock_held(agents[2], "k", NULL);
    cr_assert(number(refused, "retry_after_ms") <= TICKET_TIME_MS);
    agent_signal(agents[1], SIGCONT);
    expect(wire_receive(waiting, PATIENCE_MS), 201, NULL);
    wire_close(waiting);
}
