/* What the masters' replies mean: votes on each item of a command, and what a message says. Knows
 * neither loop nor socket. */
#ifndef LOCKAGENT_REDIS_REPLIES_H
#define LOCKAGENT_REDIS_REPLIES_H

#include <hiredis/hiredis.h>
#include <stddef.h>

#include "agent/core/core.h"
#include "agent/redis/outcomes.h"

enum {
    /* that wait for a key, or read it, as far as a master is believed */
    AGENTS_MAX = UINT16_MAX,
    READERS_MAX = 1000000,
};
/* 31 years: no reply counts further, and none overflows a time. */
#define REPLY_MS_MAX ((int64_t)1000000000000)

/* What a reply says of one item. */
struct item_reply {
    enum redis_outcome outcome;
    enum vote vote;
    uint32_t agents;
    uint64_t fence, ticket;
    slot_set taken;
    bool is_own; /* YES of READ: the key is that of the hold that the agent named */
    int64_t pttl_ms;
    struct text holder; /* in the reply's memory */
    enum mode mode;
    uint32_t readers;
    const char *error; /* the same: the text of an error; NULL where it is none */
};

/* Errors of a known class come before anything is done: refused. Of any other nothing is known: it
 * may have been done. */
enum vote vote_of_outcome(enum redis_outcome outcome);

/* True where one command may have many items. */
bool op_is_gathered(enum op op);

/* The reply to a command of `count` items, read once: what it says of each of them. Where it has
 * another shape than the script's, every item is OTHER and UNKNOWN, without an error's text. */
void reply_read(enum op op, unsigned count, const redisReply *reply, struct item_reply *ret_items);

/* False where no script could have answered that, whatever was asked: a word, a status, nothing, or
 * a list that lacks items. */
bool reply_is_possible(enum op op, unsigned count, const redisReply *reply);

/* The parts of reply_read(). What the reply says of item `i`; NULL where it has another shape. */
const redisReply *reply_entry(enum op op, unsigned count, const redisReply *reply, unsigned i);
void item_reply_read(enum op op, const redisReply *entry, struct item_reply *ret_reply);

/* The marker's epoch that comes with the word that a key is missing ("": no marker); NULL where the
 * reply has none (D5.3). */
const char *reply_epoch(enum op op, const redisReply *reply);

/* The published release of a key, without group, master and key: how many agents wait there; with
 * order fair whose turn it is, and whether that one reads (R18); of a semaphore which slot is free
 * (R20). What says nothing of these counts as 0, what is beyond the field as the largest. */
struct event_channel message_read(const char *text);

/* True where it is what Redisson publishes as a lock is released, to all (0) or to readers (1); it
 * says of nobody who waits (R22). */
bool message_is_redissons(const char *text);

/* Fields of the text that INFO answers with. */

/* Copies the value of `name:`, cut to what fits; leaves `into` as it is where there is none. */
void info_field(const char *info, const char *name, char *into, size_t size);

#endif
