/* The queues of requests that no holder made (strangers.h).
 *
 *   a request is here --time is left, and nobody is before it--> goes on
 *      |                                                          ^
 *      '--else--> queued, suspended --resumed in a later turn-----'
 *
 * One loop serves holders and strangers. Each request costs little, but some thousands of
 * connections may ask at once, and a renewal waits for the masters' answers no longer than
 * node_timeout. So strangers have a few milliseconds in each turn, and the loop reads from the
 * masters in between. They go on in the order of their coming, but who pauses between its requests
 * passes a crowd. A holder's request is not queued. Health checks have a share of their own, so
 * that they wait for nobody else. */
#include "api/strangers.h"

#include "api/answer.h"
#include "api/connection.h"

enum { AT_ONCE_MAX = 16 }; /* that go on in one run of libmicrohttpd */
/* In one turn of the loop. */
static const unsigned share_us[SHARES] = {[SHARE_CHECKS] = 2000, [SHARE_STRANGERS] = 2500};

/* One goes on in each turn, however long others took. */
static bool has_time(const struct share *share)
{
    return !share->served || uv_hrtime() < share->until_ns;
}

static void stand_in(struct list *list, struct connection *connection)
{
    struct request *request = connection->request;
    request->suspended = true;
    request->connection = connection;
    list_append(list, &request->in_line);
    MHD_suspend_connection(connection->http);
}

static bool is_empty(const struct share *share, enum place place)
{
    return list_is_empty(&share->waiting[place]);
}

/* Who goes on next; NULL: nobody waits. First come those whose turn was cut short, then those who
 * pause between their requests, for the crowd asks again as soon as it is answered. One in
 * CROWD_SHARE is of the crowd all the same. */
static struct link *pick(struct share *share)
{
    enum { CROWD_SHARE = 4 };
    bool is_crowds = is_empty(share, PLACE_PAUSED) || share->picked % CROWD_SHARE == 0;
    enum place place = !is_empty(share, PLACE_FRONT)                ? PLACE_FRONT
                       : is_crowds && !is_empty(share, PLACE_CROWD) ? PLACE_CROWD
                                                                    : PLACE_PAUSED;
    share->picked += place != PLACE_FRONT;
    return list_first(&share->waiting[place]);
}

static bool somebody_waits(const struct share *share)
{
    return !is_empty(share, PLACE_FRONT) || !is_empty(share, PLACE_PAUSED) ||
           !is_empty(share, PLACE_CROWD);
}

static void let_go_on(struct link *in_line)
{
    struct request *request = CONTAINER_OF(in_line, struct request, in_line);
    list_remove(in_line);
    request->suspended = false;
    request->has_turn = true;
    connection_resume(request->connection);
}

void strangers_start(struct api *api)
{
    for (size_t i = 0; i < SHARES; i++)
        for (enum place place = 0; place < PLACES; place++)
            list_init(&api->shares[i].waiting[place]);
}

void strangers_begin(struct api *api)
{
    uint64_t now_ns = uv_hrtime();
    for (size_t i = 0; i < SHARES; i++) {
        api->shares[i].until_ns = now_ns + (uint64_t)share_us[i] * 1000;
        api->shares[i].served = false;
    }
}

/* libmicrohttpd does not keep the order of those that go on at once: they are fewer where the time
 * is not enough for all of them. */
static void reckon_at_once(struct share *share)
{
    if (!is_empty(share, PLACE_FRONT))
        share->at_once = (share->at_once + 1) / 2;
    else if (share->at_once < AT_ONCE_MAX)
        share->at_once++;
}

bool strangers_next(struct api *api)
{
    bool more = false;
    for (size_t s = 0; s < SHARES; s++) {
        struct share *share = &api->shares[s];
        struct link *next;
        reckon_at_once(share);
        for (unsigned i = 0; i < share->at_once && has_time(share); i++)
            if ((next = pick(share)) != NULL)
                let_go_on(next);
        more = more || somebody_waits(share);
    }
    return more;
}

/* Counts it among the requests that wait. False: there are too many. */
static bool is_let_wait(struct connection *connection)
{
    const struct request *request = connection->request;
    /* Its token may be that of a hold at another agent: a place is kept for it (D9). */
    bool has_token = request->method == METHOD_PUT || request->method == METHOD_DELETE;
    bool is_counted = has_token || request->asks || request->parked;
    return is_counted || connection_park(connection, /* lasts= */ false);
}

/* Nobody waits there, or in front of there. */
static bool is_before_all(const struct share *share, enum place place)
{
    bool is_first = true;
    for (enum place before = 0; before <= place; before++)
        is_first = is_first && is_empty(share, before);
    return is_first;
}

enum turn strangers_turn_of(struct connection *connection, enum share_kind kind)
{
    struct api *api = connection->api;
    struct share *share = &api->shares[kind];
    struct request *request = connection->request;
    enum place place = request->has_turn               ? PLACE_FRONT
                       : connection_pauses(connection) ? PLACE_PAUSED
                                                       : PLACE_CROWD;
    bool goes_first = connection->listener->is_admin || api->stopping,
         is_next = place == PLACE_FRONT || is_before_all(share, place);
    request->has_turn = false;
    request->is_strangers |= kind == SHARE_STRANGERS;
    if (goes_first || (is_next && has_time(share))) {
        share->served = true;
        return TURN_NOW;
    }
    if (!is_let_wait(connection))
        return kind == SHARE_CHECKS ? TURN_NOW : TURN_NEVER;
    stand_in(&share->waiting[place], connection);
    return TURN_LATER;
}

enum MHD_Result strangers_later(struct connection *connection, enum turn turn)
{
    return turn == TURN_LATER ? MHD_YES : answer_here(connection, ANSWER_TOO_MANY_WAITERS);
}

void strangers_stop(struct api *api)
{
    struct link *next;
    for (size_t i = 0; i < SHARES; i++)
        while ((next = pick(&api->shares[i])) != NULL)
            let_go_on(next);
}
