/* The callers of the fault suite: each takes locks from its agent. While a caller holds a lock, it
 * writes to the register of the key, renews and looks. It then releases the lock, forgets to, or
 * vanishes. Every answer goes to the history.
 *
 *   callers SEED TTL_MS CONTENDERS SOLOISTS VANISH_PERMILLE HISTORY [stray=PERMILLE] [kinds]
 *           PORT...
 *
 * with the ports of the agents.
 *
 * `stray`: this share of a contender's renewals and releases goes to another agent than its last
 * question did. `kinds`: the keys that contenders share are of several kinds; those that begin with
 * `rw/` are read and written (R17), `two/` and `eight/` are semaphores (R20). Contenders share a
 * few keys; a soloist has a key of its own, so that only a fault can keep the lock from it. One
 * process with one loop: a register is a plain variable, and the callers' actions have one order.
 * On `stop` on stdin each caller gives back its lock and the program ends; at the end of stdin it
 * ends at once.
 *
 *   state -> state [by]
 *   RESTING -> ASKING [a POST]      ASKING -> HOLDING [201], RESTING [anything else]
 *   HOLDING -> WRITING [a register's read] -> HOLDING [its write, some ms later]
 *   HOLDING -> HOLDING [a caller that only reads looks at the register]
 *   HOLDING -> ASKING [PUT, GET, DELETE, a probe] -> HOLDING or RESTING [the answer]
 *   HOLDING -> RESTING [the validity has ended, or the caller vanishes]
 *
 * A watchdog's lock that its caller believes gone may be renewed all the same, until max_hold. So
 * the caller gives it back, and repeats that until an answer comes. */
#include "tests/faults/callers.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CALLERS_MAX = 256,
    AGENTS_MAX = 8,
    CONTESTED_KEYS = 8,
    RW_KEYS = 3, /* the first keys of these, if the keys are of several kinds */
    READS_PERMILLE = 600,
    WRITE_US = 3000,
    WRITE_MARGIN_US = 10000, /* no write begins that late before the end of the validity */
    PATIENCE_US = 4000000,   /* for an answer, beyond the wait that was asked for */
    RETRY_US = 50000,
    STOPPED_US_MAX = 5000000,
};

enum state { RESTING, ASKING, HOLDING, WRITING };
enum question { ACQUIRE, RENEW, LOOK, RELEASE, PROBE };
/* How a hold is meant to end. */
enum ending { BY_RELEASE, BY_VANISHING, BY_FORGETTING };

struct caller {
    int number, agent, key;
    bool solo;
    enum state state;
    enum question question;
    int64_t due_us; /* time of the next action, or the end of the wait for an answer */
    int64_t began_us, wait_ms;
    struct conversation conversation;
    /* Properties of the hold. */
    bool watchdog, adopts, reads;
    bool over;   /* it is believed gone, and only given back */
    bool strays; /* another agent was asked about it too, and may count it after its release */
    enum ending ending;
    char token[TOKEN_BYTES], spent[TOKEN_BYTES], probed[TOKEN_BYTES];
    char label[LABEL_BYTES], mode[MODE_BYTES];
    int64_t slot, permits;
    unsigned asked; /* number of requests for a lock, which gives each a label of its own */
    int64_t fence, until_us, leave_us, renew_us, look_us, probe_us, write_us, saw;
};

static struct caller callers[CALLERS_MAX];
static size_t caller_count;
static struct shared_register registers[KEYS_MAX][SLOTS_MAX];
static char keys[KEYS_MAX][KEY_BYTES];
static int agent_ports[AGENTS_MAX], agent_count;
static int64_t ttl_us, stopped_us;
static long vanish_permille, stray_permille;
static bool of_kinds;
static uint64_t random_state;

static int64_t draw(int64_t least, int64_t most)
{
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = (random_state ^ (random_state >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return least + (int64_t)((mixed ^ (mixed >> 31)) % (uint64_t)(most - least + 1));
}

static bool chance(long permille)
{
    return draw(0, 999) < permille;
}

static struct operation operation(const struct caller *caller, const char *name)
{
    struct operation operation = {.name = name,
                                  .caller = caller->number,
                                  .agent = caller->agent,
                                  .key = keys[caller->key],
                                  .hold = caller->token,
                                  .began_us = caller->began_us,
                                  .ended_us = boottime_us(),
                                  .slot = caller->slot,
                                  .permits = caller->permits};
    snprintf(operation.mode, sizeof(operation.mode), "%s", caller->mode);
    return operation;
}

static struct shared_register *register_of(const struct caller *caller)
{
    return &registers[caller->key][caller->slot];
}

/* If keys are of several kinds: of three contenders of an agent one stays with the key that has the
 * most permits, one reads and writes, and one takes the other keys. */
static int choose_key(const struct caller *caller)
{
    if (!of_kinds)
        return (int)draw(0, CONTESTED_KEYS - 1);
    switch (caller->number / agent_count % 3) {
    case 0:
        return CONTESTED_KEYS - 1;
    case 1:
        return (int)draw(0, RW_KEYS - 1);
    default:
        return (int)draw(RW_KEYS, CONTESTED_KEYS - 2);
    }
}

static void rest(struct caller *caller, int64_t least_us, int64_t most_us)
{
    caller->state = RESTING;
    caller->token[0] = caller->mode[0] = '\0';
    caller->slot = caller->permits = 0;
    caller->over = false;
    caller->due_us = boottime_us() + draw(least_us, most_us);
    if (!caller->solo)
        caller->key = choose_key(caller);
    caller->reads = strncmp(keys[caller->key], "rw/", 3) == 0 && chance(READS_PERMILLE);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void turn_to(struct caller *caller, int agent)
{
    if (caller->agent == agent)
        return;
    conversation_close(&caller->conversation);
    caller->agent = agent;
    caller->conversation.port = agent_ports[agent];
}

/* Sends the request to any other agent, like an address that is shared by all of them. */
static void stray(struct caller *caller)
{
    if (caller->solo || agent_count == 1 || !chance(stray_permille))
        return;
    turn_to(caller, (caller->agent + (int)draw(1, agent_count - 1)) % agent_count);
    caller->strays = true;
}

/* False when the agent is not there; then nothing was asked. */
static bool ask(struct caller *caller, enum question question, const char *method, const char *path,
                const char *token)
{
    caller->began_us = boottime_us();
    if (!conversation_open(&caller->conversation) ||
        !conversation_ask(&caller->conversation, method, path, token)) {
        conversation_close(&caller->conversation);
        caller->due_us = boottime_us() + RETRY_US;
        return false;
    }
    caller->state = ASKING;
    caller->question = question;
    caller->due_us = caller->began_us + PATIENCE_US;
    return true;
}

static void ask_for_the_lock(struct caller *caller)
{
    static const int waits_ms[] = {0, 200, 1000};
    const int wait_ms = caller->solo ? 1000 : waits_ms[draw(0, 2)];
    const int64_t ttl_ms = ttl_us / 1000;
    char path[256];
    turn_to(caller, caller->number % agent_count);
    caller->ending = BY_RELEASE;
    if (!caller->solo && chance(vanish_permille))
        caller->ending = BY_VANISHING;
    else if (!caller->solo && chance(50))
        caller->ending = BY_FORGETTING;
    caller->watchdog = !caller->solo && caller->ending != BY_FORGETTING && chance(150);
    caller->adopts = caller->strays = false;
    snprintf(caller->label, sizeof(caller->label), "c%d.%u", caller->number, ++caller->asked);
    /* A caller that vanishes from a watchdog's lock limits how long the watchdog goes on alone. */
    snprintf(path, sizeof(path),
             "/locks/%s?ttl=%" PRId64 "ms&wait=%dms&renew=%s&max_hold=%" PRId64 "ms&label=%s%s",
             keys[caller->key], ttl_ms, wait_ms, caller->watchdog ? "agent" : "caller",
             caller->ending == BY_VANISHING ? ttl_ms : 10 * ttl_ms, caller->label,
             caller->reads ? "&mode=read" : "");
    if (!ask(caller, ACQUIRE, "POST", path, ""))
        return;
    caller->wait_ms = wait_ms;
    caller->due_us += wait_ms * 1000;
    /* Some of the callers that vanish do so while they wait for the answer. */
    if (caller->ending == BY_VANISHING && chance(300))
        caller->due_us = caller->began_us + draw(0, 20000);
}

static bool ask_about_hold(struct caller *caller, enum question question, const char *method,
                           const char *suffix)
{
    char path[256];
    snprintf(path, sizeof(path), "/locks/%s%s", keys[caller->key], suffix);
    if (question == RENEW || question == RELEASE)
        stray(caller);
    const char *token = question == LOOK ? "" : question == PROBE ? caller->probed : caller->token;
    return ask(caller, question, method, path, token);
}

/* A token that must not work: one that this caller has given back, or its own with another digit in
 * the random part or, of a semaphore, another slot at its end. */
static bool probe(struct caller *caller)
{
    const bool spent =
        caller->spent[0] != '\0' && strcmp(caller->spent, caller->token) != 0 && chance(500);
    snprintf(caller->probed, sizeof(caller->probed), "%s", spent ? caller->spent : caller->token);
    if (!spent) {
        const size_t end = strlen(caller->probed) - 1;
        char *digit =
            &caller->probed[caller->permits != 0 && chance(500) ? end : (size_t)draw(0, 39)];
        *digit = *digit == '0' ? '1' : '0';
    }
    caller->probe_us = boottime_us() + draw(ttl_us / 2, 2 * ttl_us);
    return ask_about_hold(caller, PROBE, chance(500) ? "PUT" : "DELETE", "");
}

/* ---- a hold ---------------------------------------------------------------------------------- */

static void hold_on(struct caller *caller)
{
    const int64_t now = boottime_us();
    caller->state = HOLDING;
    caller->due_us = now;
}

static void granted(struct caller *caller, const struct answer *answer)
{
    const int64_t now = boottime_us();
    snprintf(caller->token, sizeof(caller->token), "%s", answer->token);
    caller->fence = answer->fence;
    caller->until_us = answer->until_ms * 1000;
    snprintf(caller->mode, sizeof(caller->mode), "%s", answer->mode);
    caller->slot = answer->slot >= 0 && answer->slot < SLOTS_MAX ? answer->slot : 0;
    caller->permits = answer->permits;
    /* One long reader keeps all writers out. */
    const long long_permille = stray_permille > 0 ? 400 : caller->reads ? 30 : 150;
    const bool is_long = !caller->solo && chance(long_permille);
    caller->leave_us = now + (caller->solo ? 0
                              : is_long    ? draw(ttl_us, 2 * ttl_us)
                                           : draw(ttl_us / 50, ttl_us / 5));
    caller->renew_us = caller->ending == BY_FORGETTING ? INT64_MAX : now + ttl_us / 3;
    caller->look_us = now + ttl_us / 5;
    caller->probe_us = now + draw(0, 4 * ttl_us);
    caller->write_us = now;
    hold_on(caller);
}

static void vanish(struct caller *caller)
{
    struct operation vanished = operation(caller, "vanish");
    vanished.began_us = vanished.ended_us;
    history_add(&vanished);
    conversation_close(&caller->conversation);
    rest(caller, 10000, 100000);
}

/* From the first DELETE on the lock is not used any more, even if the DELETE fails. */
static void give_back(struct caller *caller)
{
    caller->write_us = INT64_MAX;
    caller->leave_us = 0;
    ask_about_hold(caller, RELEASE, "DELETE", "");
}

/* Stops at once: the caller has been told, or has seen, that its lock is gone. */
static void let_go(struct caller *caller)
{
    if (!caller->watchdog) {
        rest(caller, 5000, 50000);
        return;
    }
    caller->over = true;
    hold_on(caller);
    give_back(caller);
}

static void expired(struct caller *caller)
{
    struct operation over = operation(caller, "expire");
    over.began_us = over.ended_us;
    over.note = caller->ending == BY_RELEASE ? NULL : "meant";
    history_add(&over);
    let_go(caller);
}

static void begin_write(struct caller *caller)
{
    caller->began_us = boottime_us();
    caller->write_us = caller->began_us + draw(10000, 40000);
    if (!register_read(register_of(caller), caller->fence, &caller->saw)) {
        struct operation refused = operation(caller, "write");
        refused.outcome = OUTCOME_FAIL;
        refused.fence = caller->fence;
        history_add(&refused);
        return;
    }
    caller->state = WRITING;
    caller->due_us = caller->began_us + WRITE_US;
}

static void end_write(struct caller *caller)
{
    const bool taken = register_write(register_of(caller), caller->fence, caller->saw + 1);
    struct operation write = operation(caller, "write");
    write.outcome = taken ? OUTCOME_OK : OUTCOME_FAIL;
    write.fence = caller->fence;
    write.saw = caller->saw;
    write.wrote = caller->saw + 1;
    history_add(&write);
    hold_on(caller);
}

/* Looks at the register. A caller that only reads does this in place of writing. */
static void look_at_register(struct caller *caller)
{
    caller->began_us = boottime_us();
    caller->write_us = caller->began_us + draw(10000, 40000);
    const bool taken = register_look(register_of(caller), caller->fence, &caller->saw);
    struct operation look = operation(caller, "read");
    look.outcome = taken ? OUTCOME_OK : OUTCOME_FAIL;
    look.fence = caller->fence;
    look.saw = caller->saw;
    history_add(&look);
}

static void leave(struct caller *caller)
{
    if (caller->ending == BY_VANISHING && stopped_us == 0)
        vanish(caller);
    else if (caller->ending == BY_FORGETTING && stopped_us == 0)
        caller->leave_us = INT64_MAX;
    else
        give_back(caller);
}

static void go_on_holding(struct caller *caller)
{
    const int64_t now = boottime_us();
    if (caller->over) {
        give_back(caller);
    } else if (now >= caller->until_us) {
        expired(caller);
    } else if (stopped_us != 0 || (now >= caller->leave_us && caller->write_us > now)) {
        leave(caller);
    } else if (caller->adopts ||
               ((!caller->watchdog || stray_permille > 0) && now >= caller->renew_us)) {
        caller->renew_us = now + ttl_us / 3;
        /* An adoption begins a new max_hold, which PUT cannot name. So a caller that means to
         * vanish asks for no watchdog. */
        ask_about_hold(caller, RENEW, "PUT",
                       caller->watchdog && caller->ending != BY_VANISHING ? "?renew=agent" : "");
    } else if (caller->watchdog && now >= caller->look_us) {
        caller->look_us = now + ttl_us / 5;
        ask_about_hold(caller, LOOK, "GET", "");
    } else if (now >= caller->probe_us) {
        probe(caller);
    } else if (now >= caller->write_us && caller->until_us - now > WRITE_US + WRITE_MARGIN_US) {
        if (caller->reads)
            look_at_register(caller);
        else
            begin_write(caller);
    } else {
        caller->due_us = now + 2000;
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

static const char *const question_names[] = {"acquire", "renew", "look", "release", "probe"};

static void record(struct caller *caller, enum outcome outcome, const struct answer *answer)
{
    struct operation asked = operation(caller, question_names[caller->question]);
    asked.outcome = outcome;
    asked.answer = answer;
    if (answer != NULL && answer->is_hold) {
        snprintf(asked.mode, sizeof(asked.mode), "%s", answer->mode);
        asked.slot = answer->slot;
        asked.permits = answer->permits;
    }
    if (caller->question == PROBE) {
        asked.hold = caller->probed;
        asked.note = strcmp(caller->probed, caller->spent) == 0 ? "spent" : "wrong";
    }
    if (caller->question == ACQUIRE) {
        asked.hold = answer != NULL ? answer->token : "";
        asked.note = caller->solo ? "solo" : NULL;
        asked.wait_ms = caller->wait_ms;
    }
    history_add(&asked);
}

static void renewed(struct caller *caller, const struct answer *answer)
{
    const bool is_ours = answer->is_hold && answer->fence == caller->fence;
    caller->adopts = false;
    if (is_ours && answer->until_ms * 1000 > caller->until_us)
        caller->until_us = answer->until_ms * 1000;
    if (is_ours || answer->status == 503)
        hold_on(caller);
    else
        let_go(caller);
}

static void answered(struct caller *caller, const struct answer *answer)
{
    const bool good = answer->status >= 200 && answer->status < 300;
    /* A look that finds no hold of this fencing number has found that the hold is gone. */
    const bool ok =
        caller->question == LOOK ? answer->is_hold && answer->fence == caller->fence : good;
    record(caller, ok ? OUTCOME_OK : OUTCOME_FAIL, answer);
    switch (caller->question) {
    case ACQUIRE:
        if (good)
            granted(caller, answer);
        else
            rest(caller, 5000, 50000);
        break;
    case RENEW:
    case LOOK:
        renewed(caller, answer);
        break;
    case RELEASE:
        if (answer->status == 204 && !caller->strays)
            snprintf(caller->spent, sizeof(caller->spent), "%s", caller->token);
        rest(caller, 5000, caller->solo ? 15000 : 50000);
        break;
    case PROBE:
        hold_on(caller);
        break;
    }
}

/* No answer will come. The operation may have happened. */
static void unanswered(struct caller *caller)
{
    record(caller, OUTCOME_INFO, NULL);
    conversation_close(&caller->conversation);
    if (caller->question == ACQUIRE) {
        rest(caller, 10000, 100000);
        return;
    }
    hold_on(caller);
    caller->due_us += RETRY_US;
    caller->adopts = caller->question != RELEASE;
}

static void hear(struct caller *caller)
{
    struct answer answer;
    switch (conversation_hear(&caller->conversation, caller->label, &answer)) {
    case ANSWER_WHOLE:
        answered(caller, &answer);
        break;
    case ANSWER_BROKEN:
        unanswered(caller);
        break;
    case ANSWER_NONE_YET:
        break;
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void act(struct caller *caller)
{
    switch (caller->state) {
    case RESTING:
        if (stopped_us == 0)
            ask_for_the_lock(caller);
        else
            caller->due_us = INT64_MAX;
        break;
    case ASKING:
        unanswered(caller);
        break;
    case HOLDING:
        go_on_holding(caller);
        break;
    case WRITING:
        end_write(caller);
        break;
    }
}

/* If the caller goes while an answer is on its way, no caller gives that lock back: the agent
 * renews it until max_hold. */
static bool may_go_unanswered(const struct caller *caller)
{
    return caller->question == ACQUIRE && (!caller->watchdog || caller->ending == BY_VANISHING);
}

/* Every caller gives back its lock. A caller that waits for a lease goes away. */
static void stop(void)
{
    stopped_us = boottime_us();
    for (size_t i = 0; i < caller_count; i++)
        if (callers[i].state != WRITING &&
            (callers[i].state != ASKING || may_go_unanswered(&callers[i])))
            callers[i].due_us = stopped_us;
}

static bool all_rest(void)
{
    for (size_t i = 0; i < caller_count; i++)
        if (callers[i].state != RESTING)
            return false;
    return true;
}

static void read_command(void)
{
    char line[16];
    const ssize_t length = read(STDIN_FILENO, line, sizeof(line));
    if (length <= 0)
        exit(1);
    if (stopped_us == 0)
        stop();
}

/* Polls stdin and every connection; returns after the first of them is readable or the next action
 * is due. */
static void wait_for_something(void)
{
    struct pollfd polled[CALLERS_MAX + 1];
    int64_t next_us = INT64_MAX;
    for (size_t i = 0; i < caller_count; i++) {
        polled[i] = (struct pollfd){
            .fd = callers[i].state == ASKING ? callers[i].conversation.fd : -1, .events = POLLIN};
        if (callers[i].due_us < next_us)
            next_us = callers[i].due_us;
    }
    polled[caller_count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    const int64_t left_us = next_us - boottime_us();
    poll(polled, caller_count + 1,
         left_us <= 0       ? 0
         : left_us > 100000 ? 100
                            : (int)(left_us / 1000) + 1);
    if (polled[caller_count].revents != 0)
        read_command();
    for (size_t i = 0; i < caller_count; i++)
        if (polled[i].revents != 0 && callers[i].state == ASKING)
            hear(&callers[i]);
}

static void add_caller(bool solo)
{
    struct caller *caller = &callers[caller_count];
    *caller = (struct caller){
        .number = (int)caller_count, .agent = (int)caller_count % agent_count, .solo = solo};
    if (solo) {
        caller->key = CONTESTED_KEYS + caller->number;
        snprintf(keys[caller->key], KEY_BYTES, "solo/%d", caller->number);
    }
    caller->conversation = (struct conversation){.fd = -1, .port = agent_ports[caller->agent]};
    rest(caller, 0, 50000);
    caller_count++;
}

static void name_contested_keys(void)
{
    static const char *const kinds[CONTESTED_KEYS] = {"rw/0",  "rw/1",     "rw/2",     "two/0",
                                                      "two/1", "shared/0", "shared/1", "eight/0"};
    for (int key = 0; key < CONTESTED_KEYS; key++)
        if (of_kinds)
            snprintf(keys[key], KEY_BYTES, "%s", kinds[key]);
        else
            snprintf(keys[key], KEY_BYTES, "shared/%d", key);
}

int main(int argc, char **argv)
{
    static const char strays[] = "stray=";
    int ports = 7; /* the first of them */
    if (argc > ports && strncmp(argv[ports], strays, sizeof(strays) - 1) == 0)
        stray_permille = strtol(argv[ports++] + sizeof(strays) - 1, NULL, 10);
    of_kinds = argc > ports && strcmp(argv[ports], "kinds") == 0;
    ports += of_kinds;
    if (argc <= ports || argc - ports > AGENTS_MAX || !history_open(argv[6])) {
        fprintf(stderr, "usage: callers SEED TTL_MS CONTENDERS SOLOISTS VANISH_PERMILLE HISTORY "
                        "[stray=PERMILLE] [kinds] PORT...\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    random_state = strtoull(argv[1], NULL, 10);
    ttl_us = strtoll(argv[2], NULL, 10) * 1000;
    vanish_permille = strtol(argv[5], NULL, 10);
    for (; agent_count < argc - ports; agent_count++)
        agent_ports[agent_count] = (int)strtol(argv[ports + agent_count], NULL, 10);
    const long contenders = strtol(argv[3], NULL, 10), soloists = strtol(argv[4], NULL, 10);
    if (contenders < 0 || soloists < 0 || contenders + soloists > KEYS_MAX - CONTESTED_KEYS)
        return 2;
    name_contested_keys();
    for (long i = 0; i < soloists + contenders; i++)
        add_caller(i < soloists);
    while (stopped_us == 0 || (!all_rest() && boottime_us() - stopped_us < STOPPED_US_MAX)) {
        for (size_t i = 0; i < caller_count; i++)
            if (callers[i].due_us <= boottime_us())
                act(&callers[i]);
        wait_for_something();
    }
    history_close();
    return 0;
}
