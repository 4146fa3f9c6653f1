/* The world of the guard (D5.3). A few agents run the shipped step machine. The masters of one
 * group run the shipped scripts. Agents take the only lock, with numbers (R12). Virtual time is in
 * microseconds.
 *
 * The world is a state and a list of happenings that wait for their time. A driver chooses the next
 * one, and world_take() carries it out. There are two drivers:
 *
 *   chance.c  draws a run from its seed: its conditions, its faults, and the time of each happening
 *   search.c  takes each possible choice in turn, within the bounds of a script (scripts.c)
 *
 * They share the rest:
 *
 *   world.c   the course of a run: happenings, connections, messages in flight
 *   act.c     the actions of agents and masters
 *   check.c   the properties that every run must have
 *   script.c  the shipped Lua scripts over the keys of a master
 */
#ifndef LOCKAGENT_TESTS_GUARD_WORLD_H
#define LOCKAGENT_TESTS_GUARD_WORLD_H

#include <setjmp.h>

#include "tests/guard/script.h"
#include "tests/sim/prng.h"

enum { AGENTS_MAX = 4, HAPPENINGS_MAX = 4096, VOID_EPOCHS = 3, NAMED_MAX = 8, MS = 1000 };

/* The conditions of a run. */
enum theme {
    THEME_FRESH,     /* a new group: no agent has marked a master yet */
    THEME_IN_TURN,   /* an old group; a master forgets only while all remember. Clocks step */
    THEME_FORGETFUL, /* an old group, some or all of whose masters forget at any time */
    THEME_COPIES,    /* masters are filled with the data of another one. Markers are spoiled */
    THEME_LEASES,    /* agents with unequal max_ttl come and die */
    THEME_LAYOUTS,   /* agents with several layouts come and die, and keep locks or adopt them */
    THEME_COUNT,
};

/* What becomes of A6 (D1). If it is broken or kept, the clocks of all agents are set together, and
 * a guess excuses nothing. */
enum a6 {
    A6_EXCUSES, /* The clocks are set back, and agents have unequal max_ttl. */
    A6_BROKEN,  /* the clocks are set back, and agents have unequal max_ttl */
    A6_KEPT,    /* neither. A top may be ahead of the clocks, so they are not set back at all */
};

enum happening_kind {
    HAPPEN_START,   /* an agent starts */
    HAPPEN_CRASH,   /* an agent crashes */
    HAPPEN_FREEZE,  /* an agent stops for a while */
    HAPPEN_CLOCK,   /* the clock of an agent or a master is set */
    HAPPEN_TICK,    /* a tick of an agent's Redis room */
    HAPPEN_CONNECT, /* a connection is made, or not */
    HAPPEN_GREET,   /* the greeting has come to the marker */
    HAPPEN_REQUEST, /* a script reaches a master */
    HAPPEN_REPLY,   /* its answer reaches the agent */
    HAPPEN_READY,   /* the greeting has ended */
    HAPPEN_PAUSE,   /* a greeting begins anew on the same connection */
    HAPPEN_DROP,    /* a connection ends */
    HAPPEN_ROUND,   /* an agent asks for the lock, or renews one */
    HAPPEN_DECIDE,  /* the time of its round is over */
    HAPPEN_RELEASE, /* the lock is released */
    HAPPEN_EXTEND,  /* an agent renews the lock that it keeps */
    HAPPEN_FORGET,  /* a master forgets */
    HAPPEN_SPOIL,   /* a master's marker is spoiled */
    HAPPEN_FULL,    /* a master begins to refuse writes, or ends it */
    HAPPEN_HOLD,    /* messages between an agent and a master are held up */
    HAPPEN_LOCK,    /* an agent asks for the lock */
    HAPPEN_TIME,    /* time passes, in a search */
};

enum request_kind {
    REQUEST_MARKER,
    REQUEST_GREETING,
    REQUEST_LOCK,
    REQUEST_RAISE,
    REQUEST_EXTEND, /* a renewal; with a vote an adoption */
    REQUEST_RELEASE,
    REQUEST_RENEW, /* a renewal that misses its key, and answers the marker's epoch */
};

enum forgetting {
    FLUSHED,
    EMPTIED,     /* it restarts without its data */
    OLD_DATA,    /* it restarts, or a replica takes its place, and the newest writes are lost */
    OLD_UNVOTED, /* the same, and the vote is lost as well */
    COPIED,      /* it is filled with the data of another master, and no connection ends */
    RESTARTED,   /* with all its data: nothing is lost */
    FORGETTINGS,
};

/* What becomes of the requests in flight when their connection ends. */
enum fate {
    FATE_DRAWN, /* Each has drawn it (`late`). */
    FATE_NEVER, /* They do not run. */
    FATE_RUN,   /* They run before it ends. */
    FATE_LATER, /* They run at any later time. */
};

struct happening {
    int64_t at_us; /* Equal times happen in the order in which they were planned. */
    enum happening_kind kind;
    uint8_t agent, master;
    uint32_t connection; /* that it belongs to */
    uint32_t server;     /* process of the master that the connection leads to */
    enum request_kind request;
    bool late;     /* the request runs although its connection has ended meanwhile */
    bool refused;  /* the master could not write */
    uint8_t how;   /* FORGET: enum forgetting. HOLD: 0 requests, 1 replies. */
    uint8_t from;  /* COPIED: whose data */
    uint8_t fate;  /* DROP, CRASH: enum fate */
    int64_t by_ms; /* a length, unless it is drawn */
    struct guard_ask ask;
    char run_id[24], fresh_epoch[24];
    int64_t agreed_us;
    struct guard_answer answer;
    struct guard_layouts layouts;
    struct script_lock lock; /* In a marker's question its ttl is the agent's max_ttl. */
    char vote[ASKING_VOTE_BYTES];
    enum script_says says;
    uint64_t number;
    int64_t began_us; /* REQUEST_EXTEND: when its round began */
};

struct link {
    /* the number of the present one; 0: none was made since the agent started */
    uint32_t connection;
    uint32_t server;
    bool open, ready;
    bool was_ready; /* on this connection */
    int64_t ready_since_us;
    int64_t latency_us, first_connect_us, blocked_until_us;
    char told_epoch[GUARD_WORD_BYTES]; /* the last epoch that was reported to its core */
    int64_t last_request_us, last_reply_us;
    uint32_t failures;
};

/* An attempt of an agent at the lock, and the lock that it holds. */
struct attempt {
    bool open, raises, holds;
    bool keeps;                     /* The lock is renewed until keep_until_us. */
    struct script_lock lock;        /* its number: the largest that was granted */
    uint64_t stored[LIMIT_MASTERS]; /* by masters that granted; 0: it did not */
    int64_t began_us;
    int64_t keep_until_us, lease_until_us;
    int64_t round_us;    /* when the last round of renewal began */
    master_set extended; /* masters that extended the lease in it */
};

struct sim_agent {
    bool alive, idle; /* idle: it asks for no lock */
    uint32_t life, attempts;
    uint32_t max_ttl_ms;
    uint8_t layout; /* its place in the set of the run */
    int64_t start_us, frozen_until_us;
    int64_t skew_ms; /* skew of its wall clock, which is the agreed time */
    struct guard guard;
    struct attempt attempt;
    struct link links[LIMIT_MASTERS];
};

struct sim_master {
    struct keyspace *keys;
    uint32_t server; /* number of the process, which is its run */
    uint32_t epochs; /* names that a search has used */
    int64_t skew_ms; /* skew of its clock */
    bool full;
    /* ---- facts for the checker ---- */
    bool spoiled; /* by hand: since then no marker's script has run */
    /* Epochs of which it has forgotten something, the oldest first. */
    char void_epochs[VOID_EPOCHS][GUARD_WORD_BYTES];
    int64_t well_since_us; /* it remembers, and can be asked; INT64_MAX: it does not */
    int64_t lease_end_us;  /* no lease that any agent has asked for here ends later */
    int64_t owes_until_us; /* The keys that it has forgotten end then. */
    int64_t forgot_us;
    bool is_copy;     /* it was filled with the data of a master that had forgotten nothing */
    master_set twins; /* other masters that have the same data */
    int64_t asked_us; /* when an agent asked for its marker last */
    struct {
        uint32_t ttl_ms; /* max_ttl of an agent, or told; 0: none */
        int64_t at_us;   /* when it was named last */
    } named[NAMED_MAX];
};

/* Counts of events. */
struct counts {
    unsigned forgets, drops, crashes, told, guessed, answered, raised, copies, fallen, refused,
        adopted;
};

struct world {
    /* ---- conditions of the run ---- */
    struct prng prng;
    bool is_searched; /* A search chooses. Nothing is drawn. */
    enum theme theme;
    enum a6 a6;
    bool durable, told;        /* told: prints what happens */
    bool hides_run;            /* INFO is not allowed */
    bool clocks_step, unequal; /* unequal: agents have unequal max_ttl */
    unsigned agent_count, master_count, quorum;
    const char *layouts[AGENTS_MAX]; /* that each agent has; NULL: it compares none */
    uint8_t set;                     /* THEME_LAYOUTS: the set of layouts that was drawn */
    bool apart;                      /* the layouts are no neighbours */
    bool slots;                /* agents of the second layout take the lock under another key */
    bool adopts_while_refused; /* a rule that is broken: R23 lets a closed group adopt nothing */
    int64_t chaos_until_us, end_us;
    /* Called before the keys of a master change; NULL: they may change. */
    void (*before_change)(struct world *world, uint8_t master);
    /* ---- state: masters, agents, from now_us to waiting, and the happenings that wait ---- */
    struct sim_agent agents[AGENTS_MAX];
    struct sim_master masters[LIMIT_MASTERS];
    int64_t now_us;
    /* answered: the largest number that was answered to a caller. hold_until_us: until when the
     * last holder counts on its lock. */
    uint64_t answered;
    int64_t hold_began_us, hold_until_us;
    uint32_t holder, holder_attempt; /* whose attempt was granted the lock; attempt 0: none */
    int64_t jumped_us;               /* a master's clock was set forward last (A3) */
    int64_t unknown_until_us;        /* a guess may have missed a longer max_ttl until then (A6) */
    unsigned waiting;
    /* ---- results ---- */
    char violation[16]; /* the property that was broken; "": none */
    char why[200];
    struct counts count;
    /* The places of the happenings that wait, in the order of their times, and then the free
     * places. */
    uint16_t line[HAPPENINGS_MAX];
    struct happening happenings[HAPPENINGS_MAX];
};

/* ---- world.c ---- */

/* Clears all but `told` and the counts. The group then has so many masters, without data, and a
 * quorum; theirs are these keyspaces. */
void world_clear(struct world *world, unsigned masters, unsigned quorum);
/* Gives an old group's master its marker and a vote, in an epoch of this name. */
void world_trust(struct world *world, uint8_t master, const char *epoch);
void world_say(const struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void world_send(struct world *world, uint8_t agent, uint8_t master, struct happening request);
void world_plan(struct world *world, int64_t at_us, struct happening happening);
/* Returns the one of this place in the order of time. */
struct happening *world_waiting(struct world *world, unsigned place);
struct happening world_remove(struct world *world, unsigned place);
/* Returns true if it would do nothing any more. */
bool world_is_void(const struct world *world, const struct happening *happening);
/* Carries it out, and checks the world. */
void world_take(struct world *world, struct happening *happening);
/* An assertion of the core that fails in this world jumps there. */
extern jmp_buf world_asserted;

/* ---- the drivers ---- */

struct options {
    bool is_searched;
    const char *caught_by; /* the property that must be broken; NULL: any, or none */
    bool expects;          /* a violation */
    /* ---- chance ---- */
    enum theme theme;
    enum a6 a6;
    uint64_t runs, from;
    bool told, adopts_while_refused;
    /* ---- search ---- */
    int bound; /* -1: that of the script */
    bool quick, all_orders, stops_at_first;
    double seconds; /* The limit of processor time for each script; 0: no limit. */
    char **names;   /* The scripts to search, and NULL behind them; none: all. */
};
/* They return true if all ended as it should. */
bool chance_runs(const struct options *options);
bool search_runs(const struct options *options);
void search_list(void);

/* ---- chance.c ---- */

/* Draws the max_ttl and the layout of an agent's new life. */
void draw_life(struct world *world, uint8_t agent);

/* ---- act.c ---- */

enum { ROUND_MS = 300 };
int64_t master_wall_ms(const struct world *world, const struct sim_master *master);
/* Sets the clocks of all agents, to be off by so much. With A6 kept they are not
 * set back. */
void act_set_clocks(struct world *world, int64_t skew_ms);
void act_start(struct world *world, uint8_t agent);
/* Gives an event to this agent's guard. Its questions become requests of this kind. */
void act_guard(struct world *world, uint8_t agent, struct guard_event event,
               enum request_kind kind);
void act_execute(struct world *world, struct happening *request);
void act_hear(struct world *world, const struct happening *reply);
void act_ready(struct world *world, struct happening *happening);
void act_lock(struct world *world, uint8_t agent);
void act_renew(struct world *world, uint8_t agent, uint8_t master);
/* The agent begins to renew another one's lock. */
void act_adopt(struct world *world, uint8_t agent, uint8_t from);
/* Begins the next round of renewal of the lock that the agent keeps. Returns false if there is
 * none any more. */
bool act_extend(struct world *world, uint8_t agent);
void act_decide(struct world *world, struct happening *happening);
void act_release(struct world *world, struct happening *happening);
void act_forget(struct world *world, uint8_t master, enum forgetting how, uint8_t from);
void act_set_clock(struct world *world, uint8_t master, int64_t by_ms);
bool act_remembers(struct world *world, uint8_t master);
unsigned act_witnesses(const struct world *world);

/* ---- check.c ---- */
void check_broken(struct world *world, const char *property, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_forgets(struct world *world, uint8_t master);
void check_copied(struct world *world, uint8_t master, uint8_t from);
void check_marker(struct world *world, const struct happening *request, uint64_t ttl_before_ms,
                  uint64_t told_before);
void check_guess(struct world *world, uint8_t agent, uint8_t master);
void check_heard(struct world *world, const struct happening *reply);
void check_answered(struct world *world, uint8_t agent);
/* A quorum has extended the lease of the agent's lock until then. */
void check_extended(struct world *world, uint8_t agent, int64_t until_us);
void check_asks(struct world *world, uint8_t agent);
void check_now(struct world *world);
void check_end(struct world *world);
/* Returns true if less happened than so many times the least. Then nothing is proved. */
bool check_is_thin(const struct counts *count, const struct counts *least, unsigned times);

#endif
