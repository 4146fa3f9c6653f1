/* One step of the guard of up to MASTERS masters, from any state that earlier steps can have left,
 * with any event that guard.h lets the caller report.
 *
 * sources: agent/core/guard.c agent/core/register.c
 * options: -cpp-extra-args=-DVAGUE_LIBC -eva-auto-loop-unroll 16 -eva-slevel 30
 *   -eva-slevel-function main:100000 -inline-calls can_be_asked */
#include "agent/core/guard.h"
#include "tests/prove/prove.h"

enum { MASTERS = 1 };
static const int64_t REPLY_MS_MOST = 1000000000000; /* REPLY_MS_MAX of replies.h */
static const int64_t TIME_MAX = INT64_MAX / 4;      /* us of this machine's uptime: 73,000 years */

enum { UNSEEN, RUNS, VOTES, SPOILED, WAITS, KINDS };

static struct instant any_time(void)
{
    return (struct instant){Frama_C_long_interval(0, TIME_MAX)};
}

static uint64_t any_number(void)
{
    return Frama_C_unsigned_long_interval(0, UINT64_MAX / 2);
}

static void fill_word(char *word, size_t size)
{
    Frama_C_make_unknown(word, size);
    word[size - 1] = '\0';
}

static void fill_answer(struct guard_answer *answer)
{
    fill_word(answer->epoch, sizeof(answer->epoch));
    fill_word(answer->vote, sizeof(answer->vote));
    answer->max_ttl_ms = Frama_C_unsigned_int_interval(0, UINT32_MAX);
    answer->left_ms = Frama_C_long_interval(0, REPLY_MS_MOST);
    answer->top = any_number();
    answer->floor = any_number();
    answer->told = (enum guard_told)ANY(GUARD_NOT_TOLD, GUARD_GUESSED);
    answer->spoiled = ANY(0, 1);
}

/* Fills in a master of one kind. One kind waits to be told and has a number to be told of from.
 * Each other kind lacks one of the conditions of that. */
static void fill_master(struct guard_master *master, int kind)
{
    fill_answer(&master->last);
    master->phase = (enum guard_phase)ANY(GUARD_MASTER_AWAY, GUARD_MASTER_READY);
    master->asked = ANY(0, 1);
    master->seen = kind == UNSEEN ? false : ANY(0, 1);
    master->unsure = ANY(0, 1);
    master->changed = ANY(0, 1);
    master->knows_run = ANY(0, 1);
    master->until = any_time();
    master->asked_at = any_time();
    master->asked_number = any_number();
    master->answered_asked_at = any_time();
    master->answered_number = any_number();
    master->waits_since = any_time();
    master->numbered = any_number();
    master->waits_from = kind == WAITS ? 1 + any_number() : 0;
    if (kind == RUNS)
        master->last.left_ms = Frama_C_long_interval(1, REPLY_MS_MOST);
    if (kind == VOTES)
        master->last.told = (enum guard_told)ANY(GUARD_TOLD, GUARD_GUESSED);
    if (kind == SPOILED)
        master->last.spoiled = true;
}

int main(void)
{
    struct guard guard;
    struct guard_event event = {0};
    struct guard_effects effects;
    uint8_t count = (uint8_t)Frama_C_interval_split(1, MASTERS);
    guard_init(&guard, count, (uint8_t)ANY(1, count), ANY(0, 1), (uint32_t)ANY(1, TTL_MS_MAX));
    guard.has_replicas = ANY(0, 1);
    guard.questions = any_number();
    guard.top = any_number();
    guard.floor = any_number();
    for (uint8_t i = 0; i < count; i++)
        fill_master(&guard.masters[i], Frama_C_interval_split(0, KINDS - 1));
    event.master = (uint8_t)Frama_C_interval_split(0, count - 1);
    event.same_connection = ANY(0, 1);
    event.knows_run = ANY(0, 1);
    fill_answer(&event.answer);
    struct guard_master *about = &guard.masters[event.master];
    switch (Frama_C_interval_split(0, 3)) {
    case 0:
        event.kind = GUARD_GREETS;
        about->phase = GUARD_MASTER_AWAY;
        about->asked = false;
        break;
    case 1:
        event.kind = GUARD_READY;
        about->phase = GUARD_MASTER_GREETING;
        break;
    case 2:
        event.kind = (enum guard_event_kind)ANY(GUARD_ANSWERED, GUARD_REFUSED);
        about->phase = (enum guard_phase)ANY(GUARD_MASTER_GREETING, GUARD_MASTER_READY);
        about->asked = true;
        break;
    default:
        event.kind =
            ANY(0, 1) ? GUARD_AWAY : (enum guard_event_kind)ANY(GUARD_SEES_EPOCH, GUARD_TIME);
    }
    guard_step(&guard, &event, any_time(), Frama_C_long_interval(0, TIME_MAX), &effects);
    return 0;
}
