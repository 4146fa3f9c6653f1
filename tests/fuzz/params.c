/* Fuzzes parameters: the first byte chooses query or form (`f`), JSON body (`j`) or Lock-Token
 * header (`h`). Accepted parameters are written both ways and must mean the same again. An error
 * names its parameter. */
#include "api/params.h"

#include <jansson.h>

#include "agent/base/text.h"
#include "api/internal.h"
#include "tests/fuzz/fuzz.h"

static struct config config = {.wait_ms_max = 300000};

/* ---- accepted parameters mean the same in every form ----------------------------------------- */

/* The value of a parameter that was given, as text. */
static size_t print_value(const struct params *params, enum param param, char text[128])
{
    switch (param) {
    case PARAM_TTL:
        return (size_t)snprintf(text, 128, "%ums", params->ttl_ms);
    case PARAM_WAIT:
        return strlen(config_print_duration(params->wait_ms, text, 128));
    case PARAM_MODE:
        return (size_t)snprintf(text, 128, "%s", mode_name(params->mode));
    case PARAM_RENEW:
        return (size_t)snprintf(text, 128, "%s", renew_name(params->renew));
    case PARAM_MAX_HOLD:
        return strlen(config_print_duration(params->max_hold_ms, text, 128));
    case PARAM_LABEL:
        memcpy(text, params->label, params->label_len);
        return params->label_len;
    case PARAM_BIND:
        return (size_t)snprintf(text, 128, "%s", params->bound ? "connection" : "none");
    case PARAM_WATCH:
        return (size_t)snprintf(text, 128, "true");
    case PARAM_OWNER:
        memcpy(text, params->owner, params->owner_len);
        return params->owner_len;
    case PARAM_TOKEN:
        return token_print(&params->token, text);
    case PARAM_LIMIT:
        return (size_t)snprintf(text, 128, "%u", params->limit);
    case PARAM_KEY:
        memcpy(text, params->key_part, params->key_part_len);
        return params->key_part_len;
    case PARAM_SORT:
        return (size_t)snprintf(text, 128, "%s", params->latest_first ? "latest" : "longest");
    default:
        return (size_t)snprintf(text, 128, "%c%u", params->cursor.waits ? 'w' : 'h',
                                params->cursor.at);
    }
}

static void check_same(const struct params *a, const struct params *b, const char *how)
{
    FUZZ_CHECK(b->fault == PARAM_FINE, "%s: %s is refused", how, b->name);
    FUZZ_CHECK(a->given == b->given && a->ttl_ms == b->ttl_ms && a->wait_ms == b->wait_ms &&
                   a->max_hold_ms == b->max_hold_ms && a->bound == b->bound &&
                   a->watch == b->watch && a->mode == b->mode && a->renew == b->renew &&
                   a->limit == b->limit && a->cursor.waits == b->cursor.waits &&
                   a->cursor.at == b->cursor.at && a->latest_first == b->latest_first,
               "%s", how);
    FUZZ_CHECK(a->key_part_len == b->key_part_len &&
                   memcmp(a->key_part, b->key_part, a->key_part_len) == 0,
               "%s: key", how);
    FUZZ_CHECK(a->label_len == b->label_len && memcmp(a->label, b->label, a->label_len) == 0,
               "%s: label", how);
    FUZZ_CHECK(a->owner_len == b->owner_len && memcmp(a->owner, b->owner, a->owner_len) == 0,
               "%s: owner", how);
    FUZZ_CHECK(token_same_random(&a->token, &b->token) && a->token.fence == b->token.fence &&
                   token_same_slot(&a->token, &b->token),
               "%s: token", how);
}

static void check_again(const struct params *params)
{
    char form[PARAM_COUNT * 3 * 128] = "", value[128], error[256];
    size_t len = 0;
    json_t *members = json_object();
    for (enum param param = 0; param < PARAM_COUNT; param++) {
        if ((params->given & 1U << param) == 0)
            continue;
        size_t value_len = print_value(params, param, value);
        len += (size_t)snprintf(form + len, sizeof(form) - len, "%s%s=", len == 0 ? "" : "&",
                                param_name(param));
        for (size_t i = 0; i < value_len; i++)
            len +=
                (size_t)snprintf(form + len, sizeof(form) - len, "%%%02x", (unsigned char)value[i]);
        json_object_set_new(members, param_name(param), json_stringn(value, value_len));
    }
    struct params from_form = {0}, from_json = {0};
    params_take_form(&from_form, &config, (struct text){form, len});
    check_same(params, &from_form, form);
    char *body = json_dumps(members, 0);
    FUZZ_CHECK(params_take_json(&from_json, &config, text_of(body), error, sizeof(error)) == NULL,
               "%s", body);
    check_same(params, &from_json, body);
    free(body);
    json_decref(members);
}

/* ---- errors name their parameter ------------------------------------------------------------- */

static bool has_token(const char *text)
{
    for (; *text != '\0'; text++)
        if (strspn(text, "0123456789abcdef") >= TOKEN_RANDOM_CHARS)
            return true;
    return false;
}

static void check_refusal(const struct params *params, unsigned allowed)
{
    char name[sizeof(params->name)], detail[400], begins[64];
    memset(detail, 'x', sizeof(detail));
    if (params_are_fine(params, &config, allowed, name, detail, sizeof(detail))) {
        FUZZ_CHECK(params->fault == PARAM_FINE && (params->given & ~allowed) == 0,
                   "but a fault was noticed");
        return;
    }
    size_t len = strnlen(detail, sizeof(detail));
    FUZZ_CHECK(len < sizeof(detail) - 1, "cut off: %s", detail);
    FUZZ_CHECK(text_fault(text_of(detail)) == NULL && text_fault(text_of(name)) == NULL, "%s",
               detail);
    snprintf(begins, sizeof(begins), "parameter %s",
             name[0] == '\0' ? "without a readable name" : name);
    FUZZ_CHECK(strncmp(detail, begins, strlen(begins)) == 0, "%s is not named: %s", name, detail);
    FUZZ_CHECK(strcmp(name, "token") != 0 || !has_token(detail), "a token is told: %s", detail);
}

static void check_all(const struct params *params)
{
    FUZZ_CHECK(params->given >> PARAM_COUNT == 0 && (unsigned)params->fault <= PARAM_ENCODING,
               "out of the tables");
    for (size_t r = 0; r < route_count; r++)
        for (size_t i = 0; i < OPERATIONS && routes[r].operations[i].run != NULL; i++)
            check_refusal(params, routes[r].operations[i].params);
    if (params->fault == PARAM_FINE)
        check_again(params);
}

/* ---- the three ways in ----------------------------------------------------------------------- */

static void take_json(struct params *params, struct text body)
{
    char error[256];
    memset(error, 'x', sizeof(error));
    const char *fault = params_take_json(params, &config, body, error, sizeof(error));
    if (fault == NULL)
        return;
    FUZZ_CHECK(strlen(fault) < sizeof(error) && strncmp(fault, "the body is ", 12) == 0, "%s",
               fault);
}

static void take_header(struct params *params, const char *header)
{
    struct params twice;
    struct token token;
    bool known = token_parse(text_of(header), &token);
    FUZZ_CHECK(params_take_token_header(params, header),
               "there is nothing that it could differ from");
    FUZZ_CHECK(known == (params->fault == PARAM_FINE), "%s", header);
    if (!known)
        return;
    twice = *params;
    FUZZ_CHECK(params_take_token_header(&twice, header), "the same differs from itself: %s",
               header);
    twice.token.slot++;
    FUZZ_CHECK(!params_take_token_header(&twice, header), "another slot is taken for the same");
    twice = *params;
    twice.token.fence++;
    FUZZ_CHECK(!params_take_token_header(&twice, header), "another number is taken for the same");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct params params = {0};
    if (size == 0)
        return 0;
    struct text text = fuzz_text(data + 1, size - 1);
    if (data[0] == 'j') {
        take_json(&params, text);
    } else if (data[0] == 'h') {
        /* text need not end: strndup would be asked to prove that it does */
        char *header = calloc(1, text.len + 1);
        if (header == NULL)
            return 0;
        memcpy(header, text.at, text.len);
        take_header(&params, header);
        free(header);
    } else {
        params_take_form(&params, &config, text);
    }
    check_all(&params);
    return 0;
}
