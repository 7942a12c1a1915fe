/* A line takes what waits to its lane in portions: a quick listener costs the loop one visit for
 * many ends, and a slow one gives back what it had no time for. While a portion is on the lane it
 * belongs to the worker; everything else belongs to the loop. */
#include <override/late.h>

#include <base/arena.h>
#include <base/log.h>
#include <base/metric.h>
#include <model/view.h>
#include <override/chain.h>
#include <plugin/answer.h>
#include <stdlib.h>
#include <string.h>

#define END_BYTES_USUAL 2048
#define PORTION_MAX     64u           /* ends */
#define PORTION_NS      (10 * ENV_MS) /* no further end of a portion begins after that */
#define AGAIN_NS        (100 * ENV_MS) /* when no worker could take a portion */
#define RETURN_NS       (1 * ENV_S)    /* for a cancelled call to return */
#define TIME_NS         (FN_LISTENER_TIME_S * ENV_S)
#define DRAIN_NS        (FN_LISTENER_DRAIN_S * ENV_S)

struct late_end {
    TAILQ_ENTRY(late_end) link;
    struct arena arena; /* of the end itself, too */
    struct fn_call call;
    struct fn_call_end end;
    int64_t queued_ns;
    size_t bytes;
};
TAILQ_HEAD(late_ends, late_end);

enum result { TOLD, FAILED, LATE, DROPPED, RESULTS_N };
static const char *const result_names[RESULTS_N] = { "told", "failed", "late", "dropped" };

struct late {
    struct env *env;
    uint32_t refs;       /* chains that have it */
    struct chain *chain; /* of the newest end; counted while anything is held */
    struct plugin *listener;
    const struct fn_listener_ops *ops;
    struct late_ends waiting;
    uint32_t held; /* ends that wait or are in the portion */
    size_t held_bytes;
    struct env_timer timer; /* another try, or the end of patience */
    int64_t again_ns;       /* 0 = none */
    bool retired;
    int64_t retired_ns;

    /* the portion */
    struct env_work work;
    bool running;
    int64_t running_since_ns; /* when its first end came */
    int64_t cancelled_ns;     /* 0 = it was not */
    struct late_ends portion; /* the worker's: what it had no time for is left in it */
    uint32_t results[RESULTS_N];
    uint32_t done;
    size_t done_bytes;
    struct fn_error error; /* of the last one that failed */

    struct metric *ends[RESULTS_N], *waits;
};

/* ---- on the lane ----------------------------------------------------------------------------- */

static enum result late_tell(struct late *l, struct fn_op *op, const struct late_end *e)
{
    struct fn_error err = ERR_INIT;
    int64_t begun_ns = l->env->now_ns(l->env);
    struct plugin_crumb crumb;
    int r;

    plugin_enter(&crumb, l->listener, PLUGIN_WORKER, "after_worker");
    r = l->ops->after_worker(plugin_inst(l->listener), op, &e->call, &e->end, &err);
    plugin_leave(&crumb);
    r = plugin_answer_result(l->listener, "after_worker", r, 0, &err);
    if (r < 0) {
        l->error = err;
    }
    return l->env->now_ns(l->env) - begun_ns > TIME_NS ? LATE : r < 0 ? FAILED : TOLD;
}

static void free_end(struct late_end *e)
{
    struct arena arena = e->arena;

    arena_finish(&arena);
}

static void run_portion(struct env_work *w, struct fn_op *op)
{
    struct late *l = container_of(w, struct late, work);
    int64_t until_ns = l->env->now_ns(l->env) + PORTION_NS;
    struct late_end *e;

    while ((e = TAILQ_FIRST(&l->portion))) {
        l->results[late_tell(l, op, e)]++;
        l->done++;
        l->done_bytes += e->bytes;
        TAILQ_REMOVE(&l->portion, e, link);
        free_end(e);
        if (l->env->now_ns(l->env) > until_ns || __atomic_load_n(&w->cancelled, __ATOMIC_RELAXED)) {
            break;
        }
    }
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static void let_go(struct late *l, uint32_t n, size_t bytes)
{
    l->held -= n;
    l->held_bytes -= bytes;
    metric_add(l->waits, -(int64_t)n);
}

static int64_t due_ns(const struct late *l, int64_t since_ns)
{
    return (since_ns > l->retired_ns ? since_ns : l->retired_ns) + DRAIN_NS;
}

static void drop(struct late *l)
{
    log_stranger(FN_LOG_WARN, "the end of a call is left out: the listener is too slow", "listener",
                 plugin_name(l->listener), "waiting", log_num(l->held));
    metric_add(l->ends[DROPPED], 1);
}

static void drop_due(struct late *l, int64_t now_ns)
{
    struct late_end *e;

    while ((e = TAILQ_FIRST(&l->waiting)) && due_ns(l, e->queued_ns) <= now_ns) {
        drop(l);
        TAILQ_REMOVE(&l->waiting, e, link);
        let_go(l, 1, e->bytes);
        free_end(e);
    }
    if (l->running && !l->cancelled_ns && due_ns(l, l->running_since_ns) <= now_ns) {
        l->cancelled_ns = now_ns;
        env_cancel(l->env, &l->work);
    }
}

/* What the portion still has waits again, as the first. */
static void give_back(struct late *l)
{
    TAILQ_CONCAT(&l->portion, &l->waiting, link);
    TAILQ_CONCAT(&l->waiting, &l->portion, link);
}

static void begin(struct late *l, int64_t now_ns)
{
    struct late_end *e = TAILQ_FIRST(&l->waiting);

    l->running_since_ns = e->queued_ns;
    for (uint32_t i = 0; i < PORTION_MAX && (e = TAILQ_FIRST(&l->waiting)); i++) {
        TAILQ_REMOVE(&l->waiting, e, link);
        TAILQ_INSERT_TAIL(&l->portion, e, link);
    }
    l->cancelled_ns = l->again_ns = 0;
    l->running = env_submit(l->env, &l->work) == 0;
    if (!l->running) {
        give_back(l);
        l->again_ns = now_ns + AGAIN_NS;
    }
}

static void late_arm(struct late *l)
{
    const struct late_end *first = TAILQ_FIRST(&l->waiting);
    int64_t at_ns = first && l->again_ns ? l->again_ns : INT64_MAX;
    int64_t due;

    if (l->retired && first && (due = due_ns(l, first->queued_ns)) < at_ns) {
        at_ns = due;
    }
    if (l->retired && l->running && !l->cancelled_ns &&
        (due = due_ns(l, l->running_since_ns)) < at_ns) {
        at_ns = due;
    }
    if (at_ns == INT64_MAX) {
        env_timer_clear(l->env, &l->timer);
    } else {
        env_timer_set(l->env, &l->timer, at_ns);
    }
}

/* Whatever happened, what follows from it. */
static void look(struct late *l)
{
    int64_t now_ns = env_now_ns(l->env);

    if (l->retired) {
        drop_due(l, now_ns);
    }
    if (!l->running && !TAILQ_EMPTY(&l->waiting) && now_ns >= l->again_ns) {
        begin(l, now_ns);
    }
    late_arm(l);
    if (l->held == 0) {
        chain_set(&l->chain, NULL); /* the generation may go */
    }
}

static void on_timer(struct env_timer *t)
{
    look(container_of(t, struct late, timer));
}

static void on_portion(struct env_work *w)
{
    struct late *l = container_of(w, struct late, work);

    for (uint32_t i = 0; i < RESULTS_N; i++) {
        metric_add(l->ends[i], l->results[i]);
    }
    if (l->results[FAILED] + l->results[LATE] > 0) {
        log_stranger(FN_LOG_WARN, l->results[FAILED] ? "a listener failed" : "a listener was late",
                     "listener", plugin_name(l->listener), "ends",
                     log_num(l->results[FAILED] + l->results[LATE]), "error",
                     l->results[FAILED] ? l->error.msg : NULL);
    }
    memset(l->results, 0, sizeof(l->results));
    let_go(l, l->done, l->done_bytes);
    l->done = 0;
    l->done_bytes = 0;
    l->running = false;
    give_back(l);
    look(l);
}

static struct late_end *copy_end(const struct late *l, const struct fn_call *call,
                                 const struct fn_call_end *end)
{
    struct late_end *e;
    struct arena arena;

    arena_init(&arena, FN_LISTENER_WAITING_BYTES - l->held_bytes);
    e = arena_alloc_owner(&arena, sizeof(*e), END_BYTES_USUAL);
    if (!e) {
        return NULL;
    }
    e->arena = arena;
    e->end = *end;
    e->queued_ns = env_now_ns(l->env);
    if (view_copy(call, &e->arena, &e->call) < 0) {
        free_end(e);
        return NULL;
    }
    e->arena.limit_bytes = 0; /* what is asked of it may take more */
    e->bytes = e->arena.used_bytes;
    return e;
}

void late_add(struct late *l, struct chain *chain, const struct fn_call *call,
              const struct fn_call_end *end)
{
    struct late_end *e = l->held < FN_LISTENER_WAITING_MAX &&
                                 l->held_bytes < FN_LISTENER_WAITING_BYTES
                             ? copy_end(l, call, end)
                             : NULL;

    if (!e) {
        drop(l);
        return;
    }
    chain_set(&l->chain, chain);
    l->held++;
    l->held_bytes += e->bytes;
    metric_add(l->waits, 1);
    TAILQ_INSERT_TAIL(&l->waiting, e, link);
    if (!l->running) {
        look(l);
    }
}

void late_retire(struct late *l)
{
    if (!l->retired) {
        l->retired = true;
        l->retired_ns = env_now_ns(l->env);
        look(l);
    }
}

bool late_is_over(const struct late *l)
{
    if (l->held == 0) {
        return true;
    }
    return TAILQ_EMPTY(&l->waiting) && l->running && l->cancelled_ns &&
           env_now_ns(l->env) - l->cancelled_ns >= RETURN_NS;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void declare(struct late *l)
{
    static const char *const labels[] = { "listener", "result", NULL };
    static const char *const who[] = { "listener", NULL };
    const char *values[] = { plugin_name(l->listener), NULL };

    for (uint32_t i = 0; i < RESULTS_N; i++) {
        values[1] = result_names[i];
        l->ends[i] = metric_of("fn_listener_ends", METRIC_COUNTER,
                               "Ends of calls for listeners on workers, by result.", labels,
                               values);
    }
    l->waits = metric_of("fn_listener_waiting", METRIC_GAUGE,
                         "Ends of calls that wait for a listener on a worker.", who, values);
}

struct late *late_create(struct env *env, struct plugin *listener)
{
    struct late *l = calloc(1, sizeof(*l));

    if (!l) {
        return NULL;
    }
    l->env = env;
    l->refs = 1;
    l->listener = listener;
    l->ops = plugin_ops(listener);
    l->timer.cb = on_timer;
    l->work = (struct env_work){ .run = run_portion,
                                 .done = on_portion,
                                 .lane = ENV_LANE_ENDS,
                                 .timeout_ns = TIME_NS,
                                 .owner = plugin_name(listener) };
    TAILQ_INIT(&l->waiting);
    TAILQ_INIT(&l->portion);
    declare(l);
    return l;
}

struct late *late_share(struct late *l, struct chain *chain)
{
    l->refs++;
    if (l->chain) {
        chain_set(&l->chain, chain);
    }
    return l;
}

static void free_ends(struct late_ends *ends)
{
    struct late_end *e;

    while ((e = TAILQ_FIRST(ends))) {
        TAILQ_REMOVE(ends, e, link);
        free_end(e);
    }
}

void late_unref(struct late *l)
{
    if (l && --l->refs == 0) {
        env_timer_clear(l->env, &l->timer);
        metric_add(l->waits, -(int64_t)l->held);
        free_ends(&l->waiting);
        free_ends(&l->portion);
        free(l);
    }
}
