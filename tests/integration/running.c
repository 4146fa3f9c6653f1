#include "running.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *config;

const struct agent_options running_options = {
    .extra = "policies:\n  - {match: 'short/*', max_hold: 1s}\n"
             "  - {match: 'rw', kind: rw}\n"
             "  - {match: 'rw/*', kind: rw}\n"
             "  - {match: 'plain/*', fencing: off}\n"
             "  - {match: 'brief/*', ttl: 2s}\n"
             "  - {match: 'slots', permits: 2}\n"};

void running_world_open(void)
{
    world_open();
    masters_start(3, MASTERS_FORGETFUL);
    config = agent_config(&running_options);
}

enum { ARGUMENTS = 28 };

const char *program(void)
{
    return format("%s/lockagent", getenv("LOCKAGENT_BUILD"));
}

struct running running_start(const char *word, ...)
{
    static unsigned count;
    const char *list[ARGUMENTS + 8] = {0}, *rest[ARGUMENTS] = {word};
    va_list more;
    va_start(more, word);
    for (size_t i = 0; rest[i] != NULL; i++)
        rest[i + 1] = va_arg(more, const char *);
    va_end(more);
    const char *const first[] = {program(), "run", "-c", config, "-s", "log.level=info"};
    memcpy(list, first, sizeof(first));
    memcpy(list + sizeof(first) / sizeof(*first), rest, sizeof(rest));
    struct running running = {.out = world_path(format("out%u", count)),
                              .err = world_path(format("err%u", count))};
    count++;
    running.pid = spawn(list, NULL, running.out, running.err);
    return running;
}

struct outcome end(const struct running *running)
{
    struct outcome outcome = {.exit_status = -1};
    if (!reap(running->pid, PATIENCE_MS, &outcome.exit_status)) {
        end_process(running->pid);
        cr_assert_fail("it does not end:\n%s", read_whole_file(running->err));
    }
    outcome.out = read_whole_file(running->out);
    outcome.err = read_whole_file(running->err);
    return outcome;
}

bool has_said(const struct running *running, const char *words)
{
    return strstr(read_whole_file(running->out), words) != NULL;
}

bool is_alive(pid_t pid)
{
    const char *name_end = strrchr(read_whole_file(format("/proc/%d/stat", (int)pid)), ')');
    return name_end != NULL && strchr("ZX", name_end[2]) == NULL;
}

void expect_code(struct outcome outcome, int code, const char *words)
{
    cr_assert_eq(outcome.exit_status, code, "%d, not %d:\n%s%s", outcome.exit_status, code,
                 outcome.out, outcome.err);
    cr_assert_not_null(strstr(outcome.err, words), "%s is not in:\n%s", words, outcome.err);
}
