/* The guard of a group's masters (D5.3) as a step machine: it knows which masters may have
 * forgotten leases and numbers, and makes them vote again. There is one for each group of an agent.
 * guard.c describes the protocol.
 *
 * guard_step() takes one event and the time, and fills guard_effects. It keeps nothing of an event
 * and owns nothing: texts are copied. The caller
 *   1. reports every answer to a question exactly once, in the connection's order, or that the
 *      master is away (GUARD_AWAY): then later answers to that greeting are not reported;
 *   2. reports the epochs to the core before any vote that it received later;
 *   3. reports the time (GUARD_TIME) when guard_deadline() has passed, at the latest GUARD_TICK_MS
 *      after it. */
#ifndef LOCKAGENT_CORE_GUARD_H
#define LOCKAGENT_CORE_GUARD_H

#include "layout.h"
#include "types.h"

enum {
    GUARD_WORD_BYTES = 48,  /* An epoch: hex digits and a NUL byte. */
    GUARD_VOTE_BYTES = 128, /* A vote, '@<run>:<epoch>:<replid>:<floor>', and a NUL byte. */
    GUARD_TICK_MS = 250,
    GUARD_OTHERS = 4,      /* Most other layouts that a master answers. */
    GUARD_NEIGHBOURS = 32, /* Neighbours that a guard remembers. */
};

/* The questions to the marker script; marker.lua describes them. */
enum guard_question {
    GUARD_ASK_RESTART,
    GUARD_ASK_KEEP,
    GUARD_ASK_TELL,
    GUARD_ASK_TRUST, /* Only by hand. */
    GUARD_QUESTION_COUNT
};

struct guard_ask {
    uint8_t master;
    enum guard_question question;
    uint32_t max_ttl_ms;
    uint64_t lift;                /* Raise top to at least this; 0: leave it. */
    char epoch[GUARD_WORD_BYTES]; /* TELL: the epoch that was read; TRUST: "" for any; otherwise
                                   * "". */
    uint64_t top;                 /* TELL, TRUST: the top to tell. */
    uint8_t told;                 /* TELL, TRUST: enum guard_told. */
    bool has_replicas;            /* The vote contains the replication id (R21). */
    /* The known epochs of the other masters, each followed by a blank. A master with one of them is
     * a copy. */
    char others[LIMIT_MASTERS * 17 + 1];
    /* R23: the group's layout, the names of its neighbours, each followed by a blank, and how long
     * the master notes it (0: it notes nothing). `layout` empty: the master is not asked. */
    struct text layout;
    uint32_t keep_ms;
    bool renews; /* An entry of the layout that is there is kept, and none is made. */
    char layout_name[LAYOUT_NAME_BYTES];
    char neighbours[GUARD_NEIGHBOURS * LAYOUT_NAME_BYTES + 1];
};

/* How a master got its vote since it forgot. */
enum guard_told { GUARD_NOT_TOLD, GUARD_TOLD, GUARD_GUESSED };

/* The script's answer. */
struct guard_answer {
    char epoch[GUARD_WORD_BYTES];
    char vote[GUARD_VOTE_BYTES]; /* "": it does not vote. */
    int64_t left_ms;             /* Time until its guard is over; 0: it is over. */
    uint32_t max_ttl_ms;
    uint64_t top, floor;
    enum guard_told told;
    bool spoiled; /* Top or floor was never granted: the master does not vote and is no witness. */
};

/* The script's answer about layouts (R23). */
struct guard_layouts {
    bool noted;       /* The agent's own is noted for long enough. */
    uint64_t at_work; /* Layouts that are noted there. */
    unsigned count;   /* Other layouts at work that the question did not name as neighbours. */
    struct {
        struct text text; /* Borrowed during guard_step(). */
        int64_t left_ms;  /* Time until the master forgets it. */
    } others[GUARD_OTHERS];
};

enum guard_event_kind {
    /* A greeting has come to the marker. The one question that follows is the greeting's. */
    GUARD_GREETS,
    GUARD_READY,      /* The greeting has ended. The master can be asked at any time. */
    GUARD_AWAY,       /* The master cannot be asked: its connection has ended, or its greeting
                       * begins again. */
    GUARD_ANSWERED,   /* The script has answered with `answer`. */
    GUARD_UNANSWERED, /* An answer without a marker came: the scripts were missing, or an error. */
    /* The greeting's question was refused. The master cannot write the marker now, but it can serve
     * holders. */
    GUARD_REFUSED,
    GUARD_SEES_EPOCH, /* A script of the core met the epoch `answer.epoch` ("": no marker). */
    /* A script of the core had no vote, for `answer.left_ms` more (-1: the vote was not the one
     * that this agent knows, or the time is not known). */
    GUARD_SEES_GUARDED,
    GUARD_TIME,
};

struct guard_event {
    enum guard_event_kind kind;
    uint8_t master; /* For all events but GUARD_TIME. */
    /* GUARD_GREETS: it was READY on this connection before, so the server cannot be another one. */
    bool same_connection;
    bool knows_run; /* GUARD_GREETS: the server gave its run id (INFO is allowed). */
    /* GUARD_SEES_GUARDED: it was a release, which names the vote also in a closed group. */
    bool is_release;
    struct guard_answer answer;
    struct guard_layouts layouts; /* GUARD_ANSWERED. */
};

/* To be carried out in this order. */
struct guard_effects {
    master_set epochs; /* Masters that began a new epoch and may have forgotten earlier
                        * confirmations (R7). */
    master_set shown;  /* Masters whose guard_state() may have changed. */
    master_set floors; /* Masters whose answers have raised guard_floor() (R12). */
    /* A layout that is no neighbour was answered (R23), and why it is none. LAYOUT_NEIGHBOURS: none
     * was answered. The text is borrowed from the event, and any client may have written it. */
    struct text theirs;
    enum layout_conflict conflict;
    uint8_t asked; /* The master that answered it. */
    unsigned ask_count;
    struct guard_ask asks[LIMIT_MASTERS]; /* At most one for a master. */
};

enum guard_state {
    GUARD_VOTES,
    GUARD_RUNS,    /* It may have forgotten leases. */
    GUARD_WAITS,   /* Its guard is over, and it has not been told yet. */
    GUARD_MISSING, /* Its marker is missing, or has not been read. */
    GUARD_UNSURE,  /* Its marker cannot be written, so it gets no requests for new locks. */
    GUARD_SPOILED, /* Its numbers were never granted (R12). */
    GUARD_UNNOTED, /* It refuses questions, so its register may not have the layout (R23). */
};

enum guard_phase { GUARD_MASTER_AWAY, GUARD_MASTER_GREETING, GUARD_MASTER_READY };

struct guard_master {
    enum guard_phase phase;
    bool asked;     /* A question is not answered yet. */
    bool seen;      /* `last` and `until` are of the last answer on this connection. */
    bool unsure;    /* The last greeting's question was refused. */
    bool changed;   /* Its epoch is not the one that the core knows. */
    bool knows_run; /* The server gave its run id. */
    /* R23 */
    bool tried;       /* It has answered, or could not be asked, since the guard listens. */
    bool noted;       /* The last answer on this connection: the layout is noted there. */
    bool disagrees;   /* The last answer named a layout that is no neighbour. */
    bool meets;       /* The last answer named new neighbours, and nothing else: ask again. */
    bool errs;        /* The last question on this connection was refused. */
    uint8_t told;     /* Number of the remembered neighbours that the last question named. */
    uint64_t at_work; /* Layouts that are noted there, by the last answer on this connection. */
    struct guard_answer last;
    struct instant until; /* When its guard is over at the latest. */
    /* When the last question was asked; 0: none was. */
    struct instant asked_at;
    uint64_t asked_number;
    /* When the last question was asked that was answered on this connection. */
    struct instant answered_asked_at;
    uint64_t answered_number;
    struct instant noted_until; /* R23: the layout counts as noted there until then. */
    /* It has not been told, and its guard is over: the first question that counts for telling it;
     * 0: otherwise. */
    uint64_t waits_from;
    struct instant waits_since;
    struct instant told_at; /* When it was last told; 0: never. */
    uint64_t numbered; /* Lift for the next question: above the largest number proposed there since
                        * the last one; 0: none. */
};

struct guard {
    bool durable;
    bool has_replicas; /* Set by the caller after guard_init(): the group's master has replicas
                        * (R21). */
    uint8_t master_count;
    uint8_t witnesses; /* Number of masters that meet every quorum (W). */
    uint32_t max_ttl_ms;
    /* The group is idle from then on: every lease that this agent asked for there has ended. */
    struct instant idle_from;
    uint64_t questions; /* Number of questions so far. */
    uint64_t top;       /* The largest top that any master answered, or number that was proposed
                         * here. */
    uint64_t floor;     /* The largest floor that any master answered. */
    struct guard_register {
        struct text text; /* The group's layout; empty: the guard compares none. */
        char name[LAYOUT_NAME_BYTES];
        uint32_t fresh_ms; /* An answer counts so long after its question was asked (F). */
        uint32_t keep_ms;
        char neighbours[GUARD_NEIGHBOURS][LAYOUT_NAME_BYTES]; /* The newest ones; "": none. */
        uint8_t neighbour_count, neighbour_next;
        struct instant refused_until; /* A layout that is no neighbour is at work until then. */
        struct instant listens_since; /* Since then it tries every master. */
        struct instant leases_until;  /* The group may have leases until then. */
        bool has_stepped;
        struct instant stepped_at; /* The last event. */
    } layouts;
    struct guard_master masters[LIMIT_MASTERS];
};

/* Initializes the guard. `quorum`: the least of the policies that use the group. `max_ttl_ms`: the
 * longest lease of this agent. */
void guard_init(struct guard *guard, uint8_t master_count, uint8_t quorum, bool durable,
                uint32_t max_ttl_ms);

/* Makes the guard compare layouts (R23). Call it after guard_init(). `text`: the group's layout,
 * borrowed as long as the guard is used. `silence_ms`: a connection without a reply for so long is
 * reported as away (R3). `timeout_ms`: the time that a master has to vote on a lock. */
void guard_set_layout(struct guard *guard, struct text text, uint32_t silence_ms,
                      uint32_t timeout_ms);

/* Handles one event. `wall_us`: the agreed time (R12) in us of unix time, used only for guesses. */
void guard_step(struct guard *guard, const struct guard_event *event, struct instant now,
                int64_t wall_us, struct guard_effects *ret_effects);

/* Reports that this agent is about to send a command of the core, of whose leases the longest is
 * `lease_ms` (0: it asks for none). Returns true if the group was idle: then the caller reports
 * GUARD_TIME before it sends the command, so that each master looks at its marker first. */
bool guard_uses(struct guard *guard, uint32_t lease_ms, struct instant now);

/* Returns true if the group is idle for this agent (D5.3). */
bool guard_idles(const struct guard *guard, struct instant now);

/* Reports that this agent asks `masters` for a lock with the proposal `number`. Their next question
 * lifts their top above it. */
void guard_numbers(struct guard *guard, master_set masters, uint64_t number);

/* Returns when GUARD_TIME is due; INSTANT_NEVER if no master is READY, unless the guard listens, or
 * has not begun to (R23). */
struct instant guard_deadline(const struct guard *guard);

/* Returns how many of the other masters must remember, so that one of `masters` can be told.
 * `witnesses`: the number of masters that meet every quorum (W). While another layout is at work on
 * them, its quorums may need more: all, and two at least (R23). */
uint8_t guard_witnesses_needed(uint8_t witnesses, uint8_t masters, bool has_neighbours);

enum guard_state guard_state(const struct guard *guard, uint8_t master, struct instant now);

/* Returns the time until the master has a vote on new locks; 0: it has one, or is not READY; -1:
 * not known. */
int64_t guard_left_ms(const struct guard *guard, uint8_t master, struct instant now);

/* Returns the vote that an acquire compares: the master's last answer on this connection; "": none,
 * or the group takes no new locks (R23). */
const char *guard_vote(const struct guard *guard, uint8_t master, struct instant now);
/* Returns the same vote for locks that are held already: also if the group may take no new ones
 * (R23). */
const char *guard_known_vote(const struct guard *guard, uint8_t master);

/* The state of the group's layout (R23). */
enum guard_gate {
    GUARD_OPEN,
    GUARD_LISTENS,           /* Not all masters that can be reached have noted the layout yet. */
    GUARD_REFUSED_BY_LAYOUT, /* A layout that is no neighbour is at work. */
};

/* Returns GUARD_OPEN if the group may take new locks. */
enum guard_gate guard_gate(const struct guard *guard, struct instant now);

/* Returns the largest number for which the master's marker need not be written first. */
uint64_t guard_top(const struct guard *guard, uint8_t master);

/* Returns the largest known floor. A proposal above it needs no second phase (R12). */
uint64_t guard_floor(const struct guard *guard);

/* Returns how the master got its vote; GUARD_NOT_TOLD also if that is not known. */
enum guard_told guard_told(const struct guard *guard, uint8_t master);

/* Returns true if all masters can be asked, and none remembers that it ever had a vote: the group
 * is new, or has lost all data. */
bool guard_is_new(const struct guard *guard);

#endif
