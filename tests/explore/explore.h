/* Every schedule of a small world: the simulator's cores, masters and checkers, and in place of its
 * chance a search that takes every choice.
 *
 *   scripts*.c  who asks for what, and what may fail
 *   scene.c     the world of one script: connections, callers, clock
 *   begin.c     how that world begins
 *   masters.c   what scripts do is remembered, so that each call runs once
 *   state.c     what is copied out and back, and hashed
 *   choices.c   what can happen next, and what it costs
 *   calm.c      the end of each schedule: nothing fails any more, and everybody gets the lock
 *   exercised.c what a script must have exercised
 *   faultless.c order and promptness, as long as nothing has failed
 *   search.c    depth first, over every choice; the shortest story of a violation
 *   java.c      a Java service beside the agents
 *   seen.c      the states that were looked at
 *
 * guard/ does the same with the guard of the masters, which has a simulator of its own.
 *
 * Time stands still while something can be delivered, and moves to the next moment at which
 * something becomes due. So the orders in which things happen are choices, and delays are faults.
 */
#ifndef LOCKAGENT_EXPLORE_H
#define LOCKAGENT_EXPLORE_H

#include "tests/sim/world.h"

#include "ranges.h"

enum {
#ifdef FUZZED_WORLD /* tests/fuzz, which copies nothing */
    MOVES_MAX = 32, /* of one caller */
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
    NOBODY = 255, /* who wants no answer */
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
/* When the agent that grants a lock dies over it: before anybody is told, or as its caller has the
 * answer and the journal does not say so yet. */
enum death { DEATH_NONE, DEATH_UNTOLD, DEATH_UNMARKED };
struct move {
    enum move_kind kind;
    uint8_t agent;
    /* POST: so long it waits and may hold, with this lease (0: the policy's) and who renews it */
    int64_t wait_ms, max_hold_ms;
    uint32_t ttl_ms;
    enum renew renew;
    uint8_t key;      /* POST, GET */
    bool together;    /* the next caller makes its move in the same turn of the agent's loop, */
    bool follows;     /* and this is that move */
    uint32_t secret;  /* POST: its idempotency key; 0: none */
    uint8_t owner;    /* POST: 0: none */
    bool reads;       /* POST: beside others (R17) */
    bool bound;       /* POST; LEAVE ends it */
    bool copy;        /* POST: of one whose lock was released; nobody wants its answer */
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
    FAULT_DELAY,       /* one direction of a connection is held up */
    FAULT_CUT,         /* a connection ends; what is in flight never ran, has run, runs later */
    FAULT_FREEZE,      /* an agent stands still */
    FAULT_CRASH,       /* an agent dies, and is started again */
    FAULT_FORGET,      /* a master forgets everything: FLUSHALL */
    FAULT_RESTART,     /* a master restarts empty */
    FAULT_PROMOTE,     /* an older copy of its keys, with another run id, takes a master's place */
    FAULT_CLOCK,       /* an agent's wall clock is set */
    FAULT_DOUBLE,      /* a reply comes twice */
    FAULT_LOSE_SIGNAL, /* a message of a release is lost */
    FAULT_REFUSE,      /* a master refuses a command (OOM) */
    FAULT_LAG,         /* the replica stands still, and then has all at once (R21) */
};
#define MAY(fault) (1u << FAULT_##fault)

/* What must have happened somewhere in a script's space (exercised.c). */
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
    DEEDS
};
#define SEES(deed) (1ull << DEED_##deed)

struct script {
    const char *name, *what;
    uint64_t sees;         /* SEES(...): without a fault, */
    uint64_t sees_failing; /* and where at least one is allowed for */
    uint8_t agents, callers;
    struct move moves[SIM_CALLERS][MOVES_MAX];
    unsigned faults; /* MAY(...) that a bound allows for */
    uint32_t lock_delay_ms, horizon_ms;
    uint32_t handover_max; /* 0: one */
    bool no_handover;
    uint8_t keys;    /* 0: one */
    uint8_t permits; /* of a semaphore: two, at two places; 0: it is none */
    bool fair, rw, redisson, journal, reentrant, forgetful, roaming;
    int64_t number_ahead_us; /* of the first master's fence key; 0: none is there */
    uint32_t left_over_ms;   /* the key of a holder that is gone stands on the first master */
    int64_t wall_behind_us;  /* the second agent's wall clock */
    /* One fault of one connection may hold up those who wait: a hold of a bare quorum tells of its
     * release at a bare quorum, and a second fencing phase (R12) asks a bare quorum. */
    bool needs_each;
    bool has_replica;    /* of a single master, which WAITs for it (R21) */
    bool is_new_group;   /* no master has a marker */
    bool one_is_guarded; /* the first master has just forgotten everything */
    int64_t rate_ppm;    /* the first agent's clock is so much slower, the others' faster */
    /* Of tests/fuzz alone: how many masters (0: three, or one with a replica), of which all must
     * grant, no fencing numbers, tables that are small, few rounds in flight (R16), agents renew
     * unless a POST says otherwise, and a connection's end is told before the fate of what was in
     * flight. */
    uint8_t masters;
    bool needs_all_masters, has_no_numbers, has_small_tables, has_few_rounds, agents_renew,
        tells_end_first;
    uint8_t quick_bound; /* in `make test` */
    uint8_t bound;       /* in `make explore`, in one order of delivery; */
    bool is_slow;        /* not in CI */
    bool each_order;     /* without a fault in every order as well */
};
/* The scripts of one subject. */
struct subject {
    const struct script *scripts;
    size_t count;
};
extern const struct subject subject_mutex, subject_guard, subject_turns, subject_kinds;
/* Returns the script with this number, counted over all subjects; NULL: there is none. */
const struct script *script_at(size_t index);

/* ---- the world of one script ----------------------------------------------------------------- */

/* A command on its way, or its reply on its way back. */
struct parcel {
    const struct message *message; /* of the interned ones (state.c), as are */
    const struct verdict *verdicts;
    struct bytes command;
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
/* An older state of a master's keys, and what the checkers noted of it. */
struct copy {
    struct keyspace *keyspace;
    struct master_key keys[SIM_KEYS];
};
struct scene {
    const struct script *script;
    struct path paths[SIM_AGENTS][SIM_MASTERS];
    struct parcel strays[STRAYS_MAX]; /* of connections that ended: they run later */
    uint8_t stray_count;
    int64_t frozen_until[SIM_AGENTS], boot_at[SIM_AGENTS];
    int64_t ends_at[SIM_AGENTS];  /* an agent that ends is gone then; 0: it does not end */
    int64_t back_at[SIM_MASTERS]; /* a master that restarts; 0: it is up */
    int64_t lags_until;        /* the replica has what the master had as it began to stand still */
    int64_t idle_since;        /* since then a free key has been waited for; 0: none is */
    struct hold java;          /* of the Java service */
    bool is_hampered;          /* a fault of one connection was chosen, */
    bool has_failed;           /* or more than that */
    uint8_t probes;            /* callers who ask in a healed world */
    uint8_t moved[PEOPLE_MAX]; /* moves that each caller has made */
    uint8_t asked[PEOPLE_MAX]; /* requests of each caller that were made */
    struct request requests[PEOPLE_MAX][MOVES_MAX + 2];
    uint8_t unasked_count; /* requests of nobody */
    struct request unasked[UNASKED_MAX];
    /* where one may be promoted: each master's keys before their last change, and at the start */
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
/* What was put off to the end of the choice happens now. */
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
/* The replica of the single master takes its place, with what it has. */
void scene_promote_replica(void);
/* What attempts of the healed world have left behind is an offence now (C8). */
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
/* Whom its next move is made at. */
uint8_t people_agent(uint8_t caller);
void people_move(uint8_t caller);
/* A DELETE by nobody: of what is held and used by nobody. */
void people_release_leftover(uint8_t agent, struct hold *hold);
/* Asks for the lock at this agent, to wait for it, and releases it. */
void people_probe(uint8_t caller, uint8_t agent, int64_t due_at);

/* masters.c */
/* The world's masters may be used: what has changed outside of scripts becomes a state of theirs
 * that is shared. */
void masters_share(void);
/* This one's keyspace may be changed until masters_share(). */
void masters_own(uint8_t master);
/* What it has now, of which nothing will change. */
struct copy masters_copy(uint8_t master);
/* Frees what is remembered; the world must begin anew. */
void masters_forget_all(void);

/* ---- state ----------------------------------------------------------------------------------- */

/* The same bytes are kept once, until state_forget_all(); `bytes` is aligned as by malloc. */
const void *state_intern(const void *bytes, size_t size);
/* Frees what was interned; the world must begin anew. */
void state_forget_all(void);
/* Everything but the cores is saved, until state_restore() of what this returns. */
size_t state_save(void);
/* So is this core from now on. */
void state_touch(uint8_t agent);
/* It may be built anew. */
void state_touch_whole(uint8_t agent);
void state_restore(size_t saved);
uint64_t state_hash(void);
/* The same, of which nothing is remembered. */
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
/* All that can happen now, free ones first; of deliveries the first, those that do not commute with
 * all others (reduction.c), or each. Returns how many. `*ret_over`: nothing is to come, for all
 * have made their moves and nothing is held, under way or late; or time has come to the horizon. */
unsigned choices_list(struct choice list[CHOICES_MAX], unsigned faults_left, enum orders orders,
                      bool *ret_over);
bool choice_is_fault(const struct choice *choice);
void choice_take(const struct choice *choice);
/* A sentence, and the letters that choice_parse() reads. */
void choice_tell(const struct choice *choice);
void choice_print(const struct choice *choice);
bool choice_parse(const char **text, struct choice *ret_choice);
/* What comes next where nothing is chosen; false: but time, nothing. */
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
/* From here on nothing fails: callers that have it release the lock, and somebody at each agent
 * gets it in time (C6, C7, C8). World and cores are as before afterwards, but for a violation.
 * Unless `always`, nothing is done where nothing is left: no core remembers the key, and no master
 * has it. */
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
