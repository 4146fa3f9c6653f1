/* What each event does. */
#ifndef LOCKAGENT_CORE_EVENTS_H
#define LOCKAGENT_CORE_EVENTS_H

#include "state.h"

void event_take(struct core *core, const struct event *event);

#endif
