/* Decides when a master WAITs for its replicas, and which of its votes count without them
 * (replicas.h). */
#include "replicas.h"

#include "core_assert.h"

/* An answer may take this long beyond its timeout. node_timeout is longer by more than this. */
enum { ANSWER_MS = 5 };

void replicas_begin(struct replicas *replicas, uint8_t ack, uint32_t timeout_ms)
{
    CORE_ASSERT(ack == 0 || timeout_ms > 0); /* For WAIT, 0 means no timeout. */
    *replicas = (struct replicas){.ack = ack, .timeout_ms = timeout_ms};
}

/* Returns true for operations that create or extend a lease. A renewal is one: on a replica that
 * missed it the key ends before the validity that was reported. A release is not: a replica that
 * missed it keeps the key until its ttl. */
static bool is_waited_for(enum op op)
{
    switch (op) {
    case OP_RENEW:
    case OP_RESUME:
    case OP_REPAIR:
        return !MUTANT(RENEWAL_WITHOUT_WAIT);
    case OP_ACQUIRE:
    case OP_HANDOVER:
    case OP_RAISE:
    case OP_ADOPT:
        return true;
    case OP_RELEASE:
    case OP_READ:
    case OP_WITHDRAW:
    case OP_COUNT:
        break;
    }
    return false;
}

void replicas_sent(struct replicas *replicas, enum op op, struct instant now)
{
    CORE_ASSERT(op < OP_COUNT);
    if (replicas->ack == 0 || replicas->due || !is_waited_for(op))
        return;
    replicas->due = true;
    replicas->due_since = now;
}

uint32_t replicas_asks(struct replicas *replicas, struct instant now)
{
    CORE_ASSERT(replicas->ack > 0 || !replicas->due);
    if (!replicas->due || replicas->under_way)
        return 0;
    replicas->due = false;
    replicas->under_way = true;
    struct instant ends = instant_after_ms(replicas->due_since, replicas->timeout_ms);
    int64_t left_ms = instant_us_between(now, ends) / 1000;
    replicas->until = instant_after_ms(ends, ANSWER_MS);
    return left_ms < 1 ? 1 : (uint32_t)left_ms;
}

bool replicas_keeps(struct replicas *replicas, enum op op)
{
    bool keeps = replicas->kept > 0 || (replicas->ack > 0 && is_waited_for(op));
    replicas->kept += keeps;
    return keeps;
}

bool replicas_give_up(struct replicas *replicas, struct instant now)
{
    if (!replicas->under_way || instant_before(now, replicas->until))
        return false;
    replicas->kept = 0;
    return true;
}

bool replicas_answered(struct replicas *replicas, int64_t count)
{
    CORE_ASSERT(replicas->under_way && replicas->ack > 0);
    replicas->under_way = false;
    replicas->kept = 0;
    return count >= replicas->ack || MUTANT(WAIT_IGNORED);
}

enum vote replicas_vote(enum op op, enum vote vote)
{
    CORE_ASSERT(op < OP_COUNT && vote < VOTE_COUNT);
    bool extended = op == OP_RESUME && vote == VOTE_GUARDED; /* It may count (R24). */
    bool did_it = vote == VOTE_YES || vote == VOTE_REPAIRED || extended;
    return did_it && is_waited_for(op) ? VOTE_UNREPLICATED : vote;
}
