/* One key of `lockagent run`, and its hold. */
#ifndef LOCKAGENT_RUN_HOLD_H
#define LOCKAGENT_RUN_HOLD_H

#include "agent/core/core.h"

struct run_hold {
    const char *key;
    uint8_t group;
    bool granted; /* The fields below are set. */
    struct token token;
    int64_t margin_ms; /* The lost margin (R7). */
    struct instant valid_until;
    bool lost; /* Set by the session with `reason`, when the core reports the loss. */
    enum reason reason;
    bool lost_said;
    bool release_answered;
    bool released; /* Enough masters have confirmed the release. */
};

/* Takes over the granted hold. */
void run_hold_take(struct run_hold *hold, const struct hold_view *granted);

/* Returns true if enough validity is left for a command to begin. */
bool run_hold_may_begin(const struct run_hold *hold);

/* Returns when the command must be dead: half a lost_margin before the validity ends. */
struct instant run_hold_kill_at(const struct run_hold *hold);

/* Reads the validities, which the core renews. */
void run_hold_refresh(struct run_hold *holds, size_t count, const struct core *core);

/* Returns the one of that key; NULL: there is none. */
struct run_hold *run_hold_find(struct run_hold *holds, size_t count, struct text key);

#endif
