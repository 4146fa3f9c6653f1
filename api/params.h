/* The parameters of lock calls: one table of names and checks for query string, form body, JSON
 * body and the Lock-Token header. */
#ifndef LOCKAGENT_API_PARAMS_H
#define LOCKAGENT_API_PARAMS_H

#include "agent/core/core.h"
#include "agent/core/types.h"
#include "config/config.h"

/* Percent-encoding, as in URIs and forms. */

/* Decodes `%XX`, and `+` as a blank if `plus_is_blank`, into `out`, and sets `*ret_len`. Returns
 * NULL, or the fault. */
const char *percent_decode(struct text raw, bool plus_is_blank, char *out, size_t size,
                           size_t *ret_len);

/* Writes `text` encoded for the path of a URI, terminated. `size` must be at least 3 * text.len +
 * 1. Returns its length. */
size_t percent_encode(struct text text, char *out, size_t size);

/* The key of a lock in a URI. */

/* Decodes the rest of the raw request target after `/locks/` (D3.1), and sets `key` and `*ret_len`.
 * Returns NULL, or the fault as a phrase to follow "the key". */
const char *key_decode(struct text raw, char key[LIMIT_KEY_BYTES], size_t *ret_len);

#define PARAMS(X)                                                                                  \
    X(TTL, ttl, "a duration with its unit, above 0, such as 30s")                                  \
    X(WAIT, wait, "a duration with its unit, such as 5s, up to limits.wait")                       \
    X(RENEW, renew, "agent or caller")                                                             \
    X(MODE, mode, "write or read")                                                                 \
    X(MAX_HOLD, max_hold, "a duration with its unit, above 0, such as 10m")                        \
    X(BIND, bind, "none or connection")                                                            \
    X(LABEL, label, "up to 64 bytes of UTF-8 without control characters")                          \
    X(OWNER, owner, "16 to 64 visible ASCII characters, as secret as a token")                     \
    X(TOKEN, token, "the token that the acquiring POST answered")                                  \
    X(LIMIT, limit, "a number from 1 to 1000")                                                     \
    X(CURSOR, cursor, "next_cursor of the page before")                                            \
    X(WATCH, watch, "no value, true, or key")                                                      \
    X(KEY, key, "a part of keys, up to 128 bytes of UTF-8 without control characters")             \
    X(SORT, sort, "longest or latest")
#define X(name, ...) PARAM_##name,
enum param { PARAMS(X) PARAM_COUNT };
#undef X

enum { LIST_LIMIT_DEFAULT = 100, LIST_LIMIT_MAX = 1000 };

enum param_fault {
    PARAM_FINE,
    PARAM_UNKNOWN,    /* There is no such name. */
    PARAM_DOUBLED,    /* It came twice. */
    PARAM_BAD,        /* Its value is not allowed. */
    PARAM_NOT_A_TEXT, /* Its value is no JSON string. */
    PARAM_ENCODING,   /* Bad percent-encoding, no UTF-8, or too long for any value. */
};

/* The parameters, checked and converted, and the first fault. Starts zeroed. */
struct params {
    unsigned given;      /* Bits PARAM_... of those that were given. */
    uint32_t ttl_ms;     /* UINT32_MAX: that much or more. */
    int64_t ttl_came_ms; /* The ttl as it came. */
    int64_t wait_ms, max_hold_ms;
    enum renew renew;
    enum mode mode;
    bool bound; /* bind=connection. */
    bool watch;
    bool follow;        /* watch=key. Then `watch` is true as well. */
    char key_part[128]; /* The filter of the status page. */
    uint8_t key_part_len;
    bool latest_first; /* The order of the status page. */
    char label[LIMIT_LABEL_BYTES];
    uint8_t label_len;
    char owner[LIMIT_SECRET_BYTES];
    uint8_t owner_len;
    struct token token;
    uint32_t limit;
    struct list_cursor {
        bool waits;  /* The cursor is among the callers that wait, after the holds. */
        uint32_t at; /* The cursor, as core_next_hold() or core_next_wait() take it. */
    } cursor;

    enum param_fault fault;
    char name[40], came[72]; /* Cut to fit; never a token or an owner. */
};

/* Returns true if the value is 16 to 64 visible ASCII characters, as of an owner or an idempotency
 * key. */
bool params_is_secret(struct text value);

const char *param_name(enum param param);

/* Takes all parameters of a query string or form body. */
void params_take_form(struct params *params, const struct config *config, struct text form);

/* Takes all parameters of a JSON body. Returns NULL, or the fault of the body itself, in
 * `error`. */
const char *params_take_json(struct params *params, const struct config *config, struct text body,
                             char *error, size_t size);

/* Takes the Lock-Token header. Returns false if it differs from the parameter. */
bool params_take_token_header(struct params *params, const char *header);

/* Returns true if all parameters are valid and in `allowed` (bits PARAM_...). Otherwise sets `name`
 * (size of params.name) to the parameter, and writes to `detail` the received value, the allowed
 * values, and a similar name that may have been meant. */
bool params_are_fine(const struct params *params, const struct config *config, unsigned allowed,
                     char *name, char *detail, size_t size);

#endif
