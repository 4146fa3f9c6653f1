/* Agents that disagree refuse each other, and masters are changed one at a time (R23), on real
 * masters. */
#include "harness.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

TestSuite(layouts, .init = world_open, .fini = world_close, .timeout = 100);

/* A layout is forgotten after max_ttl, 4 s, node_timeout and 6 s: about 13 s. */
#define SHORT "limits: {max_ttl: 2s}\n"
#define TIMEOUT "500ms" /* generous, for a busy machine */
enum { MASTERS = 6, TRIES = 200 };

/* Returns a YAML list of masters, by their digits: "012". */
static const char *list_of(const char *digits)
{
    const char *list = "[";
    for (const char *c = digits; *c; c++)
        list = format("%s%s%s", list, c == digits ? "" : ", ", master_url((size_t)(*c - '0')));
    return format("%s]", list);
}

static struct agent *start_agent(const char *digits, const char *policies)
{
    const struct agent_options options = {.masters = list_of(digits),
                                          .extra = format(SHORT "%s", policies),
                                          .node_timeout = TIMEOUT,
                                          .not_ready = true};
    return agent_start(&options);
}

static bool is_ready(const struct agent *agent)
{
    return get(agent, "/readyz")->status == 200;
}

static bool is_refused(const struct agent *agent)
{
    const struct reply *reply = get(agent, "/readyz");
    return reply->status == 503 && strstr(reply->body, "agents at work with") != NULL;
}

/* ---- the table ---- */

/* Each of two agents asks for the same keys, one after the other. Returns how many both hold. */
static unsigned held_in_turn(struct agent *a, struct agent *b, bool refused)
{
    unsigned both = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        const char *key = format("turn/%u", i);
        const struct reply *first = acquire(a, key, "ttl=2s&wait=5s"),
                           *second = acquire(b, key, "ttl=2s");
        expect(first, 201, NULL);
        /* Masters of a busy machine may reply too late to the second one: it has no lock either. */
        const bool late = second->status == 503 && !strcmp(code(second), "quorum_unavailable");
        if (second->status != 409 && (refused || !late))
            expect(second, refused ? 503 : 201, refused ? "layout_mismatch" : NULL);
        both += second->status == 201;
        release(a, key, token(first));
    }
    return both;
}

/* The same at once. Returns how many both hold; `*ret_by_b`: how many the second one got. */
static unsigned held_at_once(struct agent *a, struct agent *b, unsigned *ret_by_b)
{
    unsigned both = 0;
    *ret_by_b = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        const char *path = format("/locks/once/%u?ttl=2s", i);
        const bool a_first = i % 2 == 0; /* So that none of the two is always the first. */
        int to_first = wire_request(a_first ? a : b, "POST", path, NULL),
            to_second = wire_request(a_first ? b : a, "POST", path, NULL);
        int to_a = a_first ? to_first : to_second, to_b = a_first ? to_second : to_first;
        const struct reply *by_a = wire_receive(to_a, PATIENCE_MS),
                           *by_b = wire_receive(to_b, PATIENCE_MS);
        both += by_a->status == 201 && by_b->status == 201;
        *ret_by_b += by_b->status == 201;
        wire_close(to_a);
        wire_close(to_b);
    }
    return both;
}

/* Two agents with these masters. They refuse each other, or both of them serve. */
static void expect_pair(const char *a_masters, const char *b_masters, bool refused)
{
    unsigned by_b;
    masters_start(MASTERS, MASTERS_FORGETFUL);
    struct agent *a = start_agent(a_masters, "");
    cr_assert(eventually(is_ready(a)), "%s", get(a, "/readyz")->body);
    struct agent *b = start_agent(b_masters, "");
    if (refused)
        cr_assert(eventually(is_refused(b)), "%s", get(b, "/readyz")->body);
    else
        cr_assert(eventually(is_ready(b)), "%s", get(b, "/readyz")->body);
    cr_assert_eq(held_in_turn(a, b, refused), 0u);
    cr_assert_eq(held_at_once(a, b, &by_b), 0u);
    cr_assert(refused ? by_b == 0 : by_b > 0, "%u", by_b);
    cr_assert(is_ready(a), "the first one stays");
}

Test(layouts, one_of_three_replaced)
{
    expect_pair("012", "013", true);
}

Test(layouts, two_of_three_replaced)
{
    expect_pair("012", "034", true);
}

Test(layouts, three_and_five)
{
    expect_pair("012", "01234", true);
}

Test(layouts, five_and_three)
{
    expect_pair("01234", "012", true);
}

Test(layouts, one_of_five_replaced)
{
    expect_pair("01234", "01235", true);
}

Test(layouts, one_and_three)
{
    expect_pair("0", "012", true);
}

Test(layouts, three_and_four_are_neighbours)
{
    expect_pair("012", "0123", false);
}

Test(layouts, four_and_five_are_neighbours)
{
    expect_pair("0123", "01234", false);
}

Test(layouts, one_of_four_replaced_is_a_neighbour)
{
    expect_pair("0123", "0124", false);
}

/* ---- policies ---- */

#define POLICY(terms) "policies: [{match: '*', ttl: 2s, " terms "}]\n"

/* The second policies are not those of the first agent, on the same masters. */
static void expect_other(const char *ours, const char *theirs)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", ours), *b;
    cr_assert(eventually(is_ready(a)));
    b = start_agent("012", theirs);
    cr_assert(eventually(is_refused(b)), "%s", get(b, "/readyz")->body);
    const struct reply *refused = acquire(b, "k", "ttl=2s");
    expect(refused, 503, "layout_mismatch");
    cr_assert_neq(strcmp(string(refused, "ours"), string(refused, "theirs")), 0);
    cr_assert_not_null(strstr(string(refused, "detail"), "policies"), "%s", refused->body);
    cr_assert_gt(number(refused, "retry_after_ms"), 0);
    cr_assert_not_null(header(refused, "Retry-After"));
    expect(acquire(a, "k", "ttl=2s&wait=5s"), 201, NULL);
}

Test(layouts, other_permits)
{
    expect_other(POLICY("permits: 2"), POLICY("permits: 3"));
}

Test(layouts, another_kind)
{
    expect_other(POLICY("kind: mutex"), POLICY("kind: rw"));
}

Test(layouts, another_order)
{
    expect_other(POLICY("order: any"), POLICY("order: fair"));
}

Test(layouts, another_match)
{
    expect_other("policies: [{match: 'a*', permits: 2}]\n",
                 "policies: [{match: 'b*', permits: 2}]\n");
}

/* Settings that agents need not agree on make no difference. */
Test(layouts, other_leases_are_no_other_layout)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", POLICY("max_hold: 1m"));
    struct agent *b =
        start_agent("210", "policies: [{match: 'slow/*', ttl: 2s, max_hold: 5m}, {match: '*'}]\n");
    struct agent *c = start_agent("012", "policies: [{match: 'x', prefix: 'other:', kind: rw}]\n");
    cr_assert(eventually(is_ready(a) && is_ready(b) && is_ready(c)));
    expect(acquire(a, "k", "ttl=2s&wait=5s"), 201, NULL);
    expect_lock_held(b, "k", "ttl=2s");
    expect_lock_held(c, "k", "ttl=2s");
}

/* A new group that shares a prefix with an old one gets a part of its keys. The agents that do not
 * know it never ask there, so the old group must close the new one. */
static void expect_old_group_closes(const char *policies)
{
    masters_start(4, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", "");
    cr_assert(eventually(is_ready(a)));
    const char *more = format(
        "    added: {masters: [%s], node_timeout: " TIMEOUT ", durable: true}\n", master_url(3));
    const struct agent_options options = {.masters = list_of("012"),
                                          .group = format("      durable: true\n%s", more),
                                          .extra = format(SHORT "policies: %s\n", policies),
                                          .node_timeout = TIMEOUT,
                                          .not_ready = true};
    struct agent *b = agent_start(&options);
    cr_assert(eventually(is_refused(b)), "%s", get(b, "/readyz")->body);
    for (unsigned i = 0; i < 20; i++)
        expect(acquire(b, format("k%u", i), "ttl=2s"), 503, "layout_mismatch");
    cr_assert(is_ready(a));
    /* The same holds for native commands, which need a top above the number (R24). The agent learns
     * the top from its next question. */
    master_do(3, "HSET lockagent:marker top %lld", (long long)(wall_ms() + 60000) * 1000);
    const int64_t until = boottime_ms() + 2500;
    for (unsigned i = 0; boottime_ms() < until; i++)
        expect(acquire(b, format("k%u", i % 20), "ttl=2s"), 503, "layout_mismatch");
    cr_assert(is_ready(a));
}

Test(layouts, a_group_that_is_added_is_closed_by_the_old_one)
{
    expect_old_group_closes("[{match: '*', ttl: 2s, groups: [main, added]}]");
}

/* No policy has both groups. */
Test(layouts, so_is_a_group_that_is_added_by_a_policy_of_its_own)
{
    expect_old_group_closes("[{match: 'k1*', ttl: 2s, group: added}, {match: '*', ttl: 2s}]");
}

/* A group whose prefix no refused group shares goes on. */
Test(layouts, a_group_with_another_prefix_is_not_closed)
{
    masters_start(6, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", "");
    cr_assert(eventually(is_ready(a)));
    const struct agent_options options = {
        .masters = list_of("034"),
        .group = format("      durable: true\n    apart: {masters: [%s], node_timeout: " TIMEOUT
                        ", durable: true}\n",
                        master_url(5)),
        .extra = SHORT "policies:\n- {match: 'apart/*', prefix: 'apart:', ttl: 2s, group: apart}\n"
                       "- {match: '*', ttl: 2s, group: main}\n",
        .node_timeout = TIMEOUT,
        .not_ready = true};
    struct agent *b = agent_start(&options);
    cr_assert(eventually(is_refused(b)), "%s", get(b, "/readyz")->body);
    expect(acquire(b, "k", "ttl=2s"), 503, "layout_mismatch");
    expect(acquire(b, "apart/k", "ttl=2s&wait=5s"), 201, NULL);
}

/* R23: "the name of the group whose layout this is". The lists of masters are the same, and so are
 * the policies. The keys of the prefix are in the one group or the other by the groups' names. */
static void expect_exchange_is_refused(const char *policies)
{
    masters_start(2, MASTERS_FORGETFUL);
    struct agent *agents[2];
    for (size_t i = 0; i < 2; i++) {
        const struct agent_options options = {
            .masters = format("[%s]", master_url(i)),
            .group = format("      durable: true\n    other: {masters: [%s], node_timeout: " TIMEOUT
                            ", durable: true}\n",
                            master_url(1 - i)),
            .extra = format(SHORT "policies: %s\n", policies),
            .node_timeout = TIMEOUT,
            .not_ready = true};
        agents[i] = agent_start(&options);
        cr_assert(eventually(i == 0 ? is_ready(agents[i]) : is_refused(agents[i])), "%s",
                  get(agents[i], "/readyz")->body);
    }
    for (unsigned i = 0; i < 8; i++) {
        const char *key = format("k%u", i);
        expect(acquire(agents[0], key, "ttl=2s&wait=5s"), 201, NULL);
        expect(acquire(agents[1], key, "ttl=2s"), 503, "layout_mismatch");
    }
}

Test(layouts, groups_that_exchange_their_masters_are_refused)
{
    expect_exchange_is_refused("[{match: '*', ttl: 2s, groups: [main, other]}]");
}

/* No policy has both groups. */
Test(layouts, so_are_groups_of_several_policies_that_exchange_them)
{
    expect_exchange_is_refused("[{match: 'k1', ttl: 2s, group: other}, {match: '*', ttl: 2s}]");
}

/* ---- names ---- */

/* R23: the fragment of a URL names a server that is reached by another address. */
Test(layouts, a_fragment_names_the_same_server)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *url = master_url(0), *address = strstr(url, "127.0.0.1:");
    cr_assert_not_null(address, "%s", url);
    const struct agent_options options = {.masters = format("[redis://localhost:%s#%s, %s, %s]",
                                                            strchr(address, ':') + 1, address,
                                                            master_url(1), master_url(2)),
                                          .extra = SHORT,
                                          .node_timeout = TIMEOUT,
                                          .not_ready = true};
    struct agent *a = start_agent("012", ""), *b = agent_start(&options);
    cr_assert(eventually(is_ready(a) && is_ready(b)), "%s", get(b, "/readyz")->body);
    cr_assert_eq(metric(b, "lockagent_layout_disagreements{group=\"main\"}"), 0.0);
    cr_assert_eq(metric(b, "lockagent_layouts{group=\"main\"}"), 1.0);
}

/* ---- over time ---- */

/* The layout that came first stays. It is forgotten after the last of its agents has ended. Then it
 * is refused itself. */
Test(layouts, a_refused_agent_is_let_in_when_the_others_have_ended)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *old = start_agent("012", "");
    cr_assert(eventually(is_ready(old)));
    const struct reply *granted = acquire(old, "k", "ttl=2s&renew=agent&wait=5s");
    struct agent *new = start_agent("034", "");
    cr_assert(eventually(is_refused(new)));
    cr_assert(eventually(metric(new, "lockagent_layout_disagreements{group=\"main\"}") == 1));
    cr_assert_eq(metric(old, "lockagent_layout_disagreements{group=\"main\"}"), 0.0);
    cr_assert_not_null(strstr(get(new, "/")->body, "disagrees"), "%s", get(new, "/")->body);
    cr_assert(eventually(agent_logged(new, "no new locks: agents at work have another layout",
                                      "\"level\":\"error\"") == 1));
    for (unsigned i = 0; i < 2; i++)
        await_renewal(old, "k"); /* Its watchdog goes on. */
    expect(renew(old, "k", token(granted), NULL), 200, NULL);
    agent_kill(old);
    cr_assert_not(is_ready(new));
    cr_assert(eventually_within(30000, is_ready(new)), "%s", get(new, "/readyz")->body);
    expect(acquire(new, "k", "ttl=2s&wait=5s"), 201, NULL);
    cr_assert_eq(agent_logged(new, "no new locks: agents at work have another layout", NULL), 1u);
    cr_assert_eq(
        agent_logged(new, "the other layout is forgotten: new locks are taken again", NULL), 1u);
    struct agent *again = start_agent("012", "");
    cr_assert(eventually(is_refused(again)), "%s", get(again, "/readyz")->body);
}

/* R23: two masters may be a quorum of both layouts. The refused agent would renew the hold without
 * an entry in a register. When the agents of the hold's own layout have ended, a third one is let
 * in. */
Test(layouts, a_refused_agent_adopts_nothing)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *old = start_agent("012", "");
    cr_assert(eventually(is_ready(old)));
    const struct reply *granted = acquire(old, "k", "ttl=2s&renew=agent&wait=5s");
    struct agent *new = start_agent("013", "");
    cr_assert(eventually(is_refused(new)), "%s", get(new, "/readyz")->body);
    expect(renew(new, "k", token(granted), NULL), 503, "quorum_unavailable");
    for (unsigned i = 0; i < 2; i++)
        await_renewal(old, "k"); /* Its renewals find its name. */
    expect(renew(old, "k", token(granted), NULL), 200, NULL);
}

/* R23, D3.4: a refused agent hands a lock over and names no vote. Its masters vote, so they confirm
 * the release. */
Test(layouts, a_refused_agent_hands_over_and_confirms_the_release)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = start_agent("012", "");
    cr_assert(eventually(is_ready(agent)));
    const struct reply *granted = acquire(agent, "k", "ttl=2s&renew=agent&wait=5s");
    int wire = wire_request(agent, "POST", "/locks/k?ttl=2s&wait=20s", NULL);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 1));
    for (size_t m = 0; m < 3; m++)
        master_do(
            m, "HSET lockagent:layouts apart %s",
            format("%lld 9000 w2 2 lock:=mutex x:1/0 y:1/0 z:1/0", (long long)wall_ms() + 9000));
    cr_assert(eventually(is_refused(agent)), "%s", get(agent, "/readyz")->body);
    expect(release(agent, "k", token(granted)), 204, NULL);
    expect(wire_receive(wire, PATIENCE_MS), 201, NULL);
    cr_assert_eq(metric(agent, "lockagent_acquire_causes_total{policy=\"*\",cause=\"handover\"}"),
                 1.0);
    wire_close(wire);
}

/* R23: the agent of a hold is killed, and started again with its journal and with another layout.
 * The hold runs out. */
static void expect_no_resumption(const char *order)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *journal = format("journal: {file: %s}\n", world_path("holds")),
               *all = format("{match: '*', ttl: 2s, order: %s}", order),
               *first = format("policies: [%s]\n", all),
               *second = format("policies: [{match: 'x*', permits: 3}, %s]\n", all);
    struct agent *other = start_agent("012", first),
                 *holder = start_agent("012", format("%s%s", journal, first));
    cr_assert(eventually(is_ready(other)) && eventually(is_ready(holder)));
    expect(acquire(holder, "k", "ttl=2s&renew=agent&wait=5s"), 201, NULL);
    expect(get(holder, "/livez"), 200, NULL); /* The journal knows by now that it was answered. */
    agent_kill(holder);
    struct agent *next = start_agent("012", format("%s%s", journal, second));
    cr_assert(eventually(is_refused(next)), "%s", get(next, "/readyz")->body);
    expect(acquire(other, "k", "ttl=2s&wait=10s"), 201, NULL);
}

Test(layouts, a_refused_agent_resumes_no_mutex)
{
    expect_no_resumption("any");
}

Test(layouts, a_refused_agent_resumes_no_fair_lock)
{
    expect_no_resumption("fair");
}

/* Each step of 3 -> 4 -> 5 -> 4 -> 3 is one to a neighbour: both agents serve, and exclude each
 * other. */
Test(layouts, masters_are_changed_one_at_a_time)
{
    static const char *const walk[] = {"012", "0123", "01234", "1234", "134"};
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *old = start_agent(walk[0], "");
    cr_assert(eventually(is_ready(old)));
    for (size_t step = 1; step < sizeof(walk) / sizeof(walk[0]); step++) {
        struct agent *new = start_agent(walk[step], "");
        /* The layout before the last one may be at work for its last seconds. */
        cr_assert(eventually_within(30000, is_ready(new)), "%zu: %s", step,
                  get(new, "/readyz")->body);
        const char *key = format("k%zu", step);
        const struct reply *granted = acquire(old, key, "ttl=2s&renew=agent&wait=5s");
        expect(granted, 201, NULL);
        expect_lock_held(new, key, "ttl=2s");
        expect(release(new, key, token(granted)), 204, NULL);
        const struct reply *next = acquire(new, key, "ttl=2s&renew=agent&wait=5s");
        expect(next, 201, NULL);
        cr_assert_gt(number(next, "fencing_token"), number(granted, "fencing_token"));
        expect_lock_held(old, key, "ttl=2s");
        agent_kill(old);
        old = new;
    }
}

/* A roll-out that begins too early is refused, and those that are at work go on. */
Test(layouts, a_roll_out_that_is_too_fast_waits)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *three = start_agent("012", "");
    cr_assert(eventually(is_ready(three)));
    struct agent *four = start_agent("0123", "");
    cr_assert(eventually(is_ready(four)));
    struct agent *five = start_agent("01234", "");
    cr_assert(eventually(is_refused(five)));
    expect(acquire(five, "k", "ttl=2s"), 503, "layout_mismatch");
    expect(acquire(four, "k", "ttl=2s&wait=5s"), 201, NULL);
    cr_assert(is_ready(three));
    agent_kill(three);
    cr_assert(eventually_within(30000, is_ready(five)), "%s", get(five, "/readyz")->body);
    cr_assert(is_ready(four));
}

/* Without a memory of its own the refused agent could be noted first. */
Test(layouts, a_flush_does_not_let_the_wrong_agent_in)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", "");
    cr_assert(eventually(is_ready(a)));
    struct agent *b = start_agent("034", "");
    cr_assert(eventually(is_refused(b)));
    for (unsigned i = 0; i < 20; i++) {
        for (size_t m = 0; m < 5; m++)
            master_do(m, "DEL lockagent:layouts");
        cr_assert(is_refused(b), "%s", get(b, "/readyz")->body);
        expect(acquire(b, "k", "ttl=2s"), 503, "layout_mismatch");
        sleep_ms(100);
    }
    cr_assert(is_ready(a));
}

/* An agent that was stopped for longer than its layout is kept may have been replaced meanwhile. */
Test(layouts, an_agent_that_was_stopped_is_refused_by_those_that_came)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", "");
    cr_assert(eventually(is_ready(a)));
    agent_signal(a, SIGSTOP);
    struct agent *b = start_agent("034", "");
    cr_assert(eventually_within(30000, is_ready(b)), "%s", get(b, "/readyz")->body);
    int wire = wire_request(a, "POST", "/locks/k?ttl=2s", NULL); /* It lies there as it wakes. */
    expect(acquire(b, "k", "ttl=2s&renew=agent&wait=5s"), 201, NULL);
    agent_signal(a, SIGCONT);
    const struct reply *late = wire_receive(wire, PATIENCE_MS);
    cr_assert_neq(late->status, 201, "%s", late->body);
    cr_assert(eventually(is_refused(a)), "%s", get(a, "/readyz")->body);
    expect(acquire(a, "k", "ttl=2s"), 503, "layout_mismatch");
    wire_close(wire);
}

/* ---- hostile registers ---- */

static struct outcome run_command(const char *command, const char *digits, const char *policies)
{
    const struct agent_options options = {
        .masters = list_of(digits), .extra = format(SHORT "%s", policies), .node_timeout = TIMEOUT};
    return agent_run((const char *const[]){command, agent_config(&options), NULL});
}

/* Makes an agent ask for its markers once a second for the next 5 s (D5.3). */
static void is_at_work(struct agent *agent)
{
    expect(acquire(agent, "work", "ttl=2s&wait=5s"), 201, NULL);
}

/* Writes a layout that the first master keeps for 4 s. */
static void stranger_writes(const char *text)
{
    const char *entry = format("%lld 4000 %s", (long long)wall_ms() + 4000, text);
    master_do(0, "HSET lockagent:layouts strange %b", entry, strlen(entry));
}

/* Returns when the agent is refused because of it. */
static void refused_by_stranger(struct agent *agent, const char *text)
{
    stranger_writes(text);
    cr_assert(eventually(is_refused(agent)), "%s", get(agent, "/readyz")->body);
}

/* Any client of a master can write the register. The agent is refused, says so in valid JSON, and
 * goes on when the entry is forgotten. */
Test(layouts, a_hostile_register_ends_no_agent)
{
    static const char *const texts[] = {"", "no layout", "w1 1 lock:=mutex \xff\x01\n",
                                        "w1 1 lock:=\x1b[2J\xc3 x"};
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", "");
    cr_assert(eventually(is_ready(a)));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        is_at_work(a);
        refused_by_stranger(a, texts[i]);
        cr_assert_not_null(get(a, "/readyz")->json, "%zu", i);
        refused_by_stranger(a, texts[i]); /* The entry outlasts the next calls. */
        const struct reply *refused = acquire(a, "k", "ttl=2s");
        expect(refused, 503, "layout_mismatch");
        cr_assert_not_null(string(refused, "theirs"), "%s", refused->body);
        cr_assert_eq(get(a, "/")->status, 200);
        stranger_writes(texts[i]);
        const struct outcome outcome = run_command("layouts", "012", "");
        cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
        cr_assert(strpbrk(outcome.out, "\x1b\x01\xff") == NULL, "%s", outcome.out);
        cr_assert(eventually(is_ready(a)), "%zu: %s", i, get(a, "/readyz")->body);
    }
    /* More strangers than one reply names. */
    is_at_work(a);
    for (unsigned i = 0; i < 6; i++)
        master_do(0, "HSET lockagent:layouts strange%u %s", i,
                  format("%lld 4000 x", (long long)wall_ms() + 4000));
    cr_assert(eventually(is_refused(a)), "%s", get(a, "/readyz")->body);
    cr_assert(eventually(is_ready(a)), "%s", get(a, "/readyz")->body);
    const char *endless = repeat("x", 40000);
    is_at_work(a);
    master_do(0, "HSET lockagent:layouts strange %s",
              format("%lld 4000 %s", (long long)wall_ms() + 4000, endless));
    cr_assert(eventually(is_refused(a)), "%s", get(a, "/readyz")->body);
    cr_assert(eventually(is_ready(a)), "%s", get(a, "/readyz")->body);
    master_do(0, "DEL lockagent:layouts");
    master_do(0, "SET lockagent:layouts x"); /* Another type: this master is not used. */
    sleep_ms(1500);
    expect(acquire(a, "other", "ttl=2s&wait=5s"), 201, NULL);
}

/* ---- commands ---- */

Test(layouts, an_agent_is_found_on_a_master_by_its_host_name)
{
    char host[64] = "";
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = start_agent("012", "");
    cr_assert(eventually(is_ready(agent)));
    gethostname(host, sizeof(host) - 1);
    const char *wanted = format(" name=lockagent:%s ", host);
    /* The agent is ready with two of three masters. */
    cr_assert(eventually(strstr(master_do(1, "CLIENT LIST")->str, wanted) != NULL), "%s",
              master_do(1, "CLIENT LIST")->str);
}

Test(layouts, a_command_compares_the_layouts_at_work_with_a_file)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct outcome outcome = run_command("layouts", "012", "");
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    struct agent *a = start_agent("012", "");
    cr_assert(eventually(is_ready(a)));
    outcome = run_command("layouts", "0123", "");
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    cr_assert_not_null(strstr(outcome.out, ", a neighbour: w2 2 lock:=mutex "), "%s", outcome.out);
    outcome = run_command("layouts", "034", "");
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    cr_assert_not_null(strstr(outcome.out, "NO NEIGHBOUR: other masters"), "%s", outcome.out);
    outcome = run_command("layouts", "012", POLICY("kind: rw"));
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    cr_assert_not_null(strstr(outcome.out, "NO NEIGHBOUR: other policies"), "%s", outcome.out);
    master_kill(0);
    master_kill(1);
    outcome = run_command("layouts", "012", "");
    cr_assert_eq(outcome.exit_status, 2, "%s%s", outcome.out, outcome.err);
    /* Another group has a quorum. */
    const struct agent_options options = {
        .masters = list_of("014"),
        .group = format("      durable: true\n    other: {masters: [%s], node_timeout: " TIMEOUT
                        ", durable: true}\n",
                        master_url(3)),
        .extra = SHORT "policies: [{match: 'a/*', ttl: 2s, group: other}, {match: '*', ttl: 2s}]\n",
        .node_timeout = TIMEOUT};
    outcome = agent_run((const char *const[]){"layouts", agent_config(&options), NULL});
    cr_assert_eq(outcome.exit_status, 2, "%s%s", outcome.out, outcome.err);
}

/* Returns of how many masters /readyz says that they cannot note the layout. */
static unsigned unnoted(const struct agent *agent)
{
    const struct reply *reply = get(agent, "/readyz");
    const json_t *not_up = json_object_get(json_array_get(member(reply, "groups"), 0), "not_up");
    unsigned count = 0;
    for (size_t i = 0; i < json_array_size(not_up); i++) {
        const json_t *reason = json_object_get(json_array_get(not_up, i), "reason");
        count += strstr(json_string_value(reason), "cannot note this agent's layout") != NULL;
    }
    return count;
}

/* The key of the layouts has another type on a quorum, so each question is refused. The agent takes
 * no vote of these masters, and /readyz says so. */
Test(layouts, a_quorum_that_cannot_note_the_layout_is_not_ready)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = start_agent("012", "");
    cr_assert(eventually(is_ready(agent)));
    cr_assert_eq(unnoted(agent), 0u);
    for (size_t i = 0; i < 2; i++)
        master_do(i, "SET lockagent:layouts x");
    cr_assert(eventually_within(20000, !is_ready(agent)));
    cr_assert(eventually(unnoted(agent) == 2), "%s", get(agent, "/readyz")->body);
    cr_assert(eventually(metric(agent, "lockagent_group_masters_voting{group=\"main\"}") == 1));
    expect(acquire(agent, "k", "ttl=2s"), 503, "quorum_unavailable");
    for (size_t i = 0; i < 2; i++)
        master_do(i, "DEL lockagent:layouts");
    cr_assert(eventually(is_ready(agent)), "%s", get(agent, "/readyz")->body);
    cr_assert(eventually(unnoted(agent) == 0), "%s", get(agent, "/readyz")->body);
    expect(acquire(agent, "k", "ttl=2s&wait=5s"), 201, NULL);
}

/* A layout of agents that are gone for certain need not be waited for. */
Test(layouts, trust_forgets_the_layouts_of_agents_that_are_gone)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", "");
    cr_assert(eventually(is_ready(a)));
    agent_kill(a);
    const struct outcome outcome = run_command("trust", "012", POLICY("kind: rw"));
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    struct agent *b = start_agent("012", POLICY("kind: rw"));
    cr_assert(eventually_within(5000, is_ready(b)), "%s", get(b, "/readyz")->body);
    cr_assert_eq(agent_logged(b, "no new locks: agents at work have another layout", NULL), 0u);
}

/* Also on a master whose marker it cannot read. */
Test(layouts, trust_forgets_them_on_each_master_that_it_reaches)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", "");
    cr_assert(eventually(is_ready(a)));
    agent_kill(a);
    master_do(0, "ACL SETUSER default -eval -evalsha");
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(master_do(i, "EXISTS lockagent:layouts")->integer, 1, "master %zu", i);
    struct outcome outcome = run_command("trust", "012", POLICY("kind: rw"));
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(master_do(i, "EXISTS lockagent:layouts")->integer, 0, "master %zu", i);
    master_do(0, "ACL SETUSER default -del");
    outcome = run_command("trust", "012", POLICY("kind: rw"));
    cr_assert_not_null(strstr(outcome.out, "DEL: "), "%s%s", outcome.out, outcome.err);
}

/* The reason in the log is the other layout, also while masters are away. */
Test(layouts, the_log_names_the_layout_beside_masters_that_are_away)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", "");
    cr_assert(eventually(is_ready(a)));
    master_kill(3);
    master_kill(4);
    struct agent *b = start_agent("034", "");
    cr_assert(eventually(agent_logged(b, "no new locks: agents at work have another layout",
                                      "knows agents at work with masters") == 1),
              "%s", agent_log_line(b, "no new locks: agents at work have another layout", NULL));
}

/* `lockagent run` is an agent like the others. */
Test(layouts, run_is_refused_as_well)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *a = start_agent("012", "");
    cr_assert(eventually(is_ready(a)));
    const struct agent_options options = {
        .masters = list_of("034"), .extra = SHORT, .node_timeout = TIMEOUT};
    const struct outcome outcome =
        agent_run((const char *const[]){"run", "--config", agent_config(&options), "--no-wait", "k",
                                        "--", "touch", world_path("ran"), NULL});
    cr_assert_neq(outcome.exit_status, 0, "%s", outcome.err);
    cr_assert_not_null(strstr(outcome.err, "another layout"), "%s", outcome.err);
}
