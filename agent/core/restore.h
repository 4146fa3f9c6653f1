/* Holds of the process before this one, out of its journal. */
#ifndef LOCKAGENT_CORE_RESTORE_H
#define LOCKAGENT_CORE_RESTORE_H

#include "state.h"

void restore_hold(struct core *core, struct key *key, const struct noted_hold *noted);

#endif
