/* The world of the guard (D5.3): a few agents, each with the shipped step machine, and the masters
 * of one group that run the shipped scripts. Virtual time in microseconds; a seed is a run. */
#ifndef LOCKAGENT_SIM_GUARD_WORLD_H
#define LOCKAGENT_SIM_GUARD_WORLD_H

#include "tests/sim/guard/script.h"
#include "tests/sim/prng.h"

enum { AGENTS_MAX = 4, HAPPENINGS_MAX = 4096 };

/* What a run is about. */
enum theme {
    /* a new durable group, agents that meet it at unequal speed, and nothing goes wrong */
    THEME_CALM,
    THEME_FRESH,     /* the same with lost connections and restarts of agents */
    THEME_FORGETFUL, /* an old group, durable or not, some of whose masters forget */
    /* a new durable group some of whose masters forget at once: what little they have granted */
    THEME_BIRTH,
    /* an old durable group all of whose masters forget, one after the other, before the eyes of
     * one steady agent */
    THEME_FLUSHED,
};

enum happening_kind {
    HAPPEN_START,   /* of an agent */
    HAPPEN_CRASH,   /* of an agent */
    HAPPEN_TICK,    /* of an agent's Redis room */
    HAPPEN_CONNECT, /* a connection is made, or not */
    HAPPEN_GREET,   /* the greeting has come to the marker */
    HAPPEN_REQUEST, /* a script reaches a master */
    HAPPEN_REPLY,   /* its answer reaches the agent */
    HAPPEN_READY,   /* the greeting has ended */
    HAPPEN_DROP,    /* a connection ends */
    HAPPEN_LOCK,    /* the core of an agent sends a script of its own */
    HAPPEN_FORGET,  /* of a master, in one of the ways of struct world */
    HAPPEN_FULL,    /* a master begins to refuse writes, or ends it */
    HAPPEN_LOOK,    /* the checker looks */
};

enum request_kind {
    REQUEST_MARKER,
    REQUEST_GREETING,
    REQUEST_LOCK,  /* an acquire, which answers a vote or for how long there is none */
    REQUEST_RENEW, /* a renewal that misses its key, and answers the marker's epoch */
};

struct happening {
    int64_t at_us;
    uint64_t order; /* equal times happen in the order in which they were planned */
    enum happening_kind kind;
    uint8_t agent, master;
    uint32_t connection; /* that it belongs to */
    uint32_t server;     /* process of the master that the connection leads to */
    enum request_kind request;
    bool late;    /* the request runs although its connection has ended meanwhile */
    bool refused; /* the master could not write */
    uint8_t how;  /* HAPPEN_FORGET */
    struct guard_ask ask;
    char run_id[24], fresh_epoch[24];
    struct guard_answer answer;
};

struct link {
    /* the number of the present one; 0: none was made since the agent started */
    uint32_t connection;
    uint32_t server;
    bool open, ready;
    int64_t latency_us, first_connect_us, blocked_until_us;
    int64_t away_since_us;             /* when it was last READY; INT64_MAX while it is */
    char told_epoch[GUARD_WORD_BYTES]; /* the last one that its core has heard of */
    int64_t last_request_us, last_reply_us;
    uint32_t failures;
};

struct sim_agent {
    bool alive, idle; /* idle: its core asks for nothing */
    uint32_t life;
    uint32_t max_ttl_ms;
    int64_t start_us;
    struct guard guard;
    struct link links[LIMIT_MASTERS];
};

struct sim_master {
    struct keyspace *keys;
    uint32_t server; /* number of the process, which is its run */
    int64_t skew_ms; /* of its clock */
    bool full;
    bool lived;           /* it has had a vote, so there may be something that it can forget */
    int64_t forgot_us;    /* INT64_MIN: never */
    int64_t ttl_since_us; /* its marker has had its max_ttl */
    /* max_ttl of the marker that it forgot, where everybody who was connected knew it */
    uint32_t owed_ms;
    uint8_t readers; /* of the witnesses, who have lived since */
    /* agents that were connected when it forgot, and were never away for long since */
    uint8_t witnesses;
};

struct world {
    uint64_t seed;
    struct prng prng;
    enum theme theme;
    bool durable, told; /* told: prints what happens */
    unsigned agent_count, master_count;
    struct sim_agent agents[AGENTS_MAX];
    struct sim_master masters[LIMIT_MASTERS];
    int64_t now_us, chaos_until_us, end_us;
    uint64_t planned;
    unsigned waiting;
    struct happening happenings[HAPPENINGS_MAX];
    struct keyspace *keys[LIMIT_MASTERS]; /* of the masters: made once */
    char violation[8];                    /* the property that was broken; "": none */
    char why[200];
    struct {
        unsigned births, forgets, drops, crashes;
    } count;
};

/* world.c */
void world_run(struct world *world, uint64_t seed, enum theme theme, bool told);
void world_say(const struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int64_t master_wall_ms(const struct world *world, const struct sim_master *master);

/* check.c */
void check_forgot(struct world *world, uint8_t master);
bool check_may_forget(struct world *world, uint8_t master);
bool world_is_fresh(const struct world *world);
void check_crashed(struct world *world, uint8_t agent);
void check_back(struct world *world, uint8_t agent, uint8_t master);
void check_told(struct world *world, const struct happening *reply);
void check_now(struct world *world);
void check_end(struct world *world);

#endif
