/* What the core remembers: keys, locks, requests, masters. Private to agent/core.
 *
 * A *key* is a name that somebody holds, wants or has just left. A *lock* is one attempt at a key, or one hold of it,
 * with its own token. A *request* is one caller waiting for an answer.
 *
 * States of a lock, and the function that performs each transition:
 *
 *   ACQUIRING --quorum, numbers differ--> RAISING         [attempt_numbered]
 *   ACQUIRING, RAISING --quorum---------> HELD            [attempt_granted]
 *   ACQUIRING, RAISING --failed, gone---> ENDED           [attempt_abandoned]   undone on the masters (R5)
 *   ADOPTING --quorum-------------------> HELD            [adoption_won]
 *   ADOPTING --no quorum----------------> free            [adoption_lost]       nothing to undo: it created no key
 *   ADOPTING --DELETE of its token------> free            [adoption_released]
 *   HELD --validity nearly over---------> LOST            [hold_lost]           said at once, keys stay (R7)
 *   HELD, LOST --DELETE-----------------> RELEASING       [release_begun]
 *   LOST --validity over----------------> ENDED           [hold_over]
 *   RELEASING --decided-----------------> ENDED           [release_decided]
 *   ENDED --nothing owed, forgotten-----> free            [lock_settled]
 *
 * Invariants:
 *   1. At most one lock of a key is `live` (ACQUIRING, RAISING, HELD, LOST); it is key->live.
 *   2. A lock that is not ENDED has its timer armed.
 *   3. Only HELD locks are reported as held, and only before valid_until.
 *   4. A lock owes a release only to masters that may have its key: owed is a subset of `written`.
 *   5. A key exists while it has a lock or a request, and no longer. */
#ifndef LOCKAGENT_CORE_STATE_H
#define LOCKAGENT_CORE_STATE_H

#include "core.h"
#include "random.h"
#include "round.h"
#include "timers.h"

enum {
    REMEMBER_LOST_MS = 60 * 1000, /* for so long a lost lock's token is answered lock_lost instead of not_held */
    USED_UP_MS_MIN = 1000,        /* an idempotency key is refused for at least so long after its DELETE */
    OWED_RETRY_MS = 500,          /* a master that refused a release is asked again */
    BATCHES = 8,                  /* commands that a step gathers side by side */
};

#define NO_REQUEST UINT32_MAX /* lock->contender: nobody */

/* A doubly linked list, embedded in what it links. */
struct link {
    struct link *next, *prev; /* NULL, NULL: in no list */
};
struct list {
    struct link head;
};
void list_init(struct list *list);
bool list_is_empty(const struct list *list);
void list_append(struct list *list, struct link *link);
void list_insert(struct link *before, struct link *link);
void list_remove(struct link *link);              /* nothing to do if it is in no list */
struct link *list_first(const struct list *list); /* NULL if empty */
#define CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

struct key {
    uint32_t slot;
    struct key *next; /* in its hash bucket, or among the free ones */
    uint64_t hash;
    uint16_t len, policy;
    uint8_t group;
    struct lock *live;   /* the one that may become or is the hold */
    struct list locks;   /* all of them */
    struct list waiters; /* struct request, in order of arrival: want to wait */
    struct list once;    /* struct request: want to know the fate of the attempt that is under way */
    uint32_t references; /* locks and requests */
    struct timer retry;  /* the contender's next attempt, */
    enum cause cause;    /* and what sets it off */
    uint32_t back_off_ms;
    struct {
        bool watched;         /* the masters were asked to tell of releases (R9), and */
        master_set confirmed; /* these will */
        master_set messages;  /* who told of one since the last attempt began */
        bool again;           /* a quorum confirmed while an attempt was under way */
        uint32_t losses;      /* attempts that found another holder, since this agent last had it */
        uint32_t agents;      /* that wait for the key, as a master last said; this one is counted if it watches */
    } channel;
    uint32_t handovers; /* in a row */
    struct {
        uint64_t shown;      /* what the masters were told last, */
        master_set behind;   /* and which of them may still have it */
        bool unreachable;    /* no quorum answers */
        master_set answered; /* in time, since `since`; instant 0: nothing was asked */
        struct instant since;
    } tickets;
    struct instant sits_out_until; /* waiters of this agent do not contend before */
    /* How the last failed attempt ended: what a request that gives up is answered. */
    enum answer last_answer;
    struct tally last_tally;
    int64_t last_retry_ms;
    master_set last_guarded;
    uint8_t last_holder_len;
    char last_holder[LIMIT_LABEL_BYTES];
    char name[LIMIT_KEY_BYTES];
};

struct secret {
    uint8_t len; /* 0: none */
    char bytes[LIMIT_SECRET_BYTES];
};

enum lock_state {
    LOCK_FREE,
    LOCK_ACQUIRING,
    LOCK_RAISING,
    LOCK_ADOPTING,
    LOCK_HELD,
    LOCK_LOST,
    LOCK_RELEASING,
    LOCK_ENDED
};

struct lock {
    uint32_t slot, generation;
    enum lock_state state;
    struct key *key;
    struct link of_key, of_state; /* of_state: among the free, the ended or the remembered ones */
    struct timer timer;
    uint32_t contender; /* ACQUIRING, RAISING, ADOPTING: the request that it is for */

    struct token token;
    /* ACQUIRING, and as it is undone: with which number; RELEASING: that of the next one here; 0: none, nobody waits */
    uint64_t ticket;
    bool ticket_is_fresh;
    struct token previous;       /* ACQUIRING by hand-over: the token of the holder that released, */
    struct lock_ref predecessor; /* and where its release is noted */
    uint16_t policy;
    uint8_t group, quorum;
    bool fencing;
    bool handed_over; /* RELEASING: to the next waiter */
    enum cause cause; /* of the attempt */
    bool stranger;    /* RELEASING: a token that this agent did not know */
    bool renewing;    /* HELD: a round is out */
    bool bound;       /* to its caller's connection */
    bool adopted;     /* taken over by its token: an earlier agent may have reported a longer validity */
    bool restored;    /* HELD: out of the journal, and not renewed yet: no renewal creates a key (R7) */
    bool noted;       /* the journal knows of it */
    struct secret owner, idempotency;
    uint64_t terms;   /* a hash of what its request asked for */
    uint32_t answers; /* HELD, LOST: that handed it out and have not failed to arrive; counted up only by repeats */
    bool refuses;     /* its idempotency key is used up: until forget_at */
    uint16_t count;   /* HELD, LOST: releases that end it */
    enum renew renew;
    uint32_t ttl_ms;        /* the lease, as the last good round extended it */
    uint32_t asked_ttl_ms;  /* the lease that the round under way asks for */
    uint32_t lock_delay_ms; /* masters keep the key for so much longer (R15) */
    int64_t max_hold_ms;
    struct instant acquired_at, valid_until, max_hold_until;
    struct instant renew_at;    /* the watchdog's next round; NEVER while one is out */
    struct instant lease_until; /* no master keeps the key for longer, as far as can be known */
    struct instant forget_at;   /* ENDED */
    struct instant owed_at;     /* ENDED: the next try to pay what is owed */
    enum reason reason;

    struct round round;
    uint64_t fence_max; /* the largest number that a master of this round stored, */
    master_set at_max;  /* and who stores exactly that (R12) */
    master_set written; /* may have the key: something that creates it was sent */
    master_set owed;    /* have not confirmed the release (R6) */
    master_set strange; /* ADOPTING, or RELEASING a stranger: said that somebody else holds or held the key */
    uint32_t held_ms[LIMIT_MASTERS];   /* ACQUIRING: how long the other holder's lease, or the guard, lasts there */
    uint16_t confirmed[LIMIT_MASTERS]; /* the epoch in which the master confirmed the token; 0: never */
    uint16_t denied[LIMIT_MASTERS];    /* the epoch in which it denied it after that; 0: never */

    struct list requests; /* HELD: PUTs for the next round or this one; RELEASING: DELETEs */
    uint8_t label_len;
    char label[LIMIT_LABEL_BYTES];
};

enum request_state {
    REQUEST_FREE,
    REQUEST_BEGUN,     /* in no list yet */
    REQUEST_ONCE,      /* in key->once */
    REQUEST_WAITING,   /* in key->waiters */
    REQUEST_RENEWING,  /* in lock->requests, or the contender of an adoption */
    REQUEST_RELEASING, /* in lock->requests */
    REQUEST_READING,   /* in no list; has the round itself */
    REQUEST_SETTLED,   /* in core->settled: decided, but the effects were full */
};

struct request {
    uint32_t slot, generation;
    enum request_state state;
    struct key *key;
    struct link link;
    struct timer timer; /* WAITING: the end of the wait; READING: the round's deadline */
    struct instant came_at;
    uint32_t ttl_ms;
    int64_t max_hold_ms;
    enum renew renew;
    bool bound;
    struct secret owner, idempotency;
    uint64_t terms;
    uint64_t ticket;      /* WAITING, order fair: its number (R9), */
    bool ticket_is_fresh; /* of which no master has heard */
    uint32_t wants_round; /* RENEWING: the first round that answers it */
    uint8_t label_len;
    char label[LIMIT_LABEL_BYTES];
    struct round round; /* READING */
    struct master_state states[LIMIT_MASTERS];
    struct effect_answer settled; /* SETTLED */
};

struct master {
    bool up;
    bool clock_known;
    struct instant guarded_until; /* as it last said; NEVER: it did not say */
    uint16_t epoch;
    int64_t clock_offset_us;
};
struct group {
    struct core_group config;
    uint64_t name_hash;
    master_set up;
    int64_t round_trip_us; /* of acquires, smoothed */
    struct master masters[LIMIT_MASTERS];
};

/* A command that is being gathered: the same operation for many locks on the same masters. */
struct batch {
    enum op op;
    uint8_t group;
    master_set masters;
    bool fair;
    uint8_t count;
    struct send_item items[LIMIT_BATCH];
};

struct core {
    struct group groups[LIMIT_GROUPS];
    size_t group_count;
    struct core_policy policies[LIMIT_POLICIES];
    size_t policy_count;
    uint32_t max_ttl_ms;
    int64_t wait_ms_max;
    uint32_t locks_max, requests_max, waiters_max;

    struct instant now; /* of the step */
    int64_t wall_us;
    bool started;    /* a step was taken: `now` means something */
    bool stalled;    /* this step came too late (R14) */
    bool unfinished; /* the step before did not take its event */
    bool draining;
    bool ending, ending_releases;
    bool journal;
    struct random random;
    struct entropy entropy;
    uint64_t hash_key[2];
    uint64_t agent; /* names this agent among those who hold tickets; never 0 */

    struct effects *effects; /* of the step */
    struct batch batches[BATCHES];
    uint32_t batch_count, gathered;

    struct timers timers;
    struct list settled;

    struct key **buckets;
    uint32_t bucket_count; /* a power of two */
    struct key *keys;
    uint32_t keys_used, keys_size;
    struct key *keys_free;
    struct key *keys_retired; /* freed in this step: effects may still name them */

    struct lock *locks;
    uint32_t locks_used, locks_size; /* slots ever used; slots there are */
    uint32_t locks_live, ended_max, ended_count;
    struct list locks_free, locks_retired; /* retired: freed in this step */
    struct list locks_ended;               /* oldest first; */
    struct list locks_remembered;          /* those of them that owe nothing any more */

    struct request *requests;
    uint32_t requests_used; /* numbers ever used */
    struct core_stats stats;
};

/* ---- keys, locks, requests [lock_table.c] ---- */
struct key *key_find(const struct core *core, struct text name);
/* Finds or makes it; NULL when the table is full. The caller adds a reference at once. */
struct key *key_get(struct core *core, struct text name);
void key_release(struct core *core, struct key *key);
struct text key_text(const struct key *key);
/* A fresh lock of `key` with the policy's terms and no token yet; NULL when locks_max are live. */
struct lock *lock_new(struct core *core, struct key *key, enum lock_state state);
struct lock *lock_by_ref(struct core *core, struct lock_ref ref);
struct lock *lock_by_token(const struct key *key, const struct token *token);
struct lock_ref lock_ref(const struct lock *lock);
/* From live to ENDED; the oldest ended one makes room if need be, rather one that owes nothing (R6). */
void lock_end(struct core *core, struct lock *lock);
void lock_free(struct core *core, struct lock *lock);
/* Slots that the step before freed may be used again. */
void lock_table_recycle(struct core *core);
void lock_set_state(struct core *core, struct lock *lock, enum lock_state state);
struct hold_view lock_view(const struct lock *lock);
bool lock_is_held(const struct core *core, const struct lock *lock);

/* ---- what happens [events.c] ---- */
void event_take(struct core *core, const struct event *event);
/* Its attempt is under way, and will be decided soon. */
bool request_contends(const struct request *request);
/* The agent drains: one that waits is told so. */
void request_refused_by_drain(struct core *core, struct request *request);

/* ---- requests and answers [requests.c] ---- */
struct request *request_new(struct core *core, uint32_t number, struct key *key);
/* Answers and frees the request: at once, or as soon as the effects have room. */
void request_answer(struct core *core, struct request *request, struct effect_answer answer);
/* An answer that needs no key: the request never began. */
void request_refuse(struct core *core, uint32_t number, struct effect_answer answer);
/* Answers every request of the list alike. */
void requests_answer(struct core *core, struct list *list, enum answer answer, enum reason reason);
/* All that ask for something of this lock, with how its round stands. */
void requests_answer_round(struct core *core, struct lock *lock, enum answer answer);
void request_forget(struct core *core, struct request *request);
void requests_settle(struct core *core);
/* What is known of a hold without asking anybody. */
struct tally hold_tally(const struct core *core, const struct lock *lock);
struct effect_answer answer_for_lock(enum answer answer, const struct lock *lock);

/* ---- effects [outbox.c] ---- */
bool outbox_has_room(const struct core *core);
bool outbox_has_room_for_answer(const struct core *core);
struct effect *outbox_effect(struct core *core, enum effect_kind kind);
/* Sends for one lock now, behind all that was gathered. */
void outbox_send(struct core *core, struct lock *lock, enum op op, master_set masters);
void outbox_read(struct core *core, struct request *request, master_set masters);
/* Gathers for one lock; goes out with the others at the end of the step, or before anything that must not overtake it.
 */
void outbox_gather(struct core *core, struct lock *lock, enum op op, master_set masters);
/* Behind all that was gathered; its replies are not waited for. */
void outbox_withdraw(struct core *core, struct key *key, master_set masters);
void outbox_flush(struct core *core);
/* Tells the journal how a hold stands now; nothing where there is no journal. */
void outbox_hold(struct core *core, struct lock *lock);
void outbox_trace(struct core *core, struct effect_trace trace, const struct lock *lock);

/* ---- attempts [attempt.c] ---- */
void attempt_begun(struct core *core, struct key *key, struct request *request, enum cause cause);
/* R9: the same, and the key is taken from `predecessor`, whose holder releases it, in one round trip. */
void attempt_inherited(struct core *core, struct key *key, struct request *request, struct lock *predecessor);
void attempt_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
void attempt_timer(struct core *core, struct lock *lock);
/* The caller is gone, or its time is up: undo, and let the next one contend. */
void attempt_abandoned(struct core *core, struct lock *lock);

/* ---- holds [watchdog.c] ---- */
void hold_begun(struct core *core, struct lock *lock, struct instant from);
/* Notes what a vote says about where the token is. */
void hold_heard(struct core *core, struct lock *lock, const struct event_reply *reply);
void hold_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
void hold_timer(struct core *core, struct lock *lock);
void hold_renew(struct core *core, struct lock *lock, struct request *request);
void hold_lost(struct core *core, struct lock *lock, enum reason reason);
/* EVENT_END has come: ends the hold as it says. */
void hold_ended(struct core *core, struct lock *lock);
/* Validity of a lease of ttl_ms that was asked for at `from` (R4). */
struct instant validity_end(const struct core *core, uint8_t group, struct instant from, uint32_t ttl_ms);

/* ---- out of the journal [restore.c] ---- */
void hold_restored(struct core *core, struct key *key, const struct event_restore *event);
/* Arms a restored hold's timers: a watchdog's is renewed at once. */
void hold_resumed(struct core *core, struct lock *lock);

/* ---- adoption [adopt.c] ---- */
void adoption_begun(struct core *core, struct key *key, struct request *request, const struct token *token);
/* The token that is about to be adopted is to be released. */
void adoption_released(struct core *core, struct key *key, const struct token *token);
void adoption_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
void adoption_timer(struct core *core, struct lock *lock);

/* ---- releases [release.c] ---- */
/* A DELETE of a lock that this agent holds; `request` may be NULL (the grant could not be delivered). */
void release_begun(struct core *core, struct lock *lock, struct request *request);
/* The hold's last validity has ended: the masters are asked to delete its key, or its lease runs out. */
void hold_over(struct core *core, struct lock *lock);
/* A DELETE with a token that this agent does not know. */
void release_of_stranger(struct core *core, struct key *key, struct request *request, const struct token *token);
void release_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
/* What a master says to a hand-over, it says of the predecessor's release too. */
void release_inherited(struct core *core, const struct lock *heir, const struct event_reply *reply);
void release_timer(struct core *core, struct lock *lock);
/* Ends a lock and asks the masters that may have its key to delete it (R5, R6). */
void release_undone(struct core *core, struct lock *lock, master_set except);
void release_owed_timer(struct core *core, struct lock *lock);
/* True while an ended lock's key may still stand on so many masters that nobody else can have it. */
bool release_is_pending(const struct core *core, const struct lock *lock);
void release_master_up(struct core *core, uint8_t group, uint8_t master);
void lock_settled(struct core *core, struct lock *lock);

/* ---- the queue of a key [wait_queue.c] ---- */
void queue_join(struct core *core, struct key *key, struct request *request, int64_t wait_ms);
void queue_contend(struct core *core, struct key *key);
void queue_attempt_failed(struct core *core, struct key *key, struct request *contender);
void queue_attempt_won(struct core *core, struct key *key);
void queue_retry_timer(struct core *core, struct key *key);
void queue_wait_over(struct core *core, struct request *request);
void queue_left(struct core *core, struct key *key);

/* ---- when to try again [wake.c] ---- */
void wake_watch(struct core *core, struct key *key);
void wake_unwatch(struct core *core, struct key *key);
bool wake_sits_out(const struct core *core, const struct key *key);
void wake_after_sitting_out(struct core *core, struct key *key);
void wake_begin_attempt(struct key *key);
void wake_after_failure(struct core *core, struct key *key);
void wake_subscribed(struct core *core, const struct event_channel *event);
void wake_unsubscribed(struct core *core, const struct event_channel *event);
void wake_message(struct core *core, const struct event_channel *event);
/* Who is handed the key that a holder here releases; NULL: nobody, it is to be deleted. */
struct request *wake_heir(struct core *core, struct key *key);

/* ---- secrets of callers [secret.c] ---- */
void secret_take(struct secret *secret, struct text text);
bool secret_same(const struct secret *a, const struct secret *b);

/* ---- safe retry [idempotency.c] ---- */
/* A hash of what must be the same when a request is asked again. */
uint64_t idempotency_terms(const struct event_acquire *event);
/* True when the request was asked before: it is answered, or has taken the place of the older one. */
bool idempotency_settles(struct core *core, struct request *request, int64_t wait_ms);
/* True when an answer did not arrive, but another one has or may. */
bool idempotency_keeps(struct lock *lock);
/* A DELETE of a lock: the idempotency key that it was acquired with, if any, is refused from now on. */
void idempotency_use_up(struct core *core, struct lock *lock);
/* A DELETE by idempotency key: from now on that is refused. The lock to be released, or what remembers that there is none (ENDED); NULL when
 * the table is full. */
struct lock *idempotency_released(struct core *core, struct key *key, const struct secret *secret);

/* ---- reentrancy [reentry.c] ---- */
/* True when the request is the holder's own: it is answered. */
bool reentry_takes(struct core *core, struct request *request);
/* Answers those of the key's queue that are the new holder's own. */
void reentry_admit(struct core *core, struct lock *lock);
/* True when one of several releases has come, and the hold goes on. */
bool reentry_left(struct core *core, struct lock *lock);

/* ---- order over all agents [ticket.c] ---- */
bool ticket_is_wanted(const struct core *core, const struct key *key);
/* A number for one who begins to wait. */
void ticket_given(struct core *core, struct request *request);
/* An attempt is about to be sent, with the number of the one whom it is for. */
void ticket_begin_attempt(struct core *core, struct lock *lock, struct request *request);
/* A master has this agent's ticket, with this number. */
void ticket_heard(struct core *core, struct lock *lock, uint64_t number);
void ticket_granted(struct lock *lock);
/* A hold is about to be released: whoever waits first here takes its place. */
void ticket_released(struct core *core, struct lock *lock);
/* A master answered an attempt, perhaps behind its decision. */
void ticket_answered(struct core *core, struct lock *lock, const struct event_reply *reply);
void ticket_attempt_failed(struct core *core, struct lock *lock, enum answer answer);
/* No release of it that is sent from now on puts a ticket there: its request is gone, or shows it by the next attempt. */
void ticket_forgotten(struct lock *lock);
/* Nobody waits here any more. */
void ticket_withdrawn(struct core *core, struct key *key);
/* True when the masters were told of one who does not wait any more. */
bool ticket_is_stale(const struct core *core, const struct key *key);
/* What a command says of it. */
struct ticket ticket_of(const struct core *core, const struct lock *lock, enum op op);

/* ---- looking [read.c] ---- */
void read_begun(struct core *core, struct key *key, struct request *request);
void read_reply(struct core *core, struct request *request, const struct event_reply *reply);
void read_timer(struct core *core, struct request *request);

/* ---- policies [policy.c] ---- */
bool glob_matches(const char *pattern, struct text text);
uint8_t policy_group(const struct core *core, uint16_t policy, struct text key);
/* NULL-like false: the ttl is out of range, and the answer says what is allowed. */
bool policy_allows_ttl(const struct core *core, const struct key *key, uint32_t ttl_ms, enum renew renew,
                       struct effect_answer *ret_refusal);
/* The same for a lock that keeps the lock_delay that it was taken with. */
bool policy_allows_ttl_of(const struct core *core, const struct lock *lock, uint32_t ttl_ms, enum renew renew,
                          struct effect_answer *ret_refusal);
/* R15: cuts the lock_delay of a lock whose ttl was allowed beside another one. */
void policy_fit_lock_delay(const struct core *core, struct lock *lock);

/* ---- fencing [fence.c] ---- */
uint64_t fence_proposal(const struct core *core, uint8_t group);
void fence_heard(struct lock *lock, uint8_t master, uint64_t number);

static inline const struct core_policy *lock_policy(const struct core *core, const struct lock *lock)
{
    return &core->policies[lock->policy];
}
/* R15: what masters are asked to keep the key for. Validity counts from the ttl alone. */
static inline uint32_t lock_lease_ms(const struct lock *lock)
{
    return lock->asked_ttl_ms + lock->lock_delay_ms;
}
/* D3: for so long a copy of a request whose idempotency key is used up may still come. */
static inline int64_t used_up_ms(const struct core *core)
{
    return core->wait_ms_max > USED_UP_MS_MIN ? core->wait_ms_max : USED_UP_MS_MIN;
}
static inline struct group *lock_group(struct core *core, const struct lock *lock)
{
    return &core->groups[lock->group];
}
/* R3: renewals and releases have a longer time than an acquire. */
static inline int64_t slow_timeout_ms(const struct core *core, const struct lock *lock)
{
    int64_t tenth = lock->ttl_ms / 10, node = core->groups[lock->group].config.node_timeout_ms;
    return tenth > node ? tenth : node;
}

#endif
