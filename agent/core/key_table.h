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
/* As far as this agent knows an attempt may begin: the key is a mutex, and nobody here has it or is
 * about to; or not all of its slots are had here, and no attempt contends (R20); or it is shared,
 * and nobody keeps all others off (R18). */
bool key_admits(const struct key *key);
/* A lock by which a caller here has the key, or has lost it a moment ago (HELD, LOST); where
 * readers share it, the writer's. NULL: none. */
struct lock *key_holder(const struct key *key);
/* The first of them to end, where they leave nothing to others; NULL: somebody may come in. */
struct lock *key_exhausted(const struct key *key);
/* The first lock that occupies the key and that one of this mode and permit (0: of a mutex) can not
 * be held beside; NULL: none. */
struct lock *key_obstacle(const struct key *key, enum mode mode, uint8_t permit);
/* An attempt that is under way (ACQUIRING, RAISING); NULL: none. */
struct lock *key_attempt(const struct key *key);
/* Somebody else's attempt here decides, or will, whether the key is to be had. */
bool key_is_contended(const struct key *key);
/* The first of those who wait that no attempt is under way for; NULL: none. */
struct core_request *key_next_waiter(const struct key *key);
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
