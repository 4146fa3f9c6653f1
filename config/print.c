/* Prints the configuration in force, the sample file, and the table of keys. */
#include "config/internal.h"

#include <string.h>

#include "agent/core/core_assert.h"
#include "config/address.h"
#include "config/units.h"

/* ---- values ---- */

/* Writes `text` as a YAML scalar in double quotes. */
static void config_text_print(const char *text, FILE *out)
{
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc('\\', out);
        putc(*text, out);
    }
    putc('"', out);
}

static const char *choice(const struct config_key *key, int64_t number)
{
    CORE_ASSERT(number >= key->min);
    return key->words[number - key->min];
}

static void print_list_item(int indent, const char *text, bool quoted, FILE *out)
{
    fprintf(out, "\n%*s- ", indent, "");
    if (quoted)
        config_text_print(text, out);
    else
        fputs(text, out);
}

static void print_masters(const struct config_group *group, int indent, FILE *out)
{
    char url[CONFIG_TEXT + 512];
    for (size_t i = 0; i < group->master_count; i++) {
        config_master_print(&group->masters[i], group, url, sizeof(url));
        print_list_item(indent, url, true, out);
    }
}

static void print_groups(const struct config_key *key, const struct config *config,
                         const struct core_policy *policy, FILE *out)
{
    if (key->max == 1) {
        fprintf(out, " %s", config->groups[policy->groups[0]].name);
        return;
    }
    for (uint8_t i = 0; i < policy->group_count; i++)
        fprintf(out, "%s%s", i ? ", " : " [", config->groups[policy->groups[i]].name);
    putc(']', out);
}

static void print_list(const struct config_key *key, const struct config *config, size_t index,
                       const void *field, int indent, FILE *out)
{
    const struct config_listener *listener = field;
    size_t count = key->type == TYPE_ADDRESSES ? listener->count
                   : key->type == TYPE_HOSTS   ? config->allowed_host_count
                                               : 1;
    if (count == 0)
        fputs(" []", out);
    if (key->type == TYPE_MASTERS)
        print_masters(&config->groups[index], indent, out);
    else if (key->type == TYPE_GROUPS)
        print_groups(key, config, &config->policies[index].core, out);
    else
        for (size_t i = 0; i < count; i++)
            print_list_item(indent,
                            key->type == TYPE_HOSTS ? config->allowed_hosts[i]
                                                    : listener->addresses[i].text,
                            true, out);
}

/* Writes ` value` after `key:`, or a list below it at `indent`, with the line's end. `index` is
 * that of the group or policy. */
static void print_value(const struct config_key *key, const struct config *config, size_t index,
                        int indent, FILE *out)
{
    const void *field = config_key_field(key, (struct config *)(uintptr_t)config, index);
    char number[32];
    switch (key->type) {
    case TYPE_FLAG:
        fputs(config_key_number(key, field) ? " true" : " false", out);
        break;
    case TYPE_SWITCH:
        fputs(config_key_number(key, field) ? " on" : " off", out);
        break;
    case TYPE_CHOICE:
        fprintf(out, " %s", choice(key, config_key_number(key, field)));
        break;
    case TYPE_TEXT:
    case TYPE_PATTERN:
        putc(' ', out);
        config_text_print(field, out);
        break;
    case TYPE_ADDRESSES:
    case TYPE_MASTERS:
    case TYPE_HOSTS:
    case TYPE_GROUPS:
        print_list(key, config, index, field, indent, out);
        break;
    default:
        fprintf(
            out, " %s",
            config_number_print(key->type, config_key_number(key, field), number, sizeof(number)));
    }
    putc('\n', out);
}

/* ---- the effective configuration ---- */

struct printer {
    const struct config *config;
    FILE *out;
    bool behind_dash; /* The next key continues a line. */
};

static void print_children(struct printer *printer, const struct config_key *parent, size_t index,
                           int indent);

/* Returns true if the key is printed: of `group` and `groups` the one that fits, and `replicas`
 * only if there is an `ack`, because no value of it means none. */
static bool is_shown(const struct printer *printer, const struct config_key *key, size_t index)
{
    if (strcmp(key->path, "redis.groups.<name>.replicas") == 0)
        return printer->config->groups[index].replicas_ack > 0;
    return key->type != TYPE_GROUPS ||
           (key->max == 1) == (printer->config->policies[index].core.group_count == 1);
}

static void print_named(struct printer *printer, int indent)
{
    for (size_t i = 0; i < printer->config->group_count; i++) {
        fprintf(printer->out, "%*s%s:\n", indent, "", printer->config->groups[i].name);
        print_children(printer, config_key_find("redis.groups.<name>"), i, indent + 2);
    }
}

static void print_items(struct printer *printer, int indent)
{
    for (size_t i = 0; i < printer->config->policy_count; i++) {
        fprintf(printer->out, "%*s- ", indent, "");
        printer->behind_dash = true;
        print_children(printer, config_key_find("policies[]"), i, indent + 2);
    }
}

static void print_key(struct printer *printer, const struct config_key *key, size_t index,
                      int indent)
{
    fprintf(printer->out, "%*s%s:", printer->behind_dash ? 0 : indent, "", config_key_name(key));
    printer->behind_dash = false;
    if (!config_key_is_section(key)) {
        print_value(key, printer->config, index, indent + 2, printer->out);
        return;
    }
    putc('\n', printer->out);
    if (key->type == TYPE_NAMED)
        print_named(printer, indent + 2);
    else if (key->type == TYPE_ITEMS)
        print_items(printer, indent + 2);
    else
        print_children(printer, key, index, indent + 2);
}

static void print_children(struct printer *printer, const struct config_key *parent, size_t index,
                           int indent)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_key_is_child(parent, &config_keys[i]) &&
            is_shown(printer, &config_keys[i], index))
            print_key(printer, &config_keys[i], index, indent);
}

void config_print(const struct config *config, FILE *out)
{
    struct printer printer = {config, out, false};
    print_children(&printer, NULL, 0, 0);
}

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

/* Prints a key of the sample. `in_item`: it is the first key of a list's item, after the dash. */
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

/* More policies, which count once their `# ` is removed. */
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
          "# is LOCKAGENT_LIMITS_MAX_TTL; lists are written with commas there, and policies are "
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
