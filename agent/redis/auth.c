/* Builds AUTH (auth.h): from the URL, the group, or the file of the password. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/redis/auth.h"

int auth_ask(struct resp *resp, const struct config_group *group,
             const struct config_master *master, struct text *ret_command, char *why,
             size_t why_size)
{
    const char *user = *master->username ? master->username : group->username;
    char password[sizeof(master->password)];
    snprintf(password, sizeof(password), "%s", master->password);
    if (!*password && *group->password_file &&
        config_read_secret(group->password_file, password, sizeof(password)) < 0) {
        snprintf(why, why_size, "password_file: %s", config_secret_fault(errno));
        return -1;
    }
    if (!*password && !*user)
        return 0;
    resp_begin(resp);
    resp_text(resp, "AUTH");
    if (*user)
        resp_text(resp, user);
    resp_text(resp, password);
    explicit_bzero(password, sizeof(password));
    *ret_command = resp_end(resp);
    return 1;
}
