/* The script of `lockagent unlock` on a master, and the tombstones that it leaves (R25). */
#include "master.h"

#include <stdio.h>
#include <stdlib.h>

struct unlock_answer master_unlock(struct world *w, uint8_t index,
                                   const struct unlock_target *target, const struct unlock_ask *ask)
{
    static char bytes[SIM_COMMAND_BYTES];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    struct text command = unlocking_ask(&resp, target, ask);
    struct unlock_answer answer;
    redisReply *reply = master_run(w, index, w->scripting, (struct bytes){command.at, command.len});
    if (!unlocking_read(reply, &answer))
        abort();
    freeReplyObject(reply);
    return answer;
}

bool master_has_tombstone(struct world *w, uint8_t index, uint8_t place,
                          const uint8_t random[RANDOM_BYTES])
{
    char text[SIM_NAME_BYTES + 64], digits[HOLD_NAME_CHARS + 1];
    for (size_t i = 0; i < HOLD_NAME_CHARS / 2; i++)
        snprintf(digits + 2 * i, 3, "%02x", random[i]);
    struct bytes lock = master_stored_name(KIND_LOCK, place);
    int len =
        snprintf(text, sizeof text, "lockagent:unlocked:%s:%.*s", digits, (int)lock.len, lock.at);
    const struct entry *entry =
        keyspace_find(master_keys_now(w, index), (struct bytes){text, (size_t)len});
    return entry != NULL && entry->expires_ms > master_wall_us(w, index) / 1000;
}
