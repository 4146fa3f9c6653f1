/* The end of the agent: it takes no new locks (EVENT_DRAIN), and then gives up or gives back
 * those that it has (EVENT_END). */
#include "drain.h"

#include "contend.h"
#include "core_assert.h"
#include "key_table.h"
#include "outbox.h"
#include "requests.h"
#include "retire.h"

void drain_refuses(struct core *core, struct core_request *request)
{
    CORE_ASSERT(core->draining);
    CORE_ASSERT(request->state == REQUEST_WAITING || request->state == REQUEST_ONCE);
    struct key *key = request->key;
    key_refer(core, key);
    request_answer(core, request, (struct effect_answer){.answer = ANSWER_DRAINING});
    contend_left(core, key);
    key_release(core, key);
}

/* Each of those who wait may be the last one of its key, whose channel is then left: whom the
 * effects have no room for is answered by its timer. */
void drain_begun(struct core *core)
{
    core->draining = true;
    for (uint32_t i = 0; i < core->requests_used; i++) {
        struct core_request *request = &core->requests[i];
        if ((request->state != REQUEST_WAITING && request->state != REQUEST_ONCE) ||
            request_attempt(request) != NULL)
            continue;
        if (outbox_has_room(core))
            drain_refuses(core, request);
        else
            timers_set(&core->timers, timer_of_request(core, request), core->now);
    }
}

/* The holds are ended by their timers, as many a step as its effects can take. */
void drain_ends(struct core *core, bool releases)
{
    core->draining = core->ending = true;
    core->ending_releases = releases;
    for (uint32_t i = 0; i < core->locks_used; i++) {
        struct lock *lock = lock_at(core, i);
        if (lock->state == LOCK_HELD || lock->state == LOCK_LOST)
            timers_set(&core->timers, timer_of_lock(lock), core->now);
    }
}
