/* One caller that waits for an answer. A part of state.h, private to agent/core like it. */
#ifndef LOCKAGENT_CORE_REQUEST_H
#define LOCKAGENT_CORE_REQUEST_H

#include "core.h"
#include "hash_table.h"
#include "list.h"
#include "round.h"
#include "terms.h"

struct key;
struct lock;

enum request_state {
    REQUEST_FREE,
    REQUEST_BEGUN,     /* In no list yet. */
    REQUEST_GUEST,     /* In the guests of its group: it waits until it may ask the masters
                        * (R16). */
    REQUEST_ONCE,      /* In key->once. */
    REQUEST_WAITING,   /* In key->waiters. */
    REQUEST_RENEWING,  /* In lock->requests: a PUT, or a POST that has the hold already. */
    REQUEST_RELEASING, /* In lock->requests. */
    REQUEST_READING,   /* In no list; it has the round itself. */
    REQUEST_FOLLOWING, /* In no list. Its timer is its next look (follow.c). */
    REQUEST_SETTLED,   /* In core->settled: it is decided, but the effects were full. */
};

/* A request that follows its key (follow.c). Between two looks it is FOLLOWING, and in a look GUEST
 * or READING. */
struct follow {
    bool is_told;                /* The follower was told something. */
    struct effect_followed told; /* The last state that it was told; its label is in `label`. */
    char label[LIMIT_LABEL_BYTES];
    uint64_t fence_max;       /* The largest number of a mutex that it was told. */
    bool has_own;             /* This agent has the key, by `own`. */
    bool own_is_told;         /* The follower was told of `own`. */
    struct lock_ref own;      /* The hold of a mutex at this agent. */
    uint32_t holds;           /* Other forms: number of this agent's holds. */
    master_set messages;      /* Masters that published a release since the last look began. */
    bool again;               /* The look in flight may be older than a change. */
    bool is_vague;            /* The last look did not show the state, or not the holder. */
    uint32_t pause_ms;        /* The next pause while no holder is known. */
    struct instant looked_at; /* When the last look began. */
};

struct core_request {
    uint32_t slot, generation;
    enum request_state state;
    struct key *key;
    struct link link;
    struct hash_link by_secret; /* WAITING, ONCE: in core->requests_by_secret, if it has one. */
    struct instant came_at;
    uint64_t came;            /* A number that rises with every request. */
    struct terms terms;       /* PUT: ttl and renew as given. */
    struct metadata metadata; /* GET: the holder's label. PUT: the new one (D3.9). */
    struct lock *attempt;     /* WAITING, ONCE: the attempt in flight for it; NULL: none. */
    uint64_t ticket;          /* WAITING, order fair: its number (R9). */
    bool ticket_is_fresh;     /* No master has `ticket` yet. */
    uint32_t wants_round;     /* RENEWING: the first round that answers it. */
    struct token token;       /* GUEST: the token of a PUT. A GET has none. */
    bool reads;               /* GUEST: it is a GET. */
    bool follows;             /* It follows its key, and is not answered. */
    bool admitted;            /* It was a GUEST and is not any more. */
    bool in_flight;           /* READING: it counts among the guests in flight. */
    /* RENEWING: the answer of a POST that has the hold already, after a quorum has confirmed the
     * hold: REPEATED or REENTERED. GRANTED: it is a PUT. */
    enum answer again;
    struct lock *held;   /* The hold of such a POST; otherwise NULL. */
    bool counted;        /* The hold's count contains such a POST. */
    int64_t wait_ms;     /* How long a POST waits for the lock; 0: it does not wait. */
    struct round round;  /* READING: its round. */
    struct lock_ref own; /* READING: the hold of the key that this agent had when it began. */
    bool has_own;        /* READING: this agent had such a hold. */
    master_set own_at;   /* READING: masters that reply that they have the key of `own`. */
    uint64_t label_hashes[LIMIT_MASTERS]; /* READING: of the labels that masters replied. */
    struct follow follow;
    struct master_state states[LIMIT_MASTERS];
    struct effect_answer settled; /* SETTLED: its answer. */
};

#endif
