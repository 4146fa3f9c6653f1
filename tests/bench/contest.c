/* One key, many callers, and as many holders as there is room for. */
#include "tests/bench/contest.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

bool parse_hold(struct contest *contest, const char *ms)
{
    char *end;
    double hold_ms = strtod(ms, &end);

    contest->hold_ns = (int64_t)(hold_ms * 1e6);
    return end != ms && !*end && hold_ms >= 0 && hold_ms <= 1000;
}

void contest_start(struct contest *contest, int epoll_fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    contest->last_holder = contest->last_place = NOBODY;
    contest->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (contest->timer_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, contest->timer_fd, &event) != 0)
        die("no timer");
    window_start(&contest->window);
}

void contest_wants(struct contest *contest, int caller, int64_t now)
{
    contest->waiting_since_ns[caller] = now;
    contest->reads[caller] = contest->read_share > 0 && drand48() < contest->read_share;
}

/* Counts this grant, and the time since the release before it. */
static void count_hand_over(struct contest *contest, int caller, int place, int64_t now)
{
    contest->grants++;
    contest->same_caller += caller == contest->last_holder;
    histogram_add(place == contest->last_place ? &contest->within : &contest->between,
                  now - contest->released_ns);
    if (contest->read_share > 0 && !contest->reads[caller])
        histogram_add(&contest->write_wait, now - contest->waiting_since_ns[caller]);
}

static bool has_room(const struct contest *contest, int caller)
{
    return contest->reads[caller] ? contest->writing == 0 : contest->holding < contest->permits;
}

void contest_granted(struct contest *contest, int caller, int place, int64_t now)
{
    if (!has_room(contest, caller))
        die("%d hold the key, %d of them to write, and caller %d got it to %s", contest->holding,
            contest->writing, caller, contest->reads[caller] ? "read" : "write");
    if (contest->window.phase == PHASE_OPEN && contest->last_holder != NOBODY)
        count_hand_over(contest, caller, place, now);
    window_acquired(&contest->window, contest->waiting_since_ns[caller], now);
    contest->all_grants++;
    contest->waiting_since_ns[caller] = 0;
    contest->last_holder = caller;
    contest->last_place = place;
    contest->granted_ns[caller] = now;
    contest->holders[(contest->first_holder + contest->holding++) % CALLERS_MAX] = caller;
    contest->writing += !contest->reads[caller];
    if (contest->holding > contest->most_holding)
        contest->most_holding = contest->holding;
}

int64_t contest_hold_ends(const struct contest *contest)
{
    int first = contest->holders[contest->first_holder];

    return contest->holding == 0 ? INT64_MAX : contest->granted_ns[first] + contest->hold_ns;
}

int contest_released(struct contest *contest, int64_t now)
{
    int caller = contest->holders[contest->first_holder];

    if (contest->window.phase == PHASE_OPEN)
        contest->held_ns += now - contest->granted_ns[caller];
    window_paired(&contest->window, contest->granted_ns[caller], now);
    contest->first_holder = (contest->first_holder + 1) % CALLERS_MAX;
    contest->holding--;
    contest->writing -= !contest->reads[caller];
    contest->released_ns = now;
    return caller;
}

/* Callers that never got the key count too: a histogram of grants alone would flatter a client that
 * starves its callers. */
static void count_unserved(struct contest *contest, int64_t now)
{
    for (int i = 0; i < contest->window.callers; i++)
        if (contest->waiting_since_ns[i] &&
            now - contest->waiting_since_ns[i] > contest->unserved_ns)
            contest->unserved_ns = now - contest->waiting_since_ns[i];
}

bool contest_advance(struct contest *contest, int64_t due)
{
    int64_t now = now_ns();
    bool was_open = contest->window.phase == PHASE_OPEN;
    enum phase phase = window_advance(&contest->window, now);

    if (was_open && phase != PHASE_OPEN)
        count_unserved(contest, now);
    if (due > contest->window.phase_ends_ns)
        due = contest->window.phase_ends_ns;
    struct itimerspec at = {.it_value = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000}};
    if (timerfd_settime(contest->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) != 0)
        die("the timer can not be set");
    return phase != PHASE_OVER;
}

void contest_print(const struct contest *contest)
{
    const struct histogram *wait = &contest->window.acquire;
    double seconds = (double)(contest->window.closed_ns - contest->window.opened_ns) / 1e9;
    double grants = contest->grants ? (double)contest->grants : 1,
           longest_us = histogram_us(wait, 1);

    if ((double)contest->unserved_ns / 1000 > longest_us)
        longest_us = (double)contest->unserved_ns / 1000;
    window_print(&contest->window);
    printf(" grants=%llu grants_per_s=%.1f all_grants=%llu", (unsigned long long)contest->grants,
           (double)contest->grants / seconds, (unsigned long long)contest->all_grants);
    printf(" wait_p50_us=%.1f wait_p99_us=%.1f wait_longest_us=%.1f", histogram_us(wait, .5),
           histogram_us(wait, .99), longest_us);
    printf(" held_us=%.1f same_caller_share=%.4f between_share=%.4f",
           (double)contest->held_ns / 1000 / grants, (double)contest->same_caller / grants,
           (double)contest->between.count / grants);
    printf(" within_p50_us=%.1f within_p99_us=%.1f", histogram_us(&contest->within, .5),
           histogram_us(&contest->within, .99));
    printf(" between_p50_us=%.1f between_p99_us=%.1f", histogram_us(&contest->between, .5),
           histogram_us(&contest->between, .99));
    printf(" most_holding=%d write_wait_p50_us=%.1f write_wait_longest_us=%.1f",
           contest->most_holding, histogram_us(&contest->write_wait, .5),
           histogram_us(&contest->write_wait, 1));
}
