/* Fork, gate, exec; and the end of it.
 *
 *   run                            child
 *   fork ------------------------> group of its own, SIGKILL when `run` dies
 *   keeper started, terminal lent  waits at the gate
 *   opens the gate --------------> signals as `run` found them, exec
 *   reads what exec said <-------- errno, or the end of the pipe */
#include "agent/run/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/run/say.h"

enum { SIGNAL_MAX = 64 }; /* Linux has 1..64 */

struct run_inherited {
    struct sigaction actions[SIGNAL_MAX + 1];
    sigset_t mask;
};

const struct run_inherited *run_inherit(void)
{
    static struct run_inherited inherited;
    for (int n = 1; n <= SIGNAL_MAX; n++)
        sigaction(n, NULL, &inherited.actions[n]); /* the C library's own stay default */
    sigprocmask(SIG_SETMASK, NULL, &inherited.mask);
    return &inherited;
}

bool run_inherited_ignores(const struct run_inherited *inherited, int signal_number)
{
    return inherited->actions[signal_number].sa_handler == SIG_IGN;
}

/* ---- in the child ---- */

struct launch {
    char *const *command, *const *environment;
    const struct run_inherited *inherited;
    pid_t parent;
    int gate[2], said[2]; /* reading end, writing end */
};

static _Noreturn void be_child(const struct launch *launch)
{
    char byte;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launch->parent)
        _exit(0); /* It died before we asked to be told. */
    close(launch->gate[1]);
    ssize_t got;
    do {
        got = read(launch->gate[0], &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got != 1)
        _exit(0);
    /* exec resets handlers, but a signal before it would run our handler, and write into our
     * pipe. */
    for (int n = 1; n <= SIGNAL_MAX; n++)
        sigaction(n, &launch->inherited->actions[n], NULL);
    sigprocmask(SIG_SETMASK, &launch->inherited->mask, NULL);
    execvpe(launch->command[0], launch->command, launch->environment);
    int failure = errno;
    (void)!write(launch->said[1], &failure, sizeof(failure));
    _exit(0);
}

/* ---- in `run` ---- */

static void close_both(int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

static bool open_pipes(struct launch *launch)
{
    if (pipe2(launch->gate, O_CLOEXEC) != 0)
        return false;
    if (pipe2(launch->said, O_CLOEXEC) == 0)
        return true;
    close_both(launch->gate);
    return false;
}

/* Forks the child. All signals are blocked meanwhile, so that none is handled twice. Signals for
 * the child reach it after its exec, or kill it. */
static pid_t fork_child(const struct launch *launch)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        be_child(launch);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid > 0)
        setpgid(pid, pid); /* Both processes do it, because either may be first. */
    return pid;
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* Returns the errno of the failed execution; 0: the command runs. */
static int hear_exec(const struct launch *launch)
{
    int failure = 0;
    ssize_t got;
    do {
        got = read(launch->said[0], &failure, sizeof(failure));
    } while (got < 0 && errno == EINTR);
    return got == sizeof(failure) ? failure : 0;
}

int run_child_start(struct run_child *child, char *const *command, char *const *environment,
                    const struct run_inherited *inherited, struct instant deadline,
                    void (*before_exec)(pid_t group), bool *ret_executed)
{
    struct launch launch = {command, environment, inherited, getpid(), {-1, -1}, {-1, -1}};
    *ret_executed = false;
    /* Orphans of the command become our children. So we see when its group is gone. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!open_pipes(&launch))
        return errno;
    pid_t pid = fork_child(&launch);
    int failure = pid < 0 ? errno : 0;
    if (pid > 0 && !run_keeper_start(&child->keeper, pid, deadline))
        failure = errno;
    if (failure == 0) {
        if (before_exec != NULL)
            before_exec(pid);
        (void)!write(launch.gate[1], "", 1);
    }
    close_both(launch.gate); /* If no byte was written, the child ends. */
    close(launch.said[1]);
    if (failure == 0) {
        failure = hear_exec(&launch);
        *ret_executed = failure != 0;
    }
    close(launch.said[0]);
    if (failure == 0) {
        child->pid = pid;
    } else if (pid > 0) {
        run_keeper_dismiss(&child->keeper);
        reap(pid);
    }
    return failure;
}

void run_child_signal(const struct run_child *child, int signal_number)
{
    if (child->pid > 0)
        kill(-child->pid, signal_number);
}

/* Orphans of the command are our children (see run_child_start()). The child itself is not reaped
 * here. */
void run_child_bury_others(struct run_child *child)
{
    siginfo_t about = {0};
    while (waitid(P_ALL, 0, &about, WEXITED | WNOHANG | WNOWAIT) == 0 && about.si_pid != 0 &&
           about.si_pid != child->pid) {
        bool is_keeper = about.si_pid == child->keeper.pid;
        if (is_keeper && about.si_code == CLD_EXITED) /* It has killed the group. */
            run_keeper_dismiss(&child->keeper);
        else if (is_keeper && !run_keeper_replace(&child->keeper, child->pid))
            run_say(NULL, "no keeper lives: the command is killed");
        else if (!is_keeper)
            reap(about.si_pid);
        if (is_keeper)
            return; /* If this one dies as well, a signal says so. */
        about.si_pid = 0;
    }
}

enum run_child_state run_child_look(struct run_child *child, int *ret_code)
{
    siginfo_t about = {0};
    run_child_bury_others(child);
    if (child->pid == 0 ||
        waitid(P_PID, (id_t)child->pid, &about, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
        about.si_pid == 0)
        return RUN_CHILD_RUNS;
    *ret_code = about.si_code == CLD_EXITED ? about.si_status : 128 + about.si_status;
    if (about.si_code == CLD_STOPPED) {
        *ret_code = about.si_status;
        waitid(P_PID, (id_t)child->pid, &about, WSTOPPED | WNOHANG);
        return RUN_CHILD_STOPPED;
    }
    child->died_of = about.si_code == CLD_EXITED ? 0 : about.si_status;
    /* Until it is reaped, no other group can have its number. */
    kill(-child->pid, SIGKILL);
    run_keeper_dismiss(&child->keeper);
    reap(child->pid);
    child->pid = 0;
    return RUN_CHILD_ENDED;
}

bool run_child_group_is_gone(pid_t group)
{
    while (waitpid(-group, NULL, WNOHANG) > 0)
        continue;
    return kill(-group, 0) != 0 && errno == ESRCH;
}

char **run_environment(char *const *ours, char *const *added)
{
    static const char prefix[] = "LOCKAGENT_";
    size_t count = 0, kept = 0;
    while (ours[count] != NULL)
        count++;
    for (size_t i = 0; added[i] != NULL; i++)
        count++;
    char **all = calloc(count + 1, sizeof(*all));
    if (all == NULL)
        return NULL;
    for (size_t i = 0; ours[i] != NULL; i++)
        if (strncmp(ours[i], prefix, sizeof(prefix) - 1) != 0)
            all[kept++] = ours[i];
    for (size_t i = 0; added[i] != NULL; i++)
        all[kept++] = added[i];
    return all;
}
