/* All processes that take several keys take them in the same order, so they never wait for each
 * other in a circle. */
#include "agent/run/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b); /* Compares bytes without a sign. */
}

size_t run_keys_sort(char **keys, size_t count)
{
    size_t kept = 0;
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(keys[i], keys[kept - 1]) != 0)
            keys[kept++] = keys[i];
    return kept;
}

void run_keys_add_number(char *list, const char *key, uint64_t number)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-._~/:";
    char *at = list + strlen(list);
    if (at != list)
        *at++ = ' ';
    for (; *key != '\0'; key++) {
        if (strchr(plain, *key) != NULL)
            *at++ = *key;
        else
            at += sprintf(at, "%%%02X", (unsigned char)*key);
    }
    sprintf(at, "=%llu", (unsigned long long)number);
}
