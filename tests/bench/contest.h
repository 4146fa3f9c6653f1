/* What the clients of the waiting benchmark share: callers that want one key over and over, how
 * long each holds it, and who got it after whom. One process drives all callers, so it sees every
 * grant in order, and a holder for whom there is no room ends it. */
#ifndef LOCKAGENT_BENCH_CONTEST_H
#define LOCKAGENT_BENCH_CONTEST_H

#include "tests/bench/measure.h"

enum { NOBODY = -1 };

struct contest {
    struct window window; /* its `acquire` is the wait for a grant, its `pair` a hold */
    int64_t hold_ns;
    int permits;       /* so many may write at once; any number may read while nobody writes */
    double read_share; /* of all that is wanted */
    int timer_fd;

    int64_t waiting_since_ns[CALLERS_MAX]; /* 0: does not wait */
    bool reads[CALLERS_MAX];               /* what each wants, or has; else it writes */
    int64_t granted_ns[CALLERS_MAX];
    /* Who has the key, a ring in order of their grants: all hold it for as long, so it is that of
     * their ends too. Of `holding` so many write. */
    int holders[CALLERS_MAX], first_holder, holding, writing;
    int last_holder, last_place;
    int64_t released_ns;

    uint64_t grants; /* inside the window */
    /* warm-up and draining included; to who had it before, inside the window */
    uint64_t all_grants, same_caller;
    int64_t held_ns;     /* the sum over the grants inside the window */
    int64_t unserved_ns; /* the longest wait that the end of the window cut off */
    int most_holding;    /* at once, warm-up included */
    /* release to next grant: at the same place (agent), and at another one */
    struct histogram within, between;
    struct histogram write_wait; /* of those who write, where others read */
};

#define CONTEST_USAGE "[--hold MS] " WINDOW_USAGE

/* `timer_fd` is reported by `epoll_fd` with a null pointer. */
void contest_start(struct contest *contest, int epoll_fd);
bool parse_hold(struct contest *contest, const char *ms);

/* The caller asks for the key, at `now`; `reads` says by then what for. */
void contest_wants(struct contest *contest, int caller, int64_t now);
/* The caller, at `place`, has it. */
void contest_granted(struct contest *contest, int caller, int place, int64_t now);
/* When the time of who has had the key for longest is over; INT64_MAX when nobody has it. */
int64_t contest_hold_ends(const struct contest *contest);
/* That one sends its release; returns who it is. */
int contest_released(struct contest *contest, int64_t now);

/* Moves on to the present phase, and has epoll wake at `due` or the end of the phase: by a timer,
 * which is exact to microseconds where epoll's own is to milliseconds. False when all is over. */
bool contest_advance(struct contest *contest, int64_t due);
/* Prints the window's line and its own words, without a newline. */
void contest_print(const struct contest *contest);

#endif
