/* Replies that are made in a line's own memory equal those that hiredis itself makes, in any shape
 * and size. A reply has no byte of the last one. */
#include <criterion/criterion.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/reply_memory.h"

static struct reply_memory memory;

static void expect_same(const redisReply *ours, const redisReply *theirs)
{
    cr_assert_eq(ours->type, theirs->type);
    cr_assert_eq(ours->integer, theirs->integer);
    cr_assert_eq(ours->elements, theirs->elements);
    cr_assert_eq((uintptr_t)ours % _Alignof(max_align_t), 0);
    if (theirs->str != NULL) {
        cr_assert_eq(ours->len, theirs->len);
        cr_assert_eq(memcmp(ours->str, theirs->str, theirs->len + 1), 0, "with its end");
    }
    for (size_t i = 0; i < theirs->elements; i++)
        expect_same(ours->element[i], theirs->element[i]);
}

static void *read_whole(redisReader *reader, const char *text, size_t len, size_t slice)
{
    void *reply = NULL;
    for (size_t at = 0; at < len; at += slice) {
        size_t part = len - at < slice ? len - at : slice;
        cr_assert_eq(redisReaderFeed(reader, text + at, part), REDIS_OK);
        cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
        cr_assert((reply != NULL) == (at + part == len), "whole with its last byte");
    }
    return reply;
}

static void compare(redisReader *reader, const char *text, size_t len, size_t slice)
{
    redisReader *other = redisReaderCreate();
    redisReply *theirs = read_whole(other, text, len, slice);
    expect_same(read_whole(reader, text, len, slice), theirs);
    reply_memory_reset(&memory);
    freeReplyObject(theirs);
    redisReaderFree(other);
}

Test(redis_memory, replies_are_what_hiredis_makes)
{
    static const char *const texts[] = {
        "+OK\r\n",
        "-ERR no\r\n",
        ":9223372036854775807\r\n",
        ":-1\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$3\r\na\r\n\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*1\r\n:1763000000000001\r\n",
        "*3\r\n$4\r\nheld\r\n:2999\r\n$0\r\n\r\n",
        "*2\r\n*2\r\n*1\r\n*1\r\n+deep\r\n:2\r\n*0\r\n",
        "*4\r\n-ERR one item\r\n$-1\r\n*-1\r\n$1\r\nx\r\n",
    };
    redisReader *reader = reply_memory_reader(&memory);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (size_t slice = 1; slice < 8; slice++)
            compare(reader, texts[i], strlen(texts[i]), slice);
    redisReaderFree(reader);
}

/* Around the size of the first piece, and far beyond it. */
Test(redis_memory, a_large_reply_spills_and_leaves_nothing)
{
    enum { MOST = 4096 };
    static char text[MOST * 8 + 70000];
    redisReader *reader = reply_memory_reader(&memory);
    for (unsigned count = 1; count <= MOST; count = count * 5 / 4 + 1) {
        int len = snprintf(text, sizeof(text), "*%u\r\n", count);
        for (unsigned i = 0; i < count; i++)
            len += snprintf(text + len, sizeof(text) - (size_t)len, ":%u\r\n", i % 100);
        compare(reader, text, (size_t)len, 16384);
        cr_assert_null(memory.spilled);
        cr_assert_eq(memory.used, 0);
    }
    for (unsigned bytes = 1; bytes <= 65536; bytes = bytes * 3 / 2 + 1) {
        int len = snprintf(text, sizeof(text), "*2\r\n:7\r\n$%u\r\n", bytes);
        memset(text + len, 'b', bytes);
        memcpy(text + len + bytes, "\r\n", 2);
        compare(reader, text, (size_t)len + bytes + 2, 16384);
    }
    redisReaderFree(reader);
}

/* The usual reply takes nothing from the heap: that is the purpose of the memory. */
Test(redis_memory, a_batch_of_renewals_does_not_spill)
{
    char text[64 * 24];
    int len = snprintf(text, sizeof(text), "*64\r\n");
    for (unsigned i = 0; i < 64; i++)
        len += snprintf(text + len, sizeof(text) - (size_t)len, ":1763000000000001\r\n");
    redisReader *reader = reply_memory_reader(&memory);
    cr_assert_not_null(read_whole(reader, text, (size_t)len, (size_t)len));
    cr_assert_null(memory.spilled);
    redisReaderFree(reader);
}

Test(redis_memory, half_a_reply_is_given_back_too)
{
    char text[70000];
    int len = snprintf(text, sizeof(text), "*4096\r\n");
    for (unsigned i = 0; i < 4095; i++)
        len += snprintf(text + len, sizeof(text) - (size_t)len, ":%u\r\n", i);
    void *reply;
    redisReader *reader = reply_memory_reader(&memory);
    cr_assert_eq(redisReaderFeed(reader, text, (size_t)len), REDIS_OK);
    cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    cr_assert_null(reply);
    redisReaderFree(reader);
    cr_assert_not_null(memory.spilled, "what the test is about");
    reply_memory_reset(&memory);
    cr_assert_null(memory.spilled);
}
