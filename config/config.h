/* The configuration of an agent, read from the YAML file, the environment and the flags. */
#ifndef LOCKAGENT_CONFIG_H
#define LOCKAGENT_CONFIG_H

#include <stdio.h>

#include "agent/core/core.h"
#include "agent/core/layout.h"

enum { CONFIG_LISTENERS = 8, CONFIG_HOSTS = 32, CONFIG_TEXT = 512 };

/* `host:port`, `[v6]:port` or `unix:/path`. */
struct config_address {
    bool is_unix;
    char host[256]; /* The host without brackets, or the socket's path. */
    uint16_t port;  /* 0: any free port, printed in the log. */
    char text[300]; /* The address as it was written. */
    bool loopback;  /* unix, 127.0.0.0/8, ::1 or localhost. */
};

struct config_listener {
    struct config_address addresses[CONFIG_LISTENERS];
    size_t count; /* 0: there is no such listener (admin alone). */
};

/* TLS to the masters of a group whose URLs ask for it. The files are read at every connect. */
struct config_tls {
    char ca_file[CONFIG_TEXT];                          /* "": the system's authorities */
    char cert_file[CONFIG_TEXT], key_file[CONFIG_TEXT]; /* "": no client certificate */
    char server_name[256]; /* The name in the certificates. "": the host of each URL. */
};

/* One Redis master, from its URL and its group's keys. */
struct config_master {
    char url[CONFIG_TEXT]; /* For logs: without user and password. */
    struct config_address address;
    bool tls; /* rediss:// */
    int db;
    char username[128]; /* "": the default user. */
    char password[256]; /* From the URL. "": none, or password_file of the group. */
    /* Its name in the layout (R23), in lower case: `host:port/db`, or that of the URL's fragment
     * (is_named). */
    char name[316];
    bool is_named;
};

enum on_degraded { ON_DEGRADED_WARN, ON_DEGRADED_DOWN };
enum eviction { EVICTION_REFUSE, EVICTION_ALLOW };

struct config_group {
    char name[64];
    struct config_master masters[LIMIT_MASTERS];
    size_t master_count;
    uint32_t node_timeout_ms;
    uint32_t drift_ppm;
    char username[128];              /* The user of masters whose URL names none. */
    char password_file[CONFIG_TEXT]; /* Read at every connect. "": none. */
    int db;                          /* The database of masters whose URL names none. */
    struct config_tls tls;           /* For masters whose URL is rediss://. */
    bool durable;                    /* No master forgets a key, no replica is promoted (D5.3). */
    bool guard;                      /* A master that may have forgotten keys has no vote (D5.3). */
    uint32_t replicas_ack;           /* Replicas that must have a vote (R21). 0: none are asked. */
    uint32_t replicas_timeout_ms;    /* The time that the master waits for its replicas. */
    enum on_degraded on_degraded;    /* The treatment of a degraded master (D5.4). */
    enum eviction eviction;          /* The vote of a master that may evict keys (D5.4). */
};

/* MUTEX: one holder. RW: any number of readers, or one writer (R17). */
enum lock_kind { KIND_MUTEX, KIND_RW };
enum turn_order { ORDER_ANY, ORDER_FAIR };
/* The form in which masters store a lock: that of agents, or that of Redisson's RLock (R22). */
enum lock_format { FORMAT_REDLOCK, FORMAT_REDISSON };

struct config_policy {
    struct core_policy core;
    /* core.form follows from these and from core.permits. */
    enum lock_kind kind;
    enum turn_order order;
    enum lock_format format;
    char prefix[128];
};

enum metrics_detail { METRICS_FULL, METRICS_BASIC };
enum log_format { LOG_AUTO, LOG_TEXT, LOG_JSON };

struct config {
    struct config_listener listen, admin;
    char token_file[CONFIG_TEXT]; /* The bearer token's file. "": none. */
    bool allow_remote;            /* Remote listeners need no token. */
    char allowed_hosts[CONFIG_HOSTS][256];
    size_t allowed_host_count;
    unsigned socket_mode;

    struct config_group groups[LIMIT_GROUPS];
    size_t group_count;
    struct config_policy policies[LIMIT_POLICIES]; /* The last one is for "*", written or not. */
    size_t policy_count;

    uint32_t max_ttl_ms;
    int64_t wait_ms_max;
    uint32_t locks_max, waiters_max, connections_max;
    uint32_t body_bytes_max, header_timeout_ms;

    int log_level; /* enum log_level */
    enum log_format log_format;
    enum metrics_detail metrics_detail;
    int64_t shutdown_grace_ms;
    bool shutdown_release;          /* shutdown.unreleased is release. */
    char journal_file[CONFIG_TEXT]; /* "": no journal. */
};

/* One thing that is wrong with a configuration. */
struct config_error {
    int line, column; /* 1-based. 0: not from the file. */
    char text[512];   /* `file:line:column: key: what is wrong; what is allowed` */
};
struct config_errors {
    size_t count; /* Number of all errors; `list` may hold fewer. */
    struct config_error list[64];
};

/* Reads `path` and the environment (`environ`-style array; NULL: none), then `overrides`
 * ("key=value", count of them, from flags); flag > environment > file > default. Returns true and
 * sets `*ret_config` if there is no error. Otherwise returns false, with every error in the order
 * of the file, and leaves `*ret_config` as it was. */
bool config_load(const char *path, char *const *environment, const char *const *overrides,
                 size_t override_count, struct config *ret_config,
                 struct config_errors *ret_errors);

/* Reads as config_load() does, for an agent that runs. Also refuses a change from `running` that
 * needs a restart. */
bool config_load_next(const struct config *running, const char *path, char *const *environment,
                      const char *const *overrides, size_t override_count, struct config *ret_next,
                      struct config_errors *ret_errors);

/* Prints the configuration in force as YAML, from which config_load() makes the same configuration.
 * Secrets are not printed. */
void config_print(const struct config *config, FILE *out);

/* Prints the table of all keys as Markdown (for docs/configuration.md) or as the annotated sample
 * file. */
void config_print_markdown(FILE *out);
void config_print_sample(FILE *out);
/* Prints the table of all relations between keys as Markdown (for docs/configuration.md). */
void config_print_relations(FILE *out);

/* Reads a secret from a file, without the trailing newline. Returns its length, or -1 with errno
 * set (EFBIG: too long; EILSEQ: with a NUL byte), of which config_secret_fault() makes a text. */
int config_read_secret(const char *path, char *secret, size_t size);
const char *config_secret_fault(int error);

/* Parses a duration with its unit (`500ms`, `30s`, `5m`, `1h`, also `1.5s`), of the configuration
 * or of the API. Returns true and sets `*ret_ms`, or returns false. */
bool config_parse_duration(struct text text, int64_t *ret_ms);
/* Writes a duration as config_parse_duration() reads it, terminated, in the largest unit that needs
 * no fraction (`1500ms`, `30s`, `5m`). Returns `out`. */
const char *config_print_duration(int64_t ms, char *out, size_t size);

/* Returns true if keys of the policy are in the group. */
bool config_policy_uses(const struct config *config, size_t policy, size_t group);

/* Returns true if agents compare the layout of the group (R23): it has a guard, and a policy uses
 * it. */
bool config_group_has_layout(const struct config *config, size_t group);

/* Returns the least number of masters with which a policy of the group can grant locks. */
size_t config_group_quorum(const struct config *config, size_t group);

/* Returns true if a majority of an even number of masters decides: one master fewer would survive
 * the loss of as many. */
bool config_group_is_even(const struct config *config, size_t group);

/* Writes the layout of the group (R23). Returns its length; 0: it would be longer than
 * LAYOUT_BYTES. */
size_t config_layout(const struct config *config, size_t group, char text[LAYOUT_BYTES + 1]);

/* Returns the set of groups that share a prefix with this one, and itself (R23). */
uint8_t config_group_kin(const struct config *config, size_t group);

/* Returns how many requests may be in the core at once: one for each connection of each listener.
 * */
uint32_t config_requests_max(const struct config *config);

/* Fills the core's view of `config`. `groups`, `policies` and `names` are the caller's arrays
 * (LIMIT_GROUPS, LIMIT_POLICIES, LIMIT_GROUPS); `ret_core` points into them. */
void config_for_core(const struct config *config, uint64_t seed, struct core_group *groups,
                     struct core_policy *policies, const char **names,
                     struct core_config *ret_core);

#endif
