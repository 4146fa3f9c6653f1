/* A small Redis: keys that expire by a clock that its owner sets, and the commands that the agent's
 * scripts use. differential.c compares its answers with those of a real redis-server, byte by
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
    struct string name, value; /* In a sorted set: the member, and its score as it is printed. */
    double score;
};
struct entry {
    uint32_t hash;
    enum value_type type;
    struct string name, value;
    /* Fields of a hash, in the order in which they were added, or of a sorted set, in its order. */
    struct field *fields;
    uint32_t field_count, field_room;
    uint32_t elements;  /* length of a list; its elements are not kept */
    int64_t expires_ms; /* -1: never */
    uint64_t version;   /* changes with each write */
};

/* Why it would refuse a command, as a server does that lacks something. */
enum refusal { REFUSES_NOTHING, REFUSES_OOM, REFUSES_MISCONF };

struct keyspace {
    struct entry *entries;
    uint32_t count, room;
    uint64_t writes;
    uint64_t sent;  /* changes and messages, which a server sends to its replicas (R21) */
    int64_t now_us; /* the clock: set before each command */
    enum refusal refusal;
    bool is_shared;               /* Several clocks read it, and none writes: expired keys stay. */
    bool in_script, script_wrote; /* memory is looked at before the first write of a script alone */
    /* Functions of the owner, which has the subscriptions: subscribers() returns their number, and
     * publish() returns how many received the message. May be NULL. */
    void *owner;
    uint32_t (*subscribers)(void *owner, struct bytes channel);
    uint32_t (*publish)(void *owner, struct bytes channel, struct bytes message);
    /* The server's replication ids: all that INFO says. "": the first is not known, the second is
     * zeros. FLUSHALL leaves them, and so does a copy. */
    char replid[41], replid2[41];
    unsigned replicas;  /* Replicas that are connected. */
    struct item *items; /* items of the last answer */
    uint32_t item_room;
    char scratch[32 * 5];
};

enum item_kind { ITEM_NIL, ITEM_INTEGER, ITEM_BULK };
struct item {
    enum item_kind kind;
    int64_t integer;
    struct bytes text;
};

/* Results of a command. They are valid until the next command. */
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

enum { KEYSPACE_ARGS = 1024 }; /* maximum of arguments of one command */

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

/* Returns true if the server refuses to queue the command after MULTI. */
bool keyspace_refuses(const struct keyspace *keyspace, struct bytes name);

/* Functions for the commands in commands.c. */
struct entry *entry_find(struct keyspace *keyspace, struct bytes name);
struct entry *entry_make(struct keyspace *keyspace, struct bytes name,
                         enum value_type type); /* If the entry exists, it is emptied. */
void entry_remove(struct keyspace *keyspace, struct entry *entry);
void entry_touch(struct keyspace *keyspace, struct entry *entry);
void string_set(struct string *string, struct bytes bytes);
/* Sets a field. Returns true if the field is new. */
bool field_set(struct entry *entry, struct bytes name, struct bytes value);
bool field_remove(struct entry *entry, struct bytes name);
/* Returns the score of a member of a sorted set; NULL if there is none. */
const double *member_score(const struct entry *entry, struct bytes name);
/* Like field_set() for such a member: it gets this score, and its place. */
bool member_set(struct entry *entry, struct bytes name, double score);
struct item *keyspace_items(struct keyspace *keyspace, uint32_t count);

static inline struct bytes bytes_of(const struct string *string)
{
    return (struct bytes){string->at, string->len};
}

#endif
