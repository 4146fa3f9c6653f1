/* The keys of `lockagent run`: their order, and the variable with their numbers. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/run/keys.h"

static void expect_sorted(const char *given, const char *sorted)
{
    char words[256], found[256] = "", *keys[32], *rest = words;
    size_t count = 0;
    strcpy(words, given);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        keys[count++] = word;
    count = run_keys_sort(keys, count);
    for (size_t i = 0; i < count; i++)
        strcat(strcat(found, i == 0 ? "" : " "), keys[i]);
    cr_assert_str_eq(found, sorted);
}

Test(run_keys, are_sorted_by_their_bytes)
{
    expect_sorted("a", "a");
    expect_sorted("c b a", "a b c");
    expect_sorted("b B a/b a-b a ab", "B a a-b a/b ab b");
    expect_sorted("10 9 1", "1 10 9");
    /* Bytes have no sign: UTF-8 is behind ASCII, and U+10000 behind U+FFFD. */
    expect_sorted("\xc3\xa4 z \xf0\x90\x80\x80 \xef\xbf\xbd",
                  "z \xc3\xa4 \xef\xbf\xbd \xf0\x90\x80\x80");
}

Test(run_keys, doubles_are_dropped)
{
    expect_sorted("a a", "a");
    expect_sorted("b a b a c b", "a b c");
    expect_sorted("a A ab", "A a ab");
}

static void expect_number(const char *key, uint64_t number, const char *text)
{
    char list[RUN_NUMBER_BYTES] = "";
    run_keys_add_number(list, key, number);
    cr_assert_str_eq(list, text);
}

Test(run_keys, numbers_are_written_as_in_a_url)
{
    expect_number("jobs/nightly:eu-1_x.y~z", 7, "jobs/nightly:eu-1_x.y~z=7");
    expect_number("a b=c%d", 7, "a%20b%3Dc%25d=7");
    expect_number("*?[$'\"\\;&", 7, "%2A%3F%5B%24%27%22%5C%3B%26=7");
    expect_number("\xc3\xa4", 7, "%C3%A4=7");
}

Test(run_keys, a_list_of_the_longest_has_room)
{
    char *list = calloc(2, RUN_NUMBER_BYTES), key[LIMIT_KEY_BYTES + 1];
    memset(key, ' ', LIMIT_KEY_BYTES);
    key[LIMIT_KEY_BYTES] = '\0';
    run_keys_add_number(list, key, UINT64_MAX);
    run_keys_add_number(list, key, UINT64_MAX);
    cr_assert_lt(strlen(list), 2u * RUN_NUMBER_BYTES);
    cr_assert_eq(list[strlen(list) / 2], ' ', "a blank is between the two");
    free(list);
}
