/* What `fnd check` does behind config_load(): all that a start does up to its ports, as far as it
 * tells mistakes. Instances are made in a sandbox and left to the end of the process. */
#include <node/node.h>
#include <plugin/sandbox.h>

#include <base/log.h>
#include <time.h>

static void check_instances(struct node *n, struct config *config)
{
    struct generation *g = generation_create(n, config, false);

    for (uint32_t i = n->n_sides; i-- > 0;) {
        if (n->sides[i]->try_plugins) {
            n->sides[i]->try_plugins(n);
        }
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
    for (uint32_t i = n->n_sides; i-- > 0 && r == 0;) {
        r = n->sides[i]->try_open ? n->sides[i]->try_open(n, reterr) : 0;
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
    if (rpc_transport_find(config->transport_dir, config->grpc->transport, &transport, &e) < 0) {
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
