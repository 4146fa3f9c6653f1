/* Loads the configuration for the commands that read it once, and checks the files that it
 * names. */
#include "agent/settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/log.h"
#include "agent/redis/redis.h"

struct config *settings_load(const struct settings_source *source)
{
    struct config *config = calloc(1, sizeof(*config));
    struct config_errors *errors = calloc(1, sizeof(*errors));
    bool ok = config != NULL && errors != NULL &&
              config_load(source->path, source->environment, source->overrides,
                          source->override_count, config, errors);
    if (config == NULL || errors == NULL) {
        fputs("lockagent: out of memory\n", stderr);
    } else if (!ok) {
        size_t kept = sizeof(errors->list) / sizeof(errors->list[0]);
        for (size_t i = 0; i < errors->count && i < kept; i++)
            fprintf(stderr, "%s\n", errors->list[i].text);
        if (errors->count > kept)
            fprintf(stderr, "and %zu more\n", errors->count - kept);
    }
    free(errors);
    if (ok)
        return config;
    free(config);
    return NULL;
}

struct files_checked {
    const char *path;
    bool ok;
};

static void print_file(void *arg, const char *group, const char *key, bool fatal, const char *what)
{
    struct files_checked *checked = arg;
    fprintf(stderr, "%s: redis.groups.%s.tls.%s: %s%s\n", checked->path, group, key,
            fatal ? "" : "warning: ", what);
    checked->ok = checked->ok && !fatal;
}

bool settings_check_files(const struct config *config, const char *path)
{
    struct files_checked checked = {path, true};
    char why[256];
    if (!redis_set_up_tls(config, why, sizeof(why))) {
        fprintf(stderr, "%s: %s\n", path, why);
        return false;
    }
    redis_check_files(config, print_file, &checked);
    return checked.ok;
}

/* Writes that a group of an even number of masters has one for nothing. */
static void say_even(const struct config_group *group, char *text, size_t size)
{
    size_t count = group->master_count, lost = count - (count / 2 + 1);
    snprintf(text, size,
             "%zu masters survive the loss of %zu, no more than %zu would; %zu survive the loss of "
             "%zu",
             count, lost, count - 1, count + 1, lost + 1);
}

void settings_print_remarks(const struct config *config, const char *path)
{
    char text[160];
    for (size_t g = 0; g < config->group_count; g++) {
        if (!config_group_is_even(config, g))
            continue;
        say_even(&config->groups[g], text, sizeof(text));
        fprintf(stderr, "%s: redis.groups.%s.masters: remark: %s\n", path, config->groups[g].name,
                text);
    }
}

void settings_log_remarks(const struct config *config)
{
    char text[160];
    for (size_t g = 0; g < config->group_count; g++) {
        if (!config_group_is_even(config, g))
            continue;
        say_even(&config->groups[g], text, sizeof(text));
        log_event(LOG_INFO, "group has an even number of masters",
                  LOG_TEXT_FIELD("group", config->groups[g].name), LOG_TEXT_FIELD("remark", text));
    }
}

static void log_file(void *arg, const char *group, const char *key, bool fatal, const char *what)
{
    (void)arg, (void)fatal;
    log_event(LOG_WARN, "TLS file has a fault", LOG_TEXT_FIELD("group", group),
              LOG_TEXT_FIELD("key", key), LOG_TEXT_FIELD("reason", what));
}

void settings_log_files(const struct config *config)
{
    redis_check_files(config, log_file, NULL);
}
