/* The simulated world as a whole: its time, its figures and its faults. The picture is at the top
 * of world.c. */
#ifndef LOCKAGENT_SIM_WORLD_H
#define LOCKAGENT_SIM_WORLD_H

#include "records.h"

/* ---- time ------------------------------------------------------------------------------------ */

/* Everything that will happen, ordered by (at, order): equal times happen in the order of
 * planning. */
enum happening_kind {
    HAPPEN_COMMAND, /* a flight reaches its master */
    HAPPEN_REPLY,   /* a flight's reply reaches its agent */
    HAPPEN_TIMER,   /* an agent's one timer */
    /* An iteration of the agent's loop ends: the agent writes the commands that it has gathered. */
    HAPPEN_FLUSH,
    HAPPEN_REQUEST,    /* a caller's request reaches its agent */
    HAPPEN_CANCEL,     /* the request's caller has gone */
    HAPPEN_WRITE,      /* an answer is written to its caller */
    HAPPEN_DELIVERED,  /* an answer was written completely */
    HAPPEN_LEAVE,      /* the connection that a hold is bound to ends, or is not read */
    HAPPEN_CHECK,      /* has a master been silent for too long? */
    HAPPEN_DROP,       /* a connection ends */
    HAPPEN_CONNECT,    /* an attempt to connect */
    HAPPEN_SUBSCRIBE,  /* an agent's subscription reaches a master */
    HAPPEN_SIGNAL,     /* a subscription's confirmation, or a message, reaches the agent */
    HAPPEN_MARKER,     /* the time of an agent's guard has come */
    HAPPEN_CLOCK_DUE,  /* an agent asks a master for its clock */
    HAPPEN_CLOCK_READ, /* the master reads its clock */
    HAPPEN_CLOCK_TOLD, /* the agent receives the reading */
    HAPPEN_CALLER,     /* a caller's next move */
    HAPPEN_JAVA,       /* the Java service's next move */
    HAPPEN_OPERATOR,   /* the next step of `lockagent unlock` */
    HAPPEN_FAULT,
    HAPPEN_REPLICATE, /* the master's present data reaches a replica */
    HAPPEN_THAW,      /* a frozen replica goes on */
    HAPPEN_WAITED,    /* the time of a WAIT is over on the master */
    HAPPEN_GIVE_UP,   /* the time of a WAIT is over at the agent */
    HAPPEN_RESUME,    /* a paused master goes on */
    HAPPEN_START,     /* a stopped master is back */
    HAPPEN_WAKE,      /* a stalled agent goes on */
    HAPPEN_BOOT,      /* a crashed agent is back */
    HAPPEN_HEAL,      /* the faults end */
    HAPPEN_PROBE,     /* the liveness phase begins */
    HAPPEN_ORPHAN,    /* Check whether a failed or ended attempt has left a key. */
    HAPPEN_SETTLED,   /* Check whether an attempt of the faulty phase has left a key. */
    HAPPEN_STORE,     /* a holder, or a former holder, writes to the register */
    HAPPEN_END,
};
struct happening {
    int64_t at;
    uint64_t order;
    enum happening_kind kind;
    uint8_t agent, master;
    bool copy;       /* REPLY: a second time */
    uint32_t number; /* CALLER: turn; DROP, CONNECT, CHECK: generation of the connection */
    void *what;
};

/* ---- the world ------------------------------------------------------------------------------- */

struct figures {
    uint64_t runs, steps, grants, take_overs, losses, writes, writes_rejected, wall_jumps, renewals,
        renewal_failures, lost[REASON_COUNT], adoptions, undeliveries, cancels, releases,
        releases_partial, releases_pending, restored, refusals, unavailable, wait_timeouts,
        expired_grants, stalls, second_phases, repairs, handovers, messages, forgotten, guarded,
        queued, searched, withdrawn, spoiled, crowded, full_steps, stranger_releases, bad_ttls,
        reloads, wakes, wakes_late, turns, turns_passed_over, lined_up, shared_acquires,
        shared_releases, overloaded, reentered, repeated, superseded, unbound, stuck, upgrades,
        reads_granted, read_together, unreplicated, failovers, failbacks, java_grants, readings,
        unlocked, unlocked_in_part, unlocked_in_vain, pauses, clock_jumps, natives, natives_granted,
        natives_released, told, told_held, labels_named, labels_taken, labels_adopted, virtual_us;
    uint64_t themes[SIM_THEMES]; /* seeds that have drawn each of them */
};

struct world {
    uint64_t seed;
    struct prng faults, java_chance, writes; /* streams of chance; writes: to the register (C3) */
    /* stream of chance of the readings of masters' clocks */
    struct prng readings;
    struct switches switches;
    struct options options;
    bool verbose, healed;
    int64_t now, healed_at;
    /* masters' clocks stepped forward: when last, and by how much in all */
    int64_t jumped_at, jumped_us;
    int64_t set_back_us;     /* masters' clocks stepped back: leases last so much longer */
    int64_t leftovers_until; /* when the last unused hold of the faulty phase has ended */
    uint64_t order, steps, arrivals;
    uint32_t secrets; /* number of secrets given out */

    struct happening *heap;
    size_t heap_count;
    char *arena;
    size_t arena_used;

    struct master masters[SIM_MASTERS];
    struct replica replicas[SIM_REPLICAS];
    int64_t promoted_at; /* when a replica was promoted last; -1: never */
    struct agent agents[SIM_AGENTS];
    struct caller callers[SIM_CALLERS + SIM_PROBES];
    size_t caller_count;

    /* The agent that reaches no quorum in time, though all masters are up; SIM_AGENTS: none. `far`:
     * the masters that are far from it. */
    uint8_t choked;
    uint16_t far;
    int64_t choked_at;

    struct java java;
    struct unlocker unlocker;
    struct labelling labelling;
    struct core_group groups[SIM_GROUPS];
    struct core_policy policies[SIM_POLICIES];
    struct core_config config;
    /* Names of keys on the masters. The second naming has another prefix (BREAK_DISAGREEMENT). */
    struct config naming[2];
    struct scripting *scripting;
    struct scripting *lying; /* the same scripts, but they take any number for a fencing number */
    struct effects *effects;

    struct hold holds[SIM_HOLDS];
    uint16_t hold_count; /* holds[0] is unused */
    uint16_t buckets[SIM_HOLD_BUCKETS];
    struct hold *windows[SIM_KEYS][SIM_OPEN_WINDOWS];
    uint16_t window_count[SIM_KEYS];
    uint64_t fence_last[SIM_KEYS];
    /* C15: until then there may have been a key on that master, as far as the checker saw. */
    int64_t busy_until[SIM_KEYS][SIM_MASTERS];
    int64_t forgot_at; /* when a master forgot its keys last; -1: none did */
    /* When a command of a dead connection took a key for an attempt; -1: never. */
    int64_t intruded_at;
    int64_t epoch_at; /* When a master began another epoch, with or without its keys; -1: never. */
    struct hold *granted_last[SIM_KEYS];
    /* when it was released while a caller waited for it at another agent; 0: not so */
    int64_t freed_at[SIM_KEYS];
    unsigned wakes, wakes_late;
    /* Turns of agents at the first key. turn_number: all turns. turn_last: each agent's last turn
     * (0: none). turns: turns of agents that had an earlier one. turns_passed_over: the turns by
     * which such an agent was passed over. */
    uint32_t turn_number, turn_last[SIM_AGENTS], turns, turns_passed_over;
    struct { /* One register per key. It rejects tokens lower than the highest that it has seen. */
        uint64_t token, read; /* the highest token of a write, and of a read */
        uint32_t version;
    } registers[SIM_KEYS];
    uint64_t written_last[SIM_KEYS]; /* the number of the last write's grant */
    char property[16];               /* property of the violation: C1..C18 */
    char violation[400];             /* "": none */

    struct figures figures;
};

/* True while this run really breaks the assumption. */
#define world_breaks(w, which) ((w)->switches.broken == (which) && !(w)->switches.kept)

/* Returns the place that an item, a hold or a trace of the core names. */
static inline uint8_t world_place(const struct world *w, struct text key, uint8_t slot)
{
    return options_place(&w->options, options_key_named(key), slot);
}

/* ---- functions ------------------------------------------------------------------------------- */

/* world.c: the clock and what happens next */
void world_init(struct world *w);
/* Runs one seed to its end or to the first violation. */
void world_run(struct world *w, uint64_t seed);
unsigned world_quorum(const struct world *w);
/* Returns the form of a policy of these properties. */
enum form world_form(unsigned permits, bool fair, bool rw, bool redisson);
void world_plan(struct world *w, struct happening happening);
void world_plan_in(struct world *w, int64_t us, struct happening happening);
void *world_allocate(struct world *w, size_t bytes); /* valid until the end of the run */
void world_say(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fault.c: the faults, and the end of all faults */
void fault_plan_all(struct world *w);
/* Plans the faults of a run in which masters are away in turn. Ends chaos behind the last of
 * them. */
void fault_plan_in_turn(struct world *w);
/* Plans the cuts of a run in which agents are cut off from one master or two. */
void fault_plan_apart(struct world *w);
/* Plants a number that no agent granted on the one master that gets such numbers (R12). */
void fault_plan_wild(struct world *w);
void fault_plan_neighbours(struct world *w);
void fault_strike(struct world *w, const void *fault);
void fault_heal(struct world *w);
/* Puts one agent far from so many masters that no quorum answers it in time. */
void fault_choke(struct world *w);
#define FAR_US(w) (2000 * (int64_t)(w)->options.node_timeout_ms)
#define is_far(w, a, m) ((a) == (w)->choked && ((w)->far >> (m)&1) != 0)
void fault_master_resumes(struct world *w, uint8_t master);
void fault_master_starts(struct world *w, uint8_t master);
void fault_replica_thaws(struct world *w, uint8_t replica);

/* timeline.c: prints the events and effects of a replayed seed */
void timeline_event(struct world *w, uint8_t agent, const struct event *event);
void timeline_effect(struct world *w, uint8_t agent, const struct effect *effect,
                     const struct send_item *items);

#endif
