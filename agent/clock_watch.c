/* A timerfd on the wall clock that never fires: the kernel cancels it when that clock is set. */
#include "agent/clock_watch.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/core_assert.h"

enum { FAR_S = INT32_MAX }; /* 68 years */

static bool arm(int fd)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    CORE_ASSERT(failed == 0);
    struct itimerspec never = {.it_value.tv_sec = now.tv_sec + FAR_S};
    return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) == 0;
}

static void on_set(uv_poll_t *poll, int status, int events)
{
    struct clock_watch *watch = poll->data;
    uint64_t times;
    (void)status, (void)events;
    if (read(watch->fd, &times, sizeof(times)) >= 0 || errno != ECANCELED)
        return;
    if (!arm(watch->fd)) /* The masters' clocks are still read once a second (R14). */
        uv_poll_stop(poll);
    watch->set(watch->arg);
}

bool clock_watch_open(struct clock_watch *watch, uv_loop_t *uv, void (*set)(void *arg), void *arg)
{
    *watch = (struct clock_watch){.fd = -1, .set = set, .arg = arg};
    int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (fd < 0)
        return false;
    if (!arm(fd) || uv_poll_init(uv, &watch->poll, fd) != 0) {
        close(fd);
        return false;
    }
    watch->fd = fd;
    watch->poll.data = watch;
    int failed = uv_poll_start(&watch->poll, UV_READABLE, on_set);
    CORE_ASSERT(failed == 0);
    return true;
}

void clock_watch_close(struct clock_watch *watch)
{
    if (watch->fd < 0)
        return;
    uv_close((uv_handle_t *)&watch->poll, NULL);
    close(watch->fd);
    watch->fd = -1;
}
