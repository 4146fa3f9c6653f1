/* Every schedule of the guard's small world: types and functions that its parts share.
 *
 *   scripts.c   the faults that may occur, and how far each is searched
 *   stage.c     agents, masters, and the requests in flight between them
 *   choices.c   the next possible choices
 *   main.c      the search, and the command line
 */
#ifndef LOCKAGENT_EXPLORE_GUARD_STAGE_H
#define LOCKAGENT_EXPLORE_GUARD_STAGE_H

#include "tests/sim/guard/world.h"

enum {
    AGENTS = 2,
    MASTERS_MOST = 5,
    PARCELS_MAX = 6,
    STRAYS_MAX = 2,
    CHOICES_MAX = 320,
    MS = 1000,
};

/* ---- scripts.c ---- */

enum fault {
    MAY_LOSE = 1,     /* connections and time */
    MAY_CRASH = 2,    /* agents */
    MAY_FLUSH = 4,    /* masters, as are all that follow */
    MAY_EMPTY = 8,    /* restart without their data */
    MAY_AGE = 16,     /* restart with old data, or a replica that lacks keys takes their place */
    MAY_RESTART = 32, /* with their data */
    MAY_REFUSE = 64,  /* to write */
    MAY_COPY = 128,   /* are filled with the data of another one */
    /* Requests in flight on an ending connection run later. No other connection is lost. */
    MAY_DELAY = 256,
};
struct script {
    const char *name, *what;
    uint8_t masters, quorum;
    bool durable, is_old;
    unsigned faults;
    uint32_t max_ttl_ms[AGENTS];
    uint8_t asks[AGENTS];       /* how often each takes the lock */
    master_set blocked[AGENTS]; /* masters that it never reaches */
    int64_t chaos_ms, calm_ms;
    uint8_t quick_bound, bound; /* as of the other scripts (explore.h) */
    bool is_slow;
    /* Minimum counts of events that the search must have met. Otherwise it proves nothing. */
    struct {
        unsigned answered, told, guessed, copies;
    } least;
};
extern const struct script scripts[];
extern const size_t script_count;

/* ---- stage.c ---- */

struct parcel {
    struct happening request;
    bool executed;
};
/* Beside the simulator's struct link. */
struct path {
    struct parcel parcels[PARCELS_MAX];
    uint8_t count;
    bool greeted;       /* the greeting is about to end */
    bool broken;        /* Its server is gone, and the agent does not know that yet. */
    int64_t connect_at; /* INT64_MAX: it is up */
    int64_t out_until, back_until;
};
/* With the world, all that a choice can change. */
struct scene {
    struct path paths[AGENTS][MASTERS_MOST];
    struct happening strays[STRAYS_MAX]; /* requests of connections that ended; they run later */
    uint8_t stray_count;
    uint8_t asked[AGENTS];
    uint8_t begun[MASTERS_MOST]; /* epochs */
    int64_t start_at[AGENTS];    /* when an agent that is gone starts again */
};
extern struct world world;
extern struct scene scene;
extern const struct script *script;

/* The script is set up: of an old group both agents know that it votes. */
void stage_begin(void);
/* All that a choice can change, copied out and back, and hashed. */
struct saved {
    struct scene scene;
    struct sim_agent agents[AGENTS];
    struct sim_master masters[MASTERS_MOST];
    int64_t now_us;
    struct noted {
        uint64_t answered;
        int64_t hold_began_us, hold_until_us, unknown_until_us;
        uint32_t holder, holder_attempt;
    } noted;
};
void stage_save(struct saved *ret_saved);
void stage_restore(const struct saved *saved);
/* Never 0. */
uint64_t stage_hash(void);

struct path *stage_path(uint8_t agent, uint8_t master);
struct link *stage_link(uint8_t agent, uint8_t master);
/* Commands of this path that have not run. */
unsigned stage_pending(const struct path *path);

void stage_start(uint8_t agent);
/* It is killed, and gone for so long. */
void stage_crash(uint8_t agent, int64_t us);
void stage_connect(uint8_t agent, uint8_t master);
/* The connection ends, and there is none for so long. */
enum fate { FATE_NEVER, FATE_RUN, FATE_LATER };
void stage_lose(uint8_t agent, uint8_t master, enum fate fate, int64_t us);
void stage_end_greeting(uint8_t agent, uint8_t master);
/* The first answer that is on its way comes. */
void stage_hear(uint8_t agent, uint8_t master);
void stage_execute(struct happening *request);
/* The first command that has not run runs. */
void stage_execute_next(uint8_t agent, uint8_t master, bool refuses);
void stage_forget(uint8_t master, enum forgetting how, uint8_t from);

/* ---- choices.c ---- */

enum choice_kind {
    CHOICE_START,
    CHOICE_CONNECT,
    CHOICE_EXECUTE,
    CHOICE_HEAR,
    CHOICE_READY,
    CHOICE_BREAK,  /* the agent learns that its server is gone */
    CHOICE_DECIDE, /* the time of its round is over */
    CHOICE_RELEASE,
    CHOICE_TICK,
    CHOICE_LOCK,
    CHOICE_STRAY,
    CHOICE_TIME,
    CHOICE_CUT_NEVER, /* faults from here on */
    CHOICE_CUT_RUN,
    CHOICE_CUT_LATER,
    CHOICE_HOLD_OUT,
    CHOICE_HOLD_BACK,
    CHOICE_REFUSE,
    CHOICE_CRASH,
    CHOICE_FORGET,
};
struct choice {
    enum choice_kind kind;
    uint8_t agent, master, how; /* how: which duration, or enum forgetting; agent: copied from */
};
struct listing {
    struct choice list[CHOICES_MAX];
    unsigned count;
};

/* All that is due is done before time moves on; with one order of it, the first. */
void guard_choices_list(struct listing *listing, unsigned faults_left, bool all_orders);
void guard_choice_take(const struct choice *choice);
/* A sentence. */
void guard_choice_tell(const struct choice *choice);
/* The next moment at which something becomes due, and the end of a schedule. */
int64_t guard_next_time(void);
int64_t guard_end_us(void);

#endif
