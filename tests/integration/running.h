/* `lockagent run` as a child of the test. Its configuration names three masters, and has policies
 * of each kind. */
#ifndef LOCKAGENT_TESTS_RUNNING_H
#define LOCKAGENT_TESTS_RUNNING_H

#include "world.h"

/* The configuration of every run. */
extern const char *config;
/* The options of an agent beside it: the layouts must agree (R23). */
extern const struct agent_options running_options;

/* Opens the world with three masters. */
void running_world_open(void);

/* One `lockagent run`, while it runs. */
struct running {
    pid_t pid;
    const char *out, *err;
};

const char *program(void);

/* Starts it: the options, the keys, `--` and the command; NULL at the end. */
struct running running_start(const char *word, ...);
#define start(...) running_start(__VA_ARGS__, NULL)

/* Waits for its end. */
struct outcome end(const struct running *running);
#define run(...)                                                                                   \
    __extension__({                                                                                \
        const struct running running_ = start(__VA_ARGS__);                                        \
        end(&running_);                                                                            \
    })

bool has_said(const struct running *running, const char *words);

/* A zombie has ended. It is not its own doing that it is not reaped, for example because process 1
 * of a container does not. */
bool is_alive(pid_t pid);

void expect_code(struct outcome outcome, int code, const char *words);

#endif
