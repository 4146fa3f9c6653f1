/* The effects of peers, files and limits on the agent from outside, though none of it is a fault of
 * its own. */
#include "world.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CROWD = 200 };

TestSuite(outside, .init = world_open, .fini = world_close, .timeout = 120);

static void allow_bytes(rlim_t count)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = count;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A file that may grow no further is a write that fails, as a full volume is, and no end: neither
 * the journal's nor the log's. */
Test(outside, a_limit_of_file_size_ends_nothing)
{
    enum { HOLDS = 30, BYTES = 16 << 10 };
    const char *journal = world_path("holds");
    masters_start(3, MASTERS_FORGETFUL);
    allow_bytes(BYTES);
    struct agent *agent =
        agent_start(&(struct agent_options){.extra = format("journal: {file: %s}\n", journal)});
    allow_bytes(RLIM_INFINITY);
    for (int i = 0; i < HOLDS; i++)
        expect(acquire(agent, format("k%d", i), "ttl=20s&renew=agent"), 201, NULL);
    cr_assert(metric(agent, "lockagent_journal_write_errors_total") > 0);
    cr_assert_leq(strlen(read_whole_file(agent->log)), (size_t)BYTES);
    cr_assert(held_here(agent, "k0") && held_here(agent, format("k%d", HOLDS - 1)));
}

/* ---- clients that are silent, and come again ------------------------------------------------- */

/* Keeps CROWD connections that say `words` and nothing more; if one is closed, the next one comes
 * at once. */
static pid_t crowd_start(const struct agent *agent, const char *words)
{
    const pid_t parent = getpid(), pid = fork();
    cr_assert_geq(pid, 0);
    if (pid != 0)
        return pid;
    struct pollfd wires[CROWD];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    for (size_t i = 0; i < CROWD; i++) {
        wires[i] = (struct pollfd){.fd = wire_open(agent), .events = POLLIN};
        wire_say(wires[i].fd, words);
    }
    for (;;) {
        poll(wires, CROWD, -1);
        for (size_t i = 0; i < CROWD; i++) {
            if (wires[i].revents == 0)
                continue;
            close(wires[i].fd);
            wires[i].fd = wire_open(agent);
            wire_say(wires[i].fd, words);
        }
    }
}

static void expect_health(const struct agent *agent, const char *words)
{
    enum { PROBES = 10, KUBELET_MS = 1000 };
    const pid_t crowd = crowd_start(agent, words);
    unsigned in_time = 0;
    sleep_ms(500);
    for (int i = 0; i < PROBES; i++) {
        const int wire = wire_request(agent, "GET", "/livez", NULL);
        in_time += wire_receive(wire, KUBELET_MS)->status == 200;
        wire_close(wire);
        sleep_ms(200);
    }
    kill(crowd, SIGKILL);
    waitpid(crowd, NULL, 0);
    /* Kubelet gives up after three in a row. */
    cr_assert_geq(in_time, PROBES / 2, "%u of %d in time beside \"%.20s\"", in_time, PROBES, words);
}

/* More than the listener has places for, and each that is closed comes again. */
Test(outside, a_silent_crowd_that_comes_again)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(&(struct agent_options){.admin = true}), admin = *agent;
    admin.port = agent->admin_port;
    expect_health(&admin, "");
    expect_health(&admin, "GET /livez HTTP/1.1\r\nHo");
    expect_health(&admin, "GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx");
}

/* ---- lockagent run --------------------------------------------------------------------------- */

Test(outside, run_says_on_a_full_log_that_it_has_no_lock)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    expect(acquire(agent, "k", "ttl=20s"), 201, NULL);
    const char *script = format("ulimit -f 0; exec %s/lockagent run -n -c %s k -- true 2>%s",
                                getenv("LOCKAGENT_BUILD"), agent->config, world_path("said"));
    cr_assert_eq(program_run("sh", (const char *const[]){"-c", script, NULL}, NULL).exit_status, 1);
}

/* It aborted, crashed or waited forever, by how many there were. */
Test(outside, run_says_that_too_few_files_may_be_open)
{
    masters_start(3, MASTERS_FORGETFUL);
    const char *config = agent_config(NULL);
    for (int files = 4; files < 40; files++) {
        const char *script =
            format("ulimit -n %d; exec timeout 10 %s/lockagent run -w 1s -c %s k -- true", files,
                   getenv("LOCKAGENT_BUILD"), config);
        const struct outcome outcome =
            program_run("sh", (const char *const[]){"-c", script, NULL}, NULL);
        if (outcome.exit_status == 0) {
            cr_assert_geq(files, 22);
            return;
        }
        cr_assert_eq(outcome.exit_status, 125, "%d files: %d %s", files, outcome.exit_status,
                     outcome.err);
        const char *wanted =
            format("too few files may be open: %d (RLIMIT_NOFILE); at least 22 are needed", files);
        cr_assert_not_null(strstr(outcome.err, wanted), "%d files: %s", files, outcome.err);
    }
    cr_assert_fail("40 files are too few");
}
