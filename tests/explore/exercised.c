/* The deeds that a script has exercised. A search in which nothing happened has proved nothing.
 * Each script names the deeds that must have happened somewhere in its space, as the simulator does
 * for 1,000 schedules. The end of each schedule (calm.c) does not count. */
#include "explore.h"

#include <stdio.h>
#include <string.h>

#define IN_FIGURES(name) offsetof(struct figures, name)
#define COUNTED SIZE_MAX

static const struct deed_row {
    const char *what;
    size_t figure; /* offset in the simulator's figures; COUNTED: counted here */
} rows[DEEDS] = {
    [DEED_GRANT] = {"a grant", IN_FIGURES(grants)},
    [DEED_WAITED] = {"a grant to one that had waited", COUNTED},
    [DEED_REFUSAL] = {"a refusal", IN_FIGURES(refusals)},
    [DEED_RELEASE] = {"a release", IN_FIGURES(releases)},
    [DEED_STRANGER] = {"a release by an agent that did not know the hold",
                       IN_FIGURES(stranger_releases)},
    [DEED_TAKE_OVER] = {"a grant after a holder that did not release", IN_FIGURES(take_overs)},
    [DEED_HANDOVER] = {"a hand-over", IN_FIGURES(handovers)},
    [DEED_MESSAGE] = {"a message of a release", COUNTED},
    [DEED_RENEWAL] = {"a renewal", IN_FIGURES(renewals)},
    [DEED_REPAIR] = {"a repair", IN_FIGURES(repairs)},
    [DEED_LOSS] = {"a loss", IN_FIGURES(losses)},
    [DEED_TAKEN] = {"a loss by a release elsewhere", IN_FIGURES(lost[REASON_GONE])},
    [DEED_CAPPED] = {"a loss by max_hold", IN_FIGURES(lost[REASON_MAX_HOLD])},
    [DEED_STALLED] = {"a loss by a stall", IN_FIGURES(lost[REASON_STALLED])},
    [DEED_DRAINED] = {"a loss by the agent's end", IN_FIGURES(lost[REASON_DRAINED])},
    [DEED_ADOPTION] = {"an adoption", IN_FIGURES(adoptions)},
    [DEED_WRONG] = {"a wrong token that was refused", COUNTED},
    [DEED_RESTORED] = {"a hold out of a journal", IN_FIGURES(restored)},
    [DEED_REENTERED] = {"a hold entered again", IN_FIGURES(reentered)},
    [DEED_REPEATED] = {"a repeated request that had its lock", IN_FIGURES(repeated)},
    [DEED_CANCEL] = {"a waiter that left", IN_FIGURES(cancels)},
    [DEED_UNDELIVERED] = {"a grant that reached nobody", IN_FIGURES(undeliveries)},
    [DEED_UNBOUND] = {"a bound caller that left", IN_FIGURES(unbound)},
    [DEED_SECOND_PHASE] = {"a second fencing phase", IN_FIGURES(second_phases)},
    [DEED_WITHHELD] = {"a vote that a ticket withheld", IN_FIGURES(queued)},
    [DEED_READER_WITHHELD] = {"a reader refused because a writer waits", COUNTED},
    [DEED_WITHDRAWN] = {"a withdrawn ticket", IN_FIGURES(withdrawn)},
    [DEED_READ] = {"a grant to a reader", IN_FIGURES(reads_granted)},
    [DEED_TOGETHER] = {"a reader beside another one", IN_FIGURES(read_together)},
    [DEED_SEARCHED] = {"a slot that was not the first one tried", IN_FIGURES(searched)},
    [DEED_FORGOTTEN] = {"a master that forgot everything", IN_FIGURES(forgotten)},
    [DEED_GUARDED] = {"a vote that the guard withheld", IN_FIGURES(guarded)},
    [DEED_RELOAD] = {"a reload", IN_FIGURES(reloads)},
    [DEED_JAVA] = {"a grant of the Java service", COUNTED},
    [DEED_JAVA_KEY] = {"a key of the Java service on one master", COUNTED},
    [DEED_SHARED] = {"a call for two names", COUNTED},
    [DEED_UNAVAILABLE] = {"a request without a quorum", IN_FIGURES(unavailable)},
    [DEED_UNREPLICATED] = {"a vote that the replica does not have", IN_FIGURES(unreplicated)},
    [DEED_FAILOVER] = {"a replica that was promoted", IN_FIGURES(failovers)},
    [DEED_NATIVE] = {"a vote by native commands", IN_FIGURES(natives_granted)},
    [DEED_BY_SCRIPT] = {"native commands without a vote", COUNTED},
    [DEED_NATIVE_RELEASE] = {"a release by native commands", IN_FIGURES(natives_released)},
};

static uint64_t counts[DEEDS];

void exercised_begin(void)
{
    memset(counts, 0, sizeof counts);
    memset(&world.figures, 0, sizeof world.figures);
}

void exercised_count(enum deed deed)
{
    counts[deed] += !world.healed;
}

void exercised_ran(const struct message *message, const struct verdict *verdicts)
{
    if (message->count > 1)
        exercised_count(DEED_SHARED);
    for (uint16_t i = 0; i < message->count; i++)
        if (verdicts[i].reply.vote == VOTE_BY_SCRIPT)
            exercised_count(DEED_BY_SCRIPT);
    bool takes = message->op == OP_ACQUIRE || message->op == OP_HANDOVER;
    for (uint16_t i = 0; i < message->count && takes && world.options.rw; i++)
        if (verdicts[i].reply.vote == VOTE_TAKEN && message->orders[i].mode == MODE_READ &&
            verdicts[i].reply.occupant.readers > 0)
            exercised_count(DEED_READER_WITHHELD);
}

void exercised_answered(const struct request *request, const struct effect_answer *answer)
{
    if (answer->answer == ANSWER_GRANTED && request->wait_ms > 0 && request->asked_at < world.now)
        exercised_count(DEED_WAITED);
    if (request->wrong)
        exercised_count(DEED_WRONG);
}

static uint64_t count_of(enum deed deed)
{
    uint64_t count = counts[deed];
    if (rows[deed].figure != COUNTED)
        memcpy(&count, (const char *)&world.figures + rows[deed].figure, sizeof count);
    return count;
}

const char *exercised_missing(uint64_t wanted)
{
    for (enum deed deed = 0; deed < DEEDS; deed++)
        if ((wanted >> deed & 1) != 0 && count_of(deed) == 0)
            return rows[deed].what;
    return NULL;
}

void exercised_print(void)
{
    for (enum deed deed = 0; deed < DEEDS; deed++)
        if (count_of(deed) > 0)
            printf("%10llu %s\n", (unsigned long long)count_of(deed), rows[deed].what);
}
