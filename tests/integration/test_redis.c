/* Refusals of Redis itself, and the least rights that the agent needs (D5.5, D5.7). */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

TestSuite(redis, .init = world_open, .fini = world_close, .timeout = 60);

/* A user with exactly the rights that the agent needs: the whole life of a lock under it. */
Test(redis, least_rights)
{
    const char *acl = write_file(
        "users.acl", "user default on nopass ~* &* +@all\n"
                     "user locker on >s3cret ~lock:* ~lockagent:* resetchannels -@all +set +get "
                     "+mget +del +hset +hget +hgetall +zadd +zscore "
                     "+hmget +pexpire +pttl +eval +evalsha +script|exists +script|load +ping +info "
                     "+time +hello +client|setname +client|id +client|kill +command|list\n");
    masters_start_with(5, MASTERS_FORGETFUL, "--aclfile", acl);
    struct agent *agent = agent_start(
        &(struct agent_options){.group = format("      username: locker\n      password_file: %s\n",
                                                write_file("password", "s3cret\n"))});
    const struct reply *granted = acquire_free(agent, "k", "ttl=6s&renew=agent");
    sleep_ms(6500); /* beyond the lease that was granted */
    cr_assert_str_eq(key_state(agent, "k"), "held");
    expect(renew(agent, "k", token(granted), NULL), 200, NULL);
    agent_kill(agent);
    agent_restart(agent);
    expect(renew(agent, "k", token(granted), "ttl=5s"), 200, NULL);
    for (size_t i = 0; i < 5; i++) {
        master_do(i, "SCRIPT FLUSH");
        cr_assert_eq(master_do(i, "ACL LOG")->elements, 0u,
                     "the agent tried what it has no right to");
    }
    give_back(agent, "k", token(granted));
    cr_assert(eventually(masters_with("lock:k") == 0));
}

static unsigned scripts_loaded(size_t master)
{
    const char *stats = master_do(master, "INFO commandstats")->str,
               *loads = strstr(stats, "cmdstat_script|load:calls=");
    return loads ? (unsigned)atoi(strchr(loads, '=') + 1) : 0;
}

/* Scripts that a master has are not sent again, and those that it has lost are. */
Test(redis, scripts_are_loaded_once)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *first = agent_start(NULL);
    unsigned loaded = scripts_loaded(0);
    cr_assert_gt(loaded, 0u);
    struct agent *second = agent_start(NULL);
    expect(acquire(second, "k", "ttl=2s"), 201, NULL);
    agent_kill(first);
    agent_restart(first);
    expect(acquire(first, "other", "ttl=2s"), 201, NULL);
    cr_assert_eq(scripts_loaded(0), loaded);
    master_do(0, "SCRIPT FLUSH");
    agent_kill(first);
    agent_restart(first);
    expect(acquire(first, "third", "ttl=2s"), 201, NULL);
    cr_assert_geq(scripts_loaded(0), 2 * loaded);
}

/* Rights of before the agent asked which scripts a master has. */
Test(redis, no_right_to_ask_for_scripts)
{
    const char *acl = write_file("users.acl", "user default on nopass ~* &* +@all\n"
                                              "user old on >s3cret ~* &* +@all -script|exists\n");
    masters_start_with(3, MASTERS_FORGETFUL, "--aclfile", acl);
    struct agent *agent = agent_start(
        &(struct agent_options){.group = format("      username: old\n      password_file: %s\n",
                                                write_file("password", "s3cret\n"))});
    const struct reply *granted = acquire(agent, "k", "ttl=2s");
    expect(granted, 201, NULL);
    give_back(agent, "k", token(granted));
}

/* Without the right to write nothing is granted, and it is said which masters refuse. */
Test(redis, no_right_to_write)
{
    const char *acl = write_file("users.acl", "user default on nopass ~* &* +@all\n"
                                              "user reader on >s3cret ~* &* +@all -set -@write\n");
    masters_start_with(3, MASTERS_FORGETFUL, "--aclfile", acl);
    struct agent *agent = agent_start(
        &(struct agent_options){.not_ready = true,
                                .group = format("      username: reader\n      password_file: %s\n",
                                                write_file("password", "s3cret\n"))});
    sleep_ms(300);
    expect(acquire(agent, "k", "ttl=2s"), 503, "quorum_unavailable");
    cr_assert_eq(masters_with("lock:k"), 0u);
}

/* A full master takes no new locks, but those that it holds are renewed and released there. */
Test(redis, out_of_memory)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *held = acquire_free(agent, "held", "ttl=6s&renew=agent");
    for (size_t i = 0; i < 3; i++)
        master_do(i, "CONFIG SET maxmemory 1");
    const struct reply *refused = acquire(agent, "k", "ttl=2s");
    expect(refused, 503, "quorum_unavailable");
    cr_assert_geq(number(refused, "nodes.error"), 2);
    sleep_ms(6500); /* beyond the lease that was granted */
    cr_assert(held_here(agent, "held"), "a full master still renews");
    expect(renew(agent, "held", token(held), NULL), 200, NULL);
    for (size_t i = 1; i < 3; i++)
        master_do(i, "CONFIG SET maxmemory 0");
    expect(acquire(agent, "k", "ttl=2s&wait=5s"), 201, NULL);
    give_back(agent, "held", token(held));
    cr_assert(eventually(masters_with("lock:held") == 0));
}

/* A master that was made a replica refuses writes; the others go on, and it takes part again when
 * it is a master again. */
Test(redis, read_only)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    master_do(0, "REPLICAOF 127.0.0.1 1");
    const struct reply *granted = acquire(agent, "k", "ttl=20s");
    expect(granted, 201, NULL);
    cr_assert_eq(number(granted, "nodes.granted"), 2);
    master_do(1, "REPLICAOF 127.0.0.1 1");
    expect(acquire(agent, "k2", "ttl=2s"), 503, "quorum_unavailable");
    master_do(0, "REPLICAOF NO ONE");
    master_do(1, "REPLICAOF NO ONE");
    expect(acquire(agent, "k2", "ttl=20s&wait=10s"), 201, NULL);
    give_back(agent, "k", token(granted));
}

/* Every connection cut at once: held locks go on, and waiting callers are served after the
 * reconnect. */
Test(redis, connections_cut)
{
    masters_start(5, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    const struct reply *held = acquire(agent, "held", "ttl=3s&renew=agent");
    expect(held, 201, NULL);
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < 5; i++)
            master_do(i, "CLIENT KILL TYPE normal SKIPME yes");
        const struct reply *granted = acquire(agent, "k", "ttl=20s&wait=10s");
        expect(granted, 201, NULL);
        cr_assert(eventually(get(agent, "/readyz")->status == 200));
        give_back(agent, "k", token(granted));
        cr_assert(eventually(masters_with("lock:k") == 0));
        sleep_ms(300);
    }
    cr_assert(held_here(agent, "held"));
    expect(renew(agent, "held", token(held), NULL), 200, NULL);
    cr_assert_geq(agent_logged(agent, "master state changed", "\"state\":\"up\""), 10u,
                  "every master was connected to again");
}

/* A master that is busy with an endless script counts as silent until the script is killed. */
Test(redis, busy)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *agent = agent_start(NULL);
    master_do(0, "CONFIG SET busy-reply-threshold 100");
    redisContext *stranger = redisConnectUnix(master_url(1) + strlen("unix:"));
    cr_assert(stranger && !stranger->err);
    redisAppendCommand(stranger, "EVAL %s 0", "while true do end");
    int written = 0;
    redisBufferWrite(stranger, &written);
    for (int i = 0; i < 5; i++) {
        const struct reply *granted = acquire_free(agent, "k", "ttl=20s");
        give_back(agent, "k", token(granted));
    }
    redisFree(stranger);
    cr_assert(eventually(agent_logged(agent, "master state changed", "\"state\":\"down\"") > 0));
}
