/* The table of keys. */
#ifndef LOCKAGENT_CORE_KEY_TABLE_H
#define LOCKAGENT_CORE_KEY_TABLE_H

#include "state.h"

MUST_CHECK struct key *key_find(const struct core *core, struct text name);
/* Finds or makes it: the table has room for as many as locks and requests can have. The caller
 * refers to it at once. */
MUST_CHECK struct key *key_get(struct core *core, struct text name);
/* Borrowed from the key. */
struct text key_text(const struct key *key);
/* Nobody here has the key, or is about to get it: an attempt may begin. */
bool key_admits(const struct key *key);
/* The lock by which a caller here has the key, or has lost it a moment ago (HELD, LOST); NULL:
 * none. */
struct lock *key_holder(const struct key *key);
/* The attempt that is under way (ACQUIRING, RAISING); NULL: none. */
struct lock *key_attempt(const struct key *key);
/* A lock or a request has it, or a step that is about to change it: it has a contest from now on.
 * key_release() is the end of that (retire.h). */
void key_refer(struct core *core, struct key *key);
/* Somebody does not refer to it any more: after this step its contest ends if nobody else wants the
 * key. */
void key_left(struct core *core, struct key *key);
/* No lock and no request has it any more, and it is left. Effects of this step may still name it:
 * its slot is used again after it. */
void key_remove(struct core *core, struct key *key);
/* What those who left in the step before do not need any more may be used again. */
void key_table_recycle(struct core *core);

#endif
