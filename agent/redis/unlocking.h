/* The call of `lockagent unlock` at one master, and its reply (R25). Does not know sockets. */
#ifndef LOCKAGENT_REDIS_UNLOCKING_H
#define LOCKAGENT_REDIS_UNLOCKING_H

#include "agent/redis/asking.h"

/* A lock of a configuration: a key, or one slot of a semaphore (R20). */
struct unlock_target {
    const struct config *config;
    uint8_t group;
    uint16_t policy;
    struct text key; /* As a caller names it. */
    enum form form;
    bool fencing; /* The policy numbers grants. */
    bool has_slot;
    uint8_t slot;
};

/* One call to a master. */
struct unlock_ask {
    const char *name; /* The hold to unlock or to look for; "": none is named. */
    /* The number to store; for a look the agreed time in us of unix time. 0: the policy does not
     * fence. */
    uint64_t number;
    int64_t tombstone_ms; /* For how long the tombstone stays (R25). 0: only look. */
};

enum unlock_word {
    UNLOCK_FREE,    /* Look: no hold is there. */
    UNLOCK_HELD,    /* Look: the holds are in the reply. */
    UNLOCK_FOREIGN, /* The key has another type or shape. It is left alone. */
    UNLOCK_DELETED, /* The hold was there, now or in an earlier call, and is deleted. */
    UNLOCK_MISSING, /* The hold was not there. Its tombstone is. */
    UNLOCK_WORDS
};

struct unlock_answer {
    enum unlock_word word;
    bool spoiled; /* The number's key is invalid, and the number is not stored (R12). */
    uint64_t
        number; /* The number that was stored before; 0: none. DELETED: the larger one of it and
                      * the hold's. */
    int64_t left_ms; /* FOREIGN: time until it expires; -1: never. */
    bool gone;       /* FREE, HELD: the named hold was deleted there by an earlier call. */
    size_t holds;    /* HELD: how many. */
};

/* A hold on one master. */
struct unlock_hold {
    char name[HOLD_NAME_CHARS + 1];
    char agent[9];   /* The agent's name (D3.3). */
    uint64_t number; /* As it is in the value: perhaps one that was never granted (R12). 0: the
                      * policy does not fence. */
    int64_t left_ms; /* Time until its lease ends; -1: never. */
    enum mode mode;
    char label[LIMIT_LABEL_BYTES + 1]; /* Cleared of control characters; "": none. */
};

/* Returns the command, which is valid until `resp` begins another one. It needs 16 KiB. */
struct text unlocking_ask(struct resp *resp, const struct unlock_target *target,
                          const struct unlock_ask *ask);

/* Reads the reply. Returns false if it is not a possible one. */
bool unlocking_read(const redisReply *reply, struct unlock_answer *ret_answer);

/* Reads hold `index` of a reply that unlocking_read() has taken, below its `holds`. Returns false
 * if it is not a possible one. */
bool unlocking_read_hold(const redisReply *reply, size_t index, struct unlock_hold *ret_hold);

#endif
