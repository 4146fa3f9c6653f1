/* The proxy of hostile.h: one thread, one poll() over the connections of one master. */
#include "hostile.h"
#include "world.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PAIRS = 32, CHUNK = 64 << 10, GREETED_MS = 30, AGAIN_MS = 300 };

struct pair {
    int client, master; /* -1: free */
    bool named, subscribes, asks_script, asks_time, hit;
    int64_t hit_at_ms;
    int64_t quiet_since_ms; /* since the greeting's last command was answered */
};

struct hostile {
    int listener, port;
    size_t index;
    pthread_t thread;
    _Atomic(const struct attack *) attack;
    const struct attack *seen;
    atomic_uint hits;
    atomic_bool stop, drop;
    char socket[108];
    int upstream_port;
    struct pair pairs[PAIRS];
};

static struct hostile *all[WORLD_MASTERS];
static size_t count;

static int connect_upstream(const struct hostile *hostile)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in inet = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)hostile->upstream_port)};
    inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(local.sun_path, hostile->socket, sizeof(local.sun_path));
    const bool tcp = hostile->upstream_port != 0;
    const int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, tcp ? (struct sockaddr *)&inet : (struct sockaddr *)&local,
                tcp ? sizeof(inet) : sizeof(local)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void end_pair(struct pair *pair)
{
    if (pair->client >= 0)
        close(pair->client);
    if (pair->master >= 0)
        close(pair->master);
    *pair = (struct pair){.client = -1, .master = -1};
}

static void accept_one(struct hostile *hostile)
{
    const struct timeval patience = {.tv_sec = 1};
    const int client = accept4(hostile->listener, NULL, NULL, SOCK_CLOEXEC);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    for (size_t i = 0; client >= 0 && i < PAIRS; i++) {
        if (hostile->pairs[i].client < 0) {
            hostile->pairs[i] =
                (struct pair){.client = client, .master = connect_upstream(hostile)};
            if (hostile->pairs[i].master < 0)
                end_pair(&hostile->pairs[i]);
            return;
        }
    }
    close(client);
}

/* Returns false when the agent has gone. Bytes that it does not take at once are lost: this is not
 * a master to rely on. */
static bool say(const struct pair *pair, const char *bytes, size_t length)
{
    return send(pair->client, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EAGAIN;
}

static bool holds(const char *bytes, size_t length, const char *word)
{
    return memmem(bytes, length, word, strlen(word)) != NULL;
}

static bool is_meant(const struct pair *pair, const struct attack *attack)
{
    return attack && attack->subscriber == pair->subscribes;
}

/* True while there is more to say. */
static bool add(struct hostile *hostile, struct pair *pair, const struct attack *attack)
{
    static _Thread_local char many[CHUNK];
    const bool greeted = pair->subscribes || pair->named;
    const bool now = attack && (attack->way == HOSTILE_GREET ||
                                (attack->way == HOSTILE_ADD && greeted &&
                                 boottime_ms() - pair->quiet_since_ms >= GREETED_MS));
    if (!now || !is_meant(pair, attack) ||
        (pair->hit && !attack->endless && boottime_ms() - pair->hit_at_ms < AGAIN_MS))
        /* again, for it may have met a question that was just in flight, and have been its
         * answer */
        return false;
    bool alive = true;
    if (!pair->hit || !attack->endless) {
        pair->hit_at_ms = boottime_ms();
        alive = say(pair, attack->bytes, strlen(attack->bytes));
        atomic_fetch_add(&hostile->hits, 1);
    }
    pair->hit = true;
    const char *unit = attack->tail ? attack->tail : attack->bytes;
    size_t length = 0, one = strlen(unit);
    for (; attack->endless && length + one <= sizeof(many); length += one)
        memcpy(many + length, unit, one);
    /* A unit that is cut in two would be another attack: each write must be taken whole, or
     * wait. */
    struct pollfd writable = {.fd = pair->client, .events = POLLOUT};
    if (alive && attack->endless && poll(&writable, 1, 0) == 1) {
        for (size_t at = 0; alive && at < length;) {
            const ssize_t sent = send(pair->client, many + at, length - at, MSG_NOSIGNAL);
            alive = sent > 0;
            at += alive ? (size_t)sent : 0;
        }
    }
    if (!alive)
        end_pair(pair);
    return alive && attack->endless;
}

/* As much as a broken master may be able to send before it is disconnected, and no more: the test's
 * thread waits. */
static bool pour(const struct pair *pair, const char *unit)
{
    enum { POURED = 256 << 20 };
    static _Thread_local char many[CHUNK];
    size_t length = 0, one = strlen(unit), poured = 0;
    for (; length + one <= sizeof(many); length += one)
        memcpy(many + length, unit, one);
    ssize_t sent = 1;
    for (; sent > 0 && poured < POURED; poured += (size_t)sent)
        sent = send(pair->client, many, length, MSG_NOSIGNAL);
    return sent > 0;
}

static void from_agent(struct pair *pair)
{
    char bytes[CHUNK];
    const ssize_t got = recv(pair->client, bytes, sizeof(bytes), 0);
    if (got <= 0 || send(pair->master, bytes, (size_t)got, MSG_NOSIGNAL) != got) {
        end_pair(pair);
        return;
    }
    pair->named |= holds(bytes, (size_t)got, "SETNAME");
    pair->subscribes |= holds(bytes, (size_t)got, "SUBSCRIBE");
    pair->asks_script |= holds(bytes, (size_t)got, "EVALSHA");
    pair->asks_time |= holds(bytes, (size_t)got, "$4\r\nTIME");
    pair->quiet_since_ms = boottime_ms();
}

/* The reply to TIME is the last of those that its question came with; true when it was among these
 * bytes. */
static bool tell_time(struct hostile *hostile, struct pair *pair, const struct attack *attack,
                      const char *bytes, size_t length)
{
    static const char begins[] = "*2\r\n$10\r\n";
    const char *at = memmem(bytes, length, begins, strlen(begins));
    if (!pair->asks_time || !at)
        return false;
    pair->asks_time = false;
    atomic_fetch_add(&hostile->hits, 1);
    if (!say(pair, bytes, (size_t)(at - bytes)) || !say(pair, attack->bytes, strlen(attack->bytes)))
        end_pair(pair);
    return true;
}

/* Sends the agent other bytes in place of these; true when it did. */
static bool distort(struct hostile *hostile, struct pair *pair, const struct attack *attack,
                    const char *bytes, size_t length)
{
    const bool is_due = pair->asks_script;
    pair->asks_script = false;
    if (!is_meant(pair, attack) || attack->way == HOSTILE_ADD || attack->way == HOSTILE_GREET)
        return false;
    if (attack->way == HOSTILE_TIME)
        return tell_time(hostile, pair, attack, bytes, length);
    if (!is_due)
        return false;
    atomic_fetch_add(&hostile->hits, 1);
    bool alive = attack->way == HOSTILE_REPLACE ? say(pair, attack->bytes, strlen(attack->bytes))
                                                : say(pair, bytes, length / 2);
    if (alive && attack->endless)
        alive = pour(pair, attack->tail);
    if (!alive || attack->way == HOSTILE_CUT)
        end_pair(pair);
    return true;
}

static void from_master(struct hostile *hostile, struct pair *pair, const struct attack *attack)
{
    char bytes[CHUNK];
    const ssize_t got = recv(pair->master, bytes, sizeof(bytes), 0);
    if (got > 0 && distort(hostile, pair, attack, bytes, (size_t)got))
        return;
    if (got <= 0 || send(pair->client, bytes, (size_t)got, MSG_NOSIGNAL) != got)
        end_pair(pair);
    else
        pair->quiet_since_ms = boottime_ms();
}

static void *run(void *arg)
{
    struct hostile *hostile = arg;
    while (!atomic_load(&hostile->stop)) {
        struct pollfd ready[1 + 2 * PAIRS] = {{.fd = hostile->listener, .events = POLLIN}};
        const struct attack *attack = atomic_load(&hostile->attack);
        bool more = false, drop = atomic_exchange(&hostile->drop, false);
        for (size_t i = 0; i < PAIRS; i++) {
            struct pair *pair = &hostile->pairs[i];
            pair->hit &= attack == hostile->seen;
            if (drop)
                end_pair(pair);
            if (pair->client >= 0)
                more |= add(hostile, pair, attack);
            ready[1 + 2 * i] = (struct pollfd){.fd = pair->client, .events = POLLIN};
            ready[2 + 2 * i] = (struct pollfd){.fd = pair->master, .events = POLLIN};
        }
        hostile->seen = attack;
        poll(ready, 1 + 2 * PAIRS, more ? 0 : 5);
        for (size_t i = 0; i < PAIRS; i++) {
            struct pair *pair = &hostile->pairs[i];
            if (ready[1 + 2 * i].revents)
                from_agent(pair);
            if (ready[2 + 2 * i].revents && pair->master >= 0)
                from_master(hostile, pair, attack);
        }
        if (ready[0].revents)
            accept_one(hostile);
    }
    for (size_t i = 0; i < PAIRS; i++)
        end_pair(&hostile->pairs[i]);
    close(hostile->listener);
    return NULL;
}

struct hostile *hostile_start(size_t index)
{
    struct hostile *hostile = keep(calloc(1, sizeof(*hostile)));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const char *url = master_url(index);
    for (size_t i = 0; i < PAIRS; i++)
        hostile->pairs[i].client = hostile->pairs[i].master = -1;
    if (strncmp(url, "unix:", 5) == 0)
        snprintf(hostile->socket, sizeof(hostile->socket), "%s", url + 5);
    else
        hostile->upstream_port = atoi(strrchr(url, ':') + 1);
    hostile->index = index;
    hostile->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(hostile->listener, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(listen(hostile->listener, 64), 0);
    cr_assert_eq(getsockname(hostile->listener, (struct sockaddr *)&address, &size), 0);
    hostile->port = ntohs(address.sin_port);
    cr_assert_eq(pthread_create(&hostile->thread, NULL, run, hostile), 0);
    all[count++] = hostile;
    return hostile;
}

const char *hostile_url(const struct hostile *hostile)
{
    return format("redis://127.0.0.1:%d", hostile->port);
}

const char *hostile_label(const struct hostile *hostile)
{
    return format("group=\"main\",master=\"127.0.0.1:%d\"", hostile->port);
}

void hostile_attack(struct hostile *hostile, const struct attack *attack)
{
    atomic_store(&hostile->hits, 0);
    atomic_store(&hostile->attack, attack);
}

void hostile_drop(struct hostile *hostile)
{
    atomic_store(&hostile->drop, true);
}

unsigned hostile_hits(const struct hostile *hostile)
{
    return atomic_load(&hostile->hits);
}

void hostile_stop_all(void)
{
    for (; count > 0; count--) {
        atomic_store(&all[count - 1]->stop, true);
        pthread_join(all[count - 1]->thread, NULL);
    }
}
