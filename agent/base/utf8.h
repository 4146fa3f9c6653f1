/* One code point of UTF-8 at a time: the only reader of UTF-8 in the tree. */
#ifndef LOCKAGENT_BASE_UTF8_H
#define LOCKAGENT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the length of the code point at the start of `bytes` and sets its value. Returns 0 if the
 * bytes there are not UTF-8 (overlong forms, surrogates and numbers above U+10FFFF are not). `len`
 * is at least 1. */
static inline size_t utf8_decode(const char *bytes, size_t len, uint32_t *ret_code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)bytes;
    if (at[0] < 0x80) {
        *ret_code = at[0];
        return 1;
    }
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || len < size)
        return 0;
    uint32_t code = at[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    if (code < smallest[size] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *ret_code = code;
    return size;
}

/* Returns true for C0, DEL and C1, which include line breaks and tabs. */
static inline bool utf8_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

#endif
