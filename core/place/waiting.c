/* Waiting: the parked calls of a group, and how they are woken.
 *
 * A wake names how many parked calls shall be asked again and why; it is done in a deferred task,
 * so that ten thousand of them are never asked from inside the event that woke them. Capacity that
 * several calls free in one turn of the loop is for so many more. When a wake is not for all, those
 * who wait for capacity have their turns (turns.c), then others follow in their order. A call that
 * made ATTEMPTS_PER_S_MAX attempts within a second is passed over: when capacity is freed often
 * and taken by others, waking must not become a storm. Calls that nobody wakes have their own
 * timers. */
#include <place/place_int.h>

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
    if (mask == FN_WAKE_CAPACITY) { /* each end has made room */
        n += g->wakes < g->waiting_n ? g->wakes : g->waiting_n;
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
        if (!g->new_runner) {
            g->new_runner = new_runner_histogram(g->name);
        }
        metric_observe(g->new_runner, (pc->attempt_ns - g->waited_ns) / ENV_MS);
        g->waited_ns = 0;
    }
}

void waiting_init(struct place_group *g)
{
    TAILQ_INIT(&g->waiting);
    TAILQ_INIT(&g->turns);
    g->wake_task.cb = on_wake_task;
}

void waiting_finish(struct place_group *g)
{
    env_undefer(g->place->deps.env, &g->wake_task);
}
