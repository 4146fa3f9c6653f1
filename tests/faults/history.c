/* The history of the callers' requests and answers, one JSON object per line, and the register that
 * they write to. */
#include "tests/faults/callers.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static FILE *history;

int64_t boottime_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool takes_writer(const struct shared_register *shared, int64_t fence)
{
    return fence >= shared->largest_fence && fence > shared->largest_look;
}

bool register_read(struct shared_register *shared, int64_t fence, int64_t *ret_value)
{
    if (!takes_writer(shared, fence))
        return false;
    shared->largest_fence = fence;
    *ret_value = shared->value;
    return true;
}

bool register_look(struct shared_register *shared, int64_t fence, int64_t *ret_value)
{
    if (fence < shared->largest_fence)
        return false;
    if (fence > shared->largest_look)
        shared->largest_look = fence;
    *ret_value = shared->value;
    return true;
}

bool register_write(struct shared_register *shared, int64_t fence, int64_t value)
{
    if (!takes_writer(shared, fence))
        return false;
    shared->value = value;
    return true;
}

bool history_open(const char *path)
{
    history = fopen(path, "a");
    return history != NULL && setvbuf(history, NULL, _IOLBF, 0) == 0;
}

void history_add(const struct operation *operation)
{
    static const char *const outcomes[] = {"ok", "fail", "info"};
    const struct answer *answer = operation->answer;
    /* Nothing in here needs escaping: tokens, our own keys, and codes of the agent's fixed
     * table. */
    fprintf(
        history,
        "{\"op\":\"%s\",\"caller\":%d,\"agent\":%d,\"key\":\"%s\",\"hold\":\"%s\",\"t0\":%" PRId64
        ",\"t1\":%" PRId64 ",\"outcome\":\"%s\"",
        operation->name, operation->caller, operation->agent, operation->key, operation->hold,
        operation->began_us, operation->ended_us, outcomes[operation->outcome]);
    if (operation->note != NULL)
        fprintf(history, ",\"note\":\"%s\"", operation->note);
    if (operation->wait_ms != 0)
        fprintf(history, ",\"wait_ms\":%" PRId64, operation->wait_ms);
    if (answer != NULL)
        fprintf(history, ",\"status\":%d,\"code\":\"%s\"", answer->status, answer->code);
    if (answer != NULL && answer->is_hold)
        fprintf(history, ",\"fence\":%" PRId64 ",\"until_ms\":%" PRId64 ",\"for_ms\":%" PRId64,
                answer->fence, answer->until_ms, answer->for_ms);
    if (operation->fence != 0)
        fprintf(history, ",\"fence\":%" PRId64 ",\"saw\":%" PRId64 ",\"wrote\":%" PRId64,
                operation->fence, operation->saw, operation->wrote);
    if (operation->mode[0] != '\0')
        fprintf(history, ",\"mode\":\"%s\"", operation->mode);
    if (operation->permits != 0)
        fprintf(history, ",\"slot\":%" PRId64 ",\"permits\":%" PRId64, operation->slot,
                operation->permits);
    fputs("}\n", history);
}

void history_close(void)
{
    fclose(history);
}
