/* What happens to the command while the lock is held, and when it is lost.
 *
 *   granted         renewed ...        lost                     kill_at          valid_until
 *      |----------------|----- ... ------|------------------------|------------------|
 *   the command starts           SIGTERM, half a lost_margin   SIGKILL, by us    another one may
 *                                for it to end                 or by the keeper  hold the lock */
#include "agent/run/hold.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/usage.h"
#include "agent/clock.h"
#include "agent/run/say.h"
#include "agent/run/terminal.h"

static void let_core_look(struct run_hold *hold)
{
    loop_submit(hold->loop, &(struct event){.kind = EVENT_TIME});
}

/* ---- the start ---- */

/* Returns when the command must be dead: half a lost_margin before the validity ends. */
static struct instant kill_deadline(const struct run_hold *hold)
{
    if (hold->options->on_lost == RUN_ON_LOST_IGNORE)
        return INSTANT_NEVER;
    return instant_after_ms(hold->valid_until, -lost_margin_ms(hold->ttl_ms) / 2);
}

static void lend_terminal(pid_t group)
{
    if (run_terminal_is_wanted())
        run_terminal_lend(group);
}

/* Returns NULL if out of memory. */
static char **command_environment(const struct run_hold *hold)
{
    static char key[LIMIT_KEY_BYTES + 32], token[TOKEN_CHARS_MAX + 32], fence[64], slot[32];
    static char *added[5];
    size_t count = 0;
    char text[TOKEN_CHARS_MAX + 1];
    token_print(&hold->token, text);
    snprintf(key, sizeof(key), "LOCKAGENT_KEY=%s", hold->options->key);
    snprintf(token, sizeof(token), "LOCKAGENT_TOKEN=%s", text);
    snprintf(fence, sizeof(fence), "LOCKAGENT_FENCING_TOKEN=%llu",
             (unsigned long long)hold->token.fence);
    snprintf(slot, sizeof(slot), "LOCKAGENT_SLOT=%d", hold->token.slot);
    added[count++] = key;
    added[count++] = token;
    if (hold->token.fence != 0) /* 0: the policy does not fence. */
        added[count++] = fence;
    if (hold->token.has_slot)
        added[count++] = slot;
    added[count] = NULL;
    return run_environment(environ, added);
}

bool run_hold_begin(struct run_hold *hold, const struct hold_view *granted)
{
    hold->token = granted->token;
    hold->ttl_ms = granted->ttl_ms;
    hold->valid_until = granted->valid_until;
    hold->kill_at = kill_deadline(hold);
    return !hold->lost &&
           !clock_has_reached(instant_after_ms(hold->valid_until, -lost_margin_ms(hold->ttl_ms)));
}

int run_hold_start(struct run_hold *hold)
{
    char **environment = command_environment(hold), shown[USAGE_SHOWN];
    bool executed = false;
    int failure = ENOMEM;
    if (environment != NULL)
        failure = run_child_start(&hold->child, hold->options->command, environment,
                                  hold->inherited, hold->kill_at, lend_terminal, &executed);
    free(environment);
    hold->group = hold->child.pid;
    if (failure == 0)
        return 0;
    run_terminal_take_back();
    run_say(hold->options->key, "%s: %s", usage_shown(hold->options->command[0], shown),
            strerror(failure));
    if (!executed)
        return RUN_EXIT_FAILED;
    return failure == ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_NOT_EXECUTABLE;
}

/* ---- the validity ---- */

/* Reports that the lock was lost, and ends the command (R7). The command gets the rest of the
 * margin before the validity ends. If the lock is gone before its validity ends (taken), the
 * command gets no more than that either. */
static void say_lost(struct run_hold *hold)
{
    static const char *const actions[] = {"the command is terminated", "the command is killed",
                                          "the command goes on without it"};
    hold->lost_said = true;
    run_say(hold->options->key, "the lock was lost (%s): %s", reason_name(hold->reason),
            actions[hold->options->on_lost]);
    if (hold->options->on_lost == RUN_ON_LOST_IGNORE)
        return;
    struct instant now = clock_now();
    bool at_once = hold->options->on_lost == RUN_ON_LOST_KILL;
    struct instant latest = instant_after_ms(now, at_once ? 0 : lost_margin_ms(hold->ttl_ms) / 2);
    hold->kill_at = instant_min(hold->kill_at, latest);
    run_keeper_set(&hold->child.keeper, hold->kill_at);
    if (instant_before(now, hold->kill_at)) {
        run_child_signal(&hold->child, SIGTERM);
        run_child_signal(&hold->child, SIGCONT); /* A stopped command would not handle SIGTERM. */
    }
}

/* Ends the command if its time is over. If this process is late (it was stopped, or the host
 * slept), this comes before anything else (R14). */
void run_hold_watch(struct run_hold *hold)
{
    struct hold_view now;
    uint32_t cursor = 0;
    /* The core knows every renewal. */
    if (!hold->lost && core_next_hold(loop_core(hold->loop), clock_now(), &cursor, &now) &&
        now.valid_until.us != hold->valid_until.us) {
        hold->valid_until = now.valid_until;
        hold->kill_at = kill_deadline(hold);
        run_keeper_set(&hold->child.keeper, hold->kill_at);
    }
    if (clock_has_reached(hold->kill_at)) {
        run_child_signal(&hold->child, SIGKILL);
        let_core_look(hold); /* Reports the reason of the loss. */
        hold->lost = true;
    }
    if (hold->lost && !hold->lost_said)
        say_lost(hold);
}

/* ---- signals, and the end ---- */

void run_stop_by_default(pid_t whom)
{
    struct sigaction ours, standard = {.sa_handler = SIG_DFL};
    sigaction(SIGTSTP, &standard, &ours);
    kill(whom, SIGTSTP);
    sigaction(SIGTSTP, &ours, NULL);
}

/* Stops this process, like the command. The lock is not renewed meanwhile. If that takes too long,
 * the keeper kills the command. */
static void suspend(struct run_hold *hold, pid_t whom)
{
    run_terminal_take_back();
    run_stop_by_default(whom);
    run_hold_watch(hold);
    lend_terminal(hold->group);
    run_child_signal(&hold->child, SIGCONT);
}

/* Handles that the terminal stopped the command. If it only wants to read or write, and we can lend
 * it the terminal, it goes on. Otherwise the whole job stops, as it would without us. */
static void command_stopped(struct run_hold *hold, int signal_number)
{
    bool asks = signal_number == SIGTTIN || signal_number == SIGTTOU;
    if (asks && run_terminal_lend(hold->group))
        run_child_signal(&hold->child, SIGCONT);
    else if (asks || signal_number == SIGTSTP)
        suspend(hold, 0);
}

void run_hold_signal(struct run_hold *hold, int signal_number)
{
    run_hold_watch(hold);
    run_child_signal(&hold->child, signal_number);
    if (signal_number == SIGTSTP)
        suspend(hold, getpid());
}

bool run_hold_look(struct run_hold *hold, int *ret_code)
{
    switch (run_child_look(&hold->child, ret_code)) {
    case RUN_CHILD_RUNS:
        return false;
    case RUN_CHILD_STOPPED:
        command_stopped(hold, *ret_code);
        return false;
    case RUN_CHILD_ENDED:
        break;
    }
    let_core_look(hold); /* It may report that the lock was lost: then the keeper was faster. */
    run_hold_watch(hold);
    hold->interactive = run_terminal_take_back();
    if (hold->lost && hold->options->on_lost != RUN_ON_LOST_IGNORE)
        *ret_code = RUN_EXIT_LOST;
    return true;
}
