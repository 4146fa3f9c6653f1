/* Keys and values: a short list, whose places and strings are used again. */
#include "keyspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *grown(void *list, size_t bytes)
{
    list = realloc(list, bytes);
    if (list == NULL)
        abort();
    return list;
}

struct keyspace *keyspace_new(void)
{
    struct keyspace *keyspace = calloc(1, sizeof *keyspace);
    if (keyspace == NULL)
        abort();
    return keyspace;
}

void keyspace_free(struct keyspace *keyspace)
{
    for (uint32_t i = 0; i < keyspace->room; i++) {
        struct entry *entry = &keyspace->entries[i];
        for (uint32_t f = 0; f < entry->field_room; f++) {
            free(entry->fields[f].name.at);
            free(entry->fields[f].value.at);
        }
        free(entry->fields);
        free(entry->name.at);
        free(entry->value.at);
    }
    free(keyspace->entries);
    free(keyspace->items);
    free(keyspace);
}

void keyspace_clear(struct keyspace *keyspace)
{
    keyspace->count = 0;
}

void string_set(struct string *string, struct bytes bytes)
{
    if (bytes.len > string->room || string->at == NULL) {
        string->room = (uint32_t)(bytes.len < 64 ? 64 : 2 * bytes.len);
        string->at = grown(string->at, string->room);
    }
    if (bytes.len > 0)
        memmove(string->at, bytes.at, bytes.len);
    string->len = (uint32_t)bytes.len;
}

/* What tells most names apart: enough for a short list. */
static uint32_t hash_of(struct bytes name)
{
    return name.len == 0 ? 0 : (uint32_t)(name.len << 8 | (unsigned char)name.at[name.len - 1]);
}

static bool same(const struct string *string, struct bytes bytes)
{
    return string->len == bytes.len && memcmp(string->at, bytes.at, bytes.len) == 0;
}

void entry_remove(struct keyspace *keyspace, struct entry *entry)
{
    struct entry removed = *entry;
    keyspace->sent++;
    *entry = keyspace->entries[--keyspace->count];
    keyspace->entries[keyspace->count] = removed;
}

/* Returns the entry of that name. An entry that ended before this millisecond of the server has
 * expired. */
struct entry *entry_find(struct keyspace *keyspace, struct bytes name)
{
    uint32_t hash = hash_of(name);
    for (uint32_t i = 0; i < keyspace->count; i++) {
        struct entry *entry = &keyspace->entries[i];
        if (entry->hash != hash || !same(&entry->name, name))
            continue;
        if (entry->expires_ms < 0 || keyspace->now_us / 1000 <= entry->expires_ms)
            return entry;
        if (!keyspace->is_shared)
            entry_remove(keyspace, entry);
        return NULL;
    }
    return NULL;
}

const struct entry *keyspace_find(struct keyspace *keyspace, struct bytes name)
{
    return entry_find(keyspace, name);
}

void entry_touch(struct keyspace *keyspace, struct entry *entry)
{
    entry->version = ++keyspace->writes;
    keyspace->sent++;
}

struct entry *entry_make(struct keyspace *keyspace, struct bytes name, enum value_type type)
{
    struct entry *entry = entry_find(keyspace, name);
    if (entry == NULL) {
        if (keyspace->count == keyspace->room) {
            uint32_t room = keyspace->room == 0 ? 32 : 2 * keyspace->room;
            keyspace->entries = grown(keyspace->entries, room * sizeof *keyspace->entries);
            memset(keyspace->entries + keyspace->room, 0,
                   (room - keyspace->room) * sizeof *keyspace->entries);
            keyspace->room = room;
        }
        entry = &keyspace->entries[keyspace->count++];
        entry->hash = hash_of(name);
        string_set(&entry->name, name);
    }
    entry->type = type;
    entry->field_count = entry->elements = 0;
    entry->expires_ms = -1;
    entry_touch(keyspace, entry);
    return entry;
}

static struct field *find_field(const struct entry *entry, struct bytes name)
{
    for (uint32_t i = 0; i < entry->field_count; i++)
        if (same(&entry->fields[i].name, name))
            return &entry->fields[i];
    return NULL;
}

const struct string *entry_field(const struct entry *entry, struct bytes name)
{
    const struct field *field = find_field(entry, name);
    return field == NULL ? NULL : &field->value;
}

const double *member_score(const struct entry *entry, struct bytes name)
{
    const struct field *field = find_field(entry, name);
    return field == NULL ? NULL : &field->score;
}

bool field_set(struct entry *entry, struct bytes name, struct bytes value)
{
    struct field *field = find_field(entry, name);
    bool is_new = field == NULL;
    if (is_new) {
        if (entry->field_count == entry->field_room) {
            uint32_t room = entry->field_room == 0 ? 8 : 2 * entry->field_room;
            entry->fields = grown(entry->fields, room * sizeof *entry->fields);
            memset(entry->fields + entry->field_room, 0,
                   (room - entry->field_room) * sizeof *entry->fields);
            entry->field_room = room;
        }
        field = &entry->fields[entry->field_count++];
        string_set(&field->name, name);
    }
    string_set(&field->value, value);
    return is_new;
}

bool field_remove(struct entry *entry, struct bytes name)
{
    struct field *field = find_field(entry, name);
    if (field == NULL)
        return false;
    struct field removed = *field;
    size_t behind = (size_t)(entry->fields + entry->field_count - field - 1);
    memmove(field, field + 1, behind * sizeof *field);
    entry->fields[--entry->field_count] = removed;
    return true;
}

/* By score, and of equal ones by name. */
static bool is_before(const struct field *field, double score, struct bytes name)
{
    size_t len = field->name.len < name.len ? field->name.len : name.len;
    int order = len == 0 ? 0 : memcmp(field->name.at, name.at, len);
    if (field->score < score || field->score > score)
        return field->score < score;
    return order != 0 ? order < 0 : field->name.len < name.len;
}

bool member_set(struct entry *entry, struct bytes name, double score)
{
    char digits[32];
    bool was = field_remove(entry, name);
    int len = snprintf(digits, sizeof digits, "%.17g", score);
    field_set(entry, name, (struct bytes){digits, (size_t)len});
    struct field set = entry->fields[entry->field_count - 1];
    set.score = score;
    uint32_t at = entry->field_count - 1;
    for (; at > 0 && !is_before(&entry->fields[at - 1], score, name); at--)
        entry->fields[at] = entry->fields[at - 1];
    entry->fields[at] = set;
    return !was;
}

void keyspace_copy(struct keyspace *into, const struct keyspace *from)
{
    keyspace_clear(into);
    for (uint32_t i = 0; i < from->count; i++) {
        const struct entry *entry = &from->entries[i];
        struct entry *copy = entry_make(into, bytes_of(&entry->name), entry->type);
        string_set(&copy->value, bytes_of(&entry->value));
        for (uint32_t f = 0; f < entry->field_count; f++)
            entry->type == VALUE_SORTED
                ? member_set(copy, bytes_of(&entry->fields[f].name), entry->fields[f].score)
                : field_set(copy, bytes_of(&entry->fields[f].name),
                            bytes_of(&entry->fields[f].value));
        copy->elements = entry->elements;
        copy->expires_ms = entry->expires_ms;
        copy->version = entry->version;
    }
    into->writes = from->writes;
}

struct item *keyspace_items(struct keyspace *keyspace, uint32_t count)
{
    if (count > keyspace->item_room) {
        keyspace->item_room = 2 * count;
        keyspace->items = grown(keyspace->items, keyspace->item_room * sizeof *keyspace->items);
    }
    return keyspace->items;
}
