/* What the files of the core offer each other: a section for each file, from the bottom up.
 * Private to agent/core. What the core remembers is in state.h. */
#ifndef LOCKAGENT_CORE_INTERNAL_H
#define LOCKAGENT_CORE_INTERNAL_H

#include "state.h"
#include "types.h"

/* ---- fence.c: fencing numbers (R12) ---- */

/* Returns the agreed time in us, from 1. */
uint64_t fence_agreed_time(const struct core *core, uint8_t group);
/* Returns the number that a grant in `group` gets at least: the agreed time, or what follows the
 * largest floor of its masters. A floor too far ahead of the agreed time is ignored. */
uint64_t fence_proposal(const struct core *core, uint8_t group);
/* Takes note of a floor of one of the group's masters. */
void fence_learns_floor(struct core *core, uint8_t group, uint64_t floor);
/* True for a number that no agent can have granted by now. */
bool fence_is_wild(const struct core *core, uint8_t group, uint64_t number);
/* True where the renewal that begins is to extend the lock's fence keys. */
bool fence_key_is_due(const struct core *core, const struct lock *lock);
/* A master stores that number for the lock. */
void fence_heard(struct lock *lock, uint8_t master, uint64_t number);
/* A master has the token that is asked for with this number, and that is another one. */
void fence_heard_other(struct lock *lock, uint8_t master, uint64_t number);

/* ---- admission.c ---- */

/* The key stands in the line of its group from now on, unless it does already; `cause` is what sets
 * the round off. */
void admission_awaited(struct core *core, struct key *key, enum cause cause);
/* Nobody wants a round for the key any more; nothing to do if it stands in no line. */
void admission_left(struct core *core, struct key *key);
/* The key stands in the line, and there was no place for it. */
bool admission_was_refused(const struct core *core, const struct key *key);
/* Somebody waits for a place that is free. */
bool admission_is_due(const struct core *core);
/* Takes the first one for whom there is a free place off its line; NULL if there is none. Its
 * admission.cause and admission.waited_us stay as they are until it waits again. */
struct key *admission_next(struct core *core);

/* The round of this lock takes a place, */
void admission_begun(struct core *core, struct lock *lock);
/* and gives it back, if it has one. */
void admission_ended(struct core *core, struct lock *lock);

/* Returns true if a request may ask the masters of `group` at once, as a guest. */
bool admission_admits_guest(const struct core *core, uint8_t group);
/* Puts the request at the end of its group's guests, with a deadline of ADMISSION_MS_MAX. */
void admission_guest_waits(struct core *core, struct core_request *request);
/* Takes the first guest that may begin off its queue: it is REQUEST_BEGUN and `admitted`. Returns
 * NULL if there is none. */
struct core_request *admission_next_guest(struct core *core);
/* The read of this request counts as in flight from now on, until admission_guest_left(). */
void admission_guest_reads(struct core *core, struct core_request *request);
/* The request waits no more, or its read is over. Does nothing if it is neither. */
void admission_guest_left(struct core *core, struct core_request *request);
/* The round of this adoption counts as in flight, until admission_ended(). */
void admission_guest_adopts(struct core *core, struct lock *lock);
/* The first phase of an attempt was decided: the limit follows from how long that took. */
void admission_decided(struct core *core, const struct lock *lock);

/* After so long whoever comes to the group now may expect a place, in ms; 0: at once. */
int64_t admission_wait_ms(const struct core *core, uint8_t group);

/* ---- key.c: the table of keys ---- */

MUST_CHECK struct key *key_find(const struct core *core, struct text name);
/* Finds or makes it: the table has room for as many as locks and requests can have. The caller
 * refers to it at once. */
MUST_CHECK struct key *key_get(struct core *core, struct text name);
/* Borrowed from the key. */
struct text key_text(const struct key *key);
/* As far as this agent knows an attempt may begin: the key is a mutex, and nobody here has it or is
 * about to; or not all of its slots are had here, and no attempt contends (R20); or it is shared,
 * and nobody keeps all others off (R18). */
bool key_admits(const struct key *key);
/* A lock by which a caller here has the key, or has lost it a moment ago (HELD, LOST); where
 * readers share it, the writer's. NULL: none. */
struct lock *key_holder(const struct key *key);
/* The first of them to end, where they leave nothing to others; NULL: somebody may come in. */
struct lock *key_exhausted(const struct key *key);
/* The first lock that occupies the key and that one of this mode and permit (0: of a mutex) can not
 * be held beside; NULL: none. */
struct lock *key_obstacle(const struct key *key, enum mode mode, uint8_t permit);
/* An attempt that is under way (ACQUIRING, RAISING); NULL: none. */
struct lock *key_attempt(const struct key *key);
/* Somebody else's attempt here decides, or will, whether the key is to be had. */
bool key_is_contended(const struct key *key);
/* The first of those who wait that no attempt is under way for; NULL: none. */
struct core_request *key_next_waiter(const struct key *key);
/* A lock or a request has it, or a step that is about to change it: it has a contest from now on.
 * key_release() is the end of that (debt.c). */
void key_refer(struct core *core, struct key *key);
/* Somebody does not refer to it any more: after this step its contest ends if nobody else wants the
 * key. */
void key_left(struct core *core, struct key *key);
/* No lock and no request has it any more, and it is left. Effects of this step may still name it:
 * its slot is used again after it. */
void key_remove(struct core *core, struct key *key);
/* What those who left in the step before do not need any more may be used again. */
void key_table_recycle(struct core *core);

/* ---- key.c: policies ---- */

/* False: the ttl is out of range, and the answer says what is allowed. */
MUST_CHECK bool policy_allows_ttl(const struct core *core, const struct key *key, uint32_t ttl_ms,
                                  enum renew renew, struct effect_answer *ret_refusal);
/* The same for a lock that keeps the lock_delay that it was taken with. */
MUST_CHECK bool policy_allows_ttl_of(const struct core *core, const struct lock *lock,
                                     uint32_t ttl_ms, enum renew renew,
                                     struct effect_answer *ret_refusal);
/* R15: cuts the lock_delay of a lock whose ttl was allowed beside another one. */
void policy_fit_lock_delay(const struct core *core, struct lock *lock);

/* ---- key.c: keys that are read and written (R18) ---- */

/* Who talks to the masters next; NULL: nobody, or nobody before those who do now are answered. */
struct core_request *readers_next(const struct key *key);
/* True where whoever waits first gains nothing by an attempt as a hold here ends: it shows its
 * ticket in time, and hears of the last one that is in its way. */
bool readers_wait_on(const struct core *core, const struct key *key,
                     const struct core_request *first);
/* An attempt of this mode has failed, for a request that waits or not, or behind which a writer
 * waits: does it answer another one, that wants one answer now? */
bool readers_share_failure(const struct core_request *once, enum mode mode, bool waits);
/* How many read the key by this agent. */
uint32_t readers_here(const struct key *key);

/* ---- key.c: patterns ---- */

/* `*` is any run of bytes, `?` any one byte; the whole text must match. */
bool glob_matches(const char *pattern, struct text text);

/* ---- lock.c: the table of locks ---- */

/* A fresh lock of `key` with the policy's terms and no token yet; NULL when locks_max are under
 * way. */
MUST_CHECK struct lock *lock_new(struct core *core, struct key *key, enum lock_state state,
                                 enum mode mode);
/* NULL when the lock that it names is gone. */
MUST_CHECK struct lock *lock_by_ref(struct core *core, struct lock_ref ref);
/* The lock that a caller can name by that token; NULL: none. */
MUST_CHECK struct lock *lock_by_token(const struct core *core, const struct key *key,
                                      const struct token *token);
struct lock_ref lock_ref(const struct lock *lock);
/* Neither free nor ended: it is one of limits.locks. */
bool lock_is_under_way(const struct lock *lock);
/* Granted, and valid at this step. */
bool lock_is_held(const struct core *core, const struct lock *lock);
/* In a state in which it may become, or is, a hold: it is in key->holds. */
bool lock_occupies_key(enum lock_state state);
/* A pair that the diagram of state.h does not have is a fault of this program. */
void lock_set_state(struct core *core, struct lock *lock, enum lock_state state);
/* Borrows key and label from the lock. */
struct hold_view lock_view(const struct lock *lock);
/* Takes it off its key and its lists. Effects of this step may still name it: its slot is used
 * again after it. */
void lock_remove(struct core *core, struct lock *lock);
/* Slots that the step before freed may be used again. */
void lock_table_recycle(struct core *core);

/* ---- lock.c: finding a lock ---- */

/* It has its token, and is found by it from now on until it is free. Its number may change. */
void lock_index_token(struct core *core, struct lock *lock);
/* The same for its idempotency key; nothing to do where it has none. */
void lock_index_secret(struct core *core, struct lock *lock);
/* The next one of the key with that random part, whatever its number and state, after `after`, or
 * the first one where that is NULL; the oldest comes first. NULL: there is no other. */
MUST_CHECK struct lock *lock_index_next(const struct core *core, const struct key *key,
                                        const struct token *token, const struct lock *after);
/* The same by an idempotency key, which is not none. */
MUST_CHECK struct lock *lock_index_next_secret(const struct core *core, const struct key *key,
                                               const struct secret *secret,
                                               const struct lock *after);

/* ---- used_up.c: idempotency keys that a DELETE has used up (D3.5) ---- */

/* Returns true if a copy of the POST of `key` with that idempotency key is to be refused. */
MUST_CHECK bool used_up_has(const struct core *core, const struct key *key,
                            const struct secret *secret);
/* Refuses copies from now on, for as long as one may wait. */
void used_up_add(struct core *core, const struct key *key, const struct secret *secret);
/* Asserts what core_check() asserts, for this table. */
void used_up_check(const struct core *core);

/* ---- lock.c: what the caller of a lock gave beside its terms ---- */

/* Those of the lock; empty where none was given. */
const struct words *lock_words(const struct lock *lock);
/* Copies them, once for each lock. */
void lock_keep_words(struct core *core, struct lock *lock, const struct words *words);

/* ---- outbox.c: the effects of a step ---- */

/* For one more event or timer: its effects, and the tokens of the attempts that it begins. */
MUST_CHECK bool outbox_has_room(const struct core *core);
MUST_CHECK bool outbox_has_room_for_answer(const struct core *core);
/* Never NULL: there is room, or it is a fault of this program. */
struct effect *outbox_effect(struct core *core, enum effect_kind kind);
/* Sends for one lock now, behind all that was gathered. */
void outbox_send(struct core *core, struct lock *lock, enum op op, master_set masters);
/* round_take() for the round of a lock. True when a vote was counted; a master that has not run
 * what it was sent is sent it once more. */
MUST_CHECK bool outbox_takes(struct core *core, struct lock *lock, const struct event_reply *reply);
void outbox_read(struct core *core, struct core_request *request, master_set masters);
/* Gathers for one lock; goes out with the others with EVENT_FLUSH, or before anything that must not
 * overtake it. */
void outbox_gather(struct core *core, struct lock *lock, enum op op, master_set masters);
/* Something waits for EVENT_FLUSH. */
MUST_CHECK bool outbox_gathers(const struct core *core);
/* A lock of the key goes: what was gathered for it is sent before. */
void outbox_let_go(struct core *core, const struct key *key);
/* Behind all that was gathered; its replies are not waited for. */
void outbox_withdraw(struct core *core, struct key *key, master_set masters);
void outbox_flush(struct core *core);
/* Tells the journal how a hold stands now; nothing where there is no journal. */
void outbox_hold(struct core *core, struct lock *lock);
/* Takes back what it told the journal, if anything. */
void outbox_forget(struct core *core, struct lock *lock);
/* Completes `trace` with what it is to say of the lock. */
void outbox_trace(struct core *core, struct effect_trace trace, const struct lock *lock);

/* ---- outbox.c: until when a command may create a key (R5) ---- */

/* Until when a grant or a renewal is valid whose first request was sent at `from`: ttl - drift
 * later (R4). */
struct instant deadline_of_validity(const struct core *core, uint8_t group, struct instant from,
                                    uint32_t ttl_ms);
/* Takes note of a reading, if it says more than the one before it. `is_base`: the next ones are
 * compared with it (R14), and it is taken in any case. */
void deadline_heard(struct core *core, uint8_t group, uint8_t master,
                    const struct clock_reading *reading, bool is_base);

/* ---- lease.c: where the key of a hold is (R7) ---- */

/* Notes what a vote says of it. Only the first reply to the latest round counts: an older one
 * that comes late may contradict what the master said since. */
void lease_heard(struct core *core, struct lock *lock, const struct event_reply *reply);
/* True when those that do not deny the token within its lease are fewer than a quorum: somebody
 * else released or took it. */
bool lease_is_taken(const struct core *core, const struct lock *lock);
/* Returns the masters that said so as they were asked last. */
master_set lease_word(const struct core *core, const struct lock *lock, enum word word);
/* Why a hold that is taken has ended here: TAKEN, MOVED or GONE. */
enum reason lease_reason(const struct core *core, const struct lock *lock);
/* The masters on which a renewal may create the key. */
master_set lease_repairable(const struct core *core, const struct lock *lock);
/* How many masters have the key for certain at `now`. */
uint8_t lease_confirmed(const struct core *core, const struct lock *lock, struct instant now);
/* The clock of `master` gained on ours, by `most_us` at the most: the lease there ends earlier.
 * Returns until when so many masters keep the key that the others are no quorum: the hold is not
 * valid for longer. */
struct instant lease_gained(const struct core *core, struct lock *lock, uint8_t master,
                            int64_t least_us, int64_t most_us);

/* What is known of a hold without asking anybody. */
struct tally lease_tally(const struct core *core, const struct lock *lock);

/* ---- lease.c: how long a hold is valid ---- */

/* When it is given up, if it is not renewed until then (R7). */
struct instant hold_lost_at(const struct lock *lock);
bool hold_reaches_max(const struct lock *lock);
/* A round that was sent at `from` has won: the lock is held from now on. */
void hold_begun(struct core *core, struct lock *lock, struct instant from);
/* A round that was sent at `from` has won: the validity counts anew, and is never shorter than
 * before. */
void hold_extend(struct core *core, struct lock *lock, struct instant from);
/* Of a hold whose renewal is not planned yet. */
void hold_plan_renewal(struct core *core, struct lock *lock, struct instant from);
/* By how much its renewal may begin before or after the time that is planned (R8). */
int64_t hold_slack_us(const struct lock *lock);
/* Brings the next renewal forward where it can make a master count again. */
void hold_mend_soon(struct core *core, struct lock *lock);
/* A request is refused because of this hold, which may have been released at another agent. The
 * watchdog renews the hold at once, but no more often than it repeats a failed renewal. */
void hold_doubted(struct core *core, const struct lock *lock);
/* How long to wait before a renewal that failed is tried again. */
int64_t hold_retry_us(struct core *core, const struct lock *lock);
/* Sets the lock's timer to the end of its round or of the hold, whichever comes first. */
void hold_arm(struct core *core, struct lock *lock);

/* ---- order.c: the order over all agents (R9) ---- */

/* A number for one who begins to wait. */
void ticket_given(struct core *core, struct core_request *request);
/* An attempt is about to be sent, with the number of the one whom it is for. */
void ticket_begin_attempt(struct core *core, struct lock *lock, struct core_request *request);
/* A master has this agent's ticket, with this number. */
void ticket_heard(struct core *core, struct lock *lock, uint8_t master, uint64_t number);
/* An attempt is about to be a hold. */
void ticket_granted(struct lock *lock);
/* A hold is about to be released: whoever waits first here takes its place. */
void ticket_released(struct core *core, struct lock *lock);
/* A master answered an attempt, perhaps behind its decision. */
void ticket_answered(struct core *core, struct lock *lock, const struct event_reply *reply);
void ticket_attempt_failed(struct core *core, struct lock *lock, enum answer answer);
/* No release of it that is sent from now on puts a ticket there: its request is gone, or shows
 * it by the next attempt. */
void ticket_forgotten(struct lock *lock);
/* Nobody waits here any more. */
void ticket_withdrawn(struct core *core, struct key *key);
/* True when the masters were told of one who does not wait any more. */
bool ticket_is_stale(const struct key *key);

/* ---- order.c: when a contender tries again (R9) ---- */

void wake_unwatch(struct core *core, struct key *key);
bool wake_sits_out(const struct core *core, const struct key *key);
void wake_after_sitting_out(struct core *core, struct key *key);
void wake_begin_attempt(struct key *key);
void wake_after_failure(struct core *core, struct key *key);
void wake_subscribed(struct core *core, const struct event_channel *event);
void wake_unsubscribed(struct core *core, const struct event_channel *event);
void wake_message(struct core *core, const struct event_channel *event);
/* The request that is handed the key which a holder here releases; NULL: none, the key is to be
 * deleted. */
MUST_CHECK struct core_request *wake_heir(struct core *core, struct key *key);

/* ---- clocks.c: the masters' clocks as witnesses (R14) ---- */

/* Compares a reading of a master's clock with the one before it. If the master gained on this
 * agent, its keys end earlier, holds lose what that costs, and rounds under way are void. */
void clocks_heard(struct core *core, uint8_t group, uint8_t master,
                  const struct clock_reading *reading);

/* ---- debt.c: what masters still have to delete (R5, R6) ---- */

/* These masters may have the key, and owe its release from now on. */
void debt_add(struct core *core, struct lock *lock, master_set masters);
/* The master has said that the key is not there any more. */
void debt_paid(struct core *core, struct lock *lock, uint8_t master);
/* Ends a lock and asks the masters that may have its key to delete it, all but `except` (R5,
 * R6). */
void debt_begun(struct core *core, struct lock *lock, master_set except);
/* Ends a lock whose keys are left to their lease: no release of it is owed. */
void debt_left_to_lease(struct core *core, struct lock *lock);
/* Frees an ended lock that owes nothing and need not be remembered, or arms its timer. */
void debt_settled(struct core *core, struct lock *lock);
void debt_timer(struct core *core, struct lock *lock);
/* An ended lock is asked for by its holder: no release of it is sent from now on, nor by the
 * process after this one. */
void debt_left_off(struct core *core, struct lock *lock);
/* True while an ended lock's key may still stand on so many masters that nobody else can have
 * it. */
bool debt_is_pending(const struct core *core, const struct lock *lock);
void debt_master_up(struct core *core, uint8_t group, uint8_t master);

/* ---- debt.c: the end of keys and locks ---- */

/* A lock or a request leaves the key. */
void key_release(struct core *core, struct key *key);
void lock_free(struct core *core, struct lock *lock);
/* From under way to ENDED; the oldest ended one makes room if need be, rather one that owes
 * nothing (R6). */
void lock_end(struct core *core, struct lock *lock);

/* ---- requests.c: requests and their answers ---- */

struct core_request *request_new(struct core *core, uint32_t number, struct key *key);
/* Answers and frees the request: at once, or as soon as the effects have room. */
void request_answer(struct core *core, struct core_request *request, struct effect_answer answer);
/* Frees it without an answer. */
void request_forget(struct core *core, struct core_request *request);
/* The attempt for it that is under way, and will be decided soon; NULL: none. */
struct lock *request_attempt(const struct core_request *request);
/* Answers every request of the list alike. */
void requests_answer(struct core *core, struct list *list, enum answer answer, enum reason reason);
/* All that ask for something of this lock, with how its round stands. */
void requests_answer_round(struct core *core, struct lock *lock, enum answer answer);
/* Gives out answers that had no room, as many as have it now. */
void requests_settle(struct core *core);
struct effect_answer answer_for_lock(enum answer answer, const struct lock *lock);

/* ---- requests.c: reentrancy (R11) ---- */

/* The hold of the key that the request's owner has here; NULL: none. */
struct lock *reentry_hold(const struct core *core, const struct core_request *request);
/* The owner reads, and asks to write. */
bool reentry_is_upgrade(const struct lock *lock, const struct core_request *request);
void reentry_refuses_upgrade(struct core *core, struct core_request *request);
/* Answers those of the key's queue that are the new holder's own. */
void reentry_admit(struct core *core, struct lock *lock);
/* True when one of several releases has come, and the hold goes on. */
MUST_CHECK bool reentry_left(struct core *core, struct lock *lock);

/* ---- read.c: looking at a key without changing anything ---- */

void read_begun(struct core *core, struct key *key, struct core_request *request);
void read_reply(struct core *core, struct core_request *request, const struct event_reply *reply);
void read_timer(struct core *core, struct core_request *request);

/* ---- acquire.c: one attempt at a lock ---- */

void attempt_begun(struct core *core, struct key *key, struct core_request *request,
                   enum cause cause);
/* R9: the same, and the key is taken from `predecessor`, whose holder releases it, in one round
 * trip. */
void attempt_inherited(struct core *core, struct key *key, struct core_request *request,
                       struct lock *predecessor);
void attempt_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
void attempt_timer(struct core *core, struct lock *lock);
/* R14: the attempt's votes do not count. It is undone, and the next contender asks again. */
void attempt_voided(struct core *core, struct lock *lock);
/* The caller is gone, or its time is up: undo, and let the next one contend. */
void attempt_abandoned(struct core *core, struct lock *lock);

/* ---- acquire.c: the queue of a key (R9) ---- */

/* What one who leaves without the lock is told of the hold here (key_exhausted()), */
struct effect_answer queue_refusal_of_hold(const struct core *core, const struct lock *holder,
                                           enum answer answer);
/* or of the last attempt that failed. */
struct effect_answer queue_refusal_of_attempt(const struct core *core, const struct key *key,
                                              enum answer answer);
/* or where no round was asked for it (R16). */
struct effect_answer queue_refusal_of_overload(const struct core *core, const struct key *key);
/* The key is held here by this lock from now on. */
void queue_attempt_won(struct core *core, struct key *key, const struct lock *lock);

/* ---- acquire.c: the slots of a semaphore (R20) ---- */

/* Somebody wants a round for the key: it joins the line of its group (R16). Unless it stands there,
 * a search begins: no slot has been tried yet. */
void slot_search_begun(struct core *core, struct key *key, enum cause cause);

/* ---- contend.c: who contends for a key (R9) ---- */

/* A request comes: it waits for the lock, or wants one answer now. It is refused if this agent
 * drains, or if the policy does not allow its ttl. */
void contend_arrived(struct core *core, struct core_request *request);
/* The same for a request whose hold is about to end here. It enters the queue, or is refused, and
 * nothing else is done: the caller calls contend_again() when the hold has ended. */
void contend_queued(struct core *core, struct core_request *request);
void contend_again(struct core *core, struct key *key);
/* The time by which a request in the queue of a key is answered. A request without `wait` waits
 * only for its round's place (R16). */
struct instant contend_deadline(const struct core_request *request);
/* The same, as a hold of this mode has ended here. */
void contend_freed(struct core *core, struct key *key, enum mode mode);
/* Rounds begin, in order, as far as there are places and the effects have room (R16). */
void contend_admitted(struct core *core);
/* R14: the attempt's votes do not count. It is undone, and the next contender asks again. */
void contend_anew(struct core *core, struct lock *attempt);
/* It is time to try again. */
void contend_timer(struct core *core, struct key *key);
/* The request's time is up. */
void contend_wait_over(struct core *core, struct core_request *request);
/* A request left the queue: unless an attempt is under way or timed, the next one contends. */
void contend_left(struct core *core, struct key *key);

/* ---- confirm.c: requests that have the lock already (D3.5, R11) ---- */

/* True if the request asks for a hold that it has already; false of a PUT. */
static inline bool confirm_is_wanted(const struct core_request *request)
{
    return request->again != ANSWER_GRANTED;
}

/* Counts the owners that the round of this hold confirms. Called before the journal notes the
 * hold, which happens before any answer. */
void confirm_counted(struct lock *lock);
/* Answers one of them. `is_good`: a quorum confirmed the hold in a round that was sent after the
 * request came. */
void confirm_answered(struct core *core, struct lock *lock, struct core_request *request,
                      bool is_good);
/* The hold ends here. Repeats get `repeats` with the lock's reason. Owners enter the queue of the
 * key, where they contend like any other request: returns true if there are any, and then the
 * caller has to call contend_again(). */
MUST_CHECK bool confirm_hold_ended(struct core *core, struct lock *lock, enum answer repeats);

/* ---- release.c: releases ---- */

/* A release of a lock that this agent holds. `request`: the DELETE that is answered by it, or
 * NULL. `asked`: the holder wants it, and so it counts at whichever agent the hold is; else it
 * is this agent's own affair (D3). */
void release_begun(struct core *core, struct lock *lock, struct core_request *request, bool asked);
/* A DELETE with a token that this agent does not know; or knows as lost for `reason`, which is
 * then the answer where the masters do not have it. */
void release_of_stranger(struct core *core, struct key *key, struct core_request *request,
                         const struct token *token, enum reason reason);
void release_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
/* What a master says to a hand-over, it says of the predecessor's release too. */
void release_inherited(struct core *core, const struct lock *heir, const struct event_reply *reply);
void release_timer(struct core *core, struct lock *lock);

/* ---- watchdog.c: renewals (R7, R8) ---- */

/* A PUT, or a POST that has the hold already: begins a round, or waits for one of its own if a
 * round is out. */
void watchdog_renew(struct core *core, struct lock *lock, struct core_request *request);
void watchdog_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
/* Begins the renewals that are due: a batch of them, or all that are late. */
void watchdog_renews(struct core *core);
/* Of a hold, held or lost. */
void watchdog_timer(struct core *core, struct lock *lock);

/* ---- watchdog.c: the end of a hold that nobody asked to be released ---- */

/* It could not be renewed in time, or `reason`: it is said at once, and the keys stay while the
 * validity lasts (R7). */
void hold_lost(struct core *core, struct lock *lock, enum reason reason);
/* The hold's last validity has ended: the masters are asked to delete its key, or its lease runs
 * out. */
void hold_over(struct core *core, struct lock *lock);
/* A lost hold is left to its lease, whoever owns it. */
void hold_runs_out(struct core *core, struct lock *lock);
/* A quorum has `granted`, which is or will be a hold of the key here: what it can not be beside was
 * released elsewhere, or has run out. */
void holds_make_way(struct core *core, struct key *key, const struct lock *granted);

/* ---- watchdog.c: holds of the process before this one ---- */

void restore_hold(struct core *core, struct key *key, const struct noted_hold *noted);

/* ---- adopt.c: a PUT with a token that this agent does not know (D3) ---- */

/* Returns true if the masters are being asked for the token already: another PUT of it joins. */
bool adoption_is_under_way(const struct core *core, const struct key *key,
                           const struct token *token);
void adoption_begun(struct core *core, struct key *key, struct core_request *request,
                    const struct token *token);
/* A hold that this agent has lost, perhaps to another one, is asked for here: adopts it back if
 * the masters have it. */
void adoption_of_lost(struct core *core, struct lock *lost, struct core_request *request);
/* The token that is about to be adopted is to be released. */
void adoption_released(struct core *core, struct key *key, const struct token *token);
void adoption_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
void adoption_timer(struct core *core, struct lock *lock);

/* ---- calls.c: what callers ask for ---- */

void call_acquire(struct core *core, const struct event_acquire *event);
void call_renew(struct core *core, const struct event_renew *event);
void call_release(struct core *core, const struct event_release *event);
void call_read(struct core *core, const struct event_read *event);
/* Begins the reads and adoptions for which there is room now (R16). */
void call_guests_admitted(struct core *core);
/* A read or an adoption has waited for room for too long. */
void call_guest_time_over(struct core *core, struct core_request *request);
void call_restore(struct core *core, const struct noted_hold *noted);
/* `number`: of a request, answered or not. */
void call_cancel(struct core *core, uint32_t number);
void call_undelivered(struct core *core, struct lock_ref ref);
void call_delivered(struct core *core, struct lock_ref ref);
void call_stuck(struct core *core, struct lock_ref ref);

/* ---- calls.c: the end of the agent ---- */

/* EVENT_DRAIN: all that wait are refused. */
void drain_begun(struct core *core);
/* One that waits is told so. */
void drain_refuses(struct core *core, struct core_request *request);
/* EVENT_END: every hold is lost, or `releases`. */
void drain_ends(struct core *core, bool releases);

/* ---- calls.c: a POST of a caller that has the lock already (D3.5, R11) ---- */

/* The request's time is up, and no quorum has confirmed the hold since it came. */
void again_time_over(struct core *core, struct core_request *request);

#endif
