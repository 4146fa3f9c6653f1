/* What is a key: 1 to 512 bytes of UTF-8 without control characters, and nothing that a proxy on the way would rewrite
 * (D3). */
#include "api/key.h"

#include <string.h>

#include "api/text.h"

/* Proxies and clients merge double slashes, drop outer ones and resolve `.` and `..`: two spellings would name one
 * lock. */
static const char *segments_fault(struct text key)
{
    for (size_t start = 0; start <= key.len;) {
        const char *slash = memchr(key.at + start, '/', key.len - start);
        struct text segment = {key.at + start, slash == NULL ? key.len - start : (size_t)(slash - key.at) - start};
        if (segment.len == 0)
            return "has a leading, trailing or double /";
        if (text_is(segment, ".") || text_is(segment, ".."))
            return "has the segment . or ..";
        start += segment.len + 1;
    }
    return NULL;
}

const char *key_fault(struct text key)
{
    if (key.len == 0)
        return "is empty";
    if (key.len > LIMIT_KEY_BYTES)
        return "is too long";
    const char *fault = text_fault(key);
    return fault != NULL ? fault : segments_fault(key);
}

const char *key_decode(struct text raw, char key[LIMIT_KEY_BYTES], size_t *ret_len)
{
    size_t len;
    if (raw.len == 0)
        return "is empty";
    if (memchr(raw.at, '#', raw.len) != NULL || memchr(raw.at, ' ', raw.len) != NULL)
        return "has a # or a blank that is not percent-encoded";
    const char *fault = text_percent_decode(raw, /* plus_is_blank= */ false, key, LIMIT_KEY_BYTES, &len);
    if (fault == NULL)
        fault = key_fault((struct text){key, len});
    if (fault == NULL)
        *ret_len = len;
    return fault;
}
