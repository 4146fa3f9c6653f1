/* The table of keys as documentation: the annotated sample file, and the table of docs/. */
#include <string.h>

#include "config/allowed.h"
#include "config/print.h"

/* ---- the sample file ---- */

enum { SAMPLE_COLUMNS = 100 };

/* Writes `prose` as comment lines. */
static void comment(const char *prose, int indent, FILE *out)
{
    size_t room = SAMPLE_COLUMNS - 2 - (size_t)indent;
    while (*prose) {
        size_t len = strlen(prose);
        if (len > room) {
            len = room;
            while (len > 0 && prose[len] != ' ')
                len--;
        }
        fprintf(out, "%*s# %.*s\n", indent, "", (int)len, prose);
        prose += len + (prose[len] == ' ');
    }
}

static bool is_quoted(enum config_type type)
{
    return type == TYPE_TEXT || type == TYPE_PATTERN;
}

static void print_written(const struct config_key *key, const char *written, FILE *out)
{
    bool list = config_key_takes_several(key) && key->type != TYPE_ADDRESSES;
    putc(' ', out);
    if (is_quoted(key->type))
        config_text_print(written, out);
    else
        fprintf(out, "%s%s%s", list ? "[" : "", written, list ? "]" : "");
}

/* `in_item`: the key that opens an item of a list, and so stands behind its dash. */
static void print_sample_value(const struct config_key *key, int indent, bool in_item, FILE *out)
{
    char allowed[CONFIG_ALLOWED], note[CONFIG_ALLOWED + 64];
    int margin = in_item ? indent - 2 : indent;
    comment(key->prose, margin, out);
    snprintf(note, sizeof(note), "Allowed: %s.%s%s", config_key_allowed(key, allowed),
             key->flags & KEY_REQUIRED ? " Required." : "",
             key->flags & KEY_RELOADABLE ? "" : " Needs a restart.");
    comment(note, margin, out);
    bool shown = key->preset != NULL || key->flags & KEY_REQUIRED;
    fprintf(out, "%*s%s%s%s:", margin, "", in_item ? "- " : "", shown ? "" : "# ",
            config_key_name(key));
    print_written(key, key->preset != NULL ? key->preset : key->example, out);
    fputs("\n", out);
}

/* More items of the list of policies, which count once their `# ` is taken away. */
static const char *const more_policies[] = {
    "",
    "# A semaphore: eight callers hold a key at once, each in a slot of its own.",
    "# - match: \"slots/*\"",
    "#   permits: 8",
    "",
    "# Readers and writers: any number of callers read a key (mode=read), or one writes it.",
    "# - match: \"reports/*\"",
    "#   kind: rw",
};

static void print_more_policies(int indent, FILE *out)
{
    for (size_t i = 0; i < sizeof(more_policies) / sizeof(more_policies[0]); i++)
        fprintf(out, "%*s%s\n", *more_policies[i] ? indent : 0, "", more_policies[i]);
}

static void print_sample_children(const struct config_key *parent, int indent, FILE *out);

static void print_sample_section(const struct config_key *key, int indent, FILE *out)
{
    comment(key->prose, indent, out);
    fprintf(out, "%*s%s:\n", indent, "", config_key_name(key));
    if (key->type == TYPE_SECTION) {
        print_sample_children(key, indent + 2, out);
        return;
    }
    const struct config_key *element =
        config_key_find(key->type == TYPE_NAMED ? "redis.groups.<name>" : "policies[]");
    if (key->type == TYPE_NAMED) {
        comment(element->prose, indent + 2, out);
        fprintf(out, "%*smain:\n", indent + 2, "");
    }
    print_sample_children(element, indent + 4, out);
    if (key->type != TYPE_NAMED)
        print_more_policies(indent + 2, out);
}

static void print_sample_children(const struct config_key *parent, int indent, FILE *out)
{
    bool first = parent != NULL,
         is_item = parent != NULL && parent->path[strlen(parent->path) - 1] == ']';
    for (size_t i = 0; i < config_key_count; i++) {
        if (!config_key_is_child(parent, &config_keys[i]))
            continue;
        if (!first)
            putc('\n', out);
        if (config_key_is_section(&config_keys[i]))
            print_sample_section(&config_keys[i], indent, out);
        else
            print_sample_value(&config_keys[i], indent, is_item && first, out);
        first = false;
    }
}

void config_print_sample(FILE *out)
{
    fputs("# Every key of lockagent's configuration, with its default. Only `redis` is required.\n"
          "# Order: flag > environment > this file > default. A key is also an environment "
          "variable, as limits.max_ttl\n"
          "# is LOCKAGENT_LIMITS_MAX_TTL; lists are written with commas there, and policies stand "
          "in the file alone.\n"
          "# This file is made from the table in config/keys.c; a test fails when it differs.\n",
          out);
    print_sample_children(NULL, 0, out);
}

/* ---- the table of docs/configuration.md ---- */

/* `|` would end the cell. */
static void print_cell(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '|')
            putc('\\', out);
        putc(*text, out);
    }
}

void config_print_markdown(FILE *out)
{
    char allowed[CONFIG_ALLOWED];
    fputs("| key | default | allowed | reload | meaning |\n|---|---|---|---|---|\n", out);
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (config_key_is_section(key))
            continue;
        bool has_preset = key->preset != NULL && key->preset[0];
        fprintf(out, "| `%s` | %s%s%s | ", key->path, has_preset ? "`" : "",
                has_preset                  ? key->preset
                : key->flags & KEY_REQUIRED ? "required"
                                            : "none",
                has_preset ? "`" : "");
        print_cell(config_key_allowed(key, allowed), out);
        fprintf(out, " | %s | ", key->flags & KEY_RELOADABLE ? "yes" : "restart");
        print_cell(key->prose, out);
        fputs(" |\n", out);
    }
}
