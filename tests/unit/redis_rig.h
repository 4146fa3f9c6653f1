/* The rig of the tests of the Redis room: real redis-servers in a temporary folder, and a recorder
 * in place of the core. */
#ifndef LOCKAGENT_TEST_REDIS_RIG_H
#define LOCKAGENT_TEST_REDIS_RIG_H

#include <criterion/criterion.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/redis/asking.h"
#include "agent/redis/redis.h"
#include "tests/free_port.h"

enum { SERVERS = 3, RECORDS = 8192, POLICY_FENCED = 0, POLICY_PLAIN = 1 };

#define BIG 1760000000000000u
#define A40 "0101010101010101010101010101010101010101"
#define B40 "0202020202020202020202020202020202020202"
#define AGENT ":000000a1:" /* the agent of item_of() */
#define BIG_TEXT "1760000000000000"
#define BUCKET_OF_K "lockagent:number:lock:8678" /* the bucket of lock key `lock:k` (R12) */

/* ---- servers ---- */

struct server {
    pid_t pid;
    int port;
    char dir[64], socket[80], rdb[80];
    redisContext *control; /* a connection of the test's own */
};

/* Starts the server again in its folder; `options` is NULL or a list that ends with NULL. */
static inline void server_run(struct server *server, const char *const *options)
{
    char port[16];
    snprintf(port, sizeof(port), "%d", server->port);
    const char *argv[64] = {"redis-server", "--port",    port,
                            "--bind",       "127.0.0.1", "--unixsocket",
                            server->socket, "--dir",     server->dir,
                            "--save",       "",          "--appendonly",
                            "no",           "--logfile", "log",
                            "--daemonize",  "no",        "--enable-debug-command",
                            "yes"};
    unsigned argc = 19;
    for (unsigned i = 0; options && options[i]; i++)
        argv[argc++] = options[i];
    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(argv[0], (char **)(uintptr_t)argv);
        _exit(127);
    }
}

static inline void server_control(struct server *server)
{
    for (int i = 0; i < 2000; i++) {
        server->control = redisConnectUnix(server->socket);
        if (server->control && !server->control->err)
            return;
        redisFree(server->control);
        usleep(5000);
    }
    cr_assert_fail("redis-server did not start");
}

static inline void server_start(struct server *server, const char *const *options)
{
    memset(server, 0, sizeof(*server));
    strcpy(server->dir, "/tmp/lockagent-redis-XXXXXX");
    cr_assert(mkdtemp(server->dir));
    snprintf(server->socket, sizeof(server->socket), "%s/s", server->dir);
    server->port = free_port();
    server_run(server, options);
    server_control(server);
}

static inline void server_kill(struct server *server)
{
    if (server->control) {
        redisFree(server->control);
        server->control = NULL;
    }
    if (server->pid) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
        server->pid = 0;
    }
}

static inline void server_remove(struct server *server)
{
    server_kill(server);
    static const char *const files[] = {"s", "log", "dump.rdb", "nodes.conf", "password"};
    char path[128];
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", server->dir, files[i]);
        unlink(path);
    }
    rmdir(server->dir);
}

/* Runs a command on the test's own connection; the text of its reply, numbers as digits, NULL
 * for nil. */
static inline const char *ask(struct server *server, const char *format, ...)
{
    static char text[4096];
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(server->control, format, args);
    va_end(args);
    cr_assert(reply, "%s: %s", format, server->control->errstr);
    bool nil = reply->type == REDIS_REPLY_NIL;
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(text, sizeof(text), "%lld", reply->integer);
    else
        snprintf(text, sizeof(text), "%s", reply->str ? reply->str : "");
    freeReplyObject(reply);
    return nil ? NULL : text;
}
static inline long long ask_number(struct server *server, const char *command, const char *key)
{
    return strtoll(ask(server, "%s %s", command, key), NULL, 10);
}

/* ---- fencing numbers (R12) ---- */

/* Returns the key of the bucket in which the number of a lock key with prefix `lock:` is kept. */
static inline const char *bucket_key(const char *lock_key)
{
    static char key[64];
    snprintf(key, sizeof(key), NUMBER_KEY "lock:%u", asking_bucket(lock_key));
    return key;
}

static inline void store_number(struct server *server, const char *lock_key, const char *number)
{
    ask(server, "ZADD %s %s n", bucket_key(lock_key), number);
}

/* Returns the stored number as a text; NULL if there is none. */
static inline const char *stored_number(struct server *server, const char *lock_key)
{
    return ask(server, "ZSCORE %s n", bucket_key(lock_key));
}

/* ---- the recorder ---- */

struct record {
    enum event_kind kind;
    uint8_t master;
    enum op op;
    uint32_t slot;
    enum vote vote;
    uint64_t fence, ticket;
    int64_t pttl_ms;
    char holder[LIMIT_LABEL_BYTES + 1];
    enum mode mode;
    uint32_t readers, agents;
    slot_set taken;
    bool tickets, is_native, is_deleted;
    uint16_t epoch;
    int64_t clock_offset_us;
    uint64_t at_ns;
};

static struct rig {
    uv_loop_t loop;
    uv_timer_t clock;  /* only makes uv_run() return */
    uv_prepare_t last; /* runs after the room's own: started before it */
    bool send_before_sleep;
    struct config *config;
    struct redis *redis;
    struct record records[RECORDS];
    unsigned count;
    unsigned outcomes[REDIS_OUTCOME_COUNT];
    int64_t latency_us; /* latency of the last command that was answered */
    char states[64][200];
    unsigned state_count;
    int64_t clock_off_us;
    bool sending; /* inside redis_send() */
    bool stopped;
    unsigned resend; /* replies that are answered by another send, from within the sink */
    uint32_t next_slot;
    int64_t clock_ms;  /* the masters' clocks in commands (R5); 0: none */
    bool native;       /* acquires may go by native commands (R24) */
    unsigned expected; /* replies */
} rig;

static inline uint32_t rig_send(enum op op, master_set masters, const struct send_item *items,
                                unsigned count);

static inline struct record *new_record(enum event_kind kind)
{
    cr_assert_lt(rig.count, RECORDS);
    struct record *record = &rig.records[rig.count++];
    *record = (struct record){.kind = kind, .at_ns = uv_hrtime()};
    return record;
}

static inline void take_reply(const struct event_reply *reply)
{
    struct record *record = new_record(EVENT_REPLIES);
    record->master = reply->master;
    record->op = reply->op;
    record->slot = reply->ref.slot;
    record->vote = reply->vote;
    record->fence = reply->fence;
    record->ticket = reply->ticket;
    record->pttl_ms = reply->occupant.left_ms;
    record->mode = reply->occupant.mode;
    record->readers = reply->occupant.readers;
    record->agents = reply->agents;
    record->taken = reply->occupant.taken;
    record->tickets = reply->tickets;
    record->is_native = reply->is_native;
    record->is_deleted = reply->is_deleted;
    cr_assert_leq(reply->occupant.label.len, LIMIT_LABEL_BYTES);
    if (reply->occupant.label.len)
        memcpy(record->holder, reply->occupant.label.at, reply->occupant.label.len);
    if (rig.resend > 0) {
        rig.resend--;
        struct send_item item = {.key = {"again", 5}, .ttl_ms = 1000, .policy = POLICY_PLAIN};
        rig_send(OP_READ, (master_set)(1u << reply->master), &item, 1);
    }
}

static inline void take_event(void *arg, struct event *event)
{
    cr_assert_eq(arg, &rig);
    cr_assert_not(rig.sending, "the sink was called from within redis_send()");
    if (event->kind != EVENT_REPLIES) {
        struct record *record = new_record(event->kind);
        record->master = event->master.master;
        record->epoch = event->master.epoch;
        record->clock_offset_us = event->master.clock_offset_us;
        return;
    }
    const struct event_reply *replies = event->replies.at;
    cr_assert_geq(event->replies.count, 1);
    for (unsigned i = 0; i < event->replies.count; i++) {
        cr_assert(replies[i].op == replies[0].op && replies[i].master == replies[0].master);
        take_reply(&replies[i]);
    }
}

static inline void take_observation(void *arg, uint8_t group, uint8_t master, enum op op,
                                    enum redis_outcome outcome, int64_t latency_us)
{
    (void)arg, (void)group, (void)master, (void)op;
    cr_assert_not(rig.sending);
    cr_assert((latency_us == -1) == (outcome == REDIS_OUTCOME_NOT_SENT));
    rig.outcomes[outcome]++;
    if (outcome == REDIS_OUTCOME_OK)
        rig.latency_us = latency_us;
}

static inline void take_clock(void *arg, uint8_t group, int64_t offset_us)
{
    (void)arg, (void)group;
    rig.clock_off_us = offset_us;
}

static inline void take_state(void *arg, uint8_t group, uint8_t master, enum redis_state state,
                              const char *text)
{
    (void)arg, (void)group;
    cr_assert_not(rig.sending);
    snprintf(rig.states[rig.state_count++ % 64], sizeof(rig.states[0]), "%u %s %s", master,
             redis_state_name(state), text);
}

static inline bool state_was_told(const char *part)
{
    for (unsigned i = 0; i < rig.state_count && i < 64; i++)
        if (strstr(rig.states[i], part))
            return true;
    return false;
}

/* ---- the rig ---- */

static inline void nothing(uv_timer_t *timer)
{
    (void)timer;
}

static inline void rig_master(unsigned i, struct server *server, bool tcp)
{
    struct config_group *group = &rig.config->groups[0];
    struct config_master *master = &group->masters[i];
    master->address.is_unix = !tcp;
    master->address.port = (uint16_t)server->port;
    snprintf(master->address.host, sizeof(master->address.host), "%s",
             tcp ? "127.0.0.1" : server->socket);
    snprintf(master->name, sizeof(master->name), "m%02u/0", i);
    if (group->master_count <= i)
        group->master_count = i + 1;
}

/* Configures two policies: fenced under `lock:`, and unfenced under `plain:`. */
static inline void rig_configure(void)
{
    signal(SIGPIPE, SIG_IGN);
    rig.config = calloc(1, sizeof(*rig.config));
    rig.config->group_count = 1;
    strcpy(rig.config->groups[0].name, "main");
    rig.config->groups[0].node_timeout_ms = 50;
    rig.config->policy_count = 2;
    strcpy(rig.config->policies[POLICY_FENCED].prefix, "lock:");
    strcpy(rig.config->policies[POLICY_PLAIN].prefix, "plain:");
}

static inline void send_before_sleep(uv_prepare_t *prepare)
{
    (void)prepare;
    if (rig.send_before_sleep) {
        rig.send_before_sleep = false;
        struct send_item item = {.key = {"late", 4}, .policy = POLICY_PLAIN};
        rig_send(OP_READ, 1, &item, 1);
    }
}

static inline void rig_start(void)
{
    static const struct redis_sink sink = {
        &rig, take_event, take_observation, take_state, take_clock, NULL, NULL, NULL, NULL};
    uv_loop_init(&rig.loop);
    uv_timer_init(&rig.loop, &rig.clock);
    uv_timer_start(&rig.clock, nothing, 5, 5);
    uv_prepare_init(&rig.loop, &rig.last);
    uv_prepare_start(&rig.last, send_before_sleep);
    rig.redis = redis_start(&rig.loop, rig.config, &sink);
    cr_assert(rig.redis);
    cr_assert_eq(redis_master(rig.redis, 0, 0).state, REDIS_CONNECTING);
}

/* The condition is read once a turn: it may depend on the time. */
#define RUN_UNTIL(condition, ms)                                                                   \
    do {                                                                                           \
        uint64_t until_ = uv_hrtime() + (uint64_t)(ms)*1000000;                                    \
        bool holds_ = (condition);                                                                 \
        while (!holds_ && uv_hrtime() < until_) {                                                  \
            uv_run(&rig.loop, UV_RUN_ONCE);                                                        \
            holds_ = (condition);                                                                  \
        }                                                                                          \
        cr_assert(holds_, "not within %d ms: %s (master 0: %s %s)", (int)(ms), #condition,         \
                  redis_state_name(redis_master(rig.redis, 0, 0).state),                           \
                  redis_master(rig.redis, 0, 0).reason);                                           \
    } while (0)

static inline bool is_up(unsigned master)
{
    return redis_master(rig.redis, 0, (uint8_t)master).serves;
}

static inline bool is_down_with(unsigned master, const char *reason)
{
    struct redis_master_view view = redis_master(rig.redis, 0, (uint8_t)master);
    return view.state == REDIS_DOWN && strstr(view.reason, reason);
}

static inline unsigned replies(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < rig.count; i++)
        count += rig.records[i].kind == EVENT_REPLIES;
    return count;
}

/* Checks that every item got exactly one reply per named master. */
static inline void assert_each_was_answered_once(void)
{
    cr_assert_eq(replies(), rig.expected, "%u replies, expected %u", replies(), rig.expected);
    for (unsigned i = 0; i < rig.count; i++) {
        for (unsigned j = i + 1; j < rig.count && rig.records[i].kind == EVENT_REPLIES; j++) {
            const struct record *a = &rig.records[i], *b = &rig.records[j];
            cr_assert(b->kind != EVENT_REPLIES || a->slot != b->slot || a->master != b->master,
                      "slot %u twice", a->slot);
        }
    }
}

static inline void on_done(void *arg)
{
    (void)arg;
    rig.stopped = true;
}

static inline void rig_stop(void)
{
    redis_stop(rig.redis, on_done, NULL);
    uint64_t until = uv_hrtime() + 5000000000;
    while (!rig.stopped && uv_hrtime() < until)
        uv_run(&rig.loop, UV_RUN_ONCE);
    cr_assert(rig.stopped);
    redis_free(rig.redis);
    uv_close((uv_handle_t *)&rig.clock, NULL);
    uv_close((uv_handle_t *)&rig.last, NULL);
    uv_run(&rig.loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&rig.loop), 0);
    free(rig.config);
    assert_each_was_answered_once();
}

/* Sends to the masters of group 0; items get slots from the returned one on. */
static inline uint32_t rig_send(enum op op, master_set masters, const struct send_item *items,
                                unsigned count)
{
    struct send_item copies[LIMIT_BATCH];
    uint32_t first = rig.next_slot;
    for (unsigned i = 0; i < count; i++) {
        copies[i] = items[i];
        copies[i].ref.slot = rig.next_slot++;
    }
    struct effect_send effect = {.op = op,
                                 .group = 0,
                                 .masters = masters,
                                 .first = 7,
                                 .count = (uint16_t)count,
                                 .native = rig.native};
    for (unsigned m = 0; m < LIMIT_MASTERS; m++)
        effect.clocks_ms[m] = rig.clock_ms;
    rig.expected += count * (unsigned)__builtin_popcount(masters);
    rig.sending = true;
    redis_send(rig.redis, &effect, copies);
    rig.sending = false;
    return first;
}

static inline const struct record *reply_to(uint32_t slot, unsigned master)
{
    for (unsigned i = 0; i < rig.count; i++) {
        const struct record *record = &rig.records[i];
        if (record->kind == EVENT_REPLIES && record->slot == slot && record->master == master)
            return record;
    }
    return NULL;
}

static inline const struct record *last_of(enum event_kind kind, unsigned master)
{
    for (unsigned i = rig.count; i > 0; i--)
        if (rig.records[i - 1].kind == kind && rig.records[i - 1].master == master)
            return &rig.records[i - 1];
    return NULL;
}

static inline unsigned count_of(enum event_kind kind, unsigned master)
{
    unsigned count = 0;
    for (unsigned i = 0; i < rig.count; i++)
        count += rig.records[i].kind == kind && rig.records[i].master == master;
    return count;
}

/* Sends one item to one master, and returns its reply. */
static inline struct record exchange(enum op op, unsigned master, struct send_item item)
{
    uint32_t slot = rig_send(op, (master_set)(1u << master), &item, 1);
    RUN_UNTIL(reply_to(slot, master), 3000);
    return *reply_to(slot, master);
}

static inline struct send_item item_of(const char *key, uint8_t token, uint64_t fence)
{
    struct send_item item = {.key = {key, strlen(key)},
                             .label = {"me", 2},
                             .ttl_ms = 10000,
                             .policy = POLICY_FENCED,
                             .fencing = true,
                             .agent = 0xa1,
                             .previous_agent = 0xa1};
    memset(item.token.random, token, RANDOM_BYTES);
    item.token.fence = fence;
    return item;
}

static inline struct send_item plain_of(const char *key, uint8_t token)
{
    struct send_item item = item_of(key, token, 0);
    item.policy = POLICY_PLAIN;
    item.fencing = false;
    return item;
}

/* Starts one server, and connects to it over its unix socket. */
static inline void begin(struct server *server, const char *const *options)
{
    server_start(server, options);
    rig_configure();
    rig_master(0, server, false);
    rig_start();
    RUN_UNTIL(is_up(0), 3000);
}

static inline void end(struct server *server)
{
    rig_stop();
    server_remove(server);
}

#endif
