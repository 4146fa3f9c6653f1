/* The only way by which the guard's world runs scripts: the shipped Lua texts over the keys of one
 * master (tests/keyspace). The script's arguments and reply are those of the agent. */
#ifndef LOCKAGENT_TESTS_GUARD_SCRIPT_H
#define LOCKAGENT_TESTS_GUARD_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/guard.h"
#include "agent/redis/asking.h"
#include "tests/keyspace/keyspace.h"

/* wall_ms is the master's own TIME. agreed_us is the agent's time. Ends the program if the script
 * fails. The texts of the layouts last. */
void script_marker(struct keyspace *keys, int64_t wall_ms, const struct guard_ask *ask,
                   int64_t agreed_us, const char *run_id, const char *fresh_epoch,
                   struct guard_answer *ret_answer, struct guard_layouts *ret_layouts);

/* One call of `lockagent trust --new` at a master (new.lua), by a run that has this key. The word
 * that it answers lasts until the next call. */
const char *script_new(struct keyspace *keys, int64_t wall_ms, const char *call,
                       const char *own_key);

/* A lock of the one key of the world: whose it is, and its number. */
struct script_lock {
    uint32_t agent, attempt; /* together the token */
    uint32_t renewer;        /* The agent that adopted it; 0: the one that took it. */
    uint64_t number;         /* the proposal; for a raise the new number */
    uint32_t ttl_ms;
    bool other_slot; /* it is taken under another key, as a slot of a semaphore is */
};

/* The key of its number. */
struct bytes script_bucket(bool other_slot);

/* Replies of an acquire or a raise. */
enum script_says { SAYS_NO, SAYS_GUARDED, SAYS_HELD, SAYS_YES };

/* The last argument of an acquire, or of an adoption, as the agent sends it (asking_vote()). */
void script_vote(const struct guard *guard, uint8_t master, struct instant now, enum op op,
                 uint64_t number, char ret_vote[ASKING_VOTE_BYTES]);
/* SAYS_YES: `*ret_number` is the number that the master stores. */
enum script_says script_acquire(struct keyspace *keys, int64_t wall_ms,
                                const struct script_lock *lock, const char *vote,
                                uint64_t *ret_number);
/* True if the master stores at least the number. */
bool script_raise(struct keyspace *keys, int64_t wall_ms, const struct script_lock *lock);
/* A renewal, or with a vote an adoption by lock->renewer. True if the master extends the lock, and
 * its answer counts. */
bool script_extend(struct keyspace *keys, int64_t wall_ms, const struct script_lock *lock,
                   const char *vote);
void script_release(struct keyspace *keys, int64_t wall_ms, const struct script_lock *lock);

/* Breaks a script on purpose, before the first run: the text `from` of the file (acquire, marker,
 * guard, new) becomes `to`. */
void script_break(const char *file, const char *from, const char *to);

/* A field of the marker; false, and "", if that or the marker is missing. */
bool marker_field(struct keyspace *keys, const char *name, char ret_value[GUARD_WORD_BYTES]);
/* The same as a number; 0: there is none. */
uint64_t marker_number(struct keyspace *keys, const char *name);
/* The vote that is stored; false, and "", if there is none. */
bool stored_vote(struct keyspace *keys, char ret_vote[GUARD_VOTE_BYTES]);

/* Changes of a master's marker and vote by hand, or by a server that lost data. */
void marker_set(struct keyspace *keys, const char *name, const char *value);
void vote_delete(struct keyspace *keys);

#endif
