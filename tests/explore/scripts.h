/* Macros for scripts: the moves of each caller, the faults that may occur, and how far each script
 * is searched. A caller moves when it likes, also between two deliveries; `SOON`: before time moves
 * on. */
#ifndef LOCKAGENT_EXPLORE_SCRIPTS_H
#define LOCKAGENT_EXPLORE_SCRIPTS_H

#include "explore.h"

/* The agent is the first argument. Further fields follow. */
#define MOVE(what, ...)                                                                            \
    {                                                                                              \
        .kind = MOVE_##what, .agent = __VA_ARGS__                                                  \
    }
#define POST(...) MOVE(POST, __VA_ARGS__)
#define PUT(...) MOVE(PUT, __VA_ARGS__)
#define DELETE(...) MOVE(DELETE, __VA_ARGS__)
#define LEAVE(...) MOVE(LEAVE, __VA_ARGS__)
#define DRAIN(...) MOVE(DRAIN, __VA_ARGS__)
#define RELOAD(...) MOVE(RELOAD, __VA_ARGS__)
#define END(...) MOVE(END, __VA_ARGS__)
#define JAVA_TAKES(...) MOVE(JAVA_TAKES, __VA_ARGS__)
#define JAVA_RELEASES(...) MOVE(JAVA_RELEASES, __VA_ARGS__)
#define WAITS .wait_ms = 5000
#define SOON .soon = true
#define READS .reads = true
#define NETWORK (MAY(DELAY) | MAY(CUT) | MAY(DOUBLE) | MAY(REFUSE))
#define ALL (NETWORK | MAY(FREEZE) | MAY(CRASH) | MAY(LOSE_SIGNAL))

#endif
