/* The scripts of locks that readers share, on a real redis-server (R17, R19). */
#include "redis_rig.h"

enum { ANNA = 1, BERT = 2, CARL = 3 };

static struct server one;

static struct send_item entry(uint8_t token, enum mode mode, uint64_t fence)
{
    struct send_item item = item_of("k", token, fence);
    item.shared = item.fair = true;
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

/* Where the entry is gone and somebody else's stands there, nothing is brought back beside it. */
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

/* So an adoption, which asks for exactly the number, proves that nobody wrote in between. */
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
