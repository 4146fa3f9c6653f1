/* The queue of requests that no holder made (strangers.h).
 *
 *   a request is here --time is left, and the queue is empty--> goes on
 *      |                                                          ^
 *      '--else--> queued, suspended --resumed in a later turn-----'
 *
 * One loop serves holders and strangers. Each request costs little, but some thousands of
 * connections may ask at once, and a renewal waits for the masters' answers no longer than
 * node_timeout. So strangers have a few milliseconds in each turn, in the order of their coming,
 * and the loop reads from the masters in between. A holder's request is not queued. A health check
 * is not queued either. */
#include "api/strangers.h"

#include "api/answer.h"
#include "api/connection.h"

enum {
    TURN_US = 4000,   /* of strangers, in one turn of the loop */
    AT_ONCE_MAX = 16, /* that go on in one run of libmicrohttpd */
};

/* One goes on in each turn, however long others took. */
static bool has_time(const struct api *api)
{
    return !api->stranger_served || uv_hrtime() < api->turn_until_ns;
}

static void stand_in(struct list *list, struct connection *connection)
{
    struct request *request = connection->request;
    request->suspended = true;
    request->connection = connection;
    list_append(list, &request->in_line);
    MHD_suspend_connection(connection->http);
}

/* Those come first whose turn had come when its time was over. */
static struct link *first_of(struct api *api)
{
    struct link *first = list_first(&api->line_front);
    return first != NULL ? first : list_first(&api->line);
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
    list_init(&api->line);
    list_init(&api->line_front);
}

void strangers_begin(struct api *api)
{
    api->turn_until_ns = uv_hrtime() + (uint64_t)TURN_US * 1000;
    api->stranger_served = false;
}

/* libmicrohttpd does not keep the order of those that go on at once: they are fewer where the time
 * is not enough for all of them. */
static void reckon_at_once(struct api *api)
{
    if (!list_is_empty(&api->line_front))
        api->at_once = (api->at_once + 1) / 2;
    else if (api->at_once < AT_ONCE_MAX)
        api->at_once++;
}

bool strangers_next(struct api *api)
{
    struct link *first;
    reckon_at_once(api);
    for (unsigned i = 0; i < api->at_once && has_time(api) && (first = first_of(api)) != NULL; i++)
        let_go_on(first);
    return first_of(api) != NULL;
}

enum turn strangers_turn_of(struct connection *connection)
{
    struct api *api = connection->api;
    struct request *request = connection->request;
    bool goes_first = connection->listener->is_admin || api->stopping,
         is_next = request->has_turn || first_of(api) == NULL, had_turn = request->has_turn;
    request->has_turn = false;
    if (goes_first || (is_next && has_time(api))) {
        api->stranger_served = true;
        return TURN_NOW;
    }
    /* Its token may be that of a hold at another agent: a place is kept for it (D9). */
    bool has_token = request->method == METHOD_PUT || request->method == METHOD_DELETE;
    bool is_counted = has_token || request->asks || request->parked;
    if (!is_counted && !connection_park(connection, /* lasts= */ false))
        return TURN_NEVER;
    stand_in(had_turn ? &api->line_front : &api->line, connection);
    return TURN_LATER;
}

enum MHD_Result strangers_later(struct connection *connection, enum turn turn)
{
    return turn == TURN_LATER ? MHD_YES : answer_here(connection, ANSWER_TOO_MANY_WAITERS);
}

void strangers_stop(struct api *api)
{
    struct link *first;
    while ((first = first_of(api)) != NULL)
        let_go_on(first);
}
