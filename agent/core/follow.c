/* Follows keys for callers that hold nothing (D3.8): names the holder, and each one after it.
 *
 * One request follows a key for all followers of this agent. It is never answered. It knows the key
 * from looks, which are reads of the masters (read.c), and from the holds of this agent.
 *
 *   FOLLOWING --its timer--> GUEST, READING --the look is decided--> FOLLOWING
 *                                           --a hold of this agent begins or ends--> FOLLOWING
 *
 * The next look comes
 *   at once                          after a hold of this agent has ended, a quorum has published a
 *                                    release or confirmed the subscription, or so few are
 *                                    subscribed that a message may be missed
 *   when the holder's lease ends     while the key is held, after FOLLOW_HELD_MS_MAX at the latest:
 *                                    no message says that a lease was prolonged, handed over or
 *                                    taken over
 *   after a pause that doubles       otherwise, after FOLLOW_FREE_MS_MAX at the latest: no message
 *                                    says that the key was taken
 *
 * A hold of this agent is told without a look. A look that was in flight as it began or ended says
 * nothing. A look that does not show the state or the holder may have met an attempt in flight, so
 * it is told only if the next look shows no more. */
#include "internal.h"

#include <string.h>

#include "core_assert.h"
#include "random.h"

/* ---- telling --------------------------------------------------------------------------------- */

static bool is_same(const struct effect_followed *a, const struct effect_followed *b)
{
    const struct occupant *x = &a->occupant, *y = &b->occupant;
    return a->state == b->state && a->here == b->here && x->taken == y->taken &&
           x->readers == y->readers && x->mode == y->mode && x->fence == y->fence &&
           x->agent == y->agent && text_same(x->label, y->label);
}

/* Tells the followers, unless they know it. */
static void tell_followers(struct core *core, struct core_request *request,
                           struct effect_followed now)
{
    struct follow *follow = &request->follow;
    now.request = request->slot;
    now.policy = request->key->policy;
    if (follow->is_told && is_same(&follow->told, &now))
        return;
    CORE_ASSERT(now.occupant.label.len <= sizeof(follow->label));
    if (now.occupant.label.len > 0)
        memcpy(follow->label, now.occupant.label.at, now.occupant.label.len);
    now.occupant.label.at = follow->label;
    if (now.occupant.fence > follow->fence_max)
        follow->fence_max = now.occupant.fence;
    follow->told = now;
    follow->is_told = true;
    outbox_effect(core, EFFECT_FOLLOWED)->followed = now;
}

/* ---- the next look --------------------------------------------------------------------------- */

/* Ends the look, if one waits or is in flight. The next one comes at `at`. */
static void rest_until(struct core *core, struct core_request *request, struct instant at)
{
    admission_guest_left(core, request);
    list_remove(&request->link);
    request->state = REQUEST_FOLLOWING;
    timers_set(&core->timers, timer_of_request(core, request), at);
}

/* Returns when a look may begin that is wanted now: two of them have a pause between them. */
static struct instant soon(const struct core *core, const struct core_request *request)
{
    return instant_max(core->now, instant_after_ms(request->follow.looked_at, FOLLOW_MS_MIN));
}

/* Plans a look `us` from now, or earlier if one is planned already. A look in flight is followed by
 * another one. */
static void look_in(struct core *core, struct core_request *request, int64_t us)
{
    CORE_ASSERT(us >= 0);
    request->follow.pause_ms = FOLLOW_MS_MIN;
    if (request->state != REQUEST_FOLLOWING) {
        request->follow.again = true;
        return;
    }
    uint32_t timer = timer_of_request(core, request);
    struct instant at = instant_max(instant_after_us(core->now, us), soon(core, request));
    timers_set(&core->timers, timer, instant_min(at, timers_at(&core->timers, timer)));
}

/* Returns up to a quarter less than `ms`, in us, so that the looks of many agents spread. */
static int64_t about_us(struct core *core, int64_t ms)
{
    return ms * 750 + chance_below(core, CHANCE_FOLLOW, ms * 250 + 1);
}

/* Returns the pause while no holder is known, and doubles the next one. */
static int64_t next_pause_us(struct core *core, struct follow *follow)
{
    int64_t pause_ms = follow->pause_ms;
    CORE_ASSERT(pause_ms >= FOLLOW_MS_MIN && pause_ms <= FOLLOW_FREE_MS_MAX);
    follow->pause_ms =
        2 * follow->pause_ms < FOLLOW_FREE_MS_MAX ? 2 * follow->pause_ms : FOLLOW_FREE_MS_MAX;
    return about_us(core, pause_ms);
}

/* Returns the pause while the key is held. `left_ms`: rest of the longest lease; -1: not known. */
static int64_t held_pause_us(struct core *core, struct follow *follow, int64_t left_ms)
{
    follow->pause_ms = FOLLOW_MS_MIN;
    int64_t most_us = about_us(core, FOLLOW_HELD_MS_MAX),
            end_us = left_ms < 0 ? most_us : left_ms * 1000 + about_us(core, FOLLOW_MS_MIN);
    return end_us < most_us ? end_us : most_us;
}

/* ---- looks ----------------------------------------------------------------------------------- */

/* Returns the hold of a mutex at this agent; NULL: none, or the key has another form. */
static const struct lock *own_hold(const struct core *core, const struct key *key)
{
    if (key->form == FORM_SHARED || key->form == FORM_SLOTS)
        return NULL;
    const struct lock *holder = key_holder(key);
    return holder != NULL && lock_is_held(core, holder) ? holder : NULL;
}

static void tell_own(struct core *core, struct core_request *request, const struct lock *own)
{
    struct follow *follow = &request->follow;
    /* A smaller number than before needs a broken assumption (D1), and is not told. */
    bool falls = own->token.fence < follow->fence_max;
    follow->own_is_told = true;
    follow->is_vague = false;
    tell_followers(core, request,
                   (struct effect_followed){.state = KEY_HELD,
                                            .here = true,
                                            .occupant = {.label = lock_label(own),
                                                         .fence = falls ? 0 : own->token.fence,
                                                         .agent = core->value_agent}});
    rest_until(core, request,
               instant_after_us(core->now, held_pause_us(core, follow, /* left_ms= */ -1)));
}

bool follow_tells_own(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_FOLLOWING);
    const struct lock *own = own_hold(core, request->key);
    if (own == NULL || request->follow.own_is_told)
        return false;
    tell_own(core, request, own);
    return true;
}

void follow_looks(struct core *core, struct core_request *request)
{
    CORE_ASSERT(request->state == REQUEST_FOLLOWING);
    struct follow *follow = &request->follow;
    follow->looked_at = request->came_at = core->now;
    follow->messages = 0;
    follow->again = false;
    request->state = REQUEST_BEGUN;
    request->admitted = false;
}

/* Returns the rest of the longest lease of a holder; -1: not known. */
static int64_t longest_lease_ms(const struct effect_answer *seen)
{
    int64_t longest_ms = -1;
    for (uint8_t m = 0; m < seen->tally.total; m++)
        if (seen->masters[m].vote == VOTE_YES && seen->masters[m].occupant.left_ms > longest_ms)
            longest_ms = seen->masters[m].occupant.left_ms;
    return longest_ms;
}

/* Returns true if this agent has a hold of the key that the look does not deny. */
static bool is_here(const struct core *core, const struct key *key,
                    const struct effect_answer *seen)
{
    if (key->form != FORM_SHARED && key->form != FORM_SLOTS)
        return seen->local;
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        const struct lock *lock = CONTAINER_OF(at, struct lock, link);
        unsigned bit = key->form == FORM_SHARED ? (unsigned)lock->terms.mode : lock->token.slot;
        if (lock_is_held(core, lock) && (seen->denied >> bit & 1) == 0)
            return true;
    }
    return false;
}

/* Returns the state that a look has shown. Of several readers none is named: masters report the one
 * that ends last, and each renewal makes that another one. */
static struct effect_followed shown_by(const struct core *core, const struct key *key,
                                       const struct effect_answer *seen)
{
    struct effect_followed shown = {.state = seen->state};
    const struct occupant *holders = &seen->occupant;
    bool is_one = holders->mode == MODE_WRITE || holders->readers == 1;
    /* An attempt by native commands has its proposal in the value for a moment, below the number
     * that it gets (R24). */
    bool falls = key->form != FORM_SHARED &&
                 holders->fence < key->contention->follower->follow.fence_max &&
                 holders->fence != 0 && !MUTANT(FOLLOWED_NUMBER_FALLS);
    if (seen->state == KEY_HELD || key->form == FORM_SLOTS)
        shown.here = is_here(core, key, seen);
    if (seen->state == KEY_HELD) {
        shown.occupant.mode = holders->mode;
        shown.occupant.readers = holders->readers;
    }
    if (seen->state == KEY_HELD && key->form != FORM_SLOTS && is_one && !falls) {
        shown.occupant.label = holders->label;
        shown.occupant.fence = holders->fence;
        shown.occupant.agent = holders->agent;
    }
    if (key->form == FORM_SLOTS && seen->state != KEY_UNKNOWN)
        shown.occupant.taken = holders->taken;
    return shown;
}

/* Returns true if the look does not show the state, or not the one holder. */
static bool is_vague(const struct key *key, const struct effect_followed *shown)
{
    bool names_one = key->form != FORM_SLOTS && shown->occupant.readers <= 1;
    return shown->state == KEY_UNKNOWN ||
           (shown->state == KEY_HELD && names_one && shown->occupant.agent == 0);
}

void follow_looked(struct core *core, struct core_request *request,
                   const struct effect_answer *seen)
{
    struct follow *follow = &request->follow;
    struct effect_followed shown = shown_by(core, request->key, seen);
    bool was_vague = follow->is_vague;
    follow->is_vague = is_vague(request->key, &shown);
    int64_t us = shown.state == KEY_HELD && !follow->is_vague
                     ? held_pause_us(core, follow, longest_lease_ms(seen))
                     : next_pause_us(core, follow);
    rest_until(core, request, instant_after_us(core->now, us));
    if (follow->again)
        look_in(core, request, /* us= */ 0);
    if (!follow->is_vague || was_vague)
        tell_followers(core, request, shown);
}

void follow_look_failed(struct core *core, struct core_request *request)
{
    follow_looked(core, request, &(struct effect_answer){.state = KEY_UNKNOWN});
}

/* ---- the causes of a look ------------------------------------------------------------------- */

void follow_begun(struct core *core, struct key *key, struct core_request *request)
{
    CORE_ASSERT(key->contention->follower == NULL && request->state == REQUEST_BEGUN);
    key->contention->follower = request;
    request->follows = true;
    request->follow.pause_ms = FOLLOW_MS_MIN;
    request->follow.looked_at = instant_after_ms(core->now, -FOLLOW_MS_MIN);
    rest_until(core, request, core->now);
    follow_key_changed(core, key);
}

void follow_ended(struct core_request *request)
{
    CORE_ASSERT(request->key->contention->follower == request);
    request->key->contention->follower = NULL;
}

void follow_key_changed(struct core *core, struct key *key)
{
    struct core_request *request = key->contention->follower;
    struct follow *follow = &request->follow;
    const struct lock *own = own_hold(core, key);
    bool same_own = own == NULL ? !follow->has_own
                                : follow->has_own && follow->own.slot == own->slot &&
                                      follow->own.generation == own->generation;
    if (same_own && follow->holds == key->held)
        return;
    follow->has_own = own != NULL;
    if (own != NULL)
        follow->own = lock_ref(own);
    follow->own_is_told = false;
    follow->holds = key->held;
    follow->pause_ms = FOLLOW_MS_MIN;
    rest_until(core, request, own != NULL ? core->now : soon(core, request));
}

void follow_label_changed(struct core *core, const struct lock *lock)
{
    struct contention *contention = lock->key->contention;
    struct core_request *request = contention == NULL ? NULL : contention->follower;
    if (request == NULL || own_hold(core, lock->key) != lock)
        return;
    request->follow.own_is_told = false;
    rest_until(core, request, core->now);
}

/* Returns the delay of a look that many agents want now: each has as long as a round trip. */
static int64_t look_delay_us(struct core *core, const struct key *key)
{
    int64_t us = core->groups[key->group].round_trip_us * key->contention->channel.agents,
            most_us = (int64_t)FOLLOW_FREE_MS_MAX * 1000;
    return chance_below(core, CHANCE_FOLLOW, (us < most_us ? us : most_us) + 1);
}

void follow_heard(struct core *core, struct key *key, uint8_t master, uint8_t quorum)
{
    struct core_request *request = key->contention->follower;
    if (request == NULL || set_has(request->follow.messages, master))
        return;
    request->follow.messages |= set_of(master);
    if (set_size(request->follow.messages) == quorum)
        look_in(core, request, look_delay_us(core, key));
}

void follow_subscription_changed(struct core *core, struct key *key)
{
    if (key->contention->follower != NULL)
        look_in(core, key->contention->follower, /* us= */ 0);
}
