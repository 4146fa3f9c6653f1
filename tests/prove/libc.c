/* What libc.h declares: as the standard says it, one byte after the other. A byte that may not be
 * read is an alarm here. */
#include "tests/prove/libc.h"

#include "agent/core/core_assert.h"
#include "tests/prove/prove.h"

void Frama_C_show_each_assertion(const char *expression, const char *file, int line);

/* A CORE_ASSERT() that could fail is an alarm. */
void lockcore_assert_failed(const char *expression, const char *file, int line)
{
    Frama_C_show_each_assertion(expression, file, line);
    //@ assert \false;
    for (;;)
        ;
}

void *prove_memchr(const void *bytes, int byte, size_t len)
{
    const unsigned char *at = bytes;
    size_t i = 0;
    while (i < len && at[i] != (unsigned char)byte)
        i++;
    //@ split i;
    return i < len ? (void *)(at + i) : NULL;
}

void *prove_memrchr(const void *bytes, int byte, size_t len)
{
    const unsigned char *at = bytes;
    size_t i = len;
    while (i > 0 && at[i - 1] != (unsigned char)byte)
        i--;
    //@ split i;
    return i > 0 ? (void *)(at + i - 1) : NULL;
}

int prove_memcmp(const void *a, const void *b, size_t len)
{
    const unsigned char *left = a, *right = b;
    for (size_t i = 0; i < len; i++)
        if (left[i] != right[i])
            return left[i] - right[i];
    return 0;
}

size_t prove_strlen(const char *text)
{
    size_t len = 0;
    while (text[len] != '\0')
        len++;
    //@ split len;
    return len;
}

char *prove_strchr(const char *text, int byte)
{
    size_t i = 0;
    while (text[i] != '\0' && text[i] != (char)byte)
        i++;
    //@ split i;
    return text[i] == (char)byte ? (char *)text + i : NULL;
}

int prove_strcmp(const char *a, const char *b)
{
    size_t i = 0;
    while (a[i] != '\0' && a[i] == b[i])
        i++;
    return (unsigned char)a[i] - (unsigned char)b[i];
}

int prove_strncmp(const char *a, const char *b, size_t len)
{
    size_t i = 0;
    while (i < len && a[i] != '\0' && a[i] == b[i])
        i++;
    return i < len ? (unsigned char)a[i] - (unsigned char)b[i] : 0;
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : (unsigned char)c;
}

int prove_strcasecmp(const char *a, const char *b)
{
    size_t i = 0;
    while (a[i] != '\0' && lower(a[i]) == lower(b[i]))
        i++;
    return lower(a[i]) - lower(b[i]);
}

static bool is_in(const char *set, char c)
{
    while (*set != '\0' && *set != c)
        set++;
    return *set != '\0';
}

size_t prove_strspn(const char *text, const char *set)
{
    size_t i = 0;
    while (text[i] != '\0' && is_in(set, text[i]))
        i++;
    //@ split i;
    return i;
}

size_t prove_strcspn(const char *text, const char *set)
{
    size_t i = 0;
    while (text[i] != '\0' && !is_in(set, text[i]))
        i++;
    //@ split i;
    return i;
}

char *prove_strstr(const char *text, const char *part)
{
    for (size_t i = 0;; i++) {
        size_t same = 0;
        while (part[same] != '\0' && text[i + same] == part[same])
            same++;
        //@ split i;
        if (part[same] == '\0')
            return (char *)text + i;
        if (text[i] == '\0')
            return NULL;
    }
}

bool prove_add_overflow(int64_t a, int64_t b, int64_t *ret_sum)
{
    *ret_sum = (int64_t)((uint64_t)a + (uint64_t)b);
    return b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b;
}
