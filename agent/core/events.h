/* What each event does. */
#ifndef LOCKAGENT_CORE_EVENTS_H
#define LOCKAGENT_CORE_EVENTS_H

#include "state.h"

/* False: the effects are full, and the rest of the replies is to be heard in the next step. */
MUST_CHECK bool event_take(struct core *core, const struct event *event);

#endif
