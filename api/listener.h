/* A listener: its socket, and the run that its daemon is asked for. */
#ifndef LOCKAGENT_API_LISTENER_H
#define LOCKAGENT_API_LISTENER_H

#include "api/internal.h"

/* Opens the listening socket of `listener->address`; `mode` is that of a unix socket's file. False,
 * with the reason in `error`. */
bool listener_open(struct listener *listener, unsigned mode, char *error, size_t error_size);
/* Removes the file of a unix socket, if it is still ours. */
void listener_remove_file(const struct listener *listener);

/* Asks for a run of the listener's daemon in this loop turn (server.c). */
void listener_wants_run(struct listener *listener);

#endif
