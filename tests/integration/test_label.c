/* A label that changes (D3.9): the holder names it with a PUT, and others see it at every agent. */
#include "lines.h"

#include <string.h>

TestSuite(label, .init = lines_open_world, .fini = lines_close_world, .timeout = 90);

static struct lines *follow(const struct agent *agent, const char *key)
{
    return lines_open(agent, "GET", format("/locks/%s?watch=key", key));
}

/* A line with this holder comes, perhaps after others. Returns it. */
static const json_t *await_holder(struct lines *stream, const char *holder)
{
    const json_t *line;
    while ((line = lines_next(stream, PATIENCE_MS)) != NULL)
        if (strcmp(lines_text(line, "holder"), holder) == 0)
            return line;
    cr_assert_fail("no line of %s came; so far: %s", holder, stream->bytes);
    return NULL;
}

/* The holder that GET reports; "" if there is none. */
static const char *holder_at(const struct agent *agent, const char *key)
{
    const char *holder = string(get(agent, format("/locks/%s", key)), "holder");
    return holder == NULL ? "" : holder;
}

static bool shows(const struct agent *agent, const char *key, const char *label)
{
    return strcmp(holder_at(agent, key), label) == 0;
}

/* Renews until a quorum has confirmed it: masters of a busy machine may not answer in time. */
static const struct reply *relabel(const struct agent *agent, const char *key, const char *token,
                                   const char *parameters)
{
    const struct reply *reply = NULL;
    cr_assert(eventually((reply = renew(agent, key, token, parameters))->status != 503));
    expect(reply, 200, NULL);
    return reply;
}

/* On how many masters the value of the mutex ends with the label. */
static size_t masters_that_store(const char *key, const char *label)
{
    size_t count = 0;
    const char *end = format(":%s", label);
    for (size_t i = 0; i < master_count(); i++) {
        const char *value = master_get(i, format("lock:%s", key));
        size_t at = value == NULL ? 0 : strlen(value);
        count += at > strlen(end) && strcmp(value + at - strlen(end), end) == 0;
    }
    return count;
}

/* ---- agents and followers see it ---- */

Test(label, every_agent_shows_it_and_followers_hear_it)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *one = agent_start(NULL), *two = agent_start(NULL);
    const struct reply *grant = acquire_free(one, "job", "ttl=60s&label=starts");
    struct lines *here = follow(one, "job"), *elsewhere = follow(two, "job");
    await_holder(here, "starts");
    await_holder(elsewhere, "starts");
    const struct reply *renewed = relabel(one, "job", token(grant), "label=10.0.0.7:80");
    cr_assert_str_eq(token(renewed), token(grant));
    cr_assert_eq(number(renewed, "fencing_token"), number(grant, "fencing_token"));
    cr_assert(eventually(masters_that_store("job", "10.0.0.7:80") == 3));
    cr_assert(shows(one, "job", "10.0.0.7:80"), "%s", holder_at(one, "job"));
    cr_assert(eventually(shows(two, "job", "10.0.0.7:80")));
    cr_assert_str_eq(string(get(one, "/locks/job"), "hold.label"), "10.0.0.7:80");
    const json_t *line = await_holder(here, "10.0.0.7:80");
    cr_assert(json_is_true(json_object_get(line, "here")));
    line = await_holder(elsewhere, "10.0.0.7:80");
    cr_assert_eq(lines_count(line, "fencing_token"), number(grant, "fencing_token"));
    const struct reply *refused = expect_lock_held(two, "job", "ttl=2s");
    cr_assert_str_eq(string(refused, "holder"), "10.0.0.7:80");
    /* The next holder has its own. */
    give_back(one, "job", token(grant));
    grant = acquire_free(two, "job", "ttl=60s&label=next");
    await_holder(here, "next");
    const struct reply *late = NULL;
    cr_assert(eventually((late = renew(one, "job", token(renewed), "label=late"))->status != 503));
    expect(late, 412, "token_mismatch");
    cr_assert(shows(two, "job", "next"), "%s", holder_at(two, "job"));
    cr_assert_eq(masters_that_store("job", "late"), 0u);
}

/* Each kind and format has it. */
Test(label, readers_slots_fair_locks_and_those_of_java_change_it)
{
    masters_start(3, MASTERS_FORGETFUL);
    const struct agent_options options = {
        .extra = "policies: [{match: 'rw/*', kind: rw}, {match: 'slots/*', permits: 2},\n"
                 "  {match: 'fair/*', order: fair},\n"
                 "  {match: 'java/*', format: redisson}]\n"};
    struct agent *one = agent_start(&options), *two = agent_start(&options);
    static const struct {
        const char *key, *parameters;
    } kinds[] = {{"rw/read", "ttl=60s&label=starts&mode=read"},
                 {"rw/written", "ttl=60s&label=starts"},
                 {"slots/one", "ttl=60s&label=starts"},
                 {"fair/one", "ttl=60s&label=starts"},
                 {"java/one", "ttl=60s&label=starts"}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct reply *grant = acquire_free(one, kinds[i].key, kinds[i].parameters);
        relabel(one, kinds[i].key, token(grant), "label=leads");
        cr_assert(eventually(shows(two, kinds[i].key, "leads")), "%s: %s", kinds[i].key,
                  holder_at(two, kinds[i].key));
        /* The token is as before, here and at the other agent, which keeps the label. */
        relabel(two, kinds[i].key, token(grant), "ttl=60s");
        cr_assert(eventually(shows(one, kinds[i].key, "leads")), "%s: %s", kinds[i].key,
                  holder_at(one, kinds[i].key));
        relabel(two, kinds[i].key, token(grant), "label=drains");
        cr_assert(eventually(shows(one, kinds[i].key, "drains")), "%s: %s", kinds[i].key,
                  holder_at(one, kinds[i].key));
        give_back(two, kinds[i].key, token(grant));
    }
}

/* ---- masters that miss it, and agents that die ---- */

/* The answer says that nothing is unlocked. The agent goes on to write the label, and the masters
 * that come back get it. */
Test(label, after_a_failed_renewal_the_agent_goes_on_to_write_it)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *one = agent_start(NULL), *two = agent_start(NULL);
    const struct reply *grant = acquire_free(one, "job", "ttl=20s&renew=agent&label=starts");
    cr_assert(eventually(masters_that_store("job", "starts") == 3));
    master_freeze(1);
    master_freeze(2);
    const struct reply *failed = renew(one, "job", token(grant), "label=leads");
    expect(failed, 503, "renew_failed");
    cr_assert_gt(number(failed, "valid_for_ms"), 0);
    master_thaw(1);
    master_thaw(2);
    cr_assert(eventually(masters_that_store("job", "leads") == 3));
    cr_assert(eventually(shows(two, "job", "leads")));
    cr_assert(held_here(one, "job"));
}

Test(label, a_master_that_was_away_gets_it_with_the_next_renewal)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *one = agent_start(NULL);
    const struct reply *grant = acquire_free(one, "job", "ttl=20s&label=starts");
    cr_assert(eventually(masters_that_store("job", "starts") == 3));
    master_freeze(2);
    relabel(one, "job", token(grant), "label=leads");
    master_thaw(2);
    cr_assert(eventually(renew(one, "job", token(grant), NULL)->status == 200 &&
                         masters_that_store("job", "leads") == 3));
}

/* A master that lost the key gets it back with the label of now, also from an agent that adopted
 * the hold. */
Test(label, a_repair_by_an_agent_that_adopted_it_writes_it)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *one = agent_start(NULL), *two = agent_start(NULL);
    const struct reply *grant = acquire_free(one, "job", "ttl=4s&label=starts");
    relabel(one, "job", token(grant), "label=leads");
    cr_assert(eventually(masters_that_store("job", "leads") == 3));
    relabel(two, "job", token(grant), "ttl=4s&renew=agent");
    cr_assert_str_eq(string(get(two, "/locks/job"), "hold.label"), "leads");
    master_do(2, "DEL lock:job");
    cr_assert(eventually_within(2 * PATIENCE_MS, masters_that_store("job", "leads") == 3));
}

Test(label, a_journal_has_it)
{
    masters_start(3, MASTERS_FORGETFUL);
    struct agent *one = agent_start(
        &(struct agent_options){.extra = format("journal: {file: %s}\n", world_path("holds"))});
    const struct reply *grant = acquire_free(one, "job", "ttl=20s&renew=agent&label=starts");
    relabel(one, "job", token(grant), "label=leads");
    agent_kill(one);
    agent_restart(one);
    relabel(one, "job", token(grant), NULL);
    cr_assert(eventually(masters_that_store("job", "leads") == 3));
    cr_assert(shows(one, "job", "leads"), "%s", holder_at(one, "job"));
}

/* ---- refusals ---- */

Test(label, an_empty_one_and_a_long_one_are_refused)
{
    masters_start(1, MASTERS_FORGETFUL);
    struct agent *one = agent_start(NULL);
    const struct reply *grant = acquire_free(one, "job", "ttl=60s&label=starts");
    const struct reply *refused = renew(one, "job", token(grant), "label=");
    expect(refused, 400, NULL);
    cr_assert(strstr(string(refused, "detail"), "1 to 64 bytes") != NULL, "%s", refused->body);
    refused = renew(one, "job", token(grant), format("label=%s", repeat("a", 65)));
    expect(refused, 400, NULL);
    cr_assert(strstr(string(refused, "detail"), "64 bytes") != NULL, "%s", refused->body);
    cr_assert(shows(one, "job", "starts"), "%s", holder_at(one, "job"));
    relabel(one, "job", token(grant), format("label=%s", repeat("a", 64)));
    cr_assert(shows(one, "job", repeat("a", 64)), "%s", holder_at(one, "job"));
    expect(renew(one, "job", format("%s1", token(grant)), "label=wrong"), 412, "token_mismatch");
    cr_assert(shows(one, "job", repeat("a", 64)), "%s", holder_at(one, "job"));
}
