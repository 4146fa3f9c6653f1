/* Names that people and metrics see: the states of a master, the classes of its replies, and its
 * faults. */
#ifndef LOCKAGENT_REDIS_OUTCOMES_H
#define LOCKAGENT_REDIS_OUTCOMES_H

#include <stddef.h>

/* GUARDED: it serves holders, and has no vote on new locks yet (D5.3). DEGRADED: it is not as a
 * master should be (D5.4); `on_degraded` says whether it serves. DOWN: it was up or never answered,
 * and is being reconnected with back-off. */
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
    X(NOCOMMAND, "nocommand")     \
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

/* Returns the class of an error reply, by its text. */
enum redis_outcome outcome_of_error(const char *text);

/* Writes one sentence on an outcome, for people. `text` is the server's, or NULL. It is quoted only
 * if it cannot contain a secret. */
void outcome_describe(enum redis_outcome outcome, const char *text, char *into, size_t size);

/* Commands that a master may refuse and still serve, with the cost of doing without them. A
 * managed Redis may lack them, and an ACL may forbid them. */
/* clang-format off */
#define REDIS_OPTIONAL(X)                                                                          \
    X(SCRIPT_EXISTS, "SCRIPT EXISTS", "all scripts are sent at every connect")                     \
    X(INFO, "INFO", "role and maxmemory-policy are not known; a reconnect counts as a restart")    \
    X(CLIENT_KILL, "CLIENT KILL", "commands in flight on a lost connection may run after it")      \
    X(CLIENT_ID, "CLIENT ID", "commands in flight on a lost connection may run after it")          \
    X(TIME, "TIME", "its clock is not known, and commands that create a key have no deadline")     \
    X(COMMAND_LIST, "COMMAND LIST", "locks are released by script")                                \
    X(CLIENT_SETNAME, "CLIENT SETNAME", "its CLIENT LIST does not name this agent")                \
    X(MULTI, "MULTI", "locks are taken by script, which costs it about twice as much")
/* clang-format on */
#define X(name, ...) REDIS_OPTIONAL_##name,
enum redis_optional { REDIS_OPTIONAL_NONE, REDIS_OPTIONAL(X) REDIS_OPTIONAL_COUNT };
#undef X
const char *redis_optional_name(enum redis_optional optional);
const char *redis_optional_cost(enum redis_optional optional);

/* Ways in which a master breaks the protocol. Each ends the connection, because no later reply can
 * be trusted. */
#define REDIS_FAULTS(X)                                                                            \
    X(SURPLUS, "surplus")     /* An unexpected reply. */                                           \
    X(MALFORMED, "malformed") /* Not a reply, or not a possible one to the question. */            \
    X(OVERSIZED, "oversized") /* Beyond the bounds of one reply. */
#define X(name, ...) REDIS_FAULT_##name,
enum redis_fault { REDIS_FAULTS(X) REDIS_FAULT_COUNT, REDIS_FAULT_NONE = REDIS_FAULT_COUNT };
#undef X
const char *redis_fault_name(enum redis_fault fault);

/* Reasons why TLS to a master fails. Each ends the connection before anything was asked. */
#define TLS_FAULTS(X)                                                                              \
    X(FILES, "files")         /* Our certificates or key cannot be used. */                        \
    X(AUTHORITY, "authority") /* We trust no authority that signed its certificate. */             \
    X(EXPIRED, "expired")     /* The certificate has expired or is not valid yet. */               \
    X(NAME, "name")           /* The certificate is for another name or address. */                \
    X(REFUSED, "refused")     /* The master wants a client certificate, or another one. */         \
    X(NOT_TLS, "not_tls")     /* The master does not speak TLS on this port. */                    \
    X(SILENT, "silent")       /* The master does not answer the handshake. */                      \
    X(OTHER, "other")
#define X(name, ...) TLS_FAULT_##name,
enum tls_fault { TLS_FAULTS(X) TLS_FAULT_COUNT, TLS_FAULT_NONE = TLS_FAULT_COUNT };
#undef X
const char *tls_fault_name(enum tls_fault fault);

#endif
