/* Addresses to listen on and URLs of Redis masters. */
#ifndef LOCKAGENT_CONFIG_ADDRESS_H
#define LOCKAGENT_CONFIG_ADDRESS_H

#include "config/config.h"

/* Reads `host:port`, `[v6]:port` or `unix:/path`. NULL and `*ret_address` set; else why not, to be
 * read behind the text itself. */
const char *config_address_parse(const char *text, struct config_address *ret_address);

/* Reads `redis://[user[:password]@]host[:port][/db]`, the same with `rediss://` for TLS, or
 * `unix:/path[?db=N]`. As above; `url` is
 * left empty and `db` is -1 where the URL names none, until config_master_complete(). */
const char *config_master_parse(const char *url, struct config_master *ret_master);

/* Fills in what the URL left to the group's keys, and the URL for people. */
void config_master_complete(struct config_master *master, const char *username, int db);

/* True when both lead to the same place. */
bool config_address_same(const struct config_address *a, const struct config_address *b);

/* Writes the URL again, a password as `***`; leaves out what `group` says anyway. */
void config_master_print(const struct config_master *master, const struct config_group *group,
                         char *out, size_t size);

#endif
