/* Plugins that live as long as the node. */
#include <node/node.h>

#include <stdlib.h>

int node_plugin(struct node *n, const struct config_plugin *section, struct plugin **ret,
                struct fn_error *reterr)
{
    struct plugin **list;

    *ret = NULL;
    if (!section->use) {
        return 0;
    }
    if (config_plugin_load(n->config, n->host, section, ret, n->problems) < 0) {
        return err_set(reterr, FN_E_INVALID, "plugin %s could not be loaded", section->use);
    }
    list = realloc(n->plugins, (n->n_plugins + 1) * sizeof(*list));
    if (!list) {
        plugin_destroy(*ret);
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    n->plugins = list;
    n->plugins[n->n_plugins++] = *ret;
    return 0;
}
