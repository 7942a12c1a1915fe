/* Settings: values of the running configuration that a ConfigureRunner changes. They last until the
 * next reload, which reads fn.yaml as if they had never been, or until the process ends.
 *
 * Those of one request are in use at once, and are taken back when the operator's plugin refuses
 * the rest of it. A reload that begins meanwhile takes them back as well, before its worker reads
 * the configuration: the request is answered UNAVAILABLE, whatever becomes of the reload. */
#include <node/node.h>

static int settings_set(void *ud, const struct fn_kv *keys, uint32_t n, struct fn_error *reterr)
{
    struct node *node = ud;
    int r;

    if (node->reloading) {
        return err_set(reterr, FN_E_UNAVAILABLE, "a reload is being made; try again");
    }
    r = config_set(node->gen->config, keys, n, &node->settings_undo, reterr);
    if (r == 0) {
        node_apply(node);
    }
    return r;
}

void node_settings_undo(struct node *n)
{
    struct config_undo *u = n->settings_undo;

    n->settings_undo = NULL;
    if (u) {
        config_undo(n->gen->config, u);
        node_apply(n);
    }
}

static bool settings_keep(void *ud, bool keep)
{
    struct node *n = ud;
    bool stand = n->settings_undo && keep;

    if (stand) {
        config_undo_free(n->settings_undo);
        n->settings_undo = NULL;
    } else {
        node_settings_undo(n);
    }
    return stand;
}

const struct runner_settings node_settings = { config_is_setting, settings_set, settings_keep };
