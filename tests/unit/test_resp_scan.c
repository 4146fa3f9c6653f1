/* The scanner in front of hiredis' reader finds the end of a reply, however it is cut. It also
 * refuses bad replies before they are read. */
#include <criterion/criterion.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/resp_scan.h"

/* Feeds in pieces of `piece` bytes. Returns the result for the first reply, and in `ret_taken` how
 * many bytes that took. */
static enum resp_found scan_in_pieces(const char *bytes, size_t len, size_t piece,
                                      size_t *ret_taken)
{
    struct resp_scan scan = {0};
    enum resp_found found = RESP_MORE;
    size_t at = 0;
    cr_assert(resp_scan_is_fresh(&scan));
    while (at < len && found == RESP_MORE) {
        size_t taken, left = len - at < piece ? len - at : piece;
        found = resp_scan(&scan, bytes + at, left, &taken);
        cr_assert_leq(taken, left);
        cr_assert(found != RESP_MORE || taken == left);
        at += taken;
        cr_assert_eq(resp_scan_is_fresh(&scan), found == RESP_REPLY);
    }
    *ret_taken = at;
    return found;
}

static void expect_found(const char *bytes, size_t len, enum resp_found expected,
                         size_t expected_taken)
{
    for (size_t piece = 1; piece <= len; piece = piece < 8 ? piece + 1 : piece * 2) {
        size_t taken;
        enum resp_found found = scan_in_pieces(bytes, len, piece, &taken);
        cr_assert_eq(found, expected, "%.40s in pieces of %zu: %d", bytes, piece, found);
        cr_assert(found != RESP_REPLY || taken == expected_taken, "%.40s: %zu bytes", bytes, taken);
    }
}

Test(resp_scan, a_reply_ends_where_the_reader_says_however_it_is_cut)
{
    static const char *const replies[] = {
        "+OK\r\n",
        "+\r\n",
        "-ERR no\r\n",
        ":0\r\n",
        ":-1\r\n",
        ":9223372036854775807\r\n",
        ":-9223372036854775808\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$5\r\nhello\r\n",
        "$2\r\n\r\n\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*1\r\n:5\r\n",
        "*2\r\n*0\r\n*1\r\n$1\r\nx\r\n",
        "*3\r\n$4\r\nheld\r\n:100\r\n$2\r\nme\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        "*2\r\n*2\r\n:1\r\n:2\r\n$-1\r\n",
    };
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        char followed[128];
        size_t len = strlen(replies[i]);
        snprintf(followed, sizeof(followed), "%s+surplus\r\n", replies[i]);
        expect_found(followed, strlen(followed), RESP_REPLY, len);
        redisReader *reader = redisReaderCreate();
        void *reply = NULL;
        redisReaderFeed(reader, replies[i], len);
        cr_assert(redisReaderGetReply(reader, &reply) == REDIS_OK && reply, "%s", replies[i]);
        freeReplyObject(reply);
        redisReaderFree(reader);
        for (size_t cut = 0; cut < len; cut++) {
            size_t taken;
            cr_assert_eq(scan_in_pieces(replies[i], cut, len, &taken), RESP_MORE);
        }
    }
}

Test(resp_scan, what_is_no_reply_is_malformed)
{
    static const char *const bad[] = {
        "\r\n",
        "x",
        " +OK\r\n",
        ">1\r\n",
        "%1\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(1\r\n",
        "=1\r\n",
        "!1\r\n",
        "~1\r\n",
        "|1\r\n",
        "HTTP/1.1",
        "+O\nK",
        "+O\rK",
        ":\r\n",
        ":-\r\n",
        ":+1\r\n",
        ":01\r\n",
        ":-0\r\n",
        ":1a\r\n",
        ": 1\r\n",
        ":1-\r\n",
        ":1\n",
        ":9223372036854775808\r\n",
        ":-9223372036854775809\r\n",
        ":100000000000000000000\r\n",
        "$-2\r\n",
        "*-2\r\n",
        "$x\r\n",
        "$1\r\nxx\r\n",
        "$1\r\nx\rx",
        "$99999999999999999999\r\n",
        "*99999999999999999999\r\n",
        "*1\r\n\r\n",
        "*\r\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_found(bad[i], strlen(bad[i]), RESP_MALFORMED, 0);
}

/* Known from the header alone: nothing of it is read, and no room is set aside. */
Test(resp_scan, what_would_be_too_large_is_refused_at_its_header)
{
    static const char *const large[] = {
        "*4097\r\n",
        "*2147483647\r\n",
        "*9223372036854775807\r\n",
        "$65536\r\n",
        "$2147483647\r\n",
        "$9223372036854775807\r\n",
        "*2\r\n*4095\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
    };
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
        expect_found(large[i], strlen(large[i]), RESP_OVERSIZED, 0);
    expect_found("*4096\r\n", 7, RESP_MORE, 0);
    expect_found("*2\r\n*4094\r\n", 11, RESP_MORE, 0);
}

/* A reply may have exactly so many bytes, headers and ends included. One byte more is refused, and
 * so is a line without an end. */
Test(resp_scan, the_bytes_of_one_reply_are_bounded)
{
    enum { BYTES = RESP_BYTES_MAX + 16 };
    char *bytes = malloc(BYTES);
    size_t taken, body = RESP_BYTES_MAX - strlen("$65527\r\n") - 2;
    memset(bytes, 'a', BYTES);
    int header = snprintf(bytes, BYTES, "$%zu\r\n", body);
    memcpy(bytes + header + body, "\r\n", 2);
    bytes[header] = 'a';
    cr_assert_eq(scan_in_pieces(bytes, RESP_BYTES_MAX, 1000, &taken), RESP_REPLY);
    cr_assert_eq(taken, RESP_BYTES_MAX);
    memset(bytes, 'a', BYTES);
    header = snprintf(bytes, BYTES, "$%zu\r\n", body + 1);
    memcpy(bytes + header + body + 1, "\r\n", 2);
    bytes[header] = 'a';
    cr_assert_eq(scan_in_pieces(bytes, RESP_BYTES_MAX + 1, 1000, &taken), RESP_OVERSIZED);
    memset(bytes, 'a', BYTES);
    bytes[0] = '+';
    cr_assert_eq(scan_in_pieces(bytes, BYTES, 777, &taken), RESP_OVERSIZED);
    cr_assert_eq(taken, RESP_BYTES_MAX);
    free(bytes);
}

/* Many small elements in lists of lists count together. */
Test(resp_scan, the_elements_of_all_lists_count_together)
{
    enum { LISTS = 40, EACH = 101 };
    char *bytes = malloc(64 << 10);
    size_t len = (size_t)sprintf(bytes, "*%d\r\n", LISTS), taken;
    for (unsigned i = 0; i < LISTS; i++) {
        len += (size_t)sprintf(bytes + len, "*%d\r\n", EACH);
        for (unsigned j = 0; j < EACH; j++)
            len += (size_t)sprintf(bytes + len, ":1\r\n");
    }
    cr_assert_eq(LISTS + LISTS * EACH, 4080);
    cr_assert_eq(scan_in_pieces(bytes, len, 4096, &taken), RESP_REPLY);
    cr_assert_eq(taken, len);
    memcpy(bytes, "*41", 3);
    len += (size_t)sprintf(bytes + len, "*%d\r\n", EACH);
    cr_assert_eq(scan_in_pieces(bytes, len, 4096, &taken), RESP_OVERSIZED);
    free(bytes);
}
