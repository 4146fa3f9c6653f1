/* Begins, pauses and ends a master's service to the core (service.h). */
#include <string.h>

#include "agent/redis/health.h"
#include "agent/redis/marker.h"
#include "agent/redis/service.h"
#include "agent/redis/subscriber.h"

/* Where there is no marker that says so (D5.3): it is another server process than before, or one
 * that does not say who it is. */
static bool may_have_forgotten(const struct master *master)
{
    const char *run_id = master->view.run_id;
    return master->epoch == 0 ||
           (!master->was_ready && (!*run_id || strcmp(run_id, master->last_run_id) != 0));
}

void service_up(struct master *master)
{
    bool guards = master->group_config->guard;
    if (!guards && may_have_forgotten(master))
        master_new_epoch(master);
    memcpy(master->last_run_id, master->view.run_id, sizeof(master->last_run_id));
    master->phase = PHASE_READY;
    master->was_ready = true;
    master->reloading = false;
    master->probe_ticks = 0;
    master->noticed = 0;
    if (guards)
        marker_ready(master);
    subscriber_wanted(master);
    health_look(master->redis, master->group);
}

void service_down(struct master *master, const char *why)
{
    marker_away(master);
    master_show_down(master, why);
}

/* The pipeline stays: what was sent before and what will be sent after keep their order (R5). */
void service_pause(struct master *master, const char *why)
{
    master->phase = PHASE_PAUSED;
    service_down(master, why);
    if (master->phase == PHASE_PAUSED)
        master_start_backoff(master);
}

/* OOM, READONLY, MISCONF and NOREPLICAS refuse some commands and leave the rest (D5.5); a key that
 * the ACL does not allow is the affair of that key alone: if it took the master down, any caller
 * could. */
void service_refused(struct master *master, enum redis_outcome outcome, const char *text)
{
    bool unfit = outcome == REDIS_OUTCOME_LOADING || outcome == REDIS_OUTCOME_BUSY ||
                 outcome == REDIS_OUTCOME_MASTERDOWN || outcome == REDIS_OUTCOME_NOAUTH ||
                 (outcome == REDIS_OUTCOME_NOPERM && strstr(text, " run ") != NULL);
    if (!unfit) {
        master_notice(master, outcome, text);
    } else if (master->phase == PHASE_READY) {
        char says[160];
        outcome_describe(outcome, text, says, sizeof(says));
        service_pause(master, says);
    }
}
