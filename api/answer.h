/* Answers of the core as callers see them. */
#ifndef LOCKAGENT_API_ANSWER_H
#define LOCKAGENT_API_ANSWER_H

#include "api/internal.h"

/* The status of each answer of the core. */
unsigned answer_status(enum answer answer);
/* Keeps an answer until it is written. */
void answer_keep(struct kept_answer *kept, const struct effect_answer *answer);
/* No caller is left to be told: whatever lock the answer hands out is given back. */
void answer_give_back(struct api *api, const struct effect_answer *answer);
/* Writes the kept answer, with what is left of its validity now. MHD_NO closes the connection. */
enum MHD_Result answer_write(struct connection *connection);
/* Answers without the core. */
enum MHD_Result answer_here(struct connection *connection, enum answer answer);

#endif
