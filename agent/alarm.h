/* Wakes the event loop at an instant. libuv's own timers count whole milliseconds, and on a clock
 * that stands still in suspend; this one is a timerfd on CLOCK_BOOTTIME, the clock of every
 * deadline, so it fires to the microsecond and as soon as the machine is awake again. */
#ifndef LOCKAGENT_ALARM_H
#define LOCKAGENT_ALARM_H

#include <stdbool.h>
#include <uv.h>

#include "agent/core/types.h"

struct alarm {
    uv_poll_t poll;
    int fd;            /* -1: closed */
    struct instant at; /* what it is set for; NEVER: nothing */
    void (*ring)(void *arg);
    void *arg;
};

/* Opens an alarm that is not set yet. `ring` is called with `arg` from the loop, once for each time
 * that the alarm is set. False, with errno, where the kernel gives no timer; then it is closed. */
MUST_CHECK bool alarm_open(struct alarm *alarm, uv_loop_t *uv, void (*ring)(void *arg), void *arg);

/* Sets the alarm for `at`, in place of what it was set for; NEVER: it does not ring. An instant
 * that is over rings in the loop's next turn. Does nothing once the alarm is closed. */
void alarm_set(struct alarm *alarm, struct instant at);

/* Closes the alarm. The struct must stay until the loop has run its handle down. */
void alarm_close(struct alarm *alarm);

#endif
