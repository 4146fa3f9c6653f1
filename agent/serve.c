/* Boot order, signals, reload and drain.
 *
 *   boot:  configuration -> log -> limits of the process -> metrics -> core -> journal -> Redis
 *          -> API -> holds restored
 *
 *   end:   SERVING --SIGTERM, SIGINT--> DRAINING --no holds or holders, or grace over--> ENDING
 *          ENDING --releases done, or grace over--> STOPPING --replies written--> no loop left
 *          A second signal ends at once. */
#include "agent/serve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/clock.h"
#include "agent/core/random.h"
#include "agent/journal.h"
#include "agent/log.h"
#include "agent/loop.h"
#include "agent/prepare.h"
#include "agent/settings.h"
#include "agent/version.h"
#include "api/api.h"

enum {
    CHECK_MS = 20,          /* Interval in which a draining agent checks whether it is done. */
    ENDING_MS = 500,        /* Time for the last releases to be confirmed, also after the grace. */
    FIRST_LOOK_MS = 3000,   /* A new group settles its markers within 2 s (D5.3). */
    STOPPING_MS = 500,      /* Time for the last replies to be written. */
    SPARE_FILES = 128,      /* Descriptors for all but connections to the API and to masters. */
    ADMIN_FILES = 128,      /* Descriptors for each admin listener. */
    CONNECTIONS_MIN = 128,  /* The lower bound of limits.connections. */
    CONNECTIONS_SPARE = 64, /* Connections that waiters never take (D9). */
};

enum stage { SERVING, DRAINING, ENDING, STOPPING };

/* The limits that the number of open files bounds. */
struct file_limits {
    uint32_t connections, waiters;
};

struct agent {
    const struct settings_source *source;
    struct config *config;
    struct file_limits configured; /* As configured; `config` may have lower ones. */
    uv_loop_t uv;
    uv_signal_t signals[3];
    uv_timer_t drain;
    uv_timer_t first_look; /* Whether locks can be granted when the masters had time to connect. */
    struct instant grace_until, ending_until;
    enum stage stage;
    struct metrics *metrics;
    struct loop *loop;
    struct redis *redis;
    struct api *api;
    struct journal *journal; /* NULL: no journal is kept. */
    char not_ready[REDIS_LACKS_BYTES];
};

/* ---- callbacks of the rooms ---- */

static void submit(void *arg, struct event *event)
{
    struct agent *agent = arg;
    loop_submit(agent->loop, event);
}

static void about_to_write(void *arg)
{
    struct agent *agent = arg;
    loop_flush(agent->loop);
}

static void answer(void *arg, const struct effect_answer *effect)
{
    struct agent *agent = arg;
    api_answer(agent->api, effect);
}

static void followed(void *arg, const struct effect_followed *now)
{
    const struct agent *agent = arg;
    api_followed(agent->api, now);
}

static void traced(void *arg, const struct effect_trace *trace)
{
    const struct agent *agent = arg;
    api_notify(agent->api, trace);
}

static struct instant tell_time(void *arg)
{
    (void)arg;
    return clock_now();
}

static void observe_command(void *arg, uint8_t group, uint8_t master, enum op op,
                            enum redis_outcome outcome, int64_t latency_us)
{
    struct agent *agent = arg;
    metrics_command(agent->metrics, group, master, op, outcome, latency_us);
}

/* Logs the state of a master. It is a warning if something went wrong while the agent serves, or if
 * the master has a fault, such as a replica or one that may evict keys. The end of the agent is
 * none, and a guard that is found at its start is none. */
static void master_state(void *arg, uint8_t group, uint8_t master, enum redis_state state,
                         const char *text)
{
    const struct agent *agent = arg;
    const struct config_group *config = &agent->config->groups[group];
    struct redis_master_view view = redis_master(agent->redis, group, master);
    bool is_fault = view.degraded || (state == REDIS_GUARDED && view.has_voted) ||
                    (state == REDIS_DOWN && agent->stage != STOPPING) ||
                    (state == REDIS_UP && *text != '\0');
    enum log_level level = is_fault ? LOG_WARN : LOG_INFO;
    const struct log_field fields[] = {LOG_TEXT_FIELD("group", config->name),
                                       LOG_TEXT_FIELD("master", config->masters[master].url),
                                       LOG_TEXT_FIELD("state", redis_state_name(state)),
                                       LOG_TEXT_FIELD("reason", text),
                                       LOG_INT_FIELD("guarded_ms", view.guarded_ms)};
    if (log_is_on(level))
        log_write(level, "master state changed", fields,
                  state == REDIS_GUARDED && view.guarded_ms > 0 ? 5 : 4);
}

static void master_refused(void *arg, uint8_t group, uint8_t master, enum redis_optional command,
                           const char *text)
{
    const struct agent *agent = arg;
    const struct config_group *config = &agent->config->groups[group];
    log_event(LOG_WARN, "master refuses a command", LOG_TEXT_FIELD("group", config->name),
              LOG_TEXT_FIELD("master", config->masters[master].url),
              LOG_TEXT_FIELD("command", redis_optional_name(command)),
              LOG_TEXT_FIELD("reason", text),
              LOG_TEXT_FIELD("without_it", redis_optional_cost(command)));
}

/* Logs that this agent's clock is off from most masters', which agree (D5.4), or that it agrees
 * again. */
static void clock_is_off(void *arg, uint8_t group, int64_t offset_us)
{
    const struct agent *agent = arg;
    log_event(offset_us == 0 ? LOG_INFO : LOG_WARN,
              offset_us == 0 ? "clock agrees with most masters' again"
                             : "clock is off from most masters'",
              LOG_TEXT_FIELD("group", agent->config->groups[group].name),
              LOG_INT_FIELD("offset_ms", offset_us / 1000));
}

/* Logs that another layout keeps this agent from new locks (R23), or that it does so no more. */
static void layout_differs(void *arg, uint8_t group, const char *text)
{
    const struct agent *agent = arg;
    bool differs = *text != '\0';
    log_event(differs ? LOG_ERROR : LOG_INFO,
              differs ? "no new locks: agents at work have another layout"
                      : "the other layout is forgotten: new locks are taken again",
              LOG_TEXT_FIELD("group", agent->config->groups[group].name),
              LOG_TEXT_FIELD("reason", text));
}

static void quorum_changed(void *arg, uint8_t group, const struct redis_group_view *view)
{
    const struct agent *agent = arg;
    loop_log_quorum(agent->config, group, view);
}

static const char *not_ready(void *arg)
{
    struct agent *agent = arg;
    if (agent->stage != SERVING)
        return "draining";
    for (size_t g = 0; g < agent->config->group_count; g++) {
        redis_group_lacks(agent->redis, (uint8_t)g, agent->not_ready, sizeof(agent->not_ready));
        if (agent->not_ready[0] != '\0')
            return agent->not_ready;
    }
    return NULL;
}

/* ---- reload ---- */

static void log_refusal(const char *error)
{
    log_event(LOG_ERROR, "configuration refused", LOG_TEXT_FIELD("error", error));
}

static struct file_limits file_limits_of(const struct config *config)
{
    return (struct file_limits){config->connections_max, config->waiters_max};
}

static void set_file_limits(struct config *config, struct file_limits limits)
{
    config->connections_max = limits.connections;
    config->waiters_max = limits.waiters;
}

/* Loads the next configuration. It is compared with the limits as they were configured, not as
 * fit_to_files() lowered them. */
static bool load_next(struct agent *agent, struct config *next, struct config_errors *errors)
{
    const struct settings_source *source = agent->source;
    struct file_limits fitting = file_limits_of(agent->config);
    set_file_limits(agent->config, agent->configured);
    bool ok = config_load_next(agent->config, source->path, source->environment, source->overrides,
                               source->override_count, next, errors);
    set_file_limits(agent->config, fitting);
    if (ok)
        set_file_limits(next, fitting);
    return ok;
}

/* Reads the configuration again. A file with an error changes nothing. */
static void reload(struct agent *agent)
{
    const struct settings_source *source = agent->source;
    struct config *next = calloc(1, sizeof(*next));
    struct config_errors *errors = calloc(1, sizeof(*errors));
    char error[CONFIG_TEXT + 64];
    bool loaded = next != NULL && errors != NULL && load_next(agent, next, errors);
    bool fine = loaded && api_reads_token(next, error, sizeof(error));
    bool ok = fine && loop_reload(agent->loop, next);
    if (ok) {
        *agent->config = *next;
        log_setup(agent->config->log_level, (int)agent->config->log_format);
        api_reload(agent->api, agent->config);
        log_event(LOG_INFO, "configuration reloaded",
                  LOG_TEXT_FIELD("file", source->path == NULL ? "" : source->path));
    } else if (loaded && !fine) {
        log_refusal(error);
    } else if (loaded || errors == NULL || errors->count == 0) {
        log_refusal("out of memory");
    } else {
        size_t kept = sizeof(errors->list) / sizeof(errors->list[0]);
        for (size_t i = 0; i < errors->count && i < kept; i++)
            log_refusal(errors->list[i].text);
        if (errors->count > kept)
            log_event(LOG_ERROR, "configuration has more errors",
                      LOG_INT_FIELD("more", (int64_t)(errors->count - kept)));
    }
    metrics_reloaded(agent->metrics, ok, clock_wall_us());
    free(next);
    free(errors);
}

/* ---- the end ---- */

static void redis_stopped(void *arg)
{
    (void)arg;
}

/* Closes the handlers. SIGHUP, which would end the process without one, is blocked until it is
 * ignored. */
static void stop_signals(struct agent *agent)
{
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    sigprocmask(SIG_BLOCK, &hangup, NULL);
    for (size_t i = 0; i < sizeof(agent->signals) / sizeof(agent->signals[0]); i++)
        uv_close((uv_handle_t *)&agent->signals[i], NULL);
    signal(SIGHUP, SIG_IGN);
    sigprocmask(SIG_UNBLOCK, &hangup, NULL);
}

static void api_stopped(void *arg)
{
    struct agent *agent = arg;
    stop_signals(agent);
    uv_close((uv_handle_t *)&agent->first_look, NULL);
    redis_stop(agent->redis, redis_stopped, agent);
    loop_stop(agent->loop);
}

static bool stage_is_over(struct agent *agent)
{
    const struct core *core = loop_core(agent->loop);
    bool grace_is_over = clock_has_reached(agent->grace_until);
    if (agent->stage == ENDING) /* Masters that are away may come back within the grace. */
        return (clock_has_reached(agent->ending_until) || redis_is_idle(agent->redis)) &&
               (grace_is_over || !core_owes_quorum(core));
    const struct core_stats *stats = core_stats(core);
    /* With `release` a holder without an open call has ended (D8.2). */
    bool nobody_is_left = agent->config->shutdown_release && !api_has_callers(agent->api);
    /* A followed key is a request that is never answered. */
    bool is_answered = stats->requests == api_followed_keys(agent->api);
    return grace_is_over || (is_answered && (stats->locks_held == 0 || nobody_is_left));
}

static void check_drain(uv_timer_t *timer)
{
    struct agent *agent = timer->data;
    if (!stage_is_over(agent))
        return;
    if (agent->stage == DRAINING) {
        agent->stage = ENDING;
        agent->ending_until = instant_after_ms(clock_now(), ENDING_MS);
        loop_submit(agent->loop, &(struct event){.kind = EVENT_END,
                                                 .end.release = agent->config->shutdown_release});
        loop_submit(agent->loop, &(struct event){.kind = EVENT_TIME});
    } else {
        agent->stage = STOPPING;
        uv_close((uv_handle_t *)timer, NULL);
        api_stop(agent->api, STOPPING_MS, api_stopped, agent);
    }
}

static void begin_drain(struct agent *agent, int signal_number)
{
    log_event(LOG_INFO, "draining", LOG_INT_FIELD("signal", signal_number),
              LOG_INT_FIELD("locks_held", core_stats(loop_core(agent->loop))->locks_held),
              LOG_INT_FIELD("grace_ms", agent->config->shutdown_grace_ms));
    agent->stage = DRAINING;
    agent->grace_until = instant_after_ms(clock_now(), agent->config->shutdown_grace_ms);
    api_drain(agent->api);
    loop_submit(agent->loop, &(struct event){.kind = EVENT_DRAIN});
    uv_timer_init(&agent->uv, &agent->drain);
    agent->drain.data = agent;
    uv_timer_start(&agent->drain, check_drain, 0, CHECK_MS);
}

static void on_signal(uv_signal_t *handle, int signal_number)
{
    struct agent *agent = handle->data;
    if (signal_number == SIGHUP && agent->stage == SERVING)
        reload(agent);
    else if (signal_number == SIGHUP)
        return; /* Many of them would delay the end. */
    else if (agent->stage == SERVING)
        begin_drain(agent, signal_number);
    else
        _exit(128 + signal_number);
}

/* ---- boot ---- */

/* Tries to raise the number of open files to `wanted`. Returns the number that is allowed. */
static rlim_t raise_file_limit(rlim_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return wanted;
    rlim_t before = limit.rlim_cur;
    /* RLIM_INFINITY is the largest number. */
    limit.rlim_cur = limit.rlim_max >= wanted ? wanted : limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

/* Lowers limits.connections to the number of files that may be open. Otherwise, at that limit, no
 * holder could connect to release, and no master could be reached again. Returns false, with
 * `error`, if too few are allowed. */
static bool fit_to_files(struct agent *agent, char *error, size_t size)
{
    struct config *config = agent->config;
    /* Files besides the API's connections. A master needs one connection for commands and one for
     * messages. */
    rlim_t other = SPARE_FILES + ADMIN_FILES * config->admin.count;
    for (size_t i = 0; i < config->group_count; i++)
        other += 2 * config->groups[i].master_count;
    rlim_t listeners = config->listen.count;
    rlim_t wanted = config->connections_max * listeners + other, allowed = raise_file_limit(wanted);
    agent->configured = file_limits_of(config);
    if (allowed >= wanted)
        return true;
    if (allowed < CONNECTIONS_MIN * listeners + other) {
        snprintf(error, size,
                 "too few files may be open: %llu (RLIMIT_NOFILE); at least %llu are needed",
                 (unsigned long long)allowed,
                 (unsigned long long)(CONNECTIONS_MIN * listeners + other));
        return false;
    }
    config->connections_max = (uint32_t)((allowed - other) / listeners);
    if (config->waiters_max > config->connections_max - CONNECTIONS_SPARE)
        config->waiters_max = config->connections_max - CONNECTIONS_SPARE;
    log_event(LOG_WARN, "limits.connections was lowered: it needs more open files than are allowed",
              LOG_INT_FIELD("configured", agent->configured.connections),
              LOG_INT_FIELD("connections", config->connections_max),
              LOG_INT_FIELD("waiters", config->waiters_max),
              LOG_INT_FIELD("files_wanted", (int64_t)wanted),
              LOG_INT_FIELD("files_allowed", (int64_t)allowed));
    return true;
}

/* ---- the journal ---- */

static uint64_t add_to_place(uint64_t place, const char *text)
{
    return hash_bytes(place, 0, text, strlen(text));
}

/* Returns a hash of the key's masters, name and rules. A token is usable as long as they are the
 * same. */
static uint64_t place_of_key(void *arg, struct text key)
{
    const struct agent *agent = arg;
    const struct core *core = loop_core(agent->loop);
    const struct config_policy *policy = &agent->config->policies[core_policy_of(core, key)];
    const struct config_group *group = &agent->config->groups[core_group_of(core, key)];
    uint64_t rules = policy->kind == KIND_RW ? 2 : policy->core.permits > 1;
    rules |= (uint64_t)policy->format << 4 | (uint64_t)policy->core.algorithm << 2;
    /* A reload may switch numbers on and off. Those of Redisson are another kind. */
    uint64_t numbers = policy->core.fencing == FENCING_REDISSON ? FENCING_REDISSON : FENCING_ON;
    uint64_t place = add_to_place(hash_bytes(rules, numbers, key.at, key.len), policy->prefix);
    for (size_t i = 0; i < group->master_count; i++)
        place = add_to_place(place, group->masters[i].url);
    return place;
}

static void hold_found(void *arg, const struct noted_hold *hold)
{
    struct agent *agent = arg;
    bool resumes = !hold->ended && instant_before(clock_now(), hold->valid_until);
    metrics_restored(agent->metrics, resumes ? RESTORED_RESUMED : RESTORED_ENDED, 1);
    const char *what = !resumes ? "lock not resumed: it has ended"
                       : core_is_doubtful(hold)
                           ? "lock resumed, not renewed: its answer may not have reached the caller"
                           : "lock resumed";
    log_event(
        LOG_INFO, what, LOG_BYTES_FIELD("key", hold->key),
        LOG_BYTES_FIELD("label", metadata_label(&hold->metadata)),
        LOG_INT_FIELD("fencing_token", (int64_t)hold->token.fence),
        LOG_INT_FIELD("valid_for_ms", instant_us_between(clock_now(), hold->valid_until) / 1000));
    loop_submit(agent->loop, &(struct event){.kind = EVENT_RESTORE, .restore = *hold});
}

/* Opens the journal and sets the agent's name on the masters. The name is that of the earlier
 * process if its holds are in the journal. */
static bool open_journal(struct agent *agent, uint32_t *ret_name, char *error, size_t size)
{
    struct journal_source source = {.path = agent->config->journal_file,
                                    .agent = loop_agent_name(),
                                    .place = place_of_key,
                                    .arg = agent};
    *ret_name = source.agent;
    if (*source.path == '\0')
        return true;
    if (!journal_boot_id(source.boot_id, error, size))
        return false;
    agent->journal = journal_open(&source, error, size);
    if (agent->journal != NULL)
        *ret_name = journal_agent(agent->journal);
    return agent->journal != NULL;
}

static void restore_holds(struct agent *agent)
{
    struct journal_found found;
    if (agent->journal == NULL)
        return;
    loop_keep_journal(agent->loop, agent->journal);
    journal_read(agent->journal, clock_now(), hold_found, agent, &found);
    metrics_restored(agent->metrics, RESTORED_REFUSED, found.refused);
    if (found.discarded != NULL)
        log_event(LOG_WARN, "journal was not used and was begun anew",
                  LOG_TEXT_FIELD("reason", found.discarded),
                  LOG_TEXT_FIELD("file", agent->config->journal_file));
    if (found.refused > 0)
        log_event(
            LOG_WARN,
            "holds in the journal were refused: they are torn, or of other masters or policies",
            LOG_INT_FIELD("holds", found.refused),
            LOG_TEXT_FIELD("file", agent->config->journal_file));
}

static void on_first_look(uv_timer_t *timer)
{
    struct agent *agent = timer->data;
    const char *why_not = not_ready(agent);
    if (why_not != NULL && agent->stage == SERVING)
        log_event(LOG_WARN, "no lock can be granted yet", LOG_TEXT_FIELD("reason", why_not));
}

static bool boot_agent(struct agent *agent)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    char error[512] = "out of memory";
    uint32_t name;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uv_signal_init(&agent->uv, &agent->signals[i]);
        agent->signals[i].data = agent;
        uv_signal_start(&agent->signals[i], on_signal, numbers[i]);
    }
    uv_timer_init(&agent->uv, &agent->first_look);
    agent->first_look.data = agent;
    uv_timer_start(&agent->first_look, on_first_look, FIRST_LOOK_MS, 0);
    if (redis_set_up_tls(agent->config, error, sizeof(error)) &&
        fit_to_files(agent, error, sizeof(error)))
        agent->metrics = metrics_new(agent->config);
    if (agent->metrics != NULL && open_journal(agent, &name, error, sizeof(error)))
        agent->loop = loop_new(&agent->uv, agent->config, agent->metrics, name);
    if (agent->loop == NULL) {
        log_event(LOG_ERROR, "agent could not start", LOG_TEXT_FIELD("error", error));
        return false;
    }
    struct redis_sink sink = {agent,          submit,         observe_command,
                              master_state,   clock_is_off,   about_to_write,
                              layout_differs, quorum_changed, master_refused};
    agent->redis = redis_start(&agent->uv, agent->config, &sink);
    struct api_backend backend = {agent,        submit,         tell_time, loop_core(agent->loop),
                                  agent->redis, agent->metrics, not_ready};
    agent->api = agent->redis == NULL
                     ? NULL
                     : api_start(&agent->uv, agent->config, &backend, error, sizeof(error));
    loop_connect(agent->loop, agent->redis, &(struct loop_sink){agent, answer, followed, traced});
    if (agent->api == NULL)
        log_event(LOG_ERROR, "agent could not start", LOG_TEXT_FIELD("error", error));
    else
        restore_holds(agent);
    return agent->api != NULL;
}

int serve(const struct settings_source *source)
{
    signal(SIGHUP, SIG_IGN); /* Until its handler is there. */
    struct agent *agent = calloc(1, sizeof(*agent));
    /* These signals must not end all holds. Other programs use USR1 and USR2 to reopen a log or to
     * print statistics. After XFSZ, which says that a file has reached its size limit, the write
     * fails with an error. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    prepare_for_orphans();
    struct config *config = settings_load(source);
    bool short_of_memory = agent == NULL || (config != NULL && uv_loop_init(&agent->uv) != 0);
    if (short_of_memory)
        fprintf(stderr, "lockagent: agent could not start: out of memory or file descriptors\n");
    if (short_of_memory || config == NULL) {
        free(agent);
        free(config);
        return EXIT_FAILURE;
    }
    agent->source = source;
    agent->config = config;
    log_setup(config->log_level, (int)config->log_format);
    if (!boot_agent(agent))
        return EXIT_FAILURE; /* The process ends, so nothing is closed. */
    settings_log_files(config);
    settings_log_remarks(config);
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
