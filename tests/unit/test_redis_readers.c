/* The scripts of locks that readers share, on a real redis-server (R17, R19). */
#include "redis_rig.h"

enum { ANNA = 1, BERT = 2, CARL = 3 };

static struct server one;

static struct send_item entry(uint8_t token, enum mode mode, uint64_t fence)
{
    struct send_item item = item_of("k", token, fence);
    item.form = FORM_SHARED;
    item.mode = mode;
    item.ticket = (struct ticket){.agent = token, .mode = mode};
    return item;
}

static struct record reads(uint8_t token)
{
    return exchange(OP_ACQUIRE, 0, entry(token, MODE_READ, BIG));
}

static struct record writes(uint8_t token)
{
    return exchange(OP_ACQUIRE, 0, entry(token, MODE_WRITE, BIG));
}

static void leaves(uint8_t token, enum mode mode)
{
    cr_assert_eq(exchange(OP_RELEASE, 0, entry(token, mode, BIG)).vote, VOTE_YES);
}

Test(readers_scripts, r17_readers_have_room_beside_readers_and_a_writer_has_none)
{
    begin(&one, NULL);
    cr_assert_eq(reads(ANNA).vote, VOTE_YES);
    cr_assert_eq(reads(BERT).vote, VOTE_YES);
    struct record refused = writes(CARL);
    cr_assert_eq(refused.vote, VOTE_TAKEN);
    cr_assert_eq(refused.mode, MODE_READ);
    cr_assert_eq(refused.readers, 2);
    cr_assert_str_eq(refused.holder, "me");
    cr_assert_eq(ask_number(&one, "ZCARD", "lock:k"), 2);
    leaves(ANNA, MODE_READ);
    cr_assert_eq(writes(CARL).vote, VOTE_TAKEN);
    leaves(BERT, MODE_READ);
    cr_assert_eq(writes(CARL).vote, VOTE_YES);
    refused = reads(ANNA);
    cr_assert_eq(refused.vote, VOTE_TAKEN);
    cr_assert_eq(refused.mode, MODE_WRITE);
    cr_assert_eq(refused.readers, 0);
    end(&one);
}

/* If the entry is gone and another holder's entry is there, no repair brings it back beside
 * that. */
Test(readers_scripts, r17_a_repair_needs_room)
{
    begin(&one, NULL);
    cr_assert_eq(writes(ANNA).vote, VOTE_YES);
    struct record refused = exchange(OP_REPAIR, 0, entry(BERT, MODE_READ, BIG));
    cr_assert_eq(refused.vote, VOTE_TAKEN, "a read beside a writer");
    cr_assert_eq(refused.mode, MODE_WRITE);
    cr_assert_eq(exchange(OP_REPAIR, 0, entry(BERT, MODE_WRITE, BIG)).vote, VOTE_TAKEN);
    leaves(ANNA, MODE_WRITE);
    cr_assert_eq(reads(ANNA).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_REPAIR, 0, entry(BERT, MODE_WRITE, BIG)).vote, VOTE_TAKEN,
                 "a write beside a reader");
    cr_assert_eq(ask_number(&one, "ZCARD", "lock:k"), 1);
    cr_assert_eq(exchange(OP_REPAIR, 0, entry(BERT, MODE_READ, BIG)).vote, VOTE_REPAIRED);
    cr_assert_eq(ask_number(&one, "ZCARD", "lock:k"), 2);
    end(&one);
}

/* C4: a reader beside it does not make a missing token wrong. A writer does. */
Test(readers_scripts, c4_a_token_is_missing_beside_a_reader_and_denied_by_a_writer)
{
    begin(&one, NULL);
    cr_assert_eq(reads(ANNA).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RELEASE, 0, entry(BERT, MODE_READ, BIG)).vote, VOTE_ABSENT);
    leaves(ANNA, MODE_READ);
    cr_assert_eq(writes(CARL).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RELEASE, 0, entry(BERT, MODE_READ, BIG)).vote, VOTE_TAKEN);
    end(&one);
}

/* D3.3: a late release that an agent sent on its own spares an entry that another agent has adopted
 * since. A release that the holder asked for does not. */
Test(readers_scripts, d3_3_a_late_release_of_its_own_spares_what_was_adopted)
{
    begin(&one, NULL);
    cr_assert_eq(reads(ANNA).vote, VOTE_YES);
    struct send_item late = entry(ANNA, MODE_READ, BIG), adopted = late;
    adopted.agent = 0xb2;
    cr_assert_eq(exchange(OP_ADOPT, 0, adopted).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RAISE, 0, late).vote, VOTE_MOVED);
    cr_assert_eq(exchange(OP_RELEASE, 0, late).vote, VOTE_MOVED);
    cr_assert_eq(ask_number(&one, "ZCARD", "lock:k"), 1);
    late.asked = true;
    cr_assert_eq(exchange(OP_RELEASE, 0, late).vote, VOTE_YES);
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    end(&one);
}

/* The entry's name changes with its label (D3.9). Mode, lease and other entries stay. */
Test(readers_scripts, d3_9_a_renewal_gives_the_entry_another_label)
{
    begin(&one, NULL);
    struct record first = reads(ANNA);
    cr_assert_eq(reads(BERT).vote, VOTE_YES);
    static const enum op ops[] = {OP_RENEW, OP_REPAIR, OP_ADOPT};
    static const char *const labels[] = {"starts", "leads", "drains"};
    for (unsigned i = 0; i < 3; i++) {
        struct send_item item = entry(ANNA, MODE_READ, first.fence);
        item.label = (struct text){labels[i], strlen(labels[i])};
        cr_assert_eq(exchange(ops[i], 0, item).vote, VOTE_YES, "%s", op_name(ops[i]));
        cr_assert_eq(ask_number(&one, "ZCARD", "lock:k"), 2);
        item.label = (struct text){"", 0};
        struct record got = exchange(OP_ADOPT, 0, item);
        cr_assert_str_eq(got.holder, labels[i]);
        cr_assert_eq(got.mode, MODE_READ);
    }
    end(&one);
}

/* An adoption asks for exactly the number. So it proves that no caller wrote in between. */
Test(readers_scripts, r19_reads_leave_the_number_as_it_is_and_a_write_raises_it)
{
    begin(&one, NULL);
    struct record first = reads(ANNA), second = reads(BERT);
    cr_assert_eq(first.fence, BIG, "where none is stored it is the proposal");
    cr_assert_eq(second.fence, first.fence);
    leaves(BERT, MODE_READ);
    struct record adopted = exchange(OP_ADOPT, 0, entry(ANNA, MODE_READ, first.fence));
    cr_assert_eq(adopted.vote, VOTE_YES);
    cr_assert_eq(adopted.mode, MODE_READ);
    leaves(ANNA, MODE_READ);
    cr_assert_eq(writes(CARL).fence, first.fence + 1);
    leaves(CARL, MODE_WRITE);
    cr_assert_eq(reads(ANNA).fence, first.fence + 1);
    cr_assert_eq(exchange(OP_ADOPT, 0, entry(ANNA, MODE_READ, first.fence)).vote, VOTE_MISNUMBERED);
    end(&one);
}

/* A read with the number that is stored writes its entry first: behind another write it would not
 * be refused. */
Test(readers_scripts, d5_5_a_read_is_refused_by_a_master_out_of_memory)
{
    begin(&one, NULL);
    cr_assert_eq(reads(ANNA).vote, VOTE_YES);
    leaves(ANNA, MODE_READ);
    ask(&one, "CONFIG SET maxmemory 1");
    cr_assert_eq(reads(BERT).vote, VOTE_REFUSED);
    ask(&one, "CONFIG SET maxmemory 0");
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    cr_assert_eq(reads(BERT).vote, VOTE_YES);
    cr_assert_str_eq(stored_number(&one, "lock:k"), BIG_TEXT);
    end(&one);
}

/* As with every other lock, the lease counts, and a foreign key may belong to any client. */
Test(readers_scripts, r12_an_adoption_leaves_a_strangers_key_alone)
{
    begin(&one, NULL);
    struct record read = reads(ANNA);
    struct send_item adopted = entry(ANNA, MODE_READ, read.fence);
    adopted.agent = 0xb2;
    ask(&one, "SET " BUCKET_OF_K " nobodys PX 3000");
    cr_assert_eq(exchange(OP_ADOPT, 0, adopted).vote, VOTE_YES);
    cr_assert_leq(ask_number(&one, "PTTL", BUCKET_OF_K), 3000);
    cr_assert_str_eq(ask(&one, "GET " BUCKET_OF_K), "nobodys");
    end(&one);
}

Test(readers_scripts, r17_each_entry_ends_by_itself_and_the_key_with_the_last)
{
    begin(&one, NULL);
    struct send_item brief = entry(ANNA, MODE_READ, BIG);
    brief.ttl_ms = 300;
    cr_assert_eq(reads(BERT).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, brief).vote, VOTE_YES);
    cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 5000, "the longer one is not cut");
    usleep(350000);
    cr_assert_eq(exchange(OP_RENEW, 0, brief).vote, VOTE_ABSENT);
    struct record refused = writes(CARL);
    cr_assert_eq(refused.vote, VOTE_TAKEN);
    cr_assert_eq(refused.readers, 1);
    leaves(BERT, MODE_READ);
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    end(&one);
}

/* The other way round: the key does not outlive the last entry. */
Test(readers_scripts, r17_a_release_shortens_the_key_to_the_last_entry)
{
    begin(&one, NULL);
    struct send_item brief = entry(ANNA, MODE_READ, BIG);
    brief.ttl_ms = 3000;
    cr_assert_eq(exchange(OP_ACQUIRE, 0, brief).vote, VOTE_YES);
    cr_assert_eq(reads(BERT).vote, VOTE_YES);
    cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 5000);
    leaves(BERT, MODE_READ);
    int64_t left_ms = ask_number(&one, "PTTL", "lock:k");
    cr_assert(left_ms > 0 && left_ms <= 3000, "%lld", (long long)left_ms);
    end(&one);
}

/* A renewal is the owner's, and shortens nothing. */
Test(readers_scripts, r7_a_renewal_extends_the_entry_that_its_agent_owns)
{
    begin(&one, NULL);
    cr_assert_eq(reads(ANNA).vote, VOTE_YES);
    struct send_item brief = entry(ANNA, MODE_READ, BIG), other = brief;
    brief.ttl_ms = 1000;
    cr_assert_eq(exchange(OP_RENEW, 0, brief).vote, VOTE_YES);
    cr_assert_gt(ask_number(&one, "PTTL", "lock:k"), 5000);
    other.agent = 0xb2;
    cr_assert_eq(exchange(OP_RENEW, 0, other).vote, VOTE_MOVED);
    cr_assert_eq(exchange(OP_ADOPT, 0, other).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RENEW, 0, brief).vote, VOTE_MOVED);
    cr_assert_eq(ask_number(&one, "ZCARD", "lock:k"), 1);
    end(&one);
}

/* The key may live on because of another reader. The end of the entry counts. */
Test(readers_scripts, r7_no_command_shortens_an_entry)
{
    static const enum op ops[] = {OP_RENEW, OP_REPAIR, OP_ADOPT};
    begin(&one, NULL);
    cr_assert_eq(reads(ANNA).vote, VOTE_YES);
    struct send_item brief = entry(ANNA, MODE_READ, BIG);
    brief.ttl_ms = 200;
    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        cr_assert_eq(exchange(ops[i], 0, brief).vote, VOTE_YES, "%s", op_name(ops[i]));
        usleep(250000);
        struct record refused = writes(BERT);
        cr_assert_eq(refused.vote, VOTE_TAKEN, "%s", op_name(ops[i]));
        cr_assert_gt(refused.pttl_ms, 5000, "%s: %lld ms", op_name(ops[i]),
                     (long long)refused.pttl_ms);
    }
    end(&one);
}

/* R12: "A repair raises the bucket to the hold's number." An invalid number stays as it is. */
Test(readers_scripts, r12_a_repair_that_finds_its_entry_raises_the_number)
{
    static const enum mode modes[] = {MODE_WRITE, MODE_READ};
    begin(&one, NULL);
    for (unsigned i = 0; i < 2; i++) {
        ask(&one, "FLUSHALL");
        struct send_item item = entry(ANNA, modes[i], BIG);
        cr_assert_eq(exchange(OP_ACQUIRE, 0, item).fence, BIG);
        ask(&one, "ZADD " BUCKET_OF_K " 1 n");
        struct record got = exchange(OP_REPAIR, 0, item);
        cr_assert(got.vote == VOTE_YES && got.fence == BIG, "%u", i);
        cr_assert_str_eq(stored_number(&one, "lock:k"), BIG_TEXT, "%u", i);
        ask(&one, "ZADD " BUCKET_OF_K " 1760000000000009 n");
        got = exchange(OP_REPAIR, 0, item);
        cr_assert(got.vote == VOTE_YES && got.fence == BIG + 9, "%u", i);
        cr_assert_str_eq(stored_number(&one, "lock:k"), "1760000000000009", "%u", i);
        ask(&one, "ZADD " BUCKET_OF_K " inf n");
        got = exchange(OP_REPAIR, 0, item);
        cr_assert(got.vote == VOTE_YES && got.fence == 0, "%u: the lease is what counts", i);
        cr_assert_str_eq(stored_number(&one, "lock:k"), "inf", "%u", i);
    }
    end(&one);
}

/* R20: a look reports the taken slots, and when the first of them is free. */
Test(readers_scripts, r20_a_look_tells_the_shortest_lease)
{
    begin(&one, NULL);
    for (uint8_t first = 0; first <= 2; first += 2) {
        struct send_item held = item_of("k", ANNA, BIG);
        held.form = FORM_SLOTS;
        held.permits = 3;
        ask(&one, "FLUSHALL");
        held.token.has_slot = true;
        held.token.slot = first, held.ttl_ms = 10000;
        cr_assert_eq(exchange(OP_ACQUIRE, 0, held).vote, VOTE_YES);
        held.token.slot = 2 - first, held.ttl_ms = 20000;
        cr_assert_eq(exchange(OP_ACQUIRE, 0, held).vote, VOTE_YES);
        held.token.slot = 0, held.token.has_slot = false;
        struct record seen = exchange(OP_READ, 0, held);
        cr_assert_eq(seen.taken, 5);
        cr_assert(seen.pttl_ms > 8000 && seen.pttl_ms <= 10000, "%lld", (long long)seen.pttl_ms);
    }
    end(&one);
}

/* R7: a reader whose entry is gone while a writer has the lock has been taken. */
Test(readers_scripts, r7_a_renewal_beside_a_writer_is_told_of_it)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_RENEW, 0, entry(ANNA, MODE_READ, BIG)).vote, VOTE_ABSENT);
    cr_assert_eq(writes(BERT).vote, VOTE_YES);
    struct record refused = exchange(OP_RENEW, 0, entry(ANNA, MODE_READ, BIG));
    cr_assert_eq(refused.vote, VOTE_TAKEN);
    cr_assert_eq(refused.mode, MODE_WRITE);
    end(&one);
}

/* D9: found when 50 unknown tokens, released on a key of 5,000 readers, kept a master from its work
 * for a second. The entries are read once a call, and still found by their random part. */
Test(readers_scripts, d9_a_call_searches_the_entries_once)
{
    enum { MISSING = 40 };
    struct send_item items[MISSING + 3];
    begin(&one, NULL);
    cr_assert_eq(reads(1).vote, VOTE_YES);
    cr_assert_eq(reads(2).vote, VOTE_YES);
    for (uint8_t i = 0; i < MISSING; i++)
        items[i] = entry((uint8_t)(10 + i), MODE_READ, BIG);
    items[MISSING] = items[MISSING + 1] = entry(1, MODE_READ, BIG + 7); /* an unknown number */
    items[MISSING + 2] = entry(2, MODE_READ, BIG + 7);
    for (unsigned i = 0; i < MISSING + 3; i++)
        items[i].asked = true;
    ask(&one, "CONFIG RESETSTAT");
    uint32_t slot = rig_send(OP_RELEASE, 1, items, MISSING + 3);
    RUN_UNTIL(reply_to(slot + MISSING + 2, 0), 3000);
    for (unsigned i = 0; i < MISSING + 3; i++) {
        bool is_there = i == MISSING || i == MISSING + 2;
        cr_assert_eq(reply_to(slot + i, 0)->vote, is_there ? VOTE_YES : VOTE_ABSENT, "%u", i);
    }
    const char *calls = strstr(ask(&one, "INFO commandstats"), "cmdstat_zrange:calls=");
    cr_assert_not_null(calls);
    long count = strtol(calls + strlen("cmdstat_zrange:calls="), NULL, 10);
    cr_assert_leq(count, MISSING + 10, "%ld: one an item is for the last entry", count);
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    end(&one);
}

/* R19: a read is numbered anew even if another one has raised the stored number already. */
Test(readers_scripts, r19_each_read_is_given_its_number)
{
    begin(&one, NULL);
    cr_assert_eq(reads(ANNA).vote, VOTE_YES);
    cr_assert_eq(reads(BERT).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RAISE, 0, entry(BERT, MODE_READ, BIG + 5)).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RAISE, 0, entry(ANNA, MODE_READ, BIG + 5)).vote, VOTE_YES);
    struct send_item item = entry(ANNA, MODE_READ, BIG + 5);
    item.asked = true;
    cr_assert_eq(exchange(OP_ADOPT, 0, item).vote, VOTE_YES, "its number is the one that it got");
    end(&one);
}

/* ---- turns (R18) ---- */

/* Asks as a waiter, with a ticket of this number. */
static struct record asks(uint8_t token, enum mode mode, unsigned number)
{
    struct send_item item = entry(token, mode, BIG);
    item.ticket.number = BIG + number;
    item.ticket.ttl_ms = 3000;
    return exchange(OP_ACQUIRE, 0, item);
}

static void expect_ticket(uint8_t token, const char *mode)
{
    char command[96];
    snprintf(command, sizeof(command), "HGET lockagent:ticket:lock:k %016x", token);
    const char *ticket = ask(&one, command);
    cr_assert(strlen(ticket) > 2 && strcmp(ticket + strlen(ticket) - 2, mode) == 0, "%s", ticket);
}

Test(readers_scripts, r18_no_reader_passes_a_writer_that_waits)
{
    enum { DORA = 4, EMIL = 5 };
    begin(&one, NULL);
    cr_assert_eq(reads(ANNA).vote, VOTE_YES);
    cr_assert_eq(asks(CARL, MODE_WRITE, 10).vote, VOTE_TAKEN);
    expect_ticket(CARL, ":w");
    cr_assert_eq(asks(BERT, MODE_READ, 20).vote, VOTE_TAKEN, "it came later");
    expect_ticket(BERT, ":r");
    cr_assert_eq(reads(DORA).vote, VOTE_TAKEN, "it does not wait");
    cr_assert_eq(asks(EMIL, MODE_READ, 5).vote, VOTE_YES, "it came earlier");
    leaves(EMIL, MODE_READ);
    leaves(ANNA, MODE_READ);
    cr_assert_eq(asks(BERT, MODE_READ, 20).vote, VOTE_TAKEN, "the key is free, and not its turn");
    cr_assert_eq(asks(CARL, MODE_WRITE, 10).vote, VOTE_YES);
    leaves(CARL, MODE_WRITE);
    cr_assert_eq(asks(BERT, MODE_READ, 20).vote, VOTE_YES);
    end(&one);
}

static void expect_message(redisContext *line, uint8_t token, const char *mode)
{
    char text[32];
    snprintf(text, sizeof(text), "1 %016x %s", token, mode);
    redisReply *reply = NULL;
    cr_assert_eq(redisGetReply(line, (void **)&reply), REDIS_OK, "no message");
    cr_assert_str_eq(reply->element[2]->str, text);
    freeReplyObject(reply);
}

/* R18: the message has a mode, because all readers wake with one that reads. A withdrawal
 * publishes it if there is room, also beside readers. */
Test(readers_scripts, r18_messages_say_whose_turn_it_is_and_whether_it_reads)
{
    enum { DORA = 4 };
    begin(&one, NULL);
    redisContext *line = redisConnect("127.0.0.1", one.port);
    cr_assert(line && !line->err);
    redisSetTimeout(line, (struct timeval){.tv_sec = 3});
    freeReplyObject(redisCommand(line, "SUBSCRIBE lockagent:channel:lock:k"));
    cr_assert_eq(writes(ANNA).vote, VOTE_YES);
    cr_assert_eq(asks(DORA, MODE_READ, 5).vote, VOTE_TAKEN);
    cr_assert_eq(asks(CARL, MODE_WRITE, 10).vote, VOTE_TAKEN);
    leaves(ANNA, MODE_WRITE);
    expect_message(line, DORA, "r");
    cr_assert_eq(asks(DORA, MODE_READ, 5).vote, VOTE_YES);
    leaves(DORA, MODE_READ);
    expect_message(line, CARL, "w");
    cr_assert_eq(asks(ANNA, MODE_READ, 1).vote, VOTE_YES);
    cr_assert_eq(asks(CARL, MODE_WRITE, 10).vote, VOTE_TAKEN);
    cr_assert_eq(asks(BERT, MODE_READ, 20).vote, VOTE_TAKEN);
    exchange(OP_WITHDRAW, 0, entry(CARL, MODE_WRITE, BIG));
    expect_message(line, BERT, "r");
    redisFree(line);
    end(&one);
}

/* The lowest ticket belongs to a reader, which any reader may pass. The writer behind it counts. */
Test(readers_scripts, r18_a_writer_behind_a_readers_ticket_is_seen)
{
    enum { DORA = 4 };
    begin(&one, NULL);
    cr_assert_eq(writes(ANNA).vote, VOTE_YES);
    cr_assert_eq(asks(DORA, MODE_READ, 5).vote, VOTE_TAKEN);
    cr_assert_eq(asks(CARL, MODE_WRITE, 10).vote, VOTE_TAKEN);
    leaves(ANNA, MODE_WRITE);
    cr_assert_eq(asks(BERT, MODE_READ, 20).vote, VOTE_TAKEN);
    cr_assert_eq(asks(DORA, MODE_READ, 5).vote, VOTE_YES);
    cr_assert_eq(asks(BERT, MODE_READ, 20).vote, VOTE_TAKEN);
    end(&one);
}

/* An entry is written first, and its expiry may be refused: then it does not stay. */
Test(readers_scripts, r17_an_entry_whose_expiry_is_refused_is_taken_back)
{
    begin(&one, NULL);
    ask(&one, "ACL SETUSER default -pexpireat");
    cr_assert_eq(reads(ANNA).vote, VOTE_REFUSED);
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    ask(&one, "ACL SETUSER default +pexpireat");
    RUN_UNTIL(is_up(0), 3000);
    cr_assert_eq(reads(ANNA).vote, VOTE_YES);
    end(&one);
}

/* R22: the same is true for a hash. */
Test(readers_scripts, r22_a_hash_whose_expiry_is_refused_is_taken_back)
{
    begin(&one, NULL);
    struct send_item item = item_of("k", ANNA, BIG);
    item.form = FORM_REDISSON;
    ask(&one, "ACL SETUSER default -pexpire");
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_REFUSED);
    cr_assert_eq(ask_number(&one, "EXISTS", "lock:k"), 0);
    ask(&one, "ACL SETUSER default +pexpire");
    RUN_UNTIL(is_up(0), 3000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_YES);
    end(&one);
}

/* R20: a search then tries no slot that is taken, and waits for the first one that ends. */
Test(readers_scripts, r20_a_refusal_says_which_slots_are_taken)
{
    begin(&one, NULL);
    struct send_item held = item_of("k", ANNA, BIG), asks = item_of("k", BERT, BIG);
    held.form = asks.form = FORM_SLOTS;
    held.permits = asks.permits = 3;
    held.token.has_slot = asks.token.has_slot = true;
    held.token.slot = 0, held.ttl_ms = 20000;
    cr_assert_eq(exchange(OP_ACQUIRE, 0, held).vote, VOTE_YES);
    held.token.slot = 2, held.ttl_ms = 10000;
    cr_assert_eq(exchange(OP_ACQUIRE, 0, held).vote, VOTE_YES);
    for (uint8_t slot = 0; slot <= 2; slot += 2) {
        asks.token.slot = slot;
        struct record refused = exchange(OP_ACQUIRE, 0, asks);
        cr_assert_eq(refused.vote, VOTE_TAKEN);
        cr_assert_eq(refused.taken, 1 << 0 | 1 << 2);
        cr_assert(refused.pttl_ms > 8000 && refused.pttl_ms <= 10000, "%lld",
                  (long long)refused.pttl_ms);
    }
    end(&one);
}

/* R20: a waiter for a slot is told which slot is free. */
Test(readers_scripts, r20_the_message_of_a_release_names_its_slot)
{
    begin(&one, NULL);
    redisContext *line = redisConnect("127.0.0.1", one.port);
    cr_assert(line && !line->err);
    redisSetTimeout(line, (struct timeval){.tv_sec = 3});
    freeReplyObject(redisCommand(line, "SUBSCRIBE lockagent:channel:lock:k"));
    struct send_item item = item_of("k", ANNA, BIG);
    item.form = FORM_SLOTS;
    item.permits = 3;
    item.token.slot = 1, item.token.has_slot = true;
    cr_assert_eq(exchange(OP_ACQUIRE, 0, item).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_RELEASE, 0, item).vote, VOTE_YES);
    redisReply *reply = NULL;
    cr_assert_eq(redisGetReply(line, (void **)&reply), REDIS_OK);
    cr_assert_str_eq(reply->element[2]->str, "1 slot 1");
    freeReplyObject(reply);
    redisFree(line);
    end(&one);
}
