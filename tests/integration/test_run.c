/* `lockagent run`: a command under a lock, without an agent (D8, R7, R14). */
#include "running.h"

#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(run, .init = running_world_open, .fini = world_close, .timeout = 60);

/* The log of a run that was late. */
#define LATE "\"msg\":\"process was stopped or late\""

/* Before that a signal ends it as it would end any program. */
static bool catches(pid_t pid, int number)
{
    const char *line = strstr(read_whole_file(format("/proc/%d/status", (int)pid)), "SigCgt:");
    return line != NULL && (strtoull(line + strlen("SigCgt:"), NULL, 16) >> (number - 1) & 1) != 0;
}

Test(run, exit_codes)
{
    struct outcome good; /* On a busy machine it may say that it was late, or that masters were. */
    cr_assert(eventually(*(good = run("k", "--", "echo", "done")).err == '\0'),
              "a run that goes well says nothing: %s", good.err);
    expect_code(good, 0, "");
    cr_assert_str_eq(good.out, "done\n");
    expect_code(run("k", "--", "sh", "-c", "exit 7"), 7, "");
    expect_code(run("k", "--", "sh", "-c", "kill -KILL $$"), 137, "");
    expect_code(run("k", "--", "no-such-command"), 127, "no-such-command");
    expect_code(run("k", "--", "echo a | cat"), 127, "for a line of the shell write -- sh -c");
    cr_assert_null(strstr(run("k", "--", "no-such-command").err, "sh -c"));
    cr_assert_null(strstr(run("k", "--", "no such", "command").err, "sh -c"));
    expect_code(run("k", "--", "/dev/null"), 126, "/dev/null");
    cr_assert_eq(masters_with("lock:k"), 0u,
                 "a command that can not be executed releases the lock");
    expect_code(run("-t", "2h", "k", "--", "true"), 125, "--ttl");
    expect_code(run("-t", "5m", "k", "--", "true"), 125, "ttl");
}

Test(run, wrong_usage)
{
    expect_code(run("k"), 125, "--");
    expect_code(run("k", "--"), 125, "command");
    expect_code(run("--", "true"), 125, "key");
    expect_code(run("a//b", "--", "true"), 125, "double /");
    expect_code(run("-w", "5", "k", "--", "true"), 125, "--wait");
    expect_code(run("-t", "2h", "k", "--", "true"), 125, "allowed: 1s to 1h, as 30s");
    expect_code(run("-t", "500ms", "k", "--", "true"), 125, "allowed: 1s to 1h, as 30s");
    expect_code(run("-w", "5", "k", "--", "true"), 125, "allowed: 0s to 87600h, as 30s");
    expect_code(run("-E", "256", "k", "--", "true"), 125, "0 to 255");
    expect_code(run("--on-lost", "panic", "k", "--", "true"), 125, "term, kill, ignore");
    expect_code(run("-l", repeat("x", 65), "k", "--", "true"), 125, "--label");
    expect_code(run("--dance", "k", "--", "true"), 125, "dance");
    expect_code(run("-c", "/no/such/file", "k", "--", "true"), 125, "/no/such/file");
    const struct outcome help = run("--help");
    expect_code(help, 0, "");
    cr_assert_not_null(strstr(help.out, "--on-lost"));
}

/* A lease that callers renew may be shorter than one that the watchdog renews. */
Test(run, a_short_lease_of_a_policy_is_raised)
{
    struct agent_options options = running_options;
    options.extra = "policies: [{match: 'short', ttl: 900ms, renew: caller}]\n";
    config = agent_config(&options);
    expect_code(run("short", "--", "true"), 0, "");
}

/* The command learns its lock, and nothing of how the masters are reached. */
Test(run, environment)
{
    const struct running running = start("my/key", "--", "sh", "-c", "env; echo END; sleep 60");
    cr_assert(eventually(has_said(&running, "\nEND\n")));
    const char *out = read_whole_file(running.out);
    const char *token = strstr(out, "\nLOCKAGENT_TOKEN="),
               *fence = strstr(out, "\nLOCKAGENT_FENCING_TOKEN=");
    cr_assert_not_null(strstr(out, "\nLOCKAGENT_KEY=my/key\n"));
    cr_assert_not_null(token);
    token += strlen("\nLOCKAGENT_TOKEN=");
    fence += strlen("\nLOCKAGENT_FENCING_TOKEN=");
    const char *stored; /* This master may get the key later. */
    cr_assert(eventually((stored = master_get(0, "lock:my/key")) != NULL));
    cr_assert_eq(strncmp(stored, token, 40), 0, "it is the token that the masters know");
    const char *number = format("%.*s", (int)strcspn(fence, "\n"), fence);
    cr_assert_eq(strncmp(token + 41, number, strlen(number)), 0, "%s", token);
    cr_assert_eq(master_number(0, "my/key"), strtoll(number, NULL, 10));
    kill(running.pid, SIGTERM);
    expect_code(end(&running), 143, "");

    const char *const secret[] = {
        "LOCKAGENT_LIMITS_LOCKS=77", program(), "run", "-c", config, "k", "--", "env", NULL};
    const struct outcome outcome = program_run("env", secret, NULL);
    cr_assert_eq(outcome.exit_status, 0, "%s", outcome.err);
    cr_assert_null(strstr(outcome.out, "LOCKS"), "%s", outcome.out);
}

/* The environment of a command does not keep it from running another one, nor from asking. */
Test(run, nested)
{
    const struct agent *agent = agent_start(&running_options);
    const char *script =
        format("env | grep -c ^LOCKAGENT_; '%s' check '%s' && '%s' run -c '%s' b -- "
               "sh -c 'echo $LOCKAGENT_KEY' && '%s' healthcheck -c '%s' -s listen=127.0.0.1:%d && "
               "echo lives",
               program(), config, program(), config, program(), config, agent->port);
    const struct outcome slot = run("slots", "--", "sh", "-c", script);
    cr_assert_eq(slot.exit_status, 0, "%s", slot.err);
    cr_assert_str_eq(slot.out, format("4\n%s: ok\nb\nlives\n", config));
    const struct outcome outcome = run("a", "--", program(), "run", "-c", config, "b", "--", "sh",
                                       "-c", "echo $LOCKAGENT_KEY");
    cr_assert_eq(outcome.exit_status, 0, "%s", outcome.err);
    cr_assert_str_eq(outcome.out, "b\n");
}

/* Open files, masks and ignored signals are those that we were started with. */
Test(run, inherited)
{
    expect_code(
        run("k", "--", "sh", "-c", "ls /proc/self/fd | tr '\\n' ' '; test -e /proc/self/fd/2"), 0,
        "");
    cr_assert_str_eq(run("k", "--", "ls", "/proc/self/fd").out, "0\n1\n2\n3\n",
                     "3 is the folder that ls reads");
    const char *const direct[] = {"-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status", NULL};
    cr_assert_str_eq(run("k", "--", "grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status").out,
                     program_run("grep", direct, NULL).out);
}

Test(run, exclusion)
{
    enum { RUNS = 8 };
    struct running runs[RUNS];
    const char *counter = write_file("counter", "0\n");
    const char *script = format("n=$(cat %s); sleep 0.05; echo $((n + 1)) >%s", counter, counter);
    for (size_t i = 0; i < RUNS; i++)
        runs[i] = start("counter", "--", "sh", "-c", script);
    for (size_t i = 0; i < RUNS; i++)
        expect_code(end(&runs[i]), 0, "");
    cr_assert_str_eq(read_whole_file(counter), format("%d\n", RUNS));
    cr_assert(eventually(masters_with("lock:counter") == 0));
}

/* It is the same lock that agents take for their callers. */
Test(run, excludes_agents)
{
    struct agent *agent = agent_start(&running_options);
    const struct running running = start("-l", "cron", "k", "--", "sh", "-c", "echo on; sleep 60");
    cr_assert(eventually(has_said(&running, "on")));
    const struct reply *refused = acquire(agent, "k", "ttl=10s");
    expect(refused, 409, "lock_held");
    cr_assert_str_eq(string(refused, "holder"), "cron");
    kill(running.pid, SIGTERM);
    expect_code(end(&running), 143, "");
    const struct reply *taken = acquire(agent, "k", "ttl=10s&label=web");
    expect(taken, 201, NULL);
    expect_code(run("-n", "k", "--", "true"), 1, "web");
    const struct running waiter =
        start("-w", "30s", "k", "--", "sh", "-c", "echo $LOCKAGENT_FENCING_TOKEN");
    give_back(agent, "k", token(taken));
    const struct outcome outcome = end(&waiter);
    expect_code(outcome, 0, "");
    cr_assert_gt(atoll(outcome.out), number(taken, "fencing_token"),
                 "R12: numbers rise with every grant");
}

/* R17, R18: two read beside each other, and a writer waits for both. */
Test(run, readers_and_writers)
{
    static const char held[] = "echo \"$LOCKAGENT_KEY $LOCKAGENT_FENCING_TOKEN\"; sleep 60";
    const struct running one = start("-r", "rw/k", "--", "sh", "-c", held);
    cr_assert(eventually(has_said(&one, "rw/k ")));
    const struct running two = start("--read", "rw/k", "--", "sh", "-c", held);
    cr_assert(eventually(has_said(&two, "rw/k ")));
    cr_assert_str_eq(read_whole_file(one.out), read_whole_file(two.out), "R19: nobody wrote");
    cr_assert(eventually(master_do(0, "ZCARD lock:rw/k")->integer == 2));
    expect_code(run("-n", "rw/k", "--", "true"), 1, "");
    const struct running writer =
        start("-w", "30s", "rw/k", "--", "sh", "-c", "echo $LOCKAGENT_FENCING_TOKEN");
    cr_assert(eventually(masters_with("lockagent:ticket:lock:rw/k") == master_count()));
    expect_code(run("-n", "-r", "rw/k", "--", "true"), 1, ""); /* the writer came first */
    kill(one.pid, SIGTERM);
    expect_code(end(&one), 143, "");
    cr_assert_not(has_said(&writer, "1"), "one still reads");
    kill(two.pid, SIGTERM);
    const struct outcome read = end(&two), written = end(&writer);
    expect_code(read, 143, "");
    expect_code(written, 0, "");
    cr_assert_gt(atoll(written.out), atoll(strchr(read.out, ' ')), "R19: a write's rises");
    cr_assert(eventually(masters_with("lock:rw/k") == 0));
    expect_code(run("-r", "k", "--", "true"), 125, "rw"); /* a mutex is not read */
}

Test(run, not_acquired)
{
    const struct running holder =
        start("-l", "worker-1", "k", "--", "sh", "-c", "echo held; sleep 60");
    cr_assert(eventually(has_said(&holder, "held")));
    expect_code(run("-n", "k", "--", "echo", "never"), 1, "another holder: worker-1");
    struct outcome timed; /* On a busy machine it may say that it was late. */
    cr_assert(eventually(
        *(timed = run("-q", "-E", "9", "-w", "300ms", "k", "--", "echo", "never")).err == '\0'));
    expect_code(timed, 9, "");
    cr_assert_str_empty(timed.out);
    const struct running waiter = start("-w", "30s", "k", "--", "echo", "mine");
    sleep_ms(200);
    cr_assert_str_empty(read_whole_file(waiter.out));
    kill(holder.pid, SIGTERM);
    expect_code(end(&holder), 143, "");
    const struct outcome waited = end(&waiter);
    expect_code(waited, 0, "");
    cr_assert_str_eq(waited.out, "mine\n");
    master_kill(1);
    master_kill(2);
    expect_code(run("-q", "-n", "k", "--", "echo", "never"), 1, "0 of 3 masters");
    master_kill(0);
    expect_code(run("-q", "-n", "k", "--", "echo", "never"), 1,
                "k: not acquired: group main: 0 of 3 masters are up, 2 are needed: no lock can be "
                "granted");
    const struct running patient = start("k", "--", "echo", "mine");
    cr_assert(eventually(strstr(read_whole_file(patient.err),
                                "waits: group main: 0 of 3 masters are up, 2 are needed: no lock "
                                "can be granted\n") != NULL));
    kill(patient.pid, SIGTERM);
    expect_code(end(&patient), 143, "waits: ");
}

/* The lock is the command's for as long as it runs: neither the limits of an agent's callers nor
 * its ttl end it. */
Test(run, held_to_the_end)
{
    const char *script =
        format("echo on; until test -e '%s'; do sleep 0.05; done", world_path("flag"));
    const struct running running = start("-t", "6s", "short/1", "--", "sh", "-c", script);
    cr_assert(eventually(has_said(&running, "on")));
    sleep_ms(6500); /* beyond the lease that was granted */
    expect_code(run("-n", "short/1", "--", "true"), 1, "");
    write_file("flag", "");
    expect_code(end(&running), 0, "");
    expect_code(run("-t", "5s", "--max-hold", "1500ms", "k", "--", "sleep", "60"), 75, "max_hold");
}

/* R7: the lost margin of the default ttl is 3 s, and longer than such a hold. */
Test(run, a_max_hold_that_is_much_shorter_than_the_ttl)
{
    const int64_t began = boottime_ms();
    const struct outcome outcome =
        run("--max-hold", "2s", "k", "--", "sh", "-c", "echo on; exec sleep 60");
    const int64_t took_ms = boottime_ms() - began;
    expect_code(outcome, 75, "max_hold");
    cr_assert_str_eq(outcome.out, "on\n");
    cr_assert_geq(took_ms, 1700, "%lld", (long long)took_ms);
    cr_assert_leq(took_ms, 8000, "%lld", (long long)took_ms);
}

Test(run, signals_reach_the_command)
{
    static const struct {
        int number;
        const char *name;
    } signals[] = {{SIGTERM, "TERM"}, {SIGINT, "INT"},   {SIGHUP, "HUP"},
                   {SIGQUIT, "QUIT"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}};
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        const char *script =
            format("trap 'echo got; exit 50' %s; echo ready; while :; do sleep 0.02; done",
                   signals[i].name);
        const struct running running = start("k", "--", "sh", "-c", script);
        cr_assert(eventually(has_said(&running, "ready")));
        kill(running.pid, signals[i].number);
        const struct outcome outcome = end(&running);
        cr_assert_eq(outcome.exit_status, 50, "%s: %d %s", signals[i].name, outcome.exit_status,
                     outcome.err);
        cr_assert_not_null(strstr(outcome.out, "got"));
    }
    cr_assert_eq(masters_with("lock:k"), 0u);
}

/* A command that exits with 130 did not die of Ctrl-C: then a script goes on, as it does without
 * `run`. */
Test(run, a_code_is_no_signal)
{
    expect_code(run("k", "--", "sh", "-c", "exit 130"), 130, "");
    expect_code(run("k", "--", "sh", "-c", "kill -INT $$"), -1, "");
    const struct running holder = start("k", "--", "sh", "-c", "echo held; sleep 60");
    cr_assert(eventually(has_said(&holder, "held")));
    expect_code(run("-n", "-E", "130", "k", "--", "true"), 130, "not acquired");
    kill(holder.pid, SIGTERM);
    end(&holder);
}

Test(run, signals_end_the_wait)
{
    const struct running holder = start("k", "--", "sh", "-c", "echo held; sleep 60");
    cr_assert(eventually(has_said(&holder, "held")));
    const char *stored; /* This master may get the key later. */
    cr_assert(eventually((stored = master_get(0, "lock:k")) != NULL));
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        const struct running waiter = start("k", "--", "echo", "never");
        cr_assert(eventually(catches(waiter.pid, numbers[i])));
        sleep_ms(50 * (int64_t)i); /* at once, and when it is waiting */
        kill(waiter.pid, numbers[i]);
        const struct outcome outcome = end(&waiter);
        expect_code(outcome, numbers[i] == SIGINT ? -1 : 128 + numbers[i], "");
        cr_assert_str_empty(outcome.out);
    }
    cr_assert_str_eq(master_get(0, "lock:k"), stored, "the holder's key is left alone");
    /* A terminal that is resized, and a process that goes on, end nothing. */
    const struct running waiter = start("k", "--", "echo", "mine");
    cr_assert(eventually(catches(waiter.pid, SIGWINCH) && catches(waiter.pid, SIGCONT)));
    kill(waiter.pid, SIGWINCH);
    kill(waiter.pid, SIGCONT);
    sleep_ms(200);
    kill(holder.pid, SIGTERM);
    end(&holder);
    const struct outcome outcome = end(&waiter);
    expect_code(outcome, 0, "");
    cr_assert_str_eq(outcome.out, "mine\n");
}

/* R5: a wait that ends in the middle of an attempt takes back what that attempt has been
 * granted. */
Test(run, signals_undo_the_attempt)
{
    for (size_t i = 0; i < master_count(); i++)
        master_do(i, "SET lock:k stranger");
    const struct running waiter = start("-t", "30s", "k", "--", "echo", "never");
    /* It subscribes when it has asked all masters, and has been refused. */
    for (size_t i = 0; i < master_count(); i++)
        cr_assert(eventually(
            master_do(i, "PUBSUB NUMSUB lockagent:channel:lock:k")->element[1]->integer == 1));
    master_freeze(1);
    master_freeze(2);
    master_do(0, "DEL lock:k");
    cr_assert(eventually(masters_with("lock:k") == 1),
              "one master grants, the others do not answer");
    kill(waiter.pid, SIGTERM);
    const struct outcome outcome = end(&waiter);
    expect_code(outcome, 143, "");
    cr_assert_str_empty(outcome.out);
    cr_assert_eq(masters_with("lock:k"), 0u);
}

/* A process that is killed cannot say goodbye: its command must end with it, children and all. */
Test(run, killed)
{
    const struct running running =
        start("-t", "2s", "k", "--", "sh", "-c", "sleep 300 & echo $! $$; sleep 300");
    cr_assert(eventually(has_said(&running, "\n")));
    int pids[2];
    cr_assert_eq(sscanf(read_whole_file(running.out), "%d %d", &pids[0], &pids[1]), 2);
    end_process(running.pid);
    cr_assert(eventually(!is_alive(pids[0])), "what the command started is killed");
    cr_assert(eventually(!is_alive(pids[1])), "the command is killed");
    expect_code(run("-w", "10s", "k", "--", "true"), 0, "");
}

/* Returns the keeper of `lockagent run`; 0: there is none now. */
static pid_t keeper_of(pid_t run)
{
    char *children = read_whole_file(format("/proc/%d/task/%d/children", run, run)), *rest = NULL;
    for (char *word = strtok_r(children, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (strstr(read_whole_file(format("/proc/%s/comm", word)), "lockagent-keep") != NULL)
            return atoi(word);
    return 0;
}

Test(run, a_keeper_that_dies_is_replaced)
{
    const struct running running =
        start("-t", "5s", "k", "--", "sh", "-c", "sleep 300 & echo $! $$; sleep 300");
    cr_assert(eventually(has_said(&running, "\n")));
    int pids[2];
    cr_assert_eq(sscanf(read_whole_file(running.out), "%d %d", &pids[0], &pids[1]), 2);
    pid_t first = 0, second = 0;
    cr_assert(eventually((first = keeper_of(running.pid)) != 0));
    kill(first, SIGKILL);
    /* Asked once a turn: the first is listed until `run` has waited for it, and then none is. */
    cr_assert(eventually((second = keeper_of(running.pid)) != 0 && second != first));
    kill(running.pid, SIGSTOP);
    cr_assert(eventually(!is_alive(pids[0]) && !is_alive(pids[1])), "it has the same deadline");
    kill(running.pid, SIGCONT);
    expect_code(end(&running), 75, "");
}

/* Something may kill each of them at once. `run` must not start them without end. */
Test(run, a_command_whose_keepers_keep_dying_is_killed)
{
    const struct running running =
        start("-t", "5s", "k", "--", "sh", "-c", "echo $$; exec sleep 300");
    cr_assert(eventually(has_said(&running, "\n")));
    const pid_t command = atoi(read_whole_file(running.out));
    pid_t now = 0;
    for (int died = 0; died < 17; died++) {
        pid_t last = now;
        cr_assert(eventually((now = keeper_of(running.pid)) != 0 && now != last), "%d", died);
        cr_assert(is_alive(command));
        kill(now, SIGKILL);
    }
    cr_assert(eventually(!is_alive(command)));
    expect_code(end(&running), 137, "no keeper lives");
}

/* A keeper that has killed the group is not replaced. A process that the kernel does not end at
 * once is held here by a tracer. Found when each keeper in turn saw a deadline that had passed. */
Test(run, a_keeper_that_has_done_its_work_is_not_replaced)
{
    const struct running running =
        start("-t", "2s", "k", "--", "sh", "-c", "echo $$; exec sleep 300");
    cr_assert(eventually(has_said(&running, "\n")));
    const pid_t command = atoi(read_whole_file(running.out));
    if (ptrace(PTRACE_SEIZE, command, 0, PTRACE_O_TRACEEXIT) != 0)
        cr_skip_test("a tracer needs the right to trace");
    kill(running.pid, SIGSTOP);
    cr_assert_eq(waitpid(command, NULL, __WALL), command, "the keeper has killed it");
    kill(running.pid, SIGCONT);
    cr_assert(eventually(keeper_of(running.pid) == 0));
    for (int64_t until_ms = boottime_ms() + 300; boottime_ms() < until_ms;)
        cr_assert_eq(keeper_of(running.pid), 0);
    ptrace(PTRACE_DETACH, command, 0, 0);
    expect_code(end(&running), 75, "");
}

/* When the command last showed that it was alive, on the boot-time clock. */
static int64_t last_beat_ms(const char *out)
{
    int64_t last = 0;
    for (const char *line = out; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (*line >= '0' && *line <= '9')
            last = (int64_t)(strtod(line, NULL) * 1000);
    }
    return last;
}

/* Locks of each kind: how `run` asks for one, and the keys on the masters then. */
static const struct kind {
    const char *option, *key, *stored[2];
} kinds[] = {{"-q", "mutex", {"lock:mutex", "lock:mutex"}},
             {"-r", "rw", {"lock:rw", "lock:rw"}},
             {"-q", "slots", {"lockagent:slot:0:lock:slots", "lockagent:slot:1:lock:slots"}}};

static bool is_free(const struct kind *kind)
{
    return masters_with(kind->stored[0]) + masters_with(kind->stored[1]) == 0;
}

/* Starts `run` in a container whose process 1 reaps no children: every process that ends there
 * stays as a zombie. Kills `run` as soon as there is a file `flag`. */
static struct running start_in_container(const struct kind *kind, const char *ttl,
                                         const char *command, const char *flag)
{
    struct running running = {.out = world_path(format("%s.out", flag)),
                              .err = world_path(format("%s.err", flag))};
    const char *script =
        format("'%s' run -c '%s' %s -t %s %s -- sh -c '%s' & run=$!\n"
               "(until test -e '%s'; do sleep 0.05; done; kill -KILL $run) & exec sleep 300",
               program(), config, kind->option, ttl, kind->key, command, world_path(flag));
    running.pid = spawn((const char *const[]){"unshare", "--pid", "--fork", "--kill-child", "sh",
                                              "-c", script, NULL},
                        NULL, running.out, running.err);
    return running;
}

/* The command ends, and leaves a process behind; `run` gives the lock back all the same. */
Test(run, a_process_1_that_reaps_nobody)
{
    if (!is_privileged())
        cr_skip_test("a namespace of processes needs root");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        const struct running running = start_in_container(
            &kinds[i], "30s", "sleep 300 & echo held; sleep 1", format("end%zu", i));
        cr_assert(eventually(has_said(&running, "held")), "%s", read_whole_file(running.err));
        cr_assert(!is_free(&kinds[i]));
        cr_assert(eventually(is_free(&kinds[i])), "%s is not given back", kinds[i].key);
        end_process(running.pid);
    }
}

/* `run` is killed there: its command ends before the lock is another's, for any kind of command. */
Test(run, killed_where_process_1_reaps_nobody)
{
    if (!is_privileged())
        cr_skip_test("a namespace of processes needs root");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        const char *flag = format("kill%zu", i);
        const struct running running = start_in_container(
            &kinds[i], "2s", "while :; do cut -d \" \" -f 1 /proc/uptime; sleep 0.02; done", flag);
        cr_assert(eventually(has_said(&running, "\n")), "%s", read_whole_file(running.err));
        write_file(flag, "");
        cr_assert(eventually(is_free(&kinds[i])), "the lease of %s does not end", kinds[i].key);
        const int64_t free_ms = boottime_ms();
        expect_code(run("-w", "10s", kinds[i].key, "--", "true"), 0, "");
        cr_assert_lt(last_beat_ms(read_whole_file(running.out)), free_ms,
                     "the command went on under %s", kinds[i].key);
        end_process(running.pid);
    }
}

/* Processes of a command do not go on when the lock is another's. */
Test(run, leftovers)
{
    const struct outcome outcome = run("k", "--", "sh", "-c", "sleep 300 & echo $!");
    expect_code(outcome, 0, "");
    cr_assert(!is_alive(atoi(outcome.out)), "%s", outcome.out);
}

/* A process that was killed may take a while to end. Here it stays as a zombie, because its parent
 * has left the group and reaps no child. `run` waits for it for CLEAR_MS at most. */
Test(run, the_lock_is_held_while_a_process_is_left)
{
    enum { TRIES = 10, HELD_MS = 500, CLEAR_MS = 1000 };
    bool was_in_time = false;
    for (int try = 0; try < TRIES && !was_in_time; try++) {
        const char *flag = format("ended%d", try);
        const char *script = format("(sleep 300 & exec setsid sh -c \"echo $! \\$\\$; exec sleep "
                                    "300\") & until test -e '%s'; do sleep 0.01; done",
                                    world_path(flag));
        const struct running running = start("k", "--", "sh", "-c", script);
        int left, parent;
        cr_assert(eventually(sscanf(read_whole_file(running.out), "%d %d\n", &left, &parent) == 2));
        const int64_t ended_ms = boottime_ms();
        write_file(flag, "");
        int64_t seen_ms;
        bool is_held = true;
        do {
            is_held = is_held && masters_with("lock:k") >= 2;
            seen_ms = boottime_ms();
        } while (seen_ms - ended_ms < HELD_MS);
        was_in_time = seen_ms - ended_ms < CLEAR_MS;
        cr_assert(is_held || !was_in_time, "it was released although a process is left");
        expect_code(end(&running), 0, "");
        cr_assert(!is_alive(left));
        kill(parent, SIGKILL);
    }
    cr_assert(was_in_time, "the masters were asked too late");
}

static struct running start_beating_for(const char *ttl, const char *option, const char *value,
                                        const char *on_term)
{
    const char *script = format(
        "trap '%s' TERM; while :; do cut -d ' ' -f 1 /proc/uptime; sleep 0.02; done", on_term);
    const struct running running = start(option, value, "-t", ttl, "k", "--", "sh", "-c", script);
    cr_assert(eventually(has_said(&running, "\n")));
    return running;
}

static struct running start_beating(const char *option, const char *value, const char *on_term)
{
    return start_beating_for("4s", option, value, on_term);
}

/* The lock was lost because no quorum replied. A `run` that was late itself says `stalled`, and
 * logs that it was late. */
static void expect_quorum_lost(struct outcome outcome, int code)
{
    const bool was_late = strstr(outcome.err, "the lock was lost (stalled)") != NULL &&
                          strstr(outcome.err, LATE) != NULL;
    expect_code(outcome, code,
                was_late ? "the lock was lost (stalled)" : "the lock was lost (quorum_lost)");
}

static int64_t freeze_majority(void)
{
    master_freeze(1);
    master_freeze(2);
    return boottime_ms();
}

/* Returns whether the command was told of the loss. R7: no renewal began after the masters were
 * frozen, so that the validity ends before frozen + ttl. */
static bool is_told_of_loss(const char *option, const char *value, const char *on_term)
{
    const struct running running = start_beating(option, value, on_term);
    const int64_t frozen_ms = freeze_majority();
    const struct outcome outcome = end(&running);
    expect_quorum_lost(outcome, 75);
    cr_assert_lt(last_beat_ms(outcome.out), frozen_ms + 4000,
                 "it went on beyond the validity of its lock");
    return strstr(outcome.out, "told") != NULL;
}

/* The command has half a lost margin, 200 ms, to say that it was told. On a busy machine it may be
 * killed before. */
static void expect_told_of_loss(const char *option, const char *value, const char *on_term)
{
    enum { TRIES = 5 };
    bool is_told = false;
    for (int try = 0; try < TRIES && !is_told; try++) {
        is_told = is_told_of_loss(option, value, on_term);
        master_thaw(1);
        master_thaw(2);
    }
    cr_assert(is_told, "%d times", TRIES);
}

Test(run, lost_and_told)
{
    expect_told_of_loss("--on-lost", "term", "echo told; exit 3");
}

Test(run, lost_and_deaf)
{
    expect_told_of_loss("-w", "5s", "echo told");
}

Test(run, lost_and_killed)
{
    cr_assert_not(is_told_of_loss("--on-lost", "kill", "echo told"));
}

Test(run, lost_and_ignored)
{
    const char *flag = world_path("flag");
    const char *script = format(
        "trap 'echo told' TERM; echo on; until test -e %s; do sleep 0.05; done; exit 5", flag);
    const struct running running =
        start("--on-lost", "ignore", "-t", "1s", "k", "--", "sh", "-c", script);
    cr_assert(eventually(has_said(&running, "on")));
    freeze_majority();
    cr_assert(eventually(strstr(read_whole_file(running.err), "goes on without it") != NULL));
    sleep_ms(500); /* beyond the validity */
    write_file("flag", "");
    const struct outcome outcome = end(&running);
    expect_quorum_lost(outcome, 5);
    cr_assert_null(strstr(outcome.out, "told"));
}

/* The masters say that the lock is gone: nothing is left to wait for. */
Test(run, lost_because_taken)
{
    const struct running running = start("-t", "3s", "k", "--", "sh", "-c", "echo on; sleep 60");
    cr_assert(eventually(has_said(&running, "on")));
    for (size_t i = 0; i < 2; i++)
        master_do(i, "SET lock:k stranger");
    expect_code(end(&running), 75, "taken");
    cr_assert_str_eq(master_get(0, "lock:k"), "stranger");
}

/* The validity would last for 8 s more at least, and another one has the lock. */
Test(run, lost_because_taken_and_deaf)
{
    enum { RENEWED_MS = 4000, DEAD_MS = 7000 };
    const struct running running = start_beating_for("12s", "--on-lost", "term", "echo told");
    const int64_t taken_ms = boottime_ms();
    for (size_t i = 0; i < 2; i++)
        master_do(i, "SET lock:k stranger");
    const struct outcome outcome = end(&running);
    expect_code(outcome, 75, "taken");
    cr_assert_not_null(strstr(outcome.out, "told"), "%s", outcome.out);
    cr_assert_lt(last_beat_ms(outcome.out), taken_ms + DEAD_MS, "a renewal is due after %d ms",
                 RENEWED_MS);
}

/* R14: a `run` that is stopped cannot renew. Its command must not outlive the validity, and `run`
 * says so when it wakes. */
Test(run, stopped)
{
    const struct running running =
        start("-t", "1s", "k", "--", "sh", "-c", "echo $$; exec sleep 300");
    cr_assert(eventually(has_said(&running, "\n")));
    const pid_t command = atoi(read_whole_file(running.out));
    kill(running.pid, SIGSTOP);
    siginfo_t about;
    cr_assert(
        eventually(kill(command, 0) == 0 &&
                   strstr(read_whole_file(format("/proc/%d/stat", (int)command)), ") Z") != NULL),
        "it is killed while `run` is stopped");
    cr_assert_eq(waitid(P_PID, (id_t)running.pid, &about, WSTOPPED | WNOHANG | WNOWAIT), 0);
    cr_assert_eq(about.si_pid, running.pid);
    kill(running.pid, SIGCONT);
    expect_code(end(&running), 75, "stalled");
}

/* ---- a machine that has slept ---- */

/* Starts a shell in a namespace whose boot clock is a day ahead of the clock that stops in suspend,
 * as after so long a sleep of the machine. */
static struct running start_after_sleep(const char *script)
{
    struct running running = {.out = world_path("slept.out"), .err = world_path("slept.err")};
    running.pid = spawn((const char *const[]){"unshare", "--time", "--boottime", "86400", "--fork",
                                              "--kill-child", "sh", "-c", script, NULL},
                        NULL, running.out, running.err);
    return running;
}

/* The readings of the masters' clocks are on the boot clock too. Otherwise each acquire would come
 * with a time that no master's clock has reached (R5). */
Test(run, acquired_where_the_machine_has_slept)
{
    if (!is_privileged())
        cr_skip_test("a namespace of clocks needs root");
    const struct running running =
        start_after_sleep(format("exec '%s' run -c '%s' -w 10s k -- true", program(), config));
    expect_code(end(&running), 0, "");
}

/* The keeper's clock counts the time in which the machine slept, as that of the validity does
 * (R4). */
Test(run, stopped_where_the_machine_has_slept)
{
    if (!is_privileged())
        cr_skip_test("a namespace of clocks needs root");
    const struct running running = start_after_sleep(
        format("echo $$; exec '%s' run -c '%s' -t 1s k -- sh -c 'echo $$; exec sleep 300'",
               program(), config));
    int pids[2];
    cr_assert(eventually(sscanf(read_whole_file(running.out), "%d %d\n", &pids[0], &pids[1]) == 2),
              "%s", read_whole_file(running.err));
    kill(pids[0], SIGSTOP);
    cr_assert(eventually(!is_alive(pids[1])), "it is killed while `run` is stopped");
    kill(pids[0], SIGCONT);
    expect_code(end(&running), 75, "stalled");
}

/* ---- terminals ---- */

/* Starts it as a shell would, in the foreground of a new terminal. */
static pid_t start_on_terminal(const char *script, int *ret_terminal)
{
    const char *const list[] = {program(), "run", "-c", config, "-s",   "log.level=info",
                                "k",       "--",  "sh", "-c",   script, NULL};
    const pid_t pid = forkpty(ret_terminal, NULL, NULL, NULL);
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        unsetenv("LOCKAGENT_BUILD");
        unsetenv("LOCKAGENT_SOURCE");
        unsetenv("LOCKAGENT_KEEP");
        execv(list[0], (char *const *)(uintptr_t)list);
        _exit(127);
    }
    return pid;
}

/* A script of which `lockagent run` is one line, on a terminal of its own. */
static pid_t start_script(const char *shell, const char *rest, int *ret_terminal)
{
    const char *script = format("%s run -c %s k -- sh -c 'echo ready; exec sleep 60' %s\n"
                                "echo the script goes on",
                                program(), config, rest);
    const pid_t pid = forkpty(ret_terminal, NULL, NULL, NULL);
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        unsetenv("LOCKAGENT_BUILD");
        unsetenv("LOCKAGENT_SOURCE");
        unsetenv("LOCKAGENT_KEEP");
        execlp(shell, shell, "-c", script, NULL);
        _exit(127);
    }
    return pid;
}

/* Reads until the words come. */
static void read_until(int terminal, const char *words)
{
    char text[4096];
    size_t length = 0;
    while (length + 1 < sizeof(text)) {
        const ssize_t got = read(terminal, text + length, 1);
        cr_assert_gt(got, 0, "the terminal was closed after: %.*s", (int)length, text);
        text[++length] = '\0';
        if (strstr(text, words) != NULL)
            return;
    }
    cr_assert_fail("%s did not come in %s", words, text);
}

/* The command has the terminal: it can read, and Ctrl-C is for it. */
Test(run, terminal)
{
    int terminal, status;
    pid_t pid = start_on_terminal("echo ready; read word; echo \"<$word>\"; exit 4", &terminal);
    read_until(terminal, "ready");
    /* Ctrl-Z: no shell is there that could continue it, so it goes on */
    cr_assert_eq(write(terminal, "\032", 1), 1);
    sleep_ms(200);
    cr_assert_eq(write(terminal, "hello\n", 6), 6);
    read_until(terminal, "<hello>");
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 4, "%x", (unsigned)status);
    close(terminal);

    pid = start_on_terminal(
        "trap 'echo interrupted; exit 6' INT; echo ready; while :; do sleep 0.05; done", &terminal);
    read_until(terminal, "ready");
    cr_assert_eq(write(terminal, "\003", 1), 1);
    read_until(terminal, "interrupted");
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 6, "%x", (unsigned)status);
    close(terminal);

    /* A command that dies of Ctrl-C takes the script around it along. */
    pid = start_on_terminal("echo ready; exec sleep 60", &terminal);
    read_until(terminal, "ready");
    cr_assert_eq(write(terminal, "\003", 1), 1);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "%x", (unsigned)status);
    close(terminal);
    cr_assert_eq(masters_with("lock:k"), 0u);
}

/* The group of the script gets Ctrl-C as it does without `run`, with the terminal lent or not. */
Test(run, ctrl_c_ends_the_script_around_it)
{
    static const char *const shells[] = {"sh", "bash"}, *const rests[] = {"", "</dev/null"};
    for (size_t i = 0; i < 4; i++) {
        int terminal, status;
        char text[256] = "";
        const pid_t pid = start_script(shells[i / 2], rests[i % 2], &terminal);
        read_until(terminal, "ready");
        cr_assert_eq(write(terminal, "\003", 1), 1);
        ssize_t got, length = 0;
        while ((got = read(terminal, text + length, sizeof(text) - 1 - (size_t)length)) > 0)
            length += got;
        cr_assert_null(strstr(text, "goes on"), "%s %s: %s", shells[i / 2], rests[i % 2], text);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "%x", (unsigned)status);
        close(terminal);
        cr_assert_eq(masters_with("lock:k"), 0u);
    }
}
