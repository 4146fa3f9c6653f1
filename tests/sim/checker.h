/* Functions that the files of the checker share: holds.c, answers.c, checker.c. */
#ifndef LOCKAGENT_SIM_CHECKER_H
#define LOCKAGENT_SIM_CHECKER_H

#include "world.h"

enum { SLACK_US = 6000 };

/* ---- holds.c ---- */

/* Returns a hold of the place that was granted at the agent, without a tenure; NULL, with a
 * violation, if the run has too many holds. */
struct hold *hold_new(struct world *w, uint8_t agent, uint8_t key, const struct token *token);
/* Adds the hold to those that the agent reports. */
void hold_put(struct world *w, uint8_t agent, struct hold *hold);
/* Removes the hold from those that the agent reports. */
void hold_drop(struct world *w, uint8_t agent, struct hold *hold);
/* The agent does not know the hold for its owner any more. */
void hold_left_owner(struct world *w, uint8_t agent, const struct hold *hold);
/* The agent has granted or adopted the hold with that answer. */
void hold_begin_tenure(struct world *w, uint8_t agent, struct hold *hold,
                       const struct effect_answer *answer);
/* Returns the hold that a trace of the agent names, or NULL, with a violation. */
struct hold *hold_traced(struct world *w, uint8_t agent, uint8_t key,
                         const struct effect_trace *trace);
/* The agent's window of the hold ends then; the hold's ends with the latest one. */
void hold_end_window(struct hold *hold, uint8_t agent, int64_t until);
/* C1, C14, C15: no window of another hold of the place is open. */
void hold_check_alone(struct world *w, struct hold *hold);
/* The agent reports the hold: C1, C5, C9, C17. */
void hold_report(struct world *w, uint8_t agent, const struct hold_view *view);

/* ---- answers.c ---- */

/* The agent's tables were too small since it began: it may have forgotten a hold. */
bool answers_may_be_forgotten(const struct world *w, uint8_t agent);
/* The request came after a release of the hold was answered. */
bool answers_came_after_release(const struct hold *hold, const struct request *request);
/* A release of the hold may be undone by a repair (R7, C12). */
bool answers_may_be_undone(const struct world *w, const struct hold *hold);

/* ---- checker.c: C3, the register ---- */

/* The holder reads the register, and plans its writes. */
void register_open(struct world *w, struct hold *hold);

#endif
