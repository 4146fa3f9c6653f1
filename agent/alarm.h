/* The alarm wakes the event loop at an instant. The timers of libuv count whole milliseconds, on a
 * clock that stops in suspend. The alarm is a timerfd on CLOCK_BOOTTIME, the clock of every
 * deadline. It fires to the microsecond, and as soon as the machine is awake again. */
#ifndef LOCKAGENT_ALARM_H
#define LOCKAGENT_ALARM_H

#include <stdbool.h>
#include <uv.h>

#include "agent/core/types.h"

struct alarm {
    uv_poll_t poll;
    int fd;            /* -1: closed. */
    struct instant at; /* When the alarm rings; INSTANT_NEVER: it is not set. */
    void (*ring)(void *arg);
    void *arg;
};

/* Opens an alarm that is not set yet. The loop calls `ring` with `arg` once for each time that the
 * alarm was set. Returns false, with errno, if the kernel gives no timer; the alarm is closed
 * then. */
MUST_CHECK bool alarm_open(struct alarm *alarm, uv_loop_t *uv, void (*ring)(void *arg), void *arg);

/* Sets the alarm for `at`, in place of the instant before; INSTANT_NEVER: it does not ring. If `at`
 * is over, the alarm rings in the loop's next turn. Does nothing if the alarm is closed. */
void alarm_set(struct alarm *alarm, struct instant at);

/* Closes the alarm. The struct must stay until the loop has closed its handle. */
void alarm_close(struct alarm *alarm);

#endif
