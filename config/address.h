/* Addresses to listen on and URLs of Redis masters. */
#ifndef LOCKAGENT_CONFIG_ADDRESS_H
#define LOCKAGENT_CONFIG_ADDRESS_H

#include "config/config.h"

/* Reads `host:port`, `[v6]:port` or `unix:/path`. Returns NULL and sets `*ret_address`. Otherwise
 * returns why not, as a text to follow the quoted address. */
const char *config_address_parse(const char *text, struct config_address *ret_address);

/* Reads `redis://[user[:password]@]host[:port][/db][#name]`, the same with `rediss://` for TLS, or
 * `unix:/path[?db=N][#name]`. Returns as config_address_parse() does. Until
 * config_master_complete(), `url` is empty, `db` is -1 if the URL names none, and `name` has no
 * database. */
const char *config_master_parse(const char *url, struct config_master *ret_master);

/* Takes user and database from the group's keys if the URL names none, and writes `url`. */
void config_master_complete(struct config_master *master, const char *username, int db);

/* Returns true if both lead to the same place. */
bool config_address_same(const struct config_address *a, const struct config_address *b);

/* Writes the URL again, with `***` for a password. Leaves out user and database of `group`. */
void config_master_print(const struct config_master *master, const struct config_group *group,
                         char *out, size_t size);

#endif
