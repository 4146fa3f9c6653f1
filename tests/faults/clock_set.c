/* The kernel's word that the wall clock was set, without setting the machine's clock: preloaded
 * into an agent, this puts the FIFO named by FAULT_CLOCK_SET in the place of a timerfd on the wall
 * clock. For each byte that is written to the FIFO the agent is told once that the clock was set,
 * as the kernel does with TFD_TIMER_CANCEL_ON_SET. Other timers are the kernel's. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int fault_clock_fifo = -1;

int timerfd_create(clockid_t clock, int flags)
{
    const char *path = getenv("FAULT_CLOCK_SET");
    if (clock != CLOCK_REALTIME || path == NULL)
        return (int)syscall(SYS_timerfd_create, clock, flags);
    fault_clock_fifo = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    return fault_clock_fifo;
}

/* Like the kernel, refuses to watch for a change unless the timer is armed for it. */
int timerfd_settime(int fd, int flags, const struct itimerspec *new_value,
                    struct itimerspec *old_value)
{
    if (fd != fault_clock_fifo)
        return (int)syscall(SYS_timerfd_settime, fd, flags, new_value, old_value);
    if ((flags & TFD_TIMER_CANCEL_ON_SET) != 0 && (flags & TFD_TIMER_ABSTIME) != 0)
        return 0;
    errno = EINVAL;
    return -1;
}

ssize_t read(int fd, void *buffer, size_t count)
{
    char word;
    if (fd < 0 || fd != fault_clock_fifo)
        return syscall(SYS_read, fd, buffer, count);
    if (syscall(SYS_read, fd, &word, sizeof(word)) > 0)
        errno = ECANCELED;
    return -1;
}
