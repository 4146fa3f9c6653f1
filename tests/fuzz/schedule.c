/* Fuzzes the core: the bytes are the schedule of two agents, up to five masters and impatient
 * callers. The first one says how the masters and the policy are, the second which kind the keys
 * are of: mutexes, read and written (R17), or semaphores (R20). */
#include "tests/fuzz/fleet.h"

enum { MOVES_MAX = 1500, KEYS = 3 };

static struct core_policy policy;

static const char *const keys[KEYS] = {"a", "b", "jobs/1"};

static struct text a_key(uint8_t which)
{
    const char *key = keys[which % KEYS];
    return (struct text){key, strlen(key)};
}

/* A number that is free at this agent; false when all are open. */
static bool free_number(unsigned agent, uint32_t *ret_number)
{
    for (uint32_t i = 0; i < 16; i++)
        if (!fleet_is_open(agent, i)) {
            *ret_number = i;
            return true;
        }
    return false;
}

/* One that was granted, or one that is nobody's. */
static struct token a_token(struct fuzz_bytes *bytes)
{
    struct token token = {.fence = 1};
    uint8_t which = fuzz_byte(bytes);
    if (fleet_token(which % 32, &token) && which >= 240)
        token.random[which % RANDOM_BYTES] ^= 1;
    if (which >= 250)
        token.fence++;
    return token;
}

/* What some callers are to their holds (D3, R11). */
static void add_manners(struct event_acquire *acquire, uint8_t manner)
{
    static const char *const secrets[] = {"0123456789abcdef", "fedcba9876543210"};
    struct text secret = {secrets[manner / 4 % 2], 16};
    switch (manner % 4) {
    case 1:
        acquire->bound = true;
        acquire->renew = RENEW_UNSET;
        break;
    case 2:
        acquire->owner = policy.reentrant ? secret : (struct text){NULL, 0};
        break;
    case 3:
        acquire->idempotency = secret;
        break;
    default:
        break;
    }
}

static void acquire(struct fuzz_bytes *bytes, unsigned agent, uint32_t number)
{
    uint8_t how = fuzz_byte(bytes), waits = fuzz_byte(bytes);
    static const char label[] = "worker";
    struct event event = {
        .kind = EVENT_ACQUIRE,
        .acquire = {.request = number,
                    .key = a_key(how),
                    .ttl_ms = how & 16 ? (uint32_t)fuzz_number(bytes, 2) : 0,
                    .wait_ms = waits & 1 ? waits * 20 : 0,
                    .max_hold_ms = how & 32 ? (int64_t)fuzz_number(bytes, 2) + 1 : 0,
                    .mode = policy.form == FORM_SHARED && waits & 4 ? MODE_READ : MODE_WRITE,
                    .renew = (enum renew)(how / 64 % 3),
                    .label = {label, how & 8 ? 6 : 0}}};
    if (waits & 2)
        add_manners(&event.acquire, fuzz_byte(bytes));
    fleet_submit(agent, &event);
}

static void use_token(struct fuzz_bytes *bytes, unsigned agent, uint32_t number, bool release)
{
    uint8_t key = fuzz_byte(bytes);
    struct event event = {.kind = release ? EVENT_RELEASE : EVENT_RENEW};
    if (release)
        event.release =
            (struct event_release){.request = number, .key = a_key(key), .token = a_token(bytes)};
    else
        event.renew = (struct event_renew){.request = number,
                                           .key = a_key(key),
                                           .token = a_token(bytes),
                                           .ttl_ms = key & 16 ? (uint32_t)fuzz_number(bytes, 2) : 0,
                                           .renew = (enum renew)(key / 64 % 3)};
    fleet_submit(agent, &event);
}

static void leave(unsigned agent, uint8_t which)
{
    struct event event = {.kind = EVENT_CANCEL, .cancel.request = which % 16};
    if (fleet_is_open(agent, event.cancel.request))
        fleet_submit(agent, &event);
}

static void lose_answer(unsigned agent)
{
    struct event event = {.kind = EVENT_UNDELIVERED};
    if (fleet_take_undelivered(agent, &event.undelivered.lock))
        fleet_submit(agent, &event);
}

static void ask(struct fuzz_bytes *bytes, uint8_t what)
{
    unsigned agent = what & 1;
    uint32_t number = 0;
    if (!free_number(agent, &number))
        return;
    switch (what / 2 % 8) {
    case 0:
    case 1:
    case 2:
        acquire(bytes, agent, number);
        break;
    case 3:
        use_token(bytes, agent, number, /* release= */ false);
        break;
    case 4:
        use_token(bytes, agent, number, /* release= */ true);
        break;
    case 5:
        leave(agent, fuzz_byte(bytes));
        break;
    case 6:
        lose_answer(agent);
        break;
    default:
        fleet_submit(agent, &(struct event){.kind = EVENT_READ,
                                            .read = {.request = number, .key = a_key(what / 16)}});
        break;
    }
}

static void start(struct fuzz_bytes *bytes)
{
    static struct core_group group;
    static const char *const names[] = {"main"};
    uint8_t kind = fuzz_byte(bytes), of_keys = fuzz_byte(bytes) % 4;
    bool rw = of_keys == 1, semaphores = of_keys > 1;
    group = (struct core_group){
        .masters = (uint8_t)(1 + kind % 5), .node_timeout_ms = 50, .drift_ppm = 10000};
    policy = (struct core_policy){.match = "*",
                                  .group_count = 1,
                                  .algorithm = kind & 64            ? ALGORITHM_MULTILOCK
                                               : group.masters == 1 ? ALGORITHM_SINGLE
                                                                    : ALGORITHM_REDLOCK,
                                  .renew = kind & 32 ? RENEW_CALLER : RENEW_AGENT,
                                  .ttl_ms = 1500,
                                  .max_hold_ms = 8000,
                                  .bound_max_hold_ms = 9000,
                                  .lock_delay_ms = kind & 8 ? 300 : 0,
                                  .reentrant = !semaphores,
                                  .fencing = (kind & 128) == 0,
                                  .fence_retention_ms = FLEET_FENCE_RETENTION_MS,
                                  .permits = semaphores ? 2 : 1,
                                  .retry_min_ms = 20,
                                  .retry_max_ms = 250,
                                  .form = rw           ? FORM_SHARED
                                          : semaphores ? FORM_SLOTS
                                          : kind & 16  ? FORM_FAIR
                                                       : FORM_PLAIN,
                                  .handover_max = 2};
    struct core_config config = {.groups = &group,
                                 .group_count = 1,
                                 .group_names = names,
                                 .policies = &policy,
                                 .policy_count = 1,
                                 .max_ttl_ms = FLEET_TTL_MS_MAX,
                                 .wait_ms_max = 10000,
                                 .locks_max = 4,
                                 .requests_max = 16,
                                 .waiters_max = 8,
                                 .rounds_min = 1,
                                 .rounds_max = kind & 4 ? 2 : LIMIT_ROUNDS,
                                 .seed = kind};
    fleet_start(&config, 2, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    start(&bytes);
    for (unsigned moves = 0; bytes.left > 0 && moves < MOVES_MAX; moves++) {
        uint8_t what = fuzz_byte(&bytes);
        if (what < 96)
            ask(&bytes, what);
        else
            fleet_move(&bytes);
    }
    fleet_settle();
    fleet_end();
    return 0;
}
