/* Reads parameters in every form. They are read before the method is known, so they are compared
 * with the allowed ones at the end. */
#include "api/params.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/key.h"
#include "agent/base/text.h"
#include "agent/core/core_assert.h"
#include "config/internal.h"

/* ---- percent-encoding ---- */

/* Percent-encoding of URIs and forms. Every deviation is refused with a text. */

static const char HEX[] = "0123456789ABCDEF";

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *percent_decode(struct text raw, bool plus_is_blank, char *out, size_t size,
                           size_t *ret_len)
{
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.at[i];
        if (c == '+' && plus_is_blank)
            c = ' ';
        if (c == '%') {
            bool complete = i + 2 < raw.len;
            int high = complete ? hex_value(raw.at[i + 1]) : -1;
            int low = complete ? hex_value(raw.at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return "has a % without two hexadecimal digits after it";
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (len >= size)
            return "is too long";
        out[len++] = c;
    }
    *ret_len = len;
    return NULL;
}

static bool stands_for_itself(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~/:@!$&'()*+,;=", c) != NULL);
}

size_t percent_encode(struct text text, char *out, size_t size)
{
    CORE_ASSERT(size > 3 * text.len);
    char *end = out;
    for (size_t i = 0; i < text.len; i++) {
        if (stands_for_itself(text.at[i])) {
            *end++ = text.at[i];
            continue;
        }
        *end++ = '%';
        *end++ = HEX[(unsigned char)text.at[i] >> 4];
        *end++ = HEX[(unsigned char)text.at[i] & 15];
    }
    *end = '\0';
    return (size_t)(end - out);
}

/* ---- keys ---- */

/* Decodes the key of a lock. agent/base/key.h defines keys. */

const char *key_decode(struct text raw, char key[LIMIT_KEY_BYTES], size_t *ret_len)
{
    size_t len;
    if (raw.len == 0)
        return "is empty";
    if (memchr(raw.at, '#', raw.len) != NULL || memchr(raw.at, ' ', raw.len) != NULL)
        return "has a # or a blank that is not percent-encoded";
    const char *fault = percent_decode(raw, /* plus_is_blank= */ false, key, LIMIT_KEY_BYTES, &len);
    if (fault == NULL)
        fault = key_fault((struct text){key, len});
    if (fault == NULL)
        *ret_len = len;
    return fault;
}

/* ---- parameters ---- */

enum { VALUE_BYTES = 256 }; /* Longer than any allowed value. */

static_assert(LIST_LIMIT_MAX == 1000 && LIMIT_LABEL_BYTES == 64,
              "the texts of the table name these numbers");

/* ---- values: each function checks one and keeps it ------------------------------------------- */

static bool read_positive_duration(struct text value, int64_t *ret_ms)
{
    return config_parse_duration(value, ret_ms) && *ret_ms > 0;
}

static bool keep_ttl(struct params *params, const struct config *config, struct text value)
{
    int64_t ms = 0;
    (void)config;
    bool fine = read_positive_duration(value, &ms);
    params->ttl_came_ms = ms;
    /* The core knows the limits of the policy. */
    params->ttl_ms = ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
    return fine;
}

static bool keep_wait(struct params *params, const struct config *config, struct text value)
{
    return config_parse_duration(value, &params->wait_ms) && params->wait_ms <= config->wait_ms_max;
}

static bool keep_renew(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    params->renew = text_is(value, "agent")    ? RENEW_AGENT
                    : text_is(value, "caller") ? RENEW_CALLER
                                               : RENEW_UNSET;
    return params->renew != RENEW_UNSET;
}

static bool keep_mode(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    params->mode = text_is(value, "read") ? MODE_READ : MODE_WRITE;
    return params->mode == MODE_READ || text_is(value, "write");
}

static bool keep_bind(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    params->bound = text_is(value, "connection");
    return params->bound || text_is(value, "none");
}

static bool keep_watch(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    params->follow = text_is(value, "key");
    params->watch = value.len == 0 || text_is(value, "true") || params->follow;
    return params->watch;
}

static bool keep_max_hold(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    return read_positive_duration(value, &params->max_hold_ms);
}

static bool keep_label(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    if (value.len > sizeof(params->label))
        return false;
    memcpy(params->label, value.at, value.len);
    params->label_len = (uint8_t)value.len;
    return true;
}

static bool keep_key(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    if (value.len > sizeof(params->key_part))
        return false;
    memcpy(params->key_part, value.at, value.len);
    params->key_part_len = (uint8_t)value.len;
    return true;
}

static bool keep_sort(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    params->latest_first = text_is(value, "latest");
    return params->latest_first || text_is(value, "longest");
}

bool params_is_secret(struct text value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] <= ' ' || value.at[i] > '~')
            return false;
    return value.len >= SECRET_BYTES_MIN && value.len <= LIMIT_SECRET_BYTES;
}

static bool keep_owner(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    if (!params_is_secret(value))
        return false;
    memcpy(params->owner, value.at, value.len);
    params->owner_len = (uint8_t)value.len;
    return true;
}

static bool keep_token(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    return token_parse(value, &params->token);
}

static bool read_whole(struct text value, uint64_t max, uint32_t *ret)
{
    uint64_t number = 0;
    if (value.len == 0 || value.len > 10)
        return false;
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(value.at[i] - '0');
    }
    if (number > max)
        return false;
    *ret = (uint32_t)number;
    return true;
}

static bool keep_limit(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    return read_whole(value, LIST_LIMIT_MAX, &params->limit) && params->limit > 0;
}

static bool keep_cursor(struct params *params, const struct config *config, struct text value)
{
    (void)config;
    if (value.len < 2 || (value.at[0] != 'h' && value.at[0] != 'w'))
        return false;
    params->cursor.waits = value.at[0] == 'w';
    return read_whole((struct text){value.at + 1, value.len - 1}, UINT32_MAX, &params->cursor.at);
}

static const struct {
    const char *name, *allowed;
    bool (*keep)(struct params *params, const struct config *config, struct text value);
} table[PARAM_COUNT] = {
#define X(id, name, allowed) [PARAM_##id] = {#name, allowed, keep_##name},
    PARAMS(X)
#undef X
};

const char *param_name(enum param param)
{
    return table[param].name;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* Copies the readable part of `from`, cut to fit between two characters. */
static void keep_readable(char *to, size_t size, struct text from)
{
    size_t len = from.len < size ? from.len : size - 1;
    while (len > 0 && len < from.len && ((unsigned char)from.at[len] & 0xC0) == 0x80)
        len--;
    if (text_fault((struct text){from.at, len}) != NULL)
        len = 0;
    if (len > 0)
        memcpy(to, from.at, len);
    to[len] = '\0';
}

static void note_fault(struct params *params, enum param_fault fault, struct text name,
                       struct text value)
{
    if (params->fault != PARAM_FINE)
        return;
    params->fault = fault;
    keep_readable(params->name, sizeof(params->name), name);
    keep_readable(params->came, sizeof(params->came), value);
}

static enum param find(struct text name)
{
    int i = 0;
    while (i < PARAM_COUNT && !text_is(name, table[i].name))
        i++;
    return (enum param)i;
}

/* Marks a known parameter as given. Returns false if it cannot be taken. */
static bool admit(struct params *params, struct text name, enum param *ret_param)
{
    const struct text nothing = {"", 0};
    enum param param = find(name);
    if (param == PARAM_COUNT) {
        note_fault(params, PARAM_UNKNOWN, name, nothing);
        return false;
    }
    if (params->given & 1U << param) {
        note_fault(params, PARAM_DOUBLED, name, nothing);
        return false;
    }
    params->given |= 1U << param;
    *ret_param = param;
    return true;
}

/* Takes one parameter. `params` keeps the first fault. */
static void params_take(struct params *params, const struct config *config, struct text name,
                        struct text value)
{
    enum param param;
    if (!admit(params, name, &param))
        return;
    if (param == PARAM_TOKEN) {
        if (!keep_token(params, config, value))
            note_fault(params, PARAM_BAD, name, text_of("no token of this format"));
        return;
    }
    if (param == PARAM_OWNER) {
        if (!keep_owner(params, config, value))
            note_fault(params, PARAM_BAD, name, text_of("no owner of this form"));
        return;
    }
    if (text_fault(value) != NULL)
        note_fault(params, PARAM_ENCODING, name, (struct text){"", 0});
    else if (!table[param].keep(params, config, value))
        note_fault(params, PARAM_BAD, name, value);
}

static void take_pair(struct params *params, const struct config *config, struct text pair)
{
    char name[VALUE_BYTES], value[VALUE_BYTES];
    const char *equals = memchr(pair.at, '=', pair.len);
    struct text raw_name = {pair.at, equals == NULL ? pair.len : (size_t)(equals - pair.at)};
    struct text raw_value = {equals == NULL ? "" : equals + 1,
                             equals == NULL ? 0 : pair.len - raw_name.len - 1};
    struct text plain_name = {name, 0}, plain_value = {value, 0};
    if (percent_decode(raw_name, true, name, sizeof(name), &plain_name.len) != NULL)
        note_fault(params, PARAM_ENCODING, raw_name, (struct text){"", 0}); /* It may be a token. */
    else if (percent_decode(raw_value, true, value, sizeof(value), &plain_value.len) != NULL)
        note_fault(params, find(plain_name) == PARAM_COUNT ? PARAM_UNKNOWN : PARAM_ENCODING,
                   plain_name, (struct text){"", 0});
    else
        params_take(params, config, plain_name, plain_value);
}

void params_take_form(struct params *params, const struct config *config, struct text form)
{
    while (form.len > 0) {
        const char *end = memchr(form.at, '&', form.len);
        struct text pair = {form.at, end == NULL ? form.len : (size_t)(end - form.at)};
        size_t taken = pair.len + (end != NULL);
        if (pair.len > 0)
            take_pair(params, config, pair);
        form.at += taken;
        form.len -= taken;
    }
}

static void take_member(struct params *params, const struct config *config, const char *name,
                        const json_t *value)
{
    enum param param;
    if (json_is_string(value)) {
        params_take(params, config, text_of(name),
                    (struct text){json_string_value(value), json_string_length(value)});
        return;
    }
    if (!admit(params, text_of(name), &param))
        return;
    char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    bool is_secret = param == PARAM_TOKEN || param == PARAM_OWNER;
    note_fault(params, PARAM_NOT_A_TEXT, text_of(name),
               text_of(shown == NULL || is_secret ? "" : shown));
    free(shown);
}

const char *params_take_json(struct params *params, const struct config *config, struct text body,
                             char *error, size_t size)
{
    json_error_t what;
    json_t *root = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, &what);
    if (root == NULL) {
        /* jansson reports a doubled member only by its text: duplicate object key near '"ttl"'. */
        const char *quote = strchr(what.text, '"'),
                   *end = quote == NULL ? NULL : strchr(quote + 1, '"');
        if (json_error_code(&what) == json_error_duplicate_key && end != NULL) {
            note_fault(params, PARAM_DOUBLED, (struct text){quote + 1, (size_t)(end - quote) - 1},
                       (struct text){"", 0});
            return NULL;
        }
        snprintf(error, size, "the body is not JSON: line %d, column %d: %s", what.line,
                 what.column, what.text);
        return error;
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return "the body is JSON, but not an object";
    }
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value) take_member(params, config, name, value);
    json_decref(root);
    return NULL;
}

bool params_take_token_header(struct params *params, const char *header)
{
    struct params from_header = {0};
    params_take(&from_header, NULL, text_of("token"), text_of(header));
    if ((params->given & 1U << PARAM_TOKEN) == 0 || params->fault != PARAM_FINE) {
        params->given |= 1U << PARAM_TOKEN;
        params->token = from_header.token;
        if (from_header.fault != PARAM_FINE)
            note_fault(params, from_header.fault, text_of("token"), text_of(from_header.came));
        return true;
    }
    return from_header.fault == PARAM_FINE && token_same(&params->token, &from_header.token);
}

/* ---- texts of faults ------------------------------------------------------------------------- */

static const char *nearest(const char *name, unsigned allowed)
{
    const char *best = NULL;
    size_t least = SIZE_MAX;
    for (int i = 0; i < PARAM_COUNT; i++) {
        size_t distance = allowed & 1U << i ? config_distance(name, table[i].name) : SIZE_MAX;
        if (distance < least && config_is_near(name, distance)) {
            least = distance;
            best = table[i].name;
        }
    }
    return best;
}

/* Returns the name, or a text for a name that is empty or unreadable. */
static const char *readable(const char *name)
{
    return name[0] == '\0' ? "without a readable name" : name;
}

static void say_not_allowed(const char *name, unsigned allowed, char *detail, size_t size)
{
    char list[128];
    const char *meant = nearest(name, allowed);
    size_t len = (size_t)snprintf(list, sizeof(list), "%s", allowed == 0 ? "no parameter" : "");
    for (int i = 0; i < PARAM_COUNT; i++)
        if (allowed & 1U << i)
            len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len == 0 ? "" : ", ",
                                    table[i].name);
    snprintf(detail, size, "parameter %s is not known here; allowed: %s%s%s%s", readable(name),
             list, meant == NULL ? "" : "; did you mean ", meant == NULL ? "" : meant,
             meant == NULL ? "" : "?");
}

/* Returns the longest duration that the parameter may have for any key; 0 if it is no duration. */
static int64_t longest_ms(enum param param, const struct config *config)
{
    int64_t longest = 0;
    if (param == PARAM_TTL)
        return config->max_ttl_ms;
    if (param == PARAM_WAIT)
        return config->wait_ms_max;
    for (size_t i = 0; param == PARAM_MAX_HOLD && i < config->policy_count; i++) {
        const struct core_policy *policy = &config->policies[i].core;
        longest = policy->max_hold_ms > longest ? policy->max_hold_ms : longest;
        longest = policy->bound_max_hold_ms > longest ? policy->bound_max_hold_ms : longest;
    }
    return longest;
}

/* Writes the duration that a number without a unit most likely meant: seconds, or milliseconds if
 * so many seconds are too long. Writes "" if both are too long, or if no such number came. */
static void guess_duration(const char *came, int64_t longest_ms, char *meant, size_t size)
{
    enum { DIGITS_MAX = 12 };
    size_t digits = strspn(came, "0123456789");
    meant[0] = '\0';
    if (digits == 0 || digits > DIGITS_MAX || came[digits] != '\0')
        return;
    int64_t number = strtoll(came, NULL, 10);
    if (number == 0 || number > longest_ms)
        return;
    if (number <= longest_ms / 1000)
        snprintf(meant, size, "%" PRId64 "s", number);
    else
        config_print_duration(number, meant, size);
}

static void say_bad_value(const struct params *params, const struct config *config, char *detail,
                          size_t size)
{
    enum param param = find(text_of(params->name));
    char max[32] = "", meant[32];
    CORE_ASSERT(param != PARAM_COUNT);
    const char *allowed = table[param].allowed;
    if (param == PARAM_WAIT)
        config_print_duration(config->wait_ms_max, max, sizeof(max));
    guess_duration(params->came, longest_ms(param, config), meant, sizeof(meant));
    snprintf(detail, size, "parameter %s: %s%s%s; allowed: %s%s%s%s%s%s", params->name,
             params->came[0] == '\0' ? "nothing or something unreadable came" : params->came,
             params->came[0] == '\0' ? "" : " came",
             params->fault == PARAM_NOT_A_TEXT ? ", not a string" : "", allowed,
             max[0] == '\0' ? "" : ", here ", max, meant[0] == '\0' ? "" : "; did you mean ", meant,
             meant[0] == '\0' ? "" : "?");
}

bool params_are_fine(const struct params *params, const struct config *config, unsigned allowed,
                     char *name, char *detail, size_t size)
{
    unsigned misplaced = params->given & ~allowed;
    snprintf(name, sizeof(params->name), "%s", params->name);
    if (params->fault == PARAM_FINE && misplaced == 0)
        return true;
    if (misplaced != 0 && params->fault != PARAM_UNKNOWN) {
        snprintf(name, sizeof(params->name), "%s", table[__builtin_ctz(misplaced)].name);
        say_not_allowed(name, allowed, detail, size);
    } else if (params->fault == PARAM_UNKNOWN) {
        say_not_allowed(name, allowed, detail, size);
    } else if (params->fault == PARAM_DOUBLED) {
        snprintf(detail, size,
                 "parameter %s came twice; allowed: once, in the query, the body or the header",
                 readable(name));
    } else if (find(text_of(params->name)) == PARAM_COUNT) {
        snprintf(detail, size, "parameter %s: its name is not valid UTF-8 or percent-encoding",
                 readable(name));
    } else {
        say_bad_value(params, config, detail, size);
    }
    return false;
}
