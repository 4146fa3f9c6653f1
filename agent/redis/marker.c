/* Tells the guard what happens, and carries out what it decides (marker.h). */
#include <stdio.h>

#include "agent/redis/ask.h"
#include "agent/redis/asking.h"
#include "agent/redis/marker.h"

static struct guard *guard_of(const struct master *master)
{
    return &master->redis->guards[master->group];
}

/* New epochs are told to the core before anything else: votes that come later are of them. */
static void carry_out(struct redis *redis, uint8_t group, const struct guard_effects *effects,
                      heard_fn *heard)
{
    struct master *masters = redis->by_group[group];
    for (unsigned i = 0; effects->epochs >> i; i++)
        if (effects->epochs >> i & 1)
            master_new_epoch(&masters[i]);
    for (unsigned i = 0; effects->shown >> i; i++)
        if (effects->shown >> i & 1)
            master_show(&masters[i]);
    for (unsigned i = 0; i < effects->ask_count; i++) {
        const struct guard_ask *ask = &effects->asks[i];
        struct master *master = &masters[ask->master];
        const char *run_id = master->view.run_id;
        ask_bytes(master, heard, asking_marker(&redis->resp, ask, run_id, /* whole= */ false));
    }
}

/* ---- events ---- */

static void tell_guard_as(struct master *master, struct guard_event event, heard_fn *heard)
{
    struct guard_effects effects;
    event.master = master->index;
    guard_step(guard_of(master), &event, redis_now(), &effects);
    carry_out(master->redis, master->group, &effects, heard);
}

static void tell_guard(struct master *master, struct guard_event event)
{
    tell_guard_as(master, event, master->redis->marker_heard);
}

static void tell_guard_of(struct master *master, enum guard_event_kind kind)
{
    tell_guard(master, (struct guard_event){.kind = kind});
}

void marker_greet(struct master *master, heard_fn *heard)
{
    struct guard_event event = {.kind = GUARD_GREETS, .same_connection = master->was_ready};
    tell_guard_as(master, event, heard);
}

static void copy_guard_word(char into[GUARD_WORD_BYTES], const char *word)
{
    snprintf(into, GUARD_WORD_BYTES, "%s", word);
}

static bool read_answer(const redisReply *reply, struct guard_answer *ret_answer)
{
    static const int types[] = {REDIS_REPLY_STRING, REDIS_REPLY_INTEGER, REDIS_REPLY_STRING,
                                REDIS_REPLY_INTEGER};
    bool fits =
        reply->type == REDIS_REPLY_ARRAY && reply->elements == sizeof(types) / sizeof(types[0]);
    for (unsigned i = 0; fits && i < reply->elements; i++)
        fits = reply->element[i]->type == types[i];
    if (!fits || !*reply->element[0]->str || reply->element[1]->integer < 0 ||
        reply->element[3]->integer < 0 || reply->element[3]->integer > UINT32_MAX)
        return false;
    copy_guard_word(ret_answer->epoch, reply->element[0]->str);
    ret_answer->left_ms = reply->element[1]->integer;
    copy_guard_word(ret_answer->birth, reply->element[2]->str);
    ret_answer->max_ttl_ms = (uint32_t)reply->element[3]->integer;
    return true;
}

bool marker_take(struct master *master, const redisReply *reply)
{
    struct guard_event event = {.kind = GUARD_ANSWERED};
    if (!read_answer(reply, &event.answer))
        return false;
    tell_guard(master, event);
    return true;
}

void marker_refused(struct master *master)
{
    tell_guard_of(master, GUARD_REFUSED);
}

void marker_unanswered(struct master *master)
{
    tell_guard_of(master, GUARD_UNANSWERED);
}

void marker_ready(struct master *master)
{
    struct guard_event event = {.kind = GUARD_READY, .master = master->index};
    struct guard_effects effects;
    guard_step(guard_of(master), &event, redis_now(), &effects);
    effects.shown = 0;
    carry_out(master->redis, master->group, &effects, master->redis->marker_heard);
}

void marker_away(struct master *master)
{
    if (master->group_config->guard)
        tell_guard_of(master, GUARD_AWAY);
}

void marker_heard_epoch(struct master *master, const char *epoch)
{
    if (!master->group_config->guard)
        return;
    struct guard_event event = {.kind = GUARD_SEES_EPOCH};
    copy_guard_word(event.answer.epoch, epoch);
    tell_guard(master, event);
}

void marker_heard_guarded(struct master *master, int64_t left_ms)
{
    tell_guard(master, (struct guard_event){.kind = GUARD_SEES_GUARDED, .answer.left_ms = left_ms});
}

void marker_tick(struct redis *redis, uint8_t group)
{
    struct guard *guard = &redis->guards[group];
    if (redis->config->groups[group].guard && !instant_before(redis_now(), guard_deadline(guard)))
        tell_guard_of(redis->by_group[group], GUARD_TIME);
}

void marker_start(struct redis *redis, uint8_t group)
{
    const struct config_group *config = &redis->config->groups[group];
    guard_init(&redis->guards[group], (uint8_t)config->master_count, config->durable,
               redis->config->max_ttl_ms);
}
