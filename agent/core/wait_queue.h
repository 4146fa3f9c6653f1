/* The queue of a key (R9). */
#ifndef LOCKAGENT_CORE_WAIT_QUEUE_H
#define LOCKAGENT_CORE_WAIT_QUEUE_H

#include "state.h"

/* What one who leaves without the lock is told of the hold here (key_exhausted()), */
struct effect_answer queue_refusal_of_hold(const struct core *core, const struct lock *holder,
                                           enum answer answer);
/* or of the last attempt that failed. */
struct effect_answer queue_refusal_of_attempt(const struct core *core, const struct key *key,
                                              enum answer answer);
/* or where no round was asked for it (R16). */
struct effect_answer queue_refusal_of_overload(const struct core *core, const struct key *key);
/* An attempt of this mode for `contender` has failed. */
void queue_attempt_failed(struct core *core, struct key *key, struct core_request *contender,
                          enum mode mode);
/* The key is held here by this lock from now on. */
void queue_attempt_won(struct core *core, struct key *key, const struct lock *lock);

#endif
