/* What `fnd check` does behind config_load(): all that a start does up to its ports, as far as it
 * tells mistakes. Instances are made in a sandbox and left to the end of the process. */
#include <node/node.h>
#include <plugin/sandbox.h>

#include <base/log.h>
#include <time.h>

/* Drivers and placers may stand on those before them: behind one that is refused none is judged. */
static void check_drivers(struct node *n)
{
    const struct config_list_plugin *list = &n->config->drivers;
    struct plugin *driver = NULL;
    struct fn_error e = ERR_INIT;

    for (uint32_t i = 0; i < list->n && node_plugin(n, &list->items[i], &driver, &e) == 0; i++) {
        if (driver && driver_hub_add(n->hub, driver, &e) < 0) {
            conf_problem(n->problems, "CFG712", list->items[i].where, "%s", e.msg);
        }
    }
}

static void check_instances(struct node *n, struct config *config)
{
    struct generation *g = generation_create(n, config, false);
    struct fn_error e = ERR_INIT;
    struct plugin *made;

    check_drivers(n);
    if (node_has_npm(n)) {
        node_plugin(n, &config->cplane, &made, &e);
        node_plugin(n, &config->predictor, &made, &e);
    }
    if (g) {
        generation_load(g, NULL, n->problems);
    }
}

/* What plugins are offered, without anything that listens or dials. */
static int open_host(struct node *n, struct config *config, struct fn_error *reterr)
{
    int r = node_make(n, config, reterr);

    n->tls.env = n->env;
    n->tls.config = config;
    r = r < 0 ? r : node_offer(n, reterr);
    r = r < 0 || !node_has_lb(n) ? r : node_lb_open(n, reterr);
    if (r == 0 && node_has_runner(n)) {
        n->hub = driver_hub_create(n->env, n->host);
        r = n->hub ? 0 : err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    return r;
}

void node_check(struct config *config, struct buf *out, struct conf_problems *p)
{
    static struct node n; /* as long as the process: threads of plugins may use it */
    const struct rpc_transport *transport;
    struct fn_error e = ERR_INIT;

    log_set_level(FN_LOG_ERROR);
    n.problems = p;
    if (p->n > 0) {
        config->n_apps = 0; /* no catalogue can be made of what was refused */
    }
    if (node_find_transport(config, &transport, &e) < 0) {
        config_transport_tell(config, e.msg, p);
        return;
    }
    if (open_host(&n, config, &e) < 0) {
        conf_problem(p, "CFG712", NULL, "%s", e.msg);
        return;
    }
    if (config_plugin_policy(config, n.host, p) < 0) {
        return; /* told; without these rules no plugin may be loaded */
    }
    config_plugins_check(config, n.host, p);
    if (p->n == 0) {
        config_print(config, n.host, out, p);
    }
    node_tls_check(config, (int64_t)time(NULL) * ENV_S, p);
    if (sandbox_enter()) {
        check_instances(&n, config);
    } else {
        conf_note(p, "CFG710", NULL,
                  "plugins do not judge their options: this machine has no seccomp for the check");
    }
}
