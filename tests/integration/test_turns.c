/* Readers and writers of one key that are always busy: neither passes the other (R18). The test
 * counts turns, not time. */
#include "throng.h"

#include <string.h>

TestSuite(turns, .init = world_open, .fini = world_close, .timeout = 150);

enum { ROUNDS = 15, READERS = 12, WRITERS = 4, HOLD_MS = 20 };

static struct throng throng;
static struct agent *agents[3]; /* the last one is idle */

static void begin(void)
{
    masters_start(5, MASTERS_FORGETFUL);
    /* An agent that reaches no quorum within node_timeout withdraws its ticket (R9), and others
     * pass its waiters. On a busy machine it may be late. */
    for (int i = 0; i < 3; i++)
        agents[i] = agent_start(&(struct agent_options){
            .node_timeout = "2s", .extra = "policies:\n  - {match: '*', ttl: 30s, kind: rw}\n"});
    throng = (struct throng){
        .key = "k", .terms = "wait=60s", .hold_ms = HOLD_MS, .permits = 1, .refuge = agents[0]};
}

static void fill(size_t count, bool reads)
{
    for (size_t i = 0; i < count; i++)
        throng_join(&throng, agents[i % 2], reads, /* again= */ true);
    throng_go_on_until(&throng, 3 * count);
}

/* Returns on how many masters there is a ticket of this mode. */
static size_t masters_with_ticket(const char *mode)
{
    size_t masters = 0;
    for (size_t i = 0; i < master_count(); i++) {
        const redisReply *tickets = master_do(i, "HVALS lockagent:ticket:lock:k");
        bool one = false;
        for (size_t t = 0; t < tickets->elements; t++)
            one |= strstr(tickets->element[t]->str, mode) != NULL;
        masters += one;
    }
    return masters;
}

/* One more comes, of the other mode. Returns how many turns of `count` others came before its own
 * since its ticket was stored; of each of them at most `*ret_most`. */
static size_t turns_before(struct agent *agent, bool reads, size_t count, unsigned *ret_most)
{
    unsigned before[READERS];
    size_t sum = 0;
    throng.count = count; /* the one of the last round has left */
    const struct throng_caller *comer = throng_join(&throng, agent, reads, /* again= */ false);
    while (comer->turns == 0 && masters_with_ticket(reads ? ":r" : ":w") < 3)
        throng_go_on(&throng, 5);
    for (size_t i = 0; i < count; i++)
        before[i] = throng.callers[i].turns;
    while (comer->turns == 0)
        throng_go_on(&throng, 100);
    for (size_t i = 0; i < count; i++) {
        const unsigned turns = throng.callers[i].turns - before[i];
        sum += turns;
        *ret_most = turns > *ret_most ? turns : *ret_most;
    }
    while (comer->state != THRONG_LEFT)
        throng_go_on(&throng, 100);
    return sum;
}

/* Each reader may have asked before the writer did, and be served before it: once. */
Test(turns, r18_a_writer_among_busy_readers)
{
    size_t sum = 0, longest = 0;
    unsigned most = 0;
    begin();
    fill(READERS, /* reads= */ true);
    for (int round = 0; round < ROUNDS; round++) {
        const size_t turns = turns_before(agents[round % 3], /* reads= */ false, READERS, &most);
        sum += turns;
        longest = turns > longest ? turns : longest;
    }
    cr_log_info("%zu turns of %d readers before one of a writer in the mean, %zu at most; of one "
                "reader %u at most",
                sum / ROUNDS, READERS, longest, most);
    cr_assert(sum > 0 && most == 1);
    throng_end(&throng);
}

/* Each writer may have asked before the reader did: once. */
Test(turns, r18_a_reader_among_busy_writers)
{
    size_t sum = 0, longest = 0;
    unsigned most = 0;
    begin();
    fill(WRITERS, /* reads= */ false);
    for (int round = 0; round < ROUNDS; round++) {
        const size_t turns = turns_before(agents[2], /* reads= */ true, WRITERS, &most);
        sum += turns;
        longest = turns > longest ? turns : longest;
    }
    cr_log_info("%zu turns of %d writers before one of a reader in the mean, %zu at most; of one "
                "writer %u at most",
                sum / ROUNDS, WRITERS, longest, most);
    cr_assert(sum > 0 && most == 1);
    throng_end(&throng);
}
