/* The end of the agent. */
#ifndef LOCKAGENT_CORE_DRAIN_H
#define LOCKAGENT_CORE_DRAIN_H

#include "state.h"

/* EVENT_DRAIN: all that wait are refused. */
void drain_begun(struct core *core);
/* One that waits is told so. */
void drain_refuses(struct core *core, struct core_request *request);
/* EVENT_END: every hold is lost, or `releases`. */
void drain_ends(struct core *core, bool releases);

#endif
