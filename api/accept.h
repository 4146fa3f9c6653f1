/* Chooses the medium of an answer that a caller accepts. */
#ifndef LOCKAGENT_API_ACCEPT_H
#define LOCKAGENT_API_ACCEPT_H

enum media { MEDIA_JSON, MEDIA_TEXT, MEDIA_NONE };

/* The result of the Accept headers so far, for each medium: its weight in thousandths, and how
 * exactly it was named. Starts zeroed. */
struct accept {
    int headers;
    int weight[MEDIA_NONE], exactness[MEDIA_NONE];
};

/* Returns the heavier medium. Of equal ones it is the one that was named more exactly, then JSON.
 * MEDIA_NONE if neither is accepted. */
enum media accept_choose(const struct accept *accept);

#endif
