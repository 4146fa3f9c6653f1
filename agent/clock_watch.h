/* The clock watch reports each change of this host's wall clock. After a machine was paused
 * together with its clocks, that change is the first sign of the pause (R14). */
#ifndef LOCKAGENT_CLOCK_WATCH_H
#define LOCKAGENT_CLOCK_WATCH_H

#include <stdbool.h>
#include <uv.h>

#include "agent/core/types.h"

struct clock_watch {
    uv_poll_t poll;
    int fd; /* -1: closed. */
    void (*set)(void *arg);
    void *arg;
};

/* Begins to watch. The loop calls `set` with `arg` each time that the wall clock was set. Returns
 * false, with errno, if the kernel gives no timer; nothing is watched then. */
MUST_CHECK bool clock_watch_open(struct clock_watch *watch, uv_loop_t *uv, void (*set)(void *arg),
                                 void *arg);

/* Ends the watch. The struct must stay until the loop has closed its handle. */
void clock_watch_close(struct clock_watch *watch);

#endif
