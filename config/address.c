/* Reads and writes addresses to listen on and URLs of Redis masters. These are texts only: names
 * are resolved when a connection is made. */
#include "config/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

static bool has_prefix(const char *text, const char *prefix)
{
    while (*prefix)
        if (*text++ != *prefix++)
            return false;
    return true;
}

static bool all_of(struct text text, const char *set)
{
    for (size_t i = 0; i < text.len; i++)
        if (strchr(set, text.at[i]) == NULL)
            return false;
    return text.len > 0;
}

/* Reads decimal digits without a sign; false if the number is above `max`. */
static bool read_decimal_up_to(struct text text, long max, long *ret)
{
    long number = 0;
    if (text.len > 9 || !all_of(text, "0123456789"))
        return false;
    for (size_t i = 0; i < text.len; i++)
        number = number * 10 + (text.at[i] - '0');
    *ret = number;
    return number <= max;
}

/* ---- host and port ---- */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* Reads a name (also with `_`, as containers have it) or an IPv4 address. A text of digits and dots
 * must be an IPv4 address. */
static const char *read_name(struct text text, struct config_address *ret)
{
    if (text.len == 0)
        return "names no host";
    if (text.len >= 254 || !all_of(text, LETTERS "0123456789.-_") ||
        strchr(".-", text.at[0]) != NULL)
        return "names a host that is not valid";
    memcpy(ret->host, text.at, text.len);
    struct in_addr v4;
    bool is_v4 = inet_pton(AF_INET, ret->host, &v4) == 1;
    if (!is_v4 && all_of(text, "0123456789."))
        return "holds an IPv4 address that is not valid";
    ret->loopback = is_v4 ? ntohl(v4.s_addr) >> 24 == 127 : strcasecmp(ret->host, "localhost") == 0;
    return NULL;
}

static const char *read_v6(struct text text, struct config_address *ret)
{
    struct in6_addr v6;
    if (text.len >= INET6_ADDRSTRLEN)
        return "holds an IPv6 address that is not valid";
    memcpy(ret->host, text.at, text.len);
    if (inet_pton(AF_INET6, ret->host, &v6) != 1)
        return "holds an IPv6 address that is not valid";
    ret->loopback = IN6_IS_ADDR_LOOPBACK(&v6);
    return NULL;
}

/* Splits `host`, `host:port`, `[v6]` or `[v6]:port`. `*ret_port` is empty if there is none. */
static const char *split_host(struct text text, struct config_address *ret, struct text *ret_port)
{
    const char *end = text.at + text.len, *colon, *why;
    if (text.len > 0 && text.at[0] == '[') {
        const char *close = memchr(text.at, ']', text.len);
        if (close == NULL)
            return "has no `]` behind its IPv6 address";
        why = read_v6((struct text){text.at + 1, (size_t)(close - text.at - 1)}, ret);
        colon = close + 1;
        if (why == NULL && colon < end && *colon != ':')
            why = "has something other than a port behind its `]`";
    } else {
        colon = memchr(text.at, ':', text.len);
        colon = colon != NULL ? colon : end;
        if (colon < end && memchr(colon + 1, ':', (size_t)(end - colon - 1)) != NULL)
            return "needs brackets around its IPv6 address";
        why = read_name((struct text){text.at, (size_t)(colon - text.at)}, ret);
    }
    *ret_port =
        colon < end ? (struct text){colon + 1, (size_t)(end - colon - 1)} : (struct text){end, 0};
    if (why == NULL && colon < end && ret_port->len == 0)
        why = "has no port behind its `:`";
    return why;
}

static const char *read_unix(struct text path, struct config_address *ret)
{
    if (path.len < 2 || path.at[0] != '/')
        return "needs an absolute path behind `unix:`";
    if (path.len >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return "has a path longer than 107 bytes, the most that a unix socket can have";
    ret->is_unix = ret->loopback = true;
    memcpy(ret->host, path.at, path.len);
    snprintf(ret->text, sizeof(ret->text), "unix:%s", ret->host);
    return NULL;
}

const char *config_address_parse(const char *text, struct config_address *ret_address)
{
    struct config_address address;
    memset(&address, 0, sizeof(address));
    const char *why;
    if (has_prefix(text, "unix:")) {
        why = read_unix((struct text){text + 5, strlen(text + 5)}, &address);
    } else {
        struct text port;
        long number = 0;
        why = strstr(text, "://") != NULL
                  ? "is a URL, not an address"
                  : split_host((struct text){text, strlen(text)}, &address, &port);
        if (why == NULL && port.len == 0)
            why = "has no port";
        if (why == NULL && !read_decimal_up_to(port, 65535, &number))
            why = "has a port that is not a number of 0 to 65535";
        address.port = (uint16_t)number;
        snprintf(address.text, sizeof(address.text), "%s", text);
    }
    if (why == NULL)
        memcpy(ret_address, &address, sizeof(address));
    return why;
}

bool config_address_same(const struct config_address *a, const struct config_address *b)
{
    if (a->is_unix != b->is_unix)
        return false;
    return a->is_unix ? strcmp(a->host, b->host) == 0
                      : a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

/* ---- Redis URLs ---- */

static int hex(char c)
{
    const char *digits = "0123456789abcdef",
               *at = strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);
    return c && at != NULL ? (int)(at - digits) : -1;
}

static const char *decode_userinfo(struct text text, char *out, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++, len++) {
        if (len + 1 >= size)
            return "has a user or password that is too long";
        int c = (unsigned char)text.at[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex(text.at[i + 1]) : -1,
                low = high >= 0 ? hex(text.at[i + 2]) : -1;
            if (low < 0)
                return "has a bad percent-encoding in its user or password";
            c = high * 16 + low;
            i += 2;
        }
        if (c < 0x20 || c == 0x7f)
            return "has a control character in its user or password";
        out[len] = (char)c;
    }
    out[len] = '\0';
    return NULL;
}

static const char *read_user(struct text userinfo, struct config_master *ret)
{
    const char *colon = memchr(userinfo.at, ':', userinfo.len), *end = userinfo.at + userinfo.len;
    struct text user = {userinfo.at, (size_t)((colon != NULL ? colon : end) - userinfo.at)};
    const char *why = decode_userinfo(user, ret->username, sizeof(ret->username));
    if (why != NULL || colon == NULL)
        return why;
    return decode_userinfo((struct text){colon + 1, (size_t)(end - colon - 1)}, ret->password,
                           sizeof(ret->password));
}

/* Takes the master's name from the URL's fragment, or from its address (R23). */
static const char *take_name(const char *fragment, struct config_master *ret)
{
    const char *name = *fragment == '#' ? fragment + 1 : ret->address.text;
    size_t len = strlen(name);
    ret->is_named = *fragment == '#';
    bool is_path = ret->address.is_unix && !ret->is_named;
    if (ret->is_named && (len == 0 || len >= sizeof(ret->address.text)))
        return "has a name behind `#` that does not have 1 to 299 bytes";
    for (size_t i = 0; ret->is_named && i < len; i++)
        if (!layout_is_plain(name[i]) || strchr("/*?", name[i]) != NULL)
            return "has a name behind `#` with other characters than letters, digits and `._-:[]`";
    for (size_t i = 0; i < len; i++)
        ret->name[i] = is_path ? name[i] : (char)tolower((unsigned char)name[i]);
    ret->name[len] = '\0';
    return NULL;
}

static const char *read_tcp_url(const char *rest, struct config_master *ret)
{
    struct text authority = {rest, strcspn(rest, "/?#")}, port;
    const char *tail = rest + authority.len, *at = memrchr(rest, '@', authority.len), *why;
    if (strchr(tail, '@') != NULL)
        return "has an `@` behind its host; `/`, `?`, `#` and `@` in a password are written %2F, "
               "%3F, %23 and %40";
    if (at != NULL) {
        why = read_user((struct text){rest, (size_t)(at - rest)}, ret);
        if (why != NULL)
            return why;
        authority = (struct text){at + 1, (size_t)(tail - at - 1)};
    }
    long number = 6379, db = -1;
    why = split_host(authority, &ret->address, &port);
    if (why != NULL)
        return why;
    if (port.len && (!read_decimal_up_to(port, 65535, &number) || number == 0))
        return "has a port that is not a number of 1 to 65535";
    size_t tail_len = strcspn(tail, "#");
    if (*tail == '?')
        return "has something other than a database number behind its host";
    if (tail_len > 1 && !read_decimal_up_to((struct text){tail + 1, tail_len - 1}, 65535, &db))
        return "has a database that is not a number of 0 to 65535";
    ret->address.port = (uint16_t)number;
    ret->db = (int)db;
    bool v6 = strchr(ret->address.host, ':') != NULL;
    snprintf(ret->address.text, sizeof(ret->address.text), "%s%s%s:%ld", v6 ? "[" : "",
             ret->address.host, v6 ? "]" : "", number);
    return take_name(tail + tail_len, ret);
}

static const char *read_unix_url(const char *path, struct config_master *ret)
{
    if (has_prefix(path, "///")) /* unix:///path, as some clients have it */
        path += 2;
    struct text file = {path, strcspn(path, "?#")};
    const char *query = path + file.len, *why = read_unix(file, &ret->address);
    size_t query_len = strcspn(query, "#");
    long db = -1;
    if (why != NULL)
        return why;
    if (query_len > 0 && (query_len < 4 || !has_prefix(query, "?db=") ||
                          !read_decimal_up_to((struct text){query + 4, query_len - 4}, 65535, &db)))
        return "has something other than ?db=N behind its path";
    ret->db = (int)db;
    return take_name(query + query_len, ret);
}

const char *config_master_parse(const char *url, struct config_master *ret_master)
{
    struct config_master master;
    memset(&master, 0, sizeof(master));
    const char *why;
    master.tls = has_prefix(url, "rediss://");
    if (master.tls)
        why = read_tcp_url(url + strlen("rediss://"), &master);
    else if (has_prefix(url, "redis://"))
        why = read_tcp_url(url + strlen("redis://"), &master);
    else if (has_prefix(url, "unix:"))
        why = read_unix_url(url + strlen("unix:"), &master);
    else
        why = "is not a URL of a Redis master";
    if (why == NULL)
        memcpy(ret_master, &master, sizeof(master));
    explicit_bzero(&master, sizeof(master));
    return why;
}

static void print_url(const struct config_master *master, const char *userinfo, bool with_db,
                      char *out, size_t size)
{
    char db[16] = "";
    if (with_db)
        snprintf(db, sizeof(db), "%s%d", master->address.is_unix ? "?db=" : "/", master->db);
    const char *scheme = master->address.is_unix ? "" : master->tls ? "rediss://" : "redis://";
    snprintf(out, size, "%s%s%s%s", scheme, userinfo, master->address.text, db);
}

/* Writes the fragment of the URL; "": it has none. */
static void print_fragment(const struct config_master *master, char *out, size_t size)
{
    int len = (int)(strrchr(master->name, '/') - master->name);
    snprintf(out, size, "%s%.*s", master->is_named ? "#" : "", master->is_named ? len : 0,
             master->name);
}

void config_master_complete(struct config_master *master, const char *username, int db)
{
    if (!master->username[0])
        snprintf(master->username, sizeof(master->username), "%s", username);
    if (master->db < 0)
        master->db = db;
    size_t len = strlen(master->name);
    snprintf(master->name + len, sizeof(master->name) - len, "/%d", master->db);
    print_url(master, "", master->db != 0, master->url, sizeof(master->url));
}

void config_master_print(const struct config_master *master, const struct config_group *group,
                         char *out, size_t size)
{
    char userinfo[3 * sizeof(master->username) + 8];
    size_t len = 0;
    bool own_user = strcmp(master->username, group->username) != 0;
    for (const char *c = own_user ? master->username : ""; *c; c++) {
        bool plain = strchr(LETTERS "0123456789.-_~", *c) != NULL;
        len += (size_t)snprintf(userinfo + len, sizeof(userinfo) - len, plain ? "%c" : "%%%02X",
                                (unsigned char)*c);
    }
    snprintf(userinfo + len, sizeof(userinfo) - len, "%s%s", master->password[0] ? ":***" : "",
             len || master->password[0] ? "@" : "");
    print_url(master, userinfo, master->db != group->db, out, size);
    size_t url_len = strlen(out);
    print_fragment(master, out + url_len, size - url_len);
}
