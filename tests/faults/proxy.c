/* The fault proxy: one process, one epoll loop, one TCP listener per link between an agent and a
 * master, and on each link the faults of a network.
 *
 *   proxy MASTER...     the unix sockets of the masters, one per link, or the ports of 127.0.0.1 of
 *                       those over TLS. The proxy cannot read their bytes, so there are no lies
 *                       then; prints `ports P...`, the TCP port of each link
 *
 * Commands come on stdin, one per line, each answered by `ok` or `error ...` once it is in force;
 * the end of stdin ends the proxy. A command is `LINKS NAME=VALUE...`, LINKS is `all` or numbers
 * with commas, and a name of the table below holds for both directions, or after `up.` (agent to
 * master) or `down.` for one. Besides these: `refuse=1` refuses connections, `cut=1` resets those
 * that are there, and `lie...=` makes the master a hostile one (lies.h). `lies`, alone, is answered
 * by `ok` and the number of lies that were sent.
 *
 * The model is that of TCP: bytes are late, or the connection breaks, but none is dropped from the
 * middle. So loss is a stall until the retransmission that gets through, and a hole delivers its
 * bytes when it is over, also on connections that one side has long given up. */
#include "tests/faults/lies.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    LINKS_MAX = 64,
    PAIRS_MAX = 1024,
    READ_BYTES = 16384,
    QUEUED_BYTES_MAX = 1 << 20,
    EVENTS_MAX = 128,
    FLOOD_BYTES = 65536, /* bytes of an endless lie that are queued at once */
    UNASKED_MS = 10,
    RETRANSMIT_MS = 200, /* delay of the first retransmission, doubled for each further one */
    RETRANSMIT_MS_MAX = 1600,
    /* below the range of ports that the kernel assigns, so that no process takes a port while it
     * refuses connections */
    FIRST_PORT = 12000,
    PORTS = 20000,
};

enum direction { UP, DOWN, DIRECTIONS };

/* The treatment of the bytes of one direction of a link. */
struct weather {
    int64_t delay_us, jitter_us; /* each read's worth is delayed by delay +- jitter */
    int64_t loss_permille;       /* share of lost segments; a loss delays all later ones */
    int64_t rate_bytes;          /* per second; 0: unlimited */
    int64_t slice_us;            /* one byte at a time with this pause between; 0: whole */
    int64_t reset_permille;      /* share of reads after half of which the connection is reset */
    int64_t hole;                /* nothing passes */
};

static const struct setting {
    const char *name;
    size_t offset;
    int64_t max;
} settings[] = {
    {"delay_us", offsetof(struct weather, delay_us), 60000000},
    {"jitter_us", offsetof(struct weather, jitter_us), 60000000},
    {"loss_permille", offsetof(struct weather, loss_permille), 999},
    {"rate_bytes", offsetof(struct weather, rate_bytes), 1000000000},
    {"slice_us", offsetof(struct weather, slice_us), 1000000},
    {"reset_permille", offsetof(struct weather, reset_permille), 1000},
    {"hole", offsetof(struct weather, hole), 1},
};

enum parcel_kind { PARCEL_DATA, PARCEL_END, PARCEL_RESET };

struct parcel {
    struct parcel *next;
    enum parcel_kind kind;
    int64_t due_ns;
    size_t length, sent;
    char bytes[];
};

/* One direction of a connection: read from its source, delivered in order when due. */
struct stream {
    struct parcel *first, *last;
    size_t queued_bytes;
    int64_t last_due_ns;
    bool watched; /* its source is in the epoll set */
    bool drained; /* the source has ended */
    bool ended;   /* ... and its end was delivered */
    struct framing framing;
    enum lie_mode fate; /* fate of the reply that has begun */
    bool mute;          /* Nothing more is read from this side. */
    int64_t flood;      /* tails still to come */
};

struct link {
    int listener;
    union {
        struct sockaddr any;
        struct sockaddr_un path;
        struct sockaddr_in port;
    } master;
    bool over_tls;
    struct weather weather[DIRECTIONS];
    struct lie lie;
    bool refuses;
};

/* Stream d reads from fds[d] and writes to fds[!d]: fds[UP] is the agent's connection, fds[DOWN]
 * the master's. */
struct pair {
    struct link *link; /* NULL: unused */
    int fds[DIRECTIONS];
    struct stream streams[DIRECTIONS];
    bool is_reset;
    /* It is a subscriber's connection: messages there need no request. */
    bool subscribes;
    int64_t unanswered; /* commands */
    int64_t spoke_ns;   /* when anything last came from either side, or a lie was sent unasked */
};

static struct link links[LINKS_MAX];
static size_t link_count;
static struct pair pairs[PAIRS_MAX];
static int epoll;
static uint64_t random_state = 88172645463325252u;
static uint64_t lies_told;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Uniform in [0, below). */
static int64_t draw(int64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)(random_state % (uint64_t)below);
}

static bool chance(int64_t permille)
{
    return draw(1000) < permille;
}

/* ---- streams --------------------------------------------------------------------------------- */

static uint64_t pair_event(const struct pair *pair, enum direction direction)
{
    return LINKS_MAX + (uint64_t)(pair - pairs) * DIRECTIONS + direction;
}

static void watch(struct pair *pair, enum direction direction, bool on)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = pair_event(pair, direction)};
    struct stream *stream = &pair->streams[direction];
    if (stream->watched == on)
        return;
    if (epoll_ctl(epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, pair->fds[direction], &event) != 0)
        die("epoll_ctl");
    stream->watched = on;
}

/* Returns when bytes that are sent now arrive: never before earlier bytes. */
static int64_t due_ns(const struct stream *stream, const struct weather *weather, size_t length)
{
    int64_t delay_us = weather->delay_us, retransmit_ms = RETRANSMIT_MS;
    if (weather->jitter_us > 0)
        delay_us += draw(2 * weather->jitter_us + 1) - weather->jitter_us;
    while (retransmit_ms <= RETRANSMIT_MS_MAX && chance(weather->loss_permille)) {
        delay_us += retransmit_ms * 1000;
        retransmit_ms *= 2;
    }
    int64_t due = now_ns() + (delay_us > 0 ? delay_us : 0) * 1000;
    if (due < stream->last_due_ns)
        due = stream->last_due_ns;
    if (weather->rate_bytes > 0)
        due += (int64_t)length * 1000000000 / weather->rate_bytes;
    return due;
}

static void enqueue(struct pair *pair, enum direction direction, enum parcel_kind kind,
                    const char *bytes, size_t length)
{
    struct stream *stream = &pair->streams[direction];
    struct parcel *parcel = malloc(sizeof(*parcel) + length);
    if (parcel == NULL)
        die("malloc");
    *parcel = (struct parcel){.kind = kind, .length = length};
    parcel->due_ns = stream->last_due_ns = due_ns(stream, &pair->link->weather[direction], length);
    if (length > 0)
        memcpy(parcel->bytes, bytes, length);
    *(stream->first != NULL ? &stream->last->next : &stream->first) = parcel;
    stream->last = parcel;
    stream->queued_bytes += length;
}

/* ---- lies ------------------------------------------------------------------------------------ */

static bool may_lie(const struct pair *pair)
{
    const struct lie *lie = &pair->link->lie;
    if (lie->mode == LIE_NEVER || pair->streams[DOWN].flood > 0 ||
        pair->streams[DOWN].framing.broken)
        return false;
    return lie->to == LIE_TO_ALL || pair->subscribes == (lie->to == LIE_TO_SUBSCRIBER);
}

static void tell_lie(struct pair *pair)
{
    const struct lie *lie = &pair->link->lie;
    size_t length;
    const char *text = lie_text(lie, (uint64_t)draw(LIE_TEXTS * 1024), &length);
    enqueue(pair, DOWN, PARCEL_DATA, text, length);
    pair->streams[DOWN].flood = lie->tail_length > 0 ? lie->tail_times : 0;
}

/* Goes on with a lie that is too long to be queued at once. */
static void flood(struct pair *pair)
{
    char bytes[FLOOD_BYTES];
    struct stream *stream = &pair->streams[DOWN];
    const struct lie *lie = &pair->link->lie;
    size_t length = 0;
    if (lie->mode == LIE_NEVER || lie->tail_length == 0)
        stream->flood = 0;
    for (; stream->flood > 0 && length + lie->tail_length <= sizeof(bytes);
         stream->flood--, length += lie->tail_length)
        memcpy(bytes + length, lie->tail, lie->tail_length);
    if (length > 0)
        enqueue(pair, DOWN, PARCEL_DATA, bytes, length);
}

static enum lie_mode draw_fate(const struct pair *pair)
{
    const enum lie_mode mode = pair->link->lie.mode;
    const bool lies = mode != LIE_UNASKED && may_lie(pair) && chance(pair->link->lie.permille);
    lies_told += lies;
    return lies ? mode : LIE_NEVER;
}

/* Ends the reply, or the lie in its place. */
static void reply_is_whole(struct pair *pair)
{
    struct stream *stream = &pair->streams[DOWN];
    pair->unanswered -= pair->unanswered > 0;
    if (stream->fate == LIE_INSTEAD || stream->fate == LIE_BESIDE)
        tell_lie(pair);
    stream->fate = LIE_NEVER;
}

/* Passes on part of a reply, as far as its fate lets it through. A reply that ends or falls silent
 * half way does so for good. */
static void pass_reply(struct pair *pair, const char *bytes, size_t length)
{
    struct stream *stream = &pair->streams[DOWN];
    const size_t half = (length + 1) / 2;
    if (stream->fate == LIE_NEVER || stream->fate == LIE_BESIDE)
        enqueue(pair, DOWN, PARCEL_DATA, bytes, length);
    if (stream->fate == LIE_HALF || stream->fate == LIE_HALF_AND_END || stream->fate == LIE_TORN)
        enqueue(pair, DOWN, PARCEL_DATA, bytes, half);
    if (stream->fate == LIE_TORN)
        stream->fate = LIE_INSTEAD; /* the rest of it is lost; there is no text */
    if (stream->fate == LIE_HALF || stream->fate == LIE_HALF_AND_END)
        stream->mute = true;
    if (stream->fate == LIE_HALF_AND_END)
        enqueue(pair, DOWN, PARCEL_END, NULL, 0);
}

/* Passes on the bytes of a master reply by reply, or all at once while the master is honest. */
static void pass_down(struct pair *pair, const char *bytes, size_t length)
{
    struct stream *stream = &pair->streams[DOWN];
    size_t begins = 0, taken = 0; /* [begins, taken): honest, and not yet passed on */
    while (taken < length && !stream->mute) {
        bool whole;
        const bool was_honest = stream->fate == LIE_NEVER;
        if (was_honest && stream->framing.elements == 0)
            stream->fate = draw_fate(pair);
        if (stream->fate != LIE_NEVER && taken > begins)
            enqueue(pair, DOWN, PARCEL_DATA, bytes + begins, taken - begins);
        const size_t part = framing_take(&stream->framing, bytes + taken, length - taken, &whole);
        if (stream->fate != LIE_NEVER) {
            pass_reply(pair, bytes + taken, part);
            begins = taken + part;
        }
        taken += part;
        if (whole)
            reply_is_whole(pair);
    }
    if (taken > begins && !stream->mute)
        enqueue(pair, DOWN, PARCEL_DATA, bytes + begins, taken - begins);
}

static void pass_up(struct pair *pair, const char *bytes, size_t length)
{
    static const char subscribe[] = "\r\nSUBSCRIBE\r\n";
    pair->subscribes |= memmem(bytes, length, subscribe, sizeof(subscribe) - 1) != NULL;
    for (size_t taken = 0; taken < length;) {
        bool whole;
        taken += framing_take(&pair->streams[UP].framing, bytes + taken, length - taken, &whole);
        pair->unanswered += whole;
    }
    enqueue(pair, UP, PARCEL_DATA, bytes, length);
}

static void pass(struct pair *pair, enum direction direction, const char *bytes, size_t length)
{
    if (pair->link->over_tls)
        enqueue(pair, direction, PARCEL_DATA, bytes, length);
    else
        (direction == UP ? pass_up : pass_down)(pair, bytes, length);
}

/* Says something to an agent that waits for nothing, and that has been silent for a moment, so that
 * nothing is on its way either. */
static void lie_unasked(struct pair *pair, int64_t now)
{
    const struct stream *stream = &pair->streams[DOWN];
    if (pair->link->lie.mode != LIE_UNASKED || now - pair->spoke_ns < UNASKED_MS * 1000000 ||
        !may_lie(pair) || stream->framing.elements != 0 || stream->drained || stream->mute ||
        (pair->unanswered > 0 && !pair->subscribes))
        return;
    pair->spoke_ns = now;
    if (chance(pair->link->lie.permille)) {
        lies_told++;
        tell_lie(pair);
    }
}

/* ---- reading and delivering ------------------------------------------------------------------ */

static void source_is_readable(struct pair *pair, enum direction direction)
{
    char bytes[READ_BYTES];
    struct stream *stream = &pair->streams[direction];
    if (pair->link == NULL || stream->drained)
        return;
    const ssize_t length = recv(pair->fds[direction], bytes, sizeof(bytes), MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (length > 0) {
        const bool breaks = chance(pair->link->weather[direction].reset_permille);
        pair->spoke_ns = now_ns();
        pass(pair, direction, bytes, breaks ? ((size_t)length + 1) / 2 : (size_t)length);
        if (!breaks) {
            watch(pair, direction, stream->queued_bytes < QUEUED_BYTES_MAX);
            return;
        }
    }
    stream->drained = true;
    watch(pair, direction, false);
    if (stream->mute)
        pair->is_reset = true;
    else
        enqueue(pair, direction, length == 0 ? PARCEL_END : PARCEL_RESET, NULL, 0);
}

static void drop_first(struct stream *stream)
{
    struct parcel *parcel = stream->first;
    stream->first = parcel->next;
    stream->queued_bytes -= parcel->length;
    free(parcel);
}

/* Sends a piece of the first parcel; false when the other side takes no more for now. A side that
 * has gone takes everything. */
static bool send_data(struct pair *pair, enum direction direction, struct parcel *parcel)
{
    const int64_t slice_us = pair->link->weather[direction].slice_us;
    const size_t left = parcel->length - parcel->sent;
    const ssize_t sent = send(pair->fds[!direction], parcel->bytes + parcel->sent,
                              slice_us > 0 ? 1 : left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
        parcel->due_ns = now_ns() + 1000000;
        return false;
    }
    if (sent < 0)
        pair->streams[direction].flood = 0;
    parcel->sent += sent < 0 ? left : (size_t)sent;
    parcel->due_ns += slice_us * 1000;
    return true;
}

static void deliver(struct pair *pair, enum direction direction, int64_t now)
{
    struct stream *stream = &pair->streams[direction];
    while (stream->first != NULL && stream->first->due_ns <= now &&
           !pair->link->weather[direction].hole) {
        struct parcel *parcel = stream->first;
        if (parcel->kind == PARCEL_DATA && !send_data(pair, direction, parcel))
            return;
        if (parcel->sent < parcel->length)
            continue;
        pair->is_reset |= parcel->kind == PARCEL_RESET;
        if (parcel->kind == PARCEL_END) {
            shutdown(pair->fds[!direction], SHUT_WR);
            stream->ended = true;
        }
        drop_first(stream);
        if (stream->first == NULL && stream->flood > 0)
            flood(pair);
    }
    if (!stream->drained && stream->queued_bytes < QUEUED_BYTES_MAX / 2)
        watch(pair, direction, true);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void close_hard(int fd)
{
    const struct linger hard = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
}

static void close_pair(struct pair *pair)
{
    for (int direction = UP; direction < DIRECTIONS; direction++) {
        while (pair->streams[direction].first != NULL)
            drop_first(&pair->streams[direction]);
        if (pair->is_reset)
            close_hard(pair->fds[direction]);
        else
            close(pair->fds[direction]);
    }
    *pair = (struct pair){0};
}

/* A blocking connect could wait for a stopped master. A full queue of a unix socket is a refusal;
 * bytes to a port wait until it is connected. */
static int connect_to_master(const struct link *link)
{
    const int on = 1;
    const sa_family_t family = link->master.any.sa_family;
    const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const socklen_t size = link->over_tls ? sizeof(link->master.port) : sizeof(link->master.path);
    if (fd >= 0 && link->over_tls)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (fd >= 0 && (connect(fd, &link->master.any, size) == 0 || errno == EINPROGRESS))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static struct pair *unused_pair(void)
{
    for (size_t i = 0; i < PAIRS_MAX; i++)
        if (pairs[i].link == NULL)
            return &pairs[i];
    return NULL;
}

static void listener_is_readable(struct link *link)
{
    const int on = 1, agent = accept4(link->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (agent < 0)
        return;
    struct pair *pair = unused_pair();
    const int master = pair != NULL ? connect_to_master(link) : -1;
    if (master < 0) {
        close_hard(agent);
        return;
    }
    setsockopt(agent, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    *pair = (struct pair){.link = link, .fds = {[UP] = agent, [DOWN] = master}};
    watch(pair, UP, true);
    watch(pair, DOWN, true);
}

/* Delivers all bytes that are due; returns how long there is nothing more to do. */
static int sweep(void)
{
    int64_t now = now_ns(), next = INT64_MAX;
    for (struct pair *pair = pairs; pair < pairs + PAIRS_MAX; pair++) {
        if (pair->link == NULL)
            continue;
        lie_unasked(pair, now);
        if (pair->link->lie.mode == LIE_UNASKED && now + UNASKED_MS * 1000000 < next)
            next = now + UNASKED_MS * 1000000;
        for (enum direction direction = UP; direction < DIRECTIONS; direction++) {
            deliver(pair, direction, now);
            const struct parcel *parcel = pair->streams[direction].first;
            if (parcel != NULL && !pair->link->weather[direction].hole && parcel->due_ns < next)
                next = parcel->due_ns;
        }
        if (pair->is_reset || (pair->streams[UP].ended && pair->streams[DOWN].ended))
            close_pair(pair);
    }
    if (next == INT64_MAX)
        return -1;
    now = now_ns();
    return next <= now ? 0 : (int)((next - now + 999999) / 1000000);
}

/* A listening socket that is shut down refuses, and keeps its port. */
static void refuse(struct link *link, bool on)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)(link - links)};
    if (link->refuses == on)
        return;
    link->refuses = on;
    if (epoll_ctl(epoll, on ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, link->listener, &event) != 0)
        die("epoll_ctl");
    if (on ? shutdown(link->listener, SHUT_RD) != 0 : listen(link->listener, 64) != 0)
        die("listen");
}

static void cut(const struct link *link)
{
    for (struct pair *pair = pairs; pair < pairs + PAIRS_MAX; pair++)
        pair->is_reset |= pair->link == link;
}

static void open_link(struct link *link, const char *master)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    link->over_tls = master[0] != '/';
    if (strlen(master) >= sizeof(link->master.path.sun_path)) {
        errno = ENAMETOOLONG;
        die(master);
    }
    if (link->over_tls) {
        link->master.port = address;
        link->master.port.sin_port = htons((uint16_t)atoi(master));
    } else {
        link->master.path.sun_family = AF_UNIX;
        memcpy(link->master.path.sun_path, master, strlen(master) + 1);
    }
    link->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(link->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    do
        address.sin_port = htons((uint16_t)(FIRST_PORT + draw(PORTS)));
    while (bind(link->listener, (struct sockaddr *)&address, sizeof(address)) != 0 &&
           errno == EADDRINUSE);
    link->refuses = true;
    refuse(link, false);
    printf(" %d", ntohs(address.sin_port));
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool set_weather(struct link *link, const char *name, int64_t value)
{
    const bool up = strncmp(name, "up.", 3) == 0, down = strncmp(name, "down.", 5) == 0;
    name += up ? 3 : down ? 5 : 0;
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
        if (strcmp(name, settings[i].name) != 0 || value < 0 || value > settings[i].max)
            continue;
        if (!down)
            *(int64_t *)(void *)((char *)&link->weather[UP] + settings[i].offset) = value;
        if (!up)
            *(int64_t *)(void *)((char *)&link->weather[DOWN] + settings[i].offset) = value;
        return true;
    }
    return false;
}

static bool change(struct link *link, const char *name, const char *value)
{
    if (strncmp(name, "lie", 3) == 0)
        return lie_set(&link->lie, name, value);
    if (strcmp(name, "refuse") == 0)
        refuse(link, atoi(value) != 0);
    else if (strcmp(name, "cut") == 0)
        cut(link);
    else
        return set_weather(link, name, strtoll(value, NULL, 10));
    return true;
}

static bool is_named(const char *list, size_t number)
{
    char *end;
    if (strcmp(list, "all") == 0)
        return true;
    for (; *list != '\0'; list = *end == ',' ? end + 1 : "") {
        if (strtoul(list, &end, 10) == number && end != list)
            return true;
    }
    return false;
}

static const char *obey(char *line)
{
    static char count[32];
    if (strcmp(line, "lies") == 0) {
        snprintf(count, sizeof(count), "ok %llu", (unsigned long long)lies_told);
        return count;
    }
    char *place = NULL, *list = strtok_r(line, " ", &place), *word;
    while (list != NULL && (word = strtok_r(NULL, " ", &place)) != NULL) {
        char *value = strchr(word, '=');
        if (value == NULL)
            return "error: NAME=VALUE is wanted";
        *value++ = '\0';
        for (size_t i = 0; i < link_count; i++)
            if (is_named(list, i) && !change(&links[i], word, value))
                return "error: no such setting, or its value is out of range";
    }
    return "ok";
}

static void commands_are_readable(void)
{
    static char text[8192];
    static size_t filled;
    const ssize_t length = read(STDIN_FILENO, text + filled, sizeof(text) - 1 - filled);
    if (length <= 0)
        exit(0);
    filled += (size_t)length;
    text[filled] = '\0';
    for (char *end; (end = memchr(text, '\n', filled)) != NULL;) {
        *end = '\0';
        puts(obey(text));
        fflush(stdout);
        filled -= (size_t)(end + 1 - text);
        memmove(text, end + 1, filled + 1);
    }
    if (filled == sizeof(text) - 1)
        exit(1);
}

static void handle(uint64_t source)
{
    if (source == UINT64_MAX)
        commands_are_readable();
    else if (source < LINKS_MAX)
        listener_is_readable(&links[source]);
    else
        source_is_readable(&pairs[(source - LINKS_MAX) / DIRECTIONS],
                           (source - LINKS_MAX) % DIRECTIONS);
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS_MAX] = {{.events = EPOLLIN, .data.u64 = UINT64_MAX}};
    random_state ^= (uint64_t)now_ns() * 2654435761u;
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || argc < 2 || argc - 1 > LINKS_MAX ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, events) != 0)
        die("usage: proxy SOCKET...");
    printf("ports");
    for (; link_count < (size_t)argc - 1; link_count++)
        open_link(&links[link_count], argv[link_count + 1]);
    puts("");
    fflush(stdout);
    for (;;) {
        const int count = epoll_wait(epoll, events, EVENTS_MAX, sweep());
        for (int i = 0; i < count; i++)
            handle(events[i].data.u64);
    }
}
