/* The shared parts of the clients of the benchmark: the window in which they measure, a histogram
 * of latencies, the CPU time of other processes, faults to inject, and the one line in which they
 * report. */
#ifndef LOCKAGENT_BENCH_MEASURE_H
#define LOCKAGENT_BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    CALLERS_MAX = 4096,
    PREFIX_BYTES_MAX = 64,
    PROLONGED_MAX = 9, /* times that a window is prolonged in which no pair has ended yet */
    WATCHED_MAX = 32,  /* processes whose CPU time is read */
    FAULTS_MAX = 15,   /* signals sent when the window opens */
    OCTAVES = 36,      /* octaves of nanoseconds: the last one is beyond a minute */
    STEPS = 64,        /* per octave: a bucket is at most 1.6 % wide */
    FIRST_MS = 1000,   /* first part of the window, counted alone: the time of a fault */
    DRAIN_MS = 3000,   /* limit for operations in flight when the window closes */
};

/* Latencies in nanoseconds, in buckets of constant relative width. */
struct histogram {
    uint64_t count;
    uint32_t buckets[OCTAVES * STEPS];
};

void histogram_add(struct histogram *histogram, int64_t ns);
/* The latency that the share `quantile` of all stayed below, in microseconds; 0 when there are
 * none. */
double histogram_us(const struct histogram *histogram, double quantile);

/* A process whose CPU time is read when the window opens and when it closes; times of one name are
 * summed. */
struct watched {
    char name[16];
    pid_t pid;
    int64_t us_before, us;
};

struct fault {
    int signal;
    pid_t pid;
};

/* CLOSED (warming up) -> OPEN (measuring) -> DRAINING -> OVER; window_advance() is the only way
 * from one to the next. */
enum phase { PHASE_CLOSED, PHASE_OPEN, PHASE_DRAINING, PHASE_OVER };

struct window {
    int callers;        /* pairs in flight at once */
    const char *prefix; /* prefix of the keys, which end in the caller's number */
    double warmup_s, seconds;
    struct watched watched[WATCHED_MAX];
    int watched_count;
    struct fault faults[FAULTS_MAX];
    int fault_count;

    enum phase phase;
    int64_t phase_ends_ns, opened_ns, closed_ns;
    int prolonged;
    int64_t self_us; /* CPU time of this process inside the window */

    struct histogram acquire, pair; /* acquire alone; acquire and release together */
    uint64_t first_pairs;           /* pairs of the first FIRST_MS */
};

int64_t now_ns(void);

/* The options that all clients know. A fault is sent in the instant in which the window opens,
 * under full load. */
#define WINDOW_OPTIONS                                                                             \
    {"callers", required_argument, NULL, 'c'}, {"prefix", required_argument, NULL, 'k'},           \
        {"seconds", required_argument, NULL, 's'}, {"warmup", required_argument, NULL, 'w'},       \
        {"watch", required_argument, NULL, 'W'},                                                   \
    {                                                                                              \
        "fault", required_argument, NULL, 'F'                                                      \
    }
#define WINDOW_USAGE                                                                               \
    "[--callers N] [--prefix KEY] [--seconds S] [--warmup S] [--watch NAME:PID]... [--fault "      \
    "STOP|KILL:PID]..."
/* Takes one of them; false when it is none of these or its argument is bad. */
bool window_option(struct window *window, int option, const char *argument);

void window_start(struct window *window);
/* Moves on to the phase that `now` lies in. */
enum phase window_advance(struct window *window, int64_t now);
/* Milliseconds until the phase ends, for epoll_wait. */
int window_timeout_ms(const struct window *window, int64_t now);
/* True while another pair may begin. */
bool window_takes_pairs(const struct window *window);
/* Counts an operation that ended at `now`, if the window is open. */
void window_acquired(struct window *window, int64_t began, int64_t now);
void window_paired(struct window *window, int64_t began, int64_t now);
/* Prints `pairs=... pairs_per_s=...` and so on without a newline: the caller adds its own words. */
void window_print(const struct window *window);
/* Ends the program, by die(), if `count` is 0: a run in which nothing happened is no measurement.
 * `who` is the program, `what` names the counted things, for people. */
void window_requires(uint64_t count, const char *who, const char *what);

/* Prints to stderr and exits with 2: a benchmark that cannot measure says so. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
