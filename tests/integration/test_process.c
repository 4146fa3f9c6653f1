/* The process: its arguments, its signals, its input, and its traces that other processes may
 * see. */
#include "world.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(process, .init = world_open, .fini = world_close, .timeout = 60);

enum { NOBODY = 65534 };

static const char *program(void)
{
    return format("%s/lockagent", getenv("LOCKAGENT_BUILD"));
}

static bool answers_over_unix(const struct agent *agent)
{
    return http(agent, &(struct call){.path = "/livez", .over_unix = true})->status == 200;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static bool is_dev_null(pid_t pid, int fd)
{
    struct stat about, null;
    return stat(format("/proc/%d/fd/%d", (int)pid, fd), &about) == 0 &&
           stat("/dev/null", &null) == 0 && S_ISCHR(about.st_mode) && about.st_rdev == null.st_rdev;
}

/* Else the first file that it opens is its standard error, and the log is written into that. */
Test(process, closed_standard_files_are_opened)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *path = world_path("api.sock");
    const char *config = agent_config(&(struct agent_options){.listen = format("unix:%s", path)});
    const char *const arguments[] = {
        "sh", "-c", format("exec %s serve -c %s <&- >&- 2>&-", program(), config), NULL};
    struct agent agent = {.unix_path = path, .config = config};
    agent.pid = spawn(arguments, NULL, world_path("out"), world_path("out"));
    cr_assert(eventually(access(path, F_OK) == 0 && answers_over_unix(&agent)),
              "it does not serve");
    for (int fd = 0; fd <= 2 && is_privileged(); fd++) /* others may not look: see below */
        cr_assert(is_dev_null(agent.pid, fd), "descriptor %d", fd);
    int status;
    kill(agent.pid, SIGTERM);
    cr_assert(reap(agent.pid, PATIENCE_MS, &status));
    cr_assert_eq(status, 0);
    const char *out = world_path("links");
    const char *script =
        format("exec %s run -c %s k -- sh -c 'readlink /proc/$$/fd/0 /proc/$$/fd/2 >%s' <&- 2>&-",
               program(), config, out);
    cr_assert_eq(program_run("sh", (const char *const[]){"-c", script, NULL}, NULL).exit_status, 0);
    cr_assert_str_eq(read_whole_file(out), "/dev/null\n/dev/null\n");
}

static void allow_files(rlim_t count)
{
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){count, count}), 0);
}

/* It does not promise more connections than it may open: the last ones would take the descriptors
 * for its masters. */
Test(process, a_low_limit_of_open_files_lowers_the_connections)
{
    enum { FILES = 600, OTHERS = 128 + 2 * 3 };
    masters_start(3, MASTERS_FORGETFUL);
    allow_files(FILES);
    struct agent *agent = agent_start(NULL);
    const char *line = agent_log_line(
        agent, "limits.connections was lowered: it needs more open files than are allowed", NULL);
    cr_assert_not_null(line);
    cr_assert_not_null(strstr(line, "\"configured\":4096,"), "%s", line);
    cr_assert_not_null(strstr(line, format("\"connections\":%d,", FILES - OTHERS)), "%s", line);
    cr_assert_not_null(strstr(line, format("\"waiters\":%d,", FILES - OTHERS - 64)), "%s", line);
    cr_assert_eq(metric(agent, "lockagent_http_connections_limit"), FILES - OTHERS);
    cr_assert_eq(metric(agent, "lockagent_waiters_limit"), FILES - OTHERS - 64);
    agent_signal(agent, SIGHUP);
    cr_assert(eventually(agent_logged(agent, "configuration reloaded", NULL) == 1),
              "the file has not changed");
    cr_assert_eq(metric(agent, "lockagent_http_connections_limit"), FILES - OTHERS);
    expect(acquire(agent, "k", "ttl=5s"), 201, NULL);
}

Test(process, far_too_few_files_end_the_start)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *config = agent_config(NULL);
    allow_files(200);
    const struct outcome outcome = agent_run((const char *const[]){"serve", "-c", config, NULL});
    cr_assert_eq(outcome.exit_status, 1);
    cr_assert_not_null(
        strstr(outcome.err,
               "too few files may be open: 200 (RLIMIT_NOFILE); at least 262 are needed"),
        "%s", outcome.err);
}

/* ---- signals and children -------------------------------------------------------------------- */

Test(process, signals_of_habit_do_nothing)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    expect(acquire(agent, "k", "ttl=20s&renew=agent"), 201, NULL);
    for (int i = 0; i < 3; i++) {
        agent_signal(agent, SIGUSR1);
        agent_signal(agent, SIGUSR2);
        agent_signal(agent, SIGPIPE);
        sleep_ms(50);
        cr_assert_eq(get(agent, "/livez")->status, 200);
    }
    cr_assert(held_here(agent, "k"));
}

/* The connections that are counted are those of callers: admin has a limit of its own. */
Test(process, connections_of_admin_do_not_count)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent =
        agent_start(&(struct agent_options){.admin = true, .unix_path = world_path("api.sock")});
    cr_assert_eq(metric(agent, "lockagent_http_connections_limit"), 2 * 4096, "of two addresses");
    const double before = metric(agent, "lockagent_http_connections");
    const int first = wire_open(agent), second = wire_open(agent);
    cr_assert(eventually(metric(agent, "lockagent_http_connections") == before + 2));
    wire_close(first);
    wire_close(second);
}

/* A hang-up reloads, and does nothing while the agent ends. */
Test(process, a_hang_up_ends_no_agent)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    for (int i = 0; i < 5; i++) {
        siginfo_t ended = {0};
        agent_signal(agent, SIGTERM);
        while (waitid(P_PID, (id_t)agent->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               ended.si_pid == 0) {
            agent_signal(agent, SIGHUP);
            sleep_ms(2);
        }
        cr_assert_eq(agent_ended(agent), 0, "time %d", i);
        agent_restart(agent);
    }
}

/* As process 1 of a container, but with no container: a process to which orphans come, and one of
 * them, that ends in a while. Its number goes to `orphan`. */
static void get_an_orphan(const char *orphan)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t between = fork();
    if (between == 0) {
        const pid_t pid = fork();
        if (pid == 0) {
            sleep_ms(1000);
            _exit(0);
        }
        FILE *file = fopen(orphan, "w");
        fprintf(file, "%d\n", (int)pid);
        fclose(file);
        _exit(0);
    }
    waitpid(between, NULL, 0);
}

static pid_t start_with_orphan(const char *const *arguments, const char *orphan, const char *log)
{
    const pid_t parent = getpid(), pid = fork();
    cr_assert_geq(pid, 0);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (getppid() != parent || out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    unsetenv("LOCKAGENT_SOURCE");
    unsetenv("LOCKAGENT_BUILD");
    get_an_orphan(orphan);
    execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static bool is_gone(const char *orphan)
{
    return access(format("/proc/%d", atoi(read_whole_file(orphan))), F_OK) != 0;
}

static void expect_buried(const char *const *arguments)
{
    const char *orphan = world_path("orphan"), *log = world_path("orphans.log");
    const pid_t pid = start_with_orphan(arguments, orphan, log);
    cr_assert(eventually(strchr(read_whole_file(orphan), '\n') != NULL));
    cr_assert(eventually(is_gone(orphan)), "%s:\n%s",
              read_whole_file(format("/proc/%d/status", atoi(read_whole_file(orphan)))),
              read_whole_file(log));
    cr_assert_eq(waitpid(pid, NULL, WNOHANG), 0, "it has ended:\n%s", read_whole_file(log));
    end_process(pid);
}

Test(process, an_agent_buries_orphans)
{
    masters_start(3, MASTERS_FORGETFUL);
    expect_buried((const char *const[]){program(), "serve", "-c", agent_config(NULL), NULL});
}

Test(process, run_buries_orphans_while_it_waits)
{
    masters_start(3, MASTERS_FORGETFUL);
    for (size_t i = 0; i < master_count(); i++)
        master_do(i, "SET lock:k stranger");
    expect_buried(
        (const char *const[]){program(), "run", "-c", agent_config(NULL), "k", "--", "true", NULL});
}

Test(process, run_buries_orphans_while_its_command_runs)
{
    masters_start(3, MASTERS_FORGETFUL);
    expect_buried((const char *const[]){program(), "run", "-c", agent_config(NULL), "k", "--",
                                        "sleep", "60", NULL});
}

/* ---- threads --------------------------------------------------------------------------------- */

static int threads_of(pid_t pid)
{
    const char *status = read_whole_file(format("/proc/%d/status", (int)pid));
    const char *line = strstr(status, "\nThreads:");
    int threads = 0;
    cr_assert(line != NULL && sscanf(line, "\nThreads: %d", &threads) == 1, "%s", status);
    return threads;
}

/* The masters have addresses here: names are resolved by threads of libuv. */
Test(process, an_agent_has_one_thread)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    expect(acquire(agent, "k", "ttl=5s"), 201, NULL);
    cr_assert_eq(get(agent, "/metrics")->status, 200);
    cr_assert_eq(threads_of(agent->pid), 1);
}

/* ---- traces that other processes may see ----------------------------------------------------- */

/* Starts it as a user other than root, whose other processes could read its memory. The
 * configuration comes through the environment, because the folder of this test belongs to another
 * user. */
static pid_t start_as_nobody(const char *const *arguments, const char *log)
{
    const int file = open(program(), O_RDONLY);
    const char *environment[] = {format("LOCKAGENT_REDIS_GROUPS_MAIN_MASTERS=%s", master_url(0)),
                                 "LOCKAGENT_REDIS_GROUPS_MAIN_GUARD=off",
                                 "LOCKAGENT_LISTEN=127.0.0.1:0", "PATH=/usr/bin:/bin", NULL};
    const pid_t parent = getpid(), pid = fork();
    cr_assert(file >= 0 && pid >= 0);
    if (pid != 0) {
        close(file);
        return pid;
    }
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0 || chdir("/") != 0)
        _exit(126);
    if (geteuid() == 0 &&
        (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    fexecve(file, (char *const *)(uintptr_t)arguments, (char *const *)(uintptr_t)environment);
    _exit(127);
}

static uid_t owner_of_memory(pid_t pid)
{
    struct stat about = {.st_uid = NOBODY};
    return stat(format("/proc/%d/mem", (int)pid), &about) == 0 ? about.st_uid : (uid_t)NOBODY;
}

/* The files of a process that is not dumpable belong to root: its memory has tokens and
 * passwords. */
Test(process, its_memory_is_nobody_elses)
{
    masters_start(1, MASTERS_FORGETFUL);
    const char *log = world_path("log");
    const pid_t pid = start_as_nobody((const char *const[]){"lockagent", "serve", NULL}, log);
    cr_assert(eventually(strstr(read_whole_file(log), "lockagent started") != NULL), "%s",
              read_whole_file(log));
    cr_assert_neq(geteuid() == 0 ? NOBODY : geteuid(), 0u);
    cr_assert_eq(owner_of_memory(pid), 0u);
    end_process(pid);
}

/* The files of a started command belong to its owner, as they would without `run`. */
Test(process, the_memory_of_a_command_is_its_own)
{
    masters_start(1, MASTERS_FORGETFUL);
    const char *log = world_path("log");
    const uid_t owner = geteuid() == 0 ? (uid_t)NOBODY : geteuid();
    int status;
    const pid_t pid =
        start_as_nobody((const char *const[]){"lockagent", "run", "-q", "k", "--", "stat", "-c",
                                              "%u", "/proc/self/mem", NULL},
                        log);
    cr_assert(reap(pid, PATIENCE_MS, &status));
    cr_assert_eq(status, 0, "%d: %s", status, read_whole_file(log));
    cr_assert_str_eq(read_whole_file(log), format("%u\n", owner));
}

/* ---- files ----------------------------------------------------------------------------------- */

/* No process writes into it. Opening it as a file would wait forever, and a loop that waits renews
 * nothing. */
Test(process, a_pipe_is_no_configuration)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    cr_assert_eq(unlink(agent->config), 0);
    cr_assert_eq(mkfifo(agent->config, 0600), 0);
    const char *says = "cannot be read: it is a pipe; allowed: a regular file";
    const struct outcome check = agent_run((const char *const[]){"check", agent->config, NULL}),
                         serve =
                             agent_run((const char *const[]){"serve", "-c", agent->config, NULL});
    cr_assert_eq(check.exit_status, 1);
    cr_assert_not_null(strstr(check.err, says), "%s", check.err);
    cr_assert_eq(serve.exit_status, 1);
    cr_assert_not_null(strstr(serve.err, says), "%s", serve.err);
    agent_signal(agent, SIGHUP);
    cr_assert(eventually(agent_logged(agent, "configuration refused", says) == 1));
    expect(acquire(agent, "k", "ttl=5s"), 201, NULL);
}

static const char *file_with_nul(const char *name)
{
    static const char bytes[] = "0123456789abcdef\0ghij\n";
    const char *path = write_file(name, "");
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, sizeof(bytes) - 1, file) == sizeof(bytes) - 1);
    fclose(file);
    return path;
}

/* The part before it would be a shorter secret than was meant. */
Test(process, a_secret_with_a_nul_byte_is_refused)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *path = file_with_nul("secret");
    const char *config =
        agent_config(&(struct agent_options){.extra = format("api: {token_file: %s}\n", path)});
    const struct outcome outcome = agent_run((const char *const[]){"serve", "-c", config, NULL});
    cr_assert_eq(outcome.exit_status, 1);
    cr_assert_not_null(strstr(outcome.err, "it holds a NUL byte"), "%s", outcome.err);
    struct agent *agent = agent_start(&(struct agent_options){
        .group = format("      username: lockagent\n      password_file: %s\n", path),
        .not_ready = true});
    cr_assert(eventually(
        agent_logged(agent, "master state changed", "password_file: it holds a NUL byte") >= 1));
}

/* A reload that let in no caller would be worse than none. */
Test(process, a_reload_without_its_token_is_refused)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *secret = write_file("secret", "correct-horse\n");
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = format("api: {token_file: %s}\n", secret)});
    agent->bearer = "correct-horse";
    const char *before = read_whole_file(agent->config), *name = strrchr(agent->config, '/') + 1;
    char *changed = format("%s", before);
    memcpy(strstr(changed, "/secret}"), "/nothin}", strlen("/secret}"));
    write_file(name, changed);
    agent_signal(agent, SIGHUP);
    cr_assert(eventually(agent_logged(agent, "configuration refused", "api.token_file: ") == 1),
              "%s", read_whole_file(agent->log));
    cr_assert_eq(metric(agent, "lockagent_config_last_reload_successful"), 0);
    sleep_ms(1200); /* The agent looks at the file once in a second. */
    expect(acquire(agent, "k", "ttl=5s"), 201, NULL);
    write_file(name, before);
    agent_signal(agent, SIGHUP);
    cr_assert(eventually(agent_logged(agent, "configuration reloaded", NULL) == 1));
    cr_assert_eq(metric(agent, "lockagent_config_last_reload_successful"), 1);
}

/* 2^32 milliseconds are 50 days. */
Test(process, a_ttl_beyond_all_measure_is_named_as_it_came)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *refused = acquire(agent, "k", "ttl=1200h");
    expect(refused, 400, "bad_request");
    cr_assert_not_null(strstr(string(refused, "detail"), "1200h came"), "%s", refused->body);
}

/* ---- metrics.detail -------------------------------------------------------------------------- */

static size_t count_series(const char *page)
{
    size_t count = 0;
    for (const char *line = page; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += *line != '#' && *line != '\0';
    }
    return count;
}

/* Expects a series on the page for each name of the agent's that a PromQL text has. Returns the
 * number of names. */
static size_t expect_named(const char *text, const char *page)
{
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, "lockagent_")) != NULL;) {
        size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        bool is_record = (at > text && at[-1] == ':') || at[len] == ':';
        const char *name = format("\n%.*s", (int)len, at);
        if (!is_record) {
            cr_expect(strstr(page, format("%s{", name)) || strstr(page, format("%s ", name)),
                      "%s is not on the page", name + 1);
            found++;
        }
        at += len;
    }
    return found;
}

/* Calls expect_named() with the alerts, and with the records that alerts name. */
static size_t expect_named_by_alerts(const char *rules, const char *page)
{
    const char *alerts = strstr(rules, "- name: lockagent.alerts"), *at = rules;
    size_t found = expect_named(alerts, page);
    while ((at = strstr(at, "- record: ")) != NULL && at < alerts) {
        at += strlen("- record: ");
        size_t len = strcspn(at, "\n");
        char name[200];
        cr_assert(len < sizeof(name));
        memcpy(name, at, len);
        name[len] = '\0';
        const char *end = strstr(at, "- record: ");
        end = end == NULL || end > alerts ? alerts : end;
        if (strstr(alerts, name) != NULL)
            found += expect_named(format("%.*s", (int)(end - at), at), page);
    }
    return found;
}

/* The stat panels, which are the dashboard's first row. */
static size_t expect_named_by_first_row(const char *path, const char *page)
{
    size_t found = 0, index, at;
    json_t *dashboard = json_load_file(path, 0, NULL), *panel, *target;
    cr_assert_not_null(dashboard);
    json_array_foreach(json_object_get(dashboard, "panels"), index, panel)
    {
        if (strcmp(json_string_value(json_object_get(panel, "type")), "stat") != 0)
            continue;
        json_array_foreach(json_object_get(panel, "targets"), at, target) found +=
            expect_named(json_string_value(json_object_get(target, "expr")), page);
    }
    json_decref(dashboard);
    return found;
}

/* With metrics.detail: basic, five masters and nine policies are at most 250 series, and the alerts
 * and the first row of the dashboard have all theirs. */
Test(process, basic_metrics_are_few_and_enough_for_the_alerts)
{
    masters_start_over_tls(5, "yes");
    const char *group =
        format("      tls: {ca_file: %s, cert_file: %s, key_file: %s}\n", world_path("ca.pem"),
               certificate("client", "ca", "DNS:agent", 9), world_path("client.key"));
    const char *policies = "policies:\n";
    for (int i = 1; i < 9; i++)
        policies = format("%s  - {match: \"p%d/*\"}\n", policies, i);
    policies = format("%s  - {match: \"*\"}\n", policies);
    struct agent *full = agent_start(&(struct agent_options){.group = group, .extra = policies});
    struct agent *basic = agent_start(&(struct agent_options){
        .group = group, .extra = format("%smetrics: {detail: basic}\n", policies)});
    expect(acquire(basic, "p3/k", "ttl=5s"), 201, NULL);
    expect(acquire(basic, "k", "ttl=5s"), 201, NULL);
    const char *certificate_end =
        "lockagent_client_certificate_end_timestamp_seconds{group=\"main\"}";
    cr_assert(eventually(metric(basic, certificate_end) > 0));
    cr_assert(
        eventually(metric(basic, "lockagent_acquire_requests_total{outcome=\"granted\"}") == 2));
    const char *page = get(basic, "/metrics")->body;
    cr_assert_leq(count_series(page), 250u, "%zu series", count_series(page));
    cr_assert_gt(count_series(get(full, "/metrics")->body), 1000u);
    const char *deploy = format("%s/deploy", getenv("LOCKAGENT_SOURCE"));
    const char *rules = read_whole_file(format("%s/prometheus/lockagent.rules.yaml", deploy));
    cr_assert_gt(expect_named_by_alerts(rules, page), 30u);
    cr_assert_gt(expect_named_by_first_row(format("%s/grafana/lockagent.json", deploy), page), 6u);
}
