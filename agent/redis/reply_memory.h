/* Memory of the one reply that a line is reading. hiredis' parser takes each object of a reply from
 * it, and all of them are given back at once when the reply has been heard: so a reply of the usual
 * size costs no heap. A larger one spills over, for as long as it lasts. */
#ifndef LOCKAGENT_REDIS_REPLY_MEMORY_H
#define LOCKAGENT_REDIS_REPLY_MEMORY_H

#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#include <stddef.h>

#include "agent/core/types.h"

/* Room for a batch of 64 renewals; each takes 48 bytes of hiredis 0.14, 64 of 1.2. */
enum { REPLY_MEMORY_BYTES = 5120 };

struct reply_memory {
    struct reply_spill *spilled; /* newest first */
    size_t used;                 /* of the newest spill, or of `first` where there is none */
    _Alignas(max_align_t) char first[REPLY_MEMORY_BYTES];
};

/* A reader whose replies (redisReply, as hiredis' own) are made in `memory`, which must be all zero
 * and outlive it. NULL when out of memory. Its replies must not be freed one by one. */
MUST_CHECK redisReader *reply_memory_reader(struct reply_memory *memory);

/* Gives back all that was taken: no reply of before may be used any more. */
void reply_memory_reset(struct reply_memory *memory);

/* A reply that outlives its reading. */

/* A copy in one piece of memory, the caller's to free(); NULL when out of memory. Replies have the
 * types that RESP 2 knows, and are nested no deeper than the line lets them be (D5.2). */
redisReply *reply_copy(const redisReply *reply);

#endif
