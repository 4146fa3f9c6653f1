/* The table of keys: a fixed array, a free list, and one hash of names. Slots that were never used
 * are never touched, so that an idle agent stays small with any limits. */
#include "internal.h"

#include <string.h>

#include "core_assert.h"
#include "random.h"

/* ---- patterns ---- */

/* Returns true if `text` matches: `*` is any run of bytes, `?` any one byte. On a mismatch only the
 * last `*` needs to be tried again, so this is O(n * m). */
bool glob_matches(const char *pattern, struct text text)
{
    CORE_ASSERT(pattern != NULL && (text.at != NULL || text.len == 0));
    const char *at = text.at, *end = text.at + text.len;
    const char *star = NULL, *star_at = NULL;
    while (at < end) {
        if (*pattern == '*') {
            star = pattern++;
            star_at = at;
        } else if (*pattern == '?' || *pattern == *at) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star + 1;
            at = ++star_at;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* ---- policies ---- */

/* Chooses the policy and the group of masters of a key, and checks leases. */

uint16_t core_policy_of(const struct core *core, struct text key)
{
    CORE_ASSERT(core->policy_count >= 1);
    for (size_t i = 0; i + 1 < core->policy_count; i++) {
        if (glob_matches(core->policies[i].match, key))
            return (uint16_t)i;
    }
    return (uint16_t)(core->policy_count - 1);
}

/* Chooses the group by rendezvous hashing (Thaler and Ravishankar). Every agent ranks the groups by
 * a hash of (group's name, key) and takes the first. So a new group moves only the keys that it
 * wins. The hash key is fixed, because all agents must agree (A4). */
static uint8_t policy_group(const struct core *core, uint16_t policy, struct text key)
{
    CORE_ASSERT(policy < core->policy_count);
    const struct core_policy *terms = &core->policies[policy];
    uint8_t best = terms->groups[0];
    uint64_t best_rank = 0;
    for (uint8_t i = 0; i < terms->group_count && terms->group_count > 1; i++) {
        uint64_t rank = hash_bytes(core->groups[terms->groups[i]].name_hash, 0, key.at, key.len);
        if (i == 0 || rank > best_rank) {
            best = terms->groups[i];
            best_rank = rank;
        }
    }
    CORE_ASSERT(best < core->group_count);
    return best;
}

uint8_t core_group_of(const struct core *core, struct text key)
{
    CORE_ASSERT(key.len >= 1);
    return policy_group(core, core_policy_of(core, key), key);
}

static bool allows_ttl(const struct core *core, const struct key *key, uint32_t lock_delay_ms,
                       uint32_t ttl_ms, enum renew renew, struct effect_answer *ret_refusal)
{
    uint32_t least = 4 * core->groups[key->group].config.node_timeout_ms; /* R1 */
    if (least < TTL_MS_MIN)
        least = TTL_MS_MIN;
    if (renew == RENEW_AGENT && least < TTL_MS_MIN_AGENT)
        least = TTL_MS_MIN_AGENT;
    CORE_ASSERT(lock_delay_ms <= core->max_ttl_ms);
    uint32_t most = core->max_ttl_ms - lock_delay_ms; /* R15 */
    if (ttl_ms >= least && ttl_ms <= most)
        return true;
    *ret_refusal =
        (struct effect_answer){.answer = ANSWER_BAD_TTL, .ttl_ms_min = least, .ttl_ms_max = most};
    return false;
}

bool policy_allows_ttl(const struct core *core, const struct key *key, uint32_t ttl_ms,
                       enum renew renew, struct effect_answer *ret_refusal)
{
    return allows_ttl(core, key, core->policies[key->policy].lock_delay_ms, ttl_ms, renew,
                      ret_refusal);
}

bool policy_allows_ttl_of(const struct core *core, const struct lock *lock, uint32_t ttl_ms,
                          enum renew renew, struct effect_answer *ret_refusal)
{
    return allows_ttl(core, lock->key, lock->lock_delay_ms, ttl_ms, renew, ret_refusal);
}

void policy_fit_lock_delay(const struct core *core, struct lock *lock)
{
    uint32_t room_ms =
        core->max_ttl_ms > lock->terms.ttl_ms ? core->max_ttl_ms - lock->terms.ttl_ms : 0;
    if (lock->lock_delay_ms > room_ms)
        lock->lock_delay_ms = room_ms;
}

/* ---- readers and writers ---- */

/* Keys that are read and written (R18). All waiters are in one queue, in both modes:
 *
 *   w r r r w    a writer contends alone, as for a mutex
 *   r r r w r    the readers in front contend side by side, each with its own lock and round; the
 *                last one waits for the writer
 *
 * If one of the readers side by side is refused, no other begins, and the refused one does not
 * begin again, until all of them are decided. Then all pause. Otherwise more readers than may be in
 * flight would replace each other forever, and ask the masters without a pause.
 *
 * A key has one writer's attempt or hold, or any number of readers'. A writer that waits contends
 * also while readers of this agent hold the key. Its attempt is refused and leaves its ticket with
 * the masters, so that no reader elsewhere passes it. There is no hand-over. A release and the
 * attempts of the next requests are sent together, in order, and the tickets decide. */

/* Returns the first request of the list that does not contend, or the writer in front of it, which
 * may contend; NULL if there is none. */
static struct core_request *first_idle(const struct list *list)
{
    for (struct link *at = list->head.next; at != &list->head; at = at->next) {
        struct core_request *request = CONTAINER_OF(at, struct core_request, link);
        if (MUTANT(READER_PASSES_HERE) && request->terms.mode == MODE_WRITE &&
            at->next != &list->head)
            continue;
        if (request->attempt == NULL || request->terms.mode == MODE_WRITE)
            return request;
    }
    return NULL;
}

struct core_request *readers_next(const struct key *key)
{
    CORE_ASSERT(key->form == FORM_SHARED);
    const struct contention *contention = key->contention;
    if (contention->is_refused)
        return NULL;
    struct core_request *next = first_idle(&contention->waiters);
    bool waits = next != NULL;
    if (!waits)
        next = first_idle(&contention->once);
    if (next == NULL || next->terms.mode == MODE_READ)
        return next;
    bool is_first =
        waits ? request_first(&contention->waiters) == next
              : list_is_empty(&contention->waiters) && request_first(&contention->once) == next;
    return is_first && contention->attempts == 0 ? next : NULL;
}

bool readers_share_failure(const struct core_request *once, enum mode mode, bool waits)
{
    CORE_ASSERT(once->state == REQUEST_ONCE);
    bool may_differ = once->terms.mode == MODE_READ && mode == MODE_WRITE && !waits;
    return once->attempt == NULL && !may_differ;
}

uint32_t readers_here(const struct key *key)
{
    uint32_t count = 0;
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        const struct lock *lock = CONTAINER_OF(at, struct lock, link);
        count += lock->terms.mode == MODE_READ && lock->state == LOCK_HELD;
    }
    return count;
}

/* ---- the table ---- */

static uint64_t hash_of(const struct core *core, struct text name)
{
    return hash_bytes(core->hash_key[0], core->hash_key[1], name.at, name.len);
}

struct text key_text(const struct key *key)
{
    CORE_ASSERT(key->len >= 1 && key->len <= LIMIT_KEY_BYTES);
    return (struct text){key->name, key->len};
}

struct key *key_find(const struct core *core, struct text name)
{
    uint64_t hash = hash_of(core, name);
    struct hash_link *at = hash_first(&core->keys_by_name, hash);
    for (; at != NULL; at = hash_next(&core->keys_by_name, at)) {
        struct key *key = CONTAINER_OF(at, struct key, by_name);
        if (key->hash == hash && key->len == name.len && memcmp(key->name, name.at, name.len) == 0)
            return key;
    }
    return NULL;
}

void key_refer(struct core *core, struct key *key)
{
    key->references++;
    if (key->contention != NULL)
        return;
    key->contention = slots_take(&core->contentions);
    *key->contention = (struct contention){
        .key = key,
        .last_answer = ANSWER_LOCK_HELD,
        .last_occupant.left_ms = -1,
    };
    list_init(&key->contention->waiters);
    list_init(&key->contention->once);
}

/* Returns true if the first waiter gains nothing by an attempt when a reader of this agent leaves:
 * it shows its ticket in time, and gets the message of the last holder in its way. */
static bool waits_for_others(const struct key *key)
{
    const struct core_request *first = request_first(&key->contention->waiters);
    return first == NULL || first->terms.mode == MODE_READ || !list_is_empty(&key->holds);
}

void key_freed(struct core *core, struct key *key, enum mode mode)
{
    if (mode == MODE_WRITE || !waits_for_others(key))
        key_retry_dropped(core, key);
}

/* Returns true if a new contention would have the same content. */
static bool knows_nothing(const struct core *core, const struct contention *contention)
{
    CORE_ASSERT(contention->key->contention == contention);
    return contention->back_off_ms == 0 && contention->handovers == 0 &&
           contention->channel.losses == 0 && contention->channel.agents == 0 &&
           contention->tickets.behind == 0 && !contention->tickets.unreachable &&
           !instant_before(core->now, contention->sits_out_until);
}

/* Returns true if only a holder at this agent refers to the key. */
static bool is_at_rest(const struct core *core, const struct key *key)
{
    CORE_ASSERT(key->references > 0 && key->contention != NULL);
    const struct link *first = list_first(&key->holds);
    bool is_alone = key->references == 1 || MUTANT(CONTENTION_ENDED_EARLY);
    return is_alone && first != NULL &&
           CONTAINER_OF(first, struct lock, link)->state == LOCK_HELD &&
           !key_has_retry(core, key) && !key->contention->channel.watched &&
           knows_nothing(core, key->contention);
}

struct key *key_get(struct core *core, struct text name)
{
    CORE_ASSERT(name.len >= 1 && name.len <= LIMIT_KEY_BYTES);
    struct key *key = key_find(core, name);
    if (key != NULL)
        return key;
    if (core->keys_free != NULL) {
        key = core->keys_free;
        core->keys_free = key->next;
        CORE_ASSERT(key->references == 0);
    } else {
        /* Each key has a lock or a request, and the table has a slot for each of both (init.c). A
         * key that was freed in this step had such a slot before the step, and no step makes more
         * than one. */
        CORE_ASSERT(core->keys_used < core->keys_size);
        key = &core->keys[core->keys_used++];
    }
    *key = (struct key){0};
    key->len = (uint16_t)name.len;
    key->name = names_take(&core->names, name);
    key->hash = hash_of(core, name);
    key->policy = core_policy_of(core, name);
    key->group = policy_group(core, key->policy, name);
    key->permits = (uint8_t)core->policies[key->policy].permits;
    key->form = core->policies[key->policy].form;
    list_init(&key->holds);
    hash_add(&core->keys_by_name, &key->by_name, key->hash);
    return key;
}

/* Returns the writer, which is always at the head of key->holds; NULL if there is none. */
static struct lock *first_alone(const struct key *key)
{
    struct link *first = list_first(&key->holds);
    struct lock *lock = first == NULL ? NULL : CONTAINER_OF(first, struct lock, link);
    return lock != NULL && lock->terms.mode == MODE_WRITE ? lock : NULL;
}

/* Returns true if the lock is an attempt for a free slot. There is one at a time (R9, R20). */
static bool contends(const struct lock *lock)
{
    return lock_is_attempt(lock) && lock->cause != CAUSE_HANDOVER;
}

static bool has_permit_left(const struct key *key)
{
    uint32_t count = 0;
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        if (contends(CONTAINER_OF(at, struct lock, link)))
            return false;
        count++;
    }
    return count < key->permits;
}

bool key_admits(const struct key *key)
{
    if (list_is_empty(&key->holds))
        return true;
    return key->form == FORM_SHARED
               ? first_alone(key) == NULL && key->contention->attempts < LIMIT_READS
               : has_permit_left(key);
}

bool key_is_contended(const struct key *key)
{
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        if (contends(CONTAINER_OF(at, struct lock, link)))
            return true;
    }
    return key_awaits_round(key) || key->contention->search.goes_on;
}

struct lock *key_holder(const struct key *key)
{
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, link);
        if (lock->terms.mode == MODE_READ)
            return NULL; /* A writer is at the head. */
        if (!lock_is_attempt(lock))
            return lock;
    }
    return NULL;
}

bool key_has_slot(const struct key *key, const struct token *token)
{
    return !token->has_slot || token->slot < key->permits;
}

struct lock *key_exhausted(const struct key *key)
{
    if (key->form == FORM_SHARED)
        return key_holder(key);
    uint32_t count = 0;
    struct lock *first = NULL;
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, link);
        count +=
            !lock_is_attempt(lock) || lock->cause == CAUSE_HANDOVER; /* It goes on to have it. */
        if (lock_is_attempt(lock))
            continue;
        if (first == NULL || instant_before(lock->valid_until, first->valid_until))
            first = lock;
    }
    return count < key->permits ? NULL : first;
}

struct lock *key_attempt(const struct key *key)
{
    struct link *at = key->holds.head.next;
    if (key->contention == NULL || key->contention->attempts == 0)
        return NULL;
    while (!lock_is_attempt(CONTAINER_OF(at, struct lock, link)))
        at = at->next;
    CORE_ASSERT(at != &key->holds.head);
    return CONTAINER_OF(at, struct lock, link);
}

struct lock *key_obstacle(const struct key *key, enum mode mode, const struct token *token)
{
    if (key->form == FORM_SHARED && mode == MODE_READ)
        return first_alone(key);
    for (struct link *at = key->holds.head.next; at != &key->holds.head; at = at->next) {
        struct lock *lock = CONTAINER_OF(at, struct lock, link);
        if (token_same_slot(&lock->token, token))
            return lock;
    }
    return NULL;
}

struct core_request *key_next_waiter(const struct key *key)
{
    const struct list *waiters = &key->contention->waiters;
    for (struct link *at = waiters->head.next; at != &waiters->head; at = at->next) {
        struct core_request *waiter = CONTAINER_OF(at, struct core_request, link);
        if (waiter->attempt == NULL)
            return waiter;
    }
    return NULL;
}

void key_remove(struct core *core, struct key *key)
{
    CORE_ASSERT(key->references == 0 && list_is_empty(&key->holds));
    CORE_ASSERT(list_is_empty(&key->contention->waiters) && list_is_empty(&key->contention->once));
    if (!MUTANT(PLACE_IN_LINE_KEPT))
        admission_left(core, key);
    timers_clear(&core->timers, timer_of_key(core, key));
    hash_remove(&core->keys_by_name, &key->by_name, key->hash);
    CORE_ASSERT(key->is_touched);
}

void key_table_recycle(struct core *core)
{
    struct key *key;
    while ((key = core->keys_touched) != NULL) {
        core->keys_touched = key->next;
        key->is_touched = false;
        struct contention *contention = key->contention;
        if (contention != NULL && (key->references == 0 || is_at_rest(core, key))) {
            CORE_ASSERT(list_is_empty(&contention->waiters) && list_is_empty(&contention->once));
            CORE_ASSERT(!key_has_retry(core, key) && !key_awaits_round(key));
            slots_give(&core->contentions, contention);
            key->contention = NULL;
        }
        if (key->references > 0)
            continue;
        names_give(&core->names, key->name, key->len);
        key->next = core->keys_free;
        core->keys_free = key;
    }
}
