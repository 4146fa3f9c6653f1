/* The parameters of lock calls: one table of names and checks for query string, form body, JSON
 * body and the Lock-Token header. */
#ifndef LOCKAGENT_API_PARAMS_H
#define LOCKAGENT_API_PARAMS_H

#include "agent/core/core.h"
#include "agent/core/types.h"
#include "config/config.h"

/* Percent-encoding, as in URIs and forms. */

/* Decodes `%XX` (and `+` as a blank, where `plus_is_blank`) into `out`. NULL and `*ret_len` set, or
 * why not. */
const char *percent_decode(struct text raw, bool plus_is_blank, char *out, size_t size,
                           size_t *ret_len);

/* Writes `text` as it may stand in the path of a URI, terminated; `size` must hold 3 * text.len +
 * 1. Returns its length. */
size_t percent_encode(struct text text, char *out, size_t size);

/* The key of a lock, as it stands in a URI. */

/* Decodes what follows `/locks/` in the raw request target (D3). NULL, and `key` and `*ret_len`
 * set, or why it is no key: to be read behind "the key". */
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
    X(WATCH, watch, "no value, or true")                                                           \
    X(KEY, key, "a part of keys, up to 128 bytes of UTF-8 without control characters")
#define X(name, ...) PARAM_##name,
enum param { PARAMS(X) PARAM_COUNT };
#undef X

enum { LIST_LIMIT_DEFAULT = 100, LIST_LIMIT_MAX = 1000 };

enum param_fault {
    PARAM_FINE,
    PARAM_UNKNOWN,    /* no such name */
    PARAM_DOUBLED,    /* came twice */
    PARAM_BAD,        /* the value is not allowed */
    PARAM_NOT_A_TEXT, /* JSON: the value is no string */
    PARAM_ENCODING,   /* bad percent-encoding, no UTF-8, or too long for any value */
};

/* What came, checked and converted; and the first thing that was wrong. Starts zeroed. */
struct params {
    unsigned given;      /* bit PARAM_... */
    uint32_t ttl_ms;     /* UINT32_MAX: as much, or more: */
    int64_t ttl_came_ms; /* so much */
    int64_t wait_ms, max_hold_ms;
    enum renew renew;
    enum mode mode;
    bool bound; /* bind=connection */
    bool watch;
    char key_part[128]; /* of the status page's filter */
    uint8_t key_part_len;
    char label[LIMIT_LABEL_BYTES];
    uint8_t label_len;
    char owner[LIMIT_SECRET_BYTES];
    uint8_t owner_len;
    struct token token;
    uint32_t limit;
    struct list_cursor {
        bool waits;  /* past the holds, among the callers that wait */
        uint32_t at; /* of core_next_hold() or core_next_wait() */
    } cursor;

    enum param_fault fault;
    char name[40], came[72]; /* cut to fit; never a token or an owner */
};

/* 16 to 64 visible ASCII characters: an owner, or an idempotency key. */
bool params_is_secret(struct text value);

const char *param_name(enum param param);

/* Takes all of a query string or form body. */
void params_take_form(struct params *params, const struct config *config, struct text form);

/* Takes all of a JSON body. NULL, or what is wrong with the body as such, in `error`. */
const char *params_take_json(struct params *params, const struct config *config, struct text body,
                             char *error, size_t size);

/* Takes the Lock-Token header: may say the same as the parameter, nothing else. False when they
 * differ. */
bool params_take_token_header(struct params *params, const char *header);

/* True when all that came is fine and belongs to `allowed` (bits PARAM_...). Else names the
 * parameter in `name` (size of params.name) and writes to `detail` what came, what is allowed, and
 * what may have been meant. */
bool params_are_fine(const struct params *params, const struct config *config, unsigned allowed,
                     char *name, char *detail, size_t size);

#endif
