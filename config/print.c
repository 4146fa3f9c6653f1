/* The effective configuration as text. */
#include "config/print.h"

#include <string.h>

#include "agent/core/core_assert.h"
#include "config/address.h"
#include "config/keys.h"
#include "config/units.h"

/* ---- values ---- */

void config_text_print(const char *text, FILE *out)
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

/* Writes ` value` behind `key:`, or a list below it at `indent`, with the line's end. `index`: of
 * the group or policy. */
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
    bool behind_dash; /* the next key stands on a line that has begun */
};

static void print_children(struct printer *printer, const struct config_key *parent, size_t index,
                           int indent);

/* Of `group` and `groups` only the one that fits is printed: the other would be a second word on
 * the same thing. And replicas only where they are asked for: there is no word for none. */
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
