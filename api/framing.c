/* Refuses a request if the end of its header or body is in doubt (RFC 9112, 5 and 6), and closes
 * its connection. A proxy in front of the agent could see two requests in such a request, or one in
 * two.
 *
 * libmicrohttpd 1.0 refuses many such requests by itself. 0.9.75 hides them: it ends texts at a NUL
 * byte, and joins a continued line to the name of its field. But it leaves the bytes in place, with
 * NUL bytes for those that it removed. So a hidden part shows as a gap between a value and the next
 * name. */
#include "api/internal.h"

#include <string.h>
#include <strings.h>

#include "agent/base/receive.h"
#include "api/chunks.h"

/* ---- the end of header and body ---- */

struct walk {
    const char *seen_to; /* The end of the last part that was seen. */
    const char *fault;   /* NULL: none so far. */
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
/* Returns true if only line ends lie between the last part and `next`. Each is one or two NUL
 * bytes. A NUL byte before a bare LF looks the same, and hides nothing. */
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
        blame(walk, "a header field continues on a second line, or has a NUL byte");
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
    if (has_control(method) || strchr(method, '\t') != NULL)
        return "the method has a control character";
    MHD_get_connection_values(connection->http, MHD_HEADER_KIND, walk_field, &walk);
    if (walk.fault != NULL)
        return walk.fault;
    if (!header_ends(&walk, method + size))
        return "a header field has a NUL byte";
    if (walk.coding == NULL)
        return NULL;
    if (walk.length != NULL)
        return "Content-Length and Transfer-Encoding came together";
    if (strcasecmp(walk.coding, "chunked") != 0)
        return "Transfer-Encoding is not chunked";
    return strcmp(version, "HTTP/1.0") == 0 ? "HTTP/1.0 has no Transfer-Encoding" : NULL;
}

/* ---- chunks ---- */

/* A scanner of chunked bodies, of which it keeps no byte. It checks that the lines around the data
 * are well formed, finds the end of the body, and counts its data.
 *
 *   SIZE -> DIGITS -+-> BLANKS -> EXTENSION -+-> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE
 *                   '------------------------'      |
 *                                      a size of 0: '-> LAST -> LAST_LF -> DONE
 *                                       a trailer:     LAST -> NAME -> VALUE -> VALUE_LF -> LAST */

static int digit_of(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    char lower = (char)(byte | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

/* Returns true for a byte of an extension or of a field's value. */
static bool is_text(char byte)
{
    return ((unsigned char)byte >= 0x20 && byte != 0x7f) || byte == '\t';
}

static bool is_name(char byte)
{
    char lower = (char)(byte | 0x20);
    return (byte >= '0' && byte <= '9') || (lower >= 'a' && lower <= 'z') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static enum chunks_state behind_size(struct chunks *chunks, char byte)
{
    int digit = digit_of(byte);
    if (digit >= 0) {
        /* A size that is too large to count stays larger than the limit. */
        chunks->left =
            chunks->left > UINT64_MAX >> 4 ? UINT64_MAX : chunks->left << 4 | (uint64_t)digit;
        return CHUNKS_DIGITS;
    }
    return chunks->state == CHUNKS_SIZE ? CHUNKS_BROKEN
           : byte == '\r'               ? CHUNKS_SIZE_LF
           : byte == ';'                ? CHUNKS_EXTENSION
           : is_blank(byte)             ? CHUNKS_BLANKS
                                        : CHUNKS_BROKEN;
}

static enum chunks_state next_if(char byte, char wanted, enum chunks_state next)
{
    return byte == wanted ? next : CHUNKS_BROKEN;
}

static enum chunks_state next_state(struct chunks *chunks, char byte)
{
    switch (chunks->state) {
    case CHUNKS_SIZE:
    case CHUNKS_DIGITS:
        return behind_size(chunks, byte);
    case CHUNKS_BLANKS:
        return is_blank(byte) ? CHUNKS_BLANKS : next_if(byte, ';', CHUNKS_EXTENSION);
    case CHUNKS_EXTENSION:
        return is_text(byte) ? CHUNKS_EXTENSION : next_if(byte, '\r', CHUNKS_SIZE_LF);
    case CHUNKS_SIZE_LF:
        return next_if(byte, '\n', chunks->left > 0 ? CHUNKS_DATA : CHUNKS_LAST);
    case CHUNKS_DATA_CR:
        return next_if(byte, '\r', CHUNKS_DATA_LF);
    case CHUNKS_DATA_LF:
        return next_if(byte, '\n', CHUNKS_SIZE);
    case CHUNKS_LAST:
        return is_name(byte) ? CHUNKS_NAME : next_if(byte, '\r', CHUNKS_LAST_LF);
    case CHUNKS_NAME:
        return is_name(byte) ? CHUNKS_NAME : next_if(byte, ':', CHUNKS_VALUE);
    case CHUNKS_VALUE:
        return is_text(byte) ? CHUNKS_VALUE : next_if(byte, '\r', CHUNKS_VALUE_LF);
    case CHUNKS_VALUE_LF:
        return next_if(byte, '\n', CHUNKS_LAST);
    case CHUNKS_LAST_LF:
        return next_if(byte, '\n', CHUNKS_DONE);
    default:
        return CHUNKS_BROKEN;
    }
}

void chunks_begin(struct chunks *chunks)
{
    *chunks = (struct chunks){.state = CHUNKS_SIZE};
}

void chunks_take(struct chunks *chunks, const char *bytes, size_t len)
{
    size_t at = 0;
    while (at < len && chunks->state != CHUNKS_NONE && chunks->state < CHUNKS_DONE) {
        if (chunks->state != CHUNKS_DATA) {
            chunks->state = next_state(chunks, bytes[at++]);
            continue;
        }
        size_t taken = len - at < chunks->left ? len - at : (size_t)chunks->left;
        at += taken;
        chunks->left -= taken;
        chunks->data += taken;
        if (chunks->left == 0)
            chunks->state = CHUNKS_DATA_CR;
    }
    chunks->came += at;
}

/* ---- the bytes that are read ---- */

/* Passes all bytes that libmicrohttpd reads to the scanner of chunks. libmicrohttpd hands out the
 * data of a chunked body, but not the lines around it. It accepts a bare LF as the end of such a
 * line, after which a proxy in front of the agent may read on (RFC 9112, 7.1).
 *
 * libmicrohttpd keeps the bytes of a request in one piece. So a body that came together with its
 * header ends at the end of the last read. Between two requests libmicrohttpd moves the bytes that
 * it has already read. So a chunked request is refused if nothing was read since then. The same
 * rule refuses every chunked request if libmicrohttpd ever reads by another function than
 * recv(). */

static const char broken[] = "a chunk is not well formed: its lines end in CR LF (RFC 9112, 7.1)";

static void was_read(void *arg, const char *bytes, size_t len)
{
    struct connection *connection = arg;
    connection->read_end = bytes + len;
    chunks_take(&connection->chunks, bytes, len);
}

void intake_watch(struct connection *connection)
{
    connection->read_end = NULL;
    connection->chunks = (struct chunks){0};
    receive_watch(connection->fd, was_read, connection);
}

void intake_forget(const struct connection *connection)
{
    receive_forget(connection->fd);
}

bool intake_begin_chunks(struct connection *connection, const char *body)
{
    uintptr_t begin = (uintptr_t)body, end = (uintptr_t)connection->read_end;
    if (end < begin || end - begin > POOL_BYTES)
        return false;
    chunks_begin(&connection->chunks);
    chunks_take(&connection->chunks, body, end - begin);
    return true;
}

const char *intake_fault(const struct connection *connection)
{
    return connection->chunks.state == CHUNKS_BROKEN ? broken : NULL;
}

const char *intake_fault_at_end(const struct connection *connection, uint64_t data)
{
    const struct chunks *chunks = &connection->chunks;
    bool is_fine =
        chunks->state == CHUNKS_NONE || (chunks->state == CHUNKS_DONE && chunks->data == data);
    return is_fine ? NULL : broken;
}

void intake_end(struct connection *connection)
{
    connection->read_end = NULL;
    connection->chunks = (struct chunks){0};
}
