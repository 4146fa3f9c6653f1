/* The effects of a step. */
#ifndef LOCKAGENT_CORE_OUTBOX_H
#define LOCKAGENT_CORE_OUTBOX_H

#include "state.h"

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

#endif
