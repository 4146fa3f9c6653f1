/* The options of a run: the sizes of the world, assumptions, switches, themes, the draws of a seed,
 * and its streams of chance. */
#ifndef LOCKAGENT_SIM_OPTIONS_H
#define LOCKAGENT_SIM_OPTIONS_H

#include <string.h>

#include "agent/core/core.h"

struct world;

enum {
#ifdef FUZZED_WORLD /* tests/fuzz: the explorer's world, of which nothing is copied */
    SIM_AGENTS = 3,
    SIM_CALLERS = 6,
    SIM_REQUESTS = 8, /* open at one agent */
    SIM_MASTERS = 5,
    SIM_KEYS = 4,
    SIM_MANY_PROBES = 1,
    SIM_TICKETS = 16,
    SIM_LOCKS = 8,
    SIM_HOLDS = 512,
    SIM_HOLD_BUCKETS = 256,
    SIM_OPEN_WINDOWS = 64,
#elif defined SMALL_WORLD /* tests/explore: all of it is copied at each step */
    SIM_AGENTS = 3,
    SIM_CALLERS = 3,
    SIM_REQUESTS = 4, /* open at one agent */
    SIM_MASTERS = 3,
    SIM_KEYS = 2, /* one key, or two slots of it */
    SIM_MANY_PROBES = 1,
    SIM_TICKETS = 4,
    SIM_LOCKS = 4,
    SIM_HOLDS = 16,
    SIM_HOLD_BUCKETS = 16,
    SIM_OPEN_WINDOWS = 8,
#else
#ifdef TIGHT_LIMITS
    SIM_AGENTS = 2, /* Few agents and many callers: one answer to all of them fills a step. */
    SIM_CALLERS = 60,
    SIM_REQUESTS = 64, /* open at one agent */
#else
    SIM_AGENTS = 5,
    SIM_CALLERS = 10,  /* in the faulty phase */
    SIM_REQUESTS = 32, /* open at one agent */
#endif
    SIM_MASTERS = 9,
    SIM_KEYS = 8,
    SIM_MANY_PROBES = 20, /* in the healed phase, at each agent, if the order is checked */
    SIM_TICKETS = 32,     /* for one key on one master */
    SIM_LOCKS = 64,       /* slots of one agent's core */
    SIM_HOLDS = 2048,     /* granted in one run */
    SIM_HOLD_BUCKETS = 4096,
    SIM_OPEN_WINDOWS = 256, /* unexpired windows of one key */
#endif
    SIM_REPLICAS = 3, /* replicas of a single master */
    SIM_THEMES = 19,
    SIM_GROUPS = 3, /* groups of the same masters under other names */
    /* Policies have the same terms, except for terms that a reload changes; or each key has its
     * own. */
    SIM_POLICIES = 8,
    SIM_PATTERNS = 4, /* policies whose pattern matches several keys */
    SIM_PROBES = SIM_AGENTS * SIM_MANY_PROBES + 2 * SIM_KEYS,
    SIM_HAPPENINGS = 65536, /* pending at once */
    /* Steps of all cores in one run. A run with more steps has a core that spins. Most take 30,000
     * at most. Five agents that follow eight keys took 660,000: eight masters replied more slowly
     * than node_timeout, so two waiters of each key attempted again and again. */
    SIM_STEPS = 2000000,
    SIM_LABEL = 8,
    SIM_RELABELS = 4096, /* labels that PUTs name in one run */
    SIM_OWNERS = 3,      /* owners of one agent */
    SIM_SECRET = 24,
    /* for a PUT that asks for a short lease; the ttl of some policies is still shorter */
    SHORT_TTL_MS_MAX = 1200,
    SIM_JOURNAL = 2 * SIM_LOCKS + SIM_REQUESTS + 1, /* slots of one agent's lock table */
};

/* Streams of chance, each of its own purpose. */
enum stream {
    STREAM_SIZES,
    STREAM_POLICY,
    STREAM_NETWORK,
    STREAM_OPTION_FAULTS,
    STREAM_MANNERS,
    STREAM_TURNS,
    STREAM_TABLES,
    STREAM_THEME,
    STREAM_FAULTS,
    STREAM_JAVA,
    STREAM_WRITES,
    STREAM_READINGS,
    STREAM_AGENT,  /* one for each agent, by its number */
    STREAM_LINK,   /* one for each pair of agent and master */
    STREAM_MASTER, /* one for each master */
    STREAM_CALLER, /* one for each caller */
    STREAM_OPERATOR,
    STREAM_LABELS,
};

/* The assumptions of the promise (D1) that a run can break on purpose; such a run may show
 * violations. */
enum assumption {
    ASSUME_ALL,
    BREAK_DRIFT,        /* A1: clock rates differ by more than the drift allowed for */
    BREAK_DATA_LOSS,    /* A2: masters restart empty, without a guard */
    BREAK_ROLLBACK,     /* A2: masters restart with an older state of their own, marker and all */
    BREAK_CLOCK_JUMP,   /* A3: masters' clocks jump forward */
    BREAK_DISAGREEMENT, /* A4: every other agent uses another prefix */
    BREAK_PAUSE,        /* A1: agents are paused together with their clocks */
    /* A2: a release is forgotten, and its caller goes on to use the token */
    BREAK_FORGOTTEN_RELEASE,
};

/* Switches that the command line sets for all seeds. */
struct switches {
    enum assumption broken;
    bool kept; /* the schedule of a broken assumption, with the assumption kept */
    /* masters lose their keys: restarted empty, or flushed under their connections */
    bool forgetful;
    bool fair;    /* the order is fair with every seed */
    bool rw;      /* keys are read and written (R17), with every seed */
    bool roaming; /* callers go to several living agents with one token */
    bool wild;    /* One master's buckets get numbers that no agent granted. */
    /* Locks of other names raise the buckets on single masters all the time (R12). */
    bool neighbours;
    /* nothing fails but this: each master is away once for longer than a lease, one at a time */
    bool in_turn;
    /* nothing fails but this: each agent is cut off from one master after another, for longer than
     * a lease */
    bool apart;
    bool followers;  /* Each agent follows each key (D3.8). */
    bool compares;   /* Masters can compare and delete (R24). */
    bool few_rounds; /* So few rounds may be in flight that most of them wait (R16). */
    bool redisson;   /* keys are shared with a Java service (R22) */
    bool semaphores; /* keys have permits (R20) */
    bool replicas;   /* a single master has some, and they are promoted (R21); it is forgetful */
    /* Agents are paused together with their clocks, and masters' clocks step (A1, A3). */
    bool clocks;
    /* Many callers wait for one key at several agents in the healed world, in any order. */
    bool many_wait;
    bool kinds;   /* each key draws its own kind */
    bool unlocks; /* an operator unlocks holds by hand (R25) */
    bool labels;  /* PUTs change labels (D3.9) */
    bool mixed;   /* the seed draws which of the themes above are on (themes.c) */
    /* One draw more from the streams of the register and of Java, which agents do not see. */
    bool draws_more;
    /* Rules that are not the core's to keep, broken on purpose. */
    bool answers_unchecked;     /* a grant is written without a last look at the clock (R4) */
    bool register_accepts_all;  /* the resource does not compare fencing numbers */
    bool waits_without_message; /* no message goes before a WAIT (R21) */
};

/* The kind of one key according to its policy. */
struct key_kind {
    uint8_t permits; /* 1: a mutex */
    bool fair, rw, redisson;
};

/* Shares are in 10,000 commands, habits in per cent. */
struct options {
    uint8_t agents, masters, keys, callers;
    /* Each key has its own kind. `permits` is the most of any key then, and `fair`, `rw` and
     * `redisson` say that some key is of that kind. */
    bool several_kinds;
    struct key_kind kinds[SIM_KEYS];
    uint8_t permits; /* permits of each key; 1: keys are mutexes */
    enum algorithm algorithm;
    /* replicas of a single master, and the number of them that a WAIT asks for (R21) */
    uint8_t replicas, ack;
    uint32_t replicas_timeout_ms;
    uint8_t freezes, failovers; /* faults of the replicas */
    bool fencing;
    bool journal;    /* an agent that crashed finds its holds again */
    bool fair;       /* first come, first served over all agents (R9) */
    bool rw;         /* readers share their keys (R17) */
    bool redisson;   /* masters keep them as Java does (R22) */
    uint8_t readers; /* per cent of the callers that read, if keys are read and written */
    enum renew renew;
    uint32_t node_timeout_ms, ttl_ms, ttl_ms_max, retry_ms_min, retry_ms_max, handover_max;
    int64_t max_hold_ms;
    uint32_t lock_delay_ms; /* R15 */

    int64_t out_us_max, back_us_max; /* usual delay of a command and of its reply */
    /* late_us_max: delay of a late command. silence_us: the agent gives up a connection after that
     * much silence (R3). */
    int64_t late_us_max, silence_us;
    uint16_t late, doubled, refused, not_run, not_sent, message_lost;
    /* A connection's end is reported before the result of the commands that were in flight. */
    bool down_first;
    uint8_t partitions, isolations, splits,
        flapping; /* one link; an agent or a master from all; a majority; per cent */
    uint8_t wall_jumps;
    uint16_t frozen_writes; /* the agent stops between its decision and the writing of the answer */
    uint8_t resets, pauses, restarts, stalls, crashes, ends;
    /* pauses of agents' clocks, and jumps of masters' clocks (A1, A3) */
    uint8_t clock_pauses, clock_jumps;
    int64_t chaos_us, think_us_max, rate_ppm, wall_us;

    uint8_t waits, renews, shortens, vanishes, cancels, loses_answers, bothers, goes_elsewhere,
        reads;

    uint8_t flushes;   /* only if masters forget */
    bool steps_clocks; /* A flushed master comes back with another wall clock. */

    /* D3, R11; a copy of a request comes behind its release */
    uint8_t binds, owns, repeats, copies, sticks;

    uint8_t groups, policies;
    uint8_t reloads;
    uint8_t bad_ttls;                /* per cent of the requests */
    uint32_t locks_max, waiters_max; /* small, or as many as are ever needed */
    /* length of one iteration of an agent's loop; 0: each event has its own iteration */
    int64_t turn_us_max;
    /* the limit of rounds in flight: its bounds, and its first value (R16) */
    uint32_t rounds_min, rounds_first, rounds_max;

    /* per cent of the waiters that leave, in the healed world of a fair order */
    uint8_t leaves;
    bool chokes; /* One agent reaches no quorum in time, in the healed world of a fair order. */
};

/* A place has a holder of its own. It is a key, or a slot of a key (R20), and a number below
 * SIM_KEYS. options_key_of() returns the key of a place. */
static inline uint8_t options_place(const struct options *options, uint8_t key, uint8_t slot)
{
    return (uint8_t)(key + options->keys * slot);
}
static inline uint8_t options_key_of(const struct options *options, uint8_t place)
{
    return (uint8_t)(place % options->keys);
}
static inline uint8_t options_places(const struct options *options)
{
    return (uint8_t)(options->keys * options->permits);
}
/* Returns the name of a key, as callers have it. The numbers of the first two keys are in one
 * bucket (R12). The last character is the number of the key. */
static inline struct text options_key_text(uint8_t key)
{
    static const char *const names[] = {"k0", "jowk1", "k2", "k3", "k4", "k5", "k6", "k7"};
    return (struct text){names[key], strlen(names[key])};
}
static inline uint8_t options_key_named(struct text name)
{
    return (uint8_t)(name.at[name.len - 1] - '0');
}
/* Returns the kind of the key that the place belongs to. */
static inline struct key_kind options_kind(const struct options *options, uint8_t place)
{
    return options->several_kinds ? options->kinds[options_key_of(options, place)]
                                  : (struct key_kind){.permits = options->permits,
                                                      .fair = options->fair,
                                                      .rw = options->rw,
                                                      .redisson = options->redisson};
}
void options_draw(struct options *options, uint64_t seed);
void options_print(const struct options *options);
/* Returns the longest usual round trip. It includes the loop iteration that the command waits
 * for. */
int64_t options_round_trip_us(const struct options *options);

/* themes.c: which themes a seed draws, and which of them exclude each other */
void themes_draw(struct world *w);
/* Returns the switch of the theme with that name; NULL if there is none. */
bool *themes_find(struct switches *switches, const char *name);
/* Returns why two of the themes that are on exclude each other, and both names; NULL: none do. */
const char *themes_clash(struct switches *switches, const char **ret_a, const char **ret_b);
void themes_say(struct world *w);
/* Prints how many seeds have drawn each theme. Returns how many themes too few have drawn. */
unsigned themes_print(const struct world *w, uint64_t runs);
/* Draws a kind for each key. */
void themes_draw_kinds(struct world *w);

#endif
