/* A script's answer to one item: each form that a reply has, with any numbers and any texts of
 * 7 bytes, NUL bytes among them; lists have up to 7 elements.
 *
 * sources: agent/redis/replies.c
 * options: -cpp-extra-args=-DVAGUE_LIBC -eva-auto-loop-unroll 16 -eva-slevel 30
 *   -eva-split-return-function utf8_decode:0:1:2:3:4
 *   -eva-slevel-function is_label:1000 */
#include "agent/redis/replies.h"
#include "tests/prove/prove.h"

enum { ELEMENTS = 7, BYTES = 7 };

static char texts[ELEMENTS + 1][BYTES + 1];
static redisReply parts[ELEMENTS], *elements[ELEMENTS];

static void fill(redisReply *reply, char *text)
{
    static const int types[] = {REDIS_REPLY_INTEGER, REDIS_REPLY_STRING, REDIS_REPLY_ERROR,
                                REDIS_REPLY_STATUS,  REDIS_REPLY_NIL,    REDIS_REPLY_ARRAY};
    Frama_C_make_unknown(text, BYTES);
    reply->type = types[ANY(0, 5)];
    reply->integer = Frama_C_long_long_interval(INT64_MIN, INT64_MAX);
    reply->str = text;
    reply->len = BYTES;
}

int main(void)
{
    redisReply reply = {.elements = (size_t)ANY(0, ELEMENTS), .element = elements};
    struct event_reply items[2];
    const char *error;
    fill(&reply, texts[ELEMENTS]);
    for (int i = 0; i < ELEMENTS; i++) {
        fill(&parts[i], texts[i]);
        elements[i] = &parts[i];
    }
    enum op op = (enum op)ANY(0, OP_COUNT - 1);
    unsigned count = (unsigned)ANY(1, 2);
    item_reply_read(op, &reply, items);
    reply_read(op, count, &reply, items, &error);
    reply_is_possible(op, count, &reply);
    reply_epoch(op, &reply);
    message_read(texts[0]);
    message_is_redissons(texts[0]);
    return 0;
}
