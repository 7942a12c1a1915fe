/* Side of the node pool manager: its control plane where nobody names one. */
#include <config/config_int.h>

static void npm_plugins(struct config *c, struct conf_problems *p)
{
    (void)p;
    if (!c->cplane.where) {
        c->cplane = config_plugin_default(FN_KIND_CONTROL_PLANE, "process", "default");
    }
}

/* Runners that nobody asked to be processes of this machine. */
static void npm_effect(const struct config *c, struct conf_problems *p)
{
    const struct conf_node *root = conf_root(c->priv->file);
    const struct conf_node *map = conf_get(root, "plugins");

    if (!conf_get(map, "control_plane") && !conf_is_misspelt(root, config_top_others, "plugins") &&
        !conf_is_misspelt(map, config_plugin_names(c), "control_plane")) {
        conf_warning(p, "CFG710", map ? conf_where(c->priv->file, map) : c->path,
                     "control_plane is missing: runners become processes of this machine; expected "
                     "{ use: process } or another one");
    }
}

const struct config_side_part config_side_npm = { npm_plugins, npm_effect };
