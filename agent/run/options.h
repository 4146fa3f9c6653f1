/* The options of `lockagent run`, and its exit codes. */
#ifndef LOCKAGENT_RUN_OPTIONS_H
#define LOCKAGENT_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/run/keys.h"

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

/* The time to wait and to hold, if no option limits it. It is short enough to be added to any
 * time. */
#define RUN_WITHOUT_END_MS (INT64_C(10) * 365 * 24 * 3600 * 1000)

struct run_options {
    /* Sorted and different: 1 to RUN_KEYS_MAX. All options below are true of each. */
    char *const *keys;
    size_t key_count;
    char *const *command; /* NULL-terminated. */
    int64_t wait_ms;      /* For all keys together; 0: try each once. */
    uint32_t ttl_ms;      /* 0: the policy's */
    bool reads;           /* Beside other readers, if the policy's kind is rw. */
    int64_t max_hold_ms;
    const char *label; /* The name of the holder, for people; NULL: the host's name and our pid. */
    int not_acquired_code;
    enum run_on_lost on_lost;
    bool quiet;
};

#endif
