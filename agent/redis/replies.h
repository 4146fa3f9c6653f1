/* What the masters' replies mean: votes on each item of a command, and what a message says. Knows
 * neither loop nor socket. */
#ifndef LOCKAGENT_REDIS_REPLIES_H
#define LOCKAGENT_REDIS_REPLIES_H

#include <hiredis/hiredis.h>

#include "agent/core/core.h"
#include "agent/redis/outcomes.h"

enum {
    AGENTS_MAX = UINT16_MAX, /* that wait for a key, as far as a master is believed */
};
/* 31 years: no reply counts further, and none overflows a time. */
#define REPLY_MS_MAX ((int64_t)1000000000000)

/* What a reply says of one item. */
struct item_reply {
    enum redis_outcome outcome;
    enum vote vote;
    uint32_t agents;
    uint64_t fence, ticket;
    int64_t pttl_ms;
    struct text holder; /* in the reply's memory */
    const char *error;  /* the same: the text of an error; NULL where it is none */
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

/* The published release of a key: returns how many agents wait there; `*ret_next` is, with order
 * fair, whose turn it is (0: not said). What is no number counts as 0, what is beyond the field as
 * the largest. */
uint32_t message_read(const char *text, uint64_t *ret_next);

#endif
