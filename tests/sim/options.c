/* Options of a seed. Each run turns on its own mix of faults and manners, so that rare pairs of
 * them meet (swarm testing). */
#include "options.h"

#include <stdio.h>

#include "prng.h"

/* Half of the runs do without this fault or habit; in the others it comes in any strength up to
 * `most`. */
static unsigned maybe(struct prng *prng, unsigned most)
{
    return prng_percent(prng, 50) ? 0 : (unsigned)prng_between(prng, 1, most);
}

static void draw_sizes(struct options *o, struct prng *prng)
{
    static const uint8_t master_counts[] = {1, 2, 3, 3, 3, 4, 5, 5, 5, 5, 6, 7, 8, 9};
    o->agents = (uint8_t)prng_between(prng, prng_percent(prng, 15) ? 1 : 2, SIM_AGENTS);
    o->masters = master_counts[prng_below(prng, sizeof master_counts)];
    o->keys = prng_percent(prng, 60) ? 1 : (uint8_t)prng_between(prng, 1, SIM_KEYS);
    o->callers = (uint8_t)prng_between(prng, 2, SIM_CALLERS);
    unsigned dice = (unsigned)prng_below(prng, 100);
    o->algorithm = dice < 85   ? ALGORITHM_REDLOCK
                   : dice < 95 ? ALGORITHM_MULTILOCK
                               : ALGORITHM_SINGLE;
    if (o->algorithm == ALGORITHM_SINGLE)
        o->masters = 1;
    if (o->algorithm == ALGORITHM_MULTILOCK && o->masters > 3)
        o->masters = 3;
}

static void draw_policy(struct options *o, struct prng *prng)
{
    o->fencing = prng_percent(prng, 85);
    o->journal = prng_percent(prng, 50);
    o->fair = prng_percent(prng, 25);
    o->renew = prng_percent(prng, 50) ? RENEW_AGENT : RENEW_CALLER;
    o->node_timeout_ms = (uint32_t)prng_between(prng, 20, 100);
    o->ttl_ms_max = (uint32_t)(prng_percent(prng, 60) ? prng_between(prng, 1000, 3000)
                                                      : prng_between(prng, 1000, 10000));
    o->ttl_ms = (uint32_t)prng_between(prng, 1000, o->ttl_ms_max);
    o->retry_ms_min = (uint32_t)prng_between(prng, 20, 100);
    o->retry_ms_max = o->retry_ms_min + (uint32_t)prng_between(prng, 0, 400);
    o->handover_max = prng_percent(prng, 30) ? 0 : (uint32_t)prng_between(prng, 1, 6);
    o->max_hold_ms = prng_percent(prng, 50) ? 600000 : prng_between(prng, 2000, 20000);
    o->lock_delay_ms = prng_percent(prng, 80) ? 0 : (uint32_t)prng_between(prng, 100, 3000);
}

static void draw_network(struct options *o, struct prng *prng)
{
    static const int64_t delays[] = {200, 500, 2000, 10000, 50000};
    o->out_us_max = delays[prng_below(prng, 4)];
    o->back_us_max = delays[prng_below(prng, 5)];
    o->late = (uint16_t)maybe(prng, 400);
    o->late_us_max = prng_percent(prng, 50) ? 300000 : 3000 * (int64_t)o->ttl_ms_max;
    o->silence_us = prng_percent(prng, 80) ? 1000000 : 20000000;
    o->doubled = (uint16_t)maybe(prng, prng_percent(prng, 40) ? 4000 : 500);
    o->refused = (uint16_t)maybe(prng, 300);
    o->not_run = (uint16_t)maybe(prng, 100);
    o->not_sent = (uint16_t)maybe(prng, 50);
    o->message_lost = (uint16_t)maybe(prng, 2000);
    o->down_first = prng_percent(prng, 70);
}

static void draw_faults(struct options *o, struct prng *prng)
{
    o->partitions = (uint8_t)maybe(prng, prng_percent(prng, 30) ? 60 : 12);
    o->isolations = (uint8_t)maybe(prng, 4);
    o->splits = (uint8_t)maybe(prng, 4);
    o->flapping = (uint8_t)maybe(prng, 40);
    o->wall_jumps = (uint8_t)maybe(prng, 4);
    o->frozen_writes = (uint16_t)maybe(prng, 500);
    o->resets = (uint8_t)maybe(prng, 10);
    o->pauses = (uint8_t)maybe(prng, 5);
    o->restarts = (uint8_t)maybe(prng, 5);
    o->stalls = (uint8_t)maybe(prng, 4);
    o->crashes = (uint8_t)maybe(prng, 6);
    o->ends = (uint8_t)maybe(prng, 3);
    o->chaos_us = prng_between(prng, 4000000, 10000000) + (prng_percent(prng, 10) ? 20000000 : 0);
    o->think_us_max = prng_percent(prng, 50) ? 100000 : 1000000;
    /* Two clocks differ by less than the drift of 1 % when each is off by less than half of it
     * (A1). */
    o->rate_ppm = prng_percent(prng, 70) ? 4950 : 0;
    o->wall_us = prng_percent(prng, 60) ? 900000 : prng_percent(prng, 50) ? 0 : 60000000;
}

static void draw_manners(struct options *o, struct prng *prng)
{
    o->waits = (uint8_t)prng_between(prng, 0, 100);
    o->renews = (uint8_t)prng_between(prng, 0, 60);
    o->shortens = (uint8_t)maybe(prng, 60);
    o->vanishes = (uint8_t)(prng_percent(prng, 30) ? 0 : prng_between(prng, 5, 80));
    o->cancels = (uint8_t)maybe(prng, 30);
    o->loses_answers = (uint8_t)maybe(prng, 15);
    o->bothers = (uint8_t)maybe(prng, 25);
    o->goes_elsewhere = (uint8_t)maybe(prng, 20);
    o->reads = (uint8_t)maybe(prng, 10);
    o->binds = (uint8_t)maybe(prng, 50);
    o->sticks = (uint8_t)maybe(prng, 10);
    o->owns = (uint8_t)maybe(prng, 60);
    o->repeats = (uint8_t)maybe(prng, 80);
    o->copies = (uint8_t)maybe(prng, 30);
}

/* For a fair order. */
static void draw_turns(struct options *o, struct prng *prng)
{
    o->leaves = (uint8_t)maybe(prng, 40);
    /* An attempt that comes to a master too late keeps its key for a while. If all masters are
     * needed, the others might never win. */
    o->chokes = prng_percent(prng, 30) && o->agents > 1 && o->algorithm != ALGORITHM_MULTILOCK;
}

/* The core's limits, which are the same for every agent. */
static void draw_tables(struct options *o, struct prng *prng)
{
    bool small = prng_percent(prng, 20);
    o->groups = prng_percent(prng, 70) ? 1 : (uint8_t)prng_between(prng, 2, SIM_GROUPS);
    o->policies = prng_percent(prng, 70) ? 1 : (uint8_t)prng_between(prng, 2, SIM_PATTERNS);
    o->reloads = (uint8_t)maybe(prng, 4);
    o->bad_ttls = (uint8_t)maybe(prng, 5);
    o->locks_max = small ? (uint32_t)prng_between(prng, 1, 6) : SIM_LOCKS;
    o->rounds_min = ROUNDS_MIN;
    o->rounds_first = ROUNDS_FIRST;
    o->rounds_max = LIMIT_ROUNDS;
    o->waiters_max = small ? (uint32_t)prng_between(prng, 1, 3) : SIM_REQUESTS / 2;
    o->turn_us_max = prng_percent(prng, 50)   ? 0
                     : prng_percent(prng, 70) ? prng_between(prng, 50, 1000)
                                              : prng_between(prng, 1000, 5000);
}

void options_draw(struct options *options, uint64_t seed)
{
    static const struct {
        enum stream stream;
        void (*draw)(struct options *options, struct prng *prng);
    } parts[] = {
        {STREAM_SIZES, draw_sizes},     {STREAM_POLICY, draw_policy},
        {STREAM_NETWORK, draw_network}, {STREAM_OPTION_FAULTS, draw_faults},
        {STREAM_MANNERS, draw_manners}, {STREAM_TURNS, draw_turns},
        {STREAM_TABLES, draw_tables},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct prng own = prng_stream(seed, parts[i].stream, 0);
        parts[i].draw(options, &own);
    }
}

int64_t options_round_trip_us(const struct options *o)
{
    return o->turn_us_max + o->out_us_max + o->back_us_max;
}

void options_print(const struct options *o)
{
    printf("%u agents, %u masters (%s), %u keys, %u callers; fencing %s, order %s, journal %s, "
           "renew %s, node timeout "
           "%u ms, ttl "
           "%u..%u ms, "
           "max_hold %lld ms, lock_delay %u ms, retry %u..%u ms, handover_max %u\n",
           o->agents, o->masters, algorithm_name(o->algorithm), o->keys, o->callers,
           o->fencing ? "on" : "off", o->fair ? "fair" : "any", o->journal ? "on" : "off",
           renew_name(o->renew), o->node_timeout_ms, o->ttl_ms, o->ttl_ms_max,
           (long long)o->max_hold_ms, o->lock_delay_ms, o->retry_ms_min, o->retry_ms_max,
           o->handover_max);
    printf("delays up to %lld + %lld us; of 10,000: late %u (up to %lld us), doubled %u, refused "
           "%u, not run %u, not "
           "sent %u, message lost %u, frozen answers %u; silence %lld us; down said %s\n",
           (long long)o->out_us_max, (long long)o->back_us_max, o->late, (long long)o->late_us_max,
           o->doubled, o->refused, o->not_run, o->not_sent, o->message_lost, o->frozen_writes,
           (long long)o->silence_us, o->down_first ? "first" : "last");
    printf("%u partitions, %u isolations, %u splits (%u %% flap), %u resets, %u pauses, %u "
           "restarts, %u flushes, %u "
           "stalls, "
           "%u crashes, %u ends in %lld us\n",
           o->partitions, o->isolations, o->splits, o->flapping, o->resets, o->pauses, o->restarts,
           o->flushes, o->stalls, o->crashes, o->ends, (long long)o->chaos_us);
    printf("clock rates within %lld ppm, wall clocks of agents within %lld us, %u jumps of them\n",
           (long long)o->rate_ppm, (long long)o->wall_us, o->wall_jumps);
    printf("per cent: wait %u, renew %u, shorten %u, vanish %u, cancel %u, lose the answer %u, "
           "bother %u, elsewhere %u, "
           "read %u, bind %u, do not read %u, own %u, repeat %u, send copies %u; think up to %lld "
           "us\n",
           o->waits, o->renews, o->shortens, o->vanishes, o->cancels, o->loses_answers, o->bothers,
           o->goes_elsewhere, o->reads, o->binds, o->sticks, o->owns, o->repeats, o->copies,
           (long long)o->think_us_max);
    printf("%u groups, %u policies, %u reloads, %u %% of the ttls too long; at most %u locks and "
           "%u waiters at an agent, %u to %u rounds in flight, turns of up to %lld us\n",
           o->groups, o->policies, o->reloads, o->bad_ttls, o->locks_max, o->waiters_max,
           o->rounds_min, o->rounds_max, (long long)o->turn_us_max);
    if (o->replicas > 0)
        printf("%u replicas, %u of which must have it within %u ms; %u of them freeze, %u are "
               "promoted\n",
               o->replicas, o->ack, o->replicas_timeout_ms, o->freezes, o->failovers);
    for (uint8_t key = 0; key < o->keys && o->several_kinds; key++)
        printf("k%u: %s%s\n", key,
               o->kinds[key].rw            ? "rw"
               : o->kinds[key].redisson    ? "redisson"
               : o->kinds[key].permits > 1 ? "semaphore"
                                           : "mutex",
               o->kinds[key].fair ? ", order fair" : "");
    if (o->rw)
        printf("%u %% of the requests read\n", o->readers);
    if (o->fair)
        printf("in the healed world %u %% leave, and %s\n", o->leaves,
               o->chokes ? "one agent reaches no quorum in time"
                         : "every agent reaches all masters");
}
