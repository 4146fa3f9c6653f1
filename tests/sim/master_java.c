/* The data and the scripts of a Java service on a master (R22). */
#include "master.h"

#include <stdio.h>
#include <string.h>

uint64_t master_javas_version(struct world *w, uint8_t index, uint8_t name)
{
    const struct entry *entry =
        keyspace_find(master_keys_now(w, index), master_stored_name(KIND_LOCK, name));
    bool is_javas = entry != NULL && entry->type == VALUE_HASH &&
                    memcmp(entry->fields[0].name.at, "java", 4) == 0;
    return is_javas ? entry->version : 0;
}

void master_check_fields(struct world *w, uint8_t index, uint8_t name, uint64_t javas_before)
{
    static const struct bytes mode = {"mode", 4};
    const struct entry *entry =
        keyspace_find(master_keys_now(w, index), master_stored_name(KIND_LOCK, name));
    if (javas_before != 0 && master_javas_version(w, index, name) != javas_before)
        checker_fail(w, "C18 an agent changed what Java has of k%u on m%u", name, index);
    if (javas_before != 0 || entry == NULL || entry->type != VALUE_HASH)
        return;
    const struct string *owner = entry_field(entry, mode);
    bool well = entry->field_count == 2 && entry->expires_ms >= 0 && owner != NULL &&
                owner->len == 9 && memcmp(owner->at, "lockagent", 9) == 0;
    for (uint32_t i = 0; well && i < entry->field_count; i++)
        if (holders_is_agents(&entry->fields[i]))
            well = entry->fields[i].value.len == 1 && entry->fields[i].value.at[0] == '1';
    if (!well)
        checker_fail(w, "C18 what an agent stores of k%u on m%u is not one holder, once", name,
                     index);
}

int64_t master_eval(struct world *w, uint8_t index, const char *script, uint8_t key,
                    const char *holder, int64_t lease_ms)
{
    char bytes[4096], channel[96];
    struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    struct bytes name = master_stored_name(KIND_LOCK, key);
    snprintf(channel, sizeof channel, "redisson_lock__channel:{%.*s}", (int)name.len, name.at);
    resp_begin(&resp);
    resp_text(&resp, "EVAL");
    resp_text(&resp, script);
    resp_number(&resp, 2);
    resp_bytes(&resp, name.at, name.len);
    resp_text(&resp, channel);
    resp_text(&resp, holder);
    resp_number(&resp, (uint64_t)lease_ms);
    struct text command = resp_end(&resp);
    redisReply *reply = master_run(w, index, w->scripting, (struct bytes){command.at, command.len});
    bool is_foreign = reply->type == REDIS_REPLY_ERROR; /* a key of another type */
    int64_t number = is_foreign ? 0 : reply->integer;
    freeReplyObject(reply);
    return number;
}

void master_forget_java(struct world *w, uint8_t index, uint8_t key)
{
    char name[SIM_NAME_BYTES];
    struct bytes lock = master_stored_name(KIND_LOCK, key);
    if (master_javas_version(w, index, key) == 0)
        return;
    snprintf(name, sizeof name, "%.*s", (int)lock.len, lock.at);
    master_put(w, index, (const char *const[]){"DEL", name}, 2);
}
