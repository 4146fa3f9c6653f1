/* What happens to the command while its locks are held, and when one of them is lost.
 *
 *   granted         renewed ...        lost                     kill_at          valid_until
 *      |----------------|----- ... ------|------------------------|------------------|
 *   the command starts           SIGTERM, half a lost_margin   SIGKILL, by us    another one may
 *                                for it to end                 or by the keeper  hold the lock */
#include "agent/run/command.h"

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

static void let_core_look(struct run_command *command)
{
    loop_submit(command->loop, &(struct event){.kind = EVENT_TIME});
}

/* ---- the start ---- */

/* Returns when the command must be dead: the first time of all its locks. */
static struct instant kill_deadline(const struct run_command *command)
{
    struct instant first = INSTANT_NEVER;
    if (command->options->on_lost == RUN_ON_LOST_IGNORE)
        return first;
    for (size_t i = 0; i < command->options->key_count; i++)
        first = instant_min(first, run_hold_kill_at(&command->holds[i]));
    return first;
}

static void lend_terminal(pid_t group)
{
    if (run_terminal_is_wanted())
        run_terminal_lend(group);
}

/* Returns the environment of a command under one lock. */
static char **environment_of_one(const struct run_hold *hold)
{
    static char key[LIMIT_KEY_BYTES + 32], token[TOKEN_CHARS_MAX + 32], fence[64], slot[32];
    static char *added[5];
    size_t count = 0;
    char text[TOKEN_CHARS_MAX + 1];
    token_print(&hold->token, text);
    snprintf(key, sizeof(key), "LOCKAGENT_KEY=%s", hold->key);
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

/* Returns the environment of a command under several locks. */
static char **environment_of_several(const struct run_hold *holds, size_t count)
{
    static const char name[] = "LOCKAGENT_FENCING_TOKENS=";
    static char numbers[RUN_KEYS_MAX * RUN_NUMBER_BYTES];
    static char variable[sizeof(name) + sizeof(numbers)];
    for (size_t i = 0; i < count; i++)
        if (holds[i].token.fence != 0) /* 0: the policy does not fence. */
            run_keys_add_number(numbers, holds[i].key, holds[i].token.fence);
    snprintf(variable, sizeof(variable), "%s%s", name, numbers);
    return run_environment(environ, (char *[]){numbers[0] == '\0' ? NULL : variable, NULL});
}

/* Returns NULL if out of memory. */
static char **command_environment(const struct run_command *command)
{
    size_t count = command->options->key_count;
    return count == 1 ? environment_of_one(&command->holds[0])
                      : environment_of_several(command->holds, count);
}

/* Returns true if the command is one word that only a shell would understand, such as 'a | b'. */
static bool is_shell_line(char *const *words)
{
    return words[1] == NULL && strpbrk(words[0], " \t\n|&;<>()$`*?~") != NULL;
}

int run_command_start(struct run_command *command)
{
    char **environment = command_environment(command), shown[USAGE_SHOWN];
    bool executed = false;
    command->kill_at = kill_deadline(command);
    int failure = ENOMEM;
    if (environment != NULL)
        failure = run_child_start(&command->child, command->options->command, environment,
                                  command->inherited, command->kill_at, lend_terminal, &executed);
    free(environment);
    command->group = command->child.pid;
    if (failure == 0)
        return 0;
    run_terminal_take_back();
    run_say(
        NULL, "%s: %s%s", usage_shown(command->options->command[0], shown), strerror(failure),
        is_shell_line(command->options->command)
            ? "; the command runs without a shell: for a line of the shell write -- sh -c 'LINE'"
            : "");
    if (!executed)
        return RUN_EXIT_FAILED;
    return failure == ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_NOT_EXECUTABLE;
}

/* ---- the validity ---- */

/* Reports that a lock was lost, and ends the command (R7). The command gets the rest of the margin
 * before the validity ends. If the lock is gone before its validity ends (taken), the command gets
 * no more than that either. */
static void say_lost(struct run_command *command, struct run_hold *hold)
{
    static const char *const actions[] = {"the command is terminated", "the command is killed",
                                          "the command goes on without it"};
    bool is_first = !command->lost;
    enum run_on_lost on_lost = command->options->on_lost;
    command->lost = hold->lost_said = true;
    run_say(hold->key, "the lock was lost (%s): %s", reason_name(hold->reason), actions[on_lost]);
    if (on_lost == RUN_ON_LOST_IGNORE)
        return;
    struct instant now = clock_now();
    int64_t left_ms = on_lost == RUN_ON_LOST_KILL ? 0 : hold->margin_ms / 2;
    command->kill_at = instant_min(command->kill_at, instant_after_ms(now, left_ms));
    run_keeper_set(&command->child.keeper, command->kill_at);
    if (is_first && instant_before(now, command->kill_at)) {
        run_child_signal(&command->child, SIGTERM);
        run_child_signal(&command->child,
                         SIGCONT); /* A stopped command would not handle SIGTERM. */
    }
}

/* Moves the deadline after renewals; the core knows every one. */
static void follow_renewals(struct run_command *command)
{
    run_hold_refresh(command->holds, command->options->key_count, loop_core(command->loop));
    struct instant kill_at = kill_deadline(command);
    if (kill_at.us == command->kill_at.us)
        return;
    command->kill_at = kill_at;
    run_keeper_set(&command->child.keeper, kill_at);
}

/* Ends the command if its time is over. If this process is late (it was stopped, or the host
 * slept), this comes before anything else (R14). */
void run_command_watch(struct run_command *command)
{
    size_t count = command->options->key_count;
    bool lost = command->lost;
    for (size_t i = 0; i < count; i++)
        lost |= command->holds[i].lost;
    if (!lost)
        follow_renewals(command);
    if (clock_has_reached(command->kill_at)) {
        run_child_signal(&command->child, SIGKILL);
        let_core_look(command); /* Reports the reason of the loss. */
        for (size_t i = 0; i < count; i++)
            command->holds[i].lost |= clock_has_reached(run_hold_kill_at(&command->holds[i]));
    }
    for (size_t i = 0; i < count; i++)
        if (command->holds[i].lost && !command->holds[i].lost_said)
            say_lost(command, &command->holds[i]);
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
static void suspend(struct run_command *command, pid_t whom)
{
    run_terminal_take_back();
    run_stop_by_default(whom);
    run_command_watch(command);
    lend_terminal(command->group);
    run_child_signal(&command->child, SIGCONT);
}

/* Handles that the terminal stopped the command. If it only wants to read or write, and we can lend
 * it the terminal, it goes on. Otherwise the whole job stops, as it would without us. */
static void command_stopped(struct run_command *command, int signal_number)
{
    bool asks = signal_number == SIGTTIN || signal_number == SIGTTOU;
    if (asks && run_terminal_lend(command->group))
        run_child_signal(&command->child, SIGCONT);
    else if (asks || signal_number == SIGTSTP)
        suspend(command, 0);
}

void run_command_signal(struct run_command *command, int signal_number)
{
    run_command_watch(command);
    run_child_signal(&command->child, signal_number);
    if (signal_number == SIGTSTP)
        suspend(command, getpid());
}

bool run_command_look(struct run_command *command, int *ret_code)
{
    switch (run_child_look(&command->child, ret_code)) {
    case RUN_CHILD_RUNS:
        return false;
    case RUN_CHILD_STOPPED:
        command_stopped(command, *ret_code);
        return false;
    case RUN_CHILD_ENDED:
        break;
    }
    let_core_look(command); /* It may report that the lock was lost: then the keeper was faster. */
    run_command_watch(command);
    command->interactive = run_terminal_take_back();
    if (command->lost && command->options->on_lost != RUN_ON_LOST_IGNORE)
        *ret_code = RUN_EXIT_LOST;
    return true;
}
