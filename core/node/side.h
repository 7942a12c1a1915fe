/* Side: what a node is made of, as a table of functions.
 *
 *   open ──▶ prepare ──▶ serve ──▶ begin ──▶ apply, at each reload ──▶ drain ──▶ close
 *
 * A type of node (config/config.h) has one side or several: `full` is the load balancer, the runner
 * and the API. The other files of core/node walk the sides of their node and never ask which ones
 * they are: all that is peculiar to a side stands in its side_<name>.c. A new side is that file,
 * one of the same name in core/config, and its row in CONFIG_SIDES (config/config.h); a new type of
 * node is a row in config/types.c.
 *
 * enum config_side is the way of a call. What is behind must be there first: open, serve and apply
 * go against that way; drain, close and what is shown go along it, each when the one before is
 * done. Those but serve are there; everything else may be NULL, which is: nothing to do. [loop]
 * unless marked. */
#ifndef NODE_SIDE_H
#define NODE_SIDE_H

#include <admin/admin.h>
#include <base/walk.h>
#include <config/config.h>
#include <jansson.h>
#include <page/look.h>

struct node;
struct generation;
struct chain;
struct harden_plan;

struct node_route {
    const char *method, *prefix; /* see admin_route() */
    admin_handler handler;       /* ud: the struct node */
};

/* A page of rows that people look at, such as GET /calls: see list_pages.c. [loop] */
struct node_list {
    const char *name;
    void (*begin)(struct node *n, struct walk *w);
    json_t *(*next)(struct node *n, struct walk *w); /* given; NULL: none is left */
};

struct node_side {
    const char *name; /* of its part of GET /status */

    /* [init] Makes what needs no peer. What lives as long as the node is loaded here by
     * node_plugin(). */
    int (*open)(struct node *n, struct fn_error *reterr);
    /* Finds out whether the machine offers what the side needs; ports open when all sides said so.
     * done() with NULL, or with why not, perhaps from inside. */
    int (*prepare)(struct node *n, void (*done)(void *ud, const struct fn_error *why_not), void *ud,
                   struct fn_error *reterr);
    int (*serve)(struct node *n, struct fn_error *reterr); /* opens a port of its own */
    /* All ports are open, so no other node has them: what would harm a node that is this one's
     * double waits until here. */
    void (*begin)(struct node *n);
    void (*apply)(struct node *n); /* takes over the settings of the current generation */
    /* Once. No new work has come since node.draining; done() when none is left, perhaps from
     * inside. */
    void (*drain)(struct node *n, void (*done)(void *ud), void *ud);
    void (*close)(struct node *n); /* [init] */

    /* `fnd check`, in the place of open: what plugins look for at their host, without anything that
     * listens; then, in a sandbox, the instances that open would load. [init] */
    int (*try_open)(struct node *n, struct fn_error *reterr);
    void (*try_plugins)(struct node *n);

    /* A generation of the configuration (generation.h). Instances of its own, [init] or on a worker
     * between plugin_beside_begin() and its end: */
    void (*load)(struct generation *g, struct plugin *running, struct conf_problems *p);
    /* Takes over from `old` (NULL at the start) before g becomes current; < 0: nothing changed. */
    int (*take)(struct generation *g, struct generation *old, struct fn_error *reterr);
    int (*use)(struct generation *g); /* g is current; < 0: out of memory, parts keep the old one */

    /* Asked of the side where work comes in (node.front). */
    void (*set_chain)(struct node *n, struct chain *chain); /* takes a reference */
    uint64_t (*in_flight)(const struct node *n);            /* calls that cut() would end */
    void (*cut)(struct node *n);                            /* each with an answer */

    int64_t cut_ns; /* that it needs to end, at most, when the calls are cut */
    /* Strangers come by HTTP: no interface is refused, and they may send their last requests when
     * the node drains. */
    bool serves_clients;
    bool hears_changes;  /* with a store: of apps, functions and triggers */
    const char *exposed; /* what whoever reaches gRPC in plain text may do */

    /* What operators see. */
    json_t *(*status)(const struct node *n); /* given */
    /* Why it takes no work, perhaps in `text`; NULL: it does. See node_unready(). */
    const char *(*unready)(const struct node *n, char *text, size_t cap);
    const struct node_route *routes; /* method NULL ends */
    const struct node_list *lists;   /* name NULL ends */
    const struct page_table *tables; /* of the operator's page; name NULL ends; ud: the node */
    const char *const *series;       /* names of its figures there, NULL ends */
    void (*sample)(const struct node *n, int64_t *ret); /* as many */
    const char *elsewhere[2]; /* what other nodes answer there, around the word of their type */
    void (*with_admin)(struct node *n); /* the admin socket has its path */

    /* What it needs of the machine (rights.h), added to the plan; and a file beside which it
     * writes, or NULL. Before anything is there. [init] */
    void (*rights)(const struct config *c, struct harden_plan *p);
    const char *(*keeps)(const struct config *c);

    /* What it may fill, for the audit. */
    uint64_t (*memory)(const struct node *n);
    uint32_t files_slack; /* descriptors */
};

#define NODE_SIDE(NAME, name) extern const struct node_side node_side_##name;
CONFIG_SIDES(NODE_SIDE)
#undef NODE_SIDE
extern const struct node_side *const node_sides[SIDES_N];

#endif
