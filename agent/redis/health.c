/* Finds the faults that make a master degraded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/redis/internal.h"
#include "agent/redis/replies.h"

enum {
    CLOCK_WARN_US = 1000000,
    REPLICAS_MAX = 64,     /* Replicas of one master that are counted at most. */
    REPLICA_LAG_S_MAX = 2, /* They report every second. */
};

void health_forget(struct master *master)
{
    master->health.role[0] = master->health.policy[0] = master->health.maxmemory[0] = '\0';
    master->health.cluster = false;
    master->health.replicas = -1;
}

/* Returns how many of the replicas that INFO lists as `slave<n>:...,state=online,...,lag=<seconds>`
 * have reported in time (R21). */
static int replicas_of(const char *info)
{
    int count = 0;
    char name[16], says[256], *lag;
    for (unsigned i = 0; i < REPLICAS_MAX; i++) {
        snprintf(name, sizeof(name), "slave%u", i);
        says[0] = '\0';
        info_field(info, name, says, sizeof(says));
        lag = strstr(says, ",lag=");
        count += strstr(says, ",state=online,") != NULL && lag != NULL &&
                 strtol(lag + strlen(",lag="), NULL, 10) <= REPLICA_LAG_S_MAX;
    }
    return count;
}

void health_take_info(struct master *master, const char *info)
{
    info_field(info, "role", master->health.role, sizeof(master->health.role));
    info_field(info, "maxmemory_policy", master->health.policy, sizeof(master->health.policy));
    info_field(info, "maxmemory", master->health.maxmemory, sizeof(master->health.maxmemory));
    char cluster[4] = "", clients[12] = "";
    info_field(info, "cluster_enabled", cluster, sizeof(cluster));
    master->health.cluster |= strcmp(cluster, "1") == 0;
    info_field(info, "connected_clients", clients, sizeof(clients));
    if (*clients)
        master->health.clients = (uint32_t)strtoul(clients, NULL, 10);
    if (strstr(info, "connected_slaves:") != NULL)
        master->health.replicas = replicas_of(info);
}

/* ---- clocks ---- */

enum { TIME_S_MAX_DIGITS = 11 }; /* Enough until the year 5138. */

/* Reads an element of TIME, which is digits only. Returns false if it is anything else. */
static bool take_digits(const redisReply *reply, size_t digits_max, int64_t *ret_number)
{
    if (reply->type != REDIS_REPLY_STRING || reply->len < 1 || (size_t)reply->len > digits_max ||
        strspn(reply->str, "0123456789") != (size_t)reply->len)
        return false;
    *ret_number = strtoll(reply->str, NULL, 10);
    return true;
}

/* Returns the master's clock minus ours. The clock counts as read in the middle of the round trip.
 * A reply that took longer than a vote may (R3) only bounds the offset. So the known offset stays
 * if it is within these bounds. */
static int64_t clock_offset_of(const struct master *master, int64_t wall_us, int64_t took_us)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t least_us = wall_us - ((int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000),
            most_us = least_us + took_us,
            known_us = master->health.clock_known ? master->view.clock_offset_us : 0;
    if (took_us <= (int64_t)master->group_config->node_timeout_ms * 1000)
        return least_us + took_us / 2;
    return known_us < least_us ? least_us : known_us > most_us ? most_us : known_us;
}

bool health_take_time(struct master *master, const struct command *command, const redisReply *reply)
{
    int64_t seconds, us;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        !take_digits(reply->element[0], TIME_S_MAX_DIGITS, &seconds) ||
        !take_digits(reply->element[1], 6, &us))
        return false;
    struct clock_reading *reading = &master->reading;
    *reading = (struct clock_reading){seconds * 1000000 + us, command->asked_at, redis_now()};
    int64_t took_us = instant_us_between(reading->sent, reading->heard);
    master->view.round_trip_us = took_us;
    master->view.clock_offset_us = clock_offset_of(master, reading->wall_us, took_us);
    master->health.clock_known = true;
    master_tell_core(master, EVENT_MASTER_CLOCK);
    return true;
}

static bool is_near(int64_t a_us, int64_t b_us)
{
    return llabs(a_us - b_us) < CLOCK_WARN_US;
}

static bool has_clock(const struct master *master)
{
    return master->phase == PHASE_READY && master->health.clock_known;
}

/* Returns the offset, their time minus ours, on which most masters of the group agree; 0 if it is
 * near 0 or they do not agree. */
static int64_t agreed_offset(const struct redis *redis, uint8_t group)
{
    size_t count = redis->config->groups[group].master_count;
    const struct master *masters = redis->by_group[group];
    for (size_t i = 0; i < count; i++) {
        int64_t offset_us = masters[i].view.clock_offset_us;
        size_t agree = 0;
        for (size_t j = 0; j < count; j++)
            agree += has_clock(&masters[j]) && is_near(offset_us, masters[j].view.clock_offset_us);
        if (has_clock(&masters[i]) && agree > count / 2)
            return is_near(offset_us, 0) ? 0 : offset_us;
    }
    return 0;
}

/* ---- one master ---- */

static const struct master *twin_of(const struct redis *redis, const struct master *master)
{
    const struct master *masters = redis->by_group[master->group];
    for (size_t i = 0; i < redis->config->groups[master->group].master_count; i++)
        if (&masters[i] != master && masters[i].phase == PHASE_READY && *master->view.run_id &&
            strcmp(masters[i].view.run_id, master->view.run_id) == 0)
            return &masters[i];
    return NULL;
}

/* Returns true if the master may evict keys. With maxmemory 0 no policy evicts anything. A limit
 * that is not known counts as one. */
static bool may_evict(const struct master *master)
{
    return *master->health.policy && strcmp(master->health.policy, "noeviction") != 0 &&
           strcmp(master->health.maxmemory, "0") != 0;
}

/* Finds a fault and writes it to `fault`. Returns true if `on_degraded` may take the master down
 * for it. It may not for a constant clock offset, which does no harm, or for missing replicas,
 * because the master still serves releases. */
static bool find_fault(const struct redis *redis, const struct master *master, char *fault,
                       size_t size)
{
    const struct master *twin = twin_of(redis, master);
    int64_t offset_us = master->view.clock_offset_us - redis->clock_off_us[master->group];
    fault[0] = '\0';
    if (may_evict(master)) {
        snprintf(fault, size, "may evict keys (maxmemory-policy %.31s)%s", master->health.policy,
                 master_is_unfit(master) ? ": no vote on new locks" : "");
    } else if (*master->health.role && strcmp(master->health.role, "master") != 0) {
        snprintf(fault, size, "a replica, not a master (role:%s)", master->health.role);
    } else if (twin != NULL) {
        snprintf(fault, size, "the same server as %.70s", twin->config->url);
    } else if (master->health.replicas >= 0 &&
               (uint32_t)master->health.replicas < master->group_config->replicas_ack) {
        snprintf(fault, size, "%d replicas keep up, and replicas.ack asks for %u",
                 master->health.replicas, (unsigned)master->group_config->replicas_ack);
        return false;
    } else if (master->health.clock_known && !is_near(offset_us, 0)) {
        snprintf(fault, size, "its clock is off by more than a second");
        return false;
    }
    return fault[0] != '\0';
}

void health_look(struct redis *redis, uint8_t group)
{
    int64_t off_us = agreed_offset(redis, group), said_us = redis->clock_off_us[group];
    bool changes_little = off_us != 0 && said_us != 0 && is_near(off_us, said_us);
    if (off_us != said_us && !changes_little) {
        redis->clock_off_us[group] = off_us;
        redis->sink.clock(redis->sink.arg, group, off_us);
    }
    for (size_t i = 0; i < redis->config->groups[group].master_count; i++) {
        struct master *master = &redis->by_group[group][i];
        if (master->phase == PHASE_READY) {
            master->health.evicts = may_evict(master);
            master->health.grave =
                find_fault(redis, master, master->health.fault, sizeof(master->health.fault));
            master_show(master);
        }
    }
}
