/* The layout of a group (R23), as the configuration writes it. */
#include "tests/unit/config_rig.h"

TestSuite(config_layout, .timeout = 30);

static char text[LAYOUT_BYTES + 1];

/* Loads `groups` and `policies`, and returns the layout of the first group. */
static const char *layout_of(const char *groups, const char *policies)
{
    char yaml[8192];
    struct layout layout;
    snprintf(yaml, sizeof(yaml), "redis: {groups: {%s}}\n%s", groups, policies);
    expect_ok(load_text(yaml, &config));
    size_t len = config_layout(&config, 0, text);
    cr_assert_eq(len, strlen(text));
    cr_assert(layout_parse((struct text){text, len}, &layout), "%s", text);
    return text;
}

#define ONE "main: {masters: [redis://a:1, redis://b:1, redis://c:1]}"
#define MASTERS " a:1/0 b:1/0 c:1/0"
#define POLICIES(list) "policies: [" list "]\n"

static void expect_layout(const char *groups, const char *policies, const char *expected)
{
    cr_expect_str_eq(layout_of(groups, policies), expected);
}

Test(config_layout, r23_masters_are_sorted_by_their_names)
{
    expect_layout(ONE, "", "w2 2 lock:=mutex" MASTERS);
    expect_layout("main: {masters: [redis://c:1, redis://A:1, redis://b:1]}", "",
                  "w2 2 lock:=mutex" MASTERS);
    expect_layout("main: {db: 3, masters: ['redis://[::1]', redis://b:1/0, unix:/Run/x?db=1]}", "",
                  "w2 2 lock:=mutex [::1]:6379/3 b:1/0 unix:/Run/x/1");
}

/* R23: "or the fragment of the URL". */
Test(config_layout, r23_a_fragment_is_the_name_of_the_master)
{
    expect_layout("main: {masters: ['rediss://a.example:6380#A:1', redis://b:1, 'unix:/s#c:1']}",
                  "", "w2 2 lock:=mutex" MASTERS);
    expect_layout("main: {masters: ['redis://x:1/7#main-1']}", "", "w2 1 lock:=mutex main-1/7");
}

Test(config_layout, r23_a_fragment_is_kept_when_the_configuration_is_printed)
{
    layout_of("main: {masters: ['rediss://u:p@a:6380/2#redis-1', 'unix:/s?db=1#redis-2']}", "");
    char *printed = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&printed, &len);
    config_print(&config, out);
    fclose(out);
    cr_expect_not_null(strstr(printed, "a:6380/2#redis-1"), "%s", printed);
    cr_expect_not_null(strstr(printed, "unix:/s?db=1#redis-2"), "%s", printed);
    free(printed);
}

/* R23: kind, permits, order, format, algorithm and the matches must agree. */
Test(config_layout, r23_policies_are_what_agents_must_agree_on)
{
    expect_layout(ONE, POLICIES("{match: '*', kind: rw}"), "w2 2 lock:=rw" MASTERS);
    expect_layout(ONE, POLICIES("{match: '*', permits: 3}"), "w2 2 lock:=permits-3" MASTERS);
    expect_layout(ONE, POLICIES("{match: '*', order: fair}"), "w2 2 lock:=mutex+fair" MASTERS);
    expect_layout(ONE, POLICIES("{match: '*', format: redisson}"),
                  "w2 2 lock:=mutex+redisson" MASTERS);
    expect_layout(ONE, POLICIES("{match: '*', algorithm: multilock}"),
                  "w2 3 lock:=mutex+multilock" MASTERS);
    expect_layout("main: {masters: [redis://a:1]}", POLICIES("{match: '*', algorithm: single}"),
                  "w2 1 lock:=mutex+single a:1/0");
    expect_layout(ONE, POLICIES("{match: 'a*', permits: 2}, {match: 'b c', kind: rw}"),
                  "w2 2 lock:=a*~permits-2;b%20c~rw;*~mutex" MASTERS);
}

Test(config_layout, r23_policies_that_make_no_difference_are_left_out)
{
    expect_layout(ONE, POLICIES("{match: 'a*', ttl: 5s}, {match: 'b*', max_hold: 1h}"),
                  "w2 2 lock:=mutex" MASTERS);
    expect_layout(ONE, POLICIES("{match: 'a*', kind: rw}, {match: 'b*', ttl: 5s}"),
                  "w2 2 lock:=a*~rw;*~mutex" MASTERS);
    /* This one does: without it `ab` would be a semaphore. */
    expect_layout(ONE, POLICIES("{match: 'ab'}, {match: 'a*', permits: 2}"),
                  "w2 2 lock:=ab~mutex;a*~permits-2;*~mutex" MASTERS);
}

/* Their matches are all that covers a key, so none makes another one needless. */
Test(config_layout, r23_policies_that_say_the_same_are_kept_if_none_covers_all_keys)
{
    const char *both = layout_of(ONE, POLICIES("{match: 'a*', prefix: 's:', permits: 3}, "
                                               "{match: 'b*', prefix: 's:', permits: 3}, "
                                               "{match: '*'}"));
    cr_expect_not_null(strstr(both, "a*"), "%s", both);
    cr_expect_not_null(strstr(both, "b*"), "%s", both);
}

Test(config_layout, r23_each_prefix_has_its_own_policies)
{
    expect_layout(ONE, POLICIES("{match: 'a*', prefix: 'z=', kind: rw}, {match: 'b*', prefix: ''}"),
                  "w2 2 =b*~mutex,lock:=mutex,z%3D=a*~rw" MASTERS);
}

/* R23: if the keys of a prefix are in several groups, their groups must agree. */
Test(config_layout, r23_the_spread_over_groups_is_part_of_the_layout)
{
    static const char two[] = ONE ", other: {masters: [redis://d:1]}";
    expect_layout(two, POLICIES("{match: 'a*', group: other}"),
                  "w2 2 lock:=a*~mutex@other;*~mutex@main!main" MASTERS);
    /* The quorum is that of the policies which use the group. */
    expect_layout(two, POLICIES("{match: 'a*', group: other}, {match: '*', algorithm: multilock}"),
                  "w2 3 lock:=a*~mutex@other;*~mutex+multilock@main!main" MASTERS);
    expect_layout(two, POLICIES("{match: '*', groups: [other, main]}"),
                  "w2 2 lock:=mutex@main@other!main" MASTERS);
    expect_layout(two, POLICIES("{match: 'a*', group: other, prefix: 'o:'}"),
                  "w2 2 lock:=mutex" MASTERS);
}

/* R23: a group that shares a prefix with a refused one takes no new locks either. */
Test(config_layout, r23_groups_that_share_a_prefix_are_known)
{
    static const char three[] = ONE ", other: {masters: [redis://d:1]}, "
                                    "third: {masters: [redis://e:1]}";
    layout_of(three,
              POLICIES("{match: 'a*', group: other}, {match: 'b*', group: third, prefix: x}"));
    cr_expect_eq(config_group_kin(&config, 0), 3);
    cr_expect_eq(config_group_kin(&config, 1), 3);
    cr_expect_eq(config_group_kin(&config, 2), 4);
}

Test(config_layout, r23_long_policies_are_replaced_by_a_hash)
{
    char policies[4096] = "policies: [", pattern[400], first[LAYOUT_BYTES + 1];
    memset(pattern, 'p', sizeof(pattern));
    snprintf(policies, sizeof(policies), "policies: [{match: '%.*s', kind: rw}]\n", 399, pattern);
    strcpy(first, layout_of(ONE, policies));
    cr_expect(strlen(first) < 80 && strstr(first, "lock:=~") != NULL, "%s", first);
    snprintf(policies, sizeof(policies), "policies: [{match: '%.*s', kind: rw}]\n", 398, pattern);
    cr_expect_str_neq(first, layout_of(ONE, policies));
}

Test(config_layout, r23_a_layout_that_is_too_long_is_refused)
{
    static char yaml[32768];
    size_t len = (size_t)snprintf(yaml, sizeof(yaml), "redis: {groups: {" ONE "}}\npolicies:\n");
    for (unsigned i = 0; i < 60; i++)
        len += (size_t)snprintf(yaml + len, sizeof(yaml) - len,
                                "  - {match: 'm%u', prefix: '%0100u:'}\n", i, i);
    cr_assert_not(load_text(yaml, &config));
    char *said = messages();
    cr_expect_not_null(strstr(said, "have more than 4096 bytes together; allowed: "), "%s", said);
    free(said);
}

/* R23: the two groups of one agent would refuse each other on c. */
Test(config_layout, r23_a_master_of_two_groups_is_refused_if_they_share_a_prefix)
{
    static const char groups[] =
        "redis: {groups: {" ONE ", extra: {masters: [redis://c:1, redis://d:1, redis://e:1]}}}\n";
    static const struct {
        const char *extra;
        bool fine;
    } cases[] = {{"group: extra", false}, {"group: extra, prefix: 'x:'", true}};
    for (size_t i = 0; i < 2; i++) {
        char yaml[1024];
        snprintf(yaml, sizeof(yaml),
                 "%spolicies: [{match: 'x/*', %s}, {match: '*', group: main}]\n", groups,
                 cases[i].extra);
        cr_assert_eq(load_text(yaml, &config), cases[i].fine, "%s", yaml);
        char *said = messages();
        cr_expect_eq(strstr(said, "as well, and both groups have locks with the same prefix") ==
                         NULL,
                     cases[i].fine, "%s", said);
        free(said);
    }
}

/* R23: a group that no policy uses registers no layout, so it refuses no other one. Its text has
 * the prefix `-`, which a policy of another group may have. */
Test(config_layout, r23_a_group_without_policies_refuses_no_other_one)
{
    expect_ok(load_text("redis: {groups: {" ONE ", spare: {masters: [redis://c:1]}}}\n"
                        "policies: [{match: '*', prefix: '-', group: main}]\n",
                        &config));
}

Test(config_layout, r23_a_group_without_policies_has_a_layout)
{
    expect_layout("idle: {masters: [redis://a:1]}, main: {masters: [redis://b:1]}", "",
                  "w2 1 -=- a:1/0");
}

/* Another name is another layout, which a reload must not bring in. */
Test(config_layout, r23_a_name_needs_a_restart)
{
    expect_ok(load_text("redis: {groups: {main: {masters: ['redis://a:1#x']}}}\n", &config));
    cr_assert_not(
        load_next(&config, "redis: {groups: {main: {masters: ['redis://a:1#y']}}}\n", &other));
    char *said = messages();
    cr_expect_not_null(strstr(said, "needs a restart"), "%s", said);
    free(said);
}
