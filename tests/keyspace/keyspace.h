/* A small Redis: keys that expire by a clock that its owner sets, and the commands that the agent's
 * scripts use. What it answers is compared with a real redis-server's in differential.c, byte by
 * byte. */
#ifndef LOCKAGENT_KEYSPACE_H
#define LOCKAGENT_KEYSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes, not terminated. */
struct bytes {
    const char *at;
    size_t len;
};

/* A string of its own, whose room is used again. */
struct string {
    char *at;
    uint32_t len, room;
};

enum value_type { VALUE_STRING, VALUE_HASH, VALUE_LIST, VALUE_SORTED };

struct field {
    struct string name, value; /* of a sorted set: the member, and its score as it is printed */
    double score;
};
struct entry {
    uint32_t hash;
    enum value_type type;
    struct string name, value;
    struct field
        *fields; /* of a hash, in the order of their coming; of a sorted set, in its order */
    uint32_t field_count, field_room;
    uint32_t elements;  /* of a list: nothing else is known of it */
    int64_t expires_ms; /* -1: never */
    uint64_t version;   /* changes with each write */
};

/* Why it would refuse a command, as a server does that lacks something. */
enum refusal { REFUSES_NOTHING, REFUSES_OOM, REFUSES_MISCONF };

struct keyspace {
    struct entry *entries;
    uint32_t count, room;
    uint64_t writes;
    int64_t now_us; /* the clock: set before each command */
    enum refusal refusal;
    bool is_shared;               /* it is only read, by several clocks: what has expired stays */
    bool in_script, script_wrote; /* memory is looked at before the first write of a script alone */
    /* Subscriptions are the owner's: how many there are, and what is published (returns who heard
     * it). May be NULL. */
    void *owner;
    uint32_t (*subscribers)(void *owner, struct bytes channel);
    uint32_t (*publish)(void *owner, struct bytes channel, struct bytes message);
    /* The server's replication ids: all that INFO says. "": the first is not known, the second is
     * zeros. FLUSHALL leaves them, and so does a copy. */
    char replid[41], replid2[41];
    struct item *items; /* of the last answer */
    uint32_t item_room;
    char scratch[32 * 4];
};

enum item_kind { ITEM_NIL, ITEM_INTEGER, ITEM_BULK };
struct item {
    enum item_kind kind;
    int64_t integer;
    struct bytes text;
};

/* What a command answers: valid until the next command. */
enum result_kind {
    RESULT_NIL,
    RESULT_INTEGER,
    RESULT_BULK,
    RESULT_STATUS,
    RESULT_ERROR,
    RESULT_ARRAY
};
struct result {
    enum result_kind kind;
    int64_t integer;
    struct bytes text; /* BULK, STATUS, ERROR (without its `-`) */
    const struct item *items;
    uint32_t count;
};

enum { KEYSPACE_ARGS = 1024 }; /* of one command */

/* Empty; free with keyspace_free(). Aborts when out of memory, as all of these do. */
struct keyspace *keyspace_new(void);
void keyspace_free(struct keyspace *keyspace);
void keyspace_clear(struct keyspace *keyspace);
/* Makes the keys of `into` those of `from`; clock and owner stay. */
void keyspace_copy(struct keyspace *into, const struct keyspace *from);

/* The key, unless it has expired; NULL: there is none. */
const struct entry *keyspace_find(struct keyspace *keyspace, struct bytes name);
const struct string *entry_field(const struct entry *entry, struct bytes name);

/* Runs one command, name and arguments. */
struct result keyspace_command(struct keyspace *keyspace, const struct bytes *args, uint32_t count);

/* commands.c: what it consists of. */
struct entry *entry_find(struct keyspace *keyspace, struct bytes name);
struct entry *entry_make(struct keyspace *keyspace, struct bytes name,
                         enum value_type type); /* or empties the one there */
void entry_remove(struct keyspace *keyspace, struct entry *entry);
void entry_touch(struct keyspace *keyspace, struct entry *entry);
void string_set(struct string *string, struct bytes bytes);
/* True where a field came that was not there. */
bool field_set(struct entry *entry, struct bytes name, struct bytes value);
bool field_remove(struct entry *entry, struct bytes name);
/* The same for a member of a sorted set: it gets this score, and its place. */
bool member_set(struct entry *entry, struct bytes name, double score);
struct item *keyspace_items(struct keyspace *keyspace, uint32_t count);

static inline struct bytes bytes_of(const struct string *string)
{
    return (struct bytes){string->at, string->len};
}

#endif
