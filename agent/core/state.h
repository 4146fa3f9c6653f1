/* What the core remembers: keys, locks, requests, masters. Private to agent/core.
 *
 * A *key* is a name that somebody holds, wants or has just left. A *lock* is one attempt at a key,
 * or one hold of it, with its own token. A *request* is one caller waiting for an answer.
 *
 * States of a lock, and the function that performs each transition. lock_set_state() refuses
 * every other one:
 *
 *   free --a request contends-----------> ACQUIRING [attempt_begun, attempt_inherited]
 *   free --PUT, unknown here or lost----> ADOPTING  [adoption_begun, adoption_of_lost]
 *   free --out of the journal-----------> HELD      [restore_hold]
 *   free --the same, validity over------> RELEASING [restore_hold]         ENDED at once
 *   free --DELETE, unknown here---------> RELEASING [release_of_stranger]
 *   ACQUIRING --quorum, numbers differ--> RAISING   [attempt_numbered]
 *   ACQUIRING, RAISING --quorum---------> HELD      [attempt_granted]
 *   ACQUIRING, RAISING --failed, gone---> ENDED     [attempt_failed, attempt_abandoned] undone (R5)
 *   ADOPTING --quorum-------------------> HELD      [adoption_won]
 *   ADOPTING --no quorum----------------> free      [adoption_lost]        it created no key
 *   ADOPTING --DELETE of its token------> free      [adoption_released]
 *   HELD --validity nearly over---------> LOST      [hold_lost]            keys stay (R7)
 *   HELD, LOST --DELETE-----------------> RELEASING [release_begun]
 *   LOST --validity over----------------> ENDED     [hold_over]
 *   LOST --taken, or adopted back-------> ENDED     [hold_runs_out]
 *   RELEASING --decided-----------------> ENDED     [release_decided]
 *   ENDED --nothing owed, forgotten-----> free      [debt_settled]
 *   ENDED --adopted back----------------> free      [adoption_won]         its token goes on
 *   ENDED --too many--------------------> free      [lock_end]             the oldest makes room
 *
 * Invariants, which core_check() walks:
 *   1. key->holds has the locks of the key that are ACQUIRING, RAISING, HELD or LOST: at most one
 *      of each permit (R20), and of the attempts at most one that is no hand-over. Where readers
 *      share the key they may be many: a writer stands in front of them, and only as long as it is
 *      an attempt itself (key.c).
 *   2. A lock that is not free has its timer armed.
 *   3. Only HELD locks are reported as held, and only before valid_until: the timer of each fires
 *      before it is lost.
 *   4. A lock owes a release only to masters that may have its key: owed is a subset of `written`.
 *   5. A key exists while it has a lock or a request, and no longer.
 *   6. The renewal of a lock is armed if and only if it is HELD, the watchdog is to renew it and no
 *      round is out.
 *   7. A lock that is not free is found by its token, and by its idempotency key, if it has one
 *      (lock.c).
 *   8. A key stands in its group's line while, and only while, somebody wants a round for it that
 *      has no place yet; and of the attempts that are no hand-over each has one. So has each
 *      adoption and each read among the guests.
 *   9. A key is without a contest only while it is HELD or LOST, and has no other reference. A lock
 *      has an errand unless it is HELD, LOST or free.
 *  10. Nobody who wants a key is forgotten: it has a lock that occupies it, stands in the line, or
 *      its waiters have a time at which they try again. While the agent drains they may wait for
 *      nothing. Holds of readers occupy nothing: whoever waits beside them shows its ticket. */
#ifndef LOCKAGENT_CORE_STATE_H
#define LOCKAGENT_CORE_STATE_H

#include "core.h"
#include "hash_table.h"
#include "list.h"
#include "names.h"
#include "random.h"
#include "request.h"
#include "round.h"
#include "terms.h"
#include "timers.h"

enum {
    /* for so long a lost lock's token is answered lock_lost instead of not_held */
    REMEMBER_LOST_MS = 60 * 1000,
    OWED_RETRY_MS = 500, /* a master that refused a release is asked again */
    DRIFT_FIXED_MS = 2,  /* of the drift, beside its rate (R4) */
    BATCHES = 8,         /* commands that are gathered side by side */
};

#define NO_REQUEST UINT32_MAX /* errand->contender: nobody */

/* A chain of attempts, one after the other, each at another slot of a semaphore (acquire.c). */
struct search {
    slot_set tried;  /* lost to other holders since it began */
    slot_set open;   /* a quorum called them free as it refused the last attempt */
    slot_set closed; /* so many masters called them taken then that no quorum is left */
};

/* What a key needs while somebody wants it, and what is known of others who do. */
struct contest {
    struct key *key;
    struct list waiters; /* struct core_request, in order of arrival: want to wait */
    /* struct core_request: want to know the fate of the attempt that is under way */
    struct list once;
    enum cause cause; /* what sets off the contender's next attempt, at the key's timer */
    uint32_t back_off_ms;
    uint32_t attempts; /* that are under way */
    bool is_refused;   /* one beside them was, so no other begins before all are decided (R18) */
    struct search search;
    struct {
        struct link link; /* in the line of its group: waits for a place (R16), */
        struct instant since;
        enum cause cause;  /* and what sets its round off */
        int64_t waited_us; /* that the round under way waited, or the last one */
    } admission;
    struct {
        bool watched;         /* the masters were asked to tell of releases (R9), and */
        master_set confirmed; /* these will */
        /* since the last attempt, or search, began: who told of one, of each slot (R20), */
        master_set messages[LIMIT_PERMITS];
        bool released;   /* and a quorum told of the same one */
        bool again;      /* a quorum confirmed while an attempt was under way */
        uint32_t losses; /* attempts that found another holder, since this agent last had it */
        /* that wait for the key, as a master last said; this one is counted if it watches */
        uint32_t agents;
        bool in_line;   /* a turn of this agent has ended since somebody waits here, and */
        uint32_t ahead; /* so many turns of others come before its next one */
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
    /* How the last failed attempt ended, and when: what a request that gives up is answered. */
    struct instant last_failed_at;
    enum answer last_answer;
    struct tally last_tally;
    int64_t last_retry_ms;
    master_set last_refused_by, last_guarded;
    enum mode last_mode;   /* of those who had the key, */
    uint32_t last_readers; /* and how many of them read */
    uint8_t last_holder_len;
    char last_holder[LIMIT_LABEL_BYTES];
};

struct key {
    const char *name; /* of `len` bytes (names.h) */
    uint64_t hash;
    struct list holds;       /* those that may become or are a hold (invariant 1) */
    struct contest *contest; /* NULL: it is held, and nobody else wants it (invariant 9) */
    struct key *next;        /* among the free ones, or those that somebody has left in this step */
    struct hash_link by_name;
    uint32_t references; /* locks and requests */
    uint64_t batch;      /* the last one that names it, by number (outbox.c) */
    uint16_t len, policy;
    uint8_t group, permits;
    enum form form : 8; /* of its policy */
    bool is_left;       /* it is among those that somebody has left */
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

/* What a master said of a lock's token as it was asked last. */
enum word {
    WORD_NONE,      /* nothing yet */
    WORD_YES,       /* The token is there. */
    WORD_ABSENT,    /* No key is there. */
    WORD_OTHER,     /* Another holder's key is there. */
    WORD_ELSEWHERE, /* The token is there, for another agent. */
};

/* What is known of a lock at one master. */
struct lock_master {
    /* by then the key there is gone for certain, if it was not renewed (lease.c), */
    struct instant ends;
    uint32_t early_ms;  /* and it may be over so long before */
    uint16_t confirmed; /* the epoch in which it confirmed the token; 0: never */
    enum word word : 8;
};

/* What a lock needs that is no hold: one that is to be granted, adopted, released, or paid off. */
struct errand {
    /* ACQUIRING, and as it is undone: with which number; RELEASING: that of the next one here; 0:
     * none, nobody waits */
    uint64_t ticket;
    bool ticket_is_fresh;
    /* ACQUIRING: the one who waits first here contends, so the masters keep the ticket; */
    bool ticket_is_kept;
    master_set ticket_at; /* these do. */
    /* RELEASING: of the next one here, or that one shows its ticket by itself */
    enum mode ticket_mode;
    bool ticket_is_left;
    struct token previous;    /* ACQUIRING by hand-over: of the holder that released, */
    bool previous_given_back; /* whether the holder asked for it, */
    bool previous_adopted;    /* and whether this agent had adopted it */
    uint32_t contender;       /* ACQUIRING, RAISING: the request that it is for */
    uint64_t fence_max;       /* the largest number that a master of this round stored, */
    master_set at_max;        /* the masters that store exactly that (R12) */
    /* ACQUIRING: how those have the key who refuse it, and how many they are at least */
    enum mode others_mode;
    uint32_t others;
    /* ADOPTING, or RELEASING a stranger: said that somebody else holds the key, */
    master_set strange;
    master_set misnumbered; /* or that the token is there with another number */
    bool is_proved;         /* RELEASING, ENDED, of a stranger: a quorum had exactly the token */
    /* RELEASING, ENDED: may still run a release whose connection has ended (R5) */
    master_set doubtful;
    struct instant owed_at; /* ENDED: the next try to pay what is owed */
    struct denial {
        slot_set taken;   /* the slots of a semaphore that are taken there */
        uint64_t number;  /* of a strange token: the other one that it has there */
        uint32_t busy_ms; /* how long the other holder's lease, or the guard, lasts */
    } denials[];          /* of each master that refused */
};

/* The words that a lock was taken with, if any were given. */
struct kept_words {
    struct hash_link by_secret; /* lock.c */
    struct lock *lock;
    struct words words;
};

/* One of 100,000 holds is mostly this, so it has nothing that a hold needs not. A vote on its
 * renewal finds nothing of it in the processor's caches: what that needs stands together, at the
 * end. */
struct lock {
    struct hash_link by_token; /* lock.c */
    /* in key->holds, or among the free, the ended, the remembered or the retired ones */
    struct link link;
    struct kept_words *words;    /* NULL: none */
    struct errand *errand;       /* NULL: it is HELD, LOST or free */
    struct lock_ref predecessor; /* of a hand-over: where its release is noted */
    uint32_t answers;            /* HELD, LOST: that handed it out and have not failed to arrive;
                                     counted up only by repeats */
    struct instant acquired_at, max_hold_until;
    struct instant forget_at; /* ENDED */
    struct list requests;     /* HELD: PUTs for the next round or this one; RELEASING: DELETEs */

    struct key *key;
    struct token token;
    struct terms terms;
    uint32_t slot, generation;
    uint32_t asked_ttl_ms;  /* the lease that the round under way asks for */
    uint32_t lock_delay_ms; /* masters keep the key for so much longer (R15) */
    struct instant valid_until;
    struct instant won_from;    /* HELD: when the last round was sent that a quorum confirmed */
    struct instant lease_until; /* no master keeps the key for longer by what this agent sent */
    uint16_t policy;
    uint8_t group, quorum;
    enum lock_state state : 8;
    enum cause cause : 8; /* of the attempt */
    enum reason reason : 8;
    bool fencing : 1;
    bool has_place : 1;   /* Counts as in flight in its group (R16): an attempt or an adoption. */
    bool is_guest : 1;    /* With has_place: ADOPTING, so it counts among the guests. */
    bool handed_over : 1; /* RELEASING: to the next waiter */
    bool stranger : 1;    /* RELEASING: a token that this agent did not know */
    /* its holder asked for the release: it is deleted at whichever agent it is (D3) */
    bool given_back : 1;
    bool claiming : 1; /* HELD: the round that is out adopts the hold back, for a PUT (D3) */
    bool renewing : 1; /* HELD: a round is out */
    /* taken over by its token: an earlier agent may have reported a longer validity */
    bool adopted : 1;
    bool noted : 1; /* the journal knows of it */
    /* a caller has shown its token, or was handed it in an answer that was written wholly */
    bool delivered : 1;
    bool outlived : 1; /* HELD, and reads: a quorum has let somebody write since */
    /* A master's clock gained on ours since the round that is out was sent: it is asked again. */
    bool is_void : 1;
    bool shortened : 1; /* HELD: the same took some of its validity, and that is not said yet */

    master_set written; /* may have the key: something that creates it was sent */
    /* were sent what creates the key, by whomever, and have not said what came of it */
    master_set unheard;
    master_set owed; /* have not confirmed the release (R6) */
    /* HELD: have said in this round, later: ever, that another agent owns the token */
    master_set moved;
    /* said in this round that no key was there, or have it anew: a further round can make them
     * count */
    master_set mending;
    struct round round;
    struct lock_master masters[]; /* as many as the largest group has */
};

/* An idempotency key that a DELETE has used up (D3.5, used_up.c). */
struct used_up {
    struct hash_link by_secret;
    struct link link;  /* in core->used_up_order */
    uint64_t key_hash; /* of the key's name; it is keyed, so callers cannot choose it */
    struct secret secret;
    struct instant until;
};

struct core_master {
    bool up;
    bool clock_known;
    struct instant heard_at;      /* when it answered anything last */
    struct instant guarded_until; /* as it last said; NEVER: it did not say */
    uint16_t epoch;
    struct instant epoch_since; /* when this agent heard of it */
    struct clock_reading base;  /* the last one of its clock that came in time; heard 0: none */
    struct clock_reading clock; /* the same, or the first one where that came late (outbox.c) */
    /* Its wall clock, minus this agent's clock, which nobody sets: the agent's wall clock may have
     * been set since (R12). */
    int64_t wall_ahead_us;
};
/* R16; the counts are in core_stats. */
struct admission {
    struct list line;         /* struct key, in order of coming */
    struct list guests;       /* struct core_request, in order of coming */
    bool is_full;             /* somebody has found no place */
    uint32_t credit;          /* of growth, in parts of the limit */
    struct instant halved_at; /* the limit, last */
    int64_t decision_us;      /* of an acquire round, smoothed, */
    int64_t quickest_us;      /* and the quickest */
};
struct group {
    struct core_group config;
    uint64_t name_hash;
    master_set up;
    int64_t round_trip_us; /* of acquires, smoothed */
    struct admission admission;
    struct core_master masters[LIMIT_MASTERS];
    uint64_t fence_floor; /* the largest floor of its masters that is known (R12); 0: none */
};

/* A command that is being gathered: the same operation for many locks on the same masters. */
struct batch {
    struct batch_kind {
        enum op op;
        uint8_t group;
        master_set masters;
        enum form form; /* as far as the operation differs by it */
    } kind;
    uint8_t count;
    struct send_item items[LIMIT_BATCH];
};

/* What is left to chance. Each has a stream of its own, so that a draw for one moves no other. */
enum chance {
    CHANCE_SLOT,     /* the slot of a semaphore that is tried (R20) */
    CHANCE_RENEWAL,  /* when a hold is renewed (R8) */
    CHANCE_RETRY,    /* when a failed renewal is tried again */
    CHANCE_MESSAGE,  /* when an attempt follows a published release (R9) */
    CHANCE_BACK_OFF, /* when one follows a refusal */
    CHANCES,
};

/* The bit that tells the names of an agent apart: of holds that it granted, of those it adopted. */
enum { OWNER_ADOPTED = 1 };

struct core {
    struct group groups[LIMIT_GROUPS];
    size_t group_count;
    struct core_policy policies[LIMIT_POLICIES];
    size_t policy_count;
    struct instant policies_since;
    uint32_t max_ttl_ms;
    int64_t wait_ms_max;
    uint32_t locks_max, requests_max, waiters_max, rounds_min, rounds_max;

    struct instant now; /* of the step */
    int64_t wall_us;
    bool started;    /* a step was taken: `now` means something */
    bool stalled;    /* this step came too late (R14) */
    bool unfinished; /* the step before did not take its event, */
    uint16_t heard;  /* or so many of its replies alone */
    bool draining;
    bool ending, ending_releases;
    bool journal;
    struct random chances[CHANCES];
    struct entropy entropy;
    uint64_t hash_key[2];
    uint64_t agent; /* names this agent among those who hold tickets; never 0 */
    uint32_t owner; /* names it in what masters store (D3.3); with OWNER_ADOPTED what it adopted */

    struct effects *effects;       /* of the step */
    struct batch batches[BATCHES]; /* in the order in which they go out */
    uint32_t batch_count, gathered;
    uint64_t batches_sent; /* the first of `batches` has the next number */

    /* Whatever has an exact time. Of a key: the contender's next attempt. Of a request that is
     * WAITING or a GUEST: the end of the wait; READING: the round's deadline; RENEWING, if it has
     * the hold already: the end of its patience. */
    struct timers timers;
    /* The watchdog's next round of a lock that is HELD; none while one is out. They have no exact
     * time, and come by the batch (R8). */
    struct timers renewals;
    struct list settled;

    struct hash_table keys_by_name;
    struct names names; /* of the keys */
    struct key *keys;
    uint32_t keys_used, keys_size;
    struct key *keys_free;
    /* by somebody in this step: if nobody has them any more, effects may still name them */
    struct key *keys_left;
    struct slots contests;

    struct hash_table locks_by_token, locks_by_secret;
    uint8_t *locks; /* of lock_bytes each: lock_at() */
    size_t lock_bytes;
    struct slots errands, words;
    struct slots used_up; /* struct used_up */
    struct hash_table used_up_by_secret;
    struct list used_up_order;       /* the oldest first */
    uint32_t locks_used, locks_size; /* slots ever used; slots there are */
    uint32_t locks_under_way, ended_max, ended_count;
    struct list locks_free, locks_retired; /* retired: freed in this step */
    struct list locks_ended;               /* oldest first; */
    struct list locks_remembered;          /* those of them that owe nothing any more */

    struct core_request *requests;
    uint32_t requests_used; /* numbers ever used */
    uint64_t requests_came;
    struct core_stats stats;
};

static inline struct lock *lock_at(const struct core *core, uint32_t slot)
{
    CORE_ASSERT(slot < core->locks_size);
    return (struct lock *)(void *)(core->locks + slot * core->lock_bytes);
}
/* What each has its timer by: locks come first, then keys, then requests. */
static inline uint32_t timer_of_lock(const struct lock *lock)
{
    return lock->slot;
}
static inline uint32_t timer_of_key(const struct core *core, const struct key *key)
{
    return core->locks_size + (uint32_t)(key - core->keys);
}
static inline uint32_t timer_of_request(const struct core *core, const struct core_request *request)
{
    return core->locks_size + core->keys_size + request->slot;
}
/* Returns a random number below `bound`. */
static inline int64_t chance_below(struct core *core, enum chance chance, int64_t bound)
{
    return random_below(&core->chances[chance], bound);
}
/* The contender's next attempt has its time. */
static inline bool key_has_retry(const struct core *core, const struct key *key)
{
    return timers_is_armed(&core->timers, timer_of_key(core, key));
}
static inline const struct core_policy *lock_policy(const struct core *core,
                                                    const struct lock *lock)
{
    return &core->policies[lock->policy];
}
static inline bool is_of_attempt(enum lock_state state)
{
    return state == LOCK_ACQUIRING || state == LOCK_RAISING;
}
static inline bool lock_is_attempt(const struct lock *lock)
{
    return is_of_attempt(lock->state);
}
/* R15: what masters are asked to keep the key for. Validity counts from the ttl alone. */
static inline uint32_t lock_lease_ms(const struct lock *lock)
{
    return lock->asked_ttl_ms + lock->lock_delay_ms;
}
static inline struct group *lock_group(struct core *core, const struct lock *lock)
{
    return &core->groups[lock->group];
}
/* R3: renewals and releases have a longer time than an acquire. */
static inline int64_t slow_timeout_ms(const struct core *core, const struct lock *lock)
{
    int64_t tenth = lock->terms.ttl_ms / 10,
            node = core->groups[lock->group].config.node_timeout_ms;
    return tenth > node ? tenth : node;
}
/* R3: the longest time that any agent gives a release. It depends on no ttl, for two agents may
 * know one hold by different ttls, or one of them may not know it at all. */
static inline int64_t release_ms_max(const struct core *core, uint8_t group)
{
    int64_t node = core->groups[group].config.node_timeout_ms;
    return node > RELEASE_MS_MAX ? node : RELEASE_MS_MAX;
}
/* R3: the time of a release: that of a renewal, but bounded. */
static inline int64_t release_timeout_ms(const struct core *core, const struct lock *lock)
{
    int64_t slow = slow_timeout_ms(core, lock), most = release_ms_max(core, lock->group);
    return slow < most ? slow : most;
}
/* The first request of a list, or NULL. */
static inline struct core_request *request_first(const struct list *list)
{
    struct link *link = list_first(list);
    return link == NULL ? NULL : CONTAINER_OF(link, struct core_request, link);
}

#endif
