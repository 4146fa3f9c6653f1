/* `lockagent run KEY -- CMD`: takes a lock in this process, runs a command under it, and releases it. No agent is needed. */
#ifndef LOCKAGENT_RUN_H
#define LOCKAGENT_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

/* Exit codes besides the command's own; as env(1) and timeout(1) have them, and EX_TEMPFAIL. */
enum {
    RUN_EXIT_NOT_ACQUIRED = 1,
    RUN_EXIT_LOST = 75,
    RUN_EXIT_FAILED = 125,
    RUN_EXIT_NOT_EXECUTABLE = 126,
    RUN_EXIT_NOT_FOUND = 127,
    RUN_EXIT_SIGNAL = 128, /* + the signal */
};

/* What happens to the command when the lock is lost. */
enum run_on_lost {
    RUN_ON_LOST_TERM,   /* SIGTERM, and SIGKILL half a lost_margin before the validity ends */
    RUN_ON_LOST_KILL,   /* SIGKILL at once */
    RUN_ON_LOST_IGNORE, /* it goes on, without the lock */
};

/* As long as nobody says otherwise; short enough to be added to any time. */
#define RUN_WITHOUT_END_MS (INT64_C(10) * 365 * 24 * 3600 * 1000)

struct run_options {
    const char *key;
    char *const *command; /* NULL-terminated */
    int64_t wait_ms;      /* 0: try once */
    uint32_t ttl_ms;      /* 0: the policy's */
    int64_t max_hold_ms;
    const char *label; /* who holds the lock, for people; NULL: the host's name and our pid */
    int not_acquired_code;
    enum run_on_lost on_lost;
    bool quiet;
};

/* `lockagent run`: `argv` begins with "run". `config_path` (may be NULL) is used where no option names a file. Returns the
 * exit code. */
int run(int argc, char **argv, const char *config_path);

/* Takes the lock, runs the command, releases the lock; says on stderr what went wrong. Returns the exit code. `config` is changed
 * where one command needs less than an agent, and more patience; everything must live until the process ends. */
int run_session(const struct run_options *options, struct config *config);

/* "lockagent run: KEY: ..." on stderr; KEY only where it is not NULL. */
void run_say(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
