/* Matching a key against a pattern. */
#include "glob.h"

#include "core_assert.h"

/* `*` is any run of bytes, `?` any one byte. On a mismatch only the last `*` needs to be tried
 * again, so this is O(n * m). */
bool glob_matches(const char *pattern, struct text text)
{
    CORE_ASSERT(pattern != NULL && (text.at != NULL || text.len == 0));
    const char *at = text.at, *end = text.at + text.len;
    const char *star = NULL, *star_at = NULL;
    while (at < end) {
        if (*pattern == '*') {
            star = pattern++;
            star_at = at;
        } else if (*pattern == '?' || *pattern == *at) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star + 1;
            at = ++star_at;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
