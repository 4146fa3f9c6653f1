/* Tables of the Redis room that need no loop: commands in RESP, and the channels of watched
 * keys. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/asking.h"
#include "agent/redis/channels.h"

/* ---- commands ---- */

static char memory[4096];
static struct resp resp = {.bytes = memory, .size = sizeof(memory)};

static void expect_command(struct text got, const char *expected)
{
    cr_assert_eq(got.len, strlen(expected), "%.*s", (int)got.len, got.at);
    cr_assert_eq(memcmp(got.at, expected, got.len), 0, "%.*s", (int)got.len, got.at);
}

Test(redis_tables, what_counts_the_arguments_is_written_last_and_stands_first)
{
    resp_begin(&resp);
    resp_text(&resp, "SET");
    resp_bytes(&resp, "a\0b", 3);
    resp_number(&resp, UINT64_MAX);
    static const char expected[] =
        "*3\r\n$3\r\nSET\r\n$3\r\na\0b\r\n$20\r\n18446744073709551615\r\n";
    struct text got = resp_end(&resp);
    cr_assert_eq(got.len, sizeof(expected) - 1);
    cr_assert_eq(memcmp(got.at, expected, got.len), 0);
    resp_begin(&resp);
    expect_command(resp_end(&resp), "*0\r\n");
    resp_begin(&resp);
    for (unsigned i = 0; i < 100; i++)
        resp_number(&resp, 0);
    cr_assert_eq(memcmp(resp_end(&resp).at, "*100\r\n$1\r\n0\r\n", 12), 0);
}

Test(redis_tables, what_is_put_first_stands_in_front_of_what_was_there)
{
    resp_begin(&resp);
    resp_joined(&resp, (struct text){"fence:", 6}, (struct text){"", 0}, (struct text){"k", 1});
    resp_number_first(&resp, resp.args);
    resp_text_first(&resp, "sha");
    resp_text_first(&resp, "EVALSHA");
    expect_command(resp_end(&resp),
                   "*4\r\n$7\r\nEVALSHA\r\n$3\r\nsha\r\n$1\r\n1\r\n$7\r\nfence:k\r\n");
}

Test(redis_tables, the_longest_front_has_room)
{
    char sha[41];
    memset(sha, 'a', 40);
    sha[40] = '\0';
    resp_begin(&resp);
    resp_number_first(&resp, UINT64_MAX);
    resp_text_first(&resp, sha);
    resp_text_first(&resp, "EVALSHA");
    resp.args = UINT32_MAX;
    cr_assert_eq(memcmp(resp_end(&resp).at, "*4294967295\r\n", 13), 0);
}

Test(redis_tables, nothing_of_a_secret_stays)
{
    resp_begin(&resp);
    resp_text(&resp, "AUTH");
    resp_text(&resp, "the-password");
    resp_end(&resp);
    resp_wipe(&resp);
    cr_assert_null(memmem(memory, sizeof(memory), "the-password", 12));
    cr_assert_null(memmem(memory, sizeof(memory), "AUTH", 4));
}

/* ---- channels ---- */

static const uint64_t hash_key[2] = {1, 2};
static struct channels channels;
static unsigned acted;

static struct text text_of(const char *text)
{
    return (struct text){text, strlen(text)};
}

Test(redis_tables, a_channel_is_found_by_group_and_name)
{
    channels_init(&channels, hash_key);
    const struct channel *one = channels_add(&channels, 0, FORM_PLAIN, "lock:", text_of("k"));
    const struct channel *other = channels_add(&channels, 1, FORM_PLAIN, "lock:", text_of("k"));
    cr_assert_eq(channel_key(one).len, 1);
    cr_assert_eq(channels_find(&channels, 0, text_of("lockagent:channel:lock:k")), one);
    cr_assert_eq(channels_find(&channels, 1, text_of("lockagent:channel:lock:k")), other);
    cr_assert_null(channels_find(&channels, 2, text_of("lockagent:channel:lock:k")));
    cr_assert_null(channels_find(&channels, 0, text_of("lockagent:channel:lock:")));
    struct channel *taken = channels_take(&channels, 0, FORM_PLAIN, "lock:", text_of("k"));
    cr_assert_eq(taken, one);
    free(taken);
    cr_assert_null(channels_find(&channels, 0, text_of("lockagent:channel:lock:k")));
    cr_assert_eq(channels.watched[0] + channels.watched[1], 1);
    channels_free(&channels);
}

/* There was no memory to add it. */
/* R22: the channel's name is Redisson's. It is in braces, unless the name has a brace, in the
 * prefix or after it. */
Test(redis_tables, r22_a_channel_of_redisson_has_its_braces)
{
    static const struct {
        const char *prefix, *key, *name;
    } names[] = {
        {"lock:", "k", "redisson_lock__channel:{lock:k}"},
        {"{lock}:", "k", "redisson_lock__channel:{lock}:k"},
        {"lock:", "a{b}", "redisson_lock__channel:lock:a{b}"},
    };
    channels_init(&channels, hash_key);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct text key = text_of(names[i].key);
        const struct channel *channel =
            channels_add(&channels, 0, FORM_REDISSON, names[i].prefix, key);
        cr_assert_eq(channel->len, strlen(names[i].name));
        cr_assert_arr_eq(channel->name, names[i].name, channel->len);
        free(channels_take(&channels, 0, FORM_REDISSON, names[i].prefix, key));
    }
    channels_free(&channels);
}

Test(redis_tables, a_channel_that_was_never_added_is_not_taken)
{
    channels_init(&channels, hash_key);
    channels_add(&channels, 0, FORM_PLAIN, "lock:", text_of("k"));
    cr_assert_null(channels_take(&channels, 0, FORM_PLAIN, "lock:", text_of("l")));
    cr_assert_null(channels_take(&channels, 1, FORM_PLAIN, "lock:", text_of("k")));
    cr_assert_eq(channels.watched[0], 1);
    channels_free(&channels);
}

/* Takes out the own channel at every other call. */
static void act(void *arg, const struct channel *channel)
{
    cr_assert_eq(arg, &channels);
    cr_assert_eq(channel->group, 3);
    if (acted++ % 2 == 0)
        free(channels_take(&channels, 3, FORM_PLAIN, "lock:", channel_key(channel)));
}

Test(redis_tables, a_walk_comes_by_each_channel_once_though_they_go_meanwhile)
{
    enum { COUNT = 2 * CHANNEL_BUCKETS };
    channels_init(&channels, hash_key);
    for (unsigned i = 0; i < COUNT; i++) {
        char key[16];
        snprintf(key, sizeof(key), "k%u", i);
        channels_add(&channels, i % 2 == 0 ? 3 : 4, FORM_PLAIN, "lock:", text_of(key));
    }
    channels_walk(&channels, 3, act, &channels);
    cr_assert_eq(acted, COUNT / 2);
    cr_assert_eq(channels.watched[3], COUNT / 4);
    cr_assert_eq(channels.watched[4], COUNT / 2);
    acted = 1; /* an odd number: none goes first */
    channels_walk(&channels, 3, act, &channels);
    cr_assert_eq(acted, 1 + COUNT / 4);
    channels_free(&channels);
}

/* Names that fall into one bucket under one secret are spread under another. */
Test(redis_tables, the_secret_decides_where_a_channel_is)
{
    unsigned moved = 0;
    for (unsigned i = 0; i < 64; i++) {
        char key[16];
        size_t place[2] = {0, 0};
        snprintf(key, sizeof(key), "k%u", i);
        for (unsigned secret = 0; secret < 2; secret++) {
            channels_init(&channels, (uint64_t[]){secret, 7});
            channels_add(&channels, 0, FORM_PLAIN, "lock:", text_of(key));
            while (channels.buckets[place[secret]] == NULL)
                place[secret]++;
            channels_free(&channels);
        }
        moved += place[0] != place[1];
    }
    cr_assert_geq(moved, 60);
}
