/* One caller who waits for an answer. A part of state.h, and private to agent/core as that is. */
#ifndef LOCKAGENT_CORE_REQUEST_H
#define LOCKAGENT_CORE_REQUEST_H

#include "core.h"
#include "list.h"
#include "round.h"
#include "terms.h"

struct key;
struct lock;

enum request_state {
    REQUEST_FREE,
    REQUEST_BEGUN,     /* in no list yet */
    REQUEST_GUEST,     /* in the guests of its group: is to ask the masters, and waits (R16) */
    REQUEST_ONCE,      /* in key->once */
    REQUEST_WAITING,   /* in key->waiters */
    REQUEST_RENEWING,  /* in lock->requests: a PUT, or a POST that has the hold already */
    REQUEST_RELEASING, /* in lock->requests */
    REQUEST_READING,   /* in no list; has the round itself */
    REQUEST_SETTLED,   /* in core->settled: decided, but the effects were full */
};

struct core_request {
    uint32_t slot, generation;
    enum request_state state;
    struct key *key;
    struct link link;
    struct instant came_at;
    uint64_t came;        /* A number that rises with every request. */
    struct terms terms;   /* of a PUT: ttl and renew, as it says */
    struct words words;   /* of a GET: the holder's label */
    struct lock *attempt; /* WAITING, ONCE: that is under way for it; NULL: none */
    uint64_t ticket;      /* WAITING, order fair: its number (R9), */
    bool ticket_is_fresh; /* of which no master has heard */
    uint32_t wants_round; /* RENEWING: the first round that answers it */
    struct token token;   /* GUEST: of a PUT. A GET has none. */
    bool reads;           /* GUEST: it is a GET. */
    bool admitted;        /* It was a GUEST, and is none any more. */
    bool in_flight;       /* READING: it counts among the guests in flight. */
    /* RENEWING: what a POST gets that has the hold already, once a quorum has confirmed it:
     * REPEATED or REENTERED. GRANTED: it is a PUT. */
    enum answer again;
    struct lock *held;   /* The hold that such a POST has; else NULL. */
    bool counted;        /* The hold's count has such a POST in it. */
    int64_t wait_ms;     /* How long a POST waits for the lock; 0: it does not wait. */
    struct round round;  /* READING */
    struct lock_ref own; /* READING: the hold of the key that this agent had then, */
    bool has_own;        /* if it had one. */
    master_set own_at;   /* READING: masters that say that its key is there. */
    struct master_state states[LIMIT_MASTERS];
    struct effect_answer settled; /* SETTLED */
};

#endif
