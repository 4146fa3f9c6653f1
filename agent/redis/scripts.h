/* The table of the scripts that run on the masters: their texts, and the SHA-1 by which masters
 * know them. */
#ifndef LOCKAGENT_REDIS_SCRIPTS_H
#define LOCKAGENT_REDIS_SCRIPTS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum script_id {
    SCRIPT_ACQUIRE,
    SCRIPT_RAISE,
    SCRIPT_EXTEND,
    SCRIPT_RELEASE,
    SCRIPT_READ,
    SCRIPT_MARKER,
    SCRIPT_ACQUIRE_FAIR, /* For order fair (R9). */
    SCRIPT_RELEASE_FAIR,
    SCRIPT_WITHDRAW_FAIR,
    SCRIPT_ACQUIRE_SLOTS, /* For semaphores (R20). */
    SCRIPT_RELEASE_SLOTS,
    SCRIPT_LOOK_SLOTS,
    SCRIPT_ACQUIRE_RW, /* For locks that readers share (R17). */
    SCRIPT_RAISE_RW,
    SCRIPT_EXTEND_RW,
    SCRIPT_RELEASE_RW,
    SCRIPT_READ_RW,
    SCRIPT_WITHDRAW_RW,
    SCRIPT_ACQUIRE_REDISSON, /* For format redisson (R22). */
    SCRIPT_RAISE_REDISSON,
    SCRIPT_EXTEND_REDISSON,
    SCRIPT_RELEASE_REDISSON,
    SCRIPT_READ_REDISSON,
    SCRIPT_COUNT
};

/* One bit for each script. */
typedef uint32_t script_set;
static_assert(SCRIPT_COUNT < 32, "a script_set has a bit for each script");
#define SCRIPTS_ALL ((script_set)((1u << SCRIPT_COUNT) - 1))

struct script {
    const char *name, *sha, *text;
};
extern const struct script redis_scripts[SCRIPT_COUNT];

/* Returns true if one of the scripts has this SHA-1, in hex digits. */
bool script_is_ours(const char *sha);

#endif
