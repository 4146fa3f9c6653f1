/* One master's way through its phases: resolve, connect, greet, serve; its back-off, its silence (R3), its probes. */
#include <stdio.h>
#include <string.h>

#include "agent/redis/room.h"

static void resolve(struct master *master);
static void connect_next(struct master *master);

static uint64_t silence_limit_ms(const struct config_group *group)
{
    uint64_t ms = 4ull * group->node_timeout_ms;
    return ms > SILENCE_MS_MIN ? ms : SILENCE_MS_MIN;
}

/* ---- states, as the core and people see them ---- */

static void tell_state(struct master *master)
{
    struct redis_sink *sink = &master->redis->sink;
    sink->state(sink->arg, master->group, master->index, master->view.state, master->view.reason);
}

static void tell_core(struct master *master, enum event_kind kind)
{
    struct redis_sink *sink = &master->redis->sink;
    struct event event = {
        .kind = kind,
        .master = {.group = master->group,
                   .master = master->index,
                   .epoch = master->epoch,
                   .clock_offset_us = master->view.clock_offset_us},
    };
    sink->event(sink->arg, &event);
}

/* Where the marker begins a new epoch, the master may have forgotten keys (D5.3). With `guard: off` it is another server
 * process than before, or one that does not say who it is. */
static bool may_have_forgotten(const struct master *master)
{
    if (master->epoch == 0) {
        return true;
    }
    if (master->group_config->guard) {
        return master->guard.changed || !*master->guard.epoch;
    }
    const char *run_id = master->view.run_id;
    return !master->was_ready && (!*run_id || strcmp(run_id, master->last_run_id) != 0);
}

static void begin_epoch(struct master *master)
{
    master->epoch = master->epoch == UINT16_MAX ? 1 : master->epoch + 1;
    master->guard.changed = false;
}

void master_new_epoch(struct master *master)
{
    begin_epoch(master);
    if (master->told_up) {
        tell_core(master, EVENT_MASTER_UP);
    }
}

/* What a master that is READY looks like now. */
static enum redis_state state_now(const struct master *master, char *reason, size_t size)
{
    const char *fault = master->sanity.fault;
    bool guarded = guard_left_ms(master) != 0;
    snprintf(reason, size, "%s%s%s",
             !guarded                ? ""
             : master->guard.unsure  ? "its marker can not be written: no vote on new locks"
             : master->guard.missing ? "its marker is missing: no vote on new locks"
                                     : "may have forgotten keys: no vote on new locks yet",
             guarded && *fault ? "; " : "", fault);
    return guarded ? REDIS_GUARDED : *fault ? REDIS_DEGRADED : REDIS_UP;
}

static bool is_served(const struct master *master)
{
    return !(master->sanity.grave && master->group_config->on_degraded == ON_DEGRADED_DOWN);
}

void master_show(struct master *master)
{
    char reason[sizeof(master->view.reason)];
    if (master->phase != PHASE_READY) {
        return;
    }
    enum redis_state state = state_now(master, reason, sizeof(reason));
    bool serves = is_served(master);
    if (!serves) {
        state = REDIS_DEGRADED;
    }
    if (state != master->view.state || strcmp(reason, master->view.reason) != 0) {
        master->view.state = state;
        memcpy(master->view.reason, reason, sizeof(reason));
        tell_state(master);
    }
    if (serves != master->told_up) {
        master->told_up = serves;
        tell_core(master, serves ? EVENT_MASTER_UP : EVENT_MASTER_DOWN);
    }
}

void master_up(struct master *master)
{
    if (may_have_forgotten(master)) {
        begin_epoch(master);
    }
    memcpy(master->last_run_id, master->view.run_id, sizeof(master->last_run_id));
    master->phase = PHASE_READY;
    master->was_ready = true;
    master->reloading = false;
    master->probe_ticks = 0;
    master->noticed = 0;
    subscriber_wanted(master);
    sanity_look(master->redis, master->group);
    if (master->phase == PHASE_READY && master->group_config->guard) {
        guard_settle(master);
    }
}

void master_down(struct master *master, const char *why)
{
    bool was_up = master->told_up;
    bool news = master->view.state != REDIS_DOWN || strcmp(why, master->view.reason) != 0;
    master->view.state = REDIS_DOWN;
    if (why != master->view.reason) {
        snprintf(master->view.reason, sizeof(master->view.reason), "%s", why);
    }
    if (news) {
        tell_state(master);
    }
    if (was_up) {
        master->told_up = false;
        tell_core(master, EVENT_MASTER_DOWN);
    }
}

/* A remark about a master whose state does not change: once per kind and connection. */
void master_notice(struct master *master, enum redis_outcome outcome, const char *text)
{
    if (!master->told_up || (master->noticed & 1u << outcome)) {
        return;
    }
    master->noticed |= 1u << outcome;
    char says[160];
    outcome_describe(outcome, text, says, sizeof(says));
    struct redis_sink *sink = &master->redis->sink;
    sink->state(sink->arg, master->group, master->index, master->view.state, says);
}

/* What an error reply says about the master itself (D5.5). OOM, READONLY, MISCONF and NOREPLICAS refuse some commands
 * and leave the rest; a key that the ACL does not allow is the affair of that key alone: if it took the master down,
 * any caller could. */
void master_refused(struct master *master, enum redis_outcome outcome, const char *text)
{
    bool unfit = outcome == REDIS_OUTCOME_LOADING || outcome == REDIS_OUTCOME_BUSY ||
                 outcome == REDIS_OUTCOME_MASTERDOWN || outcome == REDIS_OUTCOME_NOAUTH ||
                 (outcome == REDIS_OUTCOME_NOPERM && strstr(text, " run "));
    if (!unfit) {
        master_notice(master, outcome, text);
        return;
    }
    if (master->phase == PHASE_READY) {
        char says[160];
        outcome_describe(outcome, text, says, sizeof(says));
        master_recheck(master, says);
    }
}

void master_answered_well(struct master *master)
{
    master->failures = 0;
}

/* ---- the timer ---- */

static uint64_t backoff_ms(struct master *master)
{
    uint64_t ms = BACKOFF_MS_MIN;
    for (uint32_t i = 0; i < master->failures && ms < BACKOFF_MS_MAX; i++) {
        ms *= 2;
    }
    if (ms > BACKOFF_MS_MAX) {
        ms = BACKOFF_MS_MAX;
    }
    master->failures++;
    return ms / 2 + redis_random(master->redis) % (ms / 2 + 1);
}

static void on_timer(uv_timer_t *timer)
{
    struct master *master = timer->data;
    char why[64];
    switch (master->phase) {
    case PHASE_WAITING:
        if (master->address_next < master->address_count) {
            connect_next(master);
        } else {
            resolve(master);
        }
        break;
    case PHASE_CONNECTING:
        snprintf(why, sizeof(why), "connect: no answer for %u ms", (unsigned)master->silence_ms);
        connection_end(master->connection, why);
        break;
    case PHASE_PAUSED:
        greeting_begin(master);
        break;
    case PHASE_RESOLVING: /* no timer runs there */
    case PHASE_GREETING:
    case PHASE_READY:
        break;
    }
}

static void start_timer(struct master *master, uint64_t ms)
{
    if (!master->redis->stopping) {
        uv_timer_start(&master->timer, on_timer, ms, 0);
    }
}

static void wait_and_retry(struct master *master)
{
    master->phase = PHASE_WAITING;
    start_timer(master, backoff_ms(master));
}

/* ---- from a name to a connection ---- */

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct master *master = request->data;
    master->address_count = master->address_next = 0;
    for (struct addrinfo *at = list; at && status == 0 && master->address_count < ADDRESSES_MAX; at = at->ai_next) {
        char *into = master->addresses[master->address_count];
        size_t size = sizeof(master->addresses[0]);
        bool known = (at->ai_family == AF_INET && uv_ip4_name((struct sockaddr_in *)at->ai_addr, into, size) == 0) ||
                     (at->ai_family == AF_INET6 && uv_ip6_name((struct sockaddr_in6 *)at->ai_addr, into, size) == 0);
        master->address_count += known;
    }
    uv_freeaddrinfo(list);
    if (master->redis->stopping) {
        master->phase = PHASE_WAITING;
    } else if (master->address_count == 0) {
        char why[160];
        snprintf(why, sizeof(why), "resolve: %s", status ? uv_strerror(status) : "the name has no address");
        master_down(master, why);
        wait_and_retry(master);
    } else {
        connect_next(master);
    }
    redis_closed(master->redis);
}

/* hiredis would resolve names itself and block the loop for as long as that takes. */
static void resolve(struct master *master)
{
    const struct config_address *address = &master->config->address;
    unsigned char numeric[sizeof(struct in6_addr)];
    master->attempts++;
    master->address_count = 1;
    master->address_next = 0;
    master->addresses[0][0] = '\0';
    if (address->is_unix) {
        connect_next(master);
        return;
    }
    if (uv_inet_pton(AF_INET, address->host, numeric) == 0 || uv_inet_pton(AF_INET6, address->host, numeric) == 0) {
        snprintf(master->addresses[0], sizeof(master->addresses[0]), "%.63s", address->host);
        connect_next(master);
        return;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    master->phase = PHASE_RESOLVING;
    master->resolve.data = master;
    int failed = uv_getaddrinfo(master->redis->loop, &master->resolve, on_resolved, address->host, NULL, &hints);
    if (failed) {
        master->address_count = 0;
        master_down(master, uv_strerror(failed));
        wait_and_retry(master);
        return;
    }
    master->redis->open++;
}

static void connect_next(struct master *master)
{
    char why[160];
    while (master->address_next < master->address_count) {
        const char *address = master->addresses[master->address_next++];
        master->connected_to = address;
        if (connection_open(master, address, why, sizeof(why))) {
            master->phase = PHASE_CONNECTING;
            start_timer(master, master->silence_ms);
            return;
        }
    }
    master_down(master, why);
    wait_and_retry(master);
}

/* ---- what happens to a connection ---- */

void master_connected(struct master *master)
{
    uv_timer_stop(&master->timer);
    master->address_next = master->address_count; /* the others need not be tried */
    master->was_ready = false;
    master->client_id = 0;
    greeting_begin(master);
}

void master_lost(struct master *master, const char *why)
{
    if (master->connection->in_flight > 0 && master->client_id) {
        master->doubtful_client_id = master->client_id;
    }
    master->phase = PHASE_WAITING;
    subscriber_close(master);
    master_down(master, why);
}

void master_disconnected(struct master *master, bool was_connected)
{
    master->connection = NULL;
    uv_timer_stop(&master->timer);
    master->phase = PHASE_WAITING;
    if (!was_connected && master->address_next < master->address_count) {
        start_timer(master, 0);
    } else {
        master->address_next = master->address_count;
        wait_and_retry(master);
    }
    redis_wake(master->redis);
}

/* The connection stays, so that what was sent before and what will be sent after keep their order (R5). */
void master_recheck(struct master *master, const char *why)
{
    master->phase = PHASE_PAUSED;
    master_down(master, why);
    if (master->phase == PHASE_PAUSED) {
        start_timer(master, backoff_ms(master));
    }
}

/* R3: silence with something in flight ends the connection. Counted in ticks and not by the clock: when this process
 * was stopped, the replies that piled up meanwhile are read before the next tick. */
void master_tick(struct master *master)
{
    struct connection *connection = master->connection;
    subscriber_tick(master);
    if (!connection || !connection->connected) {
        return;
    }
    connection->silent_ticks = connection->unheard > 0 ? connection->silent_ticks + 1 : 0;
    if (connection->silent_ticks > (master->silence_ms + TICK_MS - 1) / TICK_MS) {
        char why[64];
        snprintf(why, sizeof(why), "no reply for %u ms", (unsigned)master->silence_ms);
        connection_end(connection, why);
    } else if (master->phase == PHASE_READY && ++master->probe_ticks >= PROBE_TICKS) {
        master->probe_ticks = 0;
        greeting_probe(master);
    }
    if (master->connection && master->phase == PHASE_READY && master->probe_ticks % GUARD_TICKS == 0) {
        guard_probe(master);
    }
}

void master_start(struct master *master)
{
    master->view.state = REDIS_CONNECTING;
    snprintf(master->view.reason, sizeof(master->view.reason), "connecting");
    master->silence_ms = (uint32_t)silence_limit_ms(master->group_config);
    master->probe_ticks = (uint32_t)(redis_random(master->redis) % PROBE_TICKS);
    uv_timer_init(master->redis->loop, &master->timer);
    master->timer.data = master;
    master->redis->open++;
    start_timer(master, 0);
}

void master_stop(struct master *master)
{
    uv_timer_stop(&master->timer);
    subscriber_close(master);
    if (master->phase == PHASE_RESOLVING) {
        uv_cancel((uv_req_t *)&master->resolve); /* may be too late: then its end is waited for */
    }
    if (master->connection) {
        connection_end(master->connection, "stopping");
    }
}
