/* The loop that drives a throng, and the judge of its grants. */
#include "throng.h"

#include <poll.h>

static void ask(struct throng *throng, struct throng_caller *caller)
{
    caller->state = THRONG_ASKS;
    wire_say(caller->wire, format("POST /locks/%s?%s%s HTTP/1.1\r\nHost: localhost\r\n"
                                  "Content-Length: 0\r\n\r\n",
                                  throng->key, throng->terms, caller->reads ? "&mode=read" : ""));
}

static void hand_in(struct throng *throng, struct throng_caller *caller)
{
    caller->state = THRONG_RELEASES;
    wire_say(caller->wire, format("DELETE /locks/%s HTTP/1.1\r\nHost: localhost\r\n"
                                  "Lock-Token: %s\r\n\r\n",
                                  throng->key, caller->token));
}

static void leave(struct throng_caller *caller)
{
    caller->state = THRONG_LEFT;
    wire_close(caller->wire);
}

struct throng_caller *throng_join(struct throng *throng, struct agent *agent, bool reads,
                                  bool again)
{
    cr_assert_lt(throng->count, (size_t)THRONG_MAX);
    struct throng_caller *caller = &throng->callers[throng->count++];
    *caller = (struct throng_caller){
        .agent = agent, .reads = reads, .again = again, .wire = wire_open(agent), .slot = -1};
    ask(throng, caller);
    return caller;
}

/* C1, C14, C15: at any moment at most `permits` callers write, each in a slot of its own, or any
 * number read. */
static void expect_room(const struct throng *throng, const struct throng_caller *caller)
{
    size_t beside = 0;
    for (size_t i = 0; i < throng->count; i++) {
        const struct throng_caller *other = &throng->callers[i];
        if (other == caller || other->state != THRONG_HOLDS ||
            other->valid_until_ms <= boottime_ms() || (other->reads && caller->reads))
            continue;
        beside++;
        cr_assert(caller->reads == other->reads, "one reads while another one writes");
        cr_assert(caller->slot < 0 || caller->slot != other->slot, "two hold slot %d",
                  caller->slot);
    }
    cr_assert_lt(beside, throng->permits, "%zu hold the key, and one more got it", beside);
}

static void granted(struct throng *throng, struct throng_caller *caller, const struct reply *reply)
{
    expect(reply, 201, NULL);
    caller->token = token(reply);
    caller->slot = member(reply, "slot") ? (int)number(reply, "slot") : -1;
    caller->valid_until_ms = number(reply, "valid_until_boottime_ms");
    expect_room(throng, caller);
    caller->state = THRONG_HOLDS;
    caller->ends_ms = boottime_ms() + throng->hold_ms;
    caller->turns++;
    throng->grants++;
}

/* D3.4, C4: an agent that does not know the hold can neither release nor deny it if too few masters
 * have its key and too few deny it, as one of them is silent. Part of a release was done before, or
 * a bare quorum had the key. */
static bool is_in_doubt(const struct throng_caller *caller, const struct reply *reply)
{
    if (!caller->stranger || reply->status != 503)
        return false;
    expect(reply, 503, "quorum_unavailable");
    const int64_t total = number(reply, "nodes.total"), quorum = number(reply, "nodes.quorum");
    return number(reply, "nodes.granted") < quorum && number(reply, "nodes.held") + quorum <= total;
}

static void hear(struct throng *throng, struct throng_caller *caller)
{
    const struct reply *reply = wire_receive(caller->wire, PATIENCE_MS);
    if (caller->state == THRONG_ASKS) {
        granted(throng, caller, reply);
        return;
    }
    if (is_in_doubt(caller, reply)) {
        caller->retried = true;
        hand_in(throng, caller);
        return;
    }
    /* D3.7: of a DELETE that is sent again, or comes too late, each of them means: done */
    const bool done = reply->status == 404 || reply->status == 410 || reply->status == 412,
               late = boottime_ms() >= caller->valid_until_ms;
    cr_assert(reply->status / 100 == 2 || (done && (late || caller->retried)), "%ld %s",
              reply->status, reply->body);
    if (caller->again)
        ask(throng, caller);
    else
        leave(caller);
}

/* Callers whose time is over give back. Returns when the next one's time is over. */
static int64_t end_holds(struct throng *throng)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < throng->count; i++) {
        struct throng_caller *caller = &throng->callers[i];
        if (caller->state != THRONG_HOLDS)
            continue;
        if (caller->ends_ms <= boottime_ms())
            hand_in(throng, caller);
        else if (caller->ends_ms < next)
            next = caller->ends_ms;
    }
    return next;
}

void throng_go_on(struct throng *throng, int64_t ms)
{
    const int64_t until = boottime_ms() + ms, due = end_holds(throng);
    const int64_t left = (due < until ? due : until) - boottime_ms();
    struct pollfd wires[THRONG_MAX];
    for (size_t i = 0; i < throng->count; i++) {
        const struct throng_caller *caller = &throng->callers[i];
        const bool waits = caller->state == THRONG_ASKS || caller->state == THRONG_RELEASES;
        wires[i] = (struct pollfd){.fd = waits ? caller->wire : -1, .events = POLLIN};
    }
    poll(wires, throng->count, left > 0 ? (int)left : 0);
    const size_t count = throng->count;
    for (size_t i = 0; i < count; i++)
        if (wires[i].revents)
            hear(throng, &throng->callers[i]);
    end_holds(throng);
}

void throng_go_on_until(struct throng *throng, size_t grants)
{
    size_t before = throng->grants;
    for (int64_t last_ms = boottime_ms(); throng->grants < grants; before = throng->grants) {
        throng_go_on(throng, 100);
        if (throng->grants != before)
            last_ms = boottime_ms();
        cr_assert_lt(boottime_ms(), last_ms + PATIENCE_MS, "nobody was granted the key any more");
    }
}

void throng_loses(struct throng *throng, const struct agent *agent)
{
    for (size_t i = 0; i < throng->count; i++) {
        struct throng_caller *caller = &throng->callers[i];
        if (caller->agent != agent || caller->state == THRONG_LEFT)
            continue;
        caller->again = false;
        if (caller->state == THRONG_ASKS) {
            leave(caller);
            continue;
        }
        wire_close(caller->wire);
        caller->agent = throng->refuge;
        caller->stranger = true;
        caller->wire = wire_open(throng->refuge);
        caller->retried = caller->state == THRONG_RELEASES;
        if (caller->retried)
            hand_in(throng, caller);
    }
}

static size_t present(const struct throng *throng)
{
    size_t count = 0;
    for (size_t i = 0; i < throng->count; i++)
        count += throng->callers[i].state != THRONG_LEFT;
    return count;
}

void throng_end(struct throng *throng)
{
    for (size_t i = 0; i < throng->count; i++)
        throng->callers[i].again = false;
    size_t left = present(throng);
    for (int64_t last_ms = boottime_ms(); left > 0;) {
        throng_go_on(throng, 100);
        if (present(throng) != left)
            last_ms = boottime_ms();
        left = present(throng);
        cr_assert_lt(boottime_ms(), last_ms + PATIENCE_MS, "%zu are left", left);
    }
}
