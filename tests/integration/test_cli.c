/* The command line, reload by SIGHUP, and the effects of configurations (D6, D8). */
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

TestSuite(cli, .init = world_open, .fini = world_close, .timeout = 240);

static struct outcome lockagent(const char *a, const char *b, const char *c, const char *d)
{
    const char *arguments[] = {a, b, c, d, NULL};
    return agent_run(arguments);
}

Test(cli, usage)
{
    struct outcome version = lockagent("--version", NULL, NULL, NULL);
    cr_assert_eq(version.exit_status, 0);
    cr_assert_eq(strncmp(version.out, "lockagent ", 10), 0, "%s", version.out);
    struct outcome help = lockagent("--help", NULL, NULL, NULL);
    cr_assert_eq(help.exit_status, 0);
    static const char *const words[] = {"serve", "check", "healthcheck", "--config", "--version"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        cr_assert_not_null(strstr(help.out, words[i]), "%s is missing in --help", words[i]);
    const char *const wrong[][4] = {
        {"dance"},
        {"--dance"},
        {"check"},
        {"check", "a", "b"},
        {"capacity", "x"},
        {"capacity", "--pods", "0"},
        {"capacity", "--rate", "1e3"},
        {"capacity", "--keys", "5000000000000"},
        {"capacity", "--memory", "5000000000000B"},
        {"serve", "too", "many"},
        {"serve", "--config"},
        {"-x"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        const struct outcome outcome =
            lockagent(wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3]);
        cr_assert_eq(outcome.exit_status, 2, "%s %s: %d %s", wrong[i][0],
                     wrong[i][1] ? wrong[i][1] : "", outcome.exit_status, outcome.err);
        cr_assert_str_not_empty(outcome.err);
        cr_assert_str_empty(outcome.out);
    }
}

/* `trust --ask` once gave every master its vote. */
Test(cli, an_option_of_another_command_is_refused)
{
    static const struct {
        const char *arguments[4], *said;
    } wrong[] = {
        {{"trust", "--ask", "x"}, "trust has no option --ask"},
        {{"check", "--new", "x"}, "check has no option --new"},
        {{"check", "--print-config", "x"}, "check has no option --print-config"},
        {{"check", "-c", "x", "x"}, "check has no option --config"},
        {{"layouts", "--ready", "x"}, "layouts has no option --ready"},
        {{"layouts", "x", "--yes", "x"}, "layouts has no option --yes"},
        {{"unlock", "--ask", "x", "k"}, "unlock has no option --ask"},
        {{"serve", "--ready"}, "serve has no option --ready"},
        {{"--new"}, "serve has no option --new"},
        {{"healthcheck", "--ask"}, "healthcheck has no option --ask"},
        {{"docs", "-s", "a=b", "config"}, "docs has no option --set"},
        {{"--ready", "run", "k"}, "its options come after the command: run"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        const char *const *a = wrong[i].arguments;
        const struct outcome outcome = lockagent(a[0], a[1], a[2], a[3]);
        cr_assert_eq(outcome.exit_status, 2, "%s: %d", wrong[i].said, outcome.exit_status);
        cr_assert_not_null(strstr(outcome.err, wrong[i].said), "%s", outcome.err);
        cr_assert_str_empty(outcome.out);
    }
}

static size_t lines_of(const char *text)
{
    size_t lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

Test(cli, check)
{
    const char *good =
        write_file("good.yaml", "redis: {groups: {main: {masters: [redis://127.0.0.1:7001]}}}\n");
    struct outcome outcome = lockagent("check", good, NULL, NULL);
    cr_assert_eq(outcome.exit_status, 0, "%s", outcome.err);
    cr_assert_str_empty(outcome.err);

    const char *bad = write_file(
        "bad.yaml", "listne: 127.0.0.1:0\n"
                    "redis:\n  groups:\n    main:\n      masters: [redis://127.0.0.1:7001]\n"
                    "      node_timeout: fast\n"
                    "limits: {locks: -3, max_tll: 1s}\n");
    outcome = lockagent("check", bad, NULL, NULL);
    cr_assert_eq(outcome.exit_status, 1);
    static const char *const messages[] = {"bad.yaml:1:1", "listne", "listen",      "bad.yaml:6:21",
                                           "node_timeout", "fast",   "bad.yaml:7:", "locks",
                                           "max_tll",      "max_ttl"};
    for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++)
        cr_assert_not_null(strstr(outcome.err, messages[i]), "%s is missing in:\n%s", messages[i],
                           outcome.err);
    cr_assert_eq(lines_of(outcome.err), 4u, "one line per error, all at once:\n%s", outcome.err);
    /* serve says the same and does not start. */
    const struct outcome serve = lockagent("serve", "--config", bad, NULL);
    cr_assert_neq(serve.exit_status, 0);
    cr_assert_not_null(strstr(serve.err, "listne"));
    cr_assert_eq(lockagent("check", world_path("nothing-here"), NULL, NULL).exit_status, 1);
    cr_assert_eq(lockagent("check", write_file("empty.yaml", ""), NULL, NULL).exit_status, 1);
    const char *no_token = write_file(
        "remote.yaml",
        "listen: 0.0.0.0:8080\nredis: {groups: {main: {masters: [redis://127.0.0.1:1]}}}\n");
    cr_assert_eq(lockagent("check", no_token, NULL, NULL).exit_status, 1,
                 "a remote listener needs a token (D9)");
}

static void expect_told(const struct outcome *outcome, const char *text)
{
    cr_assert_not_null(strstr(outcome->out, text), "%s is missing in:\n%s%s", text, outcome->out,
                       outcome->err);
}

/* All that is wrong with each master, and nothing is written there. */
Test(cli, check_asks_the_masters)
{
    masters_start_new(3, MASTERS_DURABLE);
    const char *config = agent_config(
        &(struct agent_options){.group = "      username: default\n      durable: true\n"});
    struct outcome outcome = lockagent("check", "--ask", config, NULL);
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    expect_told(&outcome, ": ok: version ");
    expect_told(&outcome, "main: 3 of 3 masters answer, 2 are needed; no agent has been here: "
                          "lockagent trust --new gives them their first votes\n");
    expect_told(&outcome, format("%s: ok\n", config));
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(master_do(i, "DBSIZE")->integer, 0, "master %zu", i);

    master_do(0, "CONFIG SET appendfsync everysec");
    master_do(0, "CONFIG SET no-appendfsync-on-rewrite yes");
    master_do(0, "CONFIG SET maxmemory 100mb");
    master_do(0, "CONFIG SET maxmemory-policy allkeys-lru");
    master_do(1, "ACL SETUSER default -time -eval");
    outcome = lockagent("check", "--ask", config, NULL);
    cr_assert_eq(outcome.exit_status, 1, "%s", outcome.out);
    expect_told(&outcome,
                ": may evict keys: maxmemory-policy is allkeys-lru; needed: noeviction\n");
    expect_told(&outcome,
                ": durable is true, and appendfsync is everysec: a crash may forget keys; "
                "needed: always\n");
    expect_told(&outcome, ": durable is true, and no-appendfsync-on-rewrite is yes: a crash may "
                          "forget keys; needed: no\n");
    expect_told(&outcome, ": TIME: ");
    expect_told(&outcome, ": a script may not read keys with the prefix \"lockagent:\": ");
    expect_told(&outcome, ": a script may not read keys with the prefix \"lock:\": ");
    cr_assert_eq(lines_of(outcome.out), 8u, "%s", outcome.out);

    master_do(1, "ACL SETUSER default +@all");
    master_kill(1);
    master_kill(2);
    outcome = lockagent("check", "--ask", config, NULL);
    expect_told(&outcome, ": connect: ");
    expect_told(&outcome, "main: 1 of 3 masters answer, 2 are needed: no lock can be granted\n");
}

/* D5.3: `trust --new` is for masters that no agent has ever used. One master that has a marker is
 * enough: an agent has been there, and the others may have forgotten. */
Test(cli, check_calls_no_group_new_that_an_agent_has_used)
{
    masters_start_new(3, MASTERS_DURABLE);
    const char *config = agent_config(&(struct agent_options){0});
    master_do(1, "HSET lockagent:marker epoch 0123456789abcdef");
    struct outcome outcome = lockagent("check", "--ask", config, NULL);
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    expect_told(&outcome, "main: 3 of 3 masters answer, 2 are needed\n");
    cr_assert_null(strstr(outcome.out, "--new"), "%s", outcome.out);
    /* Without a guard no agent leaves a marker, and trust --new does nothing. */
    master_do(1, "DEL lockagent:marker");
    config = agent_config(&(struct agent_options){.group = "      guard: off\n"});
    outcome = lockagent("check", "--ask", config, NULL);
    expect_told(&outcome, "main: 3 of 3 masters answer, 2 are needed\n");
}

/* Two groups have one prefix. The user may use it in the first group only. */
Test(cli, check_looks_at_a_prefix_in_each_group)
{
    masters_start_new(2, MASTERS_DURABLE);
    master_do(1, "ACL SETUSER default resetkeys ~lockagent:*");
    const char *config = agent_config(&(struct agent_options){
        .masters = format("['%s']", master_url(0)),
        .group = format("    other: {masters: ['%s']}\n", master_url(1)),
        .extra = "policies: [{match: 'a/*'}, {match: '*', group: other}]\n"});
    const struct outcome outcome = lockagent("check", "--ask", config, NULL);
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    expect_told(&outcome, format("main: %s: ok: ", master_url(0)));
    expect_told(
        &outcome,
        format("other: %s: a script may not read keys with the prefix \"lock:\": ", master_url(1)));
}

/* Expects a finding about a clock that is 5 s off. */
static void expect_clock_off(const struct outcome *outcome, size_t master, const char *way)
{
    const char *begins = format("main: %s: its clock is ", master_url(master)),
               *line = strstr(outcome->out, begins);
    char said[16] = "";
    int ms = 0;
    cr_assert_not_null(line, "%s is missing in:\n%s", begins, outcome->out);
    cr_assert_eq(sscanf(line + strlen(begins), "%d ms %15s", &ms, said), 2, "%s", line);
    cr_assert(ms > 4000 && ms < 6000, "%s", line);
    cr_assert_str_eq(said, way, "%s", line);
}

/* D5.4: which way a clock is off, and two names of one server. */
Test(cli, check_finds_clocks_that_are_off_and_twins)
{
    masters_start_with_clocks(3);
    master_clock(0, 5000);
    master_clock(1, -5000);
    struct agent_options options = {.group = "      durable: false\n"};
    struct outcome outcome = lockagent("check", "--ask", agent_config(&options), NULL);
    cr_assert_eq(outcome.exit_status, 1, "%s", outcome.out);
    expect_clock_off(&outcome, 0, "ahead");
    expect_clock_off(&outcome, 1, "behind");
    expect_told(&outcome, format("main: %s: ok: ", master_url(2)));
    master_clock(0, 0);
    master_clock(1, 0);
    const char *port = strrchr(master_url(0), ':') + 1;
    options.masters =
        format("['%s', 'redis://localhost:%s', '%s']", master_url(0), port, master_url(2));
    outcome = lockagent("check", "--ask", agent_config(&options), NULL);
    cr_assert_eq(outcome.exit_status, 1, "%s", outcome.out);
    expect_told(&outcome,
                format("main: redis://localhost:%s: the same server as %s\n", port, master_url(0)));
    cr_assert_eq(lines_of(outcome.out), 4u, "one finding alone:\n%s", outcome.out);
}

/* D5.7: the rights without guard and fencing are enough for the commands by hand as well. */
Test(cli, check_and_layouts_need_no_more_than_the_basic_acl)
{
    masters_start_with(1, MASTERS_FORGETFUL, "--aclfile",
                       format("%s/deploy/acl/basic.acl", getenv("LOCKAGENT_SOURCE")));
    master_do(0, "ACL SETUSER lockagent >pw");
    if (*masters_right_to_compare()) /* The files cannot name it (docs/masters.md). */
        master_do(0, "ACL SETUSER lockagent %s", masters_right_to_compare());
    const char *config = agent_config(&(struct agent_options){
        .masters = format("['redis://lockagent:pw@%s']", master_url(0) + strlen("redis://")),
        .group = "      guard: off\n",
        .extra = "policies: [{match: '*', fencing: off}]\n"});
    struct outcome outcome = lockagent("check", "--ask", config, NULL);
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    expect_told(&outcome, ": ok: version ");
    expect_told(&outcome, "main: 1 of 1 masters answer, 1 are needed\n");
    outcome = lockagent("layouts", config, NULL, NULL);
    cr_assert_eq(outcome.exit_status, 0, "%s%s", outcome.out, outcome.err);
    expect_told(&outcome, "main: guard: off: agents compare no layouts\n");
    const redisReply *refused = master_do(0, "ACL LOG");
    cr_assert_eq(refused->elements, 0, "%s", refused->element[0]->element[5]->str);
}

/* The masters ask for a password, and the configuration has none. */
Test(cli, check_and_trust_say_that_a_master_asks_for_a_password)
{
    masters_start_with(1, MASTERS_FORGETFUL, "--requirepass", "correct-horse");
    const char *config = agent_config(NULL);
    struct outcome outcome = lockagent("check", "--ask", config, NULL);
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    expect_told(&outcome, format("main: %s: INFO: noauth: ", master_url(0)));
    expect_told(&outcome, "main: 0 of 1 masters answer, 1 are needed: no lock can be granted\n");
    outcome = lockagent("trust", config, NULL, NULL);
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    expect_told(&outcome, format("main: %s: INFO: noauth: ", master_url(0)));
}

/* The server's own words name the fault. Those for a wrong password may quote it. */
Test(cli, check_repeats_what_the_master_said)
{
    masters_start_with(1, MASTERS_FORGETFUL, "--requirepass", "correct-horse");
    const char *address = master_url(0) + strlen("redis://");
    struct agent_options options = {.masters = format("['redis://:correct-horse@%s/99']", address)};
    struct outcome outcome = lockagent("check", "--ask", agent_config(&options), NULL);
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    expect_told(&outcome, ": SELECT: unexpected answer: ERR DB index is out of range\n");
    options.masters = format("['redis://:hunter2@%s']", address);
    outcome = lockagent("check", "--ask", agent_config(&options), NULL);
    cr_assert_eq(outcome.exit_status, 1, "%s%s", outcome.out, outcome.err);
    expect_told(&outcome, ": AUTH: ");
    cr_assert_null(strstr(outcome.out, "hunter2"), "%s", outcome.out);
}

/* An even number of masters is allowed, also for a roll-out from three to five. */
Test(cli, an_even_number_of_masters_gets_a_remark)
{
    static const char *const remarks[] = {
        [1] = NULL,
        [2] = "2 masters survive the loss of 0, no more than 1 would; 3 survive the loss of 1\n",
        [3] = NULL,
        [4] = "4 masters survive the loss of 1, no more than 3 would; 5 survive the loss of 2\n",
    };
    for (size_t count = 1; count <= 4; count++) {
        const char *list = "";
        for (size_t i = 0; i < count; i++)
            list = format("%s redis://127.0.0.1:%zu,", list, 7001 + i);
        const char *file =
            write_file("even.yaml", format("redis: {groups: {main: {masters: [%s]}}}\n", list));
        const struct outcome outcome = lockagent("check", file, NULL, NULL);
        cr_assert_eq(outcome.exit_status, 0, "%s", outcome.err);
        if (remarks[count] == NULL)
            cr_assert_str_empty(outcome.err);
        else
            cr_assert_str_eq(outcome.err, format("%s: redis.groups.main.masters: remark: %s", file,
                                                 remarks[count]));
    }
    const char *both =
        write_file("both.yaml", "redis: {groups: {main: {masters: [redis://a, redis://b]}}}\n"
                                "policies: [{match: '*', algorithm: multilock}]\n");
    cr_assert_str_empty(lockagent("check", both, NULL, NULL).err, "all of them decide");
    masters_start(2, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    cr_assert_eq(agent_logged(agent, "group has an even number of masters", "2 masters survive"),
                 1u);
}

static void expect_hidden(const char *const arguments[])
{
    const struct outcome outcome = agent_run(arguments);
    cr_expect_neq(outcome.exit_status, 0, "%s", arguments[0]);
    cr_expect_str_not_empty(outcome.err);
    cr_expect_null(strstr(outcome.err, "hunter2"), "%s %s: %s", arguments[0],
                   arguments[1] == NULL ? "" : arguments[1], outcome.err);
    cr_expect_null(strstr(outcome.out, "hunter2"), "%s", outcome.out);
}

/* A URL that is mistyped, or in a place for another value, is reported without its password. The
 * suite has its time-out for this test, which starts 260 programs. */
Test(cli, no_error_shows_a_password)
{
    static const char *const urls[] = {
        "redis://u:hunter2",
        "redis://u:hunter2@h:1",
        "redis://h:1?password=hunter2",
        "rediss://h/hunter2",
        "redis:/u:hunter2@h",
        "redis//u:hunter2@h",
        "u:hunter2@h:1",
        "valkey://u:hunter2@h",
        "redis://u: hunter2@h",
        "redis://u:\"?/hunter2@h:1",
    };
    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        const char *url = urls[i], *option = format("--%s", url);
        const char *const commands[][6] = {
            {url},
            {option},
            {"--config", url},
            {"--set", url, "--print-config"},
            {"--set", format("log.level=%s", url), "--print-config"},
            {"--set", format("redis.groups.%s.db=1", url), "--print-config"},
            {"--set", format("redis.groups.main.%s=1", url), "--print-config"},
            {"check", url},
            {"check", "a", url},
            {"trust", url},
            {"serve", url},
            {"healthcheck", url},
            {"healthcheck", "--address", url},
            {"capacity", url},
            {"capacity", option},
            {"capacity", "--pods", url},
            {"run", option, "k", "--", "true"},
            {"run", "k", url, "--", "true"},
            {"run", "-w", url, "k", "--"},
            {"run", "-t", url, "k", "--"},
            {"run", "-E", url, "k", "--"},
            {"run", "--on-lost", url, "k", "--"},
            {"run", "-c", url, "k", "--", "true"},
            {"check", write_file("key.yaml", format("redis: {'%s': 1}\n", url))},
            {"check", write_file("group.yaml", format("redis: {groups: {'%s': {}}}\n", url))},
            {"check", write_file("of.yaml", format("policies: [{match: k, group: '%s'}]\n", url))},
        };
        for (size_t j = 0; j < sizeof(commands) / sizeof(*commands); j++)
            expect_hidden(commands[j]);
    }
}

/* The printed configuration is complete, hides secrets, and parses again to the same. */
Test(cli, print_config)
{
    const char *file = write_file(
        "a.yaml",
        "redis: {groups: {main: {masters: ['redis://user:hidden-password@127.0.0.1:7001/3']}}}\n"
        "policies: [{match: 'jobs/*', ttl: 12s, fencing: off}]\n");
    const struct outcome first = lockagent("serve", "--config", file, "--print-config");
    cr_assert_eq(first.exit_status, 0, "%s", first.err);
    static const char *const parts[] = {"listen:", "127.0.0.1:8080", "jobs/*",    "12s",
                                        "max_ttl", "node_timeout",   "unreleased"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        cr_assert_not_null(strstr(first.out, parts[i]), "%s is missing in:\n%s", parts[i],
                           first.out);
    cr_assert_null(strstr(first.out, "hidden-password"));
    const struct outcome second =
        lockagent("serve", "--config", write_file("b.yaml", first.out), "--print-config");
    cr_assert_eq(second.exit_status, 0, "%s", second.err);
    cr_assert_str_eq(first.out, second.out);
}

/* An agent that cannot start says why and ends with 1. */
Test(cli, can_not_start)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const char *taken =
        agent_config(&(struct agent_options){.listen = format("127.0.0.1:%d", agent->port)});
    struct outcome outcome = lockagent("serve", "--config", taken, NULL);
    cr_assert_eq(outcome.exit_status, 1, "%d %s", outcome.exit_status, outcome.err);
    cr_assert_str_not_empty(outcome.err);
    outcome = lockagent(
        "--config", agent_config(&(struct agent_options){.listen = "unix:/no/such/folder/socket"}),
        NULL, NULL);
    cr_assert_eq(outcome.exit_status, 1, "%d %s", outcome.exit_status, outcome.err);
}

Test(cli, healthcheck)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true});
    const char *address = format("127.0.0.1:%d", agent->admin_port);
    const char *const lives[] = {"healthcheck", "--config", agent->config,
                                 "--address",   address,    NULL};
    const char *const ready[] = {"healthcheck", "--config", agent->config, "--address",
                                 address,       "--ready",  NULL};
    cr_assert_eq(agent_run(lives).exit_status, 0, "%s", agent_run(lives).err);
    cr_assert_eq(agent_run(ready).exit_status, 0, "%s", agent_run(ready).err);
    master_kill(0);
    master_kill(1);
    cr_assert(eventually(get(agent, "/readyz")->status == 503));
    cr_assert_eq(agent_run(lives).exit_status, 0);
    cr_assert_eq(agent_run(ready).exit_status, 1);
    cr_assert_eq(agent_stop(agent), 0);
    cr_assert_eq(agent_run(lives).exit_status, 1);
}

/* A part of a configuration with so many errors. */
static const char *unknown_keys(int count)
{
    const char *keys = "";
    for (int i = 0; i < count; i++)
        keys = format("%sunknown_%d: 1\n", keys, i);
    return keys;
}

/* SIGHUP takes the settings that may change. A bad file, or one that changes other settings,
 * changes nothing and is reported. */
Test(cli, reload)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = "policies: [{match: 'p/*', ttl: 5s}]\n"});
    const char *before = read_whole_file(agent->config), *name = strrchr(agent->config, '/') + 1;
    cr_assert_eq(number(acquire(agent, "p/1", NULL), "ttl_ms"), 5000);

    char *changed = format("%s", before);
    memcpy(strstr(changed, "ttl: 5s"), "ttl: 8s", 7);
    write_file(name, changed);
    agent_signal(agent, SIGHUP);
    cr_assert(eventually(agent_logged(agent, "configuration reloaded", NULL) == 1));
    cr_assert_eq(number(acquire(agent, "p/2", NULL), "ttl_ms"), 8000);

    write_file(name, format("%slimits: {nonsense: 1}\n", changed));
    agent_signal(agent, SIGHUP);
    cr_assert(eventually(agent_logged(agent, "configuration refused", "nonsense") >= 1));
    cr_assert_eq(number(acquire(agent, "p/3", NULL), "ttl_ms"), 8000);

    write_file(name, format("%s%s", changed, unknown_keys(70)));
    agent_signal(agent, SIGHUP);
    cr_assert(eventually(agent_logged(agent, "configuration has more errors", "\"more\":6") == 1),
              "as `check` says it");

    memcpy(strstr(changed, "ttl: 8s"), "ttl: 9s", 7);
    write_file(name, format("%slimits: {locks: 77}\n", changed));
    agent_signal(agent, SIGHUP);
    cr_assert(eventually(agent_logged(agent, "configuration refused", "limits.locks") >= 1));
    int lines = 1;
    for (const char *at = changed; *at; at++)
        lines += *at == '\n';
    cr_assert_eq(
        agent_logged(agent, "configuration refused", format("%s:%d:17: limits.locks", name, lines)),
        1u, "%s", agent_log_line(agent, "configuration refused", "limits.locks"));
    cr_assert_eq(number(acquire(agent, "p/4", NULL), "ttl_ms"), 8000,
                 "a refused file changes nothing at all");
    cr_assert_eq(agent_logged(agent, "configuration reloaded", NULL), 1u);
    cr_assert_eq(metric(agent, "lockagent_config_last_reload_successful"), 0);

    write_file(name, changed);
    agent_signal(agent, SIGHUP);
    cr_assert(eventually(agent_logged(agent, "configuration reloaded", NULL) == 2));
    cr_assert_eq(number(acquire(agent, "p/5", NULL), "ttl_ms"), 9000);
    cr_assert_eq(metric(agent, "lockagent_config_last_reload_successful"), 1);
    for (int i = 1; i <= 5; i++)
        cr_assert(i == 3 || held_here(agent, format("p/%d", i)), "a reload keeps the holds");
}

#ifndef __SANITIZE_ADDRESS__ /* its allocator ends a process that gets no memory */
/* A reload for which there is no memory changes nothing, and is reported like any other failed
 * reload. */
Test(cli, a_reload_without_memory_is_said)
{
    struct rlimit before, none;
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    cr_assert_eq(prlimit(agent->pid, RLIMIT_AS, NULL, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    cr_assert_eq(prlimit(agent->pid, RLIMIT_AS, &none, NULL), 0);
    for (size_t i = 1; i <= 3; i++) {
        agent_signal(agent, SIGHUP);
        cr_assert(eventually(agent_logged(agent, "configuration refused", "out of memory") == i),
                  "reload %zu", i);
    }
    cr_assert_eq(prlimit(agent->pid, RLIMIT_AS, &before, NULL), 0);
    cr_assert_eq(metric(agent, "lockagent_config_last_reload_successful"), 0);
    agent_signal(agent, SIGHUP);
    cr_assert(eventually(agent_logged(agent, "configuration reloaded", NULL) == 1));
    acquire_free(agent, "k", "ttl=5s");
}
#endif

/* R2: `multilock` needs all masters of its group, `single` has only one, and without fencing there
 * is no number. */
Test(cli, policies)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){
        .masters = format("['%s', '%s', '%s']", master_url(0), master_url(1), master_url(2)),
        .group = format("      durable: true\n    lone:\n      masters: ['%s']\n      "
                        "node_timeout: 200ms\n      durable: true\n",
                        master_url(3)),
        .extra = "policies:\n"
                 "  - {match: 'all/*', algorithm: multilock}\n"
                 "  - {match: 'one/*', algorithm: single, group: lone}\n"
                 "  - {match: 'unfenced/*', fencing: off}\n"
                 "  - {match: 'on?/*', ttl: 3s}\n"});
    const struct reply *all = acquire_free(agent, "all/1", "ttl=30s");
    cr_assert_eq(number(all, "nodes.granted"), 3);
    cr_assert_eq(number(all, "nodes.quorum"), 3);
    const struct reply *one = acquire_free(agent, "one/1", "ttl=30s");
    cr_assert_eq(number(one, "nodes.total"), 1);
    cr_assert_eq(master_do(3, "EXISTS lock:one/1")->integer, 1);
    cr_assert_eq(masters_with("lock:one/1"), 1u);
    cr_assert_eq(masters_with("lock:all/1"), 3u);
    cr_assert_eq(number(acquire(agent, "onx/1", NULL), "ttl_ms"), 3000);

    const struct reply *unfenced = acquire_free(agent, "unfenced/1", "ttl=30s");
    cr_assert_eq(masters_with(bucket_of("unfenced/1")), 0u);
    cr_assert_leq(number(unfenced, "fencing_token"), 0);
    cr_assert_null(header(unfenced, "Fencing-Token"));
    expect(renew(agent, "unfenced/1", token(unfenced), NULL), 200, NULL);
    give_back(agent, "unfenced/1", token(unfenced));

    master_kill(0);
    const struct reply *refused = acquire(agent, "all/2", "ttl=60s");
    expect(refused, 503, "quorum_unavailable");
    cr_assert(eventually(masters_with("lock:all/2") == 0), "R5: what was granted is undone");
    acquire_free(agent, "majority", "ttl=2s");
    expect(renew(agent, "one/1", token(one), NULL), 200, NULL);
    master_kill(3);
    expect(acquire(agent, "one/2", "ttl=2s"), 503, "quorum_unavailable");
}

/* Environment over file, flag over both. */
Test(cli, overrides)
{
    const char *file = write_file(
        "a.yaml",
        "redis: {groups: {main: {masters: [redis://127.0.0.1:7001]}}}\nlimits: {locks: 11}\n");
    cr_assert_not_null(strstr(lockagent("--config", file, "--print-config", NULL).out, "11"));
    const char *const flagged[] = {"--config",       file, "--set", "limits.locks=4711",
                                   "--print-config", NULL};
    const struct outcome flag = agent_run(flagged);
    cr_assert_eq(flag.exit_status, 0, "%s", flag.err);
    cr_assert_not_null(strstr(flag.out, "4711"));
    const char *const through_env[] = {"LOCKAGENT_LIMITS_LOCKS=815",
                                       format("%s/lockagent", getenv("LOCKAGENT_BUILD")),
                                       "--config",
                                       file,
                                       "--print-config",
                                       NULL};
    const struct outcome set = program_run("env", through_env, NULL);
    cr_assert_eq(set.exit_status, 0, "%s", set.err);
    cr_assert_not_null(strstr(set.out, "815"), "%s", set.out);
}
