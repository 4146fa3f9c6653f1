/* A master that breaks the protocol: a proxy in front of a real redis-server, so that it greets as
 * a real master does, which then says what no master says. Runs in a thread of its own; the
 * functions below are called by the test's thread. */
#ifndef LOCKAGENT_TESTS_HOSTILE_H
#define LOCKAGENT_TESTS_HOSTILE_H

#include "harness.h"

enum hostile_way {
    /* the bytes come on top of what the master says, on every connection that has greeted */
    HOSTILE_ADD,
    HOSTILE_GREET,   /* the same, but at once, before the master has said anything */
    HOSTILE_REPLACE, /* they come in place of what the master says to a script */
    /* of what the master says to a script only the first half comes, and then nothing */
    HOSTILE_TRUNCATE,
    HOSTILE_CUT,  /* the same, and then the end of the connection */
    HOSTILE_TIME, /* they come in place of what the master says to TIME */
};

struct attack {
    const char *name;
    enum hostile_way way;
    bool subscriber;   /* on the connection that subscribes, and on no other */
    const char *bytes; /* NULL with those that need none */
    bool endless;      /* again and again, as fast as they are taken */
    const char *tail;  /* what is repeated where it is endless; NULL: `bytes` */
    const char *fault; /* what the agent is to count; NULL: nothing certain */
};

struct hostile;

/* Stands in front of the master of that index until the world ends. */
struct hostile *hostile_start(size_t index);
const char *hostile_url(const struct hostile *hostile);   /* for the agent's configuration */
const char *hostile_label(const struct hostile *hostile); /* of its metrics */
/* `attack` is kept by reference until the next call; NULL: an honest master again. The connections
 * stay. */
void hostile_attack(struct hostile *hostile, const struct attack *attack);
/* Ends the connections that are open, so that the agent makes others. */
void hostile_drop(struct hostile *hostile);
/* Times that the attack has been made. */
unsigned hostile_hits(const struct hostile *hostile);
void hostile_stop_all(void);

#endif
