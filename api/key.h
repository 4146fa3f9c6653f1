/* The key of a lock, as it stands in a URI. */
#ifndef LOCKAGENT_API_KEY_H
#define LOCKAGENT_API_KEY_H

#include "agent/core/core.h"

/* Decodes what follows `/locks/` in the raw request target (D3). NULL, and `key` and `*ret_len`
 * set, or why it is no key: to be read behind "the key". */
const char *key_decode(struct text raw, char key[LIMIT_KEY_BYTES], size_t *ret_len);

#endif
