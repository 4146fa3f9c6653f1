/* The stage of the integration tests: real redis-servers, real agents, real sockets, in a folder
 * that goes away with the test.
 *
 * One world per test process. Criterion calls world_open() before and world_close() after each
 * test, also after a failed assertion. Each process that was started dies with the test process
 * (PR_SET_PDEATHSIG), also when that is killed, and a caretaker process removes the folder then.
 * Strings and replies belong to the world and are freed with it. */
#ifndef LOCKAGENT_TESTS_HARNESS_H
#define LOCKAGENT_TESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <criterion/criterion.h>
#include <hiredis/hiredis.h>
#include <jansson.h>

enum {
    WORLD_MASTERS = 8,
    WORLD_AGENTS = 40,
    PATIENCE_MS = 15000, /* how long a test waits for an event before it fails */
};

void world_open(void);
void world_close(void);

/* Formats into memory of the world. */
char *format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *repeat(const char *unit, size_t count);
int64_t boottime_ms(void);
int64_t wall_ms(void);
void sleep_ms(int64_t ms);
/* Writes `text` to `name` in the world's folder (`name` may be NULL: a fresh one); returns the
 * path. */
const char *write_file(const char *name, const char *text);
char *read_whole_file(const char *path);
const char *world_path(const char *name);

/* True as soon as `condition` is; looked at every 10 ms for at most `ms`. */
#define eventually_within(ms, condition)                                                           \
    __extension__({                                                                                \
        const int64_t until_ = boottime_ms() + (ms);                                               \
        bool holds_ = (condition);                                                                 \
        while (!holds_ && boottime_ms() < until_) {                                                \
            sleep_ms(10);                                                                          \
            holds_ = (condition);                                                                  \
        }                                                                                          \
        holds_;                                                                                    \
    })
#define eventually(condition) eventually_within(PATIENCE_MS, condition)

/* ---- masters --------------------------------------------------------------------------------- */

enum masters_kind {
    MASTERS_FORGETFUL, /* nothing is written to disk */
    MASTERS_DURABLE,   /* append-only file, fsync always, in a folder that survives the process */
};
/* Starts `count` masters that vote from the beginning, as `lockagent trust --new` leaves them
 * (master_mark()); the first listens on TCP, the others on unix sockets. Agents log in as a
 * user with the rights of deploy/acl/full.acl, the one to compare, and no others, unless an
 * `option` and its value are given to each redis-server, e.g. "--requirepass". */
void masters_start(size_t count, enum masters_kind kind);
/* Returns the right to compare and delete (R24), which the ACL files cannot name because not every
 * server has the command; "" if this one has none. */
const char *masters_right_to_compare(void);
/* Like masters_start(), for masters that no agent has ever used: they do not vote yet. */
void masters_start_new(size_t count, enum masters_kind kind);
void masters_start_with(size_t count, enum masters_kind kind, const char *option,
                        const char *value);
/* The same for masters whose wall clocks master_clock() sets. */
void masters_start_with_clocks(size_t count);
void master_clock(size_t index, int64_t offset_ms); /* against ours */
/* The same over TLS alone, all on TCP, with the certificate `master` that `ca` has signed. Makes
 * both for 127.0.0.1 if they are missing. `auth_clients`: yes, optional or no. */
void masters_start_over_tls(size_t count, const char *auth_clients);
/* Certificates of openssl(1), in NAME.pem and NAME.key of the world's folder; returns the path of
 * the first. `alternatives` as in IP:127.0.0.1,DNS:localhost; negative days: it has expired. */
const char *authority(const char *name);
const char *certificate(const char *name, const char *signed_by, const char *alternatives,
                        int days);
/* Reserves `count` addresses without starting anything: master_start() does that later. */
void masters_plan(size_t count, enum masters_kind kind);
void master_start(size_t index); /* Starts it and waits until it answers. */
/* The first `count` masters, side by side; none of them runs. */
void masters_start_again(size_t count);
void master_kill(size_t index);      /* SIGKILL */
void master_lose_data(size_t index); /* Deletes the volume of a master that does not run. */
void master_freeze(size_t index);    /* SIGSTOP */
void master_thaw(size_t index);      /* SIGCONT */
/* Marks a fresh master, so that it votes (D5.3). Without a password, in the selected database. */
void master_mark(size_t index);
size_t master_count(void);
/* Makes living masters forget the layouts of agents that have ended (R23), as `lockagent trust`
 * does. Without it another layout waits for more than 10 s. */
void masters_forget_layouts(void);
const char *master_url(size_t index);

/* A command on a master, through a connection of the test's own. Never NULL; valid until the next
 * call. */
redisReply *master_do(size_t index, const char *format, ...);
/* On how many of the living masters the key (as stored, with prefix) is there. */
size_t masters_with(const char *stored_key);
/* The bucket in which masters keep the fencing number of a key under the default prefix (R12). */
const char *bucket_of(const char *key);
/* The number that a master has in that bucket; 0: none. */
int64_t master_number(size_t index, const char *key);
/* The string stored there, or NULL. */
const char *master_get(size_t index, const char *stored_key);
int64_t master_pttl(size_t index, const char *stored_key);

/* ---- agents ---------------------------------------------------------------------------------- */

struct agent {
    pid_t pid; /* 0: not running */
    int port;  /* port of the API; 0: only a unix socket */
    int admin_port;
    const char *unix_path; /* NULL: none */
    const char *bearer;    /* sent with every call of the helpers below, unless NULL */
    const char *config;    /* path of the YAML */
    const char *log;       /* path of its stderr */
    int starts;
};

struct agent_options {
    const char *listen;    /* YAML value; NULL: 127.0.0.1:0 */
    const char *unix_path; /* listens there as well */
    const char *masters;   /* YAML list; NULL: all masters of the world */
    /* more lines of the group, indented by six spaces; if they name neither `durable` nor `guard`,
     * the group is durable */
    const char *group;
    /* more top-level YAML; if it does not set `shutdown`, the grace is short */
    const char *extra;
    /* NULL: 200ms, generous for a busy machine; ttl must be 4 times that */
    const char *node_timeout;
    bool admin;     /* with an admin listener */
    bool not_ready; /* do not wait for /readyz */
};
/* Starts an agent and waits until it is ready. `options` may be NULL. */
struct agent *agent_start(const struct agent_options *options);
/* Writes the configuration that agent_start() would use; returns its path. */
const char *agent_config(const struct agent_options *options);
/* after agent_kill() or agent_stop(); the port is another one */
void agent_restart(struct agent *agent);
void agent_kill(struct agent *agent); /* SIGKILL */
/* SIGTERM and agent_ended(). */
int agent_stop(struct agent *agent);
/* Waits for the end; the exit status, or -1 if the agent had to be killed or ended by a signal. */
int agent_ended(struct agent *agent);
/* Returns a line of /proc/PID/status, such as `VmRSS:`; 0 under an address sanitizer, which keeps
 * freed memory. */
long agent_memory_kib(const struct agent *agent, const char *line);
void agent_signal(struct agent *agent, int signal);
/* How many log lines have this "msg" (NULL: any) and hold `part` (NULL: any). */
size_t agent_logged(const struct agent *agent, const char *message, const char *part);
/* The last such line, or NULL. */
const char *agent_log_line(const struct agent *agent, const char *message, const char *part);

/* Runs the agent's program with arguments (NULL-terminated) until it ends; at most PATIENCE_MS. */
struct outcome {
    int exit_status; /* -1: by a signal */
    const char *out, *err;
};
struct outcome agent_run(const char *const *arguments);
/* The same for any program, with a file as its standard input (NULL: none). */
struct outcome program_run(const char *program, const char *const *arguments,
                           const char *stdin_path);

/* ---- HTTP ------------------------------------------------------------------------------------ */

struct reply {
    long status;         /* 0: the connection ended without a reply; -1: none came in time */
    const char *headers; /* as received */
    const char *body;
    size_t body_length;
    json_t *json; /* JSON of the body, or NULL */
};

struct call {
    const char *method;     /* NULL: GET */
    const char *path;       /* with query, sent as it is */
    const char *headers[8]; /* "Name: value", NULL-terminated */
    const char *body;       /* NULL: none */
    bool admin;             /* to the admin listener */
    bool over_unix;
    int64_t timeout_ms; /* 0: 30 s */
};
struct reply *http(const struct agent *agent, const struct call *call);
struct reply *get(const struct agent *agent, const char *path);
/* `parameters` is a query string such as "ttl=2s&wait=1s", or NULL. */
struct reply *acquire(const struct agent *agent, const char *key, const char *parameters);
/* The same for a lock that is free. It is granted also on a busy machine: masters that do not vote
 * in time are asked again. */
struct reply *acquire_free(const struct agent *agent, const char *key, const char *parameters);
struct reply *renew(const struct agent *agent, const char *key, const char *token,
                    const char *parameters);
struct reply *release(const struct agent *agent, const char *key, const char *token);
/* Releases a lock, and returns when a quorum of masters has confirmed it. Masters of a busy machine
 * may reply too late for a 204: then it is 202, and the caller asks again. */
void give_back(const struct agent *agent, const char *key, const char *token);
/* Asks for a lock that another caller has, and expects 409 `lock_held`. Masters of a busy machine
 * may reply too late for that: then it is 503 `quorum_unavailable`, and the caller asks again.
 * Returns the refusal. */
struct reply *expect_lock_held(const struct agent *agent, const char *key, const char *parameters);
/* Returns when a renewal has prolonged the validity of a hold that this agent has with a watchdog.
 * A test that waits for renewals can give a long lease, which outlasts a pause of the machine. */
void await_renewal(const struct agent *agent, const char *key);
/* Releases a lock of masters some of which are away, so that it may stay 202 (R6). */
void release_or_owe(const struct agent *agent, const char *key, const char *token);

/* Value of a header (the first of that name), or NULL. */
const char *header(const struct reply *reply, const char *name);
/* Return members of the JSON body by dotted path; 0, NULL, or -1 if there is none. */
const json_t *member(const struct reply *reply, const char *path);
int64_t number(const struct reply *reply, const char *path);
const char *string(const struct reply *reply, const char *path);
const char *code(const struct reply *reply);  /* "" if there is none */
const char *token(const struct reply *reply); /* Fails the test if there is none. */

/* Requests that are out while the test does other things, and requests that no decent client would
 * send. */
int wire_open(const struct agent *agent);
void wire_send(int wire, const char *bytes, size_t length);
void wire_say(int wire, const char *text);
/* one reply; leaves the connection open */
struct reply *wire_receive(int wire, int64_t timeout_ms);
void wire_close(int wire);
bool wire_is_silent(int wire); /* nothing to read, and not closed */
/* Receives the lines of a stream until one has the text `event`. Fails if none comes within
 * PATIENCE_MS, or if that line does not have the text `part`. */
void wire_expect_event(int wire, const char *event, const char *part);
/* Like wire_open(), for a caller whose socket has a small receive buffer. */
int wire_open_deaf(const struct agent *agent);
/* The token of the grant that lies unread there. */
const char *wire_unread_token(int wire);
/* Opens a connection and sends a request without body; wire_receive() gets the reply. */
int wire_request(const struct agent *agent, const char *method, const char *path,
                 const char *headers);
/* Connects, sends, receives one reply, closes. */
struct reply *wire_exchange(const struct agent *agent, const char *bytes);

/* The same for a request put together from its parts; `headers` are whole lines with their ends, or
 * NULL, as may be `body`. */
struct reply *wire_ask(const struct agent *agent, const char *method, const char *target,
                       const char *headers, const char *body);

/* Fails the test unless the reply has this status and code (NULL: any). */
void expect_reply(const struct reply *reply, long status, const char *expected_code,
                  const char *file, int line);
#define expect(reply, status, code) expect_reply(reply, status, code, __FILE__, __LINE__)

/* Returns the state that GET /locks/{key} reports. */
const char *key_state(const struct agent *agent, const char *key); /* "held", "free", "unknown" */
bool held_here(const struct agent *agent, const char *key);        /* a valid hold of this agent */
/* by its exact name and labels; -1: not there */
double metric(const struct agent *agent, const char *series);
/* How many callers wait, as the status page says: metrics are up to 250 ms old. */
int waiting_at(const struct agent *agent);

#endif
