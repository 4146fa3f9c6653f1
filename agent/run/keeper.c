/* The keeper's own process: it waits for two things, a message of `run` and a timer on the
 * boot-time clock.
 *
 *   message          a new deadline: the timer is set
 *   end of messages  `run` is dead: the group is killed
 *   timer            the deadline has passed: the group is killed
 *
 * `run` kills the keeper when the group has ended before. */
#include "agent/run/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPLACED_MAX = 16 }; /* Keepers of one command that are replaced. */

/* ---- in the keeper ---- */

/* Sets the timer. CLOCK_BOOTTIME goes on in a suspend: the timer is over at the first instant after
 * it. INSTANT_NEVER disarms the timer. Zero would disarm it too, so it is replaced by the smallest
 * value above it. */
static void set_timer(int timer, struct instant deadline)
{
    struct itimerspec at = {0};
    if (deadline.us != INSTANT_NEVER.us) {
        int64_t us = deadline.us > 0 ? deadline.us : 1;
        at.it_value = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Returns when it is time to kill. */
static void wait_for_the_end(int messages, int timer)
{
    struct pollfd watched[] = {{.fd = messages, .events = POLLIN}, {.fd = timer, .events = POLLIN}};
    for (;;) {
        if (poll(watched, 2, -1) < 0 && errno != EINTR)
            return;
        struct instant deadline;
        if (watched[0].revents != 0) { /* First, because it may be a later deadline. */
            if (read(messages, &deadline, sizeof(deadline)) != sizeof(deadline))
                return;
            set_timer(timer, deadline);
        } else if (watched[1].revents != 0) {
            return;
        }
    }
}

static _Noreturn void be_keeper(int messages, pid_t group, struct instant deadline)
{
    prctl(PR_SET_NAME, "lockagent-keep");
    setsid();
    /* A reader of the command's output would wait for the keeper if it kept the files of `run`. */
    for (int fd = 0; fd < messages; fd++)
        close(fd);
    closefrom(messages + 1);
    int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (timer >= 0) {
        set_timer(timer, deadline);
        wait_for_the_end(messages, timer);
    }
    kill(-group, SIGKILL);
    _exit(0);
}

/* ---- in `run` ---- */

bool run_keeper_start(struct run_keeper *keeper, pid_t group, struct instant deadline)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    /* All signals stay blocked in the keeper, so that no handler of `run` runs there. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        be_keeper(ends[0], group, deadline);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return false;
    }
    fcntl(ends[1], F_SETFL, O_NONBLOCK); /* A keeper that was stopped must not stop `run`. */
    *keeper = (struct run_keeper){.pid = pid, .pipe = ends[1], .deadline = deadline};
    return true;
}

/* If the keeper does not receive the deadline, it keeps the last one, which is earlier. */
void run_keeper_set(struct run_keeper *keeper, struct instant deadline)
{
    keeper->deadline = deadline;
    (void)!write(keeper->pipe, &deadline, sizeof(deadline));
}

void run_keeper_dismiss(struct run_keeper *keeper)
{
    if (keeper->pid == 0)
        return;
    kill(keeper->pid, SIGKILL); /* This ends a stopped keeper as well. It has nothing to finish. */
    close(keeper->pipe);
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    *keeper = (struct run_keeper){.pipe = -1};
}

bool run_keeper_replace(struct run_keeper *keeper, pid_t group)
{
    struct instant deadline = keeper->deadline;
    unsigned replaced = keeper->replaced + 1;
    run_keeper_dismiss(keeper);
    bool starts = replaced <= REPLACED_MAX && run_keeper_start(keeper, group, deadline);
    keeper->replaced = replaced;
    if (!starts)
        kill(-group, SIGKILL);
    return starts;
}
