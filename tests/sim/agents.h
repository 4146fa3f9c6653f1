/* Agents with the surroundings of their cores, their callers and requests, and the Java service. */
#ifndef LOCKAGENT_SIM_AGENTS_H
#define LOCKAGENT_SIM_AGENTS_H

#include "masters.h"

struct attempt;
struct hold;

/* ---- callers --------------------------------------------------------------------------------- */

enum request_state {
    REQUEST_SENT,
    REQUEST_OPEN,
    REQUEST_ANSWERED,
    REQUEST_CANCELLED,
    REQUEST_DEAD
};
struct request {
    enum event_kind kind;
    enum request_state state;
    uint8_t caller, agent, key; /* with a token: the place */
    uint8_t label;              /* the caller's number; also that of a copy */
    uint32_t names_label;       /* RENEW: the number of the label that it names; 0: none */
    uint32_t label_before;      /* RENEW: the one that all masters stored when it came */
    bool wrong;                 /* its token must not succeed */
    bool bothers;               /* It carries a token that does not belong to the caller. */
    bool bad_ttl;               /* It asks for a ttl that is longer than is allowed. */
    /* Its token belongs to a hold that its agent reported as valid when it was sent. */
    bool expects_hold;
    bool loses_answer; /* the answer will not reach the caller */
    bool granted;      /* A lock was granted, or the caller's own lock was granted again. */
    bool cancelled, bound;
    /* It repeats a request whose lock was released or lost. No caller waits for the answer. */
    bool copy;
    bool after_loss; /* The lock of this copy's request was lost before the agent's restart. */
    uint8_t owner;   /* 0: none */
    uint32_t secret; /* its idempotency key; 0: none */
    bool by_secret;  /* RELEASE: the secret replaces the token */
    /* A rising number. A repeated request keeps the number of the request that it replaces. */
    uint64_t arrived;
    /* The same, or later: the number when the hold ended that its owner asked for again. */
    uint64_t queued;
    uint32_t number, ttl_ms, incarnation; /* incarnation: of the agent that took it */
    uint16_t had; /* masters that had its token and no other number when it was taken */
    struct token token;
    struct hold *hold; /* the hold of its token; NULL: none */
    enum mode mode;
    enum renew renew;
    int64_t wait_ms, max_hold_ms, asked_at;
    /* the same; a repeated request keeps the time of the request that it replaces */
    int64_t begun_at;
    struct lock_ref lock;
};

enum caller_state { CALLER_IDLE, CALLER_ASKING, CALLER_HOLDING, CALLER_GONE };
struct caller {
    uint8_t index, agent, key;
    enum caller_state state;
    struct prng chance;
    uint32_t turn; /* A planned move of an earlier turn is void. */
    struct request *request;
    struct hold *hold;
    bool probes, done;
    bool leaves;          /* A probe that leaves before its turn comes. */
    bool hopeless;        /* A probe at the choked agent. It waits until all others have gone. */
    uint16_t turned_away; /* times that a full table refused this probe */
    int64_t due_at;       /* when the lock must have been granted to this probe */
    /* The first waiter at each agent, as the masters knew it when this caller came. */
    const struct request *behind[SIM_AGENTS];
};

/* ---- agents ---------------------------------------------------------------------------------- */

struct journalled {
    bool used;
    uint8_t key; /* the place */
    struct noted_hold hold;
};

/* The state of one group after the agent's last step (R16). */
struct line {
    uint8_t keys[SIM_KEYS], count;
    bool is_full;   /* At least one round waits, and no further round may be in flight. */
    uint32_t limit; /* limit of rounds in flight */
    /* quick decisions since the limit changed, counted while the limit was reached */
    uint32_t quick;
};

struct agent {
    struct core *core;
    struct prng chance;
    struct prng links[SIM_MASTERS]; /* chance of its links to the masters */
#ifndef SMALL_WORLD
    struct guard guard;
    int64_t guard_at; /* when the guard's time is due; INT64_MAX: not planned */
#endif
    struct journalled journal[SIM_JOURNAL];
    void *memory;
    size_t memory_bytes;
    bool alive, stalled, draining, ending;
    uint32_t locks, waiters; /* entries of its tables when its step began */
    bool reloaded;           /* it has other policies than the world's */
    uint32_t incarnation;
    uint32_t name; /* its name on the masters; survives a crash if there is a journal */
    int64_t boot_base_us, rate_ppm, wall_us;
    bool paused; /* The agent is paused together with its clocks. */
    int64_t paused_at;
    int64_t paused_us; /* the total length of earlier pauses */
    /* gone_on_at: when the last pause ended. gained_us: the length of that pause. 0: it was never
     * paused. */
    int64_t gone_on_at, gained_us;
    int64_t clock_read_at[SIM_MASTERS]; /* when it asked for the last answer that came in time */
    struct attempt *attempts;           /* the last one first */
    int64_t timer_at;                   /* INT64_MAX: not armed */
    /* It writes at the end of the current iteration of its loop. */
    bool in_turn;
    int64_t stalled_last; /* real time at which the last stall ended */
    bool dropped_debt;    /* its table of releases owed was full (R6) */
    struct happening *parked;
    size_t parked_count, parked_room;
    struct request *open[SIM_REQUESTS];
    struct followed_key {
        bool begun, told;
        enum key_state state; /* as told last */
        uint64_t fence;       /* the largest number that was told */
    } followed[SIM_KEYS];
    uint32_t begun;        /* locks that it has begun to handle since it booted */
    bool was_full;         /* Its table of locks has been full since it booted. */
    uint64_t drained_from; /* requests that arrived later get no new lock */
    struct connection connections[SIM_MASTERS];
    struct hold *held[SIM_KEYS]; /* the holds that it reports; a mutex has at most one */
    bool watches[SIM_KEYS];      /* It watches the key's channel. */
    struct line lines[SIM_GROUPS];
    uint32_t guests[SIM_GROUPS];          /* guest rounds in flight, by group (C13) */
    const struct request *head[SIM_KEYS]; /* the first waiter */
    int64_t shown_at[SIM_KEYS];           /* when it last began an attempt */
    int64_t head_since[SIM_KEYS];         /* since when the first waiter has been first */
    /* When a caller last waited for the key here, or held it. */
    int64_t wanted_last[SIM_KEYS];
    /* Random part of the attempt that is in flight or was decided last. */
    uint8_t attempt[SIM_KEYS][RANDOM_BYTES];
    /* The same for each slot of the core's table, if readers share the keys and several attempts
     * are in flight. */
    uint8_t tries[SIM_JOURNAL][RANDOM_BYTES];
};

/* The Java service. It handles one key at a time (R22). */
enum java_state { JAVA_IDLE, JAVA_TAKES, JAVA_HOLDS, JAVA_RELEASES };
struct java {
    enum java_state state;
    uint8_t key, master; /* master: the one that it asks next */
    uint8_t granted;     /* masters before that one that have granted */
    uint8_t renewals;    /* renewals still to come */
    uint32_t number;     /* number of its holder: each holder has another one */
    uint32_t lease_ms;
    int64_t began_at;
    int64_t until[SIM_KEYS]; /* All that it has left of the key has ended by then. */
    struct hold *hold;       /* NULL: it has had none */
};

/* An operator who unlocks one hold at a time (R25). */
struct unlocker {
    struct prng chance;
    struct hold *hold;      /* the hold that is being unlocked; NULL: none */
    uint64_t number;        /* the number that it is unlocked with */
    int64_t begun_at;       /* when the operator had looked at all masters */
    uint8_t missed_percent; /* share of the masters that it does not reach */
    uint8_t master;         /* the next one to ask */
    uint8_t done;           /* masters before that one that have deleted it */
    bool is_certain; /* A quorum had the key when the operator looked, and no other holder came. */
};

/* Labels that PUTs name (D3.9). */
struct labelling {
    struct prng chance;
    uint32_t count;
    struct token named[SIM_RELABELS]; /* the token of each, by its number */
};

/* ---- functions ------------------------------------------------------------------------------- */

/* agent.c: the surroundings of one core */
void agent_boot(struct world *w, uint8_t agent);
/* Tells the agent to end. `release`: its callers have ended. The agent dies a little later. */
void agent_end(struct world *w, uint8_t agent, bool release);
/* Drains the agent: it takes no new locks from now on. */
void agent_drain(struct world *w, uint8_t agent);
void agent_crash(struct world *w, uint8_t agent);
/* Stops the process for so long. */
void agent_stall(struct world *w, uint8_t agent, int64_t us);
void agent_step(struct world *w, uint8_t agent, struct event *event);
/* Takes a step for each group that has the master. */
void agent_step_master(struct world *w, uint8_t agent, struct event *event);
void agent_timer(struct world *w, uint8_t agent);

/* Ends an iteration of the agent's loop. */
void agent_flush(struct world *w, uint8_t agent);
/* Makes the agent read its configuration again, which has changed. */
void agent_reload(struct world *w, uint8_t agent);
/* Returns the group that all agents ask for a key. */
uint8_t agent_group_of(const struct world *w, uint8_t agent, uint8_t key);
void agent_take_request(struct world *w, struct request *request);
void agent_take_cancel(struct world *w, struct request *request);
/* Writes an answer that the core has decided (R4: after a last look at the clock). */
struct written;
void agent_write(struct world *w, struct written *written);
void agent_delivered(struct world *w, struct request *request);
/* A caller to which a hold is bound has left, or does not read. */
struct leaving {
    struct hold *hold;
    struct lock_ref lock;
    uint32_t incarnation;
    bool stuck;
};
void agent_take_leave(struct world *w, uint8_t agent, const struct leaving *leaving);
struct instant agent_clock(const struct world *w, uint8_t agent);
int64_t agent_wall_us(const struct world *w, uint8_t agent);
/* Returns the last microsecond of real time at which the agent's clock is not past `t`. */
int64_t agent_real_us(const struct world *w, uint8_t agent, struct instant t);

/* caller.c: people of changing manners */
void caller_start(struct world *w, uint8_t caller);
void caller_act(struct world *w, uint8_t caller);
void caller_answered(struct world *w, struct request *request, const struct effect_answer *answer);
void caller_disconnected(struct world *w, struct request *request);
/* Sends a late copy of the request of a hold that was lost before its agent was started again
 * (D3.5). Called before the agent learns of the hold. */
void caller_restored(struct world *w, uint8_t agent, const struct noted_hold *restored);
/* Ends all callers that hold a lock at this agent. */
void caller_end_all(struct world *w, uint8_t agent);
void caller_wind_down(struct world *w);
void caller_probe_all(struct world *w);
bool caller_all_done(const struct world *w);

/* operator.c: holds that are unlocked by hand (R25) */
void operator_start(struct world *w);
void operator_acts(struct world *w);

/* java.c: a Java service that shares the keys (R22) */
void java_start(struct world *w);
void java_acts(struct world *w);
/* Ends the service. It leaves no data behind. */
void java_heals(struct world *w);

#endif
