/* Decides which callers may use the API (D9).
 *
 * A web page in a browser, or a URL that a service was made to fetch, can reach loopback. Their
 * requests can be recognized. Browsers send `Origin` with every call that could change something.
 * With every other one, such as that of an image, they send that it comes from another page
 * (`Sec-Fetch-Site`). A host name that was rebound to 127.0.0.1 is still in `Host`. */
#include "api/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "agent/base/unchanged.h"
#include "agent/log.h"

enum { LOOK_MS = 1000 }; /* Shortest time between two checks of the token's file. */

/* ---- the bearer token ------------------------------------------------------------------------ */

static bool read_secret(const char *path, char secret[SECRET_BYTES], char *error, size_t error_size)
{
    memset(secret, 0, SECRET_BYTES);
    if (path[0] == '\0')
        return true;
    int len = config_read_secret(path, secret, SECRET_BYTES);
    if (len > 0)
        return true;
    snprintf(error, error_size, "api.token_file: %s: %s", path,
             len == 0 ? "the file is empty" : config_secret_fault(errno));
    memset(secret, 0, SECRET_BYTES);
    return false;
}

/* Keeps what shows a change of the file. A file that could not be read has always changed. */
bool access_load_secret(struct api *api, char *error, size_t error_size)
{
    const char *path = api->config->token_file;
    struct stat found = {0};
    api->secret_looked_ms = uv_now(api->loop);
    bool is_there = path[0] != '\0' && stat(path, &found) == 0,
         read = read_secret(path, api->secret, error, error_size);
    api->secret_file = is_there && read ? found : (struct stat){0};
    return read;
}

bool api_reads_token(const struct config *config, char *error, size_t error_size)
{
    char secret[SECRET_BYTES];
    bool read = read_secret(config->token_file, secret, error, error_size);
    memset(secret, 0, sizeof(secret));
    return read;
}

static void look_at_secret(struct api *api)
{
    char error[CONFIG_TEXT + 64];
    struct stat found;
    uint64_t now_ms = uv_now(api->loop);
    if (now_ms - api->secret_looked_ms < LOOK_MS)
        return;
    api->secret_looked_ms = now_ms;
    bool was_read = api->secret[0] != '\0', same = stat(api->config->token_file, &found) == 0 &&
                                                   file_is_unchanged(&api->secret_file, &found);
    if (!same && !access_load_secret(api, error, sizeof(error)) && was_read)
        log_event(LOG_ERROR, "API token could not be read: no caller is let in",
                  LOG_TEXT_FIELD("error", error));
}

/* Compares the token in constant time, wherever it differs. */
static bool same_secret(const char *secret, const char *offered)
{
    size_t offered_len = strlen(offered), len = strlen(secret);
    unsigned char difference = (unsigned char)(len != offered_len);
    for (size_t i = 0; i < len; i++)
        difference |=
            (unsigned char)(secret[i] ^ (offered_len == 0 ? 0 : offered[i % offered_len]));
    return difference == 0;
}

static bool is_authorized(struct api *api, const struct headers *headers)
{
    static const char scheme[] = "Bearer ";
    look_at_secret(api);
    const char *offered = headers->authorization;
    if (offered == NULL || headers->authorization_doubled ||
        strncasecmp(offered, scheme, sizeof(scheme) - 1) != 0)
        return false;
    return api->secret[0] != '\0' && same_secret(api->secret, offered + sizeof(scheme) - 1);
}

/* ---- Host ---- */

/* Returns the length of the name in `name`, `name:` and `name:123`; 0 if `host` is none of
 * these. */
static size_t name_len(const char *host)
{
    size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (len > strlen(host))
        return 0;
    const char *rest = host + len;
    if (*rest == ':')
        rest += 1 + strspn(rest + 1, "0123456789");
    return *rest == '\0' ? len : 0;
}

bool access_knows_host(const struct config *config, const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    size_t len = name_len(host);
    if (len == 0)
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == len && strncasecmp(host, names[i], len) == 0)
            return true;
    for (size_t i = 0; i < config->allowed_host_count; i++)
        if (strlen(config->allowed_hosts[i]) == len &&
            strncasecmp(host, config->allowed_hosts[i], len) == 0)
            return true;
    return false;
}

/* ---- all of them ---- */

static void turn_away(struct refusal *refusal, enum problem problem, const char *detail)
{
    refusal->problem = problem;
    snprintf(refusal->detail, sizeof(refusal->detail), "%s", detail);
}

bool access_refuses(struct connection *connection, const struct headers *headers,
                    const char *version, bool open, struct refusal *refusal)
{
    struct api *api = connection->api;
    if (connection->listener->is_admin)
        return false;
    if (headers->origin != NULL || headers->is_of_other_page) {
        turn_away(refusal, PROBLEM_ORIGIN_REFUSED, "");
        return true;
    }
    /* HTTP/1.0 has no Host header, and no browser uses HTTP/1.0, so there it may be absent. */
    if (headers->host == NULL ? strcmp(version, "HTTP/1.0") != 0 : headers->host_doubled) {
        turn_away(refusal, PROBLEM_BAD_REQUEST, "exactly one Host header is needed");
        return true;
    }
    if (headers->host != NULL && connection->listener->checks_host &&
        !access_knows_host(api->config, headers->host)) {
        turn_away(refusal, PROBLEM_MISDIRECTED,
                  "Host is not allowed; allowed: localhost, 127.0.0.1, [::1], api.allowed_hosts");
        return true;
    }
    if (!open && api->config->token_file[0] != '\0' && !is_authorized(api, headers)) {
        turn_away(refusal, PROBLEM_UNAUTHORIZED, "");
        return true;
    }
    return false;
}
