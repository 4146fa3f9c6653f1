/* HTTP as the callers speak it: one request at a time on a kept connection, and the parts of an
 * answer about a lock. */
#include "tests/faults/callers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

bool conversation_open(struct conversation *conversation)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)conversation->port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_usec = CONNECT_PATIENCE_MS * 1000};
    const int on = 1;
    if (conversation->fd >= 0)
        return true;
    conversation->filled = 0;
    conversation->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conversation->fd < 0)
        return false;
    setsockopt(conversation->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    setsockopt(conversation->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(conversation->fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return true;
    conversation_close(conversation);
    return false;
}

void conversation_close(struct conversation *conversation)
{
    if (conversation->fd >= 0)
        close(conversation->fd);
    conversation->fd = -1;
    conversation->filled = 0;
}

bool conversation_ask(struct conversation *conversation, const char *method, const char *path,
                      const char *token)
{
    char request[768];
    const int length = snprintf(
        request, sizeof(request), "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%s%s\r\n", method, path,
        token[0] != '\0' ? "Lock-Token: " : "", token, token[0] != '\0' ? "\r\n" : "",
        strcmp(method, "GET") != 0 ? "Content-Length: 0\r\n" : "");
    return send(conversation->fd, request, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) == length;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void copy_string(char *to, size_t size, const json_t *from)
{
    const char *text = json_string_value(from);
    snprintf(to, size, "%s", text != NULL ? text : "");
}

static int64_t integer(const json_t *from)
{
    return json_is_integer(from) ? json_integer_value(from) : 0;
}

/* A grant and a renewal report the hold themselves, a look has it as a member or in a list, a
 * problem has none. */
static const json_t *find_hold(const json_t *root, const char *label)
{
    const json_t *holds = json_object_get(root, "holds"), *hold = json_object_get(root, "hold");
    for (size_t i = 0; i < json_array_size(holds); i++) {
        const json_t *each = json_array_get(holds, i);
        const char *its_label = json_string_value(json_object_get(each, "label"));
        if (its_label != NULL && strcmp(its_label, label) == 0)
            return each;
    }
    return holds != NULL || hold != NULL ? hold : root;
}

static void understand(const char *body, size_t length, const char *label, struct answer *answer)
{
    json_t *root = json_loadb(body, length, 0, NULL);
    const json_t *hold = find_hold(root, label);
    copy_string(answer->code, sizeof(answer->code), json_object_get(root, "code"));
    copy_string(answer->token, sizeof(answer->token), json_object_get(root, "token"));
    answer->is_hold =
        answer->status < 300 && json_object_get(hold, "valid_until_boottime_ms") != NULL;
    answer->fence = integer(json_object_get(hold, "fencing_token"));
    answer->until_ms = integer(json_object_get(hold, "valid_until_boottime_ms"));
    answer->for_ms = integer(json_object_get(hold, "valid_for_ms"));
    copy_string(answer->mode, sizeof(answer->mode), json_object_get(hold, "mode"));
    answer->slot = integer(json_object_get(hold, "slot"));
    answer->permits = integer(json_object_get(hold, "permits"));
    json_decref(root);
}

static size_t body_length(const char *headers)
{
    const char *field = strcasestr(headers, "\r\ncontent-length:");
    return field != NULL ? strtoul(field + strlen("\r\ncontent-length:"), NULL, 10) : 0;
}

static bool is_whole(struct conversation *conversation, const char *label,
                     struct answer *ret_answer)
{
    conversation->bytes[conversation->filled] = '\0';
    char *end = strstr(conversation->bytes, "\r\n\r\n");
    if (end == NULL)
        return false;
    end[2] = '\0';
    const size_t header = (size_t)(end + 4 - conversation->bytes),
                 body = body_length(conversation->bytes);
    const bool closes = strcasestr(conversation->bytes, "\r\nconnection: close") != NULL;
    end[2] = '\r';
    if (conversation->filled < header + body)
        return false;
    ret_answer->status = (int)strtol(conversation->bytes + strlen("HTTP/1.1 "), NULL, 10);
    understand(conversation->bytes + header, body, label, ret_answer);
    conversation->filled = 0;
    if (closes)
        conversation_close(conversation);
    return true;
}

enum answer_state conversation_hear(struct conversation *conversation, const char *label,
                                    struct answer *ret_answer)
{
    const ssize_t length =
        recv(conversation->fd, conversation->bytes + conversation->filled,
             sizeof(conversation->bytes) - 1 - conversation->filled, MSG_DONTWAIT);
    *ret_answer = (struct answer){0};
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return ANSWER_NONE_YET;
    if (length <= 0) {
        conversation_close(conversation);
        return ANSWER_BROKEN;
    }
    conversation->filled += (size_t)length;
    return is_whole(conversation, label, ret_answer) ? ANSWER_WHOLE : ANSWER_NONE_YET;
}
