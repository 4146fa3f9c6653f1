/* One master, as the core and people see it, and its timer. */
#include "agent/redis/internal.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/core_assert.h"

enum { BACKOFF_STEPS = 5 }; /* Doublings from the first delay to the last. */
static_assert(BACKOFF_MS_MIN << BACKOFF_STEPS >= BACKOFF_MS_MAX,
              "so many doublings reach the longest delay");
static_assert(REDIS_OUTCOME_COUNT + REDIS_FAULT_COUNT < 32, "`noticed` has 32 bits");
static_assert(REDIS_OPTIONAL_COUNT < 32, "`refused` has 32 bits");

/* ---- reports to the core and to people ---- */

static void tell_people(struct master *master, const char *text)
{
    struct redis_sink *sink = &master->redis->sink;
    sink->state(sink->arg, master->group, master->index, master->view.state, text);
}

static void keep_error(struct master *master, const char *text)
{
    snprintf(master->view.last_error, sizeof(master->view.last_error), "%s", text);
    master->failed_at = redis_now();
}

void master_tell_core(struct master *master, enum event_kind kind)
{
    struct redis_sink *sink = &master->redis->sink;
    struct event event = {
        .kind = kind,
        .master = {.group = master->group,
                   .master = master->index,
                   .epoch = master->epoch,
                   .clock_offset_us = master->view.clock_offset_us,
                   .reading = master->reading},
    };
    sink->event(sink->arg, &event);
}

void master_new_epoch(struct master *master)
{
    master->epoch = master->epoch == UINT16_MAX ? 1 : master->epoch + 1;
    if (master->told_up)
        master_tell_core(master, EVENT_MASTER_UP);
}

static bool is_guarded(const struct master *master)
{
    return master->group_config->guard && master->phase == PHASE_READY;
}

/* Returns the state of a READY master and writes the reason, "" if it is up. */
static enum redis_state state_now(const struct master *master, char *reason, size_t size)
{
    const char *fault = master->health.fault;
    enum guard_state guard = master_guard_state(master);
    bool guarded = guard != GUARD_VOTES;
    snprintf(reason, size, "%s%s%s",
             !guarded                 ? ""
             : guard == GUARD_UNSURE  ? "its marker cannot be written: no vote on new locks"
             : guard == GUARD_MISSING ? "its marker is missing: no vote on new locks"
             : guard == GUARD_WAITS   ? "waits to be told: no vote on new locks yet"
             : guard == GUARD_SPOILED ? "its numbers were never granted: no vote on new locks"
             : guard == GUARD_UNNOTED ? "cannot note this agent's layout: no vote on new locks"
                                      : "may have forgotten keys: no vote on new locks yet",
             guarded && *fault ? "; " : "", fault);
    return guarded ? REDIS_GUARDED : *fault ? REDIS_DEGRADED : REDIS_UP;
}

static bool serves(const struct master *master)
{
    return !master->health.grave || master->group_config->on_degraded != ON_DEGRADED_DOWN;
}

enum redis_state master_state_now(const struct master *master, char *reason, size_t size)
{
    CORE_ASSERT(master->phase == PHASE_READY);
    enum redis_state state = state_now(master, reason, size);
    return serves(master) ? state : REDIS_DEGRADED;
}

void master_show(struct master *master)
{
    char reason[sizeof(master->view.reason)];
    if (master->phase != PHASE_READY)
        return;
    enum redis_state state = master_state_now(master, reason, sizeof(reason));
    bool is_up = serves(master);
    master->view.has_voted |= is_up && state != REDIS_GUARDED && !master_is_unfit(master);
    if (state != master->view.state || strcmp(reason, master->view.reason) != 0) {
        master->view.state = state;
        memcpy(master->view.reason, reason, sizeof(reason));
        tell_people(master, master->view.reason);
    }
    const struct guard *guard = &master->redis->guards[master->group];
    bool guessed = is_guarded(master) && guard_told(guard, master->index) == GUARD_GUESSED;
    bool guessed_before = master->view.guessed;
    master->view.guessed = guessed;
    if (guessed && !guessed_before) /* A6 */
        tell_people(master, "votes by a guess: too few other masters remembered the numbers that "
                            "it had forgotten");
    if (is_up != master->told_up) {
        master->told_up = is_up;
        master_tell_core(master, is_up ? EVENT_MASTER_UP : EVENT_MASTER_DOWN);
    }
}

void master_show_down(struct master *master, const char *why)
{
    bool was_up = master->told_up;
    bool news = master->view.state != REDIS_DOWN || strcmp(why, master->view.reason) != 0;
    master->view.state = REDIS_DOWN;
    if (why != master->view.reason)
        snprintf(master->view.reason, sizeof(master->view.reason), "%s", why);
    if (news) {
        keep_error(master, master->view.reason);
        tell_people(master, master->view.reason);
    }
    if (was_up) {
        master->told_up = false;
        master_tell_core(master, EVENT_MASTER_DOWN);
    }
}

void master_notice(struct master *master, enum redis_outcome outcome, const char *text)
{
    if (!master->told_up || (master->noticed & 1u << outcome))
        return;
    master->noticed |= 1u << outcome;
    char says[160];
    outcome_describe(outcome, text, says, sizeof(says));
    keep_error(master, says);
    tell_people(master, says);
}

void master_refuses(struct master *master, enum redis_optional command, const char *error)
{
    struct redis_sink *sink = &master->redis->sink;
    if (master->refused & 1u << command)
        return;
    master->refused |= 1u << command;
    char says[160], whole[sizeof(master->view.last_error)];
    outcome_describe(outcome_of_error(error), error, says, sizeof(says));
    snprintf(whole, sizeof(whole), "%s: %.120s", redis_optional_name(command), says);
    keep_error(master, whole);
    if (sink->refused != NULL)
        sink->refused(sink->arg, master->group, master->index, command, says);
}

void master_accepts(struct master *master, enum redis_optional command)
{
    master->refused &= ~(1u << command);
}

struct line_end master_end(const struct master *master)
{
    return (struct line_end){.address = &master->config->address,
                             .numeric = master->connected_to,
                             .tls = master->config->tls ? &master->redis->tls_files[master->group]
                                                        : NULL};
}

void master_tls_began(struct master *master, const struct line *line)
{
    int64_t end_s = line_certificate_end_s(line);
    if (end_s != 0)
        master->view.certificate_end_s = end_s;
}

void master_tls_ended(struct master *master, const struct line *line)
{
    enum tls_fault fault = line_tls_fault(line);
    if (fault != TLS_FAULT_NONE)
        master->view.tls_faults[fault]++;
}

void master_broke(struct master *master, enum redis_fault fault)
{
    master->view.faults[fault]++;
    /* Good replies before it broke the protocol do not shorten the back-off. */
    if (master->failures < BACKOFF_STEPS)
        master->failures = BACKOFF_STEPS;
}

static void remark_once(struct master *master, uint32_t bit, const char *why)
{
    if (master->noticed & bit)
        return;
    master->noticed |= bit;
    keep_error(master, why);
    tell_people(master, why);
}

void master_broke_aside(struct master *master, enum redis_fault fault, const char *why)
{
    master->view.faults[fault]++;
    remark_once(master, 1u << (REDIS_OUTCOME_COUNT + fault), why);
}

void master_lacks_memory(struct master *master, const char *what)
{
    remark_once(master, 1u << (REDIS_OUTCOME_COUNT + REDIS_FAULT_COUNT), what);
}

void master_makes_no_sense(struct master *master, const char *asked)
{
    char why[160];
    snprintf(why, sizeof(why), "%s: not a possible reply", asked);
    if (!*master->pipeline->condemned)
        master_broke(master, REDIS_FAULT_MALFORMED);
    pipeline_condemn(master->pipeline, why);
}

/* ---- the state of its guard ---- */

enum guard_state master_guard_state(const struct master *master)
{
    const struct guard *guard = &master->redis->guards[master->group];
    return is_guarded(master) ? guard_state(guard, master->index, redis_now()) : GUARD_VOTES;
}

bool master_is_unfit(const struct master *master)
{
    return master->phase == PHASE_READY && master->health.evicts &&
           master->group_config->eviction == EVICTION_REFUSE;
}

int64_t master_guarded_ms(const struct master *master)
{
    const struct guard *guard = &master->redis->guards[master->group];
    return is_guarded(master) ? guard_left_ms(guard, master->index, redis_now()) : 0;
}

/* ---- the timer ---- */

void master_start_timer(struct master *master, uint64_t ms)
{
    if (!master->redis->stopping)
        uv_timer_start(&master->timer, master->on_timer, ms, 0);
}

uint32_t master_spread_ms(uint32_t clients)
{
    uint64_t ms = (uint64_t)clients * GREETING_US / 1000;
    return (uint32_t)(ms < SPREAD_MS_MAX ? ms : SPREAD_MS_MAX);
}

/* A new agent does not know the number of clients. So each failure adds to its patience as well. */
uint32_t master_greets_others_ms(const struct master *master)
{
    uint32_t spread_ms = master_spread_ms(master->health.clients);
    uint64_t patience_ms = (uint64_t)master->failures * master->silence_ms;
    if (patience_ms > SPREAD_MS_MAX)
        patience_ms = SPREAD_MS_MAX;
    return patience_ms > spread_ms ? (uint32_t)patience_ms : spread_ms;
}

/* The first try comes soon: if this agent alone lost its connection, for example because it was
 * paused (R14), the master has time for it. */
void master_start_backoff(struct master *master)
{
    uint32_t spread_ms = master->failures > 0 ? master_spread_ms(master->health.clients) : 0;
    uint64_t ms = BACKOFF_MS_MIN;
    for (uint32_t i = 0; i < master->failures && ms < BACKOFF_MS_MAX; i++)
        ms *= 2;
    if (ms > BACKOFF_MS_MAX)
        ms = BACKOFF_MS_MAX;
    master->failures++;
    uint64_t jitter_ms = redis_random(master->redis) % (ms / 2 + 1);
    master_start_timer(master, ms / 2 + jitter_ms + redis_random(master->redis) % (spread_ms + 1));
}

void master_answered_well(struct master *master)
{
    master->failures = 0;
}
