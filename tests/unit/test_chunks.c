/* The scanner of chunked bodies (RFC 9112, 7.1): the end of a body, and malformed bodies. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/chunks.h"

static struct chunks scan(const char *body, size_t cut)
{
    struct chunks chunks;
    chunks_begin(&chunks);
    chunks_take(&chunks, body, cut);
    chunks_take(&chunks, body + cut, strlen(body) - cut);
    return chunks;
}

static void expect_all_cuts(const char *body, enum chunks_state state, uint64_t data)
{
    for (size_t cut = 0; cut <= strlen(body); cut++) {
        const struct chunks chunks = scan(body, cut);
        cr_expect_eq(chunks.state, state, "%s cut at %zu: %d", body, cut, (int)chunks.state);
        if (state != CHUNKS_BROKEN)
            cr_expect_eq(chunks.data, data, "%s cut at %zu: %llu", body, cut,
                         (unsigned long long)chunks.data);
    }
}

Test(chunks, what_is_well_formed_ends_where_it_ends)
{
    expect_all_cuts("0\r\n\r\n", CHUNKS_DONE, 0);
    expect_all_cuts("3\r\nabc\r\n0\r\n\r\n", CHUNKS_DONE, 3);
    expect_all_cuts("3\r\n\r\n\n\r\n0\r\n\r\n", CHUNKS_DONE, 3);
    expect_all_cuts("001\r\na\r\n1F\r\n0123456789012345678901234567890\r\n00\r\n\r\n", CHUNKS_DONE,
                    32);
    expect_all_cuts("1;a=b;c=\"d e\"\r\na\r\n0;x\r\n\r\n", CHUNKS_DONE, 1);
    expect_all_cuts("1 \t;a\r\na\r\n0\r\n\r\n", CHUNKS_DONE, 1);
    expect_all_cuts("0\r\nA: b\r\nC:\r\n\r\n", CHUNKS_DONE, 0);
    expect_all_cuts("0\r\n\r\nPOST / HTTP/1.1\n\n", CHUNKS_DONE, 0);
}

Test(chunks, what_has_not_ended_is_not_done)
{
    static const char body[] = "2;x\r\nab\r\n0\r\nA: b\r\n\r\n";
    for (size_t len = 0; len < sizeof(body) - 1; len++) {
        char part[sizeof(body)] = "";
        memcpy(part, body, len);
        cr_expect_lt(scan(part, len / 2).state, CHUNKS_DONE, "%zu", len);
    }
}

Test(chunks, a_line_ends_in_cr_lf_and_nothing_else)
{
    static const char *const bodies[] = {
        "\r\n",
        "\n",
        " 1\r\na\r\n0\r\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
        "-1\r\na\r\n0\r\n\r\n",
        "g\r\na\r\n0\r\n\r\n",
        "1\na\r\n0\r\n\r\n",
        "1\r\na\n0\r\n\r\n",
        "1\r\na\r\r\n0\r\n\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "1\r\na0\r\n\r\n",
        "1\r\na\r\n0\n\r\n",
        "1\r\na\r\n0\r\n\n",
        "1\ra\r\n0\r\n\r\n",
        "1 a\r\na\r\n0\r\n\r\n",
        "1 \r\na\r\n0\r\n\r\n",
        "1;a\nb\r\na\r\n0\r\n\r\n",
        "1;a\001b\r\na\r\n0\r\n\r\n",
        "0\r\nA: b\n\r\n",
        "0\r\nA: b\r\n\n",
        "0\r\nA: b\r\n c\r\n\r\n",
        "0\r\nA b\r\n\r\n",
        "0\r\nGET / HTTP/1.1\r\n\r\n",
        "0\r\n: b\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        expect_all_cuts(bodies[i], CHUNKS_BROKEN, 0);
}

/* A size that no number can hold does not become a small one. */
Test(chunks, a_size_beyond_all_numbers)
{
    const struct chunks chunks = scan("10000000000000001\r\na\r\n0\r\n\r\n", 0);
    cr_expect_eq(chunks.state, CHUNKS_DATA);
    cr_expect_gt(chunks.left, UINT64_MAX / 2);
}

Test(chunks, a_body_that_is_not_chunked_is_left_alone)
{
    struct chunks chunks = {0};
    chunks_take(&chunks, "0\n", 2);
    cr_expect_eq(chunks.state, CHUNKS_NONE);
}
