/* Reports events to the guard and carries out its decisions. */
#include <stdio.h>
#include <time.h>

#include "agent/base/text.h"
#include "agent/redis/asking.h"
#include "agent/redis/internal.h"

static struct guard *guard_of(const struct master *master)
{
    return &master->redis->guards[master->group];
}

/* Returns the agreed time (R12) in us of unix time: this agent's clock, corrected if most masters
 * agree that it is wrong. */
static int64_t agreed_wall_us(const struct redis *redis, uint8_t group)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000 + redis->clock_off_us[group];
}

/* Carries out the guard's decisions. New epochs go to the core first, because later votes belong to
 * them. */
static void carry_out(struct redis *redis, uint8_t group, const struct guard_effects *effects,
                      heard_fn *heard)
{
    struct master *masters = redis->by_group[group];
    struct group_layout *layout = &redis->layouts[group];
    if (effects->conflict != LAYOUT_NEIGHBOURS) { /* Any client may have written the text. */
        snprintf(layout->theirs, sizeof(layout->theirs), "%.*s", (int)effects->theirs.len,
                 effects->theirs.at);
        text_tame(layout->theirs);
        layout->conflict = effects->conflict;
        layout->master = effects->asked;
    }
    for (unsigned i = 0; effects->epochs >> i; i++)
        if (effects->epochs >> i & 1)
            master_new_epoch(&masters[i]);
    if (effects->floors) {
        struct event event = {
            .kind = EVENT_FENCE_FLOOR,
            .master = {.group = group, .floor = guard_floor(&redis->guards[group])}};
        redis->sink.event(redis->sink.arg, &event);
    }
    for (unsigned i = 0; effects->shown >> i; i++)
        if (effects->shown >> i & 1)
            master_show(&masters[i]);
    for (unsigned i = 0; i < effects->ask_count; i++) {
        const struct guard_ask *ask = &effects->asks[i];
        struct master *master = &masters[ask->master];
        const char *run_id = master->view.run_id;
        ask_bytes(master, heard,
                  asking_marker(&redis->resp, ask, run_id, agreed_wall_us(redis, group),
                                /* whole= */ false));
    }
}

/* ---- events ---- */

static void tell_guard_as(struct master *master, struct guard_event event, heard_fn *heard)
{
    struct guard_effects effects;
    event.master = master->index;
    guard_step(guard_of(master), &event, redis_now(), agreed_wall_us(master->redis, master->group),
               &effects);
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
    struct guard_event event = {.kind = GUARD_GREETS,
                                .same_connection = master->was_ready,
                                .knows_run = *master->view.run_id != '\0'};
    tell_guard_as(master, event, heard);
}

bool marker_take(struct master *master, const redisReply *reply)
{
    struct guard_event event = {.kind = GUARD_ANSWERED};
    if (!asking_read_marker(reply, &event.answer, &event.layouts))
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
    guard_step(guard_of(master), &event, redis_now(), agreed_wall_us(master->redis, master->group),
               &effects);
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
    snprintf(event.answer.epoch, sizeof(event.answer.epoch), "%s", epoch);
    tell_guard(master, event);
}

void marker_heard_guarded(struct master *master, bool is_release, int64_t left_ms)
{
    if (!is_release && marker_gate(master->redis, master->group) != GUARD_OPEN)
        return; /* The acquire named no vote (R23). */
    tell_guard(master, (struct guard_event){.kind = GUARD_SEES_GUARDED,
                                            .is_release = is_release,
                                            .answer.left_ms = left_ms});
}

master_set marker_tick(struct redis *redis, uint8_t group)
{
    struct guard *guard = &redis->guards[group];
    struct instant now = redis_now();
    master_set asked = 0;
    if (!redis->config->groups[group].guard || instant_before(now, guard_deadline(guard)))
        return 0;
    struct guard_event event = {.kind = GUARD_TIME};
    struct guard_effects effects;
    guard_step(guard, &event, now, agreed_wall_us(redis, group), &effects);
    carry_out(redis, group, &effects, redis->marker_heard);
    for (unsigned i = 0; i < effects.ask_count; i++)
        asked |= (master_set)(1u << effects.asks[i].master);
    return asked;
}

void marker_start(struct redis *redis, uint8_t group, uint32_t silence_ms)
{
    const struct config_group *config = &redis->config->groups[group];
    guard_init(&redis->guards[group], (uint8_t)config->master_count,
               (uint8_t)config_group_quorum(redis->config, group), config->durable,
               redis->config->max_ttl_ms);
    redis->guards[group].has_replicas = config->replicas_ack > 0;
    if (!config_group_has_layout(redis->config, group))
        return; /* It compares no layouts (A4), or no policy has keys there. */
    struct group_layout *layout = &redis->layouts[group];
    size_t len = config_layout(redis->config, group, layout->ours);
    layout->kin = config_group_kin(redis->config, group);
    guard_set_layout(&redis->guards[group], (struct text){layout->ours, len}, silence_ms,
                     config->node_timeout_ms);
}

bool marker_idles(const struct redis *redis, uint8_t group)
{
    enum { READ_S = 6 }; /* No reading of a clock is older in an idle group. */
    const struct config_group *config = &redis->config->groups[group];
    /* The drift since the last reading takes time from deadlines (R5) and native commands (R24). */
    uint64_t lag_us = (uint64_t)READ_S * config->drift_ppm,
             most_us = 1200 * (uint64_t)config->node_timeout_ms;
    return config->guard && lag_us <= most_us && guard_idles(&redis->guards[group], redis_now());
}

/* ---- layouts ---- */

uint8_t marker_decides(const struct redis *redis, uint8_t group, struct instant now)
{
    uint8_t found = group;
    enum guard_gate worst = GUARD_OPEN;
    for (uint8_t g = 0; g < redis->config->group_count; g++) {
        bool counts = redis->layouts[group].kin >> g & 1 && redis->config->groups[g].guard;
        enum guard_gate gate = counts ? guard_gate(&redis->guards[g], now) : GUARD_OPEN;
        if (gate > worst || (gate == worst && g == group && worst != GUARD_OPEN)) {
            worst = gate;
            found = g;
        }
    }
    return found;
}

enum guard_gate marker_gate(const struct redis *redis, uint8_t group)
{
    struct instant now = redis_now();
    uint8_t deciding = marker_decides(redis, group, now);
    return redis->config->groups[group].guard ? guard_gate(&redis->guards[deciding], now)
                                              : GUARD_OPEN;
}
