/* Streams of lines, as callers read them. */
#include "lines.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

static struct lines streams[LINES_STREAMS];
static size_t stream_count;
static json_t *all; /* lines that were read */

void lines_open_world(void)
{
    world_open();
    all = json_array();
}

void lines_close_world(void)
{
    json_decref(all);
    world_close();
}

struct lines *lines_open(const struct agent *agent, const char *method, const char *path)
{
    cr_assert_lt(stream_count, (size_t)LINES_STREAMS);
    struct lines *stream = &streams[stream_count++];
    stream->wire = wire_request(agent, method, path, NULL);
    cr_assert_neq(fcntl(stream->wire, F_SETFL, O_NONBLOCK), -1);
    return stream;
}

void lines_receive(struct lines *stream)
{
    ssize_t got =
        recv(stream->wire, stream->bytes + stream->len, sizeof(stream->bytes) - stream->len - 1, 0);
    if (got > 0)
        stream->len += (size_t)got;
    stream->ended |= got == 0 || strstr(stream->bytes + stream->at, "\r\n0\r\n\r\n") != NULL;
}

/* Chunk sizes hold no brace. */
json_t *lines_next(struct lines *stream, int64_t ms)
{
    const int64_t until = boottime_ms() + ms;
    do {
        lines_receive(stream);
        const char *brace = strchr(stream->bytes + stream->at, '{');
        const char *end = brace == NULL ? NULL : strchr(brace, '\n');
        if (end != NULL) {
            stream->at = (size_t)(end - stream->bytes) + 1;
            json_t *line = json_loadb(brace, (size_t)(end - brace), 0, NULL);
            cr_assert_not_null(line, "no JSON: %s", brace);
            json_array_append_new(all, line);
            return line;
        }
        sleep_ms(5);
    } while (boottime_ms() < until && !stream->ended);
    return NULL;
}

const char *lines_text(const json_t *line, const char *name)
{
    const char *value = json_string_value(json_object_get(line, name));
    return value == NULL ? "" : value;
}

int64_t lines_count(const json_t *line, const char *name)
{
    return json_integer_value(json_object_get(line, name));
}

bool lines_over(struct lines *stream)
{
    return eventually((lines_receive(stream), stream->ended)) && lines_next(stream, 0) == NULL;
}
