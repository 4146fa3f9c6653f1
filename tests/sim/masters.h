/* Masters, replicas, and the network between them and the agents: messages, flights, connections,
 * channels and readings of clocks. */
#ifndef LOCKAGENT_SIM_MASTERS_H
#define LOCKAGENT_SIM_MASTERS_H

#include "agent/core/core.h"
#include "agent/core/guard.h"
#include "agent/core/replicas.h"
#include "agent/redis/asking.h"
#include "agent/redis/unlocking.h"
#include "config/config.h"
#include "tests/keyspace/scripting.h"

#include "options.h"
#include "prng.h"

struct happening;
struct world;

/* ---- network --------------------------------------------------------------------------------- */

/* A send item, copied out of the core. The checkers identify it by these fields. The masters
 * receive the message's bytes. */
struct order {
    struct lock_ref ref;
    struct token token;
    uint32_t ttl_ms;
    uint8_t key; /* the place */
    bool fencing;
    enum mode mode;
    struct token previous; /* HANDOVER */
    struct ticket ticket;
    uint8_t label_len;
    char label[SIM_LABEL];
};
struct message {
    enum op op;
    uint8_t agent, group;
    uint32_t incarnation; /* incarnation of the agent */
    int64_t sent_at;
    struct bytes command; /* the command in the wire format */
    bool names_vote;      /* The agent knows the master's vote, which is added to the command. */
    bool has_own;         /* The agent's own clock is added to the command, without a vote (R5). */
    int64_t clocks_ms[SIM_MASTERS];
    const struct native *native; /* the same as native commands (R24); NULL: the script is asked */
    struct proposals proposals;
    uint16_t count;
    struct order orders[];
};
/* The reason for which a server does not run a command. */
enum mishap { MISHAP_NONE, MISHAP_REFUSED, MISHAP_NOT_RUN };
/* A master's reply to one order. */
struct verdict {
    struct event_reply reply; /* Only master_replies() gives it its addresses and its label. */
    char label[SIM_LABEL];
};
/* One message on its way to one master and back. */
struct flight {
    const struct message *message;
    struct bytes command; /* the message's command, with this master's own arguments */
    /* The vote that the agent knew when it wrote native commands (R24); NULL: it is a script. "":
     * no group has a guard. */
    const char *vote;
    /* a question about the marker, which belongs to no operation; NULL: this flight is not one */
    struct marking *marking;
    struct flight *next; /* the next flight on the connection */
    struct flight *next_parked;
    struct verdict *verdicts;
    uint16_t epoch;   /* the epoch that came with the verdicts; 0: none */
    bool unmarked;    /* The epoch was the master's own number, because there was no marker. */
    int64_t extra_us; /* a command of a dead connection that is still on its way */
    uint32_t generation, master_boot;
    uint8_t master;
    bool executed, lost, answered;
    struct {
        uint32_t timeout_ms; /* 0: the flight is not a WAIT */
        uint64_t offset;     /* the offset that replicas must have reached */
        unsigned count;      /* replicas that had reached it in the end */
    } wait;                  /* a WAIT for replicas, which belongs to no operation (R21) */
};
/* The question that the guard asks a master, and the answer (D5.3). */
struct marking {
    struct guard_ask ask;
    int64_t wall_us;
    bool answered; /* False: the master gave no answer. */
    struct guard_answer answer;
};
/* The ordered connection of one agent to one master (R5). */
struct connection {
    bool up, checking;
    bool serves; /* the agent's core was told that the master is up, and not yet that it is down */
    uint16_t epoch; /* the master's epoch that was reported to the agent's core */
#ifdef SMALL_WORLD
    struct guard_answer known; /* the marker as its agent saw it last */
#endif
    uint32_t generation;
    uint32_t master_boot;             /* the master's boot to which the connection was made */
    int64_t arrival_last, reply_last; /* No command and no reply overtakes another one. */
    int64_t cut_out_until, cut_back_until;
    int64_t asked_until, told_until; /* Readings of the clock stay in their order. */
    struct flight *first, *last;
    bool subscribed[SIM_KEYS];
    /* R21: flights that the agent keeps back, the WAIT that the master is at, and the flights that
     * came after this WAIT. */
    struct replicas replicas;
    struct flight *kept, *waiting, *blocked;
    uint64_t offset; /* the master's offset after the last write of this connection (R21) */
};

/* ---- masters --------------------------------------------------------------------------------- */

struct kept_ticket {
    uint64_t agent, number; /* agent 0: none */
    int64_t until_ms;
    enum mode mode;
    uint8_t by; /* for the checker: the caller's agent, and when the ticket was sent */
    int64_t sent_at;
};
/* Facts about a key that the checkers need and that the keyspace does not hold. */
struct master_key {
    struct kept_ticket tickets[SIM_TICKETS]; /* the tickets in the keyspace */
    bool planted;                            /* A number that no agent granted was put there. */
    /* The master has no upper bound for this key's numbers. */
    bool lies;
    uint64_t tickets_version;
    /* The agent that set the key. stray: it was set by a command that outlived its connection (R5),
     * or came back with a replica that missed its release (R21). */
    uint8_t set_by;
    bool stray;
    /* Native commands that were in flight when the clock was set back have set the key: it ends
     * later by as much (R24). */
    bool set_back;
    uint32_t set_by_incarnation;
    /* End of the lease as its agent reckons it, from when the agent sent the last command that was
     * run (R6). */
    int64_t lease_until;
};
enum { SIM_NAMES = 2 * SIM_KEYS }; /* keys of a master: those of a second prefix too */
struct master {
    struct keyspace *keyspace;
    struct world *world;
    struct prng chance;
    uint8_t index;
    struct master_key keys[SIM_NAMES];
    int64_t rate_ppm, wall_us, jumped_us;
    int64_t stepped_at; /* when its clock stepped last; 0: never */
    int64_t jumped_at;  /* when its clock stepped forward last; 0: never */
    int64_t gained_us;  /* the sum of all its jumps forward */
    bool paused, down;
    bool promoted;            /* it was a replica before it comes up */
    uint32_t boot, histories; /* histories: replication ids that it has had (R21) */
    /* Forgetful masters: the epoch of the marker, or of the time without a marker. A marker's epoch
     * is MARKER_EPOCH(). */
    uint16_t epoch;
    struct { /* BREAK_ROLLBACK */
        struct keyspace *keyspace;
        struct master_key keys[SIM_NAMES];
    } snapshot;
    struct flight *parked, **parked_end;
    uint64_t offset;   /* writes that the master has run; its replicas follow this number */
    int64_t epoch_at;  /* when it began another epoch last; 0: never */
    int64_t forgot_at; /* when it forgot its keys last, or may have; 0: never */
};

/* A replica of the one master (R21). It has the master's data of an earlier time. */
struct replica {
    struct keyspace *keyspace;
    struct master_key keys[SIM_NAMES];
    uint64_t offset;
    bool frozen, coming; /* coming: the master's data is on its way */
};

/* ---- functions ------------------------------------------------------------------------------- */

/* flight.c: one message on its way to one master and back */
/* Copies the message that the core asks the shell to send into the world's memory. */
const struct message *flight_copy(struct world *w, uint8_t agent, const struct effect_send *send,
                                  const struct send_item *items);
/* Returns true while the connection that carried the flight lives. Otherwise no result of it
 * reaches its agent. */
bool flight_is_connected(struct world *w, const struct flight *flight);
/* Runs the flight's command on its master. */
void flight_execute(struct world *w, struct flight *flight, enum mishap mishap);
/* Reports the flight's end to the core: the verdicts, or `vote` for all of its orders if `verdicts`
 * is NULL. */
void flight_report(struct world *w, const struct flight *flight, const struct verdict *verdicts,
                   enum vote vote);

/* network.c: ordered connections with delay */
void network_send(struct world *w, uint8_t agent, const struct effect_send *send,
                  const struct send_item *items);
void network_arrive(struct world *w, struct flight *flight);
void network_reply(struct world *w, struct flight *flight, bool copy);
void network_check(struct world *w, uint8_t agent, uint8_t master, uint32_t generation);
void network_drop(struct world *w, uint8_t agent, uint8_t master, uint32_t generation);
void network_connect(struct world *w, uint8_t agent, uint8_t master, uint32_t generation);
/* Sends a question about the marker on a connection that is up. */
void network_ask(struct world *w, uint8_t agent, uint8_t master, struct marking *marking);
/* Reports the master's present epoch and its clock to the core. */
void network_tell_up(struct world *w, uint8_t agent, uint8_t master);
/* Ends the connections of an agent that has died, without a report to it. */
void network_abandon(struct world *w, uint8_t agent);
/* Ends an iteration of the agent's loop. The agent may then ask for replicas (R21). */
void network_turn(struct world *w, uint8_t agent);
/* Ends the time of a WAIT: network_waited() on its master, network_give_up() at its agent. */
void network_waited(struct world *w, struct flight *flight);
void network_give_up(struct world *w, uint8_t agent, uint8_t master, uint32_t generation);
/* Handles the progress of a replica. */
void network_replicated(struct world *w);
/* Returns false if the master is down, or has restarted and lost its end of the connection. The
 * agent may not know that yet. */
bool network_leads_to(const struct world *w, uint8_t agent, uint8_t master);

/* marking.c: the shipped guard of each agent, if masters forget (D5.3) */
void marking_boot(struct world *w, uint8_t agent);
/* Handles a new connection. The marker is read before the connection is up. */
void marking_greet(struct world *w, uint8_t agent, uint8_t master);
void marking_ready(struct world *w, uint8_t agent, uint8_t master);
void marking_away(struct world *w, uint8_t agent, uint8_t master);
/* Handles the report about the marker that an operation's scripts returned. */
void marking_overhear(struct world *w, const struct flight *flight);
/* Runs the question on its master. The answer then reaches the agent. */
void marking_run(struct world *w, struct flight *flight, enum mishap mishap);
void marking_answered(struct world *w, const struct flight *flight);
void marking_time(struct world *w, uint8_t agent);
/* Prepares for a command of the core, of which the guard learns before it is sent. */
void marking_uses(struct world *w, uint8_t agent, const struct effect_send *send,
                  const struct send_item *items);
/* Returns the last argument of the message for this master. */
struct text marking_vote(const struct world *w, uint8_t agent, uint8_t master,
                         const struct message *message, char bytes[ASKING_VOTE_BYTES]);
/* The same for native commands; NULL: the script must decide (R24). */
const char *marking_native_vote(const struct world *w, uint8_t agent, uint8_t master,
                                const struct message *message);
/* Sends the message to these masters. */
void marking_numbers(struct world *w, uint8_t agent, master_set masters,
                     const struct message *message);

/* readings.c: how agents read the masters' clocks */
/* Begins the readings of a connection that has come up: one at once, then one a second. */
void readings_begin(struct world *w, uint8_t agent, uint8_t master);
/* Reads all clocks at once. */
void readings_all(struct world *w, uint8_t agent);
/* The same ahead of the first command of an idle group (D5.3). */
void readings_ahead(struct world *w, uint8_t agent);
void readings_due(struct world *w, const struct happening *happening);
void readings_at_master(struct world *w, const struct happening *happening);
void readings_told(struct world *w, const struct happening *happening);

/* channel.c: subscriptions and messages */
void channel_watch(struct world *w, uint8_t agent, uint8_t key, bool watches);
void channel_connected(struct world *w, uint8_t agent, uint8_t master);
void channel_dropped(struct world *w, uint8_t agent, uint8_t master);
void channel_subscribe(struct world *w, uint8_t agent, uint8_t master, uint32_t generation,
                       const void *what);
void channel_signal(struct world *w, uint8_t agent, uint8_t master, uint32_t generation,
                    const void *what);
/* Sends the message to the agents that name the key in this way (master_name()). Returns their
 * number. */
uint32_t channel_publish(struct world *w, uint8_t master, uint8_t name, struct bytes message);
uint32_t channel_agents(struct world *w, uint8_t master, uint8_t name);

/* master.c, with holders.c, master_java.c, master_numbers.c and master_unlock.c: a keyspace, a
 * clock, and the shipped scripts on it */
/* Compiles the scripts. `replacement` breaks the text of one on purpose. Returns NULL, or the
 * reason for which a script cannot be compiled. */
const char *master_load(struct world *w, const struct replacement *replacement);
/* Puts this number into the key's bucket. If `lies` is true, the master has no upper bound for the
 * numbers of that bucket's keys from then on. */
void master_plant(struct world *w, uint8_t master, uint8_t key, uint64_t number, bool lies);
/* Raises the number in the key's bucket, as a grant of another lock does. */
void master_raise(struct world *w, uint8_t master, uint8_t key, uint64_t number);
/* Ends the key if a clock that was set back prolongs it (master_key.set_back). The healed world has
 * no time to wait for it. */
void master_end_set_back(struct world *w, uint8_t master, uint8_t name);
void master_reset(struct world *w, uint8_t master);
/* Sets the options of this run's commands to the masters: whether they are guarded, and how long
 * numbers are kept. */
void master_configure(struct world *w);
/* Names the places on the masters, according to the options of the run. */
void master_name_places(const struct options *options);
int64_t master_wall_us(const struct world *w, uint8_t master);
/* Returns the master's wall clock at another real time than now. */
int64_t master_wall_at(const struct world *w, uint8_t master, int64_t at);
/* Returns the name of a place's lock on the masters. */
struct bytes master_lock_name(uint8_t name);
/* Returns the bytes of a command made from the core's items. They are valid until the next call. */
struct bytes master_command(struct world *w, uint8_t agent, enum op op,
                            const struct send_item *items, unsigned count);
/* The same as native commands that take or release the locks (R24), in the world's memory. */
const struct native *master_native(struct world *w, uint8_t agent, enum op op,
                                   const struct send_item *items, unsigned count);
/* Runs a flight's command and reads its reply: one verdict per order, and the epoch that comes with
 * them. */
void master_execute(struct world *w, struct flight *flight, enum mishap mishap,
                    struct verdict *ret_verdicts);
/* Makes the replies to a flight's orders as the core gets them: the verdicts, or `vote` for all if
 * `verdicts` is NULL. They borrow the labels. */
void master_replies(const struct flight *flight, const struct verdict *verdicts, enum vote vote,
                    struct event_reply *ret_replies);
/* Gives the master's data another origin: another replication id. The previous id becomes its
 * second one. */
void master_begin_history(struct master *master);
/* Epochs differ from master to master, as random ones do. */
#define MARKER_EPOCH(epoch, master) ((uint16_t)((epoch)*16 + (master)))
/* Runs a script of other users of a key, with its name and channel, a holder and a lease. Returns
 * the number that it answers. */
int64_t master_eval(struct world *w, uint8_t master, const char *script, uint8_t key,
                    const char *holder, int64_t lease_ms);
/* Calls the script of `lockagent unlock` on a master (R25). */
struct unlock_answer master_unlock(struct world *w, uint8_t master,
                                   const struct unlock_target *target,
                                   const struct unlock_ask *ask);
/* Returns true if the hold of the place was unlocked there, and its tombstone has not ended. */
bool master_has_tombstone(struct world *w, uint8_t master, uint8_t place,
                          const uint8_t random[RANDOM_BYTES]);
/* Deletes the key's data that the Java service has left. */
void master_forget_java(struct world *w, uint8_t master, uint8_t key);
/* Returns the top of the master's marker; 0: it has no marker, or no top was set. */
uint64_t master_top(struct world *w, uint8_t master);
/* Runs the marker's script. */
void master_mark(struct world *w, uint8_t master, const struct guard_ask *ask, int64_t wall_us,
                 struct guard_answer *ret_answer);
/* Deletes all of the master's data, the marker included. */
void master_forget(struct world *w, uint8_t master);
void master_clear(struct world *w, uint8_t master);
void master_snapshot(struct world *w, uint8_t master);
void master_roll_back(struct world *w, uint8_t master);
/* Returns the name on the masters, a number below SIM_NAMES, of the place that the agent's core
 * calls `key`. With BREAK_DISAGREEMENT it may differ. */
uint8_t master_name(const struct world *w, uint8_t agent, uint8_t key);
/* Returns true if more than `which` holders lock the key there now. Sets the random part of holder
 * number `which`, counted from 0. */
bool master_holder(struct world *w, uint8_t master, uint8_t name, unsigned which,
                   uint8_t ret_random[RANDOM_BYTES]);
/* Sets the random part of that holder, and its label, cut to SIM_LABEL bytes. Returns the bytes of
 * the label; -1: there is no such holder. */
int master_label(struct world *w, uint8_t master, uint8_t name, unsigned which,
                 uint8_t ret_random[RANDOM_BYTES], char ret_label[SIM_LABEL]);
bool master_holds(struct world *w, uint8_t master, uint8_t name,
                  const uint8_t random[RANDOM_BYTES]);
/* Returns the masters that have the token's key, by its random part. */
uint16_t master_set_having(struct world *w, uint8_t name, const struct token *token);
/* Returns on how many masters master_holds() is true. */
unsigned master_count_holding(struct world *w, uint8_t name, const uint8_t random[RANDOM_BYTES]);
bool master_is_locked(struct world *w, uint8_t master, uint8_t name);
/* Returns when the next lease on the key there ends, unix time in ms by the master's clock;
 * INT64_MAX: never. */
int64_t master_next_end_ms(struct world *w, uint8_t master, uint8_t name);

/* replica.c: the replicas of a single master (R21) */
void replica_reset(struct world *w);
/* Plans the replication after the master has run a command. */
void replica_follow(struct world *w);
/* Notes the writes of a command that has run. connection: NULL: it has ended. sent: keyspace.sent
 * before the command. From Redis 7.2 on, WAIT looks at the writes up to the last one of its own
 * connection. */
void replica_note_writes(struct world *w, struct connection *connection, uint64_t sent);
/* Runs the message that goes before a WAIT of the connection. */
void replica_message(struct world *w, struct connection *connection);
void replica_arrive(struct world *w, uint8_t replica);
/* Returns how many replicas have the master's data of that offset. */
unsigned replica_count(const struct world *w, uint64_t offset);
/* Puts the replica in the master's place, with the replica's own data. */
void replica_promote(struct world *w, uint8_t replica);
/* Returns how many replicas have the key with that token, at least until then (in real time). */
unsigned replica_count_holding(struct world *w, uint8_t name, const uint8_t random[RANDOM_BYTES],
                               int64_t until);

#endif
