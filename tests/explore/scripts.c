/* The scripts: the moves of each caller, what may fail, and how far each is searched. A caller moves
 * when it likes, also between two deliveries; `soon`: before time moves on. */
#include "explore.h"

#define POST(at, ...)                                                                              \
    {                                                                                              \
        .kind = MOVE_POST, .agent = (at), __VA_ARGS__                                              \
    }
#define PUT(at, ...)                                                                               \
    {                                                                                              \
        .kind = MOVE_PUT, .agent = (at), __VA_ARGS__                                               \
    }
#define DELETE(at, ...)                                                                            \
    {                                                                                              \
        .kind = MOVE_DELETE, .agent = (at), __VA_ARGS__                                            \
    }
#define LEAVE(at)                                                                                  \
    {                                                                                              \
        .kind = MOVE_LEAVE, .agent = (at)                                                          \
    }
#define DRAIN(at)                                                                                  \
    {                                                                                              \
        .kind = MOVE_DRAIN, .agent = (at)                                                          \
    }
#define WAITS .wait_ms = 5000
#define SOON .soon = true
#define NETWORK (MAY(DELAY) | MAY(CUT) | MAY(DOUBLE) | MAY(REFUSE))
#define ALL (NETWORK | MAY(FREEZE) | MAY(CRASH) | MAY(LOSE_SIGNAL))

const struct script scripts[] = {
    {
        .name = "contend",
        .what = "two agents want the lock",
        .agents = 2,
        .callers = 2,
        .moves = {{POST(0, SOON), DELETE(0)}, {POST(1, WAITS), DELETE(1, SOON)}},
        .faults = ALL,
        .ttl_ms = 1000,
        .horizon_ms = 2500,
        .quick_bound = 0,
        .bound = 1,
        .orders_bound = 0,
    },
};
const size_t script_count = sizeof scripts / sizeof scripts[0];
