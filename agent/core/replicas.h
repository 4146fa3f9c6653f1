/* The replicas of a group's one master (R21) as a step machine: when the master is asked to WAIT
 * for them, which replies are kept back until then, and what these are worth.
 *
 *   write, write, ... end of the turn            its answer
 *      |      |             |                        |
 *      due ---+--------> WAIT under way -------> the replies kept back are heard, in order;
 *                           |                    what too few replicas have is no vote,
 *                           |                    as little as where none comes in time
 *                           +-- writes meanwhile share the next one
 *
 * One for each connection to the master; without a count of replicas it does nothing. Whoever
 * carries it out
 *   1. tells of every operation that was sent, and asks at the end of each turn;
 *   2. sends the WAIT behind all that was sent before, on the same connection;
 *   3. keeps back what it is told to keep, and hears all of it, in the connection's order, when the
 *      answer has come, or as unknown when the connection has ended. */
#ifndef LOCKAGENT_CORE_REPLICAS_H
#define LOCKAGENT_CORE_REPLICAS_H

#include "types.h"

struct replicas {
    uint8_t ack;         /* so many must have what is written; 0: nobody waits for any */
    uint32_t timeout_ms; /* and so soon after it was sent */
    bool due;            /* something was written since the last WAIT was sent, */
    bool under_way;      /* which has not been answered */
    struct instant due_since, until; /* until: that one is waited for */
    uint32_t kept;                   /* replies */
};

/* The state of a new connection; `ack` and `timeout_ms` are replicas.ack and replicas.timeout of
 * its group, `ack` 0 where it has none. */
void replicas_begin(struct replicas *replicas, uint8_t ack, uint32_t timeout_ms);

/* An operation was sent. */
void replicas_sent(struct replicas *replicas, enum op op, struct instant now);

/* The turn ends: the timeout in ms of the WAIT that is to be sent now; 0: none is. One is under way
 * at a time, and its timeout counts from the first write that it is for: else a master that waits
 * in vain would be asked for more than it ever answers. */
MUST_CHECK uint32_t replicas_asks(struct replicas *replicas, struct instant now);

/* True where the reply that has come, to `op` (OP_COUNT: to nothing of the core's), is to be kept
 * back. So is all behind one that is: what is known of the master (its marker, its errors) must not
 * overtake its votes. */
MUST_CHECK bool replicas_keeps(struct replicas *replicas, enum op op);

/* The time has come: true where no answer is waited for any more. What was kept back is to be heard
 * now, as what too few replicas have; the answer may still come. */
MUST_CHECK bool replicas_give_up(struct replicas *replicas, struct instant now);

/* The WAIT was answered: `count` replicas have all that was sent before it (below 0: it failed).
 * What was kept back is to be heard now. True where they are enough. */
MUST_CHECK bool replicas_answered(struct replicas *replicas, int64_t count);

/* What a vote is worth that too few replicas have. */
enum vote replicas_vote(enum op op, enum vote vote);

#endif
