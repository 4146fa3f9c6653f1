/* Memory of the one reply that a line is reading. hiredis' parser takes each object of the reply
 * from it. All are given back at once after the reply was passed on. So a reply of usual size needs
 * no malloc(). A larger one gets more memory for as long as it exists. */
#ifndef LOCKAGENT_REDIS_REPLY_MEMORY_H
#define LOCKAGENT_REDIS_REPLY_MEMORY_H

#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#include <stddef.h>

#include "agent/core/types.h"

/* Room for a batch of 64 renewals; each takes 48 bytes of hiredis 0.14, 64 of 1.2. */
enum { REPLY_MEMORY_BYTES = 5120 };

struct reply_memory {
    struct reply_spill *spilled; /* The newest first. */
    size_t used;                 /* Used bytes of the newest spill, or of `first` if there is
                                  * none. */
    _Alignas(max_align_t) char first[REPLY_MEMORY_BYTES];
};

/* Returns a reader that makes its replies (redisReply, as hiredis does) in `memory`. `memory` must
 * be all zero and outlive the reader. The replies must not be freed one by one. Returns NULL if
 * there is not enough memory. */
MUST_CHECK redisReader *reply_memory_reader(struct reply_memory *memory);

/* Gives back all objects. Earlier replies must not be used any more. */
void reply_memory_reset(struct reply_memory *memory);

/* A reply that outlives its reading. */

/* Returns a copy in one piece of memory, which the caller passes to free(); NULL if there is not
 * enough memory. Replies have the types of RESP 2, and are nested no deeper than the line allows
 * (D5.2). */
redisReply *reply_copy(const redisReply *reply);

#endif
