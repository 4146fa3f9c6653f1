/* Semaphores: which slot of a key is asked for, and when there is none left to ask for (R20). */
#ifndef LOCKAGENT_CORE_SLOT_H
#define LOCKAGENT_CORE_SLOT_H

#include "state.h"

/* Somebody wants a round for the key: it joins the line of its group (R16). Unless it stands there,
 * a search begins: no slot has been tried yet. */
void slot_search_begun(struct core *core, struct key *key, enum cause cause);
/* The next attempt is the first one since then. */
bool slot_search_is_new(const struct key *key);
/* The slot that the next attempt asks for, as the permit of its token: by chance one of those that
 * may be free. 0: the key is a mutex. */
uint8_t slot_draw(struct core *core, struct key *key);
/* A master refused the attempt: `taken` are the slots of the key that it has no room in. */
void slot_heard(struct lock *lock, uint8_t master, slot_set taken);
/* An attempt was lost to another holder. False where no other slot can be free: that was the
 * search, as it always is with a mutex. */
MUST_CHECK bool slot_refused(struct lock *lock);
/* How many attempts the search took that was just won; a mutex and a hand-over take one. */
uint8_t slot_attempts(const struct lock *lock);

#endif
