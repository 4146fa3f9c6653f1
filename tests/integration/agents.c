/* Real agents: configured, started, signalled, and their logs. */
#include "world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct agent agents[WORLD_AGENTS];
static size_t agent_count;

static const char *program(void)
{
    const char *build = getenv("LOCKAGENT_BUILD");
    cr_assert_not_null(build, "LOCKAGENT_BUILD must name the build folder");
    return format("%s/lockagent", build);
}

static const char *all_masters(void)
{
    const char *list = "";
    for (size_t i = 0; i < master_count(); i++)
        list = format("%s%s\"%s\"", list, i ? ", " : "", master_url(i));
    return format("[%s]", list);
}

static const char *listen_value(const struct agent_options *options)
{
    if (options->listen)
        return options->listen;
    if (options->unix_path)
        return format("[\"127.0.0.1:0\", \"unix:%s\"]", options->unix_path);
    return "127.0.0.1:0";
}

/* Without a word on it the masters of a world are durable: they forget under guard. */
static bool says_of_guard(const struct agent_options *options)
{
    return options->group &&
           (strstr(options->group, "durable:") || strstr(options->group, "guard:"));
}

static const char *login(const struct agent_options *options)
{
    bool own = options->masters || (options->group && (strstr(options->group, "username:") ||
                                                       strstr(options->group, "password_file:")));
    if (own || !masters_know_lockagent())
        return "";
    return format("      username: lockagent\n      password_file: %s\n",
                  write_file("lockagent.password", MASTERS_PASSWORD "\n"));
}

const char *agent_config(const struct agent_options *options)
{
    static const struct agent_options defaults;
    if (!options)
        options = &defaults;
    return write_file(
        NULL,
        format("listen: %s\n%s"
               "redis:\n  groups:\n    main:\n      masters: %s\n      node_timeout: %s\n%s%s%s"
               "log: {level: debug, format: json}\n%s%s",
               listen_value(options), options->admin ? "admin: {listen: 127.0.0.1:0}\n" : "",
               options->masters ? options->masters : all_masters(),
               options->node_timeout ? options->node_timeout : "200ms", login(options),
               says_of_guard(options) ? "" : "      durable: true\n",
               options->group ? options->group : "",
               options->extra && strstr(options->extra, "shutdown:") ? ""
                                                                     : "shutdown: {grace: 100ms}\n",
               options->extra ? options->extra : ""));
}

/* ---- the log --------------------------------------------------------------------------------- */

static bool line_matches(const char *line, const char *message, const char *part)
{
    if (part && !strstr(line, part))
        return false;
    return !message || strstr(line, format("\"msg\":\"%s\"", message)) ||
           strstr(line, format("\"msg\": \"%s\"", message));
}

static const char *search_log(const struct agent *agent, const char *message, const char *part,
                              size_t *ret_count)
{
    const char *found = NULL;
    char *place = NULL;
    *ret_count = 0;
    for (char *line = strtok_r(read_whole_file(agent->log), "\n", &place); line;
         line = strtok_r(NULL, "\n", &place)) {
        if (line_matches(line, message, part)) {
            found = line;
            ++*ret_count;
        }
    }
    return found;
}

size_t agent_logged(const struct agent *agent, const char *message, const char *part)
{
    size_t count;
    search_log(agent, message, part, &count);
    return count;
}

const char *agent_log_line(const struct agent *agent, const char *message, const char *part)
{
    size_t count;
    return search_log(agent, message, part, &count);
}

/* The end of the log, for people: without the calls of a test that only waits. */
static const char *last_words(const struct agent *agent)
{
    enum { LINES = 30 };
    const char *lines[LINES] = {NULL}, *text = "";
    char *place = NULL;
    size_t count = 0;
    for (char *line = strtok_r(read_whole_file(agent->log), "\n", &place); line;
         line = strtok_r(NULL, "\n", &place))
        if (!strstr(line, "\"route\":\"/readyz\"") && !strstr(line, "\"route\":\"/metrics\""))
            lines[count++ % LINES] = line;
    for (size_t i = count > LINES ? count - LINES : 0; i < count; i++)
        text = format("%s%s\n", text, lines[i % LINES]);
    return text;
}

static int listening_port(const struct agent *agent, const char *listener)
{
    const char *line = agent_log_line(
        agent, "listening", format("\"listener\":\"%s\",\"address\":\"127.0.0.1:", listener));
    const char *address = line ? strstr(line, "\"address\":\"127.0.0.1:") : NULL;
    return address ? atoi(address + strlen("\"address\":\"127.0.0.1:")) : 0;
}

/* ---- the process ----------------------------------------------------------------------------- */

static bool has_ended(struct agent *agent)
{
    int status;
    if (!reap(agent->pid, 0, &status))
        return false;
    agent->pid = 0;
    cr_assert_fail("the agent ended with %d:\n%s", status, last_words(agent));
    return true;
}

static bool listens(struct agent *agent, bool tcp, bool admin)
{
    if (has_ended(agent))
        return false;
    agent->port = tcp ? listening_port(agent, "api") : 0;
    agent->admin_port = admin ? listening_port(agent, "admin") : 0;
    if (agent->unix_path && access(agent->unix_path, F_OK))
        return false;
    return (agent->port || !tcp) && (agent->admin_port || !admin);
}

static void launch(struct agent *agent, bool tcp, bool admin)
{
    const char *arguments[] = {program(), "serve", "--config", agent->config, NULL};
    agent->log = world_path(format("agent%td.%d.log", agent - agents, agent->starts++));
    agent->pid = spawn(arguments, NULL, agent->log, agent->log);
    cr_assert(eventually(listens(agent, tcp, admin)), "the agent does not listen:\n%s",
              last_words(agent));
}

static bool is_ready(const struct agent *agent)
{
    return get(agent, "/readyz")->status == 200;
}

static bool every_master_is_up(const struct agent *agent)
{
    const struct reply *reply = get(agent, "/readyz");
    const json_t *groups = member(reply, "groups"), *group;
    size_t index, missing = 0;
    json_array_foreach(groups, index, group)
    {
        missing += json_array_size(json_object_get(group, "not_up"));
    }
    return missing == 0;
}

/* Waits until it is ready, and until every master is up that can be: otherwise the first rounds of
 * a test would see a smaller world than it made. */
static void wait_until_ready(const struct agent *agent)
{
    cr_assert(eventually(is_ready(agent)), "the agent does not become ready:\n%s\n%s",
              get(agent, "/readyz")->body, last_words(agent));
    (void)eventually_within(5000, every_master_is_up(agent));
}

struct agent *agent_start(const struct agent_options *options)
{
    static const struct agent_options defaults;
    if (!options)
        options = &defaults;
    cr_assert_lt(agent_count, (size_t)WORLD_AGENTS);
    struct agent *agent = &agents[agent_count++];
    agent->unix_path = options->unix_path;
    agent->config = agent_config(options);
    launch(agent, !options->listen, options->admin);
    if (!options->not_ready)
        wait_until_ready(agent);
    return agent;
}

void agent_restart(struct agent *agent)
{
    const bool tcp = agent->port != 0, admin = agent->admin_port != 0;
    cr_assert_eq(agent->pid, 0, "it still runs");
    launch(agent, tcp, admin);
    wait_until_ready(agent);
}

void agent_kill(struct agent *agent)
{
    end_process(agent->pid);
    agent->pid = 0;
}

void agent_signal(struct agent *agent, int signal)
{
    cr_assert_eq(kill(agent->pid, signal), 0);
}

int agent_ended(struct agent *agent)
{
    int status = -1;
    if (!reap(agent->pid, PATIENCE_MS, &status))
        end_process(agent->pid);
    agent->pid = 0;
    return status;
}

int agent_stop(struct agent *agent)
{
    kill(agent->pid, SIGCONT);
    kill(agent->pid, SIGTERM);
    return agent_ended(agent);
}

static long status_kib(const struct agent *agent, const char *line)
{
    const char *at = strstr(read_whole_file(format("/proc/%d/status", (int)agent->pid)), line);
    return at != NULL ? atol(at + strlen(line)) : 0;
}

long agent_memory_kib(const struct agent *agent, const char *line)
{
    const bool is_sanitized =
        status_kib(agent, "VmSize:") > 1 << 30; /* its shadow is that of the whole address space */
    return is_sanitized ? 0 : status_kib(agent, line);
}

/* Every agent that still runs must end cleanly: that carries the reports of the sanitizers into the
 * test's result too. */
bool agents_close(void)
{
    bool clean = true;
    for (size_t i = 0; i < agent_count; i++) {
        const int status = agents[i].pid ? agent_stop(&agents[i]) : 0;
        clean &= status == 0;
        if (status)
            fprintf(stderr, "the agent ended with %d, not cleanly:\n%s\n", status,
                    last_words(&agents[i]));
    }
    return clean;
}

struct outcome program_run(const char *path, const char *const *arguments, const char *stdin_path)
{
    static unsigned runs;
    const char *list[16] = {path}, *out = world_path(format("run%u.out", runs)),
               *err = world_path(format("run%u.err", runs));
    runs++;
    for (size_t i = 0; arguments[i]; i++)
        list[i + 1] = arguments[i];
    struct outcome outcome = {.exit_status = -1};
    const pid_t pid = spawn(list, stdin_path, out, err);
    if (!reap(pid, PATIENCE_MS, &outcome.exit_status)) {
        end_process(pid);
        cr_assert_fail("%s %s does not end", path, arguments[0] ? arguments[0] : "");
    }
    outcome.out = read_whole_file(out);
    outcome.err = read_whole_file(err);
    return outcome;
}

struct outcome agent_run(const char *const *arguments)
{
    return program_run(program(), arguments, NULL);
}
