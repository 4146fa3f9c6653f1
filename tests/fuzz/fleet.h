/* A small fleet: agents (each one unchanged core) and the simulator's model masters, in which every
 * delivery, delay, loss and clock tick is a move that the fuzzer's bytes choose. Seam-conforming
 * whatever the bytes are. A checker watches the seams after every step: exclusion, fencing numbers,
 * one answer per request, what is counted. */
#ifndef LOCKAGENT_TESTS_FUZZ_FLEET_H
#define LOCKAGENT_TESTS_FUZZ_FLEET_H

#include "agent/core/core.h"
#include "tests/fuzz/fuzz.h"

enum {
    FLEET_AGENTS_MAX = 2,
    FLEET_REQUESTS = 256,
    FLEET_TTL_MS_MAX = 3000,
    FLEET_FENCE_RETENTION_MS = 3600 * 1000, /* as its masters have it */
};

/* Who hears what an agent answers; NULL: nobody. */
typedef void fleet_answered_fn(unsigned agent, const struct effect_answer *answer);

/* Starts a run with fresh agents and masters; no master is connected yet. The cores stand where
 * those of the run before stood, and time goes on from there. `config` names one group of up to
 * five masters and is the same in every run; its policies agree on the permits. */
void fleet_start(const struct core_config *config, unsigned agents, fleet_answered_fn *answered);

/* Hands an event to an agent: its time is stamped here. From within an answer it is taken when the
 * step has ended. */
void fleet_submit(unsigned agent, struct event *event);

/* One move of the surroundings: a command or a reply travels, a connection ends or begins, a clock
 * ticks. */
void fleet_move(struct fuzz_bytes *bytes);

/* Connects every master; all that is on its way arrives, and so do the replies. */
void fleet_calm(void);

/* A calm world until every request has been answered; asserted to end. */
void fleet_settle(void);

/* Every agent ends; asserts that nothing is left a ttl later. */
void fleet_end(void);

struct instant fleet_now(void);
struct core *fleet_core(unsigned agent);
bool fleet_is_open(unsigned agent, uint32_t request);
/* The i-th token that was granted in this run, of any key; false beyond the last. */
bool fleet_token(unsigned i, struct token *ret_token);
/* A grant that was answered and may be undelivered still, the latest first; false where there is
 * none. */
bool fleet_take_undelivered(unsigned agent, struct lock_ref *ret_lock);

#endif
