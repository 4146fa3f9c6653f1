/* Sanity of the masters (D5.4): role, eviction, doubled servers, clocks. From INFO and TIME alone; what is not known is
 * no fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/room.h"

enum { CLOCK_WARN_US = 1000000 };

/* The value of `name:` in the text of INFO; leaves `into` as it is where there is none. */
void copy_info_field(const char *info, const char *name, char *into, size_t size)
{
    size_t len = strlen(name);
    for (const char *line = info; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':') {
            snprintf(into, size, "%.*s", (int)strcspn(line + len + 1, "\r\n"), line + len + 1);
            return;
        }
    }
}

void sanity_take_info(struct master *master, const char *info)
{
    copy_info_field(info, "role", master->sanity.role, sizeof(master->sanity.role));
    copy_info_field(info, "maxmemory_policy", master->sanity.policy, sizeof(master->sanity.policy));
}

/* ---- clocks ---- */

static bool is_near(int64_t a_us, int64_t b_us)
{
    return llabs(a_us - b_us) < CLOCK_WARN_US;
}

static bool has_clock(const struct master *master)
{
    return master->phase == PHASE_READY && master->sanity.clock_known;
}

/* What most masters of the group say this agent's clock is off by: 0 where they say that it is not, or do not agree. */
static int64_t agreed_offset(const struct redis *redis, uint8_t group)
{
    size_t count = redis->config->groups[group].master_count;
    const struct master *masters = redis->by_group[group];
    for (size_t i = 0; i < count; i++) {
        int64_t offset_us = masters[i].view.clock_offset_us;
        size_t agree = 0;
        for (size_t j = 0; j < count; j++) {
            agree += has_clock(&masters[j]) && is_near(offset_us, masters[j].view.clock_offset_us);
        }
        if (has_clock(&masters[i]) && agree > count / 2) {
            return is_near(offset_us, 0) ? 0 : offset_us;
        }
    }
    return 0;
}

/* What was said holds until it has changed by as much as is worth saying. */
static void look_at_agent(struct redis *redis, uint8_t group)
{
    int64_t off_us = agreed_offset(redis, group), said_us = redis->clock_off_us[group];
    if (off_us == said_us || (off_us != 0 && said_us != 0 && is_near(off_us, said_us))) {
        return;
    }
    redis->clock_off_us[group] = off_us;
    redis->sink.clock(redis->sink.arg, group, off_us);
}

/* ---- one master ---- */

static const struct master *twin_of(const struct redis *redis, const struct master *master)
{
    const struct master *masters = redis->by_group[master->group];
    for (size_t i = 0; i < redis->config->groups[master->group].master_count; i++) {
        if (&masters[i] != master && masters[i].phase == PHASE_READY && *master->view.run_id &&
            strcmp(masters[i].view.run_id, master->view.run_id) == 0) {
            return &masters[i];
        }
    }
    return NULL;
}

/* True where the fault is one that on_degraded may take the master down for; a constant clock offset harms nobody. */
static bool find_fault(const struct redis *redis, const struct master *master, char *fault, size_t size)
{
    const struct master *twin = twin_of(redis, master);
    int64_t offset_us = master->view.clock_offset_us - redis->clock_off_us[master->group];
    fault[0] = '\0';
    if (*master->sanity.role && strcmp(master->sanity.role, "master") != 0) {
        snprintf(fault, size, "a replica, not a master (role:%s)", master->sanity.role);
    } else if (twin) {
        snprintf(fault, size, "the same server as %.70s", twin->config->url);
    } else if (*master->sanity.policy && strcmp(master->sanity.policy, "noeviction") != 0) {
        snprintf(fault, size, "evicts keys under memory pressure (maxmemory-policy %s)", master->sanity.policy);
    } else if (master->sanity.clock_known && !is_near(offset_us, 0)) {
        snprintf(fault, size, "its clock is off by more than a second");
        return false;
    }
    return fault[0] != '\0';
}

void sanity_look(struct redis *redis, uint8_t group)
{
    look_at_agent(redis, group);
    for (size_t i = 0; i < redis->config->groups[group].master_count; i++) {
        struct master *master = &redis->by_group[group][i];
        if (master->phase == PHASE_READY) {
            master->sanity.grave = find_fault(redis, master, master->sanity.fault, sizeof(master->sanity.fault));
            master_show(master);
        }
    }
}
