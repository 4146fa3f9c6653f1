/* Checks keys: 1 to 512 bytes of UTF-8 without control characters, and nothing that a proxy on the
 * way would rewrite (D3). */
#include "agent/base/key.h"

#include <string.h>

#include "agent/base/text.h"

const char *key_fault(struct text key)
{
    if (key.len == 0)
        return "is empty";
    if (key.len > LIMIT_KEY_BYTES)
        return "is too long";
    const char *fault = text_fault(key);
    if (fault != NULL)
        return fault;
    /* Proxies and clients merge double slashes, drop outer ones and resolve `.` and `..`: two
     * spellings would name one lock. */
    for (size_t start = 0; start <= key.len;) {
        const char *slash = memchr(key.at + start, '/', key.len - start);
        struct text segment = {key.at + start,
                               slash == NULL ? key.len - start : (size_t)(slash - key.at) - start};
        if (segment.len == 0)
            return "has a leading, trailing or double /";
        if (text_is(segment, ".") || text_is(segment, ".."))
            return "has the segment . or ..";
        start += segment.len + 1;
    }
    return NULL;
}

bool key_is_agents_own(struct text key)
{
    static const char reserved[] = "lockagent:";
    return key.len >= sizeof(reserved) - 1 && memcmp(key.at, reserved, sizeof(reserved) - 1) == 0;
}
