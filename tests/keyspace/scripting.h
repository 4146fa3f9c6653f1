/* Scripts over a keyspace: the shipped Lua texts run as a redis-server (7.0) runs them, from a
 * command's bytes to a reply's bytes. */
#ifndef LOCKAGENT_SCRIPTING_H
#define LOCKAGENT_SCRIPTING_H

#include "keyspace.h"

/* A text of the agent's that is broken on purpose: it is found in one script at least that the file
 * goes into, and in none of them twice. The file `unlock` is in no shipped script: it breaks the
 * texts that are given with EVAL. The replacement must live as long as the scripts. */
struct replacement {
    const char *file; /* common, tickets, acquire, ... */
    const char *from, *to;
};

struct scripting;

/* Compiles the shipped scripts. Returns NULL and sets `*ret_why` if the text of a replacement is
 * not found. */
struct scripting *scripting_new(const struct replacement *replacement, const char **ret_why);
void scripting_free(struct scripting *scripting);

/* Runs one command as it comes over the wire (EVALSHA, EVAL, and the commands of
 * keyspace_command()), or all commands from MULTI to EXEC. Returns the bytes of the reply, of
 * EXEC's in the second case; they are valid until the next call. The
 * command must be complete: this is no parser for commands of other programs. */
struct bytes scripting_run(struct scripting *scripting, struct keyspace *keyspace,
                           struct bytes command);

#endif
