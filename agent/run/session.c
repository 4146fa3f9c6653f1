/* The locks of one command.
 *
 *   CONNECTING --a quorum has a vote, or no master is left to wait for--> ACQUIRING
 *   ACQUIRING --granted, and a key is left--> ACQUIRING the next one
 *   ACQUIRING --all are granted--> HOLDING --the command has ended--> CLEARING
 *   CLEARING --its process group is gone--> RELEASING --confirmed--> the end
 *   CONNECTING --a signal--> the end
 *   ACQUIRING --refused, one is lost, or a signal--> UNDOING --no master has any--> the end
 *
 * Events (from the core, from signals, from the child) are only noted. on_turn() handles them once
 * in each iteration of the event loop, after a look at the clock.
 *
 * Timers, all on CLOCK_BOOTTIME: `until`, when a stage is over at the latest; `kill_at` of the
 * command, when it must be dead. The core has its own in the loop. */
#include "agent/run/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/alarm.h"
#include "agent/base/key.h"
#include "agent/base/text.h"
#include "agent/clock.h"
#include "agent/log.h"
#include "agent/loop.h"
#include "agent/run/command.h"
#include "agent/run/fit.h"
#include "agent/run/say.h"
#include "agent/run/terminal.h"

enum {
    CONNECT_MS = 3000,     /* A new group settles its markers within 2 s (D5.3). */
    CLEAR_MS = 1000,       /* For killed processes to be gone; a zombie may stay. */
    LOOK_MS = 5,           /* How often we look at processes and masters that cannot notify us. */
    RELEASE_MS_MIN = 1000, /* For releases: a master may be silent for that long (R3). */
};

enum run_stage { CONNECTING, ACQUIRING, HOLDING, CLEARING, RELEASING, UNDOING };

/* The first six end a wait; they and WINCH are passed on. TSTP and CONT are as well, and have their
 * own meaning for us. */
static const int caught[] = {SIGTERM, SIGINT,   SIGHUP,  SIGQUIT, SIGUSR1,
                             SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT, SIGCHLD};
enum { CAUGHT = sizeof(caught) / sizeof(caught[0]) };

static struct session {
    const struct run_options *options;
    struct config *config;
    uv_loop_t uv;
    uv_prepare_t turn;
    struct alarm alarm; /* For the next look. */
    uv_signal_t signals[CAUGHT];
    struct metrics *metrics;
    struct loop *loop;
    struct redis *redis;
    enum run_stage stage;
    struct instant started, until;

    /* The key that is asked for. Its number is that of our request, for the release as well. */
    size_t asked;
    bool answered; /* Its acquire has the answer. */
    struct effect_answer answer;
    char holder[LIMIT_LABEL_BYTES + 1];
    int interrupted; /* The signal that came before there was a command; 0: none. */

    struct run_command command;
    int exit_code;
    char label[LIMIT_LABEL_BYTES + 1];
} session;

static struct run_hold *held(size_t request)
{
    return &session.command.holds[request];
}

/* Returns a hold that was lost; NULL: there is none. */
static struct run_hold *lost_hold(void)
{
    for (size_t i = 0; i < session.options->key_count; i++)
        if (held(i)->lost)
            return held(i);
    return NULL;
}

static void enter(enum run_stage stage, int64_t at_most_ms)
{
    session.stage = stage;
    session.until = instant_after_ms(clock_now(), at_most_ms);
}

/* ---- events from the core, the masters and signals ---- */

static void on_answer(void *arg, const struct effect_answer *answer)
{
    (void)arg;
    if (session.stage != ACQUIRING) {
        struct run_hold *hold = held(answer->request);
        hold->release_answered = true;
        hold->released = answer->answer != ANSWER_RELEASE_PENDING;
        return;
    }
    session.answered = true;
    session.answer = *answer;
    snprintf(session.holder, sizeof(session.holder), "%.*s", (int)answer->occupant.label.len,
             answer->occupant.label.at);
}

static void on_trace(void *arg, const struct effect_trace *trace)
{
    (void)arg;
    if (trace->kind != TRACE_LOST)
        return;
    struct run_hold *hold =
        run_hold_find(session.command.holds, session.options->key_count, trace->key);
    if (hold == NULL)
        return;
    hold->lost = true;
    hold->reason = trace->reason;
}

static void on_redis_event(void *arg, struct event *event)
{
    (void)arg;
    loop_submit(session.loop, event);
}

static void on_about_to_write(void *arg)
{
    (void)arg;
    loop_flush(session.loop);
}

static void on_command(void *arg, uint8_t group, uint8_t master, enum op op,
                       enum redis_outcome outcome, int64_t latency_us)
{
    (void)arg, (void)group, (void)master, (void)op, (void)outcome, (void)latency_us;
}

static void on_master_state(void *arg, uint8_t group, uint8_t master, enum redis_state state,
                            const char *text)
{
    (void)arg;
    const struct config_group *config = &session.config->groups[group];
    struct redis_master_view view = redis_master(session.redis, group, master);
    bool fine = (state == REDIS_UP && *text == '\0') || state == REDIS_CONNECTING;
    bool unsure = state == REDIS_GUARDED && view.guarded_ms < 0 && !view.degraded;
    log_event(fine || unsure ? LOG_INFO : LOG_WARN, "master state changed",
              LOG_TEXT_FIELD("group", config->name),
              LOG_TEXT_FIELD("master", config->masters[master].url),
              LOG_TEXT_FIELD("state", redis_state_name(state)), LOG_TEXT_FIELD("reason", text));
}

static void on_clock(void *arg, uint8_t group, int64_t offset_us)
{
    (void)arg;
    if (offset_us != 0)
        log_event(LOG_WARN, "clock is off from most masters'",
                  LOG_TEXT_FIELD("group", session.config->groups[group].name),
                  LOG_INT_FIELD("offset_ms", offset_us / 1000));
}

static void on_layout(void *arg, uint8_t group, const char *text)
{
    (void)arg;
    if (*text != '\0')
        log_event(LOG_ERROR, "no new locks: agents at work have another layout",
                  LOG_TEXT_FIELD("group", session.config->groups[group].name),
                  LOG_TEXT_FIELD("reason", text));
}

static void on_quorum(void *arg, uint8_t group, const struct redis_group_view *view)
{
    (void)arg;
    loop_log_quorum(session.config, group, view);
}

/* ---- the locks ---- */

/* Returns the time of a master to reply, of the slowest group. */
static int64_t node_timeout_ms(void)
{
    int64_t longest_ms = 0;
    for (size_t i = 0; i < session.options->key_count; i++) {
        int64_t ms = session.config->groups[held(i)->group].node_timeout_ms;
        longest_ms = ms > longest_ms ? ms : longest_ms;
    }
    return longest_ms;
}

/* Returns true if no master of the group is left to wait for. `*ret_quorum`: a quorum has a vote
 * already. */
static bool group_is_settled(uint8_t group, bool *ret_quorum)
{
    struct redis_group_view view = redis_group(session.redis, group);
    size_t open = 0;
    for (size_t m = 0; m < session.config->groups[group].master_count; m++) {
        struct redis_master_view master = redis_master(session.redis, group, (uint8_t)m);
        open += master.state == REDIS_CONNECTING ||
                (master.state == REDIS_GUARDED && master.guarded_ms < 0);
    }
    *ret_quorum = view.voting >= view.quorum;
    return open == 0 && view.gate != GUARD_LISTENS;
}

/* Returns true if it is time to ask for the locks. If it were asked for too early, masters that are
 * about to be up would count as failed. A frozen master would take its time: if the others are a
 * quorum, they wait for it only a short while. */
static bool masters_are_settled(void)
{
    bool settled = true, quorum = true;
    for (size_t i = 0; i < session.options->key_count; i++) {
        bool group_quorum;
        settled &= group_is_settled(held(i)->group, &group_quorum);
        quorum &= group_quorum;
    }
    if (quorum)
        session.until =
            instant_min(session.until, instant_after_ms(clock_now(), node_timeout_ms()));
    return settled || clock_has_reached(session.until);
}

/* Says for which masters the command waits, if it does: otherwise it would be silent for as long as
 * a guard lasts. */
static void say_what_is_lacking(void)
{
    char lacks[REDIS_LACKS_BYTES];
    uint16_t said = 0;
    for (size_t i = 0; session.options->wait_ms != 0 && i < session.options->key_count; i++) {
        uint8_t group = held(i)->group;
        redis_group_lacks(session.redis, group, lacks, sizeof(lacks));
        if (lacks[0] != '\0' && (said >> group & 1) == 0)
            run_say(NULL, "waits: %s", lacks);
        said |= (uint16_t)(1U << group);
    }
}

/* Asks for one key. All have the same deadline. */
static void ask_for_lock(size_t key)
{
    const struct run_options *options = session.options;
    int64_t spent_ms = instant_us_between(session.started, clock_now()) / 1000;
    int64_t wait_ms = options->wait_ms == 0         ? 0
                      : options->wait_ms > spent_ms ? options->wait_ms - spent_ms
                                                    : 1;
    session.asked = key;
    session.answered = false;
    enter(ACQUIRING, 2 * RUN_WITHOUT_END_MS);
    loop_submit(session.loop,
                &(struct event){.kind = EVENT_ACQUIRE,
                                .acquire = {.request = (uint32_t)key,
                                            .key = text_of(held(key)->key),
                                            .ttl_ms = options->ttl_ms,
                                            .wait_ms = wait_ms,
                                            .max_hold_ms = options->max_hold_ms,
                                            .mode = options->reads ? MODE_READ : MODE_WRITE,
                                            .renew = RENEW_AGENT,
                                            .label = {session.label, strlen(session.label)}}});
}

/* Returns the time that masters have to confirm a release. A key of which a master has not
 * confirmed the release by then runs out with the ttl. */
static int64_t release_patience_ms(void)
{
    int64_t silence_ms = 4 * node_timeout_ms();
    return silence_ms > RELEASE_MS_MIN ? silence_ms : RELEASE_MS_MIN;
}

/* Releases the granted locks, the last one first. */
static void release_locks(enum run_stage stage, int exit_code)
{
    session.exit_code = exit_code;
    enter(stage, release_patience_ms());
    for (size_t i = session.options->key_count; i-- > 0;)
        if (held(i)->granted)
            loop_submit(session.loop, &(struct event){.kind = EVENT_RELEASE,
                                                      .release = {.request = (uint32_t)i,
                                                                  .key = text_of(held(i)->key),
                                                                  .token = held(i)->token}});
}

/* Says why masters did not grant the lock. */
static void say_no_quorum(const char *key)
{
    const struct effect_answer *answer = &session.answer;
    struct redis_group_view view = redis_group(session.redis, held(session.asked)->group);
    char lacks[REDIS_LACKS_BYTES], when[64];
    if (view.gate == GUARD_REFUSED_BY_LAYOUT) {
        redis_say_layouts(&view, lacks, sizeof(lacks));
        run_say(key, "not acquired: agents at work have another layout: %s", lacks);
    } else if (view.is_new || view.up == 0) {
        redis_group_lacks(session.redis, held(session.asked)->group, lacks, sizeof(lacks));
        run_say(key, "not acquired: %s", lacks);
    } else {
        redis_say_votes_in(&view, when, sizeof(when));
        run_say(key,
                "not acquired: %d of %d masters granted it, %d are needed (%d failed, %d guarded, "
                "%d unreplicated)%s",
                answer->tally.granted, answer->tally.total, answer->tally.quorum,
                answer->tally.failed, answer->tally.guarded, answer->tally.unreplicated, when);
    }
}

static void say_refused(void)
{
    const struct effect_answer *answer = &session.answer;
    const char *key = held(session.asked)->key;
    switch (answer->answer) {
    case ANSWER_LOCK_HELD:
    case ANSWER_WAIT_TIMEOUT:
        if (!session.options->quiet)
            run_say(key, "not acquired: the lock is held by another holder%s%s",
                    session.holder[0] ? ": " : "", session.holder);
        break;
    case ANSWER_QUORUM_UNAVAILABLE:
        say_no_quorum(key);
        break;
    case ANSWER_BAD_TTL:
        run_say(key, "the ttl is out of range; allowed: %ums to %ums", answer->ttl_ms_min,
                answer->ttl_ms_max);
        break;
    default:
        run_say(key, "not acquired: %s", answer_text(answer->answer));
        break;
    }
}

static void say_too_late(const struct run_hold *hold)
{
    if (hold->lost)
        run_say(hold->key, "not acquired: the lock was lost (%s) before the command began",
                reason_name(hold->reason));
    else
        run_say(hold->key, "not acquired: %s", answer_text(ANSWER_VALIDITY_EXPIRED));
}

/* Starts the command. All locks are granted; the first of them some time ago. */
static void begin_command(void)
{
    size_t count = session.options->key_count;
    run_hold_refresh(session.command.holds, count, loop_core(session.loop));
    for (size_t i = 0; i < count; i++) {
        if (!run_hold_may_begin(held(i))) {
            say_too_late(held(i));
            release_locks(UNDOING, session.options->not_acquired_code);
            return;
        }
    }
    int failed = run_command_start(&session.command);
    if (failed != 0)
        release_locks(RELEASING, failed);
    else
        enter(HOLDING, RUN_WITHOUT_END_MS);
}

/* ---- signals ---- */

static void on_session_signal(uv_signal_t *handle, int signal_number)
{
    (void)handle;
    bool ends_wait = signal_number != SIGCHLD && signal_number != SIGWINCH &&
                     signal_number != SIGTSTP && signal_number != SIGCONT;
    if (session.stage == HOLDING) {
        if (signal_number != SIGCHLD) /* The next turn looks at it. */
            run_command_signal(&session.command, signal_number);
    } else if (signal_number == SIGCHLD) {
        /* Reaps processes that are not ours: process 1 of a container gets all orphans. */
        run_child_bury_others(&session.command.child);
    } else if (signal_number == SIGTSTP) {
        run_stop_by_default(getpid());
    } else if (ends_wait && session.stage < HOLDING && session.interrupted == 0) {
        session.interrupted = signal_number;
    }
}

/* ---- the turn ---- */

static void turn_of_connecting(void)
{
    if (session.interrupted != 0) {
        session.exit_code = RUN_EXIT_SIGNAL + session.interrupted;
        uv_stop(&session.uv);
    } else if (masters_are_settled()) {
        say_what_is_lacking();
        ask_for_lock(0);
    }
}

static void turn_of_acquiring(void)
{
    const struct run_hold *lost = lost_hold();
    if ((session.interrupted != 0 || lost != NULL) && !session.answered)
        loop_submit(session.loop, &(struct event){.kind = EVENT_CANCEL,
                                                  .cancel = {.request = (uint32_t)session.asked}});
    /* It may have been answered just now. */
    bool granted = session.answered && session.answer.answer == ANSWER_GRANTED;
    if (granted)
        run_hold_take(held(session.asked), &session.answer.hold);
    if (session.interrupted != 0) {
        release_locks(UNDOING, RUN_EXIT_SIGNAL + session.interrupted);
    } else if (lost != NULL) {
        say_too_late(lost);
        release_locks(UNDOING, session.options->not_acquired_code);
    } else if (granted && session.asked + 1 < session.options->key_count) {
        ask_for_lock(session.asked + 1);
    } else if (granted) {
        begin_command();
    } else if (session.answered) {
        say_refused();
        release_locks(UNDOING, session.answer.answer == ANSWER_BAD_TTL
                                   ? RUN_EXIT_FAILED
                                   : session.options->not_acquired_code);
    }
}

static void turn_of_holding(void)
{
    int code;
    run_command_watch(&session.command);
    if (!run_command_look(&session.command, &code))
        return;
    session.exit_code = code;
    enter(CLEARING, CLEAR_MS);
}

/* Releases the locks when all processes that ran under it have ended, or the stage's time is over.
 * The next holders may get them then. */
static void turn_of_clearing(void)
{
    if (run_child_group_is_gone(session.command.group) || clock_has_reached(session.until))
        release_locks(RELEASING, session.exit_code);
}

static void end_session(void)
{
    for (size_t i = 0; i < session.options->key_count; i++)
        if (held(i)->granted && !held(i)->released)
            run_say(held(i)->key,
                    "too few masters confirmed the release: the lock ends with its ttl");
    uv_stop(&session.uv);
}

/* Ends the session. When a quorum has confirmed each release, the other masters still have the time
 * for a vote. */
static void turn_of_releasing(void)
{
    bool answered = true, released = true;
    for (size_t i = 0; i < session.options->key_count; i++) {
        answered &= held(i)->release_answered;
        released &= held(i)->released;
    }
    if (released)
        session.until =
            instant_min(session.until, instant_after_ms(clock_now(), node_timeout_ms()));
    if (clock_has_reached(session.until) || (answered && redis_is_idle(session.redis)))
        end_session();
}

/* Ends the session when nothing is left of the granted locks, nor of attempts. */
static void turn_of_undoing(void)
{
    if (core_stats(loop_core(session.loop))->locks_tracked == 0 || clock_has_reached(session.until))
        end_session();
}

/* Does nothing: on_turn() comes next. */
static void on_wake_up(void *arg)
{
    (void)arg;
}

static void on_turn(uv_prepare_t *handle)
{
    static void (*const turns[])(void) = {
        [CONNECTING] = turn_of_connecting, [ACQUIRING] = turn_of_acquiring,
        [HOLDING] = turn_of_holding,       [CLEARING] = turn_of_clearing,
        [RELEASING] = turn_of_releasing,   [UNDOING] = turn_of_undoing,
    };
    enum run_stage stage;
    size_t asked;
    (void)handle;
    do {
        stage = session.stage;
        asked = session.asked;
        turns[stage]();
    } while (session.stage != stage || session.asked != asked);
    struct instant next = stage == HOLDING ? session.command.kill_at : session.until;
    if (clock_has_reached(next) || stage == CLEARING)
        next = instant_after_ms(clock_now(), LOOK_MS);
    alarm_set(&session.alarm, next);
}

/* ---- begin and end ---- */

static bool boot_session(void)
{
    if (uv_loop_init(&session.uv) != 0)
        return false;
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_UNBLOCK, &child, NULL); /* Our parent may have blocked it for its own sake. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* Sent if a log may not grow. */
    for (size_t i = 0; i < CAUGHT; i++) {
        if (caught[i] != SIGCHLD && run_inherited_ignores(session.command.inherited, caught[i]))
            continue;
        uv_signal_init(&session.uv, &session.signals[i]);
        uv_signal_start(&session.signals[i], on_session_signal, caught[i]);
    }
    uv_prepare_init(&session.uv, &session.turn);
    uv_prepare_start(&session.turn, on_turn);
    if (!alarm_open(&session.alarm, &session.uv, on_wake_up, NULL))
        return false;
    session.metrics = metrics_new(session.config);
    session.loop = session.metrics == NULL
                       ? NULL
                       : loop_new(&session.uv, session.config, session.metrics, loop_agent_name());
    if (session.loop == NULL)
        return false;
    session.command.loop = session.loop;
    struct redis_sink sink = {&session,           on_redis_event,    on_command, on_master_state,
                              on_clock,           on_about_to_write, on_layout,  on_quorum,
                              /* refused= */ NULL};
    session.redis = redis_start(&session.uv, session.config, &sink);
    loop_connect(session.loop, session.redis,
                 &(struct loop_sink){&session, on_answer, NULL, on_trace});
    return session.redis != NULL;
}

/* Returns false, and reports it, if the key's policy does not allow the command line. */
static bool prepare_hold(struct run_hold *hold, const char *key)
{
    const struct core *core = loop_core(session.loop);
    const struct config_policy *policy =
        &session.config->policies[core_policy_of(core, text_of(key))];
    *hold = (struct run_hold){.key = key, .group = core_group_of(core, text_of(key))};
    /* Without a prefix, keys of the agent would be locks of callers (D3). */
    if (policy->prefix[0] == '\0' && key_is_agents_own(text_of(key))) {
        run_say(key, "only the agent may use such keys if no prefix is configured");
        return false;
    }
    if (session.options->reads && policy->core.form != FORM_SHARED) {
        run_say(key, "--read; allowed where the key's policy is of kind rw");
        return false;
    }
    return true;
}

int run_session(const struct run_options *options, struct config *config)
{
    session.options = options;
    session.config = config;
    session.command.options = options;
    session.command.inherited = run_inherit();
    session.started = clock_now();
    run_fit_config(config);
    if (!run_may_open_files(config))
        return RUN_EXIT_FAILED;
    run_make_label(options->label, session.label);
    run_terminal_open();
    char why[256];
    if (!redis_set_up_tls(config, why, sizeof(why))) {
        run_say(NULL, "%s", why);
        return RUN_EXIT_FAILED;
    }
    if (!boot_session()) {
        run_say(NULL, "out of memory");
        return RUN_EXIT_FAILED;
    }
    for (size_t i = 0; i < options->key_count; i++)
        if (!prepare_hold(held(i), options->keys[i]))
            return RUN_EXIT_FAILED;
    enter(CONNECTING,
          options->wait_ms > 0 && options->wait_ms < CONNECT_MS ? options->wait_ms : CONNECT_MS);
    uv_run(&session.uv, UV_RUN_DEFAULT);
    /* The exit code does not show that SIGINT ended the session: 130 may also be the command's own,
     * or that of `-E`. */
    if (session.exit_code == RUN_EXIT_SIGNAL + SIGINT &&
        (session.interrupted == SIGINT || session.command.child.died_of == SIGINT)) {
        /* Die of the signal, so that a script around us ends as well. If the command had the
         * terminal, the kernel gave Ctrl-C to it alone: then our own group gets it from us. */
        signal(SIGINT, SIG_DFL);
        kill(session.command.interactive ? 0 : getpid(), SIGINT);
    }
    return session.exit_code; /* The process ends here: nothing needs to be closed. */
}
