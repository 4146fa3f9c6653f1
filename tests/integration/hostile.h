/* A master that breaks the protocol: a proxy in front of a real redis-server. It greets as a real
 * master does, and then sends replies that no master sends. Runs in a thread of its own; the
 * functions below are called by the test's thread. */
#ifndef LOCKAGENT_TESTS_HOSTILE_H
#define LOCKAGENT_TESTS_HOSTILE_H

#include "harness.h"

enum hostile_way {
    /* the bytes come on top of the master's replies, on every connection that has greeted */
    HOSTILE_ADD,
    HOSTILE_GREET,   /* the same, but at once, before the master has said anything */
    HOSTILE_REPLACE, /* they come in place of the master's reply to a script */
    /* the master's reply to a script is cut to its first half, and then nothing comes */
    HOSTILE_TRUNCATE,
    HOSTILE_CUT,  /* the same, and then the end of the connection */
    HOSTILE_TIME, /* they come in place of the master's reply to TIME */
};

struct attack {
    const char *name;
    enum hostile_way way;
    bool subscriber;   /* on the connection that subscribes, and on no other */
    const char *bytes; /* NULL with those that need none */
    bool endless;      /* again and again, as fast as they are taken */
    const char *tail;  /* the repeated bytes of an endless attack; NULL: `bytes` */
    const char *fault; /* the fault that the agent must count; NULL: nothing certain */
};

struct hostile;

/* Starts a proxy in front of the master of that index, until the world ends. */
struct hostile *hostile_start(size_t index);
const char *hostile_url(const struct hostile *hostile);   /* for the agent's configuration */
const char *hostile_label(const struct hostile *hostile); /* Returns the label of its metrics. */
/* `attack` is kept by reference until the next call; NULL: an honest master again. The connections
 * stay. */
void hostile_attack(struct hostile *hostile, const struct attack *attack);
/* Ends the connections that are open, so that the agent makes others. */
void hostile_drop(struct hostile *hostile);
/* Times that the attack has been made. */
unsigned hostile_hits(const struct hostile *hostile);
void hostile_stop_all(void);

#endif
