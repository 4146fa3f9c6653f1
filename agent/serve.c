/* Boot order, signals, reload and drain.
 *
 *   boot:  configuration -> log -> limits of the process -> metrics -> core -> journal -> Redis -> API -> holds restored
 *
 *   end:   SERVING --SIGTERM, SIGINT--> DRAINING --no holds left, or shutdown.grace over--> ENDING
 *          ENDING --releases sent, or ENDING_MS over--> STOPPING --replies written--> the loop is empty
 *          A second signal ends at once. */
#include "agent/serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/core/random.h"
#include "agent/journal.h"
#include "agent/log.h"
#include "agent/loop.h"
#include "agent/settings.h"
#include "agent/version.h"
#include "api/api.h"

enum {
    CHECK_MS = 20,     /* how often a draining agent looks whether it is done */
    ENDING_MS = 500,   /* for the last releases to be confirmed */
    STOPPING_MS = 500, /* for the last replies to be written */
    SPARE_FILES = 256, /* descriptors beyond the API's connections */
};

enum stage { SERVING, DRAINING, ENDING, STOPPING };

struct agent {
    const struct serve_source *source;
    struct config *config;
    uv_loop_t uv;
    uv_signal_t signals[3];
    uv_timer_t drain;
    struct instant stage_until;
    enum stage stage;
    struct metrics *metrics;
    struct loop *loop;
    struct redis *redis;
    struct api *api;
    struct journal *journal; /* NULL: none is kept */
    char not_ready[256];
};

/* ---- what the rooms ask ---------------------------------------------------------------------------------------- */

static void submit(void *arg, struct event *event)
{
    struct agent *agent = arg;
    loop_submit(agent->loop, event);
}

static void answer(void *arg, const struct effect_answer *effect)
{
    struct agent *agent = arg;
    api_answer(agent->api, effect);
}

static void traced(void *arg, const struct effect_trace *trace)
{
    const struct agent *agent = arg;
    api_notify(agent->api, trace);
}

static struct instant now(void *arg)
{
    (void)arg;
    return clock_now();
}

static void observe_command(void *arg, uint8_t group, uint8_t master, enum op op, enum redis_outcome outcome,
                            int64_t latency_us)
{
    struct agent *agent = arg;
    metrics_command(agent->metrics, group, master, op, outcome, latency_us);
}

static void master_state(void *arg, uint8_t group, uint8_t master, enum redis_state state, const char *text)
{
    const struct agent *agent = arg;
    const struct config_group *config = &agent->config->groups[group];
    enum log_level level = state == REDIS_UP || state == REDIS_CONNECTING ? LOG_INFO : LOG_WARN;
    int64_t guarded_ms = redis_master(agent->redis, group, master).guarded_ms;
    if (state == REDIS_GUARDED && guarded_ms > 0) {
        log_event(level, "master", LOG_TEXT_FIELD("group", config->name),
                  LOG_TEXT_FIELD("master", config->masters[master].url),
                  LOG_TEXT_FIELD("state", redis_state_name(state)), LOG_TEXT_FIELD("reason", text),
                  LOG_INT_FIELD("guarded_ms", guarded_ms));
        return;
    }
    log_event(level, "master", LOG_TEXT_FIELD("group", config->name),
              LOG_TEXT_FIELD("master", config->masters[master].url), LOG_TEXT_FIELD("state", redis_state_name(state)),
              LOG_TEXT_FIELD("reason", text));
}

/* D5.4: where most masters agree, this agent is the one that is off. */
static void clock_is_off(void *arg, uint8_t group, int64_t offset_us)
{
    const struct agent *agent = arg;
    log_event(offset_us == 0 ? LOG_INFO : LOG_WARN,
              offset_us == 0 ? "this agent's clock agrees with most masters' again"
                             : "this agent's clock is off from most masters'",
              LOG_TEXT_FIELD("group", agent->config->groups[group].name), LOG_INT_FIELD("offset_ms", offset_us / 1000));
}

/* What a group lacks to be able to grant locks; "" when it can. */
static void group_lacks(const struct agent *agent, size_t g, char *text, size_t size)
{
    const struct config_group *group = &agent->config->groups[g];
    size_t serving = 0, voting = 0, quorum = config_group_quorum(agent->config, g);
    for (size_t m = 0; m < group->master_count; m++) {
        struct redis_master_view view = redis_master(agent->redis, (uint8_t)g, (uint8_t)m);
        serving += view.serves;
        voting += view.votes;
    }
    text[0] = '\0';
    if (serving < quorum)
        snprintf(text, size, "group %s: %zu of %zu masters are up, %zu are needed", group->name, serving,
                 group->master_count, quorum);
    else if (voting < quorum)
        snprintf(text, size,
                 "group %s: %zu of %zu masters are guarded, so that %zu vote on new locks and %zu are needed",
                 group->name, serving - voting, group->master_count, voting, quorum);
}

static const char *not_ready(void *arg)
{
    struct agent *agent = arg;
    if (agent->stage != SERVING)
        return "draining";
    for (size_t g = 0; g < agent->config->group_count; g++) {
        group_lacks(agent, g, agent->not_ready, sizeof(agent->not_ready));
        if (agent->not_ready[0] != '\0')
            return agent->not_ready;
    }
    return NULL;
}

/* ---- reload ---------------------------------------------------------------------------------------------------- */

static void log_errors(const struct config_errors *errors)
{
    for (size_t i = 0; i < errors->count && i < sizeof(errors->list) / sizeof(errors->list[0]); i++)
        log_event(LOG_ERROR, "configuration refused", LOG_TEXT_FIELD("error", errors->list[i].text));
}

/* All or nothing: a bad file changes nothing. */
static void reload(struct agent *agent)
{
    const struct serve_source *source = agent->source;
    struct config *next = calloc(1, sizeof(*next));
    struct config_errors *errors = calloc(1, sizeof(*errors));
    bool ok = next != NULL && errors != NULL &&
              config_load(source->path, source->environment, source->overrides, source->override_count, next, errors) &&
              config_reloadable(agent->config, next, source->path, errors);
    if (ok) {
        *agent->config = *next;
        log_setup(agent->config->log_level, (int)agent->config->log_format);
        loop_reload(agent->loop);
        api_reload(agent->api, agent->config);
        log_event(LOG_INFO, "configuration reloaded", LOG_TEXT_FIELD("file", source->path == NULL ? "" : source->path));
    } else if (errors != NULL) {
        log_errors(errors);
    }
    metrics_reloaded(agent->metrics, ok, clock_wall_us());
    free(next);
    free(errors);
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

static void redis_stopped(void *arg)
{
    (void)arg;
}

static void api_stopped(void *arg)
{
    struct agent *agent = arg;
    for (size_t i = 0; i < sizeof(agent->signals) / sizeof(agent->signals[0]); i++)
        uv_close((uv_handle_t *)&agent->signals[i], NULL);
    redis_stop(agent->redis, redis_stopped, agent);
    loop_stop(agent->loop);
}

static bool stage_is_over(struct agent *agent)
{
    if (!instant_before(clock_now(), agent->stage_until))
        return true;
    const struct core_stats *stats = core_stats(loop_core(agent->loop));
    if (agent->stage == DRAINING)
        return stats->locks_held == 0 && stats->requests == 0;
    return redis_is_idle(agent->redis);
}

static void check_drain(uv_timer_t *timer)
{
    struct agent *agent = timer->data;
    if (!stage_is_over(agent))
        return;
    if (agent->stage == DRAINING) {
        agent->stage = ENDING;
        agent->stage_until = instant_after_ms(clock_now(), ENDING_MS);
        loop_submit(agent->loop, &(struct event){.kind = EVENT_END, .end.release = agent->config->shutdown_release});
        loop_submit(agent->loop, &(struct event){.kind = EVENT_TIME});
    } else {
        agent->stage = STOPPING;
        uv_close((uv_handle_t *)timer, NULL);
        api_stop(agent->api, STOPPING_MS, api_stopped, agent);
    }
}

static void drain(struct agent *agent, int signal_number)
{
    log_event(LOG_INFO, "draining", LOG_INT_FIELD("signal", signal_number),
              LOG_INT_FIELD("locks_held", core_stats(loop_core(agent->loop))->locks_held),
              LOG_INT_FIELD("grace_ms", agent->config->shutdown_grace_ms));
    agent->stage = DRAINING;
    agent->stage_until = instant_after_ms(clock_now(), agent->config->shutdown_grace_ms);
    api_drain(agent->api);
    loop_submit(agent->loop, &(struct event){.kind = EVENT_DRAIN});
    uv_timer_init(&agent->uv, &agent->drain);
    agent->drain.data = agent;
    uv_timer_start(&agent->drain, check_drain, 0, CHECK_MS);
}

static void on_signal(uv_signal_t *handle, int signal_number)
{
    struct agent *agent = handle->data;
    if (signal_number == SIGHUP)
        reload(agent);
    else if (agent->stage == SERVING)
        drain(agent, signal_number);
    else
        _exit(128 + signal_number);
}

/* ---- boot ------------------------------------------------------------------------------------------------------ */

static void watch_signals(struct agent *agent)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uv_signal_init(&agent->uv, &agent->signals[i]);
        agent->signals[i].data = agent;
        uv_signal_start(&agent->signals[i], on_signal, numbers[i]);
    }
}

/* Every connection of the API is a descriptor; at the limit nobody could come in to release. */
static void raise_file_limit(const struct config *config)
{
    struct rlimit limit;
    rlim_t wanted = config->connections_max * 2 + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= wanted ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        log_event(LOG_WARN, "fewer files may be open than limits.connections needs",
                  LOG_INT_FIELD("wanted", (int64_t)wanted), LOG_INT_FIELD("allowed", (int64_t)limit.rlim_cur));
}

/* ---- the journal ----------------------------------------------------------------------------------------------- */

static uint64_t add_to_place(uint64_t place, const char *text)
{
    return hash_bytes(place, 0, text, strlen(text));
}

/* A token means something as long as its key is on the same masters, under the same name and rules. */
static uint64_t place_of(void *arg, struct text key)
{
    const struct agent *agent = arg;
    const struct core *core = loop_core(agent->loop);
    const struct config_policy *policy = &agent->config->policies[core_policy_of(core, key)];
    const struct config_group *group = &agent->config->groups[core_group_of(core, key)];
    uint64_t place =
        add_to_place(hash_bytes(policy->core.algorithm, policy->core.fencing, key.at, key.len), policy->prefix);
    for (size_t i = 0; i < group->master_count; i++)
        place = add_to_place(place, group->masters[i].url);
    return place;
}

static void restore_hold(void *arg, const struct event_restore *hold)
{
    struct agent *agent = arg;
    bool resumes = !hold->ended && instant_before(clock_now(), hold->valid_until);
    metrics_restored(agent->metrics, resumes ? RESTORED_RESUMED : RESTORED_ENDED, 1);
    log_event(LOG_INFO, resumes ? "lock resumed" : "lock that has ended", LOG_BYTES_FIELD("key", hold->key),
              LOG_BYTES_FIELD("label", hold->label), LOG_INT_FIELD("fencing_token", (int64_t)hold->token.fence),
              LOG_INT_FIELD("valid_for_ms", instant_us_between(clock_now(), hold->valid_until) / 1000));
    loop_submit(agent->loop, &(struct event){.kind = EVENT_RESTORE, .restore = *hold});
}

static bool open_journal(struct agent *agent, char *error, size_t size)
{
    struct journal_source source = {.path = agent->config->journal_file, .place = place_of, .arg = agent};
    if (*source.path == '\0')
        return true;
    if (!journal_boot_id(source.boot_id, error, size))
        return false;
    agent->journal = journal_open(&source, error, size);
    return agent->journal != NULL;
}

static void restore_holds(struct agent *agent)
{
    struct journal_found found;
    if (agent->journal == NULL)
        return;
    loop_keep_journal(agent->loop, agent->journal);
    journal_read(agent->journal, clock_now(), restore_hold, agent, &found);
    metrics_restored(agent->metrics, RESTORED_REFUSED, found.refused);
    if (found.discarded != NULL)
        log_event(LOG_WARN, "the journal is not used and begun anew", LOG_TEXT_FIELD("reason", found.discarded),
                  LOG_TEXT_FIELD("file", agent->config->journal_file));
    if (found.refused > 0)
        log_event(LOG_WARN, "holds in the journal are torn, or of other masters or policies: they run out",
                  LOG_INT_FIELD("holds", found.refused), LOG_TEXT_FIELD("file", agent->config->journal_file));
}

static bool boot(struct agent *agent)
{
    char error[512] = "out of memory";
    raise_file_limit(agent->config);
    watch_signals(agent);
    agent->metrics = metrics_new(agent->config);
    agent->loop = agent->metrics == NULL ? NULL : loop_new(&agent->uv, agent->config, agent->metrics);
    if (agent->loop == NULL) {
        log_event(LOG_ERROR, "can not start", LOG_TEXT_FIELD("error", error));
        return false;
    }
    if (!open_journal(agent, error, sizeof(error))) {
        log_event(LOG_ERROR, "can not start", LOG_TEXT_FIELD("error", error));
        return false;
    }
    struct redis_sink sink = {agent, submit, observe_command, master_state, clock_is_off};
    agent->redis = redis_start(&agent->uv, agent->config, &sink);
    struct api_backend backend = {agent, submit, now, loop_core(agent->loop), agent->redis, agent->metrics, not_ready};
    agent->api = agent->redis == NULL ? NULL : api_start(&agent->uv, agent->config, &backend, error, sizeof(error));
    loop_connect(agent->loop, agent->redis, &(struct loop_sink){agent, answer, traced});
    if (agent->api == NULL)
        log_event(LOG_ERROR, "can not start", LOG_TEXT_FIELD("error", error));
    else
        restore_holds(agent);
    return agent->api != NULL;
}

int serve(const struct serve_source *source)
{
    struct agent *agent = calloc(1, sizeof(*agent));
    struct config *config = settings_load(source);
    if (agent == NULL || config == NULL) {
        free(agent);
        free(config);
        return EXIT_FAILURE;
    }
    agent->source = source;
    agent->config = config;
    log_setup(config->log_level, (int)config->log_format);
    uv_loop_init(&agent->uv);
    if (!boot(agent))
        return EXIT_FAILURE; /* the process ends here: nothing needs to be taken down in order */
    log_event(LOG_INFO, "lockagent started", LOG_TEXT_FIELD("version", LOCKAGENT_VERSION));
    uv_run(&agent->uv, UV_RUN_DEFAULT);
    log_event(LOG_INFO, "lockagent ended", LOG_TEXT_FIELD("version", LOCKAGENT_VERSION));

    api_free(agent->api);
    redis_free(agent->redis);
    loop_free(agent->loop);
    metrics_free(agent->metrics);
    journal_close(agent->journal);
    uv_loop_close(&agent->uv);
    free(config);
    free(agent);
    return EXIT_SUCCESS;
}
