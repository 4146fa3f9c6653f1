/* Streams of lines, as callers read them: each line is one JSON object. */
#ifndef LOCKAGENT_TESTS_LINES_H
#define LOCKAGENT_TESTS_LINES_H

#include "harness.h"

enum { LINES_STREAMS = 32 /* streams of one test */ };

/* One stream. `bytes` are all that came, header and chunk sizes included; `at` is behind the last
 * line that was read. */
struct lines {
    int wire;
    bool ended;
    char bytes[65536];
    size_t len, at;
};

/* The world, and the memory of all lines. */
void lines_open_world(void);
void lines_close_world(void);

/* Sends the request of a stream. */
struct lines *lines_open(const struct agent *agent, const char *method, const char *path);

/* Receives all bytes that have come. */
void lines_receive(struct lines *stream);

/* The next line; NULL when none comes in time. It belongs to the world. */
json_t *lines_next(struct lines *stream, int64_t ms);

/* A member of a line; "" and 0 if it is missing or null. */
const char *lines_text(const json_t *line, const char *name);
int64_t lines_count(const json_t *line, const char *name);

/* True as soon as the stream has ended, without a further line. */
bool lines_over(struct lines *stream);

#endif
