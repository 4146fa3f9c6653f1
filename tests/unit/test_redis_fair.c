/* The tickets of order fair on a real redis-server (R9). */
#include <time.h>

#include "redis_rig.h"

#define TICKETS "lockagent:ticket:lock:k"
#define CHANNEL "lockagent:channel:lock:k"

enum { ANNA = 0xa, BERT = 0xb, TICKET_TTL_MS = 3000 };

static struct server one;

/* Returns attempt number `token` of `agent`, which came at BIG + `came`. */
static struct send_item attempt(uint8_t token, uint64_t agent, uint64_t came)
{
    struct send_item item = item_of("k", token, BIG);
    item.form = FORM_FAIR;
    item.ticket = (struct ticket){.agent = agent, .number = BIG + came, .ttl_ms = TICKET_TTL_MS};
    return item;
}

static struct send_item deleting(uint8_t token, uint64_t agent)
{
    struct send_item item = attempt(token, agent, 0);
    item.ticket = (struct ticket){.agent = agent};
    return item;
}

static void expect_ticket(const char *agent, const char *number)
{
    char command[100];
    snprintf(command, sizeof(command), "HGET " TICKETS " %s", agent);
    const char *is = ask(&one, command);
    if (!number)
        cr_assert(!is, "%s has a ticket: %s", agent, is);
    else
        cr_assert_eq(strncmp(is, number, strlen(number)), 0, "%s: %s, not %s", agent, is, number);
}
#define ANNA_TEXT "000000000000000a"
#define BERT_TEXT "000000000000000b"

static redisContext *listen_to(const struct server *server)
{
    redisContext *line = redisConnect("127.0.0.1", server->port);
    cr_assert(line && !line->err);
    redisSetTimeout(line, (struct timeval){.tv_sec = 3});
    freeReplyObject(redisCommand(line, "SUBSCRIBE lockagent:channel:/")); /* as agents do */
    freeReplyObject(redisCommand(line, "SUBSCRIBE " CHANNEL));
    return line;
}

static void expect_message(redisContext *line, const char *text)
{
    redisReply *reply = NULL;
    cr_assert_eq(redisGetReply(line, (void **)&reply), REDIS_OK, "no message");
    cr_assert_str_eq(reply->element[2]->str, text);
    freeReplyObject(reply);
}

/* Begins with a key that another agent holds. Bert came at 5 and Anna at 7. */
static void begin_queue(void)
{
    begin(&one, NULL);
    struct send_item holder = attempt(9, 0x99, 1);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, holder).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(2, BERT, 5)).vote, VOTE_TAKEN);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7)).vote, VOTE_TAKEN);
}

/* The ticket is another caller's of the same agent. */
Test(fair_scripts, r9_a_grant_to_a_caller_that_does_not_wait_leaves_the_ticket_of_its_agent)
{
    begin(&one, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(9, 0x99, 1)).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7)).vote, VOTE_TAKEN);
    exchange(OP_RELEASE, 0, deleting(9, 0x99));
    struct send_item other = attempt(5, ANNA, 0);
    other.ticket = (struct ticket){.agent = ANNA};
    cr_assert_eq(exchange(OP_ACQUIRE, 0, other).vote, VOTE_YES);
    expect_ticket(ANNA_TEXT, "1760000000000007:");
    end(&one);
}

Test(fair_scripts, r9_the_lowest_ticket_is_granted_and_taken_off)
{
    begin_queue();
    expect_ticket(ANNA_TEXT, "1760000000000007:");
    expect_ticket(BERT_TEXT, "1760000000000005:");
    cr_assert_gt(ask_number(&one, "PTTL", TICKETS), 2000);
    exchange(OP_RELEASE, 0, deleting(9, 0x99));
    struct record got = exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7));
    cr_assert_eq(got.vote, VOTE_TAKEN);
    cr_assert_eq(got.ticket, BIG + 7);
    cr_assert_str_eq(got.holder, "");
    cr_assert(got.pttl_ms > 0 && got.pttl_ms <= TICKET_TTL_MS);
    cr_assert_str_eq(ask(&one, "EXISTS lock:k"), "0");
    got = exchange(OP_ACQUIRE, 0, attempt(2, BERT, 5));
    cr_assert_eq(got.vote, VOTE_YES);
    cr_assert_gt(got.fence, BIG);
    expect_ticket(BERT_TEXT, NULL);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7)).vote, VOTE_TAKEN);
    exchange(OP_RELEASE, 0, deleting(2, BERT));
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7)).vote, VOTE_YES);
    cr_assert_str_eq(ask(&one, "EXISTS " TICKETS), "0");
    end(&one);
}

/* The agent that left it is gone, and the master's clock was an hour ahead then. */
Test(fair_scripts, r9_a_ticket_of_a_clock_that_was_set_back_is_void)
{
    begin(&one, NULL);
    int64_t ahead_ms = (int64_t)time(NULL) * 1000 + 3600 * 1000;
    char command[160];
    snprintf(command, sizeof(command), "HSET " TICKETS " " BERT_TEXT " %llu:%lld",
             (unsigned long long)BIG + 1, (long long)ahead_ms);
    ask(&one, command);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7)).vote, VOTE_YES);
    expect_ticket(BERT_TEXT, NULL);
    end(&one);
}

Test(fair_scripts, r9_equal_numbers_are_served_by_the_agents_names)
{
    begin(&one, NULL);
    exchange(OP_ACQUIRE, 0, attempt(9, 0x99, 1));
    exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 5));
    exchange(OP_ACQUIRE, 0, attempt(2, BERT, 5));
    exchange(OP_RELEASE, 0, deleting(9, 0x99));
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(2, BERT, 5)).vote, VOTE_TAKEN);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 5)).vote, VOTE_YES);
    end(&one);
}

Test(fair_scripts, r9_a_fresh_ticket_is_above_the_last_one)
{
    begin_queue();
    struct send_item late = attempt(3, 0xc, 3); /* its clock is slow */
    late.ticket.fresh = true;
    cr_assert_eq(exchange(OP_ACQUIRE, 0, late).ticket, BIG + 8);
    expect_ticket("000000000000000c", "1760000000000008:");
    late.ticket.fresh = false; /* shown again: it is the agent's number */
    cr_assert_eq(exchange(OP_ACQUIRE, 0, late).ticket, BIG + 3);
    expect_ticket("000000000000000c", "1760000000000003:");
    /* A wrong clock puts no other ticket behind this one. */
    exchange(OP_ACQUIRE, 0, attempt(4, 0xd, 1000000000));
    late.ticket.fresh = true;
    cr_assert_eq(exchange(OP_ACQUIRE, 0, late).ticket, BIG + 8);
    end(&one);
}

Test(fair_scripts, r9_a_ticket_runs_out)
{
    begin(&one, NULL);
    exchange(OP_ACQUIRE, 0, attempt(9, 0x99, 1));
    struct send_item dead = attempt(2, BERT, 5);
    dead.ticket.ttl_ms = 150;
    exchange(OP_ACQUIRE, 0, dead);
    exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7));
    exchange(OP_RELEASE, 0, deleting(9, 0x99));
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7)).vote, VOTE_TAKEN);
    usleep(160 * 1000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7)).vote, VOTE_YES);
    end(&one);
}

Test(fair_scripts, r9_who_does_not_wait_is_refused_while_somebody_does_and_leaves_nothing)
{
    begin_queue();
    exchange(OP_RELEASE, 0, deleting(9, 0x99));
    struct send_item once = attempt(3, 0xc, 0);
    once.ticket.number = 0;
    once.ticket.ttl_ms = 0;
    cr_assert_eq(exchange(OP_ACQUIRE, 0, once).vote, VOTE_TAKEN);
    cr_assert_str_eq(ask(&one, "HLEN " TICKETS), "2");
    exchange(OP_WITHDRAW, 0, deleting(1, ANNA));
    exchange(OP_WITHDRAW, 0, deleting(2, BERT));
    cr_assert_eq(exchange(OP_ACQUIRE, 0, once).vote, VOTE_YES);
    end(&one);
}

Test(fair_scripts, r9_a_hand_over_goes_to_the_lowest_or_is_a_release)
{
    begin_queue();
    struct send_item heir = attempt(3, 0x99, 4);
    memset(heir.previous.random, 9, sizeof(heir.previous.random));
    cr_assert_eq(exchange(OP_HANDOVER, 0, heir).vote, VOTE_YES);
    cr_assert_eq(ask_number(&one, "HLEN", TICKETS), 2);
    struct send_item next = attempt(4, 0x99, 6);
    memset(next.previous.random, 3, sizeof(next.previous.random));
    struct record got = exchange(OP_HANDOVER, 0, next);
    cr_assert_eq(got.vote, VOTE_TAKEN);
    cr_assert_eq(got.ticket, BIG + 6);
    cr_assert_str_eq(ask(&one, "EXISTS lock:k"), "0");
    expect_ticket("0000000000000099", "1760000000000006:");
    end(&one);
}

/* An attempt that was sent twice was granted once. */
Test(fair_scripts, a_doubled_attempt_is_a_grant)
{
    begin_queue();
    exchange(OP_RELEASE, 0, deleting(9, 0x99));
    struct record first = exchange(OP_ACQUIRE, 0, attempt(2, BERT, 5)),
                  again = exchange(OP_ACQUIRE, 0, attempt(2, BERT, 5));
    cr_assert_eq(again.vote, VOTE_YES);
    cr_assert_eq(again.fence, first.fence);
    struct send_item heir = attempt(3, BERT, 6);
    memset(heir.previous.random, 2, sizeof(heir.previous.random));
    cr_assert_eq(exchange(OP_HANDOVER, 0, heir).vote, VOTE_YES);
    cr_assert_eq(exchange(OP_HANDOVER, 0, heir).vote, VOTE_YES);
    end(&one);
}

/* A release puts the ticket back if an attempt is undone. It may also put the ticket of the agent's
 * next request there, if that had none before. */
Test(fair_scripts, r9_a_release_puts_a_ticket_there)
{
    begin_queue();
    exchange(OP_RELEASE, 0, deleting(9, 0x99));
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(2, BERT, 5)).vote, VOTE_YES);
    expect_ticket(BERT_TEXT, NULL);
    redisContext *line = listen_to(&one);
    struct record got = exchange(OP_RELEASE, 0, attempt(2, BERT, 6));
    cr_assert_eq(got.vote, VOTE_YES);
    expect_message(line, "1 " BERT_TEXT);
    expect_ticket(BERT_TEXT, "1760000000000006:");
    cr_assert_gt(ask_number(&one, "PTTL", TICKETS), 2000);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7)).vote, VOTE_TAKEN);
    exchange(OP_WITHDRAW, 0, deleting(2, BERT));
    cr_assert_eq(exchange(OP_RELEASE, 0, attempt(2, BERT, 6)).vote, VOTE_ABSENT);
    expect_ticket(BERT_TEXT, NULL); /* nothing is deleted, nothing is put there */
    redisFree(line);
    end(&one);
}

/* The release of a hold takes its ticket off, even if another agent has the key by now. A release
 * that names no agent leaves the ticket: a stranger's, or an owed release of an attempt. */
Test(fair_scripts, r9_whose_release_takes_a_ticket_off)
{
    begin_queue();
    exchange(OP_RELEASE, 0, deleting(1, 0));
    expect_ticket(ANNA_TEXT, "1760000000000007:");
    cr_assert_eq(exchange(OP_RELEASE, 0, deleting(1, ANNA)).vote, VOTE_TAKEN);
    expect_ticket(ANNA_TEXT, NULL);
    expect_ticket(BERT_TEXT, "1760000000000005:");
    cr_assert_eq(exchange(OP_RELEASE, 0, deleting(9, BERT)).vote, VOTE_YES);
    expect_ticket(BERT_TEXT, NULL);
    end(&one);
}

Test(fair_scripts, r9_messages_say_whose_turn_it_is)
{
    begin_queue();
    redisContext *line = listen_to(&one);
    exchange(OP_RELEASE, 0, deleting(9, 0x99));
    expect_message(line, "1 " BERT_TEXT);
    exchange(OP_WITHDRAW, 0, deleting(2, BERT));
    expect_message(line, "1 " ANNA_TEXT);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 7)).vote, VOTE_YES);
    exchange(OP_ACQUIRE, 0, attempt(2, BERT, 8));
    struct send_item heir = attempt(3, ANNA, 9);
    memset(heir.previous.random, 1, sizeof(heir.previous.random));
    cr_assert_eq(exchange(OP_HANDOVER, 0, heir).vote, VOTE_TAKEN);
    expect_message(line, "1 " BERT_TEXT);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(2, BERT, 8)).vote, VOTE_YES);
    exchange(OP_WITHDRAW, 0, deleting(1, ANNA)); /* the key is held: no message is needed */
    exchange(OP_RELEASE, 0, deleting(2, BERT));
    expect_message(line, "1");
    redisFree(line);
    end(&one);
}

Test(fair_scripts, a_key_of_another_type_where_tickets_should_be)
{
    begin(&one, NULL);
    struct send_item holder = attempt(9, 0x99, 1);
    cr_assert_eq(exchange(OP_ACQUIRE, 0, holder).vote, VOTE_YES);
    ask(&one, "SET " TICKETS " x");
    struct record refused = exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 2));
    cr_assert(refused.vote == VOTE_SPOILED && refused.tickets);
    /* A held key can be released. */
    cr_assert_eq(exchange(OP_RELEASE, 0, deleting(9, 0x99)).vote, VOTE_YES);
    cr_assert_str_eq(ask(&one, "EXISTS lock:k"), "0");
    cr_assert_eq(exchange(OP_ACQUIRE, 0, attempt(1, ANNA, 2)).vote, VOTE_SPOILED);
    cr_assert_str_eq(ask(&one, "EXISTS lock:k"), "0");
    end(&one);
}

/* ---- calls of several keys ---- */

/* Returns the item without a number. The tickets and numbers of the other items of its call are
 * found all the same. */
static struct send_item without_number(struct send_item item)
{
    item.fencing = false;
    item.token.fence = 0;
    return item;
}

/* Makes three keys of one call by `agent`, which came for each of them at another time. */
static void three_of(struct send_item items[3], uint8_t token, uint64_t agent,
                     const uint64_t came[3])
{
    static const char *const keys[] = {"k", "l", "m"};
    for (unsigned i = 0; i < 3; i++) {
        items[i] = came != NULL ? attempt(token, agent, came[i]) : deleting(token, agent);
        items[i].key.at = keys[i];
        if (i == 1)
            items[i] = without_number(items[i]);
    }
}

static void expect_votes(enum op op, const struct send_item items[3], const enum vote votes[3])
{
    uint32_t first = rig_send(op, 1, items, 3);
    RUN_UNTIL(reply_to(first + 2, 0), 3000);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(reply_to(first + i, 0)->vote, votes[i], "%u: %s, not %s", i,
                     vote_name(reply_to(first + i, 0)->vote), vote_name(votes[i]));
}

Test(fair_scripts, r9_each_key_of_a_call_has_its_own_tickets)
{
    static const uint64_t holder_came[] = {1, 1, 1}, bert_came[] = {5, 8, 5},
                          anna_came[] = {7, 6, 7};
    static const enum vote all[] = {VOTE_YES, VOTE_YES, VOTE_YES},
                           none[] = {VOTE_TAKEN, VOTE_TAKEN, VOTE_TAKEN},
                           annas[] = {VOTE_TAKEN, VOTE_YES, VOTE_TAKEN};
    struct send_item holder[3], bert[3], anna[3];
    begin(&one, NULL);
    three_of(holder, 9, 0x99, holder_came);
    three_of(bert, 2, BERT, bert_came);
    three_of(anna, 1, ANNA, anna_came);
    expect_votes(OP_ACQUIRE, holder, all);
    expect_votes(OP_ACQUIRE, bert, none);
    expect_votes(OP_ACQUIRE, anna, none);
    three_of(holder, 9, 0x99, /* came= */ NULL);
    expect_votes(OP_RELEASE, holder, all);
    expect_votes(OP_ACQUIRE, anna, annas);
    cr_assert_null(ask(&one, "HGET lockagent:ticket:lock:l " ANNA_TEXT));
    three_of(bert, 2, BERT, /* came= */ NULL); /* Bert leaves */
    expect_votes(OP_RELEASE, bert, (const enum vote[]){VOTE_ABSENT, VOTE_TAKEN, VOTE_ABSENT});
    cr_assert_str_eq(ask(&one, "EXISTS lockagent:ticket:lock:l"), "0");
    cr_assert_str_eq(ask(&one, "HLEN lockagent:ticket:lock:m"), "1");
    expect_votes(OP_ACQUIRE, anna, all);
    end(&one);
}

/* The first key has no waiters. */
Test(fair_scripts, r9_those_who_wait_for_any_key_of_a_call_are_told)
{
    struct send_item items[] = {item_of("a", 1, BIG), item_of("k", 1, BIG), item_of("b", 1, BIG)};
    begin(&one, NULL);
    expect_votes(OP_ACQUIRE, items, (const enum vote[]){VOTE_YES, VOTE_YES, VOTE_YES});
    redisContext *line = listen_to(&one), *other = listen_to(&one);
    expect_votes(OP_RELEASE, items, (const enum vote[]){VOTE_YES, VOTE_YES, VOTE_YES});
    expect_message(line, "2");
    expect_message(other, "2");
    redisFree(line), redisFree(other);
    end(&one);
}
