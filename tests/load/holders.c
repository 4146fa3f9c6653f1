/* The holders of the load suite: locks that the agent renews, each with a watch stream, leases that
 * their holder renews by PUT over a connection of its own, and a caller that asks /livez every
 * 20 ms.
 *
 *   holders HOST PORT WATCHDOGS LEASES
 *
 * Prints `ready` when all locks are held. Each line on stdin ends a phase: the phase's figures are
 * printed as one line of JSON, and the next phase begins. The end of stdin ends the program.
 *
 * A hold is lost if the agent says so, and also if its validity ends before the agent has reported
 * a new one. */
#include "tests/load/wire.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    HOLDS_MAX = 1000,
    SAMPLES_MAX = 1 << 18,
    EVENTS_MAX = 128,
    TICK_MS = 5,
    PROBE_MS = 20,
    RENEW_MS = 300,
    RETRY_MS = 20, /* After a refusal, or a connection that was closed. */
    ACQUIRES_MAX = 100,
    OPEN_MS = 100, /* A request without an answer counts at the end of a phase from then on. */
};
#define WATCHDOG_TERMS "ttl=5s&renew=agent"
#define LEASE_TERMS "ttl=1s"

enum hold_state { RESTING, ASKING, LOST };

struct hold {
    struct wire wire;
    enum hold_state state;
    bool watched; /* The agent renews it, and a stream tells of it; otherwise its holder does. */
    bool held;
    char key[32], token[TOKEN_BYTES];
    int64_t valid_until_ms; /* By CLOCK_BOOTTIME. */
    int64_t due_ns, asked_ns;
    int acquires;
};

struct probe {
    struct wire wire;
    bool asking;
    int64_t due_ns, asked_ns;
};

struct samples {
    size_t count;
    int64_t ns[SAMPLES_MAX];
};

static struct sockaddr_storage address;
static socklen_t address_length;
static int epoll_fd;
static struct hold holds[HOLDS_MAX];
static int hold_count, held_count, watchdogs;
static struct probe probe;

/* Samples of this phase. */
static struct samples livez, puts_taken;
static int lost_count, renewed_count, broken_count, statuses[STATUS_MAX];
static char lost_names[1 << 16];
static size_t lost_length;

static void add_sample(struct samples *samples, int64_t ns)
{
    if (samples->count < SAMPLES_MAX)
        samples->ns[samples->count++] = ns;
}

/* Adds a latency, and those of the requests that could not begin because this one was late. */
static void add_latency(struct samples *samples, int64_t ns, int64_t period_ms)
{
    for (; ns > 0; ns -= period_ms * 1000000) {
        add_sample(samples, ns);
        if (ns < period_ms * 1000000)
            return;
    }
}

static int compare(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

    return (a > b) - (a < b);
}

static double quantile_ms(struct samples *samples, double share)
{
    if (samples->count == 0)
        return 0;
    qsort(samples->ns, samples->count, sizeof *samples->ns, compare);
    size_t rank = (size_t)(share * (double)samples->count);
    return (double)samples->ns[rank < samples->count ? rank : samples->count - 1] / 1e6;
}

static void lose(struct hold *hold, const char *why)
{
    if (hold->state == LOST)
        return;
    if (!hold->held)
        die("%s was lost before all locks were held: %s", hold->key, why);
    wire_close(&hold->wire);
    hold->state = LOST;
    lost_count++;
    if (lost_length < sizeof lost_names - 100)
        lost_length += (size_t)sprintf(lost_names + lost_length, "%s\"%s: %.40s\"",
                                       lost_length ? ", " : "", hold->key, why);
}

/* Returns the number after "name": in a JSON text, or -1. */
static int64_t number_of(const char *text, const char *name)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *found = strstr(text, quoted);

    return found ? strtoll(found + strlen(quoted), NULL, 10) : -1;
}

/* Copies the string after "name": in a JSON text. */
static void word_of(const char *text, const char *name, char *word, size_t size)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *found = strstr(text, quoted);

    word[0] = 0;
    if (found && (found = strchr(found + strlen(quoted), '"')))
        snprintf(word, size, "%.*s", (int)strcspn(found + 1, "\""), found + 1);
}

static void take_validity(struct hold *hold, const char *text)
{
    int64_t until = number_of(text, "valid_until_boottime_ms");

    if (until > hold->valid_until_ms)
        hold->valid_until_ms = until;
}

static bool connect_if_closed(struct wire *wire, void *owner)
{
    return wire->fd >= 0 ||
           wire_open(wire, &address, address_length, epoll_fd, EPOLLIN, owner, false);
}

static void ask(struct hold *hold, int64_t now)
{
    char request[512];
    int length;

    if (!connect_if_closed(&hold->wire, hold)) {
        hold->due_ns = now + RETRY_MS * 1000000;
        return;
    }
    if (!hold->held)
        length = snprintf(request, sizeof request,
                          "POST /locks/%s?%s HTTP/1.1\r\nHost: localhost\r\n\r\n", hold->key,
                          hold->watched ? WATCHDOG_TERMS : LEASE_TERMS);
    else
        length = snprintf(request, sizeof request,
                          "%s /locks/%s%s HTTP/1.1\r\nHost: localhost\r\nLock-Token: %s\r\n\r\n",
                          hold->watched ? "GET" : "PUT", hold->key, hold->watched ? "?watch" : "",
                          hold->token);
    wire_expect(&hold->wire);
    if (hold->asked_ns == 0)
        hold->asked_ns = now;
    hold->state = ASKING;
    if (wire_send(&hold->wire, request, (size_t)length) == 0)
        hold->due_ns = now; /* The connection is not open yet. */
    else
        hold->due_ns = INT64_MAX;
}

static void rest(struct hold *hold, int64_t due)
{
    hold->state = RESTING;
    hold->due_ns = due;
}

static void take_grant(struct hold *hold, int64_t now)
{
    if (hold->wire.status != 201 || !hold->wire.token[0]) {
        if (++hold->acquires == ACQUIRES_MAX)
            die("%s is not granted: %d %s", hold->key, hold->wire.status, hold->wire.text);
        rest(hold, now + 5 * RETRY_MS * 1000000);
        return;
    }
    hold->held = true;
    hold->asked_ns = 0;
    memcpy(hold->token, hold->wire.token, sizeof hold->token);
    take_validity(hold, hold->wire.text);
    rest(hold, now + (hold->watched ? 0 : 1 + rand() % RENEW_MS) * INT64_C(1000000));
    if (++held_count == hold_count)
        puts("ready");
}

static bool says_lost(int status)
{
    return status == 404 || status == 410 || status == 412;
}

static void take_put(struct hold *hold, int64_t now)
{
    char why[64];

    statuses[hold->wire.status]++;
    add_latency(&puts_taken, now - hold->asked_ns, RENEW_MS);
    if (says_lost(hold->wire.status) || strstr(hold->wire.text, "\"adopted\"")) {
        snprintf(why, sizeof why, "PUT was answered %d%s", hold->wire.status,
                 hold->wire.status == 200 ? ", adopted" : "");
        lose(hold, why);
        return;
    }
    bool good = hold->wire.status == 200;
    take_validity(hold, hold->wire.text);
    rest(hold,
         good ? hold->asked_ns + RENEW_MS * INT64_C(1000000) : now + RETRY_MS * INT64_C(1000000));
    if (hold->due_ns < now)
        hold->due_ns = now;
    hold->asked_ns = 0;
}

/* Takes the events of the stream. An answer that is no stream is an error. */
static void take_stream(struct hold *hold, bool ended, int64_t now)
{
    char line[TEXT_BYTES], event[32], why[64];

    if (hold->wire.in_body && hold->wire.status != 200) {
        snprintf(why, sizeof why, "watch was answered %d", hold->wire.status);
        if (says_lost(hold->wire.status))
            lose(hold, why);
        else if (ended)
            rest(hold, now + RETRY_MS * 1000000);
        return;
    }
    while (wire_take_line(&hold->wire, line, sizeof line)) {
        word_of(line, "event", event, sizeof event);
        take_validity(hold, line);
        renewed_count += !strcmp(event, "renewed");
        if (!strcmp(event, "lost") || !strcmp(event, "released")) {
            word_of(line, "reason", why, sizeof why);
            lose(hold, why[0] ? why : event);
            return;
        }
    }
    if (ended)
        rest(hold, now + RETRY_MS * 1000000);
}

static void hold_readable(struct hold *hold, int64_t now)
{
    if (hold->state == LOST || hold->wire.fd < 0)
        return;
    enum wire_state state = wire_read(&hold->wire);
    bool watches = hold->watched && hold->held;
    if (watches)
        take_stream(hold, state != WIRE_MORE, now);
    if (hold->state == LOST)
        return;
    if (state == WIRE_BROKEN) {
        broken_count++;
        wire_close(&hold->wire);
        if (hold->state == ASKING) /* A request that got no answer is asked again. */
            hold->due_ns = now + RETRY_MS * 1000000;
    } else if (state == WIRE_ANSWER) {
        bool closes = hold->wire.closes;
        if (!hold->held)
            take_grant(hold, now);
        else if (!watches)
            take_put(hold, now);
        if (closes)
            wire_close(&hold->wire);
    }
}

static void ask_probe(int64_t now)
{
    static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

    if (!connect_if_closed(&probe.wire, &probe)) {
        probe.due_ns = now + RETRY_MS * 1000000;
        return;
    }
    wire_expect(&probe.wire);
    if (!probe.asking)
        probe.asked_ns = now;
    probe.asking = true;
    probe.due_ns = wire_send(&probe.wire, request, sizeof request - 1) ? INT64_MAX : now;
}

static void probe_readable(int64_t now)
{
    if (probe.wire.fd < 0)
        return;
    switch (wire_read(&probe.wire)) {
    case WIRE_MORE:
        return;
    case WIRE_BROKEN:
        broken_count += probe.asking;
        wire_close(&probe.wire);
        probe.due_ns = now + RETRY_MS * 1000000;
        return;
    case WIRE_ANSWER:
        add_latency(&livez, now - probe.asked_ns, PROBE_MS);
        probe.asking = false;
        probe.due_ns = probe.asked_ns + PROBE_MS * 1000000;
        if (probe.due_ns < now)
            probe.due_ns = now;
        if (probe.wire.closes)
            wire_close(&probe.wire);
    }
}

static void end_phase(int64_t now)
{
    if (probe.asking && now - probe.asked_ns > OPEN_MS * 1000000)
        add_latency(&livez, now - probe.asked_ns, PROBE_MS);
    for (int i = watchdogs; i < hold_count; i++)
        if (holds[i].state != LOST && holds[i].asked_ns &&
            now - holds[i].asked_ns > OPEN_MS * 1000000)
            add_latency(&puts_taken, now - holds[i].asked_ns, RENEW_MS);
    printf("{\"livez_count\": %zu, \"livez_p50\": %.2f, \"livez_p99\": %.2f, ", livez.count,
           quantile_ms(&livez, .5), quantile_ms(&livez, .99));
    printf("\"put_count\": %zu, \"put_p50\": %.2f, \"put_p99\": %.2f, ", puts_taken.count,
           quantile_ms(&puts_taken, .5), quantile_ms(&puts_taken, .99));
    printf("\"renewed\": %d, \"broken\": %d, \"lost\": [%.*s], \"puts\": {", renewed_count,
           broken_count, (int)lost_length, lost_names);
    bool first = true;
    for (int status = 0; status < STATUS_MAX; status++) {
        if (statuses[status])
            printf("%s\"%d\": %d", first ? "" : ", ", status, statuses[status]);
        first = first && !statuses[status];
    }
    puts("}}");
    livez.count = puts_taken.count = 0;
    lost_count = renewed_count = broken_count = 0;
    lost_length = 0;
    memset(statuses, 0, sizeof statuses);
}

/* Sends requests that are due, and counts a hold as lost if its validity is over. `heard_ms`: all
 * bytes that came before this time were read. */
static void tick(int64_t heard_ms)
{
    int64_t now = now_ns();

    if (held_count == hold_count && probe.due_ns <= now)
        ask_probe(now);
    for (int i = 0; i < hold_count; i++) {
        if (holds[i].state == LOST)
            continue;
        if (holds[i].held && holds[i].valid_until_ms < heard_ms)
            lose(&holds[i], "its validity ended unheard");
        else if (holds[i].due_ns <= now)
            ask(&holds[i], now);
    }
}

static void run(void)
{
    struct epoll_event events[EVENTS_MAX];

    for (;;) {
        int64_t before_ms = boottime_ms();
        int ready = epoll_wait(epoll_fd, events, EVENTS_MAX, TICK_MS);
        int64_t now = now_ns();
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr == NULL) {
                char line[64];
                if (read(STDIN_FILENO, line, sizeof line) <= 0)
                    return;
                end_phase(now);
            } else if (events[i].data.ptr == &probe) {
                probe_readable(now);
            } else {
                hold_readable(events[i].data.ptr, now);
            }
        }
        tick(ready < EVENTS_MAX ? before_ms : 0);
    }
}

/* The agent is measured, and not how long this process waits for a CPU beside masters and
 * strangers. The system grants that to root; elsewhere the figures contain such waits. */
static void never_wait_for_cpu(void)
{
    struct sched_param lowest = {.sched_priority = 1};

    sched_setscheduler(0, SCHED_FIFO, &lowest);
}

int main(int argc, char **argv)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (argc != 5)
        die("usage: holders HOST PORT WATCHDOGS LEASES");
    setvbuf(stdout, NULL, _IOLBF, 0);
    address = wire_address(argv[1], atoi(argv[2]), &address_length);
    watchdogs = atoi(argv[3]);
    hold_count = watchdogs + atoi(argv[4]);
    if (hold_count < 1 || hold_count > HOLDS_MAX)
        die("holders: 1 to %d locks", HOLDS_MAX);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0)
        die("no epoll: %s", strerror(errno));
    probe.wire.fd = -1;
    for (int i = 0; i < hold_count; i++) {
        holds[i].wire.fd = -1;
        holds[i].watched = i < watchdogs;
        snprintf(holds[i].key, sizeof holds[i].key, "%s/%d", holds[i].watched ? "hold" : "lease",
                 holds[i].watched ? i : i - watchdogs);
    }
    never_wait_for_cpu();
    run();
    return 0;
}
