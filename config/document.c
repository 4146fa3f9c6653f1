/* The first pass: makes of a file a tree of nodes that keep their places. Refuses anchors, tags,
 * several documents, bytes that are not UTF-8 text, and files beyond the limits. The next pass
 * refuses doubled and unknown keys. */
#include "config/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "agent/base/file.h"
#include "agent/base/text.h"
#include "agent/base/utf8.h"
#include "agent/core/core_assert.h"

/* ---- reports ---- */

/* Collects all errors of a configuration, in the order of the file. */

enum {
    PATH_SHOWN = 200,
    LIST = sizeof(((struct config_errors *)0)->list) / sizeof(struct config_error)
};

/* Returns true if an error at `a` is listed before `b`. Errors of the environment and of flags have
 * no line: they come after those of the file, in the order of their discovery. */
static bool comes_before(struct config_place a, const struct config_error *b)
{
    int a_line = a.line ? a.line : INT_MAX, b_line = b->line ? b->line : INT_MAX;
    return a_line != b_line ? a_line < b_line : a.column < b->column;
}

/* Makes room for an error at `place`. Returns NULL if the list is full of earlier ones. */
static struct config_error *insert(struct config_errors *errors, struct config_place place)
{
    size_t kept = errors->count++;
    if (kept > LIST)
        kept = LIST;
    size_t at = kept;
    while (at > 0 && comes_before(place, &errors->list[at - 1]))
        at--;
    if (at == LIST)
        return NULL;
    size_t moved = (kept == LIST ? kept - 1 : kept) - at;
    memmove(&errors->list[at + 1], &errors->list[at], moved * sizeof(errors->list[0]));
    errors->list[at].line = place.line;
    errors->list[at].column = place.column;
    return &errors->list[at];
}

static size_t print_place(const struct config_report *report, struct config_place place, char *out,
                          size_t size)
{
    if (place.origin != NULL)
        return (size_t)snprintf(out, size, "%s: ", place.origin);
    if (report->path == NULL)
        return (size_t)snprintf(out, size, "configuration: ");
    size_t len = strlen(report->path);
    const char *tail = len > PATH_SHOWN ? report->path + len - PATH_SHOWN : report->path;
    if (!place.line)
        return (size_t)snprintf(out, size, "%s: ", tail);
    return (size_t)snprintf(out, size, "%s:%d:%d: ", tail, place.line, place.column);
}

void config_report_add(struct config_report *report, struct config_place place, const char *key,
                       const char *format, ...)
{
    struct config_error *error = insert(report->errors, place);
    if (error == NULL)
        return;
    size_t size = sizeof(error->text);
    size_t used = print_place(report, place, error->text, size);
    if (key != NULL && used < size)
        used += (size_t)snprintf(error->text + used, size - used, "%s: ", key);
    if (used < size) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text + used, size - used, format, args);
        va_end(args);
    }
    /* The text may quote a name that holds any bytes, and be cut within a character. */
    text_tame(error->text);
    text_hide_passwords(error->text); /* A URL may be mistyped, or be the value of a wrong key. */
}

const char *config_quote(const char *text, bool is_url, char quoted[CONFIG_QUOTED])
{
    const char *shown = text, *scheme_end = strstr(text, "://"),
               *at = is_url || scheme_end != NULL ? strrchr(text, '@') : NULL;
    int scheme = 0;
    if (at != NULL) {
        shown = at;
        scheme = scheme_end != NULL && scheme_end < at ? (int)(scheme_end + 3 - text) : 0;
    }
    enum { SHOWN = 60 };
    size_t len = strlen(shown), cut = len > SHOWN ? SHOWN : len;
    while (cut > 0 && cut < len && ((unsigned char)shown[cut] & 0xc0) == 0x80)
        cut--;
    snprintf(quoted, CONFIG_QUOTED, "`%.*s%s%.*s%s`", scheme > 9 ? 9 : scheme, text,
             at != NULL ? "***" : "", (int)cut, shown, cut < len ? "..." : "");
    return quoted;
}

/* ---- nodes ---- */

/* The nodes of the tree, and their memory. */

/* ---- memory ---- */

struct config_chunk {
    struct config_chunk *next;
    size_t used, size;
    max_align_t bytes[];
};

void *config_arena_take(struct config_arena *arena, size_t size)
{
    enum { CHUNK = 64 * 1024 };
    size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct config_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->size - chunk->used < size) {
        size_t room = size > CHUNK ? size : CHUNK;
        chunk = calloc(1, sizeof(*chunk) + room);
        if (chunk == NULL)
            return NULL;
        chunk->size = room;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    void *taken = (char *)chunk->bytes + chunk->used;
    chunk->used += size;
    return taken;
}

void config_arena_free(struct config_arena *arena)
{
    while (arena->chunks != NULL) {
        struct config_chunk *next = arena->chunks->next;
        /* A URL may hold a password. */
        explicit_bzero(arena->chunks->bytes, arena->chunks->used);
        free(arena->chunks);
        arena->chunks = next;
    }
}

/* ---- nodes ---- */

/* Returns a new node, or NULL when out of memory. */
static struct config_node *config_node_new(struct config_arena *arena, enum config_node_kind kind,
                                           struct config_place place)
{
    struct config_node *node = config_arena_take(arena, sizeof(*node));
    if (node != NULL) {
        node->kind = kind;
        node->place = place;
    }
    return node;
}

struct config_node *config_node_scalar(struct config_report *report, struct config_arena *arena,
                                       struct config_place place, const char *key, const char *text,
                                       size_t len)
{
    struct config_node *node = config_node_new(arena, NODE_SCALAR, place);
    char *copy = config_arena_take(arena, len + 1);
    if (node == NULL || copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    node->text = copy;
    const char *fault = NULL;
    for (size_t i = 0, size; fault == NULL && i < len; i += size) {
        uint32_t code = 0;
        size = utf8_decode(text + i, len - i, &code);
        if (size == 0)
            fault = "is not UTF-8";
        else if (utf8_is_control(code))
            fault = "holds a control character or a line break";
    }
    if (fault != NULL) {
        config_report_add(report, place, key, "the value %s; allowed: one line of text", fault);
        node->kind = NODE_BROKEN;
    }
    return node;
}

void config_node_append(struct config_node *parent, struct config_node *child)
{
    if (parent->last != NULL)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    if (parent->count++ % 2 == 0)
        parent->last_key = child;
}

bool config_node_is_null(const struct config_node *node)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0;
         node->kind == NODE_SCALAR && node->plain && i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(node->text, words[i]) == 0)
            return true;
    return false;
}

const char *config_node_kind_name(const struct config_node *node)
{
    switch (node->kind) {
    case NODE_SCALAR:
        return "a single value";
    case NODE_LIST:
        return "a list";
    case NODE_MAP:
        return "a mapping";
    case NODE_BROKEN:
        break;
    }
    return "broken";
}

/* ---- the document ---- */

/* ---- the file's bytes ---- */

static void report_errno(struct config_report *report, const char *what, int error)
{
    config_report_add(report, (struct config_place){0}, NULL, "%s: %s", what, strerror(error));
}

/* Opens the file; reports an error and returns -1 if it cannot, or if it is no regular file.
 * Another file might never end, or block the loop. */
static int open_file(struct config_report *report)
{
    struct stat about;
    int fd = open(report->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &about) != 0) {
        report_errno(report, "cannot be opened", errno);
    } else if (S_ISREG(about.st_mode)) {
        return fd;
    } else {
        const char *what = S_ISDIR(about.st_mode)    ? "a folder"
                           : S_ISFIFO(about.st_mode) ? "a pipe"
                           : S_ISCHR(about.st_mode)  ? "a device"
                                                     : "something else";
        config_report_add(report, (struct config_place){0}, NULL,
                          "cannot be read: it is %s; allowed: a regular file", what);
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
        report_errno(report, "cannot be read", error);
    else if (len > CONFIG_FILE_BYTES)
        config_report_add(report, (struct config_place){0}, NULL,
                          "the file is too large; allowed: up to 1 MiB");
    *ret_len = len < 0 ? 0 : (size_t)len;
    return len >= 0 && len <= CONFIG_FILE_BYTES;
}

/* Returns true for characters that YAML allows. libyaml could not name the line of another one. */
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
    const char *bytes; /* The file, for errors that libyaml does not explain. */
    size_t len;
    struct config_node *root;
    struct config_node *open[CONFIG_DEPTH]; /* Lists and maps without their end, outermost first. */
    int depth, nodes, documents;
};

enum { PATH = 192 };

static struct config_place place_of_mark(yaml_mark_t mark)
{
    return (struct config_place){.line = (int)mark.line + 1, .column = (int)mark.column + 1};
}

/* Writes the full path of the next node, as `policies[2].ttl`. Returns NULL at the top. */
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

/* Reports anchors and tags. The value of an anchor is checked as well. That of a tag is not: the
 * tag may change its meaning. */
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

/* False: there is no sense in reading on. */
static bool take_event(struct builder *builder, const yaml_event_t *event)
{
    struct config_place place = place_of_mark(event->start_mark);
    struct config_node *node;
    char path[PATH];
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++builder->documents == 1)
            return true;
        config_report_add(builder->report, place, NULL,
                          "a second document begins here; allowed: one");
        return false;
    case YAML_ALIAS_EVENT:
        config_report_add(builder->report, place, path_here(builder, path),
                          "anchors and aliases are not supported; write the value out (or quote a "
                          "text that begins with `*`)");
        return add_node(builder, config_node_new(builder->arena, NODE_BROKEN, place));
    case YAML_SCALAR_EVENT:
        node =
            config_node_scalar(builder->report, builder->arena, place, path_here(builder, path),
                               (const char *)event->data.scalar.value, event->data.scalar.length);
        if (node != NULL)
            node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        return add_node(
            builder, properties(builder, node, event->data.scalar.anchor, event->data.scalar.tag));
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
