/* The configuration of an agent: what the YAML file, the environment and the flags say, checked. */
#ifndef LOCKAGENT_CONFIG_H
#define LOCKAGENT_CONFIG_H

#include <stdio.h>

#include "agent/core/core.h"

enum { CONFIG_LISTENERS = 8, CONFIG_HOSTS = 32, CONFIG_TEXT = 512 };

/* `host:port`, `[v6]:port` or `unix:/path`. */
struct config_address {
    bool is_unix;
    char host[256]; /* without brackets; or the socket's path */
    uint16_t port;  /* 0: any free port, printed in the log */
    char text[300]; /* as written */
    bool loopback;  /* unix, 127.0.0.0/8, ::1 or localhost */
};

struct config_listener {
    struct config_address addresses[CONFIG_LISTENERS];
    size_t count; /* admin: 0 when there is none */
};

/* TLS to the masters of a group whose URLs ask for it. The files are read at every connect. */
struct config_tls {
    char ca_file[CONFIG_TEXT];                          /* "": the system's authorities */
    char cert_file[CONFIG_TEXT], key_file[CONFIG_TEXT]; /* "": no client certificate */
    char server_name[256]; /* whom certificates are for; "": the host of each URL */
};

/* One Redis master, from its URL and its group's keys. */
struct config_master {
    char url[CONFIG_TEXT]; /* for people: without user and password */
    struct config_address address;
    bool tls; /* rediss:// */
    int db;
    char username[128]; /* "": the default user */
    char password[256]; /* from the URL; "": none, or password_file of the group */
};

enum on_degraded { ON_DEGRADED_WARN, ON_DEGRADED_DOWN };
enum eviction { EVICTION_REFUSE, EVICTION_ALLOW };

struct config_group {
    char name[64];
    struct config_master masters[LIMIT_MASTERS];
    size_t master_count;
    uint32_t node_timeout_ms;
    uint32_t drift_ppm;
    char username[128];              /* for masters whose URL names none */
    char password_file[CONFIG_TEXT]; /* read at every connect; "" for none */
    int db;                          /* for masters whose URL names none */
    struct config_tls tls;           /* for masters whose URL asks for it */
    bool durable;                    /* masters never forget a key, no replica is promoted (D5.3) */
    bool guard;                      /* a master that may have forgotten keys has no vote (D5.3) */
    uint32_t replicas_ack;           /* replicas that must have a vote (R21); 0: none are asked */
    uint32_t replicas_timeout_ms;    /* and how long the master waits for them */
    enum on_degraded on_degraded;    /* what becomes of a master that should not be one (D5.4) */
    enum eviction eviction;          /* whether one that may evict keys has a vote (D5.4) */
};

/* Who may hold a key together: nobody; or any number of readers, and a writer alone (R17). */
enum lock_kind { KIND_MUTEX, KIND_RW };
enum turn_order { ORDER_ANY, ORDER_FAIR };
/* How masters store a lock: as agents do, or as Redisson's RLock does, shared with it (R22). */
enum lock_format { FORMAT_REDLOCK, FORMAT_REDISSON };

struct config_policy {
    struct core_policy core;
    /* What core.form, and permits, are made of. */
    enum lock_kind kind;
    enum turn_order order;
    enum lock_format format;
    char prefix[128];
};

enum log_format { LOG_AUTO, LOG_TEXT, LOG_JSON };

struct config {
    struct config_listener listen, admin;
    char token_file[CONFIG_TEXT];          /* api.token_file: bearer token; "" for none */
    bool allow_remote;                     /* api.allow_remote: remote, and no token, on purpose */
    char allowed_hosts[CONFIG_HOSTS][256]; /* api.allowed_hosts */
    size_t allowed_host_count;
    unsigned socket_mode; /* api.socket_mode */

    struct config_group groups[LIMIT_GROUPS];
    size_t group_count;
    struct config_policy policies[LIMIT_POLICIES]; /* the last one is the implicit "*" */
    size_t policy_count;

    uint32_t max_ttl_ms;
    int64_t wait_ms_max;
    uint32_t locks_max, waiters_max, connections_max;
    uint32_t body_bytes_max, header_timeout_ms;

    int log_level; /* enum log_level */
    enum log_format log_format;
    int64_t shutdown_grace_ms;
    bool shutdown_release;          /* shutdown.unreleased: release */
    char journal_file[CONFIG_TEXT]; /* journal.file; "" for none */
};

/* One thing that is wrong with a configuration. */
struct config_error {
    int line, column; /* 1-based; 0: not from the file */
    char text[512];   /* `file:line:column: key: what is wrong; what is allowed` */
};
struct config_errors {
    size_t count; /* may be larger than what `list` holds */
    struct config_error list[64];
};

/* Reads `path` and the environment (`environ`-style array; NULL: none), then `overrides`
 * ("key=value", count of them, from flags); flag > environment > file > default. True and
 * `*ret_config` set when all is well; else false, `*ret_config` untouched, and every error at once,
 * in the order of the file. */
bool config_load(const char *path, char *const *environment, const char *const *overrides,
                 size_t override_count, struct config *ret_config,
                 struct config_errors *ret_errors);

/* As config_load(), for an agent that runs: refused, with their places, are also keys that can not
 * change from `running` without a restart. */
bool config_load_next(const struct config *running, const char *path, char *const *environment,
                      const char *const *overrides, size_t override_count, struct config *ret_next,
                      struct config_errors *ret_errors);

/* Prints the whole effective configuration as YAML that config_load() reads back to the same;
 * secrets are not printed. */
void config_print(const struct config *config, FILE *out);

/* Prints the table of all keys as Markdown (for docs/configuration.md) or as the annotated sample
 * file. */
void config_print_markdown(FILE *out);
void config_print_sample(FILE *out);
/* Prints the table of all relations between keys as Markdown (for docs/configuration.md). */
void config_print_relations(FILE *out);

/* Reads a secret from a file, without the trailing newline. Returns its length, or -1 with errno
 * set (EFBIG: too long; EILSEQ: a NUL byte stands in it; config_secret_fault() has the words). */
int config_read_secret(const char *path, char *secret, size_t size);
const char *config_secret_fault(int error);

/* Parses a duration that carries its unit (`500ms`, `30s`, `5m`, `1h`, also `1.5s`). True and
 * `*ret_ms` set, or false. Used for the YAML and for the API's parameters alike. */
bool config_parse_duration(struct text text, int64_t *ret_ms);
/* Writes a duration as config_parse_duration() reads it, terminated, in the largest unit that needs
 * no fraction (`1500ms`, `30s`, `5m`). Returns `out`. */
const char *config_print_duration(int64_t ms, char *out, size_t size);

/* With how many masters the group can grant locks under at least one of the policies that name
 * it. */
size_t config_group_quorum(const struct config *config, size_t group);

/* How many requests may be inside the core at once: one for each connection of every listener. */
uint32_t config_requests_max(const struct config *config);

/* Fills the core's view of `config`. `groups`, `policies` and `names` are the caller's arrays
 * (LIMIT_GROUPS, LIMIT_POLICIES, LIMIT_GROUPS); `ret_core` points into them. */
void config_for_core(const struct config *config, uint64_t seed, struct core_group *groups,
                     struct core_policy *policies, const char **names,
                     struct core_config *ret_core);

#endif
