/* What kind of answer a caller accepts. */
#ifndef LOCKAGENT_API_ACCEPT_H
#define LOCKAGENT_API_ACCEPT_H

enum media { MEDIA_JSON, MEDIA_TEXT, MEDIA_NONE };

/* What the Accept headers have said so far of each medium: weight in thousandths, and how exactly
 * it was named. Starts zeroed. */
struct accept {
    int headers;
    int weight[MEDIA_NONE], exactness[MEDIA_NONE];
};

/* The heavier medium; of equals the one that was named more exactly, then JSON. MEDIA_NONE when
 * neither is accepted. */
enum media accept_choose(const struct accept *accept);

#endif
