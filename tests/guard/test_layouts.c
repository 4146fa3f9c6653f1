/* Layouts: agents that disagree refuse each other (R23). */
#include <inttypes.h>

#include "tests/guard/rig.h"

TestSuite(guard_layouts, .init = break_script, .fini = close_rig);

#define OURS "w2 2 lock:=mutex a:1/0 b:1/0 c:1/0"
#define APART "w2 2 lock:=mutex a:1/0 d:1/0 e:1/0"
#define NEXT "w2 3 lock:=mutex a:1/0 b:1/0 c:1/0 d:1/0"
#define OTHER_PERMITS "w2 2 lock:=permits-3 a:1/0 b:1/0 c:1/0"

enum { SILENCE_MS = 1000, TIMEOUT_MS = 300 };
enum { FRESH_MS = 6000 + SILENCE_MS, KEEP_MS = MAX_TTL_MS + FRESH_MS + TIMEOUT_MS + 6000 };

/* ---- the text ---- */

static bool parses(const char *text)
{
    struct layout layout;
    return layout_parse((struct text){text, strlen(text)}, &layout);
}

Test(guard_layouts, r23_a_text_is_a_layout_or_is_refused)
{
    static const char *const good[] = {OURS, NEXT, "w12 1 =rw a:1/0", "w2 1 a=mutex,b=rw+fair x",
                                       "w2 1 lock:=a-*~rw;*~mutex@g@h!g x"};
    static const char *const bad[] = {"",
                                      "w1",
                                      "w2 2",
                                      "w2 2 lock:=mutex",
                                      "w2 2 lock:=mutex ",
                                      "w0 2 lock:=mutex a b c",
                                      "w 2 lock:=mutex a b c",
                                      "w123 2 lock:=mutex a b c",
                                      "x1 2 lock:=mutex a b c",
                                      "w2 0 lock:=mutex a b c",
                                      "w2 4 lock:=mutex a b c",
                                      "w2 -1 lock:=mutex a b c",
                                      "w2 2 lock: a b c",
                                      "w2 2 lock:= a b c",
                                      "w2 2 b=mutex,a=mutex a b c",
                                      "w2 2 a=mutex,a=mutex a b c",
                                      "w2 2 lock:=mutex b a c",
                                      "w2 2 lock:=mutex a a c",
                                      "w2 2 lock:=mutex a  c",
                                      "w2 1 l=m 1 2 3 4 5 6 7 8 9 a b c d e f g"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_assert(parses(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_not(parses(bad[i]), "%s", bad[i]);
    static char endless[LAYOUT_BYTES + 2];
    memset(endless, 'a', sizeof(endless) - 1);
    memcpy(endless, "w2 1 l=m ", 9);
    cr_assert_not(parses(endless));
    endless[LAYOUT_BYTES] = '\0';
    cr_assert(parses(endless));
}

/* A name that changed between builds would make a layout unknown to itself. */
Test(guard_layouts, r23_the_name_of_a_layout_never_changes)
{
    char name[LAYOUT_NAME_BYTES];
    layout_name((struct text){"", 0}, name);
    cr_assert_str_eq(name, "cbf29ce484222325");
    layout_name((struct text){OURS, strlen(OURS)}, name);
    cr_assert_str_eq(name, "7237d023b8b9b085");
    cr_assert_eq(LAYOUT_WIRE, 2, "raised: docs/upgrades.md says what may be mixed");
}

/* Writes a layout whose masters are the bits of `set`. */
static struct text layout_of(char text[128], unsigned set, unsigned quorum, const char *prefixes)
{
    int len = snprintf(text, 128, "w2 %u %s", quorum, prefixes);
    for (unsigned m = 0; m < 5; m++)
        if (set >> m & 1)
            len += snprintf(text + len, 128 - (size_t)len, " %c", (int)('a' + m));
    return (struct text){text, (size_t)len};
}

/* True if every quorum of one meets every quorum of the other, by trying all. */
static bool all_meet(unsigned a, unsigned quorum_a, unsigned b, unsigned quorum_b)
{
    for (unsigned of_a = 0; of_a < 32; of_a++)
        for (unsigned of_b = 0; of_b < 32; of_b++)
            if ((of_a & ~a) == 0 && (of_b & ~b) == 0 && (of_a & of_b) == 0 &&
                (unsigned)__builtin_popcount(of_a) == quorum_a &&
                (unsigned)__builtin_popcount(of_b) == quorum_b)
                return false;
    return true;
}

/* R23: "every quorum of one meets every quorum of the other", for all 6,400 pairs of layouts of up
 * to five masters with every quorum. */
Test(guard_layouts, r23_neighbours_are_those_whose_quorums_meet)
{
    unsigned pairs = 0, neighbours = 0;
    for (unsigned a = 1; a < 32; a++)
        for (unsigned b = 1; b < 32; b++)
            for (unsigned qa = 1; qa <= (unsigned)__builtin_popcount(a); qa++)
                for (unsigned qb = 1; qb <= (unsigned)__builtin_popcount(b); qb++) {
                    char text_a[128], text_b[128];
                    struct layout one, other;
                    cr_assert(layout_parse(layout_of(text_a, a, qa, "l=m"), &one));
                    cr_assert(layout_parse(layout_of(text_b, b, qb, "l=m"), &other));
                    bool meet = layout_compare(&one, &other) == LAYOUT_NEIGHBOURS;
                    cr_assert_eq(meet, all_meet(a, qa, b, qb), "%s | %s", text_a, text_b);
                    pairs++;
                    neighbours += meet;
                }
    cr_assert_eq(pairs, 6400u);
    cr_assert(neighbours > 1000 && neighbours < 6000);
}

static enum layout_conflict conflict_of(const char *a, const char *b)
{
    struct layout one, other;
    cr_assert(layout_parse((struct text){a, strlen(a)}, &one));
    cr_assert(layout_parse((struct text){b, strlen(b)}, &other));
    enum layout_conflict conflict = layout_compare(&one, &other);
    cr_assert_eq(layout_compare(&other, &one), conflict);
    return conflict;
}

Test(guard_layouts, r23_layouts_that_share_a_prefix_must_agree)
{
    cr_assert_eq(conflict_of(OURS, OURS), LAYOUT_NEIGHBOURS);
    cr_assert_eq(conflict_of(OURS, NEXT), LAYOUT_NEIGHBOURS);
    cr_assert_eq(conflict_of(OURS, APART), LAYOUT_OTHER_MASTERS);
    cr_assert_eq(conflict_of(OURS, OTHER_PERMITS), LAYOUT_OTHER_POLICIES);
    cr_assert_eq(conflict_of(OURS, "w1 2 lock:=mutex a:1/0 b:1/0 c:1/0"), LAYOUT_OTHER_WIRE);
    cr_assert_eq(conflict_of("w1 1 b=m a", "w2 1 a=n,c=x d"), LAYOUT_NEIGHBOURS, "no prefix");
    cr_assert_eq(conflict_of("w2 1 a=m,b=m a", "w2 1 b=m,c=n a"), LAYOUT_NEIGHBOURS);
    cr_assert_eq(conflict_of("w2 1 a=m,b=m a", "w2 1 b=n,c=n a"), LAYOUT_OTHER_POLICIES);
    cr_assert_eq(conflict_of("w2 1 a=m,b=m a", "w2 1 b=m,c=n d"), LAYOUT_OTHER_MASTERS);
}

/* ---- two agents ---- */

static void has_layout(unsigned a, const char *text)
{
    guard_set_layout(&rig.agents[a].guard, (struct text){text, strlen(text)}, SILENCE_MS,
                     TIMEOUT_MS);
}

static enum guard_gate gate(unsigned a)
{
    return guard_gate(&rig.agents[a].guard, (struct instant){rig.now_ms * 1000});
}

/* Three old masters, and two agents with these layouts. Agent 0 has met all. */
static void open_layouts(const char *ours, const char *theirs)
{
    open_old_group(3, true);
    for (unsigned m = 0; m < 3; m++)
        loses(0, m);
    has_layout(0, ours);
    has_layout(1, theirs);
    for (unsigned m = 0; m < 3; m++)
        meet(0, m);
    settle(0);
}

static void meets_all(unsigned a)
{
    for (unsigned m = 0; m < 3; m++)
        meet(a, m);
    settle(a);
}

/* Time passes for both, and their questions are answered. */
static void both_live(int64_t ms)
{
    for (int64_t at = 0; at < ms; at += 50)
        for (unsigned a = 0; a < 2; a++) {
            passes(a, a == 0 ? 50 : 0);
            settle(a);
        }
}

Test(guard_layouts, r23_a_lone_agent_is_let_in_by_its_greetings)
{
    open_old_group(3, true);
    has_layout(1, OURS);
    cr_assert_eq(gate(1), GUARD_LISTENS);
    meet(1, 0);
    meet(1, 1);
    cr_assert_eq(gate(1), GUARD_LISTENS, "master 2 has not been tried");
    cr_assert_str_empty(vote_of(1, 0));
    meet(1, 2);
    cr_assert_eq(gate(1), GUARD_OPEN);
    cr_assert_str_not_empty(vote_of(1, 0));
    for (unsigned m = 0; m < 3; m++)
        cr_assert_not(is_asked(1, m), "one question is enough");
}

Test(guard_layouts, r23_a_master_that_can_not_be_reached_is_not_waited_for)
{
    open_old_group(3, true);
    has_layout(1, OURS);
    meet(1, 0);
    meet(1, 1);
    loses(1, 2);
    cr_assert_eq(gate(1), GUARD_OPEN);
}

Test(guard_layouts, r23_a_master_that_is_silent_from_the_start_is_waited_for_a_second)
{
    open_old_group(3, true);
    has_layout(1, OURS);
    meet(1, 0);
    meet(1, 1);
    lives(1, 990);
    settle(1);
    cr_assert_eq(gate(1), GUARD_LISTENS);
    passes(1, 20);
    settle(1);
    cr_assert_eq(gate(1), GUARD_OPEN);
}

/* R23: "the whole group takes no new locks", also at masters that do not disagree. */
Test(guard_layouts, r23_one_master_that_disagrees_closes_the_whole_group)
{
    open_layouts(OURS, APART);
    loses(0, 1);
    loses(0, 2);
    flush(1);
    flush(2);
    meets_all(1);
    cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
    for (unsigned m = 0; m < 3; m++)
        cr_assert_str_empty(vote_of(1, m));
    both_live(3000);
    cr_assert_eq(gate(0), GUARD_OPEN, "the first one stays");
    cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
    meet(0, 1);
    meet(0, 2);
    settle(0);
    cr_assert_eq(gate(0), GUARD_OPEN, "the refused one has noted nothing there");
}

Test(guard_layouts, r23_other_permits_are_refused)
{
    open_layouts(OURS, OTHER_PERMITS);
    meets_all(1);
    cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
    cr_assert_eq(gate(0), GUARD_OPEN);
}

Test(guard_layouts, r23_neighbours_are_let_in_and_never_close_each_other)
{
    open_layouts(OURS, NEXT);
    meets_all(1);
    cr_assert_eq(gate(1), GUARD_OPEN);
    for (unsigned i = 0; i < 40; i++) {
        both_live(100);
        cr_assert_eq(gate(0), GUARD_OPEN);
        cr_assert_eq(gate(1), GUARD_OPEN);
    }
}

/* Agent 0 was noted, and its entries fall due to be written anew. A new neighbour is at work by
 * now, which its question does not name yet. */
static void meets_a_new_neighbour(void)
{
    enum { DUE_MS = 5100 };
    open_layouts(OURS, NEXT);
    meets_all(1);
    cr_assert_eq(gate(1), GUARD_OPEN);
    rig.now_ms += DUE_MS;
    passes(0, 0);
    for (unsigned m = 0; m < 3; m++) {
        returns(0, m);
        cr_assert_not(rig.agents[0].guard.masters[m].noted, "master %u", m);
        cr_assert_eq(gate(0), GUARD_OPEN, "master %u", m);
        cr_assert_str_not_empty(vote_of(0, m));
    }
}

/* R23: "A later answer that names new neighbours, and no other layout, takes nothing back." */
Test(guard_layouts, r23_a_new_neighbour_does_not_close_the_group)
{
    meets_a_new_neighbour();
    settle(0);
    for (unsigned m = 0; m < 3; m++)
        cr_assert(rig.agents[0].guard.masters[m].noted, "master %u", m);
    cr_assert_eq(gate(0), GUARD_OPEN);
}

/* R23: the earlier answer counts no longer than it would have counted. */
Test(guard_layouts, r23_new_neighbours_make_no_answer_count_for_longer)
{
    meets_a_new_neighbour();
    int64_t noted_ms = rig.agents[0].guard.masters[0].noted_until.us / 1000;
    cr_assert_eq(noted_ms, 1000 + FRESH_MS, "the greeting was asked then");
    rig.now_ms = noted_ms - 1;
    cr_assert_eq(gate(0), GUARD_OPEN);
    rig.now_ms = noted_ms;
    cr_assert_eq(gate(0), GUARD_LISTENS);
}

/* A refused agent is let in by itself when the other layout has not asked for as long as it is
 * kept, which is after every lease that it took. */
Test(guard_layouts, r23_the_other_layout_is_forgotten_when_its_leases_are_over)
{
    open_layouts(OURS, APART);
    meets_all(1);
    for (unsigned m = 0; m < 3; m++)
        loses(0, m);
    lives(1, KEEP_MS - 1500);
    cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
    lives(1, FRESH_MS + 2500);
    cr_assert_eq(gate(1), GUARD_OPEN);
    meets_all(0);
    cr_assert_eq(gate(0), GUARD_REFUSED_BY_LAYOUT, "now the other one stays");
}

/* R23: A layout is noted for max_ttl, F, node_timeout and 6 s. So the note at the time of an
 * acquire lasts longer than the lock. */
Test(guard_layouts, r23_a_layout_outlives_the_leases_that_it_took)
{
    open_layouts(OURS, APART);
    for (unsigned i = 0; i < 2 * KEEP_MS / 100; i++) {
        both_live(100);
        cr_assert_eq(gate(0), GUARD_OPEN, "%u", i);
    }
    for (unsigned m = 0; m < 3; m++)
        loses(0, m); /* It asked for its last lock a moment ago, or F ago by an old answer. */
    meets_all(1);
    lives(1, MAX_TTL_MS + TIMEOUT_MS);
    cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
}

/* Gives agent 0 the layout with the greater name, and agent 1 the other one. */
static void have_layouts_by_name(void)
{
    char ours[LAYOUT_NAME_BYTES], apart[LAYOUT_NAME_BYTES];
    layout_name((struct text){OURS, strlen(OURS)}, ours);
    layout_name((struct text){APART, strlen(APART)}, apart);
    bool ours_is_greater = strcmp(ours, apart) > 0;
    open_old_group(3, true);
    for (unsigned m = 0; m < 3; m++)
        loses(0, m);
    has_layout(0, ours_is_greater ? OURS : APART);
    has_layout(1, ours_is_greater ? APART : OURS);
}

/* R23: "So the layout with the greater name remembers the other one for F longer." Agent 0 always
 * asks first. */
Test(guard_layouts, r23_of_two_that_start_at_once_one_is_let_in)
{
    have_layouts_by_name();
    meet(0, 0);
    meet(1, 1);
    for (unsigned m = 0; m < 3; m++) {
        if (m != 0)
            meet(0, m);
        if (m != 1)
            meet(1, m);
    }
    cr_assert_eq(gate(0), GUARD_REFUSED_BY_LAYOUT);
    cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
    both_live(KEEP_MS + 1000);
    cr_assert_eq(gate(0), GUARD_REFUSED_BY_LAYOUT);
    cr_assert_eq(gate(1), GUARD_OPEN);
    both_live(2 * KEEP_MS);
    cr_assert_eq(gate(0), GUARD_REFUSED_BY_LAYOUT);
    cr_assert_eq(gate(1), GUARD_OPEN);
}

/* A refused agent notes nothing: otherwise it would keep away the layout that was there first. */
Test(guard_layouts, r23_a_refused_agent_keeps_nobody_away)
{
    open_layouts(OURS, APART);
    meets_all(1);
    both_live(2 * KEEP_MS);
    cr_assert_eq(gate(0), GUARD_OPEN);
    for (unsigned m = 0; m < 3; m++)
        loses(0, m);
    both_live(1000);
    meets_all(0);
    cr_assert_eq(gate(0), GUARD_OPEN);
}

/* A master that is flushed has forgotten both. The refused agent asks first, and remembers. */
Test(guard_layouts, r23_a_flush_does_not_let_the_wrong_agent_in)
{
    open_layouts(OURS, APART);
    meets_all(1);
    for (unsigned m = 0; m < 3; m++)
        flush(m);
    for (unsigned i = 0; i < 20; i++) {
        passes(1, 50);
        settle(1);
        cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
    }
    settle(0);
    both_live(2 * KEEP_MS);
    cr_assert_eq(gate(0), GUARD_OPEN);
    cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
}

/* R23: "a question that was asked within F": an agent that was stopped may have been replaced. */
Test(guard_layouts, r23_an_idle_group_stays_open)
{
    open_layouts(OURS, OURS);
    lives(0, MAX_TTL_MS + 1000);
    for (unsigned i = 0; i < 600; i++) {
        rig.now_ms += 100;
        if (!instant_before((struct instant){rig.now_ms * 1000},
                            guard_deadline(&rig.agents[0].guard)))
            passes(0, 0);
        if (i % 10 == 9) /* Each answer takes as long as a master may be silent. */
            settle(0);
        cr_assert_eq(gate(0), GUARD_OPEN, "%u", i);
    }
}

/* R23: "a question that was sent within the last F": the answer may be late, or read late. */
Test(guard_layouts, r23_an_answer_counts_from_its_question)
{
    open_layouts(OURS, APART);
    passes(0, 1000);
    for (unsigned m = 0; m < 3; m++) {
        cr_assert(is_asked(0, m));
        arrives(0, m);
    }
    rig.now_ms += 3000;
    for (unsigned m = 0; m < 3; m++)
        returns(0, m);
    rig.now_ms += FRESH_MS - 3000 - 100;
    cr_assert_eq(gate(0), GUARD_OPEN);
    rig.now_ms += 200;
    cr_assert_eq(gate(0), GUARD_LISTENS);
}

Test(guard_layouts, r23_an_answer_counts_for_a_short_time)
{
    open_layouts(OURS, APART);
    rig.now_ms += FRESH_MS - 100;
    cr_assert_eq(gate(0), GUARD_OPEN);
    rig.now_ms += 200;
    cr_assert_eq(gate(0), GUARD_LISTENS);
    cr_assert_str_empty(vote_of(0, 0));
}

/* Its connection to the master that would disagree was lost meanwhile, and is not made anew yet. */
Test(guard_layouts, r23_an_agent_that_was_stopped_listens_to_all_masters_anew)
{
    open_layouts(OURS, APART);
    loses(0, 2);
    cr_assert_eq(gate(0), GUARD_OPEN);
    rig.now_ms += 2 * KEEP_MS;
    meets_all(1);
    passes(0, 0);
    settle(0);
    cr_assert_neq(gate(0), GUARD_OPEN);
    flush(0);
    flush(1); /* Now only master 2 knows. */
    rig.now_ms += 2 * KEEP_MS;
    loses(1, 0);
    loses(1, 1);
    loses(1, 2);
    meet(1, 2);
    rig.now_ms += 100;
    passes(0, 0);
    returns(0, 0);
    returns(0, 1);
    cr_assert_eq(gate(0), GUARD_LISTENS, "master 2 has not been tried since");
    meet(0, 2);
    cr_assert_eq(gate(0), GUARD_REFUSED_BY_LAYOUT);
}

/* Its greeting of master 2 was in flight, or the answer is there and unread. */
Test(guard_layouts, r23_an_agent_that_is_stopped_while_it_listens_begins_anew)
{
    open_layouts(OURS, APART);
    flush(0), flush(1); /* Now only master 2 knows. */
    meet(1, 0), meet(1, 1);
    settle(1);
    cr_assert_eq(gate(1), GUARD_LISTENS);
    passes(1, 3500);
    cr_assert_eq(gate(1), GUARD_LISTENS, "master 2 has not been tried");
    lives(1, 900);
    cr_assert_eq(gate(1), GUARD_LISTENS);
    lives(1, 200);
    cr_assert_eq(gate(1), GUARD_OPEN, "it has listened");
}

/* Names are being resolved, or its masters are silent. A group with the same prefix waits for
 * it. */
Test(guard_layouts, r23_an_agent_that_reaches_no_master_listens_for_a_second)
{
    open_layouts(OURS, OURS);
    cr_assert_eq(gate(1), GUARD_LISTENS);
    lives(1, 900);
    cr_assert_eq(gate(1), GUARD_LISTENS);
    lives(1, 200);
    cr_assert_eq(gate(1), GUARD_OPEN);
}

/* A master that refuses its marker notes nothing. It gets no vote of this agent's, and the others
 * need not wait for it. */
Test(guard_layouts, r23_a_master_that_can_not_note_is_not_used)
{
    open_old_group(3, true);
    has_layout(1, OURS);
    meet(1, 0);
    meet(1, 1);
    greets(1, 2, false);
    is_refused(1, 2);
    is_ready(1, 2);
    cr_assert_eq(gate(1), GUARD_OPEN);
    cr_assert_str_empty(vote_of(1, 2));
    passes(1, 900);
    settle(1);
    cr_assert_str_not_empty(vote_of(1, 2));
}

/* ---- hostile entries ---- */

static void store(unsigned m, const char *name, const char *value)
{
    const struct bytes set[] = {{"HSET", 4},
                                {LAYOUTS_KEY, strlen(LAYOUTS_KEY)},
                                {name, strlen(name)},
                                {value, strlen(value)}};
    keyspace_command(rig.keys[m], set, 4);
}

static void store_layout_of(unsigned a, unsigned m, int64_t left_ms)
{
    const struct guard_register *layouts = &rig.agents[a].guard.layouts;
    char value[LAYOUT_BYTES + 50];
    snprintf(value, sizeof(value), "%" PRId64 " %" PRId64 " %.*s", wall_ms(m) + left_ms, left_ms,
             (int)layouts->text.len, layouts->text.at);
    store(m, layouts->name, value);
}

/* R23: an agent remembers the other layout for as long as any master does. It notes nothing before
 * that, also at masters that have forgotten it earlier. */
Test(guard_layouts, r23_the_master_that_remembers_longest_counts)
{
    have_layouts_by_name();
    store_layout_of(0, 0, 9000);
    store_layout_of(0, 1, 1000);
    meets_all(1);
    lives(1, 6000);
    cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
    meets_all(0);
    cr_assert_eq(gate(0), GUARD_OPEN);
}

/* The agent lives on for 10 s, in which the master refuses all its questions. */
static void refuses_questions(unsigned a, unsigned m)
{
    for (unsigned turns = 0; turns < 100; turns++) {
        passes(a, 100);
        if (is_asked(a, m)) {
            rig.agents[a].asked[m].open = false;
            tell(a, (struct guard_event){.kind = GUARD_UNANSWERED, .master = (uint8_t)m});
        }
        settle(a);
        cr_assert_eq(gate(a), GUARD_OPEN, "%u", turns);
    }
}

/* R23: "One that refuses the question is excepted." It may do so at any time. */
Test(guard_layouts, r23_a_master_that_begins_to_refuse_the_question_closes_nothing)
{
    open_old_group(3, true);
    has_layout(1, OURS);
    meets_all(1);
    refuses_questions(1, 2);
    cr_assert_str_not_empty(vote_of(1, 0));
    cr_assert_str_empty(vote_of(1, 2));
    passes(1, 1000);
    settle(1);
    cr_assert_str_not_empty(vote_of(1, 2));
}

/* R23: the state that is shown agrees with the vote that is sent. */
Test(guard_layouts, r23_a_master_that_refuses_the_question_is_shown_without_a_vote)
{
    open_old_group(3, true);
    has_layout(1, OURS);
    meets_all(1);
    cr_assert_eq(state(1, 2), GUARD_VOTES);
    refuses_questions(1, 2);
    cr_assert_eq(state(1, 0), GUARD_VOTES);
    cr_assert_eq(left_ms(1, 0), 0);
    cr_assert_eq(state(1, 2), GUARD_UNNOTED);
    cr_assert_eq(left_ms(1, 2), -1);
    cr_assert_str_empty(vote_of(1, 2));
    passes(1, 1000);
    settle(1);
    cr_assert_eq(state(1, 2), GUARD_VOTES);
    cr_assert_eq(left_ms(1, 2), 0);
    cr_assert_str_not_empty(vote_of(1, 2));
}

Test(guard_layouts, r23_entries_that_are_none_are_removed)
{
    static const char *const values[] = {"", "x", "-5 100 w1", "99999999999999999999 -1 x",
                                         ("1 1 " OURS)};
    open_old_group(3, true);
    has_layout(1, OURS);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char name[8];
        snprintf(name, sizeof(name), "n%zu", i);
        store(0, name, values[i]);
    }
    meets_all(1);
    cr_assert_eq(gate(1), GUARD_OPEN);
}

/* A clock that was set back must not keep a layout forever. */
Test(guard_layouts, r23_a_huge_time_is_an_end_all_the_same)
{
    char value[200];
    open_old_group(3, true);
    has_layout(1, OURS);
    snprintf(value, sizeof(value), "99999999999999 5000 %s", APART);
    store(0, "apart", value);
    meets_all(1);
    cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
    cr_assert(rig.agents[1].guard.layouts.refused_until.us <=
              (rig.now_ms + 5000 + FRESH_MS) * 1000);
}

/* A text that no build reads is of agents that this one knows nothing about. */
Test(guard_layouts, r23_a_text_that_is_no_layout_is_no_neighbour)
{
    char value[100];
    open_old_group(3, true);
    has_layout(1, OURS);
    snprintf(value, sizeof(value), "%lld 60000 hello", (long long)wall_ms(0) + 60000);
    store(0, "strange", value);
    meets_all(1);
    cr_assert_eq(gate(1), GUARD_REFUSED_BY_LAYOUT);
    cr_assert_eq(gate(0), GUARD_OPEN, "it compares none");
}

/* R23: "then it keeps the entries that it has". Agent 0 was at work first, and was away from master
 * 2 when agent 1 came. Agent 1 is not let in while the holds of agent 0 are renewed. */
Test(guard_layouts, r23_a_refused_layout_with_holds_stays_registered)
{
    have_layouts_by_name();
    meets_all(0);
    loses(0, 2);
    for (unsigned i = 0; i < KEEP_MS / 500 + 4; i++) {
        uses(0, MAX_TTL_MS);
        lives(0, 500);
    }
    for (unsigned m = 0; m < 3; m++) { /* It asks all before the first answer. */
        greets(1, m, false);
        arrives(1, m);
    }
    for (unsigned m = 0; m < 3; m++) {
        returns(1, m);
        is_ready(1, m);
    }
    meet(0, 2);
    settle(0);
    cr_assert_eq(gate(0), GUARD_REFUSED_BY_LAYOUT);
    for (unsigned i = 0; i < 4 * KEEP_MS / 1000; i++) {
        uses(0, MAX_TTL_MS);
        both_live(500);
        cr_assert_neq(gate(1), GUARD_OPEN, "%u", i);
    }
    /* Its holds have ended: it is let in again, or the other one is. */
    both_live(4 * KEEP_MS);
    cr_assert_eq((gate(0) == GUARD_OPEN) + (gate(1) == GUARD_OPEN), 1);
}

static bool is_registered(unsigned a, unsigned m)
{
    const char *name = rig.agents[a].guard.layouts.name;
    const struct entry *entry =
        keyspace_find(rig.keys[m], (struct bytes){LAYOUTS_KEY, strlen(LAYOUTS_KEY)});
    return entry != NULL && entry_field(entry, (struct bytes){name, strlen(name)}) != NULL;
}

/* R23: "it keeps the entries that it has, and makes no new one". Master 0 has forgotten both
 * layouts, and agent 0 is refused by the others while its holds are renewed. */
Test(guard_layouts, r23_a_refused_layout_with_holds_makes_no_new_entry)
{
    have_layouts_by_name();
    meets_all(0);
    uses(0, MAX_TTL_MS);
    lives(0, 500);
    store_layout_of(1, 1, KEEP_MS);
    lives(0, 2000);
    cr_assert_eq(gate(0), GUARD_REFUSED_BY_LAYOUT);
    cr_assert(is_registered(0, 0));
    flush(0);
    for (unsigned i = 0; i < 4; i++) {
        uses(0, MAX_TTL_MS);
        lives(0, 1000);
        cr_assert_eq(gate(0), GUARD_REFUSED_BY_LAYOUT);
        cr_assert(is_registered(0, 2));
        cr_assert_not(is_registered(0, 0), "%u", i);
    }
}

/* R23, G3: two layouts that were both at work once come back at the same moment, and each is noted
 * by another master first. Their callers are refused, and ask all the time. They hold nothing, so
 * they keep neither layout registered. */
Test(guard_layouts, r23_callers_who_are_refused_keep_no_layout)
{
    open_layouts(OURS, APART);
    for (unsigned m = 0; m < 3; m++)
        loses(0, m);
    both_live(2 * KEEP_MS);
    meets_all(1);
    cr_assert_eq(gate(1), GUARD_OPEN);
    for (unsigned m = 0; m < 3; m++)
        loses(1, m);
    both_live(2 * KEEP_MS);
    for (unsigned m = 0; m < 3; m++)
        flush(m);
    for (unsigned m = 0; m < 3; m++)
        meet(m % 2, m);
    for (unsigned m = 0; m < 3; m++)
        meet(1 - m % 2, m);
    for (unsigned i = 0; i < 8 * KEEP_MS / 500; i++) {
        uses(0, 0), uses(1, 0);
        both_live(500);
    }
    cr_assert_eq((gate(0) == GUARD_OPEN) + (gate(1) == GUARD_OPEN), 1);
}

/* R23: quorums of a neighbour need not meet as few masters as those of the own layout. */
Test(guard_layouts, r23_a_master_is_told_by_all_others_beside_a_neighbour)
{
    char name[LAYOUT_NAME_BYTES], value[200];
    open_old_group(4, true);
    has_layout(1, NEXT);
    layout_name((struct text){OURS, strlen(OURS)}, name);
    snprintf(value, sizeof(value), "%lld 120000 %s", (long long)wall_ms(0) + 120000, OURS);
    for (unsigned m = 0; m < 3; m++)
        store(m, name, value);
    meets_all(1);
    meet(1, 3);
    settle(1);
    loses(1, 2);
    flush(0);
    sees_guarded(1, 0);
    lives(1, GUARD_MS + 3000);
    cr_assert_neq(field(0, "told"), GUARD_TOLD, "masters 1 and 3 are too few");
}

/* Five masters that have noted one layout. Master 0 is lost for good, and later master 1 forgets.
 * Masters 2, 3 and 4 remember, which are enough. */
static void one_is_lost_and_one_forgets(void (*lose)(unsigned a, unsigned m))
{
    open_old_group(5, true);
    has_layout(1, "w2 3 lock:=mutex a b c d e");
    for (unsigned m = 0; m < 5; m++)
        meet(1, m);
    settle(1);
    cr_assert_eq(rig.agents[1].guard.masters[0].at_work, 1u);
    lose(1, 0);
    flush(1);
    sees_guarded(1, 1);
    lives(1, GUARD_MS + 1500);
    cr_assert_eq(field(1, "told"), (uint64_t)GUARD_TOLD);
    cr_assert_eq(rig.agents[1].guard.masters[0].at_work, 0u, "it shows no layout");
}

/* R23, D5.3: a master that is away is not beside a neighbour because it has noted the own layout.
 */
Test(guard_layouts, r23_a_master_that_is_away_shows_no_neighbour)
{
    one_is_lost_and_one_forgets(loses);
}

static void refuses_its_greeting(unsigned a, unsigned m)
{
    loses(a, m);
    greets(a, m, false);
    is_refused(a, m);
}

Test(guard_layouts, r23_a_master_that_refuses_its_greeting_shows_no_neighbour)
{
    one_is_lost_and_one_forgets(refuses_its_greeting);
}

/* At most four others are answered, and there may be more neighbours than the agent remembers. */
Test(guard_layouts, r23_many_layouts_do_no_harm)
{
    open_old_group(3, true);
    has_layout(1, OURS);
    for (unsigned i = 0; i < 40; i++) {
        char value[200], name[8];
        snprintf(value, sizeof(value), "%lld 60000 w1 1 other%02u:=mutex z",
                 (long long)wall_ms(0) + 60000, i);
        snprintf(name, sizeof(name), "n%u", i);
        store(0, name, value);
    }
    for (unsigned m = 0; m < 3; m++)
        meet(1, m);
    for (unsigned i = 0; i < 40; i++) {
        passes(1, 50);
        settle(1);
        cr_assert_neq(gate(1), GUARD_REFUSED_BY_LAYOUT);
    }
}

/* R23: a neighbour that every master answers takes one place in the memory of neighbours. If it
 * took one per master, some of the seven would be forgotten again before all have been met. */
Test(guard_layouts, r23_a_neighbour_that_all_masters_answer_is_remembered_once)
{
    enum { NEIGHBOURS = 7 };
    open_old_group(5, true);
    has_layout(1, "w2 3 lock:=mutex a b c d e");
    for (unsigned i = 0; i < NEIGHBOURS; i++) {
        char text[64], value[100], name[LAYOUT_NAME_BYTES];
        int len = snprintf(text, sizeof(text), "w2 3 other%u:=mutex a b c d e", i);
        layout_name((struct text){text, (size_t)len}, name);
        snprintf(value, sizeof(value), "%lld 60000 %s", (long long)wall_ms(0) + 60000, text);
        for (unsigned m = 0; m < 5; m++)
            store(m, name, value);
    }
    for (unsigned m = 0; m < 5; m++)
        meet(1, m);
    lives(1, 2000);
    cr_assert_eq(gate(1), GUARD_OPEN);
    cr_assert_eq(rig.agents[1].guard.layouts.neighbour_count, NEIGHBOURS);
    for (unsigned m = 0; m < 5; m++)
        cr_assert(rig.agents[1].guard.masters[m].noted, "master %u", m);
}
