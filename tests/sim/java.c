/* A Java service beside the agents (R22). It takes their locks as Redisson's RedLock does: an RLock
 * on one master after the other. It renews them without counting, dies with them or gives them
 * back. Its commands are written anew here. It knows no guard: forgetful masters are left to
 * agents. */
#include "world.h"

#include <stdio.h>
#include <string.h>

/* KEYS: lock, channel. ARGV: holder, lease in ms. */
static const char takes[] =
    "if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then\n"
    "    redis.call('HSET', KEYS[1], ARGV[1], (redis.call('HGET', KEYS[1], ARGV[1]) or 0) + 1)\n"
    "    redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
    "    return -1\n"
    "end\n"
    "return redis.call('PTTL', KEYS[1])\n";
static const char renews[] = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end\n"
                             "return redis.call('PEXPIRE', KEYS[1], ARGV[2])\n";
static const char releases[] = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end\n"
                               "redis.call('DEL', KEYS[1])\n"
                               "redis.call('PUBLISH', KEYS[2], '0')\n"
                               "return 1\n";

/* SURE_PERCENT: the part of a lease that Java may rely on. LEFT_PERCENT: the longest that a lease
 * may last. Clocks differ by 1 % at most (A1), and Java does not know that. */
enum { SURE_PERCENT = 98, LEFT_PERCENT = 102, STEP_US_MAX = 3000, LOST_PERCENT = 3 };

static void come_in(struct world *w, int64_t us)
{
    world_plan_in(w, us, (struct happening){.kind = HAPPEN_JAVA});
}

static bool asks(struct world *w, uint8_t master, const char *script, int64_t *ret_number)
{
    struct java *java = &w->java;
    char holder[32];
    if (w->masters[master].down || w->masters[master].paused ||
        prng_percent(&w->java_chance, LOST_PERCENT))
        return false;
    snprintf(holder, sizeof holder, "java-%u:1", java->number);
    *ret_number = master_eval(w, master, script, java->key, holder, java->lease_ms);
    java->until[java->key] = w->now + (int64_t)java->lease_ms * 10 * LEFT_PERCENT;
    return true;
}

static int64_t sure_until(const struct java *java, int64_t from)
{
    return from + (int64_t)java->lease_ms * 10 * SURE_PERCENT;
}

static void begin(struct world *w)
{
    struct java *java = &w->java;
    java->number++;
    do
        java->key = (uint8_t)prng_below(&w->java_chance, w->options.keys);
    while (!options_kind(&w->options, java->key).redisson);
    const struct options *o = &w->options; /* away in turn: the policy's ttl is the longer one */
    int64_t least_ms = (o->ttl_ms < o->ttl_ms_max ? o->ttl_ms : o->ttl_ms_max) / 2;
    java->lease_ms = (uint32_t)prng_between(&w->java_chance, least_ms, o->ttl_ms_max);
    java->master = java->granted = 0;
    java->began_at = w->now;
    java->state = JAVA_TAKES;
    come_in(w, 0);
}

static void holds(struct world *w)
{
    struct java *java = &w->java;
    java->hold = world_allocate(w, sizeof *java->hold);
    memset(java->hold, 0, sizeof *java->hold);
    java->hold->key = java->key;
    java->hold->agent = SIM_AGENTS; /* the service is none of the agents */
    java->hold->window_until = sure_until(java, java->began_at);
    java->state = JAVA_HOLDS;
    java->renewals = (uint8_t)prng_below(&w->java_chance, 4);
    w->figures.java_grants++;
    world_say(w, "java takes k%u for %u ms", java->key, java->lease_ms);
    checker_java(w, java->hold);
    come_in(w, (int64_t)java->lease_ms * 1000 / 3);
}

static void gives_back(struct world *w)
{
    w->java.state = JAVA_RELEASES;
    w->java.master = 0;
    come_in(w, 0);
}

static void takes_next(struct world *w)
{
    struct java *java = &w->java;
    int64_t taken_ms;
    if (java->master < w->options.masters) {
        if (asks(w, java->master, takes, &taken_ms))
            java->granted = (uint8_t)(java->granted + (taken_ms == -1));
        java->master++;
        come_in(w, prng_between(&w->java_chance, 1, STEP_US_MAX));
    } else if (java->granted >= world_quorum(w) && sure_until(java, java->began_at) > w->now) {
        holds(w);
    } else {
        gives_back(w);
    }
}

/* Renews on all masters. Java relies only on a quorum's renewal, but its keys on other masters live
 * on. */
static void renews_all(struct world *w)
{
    struct java *java = &w->java;
    unsigned renewed = 0;
    for (uint8_t m = 0; m < w->options.masters; m++) {
        int64_t done;
        renewed += asks(w, m, renews, &done) && done == 1;
    }
    if (renewed < world_quorum(w) || java->hold->window_until <= w->now)
        return;
    java->hold->window_until = sure_until(java, w->now);
    checker_java(w, java->hold);
}

static void goes_on(struct world *w)
{
    struct java *java = &w->java;
    if (java->renewals > 0) {
        java->renewals--;
        renews_all(w);
        come_in(w, (int64_t)java->lease_ms * 1000 / 3);
    } else if (prng_percent(&w->java_chance, 25)) {
        world_say(w, "java dies with k%u", java->key);
        java->state = JAVA_IDLE;
        come_in(w, prng_between(&w->java_chance, 1000, 1000000));
    } else {
        world_say(w, "java gives k%u back", java->key);
        java->hold->ended = true;
        gives_back(w);
    }
}

static void releases_next(struct world *w)
{
    struct java *java = &w->java;
    int64_t done;
    if (java->master < w->options.masters) {
        asks(w, java->master++, releases, &done);
        come_in(w, prng_between(&w->java_chance, 1, STEP_US_MAX));
        return;
    }
    java->state = JAVA_IDLE;
    come_in(w, prng_between(&w->java_chance, 1000, w->options.think_us_max));
}

void java_start(struct world *w)
{
    memset(&w->java, 0, sizeof w->java);
    if (w->options.redisson && !w->switches.forgetful)
        come_in(w, prng_between(&w->java_chance, 0, 1000000));
}

void java_acts(struct world *w)
{
    static void (*const acts[])(struct world *) = {begin, takes_next, goes_on, releases_next};
    if (!w->healed)
        acts[w->java.state](w);
}

void java_heals(struct world *w)
{
    for (uint8_t key = 0; key < w->options.keys; key++)
        for (uint16_t i = 0; i < w->window_count[key]; i++)
            w->windows[key][i]->ended |= w->windows[key][i]->agent == SIM_AGENTS;
    for (uint8_t m = 0; m < w->options.masters; m++)
        for (uint8_t key = 0; key < w->options.keys; key++)
            master_forget_java(w, m, key);
}
