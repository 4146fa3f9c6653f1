/* The table of scripts (scripts.h), made by embed.py from the .lua files of this folder. */
#include <string.h>

#include "agent/redis/scripts.h"

const struct script redis_scripts[SCRIPT_COUNT] = {
#include "redis_scripts.h"
};

bool script_is_ours(const char *sha)
{
    for (unsigned i = 0; i < SCRIPT_COUNT; i++) {
        if (strcmp(sha, redis_scripts[i].sha) == 0)
            return true;
    }
    return false;
}
