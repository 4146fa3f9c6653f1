/* The simulator's masters, with a memory. The effect of a script on a master's keys is computed
 * once and known from then on. So scripts hardly ever run in a small world. A master's keys are one
 * of the states that were seen, and are never changed. A call makes another one of them the
 * master's.
 *
 *   (keys, clock, command, subscribers) --> (keys, reply, published messages) */
#include "explore.h"

#include "tests/keyspace/keyspace.h"

#include <stdlib.h>
#include <string.h>

enum { PUBLISHED_MAX = 4, TEXT_MAX = 96 };

struct published {
    char channel[TEXT_MAX], message[TEXT_MAX];
    uint8_t channel_len, message_len;
};
struct known_call {
    uint64_t hash;
    struct keyspace *after; /* NULL: an empty place */
    struct published published[PUBLISHED_MAX];
    uint8_t published_count;
    struct bytes reply;
};
static struct known_call *known;
static size_t known_room, known_count;

struct known_keys {
    uint64_t hash;
    struct keyspace *keyspace;
};
static struct known_keys *shared;
static size_t shared_room, shared_count;

static void *allocate(size_t size)
{
    void *bytes = calloc(1, size);
    if (bytes == NULL)
        abort();
    return bytes;
}

/* ---- keys ---- */

static bool has_expired(const struct keyspace *keyspace, const struct entry *entry)
{
    return entry->expires_ms >= 0 && keyspace->now_us / 1000 > entry->expires_ms;
}

/* The version of an entry is a hash of its content, so that equal keys have equal versions. */
static uint64_t hash_entry(struct entry *entry)
{
    uint64_t hash = hash_more(entry->type, entry->name.at, entry->name.len);
    hash = hash_more(hash, &entry->expires_ms, sizeof entry->expires_ms);
    if (entry->type == VALUE_STRING)
        hash = hash_more(hash, entry->value.at, entry->value.len);
    for (uint32_t f = 0; f < entry->field_count; f++) { /* the scores of a sorted set are texts */
        hash = hash_more(hash, entry->fields[f].name.at, entry->fields[f].name.len);
        hash = hash_more(hash, entry->fields[f].value.at, entry->fields[f].value.len);
    }
    entry->version = hash;
    return hash;
}

/* Their order does not count. The server's replication id, which INFO shows, is one of them. */
static uint64_t hash_keys(struct keyspace *keyspace)
{
    uint64_t hash = hash_more(0, keyspace->replid, sizeof keyspace->replid);
    for (uint32_t i = 0; i < keyspace->count;)
        if (has_expired(keyspace, &keyspace->entries[i]))
            entry_remove(keyspace, &keyspace->entries[i]);
        else
            hash += hash_entry(&keyspace->entries[i++]);
    return hash | 1;
}

static struct known_keys *place_of_keys(struct known_keys *table, size_t room, uint64_t hash)
{
    size_t i = hash & (room - 1);
    while (table[i].keyspace != NULL && table[i].hash != hash)
        i = (i + 1) & (room - 1);
    return &table[i];
}

static void grow_keys(void)
{
    size_t room = shared_room == 0 ? 1 << 10 : 2 * shared_room;
    struct known_keys *table = allocate(room * sizeof *table);
    for (size_t i = 0; i < shared_room; i++)
        if (shared[i].keyspace != NULL)
            *place_of_keys(table, room, shared[i].hash) = shared[i];
    free(shared);
    shared = table;
    shared_room = room;
}

/* Takes the keyspace, and returns the shared one with the same content. Each master has its own,
 * because each publishes to its own subscribers. */
static struct keyspace *share(struct keyspace *keyspace)
{
    const struct master *master = keyspace->owner;
    if (2 * (shared_count + 1) > shared_room)
        grow_keys();
    uint64_t hash = hash_keys(keyspace) * (2 * master->index + 1u) + 2 * master->index;
    struct known_keys *place = place_of_keys(shared, shared_room, hash);
    if (place->keyspace == NULL) {
        *place = (struct known_keys){hash, keyspace};
        keyspace->is_shared = true;
        shared_count++;
    } else if (place->keyspace != keyspace) {
        keyspace_free(keyspace);
    }
    return place->keyspace;
}

static struct keyspace *copy_of(const struct keyspace *keyspace)
{
    struct keyspace *copy = keyspace_new();
    keyspace_copy(copy, keyspace);
    copy->now_us = keyspace->now_us;
    memcpy(copy->replid, keyspace->replid, sizeof copy->replid);
    memcpy(copy->replid2, keyspace->replid2, sizeof copy->replid2);
    copy->refusal = keyspace->refusal;
    copy->owner = keyspace->owner;
    copy->subscribers = keyspace->subscribers;
    copy->publish = keyspace->publish;
    return copy;
}

static bool is_owned[SIM_MASTERS];

void masters_own(uint8_t master)
{
    if (world.masters[master].keyspace->is_shared)
        world.masters[master].keyspace = copy_of(world.masters[master].keyspace);
    is_owned[master] = true;
}

struct copy masters_copy(uint8_t master)
{
    struct copy copy = {.keyspace = world.masters[master].keyspace};
    memcpy(copy.keys, world.masters[master].keys, sizeof copy.keys);
    return copy;
}

void masters_share(void)
{
    for (uint8_t m = 0; m < world.options.masters; m++) {
        struct master *master = &world.masters[m];
        if (!is_owned[m])
            continue;
        master->keyspace->now_us = master_wall_us(&world, m);
        master->keyspace = share(master->keyspace);
        is_owned[m] = false;
    }
}

/* ---- calls ---- */

static struct known_call *recorded;

/* Both kinds of channels end with the key, one of them in braces (R22). */
static uint8_t key_of_channel(const char *channel, size_t len)
{
    return (uint8_t)(channel[len - 1 - (channel[len - 1] == '}')] - '0');
}

static uint32_t record(void *owner, struct bytes channel, struct bytes message)
{
    const struct master *master = owner;
    if (recorded->published_count == PUBLISHED_MAX || channel.len > TEXT_MAX ||
        message.len > TEXT_MAX)
        abort();
    struct published *published = &recorded->published[recorded->published_count++];
    memcpy(published->channel, channel.at, channel.len);
    memcpy(published->message, message.at, message.len);
    published->channel_len = (uint8_t)channel.len;
    published->message_len = (uint8_t)message.len;
    return channel_agents(&world, master->index, key_of_channel(channel.at, channel.len));
}

static struct known_call *place_of_call(struct known_call *table, size_t room, uint64_t hash)
{
    size_t i = hash & (room - 1);
    while (table[i].after != NULL && table[i].hash != hash)
        i = (i + 1) & (room - 1);
    return &table[i];
}

static void grow_calls(void)
{
    size_t room = known_room == 0 ? 1 << 12 : 2 * known_room;
    struct known_call *table = allocate(room * sizeof *table);
    for (size_t i = 0; i < known_room; i++)
        if (known[i].after != NULL)
            *place_of_call(table, room, known[i].hash) = known[i];
    free(known);
    known = table;
    known_room = room;
}

// The linker's --wrap gives the names. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl*)
struct bytes __real_scripting_run(struct scripting *scripting, struct keyspace *keyspace,
                                  struct bytes command);
struct bytes __wrap_scripting_run(struct scripting *scripting, struct keyspace *keyspace,
                                  struct bytes command);
// NOLINTEND(bugprone-reserved-identifier,cert-dcl*)

static void run(struct known_call *call, struct scripting *scripting,
                const struct keyspace *keyspace, struct bytes command)
{
    struct keyspace *copy = copy_of(keyspace);
    uint32_t (*publish)(void *owner, struct bytes channel, struct bytes message) = copy->publish;
    recorded = call;
    copy->publish = record;
    struct bytes reply = __real_scripting_run(scripting, copy, command);
    copy->publish = publish;
    copy->refusal = REFUSES_NOTHING;
    call->reply = (struct bytes){state_intern(reply.at, reply.len), reply.len};
    call->after = share(copy);
}

struct bytes __wrap_scripting_run(struct scripting *scripting, struct keyspace *keyspace,
                                  struct bytes command)
{
    struct master *master = keyspace->owner;
    uint64_t listeners = 0;
    for (uint8_t key = 0; key < SIM_KEYS; key++)
        listeners = listeners * 8 + channel_agents(&world, master->index, key);
    uint64_t asked[4] = {(uint64_t)(uintptr_t)keyspace, (uint64_t)keyspace->now_us,
                         listeners * 8 + keyspace->refusal, (uint64_t)(uintptr_t)scripting};
    if (2 * (known_count + 1) > known_room)
        grow_calls();
    uint64_t hash = hash_more(hash_more(1, asked, sizeof asked), command.at, command.len);
    struct known_call *call = place_of_call(known, known_room, hash);
    if (call->after == NULL) {
        call->hash = hash;
        run(call, scripting, keyspace, command);
        known_count++;
    }
    if (call->after != keyspace)
        scene.late_copies[master->index] = masters_copy(master->index);
    master->keyspace = call->after;
    for (unsigned i = 0; i < call->published_count; i++) {
        const struct published *published = &call->published[i];
        channel_publish(&world, master->index,
                        key_of_channel(published->channel, published->channel_len),
                        (struct bytes){published->message, published->message_len});
    }
    return call->reply;
}

void masters_forget_all(void)
{
    for (size_t i = 0; i < shared_room; i++)
        if (shared[i].keyspace != NULL)
            keyspace_free(shared[i].keyspace);
    free(shared);
    free(known);
    shared = NULL;
    known = NULL;
    shared_room = shared_count = known_room = known_count = 0;
}
