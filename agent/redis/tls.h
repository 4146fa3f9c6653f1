/* TLS to one master, over a connected socket, in place of recv() and send(). The only module that
 * knows OpenSSL, which is loaded when this module is first used (openssl.h).
 *
 * The certificates and the key can be renewed without a restart: each connection has the present
 * contents of their files. A file is read again only when it has changed. No session is kept. The
 * master is always verified: the chain and the dates of its certificate, and that it is for the
 * name or the address that the agent connects to. */
#ifndef LOCKAGENT_REDIS_TLS_H
#define LOCKAGENT_REDIS_TLS_H

#include <sys/stat.h>
#include <sys/types.h>

#include "agent/redis/outcomes.h"
#include "config/config.h"

/* The plaintext of one record. A reader that reads this many bytes at once leaves none in OpenSSL,
 * because poll() would not report those. */
enum { TLS_RECORD_BYTES = 16 << 10 };

struct tls;

/* The contents of a group's files, which its connections share: reading a file with all public
 * authorities takes 20 to 50 ms. To begin with, all but `config` is zero. */
struct tls_files {
    const struct config_tls *config;
    struct ssl_ctx_st *context; /* NULL: to be read at the next connection. */
    struct stat seen[3];        /* ca_file, cert_file, key_file when they were read. */
    uint64_t kept_until_ms;     /* Until then a handshake that fails leaves the contents. */
    uint64_t kept_ms;           /* How long they were kept before that. */
};

/* Frees the contents. Open connections go on. */
void tls_files_forget(struct tls_files *files);

/* Call it when a handshake has failed: the contents may lack parts for which OpenSSL had no memory,
 * so the next connection reads the files again. A master may fail each time, so that happens at
 * most once a second, and more and more rarely: once a minute in the end. `now_ms`: the loop's
 * time. */
void tls_files_doubt(struct tls_files *files, uint64_t now_ms);

/* Returns TLS as the client of `host` (or of files->config->server_name) over a socket, which may
 * be blocking or not, and stays the caller's. If a file cannot be used, tls_greet() reports it.
 * Returns NULL if there is not enough memory. */
MUST_CHECK struct tls *tls_open(struct tls_files *files, const char *host, int fd);
void tls_close(struct tls *tls);

/* Takes the next step of the handshake. Returns 1 if it is done; -1 as tls_read() does. */
int tls_greet(struct tls *tls);

/* Work like recv() and send(): they return the number of bytes; 0 if the master has ended the
 * connection; -1 with errno, which is EAGAIN, an error of the network, or EPROTO if TLS has failed
 * (tls_why()). After an EAGAIN of tls_write(), the next call must begin with the same bytes, at any
 * address. */
ssize_t tls_read(struct tls *tls, char *into, size_t size);
ssize_t tls_write(struct tls *tls, const char *bytes, size_t len);

/* Returns, after an EAGAIN, whether the socket must become writable, not readable. */
bool tls_waits_to_write(const struct tls *tls);

/* Return why TLS has failed, as a class and as a text for people; TLS_FAULT_NONE and "" if it has
 * not. */
enum tls_fault tls_fault(const struct tls *tls);
const char *tls_why(const struct tls *tls);

/* Returns when the first certificate of the master's verified chain ends, in seconds of unix time;
 * 0 if it is not known. Call it after tls_greet() has returned 1. */
int64_t tls_master_end_s(const struct tls *tls);

/* Returns when our certificate in config->cert_file ends, in seconds of unix time; 0 if the file
 * holds none that can be read, or there is not enough memory. */
int64_t tls_own_end_s(const struct config_tls *config);

/* Loads OpenSSL and sets it up. Returns false, with `why`, if it cannot be loaded or there is not
 * enough memory. Then the process must end, because OpenSSL does not try again. Call it before any
 * other function of this file. */
MUST_CHECK bool tls_set_up(char *why, size_t size);

/* Checks each file that a group names. Calls `say` with the key (`ca_file`) and the fault. With
 * `fatal` no connection can be made. */
void tls_check(const struct config_tls *config,
               void (*say)(void *arg, const char *key, bool fatal, const char *what), void *arg);

#endif
