/* The helpers of every room: characters, texts, keys, buffers, small files and shared libraries. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/buffer.h"
#include "agent/base/file.h"
#include "agent/base/key.h"
#include "agent/base/library.h"
#include "agent/base/text.h"
#include "agent/base/utf8.h"

/* ---- characters ---- */

static size_t encode(uint32_t code, char bytes[4])
{
    static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 0; code >>= 6)
        bytes[i] = (char)(size == 1 ? code : i > 0 ? 0x80 | (code & 0x3f) : leads[size] | code);
    return size;
}

Test(utf8, every_code_point_is_read_whole_and_no_part_of_it_is)
{
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        char bytes[4];
        uint32_t got = UINT32_MAX;
        size_t size = encode(code, bytes);
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        cr_assert_eq(utf8_decode(bytes, size, &got), surrogate ? 0 : size, "U+%04X", code);
        cr_assert_eq(got, surrogate ? UINT32_MAX : code);
        for (size_t cut = 1; cut < size; cut++)
            cr_assert_eq(utf8_decode(bytes, cut, &got), 0, "U+%04X, %zu bytes", code, cut);
    }
}

Test(utf8, of_two_bytes_only_the_shortest_form_is_one_character)
{
    for (unsigned word = 0; word < 0x10000; word++) {
        const char bytes[] = {(char)(word >> 8), (char)(word & 0xff)};
        unsigned lead = word >> 8, next = word & 0xff;
        bool pair = lead >= 0xc2 && lead <= 0xdf && next >= 0x80 && next <= 0xbf;
        uint32_t code;
        cr_assert_eq(utf8_decode(bytes, 2, &code), lead < 0x80 ? 1 : pair ? 2 : 0, "%04x", word);
    }
}

/* ---- texts and keys ---- */

Test(text, no_password_of_a_url_is_shown)
{
    static const char *const pairs[][2] = {
        {"redis://h", "redis://h"},
        {"`redis://h:6379/1` is", "`redis://h:6379/1` is"},
        {"rediss://[::1]:6379/", "rediss://[::1]:6379/"},
        {"redis://u:hunter2", "redis://u:***"},
        {"REDISS://[::1]:hunter2 x", "REDISS://[::1]:*** x"},
        {"redis://u:hunter2@h:1", "redis://***@h:1"},
        {"redis://u:hu/n?t#er@2@h:1", "redis://***@h:1"},
        {"redis://h:1?password=hunter2", "redis://h:1?***"},
        {"redis://h:1/hunter2", "redis://h:1/***"},
        {"redis://h:1#hunter2", "redis://h:1#***"},
        {"redis://u:x", "redis://u:*"},
        {"a redis://u:hunter2@h, redis://v:hunter2@h", "a redis://***@h, redis://***@h"},
        {"key redis.redis://u:hunter2@h:1: unknown", "key redis.redis://***@h:1: unknown"},
        {"redis[s]://[user[:password]@]host", "redis[s]://[user[:password]@]host"},
        {"redis:u:hunter2@h:1: is", "redis:***@h:1: is"},
        {"redis:/u:hunter2@h:1", "redis:/***@h:1"},
        {"redis:u:hunter2", "redis:u:***"},
        {"redis//u:hunter2@h:1", "***@h:1"},
        {"`u:hunter2@h:1` is", "`***@h:1` is"},
        {"redis.groups.u:hunter2@h:1.db: x", "***@h:1.db: x"},
        {"valkey://u:hunter2", "valkey://u:***"},
        {"redis+tls://u:hunter2@h", "redis+tls://***@h"},
        {"http://u:hunter2@h", "http://***@h"},
        {"redis://u: hunter2@h", "redis://***@h"},
        {"redis://u:pa'hun\"ter2@h", "redis://***@h"},
        {"redis://u:hunter2@h,redis://v:hunter2@h", "redis://***@h,redis://***@h"},
        {"unix:/x?password=hunter2&db=1", "unix:/x?password=***&db=1"},
        {"redis.groups.main.PASSWORD=hunter2", "redis.groups.main.PASSWORD=***"},
        {"a.yaml:1:9: redis: unknown key", "a.yaml:1:9: redis: unknown key"},
        {"in redis:6379 and redis:6379/1", "in redis:6379 and redis:6379/1"},
        {"me@h: at 10:00", "me@h: at 10:00"},
        {"http://h/x:y?z", "http://h/x:y?z"},
        {"`@`, `/`, `:` are %40", "`@`, `/`, `:` are %40"},
        {"://", "://"},
        {"redis://", "redis://"},
        {"redis://@", "redis://@"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        char text[80];
        snprintf(text, sizeof(text), "%s", pairs[i][0]);
        text_hide_passwords(text);
        cr_expect_str_eq(text, pairs[i][1], "%s: %s", pairs[i][0], text);
    }
}

Test(text, what_is_wrong_with_a_text_becomes_question_marks)
{
    static const struct {
        const char *text, *tame;
    } cases[] = {
        {"", ""},
        {"K\xc3\xb6nig", "K\xc3\xb6nig"},
        {"a\nb\x7f", "a?b?"},
        {"\xc2\x85.", "??."}, /* C1, of two bytes */
        {"\xe2\x82", "??"},   /* cut within a character */
        {"\xff\xfe", "??"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[16];
        snprintf(text, sizeof(text), "%s", cases[i].text);
        text_tame(text);
        cr_expect_str_eq(text, cases[i].tame);
        cr_expect_null(text_fault(text_of(text)));
        bool well = text_fault(text_of(cases[i].text)) == NULL;
        cr_expect_eq(well, text_is(text_of(text), cases[i].text));
    }
}

Test(key, the_agents_own_begin_with_its_name)
{
    cr_expect(key_is_agents_own(text_of("lockagent:fence")));
    cr_expect(key_is_agents_own(text_of("lockagent:")));
    cr_expect_not(key_is_agents_own(text_of("lockagent")));
    cr_expect_not(key_is_agents_own(text_of("jobs/lockagent:")));
    cr_expect_not(key_is_agents_own(text_of("")));
}

/* ---- buffers ---- */

Test(buffer, what_can_not_grow_is_cut_and_says_so)
{
    struct buffer out = {0};
    buffer_printf(&out, "%s-%d", "a", 1);
    buffer_add(&out, "x", SIZE_MAX / 2);
    cr_expect(out.failed);
    buffer_add(&out, "y", 1);
    cr_expect_str_eq(out.bytes, "a-1");
    buffer_free(&out);
    cr_expect(out.bytes == NULL && out.len == 0);
}

/* ---- files ---- */

Test(file, a_small_file_is_read_whole_and_a_larger_one_up_to_the_end_of_the_room)
{
    char path[] = "/tmp/lockagent-base-XXXXXX", bytes[8] = "........";
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, "12345", 5), 5);
    close(fd);
    cr_expect_eq(file_read_path(path, bytes, sizeof(bytes)), 5);
    cr_expect_arr_eq(bytes, "12345...", 8);
    cr_expect_eq(file_read_path(path, bytes, 3), 3);
    unlink(path);
    cr_expect_eq(file_read_path(path, bytes, sizeof(bytes)), -1);
    cr_expect_eq(errno, ENOENT);
}

Test(file, a_pipe_without_a_writer_is_empty_and_not_waited_for, .timeout = 5)
{
    char folder[] = "/tmp/lockagent-base-XXXXXX", path[64], byte;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/pipe", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(file_read_path(path, &byte, 1), 0);
    unlink(path);
    cr_expect_eq(rmdir(folder), 0);
}

/* ---- shared libraries ---- */

Test(library, a_function_is_called_through_its_pointer)
{
    double (*root)(double) = NULL;
    const struct library_function wanted[] = {{"sqrt", &root}};
    char why[200] = "";
    cr_assert(library_load("libm.so.6", wanted, 1, why, sizeof(why)), "%s", why);
    cr_assert_eq(root(9.0), 3.0);
}

Test(library, a_file_that_is_missing_is_named)
{
    double (*root)(double) = NULL;
    const struct library_function wanted[] = {{"sqrt", &root}};
    char why[200] = "";
    cr_assert_not(library_load("libnothing.so.3", wanted, 1, why, sizeof(why)));
    cr_assert_str_eq(why,
                     "libnothing.so.3: cannot open shared object file: No such file or directory");
    cr_assert_null(root);
}

Test(library, a_function_that_is_missing_is_named_with_its_file)
{
    double (*root)(double) = NULL, (*none)(double) = NULL;
    const struct library_function wanted[] = {{"sqrt", &root}, {"no_such_function", &none}};
    char why[200] = "";
    cr_assert_not(library_load("libm.so.6", wanted, 2, why, sizeof(why)));
    cr_assert_not_null(strstr(why, "libm.so.6: undefined symbol: no_such_function"), "%s", why);
    cr_assert_null(none);
}
