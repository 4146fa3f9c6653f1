/* The tables of the core: keys, locks, requests, masters. Private to agent/core.
 *
 * A *key* is a name that is held, wanted, or was just left. A *lock* is one attempt at a key, or
 * one hold of it, with its own token. A *request* is one caller that waits for an answer.
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
 *      of each slot (R20), and of the attempts at most one that is no hand-over. If readers share
 *      the key, there may be many. Then a writer is at the head, and only while it is an attempt
 *      (key.c).
 *   2. A lock that is not free has its timer armed.
 *   3. Only HELD locks are reported as held, and only before valid_until: the timer of each fires
 *      before it is lost.
 *   4. A lock owes a release only to masters that may have its key: owed is a subset of `written`.
 *   5. A key exists while it has a lock or a request, and no longer.
 *   6. The renewal of a lock is armed if and only if it is HELD, the watchdog is to renew it and no
 *      round is out.
 *   7. A lock that is not free is found by its token, and by its idempotency key, if it has one
 *      (lock.c).
 *   8. A key is in the admission queue of its group if and only if a request wants a round for it
 *      that may not begin yet. Each attempt that is no hand-over counts as in flight. So does each
 *      adoption and each read among the guests.
 *   9. A key has no contention only if it is HELD or LOST and has no other reference. A lock has an
 *      pending operation unless it is HELD, LOST or free.
 *  10. No request that wants a key is forgotten: the key has a lock that occupies it, is in the
 *      admission queue, or has a time for its next attempt. While the agent drains, none of these
 *      is required. Holds of readers do not occupy it: a waiter beside them shows its ticket. A key
 *      in the admission queue has no such time.
 *  11. A request that follows its key is the key's follower, and the channel of a followed key is
 *      watched. */
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
    /* For this long a lost lock's token is answered lock_lost instead of not_held. */
    REMEMBER_LOST_MS = 60 * 1000,
    OWED_RETRY_MS = 500, /* A master that refused a release is asked again after this time. */
    DRIFT_FIXED_MS = 2,  /* The fixed part of the drift, beside its rate (R4). */
    BATCHES = 8,         /* Commands that are gathered at the same time. */
};

#define NO_REQUEST UINT32_MAX /* pending->contender: none. */

/* A sequence of attempts at different slots of a semaphore (acquire.c). */
struct search {
    struct instant began;
    slot_set tried;  /* Slots lost to other holders since the search began. */
    slot_set open;   /* Slots that a quorum called free when it refused the last attempt. */
    slot_set closed; /* Slots that so many masters called taken then that no quorum is left. */
    bool goes_on;    /* Another slot may be free: the next attempt belongs to this search. */
};

/* The part of a key that is needed while a request wants it, and the knowledge of other agents that
 * want it. */
struct contention {
    struct key *key;
    struct list waiters; /* struct core_request in order of arrival: they wait for the lock. */
    /* struct core_request: they want the result of the attempt in flight. */
    struct list once;
    /* Cause of the next attempt, which is planned or waits in the admission queue. */
    enum cause cause;
    uint32_t back_off_ms;
    uint32_t attempts; /* Number of attempts in flight. */
    bool is_refused;   /* One of several attempts was refused, so no other begins before all are
                        * decided (R18). */
    struct search search;
    struct {
        struct link link; /* Link in the admission queue of its group (R16). */
        struct instant since;
        int64_t waited_us; /* Time that the last round has waited to begin. */
    } admission;
    struct {
        /* The masters were asked to publish releases here, for waiters (R9) or a follower. */
        bool watched;
        master_set confirmed; /* Masters that have confirmed the subscription. */
        /* For each slot (R20): masters that published a release since the last attempt or search
         * began. */
        master_set messages[LIMIT_PERMITS];
        bool released;   /* A quorum published the same release. */
        bool again;      /* A quorum confirmed the subscription while an attempt was in flight. */
        uint32_t losses; /* Attempts that found another holder, since this agent last had the
                          * key. */
        /* Agents that wait for the key, as a master reported last, with this one if it watches. */
        uint32_t agents;
        bool turn_ended; /* This agent has given up its turn. */
        uint32_t ahead;  /* Turns of other agents before its next one. */
    } channel;
    struct core_request *follower; /* The request that follows the key (D3.8); NULL: none. */
    uint32_t handovers;            /* Hand-overs in a row. */
    struct {
        uint64_t shown;      /* The number that the masters were shown last. */
        master_set behind;   /* Masters that may still have the ticket. */
        bool unreachable;    /* No quorum answers. */
        master_set answered; /* Masters that answered in time after `since`; instant 0: none was
                              * asked. */
        struct instant since;
    } tickets;
    struct instant sits_out_until; /* Waiters of this agent do not contend before this time. */
    /* Result and time of the last failed attempt, for the answer of a request that gives up. */
    struct instant last_failed_at;
    enum answer last_answer;
    struct tally last_tally;
    master_set last_refused_by, last_guarded;
    struct occupant last_occupant; /* Its label is in `last_label`. */
    char last_label[LIMIT_LABEL_BYTES];
};

struct key {
    const char *name; /* `len` bytes (names.h). */
    uint64_t hash;
    struct list holds; /* Locks that are or may become a hold (invariant 1). */
    struct contention
        *contention;  /* NULL: the key is held, and no other request wants it (invariant
                              * 9). */
    struct key *next; /* Next of the free keys, or of those that were touched in this step. */
    struct hash_link by_name;
    uint32_t references; /* Number of locks and requests. */
    uint32_t held;       /* Number of locks that are held. */
    uint64_t batch;      /* Number of the last batch that names it (outbox.c). */
    uint16_t len, policy;
    uint8_t group, permits;
    enum form form : 8; /* The form of its policy. */
    bool is_touched;    /* It is among those that were touched. */
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

/* A master's last reply about a lock's token. */
enum word {
    WORD_NONE,      /* No reply yet. */
    WORD_YES,       /* The token is there. */
    WORD_ABSENT,    /* No key is there. */
    WORD_OTHER,     /* Another holder's key is there. */
    WORD_ELSEWHERE, /* The token is there, for another agent. */
    WORD_UNLOCKED,  /* An operator has deleted it by hand (R25). */
};

/* State of a lock at one master. */
struct lock_master {
    /* When the key there has run out for certain, if it is not renewed (lease.c). */
    struct instant ends;
    uint32_t early_ms;  /* By how many ms it may have run out earlier. */
    uint16_t confirmed; /* The epoch in which it confirmed the token; 0: never. */
    enum word word : 8;
};

/* The part of a lock that a hold does not need: for one that is to be granted, adopted, released or
 * paid off. */
struct pending_operation {
    /* ACQUIRING, and while it is undone: number of its ticket. RELEASING: that of the next waiter
     * at this agent. 0: none. */
    uint64_t ticket;
    bool ticket_is_fresh;
    /* ACQUIRING: the first waiter of this agent contends, so the masters keep the ticket. */
    bool ticket_is_kept;
    master_set ticket_at; /* Masters that have the ticket. */
    /* RELEASING: mode of the next waiter. `ticket_is_left`: that waiter shows its ticket itself. */
    enum mode ticket_mode;
    bool ticket_is_left;
    struct token previous;    /* ACQUIRING by hand-over: token of the holder that released. */
    bool previous_given_back; /* The holder of `previous` asked for the release. */
    bool previous_adopted;    /* This agent had adopted `previous`. */
    uint32_t contender;       /* ACQUIRING, RAISING: the request that it is for. */
    uint64_t proposed;        /* ACQUIRING: the number that native commands propose (R24). */
    uint64_t proposed_again;  /* The number that the script proposes after them; 0: none yet. */
    uint64_t fence_max;       /* The largest number that a master of this round stores (R12). */
    master_set at_max;        /* Masters that store exactly `fence_max`. */
    /* ACQUIRING: mode of the holders that refuse it, and the least number of readers. */
    enum mode others_mode;
    uint32_t others;
    /* ADOPTING, or RELEASING an unknown token: masters with another holder's key. */
    master_set strange;
    master_set misnumbered; /* The same: masters that have the token with another number. */
    bool is_proved;         /* RELEASING, ENDED, of an unknown token: a quorum had exactly the
                             * token. */
    master_set deleted;     /* RELEASING: masters on which this release has deleted it (R6). */
    bool is_confirmed;      /* ENDED: a quorum confirmed the release (R6). */
    bool may_live;          /* ENDED: the agent has released it by itself, and another agent may
                             * have it. */
    bool was_lost;          /* ENDED, out of a journal: its caller had lost it, so a repeat of its
                             * POST is no new request (D3.5). */
    /* RELEASING, ENDED: masters that may still run a release whose connection has ended (R5). */
    master_set doubtful;
    bool untold; /* RELEASING, ENDED: native commands may have deleted its keys and told no waiter
                  * (R24). */
    struct instant owed_at;   /* ENDED: when the owed releases are sent again. */
    struct instant forget_at; /* ENDED: when it need not be remembered any more; 0: now. */
    struct denial {
        slot_set taken;   /* Slots of a semaphore that are taken there. */
        uint64_t number;  /* The other number that an unknown token has there. */
        uint32_t busy_ms; /* Rest of the other holder's lease, or of the guard. */
    } denials[];          /* One for each master; used for those that refused. */
};

/* The caller's metadata of a lock, if any was given. */
struct kept_metadata {
    struct hash_link by_secret; /* In core->locks_by_secret (lock.c). */
    struct lock *lock;
    struct metadata metadata;
    /* A label that changes is written here and into `metadata` by turns: effects of the same step
     * may borrow the bytes of the label before (D3.9). */
    char other_label[LIMIT_LABEL_BYTES];
    bool is_other; /* The label is in `other_label`. */
};

/* There may be 100,000 holds, so a lock has no fields that a hold does not need, and they are in an
 * order without gaps. A vote on a renewal finds nothing of it in the processor's caches, so the
 * fields that it needs are together at the end. */
struct lock {
    struct hash_link by_token;   /* In core->locks_by_token (lock.c). */
    struct lock_ref predecessor; /* The lock that a hand-over replaces: it notes its release. */
    /* Link in key->holds, or in the free, ended, remembered or retired locks. */
    struct link link;
    struct kept_metadata *metadata;    /* NULL: none. */
    struct pending_operation *pending; /* NULL: it is HELD, LOST or free. */
    struct instant acquired_at, max_hold_until;
    struct list requests; /* HELD: PUTs for this round or the next one. RELEASING: DELETEs. */

    struct key *key;
    struct token token;
    struct terms terms;
    uint32_t slot, generation;
    uint32_t asked_ttl_ms;  /* The lease that the round in flight asks for. */
    uint32_t lock_delay_ms; /* Masters keep the key for this much longer (R15). */
    struct instant valid_until;
    struct instant won_from;    /* HELD: when the last round was sent that a quorum confirmed. */
    struct instant lease_until; /* When all leases that this agent has asked for have run out. */
    uint16_t policy;
    uint8_t group, quorum;
    enum lock_state state : 8;
    enum cause cause : 8; /* Cause of the attempt. */
    enum reason reason : 8;
    /* After an adoption: by how many masters' replies its label leads (D3.9). */
    uint8_t label_votes;
    uint32_t answers; /* HELD, LOST: number of answers that granted it and were not reported
                       * undelivered. Only repeats increase it. */
    bool fencing : 1;
    bool has_place : 1;   /* Counts as in flight in its group (R16): an attempt or an adoption. */
    bool is_guest : 1;    /* With has_place: ADOPTING, so it counts among the guests. */
    bool handed_over : 1; /* RELEASING: handed over to the next waiter. */
    bool stranger : 1;    /* RELEASING: a token that this agent did not know. */
    /* Its holder asked for the release: any agent's name in the value is accepted (D3.3). */
    bool given_back : 1;
    bool claiming : 1; /* HELD: the round in flight adopts the hold back, for a PUT (D3.4). */
    /* The adoption in flight writes the label that its PUT names. Otherwise masters tell the label
     * (D3.9). */
    bool relabels : 1;
    bool renewing : 1; /* HELD: a round is in flight. */
    /* Adopted by its token: an earlier agent may have reported a longer validity. */
    bool adopted : 1;
    bool noted : 1;   /* It was reported to the journal. */
    bool failing : 1; /* HELD: the last renewal that was decided failed. */
    /* A caller has shown its token, or was handed it in an answer that was written wholly. */
    bool delivered : 1;
    bool outlived : 1; /* HELD, and reads: a quorum has let a writer in since. */
    /* A master's clock gained on ours since the round that is out was sent: it is asked again. */
    bool is_void : 1;
    bool shortened : 1; /* HELD: a gain has shortened its validity, and this was not reported
                         * yet. */

    master_set written; /* Masters that may have the key: a command that creates it was sent. */
    /* Masters that got a command that creates the key, from any agent, and have not replied to
     * it. */
    master_set unheard;
    /* Masters that have not granted the lock, and may have its key by a native command all the same
     * (R24). HELD: a renewal asks them for their vote; without it a key there counts as
     * repaired. */
    master_set uncounted;
    master_set repaired;  /* Masters to which a proved repair was sent since a round was last won
                           * (R7). */
    master_set by_script; /* Masters on which native commands did not grant it (VOTE_BY_SCRIPT). */
    master_set was_set;   /* Those of them on which they have set its key. */
    master_set owed;      /* Masters that have not confirmed the release (R6). */
    /* HELD: masters that replied in this round that another agent owns the token. Later states: in
     * any round. */
    master_set moved;
    /* Masters that replied in this round that no key was there, or have it anew. A further round
     * can make them count. */
    master_set mending;
    struct round round;
    struct lock_master masters[]; /* As many as the largest group has. */
};

static_assert(sizeof(struct lock) <= 256 && sizeof(struct lock_master) <= 16,
              "with five masters a lock takes 336 bytes");

/* An idempotency key that a DELETE has used up (D3.5, used_up.c). */
struct used_up {
    struct hash_link by_secret;
    struct link link;  /* Link in core->used_up_order. */
    uint64_t key_hash; /* Keyed hash of the key's name: callers cannot choose it. */
    struct secret secret;
    struct instant until;
};

struct core_master {
    bool up;
    bool clock_known;
    struct instant heard_at;      /* When it last replied to anything. */
    struct instant guarded_until; /* As it last reported; NEVER: it did not report. */
    uint16_t epoch;
    struct instant epoch_since; /* When this agent learned of the epoch. */
    struct clock_reading base;  /* The last reading of its clock that came in time; all zero:
                                 * none. */
    struct clock_reading clock; /* `base`, or a later reading that gives a larger bound of its clock
                                 * (outbox.c). */
    /* Its wall clock minus this agent's boot clock, which cannot be set: the agent's wall clock may
     * have been set since (R12). */
    int64_t wall_ahead_us;
};
/* Limits the rounds in flight of a group (R16). The counts are in core_stats. */
struct admission {
    struct list queue;        /* struct key in order of arrival. */
    struct list guests;       /* struct core_request in order of arrival. */
    bool is_full;             /* A key could not begin its round. */
    uint32_t credit;          /* Growth that was earned, in parts of the limit. */
    struct instant halved_at; /* When the limit was last halved. */
    int64_t decision_us;      /* Time to the decision of an acquire round, smoothed. */
    int64_t quickest_us;      /* The quickest such time. */
};
struct group {
    struct core_group config;
    uint64_t name_hash;
    master_set up;
    int64_t round_trip_us; /* Round trip of acquires, smoothed. */
    struct admission admission;
    struct core_master masters[LIMIT_MASTERS];
    uint64_t fence_floor; /* The largest known floor of its masters (R12); 0: none. */
    uint64_t proposed;    /* The last number that was proposed (R12); 0: none. */
};

/* A command that is being gathered: the same operation for many locks on the same masters. */
struct batch {
    struct batch_kind {
        enum op op;
        uint8_t group;
        master_set masters;
        enum form form; /* Only as far as the operation differs by it. */
        bool native;    /* It may go by native commands (R24). */
        bool fencing;   /* An ACQUIRE, if `native`: the items are numbered. */
    } kind;
    uint8_t count;
    struct send_item items[LIMIT_BATCH];
};

/* Choices that are left to chance. Each has a stream of its own, so that a draw for one moves no
 * other. */
enum chance {
    CHANCE_SLOT,     /* The slot of a semaphore that is tried (R20). */
    CHANCE_RENEWAL,  /* The time of a hold's renewal (R8). */
    CHANCE_RETRY,    /* The delay after a failed renewal. */
    CHANCE_MESSAGE,  /* The delay after a published release (R9). */
    CHANCE_BACK_OFF, /* The delay after a refusal. */
    CHANCE_FOLLOW,   /* The time of a look at a followed key (D3.8). */
    CHANCES,
};

/* The bit that distinguishes an agent's two names: of holds that it granted, and of those that it
 * adopted. */
enum { AGENT_ADOPTED = 1 };

struct core {
    struct group groups[LIMIT_GROUPS];
    size_t group_count;
    struct core_policy policies[LIMIT_POLICIES];
    size_t policy_count;
    uint32_t max_ttl_ms;
    int64_t wait_ms_max;
    uint32_t locks_max, requests_max, waiters_max, rounds_min, rounds_first, rounds_max;

    struct instant now; /* Time of the step. */
    int64_t wall_us;
    bool started;    /* A step was taken, so `now` is set. */
    bool stalled;    /* This step came too late (R14). */
    bool unfinished; /* The step before did not take its whole event. */
    uint16_t heard;  /* Number of the event's replies that were taken. */
    bool draining;
    bool ending, ending_releases;
    bool journal;
    struct random chances[CHANCES];
    struct entropy entropy;
    uint64_t hash_key[2];
    uint64_t agent;       /* Name of this agent in tickets; never 0. */
    uint32_t value_agent; /* Name of this agent in values on masters (D3.3); with AGENT_ADOPTED for
                           * adopted holds. */

    struct effects *effects; /* Effects of the step. */
    /* Until when keys of that hash are asked for by script (R24). Keys may share a place. */
    struct instant refused_until[REFUSED_KEYS];
    struct batch batches[BATCHES]; /* In the order in which they are sent. */
    uint32_t batch_count, gathered;
    uint64_t batches_sent; /* Number of sent batches. The first of `batches` has the next number. */

    /* Timers with an exact time. Of a key: the contender's next attempt. Of a request that is
     * WAITING or a GUEST: the end of the wait; READING: the round's deadline; FOLLOWING: the next
     * look; RENEWING, if it has the hold already: the end of its wait for the round. */
    struct timers timers;
    /* The watchdog's next rounds of locks that are HELD, unless a round is in flight. They have no
     * exact time, and begin in batches (R8). */
    struct timers renewals;
    struct list settled;

    struct hash_table keys_by_name;
    struct names names; /* Memory for the names of keys. */
    struct key *keys;
    uint32_t keys_used, keys_size;
    struct key *keys_free;
    /* Keys that were touched in this step, in that order. Effects may still name those without
     * references. */
    struct key *keys_touched, *keys_touched_last;
    struct slots contentions;

    struct hash_table locks_by_token, locks_by_secret;
    uint8_t *locks; /* `lock_bytes` each: lock_at(). */
    size_t lock_bytes;
    struct slots pending, metadata;
    struct slots used_up; /* struct used_up */
    struct hash_table used_up_by_secret;
    struct list used_up_order;       /* The oldest is first. */
    uint32_t locks_used, locks_size; /* Number of slots that were ever used; number of all slots. */
    uint32_t locks_under_way, ended_max, ended_count;
    struct list locks_free, locks_retired; /* `locks_retired`: freed in this step. */
    struct list locks_ended;               /* The oldest first. */
    struct list locks_remembered;          /* Those of the ended that owe nothing any more. */

    struct core_request *requests;
    struct hash_table requests_by_secret;
    uint32_t requests_used; /* Numbers that were ever used. */
    uint64_t requests_came;
    struct core_stats stats;
};

/* Returns the hash of a secret that was shown with a key. `key_hash`: that of the key's name. */
static inline uint64_t secret_hash(const struct core *core, uint64_t key_hash,
                                   const struct secret *secret)
{
    return hash_bytes(core->hash_key[0] ^ key_hash, core->hash_key[1], secret->bytes, secret->len);
}

static inline struct lock *lock_at(const struct core *core, uint32_t slot)
{
    CORE_ASSERT(slot < core->locks_size);
    return (struct lock *)(void *)(core->locks + slot * core->lock_bytes);
}
/* Return the number of a timer: locks come first, then keys, then requests. */
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
/* Returns true if the contender's next attempt is planned. */
static inline bool key_has_retry(const struct core *core, const struct key *key)
{
    return timers_is_armed(&core->timers, timer_of_key(core, key));
}
/* Drops the planned attempt, if there is one. */
static inline void key_retry_dropped(struct core *core, struct key *key)
{
    if (!key_has_retry(core, key))
        return;
    timers_clear(&core->timers, timer_of_key(core, key));
    key->contention->cause = CAUSE_ARRIVAL;
}
/* Notes that the state of the key has changed: contend_decide() looks at it. After this step the
 * contention ends if no reference needs it. */
static inline void key_touched(struct core *core, struct key *key)
{
    if (key->is_touched)
        return;
    key->is_touched = true;
    key->next = NULL;
    if (core->keys_touched == NULL)
        core->keys_touched = key;
    else
        core->keys_touched_last->next = key;
    core->keys_touched_last = key;
}
/* Returns true if the key is in the admission queue. */
static inline bool key_awaits_round(const struct key *key)
{
    return key->contention->admission.link.next != NULL;
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
/* Returns the lease that masters are asked for (R15). Validity counts from the ttl only. */
static inline uint32_t lock_lease_ms(const struct lock *lock)
{
    return lock->asked_ttl_ms + lock->lock_delay_ms;
}
static inline struct group *lock_group(struct core *core, const struct lock *lock)
{
    return &core->groups[lock->group];
}
/* Returns the timeout of renewals, which is longer than that of an acquire (R3). */
static inline int64_t slow_timeout_ms(const struct core *core, const struct lock *lock)
{
    int64_t tenth = lock->terms.ttl_ms / 10,
            node = core->groups[lock->group].config.node_timeout_ms;
    return tenth > node ? tenth : node;
}
/* Returns the longest time that any agent gives a release (R3). It does not depend on a ttl,
 * because two agents may know one hold by different ttls, or one of them may not know it at all. */
static inline int64_t release_ms_max(const struct core *core, uint8_t group)
{
    int64_t node = core->groups[group].config.node_timeout_ms;
    return node > RELEASE_MS_MAX ? node : RELEASE_MS_MAX;
}
/* Returns the timeout of a release: that of a renewal, but bounded (R3). */
static inline int64_t release_timeout_ms(const struct core *core, const struct lock *lock)
{
    int64_t slow = slow_timeout_ms(core, lock), most = release_ms_max(core, lock->group);
    return slow < most ? slow : most;
}
/* Returns the first request of a list, or NULL. */
static inline struct core_request *request_first(const struct list *list)
{
    struct link *link = list_first(list);
    return link == NULL ? NULL : CONTAINER_OF(link, struct core_request, link);
}

#endif
