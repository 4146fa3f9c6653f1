/* The shared part of the clients of the waiting benchmark: callers that want one key over and over,
 * how long each holds it, and the order of the holders. One process drives all callers, so it sees
 * every grant in order. A holder for which there is no room ends it. */
#ifndef LOCKAGENT_BENCH_CONTEST_H
#define LOCKAGENT_BENCH_CONTEST_H

#include "tests/bench/measure.h"

enum { NOBODY = -1 };

struct contest {
    struct window window; /* its `acquire` is the wait for a grant, its `pair` a hold */
    int64_t hold_ns;
    int permits;       /* how many may write at once; any number may read while there is no
                        * writer */
    double read_share; /* share of all requests */
    int timer_fd;

    int64_t waiting_since_ns[CALLERS_MAX]; /* 0: does not wait */
    bool reads[CALLERS_MAX];               /* true: the caller reads; false: it writes */
    int64_t granted_ns[CALLERS_MAX];
    /* The callers that have the key, a ring in order of their grants. All hold it for the same
     * time, so it is the order of their ends too. `writing` of the `holding` callers write. */
    int holders[CALLERS_MAX], first_holder, holding, writing;
    int last_holder, last_place;
    int64_t released_ns;

    uint64_t grants; /* inside the window */
    /* warm-up and draining included; grants to the previous holder, inside the window */
    uint64_t all_grants, same_caller;
    int64_t held_ns;     /* the sum over the grants inside the window */
    int64_t unserved_ns; /* the longest wait that the end of the window cut off */
    int most_holding;    /* at once, warm-up included */
    /* release to next grant: at the same place (agent), and at another one */
    struct histogram within, between;
    struct histogram write_wait; /* waits of those that write, if others read */
};

#define CONTEST_USAGE "[--hold MS] " WINDOW_USAGE

/* `timer_fd` is reported by `epoll_fd` with a null pointer. */
void contest_start(struct contest *contest, int epoll_fd);
bool parse_hold(struct contest *contest, const char *ms);

/* The caller asks for the key, at `now`; its `reads` is set before. */
void contest_wants(struct contest *contest, int caller, int64_t now);
/* The caller, at `place`, has it. */
void contest_granted(struct contest *contest, int caller, int place, int64_t now);
/* Returns when the hold of the oldest holder is over; INT64_MAX if there is no holder. */
int64_t contest_hold_ends(const struct contest *contest);
/* The oldest holder sends its release. Returns the number of that caller. */
int contest_released(struct contest *contest, int64_t now);

/* Moves on to the present phase, and has epoll wake at `due` or the end of the phase. A timer does
 * that, because it is exact to microseconds and epoll's own timeout is to milliseconds. Returns
 * false when all is over. */
bool contest_advance(struct contest *contest, int64_t due);
/* Prints the window's line and its own words, without a newline. */
void contest_print(const struct contest *contest);

#endif
