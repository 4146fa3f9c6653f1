/* Framing: where a request's header and body end must be beyond doubt. Where it is not, a proxy
 * before us may see two requests in what we take for one, or the other way round; such a request is
 * refused and its connection closed (RFC 9112, 5 and 6).
 *
 * libmicrohttpd 1.0 refuses much of it by itself. 0.9.75 hides it: it ends texts at a NUL byte, and
 * sticks a continued line to the name of its field. But it leaves what it has read in one piece,
 * names and values where they came, with NUL for what it took off; so what is hidden shows as a gap
 * between a value and the next name. */
#include "api/framing.h"

#include <string.h>
#include <strings.h>

struct walk {
    const char *seen_to; /* the end of the last thing that was seen */
    const char *fault;   /* NULL: none yet */
    const char *length, *coding;
};

static bool is_token(const char *name)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (const char *at = name; *at != '\0'; at++)
        if (!((*at >= '0' && *at <= '9') || ((*at | 0x20) >= 'a' && (*at | 0x20) <= 'z') ||
              strchr(marks, *at) != NULL))
            return false;
    return name[0] != '\0';
}

static bool has_control(const char *value)
{
    for (const char *at = value; *at != '\0'; at++)
        if (((unsigned char)*at < 0x20 && *at != '\t') || *at == 0x7f)
            return true;
    return false;
}

#if MHD_VERSION < 0x01000000
/* True where nothing but line ends, one or two NUL bytes each (a NUL byte before a bare LF looks
 * the same, and hides nothing), lies between the last thing seen and `next`. */
static bool follows(const struct walk *walk, const char *next, size_t bytes_max)
{
    const size_t gap = (size_t)((uintptr_t)next - (uintptr_t)walk->seen_to);
    if (gap == 0 || gap > bytes_max)
        return false;
    for (size_t i = 0; i < gap; i++)
        if (walk->seen_to[i] != '\0')
            return false;
    return true;
}

static bool field_is_in_its_place(struct walk *walk, const char *name, const char *value)
{
    bool fine = follows(walk, name, 2);
    walk->seen_to = value + strlen(value);
    return fine;
}

static bool header_ends(const struct walk *walk, const char *end)
{
    return follows(walk, end, 4);
}
#else
static bool field_is_in_its_place(struct walk *walk, const char *name, const char *value)
{
    (void)walk, (void)name, (void)value;
    return true;
}

static bool header_ends(const struct walk *walk, const char *end)
{
    (void)walk, (void)end;
    return true;
}
#endif

static void blame(struct walk *walk, const char *fault)
{
    if (walk->fault == NULL)
        walk->fault = fault;
}

static enum MHD_Result walk_field(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct walk *walk = arg;
    (void)kind;
    if (value == NULL)
        value = "";
    if (!field_is_in_its_place(walk, name, value))
        blame(walk, "a header field goes on in a second line, or has a NUL byte");
    if (!is_token(name))
        blame(walk, "a header field's name is not well formed");
    if (has_control(value))
        blame(walk, "a header field has a control character");
    const char **single = strcasecmp(name, "Content-Length") == 0      ? &walk->length
                          : strcasecmp(name, "Transfer-Encoding") == 0 ? &walk->coding
                                                                       : NULL;
    if (single != NULL && *single != NULL)
        blame(walk, "Content-Length or Transfer-Encoding came twice");
    if (single != NULL)
        *single = value;
    return walk->fault == NULL ? MHD_YES : MHD_NO;
}

static const char *body_fault(const struct walk *walk, const char *version)
{
    if (walk->coding == NULL)
        return NULL;
    if (walk->length != NULL)
        return "Content-Length and Transfer-Encoding came together";
    if (strcasecmp(walk->coding, "chunked") != 0)
        return "Transfer-Encoding is another one than chunked";
    return strcmp(version, "HTTP/1.0") == 0 ? "HTTP/1.0 has no Transfer-Encoding" : NULL;
}

const char *framing_fault_of_target(const char *target)
{
    for (const char *at = target; *at != '\0'; at++)
        if ((unsigned char)*at <= ' ' || *at == 0x7f)
            return "the request target has a blank or a control character";
    return NULL;
}

const char *framing_fault(const struct connection *connection, const char *method,
                          const char *version)
{
    struct walk walk = {.seen_to = version + strlen(version)};
    size_t size = MHD_get_connection_info(connection->http, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)
                      ->header_size;
    MHD_get_connection_values(connection->http, MHD_HEADER_KIND, walk_field, &walk);
    if (walk.fault != NULL)
        return walk.fault;
    if (!header_ends(&walk, method + size))
        return "a header field has a NUL byte";
    return body_fault(&walk, version);
}
