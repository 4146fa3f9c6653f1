/* The states of a master, the classes of what it answers, and its faults: names that people and
 * metrics see. */
#ifndef LOCKAGENT_REDIS_OUTCOMES_H
#define LOCKAGENT_REDIS_OUTCOMES_H

#include <stddef.h>

/* GUARDED serves holders, and has no vote on new locks yet (D5.3). DEGRADED is not what a master
 * should be (D5.4): `on_degraded` says whether it serves. DOWN stands for "was up, or never
 * answered, and is being reconnected with back-off". */
#define REDIS_STATES(X)                                                                            \
    X(CONNECTING, "connecting")                                                                    \
    X(UP, "up")                                                                                    \
    X(GUARDED, "guarded")                                                                          \
    X(DEGRADED, "degraded")                                                                        \
    X(DOWN, "down")
#define X(name, ...) REDIS_##name,
enum redis_state { REDIS_STATES(X) REDIS_STATE_COUNT };
#undef X
const char *redis_state_name(enum redis_state state);

/* Classes of error replies (D5.5); OK and the two transport outcomes complete the label values
 * of metrics. */
/* clang-format off */
#define REDIS_OUTCOMES(X)         \
    X(OK, "ok")                   \
    X(OOM, "oom")                 \
    X(READONLY, "readonly")       \
    X(MISCONF, "misconf")         \
    X(NOREPLICAS, "noreplicas")   \
    X(LOADING, "loading")         \
    X(BUSY, "busy")               \
    X(MASTERDOWN, "masterdown")   \
    X(NOAUTH, "noauth")           \
    X(WRONGPASS, "wrongpass")     \
    X(NOPERM, "noperm")           \
    X(MAXCLIENTS, "maxclients")   \
    X(WRONGTYPE, "wrongtype")     \
    X(NOSCRIPT, "noscript")       \
    X(OTHER, "other")             \
    X(LOST, "lost")               \
    X(NOT_SENT, "not_sent")
/* clang-format on */
#define X(name, ...) REDIS_OUTCOME_##name,
enum redis_outcome { REDIS_OUTCOMES(X) REDIS_OUTCOME_COUNT };
#undef X
const char *redis_outcome_name(enum redis_outcome outcome);

/* The class of an error reply, by its text. */
enum redis_outcome outcome_of_error(const char *text);

/* One sentence on an outcome, for people; `text` (the server's, may be NULL) is told only where no
 * secret can be in it. */
void outcome_describe(enum redis_outcome outcome, const char *text, char *into, size_t size);

/* How a master can break the protocol. Each ends the connection: nothing that comes behind it
 * can be trusted. */
#define REDIS_FAULTS(X)                                                                            \
    X(SURPLUS, "surplus")     /* a reply that nobody waits for */                                  \
    X(MALFORMED, "malformed") /* no reply at all, or not one to what was asked */                  \
    X(OVERSIZED, "oversized") /* beyond the bounds of one reply */
#define X(name, ...) REDIS_FAULT_##name,
enum redis_fault { REDIS_FAULTS(X) REDIS_FAULT_COUNT, REDIS_FAULT_NONE = REDIS_FAULT_COUNT };
#undef X
const char *redis_fault_name(enum redis_fault fault);

/* Why TLS to a master fails. Each ends the connection, before anything has been asked. */
#define TLS_FAULTS(X)                                                                              \
    X(FILES, "files")         /* our certificates or key can not be used */                        \
    X(AUTHORITY, "authority") /* its certificate is signed by nobody that we trust */              \
    X(EXPIRED, "expired")     /* it is out of its time */                                          \
    X(NAME, "name")           /* it is for another name or address */                              \
    X(REFUSED, "refused")     /* the master wants a client certificate, or another one */          \
    X(NOT_TLS, "not_tls")     /* it speaks no TLS there */                                         \
    X(SILENT, "silent")       /* it does not answer to it */                                       \
    X(OTHER, "other")
#define X(name, ...) TLS_FAULT_##name,
enum tls_fault { TLS_FAULTS(X) TLS_FAULT_COUNT, TLS_FAULT_NONE = TLS_FAULT_COUNT };
#undef X
const char *tls_fault_name(enum tls_fault fault);

#endif
