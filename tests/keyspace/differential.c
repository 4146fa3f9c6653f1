/* The keyspace beside a real redis-server: random commands and calls of all shipped scripts, with
 * plausible and implausible arguments, are given to both. Each reply and, after each call, all keys
 * with their values and remaining times must be the same, byte by byte; so must at the end all
 * messages published. The server's wall clock is preloaded and goes only when it is set, so times
 * are exact.
 *
 * usage: differential STILL_CLOCK.so CALLS [SEED] */
#include "scripting.h"

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
#include <time.h>
#include <unistd.h>

#include "agent/redis/asking.h"
#include "agent/redis/replies.h"
#include "agent/redis/scripts.h"
#include "tests/sim/prng.h"

enum { BYTES_MAX = 1 << 20, KEYS = 4, NAMES = 3 * 2 * KEYS + 2, START_MS = 10000, SKIPPED = 77 };

static struct {
    char dir[64], socket[96], clock[96];
    pid_t pid;
    int64_t *now_us;
    int commands, subscriber;
} server;

static struct {
    struct prng prng;
    uint64_t seed;
    unsigned call;
    struct keyspace *keyspace;
    struct scripting *scripting;
    struct config config;
    char names[NAMES][64];
    char *published; /* by the keyspace */
    size_t published_len;
    bool out_of_memory;
    uint64_t replies;
} d;

/* Replies that a run must have had, and how often at the least. A run that exercised nothing has
 * compared nothing. Each reply comes four times as often in the mean, so chance does not get below
 * its count. */
static struct {
    const char *contains;
    unsigned least, count; /* in 20,000 calls */
} kinds[] = {
    {"$6\r\nhanded\r\n", 100, 0},   {"$7\r\nguarded\r\n", 30, 0},
    {"$4\r\nheld\r\n", 1000, 0},    {"$7\r\nforeign\r\n", 500, 0},
    {"$8\r\nrepaired\r\n", 200, 0}, {"$11\r\nmisnumbered\r\n", 10, 0},
    {"$3\r\nyes\r\n", 150, 0},      {"-OOM ", 20, 0},
    {"-WRONGTYPE ", 500, 0},        {"on @user_script:", 500, 0},
    {"user_script:", 500, 0},       {":1760000000000001\r\n", 50, 0},
    {"$1\r\nr\r\n", 20, 0},         {"$1\r\nw\r\n", 20, 0},
    {"$5\r\nmoved\r\n", 30, 0},     {"$7\r\nadopted\r\n", 20, 0},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void server_stop(void)
{
    if (server.pid > 0) {
        kill(server.pid, SIGKILL);
        waitpid(server.pid, NULL, 0);
    }
    unlink(server.socket);
    unlink(server.clock);
    rmdir(server.dir);
}

_Noreturn static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *format, ...)
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

static void server_start(const char *preload)
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
               "--client-output-buffer-limit", "pubsub 0 0 0", (char *)NULL);
        _exit(127);
    }
    for (int ms = 0; ms < START_MS && (server.commands = dial()) < 0; ms += 10)
        usleep(10000);
    server.subscriber = dial();
    if (server.commands < 0 || server.subscriber < 0)
        fail("redis-server did not start");
}

static void send_all(int fd, const char *bytes, size_t len)
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

static struct bytes receive(int fd)
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

static void show(const char *what, struct bytes bytes)
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

/* Gives one command to both; the replies must be the same. */
static struct bytes ask_both(struct text asked)
{
    struct bytes command = {asked.at, asked.len};
    d.keyspace->now_us = *server.now_us;
    d.keyspace->refusal = d.out_of_memory ? REFUSES_OOM : REFUSES_NOTHING;
    send_all(server.commands, command.at, command.len);
    struct bytes ours = scripting_run(d.scripting, d.keyspace, command),
                 theirs = receive(server.commands);
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

static struct resp *begin(void)
{
    static char bytes[BYTES_MAX];
    static struct resp resp = {.bytes = bytes, .size = sizeof bytes};
    resp_begin(&resp);
    return &resp;
}

static struct text command_of(unsigned count, const char *const *words)
{
    struct resp *resp = begin();
    for (unsigned i = 0; i < count; i++)
        resp_text(resp, words[i]);
    return resp_end(resp);
}

/* To the server alone. */
static void tell_server(unsigned count, const char *const *words)
{
    struct text command = command_of(count, words);
    send_all(server.commands, command.at, command.len);
    struct bytes reply = receive(server.commands);
    if (reply.at[0] == '-')
        fail("%.*s", (int)reply.len, reply.at);
}

/* All that is there: types, times, values. */
static void compare_keys(void)
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
    struct resp *resp = begin();
    resp_text(resp, "EVAL");
    resp_text(resp, dump);
    resp_number(resp, 0);
    for (unsigned i = 0; i < NAMES; i++)
        resp_text(resp, d.names[i]);
    ask_both(resp_end(resp));
}

/* ---- drawn commands ---- */

#define PICK(list) (list)[prng_below(&d.prng, sizeof(list) / sizeof((list)[0]))]
#define A39 "010101010101010101010101010101010101010"

// NOLINTNEXTLINE(bugprone-suspicious-missing-comma): a prefix that most of them share
static const char *const values[] = {A39 "1:me",
                                     A39 "1:",
                                     A39 "1",
                                     A39 "2:you",
                                     A39 "1x:me",
                                     A39 "1:::",
                                     "",
                                     "abc",
                                     "0",
                                     "1760000000000000",
                                     "7",
                                     "-5",
                                     "1.5",
                                     "9007199254740991",
                                     "9007199254740993",
                                     "12x",
                                     "007",
                                     "1e3",
                                     "9999999999999999999",
                                     "99999999999999999999",
                                     " 1",
                                     "+1",
                                     "0x10",
                                     "inf",
                                     "nan",
                                     "-0",
                                     "any",
                                     "fair",
                                     "renew",
                                     "repair",
                                     "adopt",
                                     "restart",
                                     "keep",
                                     "look",
                                     "new",
                                     "trust",
                                     "two words",
                                     "a\r\nb",
                                     "-ERR looks like one",
                                     "10000"};
static const char *const times[] = {"1",
                                    "2",
                                    "50",
                                    "1000",
                                    "10000",
                                    "3600000",
                                    "0",
                                    "-1",
                                    "1760000000000000",
                                    "9223372036854775807",
                                    "9223372036854775",
                                    "x",
                                    "1.5",
                                    ""};

static const char *const scores[] = {
    "1",   "2",    "2", "-3", "1.5", "1e3", "1700000000500", "1800000000000",
    "inf", "-inf", "x", "",   "(5"};
#define ONES "01010101010101010101010101010101010101"
static const char *const members[] = {"r:" ONES "11:00000000:7:me",
                                      "r:" ONES "12:00000000:1000:you",
                                      "r:" ONES "13:00000000:0:",
                                      "w:" ONES "11:00000000:7:me",
                                      "w:" ONES "12:00000007:8:you",
                                      "r:" ONES "13:00000007:1760000000000000:a:b",
                                      "player",
                                      "r::",
                                      "",
                                      "x:" ONES "11:00000000:7:me"};

static const char *const fields[] = {
    ONES "11:00000000:7:me", ONES "12:00000000:1000:you", ONES "12:00000007:8:you",
    ONES "13:00000001:0:", "9f0c6a4e-0000-4000-8000-000000000001:1"};

static const char *name(void)
{
    return PICK(d.names);
}

static const char *ticket_text(void)
{
    static char text[64];
    int64_t now_ms = *server.now_us / 1000;
    if (prng_percent(&d.prng, 15))
        return PICK(values);
    snprintf(text, sizeof text, "%llu:%lld", (unsigned long long)prng_between(&d.prng, 1, 5) * 1000,
             (long long)(now_ms + prng_between(&d.prng, -2000, 5000)));
    return text;
}

static const char *agent_text(void)
{
    static const char *const agents[] = {"0000000000000001", "0000000000000002", "00000000000000ff",
                                         "", "x"};
    return PICK(agents);
}

/* A command of its own, as others give them, and as the scripts may come to. */
static void ask_command(void)
{
    static const char *const commands[][6] = {
        {"SET", "K", "V"},
        {"SET", "K", "V", "PX", "T"},
        {"SET", "K", "V", "NX", "PX", "T"},
        {"SET", "K", "V", "XX", "KEEPTTL"},
        {"SET", "K", "V", "XX", "GET"},
        {"SET", "K", "V", "NX", "GET"},
        {"SET", "K", "V", "EX", "T"},
        {"SET", "K", "V", "PX"},
        {"SET", "K", "V", "NX", "XX"},
        {"GET", "K"},
        {"DEL", "K"},
        {"DEL", "K", "K"},
        {"EXISTS", "K", "K", "K"},
        {"PEXPIRE", "K", "T"},
        {"PEXPIRE", "K", "T", "GT"},
        {"PEXPIRE", "K", "T", "LT"},
        {"PEXPIRE", "K", "T", "NX"},
        {"PEXPIRE", "K", "T", "XX"},
        {"PEXPIRE", "K", "T", "GT", "XX"},
        {"PEXPIRE", "K", "T", "GT", "LT"},
        {"PEXPIRE", "K", "T", "NX", "GT"},
        {"PEXPIRE", "K", "T", "V"},
        {"PEXPIREAT", "K", "1700000000500"},
        {"PEXPIREAT", "K", "T", "GT"},
        {"PTTL", "K"},
        {"PERSIST", "K"},
        {"TYPE", "K"},
        {"STRLEN", "K"},
        {"INCR", "K"},
        {"MGET", "K", "K", "K"},
        {"HSET", "K", "A", "I"},
        {"HSET", "K", "A", "I", "A", "I"},
        {"HSET", "K", "A", "I"},
        {"HSET", "K", "A"},
        {"HSET", "K", "A", "I", "A"},
        {"HGET", "K", "A"},
        {"HMGET", "K", "A", "A", "epoch"},
        {"HDEL", "K", "A", "A"},
        {"HLEN", "K"},
        {"HEXISTS", "K", "A"},
        {"HGETALL", "K"},
        {"RPUSH", "K", "V"},
        {"RPUSH", "K", "V"},
        {"ZADD", "K", "S", "M"},
        {"ZADD", "K", "S", "M", "S", "M"},
        {"ZADD", "K", "S", "M", "S"},
        {"ZREM", "K", "M", "M"},
        {"ZSCORE", "K", "M"},
        {"ZCARD", "K"},
        {"ZRANGE", "K", "0", "-1"},
        {"ZRANGE", "K", "-1", "-1", "WITHSCORES"},
        {"ZRANGE", "K", "T", "T"},
        {"ZCOUNT", "K", "S", "+inf"},
        {"ZCOUNT", "K", "(1700000000500", "S"},
        {"ZREMRANGEBYSCORE", "K", "-inf", "S"},
        {"PUBLISH", "C", "V"},
        {"PUBSUB", "NUMSUB", "C", "C"},
        {"PUBSUB", "NUMSUB"},
        {"TIME"},
        {"GET"},
        {"HSET", "lockagent:marker", "epoch", "e", "max_ttl", "T"},
        {"HSET", "lockagent:marker", "since", "V", "run", "V"},
        {"HDEL", "lockagent:marker", "epoch"},
    };
    const char *const *pattern = PICK(commands);
    char channel[96];
    const char *words[6];
    char tickets[6][64];
    unsigned count = 0;
    for (; count < 6 && pattern[count] != NULL; count++) {
        const char *word = pattern[count];
        bool is_one = word[0] != '\0' && word[1] == '\0' && count > 0;
        words[count] = word;
        if (is_one && *word == 'K')
            words[count] = name();
        else if (is_one && *word == 'V')
            words[count] = PICK(values);
        else if (is_one && *word == 'T')
            words[count] = PICK(times);
        else if (is_one && *word == 'S')
            words[count] = PICK(scores);
        else if (is_one && *word == 'M')
            words[count] = PICK(members);
        else if (is_one && *word == 'A')
            words[count] = agent_text();
        else if (is_one && *word == 'I')
            words[count] = strcpy(tickets[count], ticket_text());
        else if (is_one && *word == 'C') {
            snprintf(channel, sizeof channel, "lockagent:channel:%s", name());
            words[count] = channel;
        }
    }
    ask_both(command_of(count, words));
}

static const char *const votes[] = {"=r1:e1:0000000000000007", "!r1:e1:0000000000000007",
                                    "=r2:e1:1760000000000000", "!r2:e1:1760000000000000", ""};

/* A stored value that is plausible, so that the scripts come far. */
static void ask_plausible(void)
{
    static const char *const lock_values[] = {A39 "1:me",
                                              A39 "2:you",
                                              A39 "3:",
                                              ONES "11:00000000:1:",
                                              ONES "12:00000000:me",
                                              ONES "12:00000007:8:you"};
    static const char *const numbers[] = {"1", "7", "1000", "1760000000000000", "1760000000000001"};
    char ttl[24], key[64], fence[96], now[24];
    unsigned which = (unsigned)prng_below(&d.prng, 2 * KEYS);
    snprintf(key, sizeof key, "%s", d.names[which]);
    snprintf(fence, sizeof fence, "lockagent:fence:%s", key);
    snprintf(ttl, sizeof ttl, "%lld", (long long)prng_between(&d.prng, 1, 5000));
    if (prng_percent(&d.prng, 60)) {
        const char *const words[] = {"SET", key, PICK(lock_values), "PX", ttl};
        ask_both(command_of(prng_percent(&d.prng, 90) ? 5 : 3, words));
        const char *const again[] = {"PEXPIRE", key, ttl, prng_percent(&d.prng, 50) ? "GT" : "LT"};
        if (prng_percent(&d.prng, 20)) /* to the same millisecond */
            ask_both(command_of(4, again));
    }
    if (prng_percent(&d.prng, 40)) {
        const char *const words[] = {"SET", fence, PICK(numbers), "PX", ttl};
        ask_both(command_of(prng_percent(&d.prng, 70) ? 5 : 3, words));
    }
    if (prng_percent(&d.prng, 20)) {
        snprintf(now, sizeof now, "%lld",
                 (long long)(*server.now_us / 1000 + prng_between(&d.prng, -9000, 100)));
        static const char *const tolds[] = {"0", "1", "2"};
        const char *const words[] = {"HSET",        MARKER_KEY,  "epoch", "e1",           "run",
                                     "r1",          "since",     now,     "max_ttl",      ttl,
                                     "told",        PICK(tolds), "top",   PICK(numbers),  "floor",
                                     PICK(numbers), "longer",    ttl,     "longer_since", now};
        ask_both(command_of(prng_percent(&d.prng, 70) ? 20 : 10, words));
    }
    if (prng_percent(&d.prng, 30)) {
        snprintf(now, sizeof now, "%lld",
                 (long long)(*server.now_us / 1000 + prng_between(&d.prng, -100, 5000)));
        ask_both(command_of(4, (const char *const[]){"ZADD", key, now, PICK(members)}));
    }
    if (prng_percent(&d.prng, 40)) {
        const char *const words[] = {
            "HSET", key,    PICK(fields),
            "1",    "mode", prng_percent(&d.prng, 80) ? "lockagent" : "read"};
        ask_both(command_of(prng_percent(&d.prng, 80) ? 6 : 4, words));
        ask_both(command_of(3, (const char *const[]){"PEXPIRE", key, ttl}));
    }
    if (prng_percent(&d.prng, 20))
        ask_both(command_of(3, (const char *const[]){"SET", VOTE_KEY, PICK(votes)}));
    if (prng_percent(&d.prng, 10))
        ask_both(command_of(2, (const char *const[]){"DEL", key}));
}

static uint64_t number(void)
{
    static const uint64_t numbers[] = {
        0, 1, 7, 8, 1000, 2000, 3000, 1760000000000000, 1760000000000001, 9007199254740991};
    return PICK(numbers);
}

static uint32_t duration(void)
{
    static const uint32_t durations[] = {1, 2, 100, 1000, 5000, 60000, 0};
    return PICK(durations);
}

/* Leaves a live entry of the same random part and number, which may be adopted. */
static void leave_adoptable(const struct send_item *item)
{
    char key[64], ends[24], entry[96];
    snprintf(entry, sizeof entry, "r:%s%02x:00000000:%llu:me", ONES,
             item->token.random[RANDOM_BYTES - 1], (unsigned long long)item->token.fence);
    snprintf(key, sizeof key, "%s%.*s", d.config.policies[item->policy].prefix, (int)item->key.len,
             item->key.at);
    snprintf(ends, sizeof ends, "%lld", (long long)(*server.now_us / 1000 + 1000));
    ask_both(command_of(2, (const char *const[]){"DEL", key}));
    ask_both(command_of(4, (const char *const[]){"ZADD", key, ends, entry}));
}

/* One more argument, behind the command. */
static void put_own(struct text *command, const struct resp *resp, const char *word)
{
    size_t at = (size_t)(command->at - resp->bytes) + command->len;
    command->len +=
        (size_t)snprintf(resp->bytes + at, resp->size - at, "$%zu\r\n%s\r\n", strlen(word), word);
}

/* Draws the lower bound of the master's clock: long ago, or later than the clock shows. */
static void put_clock(struct text *command, const struct resp *resp)
{
    static const int64_t off_ms[] = {-7200000, -7200000, 600000};
    char digits[24];
    int64_t clock_ms = prng_percent(&d.prng, 40) ? *server.now_us / 1000 + PICK(off_ms) : 0;
    snprintf(digits, sizeof digits, "%lld", (long long)clock_ms);
    put_own(command, resp, digits);
}

/* As the core asks. */
static void ask_operation(void)
{
    static const char *const labels[] = {"me", "you", "", "a:b", "two words"};
    static const uint64_t agents[] = {0, 1, 2, 255};
    enum op op = (enum op)prng_below(&d.prng, OP_COUNT);
    unsigned count = op_is_gathered(op) ? (unsigned)prng_between(&d.prng, 1, 4) : 1;
    bool shared = op != OP_HANDOVER && prng_percent(&d.prng, 40);
    bool redisson = !shared && op != OP_WITHDRAW && prng_percent(&d.prng, 40);
    bool fair = shared || op == OP_WITHDRAW || (!redisson && prng_percent(&d.prng, 60));
    struct send_item items[4];
    memset(items, 0, sizeof items);
    d.config.groups[0].guard = prng_percent(&d.prng, 40);
    for (unsigned i = 0; i < count; i++) {
        struct send_item *item = &items[i];
        unsigned key = (unsigned)prng_below(&d.prng, KEYS);
        const char *label = PICK(labels);
        item->key = (struct text){strchr(d.names[key], ':') + 1, 2};
        item->policy = (uint16_t)prng_below(&d.prng, 2);
        item->fencing = item->policy == 0 && prng_percent(&d.prng, 85);
        item->label = (struct text){label, strlen(label)};
        memset(item->token.random, 1, RANDOM_BYTES);
        memset(item->previous.random, 1, RANDOM_BYTES);
        item->token.random[RANDOM_BYTES - 1] = (uint8_t)prng_between(&d.prng, 0x11, 0x13);
        item->previous.random[RANDOM_BYTES - 1] = (uint8_t)prng_between(&d.prng, 0x11, 0x13);
        item->token.fence = number();
        item->ttl_ms = duration() + (prng_percent(&d.prng, 95) ? 1 : 0);
        item->left_ms = prng_percent(&d.prng, 50) ? duration() : 10800000;
        item->form = shared     ? FORM_SHARED
                     : redisson ? FORM_REDISSON
                     : fair     ? FORM_FAIR
                                : FORM_PLAIN;
        item->permits = 1;
        item->mode = prng_percent(&d.prng, 60) ? MODE_READ : MODE_WRITE;
        item->asked = prng_percent(&d.prng, 50);
        item->ticket.mode = prng_percent(&d.prng, 50) ? MODE_READ : MODE_WRITE;
        item->ticket.agent =
            op == OP_RELEASE ? PICK(agents) : (uint64_t)prng_between(&d.prng, 1, 2);
        item->ticket.number = number();
        item->ticket.ttl_ms = duration();
        item->ticket.fresh = prng_percent(&d.prng, 50);
    }
    if (op == OP_ADOPT && prng_percent(&d.prng, 40))
        leave_adoptable(&items[0]);
    struct resp *resp = begin();
    struct text command = asking_op(resp, &d.config, 0, op, items, count);
    if (asking_has_own(op))
        put_clock(&command, resp);
    if (asking_names_vote(&d.config, 0, op))
        put_own(&command, resp, PICK(votes));
    ask_both(command);
}

/* Calls any script with any keys and any arguments, as no agent does. */
static void ask_nonsense(void)
{
    unsigned keys = (unsigned)prng_below(&d.prng, 6), args = (unsigned)prng_below(&d.prng, 12);
    struct resp *resp = begin();
    resp_text(resp, "EVALSHA");
    resp_text(resp, redis_scripts[prng_below(&d.prng, SCRIPT_COUNT)].sha);
    resp_number(resp, keys);
    for (unsigned i = 0; i < keys; i++)
        resp_text(resp, name());
    for (unsigned i = 0; i < args; i++)
        resp_text(resp, prng_percent(&d.prng, 50)   ? PICK(times)
                        : prng_percent(&d.prng, 20) ? agent_text()
                                                    : PICK(values));
    ask_both(resp_end(resp));
}

/* The marker's script has arguments of its own. */
static void ask_marker(void)
{
    static const char *const ways[] = {"restart", "keep", "tell", "trust"};
    static const char *const runs[] = {"r1", "r2", ""}, *const epochs[] = {"e1", "e2", ""};
    static const char *const others[] = {"", "", "e3 ", "e3 e1 "}, *const tolds[] = {"0", "1", "2"};
    char wall[24], lift[24], top[24];
    snprintf(wall, sizeof wall, "%lld",
             (long long)(*server.now_us + 1000000 * prng_between(&d.prng, -100, 100)));
    snprintf(lift, sizeof lift, "%llu", (unsigned long long)number());
    snprintf(top, sizeof top, "%llu", (unsigned long long)number());
    const char *const words[] = {"EVALSHA",
                                 redis_scripts[SCRIPT_MARKER].sha,
                                 "2",
                                 MARKER_KEY,
                                 VOTE_KEY,
                                 PICK(runs),
                                 prng_percent(&d.prng, 50) ? "e1" : "e2",
                                 PICK(times),
                                 PICK(ways),
                                 lift,
                                 PICK(others),
                                 wall,
                                 PICK(epochs),
                                 top,
                                 PICK(tolds)};
    ask_both(command_of(15, words));
}

/* Compares conversions that the shipped scripts need not show: how values and errors pass between
 * the two languages. */
static void ask_conversions(void)
{
    static const char text[] =
        "local well, caught = pcall(redis.call, 'HGET', KEYS[1], 'f')\n"
        "local raised, thrown = pcall(error, {err = 'ERR mine', more = 1})\n"
        "local failed, said = pcall(function() return nil + 1 end)\n"
        "local soft = redis.pcall('INCR', KEYS[2])\n"
        "local odd = redis.pcall('GET', {})\n"
        "local none = redis.pcall()\n"
        "redis.call('SET', KEYS[2], tonumber(ARGV[1]) or 'x', 'PX', 2 ^ 40)\n"
        "local unset = pcall(function() return unknown end)\n"
        "local stored = redis.call('GET', KEYS[2])\n"
        "return {well, type(caught), tostring(caught), raised, type(thrown), tostring(thrown), "
        "failed, said, soft,\n"
        "    odd.err, none.err, unset, stored, tostring(tonumber(ARGV[1])), 3.99, -3.99, 2 ^ 53, "
        "true,\n"
        "    {1, {2, 'three'}}, redis.status_reply('FINE'), redis.error_reply('ERR bad'), "
        "redis.error_reply('bad'),\n"
        "    string.format('%.0f', 1760000000000001), 1760000000000001 .. '', false, 'seen', nil, "
        "'unseen'}\n";
    static const char *const numbers[] = {
        "1", "-7", "1.5", "1760000000000001", "1e20", "0.1", "-0", "9007199254740993", "x"};
    struct resp *resp = begin();
    resp_text(resp, "EVAL");
    resp_text(resp, text);
    resp_number(resp, 2);
    resp_text(resp, name());
    resp_text(resp, name());
    resp_text(resp, PICK(numbers));
    ask_both(resp_end(resp));
}

static void let_time_pass(void)
{
    int64_t us = prng_percent(&d.prng, 40)   ? prng_between(&d.prng, 0, 1000)
                 : prng_percent(&d.prng, 80) ? prng_between(&d.prng, 0, 100000)
                 : prng_percent(&d.prng, 95) ? prng_between(&d.prng, 0, 5000000)
                                             : prng_between(&d.prng, 0, 7200000000);
    *server.now_us += us;
}

static void set_memory(bool out_of_memory)
{
    d.out_of_memory = out_of_memory;
    tell_server(4, (const char *const[]){"CONFIG", "SET", "maxmemory", out_of_memory ? "1" : "0"});
}

static void one_call(void)
{
    let_time_pass();
    for (int64_t i = prng_between(&d.prng, 0, 2); i > 0; i--)
        ask_command();
    if (prng_percent(&d.prng, 60))
        ask_plausible();
    if (prng_percent(&d.prng, 5))
        ask_conversions();
    bool out_of_memory = prng_percent(&d.prng, 3);
    if (out_of_memory)
        set_memory(true);
    if (prng_percent(&d.prng, 15))
        ask_nonsense();
    else if (prng_percent(&d.prng, 10))
        ask_marker();
    else
        ask_operation();
    if (out_of_memory)
        set_memory(false);
    compare_keys();
}

/* ---- messages ---- */

static bool is_subscribed(struct bytes channel)
{
    return channel.len > 0 && (channel.at[channel.len - 1] - '0') % 2 == 0;
}

static uint32_t subscribers(void *owner, struct bytes channel)
{
    (void)owner;
    return is_subscribed(channel);
}

static uint32_t publish(void *owner, struct bytes channel, struct bytes message)
{
    (void)owner;
    if (!is_subscribed(channel))
        return 0;
    char *grown = realloc(d.published, d.published_len + channel.len + message.len + 64);
    if (grown == NULL)
        abort();
    d.published = grown;
    d.published_len +=
        (size_t)sprintf(grown + d.published_len, "*3\r\n$7\r\nmessage\r\n$%zu\r\n", channel.len);
    memcpy(grown + d.published_len, channel.at, channel.len);
    d.published_len += channel.len;
    d.published_len += (size_t)sprintf(grown + d.published_len, "\r\n$%zu\r\n", message.len);
    memcpy(grown + d.published_len, message.at, message.len);
    d.published_len += message.len;
    memcpy(grown + d.published_len, "\r\n", 2);
    d.published_len += 2;
    return 1;
}

static void subscribe(void)
{
    for (unsigned i = 0; i < NAMES; i++) {
        char channel[96];
        int len = snprintf(channel, sizeof channel, "lockagent:channel:%s", d.names[i]);
        if (!is_subscribed((struct bytes){channel, (size_t)len}))
            continue;
        struct text command = command_of(2, (const char *const[]){"SUBSCRIBE", channel});
        send_all(server.subscriber, command.at, command.len);
        receive(server.subscriber);
    }
}

static unsigned compare_messages(void)
{
    const char *at = d.published;
    unsigned count = 0;
    for (size_t left = d.published_len; left > 0; count++) {
        struct bytes theirs = receive(server.subscriber);
        if (theirs.len > left || memcmp(theirs.at, at, theirs.len) != 0) {
            show("server", theirs);
            show("here", (struct bytes){at, left < 200 ? left : 200});
            fail("different messages");
        }
        at += theirs.len;
        left -= theirs.len;
    }
    /* No more messages than those may arrive. */
    struct text ping = command_of(1, (const char *const[]){"PING"});
    send_all(server.subscriber, ping.at, ping.len);
    struct bytes last = receive(server.subscriber);
    if (memmem(last.at, last.len, "pong", 4) == NULL)
        fail("the server published more");
    return count;
}

/* ---- */

/* Later ones write numbers of Lua that no agent sends, 0.1 and 2^63 and -0, in another way. */
static bool server_is_of_our_time(void)
{
    struct text ask = command_of(2, (const char *const[]){"INFO", "server"});
    send_all(server.commands, ask.at, ask.len);
    struct bytes said = receive(server.commands);
    const char *version = memmem(said.at, said.len, "redis_version:", 14);
    unsigned major = 0, minor = 0;
    if (version == NULL || sscanf(version + 14, "%u.%u", &major, &minor) != 2)
        fail("the server names no version");
    if (major > 7 || (major == 7 && minor > 0))
        printf("skipped: Redis %u.%u is not the 7.0 that is modelled here\n", major, minor);
    return major < 7 || (major == 7 && minor == 0);
}

static void set_up(const char *preload)
{
    const char *why = NULL;
    unsigned count = 0;
    d.keyspace = keyspace_new();
    d.keyspace->subscribers = subscribers;
    d.keyspace->publish = publish;
    d.scripting = scripting_new(NULL, &why);
    for (unsigned i = 0; i < 2; i++) {
        const char *prefix = i == 0 ? "lock:" : "plain:";
        for (unsigned k = 0; k < KEYS; k++)
            snprintf(d.names[count++], sizeof d.names[0], "%sk%u", prefix, k);
        snprintf(d.config.policies[i].prefix, sizeof d.config.policies[i].prefix, "%s", prefix);
    }
    for (unsigned i = 0; i < 2 * KEYS; i++) {
        snprintf(d.names[count++], sizeof d.names[0], "lockagent:fence:%.40s", d.names[i]);
        snprintf(d.names[count++], sizeof d.names[0], "lockagent:ticket:%.40s", d.names[i]);
    }
    snprintf(d.names[count++], sizeof d.names[0], "%s", MARKER_KEY);
    snprintf(d.names[count], sizeof d.names[0], "%s", VOTE_KEY);
    d.config.group_count = 1;
    d.config.policy_count = 2;
    d.config.policies[0].core.fence_retention_ms = 10000;
    server_start(preload);
    for (unsigned i = 0; i < SCRIPT_COUNT; i++)
        tell_server(3, (const char *const[]){"SCRIPT", "LOAD", redis_scripts[i].text});
    subscribe();
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: differential STILL_CLOCK.so CALLS [SEED]\n", stderr);
        return 2;
    }
    unsigned calls = (unsigned)strtoul(argv[2], NULL, 10);
    signal(SIGPIPE, SIG_IGN);
    d.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)time(NULL);
    d.prng.state = d.seed;
    set_up(argv[1]);
    if (!server_is_of_our_time()) {
        server_stop();
        return SKIPPED;
    }
    for (d.call = 1; d.call <= calls; d.call++)
        one_call();
    unsigned messages = compare_messages();
    server_stop();
    printf("seed %llu: %u script calls, %llu replies and %u messages: the same\n",
           (unsigned long long)d.seed, calls, (unsigned long long)d.replies, messages);
    unsigned idle = messages * 20000ull < 100ull * calls;
    for (unsigned i = 0; i < KINDS; i++) {
        bool enough = kinds[i].count * 20000ull >= (uint64_t)kinds[i].least * calls;
        if (!enough)
            printf("only %u replies with %s\n", kinds[i].count, kinds[i].contains);
        idle += !enough;
    }
    return idle == 0 ? 0 : 1;
}
