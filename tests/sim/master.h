/* Functions that the files of a master share: master.c, holders.c, master_java.c, master_numbers.c,
 * master_unlock.c, replica.c. */
#ifndef LOCKAGENT_SIM_MASTER_H
#define LOCKAGENT_SIM_MASTER_H

#include "world.h"

#include <hiredis/hiredis.h>

enum { SIM_COMMAND_BYTES = 256 * 1024, SIM_NAME_BYTES = 48 };

/* ---- master.c ---- */

/* Redis keys of a place. */
enum stored { KIND_LOCK, KIND_TICKETS, KIND_NUMBER, KINDS };
/* Returns the name of the place's key on the masters. It ends with a zero byte. */
struct bytes master_stored_name(enum stored kind, uint8_t name);
/* Returns the keyspace of the master at its present time. */
struct keyspace *master_keys_now(struct world *w, uint8_t index);
/* Runs a command with these scripts. The caller frees the reply. */
redisReply *master_run(struct world *w, uint8_t index, struct scripting *scripting,
                       struct bytes command);
/* Runs a command of the simulator's own. */
void master_put(struct world *w, uint8_t index, const char *const *words, unsigned count);

/* ---- holders.c ---- */

enum { HOLDERS_MAX = 2 * SIM_LOCKS * SIM_AGENTS };

/* The stored random parts. A mutex has one. If readers share the key, each live entry has one
 * (R17). Strangers have none. */
struct holders {
    unsigned count;
    char random[HOLDERS_MAX][TOKEN_RANDOM_CHARS];
    struct bytes value[HOLDERS_MAX]; /* From the random part on; valid until the next command. */
    bool reads;                      /* all of them */
};

/* Reads the holders of the name on the master. */
void holders_read(struct world *w, uint8_t index, uint8_t name, struct holders *ret_holders);
/* Returns true if the token with that random part is among them. */
bool holders_have(const struct holders *holders, const uint8_t random[RANDOM_BYTES]);
bool holders_have_text(const struct holders *holders, const char text[TOKEN_RANDOM_CHARS]);
/* Reads a random part as it is stored. */
void holders_read_random(const char *stored, uint8_t ret_random[RANDOM_BYTES]);
/* R22: Returns true if the field of a hash is an agent's. */
bool holders_is_agents(const struct field *field);

/* ---- master_java.c ---- */

/* Returns the version of Java's data there; 0: nothing. */
uint64_t master_javas_version(struct world *w, uint8_t index, uint8_t name);
/* C18: Checks the data of the name after a command of an agent. `javas_before`: the version of
 * Java's data before it. */
void master_check_fields(struct world *w, uint8_t index, uint8_t name, uint64_t javas_before);

#endif
