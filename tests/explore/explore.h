/* Every schedule of a small world. The world has the simulator's cores, masters and checkers. A
 * search that takes every choice replaces the simulator's chance.
 *
 *   scripts*.c  the requests of each caller, and the faults that may occur
 *   scene.c     the world of one script: connections, callers, clock
 *   begin.c     how that world begins
 *   masters.c   the results of script calls are remembered, so that each call runs once
 *   state.c     the state that is saved, restored and hashed
 *   choices.c   the next possible choices, and their costs
 *   calm.c      the end of each schedule: nothing fails any more, and all callers get the lock
 *   exercised.c the deeds that a script must have exercised
 *   faultless.c order and promptness, as long as nothing has failed
 *   search.c    depth first, over every choice; the shortest story of a violation
 *   java.c      a Java service beside the agents
 *   seen.c      the states that were looked at
 *
 * guard/ does the same with the guard of the masters, which has a simulator of its own.
 *
 * Time does not pass while a parcel can be delivered. Otherwise it moves on to the next moment at
 * which an event becomes due. So the orders of events are choices, and delays are faults.
 */
#ifndef LOCKAGENT_EXPLORE_H
#define LOCKAGENT_EXPLORE_H

#include "tests/sim/world.h"

#include "ranges.h"

enum {
#ifdef FUZZED_WORLD /* tests/fuzz, which copies nothing */
    MOVES_MAX = 32, /* moves of one caller */
    PARCELS_MAX = 64,
    SIGNALS_MAX = 64,
    STRAYS_MAX = 32,
    UNASKED_MAX = 64,
    DEFERRED_MAX = 256, /* in one moment */
    CHOICES_MAX = 768,
    MESSAGE_BYTES = 16384,
#else
    MOVES_MAX = 6,
    PARCELS_MAX = 24,
    SIGNALS_MAX = 16,
    STRAYS_MAX = 4,
    UNASKED_MAX = 4,
    DEFERRED_MAX = 16,
    CHOICES_MAX = 192,
    MESSAGE_BYTES = 2048,
#endif
    BOUND_MAX = 7,
    PEOPLE_MAX = SIM_CALLERS + SIM_PROBES,
    NOBODY = 255, /* the caller of a request whose answer is not wanted */
    STARTS_US = 1000000,
};

/* ---- scripts --------------------------------------------------------------------------------- */

enum move_kind {
    MOVE_NONE,
    MOVE_POST,
    MOVE_PUT,
    MOVE_DELETE,
    MOVE_GET,
    MOVE_LEAVE,
    MOVE_DRAIN,
    MOVE_RELOAD,     /* its agent reads its configuration again, which has changed */
    MOVE_END,        /* its agent ends in good order */
    MOVE_JAVA_TAKES, /* it is the Java service (R22) */
    MOVE_JAVA_RELEASES,
};
/* When the agent that grants a lock dies during the grant: before any caller has the answer, or
 * when its caller has the answer and the journal does not record that yet. */
enum death { DEATH_NONE, DEATH_UNTOLD, DEATH_UNMARKED };
struct move {
    enum move_kind kind;
    uint8_t agent;
    /* POST: how long it waits and may hold, its lease (0: the policy's), and the side that renews
     * it. */
    int64_t wait_ms, max_hold_ms;
    uint32_t ttl_ms;
    enum renew renew;
    uint8_t key; /* POST, GET */
    /* The next caller makes its move in the same iteration of the agent's loop. */
    bool together;
    bool follows;     /* This move is the second one of such a pair. */
    uint32_t secret;  /* POST: its idempotency key; 0: none */
    uint8_t owner;    /* POST: 0: none */
    bool reads;       /* POST: beside others (R17) */
    bool bound;       /* POST; LEAVE ends it */
    bool copy;        /* POST: a copy of one whose lock was released. No caller wants its answer. */
    bool unheard;     /* its answer does not reach the caller */
    bool of_first;    /* PUT, DELETE: the token of the first caller */
    bool wrong;       /* PUT, DELETE: the token's number is another one, and it must fail */
    bool by_secret;   /* DELETE: in place of the token */
    uint16_t of_hold; /* PUT, DELETE: the token of this hold of the world's, by its index; 0: no */
    bool is_strange;  /* PUT, DELETE: one bit of the token is another one, and it must fail */
    bool first_alone; /* JAVA_TAKES: on one master, as of one that died over it */
    bool releases;    /* END: its callers have ended */
    enum death death; /* POST: of its agent, over the answer */
    bool soon;        /* before time moves on */
    uint16_t from_ms; /* a multiple of a quarter of the ttl: not before, counted from the start */
    bool after_all;   /* once the callers before this one have no moves left */
};

enum fault_kind {
    FAULT_DELAY, /* one direction of a connection is held up */
    /* A connection ends. Its commands in flight never ran, have run, or run later. */
    FAULT_CUT,
    FAULT_FREEZE,      /* an agent stops for a while */
    FAULT_CRASH,       /* an agent dies, and is started again */
    FAULT_FORGET,      /* a master forgets everything: FLUSHALL */
    FAULT_RESTART,     /* a master restarts empty */
    FAULT_PROMOTE,     /* an older copy of its keys, with another run id, takes a master's place */
    FAULT_CLOCK,       /* an agent's wall clock is set */
    FAULT_DOUBLE,      /* a reply comes twice */
    FAULT_LOSE_SIGNAL, /* a message of a release is lost */
    FAULT_REFUSE,      /* a master refuses a command (OOM) */
    FAULT_LAG,         /* the replica stops for a while, and then gets all data at once (R21) */
};
#define MAY(fault) (1u << FAULT_##fault)

/* Deeds that must have happened in some schedule of a script (exercised.c). */
enum deed {
    DEED_GRANT,
    DEED_WAITED,
    DEED_REFUSAL,
    DEED_RELEASE,
    DEED_STRANGER,
    DEED_TAKE_OVER,
    DEED_HANDOVER,
    DEED_MESSAGE,
    DEED_RENEWAL,
    DEED_REPAIR,
    DEED_LOSS,
    DEED_TAKEN,
    DEED_CAPPED,
    DEED_STALLED,
    DEED_DRAINED,
    DEED_ADOPTION,
    DEED_WRONG,
    DEED_RESTORED,
    DEED_REENTERED,
    DEED_REPEATED,
    DEED_CANCEL,
    DEED_UNDELIVERED,
    DEED_UNBOUND,
    DEED_SECOND_PHASE,
    DEED_WITHHELD,
    DEED_READER_WITHHELD,
    DEED_WITHDRAWN,
    DEED_READ,
    DEED_TOGETHER,
    DEED_SEARCHED,
    DEED_FORGOTTEN,
    DEED_GUARDED,
    DEED_RELOAD,
    DEED_SHARED,
    DEED_JAVA,
    DEED_JAVA_KEY,
    DEED_UNAVAILABLE,
    DEED_UNREPLICATED,
    DEED_FAILOVER,
    DEED_NATIVE,
    DEED_BY_SCRIPT,
    DEED_NATIVE_RELEASE,
    DEEDS
};
#define SEES(deed) (1ull << DEED_##deed)

struct script {
    const char *name, *what;
    uint64_t sees;         /* SEES(...): deeds without a fault */
    uint64_t sees_failing; /* deeds with at least one allowed fault */
    uint8_t agents, callers;
    struct move moves[SIM_CALLERS][MOVES_MAX];
    unsigned faults; /* MAY(...) that a bound allows for */
    uint32_t lock_delay_ms, horizon_ms;
    uint32_t handover_max; /* 0: one */
    bool no_handover;
    uint8_t keys;    /* 0: one */
    uint8_t permits; /* permits of a semaphore: two, at two places; 0: no semaphore */
    uint8_t seed;    /* is added to the seeds of the agents' chance */
    bool fair, rw, redisson, journal, reentrant, forgetful, roaming;
    bool native; /* Agents read the masters' clocks, so locks are taken by native commands (R24). */
    bool compares; /* Masters can compare and delete, so locks are released by native commands. */
    /* how far the number of the first master is ahead; 0: it has no number */
    int64_t number_ahead_us;
    /* A key that a lost holder has left on the first master ends after so long. */
    uint32_t left_over_ms;
    int64_t wall_behind_us; /* the second agent's wall clock */
    /* One fault of one connection may hold up waiters: the release of a hold of a bare quorum is
     * published at a bare quorum, and a second fencing phase (R12) asks a bare quorum. */
    bool needs_each;
    bool has_replica;    /* The single master has a replica, and WAITs for it (R21). */
    bool is_new_group;   /* no master has a marker */
    bool one_is_guarded; /* the first master has just forgotten everything */
    int64_t rate_ppm;    /* the first agent's clock is so much slower, the others' faster */
    /* For tests/fuzz alone. masters: 0 means three, or one with a replica. needs_all_masters: all
     * of them must grant. has_few_rounds: few rounds may be in flight (R16). agents_renew: agents
     * renew unless a POST says otherwise. tells_end_first: a connection's end is reported before
     * the result of the commands that were in flight. */
    uint8_t masters;
    bool needs_all_masters, has_no_numbers, has_small_tables, has_few_rounds, agents_renew,
        tells_end_first;
    uint8_t quick_bound; /* in `make test` */
    uint8_t bound;       /* in `make explore`, in one order of delivery; */
    bool each_order;     /* without a fault in every order as well */
};
/* The scripts of one subject. */
struct subject {
    const struct script *scripts;
    size_t count;
};
extern const struct subject subject_mutex, subject_guard, subject_turns, subject_kinds,
    subject_native;
/* Returns the script with this number, counted over all subjects; NULL: there is none. */
const struct script *script_at(size_t index);

/* ---- the world of one script ----------------------------------------------------------------- */

/* A command on its way, or its reply on its way back. */
struct parcel {
    const struct message *message; /* message and verdicts are interned (state.c). */
    const struct verdict *verdicts;
    struct bytes command;
    const char *vote; /* the vote of native commands (R24); NULL: it is a script */
    uint32_t generation, master_boot;
    uint16_t epoch;
    uint8_t master;
    bool executed;
};
struct signal {
    enum event_kind kind;
    uint8_t key;
    struct event_channel said; /* MESSAGE */
};
/* Beside the simulator's struct connection. */
struct path {
    struct parcel parcels[PARCELS_MAX];
    struct signal signals[SIGNALS_MAX];
    uint8_t parcel_count, signal_count;
    uint8_t subscribes; /* keys whose SUBSCRIBE is on the way, as bits */
    int64_t connect_at; /* INT64_MAX: it is up */
    int64_t marker_at;  /* its agent looks at the marker; INT64_MAX: not soon */
};
/* An older state of a master's keys, with the checkers' notes about them. */
struct copy {
    struct keyspace *keyspace;
    struct master_key keys[SIM_KEYS];
};
struct scene {
    const struct script *script;
    struct path paths[SIM_AGENTS][SIM_MASTERS];
    struct parcel strays[STRAYS_MAX]; /* commands of connections that ended; they run later */
    uint8_t stray_count;
    int64_t frozen_until[SIM_AGENTS], boot_at[SIM_AGENTS];
    int64_t ends_at[SIM_AGENTS];  /* an agent that ends is gone then; 0: it does not end */
    int64_t back_at[SIM_MASTERS]; /* a master that restarts; 0: it is up */
    /* The replica then gets the data that the master had when the replica stopped. */
    int64_t lags_until;
    int64_t idle_since;        /* since then a free key has been waited for; 0: none is */
    struct hold java;          /* the Java service's hold */
    bool is_hampered;          /* A fault of one connection was chosen. */
    bool has_failed;           /* A worse fault than that was chosen. */
    uint8_t probes;            /* callers that ask in a healed world */
    uint8_t moved[PEOPLE_MAX]; /* moves that each caller has made */
    uint8_t asked[PEOPLE_MAX]; /* requests of each caller that were made */
    struct request requests[PEOPLE_MAX][MOVES_MAX + 2];
    uint8_t unasked_count; /* requests without a caller */
    struct request unasked[UNASKED_MAX];
    /* If a replica may be promoted: each master's keys before their last change, and at the
     * start. */
    struct copy late_copies[SIM_MASTERS], first_copies[SIM_MASTERS];
};
extern struct world world;
extern struct scene scene;

/* begin.c */
/* Sets up the world of the script: all agents are up and connected. */
void scene_begin(const struct script *script);
/* Starts an agent, with random bytes of its own. */
void scene_boot(uint8_t agent);

/* scene.c */
/* Runs the events that were put off to the end of the choice. */
void scene_settle(void);
int64_t scene_real_us(uint8_t agent, struct instant deadline);
void scene_connect(uint8_t agent, uint8_t master);
void scene_look_at_marker(uint8_t agent, uint8_t master);
/* Runs the first command that has not run. */
void scene_execute(uint8_t agent, uint8_t master, enum mishap mishap);
void scene_execute_stray(unsigned index);
void scene_reply(uint8_t agent, uint8_t master, bool twice);
void scene_subscribe(uint8_t agent, uint8_t master);
void scene_signal(uint8_t agent, uint8_t master, bool is_lost);
enum fate { FATE_NEVER, FATE_RUN, FATE_LATER };
void scene_cut(uint8_t agent, uint8_t master, enum fate fate);
void scene_crash(uint8_t agent, enum fate fate);
/* Its end in good order begins: soon it is gone, and later back. `release`: its callers have
 * ended. */
void scene_end(uint8_t agent, bool release);
void scene_master_forgets(uint8_t master);
/* It will be back with this copy of its keys; NULL: empty. */
void scene_master_stops(uint8_t master, const struct copy *copy);
void scene_master_starts(uint8_t master);
/* Puts the replica in the place of the single master, with the replica's own data. */
void scene_promote_replica(void);
/* From now on a key that an attempt of the healed world has left is an offence (C8). */
void scene_check_orphans(void);
/* Commands of this path that have not run yet. */
unsigned scene_pending(const struct path *path);

/* people.c: the callers */
/* The caller's next move, if it may make it now; NULL: none. */
const struct move *people_next_move(uint8_t caller);
/* It has none left, also later. */
bool people_is_done(uint8_t caller);
/* What becomes of the agent that has granted this. */
enum death people_death(const struct request *request);
/* Returns the agent of the caller's next move. */
uint8_t people_agent(uint8_t caller);
void people_move(uint8_t caller);
/* Sends a DELETE without a caller, for a hold that no caller uses. */
void people_release_leftover(uint8_t agent, struct hold *hold);
/* Asks for the lock at this agent, to wait for it, and releases it. */
void people_probe(uint8_t caller, uint8_t agent, int64_t due_at);

/* masters.c */
/* Allows the use of the world's masters. Changes outside of scripts become a shared state of the
 * masters. */
void masters_share(void);
/* This one's keyspace may be changed until masters_share(). */
void masters_own(uint8_t master);
/* Returns a copy of the master's present data. The copy does not change. */
struct copy masters_copy(uint8_t master);
/* Frees the remembered results. The world must begin anew. */
void masters_forget_all(void);

/* ---- state ----------------------------------------------------------------------------------- */

/* The same bytes are kept once, until state_forget_all(); `bytes` is aligned as by malloc. */
const void *state_intern(const void *bytes, size_t size);
/* Frees the interned data. The world must begin anew. */
void state_forget_all(void);
/* Saves everything but the cores. state_restore() of the returned number restores it. */
size_t state_save(void);
/* Saves this core as well. Call it before the core changes. */
void state_touch(uint8_t agent);
/* Like state_touch(), also for a core that is built anew. */
void state_touch_whole(uint8_t agent);
void state_restore(size_t saved);
uint64_t state_hash(void);
/* Like state_hash(), but hashes each core again. */
uint64_t state_hash_anew(void);
/* Nothing is saved any more, and no hash is known. */
void state_reset(void);

/* ---- choices --------------------------------------------------------------------------------- */

enum choice_kind {
    CHOICE_TIMER,
    CHOICE_CONNECT,
    CHOICE_MARKER,
    CHOICE_EXECUTE,
    CHOICE_SUBSCRIBE,
    CHOICE_REPLY,
    CHOICE_SIGNAL,
    CHOICE_MOVE,
    CHOICE_TIME,
    CHOICE_STRAY,
    CHOICE_HOLD_OUT,
    CHOICE_HOLD_BACK,
    CHOICE_CUT_NEVER,
    CHOICE_CUT_RUN,
    CHOICE_CUT_LATER,
    CHOICE_FREEZE,
    CHOICE_CRASH_NEVER,
    CHOICE_CRASH_RUN,
    CHOICE_FORGET,
    CHOICE_RESTART,
    CHOICE_PROMOTE,
    CHOICE_CLOCK,
    CHOICE_LAG,
    CHOICE_DOUBLE,
    CHOICE_LOSE_SIGNAL,
    CHOICE_REFUSE,
    CHOICE_KINDS
};
struct choice {
    uint8_t kind; /* enum choice_kind */
    uint8_t agent, master;
    uint8_t length; /* HOLD, FREEZE, CLOCK: which of the durations; PROMOTE: which copy */
};
enum orders { ORDERS_ONE, ORDERS_REDUCED, ORDERS_ALL };
/* Lists all choices that can happen now, free ones first. `orders` decides which deliveries are
 * listed: the first one, those that do not commute with all others (reduction.c), or each. Returns
 * how many. Sets `*ret_over` if time has come to the horizon, or if no event is to come. In that
 * case all callers have made their moves, no lock is held, and no message is in flight or late. */
unsigned choices_list(struct choice list[CHOICES_MAX], unsigned faults_left, enum orders orders,
                      bool *ret_over);
bool choice_is_fault(const struct choice *choice);
void choice_take(const struct choice *choice);
/* A sentence, and the letters that choice_parse() reads. */
void choice_tell(const struct choice *choice);
void choice_print(const struct choice *choice);
bool choice_parse(const char **text, struct choice *ret_choice);
/* Sets the next event if no choice is made. Returns false if only time can pass. */
bool choices_next_delivery(struct choice *ret_choice);
/* The next moment at which something becomes due; INT64_MAX: nothing will. */
int64_t choices_next_time(void);
void choices_pass_time(int64_t until);

/* reduction.c */
/* Moves to the front those of the deliveries that are due which alone need be tried now. Returns
 * how many; 0: all of them. */
unsigned reduction_of(struct choice *due, unsigned count);

/* calm.c */
/* From here on nothing fails, as below; the world stays as it is then. */
void calm_end(void);
/* Ends the schedule without further faults. Callers that have the lock release it, and a caller at
 * each agent gets it in time (C6, C7, C8). World and cores are as before afterwards, unless there
 * is a violation. Unless `always`, nothing is done if no core remembers the key and no master has
 * it. */
void calm_check(bool always);

/* java.c */
void java_takes(bool first_alone);
void java_releases(void);

/* exercised.c */
/* A search begins: nothing has happened. */
void exercised_begin(void);
void exercised_count(enum deed deed);
/* A master has run a command. */
void exercised_ran(const struct message *message, const struct verdict *verdicts);
/* A caller was answered. */
void exercised_answered(const struct request *request, const struct effect_answer *answer);
/* Returns the first of these SEES(...) that has not happened; NULL: all have. */
const char *exercised_missing(uint64_t wanted);
/* Prints how often each has happened. */
void exercised_print(void);

/* faultless.c */
/* A fault was chosen. */
void faultless_fails(const struct choice *choice);
/* A request was granted a lock that its caller did not have. */
void faultless_granted(const struct request *request);
/* Nothing can be delivered any more, and time is about to move on until then. */
void faultless_time_passes(int64_t until);

/* ---- search ---------------------------------------------------------------------------------- */

struct search {
    unsigned bound;
    enum orders orders;
    bool no_memory, shortens;
    bool verifies;      /* that each state comes back as it was */
    double seconds_max; /* 0: no limit */
    uint64_t states, steps, ends;
    unsigned depth;
    double seconds;
    bool complete;       /* every schedule was taken, or a violation found */
    const char *missing; /* what should have happened and did not; NULL: nothing */
    char property[16];
    char violation[400]; /* "": none */
};
/* Searches the script with up to `bound` faults. */
void search_run(struct search *search, const struct script *script);
/* Prints the schedule that search_run() found, in sentences. */
void search_tell(const struct script *script);
/* Takes the choices that choice_print() wrote. */
int search_replay(const struct script *script, const char *choices);

#endif
