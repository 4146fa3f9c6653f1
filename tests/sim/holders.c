/* The holders that a master has for a key, read off its keyspace. */
#include "master.h"

#include <stdlib.h>
#include <string.h>

static void add_holder(struct holders *holders, const char *value, size_t len)
{
    if (holders->count == HOLDERS_MAX)
        abort();
    holders->value[holders->count] = (struct bytes){value, len};
    memcpy(holders->random[holders->count++], value, TOKEN_RANDOM_CHARS);
}

static void add_entries(struct holders *holders, const struct entry *entry, int64_t now_ms)
{
    for (uint32_t i = 0; i < entry->field_count; i++) {
        const struct field *field = &entry->fields[i];
        if (field->score <= (double)now_ms || field->name.len < 2 + TOKEN_RANDOM_CHARS)
            continue;
        add_holder(holders, field->name.at + 2, field->name.len - 2);
        holders->reads = holders->reads && field->name.at[0] == 'r';
    }
}

/* R22: the fields of agents have the shape of their values. */
bool holders_is_agents(const struct field *field)
{
    return field->name.len > TOKEN_RANDOM_CHARS && field->name.at[TOKEN_RANDOM_CHARS] == ':';
}

void holders_read(struct world *w, uint8_t index, uint8_t name, struct holders *ret_holders)
{
    struct keyspace *keyspace = master_keys_now(w, index);
    const struct entry *entry = keyspace_find(keyspace, master_stored_name(KIND_LOCK, name));
    ret_holders->count = 0;
    ret_holders->reads = true;
    if (entry != NULL && entry->type == VALUE_SORTED) {
        add_entries(ret_holders, entry, keyspace->now_us / 1000);
    } else if (entry != NULL && entry->type == VALUE_HASH) {
        for (uint32_t i = 0; i < entry->field_count; i++)
            if (holders_is_agents(&entry->fields[i]))
                add_holder(ret_holders, entry->fields[i].name.at, entry->fields[i].name.len);
        ret_holders->reads = ret_holders->count == 0;
    } else if (entry != NULL && entry->type == VALUE_STRING &&
               entry->value.len > TOKEN_RANDOM_CHARS &&
               entry->value.at[TOKEN_RANDOM_CHARS] == ':') {
        add_holder(ret_holders, entry->value.at, entry->value.len);
        ret_holders->reads = false;
    }
}

/* Printed at the most once, and compared with as many masters' as there are. */
static void print_random(const uint8_t random[RANDOM_BYTES], char text[TOKEN_RANDOM_CHARS])
{
    struct token token;
    memcpy(token.random, random, RANDOM_BYTES);
    token_print_random(&token, text);
}

bool holders_have_text(const struct holders *holders, const char text[TOKEN_RANDOM_CHARS])
{
    for (unsigned i = 0; i < holders->count; i++)
        if (memcmp(holders->random[i], text, TOKEN_RANDOM_CHARS) == 0)
            return true;
    return false;
}

bool holders_have(const struct holders *holders, const uint8_t random[RANDOM_BYTES])
{
    char text[TOKEN_RANDOM_CHARS];
    if (holders->count == 0)
        return false;
    print_random(random, text);
    return holders_have_text(holders, text);
}

static uint8_t nibble(char digit)
{
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

void holders_read_random(const char *stored, uint8_t ret_random[RANDOM_BYTES])
{
    for (unsigned i = 0; i < RANDOM_BYTES; i++)
        ret_random[i] = (uint8_t)(nibble(stored[2 * i]) << 4 | nibble(stored[2 * i + 1]));
}

bool master_holds(struct world *w, uint8_t index, uint8_t name, const uint8_t random[RANDOM_BYTES])
{
    static struct holders holders;
    holders_read(w, index, name, &holders);
    return holders_have(&holders, random);
}

unsigned master_count_holding(struct world *w, uint8_t name, const uint8_t random[RANDOM_BYTES])
{
    unsigned count = 0;
    for (uint8_t m = 0; m < w->options.masters; m++)
        count += master_holds(w, m, name, random);
    return count;
}

uint16_t master_set_having(struct world *w, uint8_t name, const struct token *token)
{
    uint16_t set = 0;
    for (uint8_t m = 0; m < w->options.masters; m++)
        if (master_holds(w, m, name, token->random))
            set |= (uint16_t)(1u << m);
    return set;
}

bool master_holder(struct world *w, uint8_t index, uint8_t name, unsigned which,
                   uint8_t ret_random[RANDOM_BYTES])
{
    static struct holders holders;
    holders_read(w, index, name, &holders);
    if (which < holders.count)
        holders_read_random(holders.random[which], ret_random);
    return which < holders.count;
}

int master_label(struct world *w, uint8_t index, uint8_t name, unsigned which,
                 uint8_t ret_random[RANDOM_BYTES], char ret_label[SIM_LABEL])
{
    static struct holders holders;
    size_t at = TOKEN_RANDOM_CHARS + 1;
    holders_read(w, index, name, &holders);
    if (which >= holders.count)
        return -1;
    const struct bytes value = holders.value[which];
    for (unsigned colons = 0; at < value.len && colons < 2; at++) /* after agent and number */
        colons += value.at[at] == ':';
    size_t len = value.len - at < SIM_LABEL ? value.len - at : SIM_LABEL;
    holders_read_random(holders.random[which], ret_random);
    memcpy(ret_label, value.at + at, len);
    return (int)len;
}

bool master_is_locked(struct world *w, uint8_t index, uint8_t name)
{
    static struct holders holders;
    holders_read(w, index, name, &holders);
    return holders.count > 0;
}

int64_t master_next_end_ms(struct world *w, uint8_t index, uint8_t name)
{
    struct keyspace *keyspace = master_keys_now(w, index);
    const struct entry *entry = keyspace_find(keyspace, master_stored_name(KIND_LOCK, name));
    int64_t next = INT64_MAX;
    if (entry != NULL && entry->type != VALUE_SORTED && entry->expires_ms >= 0)
        return entry->expires_ms + 1; /* a server keeps it for all of its last millisecond */
    for (uint32_t i = 0; entry != NULL && i < entry->field_count; i++) {
        int64_t ends_ms = (int64_t)entry->fields[i].score;
        if (ends_ms > keyspace->now_us / 1000 && ends_ms < next)
            next = ends_ms;
    }
    return next;
}
