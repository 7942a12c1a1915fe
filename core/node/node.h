/* Node: the parts of a running node and how they are put together.
 *
 * Wiring only: every decision is in the rooms. Parts are made in the order of the fields and
 * destroyed in the opposite one. node_open() makes everything that needs no peer; node_serve() is
 * called on the loop when the container engine answered (or there is none) and opens the ports. */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include <api/api.h>
#include <http/fetch.h>
#include <lb/lb.h>
#include <admin/admin.h>
#include <config/config.h>
#include <node/generation.h>
#include <node/owner.h>
#include <node/reload.h>
#include <page/history.h>
#include <page/page.h>
#include <process/harden.h>
#include <process/start.h>
#include <node/side.h>
#include <poolserver/keep.h>
#include <poolserver/asker.h>
#include <poolserver/service.h>
#include <tls/node_tls.h>
#include <web/web.h>
#include <rpc/local.h>
#include <rpc/plugin_rpc.h>
#include <rpc/rpc.h>
#include <runner/runner.h>
#include <store/store.h>
#include <trace/trace.h>

struct node {
    const struct config *config; /* of the current generation */
    struct harden_report hardening;
    const struct node_side *sides[SIDES_N]; /* along the way of a call */
    uint32_t n_sides;
    const struct node_side *front; /* where work comes in */
    struct node_elsewhere {
        const struct node *node;
        const struct node_side *side;
    } elsewhere[SIDES_N]; /* sides of other nodes */
    struct generation *gen;      /* current; NULL before node_open() made it */
    LIST_HEAD(, generation) generations;
    uint32_t generations_ending; /* a worker destroys their plugins */
    struct reload *reload;
    struct conf_problems *problems; /* while plugins are loaded at the start */
    struct loop *loop;
    struct env *env;
    struct plugin_host *host;
    struct fetch *fetch;
    struct rpc *rpc;
    struct plugin_rpc *plugin_rpc;
    struct node_tls tls;
    struct id_maker ids;
    struct budget bodies;
    struct tracer *tracer;
    char hostname[256];

    struct plugin **plugins; /* drivers, in order of creation; the others belong to generations */
    uint32_t n_plugins;

    /* runner side */
    struct proc *proc; /* child processes of drivers */
    struct fnsock_if fnsock;
    struct driver_hub *hub;
    struct engine_probe *probe; /* NULL when it has answered */
    char engine_version[64];
    struct plugin *driver;
    struct runner *runner;
    struct rpc_server *rpc_server;
    struct local *local;
    struct engage_server_cb rpc_cb, local_cb;
    struct local *log_local; /* by which `fnd logs` reads a node that is no load balancer */
    struct engage_link *log_link;
    char owner[OWNER_MAX];
    char instance[33];

    /* load balancer side */
    struct place *place;
    struct catalog *catalog;
    struct follow *follow;
    struct catalog_source api;
    struct lb *lb;
    struct web *web;

    /* API side; both NULL: without a store there is no API */
    struct store *store;
    struct api *management;

    /* node pool manager side */
    struct npm_manager *npm;
    struct npm_service *npm_service;
    struct asker asker;
    struct npm_keep *npm_keep; /* NULL: neither npm.wishes_file nor an admin socket: not kept */

    /* of the side that drains */
    void (*drained)(void *ud);
    void *drained_ud;

    struct config_undo *settings_undo; /* of a ConfigureRunner that is not decided yet */

    LIST_HEAD(, log_page) log_pages;
    struct admin *admin; /* NULL = off */
    char admin_path[ADMIN_PATH_MAX + 1]; /* "" = no socket */
    struct page *page;   /* NULL = off */
    const char *page_series[HISTORY_SERIES_MAX + 1];
    char page_says[NPM_EXPLAIN_MAX]; /* of the group that its table shows last */
    int64_t opened_ns;
    bool serving, draining;
    bool reloading; /* a worker makes the next generation, and reads this one's configuration */
};

/* run.c: `fnd run`, the life of a node process. Returns an exit code of process/start.h. */
int run_node(struct config *config, const struct start *o);
/* [init] Takes `config` as the first generation; borrowed until node_close(). FN_E_INVALID: the
 * configuration (lines in *problems or *reterr); else what was missing. */
int node_open(struct node *n, struct config *config, struct fn_error *reterr);
/* [init] The first steps of node_open(): the loop and the host of plugins, and what they are
 * offered. */
int node_make(struct node *n, struct config *config, struct fn_error *reterr);
int node_offer(struct node *n, struct fn_error *reterr);
/* [init] check.c: tells what a start of this configuration would refuse, and prints it when
 * nothing is. Once per process, which then has made instances in a sandbox and can only end. */
void node_check(struct config *config, struct buf *out, struct conf_problems *p);
/* [loop] apply.c: the parts take the settings of the current generation over. */
void node_apply(struct node *n);
void node_set_budget(struct node *n); /* of these, that of bodies */
extern const struct runner_settings node_settings; /* settings.c; ud: the node */
/* [loop] A reload begins: what a ConfigureRunner has set and nobody has decided is taken back. */
void node_settings_undo(struct node *n);
/* [loop] Opens the ports. */
int node_serve(struct node *n, struct fn_error *reterr);
/* [init] The loop must have ended and everything must have been drained. */
void node_close(struct node *n);

/* admin_pages.c: the admin socket. A default path that cannot be used is logged,
 * one of fn.yaml and one in use are errors. */
int node_admin_open(struct node *n, struct fn_error *reterr);
struct json_t *node_status(const struct node *n); /* status.c: of GET /status; given */
/* Why it takes no calls, a sentence in `text` of cap bytes; NULL: it takes them. For those who
 * decide whether a node gets calls (HAProxy, Kubernetes), GET /ready: what the node can do now,
 * never what somebody else has, as a page that stayed red because no calls come would never turn
 * green. [loop] */
const char *node_unready(const struct node *n, char *text, size_t cap);
/* traces.c: [init] after node_offer(), before the sides are opened; [loop] or [init]: takes over
 * what the current configuration says. */
int node_traces_open(struct node *n, struct fn_error *reterr);
void node_traces_apply(struct node *n);
/* page_open.c: the operator's page. One of the default address that cannot be opened is logged. */
bool node_has_page(const struct node *n);
int node_page_open(struct node *n, struct fn_error *reterr);
/* page_tables.c: what it shows of each side. */
extern const struct page_table node_lb_tables[], node_runner_tables[], node_npm_tables[];
extern const char *const node_lb_series[], *const node_runner_series[], *const node_npm_series[];
void node_lb_sample(const struct node *n, int64_t *ret);
void node_runner_sample(const struct node *n, int64_t *ret);
void node_npm_sample(const struct node *n, int64_t *ret);
struct json_t *node_shadow_json(const struct node *n); /* given; NULL: there is none */
/* side_api.c: a catalog's source without a network, of the struct node. */
int node_ask_api(void *impl, const char *path_and_query,
                 void (*cb)(void *ud, uint32_t status, const char *body, size_t len,
                            const struct fn_error *err),
                 void *ud);
/* list_pages.c: pages of what there is now. */
extern const struct node_list node_lb_lists[], node_runner_lists[], node_npm_lists[];
void node_lists_open(struct node *n);
void node_shadow_status(void *ud, struct admin_request *rq); /* shadow_pages.c */
void node_shadow_swap(void *ud, struct admin_request *rq);

/* plugin.c: makes the instance of a section that lives as long as the node. */
int node_plugin(struct node *n, const struct config_plugin *section, struct plugin **ret,
                struct fn_error *reterr);

#endif
