/* A reply that outlives its reading. */
#ifndef LOCKAGENT_REDIS_REPLY_COPY_H
#define LOCKAGENT_REDIS_REPLY_COPY_H

#include <hiredis/hiredis.h>

/* A copy in one piece of memory, the caller's to free(); NULL when out of memory. Replies have the
 * types that RESP 2 knows, and are nested no deeper than the line lets them be (D5.2). */
redisReply *reply_copy(const redisReply *reply);

#endif
