/* Effect: what a configuration says without effect for its kind of node. Most of these are
 * warnings; what is peculiar to a side stands in its own file.
 *
 * A file that several kinds of node share names none: FN_NODE_TYPE does, and then sections of the
 * others are what the file is for. */
#include <config/config_int.h>

#include <conf/opts.h>
#include <http/server.h>
#include <rpc/rpc.h>
#include <string.h>

static void check_key(const struct config *c, const struct conf_node *map, const char *key,
                      uint32_t sides, struct conf_problems *p)
{
    const struct conf_node *n = conf_get(map, key);
    struct buf nodes = BUF_INIT(64);

    if (!n || sides == 0 || sides & c->type->sides || (n->type == CONF_SCALAR && !n->text[0])) {
        return;
    }
    config_print_types(sides, &nodes);
    conf_warning(p, "CFG710", conf_where_key(c->priv->file, n),
                 "%s: has no effect, got node: %s; expected it in node: %s", key, c->type->word,
                 buf_text(&nodes));
    buf_finish(&nodes);
}

static void check_keys(const struct config *c, struct conf_problems *p)
{
    const struct conf_node *root = conf_root(c->priv->file);
    const struct conf_node *map = conf_get(root, "plugins");

    for (int i = 0; i < SECTIONS_N; i++) {
        check_key(c, root, config_sections[i].key, config_sections[i].sides, p);
    }
    check_key(c, root, "apps", 1u << SIDE_LB, p);
    for (const struct config_plugin_key *k = config_plugin_keys; k->key; k++) {
        check_key(c, map, k->key, k->sides, p);
    }
}

static bool is_shared(const struct config *c)
{
    return strncmp(config_source_of(c, SECTION_TOP, "node"), "FN_", 3) == 0;
}

/* Whether a value of the tree, or an item of its lists, is that text. */
static bool says(const struct conf_node *n, const char *text)
{
    if (n->type == CONF_SCALAR) {
        return strcmp(n->text, text) == 0;
    }
    for (const struct conf_node *i = n->first; i; i = i->next) {
        if (says(i, text)) {
            return true;
        }
    }
    return false;
}

static bool is_named(const struct config *c, const struct config_tls *tls)
{
    const struct conf_node *root = conf_root(c->priv->file);
    const char *const used[] = { c->grpc->server_tls, c->grpc->client_tls, c->http->tls };

    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
        if (used[i] && strcmp(used[i], tls->name) == 0) {
            return true;
        }
    }
    for (const struct conf_node *i = root->first; i; i = i->next) {
        if (strcmp(i->key, "tls") != 0 && says(i, tls->name)) {
            return true; /* also by a plugin, which may call the option as it likes */
        }
    }
    return false;
}

/* Files of such an entry are read by nobody, so that its mistakes show nowhere. */
static void check_tls_names(const struct config *c, struct conf_problems *p)
{
    for (uint32_t i = 0; i < c->n_tls; i++) {
        const struct config_tls *tls = &c->tls[i];

        if (tls->node && !is_named(c, tls)) {
            conf_warning(p, "CFG710", conf_where_key(c->priv->file, tls->node),
                         "%s: has no effect: nothing names this entry of tls:", tls->name);
        }
    }
}

/* Behind the arrow of a rule of overrider/rules. */
static bool sets_group(const char *rule)
{
    const char *at = strstr(rule, "->");

    while (at && (at = strstr(at + 1, "group="))) {
        if (strchr(" \t>", at[-1])) {
            return true;
        }
    }
    return false;
}

static void check_rules(const struct config *c, const struct config_plugin *overrider,
                        const char *nodes, struct conf_problems *p)
{
    const struct conf_node *list = conf_get(overrider->node, "rules");
    uint32_t i = 0;

    for (const struct conf_node *n = list ? list->first : NULL; n; n = n->next, i++) {
        if (n->type == CONF_SCALAR && sets_group(n->text)) {
            conf_warning(p, "CFG710", conf_where(c->priv->file, n),
                         "overrider rules: rules[%u]: group= has no effect: a call is with its "
                         "runner already, got node: %s; expected it in node: %s",
                         i, c->type->word, nodes);
        }
    }
}

static void check_groups(const struct config *c, struct conf_problems *p)
{
    struct buf nodes = BUF_INIT(64);

    config_print_types(1u << SIDE_LB, &nodes);
    for (uint32_t i = 0; i < c->overriders.n && !config_has(c, SIDE_LB); i++) {
        const struct config_plugin *overrider = &c->overriders.items[i];

        if (overrider->use && strcmp(overrider->use, "rules") == 0) {
            check_rules(c, overrider, buf_text(&nodes), p);
        }
    }
    buf_finish(&nodes);
}

void config_effect_check(const struct config *c, struct conf_problems *p)
{
    if (!is_shared(c)) {
        check_keys(c, p);
        check_groups(c, p);
    }
    check_tls_names(c, p);
}
