/* The buckets that keep the fencing numbers (R12), on a real redis-server: their names, which no
 * agent may choose for itself, and what locks of one bucket see of each other. */
#include "redis_rig.h"

static struct server one;

/* ---- names ---- */

/* A wire constant: all agents must find the same bucket. An empty name has a bucket too. */
Test(buckets, r12_the_bucket_of_a_lock_key_never_changes)
{
    static const struct {
        const char *lock_key;
        unsigned bucket;
    } pinned[] = {
        {"k", 7110},
        {"lock:k", 8678},
        {"plain:k", 2902},
        {"lock:jobs/nightly", 12649},
        {"lock:caf\xc3\xa9", 1837},
        {"lockagent:slot:0:lock:k", 2282},
        {"lockagent:slot:1:lock:k", 4573},
        {"lockagent:slot:15:lock:k", 1416},
        {"", 16321},
    };
    for (unsigned i = 0; i < sizeof(pinned) / sizeof(pinned[0]); i++)
        cr_assert_eq(asking_bucket(pinned[i].lock_key), pinned[i].bucket, "%s: %u",
                     pinned[i].lock_key, asking_bucket(pinned[i].lock_key));
}

/* R12: "the locks of a prefix share 16,384 numbers, one in each *bucket*" */
Test(buckets, r12_all_buckets_are_used)
{
    static bool used[NUMBER_BUCKETS];
    unsigned count = 0;
    for (unsigned i = 0; i < 300000; i++) {
        char key[32];
        snprintf(key, sizeof(key), "lock:job-%u", i);
        unsigned bucket = asking_bucket(key);
        cr_assert_lt(bucket, NUMBER_BUCKETS);
        count += !used[bucket];
        used[bucket] = true;
    }
    cr_assert_eq(count, 16384u);
}

/* Returns the form's item of key `k`. */
static struct send_item of_form(enum form form, uint8_t token, uint64_t fence)
{
    struct send_item item = item_of("k", token, fence);
    item.form = form;
    item.permits = form == FORM_SLOTS ? 3 : 1;
    item.token.has_slot = form == FORM_SLOTS;
    item.mode = MODE_WRITE;
    if (form_is_fair(form))
        item.ticket = (struct ticket){.agent = token, .mode = MODE_WRITE};
    return item;
}

static void expect_bucket(const char *key, const char *number)
{
    cr_assert_str_eq(ask(&one, "TYPE %s", key), "zset", "%s", key);
    cr_assert_str_eq(ask(&one, "ZSCORE %s n", key), number, "%s", key);
    cr_assert_eq(ask_number(&one, "ZCARD", key), 1, "%s", key);
    cr_assert_eq(ask_number(&one, "PTTL", key), -1, "%s", key);
}

/* R12: the whole lock key is hashed, and a slot has a lock key of its own. */
Test(buckets, r12_each_form_stores_its_numbers_under_the_names_that_all_agents_know)
{
    static const enum form forms[] = {FORM_PLAIN, FORM_FAIR, FORM_SHARED, FORM_REDISSON};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        ask(&one, "FLUSHALL");
        cr_assert_eq(exchange(OP_ACQUIRE, 0, of_form(forms[i], 1, BIG)).fence, BIG, "%u", i);
        expect_bucket("lockagent:number:lock:8678", BIG_TEXT);
        cr_assert_str_eq(ask(&one, "DBSIZE"), "2", "%u", i);
    }
    ask(&one, "FLUSHALL");
    for (uint8_t slot = 0; slot < 3; slot += 2) {
        struct send_item item = of_form(FORM_SLOTS, 1, BIG + slot);
        item.token.slot = slot;
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).fence, BIG + slot);
    }
    expect_bucket("lockagent:number:lock:2282", BIG_TEXT);
    expect_bucket("lockagent:number:lock:15459", "1760000000000002");
    cr_assert_str_eq(ask(&one, "DBSIZE"), "4");
    end(&one);
}

/* R12: two prefixes have no bucket in common. */
Test(buckets, r12_each_prefix_has_buckets_of_its_own)
{
    begin(&one, NULL);
    struct send_item item = plain_of("k", 1);
    item.fencing = true;
    item.token.fence = BIG;
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item).fence, BIG);
    expect_bucket("lockagent:number:plain:2902", BIG_TEXT);
    strcpy(rig.config->policies[POLICY_PLAIN].prefix, "");
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item).fence, BIG);
    expect_bucket("lockagent:number:7110", BIG_TEXT);
    end(&one);
}

/* ---- no end, and no way back ---- */

/* A script that looks at the hold of `token`, and its reply. */
struct step {
    enum op op;
    uint8_t token;
    enum vote vote;
    bool forgets; /* The key of the lock disappears first. */
};

/* All that the scripts can do with a bucket. A read stores numbers in the same way. */
static const struct step steps[] = {
    {OP_ACQUIRE, 1, VOTE_YES, false},  {OP_ACQUIRE, 2, VOTE_TAKEN, false},
    {OP_RAISE, 1, VOTE_YES, false},    {OP_RENEW, 1, VOTE_YES, false},
    {OP_REPAIR, 1, VOTE_YES, false},   {OP_REPAIR, 1, VOTE_REPAIRED, true},
    {OP_ADOPT, 1, VOTE_YES, false},    {OP_READ, 1, VOTE_YES, false},
    {OP_HANDOVER, 2, VOTE_YES, false}, {OP_RELEASE, 2, VOTE_YES, false},
};
enum { STEPS = sizeof(steps) / sizeof(steps[0]) };

/* Semaphores and readers have no hand-over, and other forms of the scripts have no renewal. */
static bool has_step(enum form form, enum mode mode, const struct step *step)
{
    if (step->op == OP_HANDOVER)
        return form != FORM_SLOTS && form != FORM_SHARED;
    if (mode == MODE_READ && step->vote == VOTE_TAKEN)
        return false;
    return step->op != OP_READ || form != FORM_SLOTS;
}

/* Expects that the number has not sunk, and that the bucket has no end. Returns the number. */
static uint64_t expect_no_less(const char *key, uint64_t last, enum form form, unsigned at)
{
    const char *text = stored_number(&one, key);
    cr_assert_not_null(text, "form %u, step %u", form, at);
    uint64_t now = strtoull(text, NULL, 10);
    cr_assert_geq(now, last, "form %u, step %u", form, at);
    cr_assert_eq(ask_number(&one, "PTTL", bucket_key(key)), -1, "form %u, step %u", form, at);
    return now;
}

/* Runs the steps with proposals from both sides of the stored number. */
static void run_steps(enum form form, enum mode mode)
{
    static const uint64_t fences[] = {BIG + 3, BIG + 40, BIG, BIG + 5, BIG + 41};
    const char *key = form == FORM_SLOTS ? "lockagent:slot:0:lock:k" : "lock:k";
    uint64_t last = 0, granted = 0;
    ask(&one, "FLUSHALL");
    for (unsigned i = 0; i < 5 * STEPS; i++) {
        const struct step *step = &steps[i % STEPS];
        struct send_item item = of_form(form, step->token, fences[i / STEPS]);
        if (!has_step(form, mode, step))
            continue;
        item.mode = item.ticket.mode = mode;
        memset(item.previous.random, 1, RANDOM_BYTES);
        if (step->op == OP_RELEASE && !has_step(form, mode, &(struct step){.op = OP_HANDOVER}))
            memset(item.token.random, 1, RANDOM_BYTES);
        if (step->op == OP_ADOPT)
            item.token.fence = granted;
        if (step->forgets)
            ask(&one, "DEL %s", key);
        struct record got = exchange(step->op, 0, item);
        cr_assert_eq(got.vote, step->vote, "form %u, step %u: %s", form, i, vote_name(got.vote));
        last = expect_no_less(key, last, form, i);
        if (step->op == OP_REPAIR)
            granted = item.token.fence;
    }
    cr_assert_geq(last, BIG + 41, "form %u", form);
}

/* R12: "A bucket never expires, and no command lowers its number." */
Test(buckets, r12_no_script_gives_a_bucket_an_end_or_lowers_it)
{
    begin(&one, NULL);
    for (enum form form = FORM_PLAIN; form < FORM_COUNT; form++)
        run_steps(form, MODE_WRITE);
    run_steps(FORM_SHARED, MODE_READ);
    end(&one);
}

/* R12: "A renewal and an adoption do not touch the bucket." They do not even name it. */
Test(buckets, r12_a_renewal_names_no_number)
{
    static char memory[4096];
    static const enum op storing[] = {OP_ACQUIRE, OP_HANDOVER, OP_RAISE, OP_REPAIR},
                         others[] = {OP_RENEW, OP_ADOPT, OP_RELEASE, OP_READ};
    struct resp resp = {.bytes = memory, .size = sizeof(memory)};
    struct send_item item = item_of("k", 1, BIG);
    rig_configure();
    for (unsigned i = 0; i < 2 * 4 * 2; i++) {
        bool stores = i % 2 == 0;
        enum op op = stores ? storing[i / 4] : others[i / 4];
        rig.config->groups[0].guard = i / 2 % 2;
        struct text command = asking_op(&resp, rig.config, 0, op, &item, 1);
        bool names = memmem(command.at, command.len, NUMBER_KEY, strlen(NUMBER_KEY)) != NULL;
        cr_assert_eq(names, stores, "%s", op_name(op));
    }
    free(rig.config);
}

/* ---- neighbours ---- */

/* Returns the name of another key under prefix `lock:` whose number is in the bucket of `k`. */
static const char *neighbour(void)
{
    static char key[32];
    for (unsigned i = 0; key[0] == '\0' || asking_bucket(key) != asking_bucket("lock:k"); i++)
        snprintf(key, sizeof(key), "lock:n%u", i);
    return key + strlen("lock:");
}

/* R12: each grant has a number above all that the bucket has given, also for its other keys. */
Test(buckets, r12_a_grant_raises_the_next_number_of_its_neighbours)
{
    static const enum form forms[] = {FORM_PLAIN, FORM_FAIR, FORM_SHARED, FORM_REDISSON};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct send_item item = of_form(forms[i], 1, BIG), other = item;
        other.key = (struct text){neighbour(), strlen(neighbour())};
        ask(&one, "FLUSHALL");
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).fence, BIG, "%u", i);
        cr_assert_eq(exchange(OP_ACQUIRE, 0, other).fence, BIG + 1, "%u", i);
        cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_YES, "%u", i);
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).fence, BIG + 2, "%u", i);
        cr_assert_eq(exchange(OP_RAISE, 0, other).fence, BIG + 2, "the larger one");
        expect_bucket(BUCKET_OF_K, "1760000000000002");
    }
    end(&one);
}

/* D3.4, C4: the number in the value counts, and not the number of the bucket. */
Test(buckets, d3_4_a_neighbours_number_disturbs_no_adoption_and_no_release)
{
    static const enum form forms[] = {FORM_PLAIN, FORM_SHARED, FORM_REDISSON};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct send_item item = of_form(forms[i], 1, BIG), other = of_form(forms[i], 2, BIG + 50);
        other.key = (struct text){neighbour(), strlen(neighbour())};
        ask(&one, "FLUSHALL");
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).fence, BIG, "%u", i);
        cr_assert_eq(exchange(OP_ACQUIRE, 0, other).fence, BIG + 50, "%u", i);
        cr_assert_eq(exchange(OP_RENEW, 0, item).vote, VOTE_YES, "%u", i);
        item.agent = 0xb2;
        struct record got = exchange(OP_ADOPT, 0, item);
        cr_assert(got.vote == VOTE_YES && got.fence == BIG, "%u: %s", i, vote_name(got.vote));
        item.asked = item.numbered = true;
        item.token.fence = BIG + 50;
        cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_MISNUMBERED, "%u", i);
        cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_MISNUMBERED, "%u", i);
        item.token.fence = BIG;
        got = exchange(OP_RELEASE, 0, item);
        cr_assert(got.vote == VOTE_YES && got.fence == BIG, "%u: %s", i, vote_name(got.vote));
        cr_assert_eq(exchange(OP_RENEW, 0, other).vote, VOTE_YES, "%u", i);
        expect_bucket(BUCKET_OF_K, "1760000000000050");
    }
    end(&one);
}

/* Two agents may propose the same number for two keys of one bucket, and a call may have both. */
Test(buckets, r12_neighbours_of_one_call_get_different_numbers)
{
    static const enum form forms[] = {FORM_PLAIN, FORM_FAIR, FORM_SHARED, FORM_REDISSON};
    begin(&one, NULL);
    for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct send_item items[] = {of_form(forms[i], 1, BIG), of_form(forms[i], 1, BIG)};
        items[1].key = (struct text){neighbour(), strlen(neighbour())};
        ask(&one, "FLUSHALL");
        uint32_t first = rig_send(OP_ACQUIRE, 1, items, 2);
        RUN_UNTIL(reply_to(first + 1, 0), 3000);
        cr_assert(reply_to(first, 0)->vote == VOTE_YES && reply_to(first, 0)->fence == BIG);
        cr_assert_eq(reply_to(first + 1, 0)->vote, VOTE_YES);
        cr_assert_eq(reply_to(first + 1, 0)->fence, BIG + 1, "%u", i);
        expect_bucket(BUCKET_OF_K, "1760000000000001");
    }
    end(&one);
}

/* The keys of the numbers are those of the items that fence, and no others have one. */
Test(buckets, r12_an_item_without_fencing_between_two_takes_no_number_of_theirs)
{
    enum { EACH = 4 };
    static const enum form forms[] = {FORM_PLAIN, FORM_FAIR, FORM_SHARED, FORM_REDISSON};
    static const enum op ops[] = {OP_ACQUIRE, OP_REPAIR};
    begin(&one, NULL);
    for (unsigned i = 0; i < 2 * sizeof(forms) / sizeof(forms[0]); i++) {
        enum op op = ops[i % 2];
        if (forms[i / 2] == FORM_FAIR && op == OP_REPAIR)
            continue;
        struct send_item items[EACH];
        for (unsigned n = 0; n < EACH; n++) {
            items[n] = of_form(forms[i / 2], 1, n == 1 ? 0 : BIG + n);
            items[n].key = (struct text){&"kxmp"[n], 1};
            items[n].fencing = n != 1;
        }
        ask(&one, "FLUSHALL");
        uint32_t first = rig_send(op, 1, items, EACH);
        RUN_UNTIL(reply_to(first + EACH - 1, 0), 3000);
        for (unsigned n = 0; n < EACH; n++) {
            const struct record *got = reply_to(first + n, 0);
            cr_assert_eq(got->vote, op == OP_REPAIR ? VOTE_REPAIRED : VOTE_YES, "%u", i);
            cr_assert_eq(got->fence, n == 1 ? 0 : BIG + n, "%u: %u", i, n);
        }
        expect_bucket(BUCKET_OF_K, BIG_TEXT);
        expect_bucket(bucket_key("lock:m"), "1760000000000002");
        expect_bucket(bucket_key("lock:p"), "1760000000000003");
        cr_assert_str_eq(ask(&one, "DBSIZE"), "7", "%u", i);
    }
    end(&one);
}

/* R12: a call of several keys gives each its own number, and a renewal looks at none. */
Test(buckets, r12_each_item_of_a_call_has_its_own_number)
{
    enum { EACH = 3 };
    static const enum op ops[] = {OP_ACQUIRE, OP_RENEW, OP_REPAIR};
    static const uint64_t numbers[][EACH] = {{BIG, 0, BIG + 5}, {0, 0, 0}, {BIG, 0, BIG + 5}};
    struct send_item items[EACH] = {item_of("k", 1, BIG), plain_of("l", 1),
                                    item_of("m", 1, BIG + 5)};
    begin(&one, NULL);
    for (unsigned o = 0; o < 3; o++) {
        uint32_t first = rig_send(ops[o], 1, items, EACH);
        RUN_UNTIL(reply_to(first + EACH - 1, 0), 3000);
        for (unsigned i = 0; i < EACH; i++) {
            const struct record *got = reply_to(first + i, 0);
            cr_assert_eq(got->vote, VOTE_YES, "%s %u", op_name(ops[o]), i);
            cr_assert_eq(got->fence, numbers[o][i], "%s %u", op_name(ops[o]), i);
        }
    }
    items[0].numbered = items[2].numbered = items[0].asked = items[2].asked = true;
    for (unsigned is_right = 0; is_right < 2; is_right++) {
        items[0].token.fence = is_right ? BIG : BIG + 5;
        items[2].token.fence = is_right ? BIG + 5 : BIG;
        uint32_t first = rig_send(OP_RELEASE, 1, items, EACH);
        RUN_UNTIL(reply_to(first + EACH - 1, 0), 3000);
        for (unsigned i = 0; i < EACH; i += 2)
            cr_assert_eq(reply_to(first + i, 0)->vote, is_right ? VOTE_YES : VOTE_MISNUMBERED);
    }
    end(&one);
}
