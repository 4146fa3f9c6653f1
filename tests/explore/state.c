/* The state that a step can change. It is copied out before the step and back after it, and hashed.
 * Constant data is left out. Data that depends only on the way here is left out too: counts of
 * steps, the clock of a core's last step, the number of the last timer that was armed. Messages and
 * the masters' keys are interned, so that equal addresses mean equal contents. */
#include "explore.h"

#include "ranges.h"

#include <stdlib.h>
#include <string.h>

enum { UNDO_BYTES = 1 << 28 };

/* ---- interning ---- */

struct interned {
    uint64_t hash;
    void *bytes;
};
static struct interned *interned;
static size_t interned_room, interned_count;

static void *allocate(size_t size)
{
    void *bytes = calloc(1, size);
    if (bytes == NULL)
        abort();
    return bytes;
}

static struct interned *place_of(struct interned *table, size_t room, uint64_t hash)
{
    size_t i = hash & (room - 1);
    while (table[i].bytes != NULL && table[i].hash != hash)
        i = (i + 1) & (room - 1);
    return &table[i];
}

static void grow(void)
{
    size_t room = interned_room == 0 ? 1 << 12 : 2 * interned_room;
    struct interned *table = allocate(room * sizeof *table);
    for (size_t i = 0; i < interned_room; i++)
        if (interned[i].bytes != NULL)
            *place_of(table, room, interned[i].hash) = interned[i];
    free(interned);
    interned = table;
    interned_room = room;
}

const void *state_intern(const void *bytes, size_t size)
{
    if (2 * (interned_count + 1) > interned_room)
        grow();
    uint64_t hash = hash_more(size, bytes, size);
    struct interned *place = place_of(interned, interned_room, hash);
    if (place->bytes == NULL) {
        place->hash = hash;
        place->bytes = allocate(size);
        memcpy(place->bytes, bytes, size);
        interned_count++;
    }
    return place->bytes;
}

void state_forget_all(void)
{
    for (size_t i = 0; i < interned_room; i++)
        free(interned[i].bytes);
    free(interned);
    interned = NULL;
    interned_room = interned_count = 0;
}

/* ---- ranges ---- */

static void add_master(struct ranges *ranges, struct master *master)
{
    size_t keys = options_places(&world.options) * sizeof master->keys[0];
    ADD_FROM_TO(ranges, master, 0, offsetof(struct master, keys) + keys);
    ADD_FROM_TO(ranges, master, offsetof(struct master, rate_ppm),
                offsetof(struct master, snapshot));
}

static void add_agent(struct ranges *ranges, struct agent *agent)
{
    if (world.options.journal)
        ranges_add(ranges, agent->journal, sizeof agent->journal);
    ADD_FROM_TO(ranges, agent, offsetof(struct agent, memory), sizeof *agent);
}

static void add_path(struct ranges *ranges, struct path *path)
{
    ranges_add(ranges, path->parcels, path->parcel_count * sizeof path->parcels[0]);
    ranges_add(ranges, path->signals, path->signal_count * sizeof path->signals[0]);
    ADD_FROM_TO(ranges, path, offsetof(struct path, parcel_count), sizeof *path);
}

static void list_world(struct ranges *ranges)
{
    struct world *w = &world;
    ADD_FROM_TO(ranges, w, offsetof(struct world, healed), offsetof(struct world, heap));
    ranges_add(ranges, w->holds, w->hold_count * sizeof w->holds[0]);
    ADD_FROM_TO(ranges, w, offsetof(struct world, hold_count), offsetof(struct world, property));
    for (uint8_t m = 0; m < w->options.masters; m++)
        add_master(ranges, &w->masters[m]);
    for (uint8_t a = 0; a < w->options.agents; a++) {
        add_agent(ranges, &w->agents[a]);
        for (uint8_t m = 0; m < w->options.masters; m++)
            add_path(ranges, &scene.paths[a][m]);
    }
    ADD_FROM_TO(ranges, w, offsetof(struct world, callers),
                offsetof(struct world, callers) + w->caller_count * sizeof w->callers[0]);
    ranges_add(ranges, &w->caller_count, sizeof w->caller_count);
    ADD_FROM_TO(ranges, &scene, offsetof(struct scene, strays), offsetof(struct scene, requests));
    for (size_t c = 0; c < w->caller_count; c++)
        ranges_add(ranges, scene.requests[c], scene.asked[c] * sizeof scene.requests[0][0]);
    ADD_FROM_TO(ranges, &scene, offsetof(struct scene, unasked_count),
                offsetof(struct scene, unasked) + scene.unasked_count * sizeof scene.unasked[0]);
    if (scene.script->has_replica) {
        ranges_add(ranges, &w->replicas[0], sizeof w->replicas[0]);
        ranges_add(ranges, &w->promoted_at, sizeof w->promoted_at);
    } else if ((scene.script->faults & MAY(PROMOTE)) != 0)
        ranges_add(ranges, scene.late_copies, sizeof scene.late_copies);
}

/* ---- copying out and back ---- */

/* A record is behind its copied bytes, so that the last one is found first. */
struct record {
    void *at; /* NULL: the tables of this agent's core are to be emptied first */
    size_t size;
    uint64_t hash;
    uint8_t agent;
};
static char *undo;
static size_t undo_used;
static bool touched[SIM_AGENTS], hashed[SIM_AGENTS];
static uint64_t hashes[SIM_AGENTS];

static void push(const void *bytes, size_t size)
{
    if (undo == NULL)
        undo = malloc(UNDO_BYTES);
    if (undo == NULL || undo_used + size > UNDO_BYTES)
        abort();
    if (size > 0)
        memcpy(undo + undo_used, bytes, size);
    undo_used += size;
}

static void push_ranges(const struct ranges *ranges)
{
    for (size_t i = 0; i < ranges->count; i++) {
        push(ranges->list[i].at, ranges->list[i].size);
        push(&(struct record){ranges->list[i].at, ranges->list[i].size, 0, 0},
             sizeof(struct record));
    }
}

size_t state_save(void)
{
    static struct ranges ranges;
    size_t saved = undo_used;
    ranges.count = 0;
    list_world(&ranges);
    push_ranges(&ranges);
    memset(touched, 0, sizeof touched);
    return saved;
}

void state_touch_whole(uint8_t agent)
{
    struct entropy *entropy = core_entropy(world.agents[agent].core);
    push(entropy->bytes, sizeof entropy->bytes);
    push(&(struct record){entropy->bytes, sizeof entropy->bytes, 0, 0}, sizeof(struct record));
    state_touch(agent);
}

void state_touch(uint8_t agent)
{
    static struct ranges ranges;
    if (touched[agent])
        return;
    ranges.count = 0;
    ranges_of_core(&ranges, world.agents[agent].core);
    push_ranges(&ranges);
    push(&(struct record){NULL, 0, hashed[agent] ? hashes[agent] : 0, agent},
         sizeof(struct record));
    touched[agent] = true;
    hashed[agent] = false;
}

void state_restore(size_t saved)
{
    while (undo_used > saved) {
        struct record record;
        undo_used -= sizeof record;
        memcpy(&record, undo + undo_used, sizeof record);
        if (record.at == NULL) {
            core_empty_tables(world.agents[record.agent].core);
            hashes[record.agent] = record.hash;
            hashed[record.agent] = record.hash != 0;
            continue;
        }
        undo_used -= record.size;
        memcpy(record.at, undo + undo_used, record.size);
    }
}

void state_reset(void)
{
    undo_used = 0;
    memset(hashed, 0, sizeof hashed);
    memset(touched, 0, sizeof touched);
}

/* ---- the hash of a state ---- */

uint64_t state_hash(void)
{
    static struct ranges ranges;
    struct world *w = &world;
    uint64_t order = w->order, steps = w->steps;
    w->order = w->steps = 0;
    ranges.count = 0;
    list_world(&ranges);
    uint64_t hash = ranges_hash(1, &ranges);
    w->order = order, w->steps = steps;
    for (uint8_t a = 0; a < w->options.agents; a++) {
        if (!hashed[a]) {
            hashes[a] = core_hash(w->agents[a].core);
            hashed[a] = true;
        }
        hash = hash_mix(hash ^ hashes[a], a + 0x589965cc75374cc3u);
    }
    return hash;
}

uint64_t state_hash_anew(void)
{
    memset(hashed, 0, sizeof hashed);
    return state_hash();
}
