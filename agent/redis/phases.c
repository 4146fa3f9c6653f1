/* Takes one master from phase to phase. */
#include <stdio.h>
#include <string.h>

#include "agent/redis/internal.h"

enum {
    SILENCE_MS_MIN = 1000, /* A pipeline ends after the larger of this and 4 x node_timeout without
                            * a reply (R3). */
    PROBE_TICKS = 12,      /* A READY master is probed every 3 s. */
    IDLE_TICKS = 21,       /* In an idle group: at the latest so long after the last probe. */
    CLOCK_TICKS = 3,       /* Its clock is read every 0.75 s (R14). */
    REPLICAS_TICKS = 2,    /* Its replicas are counted twice a second (R21). */
};

static void wait_and_retry(struct master *master)
{
    master->phase = PHASE_WAITING;
    master_start_backoff(master);
}

/* ---- events of a pipeline ---- */

static void when_connected(struct master *master)
{
    uv_timer_stop(&master->timer);
    master_tls_began(master, &master->pipeline->line);
    master->address_next = master->address_count; /* The other addresses need not be tried. */
    master->was_ready = false;
    master->client_id = 0;
    handshake_begin(master);
}

static void when_lost(struct master *master, const char *why)
{
    master_tls_ended(master, &master->pipeline->line);
    if (master->pipeline->in_flight > 0 && master->client_id)
        master->doubtful_client_id = master->client_id;
    master->phase = PHASE_WAITING;
    subscriber_close(master);
    service_down(master, why);
    if (!master->redis->stopping) /* This machine may have been paused (R14). */
        upkeep_read_clocks(master->redis, master->group);
}

static void when_gone(struct master *master, bool was_connected)
{
    master->pipeline = NULL;
    uv_timer_stop(&master->timer);
    master->phase = PHASE_WAITING;
    if (!was_connected && master->address_next < master->address_count) {
        master_start_timer(master, 0);
    } else {
        master->address_next = master->address_count;
        wait_and_retry(master);
    }
    redis_wake(master->redis);
}

static const struct pipeline_calls pipeline_calls = {when_connected, master_broke, when_lost,
                                                     when_gone};

/* ---- from a name to a pipeline ---- */

static void connect_next(struct master *master)
{
    char why[160];
    while (master->address_next < master->address_count) {
        master->connected_to = master->addresses[master->address_next++];
        struct line_end end = master_end(master);
        master->pipeline =
            pipeline_open(master->redis, &end, &pipeline_calls, master, why, sizeof(why));
        if (master->pipeline != NULL) {
            replicas_begin(&master->pipeline->replicas, (uint8_t)master->group_config->replicas_ack,
                           master->group_config->replicas_timeout_ms);
            master->phase = PHASE_CONNECTING;
            master_start_timer(master, master->silence_ms);
            return;
        }
    }
    service_down(master, why);
    wait_and_retry(master);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct master *master = request->data;
    master->address_count = master->address_next = 0;
    for (struct addrinfo *at = list; at && status == 0 && master->address_count < ADDRESSES_MAX;
         at = at->ai_next) {
        char *into = master->addresses[master->address_count];
        size_t size = sizeof(master->addresses[0]);
        bool known = (at->ai_family == AF_INET &&
                      uv_ip4_name((struct sockaddr_in *)at->ai_addr, into, size) == 0) ||
                     (at->ai_family == AF_INET6 &&
                      uv_ip6_name((struct sockaddr_in6 *)at->ai_addr, into, size) == 0);
        master->address_count += known;
    }
    uv_freeaddrinfo(list);
    if (master->redis->stopping) {
        master->phase = PHASE_WAITING;
    } else if (master->address_count == 0) {
        char why[160];
        snprintf(why, sizeof(why), "resolve: %s",
                 status ? uv_strerror(status) : "the name has no address");
        service_down(master, why);
        wait_and_retry(master);
    } else {
        connect_next(master);
    }
    redis_closed(master->redis);
}

/* Begins to resolve the name in libuv's thread pool, because a name server may be slow. */
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
    if (uv_inet_pton(AF_INET, address->host, numeric) == 0 ||
        uv_inet_pton(AF_INET6, address->host, numeric) == 0) {
        snprintf(master->addresses[0], sizeof(master->addresses[0]), "%.63s", address->host);
        connect_next(master);
        return;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    master->phase = PHASE_RESOLVING;
    master->resolve.data = master;
    int failed = uv_getaddrinfo(master->redis->loop, &master->resolve, on_resolved, address->host,
                                NULL, &hints);
    if (failed) {
        master->address_count = 0;
        service_down(master, uv_strerror(failed));
        wait_and_retry(master);
        return;
    }
    master->redis->open++;
}

/* ---- the timer ---- */

static void on_phase_timer(uv_timer_t *timer)
{
    struct master *master = timer->data;
    char why[64];
    switch (master->phase) {
    case PHASE_WAITING:
        if (master->address_next < master->address_count)
            connect_next(master);
        else
            resolve(master);
        break;
    case PHASE_CONNECTING:
        snprintf(why, sizeof(why), "%s: no answer for %u ms",
                 line_tls_fault(&master->pipeline->line) == TLS_FAULT_SILENT ? "tls" : "connect",
                 (unsigned)master->silence_ms);
        pipeline_end(master->pipeline, why);
        break;
    case PHASE_PAUSED:
        handshake_begin(master);
        break;
    case PHASE_READY:
        replication_time(master);
        break;
    case PHASE_RESOLVING: /* No timer runs in this phase. */
    case PHASE_GREETING:
        break;
    }
}

/* ---- the end of a greeting ---- */

static void when_greeted(struct master *master, enum greeted greeted, const char *why)
{
    switch (greeted) {
    case GREETED_WELL:
        service_up(master);
        break;
    case GREETED_LATER:
        service_pause(master, why);
        break;
    case GREETED_ILL:
        pipeline_condemn(master->pipeline, why);
        service_down(master, why);
        break;
    }
}

/* ---- calls of the room ---- */

bool phases_leave_replica(struct master *master)
{
    bool leaves = master->phase == PHASE_READY && master->group_config->replicas_ack > 0 &&
                  strcmp(master->health.role, "slave") == 0;
    if (leaves)
        pipeline_condemn(master->pipeline, "it has become a replica");
    return leaves;
}

/* Reads the clock, and probes the master. In an idle group both are done with the question for the
 * marker (redis.c). Replicas are counted in any case. */
static void look_after(struct master *master)
{
    bool idles = marker_idles(master->redis, master->group);
    if (!idles && master->probe_ticks % CLOCK_TICKS == 0)
        upkeep_read_clock(master);
    bool is_due = ++master->probe_ticks >= (idles ? IDLE_TICKS : PROBE_TICKS);
    /* An idle group is at this tick as well, 3 s after each of its looks, unless ticks are late. */
    if (master->probe_ticks == PROBE_TICKS && phases_leave_replica(master))
        return;
    if (is_due)
        master->probe_ticks = 0;
    if (is_due && idles)
        upkeep_look(master);
    else if (is_due)
        upkeep_probe(master);
    else if (master->group_config->replicas_ack > 0 && master->probe_ticks % REPLICAS_TICKS == 0)
        upkeep_count_replicas(master);
}

/* Ends the connection after silence with commands in flight (R3). The silence is counted in ticks:
 * if this process was stopped, the replies that arrived meanwhile are read before the next tick. */
void phases_tick(struct master *master)
{
    struct pipeline *pipeline = master->pipeline;
    subscriber_tick(master);
    if (pipeline == NULL || !pipeline->line.connected)
        return;
    pipeline->silent_ticks = pipeline->unheard > 0 ? pipeline->silent_ticks + 1 : 0;
    /* With a command of the core in flight it is the usual time in a greeting, too (R3). */
    bool greets = master->phase == PHASE_GREETING && pipeline->in_flight == 0;
    uint32_t limit_ms = master->silence_ms + (greets ? master_greets_others_ms(master) : 0);
    if (pipeline->silent_ticks > (limit_ms + TICK_MS - 1) / TICK_MS) {
        char why[64];
        snprintf(why, sizeof(why), "no reply for %u ms", (unsigned)limit_ms);
        pipeline_end(pipeline, why);
        return;
    }
    if (master->phase == PHASE_READY)
        look_after(master);
}

uint32_t phases_silence_ms(const struct config_group *group)
{
    uint64_t silence_ms = 4ull * group->node_timeout_ms;
    return (uint32_t)(silence_ms > SILENCE_MS_MIN ? silence_ms : SILENCE_MS_MIN);
}

void phases_start(struct master *master)
{
    master->view.state = REDIS_CONNECTING;
    master->view.round_trip_us = -1;
    snprintf(master->view.reason, sizeof(master->view.reason), "connecting");
    master->silence_ms = phases_silence_ms(master->group_config);
    master->probe_ticks = (uint32_t)(redis_random(master->redis) % PROBE_TICKS);
    master->on_greeted = when_greeted;
    master->on_timer = on_phase_timer;
    uv_timer_init(master->redis->loop, &master->timer);
    master->timer.data = master;
    master->redis->open++;
    master_start_timer(master, 0);
}

static void on_phase_timer_closed(uv_handle_t *timer)
{
    struct master *master = timer->data;
    redis_closed(master->redis);
}

void phases_stop(struct master *master)
{
    subscriber_close(master);
    if (master->phase == PHASE_RESOLVING)
        uv_cancel((uv_req_t *)&master->resolve); /* It may be too late to cancel. Then its end is
                                                  * waited for. */
    if (master->pipeline != NULL)
        pipeline_end(master->pipeline, "stopping");
    if (!uv_is_closing((uv_handle_t *)&master->timer))
        uv_close((uv_handle_t *)&master->timer, on_phase_timer_closed);
}
