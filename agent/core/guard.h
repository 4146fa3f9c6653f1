/* The guard of a group's masters (D5.3) as a step machine: which masters may have forgotten leases
 * and numbers, and how they come to vote again. One for each group of an agent; guard.c tells the
 * protocol.
 *
 * guard_step() takes one event and the time, and leaves what is to be done in guard_effects.
 * Nothing is kept of an event, and nothing is owned: words are copied. The caller
 *   1. reports every answer to a question exactly once, in the connection's order, or that the
 *      master is away (GUARD_AWAY): then the answers of that greeting are not reported any more;
 *   2. makes the epochs known to the core before any vote that it received later;
 *   3. reports the time (GUARD_TIME) when guard_deadline() has passed, at the latest GUARD_TICK_MS
 *      after it. */
#ifndef LOCKAGENT_CORE_GUARD_H
#define LOCKAGENT_CORE_GUARD_H

#include "types.h"

enum {
    GUARD_WORD_BYTES = 48,  /* an epoch: hex digits and their end */
    GUARD_VOTE_BYTES = 128, /* a vote, '@<run>:<epoch>:<replid>:<floor>', and its end */
    GUARD_TICK_MS = 250,
};

/* What the marker script is asked to do: marker.lua says what each of them means. */
enum guard_question {
    GUARD_ASK_RESTART,
    GUARD_ASK_KEEP,
    GUARD_ASK_TELL,
    GUARD_ASK_TRUST, /* by hand alone */
    GUARD_QUESTION_COUNT
};

struct guard_ask {
    uint8_t master;
    enum guard_question question;
    uint32_t max_ttl_ms;
    uint64_t lift;                /* top becomes at least this; 0: it stays */
    char epoch[GUARD_WORD_BYTES]; /* TELL: that was seen; TRUST: "" for any; else "" */
    uint64_t top;                 /* TELL, TRUST */
    uint8_t told;                 /* TELL, TRUST: enum guard_told */
    bool has_replicas;            /* the vote says which replication id it is of (R21) */
    /* The epochs that are known of the other masters, each with a blank behind it: a master with
     * one of them is a copy. */
    char others[LIMIT_MASTERS * 17 + 1];
};

/* How a master came to vote since it forgot. */
enum guard_told { GUARD_NOT_TOLD, GUARD_TOLD, GUARD_GUESSED };

/* What the script answered. */
struct guard_answer {
    char epoch[GUARD_WORD_BYTES];
    char vote[GUARD_VOTE_BYTES]; /* "": it does not vote */
    int64_t left_ms;             /* until its guard is over; 0: it is */
    uint32_t max_ttl_ms;
    uint64_t top, floor;
    enum guard_told told;
    bool spoiled; /* top or floor was never granted: it does not vote and is no witness */
};

enum guard_event_kind {
    /* a greeting has come to the marker: the one ask that follows is the greeting's */
    GUARD_GREETS,
    GUARD_READY,      /* the greeting has ended: the master can be asked at any time */
    GUARD_AWAY,       /* it cannot: its connection has ended, or its greeting begins anew */
    GUARD_ANSWERED,   /* `answer` */
    GUARD_UNANSWERED, /* an answer that says nothing: the scripts were missing, an error */
    /* the greeting's ask was refused: the master cannot write the marker now, but it can serve
     * holders */
    GUARD_REFUSED,
    GUARD_SEES_EPOCH, /* a script of the core's met the epoch `answer.epoch` ("": no marker) */
    /* a script of the core's had no vote, for `answer.left_ms` (-1: not the vote that this agent
     * knows, or not known for how long) */
    GUARD_SEES_GUARDED,
    GUARD_TIME,
};

struct guard_event {
    enum guard_event_kind kind;
    uint8_t master; /* of all but GUARD_TIME */
    /* GUARD_GREETS: it was READY on this connection before, so the server cannot be another one */
    bool same_connection;
    bool knows_run; /* GUARD_GREETS: the server said its run id (INFO is allowed) */
    struct guard_answer answer;
};

/* To be carried out in this order. */
struct guard_effects {
    master_set epochs; /* began a new epoch: what was confirmed before may be forgotten (R7) */
    master_set shown;  /* what guard_state() says of them may have changed */
    master_set floors; /* guard_floor() has risen by what these answered (R12) */
    unsigned ask_count;
    struct guard_ask asks[LIMIT_MASTERS]; /* one for a master at most */
};

enum guard_state {
    GUARD_VOTES,
    GUARD_RUNS,    /* it may have forgotten leases */
    GUARD_WAITS,   /* its guard is over, and it has not been told yet */
    GUARD_MISSING, /* its marker is missing, or has not been read */
    GUARD_UNSURE,  /* its marker cannot be written: it is not asked for new locks */
    GUARD_SPOILED, /* its numbers are none that was ever granted (R12) */
};

enum guard_phase { GUARD_MASTER_AWAY, GUARD_MASTER_GREETING, GUARD_MASTER_READY };

struct guard_master {
    enum guard_phase phase;
    bool asked;     /* an answer is to come */
    bool seen;      /* `last` and until are what this connection answered last */
    bool unsure;    /* the last greeting's question was refused */
    bool changed;   /* its epoch is another one than the core knows */
    bool knows_run; /* the server said its run id */
    struct guard_answer last;
    struct instant until; /* its guard is over by then */
    /* of the question that is out, or the last one; 0: none */
    struct instant asked_at;
    uint64_t asked_number;
    /* of the last question that was answered on this connection */
    struct instant answered_asked_at;
    uint64_t answered_number;
    /* Not told, and its guard over: questions from this one on are about it; 0: it is not. */
    uint64_t waits_from;
    struct instant waits_since;
    uint64_t numbered; /* the largest number that this agent proposed there since it was asked */
};

struct guard {
    bool durable;
    bool has_replicas; /* set by the caller after guard_init(): the group's master has some (R21) */
    uint8_t master_count;
    uint8_t witnesses; /* masters that meet every quorum (W) */
    uint32_t max_ttl_ms;
    uint64_t questions; /* asked so far */
    uint64_t top;       /* the largest that any master answered, or that was proposed here */
    uint64_t floor;     /* the largest that any master answered */
    struct guard_master masters[LIMIT_MASTERS];
};

/* `quorum`: the least of the policies that use the group. `max_ttl_ms`: the longest lease of this
 * agent. */
void guard_init(struct guard *guard, uint8_t master_count, uint8_t quorum, bool durable,
                uint32_t max_ttl_ms);

/* `wall_us`: the agreed time (R12), unix time in us; used for guesses alone. */
void guard_step(struct guard *guard, const struct guard_event *event, struct instant now,
                int64_t wall_us, struct guard_effects *ret_effects);

/* This agent asks `masters` for a lock with the proposal `number`: their next question lifts their
 * top above it. */
void guard_numbers(struct guard *guard, master_set masters, uint64_t number);

/* When GUARD_TIME is due; INSTANT_NEVER while no master is READY. */
struct instant guard_deadline(const struct guard *guard);

enum guard_state guard_state(const struct guard *guard, uint8_t master, struct instant now);

/* For how long the master has no vote on new locks: 0: it has one, or is not READY; -1: not
 * known. */
int64_t guard_left_ms(const struct guard *guard, uint8_t master, struct instant now);

/* The vote that an acquire compares: as the master answered last on this connection; "": none. */
const char *guard_vote(const struct guard *guard, uint8_t master);

/* No larger number needs the master's marker to be written first. */
uint64_t guard_top(const struct guard *guard, uint8_t master);

/* The largest floor that is known: a proposal above it needs no second phase (R12). */
uint64_t guard_floor(const struct guard *guard);

/* How the master came to vote; GUARD_NOT_TOLD also while that is not known. */
enum guard_told guard_told(const struct guard *guard, uint8_t master);

/* True if all masters can be asked, and none of them has ever had a vote, as far as it remembers:
 * the group is new, or has lost everything. */
bool guard_is_new(const struct guard *guard);

/* The script's word for it. */
const char *guard_question_word(enum guard_question question);

#endif
