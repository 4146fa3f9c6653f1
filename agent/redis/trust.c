/* `lockagent trust`: writes the markers of every guarded group by hand, one master after the other, and without a loop. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/redis/room.h"

enum { PATIENCE_S = 5 };

static redisContext *connect_to(const struct config_master *master)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    const struct config_address *address = &master->address;
    redisContext *context = address->is_unix ? redisConnectUnixWithTimeout(address->host, patience)
                                             : redisConnectWithTimeout(address->host, address->port, patience);
    if (context && !context->err) {
        redisSetTimeout(context, patience);
    }
    return context;
}

/* NULL when the reply is well; else what is wrong, which is never the server's own text: that may quote a secret. */
static const char *fault_of(const redisContext *context, const redisReply *reply, char *says, size_t size)
{
    if (!reply) {
        snprintf(says, size, "%s", context->errstr);
        return says;
    }
    if (reply->type != REDIS_REPLY_ERROR) {
        return NULL;
    }
    outcome_describe(outcome_of_error(reply->str), NULL, says, size);
    return says;
}

static const char *log_in(redisContext *context, const struct config_group *group, const struct config_master *master,
                          char *says, size_t size)
{
    const char *user = *master->username ? master->username : group->username;
    char password[sizeof(master->password)];
    snprintf(password, sizeof(password), "%s", master->password);
    if (!*password && *group->password_file &&
        config_read_secret(group->password_file, password, sizeof(password)) < 0) {
        snprintf(says, size, "password_file: %s", strerror(errno));
        return says;
    }
    const char *fault = NULL;
    redisReply *reply;
    if (*user || *password) {
        reply =
            *user ? redisCommand(context, "AUTH %s %s", user, password) : redisCommand(context, "AUTH %s", password);
        fault = fault_of(context, reply, says, size);
        freeReplyObject(reply);
    }
    explicit_bzero(password, sizeof(password));
    if (!fault && master->db != 0) {
        reply = redisCommand(context, "SELECT %d", master->db);
        fault = fault_of(context, reply, says, size);
        freeReplyObject(reply);
    }
    return fault;
}

/* The run that is trusted: another one starts a new epoch where the group is not durable. */
static void ask_run_id(redisContext *context, char *run_id, size_t size)
{
    run_id[0] = '\0';
    redisReply *reply = redisCommand(context, "INFO server");
    if (reply && reply->type == REDIS_REPLY_STRING) {
        copy_info_field(reply->str, "run_id", run_id, size);
    }
    freeReplyObject(reply);
}

static const char *mark(redisContext *context, const struct config *config, struct wire *wire, char *says, size_t size)
{
    char run_id[48];
    ask_run_id(context, run_id, sizeof(run_id));
    guard_ask(wire, &(struct marker_question){
                        .run_id = run_id, .how = "trust", .max_ttl_ms = config->max_ttl_ms, .whole = true});
    redisReply *reply = NULL;
    if (redisAppendFormattedCommand(context, wire->bytes, wire->len) == REDIS_OK) {
        redisGetReply(context, (void **)&reply);
    }
    const char *fault = fault_of(context, reply, says, size);
    freeReplyObject(reply);
    return fault;
}

static const char *trust(const struct config *config, const struct config_group *group, size_t index, struct wire *wire,
                         char *says, size_t size)
{
    const struct config_master *master = &group->masters[index];
    redisContext *context = connect_to(master);
    const char *fault;
    if (!context || context->err) {
        snprintf(says, size, "connect: %s", context ? context->errstr : "out of memory");
        fault = says;
    } else {
        fault = log_in(context, group, master, says, size);
        if (!fault) {
            fault = mark(context, config, wire, says, size);
        }
    }
    if (context) {
        redisFree(context);
    }
    return fault;
}

size_t redis_trust(const struct config *config, void (*say)(const char *group, const char *master, const char *error))
{
    static char bytes[8 << 10];
    struct wire wire = {.bytes = bytes, .size = sizeof(bytes)};
    size_t failed = 0;
    char says[160];
    for (size_t g = 0; g < config->group_count; g++) {
        const struct config_group *group = &config->groups[g];
        for (size_t m = 0; group->guard && m < group->master_count; m++) {
            const char *fault = trust(config, group, m, &wire, says, sizeof(says));
            say(group->name, group->masters[m].url, fault);
            failed += fault != NULL;
        }
    }
    return failed;
}
