/* The guard of a group's masters (D5.3) as a step machine: which masters may have forgotten leases,
 * and how a new group comes to vote. One for each group of an agent; guard.c tells the protocol.
 *
 * guard_step() takes one event and the time, and leaves what is to be done in guard_effects.
 * Nothing is kept of an event, and nothing is owned: words are copied. Whoever carries it out
 *   1. tells of every answer to what was asked exactly once, in the connection's order, or that the
 *      master is away (GUARD_AWAY): then the answers of that greeting are told no more;
 *   2. makes the epochs known to the core before any vote that it heard later;
 *   3. tells the time (GUARD_TIME) when guard_deadline() has passed, at the latest GUARD_TICK_MS
 *      after it. */
#ifndef LOCKAGENT_CORE_GUARD_H
#define LOCKAGENT_CORE_GUARD_H

#include "types.h"

enum {
    GUARD_WORD_BYTES = 48, /* an epoch, or the name of a birth: hex digits and their end */
    GUARD_TICK_MS = 250,
};

/* What the marker script is asked to do: marker.lua says what each of them means. */
enum guard_question {
    GUARD_ASK_RESTART,
    GUARD_ASK_KEEP,
    GUARD_ASK_BEGIN,
    GUARD_ASK_TRUST, /* by hand alone */
    GUARD_ASK_JOIN,
    GUARD_ASK_VOTE,
    GUARD_QUESTION_COUNT
};

struct guard_ask {
    uint8_t master;
    enum guard_question question;
    uint32_t max_ttl_ms;
    char epoch[GUARD_WORD_BYTES], birth[GUARD_WORD_BYTES]; /* of join and vote; else "" */
};

/* What the script answered. */
struct guard_answer {
    char epoch[GUARD_WORD_BYTES], birth[GUARD_WORD_BYTES];
    int64_t left_ms; /* until it votes; 0: it does */
    uint32_t max_ttl_ms;
};

enum guard_event_kind {
    /* a greeting has come to the marker: the one ask that follows is the greeting's */
    GUARD_GREETS,
    GUARD_READY,      /* the greeting has ended: the master can be asked at any time */
    GUARD_AWAY,       /* it can not: its connection has ended, or its greeting begins anew */
    GUARD_ANSWERED,   /* `answer` */
    GUARD_UNANSWERED, /* an answer that says nothing: the scripts were missing, an error */
    /* the greeting's ask was refused: the master can not write the marker now, but it can serve
     * holders */
    GUARD_REFUSED,
    GUARD_SEES_EPOCH, /* a script of the core's met the epoch `answer.epoch` ("": no marker) */
    /* a script of the core's had no vote, for `answer.left_ms` (-1: no marker) */
    GUARD_SEES_GUARDED,
    GUARD_TIME,
};

struct guard_event {
    enum guard_event_kind kind;
    uint8_t master; /* of all but GUARD_TIME */
    bool
        /* GUARD_GREETS: it was READY on this connection before, so the server can not be another
         * one */
        same_connection;
    struct guard_answer answer;
};

/* To be carried out in this order. */
struct guard_effects {
    master_set epochs; /* began a new epoch: what was confirmed before may be forgotten (R7) */
    master_set shown;  /* what guard_state() says of them may have changed */
    unsigned ask_count;
    struct guard_ask asks[LIMIT_MASTERS]; /* one for a master at most */
};

enum guard_state {
    GUARD_VOTES,
    GUARD_RUNS,    /* it may have forgotten leases */
    GUARD_MISSING, /* its marker is missing, or has not been read */
    GUARD_UNSURE,  /* its marker can not be written: it is not asked for new locks */
    GUARD_BEGINS,  /* its group is new and not yet whole */
};

enum guard_phase { GUARD_MASTER_AWAY, GUARD_MASTER_GREETING, GUARD_MASTER_READY };

struct guard_master {
    enum guard_phase phase;
    bool asked;   /* an answer is to come */
    bool stepped; /* and it is one to a join or a vote */
    bool rests;   /* that changed nothing: not again before it has been looked at */
    bool seen;    /* epoch, birth and until are what this connection said last */
    bool unsure, changed;
    char epoch[GUARD_WORD_BYTES]; /* "": none */
    char birth[GUARD_WORD_BYTES]; /* "": none; "new"; the name of one */
    uint32_t max_ttl_ms;          /* largest that a marker here has named: it outlives the marker */
    struct instant until;         /* it has no vote; us 0: it has one */
    struct instant asked_at;
};

struct guard {
    bool durable;
    /* a master has been seen that votes, or that was guarded: the group is not new. Never
     * forgotten */
    bool old;
    uint8_t master_count;
    uint32_t max_ttl_ms;
    struct instant birth_seen; /* when a master was first seen that may be new */
    struct guard_master masters[LIMIT_MASTERS];
};

/* `max_ttl_ms`: the longest lease of this agent. */
void guard_init(struct guard *guard, uint8_t master_count, bool durable, uint32_t max_ttl_ms);
void guard_step(struct guard *guard, const struct guard_event *event, struct instant now,
                struct guard_effects *ret_effects);

/* When GUARD_TIME is due; INSTANT_NEVER while no master is READY. */
struct instant guard_deadline(const struct guard *guard);

enum guard_state guard_state(const struct guard *guard, uint8_t master, struct instant now);

/* For how long the master has no vote on new locks: 0: it has one, or is not READY; -1: not
 * known. */
int64_t guard_left_ms(const struct guard *guard, uint8_t master, struct instant now);

/* The script's word for it. */
const char *guard_question_word(enum guard_question question);

#endif
