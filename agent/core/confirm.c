/* Requests that have the lock already: a POST that is repeated with its idempotency key (D3.5), and
 * an owner that enters its hold again (R11).
 *
 * The hold may have been released at another agent, and this agent learns that only when it asks
 * the masters. So such a request is answered only after a quorum has confirmed the token in a round
 * that was sent after the request came. The round is an ordinary renewal of the hold, on the hold's
 * own terms.
 *
 *   the round             a repeat gets                  an owner gets
 *   confirms the token    200, the hold's answer         200, and the hold counts once more
 *   finds no quorum       503 `quorum_unavailable`       the same; nothing is counted
 *   ends the hold         410 `lock_lost`                no answer yet: it contends like any other
 *
 * A request waits for the round as long as an acquire would: until its own deadline. A request
 * without `wait` waits for two rounds of an acquire (calls.c). */
#include "internal.h"

#include "core_assert.h"

void confirm_counted(struct lock *lock)
{
    CORE_ASSERT(lock->state == LOCK_HELD);
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = at->next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        bool is_confirmed =
            confirm_is_wanted(request) && request->wants_round <= lock->round.number;
        request->counted = is_confirmed && request->again == ANSWER_REENTERED &&
                           lock->terms.count < LIMIT_REENTRIES;
        lock->terms.count = (uint16_t)(lock->terms.count + request->counted);
    }
}

void confirm_answered(struct core *core, struct lock *lock, struct core_request *request,
                      bool is_good)
{
    CORE_ASSERT(confirm_is_wanted(request) && request->held == lock);
    CORE_ASSERT(lock->state == LOCK_HELD);
    struct effect_answer answer = {.answer = ANSWER_QUORUM_UNAVAILABLE,
                                   .tally = round_tally(&lock->round),
                                   .occupant.left_ms = -1};
    if (is_good && request->again == ANSWER_REENTERED && !request->counted) {
        answer = (struct effect_answer){.answer = ANSWER_TOO_MANY_LOCKS};
    } else if (is_good) {
        answer = answer_for_lock(request->again, lock);
        answer.tally = lease_tally(core, lock);
    } else if (request->again == ANSWER_REPEATED) {
        lock->answers--; /* This request grants nothing. */
    }
    request_answer(core, request, answer);
}

void confirm_hold_ended(struct core *core, struct lock *lock, enum answer repeats)
{
    struct link *next;
    for (struct link *at = lock->requests.head.next; at != &lock->requests.head; at = next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        next = at->next;
        if (!confirm_is_wanted(request))
            continue;
        if (request->again == ANSWER_REPEATED) {
            lock->answers--;
            request_answer(core, request,
                           (struct effect_answer){
                               .answer = repeats, .reason = lock->reason, .occupant.left_ms = -1});
            continue;
        }
        list_remove(&request->link);
        timers_clear(&core->timers, timer_of_request(core, request));
        request->state = REQUEST_BEGUN;
        request->again = ANSWER_GRANTED;
        request->held = NULL;
        contend_queued(core, request);
    }
}
