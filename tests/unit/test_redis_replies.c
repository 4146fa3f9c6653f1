/* Replies -> votes, to the letter: unknown results stay unknown, one bad item spoils no other, no
 * number wraps. */
#include "agent/redis/asking.h"
#include "agent/redis/internal.h"
#include "agent/redis/replies.h"
#include "redis_rig.h"

static struct server one;

static redisReply text_of(int type, const char *text)
{
    return (redisReply){.type = type, .str = (char *)(uintptr_t)text, .len = strlen(text)};
}

static redisReply number_of(long long number)
{
    return (redisReply){.type = REDIS_REPLY_INTEGER, .integer = number};
}

/* Returns the meaning of a list of a word, a number and up to two more elements. */
static struct event_reply read_list_of(enum op op, const char *word, long long number,
                                       redisReply *third, redisReply *fourth)
{
    redisReply first = text_of(REDIS_REPLY_STRING, word), second = number_of(number);
    redisReply *elements[] = {&first, &second, third, fourth};
    redisReply list = {.type = REDIS_REPLY_ARRAY,
                       .elements = 2u + (third != NULL) + (fourth != NULL),
                       .element = elements};
    struct event_reply item;
    item_reply_read(op, &list, &item);
    return item;
}

/* ---- unknown stays unknown ---- */

static const char *const unknown_errors[] = {
    "ERR something went wrong",
    "WEIRD nobody has heard of this",
    "CROSSSLOT Keys in request don't hash to the same slot",
    "",
    "-",
    "OOM",
    "refused",
    "no",
    "EXECABORT Transaction discarded because of previous errors.",
};
enum { UNKNOWN_ERRORS = sizeof(unknown_errors) / sizeof(unknown_errors[0]) };

/* The command may have been done or not. So the error is no refusal, which proves that nothing is
 * there, and no denial. */
Test(replies, an_unknown_error_is_unknown_to_every_command)
{
    for (unsigned i = 0; i < UNKNOWN_ERRORS; i++) {
        for (enum op op = 0; op < OP_COUNT; op++) {
            redisReply error = text_of(REDIS_REPLY_ERROR, unknown_errors[i]);
            struct event_reply item;
            cr_assert_eq(item_reply_read(op, &error, &item), REDIS_OUTCOME_OTHER);
            cr_assert_eq(item.vote, VOTE_UNKNOWN, "%s: %s is %s", op_name(op), unknown_errors[i],
                         vote_name(item.vote));
        }
    }
    cr_assert_eq(vote_of_outcome(REDIS_OUTCOME_OTHER), VOTE_UNKNOWN);
    cr_assert_eq(vote_of_outcome(REDIS_OUTCOME_LOST), VOTE_UNKNOWN);
    cr_assert_eq(vote_of_outcome(REDIS_OUTCOME_NOT_SENT), VOTE_NOT_SENT);
    for (enum redis_outcome outcome = REDIS_OUTCOME_OOM; outcome < REDIS_OUTCOME_OTHER; outcome++)
        cr_assert_neq(vote_of_outcome(outcome), VOTE_UNKNOWN, "%s is known",
                      redis_outcome_name(outcome));
}

/* Gives the room a reply to `count` items as its connection would. */
static uint32_t hear(enum op op, unsigned count, const redisReply *reply)
{
    struct command *command = command_new(&rig.redis->pool, operations_heard, (uint16_t)count);
    uint32_t first = rig.next_slot;
    command->op = op;
    command->references = 1;
    for (unsigned i = 0; i < count; i++)
        command->refs[i].slot = rig.next_slot++;
    rig.expected += count;
    operations_heard(&rig.redis->masters[0], command, reply, true);
    command_release(&rig.redis->pool, command);
    return first;
}

/* A script may answer its usual case for all items at once. Other scripts have no such answer. */
Test(replies, one_zero_stands_for_a_batch_of_them)
{
    begin(&one, NULL);
    redisReply zero = number_of(0), seven = number_of(7);
    uint32_t slot = hear(OP_RENEW, LIMIT_BATCH, &zero);
    for (unsigned i = 0; i < LIMIT_BATCH; i++)
        cr_assert_eq(reply_to(slot + i, 0)->vote, VOTE_YES);
    cr_assert_eq(reply_to(hear(OP_RELEASE, 1, &zero), 0)->vote, VOTE_YES);
    cr_assert(reply_is_possible(OP_RELEASE, 3, &zero));
    cr_assert_not(reply_is_possible(OP_RELEASE, 3, &seven));
    cr_assert_not(reply_is_possible(OP_REPAIR, 3, &zero));
    cr_assert_not(reply_is_possible(OP_ADOPT, 1, &zero));
    cr_assert_not(reply_is_possible(OP_RESUME, 3, &zero));
    struct event_reply item; /* An adoption is answered with the number and the mode. */
    item_reply_read(OP_ADOPT, &seven, &item);
    cr_assert_eq(item.vote, VOTE_UNKNOWN);
    end(&one);
}

/* R12: a number as text is a master's stored number. Any other text is no grant. */
Test(replies, r12_the_number_of_a_grant_may_come_as_text)
{
    begin(&one, NULL);
    redisReply text = text_of(REDIS_REPLY_STRING, "1760000000000001");
    const struct record *got = reply_to(hear(OP_ACQUIRE, 1, &text), 0);
    cr_assert(got->vote == VOTE_YES && got->fence == BIG + 1);
    static const char *const others[] = {
        "",   "x",   "17600000000000x",     "-1",
        " 1", "1.5", "9223372036854775808", "99999999999999999999"};
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct event_reply item;
        redisReply other = text_of(REDIS_REPLY_STRING, others[i]);
        item_reply_read(OP_ACQUIRE, &other, &item);
        cr_assert_eq(item.vote, VOTE_UNKNOWN, "%s", others[i]);
    }
    struct event_reply item;
    char cut[] = "1760000000000001\0 and more";
    redisReply longer = {.type = REDIS_REPLY_STRING, .str = cut, .len = sizeof(cut) - 1};
    item_reply_read(OP_ACQUIRE, &longer, &item);
    cr_assert_eq(item.vote, VOTE_UNKNOWN, "the bytes behind a zero byte count");
    cr_assert_not(reply_is_possible(OP_READ, 1, &text));
    end(&one);
}

Test(replies, an_unknown_error_to_a_whole_batch_is_unknown_for_each_item)
{
    begin(&one, NULL);
    redisReply error = text_of(REDIS_REPLY_ERROR, unknown_errors[0]);
    uint32_t slot = hear(OP_RENEW, LIMIT_BATCH, &error);
    for (unsigned i = 0; i < LIMIT_BATCH; i++)
        cr_assert_eq(reply_to(slot + i, 0)->vote, VOTE_UNKNOWN);
    cr_assert_eq(rig.outcomes[REDIS_OUTCOME_OTHER], 1);
    cr_assert(is_up(0), "an error of one call says nothing of the master");
    end(&one);
}

/* ---- one of many ---- */

Test(replies, one_item_of_fifty_that_fails_spoils_no_other)
{
    static const enum op ops[] = {OP_RENEW, OP_REPAIR, OP_RELEASE};
    enum { BAD = 25 };
    begin(&one, NULL);
    for (unsigned o = 0; o < 3; o++) {
        redisReply good = number_of((long long)BIG),
                   bad = text_of(REDIS_REPLY_ERROR, unknown_errors[0]);
        redisReply *elements[LIMIT_BATCH];
        for (unsigned i = 0; i < LIMIT_BATCH; i++)
            elements[i] = i == BAD ? &bad : &good;
        redisReply list = {.type = REDIS_REPLY_ARRAY, .elements = LIMIT_BATCH, .element = elements};
        uint32_t slot = hear(ops[o], LIMIT_BATCH, &list);
        for (unsigned i = 0; i < LIMIT_BATCH; i++) {
            const struct record *got = reply_to(slot + i, 0);
            cr_assert_eq(got->vote, i == BAD ? VOTE_UNKNOWN : VOTE_YES, "%s %u: %s",
                         op_name(ops[o]), i, vote_name(got->vote));
            cr_assert_eq(got->fence, i == BAD ? 0 : BIG);
        }
    }
    cr_assert_eq(rig.outcomes[REDIS_OUTCOME_OTHER], 3);
    end(&one);
}

/* The same by the real script: a stranger's set has the name of the 25th lock. */
Test(replies, a_foreign_key_among_fifty_leaves_the_others_renewed)
{
    enum { BAD = 24 };
    char keys[LIMIT_BATCH][8];
    struct send_item items[LIMIT_BATCH];
    begin(&one, NULL);
    for (unsigned i = 0; i < LIMIT_BATCH; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%u", i);
        items[i] = item_of(keys[i], 1, BIG);
        items[i].ttl_ms = 5000;
        cr_assert_eq(exchange(OP_ACQUIRE, 0, items[i]).vote, VOTE_YES);
        items[i].ttl_ms = 50000;
    }
    ask(&one, "DEL lock:k%d", BAD);
    ask(&one, "SADD lock:k%d x", BAD);
    uint32_t slot = rig_send(OP_RENEW, 1, items, LIMIT_BATCH);
    RUN_UNTIL(reply_to(slot + LIMIT_BATCH - 1, 0), 3000);
    for (unsigned i = 0; i < LIMIT_BATCH; i++) {
        char key[16];
        snprintf(key, sizeof(key), "lock:k%u", i);
        cr_assert_eq(reply_to(slot + i, 0)->vote, i == BAD ? VOTE_FOREIGN : VOTE_YES, "%u", i);
        cr_assert(i == BAD || ask_number(&one, "PTTL", key) > 40000, "%u was not renewed", i);
    }
    end(&one);
}

/* ---- a reply that does not match its command ends the connection ---- */

Test(replies, an_impossible_reply_ends_the_connection_and_is_counted_once)
{
    begin(&one, NULL);
    redisReply status = text_of(REDIS_REPLY_STATUS, "OK");
    uint32_t first = hear(OP_ACQUIRE, 1, &status), second = hear(OP_READ, 1, &status);
    cr_assert_eq(reply_to(first, 0)->vote, VOTE_UNKNOWN);
    cr_assert_eq(reply_to(second, 0)->vote, VOTE_UNKNOWN);
    RUN_UNTIL(is_down_with(0, "not a possible reply"), 1000);
    cr_assert_eq(redis_master(rig.redis, 0, 0).faults[REDIS_FAULT_MALFORMED], 1);
    uint64_t from = uv_hrtime();
    RUN_UNTIL(is_up(0), 3000);
    cr_assert_geq((uv_hrtime() - from) / 1000000, BACKOFF_MS_MAX / 2 - 50,
                  "it comes back at the slowest pace");
    end(&one);
}

/* R7: the label of another holder, which ends a list as well, is no epoch. */
Test(replies, only_what_may_find_a_key_missing_tells_of_an_epoch)
{
    redisReply word = text_of(REDIS_REPLY_STRING, "held"), left = number_of(5),
               label = text_of(REDIS_REPLY_STRING, "ee");
    redisReply *elements[] = {&word, &left, &label};
    redisReply list = {.type = REDIS_REPLY_ARRAY, .elements = 3, .element = elements};
    static const enum op ops[] = {OP_ACQUIRE, OP_HANDOVER, OP_RAISE, OP_READ, OP_WITHDRAW};
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        cr_assert_null(reply_epoch(ops[i], &list), "%s", op_name(ops[i]));
    redisReply absent = number_of(-1), *entries[] = {&absent, &label};
    redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = entries};
    cr_assert_str_eq(reply_epoch(OP_RENEW, &reply), "ee");
}

/* D5.5: a call that was refused as a whole is worth asking for piece by piece, an item is not. */
Test(replies, a_refusal_of_one_item_is_its_own)
{
    redisReply well = number_of(0),
               error = text_of(REDIS_REPLY_ERROR, "ERR The user executing the script can't access "
                                                  "at least one of the keys mentioned");
    redisReply *elements[] = {&well, &error};
    redisReply list = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = elements};
    struct event_reply items[2];
    const char *text = NULL;
    cr_assert_eq(reply_read(OP_RELEASE, 2, &list, items, &text), REDIS_OUTCOME_NOPERM);
    cr_assert_str_eq(text, error.str);
    cr_assert_eq(items[0].vote, VOTE_YES);
    cr_assert_eq(items[1].vote, VOTE_REFUSED, "%s", vote_name(items[1].vote));
    cr_assert_eq(reply_read(OP_RELEASE, 2, &error, items, &text), REDIS_OUTCOME_NOPERM);
    cr_assert(items[0].vote == VOTE_NOT_RUN && items[1].vote == VOTE_NOT_RUN);
    cr_assert_eq(reply_read(OP_RELEASE, 1, &error, items, &text), REDIS_OUTCOME_NOPERM);
    cr_assert_eq(items[0].vote, VOTE_REFUSED, "%s", vote_name(items[0].vote));
}

Test(replies, a_batch_with_an_item_too_few_or_too_many_is_impossible)
{
    begin(&one, NULL);
    redisReply good = number_of(5), *elements[] = {&good, &good, &good, &good};
    redisReply list = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = elements};
    uint32_t slot = hear(OP_RENEW, 3, &list);
    list.elements = 4;
    uint32_t more = hear(OP_RENEW, 3, &list);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(reply_to(slot + i, 0)->vote, VOTE_UNKNOWN);
        cr_assert_eq(reply_to(more + i, 0)->vote, VOTE_UNKNOWN);
    }
    RUN_UNTIL(is_down_with(0, "not a possible reply"), 1000);
    end(&one);
}

/* ---- numbers ---- */

Test(replies, negative_numbers_are_told_apart)
{
    static const long long numbers[] = {-2, -3, -1000, INT32_MIN, INT64_MIN};
    redisReply label = text_of(REDIS_REPLY_STRING, "me");
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        for (enum op op = 0; op < OP_COUNT; op++) {
            redisReply number = number_of(numbers[i]);
            struct event_reply item;
            item_reply_read(op, &number, &item);
            cr_assert_eq(item.vote, VOTE_UNKNOWN, "%s %lld", op_name(op), numbers[i]);
            cr_assert(item.fence == 0 && item.occupant.left_ms == -1);
            cr_assert_eq(read_list_of(op, "held", numbers[i], &label, NULL).vote, VOTE_UNKNOWN);
            cr_assert_eq(read_list_of(op, "foreign", numbers[i], NULL, NULL).vote, VOTE_UNKNOWN);
            cr_assert_eq(read_list_of(op, "guarded", numbers[i], NULL, NULL).vote, VOTE_UNKNOWN);
            cr_assert_eq(read_list_of(op, "handed", numbers[i], &number, NULL).vote, VOTE_UNKNOWN);
            cr_assert_eq(read_list_of(op, "repaired", numbers[i], NULL, NULL).vote, VOTE_UNKNOWN);
            cr_assert_eq(read_list_of(op, "misnumbered", numbers[i], NULL, NULL).vote,
                         VOTE_UNKNOWN);
        }
    }
    cr_assert_eq(read_list_of(OP_HANDOVER, "handed", -1, NULL, NULL).vote, VOTE_UNKNOWN);
    cr_assert_eq(read_list_of(OP_REPAIR, "repaired", -1, NULL, NULL).vote, VOTE_UNKNOWN);
    cr_assert_eq(read_list_of(OP_ADOPT, "misnumbered", -1, NULL, NULL).vote, VOTE_UNKNOWN);
    cr_assert_eq(read_list_of(OP_ACQUIRE, "held", -1, &label, NULL).occupant.left_ms, -1);
    cr_assert_eq(read_list_of(OP_ACQUIRE, "guarded", -1, NULL, NULL).vote, VOTE_GUARDED);
    redisReply ticket = number_of(INT64_MIN);
    cr_assert_eq(read_list_of(OP_ACQUIRE, "held", 5, &label, &ticket).ticket, 0);
}

Test(replies, giant_numbers_neither_wrap_nor_overflow_a_time)
{
    redisReply label = text_of(REDIS_REPLY_STRING, "me"), giant = number_of(INT64_MAX),
               wraps = number_of(1LL << 32 | 7), number = number_of(INT64_MAX);
    struct event_reply item = read_list_of(OP_ACQUIRE, "held", INT64_MAX, &label, &giant);
    cr_assert(item.vote == VOTE_TAKEN && item.occupant.left_ms == REPLY_MS_MAX &&
              item.ticket == INT64_MAX);
    item = read_list_of(OP_ACQUIRE, "held", REPLY_MS_MAX, &label, NULL);
    cr_assert_eq(item.occupant.left_ms, REPLY_MS_MAX);
    item = read_list_of(OP_ACQUIRE, "held", REPLY_MS_MAX - 1, &label, NULL);
    cr_assert_eq(item.occupant.left_ms, REPLY_MS_MAX - 1);
    item = read_list_of(OP_ACQUIRE, "guarded", INT64_MAX, NULL, NULL);
    cr_assert(item.vote == VOTE_GUARDED && item.occupant.left_ms == REPLY_MS_MAX);
    item = read_list_of(OP_READ, "foreign", INT64_MAX, NULL, NULL);
    cr_assert(item.vote == VOTE_FOREIGN && item.occupant.left_ms == REPLY_MS_MAX);
    item = read_list_of(OP_HANDOVER, "handed", 5, &wraps, NULL);
    cr_assert(item.vote == VOTE_YES && item.fence == 5 && item.agents == AGENTS_MAX);
    redisReply few = number_of(3);
    cr_assert_eq(read_list_of(OP_HANDOVER, "handed", 5, &few, NULL).agents, 3);
    redisReply minus = number_of(-3);
    cr_assert_eq(read_list_of(OP_HANDOVER, "handed", 5, &minus, NULL).agents, 0);
    item_reply_read(OP_ACQUIRE, &number, &item);
    cr_assert_eq(item.fence, INT64_MAX); /* exact: whether it is believed is not decided here */
}

Test(replies, what_is_published_is_read_to_the_letter)
{
    static const struct {
        const char *text;
        uint32_t agents;
        uint64_t next;
    } cases[] = {
        {"0", 0, 0},
        {"5", 5, 0},
        {"65535", 65535, 0},
        {"65536", 65535, 0},
        {"99999999999999999999999", 65535, 0},
        {"3 00000000000000ff", 3, 0xff},
        {"3 ffffffffffffffff", 3, UINT64_MAX},
        {"3 ff", 3, 0},
        {"", 0, 0},
        {"-1", 0, 0},
        {"+5", 0, 0},
        {" 5", 0, 0},
        {"5x", 0, 0},
        {"5 -0000000000000ff", 0, 0},
        {"5 00000000000000ff ", 0, 0},
        {"x", 0, 0},
        {"3 1ffffffffffffffff", 3, 0},
        {"3 00000000000000ff r", 3, 0xff},
        {"3 00000000000000ff w", 3, 0xff},
        {"3 00000000000000ff x", 0, 0},
        {"3 r", 0, 0},
        {"3 slot 0", 3, 0},
        {"3 slot 63", 3, 0},
        {"3 slot 64", 3, 0},
        {"3 slot ", 0, 0},
        {"3 slot 1 ", 0, 0},
        {"3 slot -1", 0, 0},
        {" slot 3", 0, 0},
        {" 00000000000000ff", 0, 0},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *text = cases[i].text;
        struct event_channel said = message_read(text);
        cr_assert_eq(said.next_reads, said.agents > 0 && strstr(text, " r") != NULL, "%s", text);
        cr_assert_eq(said.agents, cases[i].agents, "%s: %u", text, said.agents);
        cr_assert_eq(said.next, cases[i].next, "%s: %llx", text, (unsigned long long)said.next);
        const char *slot = strstr(text, " slot ");
        int number = said.agents > 0 && slot != NULL ? atoi(slot + 6) : LIMIT_PERMITS;
        cr_assert_eq(said.has_slot, number < LIMIT_PERMITS, "%s", text);
        cr_assert_eq(said.slot, said.has_slot ? number : 0, "%s", text);
    }
}

/* ---- a marker ---- */

/* The guard counts the time in us, and a number near the largest one wrapped. */
Test(replies, a_marker_with_an_endless_guard_overflows_no_time)
{
    redisReply epoch = text_of(REDIS_REPLY_STRING, "0123456789abcdef"),
               vote = text_of(REDIS_REPLY_STRING, ""), zero = number_of(0),
               left = number_of(INT64_MAX), none = {.type = REDIS_REPLY_ARRAY};
    redisReply *elements[] = {&epoch, &left, &zero, &zero, &zero, &zero,
                              &vote,  &zero, &zero, &zero, &zero, &none};
    redisReply list = {.type = REDIS_REPLY_ARRAY,
                       .elements = sizeof(elements) / sizeof(elements[0]),
                       .element = elements};
    struct guard_answer answer;
    struct guard_layouts layouts;
    cr_assert(asking_read_marker(&list, &answer, &layouts));
    cr_assert_eq(answer.left_ms, REPLY_MS_MAX);
}

/* A number that no marker has makes the whole reply impossible. But top and floor become a number
 * that was never granted: the master then has no vote (R12). */
Test(replies, a_marker_with_an_impossible_number_is_none)
{
    enum { LEFT = 1, MAX_TTL, TOP, FLOOR, TOLD, NOTED = 9 };
    static const struct {
        unsigned place;
        long long number;
        bool is_marker;
    } cases[] = {
        {LEFT, -1, false},
        {LEFT, 0, true},
        {MAX_TTL, -1, false},
        {MAX_TTL, 1LL << 32, false},
        {MAX_TTL, UINT32_MAX, true},
        {TOLD, -1, false},
        {TOLD, GUARD_GUESSED + 1, false},
        {TOLD, GUARD_GUESSED, true},
        {TOP, -1, true},
        {FLOOR, LIMIT_FENCE + 1, true},
        {NOTED, -1, true},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        redisReply epoch = text_of(REDIS_REPLY_STRING, "0123456789abcdef"),
                   vote = text_of(REDIS_REPLY_STRING, ""), zero = number_of(0),
                   none = {.type = REDIS_REPLY_ARRAY}, odd = number_of(cases[i].number);
        redisReply *elements[] = {&epoch, &zero, &zero, &zero, &zero, &zero,
                                  &vote,  &zero, &zero, &zero, &zero, &none};
        redisReply list = {.type = REDIS_REPLY_ARRAY,
                           .elements = sizeof(elements) / sizeof(elements[0]),
                           .element = elements};
        struct guard_answer answer = {0};
        struct guard_layouts layouts;
        elements[cases[i].place] = &odd;
        cr_assert_eq(asking_read_marker(&list, &answer, &layouts), cases[i].is_marker, "%u", i);
        cr_assert_eq(answer.top, cases[i].place == TOP ? LIMIT_FENCE : 0, "%u", i);
        cr_assert_eq(answer.floor, cases[i].place == FLOOR ? LIMIT_FENCE : 0, "%u", i);
    }
}
