/* The small world of the guard: agents with the shipped step machine, masters that run the shipped
 * scripts, and the requests in flight between them. It replaces the simulator's world
 * (tests/sim/guard/world.c), without its chance. */
#include "stage.h"

#include "agent/redis/asking.h"
#include "tests/explore/ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_BYTES = 24 };

struct world world;
struct scene scene;
const struct script *script;

void world_say(const struct world *w, const char *format, ...)
{
    (void)w;
    (void)format;
}

/* ---- a master's data: one of all states that were ever seen, which never change ---- */

struct known_keys {
    uint64_t hash;
    struct keyspace *keys;
};
static struct known_keys *known;
static size_t known_room, known_count;

static uint64_t hash_keys(struct keyspace *keys)
{
    static const char *const fields[] = {"epoch",        "run", "since", "max_ttl", "longer",
                                         "longer_since", "top", "floor", "told"};
    static const char *const names[] = {VOTE_KEY, "k", "lockagent:fence:k"};
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char word[GUARD_WORD_BYTES];
        marker_field(keys, fields[i], word);
        hash = hash_more(hash, word, strlen(word) + 1);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct entry *entry = keyspace_find(keys, (struct bytes){names[i], strlen(names[i])});
        if (entry != NULL)
            hash = hash_more(hash, entry->value.at, entry->value.len);
        if (entry != NULL)
            hash = hash_more(hash, &entry->expires_ms, sizeof entry->expires_ms);
        hash = hash_mix(hash, i);
    }
    return hash;
}

static struct known_keys *place_of_keys(struct known_keys *table, size_t room, uint64_t hash)
{
    size_t i = hash & (room - 1);
    while (table[i].keys != NULL && table[i].hash != hash)
        i = (i + 1) & (room - 1);
    return &table[i];
}

static void grow_keys(void)
{
    size_t room = known_room == 0 ? 1 << 10 : 2 * known_room;
    struct known_keys *table = calloc(room, sizeof *table);
    if (table == NULL)
        abort();
    for (size_t i = 0; i < known_room; i++)
        if (known[i].keys != NULL)
            *place_of_keys(table, room, known[i].hash) = known[i];
    free(known);
    known = table;
    known_room = room;
}

/* The keys of a master, to be changed, until it has those that became of them. */
static struct keyspace *own_keys(uint8_t m)
{
    static struct keyspace *own;
    if (own == NULL)
        own = keyspace_new();
    keyspace_clear(own);
    if (world.masters[m].keys != NULL)
        keyspace_copy(own, world.masters[m].keys);
    return own;
}

static void share_keys(uint8_t m, struct keyspace *own)
{
    if (2 * (known_count + 1) > known_room)
        grow_keys();
    struct known_keys *place = place_of_keys(known, known_room, hash_keys(own));
    if (place->keys == NULL) {
        *place = (struct known_keys){hash_keys(own), keyspace_new()};
        keyspace_copy(place->keys, own);
        known_count++;
    }
    world.masters[m].keys = place->keys;
}

/* ---- agents ---- */

struct path *stage_path(uint8_t a, uint8_t m)
{
    return &scene.paths[a][m];
}

struct link *stage_link(uint8_t a, uint8_t m)
{
    return &world.agents[a].links[m];
}

void world_send(struct world *w, uint8_t a, uint8_t m, struct happening request)
{
    struct path *path = stage_path(a, m);
    if (path->count == PARCELS_MAX)
        abort();
    request.agent = a;
    request.master = m;
    request.connection = 1;
    request.server = w->agents[a].links[m].server;
    path->parcels[path->count++] = (struct parcel){.request = request};
}

void stage_start(uint8_t a)
{
    scene.start_at[a] = INT64_MAX;
    act_start(&world, a);
    for (uint8_t m = 0; m < script->masters; m++)
        stage_path(a, m)->connect_at = script->blocked[a] >> m & 1 ? INT64_MAX : world.now_us;
}

void stage_connect(uint8_t a, uint8_t m)
{
    struct link *link = stage_link(a, m);
    stage_path(a, m)->connect_at = INT64_MAX;
    link->open = true;
    link->server = world.masters[m].server;
    act_guard(&world, a, (struct guard_event){.kind = GUARD_GREETS, .master = m, .knows_run = true},
              REQUEST_GREETING);
}

static void end_connection(uint8_t a, uint8_t m, enum fate fate)
{
    struct path *path = stage_path(a, m);
    struct link *link = stage_link(a, m);
    for (uint8_t i = 0; i < path->count; i++) {
        struct parcel *parcel = &path->parcels[i];
        if (!parcel->executed && fate == FATE_RUN)
            stage_execute(&parcel->request);
        else if (!parcel->executed && fate == FATE_LATER && scene.stray_count < STRAYS_MAX)
            scene.strays[scene.stray_count++] = parcel->request;
    }
    link->open = link->ready = false;
    *path = (struct path){.connect_at = INT64_MAX};
}

void stage_lose(uint8_t a, uint8_t m, enum fate fate, int64_t us)
{
    bool was_open = stage_link(a, m)->open;
    end_connection(a, m, fate);
    if (was_open)
        act_guard(&world, a, (struct guard_event){.kind = GUARD_AWAY, .master = m}, REQUEST_MARKER);
    stage_path(a, m)->connect_at = world.now_us + us;
}

void stage_crash(uint8_t a, int64_t us)
{
    world.agents[a].alive = false;
    world.agents[a].attempt = (struct attempt){.open = false};
    for (uint8_t m = 0; m < script->masters; m++)
        end_connection(a, m, FATE_RUN);
    memset(&world.agents[a].guard, 0, sizeof world.agents[a].guard);
    scene.start_at[a] = world.now_us + us;
}

void stage_hear(uint8_t a, uint8_t m)
{
    struct path *path = stage_path(a, m);
    struct happening reply = path->parcels[0].request;
    path->count--;
    memmove(path->parcels, path->parcels + 1, path->count * sizeof path->parcels[0]);
    memset(path->parcels + path->count, 0, sizeof path->parcels[0]);
    path->greeted = path->greeted || reply.request == REQUEST_GREETING;
    act_hear(&world, &reply);
}

void stage_end_greeting(uint8_t a, uint8_t m)
{
    stage_path(a, m)->greeted = false;
    act_ready(&world, a, m);
}

/* ---- masters ---- */

/* Runs a request on its master. An agent that begins an epoch draws its name by chance. Any name of
 * its own will do here. */
void stage_execute(struct happening *request)
{
    uint8_t m = request->master;
    struct sim_master *master = &world.masters[m];
    if (request->server != master->server)
        return;
    master->keys = own_keys(m);
    snprintf(request->fresh_epoch, sizeof request->fresh_epoch, "%08x%08x", m + 1u,
             scene.begun[m] + 1u);
    act_execute(&world, request);
    if (strcmp(request->answer.epoch, request->fresh_epoch) == 0)
        scene.begun[m]++;
    memset(request->fresh_epoch, 0, sizeof request->fresh_epoch);
    share_keys(m, master->keys);
}

unsigned stage_pending(const struct path *path)
{
    unsigned count = 0;
    for (unsigned i = 0; i < path->count; i++)
        count += !path->parcels[i].executed;
    return count;
}

void stage_execute_next(uint8_t a, uint8_t m, bool refuses)
{
    struct path *path = stage_path(a, m);
    struct parcel *parcel = &path->parcels[path->count - stage_pending(path)];
    parcel->executed = true;
    parcel->request.refused = refuses;
    stage_execute(&parcel->request);
}

void stage_forget(uint8_t m, enum forgetting how, uint8_t from)
{
    uint32_t server = world.masters[m].server;
    world.masters[m].keys = own_keys(m);
    act_forget(&world, m, how, from);
    share_keys(m, world.masters[m].keys);
    for (uint8_t a = 0; world.masters[m].server != server && a < AGENTS; a++)
        stage_path(a, m)->broken = stage_link(a, m)->open;
}

/* ---- copying out and back ---- */

static struct noted noted(void)
{
    struct noted is;
    memset(&is, 0, sizeof is);
    is.answered = world.answered;
    is.hold_began_us = world.hold_began_us;
    is.hold_until_us = world.hold_until_us;
    is.unknown_until_us = world.unknown_until_us;
    is.holder = world.holder;
    is.holder_attempt = world.holder_attempt;
    return is;
}

void stage_save(struct saved *ret_saved)
{
    ret_saved->scene = scene;
    memcpy(ret_saved->agents, world.agents, sizeof ret_saved->agents);
    memcpy(ret_saved->masters, world.masters, sizeof ret_saved->masters);
    ret_saved->now_us = world.now_us;
    ret_saved->noted = noted();
}

void stage_restore(const struct saved *saved)
{
    scene = saved->scene;
    memcpy(world.agents, saved->agents, sizeof saved->agents);
    memcpy(world.masters, saved->masters, sizeof saved->masters);
    world.now_us = saved->now_us;
    world.answered = saved->noted.answered;
    world.hold_began_us = saved->noted.hold_began_us;
    world.hold_until_us = saved->noted.hold_until_us;
    world.unknown_until_us = saved->noted.unknown_until_us;
    world.holder = saved->noted.holder;
    world.holder_attempt = saved->noted.holder_attempt;
}

/* Clears the bytes behind a word's end, which hold an earlier word. */
static void tidy(char word[GUARD_WORD_BYTES])
{
    size_t len = strlen(word);
    memset(word + len, 0, GUARD_WORD_BYTES - len);
}

uint64_t stage_hash(void)
{
    uint64_t hash = hash_more(1, &scene.strays, sizeof scene - offsetof(struct scene, strays));
    for (uint8_t a = 0; a < AGENTS; a++) {
        struct guard *guard = &world.agents[a].guard;
        for (uint8_t m = 0; m < script->masters; m++) {
            const struct path *path = stage_path(a, m);
            tidy(guard->masters[m].last.epoch);
            tidy(stage_link(a, m)->told_epoch);
            hash = hash_more(hash, path->parcels, path->count * sizeof path->parcels[0]);
            hash = hash_more(hash, &path->count, sizeof *path - offsetof(struct path, count));
            hash = hash_more(hash, stage_link(a, m), sizeof(struct link));
            hash = hash_more(hash, &guard->masters[m], sizeof guard->masters[m]);
        }
        hash = hash_more(hash, guard, offsetof(struct guard, masters));
        hash = hash_more(hash, &world.agents[a].alive, sizeof world.agents[a].alive);
        hash = hash_more(hash, &world.agents[a].attempt, sizeof world.agents[a].attempt);
    }
    struct noted is = noted();
    hash = hash_more(hash, &is, sizeof is);
    hash = hash_more(hash, world.masters, script->masters * sizeof world.masters[0]);
    return hash_more(hash, &world.now_us, sizeof world.now_us) | 1;
}

/* ---- the beginning ---- */

/* Every master has its marker and votes, and both agents know it. */
static void begin_old(void)
{
    for (uint8_t m = 0; m < script->masters; m++) {
        struct happening request = {.request = REQUEST_MARKER,
                                    .master = m,
                                    .server = world.masters[m].server,
                                    .connection = 1,
                                    .ask = {.master = m,
                                            .question = GUARD_ASK_TRUST,
                                            .max_ttl_ms = 1000,
                                            .top = 1,
                                            .told = GUARD_TOLD}};
        snprintf(request.run_id, sizeof request.run_id, "r%us1", m);
        stage_execute(&request);
    }
    for (struct listing listing;; guard_choice_take(&listing.list[0])) {
        guard_choices_list(&listing, 0, /* all_orders= */ false);
        if (listing.list[0].kind > CHOICE_TICK)
            return;
    }
}

void stage_begin(void)
{
    struct counts count = world.count;
    memset(&world, 0, offsetof(struct world, happenings));
    memset(&scene, 0, sizeof scene);
    world.count = count;
    world.violation[0] = '\0';
    world.unequal = script->max_ttl_ms[0] != script->max_ttl_ms[1];
    world.theme = world.unequal ? THEME_LEASES : THEME_FORGETFUL;
    world.durable = script->durable;
    world.agent_count = AGENTS;
    world.master_count = script->masters;
    world.quorum = script->quorum;
    world.hold_began_us = world.hold_until_us = INT64_MIN;
    world.jumped_us = world.unknown_until_us = INT64_MIN;
    for (uint8_t m = 0; m < script->masters; m++) {
        world.masters[m] = (struct sim_master){.server = 1,
                                               .well_since_us = INT64_MAX,
                                               .lease_end_us = INT64_MIN,
                                               .owes_until_us = INT64_MIN,
                                               .forgot_us = INT64_MIN / 2};
        share_keys(m, own_keys(m));
    }
    for (uint8_t a = 0; a < AGENTS; a++) {
        world.agents[a].max_ttl_ms = script->max_ttl_ms[a];
        for (uint8_t m = 0; m < script->masters; m++) {
            stage_path(a, m)->connect_at = INT64_MAX;
            if (script->blocked[a] >> m & 1)
                stage_link(a, m)->blocked_until_us = INT64_MAX;
        }
    }
    if (script->is_old)
        begin_old();
}
