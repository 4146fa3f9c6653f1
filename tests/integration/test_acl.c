/* The rights that lockagent needs (D5.7): each file of deploy/acl is enough for its features, and
 * nothing in it is too much. The server's own ACL LOG is the judge: it names every command that was
 * refused, also those inside scripts. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { SHARES = 3 };

TestSuite(acl, .init = world_open, .fini = world_close, .timeout = 120);

struct feature_set {
    const char *file, *group, *policies;
};
static const struct feature_set full = {"full", "      durable: true\n",
                                        "policies:\n  - {match: waited, order: fair}\n"
                                        "  - {match: shared, kind: rw}\n"
                                        "  - {match: slots, permits: 2}\n"
                                        "  - {match: copied, group: copied, algorithm: single}\n"
                                        "  - {match: java, format: redisson}\n"};
static const struct feature_set basic = {"basic", "      guard: off\n",
                                         "policies:\n  - {match: '*', fencing: off}\n"};

static const char *acl_file(const struct feature_set *set)
{
    return format("%s/deploy/acl/%s.acl", getenv("LOCKAGENT_SOURCE"), set->file);
}

static bool refused(void)
{
    return master_do(0, "ACL LOG")->elements > 0;
}

/* A second group, of the same master, that waits for a replica (R21). */
static const char *with_replicas(const char *group)
{
    return format("%s    copied:\n"
                  "      masters: ['redis://lockagent:pw@%s']\n"
                  "      guard: off\n"
                  "      replicas: {ack: 1, timeout: 10ms}\n",
                  group, master_url(0) + strlen("redis://"));
}

static struct agent *start_agent(const struct feature_set *set)
{
    return agent_start(&(struct agent_options){
        .masters = format("['redis://lockagent:pw@%s']", master_url(0) + strlen("redis://")),
        .group = set == &full ? with_replicas(set->group) : set->group,
        .extra = set->policies});
}

/* A caller waits at another agent, and is told (R9). */
static void wait_for(struct agent *holder, struct agent *other)
{
    const struct reply *granted = acquire(holder, "waited", "ttl=10s");
    const int waiter = wire_request(other, "POST", "/locks/waited?ttl=10s&wait=1s", NULL);
    if (granted->status == 201) {
        sleep_ms(300);
        release(holder, "waited", token(granted));
    }
    const struct reply *heir = wire_receive(waiter, 3000);
    if (heir->status == 201) {
        release(other, "waited", token(heir));
    }
    wire_close(waiter);
}

/* One caller reads, and another one would write (R17). */
static void read_and_write(struct agent *reader, struct agent *writer)
{
    const struct reply *granted = acquire(reader, "shared", "ttl=10s&mode=read");
    acquire(writer, "shared", "ttl=10s");
    if (granted->status == 201) {
        renew(reader, "shared", token(granted), "ttl=20s");
        release(reader, "shared", token(granted));
    }
    master_do(0, "DEL lock:shared");
}

/* Both slots of a semaphore are taken, a third caller is refused, and told which are (R20). */
static void take_slots(struct agent *agent, struct agent *other)
{
    const struct reply *granted[2];
    for (int i = 0; i < 2; i++)
        granted[i] = acquire(i == 0 ? agent : other, "slots", "ttl=10s");
    acquire(other, "slots", "ttl=10s");
    get(agent, "/locks/slots");
    for (int i = 0; i < 2; i++)
        if (granted[i]->status == 201)
            release(i == 0 ? agent : other, "slots", token(granted[i]));
    master_do(0, "DEL lockagent:slot:0:lock:slots lockagent:slot:1:lock:slots");
}

/* One caller takes it that would share it with Java, and another one would have it too (R22). */
static void share_with_java(struct agent *holder, struct agent *other)
{
    const struct reply *granted = acquire(holder, "java", "ttl=10s");
    acquire(other, "java", "ttl=10s");
    if (granted->status == 201) {
        renew(other, "java", token(granted), "ttl=20s");
        release(other, "java", token(granted));
    }
    master_do(0, "DEL lock:java");
}

/* An operator unlocks the hold of a key, and its agent learns of it (R25). */
static void unlock_held(struct agent *agent)
{
    const struct reply *granted = acquire(agent, "unlocked", "ttl=10s");
    if (granted->status == 201) {
        agent_run((const char *[]){"unlock", agent->config, "unlocked", "--yes",
                                   format("%.12s", token(granted)), NULL});
        renew(agent, "unlocked", token(granted), NULL);
    }
    master_do(0, "DEL lock:unlocked");
}

/* A life that takes every way to the master: greeting, marker, grant, renewal, a key that went
 * missing, release, reconnect, trust, unlock. */
static void live(struct agent *agent, struct agent *other)
{
    wait_for(agent, other);
    read_and_write(agent, other);
    take_slots(agent, other);
    acquire(agent, "copied", "ttl=10s"); /* there is no replica */
    share_with_java(agent, other);
    const struct reply *granted = acquire(agent, "k", "ttl=10s");
    if (granted->status == 201) {
        renew(agent, "k", token(granted), "ttl=20s");
        renew(agent, "k", token(granted), "ttl=20s");
        release(agent, "k", token(granted));
    }
    master_do(0, "HSET lockagent:marker since 1"); /* something for trust to write */
    granted = acquire(agent, "gone", "ttl=10s");
    if (granted->status == 201) {
        master_do(0, "DEL lock:gone");
        renew(agent, "gone", token(granted), NULL);
    }
    agent_run((const char *[]){"trust", agent->config, NULL});
    unlock_held(agent);
    master_do(0, "DEL lock:k lock:gone lock:after lock:waited");
    master_do(0, "CLIENT KILL USER lockagent");
    acquire(agent, "after", "ttl=10s&wait=1s");
}

/* Operations in flight on the connection that is given up are killed by the next one (R5). */
static void fall_silent(struct agent *agent)
{
    master_freeze(0);
    acquire(agent, "silent", "ttl=10s&wait=2s");
    master_thaw(0);
    cr_assert(eventually(get(agent, "/readyz")->status == 200));
}

static void start_master(const struct feature_set *set)
{
    masters_start_with(1, MASTERS_FORGETFUL, "--aclfile", acl_file(set));
    master_do(0, "ACL SETUSER lockagent >pw");
    if (*masters_right_to_compare()) /* The files cannot name it (docs/masters.md). */
        master_do(0, "ACL SETUSER lockagent %s", masters_right_to_compare());
}

static void check_enough(const struct feature_set *set)
{
    start_master(set);
    struct agent *agent = start_agent(set);
    live(agent, start_agent(set));
    fall_silent(agent);
    cr_assert(!refused(), "refused: %s", master_do(0, "ACL LOG 1")->element[0]->element[5]->str);
    acquire_free(agent, "last", "ttl=10s");
}

/* The keys of a semaphore lie under lockagent:*, to which the basic file has no right. */
Test(acl, the_basic_file_is_not_enough_for_semaphores)
{
    static const struct feature_set slots = {
        "basic", "      guard: off\n", "policies:\n  - {match: slots, fencing: off, permits: 2}\n"};
    start_master(&slots);
    struct agent *agent = start_agent(&slots);
    cr_assert_eq(acquire(agent, "slots", "ttl=10s")->status, 503);
    cr_assert(refused());
}

Test(acl, the_full_file_is_enough)
{
    check_enough(&full);
}

Test(acl, the_basic_file_is_enough_without_guard_and_fencing)
{
    check_enough(&basic);
}

/* Takes away one right after another, of those whose turn it is among SHARES. */
static void check_each_is_needed(size_t share)
{
    start_master(&full);
    struct agent *agent = start_agent(&full), *other = start_agent(&full);
    char *rest = NULL;
    size_t rights = 0;
    for (char *word = strtok_r(read_whole_file(acl_file(&full)), " \n", &rest); word;
         word = strtok_r(NULL, " \n", &rest)) {
        if (*word != '+' || rights++ % SHARES != share)
            continue;
        cr_assert(eventually(get(agent, "/readyz")->status == 200), "%s",
                  get(agent, "/readyz")->body);
        master_do(0, "ACL SETUSER lockagent -%s", word + 1);
        master_do(0, "ACL LOG RESET");
        master_do(0, "SCRIPT FLUSH"); /* Otherwise none is loaded. */
        live(agent, other);
        if (!refused()) {
            fall_silent(agent);
        }
        /* the subscriber waits longer after each refusal */
        for (int i = 0; i < 10 && !refused(); i++) {
            wait_for(agent, other);
        }
        /* a busy master may have been late for a step that leads to the right */
        for (int i = 0; i < 3 && !refused(); i++) {
            live(agent, other);
        }
        cr_expect(eventually_within(5000, refused()), "nothing was refused without %s", word);
        master_do(0, "ACL SETUSER lockagent +%s", word + 1);
    }
    cr_assert_geq(rights, 10u);
}

Test(acl, each_right_is_needed_1)
{
    check_each_is_needed(0);
}

Test(acl, each_right_is_needed_2)
{
    check_each_is_needed(1);
}

Test(acl, each_right_is_needed_3)
{
    check_each_is_needed(2);
}
