/* The alarm: it rings at its instant, never before, and once. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "agent/alarm.h"
#include "agent/clock.h"

static uv_loop_t uv;
static struct alarm tested, guardian;
static struct instant rung_at;
static unsigned times;

static void ring(void *arg)
{
    cr_assert_eq(arg, &tested);
    rung_at = clock_now();
    times++;
}

static void stop(void *arg)
{
    (void)arg;
    uv_stop(&uv);
}

/* Runs the loop until `us` from now. */
static void run_for(int64_t us)
{
    alarm_set(&guardian, instant_after_us(clock_now(), us));
    uv_run(&uv, UV_RUN_DEFAULT);
}

static void set_up(void)
{
    times = 0;
    uv_loop_init(&uv);
    cr_assert(alarm_open(&tested, &uv, ring, &tested));
    cr_assert(alarm_open(&guardian, &uv, stop, NULL));
}

static void tear_down(void)
{
    alarm_close(&tested);
    alarm_close(&guardian);
    uv_run(&uv, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&uv), 0, "a handle is left");
}

TestSuite(alarm, .init = set_up, .fini = tear_down);

Test(alarm, rings_once_and_never_too_early)
{
    struct instant at = instant_after_us(clock_now(), 2500);
    alarm_set(&tested, at);
    run_for(20000);
    cr_assert_eq(times, 1);
    cr_assert(!instant_before(rung_at, at), "it rang %lld us too early",
              (long long)instant_us_between(rung_at, at));
    cr_assert_eq(tested.at.us, INSTANT_NEVER.us, "it is not set any more");
}

Test(alarm, an_instant_that_is_over_rings_too)
{
    alarm_set(&tested, (struct instant){0});
    run_for(1000);
    cr_assert_eq(times, 1);
}

Test(alarm, takes_the_last_instant_that_it_was_set_for)
{
    struct instant later = instant_after_us(clock_now(), 5000);
    alarm_set(&tested, instant_after_us(clock_now(), 1000));
    alarm_set(&tested, later);
    run_for(20000);
    cr_assert_eq(times, 1);
    cr_assert(!instant_before(rung_at, later));
}

Test(alarm, never_is_never)
{
    alarm_set(&tested, instant_after_us(clock_now(), 1000));
    alarm_set(&tested, INSTANT_NEVER);
    run_for(5000);
    cr_assert_eq(times, 0);
}

/* It had fired already, and the loop has not looked yet. */
Test(alarm, one_that_was_set_anew_after_it_fired_does_not_ring_for_that)
{
    alarm_set(&tested, clock_now());
    usleep(2000);
    alarm_set(&tested, instant_after_ms(clock_now(), 60000));
    run_for(3000);
    cr_assert_eq(times, 0);
}

Test(alarm, a_closed_one_is_silent)
{
    alarm_close(&tested);
    alarm_close(&tested);
    alarm_set(&tested, clock_now());
    run_for(3000);
    cr_assert_eq(times, 0);
}

static void put_off(void *other)
{
    alarm_set(other, instant_after_us(clock_now(), 3600000000));
    times++;
}

/* Both are due as the loop checks, and each puts the other off. So one of them does not ring. */
Test(alarm, what_is_put_off_as_it_is_due_does_not_ring)
{
    struct alarm first, second;
    cr_assert(alarm_open(&first, &uv, put_off, &second));
    cr_assert(alarm_open(&second, &uv, put_off, &first));
    struct instant at = instant_after_us(clock_now(), 1000);
    alarm_set(&first, at), alarm_set(&second, at);
    while (!instant_before(instant_after_us(at, 1000), clock_now()))
        usleep(1000);
    run_for(20000);
    alarm_close(&first), alarm_close(&second);
    uv_run(&uv, UV_RUN_NOWAIT);
    cr_assert_eq(times, 1);
}
