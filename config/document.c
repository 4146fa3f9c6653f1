/* The first pass: a file becomes a tree of nodes that remember where they were written. YAML's traps end here: anchors,
 * tags, several documents, bytes that are not UTF-8 text, and sizes without end. Doubled and unknown keys are the next
 * pass's affair. */
#include "config/document.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

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
    if (!chunk || chunk->size - chunk->used < size) {
        size_t room = size > CHUNK ? size : CHUNK;
        chunk = calloc(1, sizeof(*chunk) + room);
        if (!chunk)
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
    while (arena->chunks) {
        struct config_chunk *next = arena->chunks->next;
        /* A password may have stood in a URL. */
        explicit_bzero(arena->chunks->bytes, arena->chunks->used);
        free(arena->chunks);
        arena->chunks = next;
    }
}

/* ---- nodes ---- */

void config_node_append(struct config_node *parent, struct config_node *child)
{
    if (parent->last)
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
    for (size_t i = 0; node->kind == NODE_SCALAR && node->plain && i < sizeof(words) / sizeof(words[0]); i++)
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

static struct config_node *node_new(struct config_arena *arena, enum config_node_kind kind, struct config_place place)
{
    struct config_node *node = config_arena_take(arena, sizeof(*node));
    if (node) {
        node->kind = kind;
        node->place = place;
    }
    return node;
}

size_t config_utf8_decode(const unsigned char *at, size_t len, uint32_t *ret_code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
    if (size == 0 || size > len)
        return 0;
    uint32_t code = size == 1 ? at[0] : at[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (at[i] >> 6 != 2)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    if (code < least[size] || code > 0x10ffff || surrogate)
        return 0;
    *ret_code = code;
    return size;
}

bool config_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

static const char *text_fault(const char *text, size_t len)
{
    for (size_t i = 0, size; i < len; i += size) {
        uint32_t code = 0;
        size = config_utf8_decode((const unsigned char *)text + i, len - i, &code);
        if (size == 0)
            return "is not UTF-8";
        if (config_is_control(code))
            return "holds a control character or a line break";
    }
    return NULL;
}

struct config_node *config_document_scalar(struct config_report *report, struct config_arena *arena,
                                           struct config_place place, const char *key, const char *text, size_t len)
{
    struct config_node *node = node_new(arena, NODE_SCALAR, place);
    char *copy = config_arena_take(arena, len + 1);
    if (!node || !copy)
        return NULL;
    memcpy(copy, text, len);
    node->text = copy;
    const char *fault = text_fault(text, len);
    if (fault) {
        config_report_add(report, place, key, "the value %s; allowed: one line of text", fault);
        node->kind = NODE_BROKEN;
    }
    return node;
}

/* ---- the file's bytes ---- */

static void report_errno(struct config_report *report, const char *what, int error)
{
    config_report_add(report, (struct config_place){0}, NULL, "%s: %s", what, strerror(error));
}

static bool read_all(int fd, char *bytes, size_t size, size_t *ret_len)
{
    *ret_len = 0;
    while (*ret_len < size) {
        ssize_t got = read(fd, bytes + *ret_len, size - *ret_len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0;
        *ret_len += (size_t)got;
    }
    return true;
}

static bool read_file(struct config_report *report, char *bytes, size_t *ret_len)
{
    int fd = open(report->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        report_errno(report, "can not be opened", errno);
        return false;
    }
    bool ok = read_all(fd, bytes, CONFIG_FILE_BYTES + 1, ret_len);
    int error = errno;
    close(fd);
    if (!ok)
        report_errno(report, "can not be read", error);
    else if (*ret_len > CONFIG_FILE_BYTES)
        config_report_add(report, (struct config_place){0}, NULL, "the file is too large; allowed: up to 1 MiB");
    return ok && *ret_len <= CONFIG_FILE_BYTES;
}

/* Only characters that YAML takes: so libyaml never has a reason to refuse a byte, for which it could not name the
 * line. */
static bool is_yaml_character(uint32_t code)
{
    if (code == '\t' || code == '\n' || code == '\r' || code == 0x85)
        return true;
    return !config_is_control(code) && code != 0xfeff && code != 0xfffe && code != 0xffff;
}

static bool check_bytes(struct config_report *report, const char *bytes, size_t len)
{
    struct config_place place = {.line = 1, .column = 1};
    for (size_t i = 0, size; i < len; i += size) {
        uint32_t code = 0;
        size = config_utf8_decode((const unsigned char *)bytes + i, len - i, &code);
        if (size == 0) {
            config_report_add(report, place, NULL, "the file is not UTF-8 here (byte 0x%02x)", (unsigned char)bytes[i]);
            return false;
        }
        if (!is_yaml_character(code)) {
            config_report_add(report, place, NULL, "the file is not text here (character U+%04X)", code);
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
    struct config_node *open[CONFIG_DEPTH]; /* lists and mappings that have not ended, outermost first */
    int depth, nodes, documents;
};

enum { PATH = 192 };

static struct config_place place_of(yaml_mark_t mark)
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
            len += (size_t)snprintf(path + len, PATH - len, "[%d]", inner ? open->count - 1 : open->count);
        else if ((inner || open->count % 2 == 1) && open->last_key->kind == NODE_SCALAR)
            len += (size_t)snprintf(path + len, PATH - len, "%s%.64s", len ? "." : "", open->last_key->text);
    }
    return len ? path : NULL;
}

static bool out_of_memory(struct builder *builder)
{
    config_report_add(builder->report, (struct config_place){0}, NULL, "out of memory");
    return false;
}

static bool add(struct builder *builder, struct config_node *node)
{
    if (!node)
        return out_of_memory(builder);
    if (++builder->nodes > CONFIG_NODES) {
        config_report_add(builder->report, node->place, NULL, "the file holds too many values; allowed: up to %d",
                          CONFIG_NODES);
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
    if (!add(builder, node))
        return false;
    if (builder->depth == CONFIG_DEPTH) {
        config_report_add(builder->report, node->place, NULL, "nested too deeply; allowed: up to %d levels",
                          CONFIG_DEPTH);
        return false;
    }
    builder->open[builder->depth++] = node;
    return true;
}

/* An anchor alone changes nothing, so that its value is looked at all the same; a tag may, so its value is not. */
static struct config_node *properties(struct builder *builder, struct config_node *node, const yaml_char_t *anchor,
                                      const yaml_char_t *tag)
{
    char path[PATH];
    if (node && anchor)
        config_report_add(
            builder->report, node->place, path_here(builder, path),
            "anchors and aliases are not supported; write the value out (or quote a text that begins with `&`)");
    if (node && tag) {
        config_report_add(builder->report, node->place, path_here(builder, path),
                          "tags are not supported; write the value without one (or quote a text that begins with `!`)");
        node->kind = NODE_BROKEN;
    }
    return node;
}

static bool add_scalar(struct builder *builder, const yaml_event_t *event)
{
    char path[PATH];
    struct config_node *node =
        config_document_scalar(builder->report, builder->arena, place_of(event->start_mark), path_here(builder, path),
                               (const char *)event->data.scalar.value, event->data.scalar.length);
    if (node)
        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return add(builder, properties(builder, node, event->data.scalar.anchor, event->data.scalar.tag));
}

static bool add_alias(struct builder *builder, const yaml_event_t *event)
{
    char path[PATH];
    config_report_add(
        builder->report, place_of(event->start_mark), path_here(builder, path),
        "anchors and aliases are not supported; write the value out (or quote a text that begins with `*`)");
    return add(builder, node_new(builder->arena, NODE_BROKEN, place_of(event->start_mark)));
}

static bool begin_document(struct builder *builder, const yaml_event_t *event)
{
    if (++builder->documents == 1)
        return true;
    config_report_add(builder->report, place_of(event->start_mark), NULL,
                      "a second document begins here; allowed: one");
    return false;
}

/* False: there is no sense in reading on. */
static bool take_event(struct builder *builder, const yaml_event_t *event)
{
    struct config_place place = place_of(event->start_mark);
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return begin_document(builder, event);
    case YAML_ALIAS_EVENT:
        return add_alias(builder, event);
    case YAML_SCALAR_EVENT:
        return add_scalar(builder, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_node(builder, properties(builder, node_new(builder->arena, NODE_LIST, place),
                                             event->data.sequence_start.anchor, event->data.sequence_start.tag));
    case YAML_MAPPING_START_EVENT:
        return open_node(builder, properties(builder, node_new(builder->arena, NODE_MAP, place),
                                             event->data.mapping_start.anchor, event->data.mapping_start.tag));
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        assert(builder->depth > 0);
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

/* The column of a tab in the indentation of a line, or 0: the most frequent fault deserves better words than libyaml's.
 */
static int tab_in_indentation(const struct builder *builder, size_t line)
{
    const char *at = builder->bytes, *end = at + builder->len;
    for (; line > 0 && at; line--) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    for (int column = 1; at && at < end && (*at == ' ' || *at == '\t'); column++, at++)
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
    struct config_place place = place_of(parser->problem_mark);
    int tab = tab_in_indentation(builder, parser->problem_mark.line);
    if (tab) {
        place.column = tab;
        config_report_add(builder->report, place, NULL, "a tab in the indentation; allowed: spaces");
        return;
    }
    config_report_add(builder->report, place, NULL, "not YAML: %s%s%s",
                      parser->problem ? parser->problem : "unreadable", parser->context ? " " : "",
                      parser->context ? parser->context : "");
}

static bool parse(struct builder *builder)
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

bool config_document_read(struct config_report *report, struct config_arena *arena, struct config_node **ret_root)
{
    struct builder builder = {.report = report, .arena = arena};
    char *bytes = config_arena_take(arena, CONFIG_FILE_BYTES + 1);
    if (!bytes)
        return out_of_memory(&builder);
    if (!read_file(report, bytes, &builder.len))
        return false;
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    bool marked = builder.len >= 3 && memcmp(bytes, byte_order_mark, 3) == 0;
    builder.bytes = marked ? bytes + 3 : bytes;
    builder.len -= marked ? 3 : 0;
    if (!check_bytes(report, builder.bytes, builder.len) || !parse(&builder))
        return false;
    *ret_root = builder.root && config_node_is_null(builder.root) ? NULL : builder.root;
    return true;
}
