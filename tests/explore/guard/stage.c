/* The small world of the guard: agents with the shipped step machine, masters that run the shipped
 * scripts, and what is under way between them. It does what the simulator's world does
 * (tests/sim/guard/world.c), but for chance. */
#include "stage.h"

#include "agent/redis/asking.h"
#include "tests/explore/ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUN_BYTES = 24,
    WALL_MS = 1760000000, /* times 1000 */
    LONG_AGO_US = 60000 * MS,
};

struct world world;
struct scene scene;
const struct script *script;

bool world_is_fresh(const struct world *w)
{
    (void)w;
    return !script->is_old && (script->faults & (MAY_FLUSH | MAY_EMPTY)) == 0;
}

int64_t master_wall_ms(const struct world *w, const struct sim_master *master)
{
    return (int64_t)WALL_MS * 1000 + w->now_us / MS + master->skew_ms;
}

int64_t stage_wall_ms(uint8_t m)
{
    return master_wall_ms(&world, &world.masters[m]);
}

/* ---- what a master has: one of those states that were ever seen, and never changed ---- */

struct known_keys {
    uint64_t hash;
    struct keyspace *keys;
};
static struct known_keys *known;
static size_t known_room, known_count;

static uint64_t hash_keys(struct keyspace *keys)
{
    static const char *const fields[] = {"epoch", "run", "since", "max_ttl", "birth"};
    const struct entry *vote = keyspace_find(keys, (struct bytes){VOTE_KEY, sizeof VOTE_KEY - 1});
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char word[GUARD_WORD_BYTES];
        marker_field(keys, fields[i], word);
        hash = hash_more(hash, word, strlen(word) + 1);
    }
    return vote == NULL ? hash : hash_more(hash, vote->value.at, vote->value.len);
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

void stage_send(uint8_t a, uint8_t m, struct happening request)
{
    struct path *path = stage_path(a, m);
    if (path->count == PARCELS_MAX)
        abort();
    request.agent = a;
    request.master = m;
    request.server = stage_link(a, m)->server;
    path->parcels[path->count++] = (struct parcel){.request = request};
}

void stage_tell(uint8_t a, struct guard_event event, enum request_kind kind)
{
    struct sim_agent *agent = &world.agents[a];
    struct guard_effects effects;
    guard_step(&agent->guard, &event, (struct instant){world.now_us}, &effects);
    for (uint8_t m = 0; m < MASTERS; m++)
        if (effects.epochs >> m & 1)
            memcpy(agent->links[m].told_epoch, agent->guard.masters[m].epoch, GUARD_WORD_BYTES);
    for (unsigned i = 0; i < effects.ask_count; i++)
        stage_send(a, effects.asks[i].master,
                   (struct happening){.request = kind, .ask = effects.asks[i]});
}

void stage_start(uint8_t a)
{
    struct sim_agent *agent = &world.agents[a];
    scene.start_at[a] = INT64_MAX;
    agent->alive = true;
    guard_init(&agent->guard, MASTERS, script->durable, agent->max_ttl_ms);
    for (uint8_t m = 0; m < MASTERS; m++) {
        memset(agent->links[m].told_epoch, 0, GUARD_WORD_BYTES);
        stage_path(a, m)->connect_at = world.now_us;
    }
}

void stage_connect(uint8_t a, uint8_t m)
{
    struct link *link = stage_link(a, m);
    stage_path(a, m)->connect_at = INT64_MAX;
    link->open = true;
    link->server = world.masters[m].server;
    stage_tell(a, (struct guard_event){.kind = GUARD_GREETS, .master = m}, REQUEST_GREETING);
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
    if (link->ready)
        link->away_since_us = world.now_us;
    link->open = link->ready = false;
    *path = (struct path){.connect_at = INT64_MAX};
}

void stage_lose(uint8_t a, uint8_t m, enum fate fate, int64_t us)
{
    bool was_open = stage_link(a, m)->open;
    end_connection(a, m, fate);
    if (was_open)
        stage_tell(a, (struct guard_event){.kind = GUARD_AWAY, .master = m}, REQUEST_MARKER);
    stage_path(a, m)->connect_at = world.now_us + us;
}

void stage_crash(uint8_t a, int64_t us)
{
    world.agents[a].alive = false;
    check_crashed(&world, a);
    for (uint8_t m = 0; m < MASTERS; m++)
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
    struct guard_event event = {.master = m, .answer = reply.answer};
    switch (reply.request) {
    case REQUEST_LOCK:
        event.kind = GUARD_SEES_GUARDED;
        break;
    case REQUEST_RENEW:
        event.kind = GUARD_SEES_EPOCH;
        break;
    case REQUEST_MARKER:
        event.kind = reply.refused ? GUARD_UNANSWERED : GUARD_ANSWERED;
        break;
    case REQUEST_GREETING:
        event.kind = reply.refused ? GUARD_REFUSED : GUARD_ANSWERED;
        path->greeted = true;
        break;
    }
    if (reply.request != REQUEST_LOCK || reply.answer.left_ms != 0)
        stage_tell(a, event, REQUEST_MARKER);
    check_told(&world, &reply);
}

void stage_end_greeting(uint8_t a, uint8_t m)
{
    stage_path(a, m)->greeted = false;
    stage_link(a, m)->ready = true;
    check_back(&world, a, m);
    stage_link(a, m)->away_since_us = INT64_MAX;
    stage_tell(a, (struct guard_event){.kind = GUARD_READY, .master = m}, REQUEST_MARKER);
}

/* ---- masters ---- */

static void run_marker(struct happening *request)
{
    uint8_t m = request->master;
    struct sim_master *master = &world.masters[m];
    char run[RUN_BYTES], fresh[RUN_BYTES];
    uint32_t before_ms = marker_max_ttl_ms(master->keys);
    struct keyspace *keys = own_keys(m);
    /* Whoever begins an epoch draws it by chance: any name does that is its own. */
    snprintf(run, sizeof run, "r%u", (unsigned)request->server);
    snprintf(fresh, sizeof fresh, "%08x%08x", m + 1u, scene.begun[m] + 1u);
    script_marker(keys, stage_wall_ms(m), &request->ask, run, fresh, &request->answer);
    share_keys(m, keys);
    if (strcmp(request->answer.epoch, fresh) == 0)
        scene.begun[m]++;
    if (before_ms != request->answer.max_ttl_ms)
        master->ttl_since_us = world.now_us;
}

void stage_execute(struct happening *request)
{
    struct sim_master *master = &world.masters[request->master];
    if (request->server != master->server)
        return;
    if (request->request < REQUEST_LOCK && !request->refused) {
        run_marker(request);
    } else if (request->request >= REQUEST_LOCK) {
        request->answer.left_ms =
            script_guard_left_ms(master->keys, stage_wall_ms(request->master));
        marker_field(master->keys, "epoch", request->answer.epoch);
    }
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

static void drop_vote(struct keyspace *keys)
{
    static const struct bytes del[] = {{"DEL", 3}, {VOTE_KEY, sizeof VOTE_KEY - 1}};
    keyspace_command(keys, del, 2);
}

void stage_forget(uint8_t m, enum forgetting how)
{
    struct keyspace *keys = own_keys(m);
    if (how != RESTARTED)
        check_forgot(&world, m);
    if (how == FLUSHED || how == EMPTIED)
        keyspace_clear(keys);
    if (how == PROMOTED_UNVOTED)
        drop_vote(keys);
    share_keys(m, keys);
    if (how == FLUSHED)
        return;
    world.masters[m].server++;
    for (uint8_t a = 0; a < AGENTS; a++)
        stage_path(a, m)->broken = stage_link(a, m)->open;
}

/* ---- copying out and back ---- */

void stage_save(struct saved *ret_saved)
{
    ret_saved->scene = scene;
    memcpy(ret_saved->agents, world.agents, sizeof ret_saved->agents);
    memcpy(ret_saved->masters, world.masters, sizeof ret_saved->masters);
    ret_saved->now_us = world.now_us;
}

void stage_restore(const struct saved *saved)
{
    scene = saved->scene;
    memcpy(world.agents, saved->agents, sizeof saved->agents);
    memcpy(world.masters, saved->masters, sizeof saved->masters);
    world.now_us = saved->now_us;
}

/* What is behind a word's end is what was there before it. */
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
        for (uint8_t m = 0; m < MASTERS; m++) {
            const struct path *path = stage_path(a, m);
            tidy(guard->masters[m].epoch);
            tidy(guard->masters[m].birth);
            tidy(stage_link(a, m)->told_epoch);
            hash = hash_more(hash, path->parcels, path->count * sizeof path->parcels[0]);
            hash = hash_more(hash, &path->count, sizeof *path - offsetof(struct path, count));
            hash = hash_more(hash, stage_link(a, m), sizeof(struct link));
            hash = hash_more(hash, &guard->masters[m], sizeof guard->masters[m]);
        }
        hash = hash_more(hash, guard, offsetof(struct guard, masters));
        hash = hash_more(hash, &world.agents[a].alive, sizeof world.agents[a].alive);
    }
    hash = hash_more(hash, world.masters, MASTERS * sizeof world.masters[0]);
    return hash_more(hash, &world.now_us, sizeof world.now_us) | 1;
}

/* ---- the beginning ---- */

/* Every master has its marker and votes, and both agents know it. */
static void begin_old(void)
{
    for (uint8_t m = 0; m < MASTERS; m++) {
        struct happening request = {
            .master = m,
            .server = world.masters[m].server,
            .ask = {.question = GUARD_ASK_TRUST, .max_ttl_ms = script->max_ttl_ms[0]}};
        if (request.ask.max_ttl_ms < script->max_ttl_ms[1])
            request.ask.max_ttl_ms = script->max_ttl_ms[1];
        run_marker(&request);
        world.masters[m].ttl_since_us = -LONG_AGO_US;
    }
    for (struct listing listing;; guard_choice_take(&listing.list[0])) {
        guard_choices_list(&listing, 0, /* all_orders= */ false);
        if (listing.list[0].kind > CHOICE_TICK)
            return;
    }
}

void stage_begin(void)
{
    memset(&world, 0, offsetof(struct world, happenings));
    memset(&scene, 0, sizeof scene);
    world.violation[0] = '\0';
    world.theme = !script->is_old               ? THEME_BIRTH
                  : script->faults == MAY_FLUSH ? THEME_FLUSHED
                                                : THEME_FORGETFUL;
    world.durable = script->durable;
    world.agent_count = AGENTS;
    world.master_count = MASTERS;
    for (uint8_t m = 0; m < MASTERS; m++) {
        world.masters[m] = (struct sim_master){.server = 1, .forgot_us = INT64_MIN};
        share_keys(m, own_keys(m));
    }
    for (uint8_t a = 0; a < AGENTS; a++) {
        world.agents[a].max_ttl_ms = script->max_ttl_ms[a];
        for (uint8_t m = 0; m < MASTERS; m++) {
            stage_link(a, m)->away_since_us = INT64_MIN / 2;
            stage_path(a, m)->connect_at = INT64_MAX;
        }
    }
    if (script->is_old)
        begin_old();
}
