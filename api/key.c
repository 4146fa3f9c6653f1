/* Decodes the key of a lock; what is a key says agent/base/key.h. */
#include "api/key.h"

#include <string.h>

#include "agent/base/key.h"
#include "api/percent.h"

const char *key_decode(struct text raw, char key[LIMIT_KEY_BYTES], size_t *ret_len)
{
    size_t len;
    if (raw.len == 0)
        return "is empty";
    if (memchr(raw.at, '#', raw.len) != NULL || memchr(raw.at, ' ', raw.len) != NULL)
        return "has a # or a blank that is not percent-encoded";
    const char *fault = percent_decode(raw, /* plus_is_blank= */ false, key, LIMIT_KEY_BYTES, &len);
    if (fault == NULL)
        fault = key_fault((struct text){key, len});
    if (fault == NULL)
        *ret_len = len;
    return fault;
}
