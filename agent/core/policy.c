/* Which policy a key falls under, which group of masters it belongs to, and which leases are
 * allowed. */
#include "policy.h"

#include "core_assert.h"
#include "glob.h"
#include "random.h"

uint16_t core_policy_of(const struct core *core, struct text key)
{
    CORE_ASSERT(core->policy_count >= 1);
    for (size_t i = 0; i + 1 < core->policy_count; i++) {
        if (glob_matches(core->policies[i].match, key))
            return (uint16_t)i;
    }
    return (uint16_t)(core->policy_count - 1);
}

/* Rendezvous hashing (Thaler and Ravishankar): every agent ranks the groups by hash of (group's
 * name, key) and takes the first, so that adding a group moves only the keys that it wins. The hash
 * key is fixed: all agents must agree (A4). */
uint8_t policy_group(const struct core *core, uint16_t policy, struct text key)
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
