/* Reads the masters' replies: the vote on each item of a command, and the content of a message.
 * Does not know the loop or sockets. */
#ifndef LOCKAGENT_REDIS_REPLIES_H
#define LOCKAGENT_REDIS_REPLIES_H

#include <hiredis/hiredis.h>
#include <stddef.h>

#include "agent/core/core.h"
#include "agent/redis/outcomes.h"

enum {
    /* Limit of the number of agents that wait or subscribe, as read from a reply. */
    AGENTS_MAX = UINT16_MAX,
    READERS_MAX = 1000000,
    AGENT_DIGITS = 8, /* Hex digits of an agent's name in a value (D3.3). */
};
/* 31 years: a longer time in a reply counts as this, so that no sum of times overflows. */
#define REPLY_MS_MAX ((int64_t)1000000000000)

/* Returns the vote that an outcome means. An error of a known class comes before the master does
 * anything: refused. After any other the command may have been executed: unknown. */
enum vote vote_of_outcome(enum redis_outcome outcome);

/* Returns true if one command of the operation may have many items. */
bool op_is_gathered(enum op op);

/* Reads the reply to a command of `count` items, without group, master, op and ref. Labels are in
 * the reply's memory. If the shape is not the script's, every item is UNKNOWN. Returns the worst
 * outcome of the items. WRONGTYPE counts only without another one, because it concerns one key.
 * Unless the outcome is OK, `*ret_error` is its text, which may be in the reply's memory. */
enum redis_outcome reply_read(enum op op, unsigned count, const redisReply *reply,
                              struct event_reply *ret_replies, const char **ret_error);

/* The results of a call of native commands (R24). */
struct native_results {
    bool takes;        /* They take locks; otherwise they release them. */
    uint16_t results;  /* Elements of EXEC's reply. */
    bool fencing;      /* `takes`: each item has two, and one otherwise. */
    const char *vote;  /* The vote as it was known when the call was written; NULL: no guard. */
    int64_t clock_ms;  /* `takes`: the lower bound of the master's clock at that time. */
    int64_t spread_ms; /* `takes`: how much more the clock may show (native_spread_ms()). */
};

/* Reads EXEC's reply. An item that was not granted, or not released, or for which an agent waits,
 * is BY_SCRIPT. Returns true if the commands were run; if they were not, native commands are of no
 * use now. */
bool native_reply_read(const struct native_results *call, unsigned count, const redisReply *reply,
                       struct event_reply *ret_replies);

/* Returns true if EXEC says that there was no MULTI: the server refused it, and ran the commands
 * one by one. */
bool native_reply_lacks_multi(const redisReply *reply);

/* Returns false if no master could have replied this to EXEC. */
bool native_reply_is_possible(const struct native_results *call, const redisReply *reply);

/* Returns false if no script could have replied this to any question: a word, a status, nothing, or
 * a list without some of the items. */
bool reply_is_possible(enum op op, unsigned count, const redisReply *reply);

/* Returns the part of the reply that is about item `i`, or NULL if the reply has another shape. The
 * functions from here on are parts of reply_read(). */
const redisReply *reply_entry(enum op op, unsigned count, const redisReply *reply, unsigned i);
enum redis_outcome item_reply_read(enum op op, const redisReply *entry,
                                   struct event_reply *ret_reply);

/* Returns the marker's epoch that comes with a reply that a key is missing ("": no marker), or NULL
 * if the reply has none (D5.3). */
const char *reply_epoch(enum op op, const redisReply *reply);

/* Reads the message of a release, without group, master and key. It has the number of agents that
 * wait; with order fair the agent whose turn it is, and whether its waiter reads (R18); for a
 * semaphore the slot that is free (R20). A missing part counts as 0, and a number that is too large
 * as the largest. */
struct event_channel message_read(const char *text);

/* Returns true if the message is Redisson's of a release, to all (0) or to readers (1). It does not
 * contain the number of waiters (R22). */
bool message_is_redissons(const char *text);

/* Reads fields of the text of INFO. */

/* Copies the value of `name:`, cut to `size`. Leaves `into` unchanged if there is no such field. */
void info_field(const char *info, const char *name, char *into, size_t size);

#endif
