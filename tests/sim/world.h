/* The simulated world: types and functions that the parts of the simulator share. The picture is at
 * the top of world.c. */
#ifndef LOCKAGENT_SIM_WORLD_H
#define LOCKAGENT_SIM_WORLD_H

#include "agent/core/core.h"
#include "agent/core/guard.h"
#include "agent/core/replicas.h"
#include "agent/redis/asking.h"
#include "config/config.h"
#include "tests/keyspace/scripting.h"

#include "prng.h"

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
    SIM_THEMES = 16,
    SIM_GROUPS = 3, /* groups of the same masters under other names */
    /* Policies have the same terms, except for terms that a reload changes; or each key has its
     * own. */
    SIM_POLICIES = 8,
    SIM_PATTERNS = 4, /* policies whose pattern matches several keys */
    SIM_PROBES = SIM_AGENTS * SIM_MANY_PROBES + 2 * SIM_KEYS,
    SIM_HAPPENINGS = 65536, /* pending at once */
    /* Steps of all cores in one run. A run with more steps has a core that spins. */
    SIM_STEPS = 400000,
    SIM_LABEL = 8,
    SIM_OWNERS = 3, /* owners of one agent */
    SIM_SECRET = 24,
    SIM_FENCE_RETENTION_MS = 3600 * 1000, /* in most runs; no run lasts as long */
    /* for a PUT that asks for a short lease; the ttl of some policies is still shorter */
    SHORT_TTL_MS_MAX = 1200,
    SIM_JOURNAL = 2 * SIM_LOCKS + SIM_REQUESTS + 1, /* slots of one agent's lock table */
};

/* ---- options of a seed ----------------------------------------------------------------------- */

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
    bool wild;    /* One master's fence keys get numbers that no agent granted. */
    /* nothing fails but this: each master is away once for longer than a lease, one at a time */
    bool in_turn;
    bool few_rounds; /* So few rounds may be in flight that most of them wait (R16). */
    bool redisson;   /* keys are shared with a Java service (R22) */
    bool semaphores; /* keys have permits (R20) */
    bool replicas;   /* a single master has some, and they are promoted (R21); it is forgetful */
    /* Agents are paused together with their clocks, and masters' clocks step (A1, A3). */
    bool clocks;
    /* Many callers wait for one key at several agents in the healed world, in any order. */
    bool many_wait;
    bool kinds; /* each key draws its own kind */
    bool aging; /* numbers are kept for as short as allowed, and keys rest for longer (R12) */
    bool mixed; /* the seed draws which of the themes above are on (themes.c) */
    /* One draw more from the streams of the register and of Java, which agents do not see. */
    bool draws_more;
    /* Rules that are not the core's to keep, broken on purpose. */
    bool answers_unchecked;    /* a grant is written without a last look at the clock (R4) */
    bool register_accepts_all; /* the resource does not compare fencing numbers */
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
    uint32_t fence_retention_ms; /* R12 */
    uint8_t reloads;
    uint8_t bad_ttls;                /* per cent of the requests */
    uint32_t locks_max, waiters_max; /* small, or as many as are ever needed */
    /* length of one iteration of an agent's loop; 0: each event has its own iteration */
    int64_t turn_us_max;
    uint32_t rounds_min, rounds_max; /* bounds of the limit of rounds in flight (R16) */

    /* per cent of the waiters that leave, in the healed world of a fair order */
    uint8_t leaves;
    bool chokes; /* One agent reaches no quorum in time, in the healed world of a fair order. */
};

/* A place has a holder of its own. It is a key, or a slot of a key (R20), and a number below
 * SIM_KEYS. options_key_of() returns the key of a place. */
static inline uint8_t options_place(const struct options *options, uint8_t key, uint8_t permit)
{
    return (uint8_t)(permit == 0 ? key : key + options->keys * (permit - 1));
}
static inline uint8_t options_key_of(const struct options *options, uint8_t place)
{
    return (uint8_t)(place % options->keys);
}
static inline uint8_t options_places(const struct options *options)
{
    return (uint8_t)(options->keys * options->permits);
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
/* True while this run really breaks the assumption. */
#define world_breaks(w, which) ((w)->switches.broken == (which) && !(w)->switches.kept)

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

/* ---- network --------------------------------------------------------------------------------- */

/* A send item, copied out of the core. The checkers identify it by these fields. The masters
 * receive the message's bytes. */
struct order {
    struct lock_ref ref;
    struct token token;
    uint32_t ttl_ms;
    uint8_t key; /* the place */
    bool fencing;
    enum mode mode;
    struct token previous; /* HANDOVER */
    struct ticket ticket;
    uint8_t label_len;
    char label[SIM_LABEL];
};
struct message {
    enum op op;
    uint8_t agent, group;
    uint32_t incarnation; /* incarnation of the agent */
    int64_t sent_at;
    struct bytes command; /* the command in the wire format */
    bool names_vote;      /* The agent knows the master's vote, which is added to the command. */
    bool has_own;         /* The agent's own clock is added to the command, without a vote (R5). */
    int64_t clocks_ms[SIM_MASTERS];
    struct proposals proposals;
    uint16_t count;
    struct order orders[];
};
/* The reason for which a server does not run a command. */
enum mishap { MISHAP_NONE, MISHAP_REFUSED, MISHAP_NOT_RUN };
/* A master's reply to one order. */
struct verdict {
    enum vote vote;
    uint64_t fence;
    int64_t pttl_ms;
    uint64_t ticket;
    slot_set taken;
    uint32_t agents, readers;
    enum mode mode;
    bool is_own;
    uint8_t label_len;
    char label[SIM_LABEL];
};
/* One message on its way to one master and back. */
struct flight {
    const struct message *message;
    struct bytes command; /* the message's command, with this master's own arguments */
    /* a question about the marker, which belongs to no operation; NULL: this flight is not one */
    struct marking *marking;
    struct flight *next; /* the next flight on the connection */
    struct flight *next_parked;
    struct verdict *verdicts;
    uint16_t epoch;   /* the epoch that came with the verdicts; 0: none */
    bool unmarked;    /* The epoch was the master's own number, because there was no marker. */
    int64_t extra_us; /* a command of a dead connection that is still on its way */
    uint32_t generation, master_boot;
    uint8_t master;
    bool executed, lost, answered;
    struct {
        uint32_t timeout_ms; /* 0: the flight is not a WAIT */
        uint64_t offset;     /* the offset that replicas must have reached */
        unsigned count;      /* replicas that had reached it in the end */
    } wait;                  /* a WAIT for replicas, which belongs to no operation (R21) */
};
/* The question that the guard asks a master, and the answer (D5.3). */
struct marking {
    struct guard_ask ask;
    int64_t wall_us;
    bool answered; /* False: the master gave no answer. */
    struct guard_answer answer;
};
/* The ordered connection of one agent to one master (R5). */
struct connection {
    bool up, checking;
    uint16_t epoch; /* the master's epoch that was reported to the agent's core */
#ifdef SMALL_WORLD
    struct guard_answer known; /* the marker as its agent saw it last */
#endif
    uint32_t generation;
    uint32_t master_boot;             /* the master's boot to which the connection was made */
    int64_t arrival_last, reply_last; /* No command and no reply overtakes another one. */
    int64_t cut_out_until, cut_back_until;
    int64_t asked_until, told_until; /* Readings of the clock stay in their order. */
    struct flight *first, *last;
    bool subscribed[SIM_KEYS];
    /* R21: flights that the agent keeps back, the WAIT that the master is at, and the flights that
     * came after this WAIT. */
    struct replicas replicas;
    struct flight *kept, *waiting, *blocked;
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
};

/* ---- masters --------------------------------------------------------------------------------- */

struct kept_ticket {
    uint64_t agent, number; /* agent 0: none */
    int64_t until_ms;
    enum mode mode;
    uint8_t by; /* for the checker: the caller's agent, and when the ticket was sent */
    int64_t sent_at;
};
/* Facts about a key that the checkers need and that the keyspace does not hold. */
struct master_key {
    struct kept_ticket tickets[SIM_TICKETS]; /* the tickets in the keyspace */
    bool planted;                            /* A number that no agent granted was put there. */
    /* The master has no upper bound for this key's numbers. */
    bool lies;
    uint64_t tickets_version;
    /* The agent that set the key. stray: it was set by a command that outlived its connection (R5),
     * or came back with a replica that missed its release (R21). */
    uint8_t set_by;
    bool stray;
    uint32_t set_by_incarnation;
    /* End of the lease as its agent reckons it, from when the agent sent the last command that was
     * run (R6). */
    int64_t lease_until;
};
enum { SIM_NAMES = 2 * SIM_KEYS }; /* keys of a master: those of a second prefix too */
struct master {
    struct keyspace *keyspace;
    struct world *world;
    struct prng chance;
    uint8_t index;
    struct master_key keys[SIM_NAMES];
    int64_t rate_ppm, wall_us, jumped_us;
    int64_t stepped_at; /* when its clock stepped last; 0: never */
    int64_t jumped_at;  /* when its clock stepped forward last; 0: never */
    int64_t gained_us;  /* the sum of all its jumps forward */
    bool paused, down;
    bool promoted;            /* it was a replica before it comes up */
    uint32_t boot, histories; /* histories: replication ids that it has had (R21) */
    /* Forgetful masters: the epoch of the marker, or of the time without a marker. A marker's epoch
     * is MARKER_EPOCH(). */
    uint16_t epoch;
    struct { /* BREAK_ROLLBACK */
        struct keyspace *keyspace;
        struct master_key keys[SIM_NAMES];
    } snapshot;
    struct flight *parked, **parked_end;
    uint64_t offset;  /* commands that the master has run; its replicas follow this number */
    int64_t epoch_at; /* when it began another epoch last; 0: never */
};

/* A replica of the one master (R21). It has the master's data of an earlier time. */
struct replica {
    struct keyspace *keyspace;
    struct master_key keys[SIM_NAMES];
    uint64_t offset;
    bool frozen, coming; /* coming: the master's data is on its way */
};

/* ---- callers, agents, holds ------------------------------------------------------------------ */

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
    bool wrong;                 /* its token must not succeed */
    bool bothers;               /* It carries a token that does not belong to the caller. */
    bool bad_ttl;               /* It asks for a ttl that is longer than is allowed. */
    /* Its token belongs to a hold that its agent reported as valid when it was sent. */
    bool expects_hold;
    bool loses_answer; /* the answer will not reach the caller */
    bool granted;      /* A lock was granted, or the caller's own lock was granted again. */
    bool cancelled, bound;
    /* It repeats a request whose lock was released. No caller waits for the answer. */
    bool copy;
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

/* The last report of one agent about a hold. Several agents may have the hold at a time, because
 * its holder went to several of them (D3). */
struct tenure {
    struct instant valid_until, max_hold_until; /* as the agent last reported */
    struct lock_ref lock;                       /* the agent's name for the hold */
    bool lock_is_known;                         /* False: the hold was restored from a journal. */
    bool lost;                                  /* The agent reported the loss. */
    bool is_held;                               /* The hold is in the agent's list of the key. */
    struct hold *next;                          /* the next hold of that list */
};

/* A grant, as its callers know it. */
struct hold {
    struct token token;
    uint8_t key, agent; /* the place, and the agent that granted or adopted it last */
    enum mode mode;
    struct tenure tenures[SIM_AGENTS];
    /* Another agent was asked to adopt it. Each of its agents may be refused, or may fail to
     * release it. */
    bool shared;
    uint32_t incarnation;
    /* Its releases were requested, or it never reached its caller. Its windows bind no one any
     * more. */
    bool ended;
    /* Its release was requested at an agent that did not grant it. The agent that granted it may
     * not know. */
    bool elsewhere;
    /* Agents at which a PUT of it was cancelled, as bits. They may still adopt it. */
    uint8_t left_at;
    bool bound;
    uint8_t users;        /* callers that use it */
    uint8_t owner;        /* 0: none */
    uint16_t count;       /* releases that end it, as its callers know */
    uint32_t secret;      /* the idempotency key of its request; 0: none */
    struct request asked; /* the request itself */
    uint8_t owner_before; /* the owner before it was adopted */
    uint32_t secret_before;
    /* the incarnation of its agent that has refused this key since its release; 0: none */
    uint32_t used_up;
    /* A repair was on its way when a release elsewhere found no key on that master (R7). */
    bool crossed;
    /* It was renewed after another holder may have had the key: a master forgot its release (C12),
     * or a clock had stepped (A1, A3). */
    bool came_back;
    /* Its release was answered: 204, 202, or that the token is not valid any more (D3.7). */
    bool released;
    /* when the release was requested, and when it was answered */
    int64_t released_from, released_at;
    /* The number of the last request that had arrived by then at any agent. */
    uint64_t released_after;
    /* All masters have confirmed it to its agent, at one time. */
    bool known;
    uint32_t renewal;   /* number of the last round of renewals */
    int64_t renewal_at; /* when the last round of renewals was sent */
    /* It was restored from a journal, and no quorum has confirmed it since. */
    bool doubtful;
    bool given_up; /* its agent has begun to release it */
    /* A6: a master was told a smaller number than this hold's by a guess, after it was granted. */
    bool guessed_below;
    /* The register's version when the hold was granted or last wrote. */
    uint32_t version_seen;
    int64_t granted_at, window_from, window_until; /* real time */
    /* A1, A3: how far clocks have stepped since the hold was requested, and when last; 0: no
     * step. */
    int64_t shaken_us, shaken_at;
    uint16_t shaken_on; /* masters that had its key when a clock stepped */
    /* the time that each master gained on its agent since the hold was requested */
    struct gained {
        int64_t us, noticed_us, at;
    } gained[SIM_MASTERS];
    uint32_t ttl_ms; /* lease that its agent last reported */
    uint16_t next_in_bucket;
};

/* A token that an agent asked masters for. */
struct attempt {
    uint8_t random[RANDOM_BYTES];
    int64_t sent_at;                /* when the first command that carried it was sent */
    int64_t gained_us[SIM_MASTERS]; /* time that masters' clocks had gained then */
    struct attempt *next;           /* the previous attempt */
};

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

struct figures {
    uint64_t runs, steps, grants, take_overs, losses, writes, writes_rejected, wall_jumps, renewals,
        renewal_failures, lost[REASON_COUNT], adoptions, undeliveries, cancels, releases,
        releases_partial, releases_pending, restored, refusals, unavailable, wait_timeouts,
        expired_grants, stalls, second_phases, repairs, handovers, messages, forgotten, guarded,
        queued, searched, withdrawn, spoiled, crowded, full_steps, stranger_releases, bad_ttls,
        reloads, wakes, wakes_late, turns, turns_passed_over, lined_up, shared_acquires,
        shared_releases, overloaded, reentered, repeated, superseded, unbound, stuck, upgrades,
        reads_granted, read_together, unreplicated, failovers, failbacks, java_grants, readings,
        pauses, clock_jumps, aged, virtual_us;
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

/* world.c: the clock and what happens next */
void world_init(struct world *w);
/* Runs one seed to its end or to the first violation. */
void world_run(struct world *w, uint64_t seed);
unsigned world_quorum(const struct world *w);
void world_plan(struct world *w, struct happening happening);
void world_plan_in(struct world *w, int64_t us, struct happening happening);
void *world_allocate(struct world *w, size_t bytes); /* valid until the end of the run */
void world_say(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fault.c: the faults, and the end of all faults */
void fault_plan_all(struct world *w);
/* Plans the faults of a run in which masters are away in turn. Ends chaos behind the last of
 * them. */
void fault_plan_in_turn(struct world *w);
/* Plants a number that no agent granted on the one master that gets such numbers (R12). */
void fault_plan_wild(struct world *w);
void fault_strike(struct world *w, const void *fault);
void fault_heal(struct world *w);
/* Puts one agent far from so many masters that no quorum answers it in time. */
void fault_choke(struct world *w);
#define FAR_US(w) (2000 * (int64_t)(w)->options.node_timeout_ms)
#define is_far(w, a, m) ((a) == (w)->choked && ((w)->far >> (m)&1) != 0)
void fault_master_resumes(struct world *w, uint8_t master);
void fault_master_starts(struct world *w, uint8_t master);
void fault_replica_thaws(struct world *w, uint8_t replica);

/* flight.c: one message on its way to one master and back */
/* Copies the message that the core asks the shell to send into the world's memory. */
const struct message *flight_copy(struct world *w, uint8_t agent, const struct effect_send *send,
                                  const struct send_item *items);
/* Returns true while the connection that carried the flight lives. Otherwise no result of it
 * reaches its agent. */
bool flight_is_connected(struct world *w, const struct flight *flight);
/* Runs the flight's command on its master. */
void flight_execute(struct world *w, struct flight *flight, enum mishap mishap);
/* Reports the flight's end to the core: the verdicts, or `vote` for all of its orders if `verdicts`
 * is NULL. */
void flight_report(struct world *w, const struct flight *flight, const struct verdict *verdicts,
                   enum vote vote);

/* network.c: ordered connections with delay */
void network_send(struct world *w, uint8_t agent, const struct effect_send *send,
                  const struct send_item *items);
void network_arrive(struct world *w, struct flight *flight);
void network_reply(struct world *w, struct flight *flight, bool copy);
void network_check(struct world *w, uint8_t agent, uint8_t master, uint32_t generation);
void network_drop(struct world *w, uint8_t agent, uint8_t master, uint32_t generation);
void network_connect(struct world *w, uint8_t agent, uint8_t master, uint32_t generation);
/* Sends a question about the marker on a connection that is up. */
void network_ask(struct world *w, uint8_t agent, uint8_t master, struct marking *marking);
/* Reports the master's present epoch and its clock to the core. */
void network_tell_up(struct world *w, uint8_t agent, uint8_t master);

/* marking.c: the shipped guard of each agent, if masters forget (D5.3) */
void marking_boot(struct world *w, uint8_t agent);
/* Handles a new connection. The marker is read before the connection is up. */
void marking_greet(struct world *w, uint8_t agent, uint8_t master);
void marking_ready(struct world *w, uint8_t agent, uint8_t master);
void marking_away(struct world *w, uint8_t agent, uint8_t master);
/* Handles the report about the marker that an operation's scripts returned. */
void marking_overhear(struct world *w, const struct flight *flight);
/* Runs the question on its master. The answer then reaches the agent. */
void marking_run(struct world *w, struct flight *flight, enum mishap mishap);
void marking_answered(struct world *w, const struct flight *flight);
void marking_time(struct world *w, uint8_t agent);
/* Returns the last argument of the message for this master. */
struct text marking_vote(const struct world *w, uint8_t agent, uint8_t master,
                         const struct message *message, char bytes[ASKING_VOTE_BYTES]);
/* Sends the message to these masters. */
void marking_numbers(struct world *w, uint8_t agent, master_set masters,
                     const struct message *message);
/* Ends the connections of an agent that has died, without a report to it. */
void network_abandon(struct world *w, uint8_t agent);
/* Ends an iteration of the agent's loop. The agent may then ask for replicas (R21). */
void network_turn(struct world *w, uint8_t agent);
/* Ends the time of a WAIT: network_waited() on its master, network_give_up() at its agent. */
void network_waited(struct world *w, struct flight *flight);
void network_give_up(struct world *w, uint8_t agent, uint8_t master, uint32_t generation);
/* Handles the progress of a replica. */
void network_replicated(struct world *w);
/* Returns false if the master is down, or has restarted and lost its end of the connection. The
 * agent may not know that yet. */
bool network_leads_to(const struct world *w, uint8_t agent, uint8_t master);

/* readings.c: how agents read the masters' clocks */
/* Begins the readings of a connection that has come up: one at once, then one a second. */
void readings_begin(struct world *w, uint8_t agent, uint8_t master);
/* Reads all clocks at once. */
void readings_all(struct world *w, uint8_t agent);
void readings_due(struct world *w, const struct happening *happening);
void readings_at_master(struct world *w, const struct happening *happening);
void readings_told(struct world *w, const struct happening *happening);

/* clocks.c: clocks that do not keep the assumptions (A1, A3) */
/* Returns how long the agent's clocks have run. */
int64_t clocks_agent_us(const struct world *w, uint8_t agent);
void clocks_pause(struct world *w, uint8_t agent, int64_t us);
void clocks_go_on(struct world *w, uint8_t agent);
void clocks_jump(struct world *w, uint8_t master, int64_t us);
/* Notes that a master's clock has gone forward by that much. */
void clocks_stepped(struct world *w, uint8_t master, int64_t us);
/* A1, A3: Returns true if the agent asked before it was paused with its clocks, or before a
 * master's clock jumped, and need not have noticed yet. */
bool clocks_are_behind(const struct world *w, uint8_t agent, int64_t asked_at);
/* R14: Returns true if a gain may be noticed while the operation is in flight. The operation is
 * void then. */
bool clocks_may_void(const struct world *w, uint8_t agent, int64_t asked_at);
/* Notes the tokens for which the agent asks masters. */
void clocks_asked(struct world *w, uint8_t agent, const struct message *message);
/* A hold begins. Its attempt may be older than the event that shook the clocks. */
void clocks_granted(struct world *w, struct hold *hold);
/* C1: a clock has stepped, and this hold's agent need not have noticed it yet. */
bool clocks_excuse(struct world *w, const struct hold *hold);
/* C9: its validity may be taken back by so much. */
bool clocks_may_shorten(const struct hold *hold, int64_t us);
/* The masters that gained, and whose clock the hold's agent has not read since. */
unsigned clocks_unnoticed(const struct world *w, const struct hold *hold);
/* Notes that a renewal of the hold was confirmed. */
void clocks_renewed(const struct world *w, uint8_t agent, struct hold *hold);

/* channel.c: subscriptions and messages */
void channel_watch(struct world *w, uint8_t agent, uint8_t key, bool watches);
void channel_connected(struct world *w, uint8_t agent, uint8_t master);
void channel_dropped(struct world *w, uint8_t agent, uint8_t master);
void channel_subscribe(struct world *w, uint8_t agent, uint8_t master, uint32_t generation,
                       const void *what);
void channel_signal(struct world *w, uint8_t agent, uint8_t master, uint32_t generation,
                    const void *what);
/* Sends the message to the agents that name the key in this way (master_name()). Returns their
 * number. */
uint32_t channel_publish(struct world *w, uint8_t master, uint8_t name, struct bytes message);
uint32_t channel_agents(struct world *w, uint8_t master, uint8_t name);

/* Returns the place that an item, a hold or a trace of the core names. */
static inline uint8_t world_place(const struct world *w, struct text key, uint8_t permit)
{
    return options_place(&w->options, (uint8_t)(key.at[1] - '0'), permit);
}

/* master.c: a keyspace, a clock, and the shipped scripts on it */
/* Compiles the scripts. `replacement` breaks the text of one on purpose. Returns NULL, or the
 * reason for which a script cannot be compiled. */
const char *master_load(struct world *w, const struct replacement *replacement);
/* Puts this number into the key's fence key. If `lies` is true, the master has no upper bound for
 * that key's numbers from then on. */
void master_plant(struct world *w, uint8_t master, uint8_t key, uint64_t number, bool lies);
void master_reset(struct world *w, uint8_t master);
/* Sets the options of this run's commands to the masters: whether they are guarded, and how long
 * numbers are kept. */
void master_configure(struct world *w);
/* Names the places on the masters, according to the options of the run. */
void master_name_places(const struct options *options);
int64_t master_wall_us(const struct world *w, uint8_t master);
/* Returns the master's wall clock at another real time than now. */
int64_t master_wall_at(const struct world *w, uint8_t master, int64_t at);
/* Returns the name of a place's lock on the masters. */
struct bytes master_lock_name(uint8_t name);
/* Returns the bytes of a command made from the core's items. They are valid until the next call. */
struct bytes master_command(struct world *w, uint8_t agent, enum op op,
                            const struct send_item *items, unsigned count);
/* Runs a flight's command and reads its reply: one verdict per order, and the epoch that comes with
 * them. */
void master_execute(struct world *w, struct flight *flight, enum mishap mishap,
                    struct verdict *ret_verdicts);
/* Gives the master's data another origin: another replication id. The previous id becomes its
 * second one. */
void master_begin_history(struct master *master);
/* Epochs differ from master to master, as random ones do. */
#define MARKER_EPOCH(epoch, master) ((uint16_t)((epoch)*16 + (master)))
/* replica.c: the replicas of a single master (R21) */
void replica_reset(struct world *w);
/* Plans the replication after the master has run a command. */
void replica_follow(struct world *w);
void replica_arrive(struct world *w, uint8_t replica);
/* Returns how many replicas have the master's data of that offset. */
unsigned replica_count(const struct world *w, uint64_t offset);
/* Puts the replica in the master's place, with the replica's own data. */
void replica_promote(struct world *w, uint8_t replica);
/* Returns how many replicas have the key with that token, at least until then (in real time). */
unsigned replica_count_holding(struct world *w, uint8_t name, const uint8_t random[RANDOM_BYTES],
                               int64_t until);

/* Runs a script of other users of a key, with its name and channel, a holder and a lease. Returns
 * the number that it answers. */
int64_t master_eval(struct world *w, uint8_t master, const char *script, uint8_t key,
                    const char *who, int64_t lease_ms);
/* Deletes the key's data that the Java service has left. */
void master_forget_java(struct world *w, uint8_t master, uint8_t key);
/* Returns the top of the master's marker; 0: it has no marker, or no top was set. */
uint64_t master_top(struct world *w, uint8_t master);
/* Runs the marker's script. */
void master_mark(struct world *w, uint8_t master, const struct guard_ask *ask, int64_t wall_us,
                 struct guard_answer *ret_answer);
/* Deletes all of the master's data, the marker included. */
void master_forget(struct world *w, uint8_t master);
void master_clear(struct world *w, uint8_t master);
void master_snapshot(struct world *w, uint8_t master);
void master_roll_back(struct world *w, uint8_t master);
/* Returns the name on the masters, a number below SIM_NAMES, of the place that the agent's core
 * calls `key`. With BREAK_DISAGREEMENT it may differ. */
uint8_t master_name(const struct world *w, uint8_t agent, uint8_t key);
/* Returns true if more than `which` holders lock the key there now. Sets the random part of holder
 * number `which`, counted from 0. */
bool master_holder(struct world *w, uint8_t master, uint8_t name, unsigned which,
                   uint8_t ret_random[RANDOM_BYTES]);
bool master_holds(struct world *w, uint8_t master, uint8_t name,
                  const uint8_t random[RANDOM_BYTES]);
/* Returns the masters that have the token's key, by its random part. */
uint16_t master_set_having(struct world *w, uint8_t name, const struct token *token);
/* Returns on how many masters master_holds() is true. */
unsigned master_count_holding(struct world *w, uint8_t name, const uint8_t random[RANDOM_BYTES]);
bool master_is_locked(struct world *w, uint8_t master, uint8_t name);
/* Returns when the next lease on the key there ends, unix time in ms by the master's clock;
 * INT64_MAX: never. */
int64_t master_next_end_ms(struct world *w, uint8_t master, uint8_t name);

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
/* Ends all callers that hold a lock at this agent. */
void caller_end_all(struct world *w, uint8_t agent);
void caller_wind_down(struct world *w);
void caller_probe_all(struct world *w);
bool caller_all_done(const struct world *w);

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

/* java.c: a Java service that shares the keys (R22) */
void java_start(struct world *w);
void java_acts(struct world *w);
/* Ends the service. It leaves no data behind. */
void java_heals(struct world *w);

/* line.c: rounds that wait until they may be in flight (C13) */
/* Checks after every step of the agent's core, before the effects are gone. */
void line_after_step(struct world *w, uint8_t agent, const struct event *event);
/* Checks when the agent writes the commands of the step. */
void line_after_flush(struct world *w, uint8_t agent);

/* checker.c, answers.c, holds.c: the promises, checked from the outside */
void checker_reset(struct world *w);
void checker_fail(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct hold *checker_find(struct world *w, const uint8_t random[RANDOM_BYTES]);
/* Notes that the agent reports no holds any more. */
void checker_drop_all(struct world *w, uint8_t agent);
void checker_answer(struct world *w, uint8_t agent, struct request *request,
                    const struct effect_answer *answer);
/* Notes that a restarted agent is about to get the entries of its journal. */
void checker_restored(struct world *w, uint8_t agent, uint8_t key,
                      const struct noted_hold *restored);
/* Notes that the agent knows that a bound caller has left, or does not read. */
void checker_left(struct world *w, uint8_t agent, const struct leaving *leaving);
/* Notes that a caller uses a hold that no caller used. */
void checker_taken_up(struct world *w, struct hold *hold, const struct request *request);
void checker_trace(struct world *w, uint8_t agent, const struct effect_trace *trace);
void checker_after_step(struct world *w, uint8_t agent);
void checker_deleted(struct world *w, uint8_t master, const struct message *message,
                     const struct order *order, const uint8_t random[RANDOM_BYTES]);
/* C1: Checks that the Java service holds its key until the end of the window. */
void checker_java(struct world *w, struct hold *hold);
/* Notes a promise that reaches a caller: valid until then on the agent's clock. */
void checker_promised(struct world *w, uint8_t agent, uint8_t key, struct instant valid_until);
/* R21: Checks that no grant comes soon after a replica was promoted. */
void checker_voted(struct world *w, const struct order *order);
/* Notes that a renewal has created a missing key. */
void checker_repaired(struct world *w, uint8_t master, const struct message *message,
                      const struct order *order);
/* Notes that a renewal is about to be sent. */
void checker_renews(struct world *w, const struct order *order);
/* Notes that a command about the place was run on the master. */
void checker_ran(struct world *w, uint8_t master, uint8_t place, bool was_there, bool is_there);
void checker_orphan(struct world *w, uint8_t key, const uint8_t random[RANDOM_BYTES]);
void checker_settled(struct world *w);
void checker_store(struct world *w, struct hold *hold);
/* Notes that a guess told a master this floor (A6). */
void checker_guessed(struct world *w, uint64_t floor);
void checker_end(struct world *w);

/* turns.c: C11 over all agents */
void turns_reset(struct world *w);
void turns_came(struct world *w, const struct request *request);
void turns_after_step(struct world *w, uint8_t agent);
/* Notes that the agent is about to send a command with a ticket. */
void turns_shown(struct world *w, uint8_t agent, const struct order *order);
void turns_granted(struct world *w, const struct caller *caller, const struct request *request);
/* Notes that a master refuses an attempt because of this ticket. */
void turns_withheld(struct world *w, uint8_t master, uint8_t key, const struct kept_ticket *ticket);

/* wakes.c: how soon a release reaches other agents, and whose turn comes next */
void wakes_reset(struct world *w);
void wakes_released(struct world *w, uint8_t agent, uint8_t key);
void wakes_granted(struct world *w, uint8_t agent, uint8_t key);
void wakes_end(struct world *w);

/* timeline.c: prints the events and effects of a replayed seed */
void timeline_event(struct world *w, uint8_t agent, const struct event *event);
void timeline_effect(struct world *w, uint8_t agent, const struct effect *effect,
                     const struct send_item *items);

#endif
