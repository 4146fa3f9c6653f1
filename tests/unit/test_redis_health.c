/* The use of INFO and of the masters' clocks (D5.4, R21), on masters that only the test has
 * made. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/redis/internal.h"

enum { MASTERS_MAX = 5, SECOND_US = 1000000 };

static struct config config;
static struct master masters[MASTERS_MAX];
static struct redis redis;
static unsigned told;
static int64_t told_us;

static void take_event(void *arg, struct event *event)
{
    (void)arg, (void)event;
}

static void take_state(void *arg, uint8_t group, uint8_t master, enum redis_state state,
                       const char *text)
{
    (void)arg, (void)group, (void)master, (void)state, (void)text;
}

static void take_clock(void *arg, uint8_t group, int64_t offset_us)
{
    (void)arg, (void)group;
    told++;
    told_us = offset_us;
}

/* Begins with READY masters whose clocks are so many seconds ahead of this agent's. */
static void begin_with_clocks(unsigned count, const int seconds[])
{
    config.groups[0].master_count = count;
    config.group_count = 1;
    redis.config = &config;
    redis.by_group[0] = masters;
    redis.sink.event = take_event;
    redis.sink.state = take_state;
    redis.sink.clock = take_clock;
    for (unsigned i = 0; i < count; i++) {
        masters[i].redis = &redis;
        masters[i].index = (uint8_t)i;
        masters[i].group_config = &config.groups[0];
        masters[i].config = &config.groups[0].masters[i];
        masters[i].phase = PHASE_READY;
        masters[i].health.clock_known = true;
        masters[i].view.clock_offset_us = (int64_t)seconds[i] * SECOND_US;
    }
}

/* ---- clocks ---- */

/* A minority of clocks is off itself, and proves nothing about this agent. */
Test(redis_health, d5_4_most_masters_say_that_this_agents_clock_is_off)
{
    static const struct {
        unsigned count;
        int seconds[MASTERS_MAX], off;
    } worlds[] = {
        {5, {7, 7, 0, 0, 0}, 0}, {5, {7, 7, 0, 90, -90}, 0},
        {5, {0, 7, 7, 7, 0}, 7}, {5, {7, 7, 7, 7, 7}, 7},
        {4, {7, 7, 0, 0}, 0},    {4, {7, 7, 90, -90}, 0},
        {4, {7, 7, 90, 7}, 7},   {3, {7, 0, 90}, 0},
        {3, {-7, -7, 0}, -7},    {2, {7, 0}, 0},
        {2, {7, 7}, 7},          {1, {7}, 7},
    };
    for (size_t i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
        redis.clock_off_us[0] = 0;
        told = 0;
        begin_with_clocks(worlds[i].count, worlds[i].seconds);
        health_look(&redis, 0);
        cr_assert_eq(redis.clock_off_us[0], (int64_t)worlds[i].off * SECOND_US,
                     "world %zu: %lld us", i, (long long)redis.clock_off_us[0]);
        cr_assert_eq(told, worlds[i].off != 0, "world %zu", i);
        cr_assert(told == 0 || told_us == redis.clock_off_us[0]);
    }
}

/* A master that does not answer has no vote in it, and the others are fewer. */
Test(redis_health, d5_4_a_clock_that_is_not_known_is_no_witness)
{
    static const int seconds[] = {7, 7, 7, 0, 0};
    begin_with_clocks(5, seconds);
    masters[1].health.clock_known = false;
    health_look(&redis, 0);
    cr_assert_eq(redis.clock_off_us[0], 0);
    masters[1].health.clock_known = true;
    masters[2].phase = PHASE_PAUSED;
    health_look(&redis, 0);
    cr_assert_eq(redis.clock_off_us[0], 0);
    masters[2].phase = PHASE_READY;
    health_look(&redis, 0);
    cr_assert_eq(redis.clock_off_us[0], 7 * SECOND_US);
}

/* ---- eviction ---- */

/* An unknown value is no fault, but a limit that is not reported counts as one. */
Test(redis_health, d5_4_a_maxmemory_that_is_not_reported_counts_as_set)
{
    static const struct {
        const char *info;
        bool evicts;
    } said[] = {{"maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", false},
                {"maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n", true},
                {"maxmemory_policy:allkeys-lru\r\n", true},
                {"maxmemory_policy:noeviction\r\n", false},
                {"maxmemory:1\r\n", false}};
    begin_with_clocks(1, (const int[]){0});
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        health_forget(&masters[0]);
        health_take_info(&masters[0], said[i].info);
        health_look(&redis, 0);
        cr_assert_eq(masters[0].health.evicts, said[i].evicts, "%s", said[i].info);
        cr_assert_eq(masters[0].health.grave, said[i].evicts, "%s", said[i].info);
    }
}

/* ---- replicas ---- */

/* A replica counts if it has reported within 2 s, and is past its first copy. */
Test(redis_health, r21_a_replica_that_reported_2_s_ago_keeps_up)
{
    static const struct {
        const char *state, *lag;
        int count;
    } said[] = {{"online", "0", 1},
                {"online", "2", 1},
                {"online", "3", 0},
                {"online", "20", 0},
                {"wait_bgsave", "0", 0}};
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        char info[400];
        snprintf(info, sizeof(info),
                 "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n"
                 "slave0:ip=127.0.0.1,port=7001,state=online,offset=14,lag=1\r\n"
                 "slave1:ip=127.0.0.1,port=7002,state=%s,offset=14,lag=%s\r\n",
                 said[i].state, said[i].lag);
        health_forget(&masters[0]);
        cr_assert_eq(masters[0].health.replicas, -1);
        health_take_info(&masters[0], info);
        cr_assert_eq(masters[0].health.replicas, 1 + said[i].count, "%s, %s s: %d", said[i].state,
                     said[i].lag, masters[0].health.replicas);
    }
}

/* ---- many clients of one master ---- */

Test(redis_health, d5_2_the_spread_of_tries_follows_the_number_of_clients)
{
    cr_assert_eq(master_spread_ms(0), 0u);
    cr_assert_eq(master_spread_ms(250), 100u);
    cr_assert_eq(master_spread_ms(10000), 4000u);
    cr_assert_eq(master_spread_ms(12501), 5000u);
    cr_assert_eq(master_spread_ms(UINT32_MAX), 5000u);
}

static uint64_t backoff_ms(uint32_t failures, uint32_t clients)
{
    struct master *master = &masters[0];
    master->failures = failures;
    master->health.clients = clients;
    master_start_backoff(master);
    cr_assert_eq(master->failures, failures + 1);
    return uv_timer_get_due_in(&master->timer);
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

Test(redis_health, d5_2_all_tries_but_the_first_are_spread)
{
    uv_loop_t loop;
    uint64_t least_ms = UINT64_MAX, most_ms = 0;
    begin_with_clocks(1, (const int[]){0});
    cr_assert_eq(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &masters[0].timer);
    masters[0].on_timer = on_timer;
    health_take_info(&masters[0], "# Clients\r\nconnected_clients:10000\r\n");
    cr_assert_eq(masters[0].health.clients, 10000u);
    for (unsigned i = 0; i < 300; i++) {
        cr_assert_leq(backoff_ms(0, 10000), 20u, "the first one comes soon");
        cr_assert_leq(backoff_ms(1, 0), 40u);
        uint64_t ms = backoff_ms(9, 10000);
        least_ms = ms < least_ms ? ms : least_ms;
        most_ms = ms > most_ms ? ms : most_ms;
    }
    cr_assert(least_ms < 600 && most_ms > 3900 && most_ms <= 4500, "%d to %d ms", (int)least_ms,
              (int)most_ms);
    uv_close((uv_handle_t *)&masters[0].timer, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

Test(redis_health, d5_2_a_master_that_greets_others_may_be_silent_for_longer)
{
    begin_with_clocks(1, (const int[]){0});
    masters[0].silence_ms = 1000;
    cr_assert_eq(master_greets_others_ms(&masters[0]), 0u);
    masters[0].health.clients = 10000;
    cr_assert_eq(master_greets_others_ms(&masters[0]), 4000u);
    masters[0].health.clients = 0;
    masters[0].failures = 3;
    cr_assert_eq(master_greets_others_ms(&masters[0]), 3000u);
    masters[0].failures = UINT32_MAX;
    cr_assert_eq(master_greets_others_ms(&masters[0]), 5000u);
}
