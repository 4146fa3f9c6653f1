/* Masters that lack commands, as those of managed services may, or whose ACL forbids them (D5.7).
 * The agent serves without those that it can do without, and says once which one is missing, and
 * the cost of that. It takes no lock on a master that runs no scripts. */
#include "harness.h"

#include <string.h>

TestSuite(lacking, .init = world_open, .fini = world_close, .timeout = 120);

#define REFUSES "master refuses a command"
#define UNGUARDED "      guard: off\n"
#define SHORT /* The masters are new, and vote after 4 s. */                                       \
    "limits: {max_ttl: 3s}\npolicies: [{match: '*', ttl: 3s}]\n"
enum { MASTERS = 3 };

/* Starts masters without the commands of `lines`, which rename them away. The agents log in as a
 * user with all rights. */
static void masters_without(const char *lines)
{
    masters_start_with(MASTERS, MASTERS_FORGETFUL, "--include", write_file("lacks.conf", lines));
}

static struct agent *agent_of(const char *group, bool not_ready)
{
    return agent_start(
        &(struct agent_options){.group = group, .extra = SHORT, .not_ready = not_ready});
}

/* Returns how many masters this agent has reported for the command. */
static size_t said(const struct agent *agent, const char *command)
{
    return agent_logged(agent, REFUSES, format("\"command\":\"%s\"", command));
}

/* A lock is granted, renewed, handed over, released, and taken again. */
static void expect_service(const struct agent *agent)
{
    const struct reply *granted = acquire_free(agent, "k", "ttl=3s");
    expect(renew(agent, "k", token(granted), "ttl=3s"), 200, NULL);
    const int waiter = wire_request(agent, "POST", "/locks/k?ttl=3s&wait=10s", NULL);
    cr_assert(eventually(waiting_at(agent) == 1));
    give_back(agent, "k", token(granted));
    const struct reply *next = wire_receive(waiter, PATIENCE_MS);
    expect(next, 201, NULL);
    give_back(agent, "k", token(next));
    wire_close(waiter);
    granted = acquire_free(agent, "k", "ttl=3s");
    give_back(agent, "k", token(granted));
}

static void expect_logged(const struct agent *agent, const char *part)
{
    cr_assert_not_null(agent_log_line(agent, REFUSES, part), "%s is missing in:\n%s", part,
                       read_whole_file(agent->log));
}

/* Expects that no lock is ever granted, and that /readyz names the command that is missing. */
static void expect_refused(const char *group, const char *why)
{
    struct agent *agent = agent_of(group, true);
    cr_assert(eventually(strstr(get(agent, "/readyz")->body, why) != NULL), "%s",
              get(agent, "/readyz")->body);
    for (int i = 0; i < 10; i++) {
        expect(acquire(agent, "k", "ttl=3s"), 503, "quorum_unavailable");
        sleep_ms(50); /* There are new connections meanwhile. */
    }
    cr_assert_eq(masters_with("lock:k"), 0u);
    cr_assert_eq(get(agent, "/readyz")->status, 503);
    cr_assert_eq(agent_logged(agent, "master state changed", why), (size_t)MASTERS,
                 "once for each master");
}

/* The agent reads maxmemory-policy by INFO, so CONFIG is not needed at all. */
Test(lacking, config_is_not_needed)
{
    masters_without("rename-command CONFIG \"\"\n");
    struct agent *agent = agent_of(NULL, false);
    expect_service(agent);
    cr_assert_eq(agent_logged(agent, REFUSES, NULL), 0u, "%s", read_whole_file(agent->log));
}

Test(lacking, client_is_missed_once)
{
    masters_without("rename-command CLIENT \"\"\n");
    struct agent *agent = agent_of(NULL, false);
    cr_assert(eventually(said(agent, "CLIENT ID") == MASTERS));
    expect_logged(agent, "nocommand: the server has no such command");
    expect_logged(agent, "commands in flight on a lost connection may run after it");
    expect_logged(agent, "\"level\":\"warn\"");
    expect_service(agent);
    master_kill(0);
    cr_assert(eventually(strstr(get(agent, "/readyz")->body, "\"up\":2") != NULL));
    master_start(0);
    cr_assert(eventually(strstr(get(agent, "/readyz")->body, "\"up\":3") != NULL));
    sleep_ms(300); /* It would come with the end of the greeting. */
    cr_assert_eq(said(agent, "CLIENT ID"), (size_t)MASTERS, "once for each master");
}

/* Returns how often the master came up. */
static size_t greeted(const struct agent *agent)
{
    return agent_logged(agent, "master state changed", "\"state\":\"up\"");
}

/* It is said as well if the ACL forbids the command, and again after it was allowed. */
Test(lacking, a_right_that_is_taken_away_again_is_missed_again)
{
    const char *acl = write_file(
        "users.acl",
        "user default on nopass ~* &* +@all\nuser locker on >pw ~* &* +@all -client|id\n");
    masters_start_with(1, MASTERS_FORGETFUL, "--aclfile", acl);
    struct agent *agent = agent_start(&(struct agent_options){
        .masters = format("['redis://locker:pw@%s']", master_url(0) + strlen("redis://"))});
    cr_assert(eventually(said(agent, "CLIENT ID") == 1));
    expect_logged(agent, "noperm: the ACL does not allow what the agent needs");
    master_do(0, "ACL SETUSER locker +client|id");
    master_do(0, "CLIENT KILL USER locker");
    cr_assert(eventually(greeted(agent) == 2 && get(agent, "/readyz")->status == 200));
    cr_assert_eq(said(agent, "CLIENT ID"), 1u);
    master_do(0, "ACL SETUSER locker -client|id");
    master_do(0, "CLIENT KILL USER locker");
    cr_assert(eventually(said(agent, "CLIENT ID") == 2));
}

/* Scripts of the guard read the clock. Without a guard the agent can do without it. */
Test(lacking, time_is_missed_once_by_groups_without_a_guard)
{
    const char *acl = write_file(
        "users.acl", "user default on nopass ~* &* +@all\nuser locker on >pw ~* &* +@all -time\n");
    masters_start_with(1, MASTERS_FORGETFUL, "--aclfile", acl);
    const char *masters = format("['redis://locker:pw@%s']", master_url(0) + strlen("redis://"));
    struct agent *agent =
        agent_start(&(struct agent_options){.group = UNGUARDED, .masters = masters});
    cr_assert(eventually(said(agent, "TIME") == 1));
    expect_logged(agent, "commands that create a key have no deadline");
    expect_service(agent);
    struct agent *guarded =
        agent_start(&(struct agent_options){.masters = masters, .not_ready = true});
    const char *why = "EVALSHA of the marker: noperm: the ACL does not allow what the scripts need";
    cr_assert(eventually(strstr(get(guarded, "/readyz")->body, why) != NULL), "%s",
              get(guarded, "/readyz")->body);
}

/* The server's error does not name the command. */
Test(lacking, a_command_of_the_scripts_is_missing)
{
    masters_without("rename-command HSET \"\"\n");
    expect_refused(NULL, "a script needs a command that the server does not have");
}

/* No script of the connection runs it, so the master stays up. Locks are granted, and no renewal
 * succeeds. */
Test(lacking, a_command_of_renewals_is_missing)
{
    masters_without("rename-command PEXPIRE \"\"\n");
    struct agent *agent = agent_of(NULL, false);
    const struct reply *granted = acquire_free(agent, "k", "ttl=3s");
    cr_assert_eq(renew(agent, "k", token(granted), "ttl=3s")->status, 503);
    give_back(agent, "k", token(granted));
    acquire_free(agent, "watched", "ttl=3s&renew=agent");
    cr_assert(eventually(!held_here(agent, "watched")));
    cr_assert_not_null(strstr(get(agent, "/readyz")->body, "\"up\":3"), "%s",
                       get(agent, "/readyz")->body);
    cr_assert_eq(get(agent, "/readyz")->status, 200);
}

/* Without INFO the agent cannot see whether the masters may evict keys. */
Test(lacking, info_is_missed_once)
{
    masters_without("rename-command INFO \"\"\n");
    struct agent *agent = agent_of(NULL, false);
    cr_assert(eventually(said(agent, "INFO") == MASTERS));
    expect_logged(agent, "role and maxmemory-policy are not known");
    expect_service(agent);
    cr_assert_eq(said(agent, "INFO"), (size_t)MASTERS);
}

Test(lacking, all_of_them_at_once)
{
    masters_without("rename-command CLIENT \"\"\nrename-command CONFIG \"\"\n"
                    "rename-command INFO \"\"\n");
    struct agent *agent = agent_of(UNGUARDED, false);
    cr_assert(eventually(said(agent, "CLIENT ID") == MASTERS && said(agent, "INFO") == MASTERS &&
                         said(agent, "CLIENT SETNAME") == MASTERS));
    expect_service(agent);
}

/* Takes a lock that no other caller wants, and gives it back. */
static bool takes(const struct agent *agent, const char *key)
{
    const struct reply *granted = acquire_free(agent, key, "ttl=3s");
    give_back(agent, key, token(granted));
    return true;
}

/* Locks are taken by script then (R24). An agent tries native commands after a second. */
Test(lacking, multi_is_missed_once)
{
    masters_without("rename-command MULTI \"\"\nrename-command EXEC \"\"\n");
    struct agent *agent = agent_of(NULL, false);
    cr_assert(eventually(takes(agent, "free") && said(agent, "MULTI") == MASTERS));
    expect_logged(agent, "locks are taken by script");
    expect_service(agent);
    cr_assert_eq(said(agent, "MULTI"), (size_t)MASTERS);
}

/* The scripts behind such a call are queued, and the connection is ended. So it is not tried again
 * on the next connection. */
Test(lacking, exec_is_missed_once)
{
    static const char *const down = "\"state\":\"down\"";
    masters_without("rename-command EXEC \"\"\n");
    struct agent *agent = agent_of(NULL, false);
    unsigned i = 0;
    cr_assert(eventually(acquire(agent, format("k%u", i++), "ttl=1s") &&
                         said(agent, "MULTI") == MASTERS));
    cr_assert(eventually(agent_logged(agent, "master state changed", down) == MASTERS &&
                         get(agent, "/readyz")->status == 200));
    const int64_t until = boottime_ms() + 3000; /* Native commands are tried after a second. */
    while (boottime_ms() < until)
        takes(agent, "other");
    cr_assert_eq(agent_logged(agent, "master state changed", down), (size_t)MASTERS);
    cr_assert_eq(said(agent, "MULTI"), (size_t)MASTERS);
}

/* The agent cannot see whether the masters compare and delete (R24). */
Test(lacking, command_is_missed_once)
{
    masters_without("rename-command COMMAND \"\"\n");
    struct agent *agent = agent_of(NULL, false);
    cr_assert(eventually(said(agent, "COMMAND LIST") == MASTERS));
    expect_logged(agent, "locks are released by script");
    expect_service(agent);
    cr_assert_eq(said(agent, "COMMAND LIST"), (size_t)MASTERS);
}

/* The agent needs EVALSHA and SCRIPT LOAD alone. The command line needs EVAL. */
Test(lacking, without_eval_agents_serve_and_trust_names_it)
{
    masters_without("rename-command EVAL \"\"\n");
    struct agent *agent = agent_of(NULL, false);
    expect_service(agent);
    cr_assert_eq(agent_logged(agent, REFUSES, NULL), 0u);
    struct outcome outcome = agent_run((const char *[]){"trust", agent->config, NULL});
    cr_assert_neq(outcome.exit_status, 0);
    cr_assert_not_null(strstr(outcome.out, "EVAL: nocommand: the server has no such command"),
                       "%s%s", outcome.out, outcome.err);
    outcome = agent_run((const char *[]){"trust", "--new", agent->config, NULL});
    cr_assert_not_null(strstr(outcome.out, "EVAL: nocommand: the server has no such command"),
                       "%s%s", outcome.out, outcome.err);
}

/* Native commands would grant locks which no script can renew or release. */
Test(lacking, without_evalsha_no_lock_is_granted)
{
    masters_without("rename-command EVALSHA \"\"\n");
    expect_refused(UNGUARDED, "EVALSHA: nocommand: the server has no such command");
}

Test(lacking, without_evalsha_no_lock_is_granted_by_guarded_groups)
{
    masters_without("rename-command EVALSHA \"\"\n");
    expect_refused(NULL, "EVALSHA of the marker: nocommand: the server has no such command");
}

Test(lacking, without_script_no_lock_is_granted)
{
    masters_without("rename-command SCRIPT \"\"\n");
    expect_refused(UNGUARDED, "SCRIPT LOAD: nocommand: the server has no such command");
}

/* `lockagent check --ask` names, before the first agent, the commands that agents would miss. */
Test(lacking, check_names_each_command_that_is_missing)
{
    masters_without("rename-command EVALSHA \"\"\nrename-command CLIENT \"\"\n"
                    "rename-command SCRIPT \"\"\nrename-command INFO \"\"\n");
    const char *config = agent_config(NULL);
    struct outcome outcome = agent_run((const char *[]){"check", "--ask", config, NULL});
    cr_assert_eq(outcome.exit_status, 1);
    static const char *const lines[] = {
        "EVALSHA: nocommand: the server has no such command: no lock can be taken",
        "SCRIPT: nocommand: the server has no such command: no lock can be taken",
        "INFO: nocommand: the server has no such command: role and",
        "CLIENT: nocommand: the server has no such command: commands in flight",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        cr_assert_not_null(strstr(outcome.out, lines[i]), "%s is missing in:\n%s", lines[i],
                           outcome.out);
    cr_assert_null(strstr(outcome.out, "the same server"), "masters without a run id:\n%s",
                   outcome.out);
}

/* Also a command that scripts call: the agent itself would miss it with the first renewal. */
Test(lacking, check_names_a_command_of_the_scripts_that_is_missing)
{
    masters_without("rename-command PEXPIRE \"\"\n");
    const char *config = agent_config(&(struct agent_options){.group = "      durable: false\n"});
    struct outcome outcome = agent_run((const char *[]){"check", "--ask", config, NULL});
    cr_assert_eq(outcome.exit_status, 1, "%s", outcome.out);
    for (size_t i = 0; i < MASTERS; i++)
        cr_assert_not_null(
            strstr(outcome.out, format("main: %s: pexpire: nocommand: scripts that need it fail\n",
                                       master_url(i))),
            "%s", outcome.out);
}
