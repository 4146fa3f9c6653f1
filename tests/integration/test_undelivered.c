/* An agent with a journal that is killed while the answer of a grant is on its way: the lock is
 * free, or one caller's. */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

TestSuite(undelivered, .init = world_open, .fini = world_close, .timeout = 120);

enum {
    CALLS = 2000,
    TTL_MS = 6000 /* longer than an agent takes to start on a busy machine */
};

static struct agent *keeper(void)
{
    return agent_start(
        &(struct agent_options){.unix_path = world_path("api.sock"),
                                .extra = format("journal: {file: %s}\n", world_path("holds"))});
}

/* A caller that reads nothing, over a unix socket: that takes no more than a few hundred
 * answers. */
static int deaf_caller(const struct agent *agent)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", agent->unix_path);
    const int wire = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(wire, (struct sockaddr *)&address, sizeof(address)), 0, "%s",
                 strerror(errno));
    return wire;
}

/* Locks one key after the other on one connection: as long as the answer to one cannot be written
 * wholly, the next is not even looked at. So all but the last of those that were granted had their
 * answer. */
static int ask_for_many(const struct agent *agent, const char *headers)
{
    const int wire = deaf_caller(agent);
    for (int i = 0; i < CALLS; i++) {
        const char *request =
            format("POST /locks/k%d?ttl=%dms&renew=agent HTTP/1.1\r\nHost: localhost\r\n%s\r\n", i,
                   TTL_MS, headers);
        const ssize_t sent = send(wire, request, strlen(request), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        cr_assert_eq(sent, (ssize_t)strlen(request), "%zd: %s", sent, strerror(errno));
    }
    return wire;
}

static int held_count(const struct agent *agent)
{
    return (int)metric(agent, "lockagent_locks_held{policy=\"*\"}");
}

/* How many were granted, once nothing moves any more. */
static int granted_count(const struct agent *agent)
{
    int count = 0, before = -1;
    for (int64_t still_since = boottime_ms(); boottime_ms() < still_since + 1500; before = count) {
        sleep_ms(50);
        count = held_count(agent);
        if (count != before)
            still_since = boottime_ms();
    }
    cr_assert(count > 1 && count < CALLS, "%d were granted", count);
    return count;
}

static bool nothing_is_left_of(const char *key)
{
    return masters_with(format("lock:%s", key)) == 0;
}

/* If it were renewed, it would last until max_hold, because no caller has its token. Its keys stay
 * for the validity that the answer would have promised: an agent cannot know how far its last bytes
 * came. */
Test(undelivered, a_grant_that_nobody_was_told_of_ends_with_its_validity)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    const int wire = ask_for_many(agent, "");
    const int granted = granted_count(agent);
    const char *last = format("k%d", granted - 1), *told = format("k%d", granted - 2);
    agent_kill(agent);
    agent_restart(agent);
    cr_assert(eventually(!held_here(agent, last)), "%s is still held", last);
    cr_assert(eventually(nothing_is_left_of(last)));
    expect(acquire(agent, last, "ttl=30s&label=next"), 201, NULL);
    sleep_ms(TTL_MS);
    cr_assert(held_here(agent, told), "%s was answered: it goes on", told);
    cr_assert_eq(held_count(agent), granted);
    cr_assert_eq(agent_logged(agent, "lock resumed", NULL), (size_t)granted - 1);
    cr_assert_eq(
        agent_logged(agent, "lock resumed, not renewed: its answer may not have reached the caller",
                     format("\"key\":\"%s\"", last)),
        1u);
    wire_close(wire);
}

/* D3: a caller that can ask again has its lock, however the first answer ended. */
Test(undelivered, a_caller_that_asks_again_has_it)
{
    static const char key[] = "Idempotency-Key: 0123456789abcdef0123\r\n";
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = keeper();
    const int wire = ask_for_many(agent, key);
    const int granted = granted_count(agent);
    const char *last = format("k%d", granted - 1);
    agent_kill(agent);
    agent_restart(agent);
    cr_assert_eq(agent_logged(agent, "lock resumed", NULL), (size_t)granted);
    sleep_ms(TTL_MS + 500);
    cr_assert(held_here(agent, last));
    struct call again = {.method = "POST",
                         .path = format("/locks/%s?ttl=%dms&renew=agent", last, TTL_MS),
                         .headers = {"Idempotency-Key: 0123456789abcdef0123"}};
    const struct reply *repeated = http(agent, &again);
    expect(repeated, 200, NULL);
    give_back(agent, last, token(repeated));
    wire_close(wire);
}

/* A lock that was adopted, or answered and renewed, goes on after the next kill too. */
Test(undelivered, an_adopted_lock_needs_no_answer)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *other = agent_start(NULL), *agent = keeper();
    const struct reply *granted = acquire_free(other, "k", "ttl=20s&renew=agent");
    agent_kill(other);
    expect(renew(agent, "k", token(granted), "ttl=6s&renew=agent"), 200, NULL);
    agent_kill(agent);
    agent_restart(agent);
    cr_assert_eq(agent_logged(agent, "lock resumed", "\"key\":\"k\""), 1u);
    sleep_ms(6500); /* beyond the lease of before the kill */
    cr_assert(held_here(agent, "k"));
    give_back(agent, "k", token(granted));
}
