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
    if (snapshot_empty(g) < 0) {
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
    snapshot_unref(g->snap);
    HASH_DEL(g->place->groups, g);
    free(g);
}
