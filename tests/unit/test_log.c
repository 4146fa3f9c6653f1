/* Log lines: golden lines in both formats, bytes of strangers, long lines, and a reader that does
 * not read. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "agent/log.h"
#include "config/config.h"

enum { STAMP = sizeof("2026-11-21T10:00:00.123Z") - 1, LINE_MAX = 4096 };

static int reader = -1;
static char got[1 << 17];

/* Replaces stderr by a pipe of this test. */
static void catch_stderr(void)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
    close(ends[1]);
    reader = ends[0];
    fcntl(reader, F_SETFL, O_NONBLOCK);
}

/* Returns the same numbers in every run. */
static uint32_t random_from(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* Returns the bytes that were written to stderr since the last call. */
static const char *caught(void)
{
    ssize_t len = read(reader, got, sizeof(got) - 1);
    got[len > 0 ? len : 0] = '\0';
    return got;
}

/* Returns the line after its time. The form of the time is checked. */
static const char *caught_text(void)
{
    const char *form = "dddd-dd-ddTdd:dd:dd.dddZ", *line = caught();
    for (size_t i = 0; i < STAMP; i++)
        cr_assert(form[i] == 'd' ? line[i] >= '0' && line[i] <= '9' : line[i] == form[i],
                  "no time: %s", line);
    return line + STAMP;
}

static const char *caught_json(void)
{
    const char *line = caught();
    cr_assert_eq(strncmp(line, "{\"ts\":\"", 7), 0);
    return line + 7 + STAMP;
}

TestSuite(log, .init = catch_stderr, .timeout = 20);

/* ---- golden lines ---- */

Test(log, text_line)
{
    log_setup(LOG_DEBUG, LOG_TEXT);
    log_event(LOG_INFO, "lock lost", LOG_BYTES_FIELD("key", ((struct text){"jobs/1xxx", 6})),
              LOG_TEXT_FIELD("reason", "taken"), LOG_INT_FIELD("held_ms", -12));
    cr_expect_str_eq(caught_text(), " INFO  lock lost key=jobs/1 reason=taken held_ms=-12\n");
    log_event(LOG_ERROR, "x", LOG_INT_FIELD("n", INT64_MIN));
    cr_expect_str_eq(caught_text(), " ERROR x n=-9223372036854775808\n");
    log_event(LOG_DEBUG, "x", LOG_INT_FIELD("n", INT64_MAX));
    cr_expect_str_eq(caught_text(), " DEBUG x n=9223372036854775807\n");
    log_write(LOG_WARN, "alone", NULL, 0);
    cr_expect_str_eq(caught_text(), " WARN  alone\n");
}

Test(log, json_line)
{
    log_setup(LOG_DEBUG, LOG_JSON);
    log_event(LOG_INFO, "lock lost", LOG_BYTES_FIELD("key", ((struct text){"jobs/1xxx", 6})),
              LOG_TEXT_FIELD("reason", "taken"), LOG_INT_FIELD("held_ms", -12));
    cr_expect_str_eq(caught_json(),
                     "\",\"level\":\"info\",\"msg\":\"lock "
                     "lost\",\"key\":\"jobs/1\",\"reason\":\"taken\",\"held_ms\":-12}\n");
    log_write(LOG_ERROR, "alone", NULL, 0);
    cr_expect_str_eq(caught_json(), "\",\"level\":\"error\",\"msg\":\"alone\"}\n");
}

Test(log, text_values_are_quoted_where_they_could_be_misread)
{
    static const struct {
        const char *value, *printed;
    } golden[] = {
        {"plain", "plain"},
        {"", "\"\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"c:\\d", "\"c:\\\\d\""},
        {"caf\xc3\xa9/\xe9\x94\x81/\xf0\x9f\x94\x92", "caf\xc3\xa9/\xe9\x94\x81/\xf0\x9f\x94\x92"},
        {"a\nINFO forged", "\"a\\nINFO forged\""},
        {"\x1b[2J", "\"\\u001b[2J\""},
        {"\x7f\xc2\x9b", "\"\\u007f\\u009b\""},
        {"\xe2\x80\xae"
         "txt",
         "\"\\u202etxt\""},
        {"\xff\xfe", "\"\\xff\\xfe\""},
        {"\xc0\xaf", "\"\\xc0\\xaf\""},                   /* overlong */
        {"\xed\xa0\x80", "\"\\xed\\xa0\\x80\""},          /* a surrogate */
        {"\xf4\x90\x80\x80", "\"\\xf4\\x90\\x80\\x80\""}, /* above U+10FFFF */
        {"\xe9\x94", "\"\\xe9\\x94\""},                   /* cut short */
        {"\t", "\"\\t\""},
        {NULL, "\"\""},
    };
    log_setup(LOG_INFO, LOG_TEXT);
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        char expected[256];
        log_event(LOG_INFO, "m", LOG_TEXT_FIELD("v", golden[i].value));
        snprintf(expected, sizeof(expected), " INFO  m v=%s\n", golden[i].printed);
        cr_expect_str_eq(caught_text(), expected);
    }
}

Test(log, json_values_are_escaped)
{
    static const struct {
        const char *value, *printed;
    } golden[] = {
        {"two words a=b", "two words a=b"},
        {"say \"hi\" c:\\d", "say \\\"hi\\\" c:\\\\d"},
        {"a\n\t\r\x01", "a\\n\\t\\u000d\\u0001"},
        {"\x1b[2J\x7f\xc2\x9b\xe2\x80\xae", "\\u001b[2J\\u007f\\u009b\\u202e"},
        {"a\xff\xc0\xaf"
         "b",
         "a\\ufffd\\ufffd\\ufffdb"},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
    };
    log_setup(LOG_INFO, LOG_JSON);
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        char expected[256];
        log_event(LOG_INFO, "m", LOG_TEXT_FIELD("v", golden[i].value));
        snprintf(expected, sizeof(expected), "\",\"level\":\"info\",\"msg\":\"m\",\"v\":\"%s\"}\n",
                 golden[i].printed);
        cr_expect_str_eq(caught_json(), expected);
    }
}

/* All bytes, NUL among them, at all positions: always one line, and always JSON that another parser
 * reads. */
Test(log, random_bytes_make_one_line_of_valid_json)
{
    char bytes[6000];
    uint32_t state = 1;
    log_setup(LOG_INFO, LOG_JSON);
    for (int round = 0; round < 2000; round++) {
        size_t len = random_from(&state) % (round % 10 == 0 ? sizeof(bytes) : 200);
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)random_from(&state);
        log_event(LOG_INFO, "m", LOG_BYTES_FIELD("v", ((struct text){bytes, len})),
                  LOG_INT_FIELD("n", round));
        const char *line = caught();
        size_t end = strlen(line);
        cr_assert(end > 0 && end <= LINE_MAX && strchr(line, '\n') == line + end - 1);
        json_error_t error;
        json_t *json = json_loads(line, JSON_ALLOW_NUL, &error);
        cr_assert(json != NULL, "%s: %s", error.text, line);
        json_decref(json);
    }
}

Test(log, random_bytes_make_one_printable_line_of_text)
{
    char bytes[300];
    uint32_t state = 2;
    log_setup(LOG_INFO, LOG_TEXT);
    for (int round = 0; round < 2000; round++) {
        size_t len = random_from(&state) % sizeof(bytes);
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)random_from(&state);
        log_event(LOG_INFO, "m", LOG_BYTES_FIELD("v", ((struct text){bytes, len})));
        const char *line = caught();
        size_t end = strlen(line);
        cr_assert(end > 0 && end <= LINE_MAX);
        for (size_t i = 0; i < end - 1; i++)
            cr_assert((unsigned char)line[i] >= 0x20 && line[i] != 0x7f, "byte %zu of %s", i, line);
        cr_assert_eq(line[end - 1], '\n');
    }
}

/* ---- long lines ---- */

/* Every length around the limit, so that the cut falls on each part of a field once. */
Test(log, long_lines_are_cut_and_say_so)
{
    static char bytes[2 * LINE_MAX];
    memset(bytes, 'a', sizeof(bytes));
    for (int format = LOG_TEXT; format <= LOG_JSON; format++) {
        log_setup(LOG_INFO, format);
        for (size_t len = LINE_MAX - 200; len < LINE_MAX + 100; len++) {
            log_event(LOG_INFO, "m", LOG_BYTES_FIELD("v", ((struct text){bytes, len})),
                      LOG_INT_FIELD("number", 123456789), LOG_TEXT_FIELD("last", "two words"));
            const char *line = caught();
            size_t end = strlen(line);
            bool whole = strstr(line, "two words") != NULL;
            cr_assert(end > 0 && end <= LINE_MAX && line[end - 1] == '\n', "%zu bytes: %s", end,
                      line);
            cr_assert(strstr(line, "number") == NULL || strstr(line, "123456789") != NULL,
                      "half a number: %s", line);
            if (format == LOG_JSON) {
                json_t *json = json_loads(line, 0, NULL);
                cr_assert(json != NULL, "%s", line);
                cr_assert_eq(json_is_true(json_object_get(json, "cut")), !whole);
                json_decref(json);
            } else {
                cr_assert_eq(strstr(line, " \xe2\x80\xa6\n") != NULL, !whole);
            }
        }
    }
}

Test(log, a_cut_never_falls_inside_a_character)
{
    static char bytes[3 * LINE_MAX];
    for (size_t i = 0; i + 3 <= sizeof(bytes); i += 3)
        memcpy(bytes + i, "\xe9\x94\x81", 3);
    log_setup(LOG_INFO, LOG_JSON);
    for (size_t shift = 0; shift < 3; shift++) {
        log_event(LOG_INFO, &"xx"[shift],
                  LOG_BYTES_FIELD("v", ((struct text){bytes, sizeof(bytes)})));
        const char *line = caught();
        json_t *json = json_loads(line, 0, NULL);
        cr_assert(json != NULL, "%s", line);
        const char *value = json_string_value(json_object_get(json, "v"));
        cr_expect_eq(strlen(value) % 3, 0);
        cr_expect_str_eq(value + strlen(value) - 3, "\xe2\x80\xa6");
        json_decref(json);
    }
}

/* ---- levels, formats, time ---- */

Test(log, levels_below_the_chosen_one_are_silent)
{
    log_setup(LOG_WARN, LOG_TEXT);
    log_event(LOG_DEBUG, "m", LOG_INT_FIELD("n", 1));
    log_event(LOG_INFO, "m", LOG_INT_FIELD("n", 1));
    cr_expect_str_eq(caught(), "");
    log_event(LOG_WARN, "m", LOG_INT_FIELD("n", 1));
    cr_expect_str_eq(caught_text(), " WARN  m n=1\n");
    log_setup(LOG_DEBUG, LOG_TEXT);
    cr_expect(log_is_on(LOG_DEBUG));
}

Test(log, a_pipe_gets_json_unless_text_was_asked_for)
{
    log_write(LOG_INFO, "before setup", NULL, 0);
    caught_json();
    log_setup(LOG_INFO, LOG_AUTO);
    log_write(LOG_INFO, "m", NULL, 0);
    caught_json();
    log_setup(LOG_INFO, LOG_TEXT);
    log_write(LOG_INFO, "m", NULL, 0);
    caught_text();
}

static int open_terminal(void)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int theirs = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    cr_assert(theirs >= 0 && dup2(theirs, STDERR_FILENO) >= 0);
    close(theirs);
    close(reader);
    reader = terminal;
    fcntl(reader, F_SETFL, O_NONBLOCK);
    return terminal;
}

Test(log, a_terminal_gets_text)
{
    open_terminal();
    log_setup(LOG_INFO, LOG_AUTO);
    log_write(LOG_INFO, "m", NULL, 0);
    cr_expect_str_eq(caught_text(), " INFO  m\r\n");
}

Test(log, the_time_is_now_in_utc)
{
    struct tm parts = {0};
    setenv("TZ", "America/St_Johns", 1);
    tzset();
    log_setup(LOG_INFO, LOG_TEXT);
    for (int i = 0; i < 3; i++) {
        time_t before = time(NULL);
        log_write(LOG_INFO, "m", NULL, 0);
        cr_assert(strptime(caught(), "%Y-%m-%dT%H:%M:%S", &parts) != NULL);
        time_t then = timegm(&parts);
        cr_expect(then >= before && then <= before + 2);
        usleep(600000);
    }
}

/* ---- readers that have stopped ---- */

/* The loop must not wait for a reader: a line that does not fit is dropped, whole, and counted. */
Test(log, a_full_pipe_drops_whole_lines_and_counts_them)
{
    enum { LINES = 3000 };
    char pad[200];
    memset(pad, 'p', sizeof(pad));
    log_setup(LOG_INFO, LOG_JSON);
    for (int i = 0; i < LINES; i++)
        log_event(LOG_INFO, "m", LOG_BYTES_FIELD("pad", ((struct text){pad, sizeof(pad)})),
                  LOG_INT_FIELD("n", i));
    uint64_t dropped = log_dropped();
    cr_expect(dropped > 0 && dropped < LINES);
    cr_expect_not(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK,
                  "the flags of stderr are not ours to change");

    size_t lines = 0, len = 0;
    static char all[1 << 20];
    for (ssize_t more; (more = read(reader, all + len, sizeof(all) - 1 - len)) > 0;)
        len += (size_t)more;
    for (const char *at = all, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        json_t *json = json_loadb(at, (size_t)(end - at), 0, NULL);
        cr_assert(json != NULL);
        json_decref(json);
        lines++;
    }
    cr_expect_eq(lines + dropped, LINES);

    log_write(LOG_INFO, "again", NULL, 0);
    cr_expect_str_eq(caught_json(), "\",\"level\":\"info\",\"msg\":\"again\"}\n");
    cr_expect_eq(log_dropped(), dropped);
}

Test(log, a_reader_that_is_gone_costs_lines_only)
{
    signal(SIGPIPE, SIG_IGN);
    close(reader);
    log_setup(LOG_INFO, LOG_JSON);
    log_write(LOG_INFO, "m", NULL, 0);
    log_write(LOG_INFO, "m", NULL, 0);
    cr_expect_eq(log_dropped(), 2);
}

/* The user pressed Ctrl-S. */
Test(log, a_held_terminal_drops_lines)
{
    int terminal = open_terminal();
    log_setup(LOG_INFO, LOG_TEXT);
    cr_assert_eq(tcflow(STDERR_FILENO, TCOOFF), 0);
    log_write(LOG_INFO, "held", NULL, 0);
    cr_expect_eq(log_dropped(), 1);
    cr_assert_eq(tcflow(STDERR_FILENO, TCOON), 0);
    log_write(LOG_INFO, "m", NULL, 0);
    cr_expect_str_eq(caught_text(), " INFO  m\r\n");
    close(terminal);
}

/* Another process may make stderr non-blocking. It may take a part of a line then, and the next
 * line starts on its own. */
Test(log, a_line_that_was_taken_in_part_does_not_spoil_the_next)
{
    static char value[3500];
    bool torn = false;
    memset(value, 'v', sizeof(value));
    open_terminal();
    fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    log_setup(LOG_INFO, LOG_JSON);
    while (log_dropped() == 0)
        log_event(LOG_INFO, "m", LOG_BYTES_FIELD("v", ((struct text){value, sizeof(value)})));
    while (*caught() != '\0')
        torn = got[strlen(got) - 1] != '\n';
    cr_assert(torn, "no line was taken in part");
    log_write(LOG_INFO, "again", NULL, 0);
    cr_expect_eq(strncmp(caught(), "\r\n{\"ts\"", 7), 0, "%s", got);
    log_write(LOG_INFO, "again", NULL, 0);
    cr_expect_eq(strncmp(caught(), "{\"ts\"", 5), 0, "%s", got);
}

Test(log, a_file_gets_every_line)
{
    char path[] = "/tmp/lockagent-log.XXXXXX";
    int file = mkstemp(path);
    cr_assert(file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    unlink(path);
    log_setup(LOG_INFO, LOG_TEXT);
    for (int i = 0; i < 1000; i++)
        log_event(LOG_INFO, "m", LOG_INT_FIELD("n", i));
    cr_expect_eq(log_dropped(), 0);
    struct stat status;
    fstat(file, &status);
    cr_expect_gt(status.st_size, 1000 * (off_t)(STAMP + sizeof(" INFO  m n=0")));
    close(file);
}
