/* The memory of the tables: its size, its layout, and a core in it. */
#include "core.h"

#include <string.h>

#include "core_assert.h"
#include "state.h"

/* The size of the tables, and the address of each. One pass measures, the same pass places. */
struct arena {
    uint8_t *at;
    size_t size;
};

static void *place(struct arena *arena, size_t count, size_t size)
{
    size_t offset = (arena->size + 15) & ~(size_t)15;
    arena->size = offset + count * size;
    return arena->at == NULL ? NULL : arena->at + offset;
}

static struct hash_table place_hash(struct arena *arena, uint32_t most)
{
    uint32_t count = 16;
    while (count < most / 2)
        count *= 2;
    return (struct hash_table){
        .base = (char *)arena->at,
        .buckets = place(arena, count, sizeof(uint32_t)),
        .count = count,
    };
}

static struct slots place_slots(struct arena *arena, uint32_t count, size_t bytes)
{
    return (struct slots){.at = place(arena, count, bytes), .bytes = bytes, .count = count};
}

static struct timers place_timers(struct arena *arena, uint32_t size)
{
    return (struct timers){
        .heap = place(arena, size + 1, sizeof(struct timer_entry)),
        .places = place(arena, size, sizeof(uint32_t)),
        .size = size,
    };
}

static size_t masters_most(const struct core_config *config)
{
    size_t most = 0;
    for (size_t i = 0; i < config->group_count; i++)
        most = config->groups[i].masters > most ? config->groups[i].masters : most;
    return most;
}

/* Places all tables. They remember as many ended locks as there may be locks that have not ended. A
 * freed slot is used again only after the step, and within a step every request begins one lock at
 * most, so these slots are enough. */
static size_t lay_out_tables(struct core *core, const struct core_config *config, uint8_t *memory)
{
    struct arena arena = {.at = memory, .size = sizeof(struct core)};
    uint32_t locks = 2 * config->locks_max + config->requests_max + 1,
             keys = locks + config->requests_max;
    CORE_ASSERT(locks <= LIMIT_LOCK_SLOTS);
    size_t masters = masters_most(config),
           lock_bytes = sizeof(struct lock) + masters * sizeof(struct lock_master),
           pending_bytes = sizeof(struct pending_operation) + masters * sizeof(struct denial);
    uint8_t *lock_table = place(&arena, locks, lock_bytes);
    struct key *key_table = place(&arena, keys, sizeof(struct key));
    struct names names = {.taken = 0};
    for (unsigned size = 0; size < NAME_SIZES; size++)
        names.sizes[size] = place_slots(&arena, keys, names_slot_bytes(size));
    struct slots contentions = place_slots(&arena, keys, sizeof(struct contention)),
                 pending = place_slots(&arena, locks, (pending_bytes + 7) & ~(size_t)7),
                 metadata = place_slots(&arena, locks, sizeof(struct kept_metadata)),
                 used_up = place_slots(&arena, config->locks_max, sizeof(struct used_up));
    struct core_request *request_table =
        place(&arena, config->requests_max, sizeof(struct core_request));
    struct hash_table by_name = place_hash(&arena, keys), by_token = place_hash(&arena, locks),
                      by_secret = place_hash(&arena, locks),
                      used_up_by_secret = place_hash(&arena, config->locks_max),
                      requests_by_secret = place_hash(&arena, config->requests_max);
    struct timers timers = place_timers(&arena, locks + keys + config->requests_max),
                  renewals = place_timers(&arena, locks);
    if (core != NULL) {
        core->locks = lock_table, core->locks_size = locks, core->lock_bytes = lock_bytes;
        core->keys = key_table, core->keys_size = keys;
        core->names = names;
        core->contentions = contentions, core->pending = pending, core->metadata = metadata;
        core->used_up = used_up, core->used_up_by_secret = used_up_by_secret;
        core->requests = request_table, core->requests_by_secret = requests_by_secret;
        core->keys_by_name = by_name;
        core->locks_by_token = by_token, core->locks_by_secret = by_secret;
        core->timers = timers, core->renewals = renewals;
    }
    return arena.size;
}

size_t core_size(const struct core_config *config)
{
    return lay_out_tables(NULL, config, NULL);
}

static void check_config(const struct core_config *config)
{
    CORE_ASSERT(config->group_count >= 1 && config->group_count <= LIMIT_GROUPS);
    CORE_ASSERT(config->locks_max >= 1 && config->locks_max <= LIMIT_LOCKS);
    CORE_ASSERT(config->rounds_min >= 1 && config->rounds_min <= config->rounds_first);
    CORE_ASSERT(config->rounds_first <= config->rounds_max && config->rounds_max <= LIMIT_ROUNDS);
    CORE_ASSERT(config->requests_max >= 1 && config->requests_max <= LIMIT_REQUESTS);
    for (size_t i = 0; i < config->group_count; i++)
        CORE_ASSERT(config->groups[i].masters >= 1 && config->groups[i].masters <= LIMIT_MASTERS);
}

void core_set_policies(struct core *core, const struct core_policy *policies, size_t count)
{
    CORE_ASSERT(count >= 1 && count <= LIMIT_POLICIES);
    CORE_ASSERT(core->policy_count == 0 || core->policy_count == count);
    for (size_t i = 0; i < count; i++) {
        CORE_ASSERT(policies[i].renew != RENEW_UNSET);
        CORE_ASSERT(policies[i].lock_delay_ms < core->max_ttl_ms);
        CORE_ASSERT(policies[i].permits >= 1 && policies[i].permits <= LIMIT_PERMITS);
        CORE_ASSERT((policies[i].permits > 1) == (policies[i].form == FORM_SLOTS));
        CORE_ASSERT(policies[i].form != FORM_SLOTS || !policies[i].reentrant);
        CORE_ASSERT(policies[i].group_count >= 1 && policies[i].group_count <= LIMIT_GROUPS);
        core->policies[i] = policies[i];
    }
    core->policy_count = count;
}

struct core *core_init(void *memory, const struct core_config *config)
{
    check_config(config);
    struct core *core = memory;
    lay_out_tables(core, config, memory);
    core->locks_max = core->ended_max = config->locks_max;
    core->requests_max = config->requests_max;
    core->waiters_max = config->waiters_max;
    core->rounds_min = config->rounds_min;
    core->rounds_first = config->rounds_first;
    core->rounds_max = config->rounds_max;
    core->max_ttl_ms = config->max_ttl_ms;
    core->wait_ms_max = config->wait_ms_max;
    core->journal = config->journal;
    core->group_count = config->group_count;
    for (size_t i = 0; i < config->group_count; i++) {
        struct group *group = &core->groups[i];
        group->config = config->groups[i];
        group->name_hash = hash_bytes(0, 0, config->group_names[i], strlen(config->group_names[i]));
        list_init(&group->admission.queue);
        list_init(&group->admission.guests);
        group->admission.quickest_us = (int64_t)group->config.node_timeout_ms * 1000;
        core->stats.rounds[i].limit = core->rounds_first;
    }
    struct random random;
    random_seed(&random, config->seed);
    core->hash_key[0] = random_next(&random);
    core->hash_key[1] = random_next(&random);
    for (size_t i = 0; i < CHANCES; i++)
        random_seed(&core->chances[i], random_next(&random));
    random_seed(&random, ~config->seed);
    core->agent = random_next(&random) | 1;
    core->value_agent = config->agent & ~(uint32_t)AGENT_ADOPTED;
    list_init(&core->settled);
    list_init(&core->locks_free);
    list_init(&core->locks_retired);
    list_init(&core->locks_ended);
    list_init(&core->locks_remembered);
    list_init(&core->used_up_order);
    core_set_policies(core, config->policies, config->policy_count);
    return core;
}
