/* The records of the checkers: holds as their callers know them, and the functions that note and
 * check the moves of agents, masters and callers. */
#ifndef LOCKAGENT_SIM_RECORDS_H
#define LOCKAGENT_SIM_RECORDS_H

#include "agents.h"

/* A1, A3: How far clocks have stepped since an agent asked for a hold, and when last. 0: they have
 * not. */
struct shaken {
    int64_t us, at;
    uint16_t on; /* masters that had the hold's key when a clock stepped */
    /* the time that each master gained on the agent since then */
    struct gained {
        int64_t us, noticed_us, at;
    } gained[SIM_MASTERS];
};

/* The reports of one agent about a hold. Several agents may have the hold at a time, because its
 * holder went to several of them (D3). */
struct tenure {
    struct instant valid_until, max_hold_until; /* as the agent last reported */
    struct lock_ref lock;                       /* the agent's name for the hold */
    bool lock_is_known;                         /* False: the hold was restored from a journal. */
    bool lost;                                  /* The agent reported the loss. */
    bool is_held;                               /* The hold is in the agent's list of the key. */
    struct hold *next;                          /* the next hold of that list */
    int64_t window_until; /* real time: the latest end of the validity that it has reported */
    struct shaken shaken;
    struct asked { /* the last round in which it asked for the hold's key */
        uint32_t round, incarnation;
        int64_t sent_at;
    } asked;
};

/* Deletions of a hold's keys by an operator (R25). */
struct unlocked {
    int64_t begun_at;    /* when the first unlock of it began; -1: none has */
    uint16_t deleted_on; /* masters on which its key was deleted, as bits */
    /* Masters among them on which its validity may rely: no round that was sent later was won. */
    uint16_t relied_on;
    bool frees; /* Others may have had the lock because of that. */
    int64_t deleted_at[SIM_MASTERS];
};

/* A grant, as its callers know it. */
struct hold {
    struct token token;
    uint8_t key, agent; /* the place, and the agent that granted or adopted it last */
    enum mode mode;
    struct tenure tenures[SIM_AGENTS];
    /* Another agent was asked to adopt it. Each of its agents may be refused, or may fail to
     * release it. */
    bool shared;
    bool adopted; /* An agent has adopted it. Some masters may have its earlier agent (D3.4). */
    uint32_t incarnation;
    /* Its releases were requested, or it never reached its caller. Its windows bind no one any
     * more. */
    bool ended;
    /* Its release was requested at an agent that did not grant it. The agent that granted it may
     * not know. */
    bool elsewhere;
    /* Agents at which a PUT of it was cancelled, as bits. They may still adopt it. */
    uint8_t left_at;
    bool bound;
    uint8_t users;        /* callers that use it */
    uint8_t owner;        /* 0: none */
    uint16_t count;       /* releases that end it, as its callers know */
    uint32_t secret;      /* the idempotency key of its request; 0: none */
    struct request asked; /* the request itself */
    uint8_t owner_before; /* the owner before it was adopted */
    uint32_t secret_before;
    /* the incarnation of its agent that has refused this key since its release; 0: none */
    uint32_t used_up;
    /* A repair was on its way when a release elsewhere found no key on that master (R7). */
    bool crossed;
    /* It was renewed after another holder may have had the key: a master forgot its release (C12),
     * or a clock had stepped (A1, A3). */
    bool came_back;
    /* A2: It came back after so many masters had forgotten its release that the others are no
     * quorum: when they had forgotten it; 0: it did not. */
    int64_t release_forgotten_at;
    /* Its release was answered: 204, 202, or that the token is not valid any more (D3.7). */
    bool released;
    /* when the release was requested, and when it was answered */
    int64_t released_from, released_at;
    /* The number of the last request that had arrived by then at any agent. */
    uint64_t released_after;
    /* All masters have confirmed it to its agent, at one time. */
    bool known;
    uint32_t renewal;   /* number of the last round of renewals */
    int64_t renewal_at; /* when the last round of renewals was sent */
    /* It was restored from a journal, and no quorum has confirmed it since. */
    bool doubtful;
    bool given_up; /* its agent has begun to release it */
    /* It was lost, and its agent was started again since: its request gets no other lock (D3.5). */
    bool lost_at_restart;
    /* A6: a master was told a smaller number than this hold's by a guess, after it was granted. */
    bool guessed_below;
    /* The register's version when the hold was granted or last wrote. */
    uint32_t version_seen;
    /* Real time. The window ends with the latest of its tenures. */
    int64_t granted_at, window_from, window_until;
    uint32_t ttl_ms; /* lease that its agent last reported */
    struct unlocked unlocked;
    /* D3.9, by number: of the last PUT that named a label (0: none), and of the label that renewals
     * of this agent, in this incarnation, must name. */
    uint32_t label_named, label_due, label_incarnation;
    uint8_t label_agent;
    bool label_is_noted; /* in its agent's journal */
    uint16_t next_in_bucket;
};

/* A token that an agent asked masters for. */
struct attempt {
    uint8_t random[RANDOM_BYTES];
    int64_t sent_at;                /* when the first command that carried it was sent */
    int64_t gained_us[SIM_MASTERS]; /* time that masters' clocks had gained then */
    struct attempt *next;           /* the previous attempt */
};

/* checker.c, answers.c, holds.c: the promises, checked from the outside */
void checker_reset(struct world *w);
void checker_fail(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct hold *checker_find(struct world *w, const uint8_t random[RANDOM_BYTES]);
/* Notes that the agent reports no holds any more. */
void checker_drop_all(struct world *w, uint8_t agent);
void checker_answer(struct world *w, uint8_t agent, struct request *request,
                    const struct effect_answer *answer);
/* Notes that the agent is about to send a renewal, a repair or an adoption. */
void checker_asks(struct world *w, uint8_t agent, const struct order *order);
/* Notes that a restarted agent is about to get the entries of its journal. */
void checker_restored(struct world *w, uint8_t agent, uint8_t key,
                      const struct noted_hold *restored);
/* Notes that the agent knows that a bound caller has left, or does not read. */
void checker_left(struct world *w, uint8_t agent, const struct leaving *leaving);
/* Notes that a caller uses a hold that no caller used. */
void checker_taken_up(struct world *w, struct hold *hold, const struct request *request);
void checker_trace(struct world *w, uint8_t agent, const struct effect_trace *trace);
void checker_after_step(struct world *w, uint8_t agent);
void checker_deleted(struct world *w, uint8_t master, const struct message *message,
                     const struct order *order, const uint8_t random[RANDOM_BYTES]);
/* C1: Checks that the Java service holds its key until the end of the window. */
void checker_java(struct world *w, struct hold *hold);
/* Notes a promise that reaches a caller: valid until then on the agent's clock. */
void checker_promised(struct world *w, uint8_t agent, uint8_t key, struct instant valid_until);
/* R21: Checks that no grant comes soon after a replica was promoted. */
void checker_voted(struct world *w, const struct order *order);
/* Notes that a renewal has created a missing key. */
void checker_repaired(struct world *w, uint8_t master, const struct message *message,
                      const struct order *order);
/* Notes that a renewal is about to be sent. */
void checker_renews(struct world *w, const struct order *order);
/* Notes that a command about the place was run on the master. */
void checker_ran(struct world *w, uint8_t master, uint8_t place, bool was_there, bool is_there);
void checker_orphan(struct world *w, uint8_t key, const uint8_t random[RANDOM_BYTES]);
void checker_settled(struct world *w);
void checker_store(struct world *w, struct hold *hold);
/* Notes that a guess told a master this floor (A6). */
void checker_guessed(struct world *w, uint64_t floor);
void checker_end(struct world *w);

/* unlocked.c: holds whose keys an operator deletes (R25) */
/* Notes that an unlock of the hold begins. */
void unlocked_begun(struct world *w, struct hold *hold);
/* Notes that the operator has deleted the key of the hold on the master. */
void unlocked_deleted(struct world *w, uint8_t master, struct hold *hold);
/* Notes that a quorum has confirmed the hold in the last round of the agent. */
void unlocked_renewed(struct world *w, uint8_t agent, struct hold *hold);
/* C1, C3, C10: Returns true if others may have the lock because of the operator's deletions. */
bool unlocked_frees(struct world *w, struct hold *hold);
/* C10: Returns true if the operator's deletions are a reason for which the hold may be lost. */
bool unlocked_takes(struct world *w, struct hold *hold, enum reason reason);
/* C5: Returns on how many masters the operator has deleted the key. Its agent may list them as
 * confirmed. */
unsigned unlocked_unnoticed(struct world *w, const struct hold *hold);

/* labels.c: labels that PUTs change (C20) */
void labels_reset(struct world *w);
/* Lets a PUT that an agent is about to take name a label, perhaps. */
void labels_name(struct world *w, struct request *request);
/* Prints the label that a PUT names; empty: none. */
struct text labels_text(const struct request *request, char label[SIM_LABEL + 1]);
/* Checks the labels that a master stores after a command. */
void labels_stored(struct world *w, uint8_t master, const struct message *message,
                   const struct order *order, const struct verdict *verdict);
/* Checks the label of a renewal that is about to be sent. */
void labels_renewed(struct world *w, uint8_t agent, const struct order *order);
/* Checks the label of an adoption that is about to be sent. */
void labels_adopts(struct world *w, uint8_t agent, const struct order *order);
/* Notes the answer to a PUT. */
void labels_answered(struct world *w, uint8_t agent, const struct request *request,
                     const struct effect_answer *answer);

/* turns.c: C11 over all agents */
void turns_reset(struct world *w);
void turns_came(struct world *w, const struct request *request);
void turns_after_step(struct world *w, uint8_t agent);
/* Notes that the agent is about to send a command with a ticket. */
void turns_shown(struct world *w, uint8_t agent, const struct order *order);
void turns_granted(struct world *w, const struct caller *caller, const struct request *request);
/* Notes that a master refuses an attempt because of this ticket. */
void turns_withheld(struct world *w, uint8_t master, uint8_t key, const struct kept_ticket *ticket);

/* wakes.c: how soon a release reaches other agents, and whose turn comes next */
/* followers.c: agents that follow keys (C19) */
void followers_boot(struct world *w, uint8_t agent);
void followers_told(struct world *w, uint8_t agent, const struct effect_followed *now);
/* Returns the number of requests of the agent that follow. */
uint32_t followers_count(const struct world *w, uint8_t agent);
void followers_end(struct world *w);

void wakes_reset(struct world *w);
void wakes_released(struct world *w, uint8_t agent, uint8_t key);
void wakes_granted(struct world *w, uint8_t agent, uint8_t key);
void wakes_end(struct world *w);

/* line.c: rounds that wait until they may be in flight (C13) */
/* Checks after every step of the agent's core, before the effects are gone. */
void line_after_step(struct world *w, uint8_t agent, const struct event *event);
/* Checks when the agent writes the commands of the step. */
void line_after_flush(struct world *w, uint8_t agent);

/* clocks.c: clocks that do not keep the assumptions (A1, A3) */
/* Returns how long the agent's clocks have run. */
int64_t clocks_agent_us(const struct world *w, uint8_t agent);
void clocks_pause(struct world *w, uint8_t agent, int64_t us);
void clocks_go_on(struct world *w, uint8_t agent);
void clocks_jump(struct world *w, uint8_t master, int64_t us);
/* Notes that a master's clock has gone forward by that much. */
void clocks_stepped(struct world *w, uint8_t master, int64_t us);
/* A1, A3: Returns true if the agent asked before it was paused with its clocks, or before a
 * master's clock jumped, and need not have noticed yet. */
bool clocks_are_behind(const struct world *w, uint8_t agent, int64_t asked_at);
/* R14: Returns true if a gain may be noticed while the operation is in flight. The operation is
 * void then. */
bool clocks_may_void(const struct world *w, uint8_t agent, int64_t asked_at);
/* Notes the tokens for which the agent asks masters. */
void clocks_asked(struct world *w, uint8_t agent, const struct message *message);
/* A tenure begins. Its attempt may be older than the event that shook the clocks. */
void clocks_granted(struct world *w, uint8_t agent, struct hold *hold);
/* A clock has stepped, and the agent need not have noticed yet what that means for the hold. */
bool clocks_excuse(struct world *w, uint8_t agent, const struct hold *hold);
/* C1: That is so at each agent whose report of the hold binds. */
bool clocks_excuse_all(struct world *w, const struct hold *hold);
/* A clock has stepped since an agent asked for the hold. */
bool clocks_shook(const struct hold *hold);
/* C9: its validity may be taken back by so much. */
bool clocks_may_shorten(const struct tenure *tenure, int64_t us);
/* The masters that gained, and whose clock the agent has not read since. */
unsigned clocks_unnoticed(const struct world *w, uint8_t agent, const struct hold *hold);
/* Notes that a renewal of the hold was confirmed. */
void clocks_renewed(const struct world *w, uint8_t agent, struct hold *hold);

#endif
