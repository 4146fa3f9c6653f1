/* A command under a lock: started, told of signals, and ended before the lock's validity is. */
#ifndef LOCKAGENT_RUN_HOLD_H
#define LOCKAGENT_RUN_HOLD_H

#include "agent/loop.h"
#include "agent/run/child.h"
#include "agent/run/options.h"

struct run_hold {
    const struct run_options *options;
    const struct run_inherited *inherited;
    struct loop *loop;
    struct token token;
    uint32_t ttl_ms;
    struct instant valid_until;
    struct instant kill_at; /* when the command must be dead; the keeper knows it too */
    bool lost;              /* set by the session, which hears it of the core, with `reason` */
    enum reason reason;
    bool lost_said;
    struct run_child child;
    pid_t group;      /* of the command; 0: none was started */
    bool interactive; /* the command had the terminal when it ended */
};

/* Takes over what was granted; options, inherited and loop are set. False when too little validity
 * is left to begin. */
bool run_hold_begin(struct run_hold *hold, const struct hold_view *granted);

/* Starts the command. Returns 0, or the exit code that says why not, which has then been told. */
int run_hold_start(struct run_hold *hold);

/* To be called whenever the loop has turned: R14, before anything else. */
void run_hold_watch(struct run_hold *hold);

/* A signal that was sent to us: passed on. */
void run_hold_signal(struct run_hold *hold, int signal_number);

/* After SIGCHLD, or now and then: true when the command has ended, with the exit code of it all. */
bool run_hold_look(struct run_hold *hold, int *ret_code);

/* Stops `whom` (as kill(2) takes it) by the terminal's default action, which does nothing where
 * nobody could continue us. */
void run_stop_by_default(pid_t whom);

#endif
