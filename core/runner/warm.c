/* Warm pool: started containers that are kept for calls to come.
 *
 * A function has a number of containers that it should have, those that run calls included. A
 * predictor says how many, or warm_rule(): once a second it is told what came. Two things follow
 * from the number: containers that would go for want of calls stay while there are no more than
 * that, and missing ones are started. A container that is there for the pool alone is warm:
 *
 *   launched for it, or kept beyond its idle timeout ──▶ warm ──▶ taken by a call: as any other
 *                                                         ├────▶ adopted by a call while it starts
 *                                                         ├────▶ evicted, before any other
 *                                                         └────▶ expired: the number went down
 *
 * What calls need goes first: warm containers are the first to be evicted, also while they start;
 * they take free memory only, and no more than their share of it; they start while no call's
 * container does, WARM_STARTS_MAX at a time, on lane threads and through a gate of their own. What
 * failed to start is tried again after a while that doubles. */
#include <runner/runner_int.h>

#include <stdlib.h>
#include <string.h>

#define ASK_NS         ENV_S
#define ASK_BATCH      256u /* functions asked about in one turn of the loop */
#define BACKOFF_MIN_NS ENV_S
#define BACKOFF_MAX_NS (300 * ENV_S)

static const struct fn_predictor_ops *ops_of(const struct runner *r)
{
    return r->deps.predictor ? plugin_ops(r->deps.predictor) : NULL;
}

int runner_check_predictor(const struct plugin *predictor, struct fn_error *reterr)
{
    const struct fn_predictor_ops *ops = predictor ? plugin_ops(predictor) : NULL;

    if (ops && !ops->containers) {
        return err_set(reterr, FN_E_INVALID,
                       "plugins.warm, got \"%.64s\", which has no containers(); expected one "
                       "that says how many containers of a function to keep",
                       plugin_name(predictor));
    }
    return 0;
}

/* ---- books --------------------------------------------------------------------------------- */

static void warm_on(struct container *c)
{
    struct warm *w = &c->r->warm;

    c->warm = true;
    w->held_bytes += c->need.mem_bytes;
    w->counts.now++;
    metric_add(w->metrics.now, 1);
}

void warm_lost(struct container *c)
{
    struct warm *w = &c->r->warm;

    if (c->state <= CTR_INIT) {
        slots_spare(c, false);
        c->q->warm->starting--;
        w->starting--;
        env_defer(c->r->env, &w->task);
    }
    c->warm = false;
    w->held_bytes -= c->need.mem_bytes;
    w->counts.now--;
    metric_add(w->metrics.now, -1);
}

static void warm_count(uint64_t *n, struct metric *m)
{
    (*n)++;
    metric_add(m, 1);
}

static bool has_share(const struct runner *r, const struct account_need *need)
{
    uint64_t most = r->account.totals.mem_bytes * r->opt.warm_memory_percent / 100;

    return r->warm.held_bytes + need->mem_bytes <= most;
}

/* ---- of containers ------------------------------------------------------------------------- */

void warm_begins(struct container *c)
{
    warm_on(c);
    c->q->warm->starting++;
    c->r->warm.starting++;
}

void warm_started(struct container *c)
{
    struct warm_queue *wq = c->q->warm;
    struct warm *w = &c->r->warm;

    if (!wq) {
        return;
    }
    wq->start_ns = c->ready_ns - c->launched_ns;
    if (c->for_call) {
        wq->missed++;
        warm_count(&w->counts.misses, w->metrics.misses);
    }
    if (c->warm) {
        slots_spare(c, false);
        wq->starting--;
        w->starting--;
        wq->backoff_ns = 0;
        warm_count(&w->counts.started, w->metrics.started);
        env_defer(c->r->env, &w->task);
    }
}

void warm_failed(struct container *c)
{
    struct warm_queue *wq = c->q->warm;
    struct warm *w = &c->r->warm;

    wq->backoff_ns = wq->backoff_ns ? wq->backoff_ns * 2 : BACKOFF_MIN_NS;
    if (wq->backoff_ns > BACKOFF_MAX_NS) {
        wq->backoff_ns = BACKOFF_MAX_NS;
    }
    wq->not_before_ns = env_now_ns(c->r->env) + wq->backoff_ns;
    warm_count(&w->counts.failed, w->metrics.failed);
    container_close(c);
}

bool warm_keep(struct container *c)
{
    if (c->warm) {
        return true;
    }
    if (!warm_wants(c->q) || !has_share(c->r, &c->need)) {
        return false;
    }
    warm_on(c);
    slots_evict_first(c);
    return true;
}

void warm_hit(struct container *c)
{
    struct warm *w = &c->r->warm;

    c->q->warm->hits++;
    warm_count(&w->counts.hits, w->metrics.hits);
    warm_lost(c);
}

void warm_evicted(struct container *c)
{
    warm_count(&c->r->warm.counts.evicted, c->r->warm.metrics.evicted);
}

/* ---- of functions -------------------------------------------------------------------------- */

bool warm_wants(const struct slot_queue *q)
{
    return q->warm && q->n_containers <= q->warm->keep && q->warm->keep > 0 && !q->r->draining;
}

uint32_t warm_starting(const struct slot_queue *q)
{
    return q->warm ? q->warm->starting : 0;
}

static struct warm_queue *warm_create(struct slot_queue *q)
{
    struct runner *r = q->r;
    const struct fn_predictor_ops *ops = ops_of(r);
    size_t size = ops ? ops->state_size : sizeof(struct warm_rule);
    struct warm_queue *wq = calloc(1, sizeof(*wq));

    if (!wq || !(wq->state = calloc(1, size + 1))) {
        free(wq);
        return NULL;
    }
    wq->q = q;
    arena_init(&wq->arena, 0);
    q->warm = wq;
    TAILQ_INSERT_TAIL(&r->warm.queues, wq, link);
    if (!env_timer_is_set(&r->warm.timer)) {
        env_timer_set(r->env, &r->warm.timer, env_now_ns(r->env) + ASK_NS);
    }
    return wq;
}

static void set_lacking(struct warm_queue *wq, bool on)
{
    struct warm *w = &wq->q->r->warm;

    if (on && !wq->lacking) {
        TAILQ_INSERT_TAIL(&w->lacking, wq, lacking_link);
    } else if (!on && wq->lacking) {
        TAILQ_REMOVE(&w->lacking, wq, lacking_link);
    }
    wq->lacking = on;
}

void warm_forget(struct slot_queue *q)
{
    struct warm_queue *wq = q->warm;

    if (wq) {
        q->warm = NULL;
        set_lacking(wq, false);
        TAILQ_REMOVE(&q->r->warm.queues, wq, link);
        arena_finish(&wq->arena);
        free(wq->state);
        free(wq);
    }
}

void warm_remember(struct slot_queue *q, const struct rcall *rc)
{
    struct warm_queue *wq = q->warm;
    const struct mould mould = mould_of_call(rc);
    struct arena arena;
    struct mould copy;

    arena_init(&arena, 0);
    if (mould_copy(&copy, &mould, &arena) == 0) {
        arena_finish(&wq->arena);
        wq->arena = arena;
        wq->mould = copy;
        wq->has_mould = true;
    } else {
        arena_finish(&arena); /* the one before does as well */
    }
}

void warm_arrived(struct slot_queue *q, const struct rcall *rc)
{
    struct warm_queue *wq = q->warm ? q->warm : warm_create(q);
    uint32_t running = q->n_containers - q->n_starting - q->n_idle + q->n_waiters + 1;

    if (!wq) {
        return;
    }
    if (!wq->has_mould) {
        warm_remember(q, rc);
    }
    wq->running_max = running > wq->running_max ? running : wq->running_max;
    wq->calls++;
    wq->called_ns = env_now_ns(q->r->env);
}

void warm_adopt(struct slot_queue *q)
{
    struct container *c;
    struct rcall *rc;

    if (warm_starting(q) == 0) {
        return;
    }
    TAILQ_FOREACH(c, &q->containers, link) {
        rc = slots_waiter(q, q->n_starting - warm_starting(q));
        if (!rc || warm_starting(q) == 0) {
            return;
        }
        if (c->warm && c->state <= CTR_INIT) {
            warm_lost(c);
            c->for_call = rc;
            rc->own_launch = true;
            engine_hasten(c);
        }
    }
}

/* ---- how many ------------------------------------------------------------------------------ */

static struct fn_traffic traffic_of(const struct warm_queue *wq, int64_t now)
{
    const struct slot_queue *q = wq->q;

    return (struct fn_traffic){
        .size = sizeof(struct fn_traffic),
        .containers = q->n_containers - q->n_starting,
        .starting = q->n_starting,
        .kept = wq->keep,
        .kept_max = q->r->opt.warm_max,
        .running_max = wq->running_max,
        .now_ns = now,
        .interval_ns = wq->asked_ns ? now - wq->asked_ns : 0,
        .idle_ns = now - wq->called_ns,
        .start_ns = wq->start_ns,
        .calls = wq->calls,
        .missed = wq->missed,
        .hits = wq->hits,
        .mem_mb = q->need.mem_bytes / ACCOUNT_MIB,
        .app_id = q->app_id,
        .fn_id = q->fn_id,
        .image = q->image,
    };
}

/* The number that a plugin gives; the one before when it fails. */
static uint32_t ask_plugin(struct runner *r, void *state, const struct fn_traffic *d)
{
    struct plugin *p = r->deps.predictor;
    uint32_t n = d->kept;
    int result;

    PLUGIN_ASK(result, p, PLUGIN_LOOP, "containers", 0, NULL,
               ops_of(r)->containers(plugin_inst(p), state, d, &n));
    return result < 0 ? d->kept : n;
}

/* Warm ones beyond the number, those that were used longest ago first. */
static void expire(struct warm_queue *wq)
{
    struct slot_queue *q = wq->q;
    struct container *c, *before;

    for (c = TAILQ_LAST(&q->idle, container_list); c && q->n_containers > wq->keep; c = before) {
        before = TAILQ_PREV(c, container_list, idle_link);
        if (c->warm) {
            warm_count(&q->r->warm.counts.expired, q->r->warm.metrics.expired);
            container_close(c);
        }
    }
}

static bool lacks(const struct warm_queue *wq)
{
    return wq->keep > wq->q->n_containers;
}

/* wq may be gone afterwards. */
static void ask(struct warm_queue *wq, int64_t now)
{
    struct runner *r = wq->q->r;
    struct fn_traffic d = traffic_of(wq, now);
    uint32_t n;

    n = ops_of(r) ? ask_plugin(r, wq->state, &d)
                  : warm_rule((struct warm_rule *)(void *)wq->state, &d, r->opt.warm_hold_ns);
    wq->keep = n < d.kept_max ? n : d.kept_max;
    wq->asked_ns = now;
    wq->running_max = 0;
    wq->calls = wq->missed = wq->hits = 0;
    expire(wq);
    set_lacking(wq, lacks(wq));
    slots_maybe_destroy(wq->q);
}

static void warm_tick(struct env_timer *t)
{
    struct warm *w = container_of(t, struct warm, timer);
    struct runner *r = container_of(w, struct runner, warm);
    int64_t now = env_now_ns(r->env);
    struct warm_queue *wq;

    for (uint32_t n = ASK_BATCH; n > 0 && (wq = TAILQ_FIRST(&w->queues)); n--) {
        if (wq->asked_ns == now) {
            break; /* all of them */
        }
        TAILQ_REMOVE(&w->queues, wq, link);
        TAILQ_INSERT_TAIL(&w->queues, wq, link);
        ask(wq, now);
    }
    if (!TAILQ_EMPTY(&w->queues)) {
        env_timer_set(r->env, t, now + ASK_NS);
    }
    env_defer(r->env, &w->task);
}

/* ---- starts -------------------------------------------------------------------------------- */

/* No call's start runs or waits, and nothing else is wrong. */
static bool may_start(const struct runner *r)
{
    const struct engine *e = &r->engine;

    return r->warm.starting < WARM_STARTS_MAX && !r->draining && e->state == ENGINE_UP &&
           e->starts.held == 0 && TAILQ_EMPTY(&e->starts.turns) &&
           TAILQ_EMPTY(&r->reserving_list) && TAILQ_EMPTY(&r->starving);
}

static bool has_room(const struct runner *r, const struct account_need *need)
{
    const struct account_need none = { 0, 0 };
    struct account_need missing = account_missing(&r->account, need, &r->reserving, &none);

    return account_is_zero(&missing) && has_share(r, need);
}

static bool may_launch(const struct warm_queue *wq)
{
    const struct runner *r = wq->q->r;

    return wq->has_mould && env_now_ns(r->env) >= wq->not_before_ns && !wq->q->hung_until_ns &&
           has_room(r, &wq->q->need);
}

/* Each function in turn; those that lack something still are found by the next tick. */
static void start_some(struct env_task *t)
{
    struct warm *w = container_of(t, struct warm, task);
    struct runner *r = container_of(w, struct runner, warm);
    struct warm_queue *wq;

    while (may_start(r) && (wq = TAILQ_FIRST(&w->lacking))) {
        set_lacking(wq, false);
        if (lacks(wq) && may_launch(wq) && container_launch_warm(wq->q, &wq->mould)) {
            set_lacking(wq, lacks(wq));
        }
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

void warm_init(struct runner *r)
{
    TAILQ_INIT(&r->warm.queues);
    TAILQ_INIT(&r->warm.lacking);
    r->warm.timer.cb = warm_tick;
    r->warm.task.cb = start_some;
    metrics_warm(&r->warm.metrics);
}

static void expire_all(struct runner *r)
{
    struct container *c, *next;

    HASH_ITER(hh, r->containers, c, next) {
        if (c->warm) {
            warm_count(&r->warm.counts.expired, r->warm.metrics.expired);
            container_close(c);
        }
    }
}

void warm_set_options(struct runner *r)
{
    struct warm_queue *wq;

    if (r->opt.warm_max > 0) {
        return; /* the next tick sees to it */
    }
    expire_all(r);
    while ((wq = TAILQ_FIRST(&r->warm.queues))) {
        struct slot_queue *q = wq->q;

        warm_forget(q);
        slots_maybe_destroy(q);
    }
    warm_stop(r);
}

void warm_stop(struct runner *r)
{
    env_timer_clear(r->env, &r->warm.timer);
    env_undefer(r->env, &r->warm.task);
}
