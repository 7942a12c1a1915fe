/* Groups: the runners and the waiting calls that share a name, and how waiting calls are woken.
 *
 * A wake names how many parked calls shall be asked again and why; they are taken from the head of
 * the queue in a deferred task, so that ten thousand of them are never asked from inside the event
 * that woke them. A call that made ATTEMPTS_PER_S_MAX attempts within a second is passed over: when
 * capacity is freed often and taken by others, waking must not become a storm. Calls that nobody
 * wakes have their own timers. */
#include <place/place_int.h>

#include <stdlib.h>
#include <string.h>

#define WANT_INTERVAL_NS   (1 * ENV_S)
#define ATTEMPTS_PER_S_MAX 10u

static bool may_wake(const struct place_call *pc, uint32_t mask, int64_t now_ns)
{
    return pc->parked && (pc->wake_mask & mask) &&
           (pc->window_attempts < ATTEMPTS_PER_S_MAX || now_ns - pc->window_ns >= ENV_S);
}

static void on_wake_task(struct env_task *t)
{
    struct place_group *g = container_of(t, struct place_group, wake_task);
    int64_t now_ns = env_now_ns(g->place->deps.env);
    struct place_call *pc;
    uint32_t mask = g->wake_mask;
    uint32_t n = g->wakes;

    g->wakes = 0;
    g->wake_mask = 0;
    for (pc = TAILQ_FIRST(&g->waiting); pc && n > 0; pc = TAILQ_NEXT(pc, link_waiting)) {
        if (may_wake(pc, mask, now_ns)) {
            n--;
            pc->why = FN_WHY_WAKE;
            env_timer_set(g->place->deps.env, &pc->timer, 0);
        }
    }
}

void group_wake(struct place_group *g, uint32_t n, uint32_t mask)
{
    if (g->waiting_n == 0) {
        return;
    }
    g->wakes = n > g->wakes ? n : g->wakes;
    g->wake_mask |= mask;
    env_defer(g->place->deps.env, &g->wake_task);
}

/* ---- how long new runners take --------------------------------------------------------------- */

static struct metric *new_runner_histogram(const char *group)
{
    static const char *const labels[] = { "group", NULL };
    static const double bounds_ms[] = { 500,   1000,  2000,  3000,   5000,   10000,
                                        20000, 30000, 60000, 120000, 300000, 600000 };
    static const struct metric_def def = {
        .name = "fn_lb_new_runner_latency",
        .help = "Milliseconds from the first waiting call to the first placement on a runner that "
                "was listed since.",
        .kind = METRIC_HISTOGRAM,
        .labels = labels,
        .bounds = bounds_ms,
        .n_bounds = sizeof(bounds_ms) / sizeof(bounds_ms[0]),
    };

    return metric_series(metric_declare(&def), &group);
}

void group_queue(struct place_group *g, struct place_call *pc)
{
    if (TAILQ_EMPTY(&g->waiting)) {
        g->waited_ns = env_now_ns(g->place->deps.env);
    }
    TAILQ_INSERT_TAIL(&g->waiting, pc, link_waiting);
}

void group_unqueue(struct place_group *g, struct place_call *pc)
{
    TAILQ_REMOVE(&g->waiting, pc, link_waiting);
    if (TAILQ_EMPTY(&g->waiting)) {
        g->waited_ns = 0;
    }
}

void group_placed(struct place_group *g, const struct place_call *pc)
{
    if (g->waited_ns != 0 && pc->runner->since_ns > g->waited_ns) {
        metric_observe(g->new_runner, (pc->attempt_ns - g->waited_ns) / ENV_MS);
        g->waited_ns = 0;
    }
}

/* ---- demand ---------------------------------------------------------------------------------- */

static void on_want(struct env_timer *t)
{
    struct place_group *g = container_of(t, struct place_group, want_timer);
    struct place *p = g->place;
    struct fn_demand demand = { sizeof(demand), 0, g->mem_mb, g->waiting_n, g->trying_n };
    struct plugin_crumb crumb;

    plugin_enter(&crumb, p->source->pool, PLUGIN_LOOP, "want");
    p->source->ops->want(plugin_inst(p->source->pool), g->name, &demand);
    plugin_leave(&crumb);
    env_timer_set(p->deps.env, t, env_now_ns(p->deps.env) + WANT_INTERVAL_NS);
}

struct place_group *group_get(struct place *p, const char *name)
{
    struct place_group *g;

    HASH_FIND_STR(p->groups, name, g);
    if (g) {
        return g;
    }
    if (HASH_COUNT(p->groups) >= PLACE_GROUPS_MAX || strlen(name) > FN_GROUP_NAME_MAX) {
        return NULL;
    }
    g = calloc(1, sizeof(*g));
    if (!g) {
        return NULL;
    }
    memcpy(g->name, name, strlen(name));
    g->place = p;
    TAILQ_INIT(&g->waiting);
    g->wake_task.cb = on_wake_task;
    g->want_timer.cb = on_want;
    g->new_runner = new_runner_histogram(g->name);
    if (listing_clear(g) < 0) {
        free(g);
        return NULL;
    }
    HASH_ADD_STR(p->groups, name, g);
    if (p->source && p->source->ops->want && !p->stopping) {
        env_timer_set(p->deps.env, &g->want_timer, env_now_ns(p->deps.env));
    }
    return g;
}

void group_destroy(struct place_group *g)
{
    env_undefer(g->place->deps.env, &g->wake_task);
    env_timer_clear(g->place->deps.env, &g->want_timer);
    listing_forget(g);
    snapshot_unref(g->snap);
    listings_finish(g->place);
    HASH_DEL(g->place->groups, g);
    free(g);
}
