/* A timerfd that libuv polls. */
#include "agent/alarm.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/core/core_assert.h"

/* Rings the alarm. The read fails if the alarm was set again after it had fired: then it does not
 * ring. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct alarm *alarm = poll->data;
    uint64_t times;
    (void)status, (void)events;
    if (read(alarm->fd, &times, sizeof(times)) != sizeof(times))
        return;
    alarm->at = INSTANT_NEVER;
    alarm->ring(alarm->arg);
}

bool alarm_open(struct alarm *alarm, uv_loop_t *uv, void (*ring)(void *arg), void *arg)
{
    *alarm = (struct alarm){.fd = -1, .at = INSTANT_NEVER, .ring = ring, .arg = arg};
    int fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (fd < 0)
        return false;
    int failed = uv_poll_init(uv, &alarm->poll, fd);
    if (failed != 0) {
        close(fd);
        errno = -failed;
        return false;
    }
    alarm->fd = fd;
    alarm->poll.data = alarm;
    failed = uv_poll_start(&alarm->poll, UV_READABLE, on_readable);
    CORE_ASSERT(failed == 0);
    return true;
}

/* A timerfd whose time is all zero is disarmed, so an instant before the first microsecond counts
 * as 1 us. */
void alarm_set(struct alarm *alarm, struct instant at)
{
    if (alarm->fd < 0)
        return;
    int64_t us = at.us > 1 ? at.us : 1;
    struct itimerspec spec = {
        .it_value = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000},
    };
    if (at.us == INSTANT_NEVER.us)
        spec = (struct itimerspec){0};
    int failed = timerfd_settime(alarm->fd, TFD_TIMER_ABSTIME, &spec, NULL);
    CORE_ASSERT(failed == 0);
    alarm->at = at;
}

void alarm_close(struct alarm *alarm)
{
    if (alarm->fd < 0)
        return;
    uv_close((uv_handle_t *)&alarm->poll, NULL);
    close(alarm->fd);
    alarm->fd = -1;
}
