/* Keeps the end of each group's client certificate, which people are warned of. The file is read
 * again when it changes, because connections that were made with an earlier certificate last. */
#include "agent/redis/internal.h"

#include <sys/stat.h>

#include "agent/base/unchanged.h"

enum { LOOK_TICKS = 10 * 1000 / TICK_MS }; /* Ticks between two looks at a file. */

bool group_has_tls(const struct config_group *group)
{
    for (size_t i = 0; i < group->master_count; i++)
        if (group->masters[i].tls)
            return true;
    return false;
}

static void look_at(struct own_certificate *own, const struct config_tls *config)
{
    struct stat file;
    if (stat(config->cert_file, &file) != 0)
        own->end_s = 0;
    else if (own->end_s == 0 || !file_is_unchanged(&own->file, &file))
        own->end_s = tls_own_end_s(config);
    own->file = file;
}

void certificates_tick(struct redis *redis)
{
    if (redis->certificate_ticks++ % LOOK_TICKS != 0)
        return;
    for (size_t group = 0; group < redis->config->group_count; group++) {
        const struct config_group *config = &redis->config->groups[group];
        if (group_has_tls(config) && config->tls.cert_file[0] != '\0')
            look_at(&redis->own_certificates[group], &config->tls);
    }
}
