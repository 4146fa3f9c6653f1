/* One agent alone, for the conversations with its API: an unchanged core over the simulator's model
 * masters. They run a command and answer it at one moment, when the input says so. The schedule's
 * target checks the core's decisions. Here each request is answered once, and nothing of it is
 * left. */
#ifndef LOCKAGENT_TESTS_FUZZ_SOLO_H
#define LOCKAGENT_TESTS_FUZZ_SOLO_H

#include "agent/core/core.h"
#include "tests/fuzz/fuzz.h"

enum {
    SOLO_REQUESTS = 256,
    SOLO_TTL_MS_MAX = 3000,
};

/* Receives the agent's answer. */
typedef void solo_answered_fn(const struct effect_answer *answer);

/* Starts a run with a fresh agent and masters; no master is connected yet. The core is at the
 * address of the previous run's core, and time goes on from there. `config` names one group and is
 * the same in every run. Its keys are mutexes, or read and written. */
void solo_start(const struct core_config *config, solo_answered_fn *answered);
/* Hands an event to the agent: its time is stamped here. From within an answer it is taken when the
 * step has ended. */
void solo_submit(struct event *event);
/* One move of the surroundings: a master answers or fails, a connection ends or begins, the clock
 * ticks. */
void solo_move(struct fuzz_bytes *bytes);
/* Connects every master, and lets all of them answer. */
void solo_calm(void);
/* A calm world until every request has been answered; asserted to end. */
void solo_settle(void);
/* The agent ends; asserts that nothing is left a ttl later. */
void solo_end(void);

struct instant solo_now(void);
struct core *solo_core(void);
/* Returns the i-th token that was granted in this run, of any key; false beyond the last. */
bool solo_token(unsigned i, struct token *ret_token);

#endif
