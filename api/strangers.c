/* Queues of requests that are not a holder's.
 *
 *   a request is here --time is left, and no request is ahead of it--> continues
 *      |                                                               ^
 *      '--otherwise--> queued, suspended --resumed in a later turn-----'
 *
 * One loop serves holders and strangers. Each request costs little, but some thousands of
 * connections may send one at once, and a renewal waits for the masters' replies no longer than
 * node_timeout. So strangers have a few milliseconds in each turn, and the loop reads from the
 * masters in between. Requests continue in the order of their arrival, but a caller that pauses
 * between its requests passes a crowd, and an answer that has come passes both. A holder's request
 * is not queued. Health checks have a share of their own, so that they wait for no other
 * request. */
#include "api/internal.h"

enum { AT_ONCE_MAX = 16 }; /* Requests that are resumed in one run of libmicrohttpd. */
/* Time in one iteration of the loop. */
static const unsigned share_us[SHARES] = {[SHARE_CHECKS] = 2000, [SHARE_STRANGERS] = 2500};

/* Returns true if the share has time left. One request continues in each turn, even if others used
 * all time. */
static bool has_time(const struct share *share)
{
    return !share->served || uv_hrtime() < share->until_ns;
}

static bool is_empty(const struct share *share, enum rank rank)
{
    return list_is_empty(&share->waiting[rank]);
}

/* Returns the request to resume next, NULL if none waits. Answers come first, because a wait ends
 * at a deadline. A crowd asks again as soon as it is answered, so callers that pause come before
 * it. One request in CROWD_SHARE is of the crowd nevertheless. */
static struct link *pick(struct share *share)
{
    enum { CROWD_SHARE = 4 };
    bool is_crowds = is_empty(share, RANK_PAUSED) || share->picked % CROWD_SHARE == 0;
    enum rank rank = !is_empty(share, RANK_RESUMED)              ? RANK_RESUMED
                     : !is_empty(share, RANK_ANSWERED)           ? RANK_ANSWERED
                     : is_crowds && !is_empty(share, RANK_CROWD) ? RANK_CROWD
                                                                 : RANK_PAUSED;
    share->picked += rank >= RANK_PAUSED;
    return list_first(&share->waiting[rank]);
}

/* Returns true if no request of this rank or of a rank before it waits. */
static bool is_empty_up_to(const struct share *share, enum rank last)
{
    bool none = true;
    for (enum rank rank = 0; rank <= last; rank++)
        none = none && is_empty(share, rank);
    return none;
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
        for (enum rank rank = 0; rank < RANKS; rank++)
            list_init(&api->shares[i].waiting[rank]);
}

void strangers_begin(struct api *api)
{
    uint64_t now_ns = uv_hrtime();
    for (size_t i = 0; i < SHARES; i++) {
        api->shares[i].until_ns = now_ns + (uint64_t)share_us[i] * 1000;
        api->shares[i].served = false;
    }
}

bool strangers_next(struct api *api)
{
    bool more = false;
    for (size_t s = 0; s < SHARES; s++) {
        struct share *share = &api->shares[s];
        struct link *next;
        /* libmicrohttpd does not keep the order of those that are resumed at once. So there are
         * fewer if the time of a turn is not enough for all of them. */
        if (!is_empty(share, RANK_RESUMED))
            share->at_once = (share->at_once + 1) / 2;
        else if (share->at_once < AT_ONCE_MAX)
            share->at_once++;
        for (unsigned i = 0; i < share->at_once && has_time(share); i++)
            if ((next = pick(share)) != NULL)
                let_go_on(next);
        more = more || !is_empty_up_to(share, RANK_CROWD);
    }
    return more;
}

enum turn strangers_turn_of(struct connection *connection, enum share_kind kind)
{
    struct api *api = connection->api;
    struct share *share = &api->shares[kind];
    struct request *request = connection->request;
    enum rank rank = request->has_turn                     ? RANK_RESUMED
                     : connection->phase == PHASE_ANSWERED ? RANK_ANSWERED
                     : connection_pauses(connection)       ? RANK_PAUSED
                                                           : RANK_CROWD;
    bool goes_first = connection->listener->is_admin || api->stopping,
         is_next = rank == RANK_RESUMED || is_empty_up_to(share, rank);
    request->has_turn = false;
    request->is_strangers |= kind == SHARE_STRANGERS;
    if (goes_first || (is_next && has_time(share))) {
        share->served = true;
        return TURN_NOW;
    }
    /* The token of a PUT or DELETE may be that of a hold at another agent. A connection is kept
     * free for it (D9). */
    bool has_token = request->method == METHOD_PUT || request->method == METHOD_DELETE,
         is_counted = has_token || request->asks || request->parked;
    if (!is_counted && !connection_park(connection, /* lasts= */ false))
        return kind == SHARE_CHECKS ? TURN_NOW : TURN_NEVER;
    request->suspended = true;
    request->connection = connection;
    list_append(&share->waiting[rank], &request->in_line);
    MHD_suspend_connection(connection->http);
    return TURN_LATER;
}

enum MHD_Result strangers_later(struct connection *connection, enum turn turn)
{
    return turn == TURN_LATER ? MHD_YES : answer_here(connection, ANSWER_TOO_MANY_WAITERS);
}

void strangers_caller_gone(struct connection *connection)
{
    struct request *request = connection->request;
    if (request->suspended)
        let_go_on(&request->in_line);
}

void strangers_stop(struct api *api)
{
    struct link *next;
    for (size_t i = 0; i < SHARES; i++)
        while ((next = pick(&api->shares[i])) != NULL)
            let_go_on(next);
}
