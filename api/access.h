/* Which callers may talk to the API at all (D9). */
#ifndef LOCKAGENT_API_ACCESS_H
#define LOCKAGENT_API_ACCESS_H

#include "api/headers.h"
#include "api/internal.h"

/* Reads api.token_file. False, with the reason in `error`: then no caller is let in. */
bool access_load_secret(struct api *api, char *error, size_t error_size);
/* True if `host` is a name of this machine's loopback or one of api.allowed_hosts, with or without
 * a port. */
bool access_knows_host(const struct config *config, const char *host);
/* True, with the reason in `refusal`, when the caller is to be turned away whatever it asks for.
 * `open`: the path needs no bearer token. */
bool access_refuses(struct connection *connection, const struct headers *headers,
                    const char *version, bool open, struct refusal *refusal);

#endif
