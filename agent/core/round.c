/* Counts votes. Knows neither locks nor effects. */
#include "round.h"

#include "core_assert.h"

enum side { SIDE_YES, SIDE_NO, SIDE_FAILED };

uint8_t round_quorum(enum algorithm algorithm, uint8_t masters)
{
    CORE_ASSERT(masters >= 1 && masters <= LIMIT_MASTERS);
    uint8_t majority = (uint8_t)(masters / 2 + 1);
    if (MUTANT(QUORUM_ONE_SHORT) && masters > 1)
        majority--;
    return algorithm == ALGORITHM_REDLOCK ? majority : masters;
}

void round_begin(struct round *round, enum op op, uint8_t total, uint8_t quorum, master_set asked,
                 struct instant now, int64_t timeout_ms)
{
    CORE_ASSERT(quorum >= 1 && quorum <= total && total <= LIMIT_MASTERS);
    CORE_ASSERT((asked & ~set_first(total)) == 0);
    CORE_ASSERT(timeout_ms > 0);
    *round = (struct round){
        .number = round->number + 1,
        .op = op,
        .total = total,
        .quorum = quorum,
        .started = now,
        .deadline = instant_after_ms(now, timeout_ms),
        .asked = asked,
    };
}

/* Returns the side that a vote counts for. A repaired key counts from the next renewal on (R7), so
 * here it is on neither side. A release has succeeded on any master that certainly does not have
 * the token. MISNUMBERED is no denial: one master may have a right token with another number,
 * because a grant's number is raised on a quorum only (R12). */
static enum side side_of(enum op op, enum vote vote)
{
    switch (vote) {
    case VOTE_YES:
        return SIDE_YES;
    case VOTE_TAKEN:
    case VOTE_MOVED:
    case VOTE_UNLOCKED:
    case VOTE_FOREIGN:
    case VOTE_ABSENT:
        return op == OP_RELEASE ? SIDE_YES : SIDE_NO;
    case VOTE_MISNUMBERED:
        return MUTANT(OTHER_NUMBER_IS_NO) ? SIDE_NO : SIDE_FAILED;
    case VOTE_REPAIRED:
    case VOTE_LATE:
    case VOTE_GUARDED:
    case VOTE_SPOILED: /* No holder has the key on such a master. */
    case VOTE_UNREPLICATED:
    case VOTE_REFUSED:
    case VOTE_NOT_RUN:
    case VOTE_BY_SCRIPT:
    case VOTE_NOT_SENT:
    case VOTE_UNKNOWN:
        return SIDE_FAILED;
    case VOTE_COUNT:
        break;
    }
    CORE_ASSERT(!"a vote of the table");
    return SIDE_FAILED;
}

void round_vote(struct round *round, uint8_t master, enum vote vote)
{
    CORE_ASSERT(set_has(round->asked, master));
    if (!set_has(round_pending(round), master))
        return;
    round->held &= (master_set)~set_of(master);
    switch (side_of(round->op, vote)) {
    case SIDE_YES:
        round->yes |= set_of(master);
        break;
    case SIDE_NO:
        round->no |= set_of(master);
        break;
    case SIDE_FAILED:
        round->failed |= set_of(master);
        round->guarded |= vote == VOTE_GUARDED ? set_of(master) : 0;
        round->unreplicated |= vote == VOTE_UNREPLICATED ? set_of(master) : 0;
        break;
    }
}

static bool is_answered_by(const struct round *round, const struct event_reply *reply)
{
    if (reply->op == OP_RELEASE || MUTANT(STALE_VOTES_COUNT))
        return set_has(round->asked, reply->master);
    return reply->ref.round == round->number;
}

enum taken round_take(struct round *round, const struct event_reply *reply)
{
    CORE_ASSERT(reply->master < LIMIT_MASTERS);
    master_set from = set_of(reply->master);
    if (!is_answered_by(round, reply))
        return TAKEN_STALE;
    if (reply->vote == VOTE_NOT_RUN && (round_pending(round) & ~round->rerun & from) != 0) {
        round->rerun |= from;
        return TAKEN_RERUN;
    }
    if (reply->vote == VOTE_BY_SCRIPT) {
        bool is_first = (round_pending(round) & ~round->scripted & from) != 0;
        round->scripted |= from;
        round->held |= reply->is_unset && is_first ? from : 0;
        return is_first ? TAKEN_RERUN : TAKEN_STALE;
    }
    round_vote(round, reply->master, reply->vote);
    return TAKEN_VOTE;
}

void round_reopen(struct round *round, master_set masters)
{
    CORE_ASSERT((masters & (round->yes | round->no | round_pending(round))) == 0);
    CORE_ASSERT((masters & ~set_first(round->total)) == 0);
    round->asked |= masters;
    round->failed &= (master_set)~masters;
    round->guarded &= (master_set)~masters;
    round->unreplicated &= (master_set)~masters;
    round->rerun &= (master_set)~masters;
    round->held &= (master_set)~masters;
    round->otherwise &= (master_set)~masters;
}

void round_close(struct round *round)
{
    round->failed |= round_pending(round);
}

master_set round_pending(const struct round *round)
{
    return round->asked & (master_set) ~(round->yes | round->no | round->failed);
}

enum verdict round_verdict(const struct round *round)
{
    CORE_ASSERT(round->quorum >= 1 && round->quorum <= round->total);
    CORE_ASSERT((round->yes & (round->no | round->failed)) == 0);
    if (set_size(round->yes) >= round->quorum)
        return VERDICT_WON;
    if (set_size(round->yes | round_pending(round)) < round->quorum)
        return VERDICT_LOST;
    return VERDICT_OPEN;
}

struct tally round_tally(const struct round *round)
{
    struct tally tally = {
        .granted = set_size(round->yes),
        .taken = set_size(round->no | (round->failed & round->held)),
        .total = round->total,
        .quorum = round->quorum,
        .guarded = set_size(round->guarded),
        .unreplicated = set_size(round->unreplicated),
    };
    int failed = tally.total - tally.granted - tally.taken - tally.guarded - tally.unreplicated -
                 set_size(round_pending(round));
    CORE_ASSERT(failed >= 0);
    tally.failed = (uint8_t)failed;
    return tally;
}

bool round_lost_to_holder(const struct round *round)
{
    master_set absent = set_first(round->total) & (master_set)~round->asked;
    master_set failed = round->failed & (master_set)~round->held;
    return round->total - set_size(failed | absent) >= round->quorum;
}

static master_set denials(const struct round *round)
{
    if (MUTANT(SILENCE_DENIES))
        return set_first(round->total) & (master_set) ~(round->yes | round_pending(round));
    return round->no;
}

bool round_has_other(const struct round *round)
{
    CORE_ASSERT((round->otherwise & round->yes) == 0);
    return set_size(round->otherwise) >= round->quorum;
}

/* D3.4: two quorums meet, also those of neighbours (R23), which may have one master more or fewer.
 * So if a quorum denies the token, no other one has it. */
static bool is_denied_by(const struct round *round, master_set masters)
{
    return set_size(masters) >= round->quorum;
}

bool round_denies(const struct round *round)
{
    return is_denied_by(round, denials(round)) || round_has_other(round);
}

enum verdict round_verdict_on_token(const struct round *round)
{
    enum verdict verdict = round_verdict(round);
    master_set pending = round_pending(round);
    bool may_deny = is_denied_by(round, denials(round) | pending) ||
                    set_size(round->otherwise | pending) >= round->quorum;
    return verdict == VERDICT_LOST && may_deny && !round_denies(round) ? VERDICT_OPEN : verdict;
}
