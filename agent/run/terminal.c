/* Moves the terminal's foreground to the command and back. The foreground group may read from the
 * terminal, and gets its Ctrl-C. */
#include "agent/run/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    int fd; /* -1: there is none */
    bool lent;
} terminal = {.fd = -1};

void run_terminal_open(void)
{
    terminal.fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

bool run_terminal_is_wanted(void)
{
    struct stat out;
    return terminal.fd >= 0 && isatty(STDIN_FILENO) &&
           !(fstat(STDOUT_FILENO, &out) == 0 && S_ISFIFO(out.st_mode));
}

/* Makes a group the foreground. A background process that does this would be stopped (SIGTTOU),
 * unless it blocks that signal. */
static void set_foreground(pid_t group)
{
    sigset_t ttou, before;
    sigemptyset(&ttou);
    sigaddset(&ttou, SIGTTOU);
    sigprocmask(SIG_BLOCK, &ttou, &before);
    tcsetpgrp(terminal.fd, group);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

bool run_terminal_lend(pid_t group)
{
    if (terminal.fd < 0 || tcgetpgrp(terminal.fd) != getpgrp())
        return false;
    set_foreground(group);
    terminal.lent = true;
    return true;
}

bool run_terminal_take_back(void)
{
    if (!terminal.lent)
        return false;
    set_foreground(getpgrp());
    terminal.lent = false;
    return true;
}
