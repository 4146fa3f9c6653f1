/* Shows all bytes that libmicrohttpd reads to the scanner of chunks. libmicrohttpd hands out the
 * data of a chunked body, but not the lines around it, and it takes a bare LF for the end of such a
 * line. A proxy in front of the agent may read on there (RFC 9112, 7.1).
 *
 * libmicrohttpd keeps the bytes of a request in one piece. So a body that came along with its
 * header ends at the end of the last read. Between two requests libmicrohttpd moves the bytes that
 * it has already read. A chunked request is refused if nothing was read since then. The same rule
 * refuses every chunked request if libmicrohttpd ever reads by another function than recv(). */
#include "api/intake.h"

#include "agent/base/receive.h"

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
