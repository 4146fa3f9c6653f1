/* A round of up to MASTERS masters, each of which has done anything that it can have done; then one
 * more call of any kind, as round.h and the assertions of its callers' part allow it.
 *
 * sources: agent/core/round.c
 * options: -eva-precision 2 -eva-slevel 100000 -eva-split-limit 1000 */
#include "agent/core/round.h"
#include "tests/prove/prove.h"

enum { MASTERS = 2 };

enum { UNASKED, PENDING, YES, NO, FAILED, GUARDED, UNREPLICATED, KINDS };

static void put(struct round *round, uint8_t master, int kind, bool otherwise)
{
    master_set set = (master_set)(1u << master);
    round->asked |= kind != UNASKED ? set : 0;
    round->yes |= kind == YES ? set : 0;
    round->no |= kind == NO ? set : 0;
    round->failed |= kind >= FAILED ? set : 0;
    round->guarded |= kind == GUARDED ? set : 0;
    round->unreplicated |= kind == UNREPLICATED ? set : 0;
    round->otherwise |= otherwise && kind == FAILED ? set : 0;
}

static void look(const struct round *round)
{
    round_pending(round);
    round_verdict(round);
    round_tally(round);
    round_lost_to_holder(round);
    round_has_other(round);
    round_denies(round);
    round_verdict_on_token(round);
}

/* A late reply may be of any other round; one of this round is of a master that was asked. */
static void take(struct round *round)
{
    struct event_reply reply = {.op = round->op, .ref.round = (uint32_t)ANY(0, INT32_MAX)};
    reply.master = (uint8_t)Frama_C_interval_split(0, MASTERS - 1);
    reply.vote = (enum vote)ANY(0, VOTE_COUNT - 1);
    round->rerun = ANY(0, 1) ? round->asked : 0;
    if (round->asked >> reply.master & 1)
        round_take(round, &reply);
    round_close(round);
}

static void reopen(struct round *round)
{
    round_reopen(round, set_first(round->total) &
                            (master_set) ~(round->yes | round->no | round_pending(round)));
    look(round);
}

int main(void)
{
    struct round round = {.number = (uint32_t)ANY(0, INT32_MAX)};
    uint8_t total = (uint8_t)Frama_C_interval_split(1, MASTERS);
    uint8_t quorum = (uint8_t)Frama_C_interval_split(1, total);
    round_begin(&round, (enum op)ANY(0, OP_COUNT - 1), total, quorum, 0, (struct instant){0}, 50);
    for (uint8_t i = 0; i < total; i++)
        put(&round, i, Frama_C_interval_split(0, KINDS - 1), /* otherwise= */ i == 0);
    look(&round);
    switch (ANY(0, 1)) {
    case 0:
        take(&round);
        break;
    case 1:
        reopen(&round);
        break;
    }
    return 0;
}
