/* Plugins of a load balancer that a reload replaces: they end as in a real node (core/node), in a
 * task behind the one that gave them back, whose caller may be the plugin itself. */
#include "world.h"

#include <plugin/plugin.h>
#include <stdlib.h>

struct lent {
    LIST_ENTRY(lent) link;
    struct lb_node *l;
    struct plugin *plugin;
    bool is_pool;
    struct env_task end;
};

static void lent_free(struct lent *t)
{
    env_undefer(t->l->n.env, &t->end);
    LIST_REMOVE(t, link);
    plugin_destroy(t->plugin);
    free(t);
}

static void on_end(struct env_task *task)
{
    struct lent *t = container_of(task, struct lent, end);

    if (t->is_pool) {
        place_forget_pool(t->l->place, t->plugin);
    }
    plugin_retire(t->plugin);
    lent_free(t);
}

struct lent *lent_add(struct lb_node *l, struct plugin *plugin, bool is_pool)
{
    struct lent *t = sim_alloc(sizeof(*t));

    *t = (struct lent){ .l = l, .plugin = plugin, .is_pool = is_pool, .end.cb = on_end };
    LIST_INSERT_HEAD(&l->lent, t, link);
    return t;
}

void lent_back(void *ud)
{
    struct lent *t = ud;

    env_defer(t->l->n.env, &t->end);
}

void lent_end(struct lb_node *l)
{
    while (!LIST_EMPTY(&l->lent)) {
        lent_free(LIST_FIRST(&l->lent));
    }
}
