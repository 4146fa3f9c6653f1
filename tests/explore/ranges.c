/* A core's memory, as far as steps change it: what of it is copied out and back, and what of it
 * makes two cores the same. */
#include "ranges.h"

#include "agent/core/random.h"
#include "agent/core/state.h"
#include "tests/sim/options.h"

#include <stdlib.h>
#include <string.h>

/* Random bytes that the steps of one choice may use. */
enum { USED_MAX = 8 * ENTROPY_BYTES_OF_EVENT };

__extension__ typedef unsigned __int128 wide;

/* Returns the folded product of two numbers: each bit of both counts. No caller chooses the
 * factors. */
uint64_t hash_mix(uint64_t a, uint64_t b)
{
    wide product = (wide)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd6e8feb86659fd93u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash_more(uint64_t hash, const void *bytes, size_t size)
{
    const char *at = bytes;
    uint64_t words[2];
    for (; size >= sizeof words; at += sizeof words, size -= sizeof words) {
        memcpy(words, at, sizeof words);
        hash = hash_mix(hash ^ words[0], words[1]) + (hash << 7 | hash >> 57);
    }
    if (size > 0) {
        memset(words, 0, sizeof words);
        memcpy(words, at, size);
        hash = hash_mix(hash ^ words[0], words[1] ^ size) + (hash << 7 | hash >> 57);
    }
    return hash_mix(hash, 0x8ebc6af09c88c6e3u);
}

void ranges_add(struct ranges *ranges, void *at, size_t size)
{
    if (ranges->count == RANGES_MAX)
        abort();
    if (size > 0)
        ranges->list[ranges->count++] = (struct range){at, size};
}
uint64_t ranges_hash(uint64_t hash, const struct ranges *ranges)
{
    for (size_t i = 0; i < ranges->count; i++)
        hash = hash_more(hash, ranges->list[i].at, ranges->list[i].size);
    return hash;
}

static void add_slots(struct ranges *ranges, struct slots *slots)
{
    ranges_add(ranges, slots->at, slots->used * slots->bytes);
}

/* Adds the places of all owners that were ever used. */
static void add_places(struct ranges *ranges, struct core *core, struct timers *timers)
{
    ranges_add(ranges, timers->places, core->locks_used * sizeof timers->places[0]);
    if (timers == &core->renewals)
        return; /* timers of locks alone */
    uint32_t *keys = timers->places + core->locks_size, *requests = keys + core->keys_size;
    ranges_add(ranges, keys, core->keys_used * sizeof keys[0]);
    ranges_add(ranges, requests, core->requests_used * sizeof requests[0]);
}

/* The tables of a core, as far as they were ever used. */
static void list_tables(struct ranges *ranges, struct core *core)
{
    ranges_add(ranges, core->locks, core->locks_used * core->lock_bytes);
    ranges_add(ranges, core->keys, core->keys_used * sizeof core->keys[0]);
    ranges_add(ranges, core->requests, core->requests_used * sizeof core->requests[0]);
    for (unsigned size = 0; size < NAME_SIZES; size++)
        add_slots(ranges, &core->names.sizes[size]);
    add_slots(ranges, &core->contentions);
    add_slots(ranges, &core->pending);
    add_slots(ranges, &core->metadata);
    add_slots(ranges, &core->used_up);
    add_places(ranges, core, &core->timers);
    add_places(ranges, core, &core->renewals);
}

static void add_buckets(struct ranges *ranges, struct hash_table *table)
{
    ranges_add(ranges, table->buckets, table->count * sizeof table->buckets[0]);
}

/* The places of the world's keys in the table of refused ones (R24). */
static void add_refused(struct ranges *ranges, struct core *core)
{
    for (uint8_t key = 0; key < SIM_KEYS; key++) {
        struct text name = options_key_text(key);
        uint64_t hash = hash_bytes(core->hash_key[0], core->hash_key[1], name.at, name.len);
        ranges_add(ranges, &core->refused_until[hash % REFUSED_KEYS],
                   sizeof core->refused_until[0]);
    }
}

static void add_heap(struct ranges *ranges, struct timers *timers)
{
    ranges_add(ranges, timers->heap + 1, timers->count * sizeof timers->heap[0]);
}

void ranges_of_core(struct ranges *ranges, struct core *core)
{
    ADD_FROM_TO(ranges, core, 0, OFFSET_BEHIND(struct core, groups[0]));
    ranges_add(ranges, &core->policies[0], sizeof core->policies[0]);
    ADD_FROM_TO(ranges, core, offsetof(struct core, now), offsetof(struct core, entropy));
    ADD_FROM_TO(ranges, core, offsetof(struct core, entropy.left),
                offsetof(struct core, refused_until));
    add_refused(ranges, core);
    ADD_FROM_TO(ranges, core, offsetof(struct core, batch_count), sizeof *core);
    /* Random bytes that are used are wiped. */
    uint32_t left = core->entropy.left, used = left < USED_MAX ? left : USED_MAX;
    ranges_add(ranges, core->entropy.bytes + left - used, used);
    list_tables(ranges, core);
    add_buckets(ranges, &core->keys_by_name);
    add_buckets(ranges, &core->locks_by_token);
    add_buckets(ranges, &core->locks_by_secret);
    add_buckets(ranges, &core->used_up_by_secret);
    add_buckets(ranges, &core->requests_by_secret);
    add_heap(ranges, &core->timers);
    add_heap(ranges, &core->renewals);
}

void core_empty_tables(struct core *core)
{
    static struct ranges ranges;
    ranges.count = 0;
    list_tables(&ranges, core);
    for (size_t i = 0; i < ranges.count; i++)
        memset(ranges.list[i].at, 0, ranges.list[i].size);
}

/* Hashes the heap. Of equal deadlines the one that was armed first fires first. So the order of
 * arming counts, and not how many were armed before. */
static uint64_t hash_heap(uint64_t hash, const struct timers *timers)
{
    for (uint32_t i = 1; i <= timers->count; i++) {
        const struct timer_entry *entry = &timers->heap[i];
        uint64_t words[2] = {(uint64_t)entry->at.us, (uint64_t)entry->timer << 32};
        for (uint32_t other = 1; other <= timers->count; other++)
            words[1] += timers->heap[other].order < entry->order;
        hash = hash_more(hash, words, sizeof words);
    }
    return hash;
}

static uint64_t hash_keys(uint64_t hash, const struct core *core)
{
    for (uint32_t i = 0; i < core->keys_used; i++) {
        struct key key;
        memcpy(&key, &core->keys[i], sizeof key);
        key.batch = 0;
        hash = hash_more(hash, &key, sizeof key);
    }
    return hash;
}

uint64_t core_hash(struct core *core)
{
    static struct ranges ranges;
    ranges.count = 0;
    ADD_FROM_TO(&ranges, core, 0, OFFSET_BEHIND(struct core, groups[0]));
    ranges_add(&ranges, &core->policies[0], sizeof core->policies[0]);
    ADD_FROM_TO(&ranges, core, offsetof(struct core, started), offsetof(struct core, entropy));
    ADD_FROM_TO(&ranges, core, offsetof(struct core, entropy.left), offsetof(struct core, effects));
    ADD_FROM_TO(&ranges, core, offsetof(struct core, settled), offsetof(struct core, names));
    add_refused(&ranges, core);
    ADD_FROM_TO(&ranges, core, offsetof(struct core, keys_used), sizeof *core);
    ranges_add(&ranges, core->locks, core->locks_used * core->lock_bytes);
    ranges_add(&ranges, core->requests, core->requests_used * sizeof core->requests[0]);
    add_slots(&ranges, &core->contentions);
    add_slots(&ranges, &core->pending);
    add_slots(&ranges, &core->metadata);
    add_slots(&ranges, &core->used_up);
    /* Neither clock of its last step counts, but how far they are apart: one may be set (R12). */
    int64_t wall_ahead_us = core->wall_us - core->now.us;
    uint64_t hash = hash_more(ranges_hash(0, &ranges), &wall_ahead_us, sizeof wall_ahead_us);
    hash = hash_keys(hash, core);
    return hash_heap(hash_heap(hash, &core->timers), &core->renewals);
}

bool core_is_empty(const struct core *core)
{
    for (uint32_t i = 0; i < core->keys_used; i++)
        if (core->keys[i].references > 0)
            return false;
    return true;
}
