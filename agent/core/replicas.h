/* The replicas of a group's one master (R21) as a step machine. It decides when the master is asked
 * to WAIT for them, which replies are kept back until then, and which of these are votes.
 *
 *   write, write, ... end of the turn            its answer
 *      |      |             |                        |
 *      due ---+--------> WAIT in flight -------> the replies kept back are passed on, in order;
 *                           |                    a vote counts only if enough replicas have it,
 *                           |                    and not if no answer comes in time
 *                           +-- writes meanwhile share the next WAIT
 *
 * There is one for each connection to the master. Without a number of replicas it does nothing. The
 * caller
 *   1. reports every operation that was sent, and asks at the end of each turn;
 *   2. sends the WAIT after all earlier commands, on the same connection;
 *   3. keeps back the replies that it is told to keep back. It passes all of them on, in order,
 *      when the answer has come, or as unknown when the connection has ended. */
#ifndef LOCKAGENT_CORE_REPLICAS_H
#define LOCKAGENT_CORE_REPLICAS_H

#include "types.h"

struct replicas {
    uint8_t ack;         /* Number of replicas that must have each write; 0: no WAIT is sent. */
    uint32_t timeout_ms; /* Time for that after the write, in ms. */
    bool due;            /* Something was written since the last WAIT was sent. */
    bool under_way;      /* The last WAIT has not been answered. */
    struct instant due_since, until; /* `due_since`: first write since the last WAIT. `until`: when
                                      * the last WAIT times out. */
    uint32_t kept;                   /* Number of replies kept back. */
};

/* Initializes the state of a new connection. `ack` and `timeout_ms` are replicas.ack and
 * replicas.timeout of its group; `ack` is 0 if the group has none. */
void replicas_begin(struct replicas *replicas, uint8_t ack, uint32_t timeout_ms);

/* Reports that an operation was sent. */
void replicas_sent(struct replicas *replicas, enum op op, struct instant now);

/* Called at the end of a turn. Returns the timeout in ms of the WAIT that is to be sent now; 0:
 * none is. Only one is in flight at a time, and its timeout counts from the first write that it is
 * for. Otherwise a master whose replicas do not answer would get more WAITs than it can answer. */
MUST_CHECK uint32_t replicas_asks(struct replicas *replicas, struct instant now);

/* Returns true if the reply to `op` is to be kept back (OP_COUNT: a reply to a command of the Redis
 * room). All replies after one that is kept back are kept back too: the state of the master (its
 * marker, its errors) must not overtake its votes. */
MUST_CHECK bool replicas_keeps(struct replicas *replicas, enum op op);

/* Returns true if the answer is not waited for any more. Then the replies kept back are passed on
 * as those that too few replicas have. The answer may still come. */
MUST_CHECK bool replicas_give_up(struct replicas *replicas, struct instant now);

/* Reports the answer: `count` replicas have all that was sent before the WAIT (below 0: it failed).
 * The replies kept back are passed on now. Returns true if the replicas are enough. */
MUST_CHECK bool replicas_answered(struct replicas *replicas, int64_t count);

/* Returns the vote that counts if too few replicas have it. */
enum vote replicas_vote(enum op op, enum vote vote);

#endif
