/* Sets the field of one key from a node, and compares the values of one key. */
#include "config/internal.h"

#include <stdio.h>
#include <string.h>

#include "agent/core/core_assert.h"
#include "config/address.h"
#include "config/units.h"

/* ---- allowed values ---- */

static void allowed_range(const struct config_key *key, const char *behind, char *allowed)
{
    char min[32], max[32];
    snprintf(allowed, CONFIG_ALLOWED, "%s to %s%s",
             config_number_print(key->type, key->min, min, sizeof(min)),
             config_number_print(key->type, key->max, max, sizeof(max)), behind);
}

static void allowed_items(const struct config_key *key, const char *what, char *allowed)
{
    if (key->type == TYPE_ADDRESSES)
        snprintf(allowed, CONFIG_ALLOWED, "%s; one or a list of up to %d", what, (int)key->max);
    else if (key->max == 1)
        snprintf(allowed, CONFIG_ALLOWED, "%s", what);
    else
        snprintf(allowed, CONFIG_ALLOWED, "a list of %s%d: %s", key->min ? "1 to " : "up to ",
                 (int)key->max, what);
}

const char *config_key_allowed(const struct config_key *key, char allowed[CONFIG_ALLOWED])
{
    size_t used = 0;
    switch (key->type) {
    case TYPE_DURATION:
        allowed_range(key, " (with ms, s, m or h)", allowed);
        break;
    case TYPE_SIZE:
        allowed_range(key, " (with B, KiB or MiB)", allowed);
        break;
    case TYPE_MODE:
        allowed_range(key, " (four octal digits)", allowed);
        break;
    case TYPE_COUNT:
    case TYPE_PERCENT:
        allowed_range(key, "", allowed);
        break;
    case TYPE_FLAG:
        snprintf(allowed, CONFIG_ALLOWED, "true, false");
        break;
    case TYPE_SWITCH:
        snprintf(allowed, CONFIG_ALLOWED, "on, off, true, false");
        break;
    case TYPE_CHOICE:
        allowed[0] = '\0';
        for (int i = 0; key->words[i] != NULL && used < CONFIG_ALLOWED; i++)
            used += (size_t)snprintf(allowed + used, CONFIG_ALLOWED - used, "%s%s", i ? ", " : "",
                                     key->words[i]);
        break;
    case TYPE_TEXT:
    case TYPE_PATTERN:
        snprintf(allowed, CONFIG_ALLOWED, "%d to %d bytes", (int)key->min, (int)key->max);
        break;
    case TYPE_ADDRESSES:
        allowed_items(key, "host:port, [v6]:port or unix:/path", allowed);
        break;
    case TYPE_MASTERS:
        allowed_items(
            key, "redis[s]://[user[:password]@]host[:port][/db][#name] or unix:/path[?db=N][#name]",
            allowed);
        break;
    case TYPE_HOSTS:
        allowed_items(key, "host names without a port", allowed);
        break;
    case TYPE_GROUPS:
        allowed_items(key, key->max == 1 ? "the name of a group" : "names of groups", allowed);
        break;
    case TYPE_SECTION:
        snprintf(allowed, CONFIG_ALLOWED, "a mapping");
        break;
    case TYPE_NAMED:
        snprintf(allowed, CONFIG_ALLOWED, "a mapping of 1 to %d names", (int)key->max);
        break;
    case TYPE_ITEMS:
        snprintf(allowed, CONFIG_ALLOWED, "a list of mappings, up to %d", (int)key->max);
        break;
    }
    return allowed;
}

/* ---- values ---- */

/* One value that is being set. */
struct setter {
    struct config_report *report;
    const struct config_key *key;
    const char *path;
    void *field;
};

static bool refuse_value(const struct setter *setter, const struct config_node *node,
                         const char *why)
{
    char quoted[CONFIG_QUOTED], allowed[CONFIG_ALLOWED];
    config_report_add(setter->report, node->place, setter->path, "%s %s; allowed: %s",
                      config_quote(node->text, setter->key->type == TYPE_MASTERS, quoted), why,
                      config_key_allowed(setter->key, allowed));
    return false;
}

static bool refuse_twin(const struct setter *setter, const struct config_node *node,
                        const char *why)
{
    char quoted[CONFIG_QUOTED];
    config_report_add(setter->report, node->place, setter->path, "%s is listed twice%s",
                      config_quote(node->text, setter->key->type == TYPE_MASTERS, quoted), why);
    return false;
}

/* Refuses a node without a text that could be quoted. */
static bool refuse_kind(const struct setter *setter, const struct config_node *node,
                        const char *what)
{
    char allowed[CONFIG_ALLOWED];
    config_report_add(setter->report, node->place, setter->path, "%s; allowed: %s", what,
                      config_key_allowed(setter->key, allowed));
    return false;
}

/* ---- single values ---- */

static bool set_number(const struct setter *setter, const struct config_node *node)
{
    int64_t number = 0;
    const char *why = config_number_parse(setter->key->type,
                                          (struct text){node->text, strlen(node->text)}, &number);
    if (why == NULL && number < setter->key->min)
        why = "is too small";
    if (why == NULL && number > setter->key->max)
        why = "is too large";
    if (why != NULL)
        return refuse_value(setter, node, why);
    config_key_set_number(setter->key, setter->field, number);
    return true;
}

static bool set_flag(const struct setter *setter, const struct config_node *node)
{
    bool is_switch = setter->key->type == TYPE_SWITCH;
    bool yes = strcmp(node->text, "true") == 0 || (is_switch && strcmp(node->text, "on") == 0);
    bool no = strcmp(node->text, "false") == 0 || (is_switch && strcmp(node->text, "off") == 0);
    if (!yes && !no)
        return refuse_value(setter, node,
                            is_switch ? "is neither on nor off" : "is neither true nor false");
    config_key_set_number(setter->key, setter->field, yes);
    return true;
}

static bool set_choice(const struct setter *setter, const struct config_node *node)
{
    /* A choice that begins with off and on may be spelled as a switch. */
    bool is_switch = strcmp(setter->key->words[0], "off") == 0;
    const char *word = is_switch && strcmp(node->text, "false") == 0  ? "off"
                       : is_switch && strcmp(node->text, "true") == 0 ? "on"
                                                                      : node->text;
    for (int i = 0; setter->key->words[i] != NULL; i++) {
        if (strcmp(setter->key->words[i], word) == 0) {
            config_key_set_number(setter->key, setter->field, setter->key->min + i);
            return true;
        }
    }
    return refuse_value(setter, node, "is not a choice");
}

static bool set_text(const struct setter *setter, const struct config_node *node)
{
    size_t len = strlen(node->text);
    CORE_ASSERT((size_t)setter->key->max < setter->key->size);
    if (len < (size_t)setter->key->min)
        return refuse_value(setter, node, "is empty");
    if (len > (size_t)setter->key->max)
        return refuse_value(setter, node, "is too long");
    memset(setter->field, 0, setter->key->size);
    memcpy(setter->field, node->text, len);
    return true;
}

/* Sets a pattern with each run of `*` as one. `a**b` matches the same keys as `a*b`, and `**` is
 * the last policy's pattern. */
static bool set_pattern(const struct setter *setter, const struct config_node *node)
{
    if (!set_text(setter, node))
        return false;
    char *out = setter->field, *end = out + strlen(out);
    for (const char *in = setter->field; *in; in++)
        if (in[0] != '*' || in[1] != '*')
            *out++ = *in;
    memset(out, 0, (size_t)(end - out));
    return true;
}

/* ---- lists ---- */

static bool set_address(const struct setter *setter, const struct config_node *node)
{
    struct config_listener *listener = setter->field;
    struct config_address *address = &listener->addresses[listener->count];
    const char *why = config_address_parse(node->text, address);
    if (why != NULL)
        return refuse_value(setter, node, why);
    for (size_t i = 0; i < listener->count; i++)
        if ((address->is_unix || address->port) &&
            config_address_same(&listener->addresses[i], address))
            return refuse_twin(setter, node, "");
    listener->count++;
    return true;
}

static bool set_master(const struct setter *setter, const struct config_node *node)
{
    struct config_group *group =
        (void *)((char *)setter->field - offsetof(struct config_group, masters));
    struct config_master *master = &group->masters[group->master_count];
    const char *why = config_master_parse(node->text, master);
    if (why != NULL)
        return refuse_value(setter, node, why);
    for (size_t i = 0; i < group->master_count; i++)
        if (config_address_same(&group->masters[i].address, &master->address) ||
            strcmp(group->masters[i].name, master->name) == 0)
            return refuse_twin(setter, node, "; a master has one vote");
    group->master_count++;
    return true;
}

static bool set_host(const struct setter *setter, const struct config_node *node)
{
    struct config *config =
        (void *)((char *)setter->field - offsetof(struct config, allowed_hosts));
    char *host = config->allowed_hosts[config->allowed_host_count];
    size_t len = strlen(node->text);
    bool is_v6 = node->text[0] == '[' && strchr(node->text, ']') == node->text + len - 1;
    if (len == 0 || len >= sizeof(config->allowed_hosts[0]))
        return refuse_value(setter, node, "is not a host name");
    if (strpbrk(node->text, " /@?#*") != NULL || (!is_v6 && strpbrk(node->text, ":[]") != NULL))
        return refuse_value(setter, node, "is not a host name without a port");
    memcpy(host, node->text, len);
    config->allowed_host_count++;
    return true;
}

/* Empties a list: it replaces the list of another source and never adds to it. */
static void empty_list(const struct setter *setter)
{
    if (setter->key->type == TYPE_GROUPS)
        return;
    memset(setter->field, 0, setter->key->size);
    if (setter->key->type == TYPE_MASTERS)
        ((struct config_group *)(void *)((char *)setter->field -
                                         offsetof(struct config_group, masters)))
            ->master_count = 0;
    if (setter->key->type == TYPE_HOSTS)
        ((struct config *)(void *)((char *)setter->field - offsetof(struct config, allowed_hosts)))
            ->allowed_host_count = 0;
}

static bool set_one(const struct setter *setter, const struct config_node *node)
{
    char what[64];
    if (node->kind == NODE_BROKEN)
        return false;
    if (config_node_is_null(node))
        return refuse_kind(setter, node, "has no value");
    if (node->kind != NODE_SCALAR) {
        snprintf(what, sizeof(what), "%s where a single value belongs",
                 config_node_kind_name(node));
        return refuse_kind(setter, node, what);
    }
    switch ((int)setter->key->type) {
    case TYPE_ADDRESSES:
        return set_address(setter, node);
    case TYPE_MASTERS:
        return set_master(setter, node);
    case TYPE_HOSTS:
        return set_host(setter, node);
    default:
        CORE_ASSERT(setter->key->type == TYPE_GROUPS);
        return node->text[0] ? true : refuse_value(setter, node, "is empty");
    }
}

static bool set_list(const struct setter *setter, const struct config_node *node)
{
    char what[64];
    bool one = setter->key->type == TYPE_ADDRESSES ||
               (setter->key->type == TYPE_GROUPS && setter->key->max == 1);
    empty_list(setter);
    if (one && node->kind != NODE_LIST)
        return set_one(setter, node);
    if (node->kind != NODE_LIST || !(setter->key->max > 1)) {
        snprintf(what, sizeof(what), "%s where a %s belongs", config_node_kind_name(node),
                 setter->key->max > 1 ? "list" : "single value");
        return refuse_kind(setter, node, config_node_is_null(node) ? "has no value" : what);
    }
    bool ok = true;
    int64_t count = 0;
    for (const struct config_node *item = node->first; item != NULL; item = item->next) {
        if (++count > setter->key->max)
            return refuse_kind(setter, item, "one too many");
        ok = set_one(setter, item) && ok;
    }
    return count < setter->key->min ? refuse_kind(setter, node, "an empty list") : ok;
}

/* ---- all of them ---- */

static bool is_list_type(enum config_type type)
{
    return type == TYPE_ADDRESSES || type == TYPE_MASTERS || type == TYPE_HOSTS ||
           type == TYPE_GROUPS;
}

bool config_value_set(struct config_report *report, const struct config_key *key, const char *path,
                      const struct config_node *node, void *field)
{
    struct setter setter = {report, key, path, field};
    char what[64];
    CORE_ASSERT(!config_key_is_section(key));
    if (node->kind == NODE_BROKEN)
        return false;
    if (is_list_type(key->type))
        return set_list(&setter, node);
    if (config_node_is_null(node))
        return refuse_kind(&setter, node, "has no value");
    if (node->kind != NODE_SCALAR) {
        snprintf(what, sizeof(what), "%s where a single value belongs",
                 config_node_kind_name(node));
        return refuse_kind(&setter, node, what);
    }
    switch ((int)key->type) {
    case TYPE_FLAG:
    case TYPE_SWITCH:
        return set_flag(&setter, node);
    case TYPE_CHOICE:
        return set_choice(&setter, node);
    case TYPE_TEXT:
        return set_text(&setter, node);
    case TYPE_PATTERN:
        return set_pattern(&setter, node);
    default:
        return set_number(&setter, node);
    }
}

/* Splits a list of the table into its items, some of them quoted. Changes `text`. */
static void split_preset(char *text, struct config_node *list, struct config_node *items,
                         size_t items_max)
{
    size_t count = 0;
    CORE_ASSERT(text[0] == '[' && text[1] != '\0');
    for (char *at = text + 1; *at != '\0'; at += strspn(at, ", ")) {
        const char *end = *at == '"' ? "\"" : ",]";
        at += *at == '"';
        CORE_ASSERT(count < items_max);
        items[count] = (struct config_node){.kind = NODE_SCALAR, .text = at};
        if (count > 0)
            items[count - 1].next = &items[count];
        count++;
        at += strcspn(at, end);
        CORE_ASSERT(*at != '\0');
        bool is_quoted = *at == '"';
        *at++ = '\0';
        at += is_quoted && *at == ']';
    }
    *list = (struct config_node){.kind = NODE_LIST, .first = items, .count = (int)count};
}

void config_value_preset(const struct config_key *key, void *field)
{
    if (key->preset == NULL || (is_list_type(key->type) && !key->preset[0]))
        return;
    struct config_errors none = {0};
    struct config_report report = {.errors = &none};
    struct config_node items[CONFIG_LISTENERS] = {0};
    struct config_node node = {.kind = NODE_SCALAR, .text = key->preset};
    char text[CONFIG_TEXT];
    if (is_list_type(key->type) && key->preset[0] == '[') {
        snprintf(text, sizeof(text), "%s", key->preset);
        split_preset(text, &node, items, CONFIG_LISTENERS);
    }
    bool ok = config_value_set(&report, key, key->path, &node, field);
    CORE_ASSERT(ok);
}

/* ---- comparison ---- */

static bool same_addresses(const struct config_listener *a, const struct config_listener *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->addresses[i].text, b->addresses[i].text) == 0;
    return same;
}

/* Compares user and database as they are used; they may come from the group. */
static bool same_masters(const struct config_group *a, const struct config_group *b)
{
    bool same = a->master_count == b->master_count;
    for (size_t i = 0; same && i < a->master_count; i++)
        same = strcmp(a->masters[i].url, b->masters[i].url) == 0 &&
               strcmp(a->masters[i].name, b->masters[i].name) == 0 &&
               strcmp(a->masters[i].username, b->masters[i].username) == 0 &&
               strcmp(a->masters[i].password, b->masters[i].password) == 0;
    return same;
}

static bool same_hosts(const struct config *a, const struct config *b)
{
    bool same = a->allowed_host_count == b->allowed_host_count;
    for (size_t i = 0; same && i < a->allowed_host_count; i++)
        same = strcmp(a->allowed_hosts[i], b->allowed_hosts[i]) == 0;
    return same;
}

static bool same_groups(const struct core_policy *a, const struct core_policy *b)
{
    return a->group_count == b->group_count && memcmp(a->groups, b->groups, a->group_count) == 0;
}

bool config_value_same(const struct config_key *key, const struct config *a, const struct config *b,
                       size_t index)
{
    const void *in_a = config_key_field(key, (struct config *)(uintptr_t)a, index);
    const void *in_b = config_key_field(key, (struct config *)(uintptr_t)b, index);
    switch (key->type) {
    case TYPE_TEXT:
    case TYPE_PATTERN:
        return strcmp(in_a, in_b) == 0;
    case TYPE_ADDRESSES:
        return same_addresses(in_a, in_b);
    case TYPE_MASTERS:
        return same_masters(&a->groups[index], &b->groups[index]);
    case TYPE_HOSTS:
        return same_hosts(a, b);
    case TYPE_GROUPS:
        return same_groups(&a->policies[index].core, &b->policies[index].core);
    default:
        return config_key_number(key, in_a) == config_key_number(key, in_b);
    }
}
