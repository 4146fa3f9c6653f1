/* The private header of the core: the functions that its files offer each other, with a section for
 * each file, from the bottom up. The core's tables are in state.h. */
#ifndef LOCKAGENT_CORE_INTERNAL_H
#define LOCKAGENT_CORE_INTERNAL_H

#include "state.h"
#include "types.h"

/* ---- fence.c: fencing numbers (R12) ---- */

/* Returns the agreed time in us, from 1. */
uint64_t fence_agreed_time(const struct core *core, uint8_t group);
/* Returns the least number of a grant in `group`: the agreed time, but above the largest floor of
 * its masters and above the last proposal. Of agreed times this one is the closer: it differs from
 * the median of the masters' clocks by PROPOSAL_TRUST_MS at most. A floor too far ahead of it is
 * ignored, and so is a last proposal after which the clock was set back. */
uint64_t fence_propose(struct core *core, uint8_t group);
/* Notes a floor of one of the group's masters. */
void fence_learns_floor(struct core *core, uint8_t group, uint64_t floor);
/* Returns true for a number that no agent can have granted by now. */
bool fence_is_wild(const struct core *core, uint8_t group, uint64_t number);
/* Notes that a master stores `number` for the lock. */
void fence_heard(struct lock *lock, uint8_t master, uint64_t number);
/* Notes that a master has the token that was asked for with `number`, which is another one. */
void fence_heard_other(struct lock *lock, uint8_t master, uint64_t number);

/* ---- admission.c ---- */

/* Puts the key at the end of its group's admission queue. */
void admission_awaited(struct core *core, struct key *key);
/* Takes the key out of the admission queue, because no request needs a round any more; does nothing
 * if it is not in it. */
void admission_left(struct core *core, struct key *key);
/* Returns true if the key waits in the admission queue because no round could begin. */
bool admission_was_refused(const struct core *core, const struct key *key);
/* Returns true if a key or a guest waits although a round may begin. */
bool admission_is_due(const struct core *core);
/* Takes the first key whose round may begin out of its queue; NULL if there is none. Its
 * admission.waited_us stays until it waits again. */
struct key *admission_next(struct core *core);

/* Counts the lock's round as in flight. */
void admission_begun(struct core *core, struct lock *lock);
/* Ends that count; does nothing if the round was not counted. */
void admission_ended(struct core *core, struct lock *lock);

/* Returns true if a request may ask the masters of `group` at once, as a guest. */
bool admission_admits_guest(const struct core *core, uint8_t group);
/* Puts the request at the end of its group's guests, with a deadline of ADMISSION_MS_MAX. */
void admission_guest_waits(struct core *core, struct core_request *request);
/* Takes the first guest that may begin off its queue: it is REQUEST_BEGUN and `admitted`. Returns
 * NULL if there is none. */
struct core_request *admission_next_guest(struct core *core);
/* Counts the read of this request as in flight, until admission_guest_left(). */
void admission_guest_reads(struct core *core, struct core_request *request);
/* Ends the waiting of the request, or its read. Does nothing if it does neither. */
void admission_guest_left(struct core *core, struct core_request *request);
/* Counts the round of this adoption as in flight, until admission_ended(). */
void admission_guest_adopts(struct core *core, struct lock *lock);
/* Adapts the limit after the first phase of an attempt was decided, by the time that it took. */
void admission_decided(struct core *core, const struct lock *lock);

/* Returns the time in ms after which a key that comes now may expect its round; 0: at once. */
int64_t admission_wait_ms(const struct core *core, uint8_t group);

/* ---- key.c: the table of keys ---- */

MUST_CHECK struct key *key_find(const struct core *core, struct text name);
/* Finds the key or makes it: the table has room for as many as locks and requests can have. The
 * caller must refer to it at once. */
MUST_CHECK struct key *key_get(struct core *core, struct text name);
/* Returns the name, borrowed from the key. */
struct text key_text(const struct key *key);
/* Returns true if an attempt may begin, as far as this agent knows. A mutex: no lock of this agent
 * has it or attempts it. A semaphore: not all of its slots are held here, and no attempt contends
 * (R20). A shared key: no writer of this agent has it or attempts it (R18). */
bool key_admits(const struct key *key);
/* Returns a lock by which a caller of this agent has the key, or has just lost it (HELD, LOST). If
 * readers share the key, it is the writer's. NULL: none. */
struct lock *key_holder(const struct key *key);
/* Returns true if the token is of no slot, or of one that the policy still has (R20). */
bool key_has_slot(const struct key *key, const struct token *token);
/* Returns the first of these locks to end, if they and those that are being handed over leave no
 * room; NULL: another lock may come in. */
struct lock *key_exhausted(const struct key *key);
/* Returns the first lock of the key beside which a lock of this mode, in the token's slot, cannot
 * be held; NULL: none. For a reader of FORM_SHARED `token` may be NULL. */
struct lock *key_obstacle(const struct key *key, enum mode mode, const struct token *token);
/* Returns an attempt that is in flight (ACQUIRING, RAISING); NULL: none. */
struct lock *key_attempt(const struct key *key);
/* Returns true if an attempt of this agent decides, or will decide, whether the key can be had. */
bool key_is_contended(const struct key *key);
/* Returns the first waiter without an attempt in flight; NULL: none. */
struct core_request *key_next_waiter(const struct key *key);
/* Counts a reference: a lock, a request, or a step that is about to change the key. The key has a
 * contention from now on. key_release() ends the reference (debt.c). */
void key_refer(struct core *core, struct key *key);
/* Notes that a hold of this mode ended here. A planned attempt is dropped, because the key seems to
 * be free now. */
void key_freed(struct core *core, struct key *key, enum mode mode);
/* Removes the key without references, which was left. Effects of this step may still name it, so
 * its slot is used again only after the step. */
void key_remove(struct core *core, struct key *key);
/* Frees the keys and contentions that the step before does not need any more. */
void key_table_recycle(struct core *core);

/* ---- key.c: policies ---- */

/* Returns false if the ttl is out of range. Then the answer has the allowed range. */
MUST_CHECK bool policy_allows_ttl(const struct core *core, const struct key *key, uint32_t ttl_ms,
                                  enum renew renew, struct effect_answer *ret_refusal);
/* Like policy_allows_ttl(), for a lock that keeps its lock_delay. */
MUST_CHECK bool policy_allows_ttl_of(const struct core *core, const struct lock *lock,
                                     uint32_t ttl_ms, enum renew renew,
                                     struct effect_answer *ret_refusal);
/* Shortens the lock_delay of a lock whose ttl was allowed with another one (R15). */
void policy_fit_lock_delay(const struct core *core, struct lock *lock);

/* ---- key.c: keys that are read and written (R18) ---- */

/* Returns the request that asks the masters next; NULL: there is none, or those that ask now must
 * be answered first. */
struct core_request *readers_next(const struct key *key);
/* Returns true if the request `once`, which wants one answer now, gets the answer of an attempt of
 * this mode that has failed. `waits`: the attempt was for a request that waits, or a writer waits
 * behind it. */
bool readers_share_failure(const struct core_request *once, enum mode mode, bool waits);
/* Returns the number of readers of this agent that hold the key. */
uint32_t readers_here(const struct key *key);

/* ---- key.c: patterns ---- */

/* Returns true if the whole text matches: `*` is any run of bytes, `?` any one byte. */
bool glob_matches(const char *pattern, struct text text);

/* ---- lock.c: the table of locks ---- */

/* Returns a new lock of `key` with the policy's terms and without a token; NULL if there are
 * locks_max that have not ended. */
MUST_CHECK struct lock *lock_new(struct core *core, struct key *key, enum lock_state state,
                                 enum mode mode);
/* Returns true if the replies to the release of a lock may answer a DELETE: a holder asked for the
 * release, or may join it by its idempotency key (D3.5). Then masters without a vote do not confirm
 * it (D3.4). */
bool lock_release_may_answer(const struct lock *lock);
/* Returns the lock that `ref` names; NULL if it is gone. */
MUST_CHECK struct lock *lock_by_ref(struct core *core, struct lock_ref ref);
/* Returns the lock that a caller can name by that token; NULL: none. */
MUST_CHECK struct lock *lock_by_token(const struct core *core, const struct key *key,
                                      const struct token *token);
struct lock_ref lock_ref(const struct lock *lock);
/* Returns true if the lock is neither free nor ended: it counts for limits.locks. */
bool lock_is_under_way(const struct lock *lock);
/* Returns true if the lock is granted, and valid at this step. */
bool lock_is_held(const struct core *core, const struct lock *lock);
/* Returns true if a lock in this state is or may become a hold: it is in key->holds. */
bool lock_occupies_key(enum lock_state state);
/* Changes the state. A pair that the diagram of state.h does not have is a fault of this
 * program. */
void lock_set_state(struct core *core, struct lock *lock, enum lock_state state);
/* Returns a view that borrows key and label from the lock. */
struct hold_view lock_view(const struct lock *lock);
/* Takes the lock out of its key and its lists. Effects of this step may still name it, so its slot
 * is used again only after the step. */
void lock_remove(struct core *core, struct lock *lock);
/* Frees the slots of the step before. */
void lock_table_recycle(struct core *core);

/* ---- lock.c: finding a lock ---- */

/* Makes the lock findable by its token until it is free. Its number may change. */
void lock_index_token(struct core *core, struct lock *lock);
/* Makes the lock findable by its idempotency key; does nothing if it has none. */
void lock_index_secret(struct core *core, struct lock *lock);
/* Returns the next lock of the key with that random part, with any number and in any state, after
 * `after` (NULL: the first). The oldest comes first. NULL: there is no other. */
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

/* ---- lock.c: the caller's metadata of a lock ---- */

/* Returns the metadata of the lock; empty if the caller gave none. Its label may be an earlier one:
 * see lock_label(). */
const struct metadata *lock_metadata(const struct lock *lock);
/* Returns a copy of the metadata, with the present label. */
struct metadata lock_metadata_copy(const struct lock *lock);
/* Returns the present label, borrowed until the label has changed and the step after that begins;
 * empty: none. */
struct text lock_label(const struct lock *lock);
/* Copies the caller's metadata, once for each lock. */
void lock_keep_metadata(struct core *core, struct lock *lock, const struct metadata *metadata);

/* ---- outbox.c: the effects of a step ---- */

/* Returns true if there is room for one more event or timer: for its effects, and for the tokens of
 * its attempts. */
MUST_CHECK bool outbox_has_room(const struct core *core);
MUST_CHECK bool outbox_has_room_for_answer(const struct core *core);
/* Returns a new effect. Having no room is a fault of this program. */
struct effect *outbox_effect(struct core *core, enum effect_kind kind);
/* Sends the operation for one lock now, after all gathered ones. */
void outbox_send(struct core *core, struct lock *lock, enum op op, master_set masters);
/* Calls round_take() for the round of a lock. Returns true if a vote was counted. A master that has
 * not run the command gets it once more. */
MUST_CHECK bool outbox_takes(struct core *core, struct lock *lock, const struct event_reply *reply);
void outbox_read(struct core *core, struct core_request *request, master_set masters);
/* Gathers the operation for one lock. It is sent with the others at EVENT_FLUSH, or before a
 * command that must not overtake it. */
void outbox_gather(struct core *core, struct lock *lock, enum op op, master_set masters);
/* Notes that the key was refused here: its attempts go by script for REFUSED_MS (R24). */
void outbox_refused(struct core *core, const struct key *key);
/* The same for a repair. `unproved`: only a master without a vote creates the key (R7). */
void outbox_gather_repair(struct core *core, struct lock *lock, master_set masters, bool unproved);
/* Returns true if gathered operations wait for EVENT_FLUSH. */
MUST_CHECK bool outbox_gathers(const struct core *core);
/* Sends the operations gathered for the key, because one of its locks will be freed. */
void outbox_let_go(struct core *core, const struct key *key);
/* Sends WITHDRAW after all gathered operations. Its replies are not waited for. */
void outbox_withdraw(struct core *core, struct key *key, master_set masters);
void outbox_flush(struct core *core);
/* Reports the present state of a hold to the journal, if there is one. */
void outbox_hold(struct core *core, struct lock *lock);
/* Makes the journal forget the hold, if it was reported. */
void outbox_forget(struct core *core, struct lock *lock);
/* Adds the lock's part to `trace` and reports it. */
void outbox_trace(struct core *core, struct effect_trace trace, const struct lock *lock);

/* ---- outbox.c: until when a command may create a key (R5) ---- */

/* Returns the end of the validity of a grant or a renewal whose first request was sent at `from`:
 * ttl - drift later (R4). */
struct instant deadline_of_validity(const struct core *core, uint8_t group, struct instant from,
                                    uint32_t ttl_ms);
/* Notes a reading, if it gives a larger bound than the one before. `is_base`: the next readings are
 * compared with it (R14), and it is noted in any case. */
void deadline_heard(struct core *core, uint8_t group, uint8_t master,
                    const struct clock_reading *reading, bool is_base);

/* ---- lease.c: the masters that have the key of a hold (R7) ---- */

/* Notes the meaning of a vote for the hold's key. Only the first reply to the latest round counts:
 * a late reply to an earlier round may contradict a newer one. */
void lease_heard(struct core *core, struct lock *lock, const struct event_reply *reply);
/* Returns true if it is not known which masters confirmed the hold: it is out of a journal, and no
 * quorum has confirmed it here. */
bool lease_is_unproved(const struct lock *lock);
/* Returns true if the reply is that of a resumption that was not sent, perhaps because the group is
 * closed (R23). The hold is the agent's own, so it is renewed without the vote (R24). */
bool lease_is_withheld(const struct lock *lock, const struct event_reply *reply);
/* Returns false if the reply says that the master has the key, and it does not count: it may be
 * there by a native command that the master has run after it forgot a vote (R24), or it was created
 * anew since a round was last won, and another master denies the token (R7). It counts as
 * repaired. */
bool lease_counts(const struct core *core, const struct lock *lock,
                  const struct event_reply *reply);
/* Notes that a quorum has confirmed the token. Keys that this round found on other masters count
 * from the next one on (R24). */
void lease_round_won(struct core *core, struct lock *lock);
/* Returns true if the masters that do not deny the token within its lease are fewer than a quorum:
 * it was released elsewhere, or taken. */
bool lease_is_taken(const struct core *core, const struct lock *lock);
/* Returns the masters that said so as they were asked last. */
master_set lease_word(const struct core *core, const struct lock *lock, enum word word);
/* Why a hold that is taken has ended here: TAKEN, MOVED or GONE. */
enum reason lease_reason(const struct core *core, const struct lock *lock);
/* Returns the masters on which a renewal may create the key. `ret_unproved` gets the masters on
 * which it may do so only while they have no vote. */
master_set lease_repairable(const struct core *core, const struct lock *lock,
                            master_set *ret_unproved);
/* Returns the number of masters that have the key for certain at `now`. A master that is down is
 * not counted: its process may have ended, and its keys with it. */
uint8_t lease_confirmed(const struct core *core, const struct lock *lock, struct instant now);
/* Shortens the lease on `master`, whose clock gained on ours, by at most `most_us`. Returns when so
 * many leases have ended that the other masters are no quorum: the hold is not valid for longer. */
struct instant lease_gained(const struct core *core, struct lock *lock, uint8_t master,
                            int64_t least_us, int64_t most_us);

/* Returns the votes of a hold, as known without asking the masters. */
struct tally lease_tally(const struct core *core, const struct lock *lock);

/* ---- lease.c: how long a hold is valid ---- */

/* Returns when the hold is lost if it is not renewed (R7). */
struct instant hold_lost_at(const struct lock *lock);
bool hold_reaches_max(const struct lock *lock);
/* Makes the lock a hold after a round that was sent at `from` has won. */
void hold_begun(struct core *core, struct lock *lock, struct instant from);
/* Extends the validity after a round that was sent at `from` has won. It is never shorter than
 * before. */
void hold_extend(struct core *core, struct lock *lock, struct instant from);
/* Plans the next renewal of a hold that has none planned. The last round was sent at `from`. */
void hold_plan_renewal(struct core *core, struct lock *lock, struct instant from);
/* Returns by how much the renewal may begin before or after its planned time (R8). */
int64_t hold_slack_us(const struct lock *lock);
/* Makes the next renewal earlier if it can make a master count again. */
void hold_mend_soon(struct core *core, struct lock *lock);
/* Renews a hold of the watchdog at once, because a request is refused for it, and the hold may have
 * been released at another agent. It does so no more often than it repeats a failed renewal. */
void hold_doubted(struct core *core, const struct lock *lock);
/* Returns the time in us before a failed renewal is tried again. */
int64_t hold_retry_us(struct core *core, const struct lock *lock);
/* Sets the lock's timer to the earlier of the ends of its round and of the hold. */
void hold_arm(struct core *core, struct lock *lock);

/* ---- label.c: a label that changes (D3.9) ---- */

/* Gives the lock another label, of at most LIMIT_LABEL_BYTES. Flushes commands that borrow the
 * label before. */
void label_set(struct core *core, struct lock *lock, struct text label);
/* Takes the label that a PUT of the hold names: from this round on masters are told it. Returns
 * true if one was named. */
bool label_taken(struct core *core, struct lock *lock);
/* Takes the label that a master stores for a hold that is adopted, unless its PUT names one:
 * another agent may have changed it. */
void label_heard(struct core *core, struct lock *lock, struct text label);

/* ---- follow.c: keys that are followed (D3.8) ---- */

/* Begins to follow the key with the request. */
void follow_begun(struct core *core, struct key *key, struct core_request *request);
/* Ends that, because the request is forgotten. */
void follow_ended(struct core_request *request);
/* Tells of the hold of this agent. Returns false if it has none, or has told of it: then a look is
 * due. */
MUST_CHECK bool follow_tells_own(struct core *core, struct core_request *request);
/* Begins a look: the request is REQUEST_BEGUN, and is to read the key. */
void follow_looks(struct core *core, struct core_request *request);
/* Takes the state that a read of the key has shown. */
void follow_looked(struct core *core, struct core_request *request,
                   const struct effect_answer *seen);
/* Takes that a look could not begin in time (R16). */
void follow_look_failed(struct core *core, struct core_request *request);
/* Notes that a key with a follower was touched: a hold of this agent may have begun or ended. */
void follow_key_changed(struct core *core, struct key *key);
/* Notes that this agent's hold has another label (D3.9). */
void follow_label_changed(struct core *core, const struct lock *lock);
/* Notes a message of a master on the key's channel. */
void follow_heard(struct core *core, struct key *key, uint8_t master, uint8_t quorum);
/* Notes that a quorum is subscribed to, or not any more: a message may have been missed. */
void follow_subscription_changed(struct core *core, struct key *key);

/* ---- order.c: the order over all agents (R9) ---- */

/* Gives a number to a request that begins to wait. */
void ticket_given(struct core *core, struct core_request *request);
/* Prepares the ticket of an attempt that is about to be sent for `request`. */
void ticket_begin_attempt(struct core *core, struct lock *lock, struct core_request *request);
/* Notes that a master has this agent's ticket with `number`. */
void ticket_heard(struct core *core, struct lock *lock, uint8_t master, uint64_t number);
/* Notes that an attempt becomes a hold. */
void ticket_granted(struct lock *lock);
/* Prepares the release of a hold: the first waiter of this agent gets the ticket. */
void ticket_released(struct core *core, struct lock *lock);
/* Notes a master's reply to an attempt, also after its decision. */
void ticket_answered(struct core *core, struct lock *lock, const struct event_reply *reply);
void ticket_attempt_failed(struct core *core, struct lock *lock, enum answer answer);
/* Makes later releases of the lock write no ticket: its request is gone, or shows it in the next
 * attempt. */
void ticket_forgotten(struct lock *lock);
/* Withdraws the ticket from the masters, because no request waits here any more. */
void ticket_withdrawn(struct core *core, struct key *key);
/* Returns true if masters have the ticket of a request that does not wait any more. */
bool ticket_is_stale(const struct key *key);

/* ---- order.c: when a contender tries again (R9) ---- */

/* Begins the subscription to the key's channel, unless there is one. */
void wake_watch(struct core *core, struct key *key);
/* Ends it, unless the key is followed. No request waits here. */
void wake_unwatch(struct core *core, struct key *key);
bool wake_sits_out(const struct core *core, const struct key *key);
void wake_after_sitting_out(struct core *core, struct key *key);
void wake_begin_attempt(struct key *key);
void wake_after_failure(struct core *core, struct key *key);
void wake_subscribed(struct core *core, const struct event_channel *event);
void wake_unsubscribed(struct core *core, const struct event_channel *event);
void wake_message(struct core *core, const struct event_channel *event);
/* Returns the request to which the key is handed over by a holder here that releases it; NULL:
 * none, the key is deleted. */
MUST_CHECK struct core_request *wake_next_holder(struct core *core, struct key *key);

/* ---- clocks.c: the masters' clocks as witnesses (R14) ---- */

/* Compares a reading of a master's clock with the one before. If the master gained on this agent,
 * leases on it end earlier, holds get shorter by that, and rounds in flight are void. */
void clocks_heard(struct core *core, uint8_t group, uint8_t master,
                  const struct clock_reading *reading);

/* ---- debt.c: releases that masters are owed (R5, R6) ---- */

/* Notes that these masters may have the key, and are owed its release. */
void debt_add(struct core *core, struct lock *lock, master_set masters);
/* Notes that the master does not have the key any more. */
void debt_paid(struct core *core, struct lock *lock, uint8_t master);
/* Ends a lock. Sends its release to the masters that may have its key, all but `except` (R5,
 * R6). */
void debt_begun(struct core *core, struct lock *lock, master_set except);
/* Ends a lock whose keys run out: no release is owed. */
void debt_left_to_lease(struct core *core, struct lock *lock);
/* Frees an ended lock that owes nothing and need not be remembered, or arms its timer. */
void debt_settled(struct core *core, struct lock *lock);
void debt_timer(struct core *core, struct lock *lock);
/* Cancels the debt of an ended lock, because its holder asks for it: no release of it is sent from
 * now on, also not after a restart. */
void debt_left_off(struct core *core, struct lock *lock);
/* Returns true if no quorum has confirmed the release of an ended lock, and it is still owed
 * (R6). */
bool debt_is_pending(const struct lock *lock);
/* A request with this idempotency key has been granted anew: a DELETE by it no longer means earlier
 * holds that the agent has released by itself (D3.5). */
void debt_replaced(struct core *core, const struct lock *granted);
void debt_master_up(struct core *core, uint8_t group, uint8_t master);

/* ---- debt.c: the end of keys and locks ---- */

/* Ends the reference of a lock or a request to the key. */
void key_release(struct core *core, struct key *key);
void lock_free(struct core *core, struct lock *lock);
/* Ends a lock. If there are too many ended ones, the oldest is freed, first one that owes nothing
 * (R6). */
void lock_end(struct core *core, struct lock *lock);

/* ---- requests.c: requests and their answers ---- */

struct core_request *request_new(struct core *core, uint32_t number, struct key *key);
/* Makes a request of the queue known by its idempotency key, if it has one, until it leaves. */
void request_index_secret(struct core *core, struct core_request *request);
/* Returns the request of the key's queue with that idempotency key, which is not none; NULL: there
 * is none. The secrets are compared in constant time (R10). */
MUST_CHECK struct core_request *request_by_secret(const struct core *core, const struct key *key,
                                                  const struct secret *secret);
/* Answers and frees the request, at once or as soon as the effects have room. */
void request_answer(struct core *core, struct core_request *request, struct effect_answer answer);
/* Frees the request without an answer. */
void request_forget(struct core *core, struct core_request *request);
/* Makes a PUT, or a POST that has the hold already, wait for the next round: a round that is in
 * flight may have been answered before the hold was released. */
void request_awaits_next_round(const struct lock *lock, struct core_request *request);
/* Returns the attempt in flight for the request, which will be decided soon; NULL: none. */
struct lock *request_attempt(const struct core_request *request);
/* Answers every request of the list alike. */
void requests_answer(struct core *core, struct list *list, enum answer answer, enum reason reason);
/* Answers all requests for this lock, with the votes of its round. */
void requests_answer_round(struct core *core, struct lock *lock, enum answer answer);
/* Answers requests for whose answers there was no room, as many as there is room for now. */
void requests_settle(struct core *core);
struct effect_answer answer_for_lock(enum answer answer, const struct lock *lock);

/* ---- requests.c: reentrancy (R11) ---- */

/* Returns the hold of the key that the request's owner has at this agent; NULL: none. */
struct lock *reentry_hold(const struct core *core, const struct core_request *request);
/* Returns true if the owner has a read and asks to write. */
bool reentry_is_upgrade(const struct lock *lock, const struct core_request *request);
void reentry_refuses_upgrade(struct core *core, struct core_request *request);
/* Answers the requests of the new holder in the key's queue. */
void reentry_admit(struct core *core, struct lock *lock);
/* Returns true if this was one of several releases, and the hold continues. */
MUST_CHECK bool reentry_left(struct core *core, struct lock *lock);

/* ---- read.c: looking at a key without changing anything ---- */

void read_begun(struct core *core, struct key *key, struct core_request *request);
void read_reply(struct core *core, struct core_request *request, const struct event_reply *reply);
void read_timer(struct core *core, struct core_request *request);

/* ---- acquire.c: one attempt at a lock ---- */

void attempt_begun(struct core *core, struct key *key, struct core_request *request);
/* Like attempt_begun(), but takes the key from `predecessor`, whose holder releases it, in one
 * round trip (R9). */
void attempt_inherited(struct core *core, struct key *key, struct core_request *request,
                       struct lock *predecessor);
void attempt_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
void attempt_timer(struct core *core, struct lock *lock);
/* Undoes the attempt, because its votes do not count (R14). The next contender asks again. */
void attempt_voided(struct core *core, struct lock *lock);
/* Undoes the attempt, because its caller is gone or its time is over. */
void attempt_abandoned(struct core *core, struct lock *lock);

/* ---- acquire.c: the queue of a key (R9) ---- */

/* Returns the answer to a request that leaves without the lock because of a hold of this agent
 * (key_exhausted()). */
struct effect_answer queue_refusal_of_hold(const struct core *core, const struct lock *holder,
                                           enum answer answer);
/* Returns that answer for the last attempt that failed. */
struct effect_answer queue_refusal_of_attempt(const struct core *core, const struct key *key,
                                              enum answer answer);
/* Returns that answer if no round was begun for the request (R16). */
struct effect_answer queue_refusal_of_overload(const struct core *core, const struct key *key);
/* Refuses the requests that want one answer now and do not fit beside `holder`. */
void queue_refuse_once(struct core *core, struct key *key, const struct lock *holder);
/* Handles the queue after the key was granted to this lock. */
void queue_attempt_won(struct core *core, struct key *key, const struct lock *lock);

/* ---- contend.c: the next attempt at a key (R9) ---- */

/* Takes a new request: it waits for the lock, or wants one answer now. It is refused if this agent
 * drains, or if the policy does not allow its ttl. */
void contend_arrived(struct core *core, struct core_request *request);
/* Like contend_arrived(), for a request whose hold is about to end here: that hold is not
 * renewed. */
void contend_queued(struct core *core, struct core_request *request);
/* Returns when a request in the queue of a key is answered at the latest. A request without `wait`
 * waits only for its round to begin (R16). */
struct instant contend_deadline(const struct core_request *request);
/* Decides for each key that was touched in this step whether an attempt begins (R9). */
void contend_decide(struct core *core);
/* Begins rounds, in order, as many as the limit and the effects have room for (R16). */
void contend_admitted(struct core *core);
/* Answers a request whose deadline has come. */
void contend_wait_over(struct core *core, struct core_request *request);

/* ---- confirm.c: requests that have the lock already (D3.5, R11) ---- */

/* Returns true if the request asks for a hold that it has already; false for a PUT. */
static inline bool confirm_is_wanted(const struct core_request *request)
{
    return request->again != ANSWER_GRANTED;
}

/* Counts the owners that the round of this hold confirms. Called before the journal notes the
 * hold, which happens before any answer. */
void confirm_counted(struct lock *lock);
/* Answers such a request. `is_good`: a quorum confirmed the hold in a round that was sent after the
 * request came. */
void confirm_answered(struct core *core, struct lock *lock, struct core_request *request,
                      bool is_good);
/* Handles the end of the hold for such requests. Repeats get `repeats` with the lock's reason.
 * Owners enter the queue of the key and contend there like any other request. */
void confirm_hold_ended(struct core *core, struct lock *lock, enum answer repeats);

/* ---- release.c: releases ---- */

/* Begins the release of a lock that this agent holds. `request`: the DELETE that it answers, or
 * NULL. `asked`: the holder wants it, so any agent's name in the value is accepted; otherwise only
 * this agent's value is deleted (D3.3). */
void release_begun(struct core *core, struct lock *lock, struct core_request *request, bool asked);
/* Begins a DELETE with a token that this agent does not know, or knows as lost for `reason`. That
 * is then the answer if the masters do not have it. `fencing`: the grant was numbered. */
void release_of_stranger(struct core *core, struct key *key, struct core_request *request,
                         const struct token *token, bool fencing, enum reason reason);
void release_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
/* Passes a master's reply to a hand-over on to the predecessor's release. */
void release_inherited(struct core *core, const struct lock *next_holder,
                       const struct event_reply *reply);
void release_timer(struct core *core, struct lock *lock);

/* ---- watchdog.c: renewals (R7, R8) ---- */

/* Renews for a PUT, or for a POST that has the hold already: begins a round, or waits for the next
 * one if a round is in flight. */
void watchdog_renew(struct core *core, struct lock *lock, struct core_request *request);
/* The same for the PUTs in lock->requests, which waited for another round until now. */
void watchdog_renew_again(struct core *core, struct lock *lock);
void watchdog_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
/* Begins the renewals that are due: a batch of them, or all that are late. */
void watchdog_renews(struct core *core);
/* Handles the timer of a hold, held or lost. */
void watchdog_timer(struct core *core, struct lock *lock);

/* ---- watchdog.c: the end of a hold without a release ---- */

/* Makes the hold lost for `reason`, for example because it could not be renewed in time. It is
 * reported at once, and the keys stay until the validity ends (R7). */
void hold_lost(struct core *core, struct lock *lock, enum reason reason);
/* Ends a hold whose last validity has ended: its key is released, or its lease runs out. */
void hold_over(struct core *core, struct lock *lock);
/* Ends a lost hold without a release: its lease runs out. */
void hold_runs_out(struct core *core, struct lock *lock);
/* Ends the holds beside which `granted` cannot be held, because a quorum has it: they were released
 * elsewhere, or have run out. `granted` is or will be a hold of the key at this agent. */
void holds_make_way(struct core *core, struct key *key, const struct lock *granted);

/* ---- watchdog.c: holds of the process before this one ---- */

void restore_hold(struct core *core, struct key *key, const struct noted_hold *noted);

/* ---- adopt.c: a PUT with a token that this agent does not know (D3) ---- */

/* Returns true if the masters are being asked for the token already: another PUT of it joins. */
bool adoption_is_under_way(const struct core *core, const struct key *key,
                           const struct token *token);
void adoption_begun(struct core *core, struct key *key, struct core_request *request,
                    const struct token *token);
/* Begins the adoption of a hold that this agent has lost, perhaps to another agent: it is adopted
 * back if the masters have it. */
void adoption_of_lost(struct core *core, struct lock *lost, struct core_request *request);
/* Ends adoptions of the token, because it is to be released. */
void adoption_released(struct core *core, struct key *key, const struct token *token);
void adoption_reply(struct core *core, struct lock *lock, const struct event_reply *reply);
void adoption_timer(struct core *core, struct lock *lock);

/* ---- calls.c: the calls of callers ---- */

void call_acquire(struct core *core, const struct event_acquire *event);
void call_renew(struct core *core, const struct event_renew *event);
void call_release(struct core *core, const struct event_release *event);
void call_read(struct core *core, const struct event_read *event);
/* Begins the look whose time has come, or tells of the hold of this agent (D3.8). */
void call_look_is_due(struct core *core, struct core_request *request);
/* Begins the reads and adoptions for which there is room now (R16). */
void call_guests_admitted(struct core *core);
/* Answers a read or an adoption that has waited for too long. */
void call_guest_time_over(struct core *core, struct core_request *request);
void call_restore(struct core *core, const struct noted_hold *noted);
/* Cancels the request with that number, answered or not. */
void call_cancel(struct core *core, uint32_t number);
void call_undelivered(struct core *core, struct lock_ref ref);
void call_delivered(struct core *core, struct lock_ref ref);
void call_stuck(struct core *core, struct lock_ref ref);

/* ---- calls.c: the end of the agent ---- */

/* Handles EVENT_DRAIN: refuses all waiting requests. */
void drain_begun(struct core *core);
/* Refuses one waiting request. */
void drain_refuses(struct core *core, struct core_request *request);
/* Handles EVENT_END: every hold is lost, or released if `releases`. */
void drain_ends(struct core *core, bool releases);

/* ---- calls.c: a POST of a caller that has the lock already (D3.5, R11) ---- */

/* The request's time is up, and no quorum has confirmed the hold since it came. */
void again_time_over(struct core *core, struct core_request *request);

#endif
