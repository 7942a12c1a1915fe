/* The one entry of the room's decisions: an event goes in, what ran out is dropped, hosts and
 * sizes are looked at, actions come out. */
#include <npm/npm_int.h>

/* A process that stood still knows nothing: not who is alive, not what is wanted (F90). */
static void check_stall(struct npm_group *g, int64_t now_ns)
{
    if (now_ns - g->stepped_ns > NPM_STALL_NS) {
        note(g, NPM_NOTE_STALL, NULL, (uint64_t)((now_ns - g->stepped_ns) / 1000000));
        g->listed = false;
        g->settled_ns = now_ns + g->o.settle_ns;
        g->act_down_ns = now_ns + g->o.loss_brake_ns;
        g->low_since_ns = 0;
    }
    g->stepped_ns = now_ns;
}

/* Who hears of which event; nobody of a tick. */
static void (*const heard_by[])(struct npm_group *g, const struct npm_event *e, int64_t now_ns) = {
    [NPM_TICK] = NULL,
    [NPM_DEMAND] = demand_heard,
    [NPM_LISTED ... NPM_REMOVE_FAILED] = cplane_answered,
    [NPM_REPORTED ... NPM_SILENT] = hosts_heard,
    [NPM_DRAIN ... NPM_END] = hosts_operator,
};

static void step_publish(struct npm_group *g, int64_t now_ns)
{
    if (g->published && g->listed && now_ns >= g->settled_ns) {
        g->published = false;
        g->version++;
        act(g, NPM_DO_PUBLISH);
    }
}

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

int64_t npm_step(struct npm_group *g, const struct npm_event *e, int64_t now_ns,
                 struct npm_actions *out)
{
    /* Two steps that wait for a slow poll are no stall. */
    int64_t next_ns = now_ns + earlier(g->o.poll_ns, NPM_STALL_NS / 2);

    out->n = out->dropped = 0;
    g->out = out;
    check_stall(g, now_ns);
    if (heard_by[e->kind]) {
        heard_by[e->kind](g, e, now_ns);
    }
    if (e->kind != NPM_DEMAND) { /* the frequent one; the rest can wait for the next tick */
        demand_expire(g, now_ns);
        cplane_expire(g, now_ns);
        next_ns = earlier(next_ns, hosts_watch(g, now_ns));
    }
    next_ns = earlier(next_ns, scale(g, e->kind != NPM_DEMAND, now_ns));
    next_ns = earlier(next_ns, cplane_next(g, now_ns));
    step_publish(g, now_ns);
    g->out = NULL;
    return next_ns;
}
