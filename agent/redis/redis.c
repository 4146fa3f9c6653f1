/* The public face of the room (redis.h): start, views and end. */
#include "agent/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/core/core_assert.h"
#include "agent/redis/internal.h"
#include "agent/redis/replies.h"
#include "agent/redis/tls.h"

/* ---- the room's turn ---- */

/* Rounds of commands from the core that are still answered while the room closes. */
enum { LAST_REPORTS = 100 };

/* Reports the commands that the core has sent since the last turn, before the room is done. */
static void on_turn_closed(uv_handle_t *handle)
{
    struct redis *redis = handle->data;
    if (--redis->open_turn > 0)
        return;
    for (unsigned i = 0; redis->unsent != NULL && i < LAST_REPORTS; i++)
        operations_report_unsent(redis);
    redis->done(redis->done_arg);
}

/* Closes everything that is open. When libuv has closed it and nothing is left to report, closes
 * the turn's own handles. */
static void stop_all(struct redis *redis)
{
    for (size_t i = 0; i < redis->master_count; i++)
        phases_stop(&redis->masters[i]);
    if (redis->unsent != NULL || redis->open > 0)
        return;
    redis->closing = true;
    uv_close((uv_handle_t *)&redis->tick, on_turn_closed);
    uv_close((uv_handle_t *)&redis->idle, on_turn_closed);
    uv_close((uv_handle_t *)&redis->prepare, on_turn_closed);
}

static void on_redis_turn(uv_prepare_t *prepare)
{
    struct redis *redis = prepare->data;
    if (!redis->work)
        return;
    if (redis->sink.about_to_write != NULL)
        redis->sink.about_to_write(redis->sink.arg);
    redis->work = false;
    operations_report_unsent(redis);
    for (size_t i = 0; i < redis->master_count; i++) {
        struct master *master = &redis->masters[i];
        if (master->pipeline != NULL) {
            replication_turn(master);
            pipeline_turn(master->pipeline);
        }
        subscriber_turn(master);
    }
    if (redis->stopping)
        stop_all(redis);
    if (!redis->work && !redis->closing)
        uv_idle_stop(&redis->idle);
}

/* Writes which layout of other agents keeps this one from new locks (R23). */
static void say_refusal(const struct redis_group_view *view, const char *group, char *into,
                        size_t size)
{
    int len = snprintf(into, size, "group %s: %s knows agents at work with ", group, view->told_by);
    redis_say_layouts(view, into + len, size - (size_t)len);
}

/* Tells people when another layout begins or ceases to keep this agent from new locks (R23). */
static void tell_of_layout(struct redis *redis, uint8_t group)
{
    char why[REDIS_LACKS_BYTES] = "";
    struct group_layout *layout = &redis->layouts[group];
    bool refused = marker_gate(redis, group) == GUARD_REFUSED_BY_LAYOUT;
    if (refused == layout->told)
        return;
    layout->told = refused;
    if (redis->sink.layout == NULL)
        return;
    if (refused) {
        struct redis_group_view view = redis_group(redis, group);
        say_refusal(&view, redis->config->groups[group].name, why, sizeof(why));
    }
    redis->sink.layout(redis->sink.arg, group, why);
}

/* Tells people when the group loses its quorum, and when it has it again. At the start it has not
 * had one. */
static void tell_of_quorum(struct redis *redis, uint8_t group)
{
    struct redis_group_view view = redis_group(redis, group);
    bool is_up = view.up >= view.quorum;
    struct group_quorum *told = &redis->quorums[group];
    if (redis->stopping || is_up == told->is_up)
        return;
    if (told->was_up && redis->sink.quorum != NULL)
        redis->sink.quorum(redis->sink.arg, group, &view);
    told->is_up = is_up;
    told->was_up = true;
}

/* Asks for the markers that are due. In an idle group the clock and the health are asked for in the
 * same write, so that the server wakes up once (D5.3). */
static void ask_group(struct redis *redis, uint8_t group)
{
    master_set asked = marker_tick(redis, group);
    bool idles = marker_idles(redis, group);
    for (unsigned i = 0; idles && asked >> i; i++)
        if (asked >> i & 1 && !phases_leave_replica(&redis->by_group[group][i]))
            upkeep_look(&redis->by_group[group][i]);
}

static void on_tick(uv_timer_t *timer)
{
    struct redis *redis = timer->data;
    for (size_t i = 0; i < redis->master_count; i++)
        phases_tick(&redis->masters[i]);
    for (uint8_t group = 0; group < redis->config->group_count; group++) {
        health_look(redis, group);
        ask_group(redis, group);
        tell_of_layout(redis, group);
        tell_of_quorum(redis, group);
    }
    certificates_tick(redis);
}

/* ---- the room ---- */

enum { COMMAND_BYTES = 128 << 10 }; /* Size of the largest command. */
static_assert(COMMAND_BYTES >
                  RESP_FRONT_BYTES + 4096 +
                      LIMIT_BATCH * (3 * (LIMIT_KEY_BYTES + 128 + 32) + LIMIT_LABEL_BYTES + 320),
              "the largest batch must fit");

/* ---- start ---- */

static bool allocate(struct redis *redis, const struct config *config)
{
    for (size_t group = 0; group < config->group_count; group++)
        redis->master_count += config->groups[group].master_count;
    CORE_ASSERT(redis->master_count > 0);
    redis->masters = calloc(redis->master_count, sizeof(*redis->masters));
    redis->resp = (struct resp){.bytes = malloc(COMMAND_BYTES), .size = COMMAND_BYTES};
    return redis->masters != NULL && redis->resp.bytes != NULL && command_pool_fill(&redis->pool);
}

static void start_masters(struct redis *redis)
{
    struct master *master = redis->masters;
    redis->marker_heard = upkeep_heard_marker;
    for (size_t group = 0; group < redis->config->group_count; group++) {
        const struct config_group *group_config = &redis->config->groups[group];
        redis->by_group[group] = master;
        redis->tls_files[group].config = &group_config->tls;
        marker_start(redis, (uint8_t)group, phases_silence_ms(group_config));
        for (size_t i = 0; i < group_config->master_count; i++, master++) {
            master->redis = redis;
            master->group = (uint8_t)group;
            master->index = (uint8_t)i;
            master->group_config = group_config;
            master->config = &group_config->masters[i];
            phases_start(master);
        }
    }
}

bool redis_set_up_tls(const struct config *config, char *why, size_t size)
{
    for (size_t group = 0; group < config->group_count; group++)
        if (group_has_tls(&config->groups[group]))
            return tls_set_up(why, size);
    return true;
}

struct redis *redis_start(uv_loop_t *loop, const struct config *config,
                          const struct redis_sink *sink)
{
    struct redis *redis = calloc(1, sizeof(*redis));
    if (redis == NULL || !allocate(redis, config)) {
        redis_free(redis);
        return NULL;
    }
    redis->loop = loop;
    redis->config = config;
    redis->sink = *sink;
    redis->unsent_end = &redis->unsent;
    uint64_t drawn[3];
    ssize_t len = getrandom(drawn, sizeof(drawn), 0);
    CORE_ASSERT(len == sizeof(drawn));
    redis->random = drawn[0];
    channels_init(&redis->channels, &drawn[1]);
    uv_prepare_init(redis->loop, &redis->prepare);
    uv_idle_init(redis->loop, &redis->idle);
    uv_timer_init(redis->loop, &redis->tick);
    redis->open_turn = 3;
    redis->prepare.data = redis->idle.data = redis->tick.data = redis;
    uv_prepare_start(&redis->prepare, on_redis_turn);
    uv_timer_start(&redis->tick, on_tick, TICK_MS, TICK_MS);
    start_masters(redis);
    return redis;
}

/* ---- views ---- */

struct redis_master_view redis_master(const struct redis *redis, uint8_t group, uint8_t master)
{
    CORE_ASSERT(group < redis->config->group_count &&
                master < redis->config->groups[group].master_count);
    const struct master *at = &redis->by_group[group][master];
    struct redis_master_view view = at->view;
    view.serves = at->told_up;
    if (at->phase == PHASE_READY && at->told_up)
        view.state = master_state_now(at, view.reason, sizeof(view.reason));
    view.guarded_ms = master_guarded_ms(at) > REPLY_MS_MAX ? REPLY_MS_MAX : master_guarded_ms(at);
    view.unfit = view.serves && master_is_unfit(at);
    view.votes = view.serves && view.guarded_ms == 0 && !view.unfit;
    view.disagrees =
        redis->config->groups[group].guard && redis->guards[group].masters[master].disagrees;
    if (view.disagrees && view.reason[0] == '\0')
        snprintf(view.reason, sizeof(view.reason), "knows agents at work with another layout");
    view.last_error_ago_ms = instant_us_between(at->failed_at, redis_now()) / 1000;
    view.degraded = at->phase == PHASE_READY && *at->health.fault;
    view.reconnects = at->attempts > 0 ? at->attempts - 1 : 0;
    view.in_flight = at->pipeline != NULL ? at->pipeline->in_flight : 0;
    return view;
}

const char *redis_view_state(const struct redis_master_view *view)
{
    bool disagrees = view->disagrees && view->state == REDIS_UP;
    return disagrees ? "disagrees" : redis_state_name(view->state);
}

/* Returns the time in ms until the guards of `quorum` masters are over. A master that is away, or
 * whose guard is not known, counts as late. */
static int64_t votes_in_ms(const struct redis *redis, uint8_t group, size_t quorum)
{
    int64_t sorted[LIMIT_MASTERS] = {0};
    size_t count = redis->config->groups[group].master_count;
    for (size_t i = 0; i < count; i++) {
        const struct master *master = &redis->by_group[group][i];
        int64_t left = master->told_up ? master_guarded_ms(master) : -1;
        size_t at = i;
        left = left < 0 ? INT64_MAX : left;
        for (; at > 0 && sorted[at - 1] > left; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = left;
    }
    return sorted[quorum - 1] == INT64_MAX ? 0 : sorted[quorum - 1];
}

static void view_layouts(const struct redis *redis, uint8_t group, struct redis_group_view *view)
{
    struct instant now = redis_now();
    const struct guard *guard = &redis->guards[group];
    uint8_t deciding = marker_decides(redis, group, now);
    const struct group_layout *layout = &redis->layouts[deciding];
    view->gate = guard_gate(&redis->guards[deciding], now);
    view->ours = layout->ours;
    view->theirs = layout->theirs;
    view->conflict = layout->conflict;
    view->told_by = redis->config->groups[deciding].masters[layout->master].url;
    if (view->gate == GUARD_REFUSED_BY_LAYOUT)
        view->refused_ms =
            instant_us_between(now, redis->guards[deciding].layouts.refused_until) / 1000 + 1;
    for (size_t i = 0; i < view->total; i++) {
        view->disagreeing += guard->masters[i].disagrees;
        if (guard->masters[i].at_work > view->layouts)
            view->layouts = guard->masters[i].at_work;
    }
}

struct redis_group_view redis_group(const struct redis *redis, uint8_t group)
{
    CORE_ASSERT(group < redis->config->group_count);
    struct redis_group_view view = {
        .total = redis->config->groups[group].master_count,
        .quorum = config_group_quorum(redis->config, group),
        .own_end_s = redis->own_certificates[group].end_s,
    };
    for (size_t i = 0; i < view.total; i++) {
        const struct master *master = &redis->by_group[group][i];
        view.up += master->told_up;
        bool unfit = master->told_up && master_is_unfit(master);
        view.unfit += unfit;
        view.voting += master->told_up && master_guarded_ms(master) == 0 && !unfit;
    }
    view.is_new = redis->config->groups[group].guard && view.voting < view.quorum &&
                  guard_is_new(&redis->guards[group]);
    view.votes_in_ms = votes_in_ms(redis, group, view.quorum);
    if (redis->config->groups[group].guard)
        view_layouts(redis, group, &view);
    if (view.gate != GUARD_OPEN)
        view.voting = 0; /* This agent can use no vote. */
    return view;
}

void redis_say_new(const struct redis_group_view *view, char *into, size_t size)
{
    if (view->votes_in_ms > 0)
        snprintf(into, size,
                 "the masters are new: they vote in %lld s; or run lockagent trust --new before "
                 "the first agent",
                 (long long)(view->votes_in_ms + 999) / 1000);
    else
        snprintf(into, size, "the masters are new: they vote soon");
}

void redis_say_votes_in(const struct redis_group_view *view, char *into, size_t size)
{
    into[0] = '\0';
    if (view->votes_in_ms > 0)
        snprintf(into, size, "; the guards of a quorum are over in %lld s",
                 (long long)(view->votes_in_ms + 999) / 1000);
}

/* Writes the part of a layout that differs: its masters and quorum, or all before them. */
static void say_layout(const char *layout, enum layout_conflict conflict, char *into, size_t size)
{
    struct layout parsed;
    struct text text = {layout, strlen(layout)};
    if (!layout_parse(text, &parsed))
        snprintf(into, size, "(not readable)");
    else if (conflict == LAYOUT_OTHER_MASTERS)
        snprintf(into, size, "%s (%u needed)", parsed.masters[0].at, parsed.quorum);
    else if (conflict == LAYOUT_OTHER_WIRE)
        snprintf(into, size, "w%u", parsed.wire);
    else
        snprintf(into, size, "%.*s", (int)(parsed.masters[0].at - 1 - parsed.prefixes[0].name.at),
                 parsed.prefixes[0].name.at);
}

void redis_say_layouts(const struct redis_group_view *view, char *into, size_t size)
{
    enum { PART_BYTES = 400 };
    char ours[PART_BYTES], theirs[PART_BYTES];
    static const char *const kinds[][2] = {
        [LAYOUT_OTHER_WIRE] = {"wire number", "an agent of the other version would not understand "
                                              "the keys; see docs/upgrades.md"},
        [LAYOUT_OTHER_POLICIES] = {"policies", "the keys would mean something else; see "
                                               "docs/masters.md#changing-policies"},
        [LAYOUT_OTHER_MASTERS] = {"masters", "quorums need not meet; see "
                                             "docs/masters.md#changing-masters"},
    };
    CORE_ASSERT(view->conflict != LAYOUT_NEIGHBOURS);
    say_layout(view->ours, view->conflict, ours, sizeof(ours));
    say_layout(view->theirs, view->conflict, theirs, sizeof(theirs));
    snprintf(into, size, "%s %s; these are %s: %s", kinds[view->conflict][0], theirs, ours,
             kinds[view->conflict][1]);
}

void redis_group_lacks(const struct redis *redis, uint8_t group, char *into, size_t size)
{
    const char *name = redis->config->groups[group].name;
    struct redis_group_view view = redis_group(redis, group);
    char new_words[160];
    into[0] = '\0';
    if (view.up < view.quorum) {
        snprintf(into, size,
                 "group %s: %zu of %zu masters are up, %zu are needed: no lock can be granted",
                 name, view.up, view.total, view.quorum);
    } else if (view.gate == GUARD_REFUSED_BY_LAYOUT) {
        say_refusal(&view, name, into, size);
    } else if (view.is_new) {
        redis_say_new(&view, new_words, sizeof(new_words));
        snprintf(into, size, "group %s: %s", name, new_words);
    } else if (view.gate == GUARD_LISTENS) {
        snprintf(into, size, "group %s: waits until its masters have noted its layout", name);
    } else if (view.voting < view.quorum) {
        char when[64];
        redis_say_votes_in(&view, when, sizeof(when));
        snprintf(into, size,
                 "group %s: %zu of %zu masters are guarded%s: %zu vote on new locks, %zu needed%s",
                 name, view.up - view.voting, view.total,
                 view.unfit > 0 ? " or may evict keys" : "", view.voting, view.quorum, when);
    }
}

void redis_turn_soon(struct redis *redis)
{
    redis_wake(redis);
}

void redis_read_clocks(struct redis *redis, uint8_t group)
{
    upkeep_read_clocks(redis, group);
}

int64_t redis_clock_off_us(const struct redis *redis, uint8_t group)
{
    return redis->clock_off_us[group];
}

bool redis_is_idle(const struct redis *redis)
{
    for (size_t i = 0; i < redis->master_count; i++) {
        const struct pipeline *pipeline = redis->masters[i].pipeline;
        if (pipeline != NULL && pipeline->in_flight > 0)
            return false;
    }
    return redis->unsent == NULL;
}

/* ---- files ---- */

struct files {
    void (*say)(void *arg, const char *group, const char *key, bool fatal, const char *what);
    void *arg;
    const char *group;
};

static void say_of_group(void *arg, const char *key, bool fatal, const char *what)
{
    const struct files *files = arg;
    files->say(files->arg, files->group, key, fatal, what);
}

void redis_check_files(const struct config *config,
                       void (*say)(void *arg, const char *group, const char *key, bool fatal,
                                   const char *what),
                       void *arg)
{
    for (size_t g = 0; g < config->group_count; g++) {
        const struct config_group *group = &config->groups[g];
        struct files files = {say, arg, group->name};
        if (group_has_tls(group))
            tls_check(&group->tls, say_of_group, &files);
    }
}

/* ---- stop ---- */

void redis_stop(struct redis *redis, void (*done)(void *arg), void *arg)
{
    CORE_ASSERT(!redis->stopping);
    redis->stopping = true;
    redis->done = done;
    redis->done_arg = arg;
    redis_wake(redis);
}

void redis_free(struct redis *redis)
{
    if (redis == NULL)
        return;
    CORE_ASSERT(redis->open == 0 && redis->open_turn == 0);
    command_free_list(redis->unsent);
    command_pool_free(&redis->pool);
    channels_free(&redis->channels);
    for (size_t group = 0; group < LIMIT_GROUPS; group++)
        tls_files_forget(&redis->tls_files[group]);
    free(redis->resp.bytes);
    free(redis->masters);
    free(redis);
}
