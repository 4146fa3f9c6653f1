/* The replicas of a single master (R21): each has what the master had at some time, and may take
 * its place. */
#include "world.h"

#include <string.h>

enum { STREAM_US_MIN = 20, STREAM_US_MAX = 3000 };

void replica_reset(struct world *w)
{
    w->promoted_at = -1;
    for (uint8_t r = 0; r < w->options.replicas; r++) {
        struct keyspace *keyspace = w->replicas[r].keyspace;
        w->replicas[r] = (struct replica){.keyspace = keyspace == NULL ? keyspace_new() : keyspace};
        keyspace_copy(w->replicas[r].keyspace, w->masters[0].keyspace);
    }
}

void replica_follow(struct world *w)
{
    if (w->options.replicas == 0)
        return;
    w->masters[0].offset++;
    for (uint8_t r = 0; r < w->options.replicas; r++) {
        if (w->replicas[r].coming)
            continue;
        w->replicas[r].coming = true;
        world_plan_in(w, prng_between(&w->prng, STREAM_US_MIN, STREAM_US_MAX),
                      (struct happening){.kind = HAPPEN_REPLICATE, .master = r});
    }
}

void replica_arrive(struct world *w, uint8_t index)
{
    const struct master *master = &w->masters[0];
    struct replica *replica = &w->replicas[index];
    replica->coming = false;
    if (replica->frozen || master->down || master->paused)
        return;
    keyspace_copy(replica->keyspace, master->keyspace);
    memcpy(replica->keys, master->keys, sizeof replica->keys);
    replica->offset = master->offset;
}

unsigned replica_count(const struct world *w, uint64_t offset)
{
    unsigned count = 0;
    for (uint8_t r = 0; r < w->options.replicas; r++)
        count += w->replicas[r].offset >= offset;
    return count;
}

/* A release that the replica has missed: what it deleted comes back behind its back. */
static bool comes_back(const struct master *master, const struct replica *replica, uint8_t name)
{
    const struct entry *now = keyspace_find(master->keyspace, master_lock_name(name)),
                       *then = keyspace_find(replica->keyspace, master_lock_name(name));
    return then != NULL && (now == NULL || now->value.len != then->value.len ||
                            memcmp(now->value.at, then->value.at, then->value.len) != 0);
}

void replica_promote(struct world *w, uint8_t index)
{
    struct master *master = &w->masters[0];
    const struct replica *replica = &w->replicas[index];
    bool back[SIM_NAMES];
    for (uint8_t name = 0; name < SIM_NAMES; name++)
        back[name] = comes_back(master, replica, name);
    world_say(w, "replica %u is promoted: it is %llu commands behind", index,
              (unsigned long long)(master->offset - replica->offset));
    keyspace_copy(master->keyspace, replica->keyspace);
    memcpy(master->keys, replica->keys, sizeof master->keys);
    for (uint8_t name = 0; name < SIM_NAMES; name++)
        master->keys[name].stray |= back[name];
    master->promoted = true;
    w->forgot_at = w->epoch_at = w->now;
    w->figures.failovers++;
}

/* A replica counts the time as its master does. */
unsigned replica_count_holding(struct world *w, uint8_t name, const uint8_t random[RANDOM_BYTES],
                               int64_t until)
{
    unsigned count = 0;
    char text[TOKEN_RANDOM_CHARS];
    struct token token;
    memcpy(token.random, random, RANDOM_BYTES);
    token_print_random(&token, text);
    for (uint8_t r = 0; r < w->options.replicas; r++) {
        struct keyspace *keyspace = w->replicas[r].keyspace;
        keyspace->now_us = master_wall_us(w, 0);
        const struct entry *entry = keyspace_find(keyspace, master_lock_name(name));
        count += entry != NULL && entry->type == VALUE_STRING &&
                 entry->value.len > TOKEN_RANDOM_CHARS &&
                 memcmp(entry->value.at, text, TOKEN_RANDOM_CHARS) == 0 &&
                 entry->expires_ms * 1000 >= master_wall_at(w, 0, until);
    }
    return count;
}
