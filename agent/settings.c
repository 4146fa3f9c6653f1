/* Loads the configuration for the commands that need it once. */
#include "agent/settings.h"

#include <stdio.h>
#include <stdlib.h>

struct config *settings_load(const struct settings_source *source)
{
    struct config *config = calloc(1, sizeof(*config));
    struct config_errors *errors = calloc(1, sizeof(*errors));
    bool ok = config != NULL && errors != NULL &&
              config_load(source->path, source->environment, source->overrides,
                          source->override_count, config, errors);
    if (!ok && errors != NULL) {
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
