/* The table of all configuration keys, in the order of the sample file. A section precedes its
 * keys. */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/core_assert.h"

#define AGENT(field)                                                                               \
    .offset = offsetof(struct config, field), .size = sizeof(((struct config *)0)->field)
#define GROUP(field)                                                                               \
    .offset = offsetof(struct config_group, field),                                                \
    .size = sizeof(((struct config_group *)0)->field)
#define POLICY(field)                                                                              \
    .offset = offsetof(struct config_policy, field),                                               \
    .size = sizeof(((struct config_policy *)0)->field)

#define MS INT64_C(1)
#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)

/* Laid out by hand: a line per field would hide the table. */
/* clang-format off */
const struct config_key config_keys[] = {
    {.path = "listen", .type = TYPE_ADDRESSES, AGENT(listen),
     .preset = "[127.0.0.1:8080, \"[::1]:8080\"]", .min = 1, .max = CONFIG_LISTENERS,
     .prose = "Where the API listens: one address or a list. Any address but loopback and unix "
              "sockets needs api.token_file or api.allow_remote. Port 0 is any free port, "
              "printed in the log. On a machine without IPv6, [::1] is left out if there is "
              "another address."},

    {.path = "admin", .type = TYPE_SECTION,
     .prose = "A listener for metrics and health checks alone, reachable from outside the pod. "
              "It serves no lock calls."},
    {.path = "admin.listen", .type = TYPE_ADDRESSES, AGENT(admin), .example = "0.0.0.0:9090",
     .min = 0, .max = CONFIG_LISTENERS,
     .prose = "Where metrics and health are served besides the API's own listener: one address "
              "or a list. None by default."},

    {.path = "redis", .type = TYPE_SECTION, .flags = KEY_REQUIRED,
     .prose = "The Redis masters that hold the locks."},
    {.path = "redis.groups", .type = TYPE_NAMED, .flags = KEY_REQUIRED, .min = 1,
     .max = LIMIT_GROUPS,
     .prose = "Groups of independent masters, by name. A lock lives on the masters of one group. "
              "Agents that name other masters for the same keys refuse each other; one master more "
              "or fewer is allowed."},
    {.path = "redis.groups.<name>", .type = TYPE_SECTION,
     .prose = "One group. Policies that name no group use the one called main, or the only one."},
    {.path = "redis.groups.<name>.masters", .type = TYPE_MASTERS, .flags = KEY_REQUIRED,
     GROUP(masters),
     .example = "redis://127.0.0.1:7001, redis://127.0.0.1:7002, redis://127.0.0.1:7003", .min = 1,
     .max = LIMIT_MASTERS,
     .prose = "The group's masters, best an odd number of them: three survive the loss of one, "
              "five the loss of two. Never replicas of each other. `@`, `/`, `:` and `,` in a "
              "user or password are percent-encoded (%40, %2F, %3A, %2C). rediss:// is over TLS."},
    {.path = "redis.groups.<name>.node_timeout", .type = TYPE_DURATION, GROUP(node_timeout_ms),
     .preset = "50ms", .min = 1 * MS, .max = 10 * SECOND,
     .prose = "How long a master may take to vote on a lock before the round goes on without it. "
              "Every ttl must be at least four times as long."},
    {.path = "redis.groups.<name>.drift", .type = TYPE_PERCENT, GROUP(drift_ppm), .preset = "1%",
     .min = 0, .max = 100000,
     .prose = "How much the clock rates of agents and masters may differ. Every validity is "
              "shortened by this share of the ttl and 2 ms."},
    {.path = "redis.groups.<name>.username", .type = TYPE_TEXT, GROUP(username), .preset = "",
     .min = 0, .max = 127,
     .prose = "ACL user for the masters whose URL names none; empty for the default user of "
              "Redis."},
    {.path = "redis.groups.<name>.password_file", .type = TYPE_TEXT, GROUP(password_file),
     .preset = "", .min = 0, .max = CONFIG_TEXT - 1,
     .prose = "File with the password for the masters whose URL holds none. It is read anew at "
              "every connect, so a password can be changed without a restart. Empty for none."},
    {.path = "redis.groups.<name>.db", .type = TYPE_COUNT, GROUP(db), .preset = "0", .min = 0,
     .max = 65535,
     .prose = "Database number for the masters whose URL names none."},
    {.path = "redis.groups.<name>.tls", .type = TYPE_SECTION,
     .prose = "TLS to the masters whose URL begins with rediss://. They are always verified. The "
              "files are read anew at every connect, so certificates can be renewed without a "
              "restart."},
    {.path = "redis.groups.<name>.tls.ca_file", .type = TYPE_TEXT, GROUP(tls.ca_file),
     .preset = "", .min = 0, .max = CONFIG_TEXT - 1,
     .prose = "File with the certificates, in PEM, of the authorities that may sign those of the "
              "masters. Empty for the authorities of the system."},
    {.path = "redis.groups.<name>.tls.cert_file", .type = TYPE_TEXT, GROUP(tls.cert_file),
     .preset = "", .min = 0, .max = CONFIG_TEXT - 1,
     .prose = "File with the certificate, in PEM, that the agent shows to the masters, and with "
              "those between it and its authority. Needs key_file. Empty for none."},
    {.path = "redis.groups.<name>.tls.key_file", .type = TYPE_TEXT, GROUP(tls.key_file),
     .preset = "", .min = 0, .max = CONFIG_TEXT - 1,
     .prose = "File with the private key of that certificate, in PEM and without a passphrase. "
              "Only the agent should be able to read it."},
    {.path = "redis.groups.<name>.tls.server_name", .type = TYPE_TEXT, GROUP(tls.server_name),
     .preset = "", .min = 0, .max = 253,
     .prose = "Name or address in the certificate of every master of the group. "
              "Empty for the host of its URL."},
    {.path = "redis.groups.<name>.durable", .type = TYPE_FLAG, GROUP(durable), .preset = "false",
     .prose = "Promises that these masters never forget a key over a restart: appendfsync "
              "always, no-appendfsync-on-rewrite no, volumes that survive, and no replica that "
              "is promoted. A restart then costs no vote."},
    {.path = "redis.groups.<name>.guard", .type = TYPE_SWITCH, GROUP(guard), .preset = "on",
     .prose = "Gives a master that may have forgotten keys (restarted, emptied, replaced) no "
              "vote on new locks until every lease that it may have known has run out: "
              "limits.max_ttl and 1s. off is right only if something else ensures that."},
    {.path = "redis.groups.<name>.replicas", .type = TYPE_SECTION,
     .prose = "For a group of one master under algorithm: single. A grant or a renewal counts "
              "only if enough replicas have it. The agent does not wait for the replicas of other "
              "groups."},
    {.path = "redis.groups.<name>.replicas.ack", .type = TYPE_COUNT, GROUP(replicas_ack),
     .example = "1", .min = 1, .max = 15,
     .prose = "How many replicas must have confirmed a grant or a renewal (WAIT) before it "
              "counts. If fewer do in time, it is undone or tried again. Not given: none."},
    {.path = "redis.groups.<name>.replicas.timeout", .type = TYPE_DURATION,
     GROUP(replicas_timeout_ms), .example = "100ms", .min = 1 * MS, .max = 5 * SECOND,
     .prose = "How long the master waits for them; 100ms if it is not given. node_timeout must be "
              "at least 20ms longer, which is also its default then."},
    {.path = "redis.groups.<name>.on_degraded", .type = TYPE_CHOICE, GROUP(on_degraded),
     .preset = "warn", .min = ON_DEGRADED_WARN, .words = {"warn", "down"},
     .prose = "Treatment of a master that is a replica, evicts keys, or is the same server as "
              "another one of the group: warn shows it as degraded, down also does without it."},
    {.path = "redis.groups.<name>.eviction", .type = TYPE_CHOICE, GROUP(eviction),
     .preset = "refuse", .min = EVICTION_REFUSE, .words = {"refuse", "allow"},
     .prose = "Whether a master that may evict keys (maxmemory is set, and maxmemory-policy is not "
              "noeviction) has a vote on new locks. allow is dangerous: a master that is short of "
              "memory throws away locks that are held, and two callers then have one lock at the "
              "same time. Held locks are renewed and released in either case."},

    {.path = "policies", .type = TYPE_ITEMS, .min = 0, .max = LIMIT_POLICIES,
     .prose = "How keys are locked: the first policy whose pattern matches the key applies. A "
              "last one for `*` with the defaults is added if there is none."},
    {.path = "policies[]", .type = TYPE_SECTION,
     .prose = "One policy."},
    {.path = "policies[].match", .type = TYPE_PATTERN, .flags = KEY_REQUIRED, POLICY(core.match),
     .example = "jobs/*", .min = 1, .max = LIMIT_PATTERN_BYTES,
     .prose = "Pattern for the whole key: `*` stands for any number of characters (also none, "
              "also `/`), `?` for one byte."},
    {.path = "policies[].group", .type = TYPE_GROUPS, POLICY(core.groups), .example = "main",
     .min = 1, .max = 1,
     .prose = "The group of masters that holds these keys: main, or the only group, if it is not "
              "given."},
    {.path = "policies[].groups", .type = TYPE_GROUPS, POLICY(core.groups),
     .example = "main, other", .min = 1, .max = LIMIT_GROUPS,
     .prose = "Instead of group: several groups over which the keys are spread by rendezvous "
              "hashing. The order does not matter, the names do."},
    {.path = "policies[].algorithm", .type = TYPE_CHOICE, POLICY(core.algorithm),
     .preset = "redlock", .min = ALGORITHM_REDLOCK, .words = {"redlock", "multilock", "single"},
     .prose = "How many masters must grant: redlock more than half, multilock all, single the "
              "only one of its group."},
    {.path = "policies[].prefix", .type = TYPE_TEXT, POLICY(prefix), .preset = "lock:", .min = 0,
     .max = 127,
     .prose = "Text before the key's name in Redis. Every agent must use the same."},
    {.path = "policies[].ttl", .type = TYPE_DURATION, .flags = KEY_RELOADABLE, POLICY(core.ttl_ms),
     .preset = "30s", .min = TTL_MS_MIN, .max = TTL_MS_MAX,
     .prose = "Lease of a caller that names none. At most limits.max_ttl, which is also the "
              "default if it is less. At least four times the group's node_timeout, and 1s if "
              "renew is agent."},
    {.path = "policies[].renew", .type = TYPE_CHOICE, .flags = KEY_RELOADABLE, POLICY(core.renew),
     .preset = "agent", .min = RENEW_AGENT, .words = {"agent", "caller"},
     .prose = "A lease without a ttl of its caller is renewed by the agent's watchdog (agent), or "
              "by the caller. A caller that names a ttl renews by itself unless it asks for the "
              "watchdog."},
    {.path = "policies[].max_hold", .type = TYPE_DURATION, .flags = KEY_RELOADABLE,
     POLICY(core.max_hold_ms), .preset = "10m", .min = TTL_MS_MIN, .max = 8760 * HOUR,
     .prose = "Longest hold, however often it is renewed. It ends the locks of callers that died "
              "without a release. The agent says that the lock is lost a tenth of it, or of the "
              "ttl if that is less, but at least 50 ms before its end."},
    {.path = "policies[].max_hold_bound", .type = TYPE_DURATION, .flags = KEY_RELOADABLE,
     POLICY(core.bound_max_hold_ms), .preset = "1h", .min = TTL_MS_MIN, .max = 8760 * HOUR,
     .prose = "The same for holds that are bound to their caller's connection (bind=connection)."},
    {.path = "policies[].reentrant", .type = TYPE_SWITCH, .flags = KEY_RELOADABLE,
     POLICY(core.reentrant), .preset = "off",
     .prose = "A caller that holds a lock and asks this agent for it again with the same "
              "`owner`, a secret of its own, gets it once more, with the same token; it is free "
              "after as many releases. After a reload to off no caller enters again, not even a "
              "holder."},
    {.path = "policies[].lock_delay", .type = TYPE_DURATION, .flags = KEY_RELOADABLE,
     POLICY(core.lock_delay_ms), .preset = "0ms", .min = 0, .max = TTL_MS_MAX,
     .prose = "Masters keep a key longer than its ttl by this time. When a holder is lost without "
              "a release, the next holder waits so much longer, so that work of the lost one can "
              "end. A release frees the key at once. ttl and lock_delay together are at most "
              "limits.max_ttl."},
    {.path = "policies[].fencing", .type = TYPE_CHOICE, .flags = KEY_RELOADABLE,
     POLICY(core.fencing), .preset = "on", .min = FENCING_OFF, .words = {"off", "on", "redisson"},
     .prose = "Number every grant with a fencing token that only rises, for resources that can "
              "refuse an old holder. After a reload from off to on only the agent that granted a "
              "lock without a number still knows its token. redisson: in one order with "
              "Redisson's RFencedLock, which "
              "needs algorithm: single and format: redisson; a reload does not change that."},
    {.path = "policies[].kind", .type = TYPE_CHOICE, POLICY(kind), .preset = "mutex",
     .min = KIND_MUTEX, .words = {"mutex", "rw"},
     .prose = "mutex: one caller holds the lock. rw: one caller writes, or any number of callers "
              "read. Waiting readers and writers are served in the order in which they came, so "
              "order is fair with rw. Every agent must use the same."},
    {.path = "policies[].format", .type = TYPE_CHOICE, POLICY(format), .preset = "redlock",
     .min = FORMAT_REDLOCK, .words = {"redlock", "redisson"},
     .prose = "How masters store a lock: redlock, as agents and other Redlock clients do, or "
              "redisson, as RLock of Redisson does, to share locks with Java services. Excludes "
              "kind: rw, order: fair and permits. Every agent must use the same."},
    {.path = "policies[].order", .type = TYPE_CHOICE, POLICY(order), .preset = "any",
     .min = ORDER_ANY, .words = {"any", "fair"},
     .prose = "The next holder among callers that wait at different agents: any of them, which is "
              "the fastest, or with fair the one that came first. Callers that wait at one agent "
              "are served in order in any case. Every agent must use the same."},
    {.path = "policies[].permits", .type = TYPE_COUNT, POLICY(core.permits), .preset = "1",
     .min = 1, .max = LIMIT_PERMITS,
     .prose = "How many callers hold a key at once: 1 for a mutex, more for a semaphore, whose "
              "holders have a slot each, with its own fencing tokens. Excludes kind: rw, reentrant "
              "and order: fair. Every agent must use the same."},
    {.path = "policies[].handover_max", .type = TYPE_COUNT, .flags = KEY_RELOADABLE,
     POLICY(core.handover_max), .preset = "16", .min = 0, .max = 1000000,
     .prose = "How many times in a row a released lock is handed to the next caller that waits "
              "at this agent, in one round trip, while callers at other agents wait too. Then "
              "the others have their chance. 0: never. If order is fair, the callers that came "
              "first have it in any case."},
    {.path = "policies[].retry", .type = TYPE_SECTION,
     .prose = "Pauses between the attempts of a caller that waits, if no release is reported."},
    {.path = "policies[].retry.min", .type = TYPE_DURATION, .flags = KEY_RELOADABLE,
     POLICY(core.retry_min_ms), .preset = "20ms", .min = 1 * MS, .max = 1 * MINUTE,
     .prose = "Upper bound of the first pause, which is drawn at random; it doubles every time. "
              "Not above retry.max."},
    {.path = "policies[].retry.max", .type = TYPE_DURATION, .flags = KEY_RELOADABLE,
     POLICY(core.retry_max_ms), .preset = "250ms", .min = 1 * MS, .max = 1 * MINUTE,
     .prose = "Longest pause; a caller whose agent subscribes to releases pauses up to twenty "
              "times as long. If only one of min and max is given, the default of the other gives "
              "way."},

    {.path = "limits", .type = TYPE_SECTION,
     .prose = "Limits of one agent. Beyond them callers are refused, not queued."},
    {.path = "limits.max_ttl", .type = TYPE_DURATION, AGENT(max_ttl_ms), .preset = "60s",
     .min = TTL_MS_MIN_AGENT, .max = TTL_MS_MAX,
     .prose = "Longest lease. Long holds are the watchdog's job, not that of a long ttl."},
    {.path = "limits.wait", .type = TYPE_DURATION, AGENT(wait_ms_max), .preset = "5m", .min = 0,
     .max = 24 * HOUR,
     .prose = "Longest time that a caller may wait for a lock."},
    {.path = "limits.locks", .type = TYPE_COUNT, AGENT(locks_max), .preset = "10000", .min = 1,
     .max = LIMIT_LOCKS,
     .prose = "Locks that are held or being acquired at once."},
    {.path = "limits.waiters", .type = TYPE_COUNT, AGENT(waiters_max), .preset = "4000", .min = 0,
     .max = LIMIT_REQUESTS - 64,
     .prose = "Callers that wait at once. At most limits.connections - 64, which is also the "
              "default if it is less, so that a holder always finds room to release."},
    {.path = "limits.connections", .type = TYPE_COUNT, AGENT(connections_max), .preset = "4096",
     .min = 128, .max = LIMIT_REQUESTS,
     .prose = "Connections to the API at once, counted for each address of listen. Each is an "
              "open file: if their limit (RLIMIT_NOFILE) is too low, there are fewer, and the log "
              "says so at the start."},
    {.path = "limits.body", .type = TYPE_SIZE, AGENT(body_bytes_max), .preset = "4KiB", .min = 1024,
     .max = 1048576,
     .prose = "Largest body of a request."},
    {.path = "limits.header_timeout", .type = TYPE_DURATION, AGENT(header_timeout_ms),
     .preset = "5s", .min = 100 * MS, .max = 5 * MINUTE,
     .prose = "Time in which a request must have arrived as a whole, its body included."},

    {.path = "api", .type = TYPE_SECTION,
     .prose = "Access to the API."},
    {.path = "api.token_file", .type = TYPE_TEXT, .flags = KEY_RELOADABLE, AGENT(token_file),
     .preset = "", .min = 0, .max = CONFIG_TEXT - 1,
     .prose = "File with the bearer token that every API call must carry. Empty for none."},
    {.path = "api.allow_remote", .type = TYPE_FLAG, .flags = KEY_RELOADABLE, AGENT(allow_remote),
     .preset = "false",
     .prose = "Serve the API without a token on addresses that other machines can reach. Every "
              "client there can lock everything."},
    {.path = "api.allowed_hosts", .type = TYPE_HOSTS, .flags = KEY_RELOADABLE, AGENT(allowed_hosts),
     .preset = "", .min = 0, .max = CONFIG_HOSTS,
     .prose = "Names that the Host header may carry on loopback listeners, besides localhost, "
              "127.0.0.1 and [::1]; without a port."},
    {.path = "api.socket_mode", .type = TYPE_MODE, AGENT(socket_mode), .preset = "0660", .min = 0,
     .max = 0777,
     .prose = "Access rights of the API's unix sockets."},

    {.path = "journal", .type = TYPE_SECTION,
     .prose = "The holds of an agent that was killed and started again."},
    {.path = "journal.file", .type = TYPE_TEXT, AGENT(journal_file), .preset = "", .min = 0,
     .max = CONFIG_TEXT - 1,
     .prose = "File on a memory volume that survives the container (an emptyDir with medium: "
              "Memory), with the tokens of all holds: mode 0600, one agent at a time, 1 KiB for "
              "each hold. Empty for none: then a PUT adopts."},

    {.path = "log", .type = TYPE_SECTION,
     .prose = "One line per event on standard error."},
    {.path = "log.level", .type = TYPE_CHOICE, .flags = KEY_RELOADABLE, AGENT(log_level),
     .preset = "info", .min = 0, .words = {"debug", "info", "warn", "error"},
     .prose = "The least important events that are written."},
    {.path = "log.format", .type = TYPE_CHOICE, .flags = KEY_RELOADABLE, AGENT(log_format),
     .preset = "auto", .min = LOG_AUTO, .words = {"auto", "text", "json"},
     .prose = "auto writes text on a terminal and JSON elsewhere."},

    {.path = "metrics", .type = TYPE_SECTION,
     .prose = "The page for Prometheus."},
    {.path = "metrics.detail", .type = TYPE_CHOICE, .flags = KEY_RELOADABLE, AGENT(metrics_detail),
     .preset = "full", .min = METRICS_FULL, .words = {"full", "basic"},
     .prose = "full has all series, about 2,000 for five masters and nine policies. basic has "
              "those that the alerts and the first row of the dashboard need, at most 250 then."},

    {.path = "shutdown", .type = TYPE_SECTION,
     .prose = "The end of the agent, on SIGTERM."},
    {.path = "shutdown.grace", .type = TYPE_DURATION, .flags = KEY_RELOADABLE,
     AGENT(shutdown_grace_ms), .preset = "5s", .min = 0, .max = 1 * HOUR,
     .prose = "Time for open requests to end and for releases to reach the masters."},
    {.path = "shutdown.unreleased", .type = TYPE_CHOICE, .flags = KEY_RELOADABLE,
     AGENT(shutdown_release), .preset = "expire", .min = 0, .words = {"expire", "release"},
     .prose = "Locks still held then: expire lets their leases run out. release frees them as soon "
              "as no caller waits or streams, which is right only if the application has certainly "
              "ended before the agent."},
};
/* clang-format on */
const size_t config_key_count = sizeof(config_keys) / sizeof(config_keys[0]);

bool config_key_is_section(const struct config_key *key)
{
    return key->type == TYPE_SECTION || key->type == TYPE_NAMED || key->type == TYPE_ITEMS;
}

bool config_key_takes_several(const struct config_key *key)
{
    return key->type == TYPE_ADDRESSES || key->type == TYPE_MASTERS || key->type == TYPE_HOSTS ||
           (key->type == TYPE_GROUPS && key->max > 1);
}

enum config_scope config_key_scope(const struct config_key *key)
{
    if (strchr(key->path, '<') != NULL)
        return SCOPE_GROUP;
    return strchr(key->path, '[') != NULL ? SCOPE_POLICY : SCOPE_AGENT;
}

const struct config_key *config_key_find(const char *path)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].path, path) == 0)
            return &config_keys[i];
    return NULL;
}

const char *config_key_name(const struct config_key *key)
{
    const char *dot = strrchr(key->path, '.');
    return dot != NULL ? dot + 1 : key->path;
}

bool config_key_is_child(const struct config_key *parent, const struct config_key *key)
{
    const char *rest = key->path;
    if (parent != NULL) {
        size_t len = strlen(parent->path);
        if (strncmp(rest, parent->path, len) != 0 || rest[len] != '.')
            return false;
        rest += len + 1;
    }
    return strpbrk(rest, ".[<") == NULL;
}

const struct config_key *config_key_child(const struct config_key *parent, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_key_is_child(parent, &config_keys[i]) &&
            strcmp(config_key_name(&config_keys[i]), name) == 0)
            return &config_keys[i];
    return NULL;
}

void *config_key_field(const struct config_key *key, struct config *config, size_t index)
{
    CORE_ASSERT(!config_key_is_section(key));
    switch (config_key_scope(key)) {
    case SCOPE_GROUP:
        CORE_ASSERT(index < LIMIT_GROUPS);
        return (char *)&config->groups[index] + key->offset;
    case SCOPE_POLICY:
        CORE_ASSERT(index < LIMIT_POLICIES);
        return (char *)&config->policies[index] + key->offset;
    case SCOPE_AGENT:
        break;
    }
    return (char *)config + key->offset;
}

const char *config_key_path(const struct config_key *key, const struct config *config, size_t index,
                            char path[CONFIG_PATH])
{
    const char *name = strstr(key->path, "<name>"), *item = strstr(key->path, "[]");
    if (name != NULL)
        snprintf(path, CONFIG_PATH, "%.*s%s%s", (int)(name - key->path), key->path,
                 config->groups[index].name, name + strlen("<name>"));
    else if (item != NULL)
        snprintf(path, CONFIG_PATH, "%.*s[%zu]%s", (int)(item - key->path), key->path, index,
                 item + strlen("[]"));
    else
        snprintf(path, CONFIG_PATH, "%s", key->path);
    return path;
}

int64_t config_key_number(const struct config_key *key, const void *field)
{
    switch (key->size) {
    case sizeof(bool):
        return *(const bool *)field;
    case sizeof(uint32_t):
        return *(const uint32_t *)field;
    default:
        CORE_ASSERT(key->size == sizeof(int64_t));
        return *(const int64_t *)field;
    }
}

void config_key_set_number(const struct config_key *key, void *field, int64_t number)
{
    switch (key->size) {
    case sizeof(bool):
        CORE_ASSERT(number == 0 || number == 1);
        *(bool *)field = number;
        return;
    case sizeof(uint32_t):
        CORE_ASSERT(number >= 0 && number <= UINT32_MAX);
        *(uint32_t *)field = (uint32_t)number;
        return;
    default:
        CORE_ASSERT(key->size == sizeof(int64_t));
        *(int64_t *)field = number;
    }
}
