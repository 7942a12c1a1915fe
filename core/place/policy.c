/* Policies: one placer in use, from the moment it is set until nothing remembers it.
 *
 * Counted by the place while it is the current one, by the snapshots whose index it built, and by
 * the calls that have a session of it. A replaced policy therefore serves the rounds that it began,
 * and its owner hears gone() when the last of them is over. */
#include <place/place_int.h>

#include <stdlib.h>

void policy_discard(struct policy *y)
{
    free(y->homes);
    free(y);
}

static void policy_free(struct policy *y)
{
    if (y->gone) {
        y->gone(y->ud);
    }
    policy_discard(y);
}

static void policy_on_gone(struct env_task *t)
{
    struct policy *y = container_of(t, struct policy, gone_task);

    LIST_REMOVE(y, link_leaving);
    policy_free(y);
}

struct policy *policy_ref(struct policy *y)
{
    y->refs++;
    return y;
}

void policy_unref(struct policy *y)
{
    if (y && --y->refs == 0) {
        LIST_INSERT_HEAD(&y->place->leaving, y, link_leaving);
        y->gone_task.cb = policy_on_gone;
        env_defer(y->place->deps.env, &y->gone_task);
    }
}

const void *policy_index_build(struct policy *y, const struct fn_snapshot *view)
{
    void *index = NULL;
    int r;

    if (!y->ops->index_build) {
        return NULL;
    }
    PLUGIN_ASK(r, y->placer, PLUGIN_LOOP, "index_build", 0, NULL,
               y->ops->index_build(plugin_inst(y->placer), view, &index));
    return r == 0 ? index : NULL;
}

void policy_index_free(struct policy *y, const void *index)
{
    struct plugin_crumb crumb;

    if (index) {
        plugin_enter(&crumb, y->placer, PLUGIN_LOOP, "index_free");
        y->ops->index_free(plugin_inst(y->placer), (void *)(uintptr_t)index);
        plugin_leave(&crumb);
    }
}

void policies_finish(struct place *p)
{
    struct policy *y;

    while ((y = LIST_FIRST(&p->leaving))) {
        env_undefer(p->deps.env, &y->gone_task);
        LIST_REMOVE(y, link_leaving);
        policy_free(y);
    }
}

struct policy *policy_create(struct place *p, struct plugin *placer, void (*gone)(void *ud),
                             void *ud)
{
    struct policy *y = calloc(1, sizeof(*y));

    if (y) {
        *y = (struct policy){ .place = p,
                              .placer = placer,
                              .ops = plugin_ops(placer),
                              .refs = 1,
                              .gone = gone,
                              .ud = ud };
    }
    return y;
}
