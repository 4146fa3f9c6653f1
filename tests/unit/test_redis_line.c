/* One connection to a peer that misbehaves: the replies of one iteration are bounded, no reply is
 * lost, and every end has its reason. */
#include <errno.h>
#include <fcntl.h>
#include <sys/un.h>

#include "agent/redis/line.h"
#include "redis_rig.h"

static struct stage {
    uv_loop_t loop;
    struct line line;
    struct config_address address;
    int listener, peer;
    bool connected, ended, closed, awaits, busy, closes_as_it_hears, more_follow;
    enum redis_fault fault;
    char why[160];
    unsigned heard, heard_this_turn, most_in_a_turn;
    long long sum;
} stage;

static void on_connected(void *owner)
{
    ((struct stage *)owner)->connected = true;
}

static bool awaits(const void *owner)
{
    return ((const struct stage *)owner)->awaits;
}

static bool on_heard(void *owner, const redisReply *reply)
{
    struct stage *at = owner;
    at->heard++;
    at->heard_this_turn++;
    if (at->closes_as_it_hears)
        line_close(&at->line);
    for (size_t i = 0; at->closes_as_it_hears && i < reply->elements; i++)
        at->sum += reply->element[i]->integer;
    at->sum += reply->type == REDIS_REPLY_INTEGER ? reply->integer : (long long)reply->elements;
    return !at->more_follow;
}

static void on_ended(void *owner, enum redis_fault fault, const char *why)
{
    struct stage *at = owner;
    cr_assert_not(at->ended, "it ends once");
    at->ended = true;
    at->fault = fault;
    snprintf(at->why, sizeof(at->why), "%s", why);
}

static void on_busy(void *owner)
{
    ((struct stage *)owner)->busy = true;
}

static void on_closed(void *owner)
{
    ((struct stage *)owner)->closed = true;
}

/* Runs one turn like the room: bytes that are left over first, then the loop. */
static void turn(void)
{
    stage.heard_this_turn = 0;
    if (stage.busy) {
        stage.busy = false;
        line_turn(&stage.line);
    } else {
        uv_run(&stage.loop, UV_RUN_NOWAIT);
    }
    if (stage.heard_this_turn > stage.most_in_a_turn)
        stage.most_in_a_turn = stage.heard_this_turn;
}

#define TURN_UNTIL(condition)                                                                      \
    do {                                                                                           \
        for (unsigned i_ = 0; i_ < 20000 && !(condition); i_++) {                                  \
            turn();                                                                                \
            usleep(100);                                                                           \
        }                                                                                          \
        cr_assert((condition), "%s", stage.why);                                                   \
    } while (0)

static void open_stage(void)
{
    static const struct line_calls calls = {on_connected, awaits,  on_heard,
                                            on_ended,     on_busy, on_closed};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char why[160];
    memset(&stage, 0, sizeof(stage));
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&stage.loop);
    snprintf(name.sun_path, sizeof(name.sun_path), "/tmp/lockagent-line-%d", (int)getpid());
    unlink(name.sun_path);
    stage.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(stage.listener, (struct sockaddr *)&name, sizeof(name)), 0);
    cr_assert_eq(listen(stage.listener, 1), 0);
    stage.address.is_unix = true;
    snprintf(stage.address.host, sizeof(stage.address.host), "%s", name.sun_path);
    stage.awaits = true;
    cr_assert(line_open(&stage.line, &stage.loop, &(struct line_end){&stage.address, "", NULL},
                        &calls, &stage, why, sizeof(why)),
              "%s", why);
    stage.peer = accept(stage.listener, NULL, NULL);
    cr_assert_geq(stage.peer, 0);
    unlink(name.sun_path);
    TURN_UNTIL(stage.connected);
}

static void close_stage(void)
{
    line_close(&stage.line);
    line_close(&stage.line);
    TURN_UNTIL(stage.closed);
    cr_assert_eq(uv_loop_close(&stage.loop), 0);
    close(stage.peer);
    close(stage.listener);
}

static void peer_says(const char *text)
{
    cr_assert_eq(send(stage.peer, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* The others have their turn in between. Bytes that are left over are read although the peer sends
 * nothing more. */
Test(line, so_many_replies_a_turn_and_none_is_lost)
{
    enum { REPLIES = 1000 };
    char text[REPLIES * 8] = "";
    open_stage();
    for (unsigned i = 0; i < REPLIES; i++)
        snprintf(text + strlen(text), 8, ":%u\r\n", i % 10);
    peer_says(text);
    TURN_UNTIL(stage.heard == REPLIES);
    cr_assert_eq(stage.sum, REPLIES / 10 * 45);
    cr_assert_eq(stage.most_in_a_turn, LINE_REPLIES_A_TURN);
    peer_says(":5\r\n");
    TURN_UNTIL(stage.heard == REPLIES + 1);
    cr_assert_not(stage.ended);
    close_stage();
}

/* R24: the replies to the commands before EXEC count with EXEC's. */
Test(line, r24_replies_before_the_last_one_to_a_command_do_not_count)
{
    enum { REPLIES = LINE_READ_BYTES / 4 };
    char text[LINE_READ_BYTES + 1] = "";
    cr_assert_gt(REPLIES, LINE_REPLIES_A_TURN);
    open_stage();
    stage.more_follow = true;
    for (unsigned i = 0; i < REPLIES; i++)
        memcpy(text + 4 * i, ":1\r\n", 5);
    peer_says(text);
    TURN_UNTIL(stage.heard == REPLIES);
    cr_assert_eq(stage.most_in_a_turn, REPLIES);
    cr_assert_not(stage.ended);
    close_stage();
}

Test(line, a_turn_reads_no_more_than_it_may)
{
    enum { BULK = 60000 };
    static char text[BULK + 64];
    open_stage();
    int at = snprintf(text, sizeof(text), "*1\r\n$%d\r\n", BULK);
    memset(text + at, 'a', BULK);
    memcpy(text + at + BULK, "\r\n", 3);
    peer_says(text);
    unsigned turns = 0;
    for (; stage.heard == 0; turns++) {
        turn();
        cr_assert_lt(turns, 1000);
    }
    cr_assert_geq(turns, BULK / LINE_READ_BYTES);
    close_stage();
}

/* The owner may close the line at a reply, and go on reading the reply, even one so large that it
 * spills out of the line's own memory. */
Test(line, a_reply_outlives_the_line_that_is_closed_at_it)
{
    enum { ELEMENTS = 1000 };
    char text[ELEMENTS * 8];
    open_stage();
    stage.closes_as_it_hears = true;
    int len = snprintf(text, sizeof(text), "*%d\r\n", ELEMENTS);
    for (unsigned i = 0; i < ELEMENTS; i++)
        len += snprintf(text + len, sizeof(text) - (size_t)len, ":%u\r\n", i % 10);
    peer_says(text);
    TURN_UNTIL(stage.heard == 1);
    cr_assert_eq(stage.sum, ELEMENTS + ELEMENTS / 10 * 45);
    close_stage();
}

Test(line, each_end_has_its_kind_and_reason)
{
    static const struct {
        const char *text;
        bool awaits;
        enum redis_fault fault;
        const char *why;
    } cases[] = {
        {"+OK\r\n", false, REDIS_FAULT_SURPLUS, "an unexpected reply"},
        {"*", false, REDIS_FAULT_SURPLUS, "an unexpected reply"},
        {"*2147483647\r\n", true, REDIS_FAULT_OVERSIZED, "beyond 64 KiB"},
        {"$2147483647\r\n", true, REDIS_FAULT_OVERSIZED, "beyond 64 KiB"},
        {">1\r\n", true, REDIS_FAULT_MALFORMED, "it sent something else than a reply"},
        {"", true, REDIS_FAULT_NONE,
         "the master closed the connection before its first reply: a port for TLS (rediss://)?"},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_stage();
        stage.awaits = cases[i].awaits;
        if (*cases[i].text)
            peer_says(cases[i].text);
        else
            shutdown(stage.peer, SHUT_RDWR);
        TURN_UNTIL(stage.ended);
        cr_assert_eq(stage.fault, cases[i].fault, "%s", cases[i].text);
        cr_assert(strstr(stage.why, cases[i].why), "%s", stage.why);
        cr_assert_not(line_put(&stage.line, "x", 1), "it has ended");
        for (unsigned j = 0; j < 10; j++)
            turn();
        cr_assert_eq(stage.heard, 0);
        close_stage();
    }
}

/* ---- a peer that reads slowly ---- */

enum { PIECE = 4096 };

static unsigned char byte_at(size_t at)
{
    return (unsigned char)((unsigned)at * 2654435761u >> 24);
}

/* Puts the bytes of these places. */
static void put_bytes(size_t from, size_t to)
{
    unsigned char piece[PIECE];
    for (size_t at = from; at < to; at += PIECE) {
        for (size_t i = 0; i < PIECE; i++)
            piece[i] = byte_at(at + i);
        cr_assert(line_put(&stage.line, (char *)piece, PIECE));
    }
}

/* Reads bytes from the place `got` on, in turns, until at least `until` are read. Returns how many
 * are read. */
static size_t read_bytes(size_t got, size_t until)
{
    static unsigned char back[1 << 16];
    for (unsigned turns = 0; got < until && turns < 100000; turns++) {
        ssize_t count = recv(stage.peer, back, sizeof(back), 0);
        for (ssize_t i = 0; i < count; i++, got++)
            cr_assert_eq(back[i], byte_at(got), "byte %zu", got);
        turn();
    }
    return got;
}

/* The bytes wait, in order, and all of them arrive; beyond the bound none are taken. */
Test(line, what_is_not_taken_at_once_waits_in_order)
{
    enum { BYTES = 4 << 20 };
    open_stage();
    put_bytes(0, BYTES);
    turn();
    turn();
    cr_assert_gt(line_unwritten(&stage.line), 0);
    fcntl(stage.peer, F_SETFL, O_NONBLOCK);
    cr_assert_eq(read_bytes(0, BYTES), BYTES);
    cr_assert_eq(line_unwritten(&stage.line), 0);
    cr_assert_eq(stage.line.written, BYTES);
    char piece[PIECE] = {0};
    while (line_put(&stage.line, piece, PIECE))
        cr_assert_leq(line_unwritten(&stage.line), LINE_UNWRITTEN_BYTES_MAX + PIECE);
    cr_assert_gt(line_unwritten(&stage.line), LINE_UNWRITTEN_BYTES_MAX);
    cr_assert_not(stage.ended);
    close_stage();
}

/* The peer has taken most of the bytes. Further ones are put behind the rest of them. */
Test(line, what_is_put_behind_a_rest_comes_after_it)
{
    enum { BYTES = 4 << 20, MOST = BYTES / 4 * 3 };
    open_stage();
    put_bytes(0, BYTES);
    fcntl(stage.peer, F_SETFL, O_NONBLOCK);
    size_t got = read_bytes(0, MOST);
    cr_assert_gt(line_unwritten(&stage.line), 0);
    put_bytes(BYTES, BYTES + MOST);
    cr_assert_eq(read_bytes(got, BYTES + MOST), BYTES + MOST);
    cr_assert_not(stage.ended);
    close_stage();
}
