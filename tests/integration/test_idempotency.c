/* Safe retry (D3): a POST whose answer was lost is asked again, and leaves neither a second hold
 * nor an orphan. */
#include "harness.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(idempotency, .init = world_open, .fini = world_close, .timeout = 150);

static struct reply *ask(const struct agent *agent, const char *method, const char *path,
                         const char *key)
{
    return http(agent, &(struct call){.method = method,
                                      .path = path,
                                      .headers = {format("Idempotency-Key: %s", key)}});
}

/* Starts an agent whose masters may take their time. Each answer of the tests is the right one also
 * on a busy machine. */
static struct agent *start_patient(void)
{
    return agent_start(&(struct agent_options){.node_timeout = "2s"});
}

Test(idempotency, the_same_request_has_one_hold)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = start_patient(), *other = start_patient();
    const char *key = "0123456789abcdef-the-key";
    const struct reply *first = ask(agent, "POST", "/locks/k?ttl=30s", key);
    expect(first, 201, NULL);
    const struct reply *again = ask(agent, "POST", "/locks/k?ttl=30s", key);
    expect(again, 200, NULL);
    cr_assert_str_eq(token(again), token(first));
    cr_assert_eq(number(again, "count"), 1);
    expect(ask(agent, "POST", "/locks/k?ttl=20s", key), 409, "idempotency_mismatch");
    /* known to its agent only */
    expect(ask(other, "POST", "/locks/k?ttl=30s", key), 409, "lock_held");
    expect(ask(agent, "POST", "/locks/another?ttl=30s", key), 201, NULL); /* for its key only */
    expect(ask(agent, "DELETE", "/locks/k", key), 204, NULL);
    cr_assert(eventually(masters_with("lock:k") == 0));
    expect(ask(agent, "POST", "/locks/k?ttl=30s", key), 409, "superseded");
    expect(ask(agent, "DELETE", "/locks/k", key), 404, "not_held");
    expect(acquire(agent, "k", "ttl=30s"), 201, NULL);
    cr_assert_eq(agent_logged(agent, NULL, "the-key"), 0u);
    cr_assert_null(strstr(get(agent, "/locks")->body, "the-key"));
}

/* D3.5: "if the reason is `moved`, another agent has it". Its token still works, at each agent. */
Test(idempotency, a_hold_that_has_moved_is_lost_for_a_repeat)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = start_patient(), *other = start_patient();
    const char *key = "0123456789abcdef-the-key";
    const struct reply *first = ask(agent, "POST", "/locks/k?ttl=30s", key), *again = NULL;
    expect(first, 201, NULL);
    expect(renew(other, "k", token(first), "ttl=30s"), 200, NULL);
    cr_assert(eventually((again = ask(agent, "POST", "/locks/k?ttl=30s", key))->status != 503));
    expect(again, 410, "lock_lost");
    cr_assert_str_eq(string(again, "reason"), "moved", "%s", again->body);
    expect(renew(agent, "k", token(first), "ttl=30s"), 200, NULL);
    expect(release(other, "k", token(first)), 204, NULL);
}

/* The connection of a waiter broke, unseen: its retry takes its place in the queue. */
Test(idempotency, a_retry_takes_over_the_wait)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = start_patient();
    const char *header_line = "Idempotency-Key: 0123456789abcdef\r\n",
               *path = "/locks/k?ttl=30s&wait=60s";
    const struct reply *holder = acquire(agent, "k", "ttl=60s");
    const int older = wire_request(agent, "POST", path, header_line);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 1));
    const int next = wire_request(agent, "POST", path, NULL);
    cr_assert(eventually(metric(agent, "lockagent_waiters") == 2));
    const int newer = wire_request(agent, "POST", path, header_line);
    expect(wire_receive(older, PATIENCE_MS), 409, "superseded");
    wire_close(older);
    cr_assert_eq(metric(agent, "lockagent_waiters"), 2);
    give_back(agent, "k", token(holder));
    const struct reply *granted = wire_receive(newer, PATIENCE_MS);
    expect(granted, 201, NULL);
    cr_assert(wire_is_silent(next));
    give_back(agent, "k", token(granted));
    expect(wire_receive(next, PATIENCE_MS), 201, NULL);
    wire_close(newer), wire_close(next);
}

/* The connection is cut behind every byte of the answer, by close and by reset. In each case the
 * retry gets the lock, once: one DELETE frees it, and no other caller was let in. */
Test(idempotency, cut_at_every_byte_of_the_answer)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = start_patient();
    const int probe = wire_request(agent, "POST", "/locks/probe?ttl=30s",
                                   "Idempotency-Key: probe-probe-probe\r\n");
    char answer[4096] = "";
    cr_assert(eventually(recv(probe, answer, sizeof(answer) - 1, MSG_PEEK | MSG_DONTWAIT) > 300));
    const size_t length = strlen(answer);
    wire_close(probe);
    for (size_t cut = 0; cut <= length; cut++) {
        const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        const char *key = format("cut-at-every-byte-%04zu", cut),
                   *path = format("/locks/cut/%zu?ttl=30s", cut);
        const int wire = wire_request(agent, "POST", path, format("Idempotency-Key: %s\r\n", key));
        for (size_t got = 0; got < cut;) {
            const ssize_t some =
                recv(wire, answer, cut - got < sizeof(answer) ? cut - got : sizeof(answer), 0);
            if (some <= 0)
                break; /* this answer is shorter by a digit */
            got += (size_t)some;
            if (got + 4 > length)
                break;
        }
        if (cut % 2)
            cr_assert_eq(setsockopt(wire, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
        wire_close(wire);
        const struct reply *retried = ask(agent, "POST", path, key);
        /* the first one came in only behind the second one */
        while (strcmp(code(retried), "superseded") == 0)
            retried = ask(agent, "POST", path, key);
        cr_assert(retried->status == 201 || retried->status == 200, "cut at %zu: %ld %s", cut,
                  retried->status, retried->body);
        const struct reply *third = ask(agent, "POST", path, key);
        expect(third, 200, NULL);
        cr_assert_str_eq(token(third), token(retried), "a second hold, cut at %zu", cut);
        cr_assert_eq(number(third, "count"), 1);
        expect(acquire(agent, format("cut/%zu", cut), "ttl=30s"), 409, "lock_held");
        give_back(agent, format("cut/%zu", cut), token(retried));
        cr_assert_not(held_here(agent, format("cut/%zu", cut)));
        cr_assert(eventually(masters_with(format("lock:cut/%zu", cut)) == 0),
                  "an orphan, cut at %zu", cut);
    }
}
