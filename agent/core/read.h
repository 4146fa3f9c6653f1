/* Looking at a key without changing anything. */
#ifndef LOCKAGENT_CORE_READ_H
#define LOCKAGENT_CORE_READ_H

#include "state.h"

void read_begun(struct core *core, struct key *key, struct core_request *request);
void read_reply(struct core *core, struct core_request *request, const struct event_reply *reply);
void read_timer(struct core *core, struct core_request *request);

#endif
