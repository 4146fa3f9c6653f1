/* TLS to one master, below the reading of replies: over a socket that is connected, in the place of
 * recv() and send(). The only module that knows OpenSSL.
 *
 * Every connection is made from nothing: certificates and key are read from their files anew, so
 * that they can be renewed without a restart, and no session is kept. The master is always
 * verified: its certificate's chain, its dates, and that it is for the name or the address that is
 * connected to. */
#ifndef LOCKAGENT_REDIS_TLS_H
#define LOCKAGENT_REDIS_TLS_H

#include <sys/types.h>

#include "agent/redis/outcomes.h"
#include "config/config.h"

/* The plaintext of one record. Who reads so many bytes at once leaves none behind in OpenSSL, where
 * no poll would show them. */
enum { TLS_RECORD_BYTES = 16 << 10 };

struct tls;

/* TLS as the client of `host` (or of config->server_name) over a socket, which stays the caller's,
 * blocking or not. Where the files can not be used, tls_greet() says so. NULL when out of
 * memory. */
MUST_CHECK struct tls *tls_open(const struct config_tls *config, const char *host, int fd);
void tls_close(struct tls *tls);

/* The next step of the handshake: 1 when it is done; else -1, as tls_read(). */
int tls_greet(struct tls *tls);

/* As recv() and send(): the count of bytes; 0 when the master has ended the connection; -1 with
 * errno: EAGAIN, or what the network said, or EPROTO: then TLS has failed, and tls_why() knows.
 * After an EAGAIN of tls_write() the same bytes must come first again, at whatever address. */
ssize_t tls_read(struct tls *tls, char *into, size_t size);
ssize_t tls_write(struct tls *tls, const char *bytes, size_t len);

/* After an EAGAIN: whether the socket must take bytes, not have some, before it goes on. */
bool tls_waits_to_write(const struct tls *tls);

/* Why TLS has failed, for people; TLS_FAULT_NONE and "": it has not. */
enum tls_fault tls_fault(const struct tls *tls);
const char *tls_why(const struct tls *tls);

/* Sets OpenSSL up. False when out of memory: then the process must end, because OpenSSL does not
 * try again. Call it before anything else here. */
MUST_CHECK bool tls_has_memory(void);

/* Looks at the files that a group names, each by itself. Calls `say` with every key (`ca_file`) and
 * what is wrong; with `fatal` no connection can be made like that. */
void tls_check(const struct config_tls *config,
               void (*say)(void *arg, const char *key, bool fatal, const char *what), void *arg);

#endif
