/* The certificates of a node: loaded at the start, watched on disk, handed to gRPC when they were
 * renewed. A renewed file that cannot be used changes nothing and is logged (F84 to F88). [loop]
 * unless marked. */
#ifndef TLS_NODE_TLS_H
#define TLS_NODE_TLS_H

#include <base/arena.h>
#include <base/env.h>
#include <base/metric.h>
#include <config/config.h>
#include <net/tls.h>
#include <rpc/rpc.h>
#include <tls/files.h>

#define NODE_TLS_POLL_NS (5 * ENV_S)

/* One entry of tls: in use. */
struct node_tls_side {
    const struct config_tls *config; /* NULL = plain text */
    struct tls_files files;
    uint64_t stamp; /* of the files in force, as they were on disk */
    uint64_t refused_stamp; /* of those that were refused last, which is told once; 0 = none */
    struct metric *days_left;
    int64_t alarm_days; /* told last; 0 = nothing yet */
    bool crl_alarm;     /* told that a revocation list ends */
    struct net_identity *identity; /* NULL: of the two sides of gRPC, whose rpc has them */
};

struct node_tls {
    struct env *env;
    struct rpc *rpc; /* NULL until node_tls_watch() */
    struct node_tls_side server, client, web, page;
    struct env_timer timer;
    struct node_tls_side *named; /* what plugins asked for by name; moves when it grows */
    uint32_t n_named;
    struct arena arena; /* what their entries said: they outlive a configuration */
    const struct config *config; /* the one in use */
    const struct config *next;   /* one that is tried, NULL: none */
};

/* [init] FN_E_INVALID: a file cannot be used. The configuration is borrowed until node_tls_close().
 */
int node_tls_open(struct node_tls *t, struct env *env, const struct config *c,
                  struct fn_error *reterr);
/* [init] The same for a configuration that nobody runs: every file that cannot be used is a problem
 * of its own; one that is not there, where secrets may not be, is a warning. */
void node_tls_check(const struct config *c, int64_t wall_ns, struct conf_problems *p);
/* Borrowed until the files are renewed. */
struct net_tls node_tls_of(const struct node_tls_side *side);
/* [loop] An entry of tls: by name for a plugin's own connections, loaded at the first question and
 * renewed like the node's; NULL: no such entry, or its files cannot be used, which is logged. It
 * goes with the first look at which neither the configuration nor a connection has it. Borrowed.
 * ud: the struct node_tls. */
struct net_identity *node_tls_find(void *ud, const char *name);
/* What plugins name is looked for there from now on: in one that is tried first, NULL when that has
 * ended; and in the one that is in use, borrowed until the next one is. */
void node_tls_try(struct node_tls *t, const struct config *next);
void node_tls_apply(struct node_tls *t, const struct config *c);
/* A problem for each entry in use by plugins that is another one in `next`. */
void node_tls_check_live(const struct node_tls *t, const struct config *next,
                         struct conf_problems *p);
/* Each entry of tls: that is in use, once: from *i on, which is 0 at first; NULL: that was all.
 * Borrowed. */
const struct node_tls_side *node_tls_next(const struct node_tls *t, uint32_t *i);
void node_tls_watch(struct node_tls *t, struct rpc *rpc);
/* Looks at the files at once; SIGHUP does so too. */
void node_tls_look(struct node_tls *t);
void node_tls_close(struct node_tls *t);

#endif
