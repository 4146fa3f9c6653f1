/* The window, the histogram and the CPU clocks of the benchmark's clients. */
#include "tests/bench/measure.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* The first octave holds 0..STEPS-1 one by one; every later one is STEPS buckets of equal width. */
static int bucket_of(int64_t ns)
{
    uint64_t value = ns < 0 ? 0 : (uint64_t)ns;

    if (value < STEPS)
        return (int)value;
    int shift = 63 - __builtin_clzll(value) - 6;
    int bucket = (shift + 1) * STEPS + (int)(value >> shift) - STEPS;
    return bucket < OCTAVES * STEPS ? bucket : OCTAVES * STEPS - 1;
}

static double middle_of(int bucket)
{
    if (bucket < STEPS)
        return bucket;
    int shift = bucket / STEPS - 1;
    return ((double)(bucket % STEPS + STEPS) + 0.5) * (double)(UINT64_C(1) << shift);
}

void histogram_add(struct histogram *histogram, int64_t ns)
{
    histogram->count++;
    histogram->buckets[bucket_of(ns)]++;
}

double histogram_us(const struct histogram *histogram, double quantile)
{
    double wanted = quantile * (double)histogram->count, seen = 0;

    for (int i = 0; i < OCTAVES * STEPS; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && seen >= wanted)
            return middle_of(i) / 1000;
    }
    return 0;
}

/* Returns the CPU time of all its threads, exact to nanoseconds; -1 when the process is gone. */
static int64_t cpu_us(pid_t pid)
{
    clockid_t clock;
    struct timespec spent;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &spent) != 0)
        return -1;
    return spent.tv_sec * INT64_C(1000000) + spent.tv_nsec / 1000;
}

static int64_t own_cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000) +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static bool parse_pid(const char *text, pid_t *ret_pid)
{
    char *end;
    long pid = strtol(text, &end, 10);

    if (end == text || *end || pid <= 1 || pid > INT_MAX)
        return false;
    *ret_pid = (pid_t)pid;
    return true;
}

static bool watch(struct window *window, const char *text)
{
    const char *colon = strchr(text, ':');
    struct watched *watched = &window->watched[window->watched_count];

    if (!colon || colon == text || (size_t)(colon - text) >= sizeof watched->name ||
        window->watched_count == WATCHED_MAX || !parse_pid(colon + 1, &watched->pid))
        return false;
    snprintf(watched->name, sizeof watched->name, "%.*s", (int)(colon - text), text);
    window->watched_count++;
    return true;
}

static bool add_fault(struct window *window, const char *text)
{
    struct fault *fault = &window->faults[window->fault_count];

    if (window->fault_count == FAULTS_MAX ||
        (strncmp(text, "STOP:", 5) != 0 && strncmp(text, "KILL:", 5) != 0) ||
        !parse_pid(text + 5, &fault->pid))
        return false;
    fault->signal = text[0] == 'S' ? SIGSTOP : SIGKILL;
    window->fault_count++;
    return true;
}

static bool parse_number(const char *text, double min, double max, double *ret_number)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end || !(number >= min && number <= max))
        return false;
    *ret_number = number;
    return true;
}

bool window_option(struct window *window, int option, const char *argument)
{
    double number = 0;

    switch (option) {
    case 'c':
        if (!parse_number(argument, 1, CALLERS_MAX, &number))
            return false;
        window->callers = (int)number;
        return true;
    case 'k':
        window->prefix = argument;
        return strlen(argument) <= PREFIX_BYTES_MAX;
    case 's':
        return parse_number(argument, .1, 3600, &window->seconds);
    case 'w':
        return parse_number(argument, 0, 60, &window->warmup_s);
    case 'W':
        return watch(window, argument);
    case 'F':
        return add_fault(window, argument);
    default:
        return false;
    }
}

void window_start(struct window *window)
{
    window->phase = PHASE_CLOSED;
    window->phase_ends_ns = now_ns() + (int64_t)(window->warmup_s * 1e9);
}

static void open_window(struct window *window)
{
    for (int i = 0; i < window->watched_count; i++)
        window->watched[i].us_before = cpu_us(window->watched[i].pid);
    for (int i = 0; i < window->fault_count; i++)
        if (kill(window->faults[i].pid, window->faults[i].signal) != 0)
            die("cannot send signal %d to process %d", window->faults[i].signal,
                (int)window->faults[i].pid);
    window->self_us = own_cpu_us();
    window->opened_ns = now_ns();
    window->phase_ends_ns = window->opened_ns + (int64_t)(window->seconds * 1e9);
    window->phase = PHASE_OPEN;
}

/* A process that was killed inside the window cannot be read any more and counts as 0: it was
 * killed in its first instant. */
static void close_window(struct window *window)
{
    window->closed_ns = now_ns();
    window->self_us = own_cpu_us() - window->self_us;
    for (int i = 0; i < window->watched_count; i++) {
        int64_t us = cpu_us(window->watched[i].pid);
        window->watched[i].us =
            us < window->watched[i].us_before ? 0 : us - window->watched[i].us_before;
    }
    /* if nothing has ended so far there is no result to wait for */
    window->phase_ends_ns =
        window->closed_ns + (window->pair.count ? DRAIN_MS * INT64_C(1000000) : 0);
    window->phase = PHASE_DRAINING;
}

enum phase window_advance(struct window *window, int64_t now)
{
    if (now < window->phase_ends_ns)
        return window->phase;
    if (window->phase == PHASE_CLOSED)
        open_window(window);
    else if (window->phase == PHASE_OPEN && window->pair.count == 0 &&
             window->prolonged++ < PROLONGED_MAX)
        window->phase_ends_ns = now + (int64_t)(window->seconds * 1e9);
    else if (window->phase == PHASE_OPEN)
        close_window(window);
    else
        window->phase = PHASE_OVER;
    return window->phase;
}

int window_timeout_ms(const struct window *window, int64_t now)
{
    return now >= window->phase_ends_ns ? 0 : (int)((window->phase_ends_ns - now) / 1000000 + 1);
}

bool window_takes_pairs(const struct window *window)
{
    return window->phase <= PHASE_OPEN;
}

void window_acquired(struct window *window, int64_t began, int64_t now)
{
    if (window->phase == PHASE_OPEN)
        histogram_add(&window->acquire, now - began);
}

void window_paired(struct window *window, int64_t began, int64_t now)
{
    if (window->phase != PHASE_OPEN)
        return;
    histogram_add(&window->pair, now - began);
    window->first_pairs += now - window->opened_ns < FIRST_MS * INT64_C(1000000);
}

static bool is_first_of_name(const struct window *window, int index)
{
    for (int i = 0; i < index; i++)
        if (!strcmp(window->watched[i].name, window->watched[index].name))
            return false;
    return true;
}

void window_print(const struct window *window)
{
    double seconds = (double)(window->closed_ns - window->opened_ns) / 1e9;
    double pairs = (double)window->pair.count, divisor = pairs > 0 ? pairs : 1;

    double first_s = seconds < FIRST_MS / 1e3 ? seconds : FIRST_MS / 1e3;

    printf("pairs=%.0f seconds=%.3f pairs_per_s=%.1f", pairs, seconds, pairs / seconds);
    printf(" first_pairs_per_s=%.1f", (double)window->first_pairs / first_s);
    printf(" acquire_p50_us=%.1f acquire_p99_us=%.1f acquire_max_us=%.1f",
           histogram_us(&window->acquire, .5), histogram_us(&window->acquire, .99),
           histogram_us(&window->acquire, 1));
    printf(" pair_p50_us=%.1f pair_p99_us=%.1f pair_max_us=%.1f", histogram_us(&window->pair, .5),
           histogram_us(&window->pair, .99), histogram_us(&window->pair, 1));
    printf(" client_cpu_us=%.2f", (double)window->self_us / divisor);
    for (int i = 0; i < window->watched_count; i++) {
        int64_t us = 0;
        if (!is_first_of_name(window, i))
            continue;
        for (int j = i; j < window->watched_count; j++)
            us += strcmp(window->watched[j].name, window->watched[i].name) ? 0
                                                                           : window->watched[j].us;
        printf(" %s_cpu_us=%.2f", window->watched[i].name, (double)us / divisor);
    }
}

void window_requires(uint64_t count, const char *who, const char *what)
{
    if (count == 0)
        die("%s: not one %s in the window: nothing was measured", who, what);
}
