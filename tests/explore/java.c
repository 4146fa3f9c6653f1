/* A Java service that shares the lock with the agents (R22), as a caller's moves. It asks all
 * masters at one instant, or the first one alone, as its RLock does (tests/sim/java.c does the
 * same). It gives back the keys that it has taken. */
#include "explore.h"

#include <string.h>

enum { JAVA_LEASE_MS = 400, SURE_PERCENT = 98 };

/* KEYS: lock, channel. ARGV: holder, lease in ms. */
static const char takes[] = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end\n"
                            "redis.call('HSET', KEYS[1], ARGV[1], 1)\n"
                            "redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
                            "return 1\n";
static const char releases[] = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end\n"
                               "redis.call('DEL', KEYS[1])\n"
                               "redis.call('PUBLISH', KEYS[2], '0')\n"
                               "return 1\n";

static unsigned ask(const char *script, uint8_t masters)
{
    unsigned said = 0;
    for (uint8_t m = 0; m < masters; m++)
        if (!world.masters[m].down)
            said += master_eval(&world, m, script, 0, "java-1:1", JAVA_LEASE_MS) == 1;
    return said;
}

void java_takes(bool first_alone)
{
    unsigned taken = ask(takes, first_alone ? 1 : world.options.masters);
    if (first_alone)
        exercised_count(DEED_JAVA_KEY);
    if (taken >= world_quorum(&world)) {
        scene.java =
            (struct hold){.agent = SIM_AGENTS,
                          .window_until = world.now + (int64_t)JAVA_LEASE_MS * 10 * SURE_PERCENT};
        exercised_count(DEED_JAVA);
        checker_java(&world, &scene.java);
    } else if (!first_alone) {
        ask(releases, world.options.masters);
    }
}

void java_releases(void)
{
    scene.java.ended = true;
    ask(releases, world.options.masters);
}
