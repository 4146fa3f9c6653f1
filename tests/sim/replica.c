/* The replicas of a single master (R21). Each has the master's data of some time, and may take the
 * master's place. */
#include "master.h"

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
    for (uint8_t r = 0; r < w->options.replicas; r++) {
        if (w->replicas[r].coming)
            continue;
        w->replicas[r].coming = true;
        world_plan_in(w, prng_between(&w->masters[0].chance, STREAM_US_MIN, STREAM_US_MAX),
                      (struct happening){.kind = HAPPEN_REPLICATE, .master = r});
    }
}

void replica_note_writes(struct world *w, struct connection *connection, uint64_t sent)
{
    struct master *master = &w->masters[0];
    if (w->options.replicas == 0 || master->keyspace->sent == sent)
        return;
    master->offset++;
    if (connection != NULL)
        connection->offset = master->offset;
}

void replica_message(struct world *w, struct connection *connection)
{
    static const char *const message[] = {"PUBLISH", REPLICAS_CHANNEL, ""};
    uint64_t sent = w->masters[0].keyspace->sent;
    master_put(w, 0, message, sizeof message / sizeof message[0]);
    replica_note_writes(w, connection, sent);
    replica_follow(w);
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

/* Compares two strings, of which either may be missing. */
static bool is_same(const struct string *a, const struct string *b)
{
    return a != NULL && b != NULL && a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

/* True if the replica has a holder that the master does not have any more: the replica has missed
 * a release. A string has one holder, a hash (R22) and a sorted set (R17) have one per field. */
static bool comes_back(const struct master *master, const struct replica *replica, uint8_t name)
{
    const struct entry *now = keyspace_find(master->keyspace, master_lock_name(name)),
                       *then = keyspace_find(replica->keyspace, master_lock_name(name));
    if (then == NULL || then->type == VALUE_STRING)
        return then != NULL && !is_same(now == NULL ? NULL : &now->value, &then->value);
    for (uint32_t i = 0; i < then->field_count; i++) {
        bool stays = false;
        for (uint32_t j = 0; now != NULL && !stays && j < now->field_count; j++)
            stays = is_same(&now->fields[j].name, &then->fields[i].name);
        if (!stays)
            return true;
    }
    return false;
}

void replica_promote(struct world *w, uint8_t index)
{
    struct master *master = &w->masters[0];
    const struct replica *replica = &w->replicas[index];
    bool back[SIM_NAMES];
    replica->keyspace->now_us = master_wall_us(w, 0); /* it counts the time as its master does */
    /* A key that an earlier promotion has brought back keeps its mark (R21). */
    for (uint8_t name = 0; name < SIM_NAMES; name++)
        back[name] = master->keys[name].stray || comes_back(master, replica, name);
    world_say(w, "replica %u is promoted: it is %llu commands behind", index,
              (unsigned long long)(master->offset - replica->offset));
    keyspace_copy(master->keyspace, replica->keyspace);
    memcpy(master->keys, replica->keys, sizeof master->keys);
    for (uint8_t name = 0; name < SIM_NAMES; name++)
        master->keys[name].stray |= back[name];
    master_begin_history(master);
    master->promoted = true;
    w->forgot_at = w->epoch_at = master->forgot_at = w->now;
    w->figures.failovers++;
}

/* Returns the end of the holder's lease in one key of a replica, unix time in ms; -1 if the holder
 * is not there. In a string and in a hash (R22) the key's end counts, in a sorted set (R17) the
 * entry's own. */
static int64_t holder_ends_ms(const struct entry *entry, const char random[TOKEN_RANDOM_CHARS])
{
    if (entry == NULL)
        return -1;
    if (entry->type == VALUE_STRING && entry->value.len > TOKEN_RANDOM_CHARS &&
        memcmp(entry->value.at, random, TOKEN_RANDOM_CHARS) == 0)
        return entry->expires_ms;
    for (uint32_t i = 0; i < entry->field_count; i++) {
        const struct field *field = &entry->fields[i];
        size_t mode = entry->type == VALUE_SORTED ? 2 : 0; /* "r:" or "w:" */
        if (field->name.len <= mode + TOKEN_RANDOM_CHARS ||
            memcmp(field->name.at + mode, random, TOKEN_RANDOM_CHARS) != 0)
            continue;
        int64_t ends_ms = entry->type == VALUE_SORTED ? (int64_t)field->score : entry->expires_ms;
        return entry->expires_ms < ends_ms ? entry->expires_ms : ends_ms;
    }
    return -1;
}

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
        count += holder_ends_ms(entry, text) * 1000 >= master_wall_at(w, 0, until);
    }
    return count;
}
