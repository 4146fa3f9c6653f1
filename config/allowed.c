/* What a key allows, in a few words. */
#include "config/allowed.h"

#include <stdio.h>

#include "config/units.h"

static void allowed_range(const struct config_key *key, const char *behind, char *allowed)
{
    char min[32], max[32];
    snprintf(allowed, CONFIG_ALLOWED, "%s to %s%s",
             config_number_print(key->type, key->min, min, sizeof(min)),
             config_number_print(key->type, key->max, max, sizeof(max)), behind);
}

static void allowed_words(const struct config_key *key, char *allowed)
{
    size_t used = 0;
    allowed[0] = '\0';
    for (int i = 0; key->words[i] != NULL && used < CONFIG_ALLOWED; i++)
        used += (size_t)snprintf(allowed + used, CONFIG_ALLOWED - used, "%s%s", i ? ", " : "",
                                 key->words[i]);
}

static void allowed_items(const struct config_key *key, const char *what, char *allowed)
{
    if (key->type == TYPE_ADDRESSES)
        snprintf(allowed, CONFIG_ALLOWED, "%s; one or a list of up to %d", what, (int)key->max);
    else if (key->max == 1)
        snprintf(allowed, CONFIG_ALLOWED, "%s", what);
    else
        snprintf(allowed, CONFIG_ALLOWED, "a list of %s%d: %s", key->min ? "1 to " : "up to ",
                 (int)key->max, what);
}

const char *config_key_allowed(const struct config_key *key, char allowed[CONFIG_ALLOWED])
{
    switch (key->type) {
    case TYPE_DURATION:
        allowed_range(key, " (with ms, s, m or h)", allowed);
        break;
    case TYPE_SIZE:
        allowed_range(key, " (with B, KiB or MiB)", allowed);
        break;
    case TYPE_MODE:
        allowed_range(key, " (four octal digits)", allowed);
        break;
    case TYPE_COUNT:
    case TYPE_PERCENT:
        allowed_range(key, "", allowed);
        break;
    case TYPE_FLAG:
        snprintf(allowed, CONFIG_ALLOWED, "true, false");
        break;
    case TYPE_SWITCH:
        snprintf(allowed, CONFIG_ALLOWED, "on, off, true, false");
        break;
    case TYPE_CHOICE:
        allowed_words(key, allowed);
        break;
    case TYPE_TEXT:
    case TYPE_PATTERN:
        snprintf(allowed, CONFIG_ALLOWED, "%d to %d bytes", (int)key->min, (int)key->max);
        break;
    case TYPE_ADDRESSES:
        allowed_items(key, "host:port, [v6]:port or unix:/path", allowed);
        break;
    case TYPE_MASTERS:
        allowed_items(key, "redis[s]://[user[:password]@]host[:port][/db] or unix:/path[?db=N]",
                      allowed);
        break;
    case TYPE_HOSTS:
        allowed_items(key, "host names without a port", allowed);
        break;
    case TYPE_GROUPS:
        allowed_items(key, key->max == 1 ? "the name of a group" : "names of groups", allowed);
        break;
    case TYPE_SECTION:
        snprintf(allowed, CONFIG_ALLOWED, "a mapping");
        break;
    case TYPE_NAMED:
        snprintf(allowed, CONFIG_ALLOWED, "a mapping of 1 to %d names", (int)key->max);
        break;
    case TYPE_ITEMS:
        snprintf(allowed, CONFIG_ALLOWED, "a list of mappings, up to %d", (int)key->max);
        break;
    }
    return allowed;
}
