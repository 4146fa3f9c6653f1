/* The simulated world: what the parts of the simulator share. The picture is at the top of
 * world.c. */
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
    SIM_AGENTS = 2, /* with so many callers that one answer to all of them fills a step */
    SIM_CALLERS = 60,
    SIM_REQUESTS = 64, /* open at one agent */
#else
    SIM_AGENTS = 5,
    SIM_CALLERS = 10,  /* of the faulty phase */
    SIM_REQUESTS = 32, /* open at one agent */
#endif
    SIM_MASTERS = 9,
    SIM_KEYS = 8,
    SIM_MANY_PROBES = 20, /* of the healed one: at each agent, where the order is looked at */
    SIM_TICKETS = 32,     /* of one key on one master */
    SIM_LOCKS = 64,       /* slots of one agent's core */
    SIM_HOLDS = 2048,     /* granted in one run */
    SIM_HOLD_BUCKETS = 4096,
    SIM_OPEN_WINDOWS = 256, /* unexpired windows of one key */
#endif
    SIM_REPLICAS = 3, /* of a single master */
    SIM_THEMES = 16,
    SIM_GROUPS = 3,   /* of the same masters, by other names */
    SIM_POLICIES = 8, /* with the same terms, but for what a reload changes; or one per key */
    SIM_PATTERNS = 4, /* of them that match several keys */
    SIM_PROBES = SIM_AGENTS * SIM_MANY_PROBES + 2 * SIM_KEYS,
    SIM_HAPPENINGS = 65536, /* pending at once */
    SIM_STEPS = 400000,     /* of all cores in one run: more is a core that spins */
    SIM_LABEL = 8,
    SIM_OWNERS = 3, /* of one agent */
    SIM_SECRET = 24,
    SIM_FENCE_RETENTION_MS = 3600 * 1000, /* of most runs: none is so long */
    SHORT_TTL_MS_MAX = 1200, /* of a PUT that asks for little: some policies' ttl is still less */
    SIM_JOURNAL = 2 * SIM_LOCKS + SIM_REQUESTS + 1, /* slots of one agent's lock table */
};

/* ---- what a seed decides --------------------------------------------------------------------- */

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

/* What the command line decides, for all seeds alike. */
struct switches {
    enum assumption broken;
    bool kept; /* the schedule of a broken assumption, with the assumption kept */
    /* masters lose their keys: restarted empty, or flushed under their connections */
    bool forgetful;
    bool fair;    /* the order is fair with every seed */
    bool rw;      /* keys are read and written (R17), with every seed */
    bool roaming; /* callers go to several living agents with one token */
    bool wild;    /* one master's fence keys get numbers that nobody granted */
    /* nothing fails but this: each master is away once for longer than a lease, one at a time */
    bool in_turn;
    bool few_rounds; /* so few may be in flight that most of them wait for a place (R16) */
    bool redisson;   /* keys are shared with a Java service (R22) */
    bool semaphores; /* keys have permits (R20) */
    bool replicas;   /* a single master has some, and they are promoted (R21); it is forgetful */
    /* agents are paused with their clocks, and masters' clocks step (A1, A3) */
    bool clocks;
    bool many_wait; /* for one key at several agents, in the healed world; the order is any */
    bool kinds;     /* each key draws its own kind */
    bool aging;     /* numbers are kept for as short as allowed, and keys rest for longer (R12) */
    bool mixed;     /* the seed draws which of the themes above are on (themes.c) */
    /* One draw more from the streams of the register and of Java, which agents do not see. */
    bool draws_more;
    /* Rules that are not the core's to keep, broken on purpose. */
    bool answers_unchecked;    /* a grant is written without a last look at the clock (R4) */
    bool register_accepts_all; /* the resource does not compare fencing numbers */
};

/* What the policy of one key says of its kind. */
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
    uint8_t permits; /* of each key; 1: they are mutexes */
    enum algorithm algorithm;
    uint8_t replicas, ack; /* of a single master, and how many of them it WAITs for (R21) */
    uint32_t replicas_timeout_ms;
    uint8_t freezes, failovers; /* of them */
    bool fencing;
    bool journal;    /* an agent that crashed finds its holds again */
    bool fair;       /* first come, first served over all agents (R9) */
    bool rw;         /* readers share their keys (R17) */
    bool redisson;   /* masters keep them as Java does (R22) */
    uint8_t readers; /* where they do: of those who ask, per cent */
    enum renew renew;
    uint32_t node_timeout_ms, ttl_ms, ttl_ms_max, retry_ms_min, retry_ms_max, handover_max;
    int64_t max_hold_ms;
    uint32_t lock_delay_ms; /* R15 */

    int64_t out_us_max, back_us_max; /* usual delay of a command and of its reply */
    /* how late a late one is; when the agent gives a connection up (R3) */
    int64_t late_us_max, silence_us;
    uint16_t late, doubled, refused, not_run, not_sent, message_lost;
    bool down_first; /* a connection's end is told before the fate of what was in flight */
    uint8_t partitions, isolations, splits,
        flapping; /* one link; an agent or a master from all; a majority; per cent */
    uint8_t wall_jumps;
    uint16_t frozen_writes; /* the agent stops between its decision and the writing of the answer */
    uint8_t resets, pauses, restarts, stalls, crashes, ends;
    uint8_t clock_pauses, clock_jumps; /* of agents, and of masters (A1, A3) */
    int64_t chaos_us, think_us_max, rate_ppm, wall_us;

    uint8_t waits, renews, shortens, vanishes, cancels, loses_answers, bothers, goes_elsewhere,
        reads;

    uint8_t flushes;   /* where masters forget */
    bool steps_clocks; /* and they come back with another wall clock */

    /* D3, R11; a copy of a request comes behind its release */
    uint8_t binds, owns, repeats, copies, sticks;

    uint8_t groups, policies;
    uint32_t fence_retention_ms; /* R12 */
    uint8_t reloads;
    uint8_t bad_ttls;                /* per cent of the requests */
    uint32_t locks_max, waiters_max; /* small, or as many as are ever needed */
    int64_t turn_us_max;             /* of an agent's loop; 0: each event has one of its own */
    uint32_t rounds_min, rounds_max; /* bounds of the limit of rounds in flight (R16) */

    /* where the order is fair, in the healed world: per cent of the waiters leave, */
    uint8_t leaves;
    bool chokes; /* and one agent reaches no quorum in time */
};

/* What has a holder of its own: a key, or a slot of one (R20), as a number below SIM_KEYS; and the
 * key that it is of. */
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
/* The longest that is usual, with the turn of the loop that it waits for. */
int64_t options_round_trip_us(const struct options *options);
/* True while this run really breaks the assumption. */
#define world_breaks(w, which) ((w)->switches.broken == (which) && !(w)->switches.kept)

/* ---- time ------------------------------------------------------------------------------------ */

/* Everything that will happen, ordered by (at, order): equal times happen in the order of
 * planning. */
enum happening_kind {
    HAPPEN_COMMAND,    /* a flight reaches its master */
    HAPPEN_REPLY,      /* a flight's reply reaches its agent */
    HAPPEN_TIMER,      /* an agent's one timer */
    HAPPEN_FLUSH,      /* a turn of its loop ends: it writes what it has gathered */
    HAPPEN_REQUEST,    /* a caller's request reaches its agent */
    HAPPEN_CANCEL,     /* its caller has gone */
    HAPPEN_WRITE,      /* an answer is written to its caller */
    HAPPEN_DELIVERED,  /* and was written wholly */
    HAPPEN_LEAVE,      /* the connection that a hold is bound to ends, or is not read */
    HAPPEN_CHECK,      /* has a master been silent for too long? */
    HAPPEN_DROP,       /* a connection ends */
    HAPPEN_CONNECT,    /* an attempt to connect */
    HAPPEN_SUBSCRIBE,  /* an agent's subscription reaches a master */
    HAPPEN_SIGNAL,     /* its confirmation, or a message, reaches the agent */
    HAPPEN_MARKER,     /* the time of an agent's guard has come */
    HAPPEN_CLOCK_DUE,  /* an agent reads a master's clock: it asks, */
    HAPPEN_CLOCK_READ, /* the master looks at it, */
    HAPPEN_CLOCK_TOLD, /* and the agent hears of it */
    HAPPEN_CALLER,     /* a caller's next move */
    HAPPEN_JAVA,       /* the Java service's next move */
    HAPPEN_FAULT,
    HAPPEN_REPLICATE, /* what the master has comes to a replica */
    HAPPEN_THAW,      /* one that was frozen goes on */
    HAPPEN_WAITED,    /* a WAIT's time is over on the master, */
    HAPPEN_GIVE_UP,   /* and at the agent */
    HAPPEN_RESUME,    /* a paused master goes on */
    HAPPEN_START,     /* a stopped master is back */
    HAPPEN_WAKE,      /* a stalled agent goes on */
    HAPPEN_BOOT,      /* a crashed agent is back */
    HAPPEN_HEAL,      /* the faults end */
    HAPPEN_PROBE,     /* the liveness phase begins */
    HAPPEN_ORPHAN,    /* is anything left of a failed or ended attempt? */
    HAPPEN_SETTLED,   /* and of those of the faulty phase? */
    HAPPEN_STORE,     /* a holder, or who was one, writes to the register */
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

/* A send item, copied out of the core: what the checkers know it by. The masters are given the
 * message's bytes. */
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
    uint32_t incarnation; /* of the agent */
    int64_t sent_at;
    struct bytes command; /* on the wire */
    bool names_vote;      /* then each master gets the vote that the agent knows behind it, */
    bool has_own;         /* or its clock alone (R5) */
    int64_t clocks_ms[SIM_MASTERS];
    struct proposals proposals;
    uint16_t count;
    struct order orders[];
};
/* What a server lacks that does not run a command. */
enum mishap { MISHAP_NONE, MISHAP_REFUSED, MISHAP_NOT_RUN };
/* What a master says to one order. */
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
    struct bytes command;    /* the message's, and what this master alone gets */
    struct marking *marking; /* a question about the marker, of no operation; NULL: it is none */
    struct flight *next;     /* in flight on the connection */
    struct flight *next_parked;
    struct verdict *verdicts;
    uint16_t epoch;   /* that came with them; 0: none */
    bool unmarked;    /* it was the master's own number: there was no marker */
    int64_t extra_us; /* a command of a dead connection that is still on its way */
    uint32_t generation, master_boot;
    uint8_t master;
    bool executed, lost, answered;
    struct {
        uint32_t timeout_ms; /* 0: it is none */
        uint64_t offset;     /* what replicas must have */
        unsigned count;      /* that had it in the end */
    } wait;                  /* for replicas, of no operation (R21) */
};
/* What the guard asks of a master, and the answer (D5.3). */
struct marking {
    struct guard_ask ask;
    int64_t wall_us;
    bool answered; /* else nothing was said */
    struct guard_answer answer;
};
/* The ordered connection of one agent to one master (R5). */
struct connection {
    bool up, checking;
    uint16_t epoch; /* of the master, as its agent's core was told */
#ifdef SMALL_WORLD
    struct guard_answer known; /* what its agent saw of the marker last */
#endif
    uint32_t generation;
    uint32_t master_boot;             /* to which it was made */
    int64_t arrival_last, reply_last; /* nothing overtakes */
    int64_t cut_out_until, cut_back_until;
    int64_t asked_until, told_until; /* readings of the clock stay in their order */
    struct flight *first, *last;
    bool subscribed[SIM_KEYS];
    /* R21: at the agent what is kept back; on the master the WAIT that it is at, and what came
     * behind it. */
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
    STREAM_AGENT,  /* of each agent, by its number */
    STREAM_LINK,   /* of each agent and master */
    STREAM_MASTER, /* of each master */
    STREAM_CALLER, /* of each caller */
};

/* ---- masters --------------------------------------------------------------------------------- */

struct kept_ticket {
    uint64_t agent, number; /* agent 0: none */
    int64_t until_ms;
    enum mode mode;
    uint8_t by; /* for the checker: whose it is, and when it was sent */
    int64_t sent_at;
};
/* What the checkers note of a key, beside what the keyspace holds. */
struct master_key {
    struct kept_ticket tickets[SIM_TICKETS]; /* those of the keyspace */
    bool planted;                            /* a number that nobody granted was put there, */
    bool lies;                               /* and is bounded by nothing there */
    uint64_t tickets_version;
    /* Who set it, and whether by a command that outlived its connection (R5), or came back with a
     * replica that missed its release (R21). */
    uint8_t set_by;
    bool stray;
    uint32_t set_by_incarnation;
    /* as its agent reckons, from when it sent the last command that was run (R6) */
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
    int64_t stepped_at; /* its clock, last; 0: it has not */
    int64_t jumped_at;  /* the same, forward */
    int64_t gained_us;  /* by all jumps forward */
    bool paused, down;
    bool promoted;            /* it was a replica before it comes up */
    uint32_t boot, histories; /* histories: replication ids that it has had (R21) */
    /* Forgetful masters: of the marker, or of the time without one. There it is called
     * MARKER_EPOCH(). */
    uint16_t epoch;
    struct { /* BREAK_ROLLBACK */
        struct keyspace *keyspace;
        struct master_key keys[SIM_NAMES];
    } snapshot;
    struct flight *parked, **parked_end;
    uint64_t offset; /* commands that it has run: what its replicas follow */
};

/* A replica of the one master (R21): what that had at some time. */
struct replica {
    struct keyspace *keyspace;
    struct master_key keys[SIM_NAMES];
    uint64_t offset;
    bool frozen, coming; /* coming: what the master has is on its way */
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
    bool bothers;               /* its token is none of the caller's */
    bool bad_ttl;               /* longer than is allowed */
    /* its token is the one of a hold that its agent reported as valid when it was sent */
    bool expects_hold;
    bool loses_answer; /* the answer will not reach the caller */
    bool granted;      /* a lock, or one that the caller has already, once more */
    bool cancelled, bound;
    bool copy;       /* of a request whose lock was released: nobody wants the answer */
    uint8_t owner;   /* 0: none */
    uint32_t secret; /* its idempotency key; 0: none */
    bool by_secret;  /* RELEASE: in place of the token */
    /* a number that rises; a repeat has that of the request whose place it takes */
    uint64_t arrived;
    uint64_t queued; /* the same, or later: as the hold ended that its owner asked for again */
    uint32_t number, ttl_ms, incarnation; /* of the agent that took it */
    uint16_t had; /* masters that had its token, and no other number, when it was taken */
    struct token token;
    struct hold *hold; /* whose token it is, if it is anybody's */
    enum mode mode;
    enum renew renew;
    int64_t wait_ms, max_hold_ms, asked_at;
    int64_t begun_at; /* the same; a repeat has that of the request whose place it takes */
    struct lock_ref lock;
};

enum caller_state { CALLER_IDLE, CALLER_ASKING, CALLER_HOLDING, CALLER_GONE };
struct caller {
    uint8_t index, agent, key;
    enum caller_state state;
    struct prng chance;
    uint32_t turn; /* a planned move of an earlier turn is void */
    struct request *request;
    struct hold *hold;
    bool probes, done;
    bool leaves;          /* probing: it does not wait for the end, */
    bool hopeless;        /* or waits at the agent that is choked until all others have gone */
    uint16_t turned_away; /* probing: by tables that were full */
    int64_t due_at;       /* probing: when the lock must have been granted */
    /* first of those who wait at each agent, as masters knew when it came */
    const struct request *behind[SIM_AGENTS];
};

/* What one agent has said of a hold. Several may have it at a time: those whom its holder went to
 * (D3). */
struct tenure {
    struct instant valid_until, max_hold_until; /* as it last said */
    struct lock_ref lock;                       /* its name for it, */
    bool lock_is_known;                         /* unless it is out of a journal */
    bool lost;                                  /* it said so */
    bool is_held;                               /* it is in the agent's list of the key: */
    struct hold *next;                          /* behind it */
};

/* A grant, as its callers know it. */
struct hold {
    struct token token;
    uint8_t key, agent; /* the place, and the agent that granted or adopted it last */
    enum mode mode;
    struct tenure tenures[SIM_AGENTS];
    /* another agent was asked to adopt it: whoever has it may be denied, or unable to release it */
    bool shared;
    uint32_t incarnation;
    /* its releases were asked for, or it never reached its caller: its windows bind nobody */
    bool ended;
    /* its release was asked for at an agent that did not grant it: its own may not know */
    bool elsewhere;
    uint8_t
        left_at; /* agents at which a PUT of it was cancelled, as bits: they may adopt it still */
    bool bound;
    uint8_t users;        /* callers that have it */
    uint8_t owner;        /* 0: none */
    uint16_t count;       /* releases that end it, as its callers know */
    uint32_t secret;      /* the idempotency key of its request; 0: none */
    struct request asked; /* which was this */
    uint8_t owner_before; /* until it was adopted, */
    uint32_t secret_before;
    /* the incarnation of its agent that has refused this key since its release; 0: none */
    uint32_t used_up;
    bool crossed; /* a repair was on its way as a release elsewhere found no key there (R7) */
    /* It was renewed after another holder may have had the key: a master forgot its release (C12),
     * or a clock had stepped (A1, A3). */
    bool came_back;
    /* and its release was answered: 204, 202, or that it is nobody's any more (D3.7) */
    bool released;
    int64_t released_from, released_at; /* when that was asked for, and answered */
    /* the last request that had arrived by then, at whatever agent */
    uint64_t released_after;
    /* all masters have confirmed it to its agent, at one time */
    bool known;
    uint32_t renewal;   /* the last round of renewals, */
    int64_t renewal_at; /* and when it was sent */
    /* out of a journal, and no quorum has confirmed it since */
    bool doubtful;
    bool given_up; /* its agent has begun to release it */
    /* A6: a master was told a smaller number than this hold's by a guess, after it was granted. */
    bool guessed_below;
    /* of the register, when it was granted or last written */
    uint32_t version_seen;
    int64_t granted_at, window_from, window_until; /* real time */
    /* A1, A3: since it was asked for clocks have stepped by so much, last then; 0: they have not */
    int64_t shaken_us, shaken_at;
    uint16_t shaken_on; /* the masters that had its key as a clock stepped */
    struct gained {     /* what each master gained on its agent since it was asked for */
        int64_t us, noticed_us, at;
    } gained[SIM_MASTERS];
    uint32_t ttl_ms; /* of the lease, as its agent last said */
    uint16_t next_in_bucket;
};

/* A token that an agent asked masters for. */
struct attempt {
    uint8_t random[RANDOM_BYTES];
    int64_t sent_at;                /* the first command that carried it */
    int64_t gained_us[SIM_MASTERS]; /* by the masters' clocks until then */
    struct attempt *next;           /* the one before */
};

struct journalled {
    bool used;
    uint8_t key; /* the place */
    struct noted_hold hold;
};

/* Of one group, after the agent's last step (R16). */
struct line {
    uint8_t keys[SIM_KEYS], count;
    bool is_full;   /* somebody waits, and no place is free */
    uint32_t limit; /* of rounds in flight, */
    uint32_t quick; /* and decisions since it changed that were quick, while it was full */
};

struct agent {
    struct core *core;
    struct prng chance;
    struct prng links[SIM_MASTERS]; /* the chance of its ways to the masters */
#ifndef SMALL_WORLD
    struct guard guard;
    int64_t guard_at; /* when its time is looked at; INT64_MAX: not planned */
#endif
    struct journalled journal[SIM_JOURNAL];
    void *memory;
    size_t memory_bytes;
    bool alive, stalled, draining, ending;
    uint32_t locks, waiters; /* in its tables as its step began */
    bool reloaded;           /* it has other policies than the world's */
    uint32_t incarnation;
    uint32_t name; /* on the masters; outlives a crash with the journal */
    int64_t boot_base_us, rate_ppm, wall_us;
    bool paused; /* with its clocks, */
    int64_t paused_at;
    int64_t paused_us; /* and before for so long */
    /* when it went on last, after how long; 0: it was never paused */
    int64_t gone_on_at, gained_us;
    int64_t clock_read_at[SIM_MASTERS]; /* when it asked for the last answer that came in time */
    struct attempt *attempts;           /* the last one first */
    int64_t timer_at;                   /* INT64_MAX: not armed */
    bool in_turn;                       /* it writes at the end of a turn that goes on */
    int64_t stalled_last;               /* real time at which the last stall ended */
    bool dropped_debt;                  /* its table of releases owed was full (R6) */
    struct happening *parked;
    size_t parked_count, parked_room;
    struct request *open[SIM_REQUESTS];
    uint32_t begun;        /* locks that it has begun to deal with since it booted */
    bool was_full;         /* its table of locks, since then */
    uint64_t drained_from; /* requests that arrived later get no new lock */
    struct connection connections[SIM_MASTERS];
    struct hold *held[SIM_KEYS]; /* what it reports: the first, and at a mutex the only one */
    bool watches[SIM_KEYS];      /* the keys' channels */
    struct line lines[SIM_GROUPS];
    uint32_t guests[SIM_GROUPS];          /* in flight, by group (C13) */
    const struct request *head[SIM_KEYS]; /* who waits first, */
    int64_t shown_at[SIM_KEYS];           /* when an attempt was begun last */
    int64_t head_since[SIM_KEYS];         /* since when, */
    /* and when somebody last waited for the key here, or had it */
    int64_t wanted_last[SIM_KEYS];
    /* the random part of the attempt under way or decided last */
    uint8_t attempt[SIM_KEYS][RANDOM_BYTES];
    /* where readers share the keys, and several are under way: by the slot of the core's table */
    uint8_t tries[SIM_JOURNAL][RANDOM_BYTES];
};

/* The Java service: what it is at, with one key at a time (R22). */
enum java_state { JAVA_IDLE, JAVA_TAKES, JAVA_HOLDS, JAVA_RELEASES };
struct java {
    enum java_state state;
    uint8_t key, master; /* the master that it asks next, */
    uint8_t granted;     /* how many of those before have granted */
    uint8_t renewals;    /* still to come */
    uint32_t number;     /* of its holder: another one each time */
    uint32_t lease_ms;
    int64_t began_at;
    int64_t until[SIM_KEYS]; /* by then all that it has left of the key has ended */
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
    struct prng readings;                    /* the same, of the masters' clocks */
    struct switches switches;
    struct options options;
    bool verbose, healed;
    int64_t now, healed_at;
    int64_t jumped_at, jumped_us; /* masters' clocks, forward: when last, and by how much in all */
    int64_t set_back_us;          /* and back: leases last so much longer */
    int64_t leftovers_until;      /* the last hold of the faulty phase that nobody uses has ended */
    uint64_t order, steps, arrivals;
    uint32_t secrets; /* given out */

    struct happening *heap;
    size_t heap_count;
    char *arena;
    size_t arena_used;

    struct master masters[SIM_MASTERS];
    struct replica replicas[SIM_REPLICAS];
    int64_t promoted_at; /* when one of them was last; -1: none was */
    struct agent agents[SIM_AGENTS];
    struct caller callers[SIM_CALLERS + SIM_PROBES];
    size_t caller_count;

    /* The agent that reaches no quorum in time, though all masters are up; SIM_AGENTS: none. And
     * the masters that are far. */
    uint8_t choked;
    uint16_t far;
    int64_t choked_at;

    struct java java;
    struct core_group groups[SIM_GROUPS];
    struct core_policy policies[SIM_POLICIES];
    struct core_config config;
    /* of keys on the masters; the second with another prefix (BREAK_DISAGREEMENT) */
    struct config naming[2];
    struct scripting *scripting;
    struct scripting *lying; /* the same scripts, but they take any number for a fencing number */
    struct effects *effects;

    struct hold holds[SIM_HOLDS];
    uint16_t hold_count; /* holds[0] is nobody's */
    uint16_t buckets[SIM_HOLD_BUCKETS];
    struct hold *windows[SIM_KEYS][SIM_OPEN_WINDOWS];
    uint16_t window_count[SIM_KEYS];
    uint64_t fence_last[SIM_KEYS];
    /* C15: until then there may have been a key there on some master, as far as was seen */
    int64_t busy_until[SIM_KEYS][SIM_MASTERS];
    int64_t forgot_at; /* when a master forgot its keys last; -1: none did */
    /* when an attempt's command of a dead connection took a key; -1: none did */
    int64_t intruded_at;
    int64_t epoch_at; /* when one began another epoch: keys may be gone, or not; -1: none did */
    struct hold *granted_last[SIM_KEYS];
    int64_t freed_at[SIM_KEYS]; /* released, while somebody waited for it elsewhere; 0: not */
    unsigned wakes, wakes_late;
    /* of the agents with the first key: how many there were, the last one of each (0: none), those
     * of agents that had one before, and those by which another one of these was passed over */
    uint32_t turn_number, turn_last[SIM_AGENTS], turns, turns_passed_over;
    struct { /* one per key: it rejects tokens lower than the highest that it has seen */
        uint64_t token, read; /* the highest of a write, and of a read */
        uint32_t version;
    } registers[SIM_KEYS];
    uint64_t written_last[SIM_KEYS]; /* the number of the last write's grant */
    char property[16];               /* of the violation: C1..C18 */
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
void *world_allocate(struct world *w, size_t bytes); /* until the end of the run */
void world_say(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fault.c: what goes wrong, and the end of it */
void fault_plan_all(struct world *w);
/* The faults of a run in which masters are away in turn. Ends chaos behind the last of them. */
void fault_plan_in_turn(struct world *w);
/* Plants a number that nobody granted on the one master that gets such (R12). */
void fault_plan_wild(struct world *w);
void fault_strike(struct world *w, const void *fault);
void fault_heal(struct world *w);
/* One agent is far from so many masters that no quorum answers it in time. */
void fault_choke(struct world *w);
#define FAR_US(w) (2000 * (int64_t)(w)->options.node_timeout_ms)
#define is_far(w, a, m) ((a) == (w)->choked && ((w)->far >> (m)&1) != 0)
void fault_master_resumes(struct world *w, uint8_t master);
void fault_master_starts(struct world *w, uint8_t master);
void fault_replica_thaws(struct world *w, uint8_t replica);

/* flight.c: one message on its way to one master and back */
/* What the core asks to be sent, in the world's memory. */
const struct message *flight_copy(struct world *w, uint8_t agent, const struct effect_send *send,
                                  const struct send_item *items);
/* True while the connection that carried the flight lives: only then can its agent still hear of
 * it. */
bool flight_is_connected(struct world *w, const struct flight *flight);
/* Its master runs it now. */
void flight_execute(struct world *w, struct flight *flight, enum mishap mishap);
/* Tells the core of the flight's end: the verdicts, or where there are none `vote` for all of its
 * orders. */
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
/* A question about the marker leaves, on a connection that is up. */
void network_ask(struct world *w, uint8_t agent, uint8_t master, struct marking *marking);
/* The core hears of the master's present epoch, and its clock. */
void network_tell_up(struct world *w, uint8_t agent, uint8_t master);

/* marking.c: the shipped guard of each agent, where masters forget (D5.3) */
void marking_boot(struct world *w, uint8_t agent);
/* A connection is made: the marker is looked at before it is up, */
void marking_greet(struct world *w, uint8_t agent, uint8_t master);
void marking_ready(struct world *w, uint8_t agent, uint8_t master);
void marking_away(struct world *w, uint8_t agent, uint8_t master);
/* What the scripts of an operation said of the marker. */
void marking_overhear(struct world *w, const struct flight *flight);
/* The question runs on its master, and its answer reaches the agent. */
void marking_run(struct world *w, struct flight *flight, enum mishap mishap);
void marking_answered(struct world *w, const struct flight *flight);
void marking_time(struct world *w, uint8_t agent);
/* The last argument of the message for this master. */
struct text marking_vote(const struct world *w, uint8_t agent, uint8_t master,
                         const struct message *message, char bytes[ASKING_VOTE_BYTES]);
/* The message leaves for these masters. */
void marking_numbers(struct world *w, uint8_t agent, master_set masters,
                     const struct message *message);
/* The agent has died: its connections end without a word to it. */
void network_abandon(struct world *w, uint8_t agent);
/* A turn of the agent's loop ends: it may ask for replicas (R21). */
void network_turn(struct world *w, uint8_t agent);
/* A WAIT's time is over, on its master; and at its agent. */
void network_waited(struct world *w, struct flight *flight);
void network_give_up(struct world *w, uint8_t agent, uint8_t master, uint32_t generation);
/* A replica has come nearer. */
void network_replicated(struct world *w);
/* False where the master is down, or has restarted and its end of the connection is gone, of which
 * the agent may not have heard yet. */
bool network_leads_to(const struct world *w, uint8_t agent, uint8_t master);

/* readings.c: how agents read the masters' clocks */
/* A connection has come up: the first reading, and from then on one a second. */
void readings_begin(struct world *w, uint8_t agent, uint8_t master);
/* All clocks at once. */
void readings_all(struct world *w, uint8_t agent);
void readings_due(struct world *w, const struct happening *happening);
void readings_at_master(struct world *w, const struct happening *happening);
void readings_told(struct world *w, const struct happening *happening);

/* clocks.c: clocks that do not keep the assumptions (A1, A3) */
/* So long the agent's clocks have run. */
int64_t clocks_agent_us(const struct world *w, uint8_t agent);
void clocks_pause(struct world *w, uint8_t agent, int64_t us);
void clocks_go_on(struct world *w, uint8_t agent);
void clocks_jump(struct world *w, uint8_t master, int64_t us);
/* A master's clock has gone forward by that much. */
void clocks_stepped(struct world *w, uint8_t master, int64_t us);
/* A1, A3: the agent asked before it was paused with its clocks, or before a master's clock jumped,
 * and need not have noticed yet. */
bool clocks_are_behind(const struct world *w, uint8_t agent, int64_t asked_at);
/* R14: a gain may be noticed while what the agent was asked then is under way, which is void. */
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
/* A renewal of the hold was confirmed. */
void clocks_renewed(const struct world *w, uint8_t agent, struct hold *hold);

/* channel.c: subscriptions and messages */
void channel_watch(struct world *w, uint8_t agent, uint8_t key, bool watches);
void channel_connected(struct world *w, uint8_t agent, uint8_t master);
void channel_dropped(struct world *w, uint8_t agent, uint8_t master);
void channel_subscribe(struct world *w, uint8_t agent, uint8_t master, uint32_t generation,
                       const void *what);
void channel_signal(struct world *w, uint8_t agent, uint8_t master, uint32_t generation,
                    const void *what);
/* Messages go to the agents that name the key in this way (master_name()). Returns how many they
 * are. */
uint32_t channel_publish(struct world *w, uint8_t master, uint8_t name, struct bytes message);
uint32_t channel_agents(struct world *w, uint8_t master, uint8_t name);

/* The place that an item, a hold or a trace of the core names. */
static inline uint8_t world_place(const struct world *w, struct text key, uint8_t permit)
{
    return options_place(&w->options, (uint8_t)(key.at[1] - '0'), permit);
}

/* master.c: a keyspace, a clock, and the shipped scripts on it */
/* Compiles the scripts; a text of theirs may be broken on purpose. NULL, or why that can not be. */
const char *master_load(struct world *w, const struct replacement *replacement);
/* Puts this number into the key's fence key; `lies`: from then on the master bounds none of that
 * key's numbers. */
void master_plant(struct world *w, uint8_t master, uint8_t key, uint64_t number, bool lies);
void master_reset(struct world *w, uint8_t master);
/* What a run decides of the commands to the masters: are they guarded, and for how long are numbers
 * kept. */
void master_configure(struct world *w);
/* What places are called on the masters, once it is known what the run is about. */
void master_name_places(const struct options *options);
int64_t master_wall_us(const struct world *w, uint8_t master);
/* The same at another real time than now. */
int64_t master_wall_at(const struct world *w, uint8_t master, int64_t at);
/* The name of a place's lock on the masters. */
struct bytes master_lock_name(uint8_t name);
/* The bytes of a command, out of the core's items; valid until the next one. */
struct bytes master_command(struct world *w, uint8_t agent, enum op op,
                            const struct send_item *items, unsigned count);
/* Runs a flight's command and reads its reply: one verdict per order, and the epoch that comes with
 * them. */
void master_execute(struct world *w, struct flight *flight, enum mishap mishap,
                    struct verdict *ret_verdicts);
/* The master's data has another origin from now on: it has another replication id, and its second
 * one is that of before. */
void master_begin_history(struct master *master);
/* Epochs differ from master to master, as random ones do. */
#define MARKER_EPOCH(epoch, master) ((uint16_t)((epoch)*16 + (master)))
/* replica.c: those of a single master (R21) */
void replica_reset(struct world *w);
/* The master has run something. */
void replica_follow(struct world *w);
void replica_arrive(struct world *w, uint8_t replica);
/* How many have what the master had at that offset. */
unsigned replica_count(const struct world *w, uint64_t offset);
/* It takes the master's place, with what it has. */
void replica_promote(struct world *w, uint8_t replica);
/* On how many the key is there with that token, until then (in real time) at least. */
unsigned replica_count_holding(struct world *w, uint8_t name, const uint8_t random[RANDOM_BYTES],
                               int64_t until);

/* What others ask of a key, by a script with its name and channel, a holder and a lease. Returns
 * the number that it answers. */
int64_t master_eval(struct world *w, uint8_t master, const char *script, uint8_t key,
                    const char *who, int64_t lease_ms);
/* What the Java service has left of the key is gone. */
void master_forget_java(struct world *w, uint8_t master, uint8_t key);
/* The top of its marker; 0: it has none, or has not been told. */
uint64_t master_top(struct world *w, uint8_t master);
/* Runs the marker's script. */
void master_mark(struct world *w, uint8_t master, const struct guard_ask *ask, int64_t wall_us,
                 struct guard_answer *ret_answer);
/* Everything is gone, the marker too. */
void master_forget(struct world *w, uint8_t master);
void master_clear(struct world *w, uint8_t master);
void master_snapshot(struct world *w, uint8_t master);
void master_roll_back(struct world *w, uint8_t master);
/* What the core of an agent calls `key` may have another name on the masters (BREAK_DISAGREEMENT):
 * a number below SIM_NAMES. */
uint8_t master_name(const struct world *w, uint8_t agent, uint8_t key);
/* True when so many and one more lock the key there now, and with which random part that one. */
bool master_holder(struct world *w, uint8_t master, uint8_t name, unsigned which,
                   uint8_t ret_random[RANDOM_BYTES]);
bool master_holds(struct world *w, uint8_t master, uint8_t name,
                  const uint8_t random[RANDOM_BYTES]);
/* Returns the masters that have the token's key, by its random part. */
uint16_t master_set_having(struct world *w, uint8_t name, const struct token *token);
/* On how many masters it is so. */
unsigned master_count_holding(struct world *w, uint8_t name, const uint8_t random[RANDOM_BYTES]);
bool master_is_locked(struct world *w, uint8_t master, uint8_t name);
/* When the next of those who lock the key there is not live any more, unix time in ms by the
 * master's clock; INT64_MAX: never. */
int64_t master_next_end_ms(struct world *w, uint8_t master, uint8_t name);

/* agent.c: the surroundings of one core */
void agent_boot(struct world *w, uint8_t agent);
/* The agent is told to end; `release`: its callers have ended. It dies a little later. */
void agent_end(struct world *w, uint8_t agent, bool release);
/* It takes no new locks from now on. */
void agent_drain(struct world *w, uint8_t agent);
void agent_crash(struct world *w, uint8_t agent);
/* The process stands still for so long. */
void agent_stall(struct world *w, uint8_t agent, int64_t us);
void agent_step(struct world *w, uint8_t agent, struct event *event);
/* A step for each group that a master is in. */
void agent_step_master(struct world *w, uint8_t agent, struct event *event);
void agent_timer(struct world *w, uint8_t agent);

/* A turn of its loop is over. */
void agent_flush(struct world *w, uint8_t agent);
/* Its configuration is read again, and has changed. */
void agent_reload(struct world *w, uint8_t agent);
/* The group that all agents ask for a key. */
uint8_t agent_group_of(const struct world *w, uint8_t agent, uint8_t key);
void agent_take_request(struct world *w, struct request *request);
void agent_take_cancel(struct world *w, struct request *request);
/* The shell writes an answer that the core has decided (R4: after a last look at the clock). */
struct written;
void agent_write(struct world *w, struct written *written);
void agent_delivered(struct world *w, struct request *request);
/* The caller that a hold is bound to has left, or does not read. */
struct leaving {
    struct hold *hold;
    struct lock_ref lock;
    uint32_t incarnation;
    bool stuck;
};
void agent_take_leave(struct world *w, uint8_t agent, const struct leaving *leaving);
struct instant agent_clock(const struct world *w, uint8_t agent);
int64_t agent_wall_us(const struct world *w, uint8_t agent);
/* The last microsecond of real time at which the agent's clock is not past `t`. */
int64_t agent_real_us(const struct world *w, uint8_t agent, struct instant t);

/* caller.c: people of changing manners */
void caller_start(struct world *w, uint8_t caller);
void caller_act(struct world *w, uint8_t caller);
void caller_answered(struct world *w, struct request *request, const struct effect_answer *answer);
void caller_disconnected(struct world *w, struct request *request);
/* Whoever holds something at this agent has ended. */
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
/* It ends, and leaves nothing behind. */
void java_heals(struct world *w);

/* line.c: who waits for a place for its round (C13) */
/* After every step of its core, with the effects still there. */
void line_after_step(struct world *w, uint8_t agent, const struct event *event);
/* And as what was sent is written. */
void line_after_flush(struct world *w, uint8_t agent);

/* checker.c, answers.c, holds.c: the promises, checked from the outside */
void checker_reset(struct world *w);
void checker_fail(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct hold *checker_find(struct world *w, const uint8_t random[RANDOM_BYTES]);
/* The agent reports none any more. */
void checker_drop_all(struct world *w, uint8_t agent);
void checker_answer(struct world *w, uint8_t agent, struct request *request,
                    const struct effect_answer *answer);
/* An agent that was started again is about to be given what its journal held. */
void checker_restored(struct world *w, uint8_t agent, uint8_t key,
                      const struct noted_hold *restored);
/* The agent has heard that a bound caller has left, or does not read. */
void checker_left(struct world *w, uint8_t agent, const struct leaving *leaving);
/* A caller has a hold that nobody had. */
void checker_taken_up(struct world *w, struct hold *hold, const struct request *request);
void checker_trace(struct world *w, uint8_t agent, const struct effect_trace *trace);
void checker_after_step(struct world *w, uint8_t agent);
void checker_deleted(struct world *w, uint8_t master, const struct message *message,
                     const struct order *order, const uint8_t random[RANDOM_BYTES]);
/* C1: the Java service holds its key until the end of the window. */
void checker_java(struct world *w, struct hold *hold);
/* A promise reaches a caller: valid until then on the agent's clock. */
void checker_promised(struct world *w, uint8_t agent, uint8_t key, struct instant valid_until);
/* R21: nobody is granted anything soon after a replica was promoted. */
void checker_voted(struct world *w, const struct order *order);
/* A renewal has created the key where it was missing. */
void checker_repaired(struct world *w, uint8_t master, const struct message *message,
                      const struct order *order);
/* A renewal is about to be sent. */
void checker_renews(struct world *w, const struct order *order);
/* A command about the place was run there. */
void checker_ran(struct world *w, uint8_t master, uint8_t place, bool was_there, bool is_there);
void checker_orphan(struct world *w, uint8_t key, const uint8_t random[RANDOM_BYTES]);
void checker_settled(struct world *w);
void checker_store(struct world *w, struct hold *hold);
/* A master was told this floor by a guess (A6). */
void checker_guessed(struct world *w, uint64_t floor);
void checker_end(struct world *w);

/* turns.c: C11 over all agents */
void turns_reset(struct world *w);
void turns_came(struct world *w, const struct request *request);
void turns_after_step(struct world *w, uint8_t agent);
/* It is about to send a command with a ticket. */
void turns_shown(struct world *w, uint8_t agent, const struct order *order);
void turns_granted(struct world *w, const struct caller *caller, const struct request *request);
/* A master refuses an attempt because of this ticket. */
void turns_withheld(struct world *w, uint8_t master, uint8_t key, const struct kept_ticket *ticket);

/* wakes.c: how soon a release is heard elsewhere, and whose turn comes next */
void wakes_reset(struct world *w);
void wakes_released(struct world *w, uint8_t agent, uint8_t key);
void wakes_granted(struct world *w, uint8_t agent, uint8_t key);
void wakes_end(struct world *w);

/* timeline.c: what a replayed seed prints */
void timeline_event(struct world *w, uint8_t agent, const struct event *event);
void timeline_effect(struct world *w, uint8_t agent, const struct effect *effect,
                     const struct send_item *items);

#endif
