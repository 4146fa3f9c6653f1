/* Asks the keyspace and the server the same, and compares the replies and all keys. */
#include "differential.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 20, START_MS = 10000 };

struct server server;

/* Replies that a run must have had, and how often at the least. A run that exercised nothing has
 * compared nothing. In the mean of 12 seeds each reply came 1.6 times as often as this or more
 * often: the least is 3.6 standard deviations below the mean, or more. */
static struct {
    const char *contains;
    unsigned least, count; /* in 20,000 calls */
} kinds[] = {
    {"$6\r\nhanded\r\n", 100, 0},   {"$7\r\nguarded\r\n", 30, 0},
    {"$4\r\nheld\r\n", 1000, 0},    {"$7\r\nforeign\r\n", 500, 0},
    {"$8\r\nrepaired\r\n", 200, 0}, {"$11\r\nmisnumbered\r\n", 4, 0},
    {"$3\r\nyes\r\n", 150, 0},      {"-OOM ", 20, 0},
    {"-WRONGTYPE ", 500, 0},        {"on @user_script:", 500, 0},
    {"user_script:", 500, 0},       {":1760000000000001\r\n", 25, 0},
    {"$1\r\nr\r\n", 20, 0},         {"$1\r\nw\r\n", 20, 0},
    {"$5\r\nmoved\r\n", 30, 0},     {"$7\r\nadopted\r\n", 20, 0},
    {"-EXECABORT ", 20, 0},         {"+OK\r\n:1\r\n", 50, 0},
    {"$-1\r\n:0\r\n", 50, 0},       {"+OK\r\n*2\r\n$10\r\n", 30, 0},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

void server_stop(void)
{
    if (server.pid > 0) {
        kill(server.pid, SIGKILL);
        waitpid(server.pid, NULL, 0);
    }
    unlink(server.socket);
    unlink(server.clock);
    rmdir(server.dir);
}

void fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "seed %llu, call %u: ", (unsigned long long)d.seed, d.call);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    server_stop();
    exit(1);
}

/* ---- the server ---- */

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", server.socket);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Returns a number of the server's INFO. */
static long long replication_number(const char *field)
{
    static const char ask[] = "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";
    send_all(server.commands, ask, sizeof ask - 1);
    struct bytes said = receive(server.commands);
    const char *at = memmem(said.at, said.len, field, strlen(field));
    if (at == NULL)
        fail("the server's INFO has no %s", field);
    return strtoll(at + strlen(field), NULL, 10);
}

/* From the first replica on the server counts all bytes that are sent to replicas. */
static void begin_backlog(void)
{
    static const char psync[] = "PSYNC ? -1\r\n";
    int replica = dial();
    send_all(replica, psync, sizeof psync - 1);
    for (int ms = 0; ms < START_MS && replication_number("repl_backlog_active:") == 0; ms++)
        usleep(1000);
    if (replication_number("repl_backlog_active:") == 0)
        fail("the server has no backlog");
    close(replica);
    tell_server(3, (const char *const[]){"DEBUG", "SET-ACTIVE-EXPIRE", "0"});
}

void server_start(const char *preload)
{
    strcpy(server.dir, "/tmp/lockagent-differential-XXXXXX");
    if (mkdtemp(server.dir) == NULL)
        fail("mkdtemp: %s", strerror(errno));
    snprintf(server.socket, sizeof server.socket, "%s/s", server.dir);
    snprintf(server.clock, sizeof server.clock, "%s/clock", server.dir);
    int clock = open(server.clock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (clock < 0 || ftruncate(clock, sizeof *server.now_us) != 0)
        fail("%s: %s", server.clock, strerror(errno));
    server.now_us = mmap(NULL, sizeof *server.now_us, PROT_READ | PROT_WRITE, MAP_SHARED, clock, 0);
    close(clock);
    *server.now_us = 1700000000000000;
    server.pid = fork();
    if (server.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("LD_PRELOAD", preload, 1);
        setenv("STILL_CLOCK", server.clock, 1);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", server.socket,
               "--dir", server.dir, "--save", "", "--appendonly", "no", "--logfile", "/dev/null",
               "--hash-max-listpack-value", "512", /* fields in order */
               "--repl-backlog-ttl", "0",          /* it is kept without a replica */
               "--enable-debug-command", "yes",    /* to remove expired keys as the keyspace does */
               "--client-output-buffer-limit", "pubsub 0 0 0", (char *)NULL);
        _exit(127);
    }
    for (int ms = 0; ms < START_MS && (server.commands = dial()) < 0; ms += 10)
        usleep(10000);
    server.subscriber = dial();
    if (server.commands < 0 || server.subscriber < 0)
        fail("redis-server did not start");
    begin_backlog();
}

void send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = write(fd, bytes, len);
        if (sent <= 0)
            fail("write: %s", strerror(errno));
        bytes += sent;
        len -= (size_t)sent;
    }
}

/* The length of the reply that `at` begins with; 0: it is not whole. */
static size_t reply_len(const char *at, size_t len)
{
    const char *end = memmem(at, len, "\r\n", 2);
    if (end == NULL)
        return 0;
    size_t line = (size_t)(end - at) + 2;
    long number = strtol(at + 1, NULL, 10);
    if (*at == '$' && number >= 0)
        return line + (size_t)number + 2 <= len ? line + (size_t)number + 2 : 0;
    for (long i = 0; *at == '*' && i < number; i++) {
        size_t element = reply_len(at + line, len - line);
        if (element == 0)
            return 0;
        line += element;
    }
    return line;
}

struct bytes receive(int fd)
{
    static struct stream {
        char bytes[BYTES_MAX];
        size_t len, taken;
    } streams[2];
    struct stream *stream = &streams[fd == server.subscriber];
    memmove(stream->bytes, stream->bytes + stream->taken, stream->len - stream->taken);
    stream->len -= stream->taken;
    stream->taken = 0;
    for (;;) {
        stream->taken = reply_len(stream->bytes, stream->len);
        if (stream->taken > 0)
            return (struct bytes){stream->bytes, stream->taken};
        ssize_t got = read(fd, stream->bytes + stream->len, sizeof stream->bytes - stream->len);
        if (got <= 0)
            fail("the server has gone");
        stream->len += (size_t)got;
    }
}

/* ---- both ---- */

/* Fails if the last command wrote for replicas here, and not at the server. The other way round
 * there may have been other commands since. */
static void check_sent(bool has_written_here)
{
    static long long offset;
    long long now = replication_number("master_repl_offset:");
    if (has_written_here && now == offset)
        fail("replicas get what was written here alone");
    offset = now;
}

void show(const char *what, struct bytes bytes)
{
    fprintf(stderr, "%s: ", what);
    for (size_t i = 0; i < bytes.len && i < 4000; i++) {
        if (bytes.at[i] >= ' ' && bytes.at[i] < 0x7f)
            fputc(bytes.at[i], stderr);
        else
            fputs(bytes.at[i] == '\n' ? " " : bytes.at[i] == '\r' ? "" : "?", stderr);
    }
    fputc('\n', stderr);
}

/* Receives the replies to MULTI and to the commands that are queued after it. The keyspace gives
 * EXEC's alone. */
static void skip_queued(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct bytes reply = receive(server.commands);
        const char *expected = i == 0 ? "+OK\r\n" : "+QUEUED\r\n";
        bool is_refused = i > 0 && d.out_of_memory && memmem(reply.at, reply.len, "-OOM ", 5);
        bool is_usual = reply.len == strlen(expected) && memcmp(reply.at, expected, reply.len) == 0;
        if (!is_usual && !is_refused)
            fail("reply %u of a transaction is %.*s", i, (int)reply.len, reply.at);
    }
}

struct bytes ask_both(struct text asked)
{
    return ask_both_after(asked, 0);
}

struct bytes ask_both_after(struct text asked, unsigned before)
{
    static bool has_written;
    struct bytes command = {asked.at, asked.len};
    check_sent(has_written);
    uint64_t sent = d.keyspace->sent;
    d.keyspace->now_us = *server.now_us;
    d.keyspace->refusal = d.out_of_memory ? REFUSES_OOM : REFUSES_NOTHING;
    send_all(server.commands, command.at, command.len);
    skip_queued(before);
    struct bytes ours = scripting_run(d.scripting, d.keyspace, command),
                 theirs = receive(server.commands);
    has_written = d.keyspace->sent != sent;
    d.replies++;
    for (unsigned i = 0; i < KINDS; i++)
        kinds[i].count +=
            memmem(theirs.at, theirs.len, kinds[i].contains, strlen(kinds[i].contains)) != NULL;
    if (ours.len == theirs.len && memcmp(ours.at, theirs.at, ours.len) == 0)
        return theirs;
    show("command", command);
    show("server", theirs);
    show("here", ours);
    fail("different replies at %lld us", (long long)*server.now_us);
}

struct resp *command_begin(void)
{
    static char bytes[BYTES_MAX];
    static struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    resp_begin(&resp);
    return &resp;
}

struct text command_of(unsigned count, const char *const *words)
{
    struct resp *resp = command_begin();
    for (unsigned i = 0; i < count; i++)
        resp_text(resp, words[i]);
    return resp_end(resp);
}

void tell_server(unsigned count, const char *const *words)
{
    struct text command = command_of(count, words);
    send_all(server.commands, command.at, command.len);
    struct bytes reply = receive(server.commands);
    if (reply.at[0] == '-')
        fail("%.*s", (int)reply.len, reply.at);
}

void compare_keys(void)
{
    static const char dump[] =
        "local out = {}\n"
        "for _, key in ipairs(ARGV) do\n"
        "    local kind = redis.call('TYPE', key).ok\n"
        "    out[#out + 1] = key .. ' ' .. kind .. ' ' .. redis.call('PTTL', key)\n"
        "    if kind == 'string' then out[#out + 1] = redis.call('GET', key) end\n"
        /* each server has a replication id of its own */
        "    if kind == 'hash' then redis.call('HDEL', key, 'replid') end\n"
        "    if kind == 'hash' then out[#out + 1] = redis.call('HGETALL', key) end\n"
        "    if kind == 'zset' then\n"
        "        out[#out + 1] = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')\n"
        "    end\n"
        "end\n"
        "return out\n";
    struct resp *resp = command_begin();
    resp_text(resp, "EVAL");
    resp_text(resp, dump);
    resp_number(resp, 0);
    for (unsigned i = 0; i < NAMES; i++)
        resp_text(resp, d.names[i]);
    ask_both(resp_end(resp));
}

unsigned count_rare_replies(unsigned calls)
{
    unsigned rare = 0;
    for (unsigned i = 0; i < KINDS; i++) {
        if (kinds[i].count * 20000ull >= (uint64_t)kinds[i].least * calls)
            continue;
        printf("only %u replies with %s\n", kinds[i].count, kinds[i].contains);
        rare++;
    }
    return rare;
}
