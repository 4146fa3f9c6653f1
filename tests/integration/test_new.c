/* New groups (D5.3): they wait out their guard, unless their installer has run `lockagent trust
 * --new` before the first agent. The command votes for masters that no agent has ever used, and for
 * no others. */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(new, .init = world_open, .fini = world_close, .timeout = 60);

/* A short longest lease makes a short guard: 3 s. */
#define SHORT "limits: {max_ttl: 2s}\n"

static double votes(const struct agent *agent)
{
    return metric(agent, "lockagent_group_masters_voting{group=\"main\"}");
}

static struct outcome trust_new(const char *config)
{
    return agent_run((const char *[]){"trust", "--new", config, NULL});
}

static void expect_said(struct outcome outcome, int code, const char *text)
{
    cr_assert_eq(outcome.exit_status, code, "%d: %s%s", outcome.exit_status, outcome.out,
                 outcome.err);
    cr_assert_not_null(strstr(outcome.out, text), "%s%s", outcome.out, outcome.err);
}

/* One line of a shell, with the program as $0 and the configuration as $1. */
static struct outcome shell(const char *line, const char *config)
{
    const char *program = format("%s/lockagent", getenv("LOCKAGENT_BUILD"));
    return program_run("bash", (const char *[]){"-c", line, program, config, NULL}, NULL);
}

Test(new, a_group_that_nobody_has_marked_waits_and_says_so)
{
    masters_start_new(3, MASTERS_DURABLE);
    struct agent *agent = agent_start(&(struct agent_options){.not_ready = true, .extra = SHORT});
    const char *words = "the masters are new: they vote in ";
    cr_assert(eventually(strstr(get(agent, "/readyz")->body, words) != NULL), "%s",
              get(agent, "/readyz")->body);
    const struct reply *refused = acquire(agent, "k", "ttl=1s");
    expect(refused, 503, "quorum_unavailable");
    cr_assert_not_null(strstr(string(refused, "detail"), words), "%s", refused->body);
    cr_assert_not_null(
        strstr(string(refused, "detail"), "s; or run lockagent trust --new before the first agent"),
        "%s", refused->body);
    cr_assert_gt(number(refused, "retry_after_ms"), 500, "%s", refused->body);
    cr_assert_leq(number(refused, "retry_after_ms"), 3100, "%s", refused->body);
    expect(acquire(agent, "k", "ttl=1s&wait=10s"), 201, NULL);
    cr_assert(eventually(votes(agent) == 3));
}

/* `lockagent run` says the same, and an agent that starts logs it. */
Test(new, a_command_and_a_log_say_so_too)
{
    masters_start_new(3, MASTERS_DURABLE);
    const struct agent_options options = {.not_ready = true, .extra = "limits: {max_ttl: 9s}\n"};
    struct agent *agent = agent_start(&options);
    const struct outcome outcome = agent_run((const char *[]){
        "run", "--config", agent->config, "--no-wait", "k", "--", "echo", "never", NULL});
    cr_assert_eq(outcome.exit_status, 1, "%s", outcome.err);
    cr_assert_not_null(
        strstr(outcome.err, "k: not acquired: group main: the masters are new: they vote in "),
        "%s", outcome.err);
    cr_assert(eventually(agent_logged(agent, "no lock can be granted yet",
                                      "group main: the masters are new: they vote in ") == 1));
}

Test(new, a_group_votes_at_once_after_its_installer)
{
    masters_start_new(5, MASTERS_DURABLE);
    const char *config = agent_config(NULL);
    expect_said(trust_new(config), 0, "main: new: all 5 masters vote now\n");
    struct agent *agent = agent_start(&(struct agent_options){.not_ready = true});
    /* A guard would last for 61 s. */
    expect(acquire(agent, "k", "ttl=2s&wait=20s"), 201, NULL);
    cr_assert_eq(agent_logged(agent, "master state changed", "guarded_ms"), 0u);
    cr_assert(eventually(votes(agent) == 5));
    cr_assert_eq(masters_with("lockagent:votes"), 5u);
    const char *epoch = format("%s", master_do(3, "HGET lockagent:marker epoch")->str);
    expect_said(trust_new(config), 0, "main: all masters vote already\n");
    cr_assert_str_eq(master_do(3, "HGET lockagent:marker epoch")->str, epoch);
}

/* A second `up` after a restart, too. */
Test(new, durable_masters_that_restart_need_no_installer)
{
    masters_start_new(3, MASTERS_DURABLE);
    const char *config = agent_config(NULL);
    expect_said(trust_new(config), 0, "main: new: all 3 masters vote now\n");
    for (size_t i = 0; i < 3; i++) {
        master_kill(i);
        master_start(i);
    }
    expect_said(trust_new(config), 0, "main: all masters vote already\n");
    struct agent *agent = agent_start(NULL);
    expect(acquire(agent, "k", "ttl=2s"), 201, NULL);
    cr_assert_eq(agent_logged(agent, "master state changed", "guarded_ms"), 0u);
}

/* To an agent that starts then they look like a group that is new. */
static void flush_all_under_a_hold(bool installer)
{
    const struct agent_options options = {.extra = "limits: {max_ttl: 4s}\n", .not_ready = true};
    masters_start(5, MASTERS_DURABLE);
    struct agent *holder = agent_start(&options);
    const struct reply *granted = acquire(holder, "k", "ttl=4s&wait=5s");
    expect(granted, 201, NULL);
    agent_kill(holder); /* so that only the rival has ever known these masters */
    for (size_t i = 0; i < 5; i++)
        master_do(i, "FLUSHALL");
    struct agent *rival = agent_start(&options);
    if (installer) {
        cr_assert(eventually(masters_with("lockagent:marker") > 0));
        expect_said(trust_new(rival->config), 1, "main: agents have been here; the group votes");
    }
    expect(acquire(rival, "k", "ttl=1s&wait=15s"), 201, NULL);
    cr_assert_geq(boottime_ms(), number(granted, "valid_until_boottime_ms"), "two holders at once");
}

Test(new, flushall_on_all_durable_masters_lets_nobody_in)
{
    flush_all_under_a_hold(/* installer= */ false);
}

Test(new, nor_does_an_installer_that_comes_after_an_agent)
{
    flush_all_under_a_hold(/* installer= */ true);
}

/* It reports its findings, and changes nothing. */
Test(new, it_stops_where_agents_have_been)
{
    masters_start_new(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.not_ready = true});
    cr_assert(eventually(masters_with("lockagent:marker") == 3));
    const struct outcome outcome = trust_new(agent->config);
    expect_said(outcome, 1, "main: agents have been here; the group votes by itself in ");
    cr_assert_not_null(strstr(outcome.out, " s\n"));
    cr_assert_eq(masters_with("lockagent:votes"), 0u);
    cr_assert_eq(agent_stop(agent), 0);
    expect_said(trust_new(agent->config), 1, "main: agents have been here; ");
    cr_assert_eq(masters_with("lockagent:votes"), 0u);
}

/* D5.3: a master that votes does not wait for a guard. One votes, one is guarded for 21 s, and one
 * is new: the first two are a quorum. */
Test(new, it_says_when_a_quorum_votes)
{
    const struct agent_options options = {.not_ready = true, .extra = "limits: {max_ttl: 20s}\n"};
    masters_start(3, MASTERS_FORGETFUL);
    master_do(1, "FLUSHALL");
    master_kill(2);
    struct agent *agent = agent_start(&options);
    cr_assert(eventually(master_do(1, "EXISTS lockagent:marker")->integer == 1));
    agent_kill(agent);
    master_start(2);
    const struct outcome outcome = trust_new(agent_config(NULL)); /* max_ttl: 1m */
    const char *says = "agents have been here; the group votes by itself in ", *found;
    expect_said(outcome, 1, says);
    found = strstr(outcome.out, says) + strlen(says);
    cr_assert_leq(strtol(found, NULL, 10), 21, "%s", outcome.out);
}

/* One of the masters still has its data: the group is not new. */
Test(new, it_stops_where_one_master_is_old)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *config = agent_config(NULL);
    master_do(0, "FLUSHALL");
    master_do(2, "FLUSHALL");
    expect_said(trust_new(config), 1, "main: agents have been here; ");
    cr_assert_eq(masters_with("lockagent:votes"), 1u);
    cr_assert_eq(masters_with("lockagent:marker"), 1u);
}

Test(new, it_stops_where_a_master_does_not_answer)
{
    masters_start_new(3, MASTERS_FORGETFUL);
    const char *config = agent_config(NULL);
    master_kill(1);
    expect_said(trust_new(config), 1, format("main: %s: connect: ", master_url(1)));
    cr_assert_eq(masters_with("lockagent:marker"), 0u);
    master_start(1);
    expect_said(trust_new(config), 0, "main: new: all 3 masters vote now\n");
}

/* In the 2 s between its looks an agent comes, or a master forgets. Both tests fail if the command
 * leaves out its second look, and if it does not wait. */
Test(new, it_stops_where_an_agent_comes_meanwhile)
{
    masters_start_new(3, MASTERS_FORGETFUL);
    const char *config = agent_config(&(struct agent_options){.extra = SHORT});
    const struct outcome outcome =
        shell("\"$0\" trust --new \"$1\" & p=$!; sleep 0.5; timeout -s KILL 8 \"$0\" -c \"$1\" & "
              "wait $p; code=$?; kill $!; wait $!; exit $code",
              config);
    expect_said(outcome, 1, "main: an agent came meanwhile; the group votes by itself in ");
    cr_assert_eq(masters_with("lockagent:votes"), 0u);
}

/* The agent reaches one of them alone: the others get no vote either. */
Test(new, it_stops_where_an_agent_marks_one_master_meanwhile)
{
    masters_start_new(3, MASTERS_FORGETFUL);
    const char *config = agent_config(&(struct agent_options){.extra = SHORT});
    const char *of_one = agent_config(
        &(struct agent_options){.masters = format("['%s']", master_url(1)), .extra = SHORT});
    const struct outcome outcome = shell(
        format("\"$0\" trust --new \"$1\" & p=$!; sleep 0.5; timeout -s KILL 8 \"$0\" -c %s & "
               "wait $p; code=$?; kill $!; wait $!; exit $code",
               of_one),
        config);
    expect_said(outcome, 1, "main: an agent came meanwhile; the group votes by itself in ");
    cr_assert_eq(masters_with("lockagent:marker"), 1u);
    cr_assert_eq(masters_with("lockagent:votes"), 0u);
}

Test(new, it_stops_where_a_master_forgets_meanwhile)
{
    masters_start_new(3, MASTERS_FORGETFUL);
    const char *config = agent_config(NULL);
    const struct outcome outcome = shell(
        format("\"$0\" trust --new \"$1\" & p=$!; sleep 0.7; redis-cli -s %s flushall; wait $p",
               master_url(1) + strlen("unix:")),
        config);
    expect_said(outcome, 1, format("main: %s: lost its data", master_url(1)));
    cr_assert_eq(masters_with("lockagent:marker"), 0u);
}

/* Killed between its passes it leaves nothing that stays. */
Test(new, it_may_be_killed)
{
    masters_start_new(3, MASTERS_FORGETFUL);
    const char *config = agent_config(NULL);
    shell("timeout -s KILL 1 \"$0\" trust --new \"$1\"", config);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(master_do(i, "DBSIZE")->integer, 1, "its own key, which goes by itself");
    expect_said(trust_new(config), 0, "main: new: all 3 masters vote now\n");
    struct agent *agent = agent_start(NULL);
    expect(acquire(agent, "k", "ttl=2s"), 201, NULL);
    cr_assert(eventually_within(6000, master_do(1, "KEYS lockagent:new:*")->elements == 0));
}

/* Run beside run: one of them at least marks each master, and none marks it twice. */
Test(new, two_at_once)
{
    masters_start_new(5, MASTERS_FORGETFUL);
    const char *config = agent_config(NULL);
    const struct outcome outcome =
        shell("\"$0\" trust --new \"$1\" & \"$0\" trust --new \"$1\"; wait", config);
    cr_assert_not_null(strstr(outcome.out, "main: new: all 5 masters vote now\n"), "%s",
                       outcome.out);
    struct agent *agent = agent_start(NULL);
    cr_assert_eq(votes(agent), 5);
    expect(acquire(agent, "k", "ttl=2s"), 201, NULL);
    cr_assert_eq(agent_logged(agent, "master state changed", "guarded_ms"), 0u);
}

/* One server under two names has one marker and one vote. */
Test(new, it_stops_if_a_server_is_named_twice)
{
    masters_start_new(2, MASTERS_FORGETFUL);
    const char *port = strrchr(master_url(0), ':') + 1;
    const char *config = agent_config(
        &(struct agent_options){.masters = format("['%s', 'redis://localhost:%s', '%s']",
                                                  master_url(0), port, master_url(1))});
    const char *finding = format(
        "main: redis://localhost:%s: the same server as %s: it never votes\n", port, master_url(0));
    expect_said(trust_new(config), 1, finding);
    cr_assert_eq(masters_with("lockagent:votes"), 0u);
    expect_said(agent_run((const char *[]){"trust", config, NULL}), 1, finding);
    cr_assert_eq(masters_with("lockagent:votes"), 0u);
}

/* Groups are new or old each for itself, and one without guard needs nothing. */
Test(new, groups_are_independent)
{
    masters_start_new(5, MASTERS_FORGETFUL);
    master_mark(3);
    const char *config = agent_config(&(struct agent_options){
        .masters = format("['%s']", master_url(0)),
        .group = format("      durable: true\n    old:\n      masters: ['%s', '%s']\n"
                        "    off:\n      masters: ['%s']\n      guard: off\n",
                        master_url(2), master_url(3), master_url(1)),
        .extra = "policies:\n  - {match: '*', group: main}\n"});
    const struct outcome outcome = trust_new(config);
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    cr_assert_not_null(strstr(outcome.out, "main: new: all 1 masters vote now\n"), "%s",
                       outcome.out);
    cr_assert_not_null(strstr(outcome.out, "old: agents have been here; "), "%s", outcome.out);
    cr_assert_not_null(strstr(outcome.out, "off: guard: off: nothing to do\n"), "%s", outcome.out);
    cr_assert_eq(masters_with("lockagent:votes"), 2u);
}

/* Masters that are not durable begin a new epoch with every run, so a vote for the last one is of
 * no use. */
Test(new, a_vote_of_another_run_is_none_where_masters_are_not_durable)
{
    masters_start_new(3, MASTERS_DURABLE);
    const char *config =
        agent_config(&(struct agent_options){.group = "      durable: false\n", .extra = SHORT});
    expect_said(trust_new(config), 0, "main: new: all 3 masters vote now\n");
    expect_said(trust_new(config), 0, "main: all masters vote already\n");
    master_kill(1);
    master_start(1);
    expect_said(trust_new(config), 1, "main: agents have been here; 2 of its 3 masters vote\n");
}
