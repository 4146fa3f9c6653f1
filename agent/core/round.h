/* One round: the same question to all masters of a group at once, and when its answer is known.
 *
 *            quorum of yes -----------------> WON
 *   OPEN --<
 *            yes + pending < quorum --------> LOST
 *
 * R1: decided as soon as a quorum has granted, or can no longer. R2: the quorum is given by the
 * algorithm. R3: what is still pending at the deadline is unknown, which is neither yes nor no. */
#ifndef LOCKAGENT_CORE_ROUND_H
#define LOCKAGENT_CORE_ROUND_H

#include "core.h"

struct round {
    uint32_t number; /* tells its replies from those of the rounds before */
    enum op op : 8;
    uint8_t total, quorum;
    bool overtime; /* its deadline has passed, and what lies unread is heard (R3) */
    struct instant started, deadline; /* started: before the first byte was sent (R4) */
    master_set asked;
    master_set yes;          /* did what was asked */
    master_set no;           /* another holder, or the token is not there */
    master_set guarded;      /* have no vote on new locks yet (D5.3); among the failed */
    master_set unreplicated; /* did it, on too few replicas (R21); among the failed */
    master_set failed;       /* refused, lost, late, repaired only now: counts for neither */
    master_set otherwise;    /* have the token with one and the same other number; the most do */
    master_set rerun;        /* asked a second time after VOTE_NOT_RUN */
    /* have said where the token is, in time or not: what comes twice was true at most once */
    master_set heard;
};

enum verdict { VERDICT_OPEN, VERDICT_WON, VERDICT_LOST };

/* What a reply is to a round. */
enum taken {
    TAKEN_STALE, /* of another round: it decides nothing in this one */
    TAKEN_RERUN, /* the master ran nothing, for the first time: it should be asked once more */
    TAKEN_VOTE,  /* a vote was counted: the verdict may be another one now */
};

/* R2: how many of `masters` must agree. */
uint8_t round_quorum(enum algorithm algorithm, uint8_t masters);

/* Starts the next round; masters outside of `asked` are known to be down and count as failed at
 * once (R3). */
void round_begin(struct round *round, enum op op, uint8_t total, uint8_t quorum, master_set asked,
                 struct instant now, int64_t timeout_ms);

/* Counts the vote of a reply to this round. A late reply to an earlier one is unknown here (R3);
 * only a release is taken whichever round asked for it, for one is out to a master at a time. */
MUST_CHECK enum taken round_take(struct round *round, const struct event_reply *reply);

/* Counts one vote; a second vote of the same master is ignored. */
void round_vote(struct round *round, uint8_t master, enum vote vote);

/* These have failed, or were not asked, and are asked (again) in this round. */
void round_reopen(struct round *round, master_set masters);

/* The deadline passed: what is pending is unknown (R3). */
void round_close(struct round *round);

master_set round_pending(const struct round *round);
enum verdict round_verdict(const struct round *round);
struct tally round_tally(const struct round *round);

/* A lost acquire: true when it was lost to another holder (granted + held >= quorum, where who is
 * still pending will answer one or the other), false when too few masters answer. */
bool round_lost_to_holder(const struct round *round);

/* C4: no quorum can have the token that was asked for, whatever those say that do not answer; or
 * one has it with another number. */
bool round_denies(const struct round *round);

/* The verdict of a round that asks for a token: lost once it is known too whether it denies. */
enum verdict round_verdict_on_token(const struct round *round);

/* A quorum has the token with another number, and the same. */
bool round_has_other(const struct round *round);

static inline uint8_t set_size(master_set set)
{
    uint8_t size = 0;
    for (; set != 0; set &= (master_set)(set - 1))
        size++;
    return size;
}
static inline master_set set_of(uint8_t master)
{
    return (master_set)(1u << master);
}
static inline bool set_has(master_set set, uint8_t master)
{
    return (set >> master & 1) != 0;
}
static inline master_set set_first(uint8_t masters)
{
    return (master_set)((1u << masters) - 1);
}

#endif
