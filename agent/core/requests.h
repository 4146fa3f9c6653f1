/* Requests and their answers. */
#ifndef LOCKAGENT_CORE_REQUESTS_H
#define LOCKAGENT_CORE_REQUESTS_H

#include "state.h"

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

#endif
