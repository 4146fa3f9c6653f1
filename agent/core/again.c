/* A POST of a caller that has the lock already, by its idempotency key or as its owner: it waits
 * for a round of the hold (confirm.c). */
#include "again.h"

#include "confirm.h"
#include "contend.h"
#include "core_assert.h"
#include "hold.h"
#include "reentry.h"
#include "release.h"
#include "requests.h"
#include "watchdog.h"

enum { ROUNDS = 2 }; /* one that was out already, and the one that counts */

static struct instant deadline_of(const struct core *core, const struct core_request *request)
{
    int64_t round_ms = core->groups[request->key->group].config.node_timeout_ms;
    return request->wait_ms > 0 ? contend_deadline(request)
                                : instant_after_ms(request->came_at, ROUNDS * round_ms);
}

/* A repeat counts as an answer under way from when it comes. So the hold is not given back because
 * the first answer did not arrive. */
void again_asked(struct core *core, struct lock *lock, struct core_request *request,
                 enum answer answer)
{
    CORE_ASSERT(lock->state == LOCK_HELD && request->state == REQUEST_BEGUN);
    CORE_ASSERT(answer == ANSWER_REPEATED || answer == ANSWER_REENTERED);
    request->again = answer;
    request->held = lock;
    lock->answers += answer == ANSWER_REPEATED;
    if (answer == ANSWER_REPEATED ? MUTANT(REPEAT_FROM_MEMORY) : MUTANT(REENTRY_FROM_MEMORY)) {
        lock->terms.count = (uint16_t)(lock->terms.count + (answer == ANSWER_REENTERED));
        request->counted = true;
        confirm_answered(core, lock, request, /* is_good= */ true);
        return;
    }
    timers_set(&core->timers, timer_of_request(core, request), deadline_of(core, request));
    watchdog_renew(core, lock, request);
}

bool again_enters(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_BEGUN);
    struct lock *holder = reentry_hold(core, request);
    if (holder == NULL)
        return false;
    if (reentry_is_upgrade(holder, request)) {
        hold_doubted(core, holder);
        reentry_refuses_upgrade(core, request);
    } else {
        again_asked(core, holder, request, ANSWER_REENTERED);
    }
    return true;
}

/* No earlier answer reached its caller, and the last request that could be answered has left. */
static void give_back_untold(struct core *core, struct lock *lock)
{
    if (lock->answers == 0)
        release_begun(core, lock, /* request= */ NULL, /* asked= */ false);
}

void again_time_over(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_RENEWING && confirm_is_wanted(request));
    struct lock *lock = request->held;
    confirm_answered(core, lock, request, /* is_good= */ false);
    give_back_untold(core, lock);
}

void again_left(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_RENEWING && confirm_is_wanted(request));
    struct lock *lock = request->held;
    lock->answers -= request->again == ANSWER_REPEATED;
    request_forget(core, request);
    give_back_untold(core, lock);
}
