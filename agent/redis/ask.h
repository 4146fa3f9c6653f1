/* Commands of the room's own, on a master's pipeline. */
#ifndef LOCKAGENT_REDIS_ASK_H
#define LOCKAGENT_REDIS_ASK_H

#include "agent/redis/master.h"

/* Sends a command, as resp_end() gives it; `heard` hears the answer. */
void ask_bytes(struct master *master, heard_fn *heard, struct text bytes);

/* The same for a command of `count` words. */
void ask_words(struct master *master, heard_fn *heard, unsigned count, const char *const *words);
#define ASK(master, heard, ...)                                                                    \
    ask_words(master, heard, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *),    \
              (const char *const[]){__VA_ARGS__})

/* Loads every script: SCRIPT_COUNT commands. */
void ask_scripts(struct master *master, heard_fn *heard);

/* True where a reply is one to those. */
bool ask_has_loaded(const redisReply *reply);

#endif
