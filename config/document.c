/* The first pass: a file becomes a tree of nodes that remember where they were written. YAML's
 * traps end here: anchors, tags, several documents, bytes that are not UTF-8 text, and sizes
 * without end. Doubled and unknown keys are the next pass's affair. */
#include "config/document.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "agent/base/file.h"
#include "agent/base/utf8.h"
#include "agent/core/core_assert.h"

/* ---- the file's bytes ---- */

static void report_errno(struct config_report *report, const char *what, int error)
{
    config_report_add(report, (struct config_place){0}, NULL, "%s: %s", what, strerror(error));
}

/* -1, reported: what is no file might never end, or keep the loop waiting (a FIFO, already when it
 * is opened). */
static int open_file(struct config_report *report)
{
    struct stat about;
    int fd = open(report->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &about) != 0) {
        report_errno(report, "can not be opened", errno);
    } else if (S_ISREG(about.st_mode)) {
        return fd;
    } else {
        const char *what = S_ISDIR(about.st_mode)    ? "a folder"
                           : S_ISFIFO(about.st_mode) ? "a pipe"
                           : S_ISCHR(about.st_mode)  ? "a device"
                                                     : "something else";
        config_report_add(report, (struct config_place){0}, NULL,
                          "can not be read: it is %s; allowed: a regular file", what);
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool read_file(struct config_report *report, char *bytes, size_t *ret_len)
{
    int fd = open_file(report);
    if (fd < 0)
        return false;
    ssize_t len = file_read(fd, bytes, CONFIG_FILE_BYTES + 1);
    int error = errno;
    close(fd);
    if (len < 0)
        report_errno(report, "can not be read", error);
    else if (len > CONFIG_FILE_BYTES)
        config_report_add(report, (struct config_place){0}, NULL,
                          "the file is too large; allowed: up to 1 MiB");
    *ret_len = len < 0 ? 0 : (size_t)len;
    return len >= 0 && len <= CONFIG_FILE_BYTES;
}

/* Only characters that YAML takes: so libyaml never has a reason to refuse a byte, for which it
 * could not name the line. */
static bool is_yaml_character(uint32_t code)
{
    if (code == '\t' || code == '\n' || code == '\r' || code == 0x85)
        return true;
    return !utf8_is_control(code) && code != 0xfeff && code != 0xfffe && code != 0xffff;
}

static bool check_bytes(struct config_report *report, const char *bytes, size_t len)
{
    struct config_place place = {.line = 1, .column = 1};
    for (size_t i = 0, size; i < len; i += size) {
        uint32_t code = 0;
        size = utf8_decode(bytes + i, len - i, &code);
        if (size == 0) {
            config_report_add(report, place, NULL, "the file is not UTF-8 here (byte 0x%02x)",
                              (unsigned char)bytes[i]);
            return false;
        }
        if (!is_yaml_character(code)) {
            config_report_add(report, place, NULL, "the file is not text here (character U+%04X)",
                              code);
            return false;
        }
        bool breaks = code == '\n' || (code == '\r' && !(i + 1 < len && bytes[i + 1] == '\n'));
        place.column = breaks ? 1 : place.column + 1;
        place.line += breaks;
    }
    return true;
}

/* ---- events -> tree ---- */

struct builder {
    struct config_report *report;
    struct config_arena *arena;
    const char *bytes; /* of the file, for better words than libyaml's */
    size_t len;
    struct config_node *root;
    struct config_node *open[CONFIG_DEPTH]; /* what has not ended, outermost first */
    int depth, nodes, documents;
};

enum { PATH = 192 };

static struct config_place place_of_mark(yaml_mark_t mark)
{
    return (struct config_place){.line = (int)mark.line + 1, .column = (int)mark.column + 1};
}

/* The full path of what comes next, as `policies[2].ttl`; NULL at the top. */
static const char *path_here(const struct builder *builder, char path[PATH])
{
    size_t len = 0;
    path[0] = '\0';
    for (int i = 0; i < builder->depth && len < PATH; i++) {
        const struct config_node *open = builder->open[i];
        bool inner = i + 1 < builder->depth;
        if (open->kind == NODE_LIST)
            len += (size_t)snprintf(path + len, PATH - len, "[%d]",
                                    inner ? open->count - 1 : open->count);
        else if ((inner || open->count % 2 == 1) && open->last_key->kind == NODE_SCALAR)
            len += (size_t)snprintf(path + len, PATH - len, "%s%.64s", len ? "." : "",
                                    open->last_key->text);
    }
    return len ? path : NULL;
}

static bool out_of_memory(struct builder *builder)
{
    config_report_add(builder->report, (struct config_place){0}, NULL, "out of memory");
    return false;
}

static bool add_node(struct builder *builder, struct config_node *node)
{
    if (node == NULL)
        return out_of_memory(builder);
    if (++builder->nodes > CONFIG_NODES) {
        config_report_add(builder->report, node->place, NULL,
                          "the file holds too many values; allowed: up to %d", CONFIG_NODES);
        return false;
    }
    if (builder->depth > 0)
        config_node_append(builder->open[builder->depth - 1], node);
    else
        builder->root = node;
    return true;
}

static bool open_node(struct builder *builder, struct config_node *node)
{
    if (!add_node(builder, node))
        return false;
    if (builder->depth == CONFIG_DEPTH) {
        config_report_add(builder->report, node->place, NULL,
                          "nested too deeply; allowed: up to %d levels", CONFIG_DEPTH);
        return false;
    }
    builder->open[builder->depth++] = node;
    return true;
}

/* An anchor alone changes nothing, so that its value is looked at all the same; a tag may, so its
 * value is not. */
static struct config_node *properties(struct builder *builder, struct config_node *node,
                                      const yaml_char_t *anchor, const yaml_char_t *tag)
{
    char path[PATH];
    if (node != NULL && anchor != NULL)
        config_report_add(builder->report, node->place, path_here(builder, path),
                          "anchors and aliases are not supported; write the value out (or quote a "
                          "text that begins with `&`)");
    if (node != NULL && tag != NULL) {
        config_report_add(builder->report, node->place, path_here(builder, path),
                          "tags are not supported; write the value without one (or quote a text "
                          "that begins with `!`)");
        node->kind = NODE_BROKEN;
    }
    return node;
}

static bool add_scalar(struct builder *builder, const yaml_event_t *event)
{
    char path[PATH];
    struct config_node *node = config_node_scalar(
        builder->report, builder->arena, place_of_mark(event->start_mark), path_here(builder, path),
        (const char *)event->data.scalar.value, event->data.scalar.length);
    if (node != NULL)
        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return add_node(builder,
                    properties(builder, node, event->data.scalar.anchor, event->data.scalar.tag));
}

static bool add_alias(struct builder *builder, const yaml_event_t *event)
{
    char path[PATH];
    config_report_add(builder->report, place_of_mark(event->start_mark), path_here(builder, path),
                      "anchors and aliases are not supported; write the value out (or quote a text "
                      "that begins with `*`)");
    return add_node(builder,
                    config_node_new(builder->arena, NODE_BROKEN, place_of_mark(event->start_mark)));
}

static bool begin_document(struct builder *builder, const yaml_event_t *event)
{
    if (++builder->documents == 1)
        return true;
    config_report_add(builder->report, place_of_mark(event->start_mark), NULL,
                      "a second document begins here; allowed: one");
    return false;
}

/* False: there is no sense in reading on. */
static bool take_event(struct builder *builder, const yaml_event_t *event)
{
    struct config_place place = place_of_mark(event->start_mark);
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return begin_document(builder, event);
    case YAML_ALIAS_EVENT:
        return add_alias(builder, event);
    case YAML_SCALAR_EVENT:
        return add_scalar(builder, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_node(
            builder, properties(builder, config_node_new(builder->arena, NODE_LIST, place),
                                event->data.sequence_start.anchor, event->data.sequence_start.tag));
    case YAML_MAPPING_START_EVENT:
        return open_node(
            builder, properties(builder, config_node_new(builder->arena, NODE_MAP, place),
                                event->data.mapping_start.anchor, event->data.mapping_start.tag));
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        CORE_ASSERT(builder->depth > 0);
        builder->depth--;
        return true;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return true;
}

/* The column of a tab in the indentation of a line, or 0: the most frequent fault deserves better
 * words than libyaml's. */
static int tab_in_indentation(const struct builder *builder, size_t line)
{
    const char *at = builder->bytes, *end = at + builder->len;
    for (; line > 0 && at != NULL; line--) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at != NULL ? at + 1 : NULL;
    }
    for (int column = 1; at != NULL && at < end && (*at == ' ' || *at == '\t'); column++, at++)
        if (*at == '\t')
            return column;
    return 0;
}

static void report_syntax(struct builder *builder, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        out_of_memory(builder);
        return;
    }
    struct config_place place = place_of_mark(parser->problem_mark);
    int tab = tab_in_indentation(builder, parser->problem_mark.line);
    if (tab) {
        place.column = tab;
        config_report_add(builder->report, place, NULL,
                          "a tab in the indentation; allowed: spaces");
        return;
    }
    config_report_add(builder->report, place, NULL, "not YAML: %s%s%s",
                      parser->problem != NULL ? parser->problem : "unreadable",
                      parser->context != NULL ? " " : "",
                      parser->context != NULL ? parser->context : "");
}

static bool parse_events(struct builder *builder)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return out_of_memory(builder);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)builder->bytes, builder->len);
    bool ok = true, ended = false;
    while (ok && !ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            report_syntax(builder, &parser);
            ok = false;
            break;
        }
        ended = event.type == YAML_STREAM_END_EVENT;
        ok = take_event(builder, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return ok;
}

bool config_document_read(struct config_report *report, struct config_arena *arena,
                          struct config_node **ret_root)
{
    struct builder builder = {.report = report, .arena = arena};
    char *bytes = config_arena_take(arena, CONFIG_FILE_BYTES + 1);
    if (bytes == NULL)
        return out_of_memory(&builder);
    if (!read_file(report, bytes, &builder.len))
        return false;
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    bool marked = builder.len >= 3 && memcmp(bytes, byte_order_mark, 3) == 0;
    builder.bytes = marked ? bytes + 3 : bytes;
    builder.len -= marked ? 3 : 0;
    if (!check_bytes(report, builder.bytes, builder.len) || !parse_events(&builder))
        return false;
    *ret_root = builder.root != NULL && config_node_is_null(builder.root) ? NULL : builder.root;
    return true;
}
