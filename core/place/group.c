/* Groups: the runners and the waiting calls that share a name, and how waiting calls are woken.
 *
 * A wake names how many parked calls shall be asked again and why; it is done in a deferred task,
 * so that ten thousand of them are never asked from inside the event that woke them. When it is not
 * for all, those who wait for capacity have their turns (turns.c), then others follow in their
 * order. A call that made ATTEMPTS_PER_S_MAX attempts within a second is passed over: when capacity
 * is freed often and taken by others, waking must not become a storm. Calls that nobody wakes have
 * their own timers.
 *
 * Groups are made by the calls and lists that name them. One that has neither for some seconds is
 * given up when its place is wanted. */
#include <place/place_int.h>

#include <base/hash.h>
#include <stdlib.h>
#include <string.h>

#define WANT_INTERVAL_NS   (1 * ENV_S)
#define ATTEMPTS_PER_S_MAX 10u
#define OTHERS_MAX         16u /* that a wake looks at though it is not for them */

static bool has_tried_enough(const struct place_call *pc, int64_t now_ns)
{
    return pc->window_attempts >= ATTEMPTS_PER_S_MAX && now_ns - pc->window_ns < ENV_S;
}

static void wake(struct place_call *pc)
{
    turns_remove(pc);
    pc->why = FN_WHY_WAKE;
    env_timer_set(pc->place->deps.env, &pc->timer, 0);
}

/* Its turn is over without a question: it has one again when it is parked the next time, in a
 * second at the latest. */
static void pass_over(struct place_call *pc)
{
    int64_t at_ns = pc->window_ns + ENV_S;

    if (pc->timer.at_ns > at_ns) {
        env_timer_set(pc->place->deps.env, &pc->timer, at_ns);
    }
}

/* Up to n of those who wait for capacity; how many it were. A call that this is not for keeps its
 * place: its placer asked for something else. */
static uint32_t wake_in_turns(struct place_group *g, uint32_t n, uint32_t mask, int64_t now_ns)
{
    struct place_call *others[OTHERS_MAX];
    uint32_t woken = 0, others_n = 0;
    struct place_call *pc;

    while (woken < n && others_n < OTHERS_MAX && (pc = turns_next(g))) {
        if (!(pc->wake_mask & mask)) {
            others[others_n++] = pc;
        } else if (has_tried_enough(pc, now_ns)) {
            pass_over(pc);
        } else {
            wake(pc);
            woken++;
        }
    }
    while (others_n > 0) {
        turns_add(others[--others_n]);
    }
    return woken;
}

static void wake_in_order(struct place_group *g, uint32_t n, uint32_t mask, int64_t now_ns)
{
    struct place_call *pc;

    for (pc = TAILQ_FIRST(&g->waiting); pc && n > 0; pc = TAILQ_NEXT(pc, link_waiting)) {
        if (pc->parked && pc->why != FN_WHY_WAKE && (pc->wake_mask & mask) &&
            !has_tried_enough(pc, now_ns)) {
            wake(pc);
            n--;
        }
    }
}

static void on_wake_task(struct env_task *t)
{
    struct place_group *g = container_of(t, struct place_group, wake_task);
    int64_t now_ns = env_now_ns(g->place->deps.env);
    uint32_t mask = g->wake_mask;
    uint32_t n = g->wakes;

    g->wakes = 0;
    g->wake_mask = 0;
    if (n < g->waiting_n || mask == FN_WAKE_CAPACITY) {
        n -= wake_in_turns(g, n, mask, now_ns);
    }
    if (mask != FN_WAKE_CAPACITY) { /* else all who want it have had their turn */
        wake_in_order(g, n, mask, now_ns);
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

int group_queue(struct place_group *g, struct place_call *pc)
{
    if (turns_join(pc) < 0) {
        return FN_E_EXHAUSTED;
    }
    if (TAILQ_EMPTY(&g->waiting)) {
        g->waited_ns = env_now_ns(g->place->deps.env);
    }
    TAILQ_INSERT_TAIL(&g->waiting, pc, link_waiting);
    return 0;
}

void group_unqueue(struct place_group *g, struct place_call *pc)
{
    TAILQ_REMOVE(&g->waiting, pc, link_waiting);
    turns_leave(pc);
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

    g->calls++; /* it must not go for a list that the pool publishes meanwhile */
    plugin_enter(&crumb, p->source->pool, PLUGIN_LOOP, "want");
    p->source->ops->want(plugin_inst(p->source->pool), g->name, &demand);
    plugin_leave(&crumb);
    g->calls--;
    env_timer_set(p->deps.env, t, env_now_ns(p->deps.env) + WANT_INTERVAL_NS);
}

/* ---- which exist ----------------------------------------------------------------------------- */

void group_destroy(struct place_group *g)
{
    env_undefer(g->place->deps.env, &g->wake_task);
    env_timer_clear(g->place->deps.env, &g->want_timer);
    listing_forget(g);
    g->place->epochs += g->snap->view.epoch + 1; /* of all that went: never one twice */
    snapshot_unref(g->snap);
    if (g->listings_n > 0) {
        listings_finish(g->place);
    }
    HASH_DEL(g->place->groups, g);
    free(g);
}

static bool is_empty(const struct place_group *g)
{
    return g->snap->view.n == 0 && !g->binding;
}

/* Nobody would miss it: it comes back with the next call or list. The pool has been told since that
 * nobody wants anything there. */
static bool is_idle(const struct place_group *g, int64_t now_ns)
{
    return is_empty(g) && g->calls == 0 && !g->runners && g->listings_n == 1 &&
           g->snap->refs == 1 && g != g->place->fallback &&
           now_ns - g->used_ns > 2 * WANT_INTERVAL_NS;
}

struct census {
    uint32_t empty, empty_of_app;
    struct place_group *idle;        /* the one that was used longest ago; NULL = none */
    struct place_group *idle_of_app; /* the same among the app's */
};

static struct census count_groups(const struct place *p, uint64_t app)
{
    int64_t now_ns = env_now_ns(p->deps.env);
    struct census c = { 0 };
    struct place_group *g;

    for (g = p->groups; g; g = g->hh.next) {
        bool idle = is_idle(g, now_ns);
        bool of_app = app != 0 && g->app == app;

        if (is_empty(g)) {
            c.empty++;
            c.empty_of_app += of_app;
        }
        if (idle && (!c.idle || g->used_ns < c.idle->used_ns)) {
            c.idle = g;
        }
        if (idle && of_app && (!c.idle_of_app || g->used_ns < c.idle_of_app->used_ns)) {
            c.idle_of_app = g;
        }
    }
    return c;
}

/* Room for one more, of a list (app 0, why NULL) or of a call; an idle one goes for it. */
static bool make_room(struct place *p, uint64_t app, bool of_call, const char **ret_why)
{
    struct census c = count_groups(p, app);
    struct place_group *goes = c.idle;

    if (of_call && app != 0 && c.empty_of_app >= PLACE_EMPTY_APP_MAX) {
        *ret_why = "LB301 no runner: the call's group is new, and too many groups without runners "
                   "are in use by calls of this app";
        goes = c.idle_of_app;
    } else if (of_call && c.empty >= PLACE_EMPTY_MAX) {
        *ret_why = "LB301 no runner: the call's group is new, and too many groups without runners "
                   "are in use";
    } else if (HASH_COUNT(p->groups) >= PLACE_GROUPS_MAX) {
        *ret_why = "LB301 no runner: the call's group is new, and too many groups are in use";
    } else {
        return true;
    }
    if (goes) {
        group_destroy(goes);
    }
    return goes != NULL;
}

static struct place_group *group_create(struct place *p, const char *name, uint64_t app)
{
    struct place_group *g = calloc(1, sizeof(*g));

    if (!g) {
        return NULL;
    }
    memcpy(g->name, name, strlen(name));
    g->place = p;
    g->app = app;
    g->used_ns = env_now_ns(p->deps.env);
    TAILQ_INIT(&g->waiting);
    TAILQ_INIT(&g->turns);
    g->wake_task.cb = on_wake_task;
    g->want_timer.cb = on_want;
    HASH_ADD_STR(p->groups, name, g);
    if (!table_has(g)) {
        free(g);
        return NULL;
    }
    g->new_runner = new_runner_histogram(g->name);
    if (listing_clear(g) < 0) {
        HASH_DEL(p->groups, g);
        free(g);
        return NULL;
    }
    if (p->source && p->source->ops->want && !p->stopping) {
        env_timer_set(p->deps.env, &g->want_timer, env_now_ns(p->deps.env));
    }
    return g;
}

static struct place_group *get(struct place *p, const char *name, uint64_t app, bool of_call,
                               const char **ret_why)
{
    struct place_group *g;

    HASH_FIND_STR(p->groups, name, g);
    if (g) {
        return g;
    }
    if (strlen(name) > FN_GROUP_NAME_MAX) {
        *ret_why = "LB301 no runner: the name of the call's group is too long";
        return NULL;
    }
    if (!make_room(p, app, of_call, ret_why)) {
        return NULL;
    }
    g = group_create(p, name, app);
    if (!g) {
        *ret_why = "LB301 no runner: out of memory for the call's group";
    }
    return g;
}

struct place_group *group_get(struct place *p, const char *name)
{
    const char *ignored;

    return get(p, name, 0, false, &ignored);
}

struct place_group *group_for(struct place *p, const char *name, const char *app_id,
                              const char **ret_why)
{
    return get(p, name, app_id ? hash_text(HASH_INIT, app_id) : 0, true, ret_why);
}
