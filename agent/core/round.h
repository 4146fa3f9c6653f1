/* A round sends the same question to all masters of a group at once, and counts their votes until
 * it is decided.
 *
 *            quorum of yes -----------------> WON
 *   OPEN --<
 *            yes + pending < quorum --------> LOST
 *
 * It is decided as soon as a quorum has granted or cannot be reached any more (R1). The quorum
 * depends on the algorithm (R2). A vote that is pending at the deadline is unknown, which is
 * neither yes nor no (R3). */
#ifndef LOCKAGENT_CORE_ROUND_H
#define LOCKAGENT_CORE_ROUND_H

#include "core.h"

struct round {
    uint32_t number; /* Distinguishes its replies from those of earlier rounds. */
    enum op op : 8;
    uint8_t total, quorum;
    bool overtime; /* Its deadline has passed, and replies that were not read yet are received
                    * (R3). */
    struct instant started, deadline; /* `started`: before the first byte was sent (R4). */
    master_set asked;
    master_set yes;          /* They did the operation. */
    master_set no;           /* They have another holder, or do not have the token. */
    master_set guarded;      /* They have no vote on new locks yet (D5.3). Also in `failed`. */
    master_set unreplicated; /* Too few replicas have their vote (R21). Also in `failed`. */
    master_set failed;       /* Refused, lost, late, or only repaired now: on neither side. */
    master_set otherwise;    /* They have the token with another number. The largest set with the
                              * same number. */
    master_set rerun;        /* They were asked a second time after VOTE_NOT_RUN. */
    master_set scripted;     /* The same after VOTE_BY_SCRIPT. */
    master_set held;         /* They have another key, and their script has not replied (R24). */
    /* They have reported about the token, in time or not. Only the first report of a master
     * counts. */
    master_set heard;
};

enum verdict { VERDICT_OPEN, VERDICT_WON, VERDICT_LOST };

/* The meaning of a reply for a round. */
enum taken {
    TAKEN_STALE, /* It belongs to another round and decides nothing in this one. */
    /* The master ran nothing, for the first time, or the native commands do not count (R24). It
     * should be asked once more, by script. */
    TAKEN_RERUN,
    TAKEN_VOTE, /* Its vote was counted. The verdict may have changed. */
};

/* Returns how many of `masters` must agree (R2). */
uint8_t round_quorum(enum algorithm algorithm, uint8_t masters);

/* Begins the next round. Masters outside of `asked` are known to be down and count as failed at
 * once (R3). `timeout_ms` counts from `now`. */
void round_begin(struct round *round, enum op op, uint8_t total, uint8_t quorum, master_set asked,
                 struct instant now, int64_t timeout_ms);

/* Counts the vote of a reply to this round. A late reply to an earlier round is unknown here (R3).
 * A reply to a release counts for any round, because a master has only one release in flight at a
 * time. */
MUST_CHECK enum taken round_take(struct round *round, const struct event_reply *reply);

/* Counts one vote. A second vote of the same master is ignored. */
void round_vote(struct round *round, uint8_t master, enum vote vote);

/* Makes `masters` pending: they have failed or were not asked, and are asked (again) in this
 * round. */
void round_reopen(struct round *round, master_set masters);

/* Counts all pending votes as unknown, after the deadline (R3). */
void round_close(struct round *round);

master_set round_pending(const struct round *round);
enum verdict round_verdict(const struct round *round);
struct tally round_tally(const struct round *round);

/* Returns, for an acquire that is lost, true if it was lost to another holder, and false if too few
 * masters answer. It was lost to a holder if granted + held >= quorum; each pending master will
 * reply one of both. */
bool round_lost_to_holder(const struct round *round);

/* Returns true if no quorum can have the token that was asked for, with any replies of the others
 * and in any neighbour's layout (D3.4), or if a quorum has it with another number (C4). */
bool round_denies(const struct round *round);

/* Returns the verdict of a round that asks for a token. It is lost only when it is known whether
 * round_denies(). */
enum verdict round_verdict_on_token(const struct round *round);

/* Returns true if a quorum has the token with one and the same other number. */
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
