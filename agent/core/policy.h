/* Which policy a key falls under, which group of masters it belongs to, and which leases are
 * allowed. */
#ifndef LOCKAGENT_CORE_POLICY_H
#define LOCKAGENT_CORE_POLICY_H

#include "state.h"

uint8_t policy_group(const struct core *core, uint16_t policy, struct text key);
/* False: the ttl is out of range, and the answer says what is allowed. */
MUST_CHECK bool policy_allows_ttl(const struct core *core, const struct key *key, uint32_t ttl_ms,
                                  enum renew renew, struct effect_answer *ret_refusal);
/* The same for a lock that keeps the lock_delay that it was taken with. */
MUST_CHECK bool policy_allows_ttl_of(const struct core *core, const struct lock *lock,
                                     uint32_t ttl_ms, enum renew renew,
                                     struct effect_answer *ret_refusal);
/* R15: cuts the lock_delay of a lock whose ttl was allowed beside another one. */
void policy_fit_lock_delay(const struct core *core, struct lock *lock);

#endif
