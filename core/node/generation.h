/* Generation: one state of the configuration with the plugin instances that were made from it.
 *
 *   MADE ──▶ CURRENT ──▶ DRAINING ──▶ ENDING ──▶ freed           MADE ──▶ ENDING
 *
 *   MADE to CURRENT      become_current(): every side has taken it over; node.gen is this one
 *   CURRENT to DRAINING  replace(): another one is current; parts that count it still call its
 *                        plugins, and it is told as stuck after GENERATION_STUCK_NS
 *   to ENDING            on_end_task(): nobody counts it, or it was discarded; a worker destroys
 *                        its plugins, and generations_close() those that are left
 *
 * It owns its placers, overriders, listeners and its pool; drivers belong to the node, because
 * their containers outlive a reload. A pool with the same options goes over to the next generation.
 * Listeners on a worker with the same options are shared with it, because what they keep for a
 * server that is away must not end with a reload; the last generation that has one destroys it.
 * Counted: by the node while it is the current one, and by each part that may still call its
 * plugins (the chain that calls pin, the placer of rounds and snapshots, the pool until it has
 * stopped). With the last count its plugins are destroyed on a worker. */
#ifndef NODE_GENERATION_H
#define NODE_GENERATION_H

#include <base/env.h>
#include <base/states.h>
#include <config/config.h>
#include <lb/catalog.h>
#include <override/chain.h>

struct node;

/* How many may be alive: each keeps its instances while calls of it run. */
#define GENERATIONS_MAX 8u
/* After this time a replaced one that is still in use is reported. */
#define GENERATION_STUCK_NS (30 * ENV_S)

enum generation_state {
    GENERATION_MADE,
    GENERATION_CURRENT,
    GENERATION_DRAINING,
    GENERATION_ENDING,
    GENERATION_STATES_N
};
extern const struct states generation_states;

struct generation {
    enum generation_state state;
    LIST_ENTRY(generation) link; /* node.generations */
    struct node *node;
    uint64_t number; /* 1 is the one of the start */
    struct config *config;
    bool own_config;     /* the first one is the command line's */
    char loaded_at[16];  /* "10:02:11", UTC */
    int64_t replaced_ns; /* 0 = not yet */
    uint32_t refs;
    bool stuck; /* was reported */

    struct plugin **plugins; /* in order of creation, without the pool */
    uint32_t n_plugins;
    struct plugin **overriders, **listeners;
    struct plugin *placer;   /* the outermost one; NULL: no load balancer */
    struct plugin *fallback; /* may be NULL */
    struct plugin *shadow;   /* the outermost one; NULL: none */
    struct plugin *pool;     /* NULL: no load balancer, or its successor has it */
    bool keeps_pool;         /* takes the pool of the one before */
    struct catalog *catalog; /* functions of fn.yaml until they are switched in */
    struct chain chain;
    uint32_t lent; /* parts that count it while it is the current one; all other counts are calls */

    struct env_timer stuck_timer;
    struct env_task end_task;
    struct env_timer end_again;
    struct env_work end_work;
};

/* NULL: out of memory; own_config: taken in any case. */
struct generation *generation_create(struct node *n, struct config *config, bool own_config);
/* Makes all instances. `running` is the pool in use (NULL = none). [init], or on a worker between
 * plugin_beside_begin() and end(). FN_E_INVALID: lines in *p. */
int generation_load(struct generation *g, struct plugin *running, struct conf_problems *p);
/* For sides: makes the instance of a section, or NULL with lines in *p, or because it has none. */
struct plugin *generation_plugin(struct generation *g, const struct config_plugin *section,
                                 struct conf_problems *p);
/* A part that sides gave a plugin of the generation to will not call it any more; before that they
 * counted it in g->refs. ud: the generation. [loop] */
void generation_unref(void *ud);
/* [loop] or [init]: the first one; the sides have made their parts. */
int generation_adopt(struct generation *g, struct fn_error *reterr);
/* [loop] Puts it in the place of node.gen. < 0: nothing changed. */
int generation_switch(struct generation *g, struct fn_error *reterr);
/* [loop] It was made and will not be used. */
void generation_discard(struct generation *g);
/* [init] The same in a node that does not open: generations_close() ends it. */
void generation_abandon(struct generation *g);
/* [init] Destroys all that are left; the loop has ended and no part uses them. */
void generations_close(struct node *n);

/* "10:02:11", UTC, now. [any] */
void generation_clock(struct node *n, char ret[16]);
uint32_t generations_alive(const struct node *n);
/* Their listeners have heard of every call that ended, as far as they will. [loop] */
bool generations_are_told(const struct node *n);

#endif
