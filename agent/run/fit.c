/* Less of everything than an agent has, and more patience. */
#include "agent/run/fit.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/log.h"
#include "agent/run/options.h"
#include "agent/run/say.h"

enum {
    LOCKS = 256,    /* Attempts that may leave releases owed while we wait. */
    REQUESTS = 16,  /* Requests of this process at the same time: one for each key. */
    OWN_FILES = 16, /* Beside its connections: standard files, the loop's, the command's pipes. */
};

static_assert((int)REQUESTS >= (int)RUN_KEYS_MAX, "each key has a request");

void run_fit_config(struct config *config)
{
    config->locks_max = LOCKS;
    config->connections_max = config->waiters_max = REQUESTS;
    config->wait_ms_max = RUN_WITHOUT_END_MS;
    for (size_t i = 0; i < config->policy_count; i++) {
        struct core_policy *policy = &config->policies[i].core;
        policy->max_hold_ms = RUN_WITHOUT_END_MS;
        /* A lease that callers renew may be shorter. Here the watchdog renews all. */
        if (policy->ttl_ms < TTL_MS_MIN_AGENT)
            policy->ttl_ms = TTL_MS_MIN_AGENT;
    }
    /* The agent's default messages would be mixed with the command's own lines. */
    log_setup(config->log_level == LOG_INFO ? LOG_WARN : config->log_level,
              (int)config->log_format);
}

/* Each master needs two connections: one for commands, one for messages. */
bool run_may_open_files(const struct config *config)
{
    struct rlimit limit;
    rlim_t needed = OWN_FILES;
    for (size_t i = 0; i < config->group_count; i++)
        needed += 2 * config->groups[i].master_count;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return true;
    run_say(NULL, "too few files may be open: %llu (RLIMIT_NOFILE); at least %llu are needed",
            (unsigned long long)limit.rlim_cur, (unsigned long long)needed);
    return false;
}

void run_make_label(const char *wanted, char label[LIMIT_LABEL_BYTES + 1])
{
    char host[LIMIT_LABEL_BYTES] = "";
    if (wanted != NULL) {
        snprintf(label, LIMIT_LABEL_BYTES + 1, "%s", wanted);
        return;
    }
    gethostname(host, sizeof(host) - 1);
    snprintf(label, LIMIT_LABEL_BYTES + 1, "%.*s/%d", LIMIT_LABEL_BYTES - 12, host, (int)getpid());
}
