/* Numbers that no agent granted, in a master's buckets (R12). */
#include "master.h"

#include <stdio.h>
#include <string.h>

void master_plant(struct world *w, uint8_t index, uint8_t key, uint64_t number, bool lies)
{
    const char *bucket = master_stored_name(KIND_NUMBER, key).at;
    char digits[RESP_DIGITS_MAX + 1];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    const char *const words[] = {"ZADD", bucket, digits, "n"};
    master_put(w, index, words, sizeof words / sizeof words[0]);
    for (uint8_t i = 0; i < SIM_NAMES; i++) {
        bool shares = strcmp(master_stored_name(KIND_NUMBER, i).at, bucket) == 0;
        w->masters[index].keys[i].planted |= shares;
        w->masters[index].keys[i].lies |= shares && lies;
    }
}

void master_raise(struct world *w, uint8_t index, uint8_t key, uint64_t number)
{
    char digits[RESP_DIGITS_MAX + 1];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    const char *const words[] = {"ZADD", master_stored_name(KIND_NUMBER, key).at, "GT", digits,
                                 "n"};
    master_put(w, index, words, sizeof words / sizeof words[0]);
}
