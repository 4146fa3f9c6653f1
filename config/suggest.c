/* Guesses what an unknown word was meant for. */
#include "config/suggest.h"

#include <ctype.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

enum { WORD = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance in which two swapped neighbours count once; three rows of the usual table are
 * enough. */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][WORD + 1];
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            row[j] = least(above[j] + 1, row[j - 1] + 1);
            row[j] = least(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[a_len % 3][b_len];
}

size_t config_distance(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > WORD || b_len > WORD)
        return WORD;
    size_t distance = edit_distance(a, a_len, b, b_len);
    if (distance > 1 && least(a_len, b_len) >= 4 && (strstr(a, b) != NULL || strstr(b, a) != NULL))
        return 1;
    return distance;
}

bool config_is_near(const char *name, size_t distance)
{
    size_t len = strlen(name);
    return distance < len && distance <= (len < 4 ? 1 : len / 3 + (len < 6));
}

/* True for `log.level` and `loglevel`, `max_ttl` and `maxTtl`. */
static bool same_letters(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strcspn(a, LETTERS);
        b += strcspn(b, LETTERS);
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

/* A known name in another section: `ttl` at the top level. */
static const struct config_key *same_name_elsewhere(const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (same_letters(config_keys[i].path, name) ||
            same_letters(config_key_name(&config_keys[i]), name))
            return &config_keys[i];
    return NULL;
}

const struct config_key *config_key_nearest(const struct config_key *parent, const char *name)
{
    const struct config_key *nearest = NULL;
    size_t distance = WORD;
    for (size_t i = 0; i < config_key_count; i++) {
        if (!config_key_is_child(parent, &config_keys[i]))
            continue;
        size_t here = config_distance(name, config_key_name(&config_keys[i]));
        if (here < distance) {
            nearest = &config_keys[i];
            distance = here;
        }
    }
    if (nearest != NULL && config_is_near(name, distance))
        return nearest;
    return same_name_elsewhere(name);
}

const char *config_group_nearest(const struct config *config, const char *name)
{
    const char *nearest = NULL;
    size_t distance = SIZE_MAX;
    for (size_t i = 0; i < config->group_count; i++) {
        size_t here = config_distance(name, config->groups[i].name);
        if (here < distance && strcmp(name, config->groups[i].name) != 0) {
            distance = here;
            nearest = config->groups[i].name;
        }
    }
    return nearest != NULL && config_is_near(name, distance) ? nearest : NULL;
}
