/* Scripts over a keyspace: the shipped Lua texts run as a redis-server (7.0) runs them, from a
 * command's bytes to a reply's bytes. */
#ifndef LOCKAGENT_SCRIPTING_H
#define LOCKAGENT_SCRIPTING_H

#include "keyspace.h"

/* A text of the agent's that is broken on purpose: it is found in one script at least that the file
 * goes into, and in none of them twice. */
struct replacement {
    const char *file; /* common, tickets, acquire, ... */
    const char *from, *to;
};

struct scripting;

/* Compiles the shipped scripts. With a replacement: NULL, and `*ret_why` set, where its text is not
 * found so. */
struct scripting *scripting_new(const struct replacement *replacement, const char **ret_why);
void scripting_free(struct scripting *scripting);

/* Runs one command as it comes over the wire (EVALSHA and EVAL, and what keyspace_command() knows)
 * and gives the bytes of the reply, which are valid until the next one. The command must be
 * complete: this is no parser for what others send. */
struct bytes scripting_run(struct scripting *scripting, struct keyspace *keyspace,
                           struct bytes command);

#endif
